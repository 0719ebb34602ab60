"""Shards that are compressed as a whole: written, read in order, and refused otherwise."""

from __future__ import annotations

import gzip
import json
import os
import pickle
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from conftest import Cli
from pictures import class_tree, encode, jpeg, picture, png, write_tree

import imgrec
from imgrec import CorruptRecord, DatasetError, PackOptions, UnknownName, UsageError
from imgrec.cli.render import storage_lines
from imgrec.codec import tfrecord
from imgrec.codec.tfrecord import compressor
from imgrec.layout import load_line
from imgrec.outcome import Packed
from imgrec.read.dataset import Dataset
from imgrec.read.shards import read_shard
from imgrec.write.records import RecordFormat, create_records

SUFFIX = {"gzip": "gz", "zlib": "zlib"}
UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zlib": zlib.decompress}
kinds = pytest.mark.parametrize("kind", SUFFIX)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "flowers"
    class_tree(root, {"daisy": 12, "rose": 12})
    extra = {f"rose/{n}.bmp": encode(picture(n, size=(90, 70)), "BMP") for n in range(3)}
    return write_tree(root, {**extra, "daisy/a.png": png(90)})


@pytest.fixture(scope="module")
def packs(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Packed]:
    """The same source, packed plain and compressed."""
    options = PackOptions(val_split=0.2, shards=3)
    return {
        kind: imgrec.pack(
            source,
            replace(options, data_dir=str(tmp_path_factory.mktemp(kind)), compression=kind),
        )
        for kind in ("none", *SUFFIX)
    }


def shards_of(packed: Packed) -> list[Path]:
    return sorted(Path(packed.info.path).glob("*.tfrecord*-of-?????"))


def bytes_of(packed: Packed) -> int:
    return sum(path.stat().st_size for path in shards_of(packed))


def opened(packs: dict[str, Packed], kind: str) -> Dataset:
    return imgrec.open_dataset(packs[kind].info.path)


def compressed(kind: str, *payloads: bytes) -> bytes:
    """Compress a file of records."""
    stream = compressor(kind)
    pieces = []
    for payload in payloads:
        head, foot = tfrecord.frame(payload)
        pieces += [stream.compress(piece) for piece in (head, payload, foot)]
    return b"".join([*pieces, stream.flush()])


def fault(action: Callable[[], object]) -> str:
    with pytest.raises(DatasetError) as caught:
        action()
    return str(caught.value)


# Packing


@kinds
def test_a_compressed_shard_unpacks_to_the_plain_one(
    tf: ModuleType, packs: dict[str, Packed], kind: str
) -> None:
    for plain, packed in zip(shards_of(packs["none"]), shards_of(packs[kind]), strict=True):
        assert packed.name == plain.name.replace(".tfrecord-", f".tfrecord.{SUFFIX[kind]}-")
        assert UNPACK[kind](packed.read_bytes()) == plain.read_bytes()
        records = list(read_shard(str(plain), ""))
        assert list(read_shard(str(packed), kind)) == records
        data = tf.data.TFRecordDataset(str(packed), compression_type=kind.upper())
        assert [one.numpy() for one in data] == [payload for _, payload in records]


@pytest.mark.parametrize("kind", ["gzip"])
def test_tfds_alone_says_at_once_that_it_does_not_know_the_format(
    packs: dict[str, Packed], kind: str
) -> None:
    """In a process of its own: once `imgrec.builder` is imported, imgrec answers instead."""
    data_dir = Path(packs[kind].info.path).parent.parent
    program = (
        "import sys, tensorflow_datasets as tfds\n"
        "tfds.load('flowers', split='train', data_dir=sys.argv[1])"
    )
    command = [sys.executable, "-c", program, str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"'tfrecord.{SUFFIX[kind]}' is not a valid FileFormat" in done.stderr


@kinds
def test_the_files_of_a_compressed_dataset_agree(packs: dict[str, Packed], kind: str) -> None:
    import pyarrow.parquet as pq

    folder, info = Path(packs[kind].info.path), packs[kind].info
    assert not list(folder.glob("*.idx"))
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=folder, check=True)
    listed = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert listed == sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")
    for row in pq.read_table(folder / "samples.parquet").to_pylist():  # offsets when unpacked
        shard = UNPACK[kind]((folder / row["shard"]).read_bytes())
        framed = shard[row["offset"] : row["offset"] + row["length"]]
        tfrecord.payload_span(framed, path=row["shard"], offset=row["offset"])
    ours = json.loads((folder / "metadata.json").read_text())["imgrec"]
    assert ours["compression"] == kind
    assert f'compression_type="{kind.upper()}"' in ours["readers"]
    assert "TFDS has no option for compressed shards" in ours["readers"]
    assert ours["uncompressed_bytes"] == info.uncompressed_bytes == bytes_of(packs["none"])
    assert sum(split.num_bytes for split in info.splits) == bytes_of(packs[kind])


@kinds
@pytest.mark.processes
def test_two_runs_give_the_same_bytes_whatever_the_workers(
    cli: Cli, source: Path, tmp_path: Path, kind: str
) -> None:
    found = []
    for workers, zone in (("1", "UTC"), ("3", "Asia/Tokyo")):
        options = ["--compression", kind, "--shards", "3", "--workers", workers]
        environment = {**os.environ, "TZ": zone}
        done = cli("pack", source, *options, "--data-dir", tmp_path / workers, env=environment)
        assert done.returncode == 0
        folder = tmp_path / workers / "flowers" / "1.0.0"
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert found[0] == found[1]


def test_no_compression_is_the_default(packs: dict[str, Packed], source: Path) -> None:
    options = PackOptions(val_split=0.2, shards=3)
    assert imgrec.plan(source, options).fingerprint == packs["none"].info.fingerprint
    assert "compression" not in packs["none"].report.options
    assert len({packed.info.fingerprint for packed in packs.values()}) == 3


@kinds
def test_the_summary_says_what_was_saved_and_how_to_load_it(
    cli: Cli, source: Path, packs: dict[str, Packed], data_dir: Path, kind: str
) -> None:
    options = ["--val-split", "0.2", "--shards", "3", "--compression", kind]
    done = cli("pack", source, *options)
    stored, plain = bytes_of(packs[kind]), bytes_of(packs["none"])
    line = f"\ncompression {kind}: {1 - stored / plain:.1%} smaller; TFDS cannot read such shards\n"
    assert stored < plain
    assert line in done.stdout
    assert done.stdout.endswith('\nload        imgrec.load("flowers", split="train")\n')
    assert line in cli("info", "flowers").stdout
    value = json.loads(cli("info", "flowers", "--json").stdout)
    assert (value["compression"], value["uncompressed_bytes"]) == (kind, plain)
    assert value["load"] == 'imgrec.load("flowers", split="train")'
    again = cli("pack", source, *options)
    assert "already packed: nothing to do" in again.stdout
    assert line in again.stdout
    other = cli("pack", source)
    assert (other.returncode, "already holds another dataset" in other.stderr) == (5, True)


def test_what_compression_makes_larger_is_said_to_be_larger(packs: dict[str, Packed]) -> None:
    info = packs["gzip"].info
    stored = sum(split.num_bytes for split in info.splits)
    (line,) = storage_lines(replace(info, uncompressed_bytes=stored * 4 // 5))
    assert line == "compression gzip: 25.0% larger; TFDS cannot read such shards"


def test_the_load_line_finds_the_dataset_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    (tmp_path / "flowers" / "1.1.0").mkdir(parents=True)
    for data_dir, version, line in (
        (tmp_path, "1.0.0", 'imgrec.load("flowers:1.0.0", split="val")'),
        (tmp_path, "1.1.0", 'imgrec.load("flowers", split="val")'),
        (Path("/a b"), "1.0.0", "imgrec.load('/a b/flowers/1.0.0', split=\"val\")"),
    ):
        assert load_line(data_dir, "flowers", version, "val", "gzip") == line


def test_overwrite_leaves_no_file_of_another_compression(
    cli: Cli, source: Path, data_dir: Path
) -> None:
    for kind, suffix in (("gzip", ".gz"), ("zlib", ".zlib"), ("none", "")):
        assert cli("pack", source, "--compression", kind, "--overwrite").returncode == 0
        shards = (data_dir / "flowers" / "1.0.0").glob("*.tfrecord*-of-0000?")
        assert [path.name for path in shards] == [f"flowers-train.tfrecord{suffix}-00000-of-00001"]


@pytest.mark.parametrize("kept", [0, -1])
def test_a_damaged_dataset_is_not_taken_for_packed(
    cli: Cli, source: Path, data_dir: Path, kept: int
) -> None:
    options = ["--compression", "gzip"]
    assert cli("pack", source, *options).returncode == 0
    (shard,) = (data_dir / "flowers" / "1.0.0").glob("*-of-00001")
    data = shard.read_bytes()[:kept]
    shard.unlink()
    if data:
        shard.write_bytes(data)
    done = cli("pack", source, *options)
    assert (done.returncode, "is damaged: " in done.stderr) == (5, True)
    assert cli("pack", source, *options, "--overwrite").returncode == 0


@kinds
def test_a_disk_needs_room_only_for_the_compressed_shard(tmp_path: Path, kind: str) -> None:
    how = RecordFormat(compression=kind)
    with create_records(str(tmp_path / "a"), how, expected_bytes=1 << 60) as (out, file, _):
        out.add(b"before", b"data" * 1000, b"after")
    assert (tmp_path / "a").stat().st_size == file.position < out.position == 4027
    assert [payload for _, payload in read_shard(str(tmp_path / "a"), kind)] == [
        b"before" + b"data" * 1000 + b"after"
    ]


def test_a_split_of_bad_images_alone_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
    tree = {"train/a/1.jpg": jpeg(1), "train/a/2.jpg": jpeg(2), "val/a/3.jpg": jpeg(3)[:300]}
    write_tree(tmp_path / "x", tree)
    done = cli("pack", "x", "--max-bad", "0.5", "--compression", "gzip", "--json")
    value = json.loads(done.stdout)
    assert list(value["splits"]) == ["train"]
    assert not list(Path(value["path"]).glob("*val*"))


def test_plan_says_that_shards_would_be_compressed(cli: Cli, source: Path) -> None:
    done = cli("plan", source, "--compression", "zlib")
    assert "\ncompression zlib; TFDS cannot read such shards\n" in done.stdout
    value = json.loads(cli("plan", source, "--compression", "zlib", "--json").stdout)
    assert value["compression"] == "zlib"


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(UsageError, match="compression cannot be 'bzip2'") as caught:
        PackOptions(compression="bzip2")  # type: ignore[arg-type]
    assert caught.value.hint == "did you mean gzip? choose from none, gzip, zlib"


# Reading


@kinds
def test_a_compressed_dataset_is_read_in_order_like_the_plain_one(
    packs: dict[str, Packed], kind: str
) -> None:
    specs = ["train", "val", "all", "train[:10%]", "train[7:13]", "train[1shard]", "val+train"]
    for spec in specs:
        expected = list(opened(packs, "none")[spec])
        assert expected
        assert list(opened(packs, kind)[spec]) == expected
    plain, packed = opened(packs, "none")["train"], opened(packs, kind)["train"]
    assert (len(packed), packed.labels.tolist()) == (len(plain), plain.labels.tolist())
    assert list(packed[2:20:3]) == list(plain[2:20:3])
    assert list(packed[[0, 5, 6, 19]]) == list(plain[[0, 5, 6, 19]])
    assert list(packed.of_class("rose")) == list(plain.of_class("rose"))
    assert list(packed[:0]) == []
    assert all(a == b for a, b in zip(packed, packed, strict=True))  # two loops at once
    assert list(pickle.loads(pickle.dumps(packed))) == list(plain)


@kinds
def test_reading_by_number_or_out_of_order_is_refused(packs: dict[str, Packed], kind: str) -> None:
    dataset, shard = opened(packs, kind), shards_of(packs[kind])[0]
    split = dataset["train"]
    with pytest.raises(DatasetError) as caught:
        _ = split[0]
    message = "is compressed as a whole, so its records cannot be read by number"
    assert (str(caught.value), caught.value.path) == (f"{shard} {message}", str(shard))
    assert caught.value.hint == (
        "iterate over a whole split, `for record in split`, or pack without --compression"
    )
    filename = next(iter(split)).filename
    assert message in fault(lambda: split.find(filename))
    with pytest.raises(UnknownName):
        split.find("no such file")
    order = "can only be read in the order in which they are stored"
    for part in (split[::-1], split[[3, 2]], split[[2, 2]], dataset["train[50%:]+train[:50%]"]):
        assert order in fault(lambda part=part: next(iter(part)))  # type: ignore[misc]


Harm = Callable[[Path, list[bytes], str], object]
HARMS: dict[str, Harm] = {
    "cannot read {shard}: No such file or directory": lambda shard, _, __: shard.unlink(),
    "{shard}: expected 10 records (dataset_info.json), found only 9": (
        lambda shard, payloads, kind: shard.write_bytes(compressed(kind, *payloads[:-1]))
    ),
    "{shard}: expected 10 records (dataset_info.json), found more": (
        lambda shard, payloads, kind: shard.write_bytes(compressed(kind, *payloads, payloads[0]))
    ),
    "{shard}: record 4: ": lambda shard, payloads, kind: shard.write_bytes(
        compressed(kind, *payloads[:4], b"", *payloads[5:])
    ),
    "{shard}: not a {kind} stream": lambda shard, _, kind: shard.write_bytes(
        UNPACK[kind](shard.read_bytes())
    ),
}


@kinds
@pytest.mark.parametrize("message", HARMS)
def test_a_damaged_shard_is_named(
    packs: dict[str, Packed], tmp_path: Path, kind: str, message: str
) -> None:
    folder = Path(shutil.copytree(packs[kind].info.path, tmp_path / "copied"))
    shard = min(folder.glob("*-train.*"))
    payloads = [payload for _, payload in read_shard(str(shard), kind)]
    assert len(payloads) == 10
    HARMS[message](shard, payloads, kind)
    dataset = imgrec.open_dataset(folder)
    expected = message.format(shard=shard, kind=kind)
    assert fault(lambda: list(dataset["train"])).startswith(expected)
    assert list(dataset["val"])


def test_metadata_of_an_unknown_compression_are_refused(
    packs: dict[str, Packed], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(packs["gzip"].info.path, tmp_path / "copied"))
    text = (folder / "metadata.json").read_text()
    (folder / "metadata.json").write_text(text.replace('"gzip"', '"rar"'))
    with pytest.raises(DatasetError, match="imgrec does not know the compression 'rar'"):
        imgrec.open_dataset(folder)


@kinds
@pytest.mark.parametrize("has_index", [True, False])
def test_shards_that_someone_else_compressed_are_named(
    packs: dict[str, Packed], tmp_path: Path, kind: str, has_index: bool
) -> None:
    folder = Path(shutil.copytree(packs["none"].info.path, tmp_path / "copied"))
    for shard in folder.glob("*.tfrecord-*-of-?????"):
        stream = compressor(kind)
        shard.write_bytes(stream.compress(shard.read_bytes()) + stream.flush())
    if not has_index:
        for index in folder.glob("*.idx"):
            index.unlink()
    dataset = imgrec.open_dataset(folder)
    shard = min(folder.glob("*-train.tfrecord-*-of-?????"))
    message = f"{shard} is {kind}-compressed, but the dataset does not declare it"
    assert fault(lambda: dataset["train"][0]) == message
    assert fault(lambda: list(dataset["train"])) == message


def test_shards_that_gzip_has_renamed_are_named(packs: dict[str, Packed], tmp_path: Path) -> None:
    folder = Path(shutil.copytree(packs["none"].info.path, tmp_path / "copied"))
    subprocess.run(["gzip", *map(str, folder.glob("*.tfrecord-*-of-?????"))], check=True)
    train = min(folder.glob("*-train.tfrecord-*.gz"))
    with pytest.raises(DatasetError) as caught:
        _ = imgrec.open_dataset(folder)["train"][0]
    assert str(caught.value) == f"{train} is gzip-compressed, but the dataset does not declare it"
    assert "decompress all of its shards" in caught.value.hint
    assert not isinstance(caught.value, CorruptRecord)
