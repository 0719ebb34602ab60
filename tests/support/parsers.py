"""Every parser that meets bytes from outside: valid seeds, and what may come of any others.

`tests/test_fuzz.py` feeds them for a moment, `scripts/fuzz.py` for as long as you like. A parser
returns, or raises the errors it is documented to; anything else is a bug.
"""

from __future__ import annotations

import gzip
import io
import pickle
import random
import shutil
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from archives import COMPRESS, found, tar_bytes, zip_bytes
from inline import ENGINE, pack, serialized
from pictures import encode, jpeg, picture, png, write_tree

import imgrec
from imgrec.codec import example, exif, idx, json_files, tfrecord
from imgrec.codec.cifar_pickle import loads
from imgrec.codec.decode import thumbnail
from imgrec.codec.image import prepare
from imgrec.codec.look import look
from imgrec.codec.sniff import describe, format_of, sniff
from imgrec.codec.tfrecord import Decompressed, compressor
from imgrec.errors import BadImage, CorruptRecord, DatasetError, ImgrecError, SourceError
from imgrec.model import Samples, ShardTask
from imgrec.options import Check, ShrinkOptions
from imgrec.source.image_pass import read_split_file
from imgrec.source.tables import read_table
from imgrec.storage.blobs import read_blob

Feed = Callable[[bytes], object]


@dataclass(frozen=True, slots=True, kw_only=True)
class Parser:
    """Something that reads bytes of strangers."""

    seeds: Sequence[bytes]
    feed: Feed
    errors: tuple[type[ImgrecError], ...]

    def try_on(self, data: bytes) -> None:
        """Feed it; whatever it is not documented to raise passes through."""
        with suppress(*self.errors), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.feed(data)


# Images


@cache
def images() -> list[bytes]:
    jpegs = [
        jpeg(1), jpeg(2, mode="L"), jpeg(3, mode="CMYK"), jpeg(4, progressive=True),
        jpeg(5, exif=oriented()), jpeg(6, (17, 9), subsampling=2, restart_marker_rows=1),
    ]  # fmt: skip
    pngs = [png(7, mode=mode) for mode in ("RGB", "RGBA", "L", "LA", "P", "1", "I;16")]
    pngs.append(png(8, exif=oriented()))
    others = ["GIF", "WEBP", "BMP", "TIFF", "ICO", "PCX", "PPM", "TGA", "JPEG2000", "AVIF", "DDS"]
    rest = []
    for name in others:
        with suppress(KeyError, OSError):  # a Pillow without it
            rest.append(encode(picture(9), name))
    return [*jpegs, *pngs, *rest, encode(picture(1, "P"), "BMP"), encode(picture(1, "1"), "BMP")]


def oriented() -> bytes:
    from PIL import Image

    data = Image.Exif()
    data[0x0112] = 6
    return data.tobytes()


def sniffed(data: bytes) -> None:
    sniff(data[:64])
    format_of(data[:64], "x.jpg")
    describe(data[:64])


def checked(check: Check, data: bytes) -> None:
    image = prepare(data, "x.jpg", check)
    assert len(image.shape) == 3


def shrunk(data: bytes) -> None:
    height, width, _ = prepare(data, "x", Check.DECODE, ShrinkOptions(short_side=8)).shape
    assert min(height, width) <= 8


def turned(data: bytes) -> None:
    assert 1 <= exif.orientation(data) <= 8


def drawn_small(data: bytes) -> None:
    assert max(thumbnail(data, "x.jpg", 16).size) <= 16


# Records


def examples() -> list[bytes]:
    features: dict[str, example.Feature] = {
        "filename": (b"rose/1.jpg",), "image": (b"\xff\xd8 some image",), "label": (3,),
        "shape": (4, 5, 3), "age": (1.5, -2.0), "labels": (1, 2, 2**63 - 1, -1), "empty": (),
    }  # fmt: skip
    plain = {key: features[key] for key in ("filename", "image", "label", "shape")}
    return [serialized(features), serialized(plain)]


def parsed_example(data: bytes) -> None:
    example.decode_plain(data, 0, len(data))
    with suppress(CorruptRecord):
        example.decode_bounded(data)
    example.decode(data)


def shards() -> list[bytes]:
    framed = b""
    for payload in (*examples(), b"", b"x" * 300):
        head, foot = tfrecord.frame(payload)
        framed += head + payload + foot
    return [framed, framed[: len(framed) // 2]]


def read_shard(data: bytes) -> None:
    for reader in (tfrecord.read_records, tfrecord.record_ends):
        with suppress(CorruptRecord):
            list(reader(io.BytesIO(data), path="x"))
    list(tfrecord.frames(io.BytesIO(data).read, None, path="x"))


def compressed_shards() -> list[bytes]:
    streams = []
    for kind in ("gzip", "zlib"):
        stream = compressor(kind)
        streams.append(stream.compress(shards()[0]) + stream.flush())
    return streams


def read_compressed(data: bytes) -> None:
    for kind in ("zlib", "gzip"):
        stream = Decompressed(io.BytesIO(data), kind)
        list(tfrecord.frames(stream.read, None, path="x"))


# Notes of a run


TASK = ShardTask(
    split="train", index=0, filename="x", expected_bytes=9,
    samples=Samples(blobs=("a", "b"), filenames=("a", "b"), sizes=(3, 4), labels=(0, 1),),
)  # fmt: skip


@cache
def notes(folder: Path) -> list[bytes]:
    """What a run that is cut off leaves of its shards."""

    def cut(stage: str, _count: int, _total: int | None) -> None:
        if stage == "pack":
            raise KeyboardInterrupt

    source = write_tree(folder / "noted", {"a/1.jpg": jpeg(1), "a/2.jpg": jpeg(2)})
    options = imgrec.PackOptions(data_dir=str(folder / "notes"), shards=2)
    with suppress(KeyboardInterrupt):
        imgrec.pack(source, options, engine=ENGINE, on_progress=cut)
    found = sorted((folder / "notes").rglob(".notes/*"))
    return [path.read_bytes() for path in found] or [b"{}"]


# Sources


def idx_files() -> Mapping[str, bytes]:
    pixels = idx.encode_header(3, 4, 5) + bytes(range(60))
    labels = idx.encode_header(3) + bytes([0, 1, 2])
    return {"train-images-idx3-ubyte": pixels, "train-labels-idx1-ubyte": labels}


def parsed_idx(folder: Path, data: bytes) -> None:
    for name in idx_files():
        files = {**idx_files(), name: data}
        with suppress(SourceError):
            found_in(folder, "idx", files)


def cifar_pickles() -> list[bytes]:
    batch = {"data": bytes(range(256)), "labels": [1, 2, 3], "names": ["a", "b"], b"x": 1.5}
    return [pickle.dumps(batch, protocol) for protocol in range(6)]


def cifar_binary(folder: Path, data: bytes) -> None:
    names = [*(f"data_batch_{n}.bin" for n in range(1, 6)), "test_batch.bin"]
    row = bytes([1]) + bytes(3072)
    files = dict.fromkeys(names, row)
    found_in(folder, "cifar", {**files, "batches.meta.txt": b"a\nb\n", "test_batch.bin": data})


def found_in(folder: Path, kind: str, files: Mapping[str, bytes]) -> None:
    source = write_tree(fresh(folder / kind), dict(files))
    options = imgrec.PackOptions(source=imgrec.SourceOptions(kind=kind))
    imgrec.plan(source, options, engine=ENGINE)


def fresh(folder: Path) -> Path:
    shutil.rmtree(folder, ignore_errors=True)
    return folder


def parsed_archive(folder: Path, data: bytes) -> None:
    path = folder / "a.zip"
    path.write_bytes(data)
    try:
        for sample in found(path, max_archive_bytes=64 << 20).samples:
            with suppress(BadImage):
                assert len(read_blob(sample.blob, sample.size)) == sample.size
    finally:
        shutil.rmtree(folder / "a.zip-spool", ignore_errors=True)


def archives() -> list[bytes]:
    tree = {"rose/1.jpg": jpeg(1, (4, 4)), "tulip/2.jpg": jpeg(2, (4, 4))}
    tar = tar_bytes(tree)
    return [
        zip_bytes(tree),
        zip_bytes({"a.zip": zip_bytes(tree)}),
        *(c(tar) for c in COMPRESS.values()),
    ]


TEXTS = (
    b'id,label,split\na.jpg,x,train\n"b,c",y,val\n',
    b"id\tlabel\na.jpg\tx\n",
    b'{"id": "a.jpg", "label": "x"}\n{"id": "b", "label": 3}\n',
    "\ufeffid;label\r\nä.jpg;ü\r\n".encode(),
    "id,label\na,b\n".encode("utf-16"),
    gzip.compress(b"id,label\na.jpg,x\n"),
)


def tables() -> list[bytes]:
    out = io.BytesIO()
    pq.write_table(pa.table({"id": ["a.jpg", "b.jpg"], "label": ["x", "y"], "n": [1, 2]}), out)
    return [*TEXTS, out.getvalue()]


def parsed_table(folder: Path, data: bytes) -> None:
    for name in ("t.csv", "t.jsonl", "t.parquet"):
        (folder / name).write_bytes(data)
        with suppress(SourceError):
            table = read_table(str(folder / name), name)
            assert all(len(column) == len(table.lines) for column in table.columns)
    read_split_file(str(folder / "t.csv"))


# Datasets


@cache
def dataset(folder: Path) -> Path:
    files = {f"{name}/{n}.png": png(n, (3, 2)) for n, name in enumerate("aabb")}
    return pack(write_tree(folder / "x", files), folder / "packed", val_split=0.5)


def opened(folder: Path, name: str, data: bytes) -> None:
    """Put bytes in place of one file of a dataset, and use it in every way."""
    path = dataset(folder) / name
    before = path.read_bytes()
    try:
        path.write_bytes(data)
        for look in (_looked_at, _columns_read, _verified):
            with suppress(DatasetError):
                look(path.parent)
    finally:
        path.write_bytes(before)


def _looked_at(folder: Path) -> None:
    imgrec.info(folder)
    for record in imgrec.open_dataset(folder)["all"]:
        with suppress(DatasetError, BadImage):
            record.numpy()


def _columns_read(folder: Path) -> None:
    opened = imgrec.open_dataset(folder)
    train = opened["train"]
    for class_name in opened.classes:
        train.of_class(class_name)
    with suppress(DatasetError):
        train.find("a/0.png")


def _verified(folder: Path) -> None:
    imgrec.verify(folder, engine=ENGINE)


DOCUMENTS = (
    "dataset_info.json", "features.json", "metadata.json", "report.json", "label.labels.txt",
    "samples.parquet", "SHA256SUMS", "x-train.tfrecord-00000-of-00001",
    "x-train.tfrecord-00000-of-00001.idx",
)  # fmt: skip


def make_parsers(folder: Path) -> dict[str, Parser]:
    """Return all parsers; those of files put them into `folder`."""
    bad, wrong, source = (BadImage,), (DatasetError,), (SourceError,)
    parsers = {
        "image sniff": Parser(seeds=images(), feed=sniffed, errors=()),
        **{
            f"image {check}": Parser(seeds=images(), feed=partial(checked, check), errors=bad)
            for check in Check
        },
        "image shrink": Parser(seeds=images(), feed=shrunk, errors=bad),
        "image thumbnail": Parser(seeds=images(), feed=drawn_small, errors=bad),
        "image look": Parser(seeds=images(), feed=lambda data: look(data, "x.jpg"), errors=bad),
        "exif": Parser(seeds=images()[:16], feed=turned, errors=()),
        "tfrecord": Parser(seeds=shards(), feed=read_shard, errors=wrong),
        "compressed tfrecord": Parser(
            seeds=compressed_shards(), feed=read_compressed, errors=wrong
        ),
        "example": Parser(seeds=examples(), feed=parsed_example, errors=(CorruptRecord,)),
        "result note": Parser(
            seeds=notes(folder),
            feed=lambda data: json_files.decode_result(data, TASK),
            errors=wrong,
        ),
        "idx": Parser(
            seeds=[*idx_files().values(), *map(gzip.compress, idx_files().values())],
            feed=partial(parsed_idx, folder),
            errors=source,
        ),
        "cifar pickle": Parser(seeds=cifar_pickles(), feed=loads, errors=source),
        "cifar binary": Parser(
            seeds=[bytes([1]) + bytes(3072)], feed=partial(cifar_binary, folder), errors=source
        ),
        "archive": Parser(
            seeds=archives(), feed=partial(parsed_archive, folder), errors=(ImgrecError,)
        ),
        "table": Parser(seeds=tables(), feed=partial(parsed_table, folder), errors=source),
    }
    for name in DOCUMENTS:
        content = (dataset(folder) / name).read_bytes()
        parsers[f"dataset {name}"] = Parser(
            seeds=[content], feed=partial(opened, folder, name), errors=wrong
        )
    return parsers


# Mutation


PNG = b"\x89PNG\r\n\x1a\n"
NUMBERS = [
    (value % 2**bits).to_bytes(bits // 8, order)
    for bits in (8, 16, 32, 64)
    for value in (0, 1, -1, 2 ** (bits - 1), 2 ** (bits - 1) - 1, 0x7F, 100)
    for order in ("little", "big")
]
TOKENS = (
    b"../", b"\0", b"\n", b'"', b"{", b"[", b"null", b"-1", b"1e999", b"NaN", b"9" * 30,
    b"\xff\xd8", b"IHDR", b"IDAT", b"PK\x01\x02", b"\x1b[2J", "\u202e".encode(), b"\xc0\x80",
)  # fmt: skip


def mutated(chance: random.Random, seeds: Sequence[bytes]) -> bytes:
    """Return one of the seeds, changed here and there; or, now and then, anything at all."""
    data = bytearray(chance.choice(seeds))
    if chance.random() < 0.03:
        return bytes(data[: chance.randrange(12)]) + chance.randbytes(chance.randrange(200))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 8))):
        at = chance.randrange(len(data) + 1)
        count = chance.choice((1, 1, 2, 4, chance.randrange(1, 64)))
        match chance.randrange(8):
            case 0 | 1 if at < len(data):
                data[at] ^= 1 << chance.randrange(8)
            case 2:
                data[at : at + count] = chance.randbytes(count)
            case 3:
                number = chance.choice(NUMBERS)
                data[at : at + len(number)] = number
            case 4:
                del data[at : at + count]
            case 5:
                data[at:at] = chance.choice(TOKENS)
            case 6:
                other = chance.choice(seeds)
                start = chance.randrange(len(other) + 1)
                data[at : at + count] = other[start : start + chance.randrange(1, 200)]
            case _ if chance.random() < 0.3:
                del data[at:]
    return reframed(data) if data.startswith(PNG) and chance.random() < 0.5 else bytes(data)


def reframed(out: bytearray) -> bytes:
    """Return a PNG whose checksums are right again, as far as it is one."""
    place = len(PNG)
    while place + 12 <= len(out):
        end = place + 8 + int.from_bytes(out[place : place + 4], "big")
        if end + 4 > len(out):
            break
        out[end : end + 4] = zlib.crc32(out[place + 4 : end]).to_bytes(4, "big")
        place = end + 4
    return bytes(out)
