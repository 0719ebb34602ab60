"""Shards that are compressed as a whole: written, read in order, and refused otherwise."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import subprocess
import sys
import tracemalloc
import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

import pytest
from conftest import Cli
from hypothesis import example, given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, png, write_tree

import imgrec
from imgrec import CorruptRecord, DatasetError, PackOptions, UnknownName, UsageError
from imgrec.cli.render import storage_lines
from imgrec.codec import tfrecord
from imgrec.codec.tfrecord import Decompressed, compressor
from imgrec.layout import load_line
from imgrec.outcome import Packed
from imgrec.read.dataset import Dataset
from imgrec.read.shards import read_shard
from imgrec.write.records import RecordFormat, create_records

KINDS = ("gzip", "zlib")
SUFFIX = {"gzip": "gz", "zlib": "zlib"}
UNPACK: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.decompress, "zlib": zlib.decompress}
kinds = pytest.mark.parametrize("kind", KINDS)


@pytest.fixture(scope="module")
def tf() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "flowers"
    class_tree(root, {"daisy": 12, "rose": 12})
    extra = {f"rose/{n}.bmp": encode(picture(n, size=(90, 70)), "BMP") for n in range(3)}
    return write_tree(root, {**extra, "daisy/a.png": png(90)})


@pytest.fixture(scope="module")
def packs(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Packed]:
    """The same source, packed plain and compressed."""
    return {
        kind: imgrec.pack(
            source,
            PackOptions(
                data_dir=str(tmp_path_factory.mktemp(kind)),
                val_split=0.2,
                shards=3,
                compression=kind,
            ),
        )
        for kind in ("none", *KINDS)
    }


def folder_of(packed: Packed) -> Path:
    return Path(packed.info.path)


def shards_of(packed: Packed) -> list[Path]:
    return sorted(path for path in folder_of(packed).glob("*.tfrecord*-of-?????"))


def compressed(kind: str, *pieces: bytes) -> bytes:
    stream = compressor(kind)
    return b"".join([*map(stream.compress, pieces), stream.flush()])


def records(*payloads: bytes) -> bytes:
    framed = []
    for payload in payloads:
        head, foot = tfrecord.frame(payload)
        framed += [head, payload, foot]
    return b"".join(framed)


def unpack(kind: str, data: bytes) -> list[bytes]:
    file = Decompressed(io.BytesIO(data), kind)
    frames = tfrecord.frames(file.read, None, path="a")
    return [payload for _, payload in tfrecord.sound(frames, " of the unpacked data")]


def fault(action: Callable[[], object]) -> str:
    with pytest.raises(DatasetError) as caught:
        action()
    return str(caught.value)


# Streams


@kinds
@given(data=st.data())
def test_a_stream_gives_back_what_went_in_however_it_is_cut(kind: str, data: st.DataObject) -> None:
    pieces = data.draw(st.lists(st.binary(max_size=300), max_size=8)) * data.draw(
        st.sampled_from([1, 1, 500])
    )
    sizes = data.draw(st.lists(st.integers(1, 200_000), min_size=1, max_size=5))
    file = Decompressed(io.BytesIO(compressed(kind, *pieces)), kind)
    whole = io.BytesIO(b"".join(pieces))
    for size in sizes * 3:
        assert file.read(size) == whole.read(size)


@kinds
@given(pieces=st.lists(st.binary(max_size=100)))
def test_other_programs_unpack_a_stream(kind: str, pieces: list[bytes]) -> None:
    assert UNPACK[kind](compressed(kind, *pieces)) == b"".join(pieces)


def test_a_gzip_stream_names_no_file_no_time_and_no_system() -> None:
    empty = bytes.fromhex("1f8b08000000000000ff 0300 00000000 00000000")
    assert compressed("gzip") == empty
    assert compressed("gzip", b"imgrec").startswith(empty[:10])


def test_a_zlib_stream_is_the_same_on_every_machine() -> None:
    assert compressed("zlib") == bytes.fromhex("789c 0300 00000001")


@kinds
@given(place=st.integers(0, 1000), flip=st.integers(1, 255))
@example(place=248, flip=4)  # bits that fill up the last byte of a zlib stream
def test_a_damaged_stream_never_gives_a_wrong_record(kind: str, place: int, flip: int) -> None:
    payloads = [b"rose" * 50, bytes(range(200)), b""]
    stream = bytearray(compressed(kind, records(*payloads)))
    stream[place % len(stream)] ^= flip
    try:
        assert unpack(kind, bytes(stream)) == payloads  # the bits that are flipped say nothing
    except CorruptRecord as error:
        assert error.path == "a"


@kinds
def test_most_flipped_bits_of_a_stream_are_noticed(kind: str) -> None:
    stream = compressed(kind, records(b"rose" * 50, bytes(range(200))))

    def is_noticed(bit: int) -> bool:
        harmed = bytearray(stream)
        harmed[bit // 8] ^= 1 << bit % 8
        try:
            unpack(kind, bytes(harmed))
        except CorruptRecord:
            return True
        return False

    missed = sum(not is_noticed(bit) for bit in range(len(stream) * 8))
    assert missed <= 8 * 8  # those of the gzip header that say nothing, and a few that fill up


@kinds
@given(data=st.data())
def test_a_stream_that_is_cut_anywhere_is_corrupt(kind: str, data: st.DataObject) -> None:
    stream = compressed(kind, records(b"rose" * 50, bytes(range(200))))
    length = data.draw(st.integers(0, len(stream) - 1))
    with pytest.raises(CorruptRecord):
        unpack(kind, stream[:length])


@kinds
def test_a_cut_stream_is_said_to_be_cut_where_it_ends(kind: str) -> None:
    stream = compressed(kind, records(os.urandom(1000)))[:-1]
    assert fault(lambda: unpack(kind, stream)) == (
        f"a: its {kind} stream is cut short at byte {len(stream)}"
    )


@kinds
@pytest.mark.parametrize("more", [b"x", b"x" * 200_000], ids=["a byte", "much"])
def test_bytes_after_the_stream_are_corrupt(kind: str, more: bytes) -> None:
    stream = compressed(kind, records(b"rose")) + more
    assert "stream ends, and the file does not, before byte" in fault(lambda: unpack(kind, stream))


@kinds
@pytest.mark.parametrize("foreign", [b"", b"hello", records(b"rose")])
def test_a_file_of_something_else_is_no_stream(kind: str, foreign: bytes) -> None:
    assert fault(lambda: unpack(kind, foreign)) == f"a: not a {kind} stream"


def head_of(length: int) -> bytes:
    """The beginning of a record that claims a length, with the right checksum."""
    return tfrecord._head(length)


@kinds
def test_a_record_longer_than_protobuf_takes_is_refused_before_it_is_read(kind: str) -> None:
    stream = compressed(kind, records(b"rose"), head_of(1 << 31), bytes(1000))
    where = "at byte 20 of the unpacked data"
    message = f"a: a record of 2,147,483,648 bytes, longer than any can be, {where}"
    assert fault(lambda: unpack(kind, stream)) == message


@kinds
def test_a_length_that_is_not_there_takes_no_memory(kind: str) -> None:
    stream = compressed(kind, head_of(1 << 30), bytes(100_000))
    tracemalloc.start()
    try:
        assert "truncated record" in fault(lambda: unpack(kind, stream))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


@kinds
def test_what_follows_a_record_of_a_bomb_is_not_unpacked(kind: str) -> None:
    bomb = compressed(kind, records(b"rose"), bytes(300_000_000))
    assert len(bomb) < 1_000_000
    tracemalloc.start()
    try:
        assert "wrong checksum of a record's length" in fault(lambda: unpack(kind, bomb))
        assert tracemalloc.get_traced_memory()[1] < 2_000_000
    finally:
        tracemalloc.stop()


# Packing


@kinds
def test_a_compressed_shard_unpacks_to_the_plain_one(packs: dict[str, Packed], kind: str) -> None:
    for plain, packed in zip(shards_of(packs["none"]), shards_of(packs[kind]), strict=True):
        assert packed.name == plain.name.replace(".tfrecord-", f".tfrecord.{SUFFIX[kind]}-")
        assert UNPACK[kind](packed.read_bytes()) == plain.read_bytes()


@kinds
def test_tensorflow_reads_compressed_shards(
    tf: ModuleType, packs: dict[str, Packed], kind: str
) -> None:
    def found(packed: Packed, compression_type: str) -> list[bytes]:
        paths = list(map(str, shards_of(packed)))
        data = tf.data.TFRecordDataset(paths, compression_type=compression_type)
        return [record.numpy() for record in data]

    expected = found(packs["none"], "")
    assert len(expected) == 28
    assert found(packs[kind], kind.upper()) == expected


@kinds
def test_tfds_alone_says_at_once_that_it_does_not_know_the_format(
    packs: dict[str, Packed], kind: str
) -> None:
    """In a process of its own: once `imgrec.builder` is imported, imgrec answers instead."""
    data_dir = folder_of(packs[kind]).parent.parent
    program = (
        "import sys, tensorflow_datasets as tfds\n"
        "tfds.load('flowers', split='train', data_dir=sys.argv[1])"
    )
    command = [sys.executable, "-c", program, str(data_dir)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"'tfrecord.{SUFFIX[kind]}' is not a valid FileFormat" in done.stderr


@kinds
def test_compressed_shards_have_no_index_and_all_files_are_in_the_checksums(
    packs: dict[str, Packed], kind: str
) -> None:
    folder = folder_of(packs[kind])
    assert not list(folder.glob("*.idx"))
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True
    )
    listed = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert listed == sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")


@kinds
def test_the_samples_table_tells_offsets_before_compression(
    packs: dict[str, Packed], kind: str
) -> None:
    import pyarrow.parquet as pq

    folder = folder_of(packs[kind])
    for row in pq.read_table(folder / "samples.parquet").to_pylist():
        shard = UNPACK[kind]((folder / row["shard"]).read_bytes())
        framed = shard[row["offset"] : row["offset"] + row["length"]]
        tfrecord.payload_span(framed, path=row["shard"], offset=row["offset"])


@kinds
def test_two_runs_give_the_same_bytes_whatever_the_workers(
    cli: Cli, source: Path, tmp_path: Path, kind: str
) -> None:
    found = []
    for workers, zone in (("1", "UTC"), ("3", "Asia/Tokyo")):
        data_dir = tmp_path / workers
        options = ["--compression", kind, "--shards", "3", "--workers", workers]
        environment = {**os.environ, "TZ": zone}
        done = cli("pack", source, *options, "--data-dir", data_dir, env=environment)
        assert done.returncode == 0
        folder = data_dir / "flowers" / "1.0.0"
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert found[0] == found[1]


def test_no_compression_is_what_there_always_was(packs: dict[str, Packed], source: Path) -> None:
    options = PackOptions(val_split=0.2, shards=3)
    assert imgrec.dry_run(source, options).fingerprint == packs["none"].info.fingerprint
    assert "compression" not in packs["none"].report.options
    fingerprints = {packed.info.fingerprint for packed in packs.values()}
    assert len(fingerprints) == 3


@kinds
def test_the_summary_says_what_was_saved_and_how_to_load_it(
    cli: Cli, source: Path, packs: dict[str, Packed], data_dir: Path, kind: str
) -> None:
    done = cli("pack", source, "--val-split", "0.2", "--shards", "3", "--compression", kind)
    stored, plain = (
        sum(path.stat().st_size for path in shards_of(packs[name])) for name in (kind, "none")
    )
    saved = f"{1 - stored / plain:.1%}"
    assert stored < plain
    assert f"\ncompression {kind}: {saved} smaller; TFDS cannot read such shards\n" in done.stdout
    assert done.stdout.endswith('\nload        imgrec.load("flowers", split="train")\n')
    shown = cli("info", "flowers").stdout
    assert f"\ncompression {kind}: {saved} smaller; TFDS cannot read such shards\n" in shown
    value = json.loads(cli("info", "flowers", "--json").stdout)
    assert (value["compression"], value["uncompressed_bytes"]) == (kind, plain)
    assert value["load"] == 'imgrec.load("flowers", split="train")'


def test_what_compression_makes_larger_is_said_to_be_larger(packs: dict[str, Packed]) -> None:
    info = packs["gzip"].info
    stored = sum(split.num_bytes for split in info.splits)
    (line,) = storage_lines(replace(info, uncompressed_bytes=stored * 4 // 5))
    assert line == "compression gzip: 25.0% larger; TFDS cannot read such shards"


@kinds
def test_the_metadata_say_who_can_read_it(packs: dict[str, Packed], kind: str) -> None:
    ours = json.loads((folder_of(packs[kind]) / "metadata.json").read_text())["imgrec"]
    assert ours["compression"] == kind
    assert f'compression_type="{kind.upper()}"' in ours["readers"]
    assert "TFDS has no option for compressed shards" in ours["readers"]
    plain = sum(path.stat().st_size for path in shards_of(packs["none"]))
    assert ours["uncompressed_bytes"] == packs[kind].info.uncompressed_bytes == plain
    stored = sum(path.stat().st_size for path in shards_of(packs[kind]))
    assert sum(split.num_bytes for split in packs[kind].info.splits) == stored


def test_the_load_line_finds_the_dataset_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    (tmp_path / "flowers" / "1.1.0").mkdir(parents=True)
    lines = [
        load_line(tmp_path, "flowers", version, "val", "gzip") for version in ("1.0.0", "1.1.0")
    ]
    assert lines == [
        'imgrec.load("flowers:1.0.0", split="val")',
        'imgrec.load("flowers", split="val")',
    ]
    elsewhere = load_line(Path("/else where"), "flowers", "1.0.0", "val", "gzip")
    assert elsewhere == "imgrec.load('/else where/flowers/1.0.0', split=\"val\")"


@kinds
def test_packing_the_same_again_does_nothing_and_otherwise_is_another_dataset(
    cli: Cli, source: Path, kind: str
) -> None:
    assert cli("pack", source, "--compression", kind).returncode == 0
    again = cli("pack", source, "--compression", kind)
    assert "already packed: nothing to do" in again.stdout
    assert f"\ncompression {kind}: " in again.stdout
    plain = cli("pack", source)
    assert (plain.returncode, "already holds another dataset" in plain.stderr) == (5, True)


def test_overwrite_leaves_no_file_of_another_compression(
    cli: Cli, source: Path, data_dir: Path
) -> None:
    for kind, expected in (
        ("gzip", "tfrecord.gz"),
        ("zlib", "tfrecord.zlib"),
        ("none", "tfrecord"),
    ):
        done = cli("pack", source, "--compression", kind, "--overwrite")
        assert done.returncode == 0
        found = {
            path.name for path in (data_dir / "flowers" / "1.0.0").glob("*.tfrecord*-of-0000?")
        }
        assert found == {f"flowers-train.{expected}-00000-of-00001"}


@kinds
@pytest.mark.parametrize("harm", ["remove", "cut"])
def test_a_damaged_dataset_is_not_taken_for_packed(
    cli: Cli, source: Path, data_dir: Path, kind: str, harm: str
) -> None:
    options = ["--compression", kind]
    assert cli("pack", source, *options).returncode == 0
    (shard,) = (data_dir / "flowers" / "1.0.0").glob("*-of-00001")
    if harm == "remove":
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:-1])
    done = cli("pack", source, *options)
    assert (done.returncode, "is damaged: " in done.stderr) == (5, True)
    assert cli("pack", source, *options, "--overwrite").returncode == 0


@kinds
def test_a_disk_needs_room_only_for_what_a_compressed_shard_takes(
    tmp_path: Path, kind: str
) -> None:
    too_much = 1 << 60
    how = RecordFormat(compression=kind)
    with create_records(str(tmp_path / "a"), how, expected_bytes=too_much) as (out, file):
        out.add(b"before", b"data" * 1000, b"after")
    assert (tmp_path / "a").stat().st_size == file.position < out.position == 4027
    assert [payload for _, payload in read_shard(str(tmp_path / "a"), kind)] == [
        b"before" + b"data" * 1000 + b"after"
    ]


def test_a_split_of_nothing_but_bad_images_leaves_no_file(cli: Cli, tmp_path: Path) -> None:
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
    assert caught.value.hint == "choose from none, gzip, zlib"


# Reading


def opened(packs: dict[str, Packed], kind: str) -> Dataset:
    return imgrec.open_dataset(packs[kind].info.path)


@kinds
@pytest.mark.parametrize(
    "spec", ["train", "val", "all", "train[:10%]", "train[7:13]", "train[1shard]", "val+train"]
)
def test_iterating_gives_the_records_of_the_plain_dataset(
    packs: dict[str, Packed], kind: str, spec: str
) -> None:
    expected = list(opened(packs, "none")[spec])
    assert expected
    assert list(opened(packs, kind)[spec]) == expected


@kinds
def test_a_part_that_keeps_the_order_is_read_past_the_rest(
    packs: dict[str, Packed], kind: str
) -> None:
    plain, packed = opened(packs, "none")["train"], opened(packs, kind)["train"]
    assert list(packed[2:20:3]) == list(plain[2:20:3])
    assert list(packed[[0, 5, 6, 19]]) == list(plain[[0, 5, 6, 19]])
    assert list(packed.of_class("rose")) == list(plain.of_class("rose"))
    assert list(packed[:0]) == []


@kinds
def test_what_the_samples_table_tells_needs_no_shard(packs: dict[str, Packed], kind: str) -> None:
    plain, packed = opened(packs, "none")["train"], opened(packs, kind)["train"]
    assert (len(packed), packed.labels) == (len(plain), plain.labels)


@kinds
def test_reading_by_number_is_refused(packs: dict[str, Packed], kind: str) -> None:
    split = opened(packs, kind)["train"]
    shard = shards_of(packs[kind])[0]
    with pytest.raises(DatasetError) as caught:
        _ = split[0]
    message = "is compressed as a whole, so its records cannot be read by number"
    assert str(caught.value) == f"{shard} {message}"
    assert caught.value.path == str(shard)
    assert caught.value.hint == (
        "iterate over a whole split, `for record in split`, or pack without --compression"
    )
    filename = next(iter(split)).filename
    assert message in fault(lambda: split.find(filename))
    with pytest.raises(UnknownName):
        split.find("no such file")


@kinds
@pytest.mark.parametrize(
    "spec, part",
    [
        ("train", slice(None, None, -1)),
        ("train", [3, 2]),
        ("train", [2, 2]),
        ("train[50%:]+train[:50%]", slice(None)),
    ],
)
def test_an_order_that_would_read_a_shard_twice_is_refused(
    packs: dict[str, Packed], kind: str, spec: str, part: slice | list[int]
) -> None:
    records = iter(opened(packs, kind)[spec][part])
    message = "can only be read in the order in which they are stored"
    assert message in fault(lambda: next(records))


@kinds
def test_two_loops_at_once_do_not_disturb_each_other(packs: dict[str, Packed], kind: str) -> None:
    split = opened(packs, kind)["train"]
    assert all(a == b for a, b in zip(split, split, strict=True))


@kinds
def test_a_pickled_dataset_reads_on(packs: dict[str, Packed], kind: str) -> None:
    split = opened(packs, kind)["val"]
    assert list(pickle.loads(pickle.dumps(split))) == list(split)


@kinds
def test_a_shard_can_be_read_by_itself(packs: dict[str, Packed], kind: str) -> None:
    for plain, packed in zip(shards_of(packs["none"]), shards_of(packs[kind]), strict=True):
        assert list(read_shard(str(packed), kind)) == list(read_shard(str(plain), ""))


@pytest.fixture
def copied(packs: dict[str, Packed], tmp_path: Path) -> Callable[[str], Path]:
    """Copy a dataset so that it may be harmed."""

    def copy(kind: str) -> Path:
        target = tmp_path / "copied"
        subprocess.run(["cp", "-r", packs[kind].info.path, target], check=True)
        return target

    return copy


@kinds
def test_a_missing_shard_is_named(copied: Callable[[str], Path], kind: str) -> None:
    folder = copied(kind)
    shard = min(folder.glob("*-train.*"))
    shard.unlink()
    dataset = imgrec.open_dataset(folder)
    assert fault(lambda: list(dataset["train"])) == (
        f"cannot read {shard}: No such file or directory"
    )
    assert list(dataset["val"])


@kinds
def test_a_plain_shard_in_a_compressed_dataset_is_corrupt(
    copied: Callable[[str], Path], kind: str
) -> None:
    folder = copied(kind)
    shard = min(folder.glob("*-train.*"))
    shard.write_bytes(UNPACK[kind](shard.read_bytes()))
    with pytest.raises(CorruptRecord, match=f": not a {kind} stream") as caught:
        list(imgrec.open_dataset(folder)["train"])
    assert caught.value.path == str(shard)


@kinds
@pytest.mark.parametrize("change, found", [(-1, "only 9"), (1, "more")])
def test_a_shard_with_another_number_of_records_is_corrupt(
    copied: Callable[[str], Path], kind: str, change: int, found: str
) -> None:
    folder = copied(kind)
    shard = min(folder.glob("*-train.*"))
    payloads = [payload for _, payload in read_shard(str(shard), kind)]
    assert len(payloads) == 10
    wrong = payloads[:-1] if change < 0 else [*payloads, payloads[0]]
    shard.write_bytes(compressed(kind, records(*wrong)))
    message = f"{shard}: expected 10 records (dataset_info.json), found {found}"
    assert fault(lambda: list(imgrec.open_dataset(folder)["train"])) == message


@kinds
def test_a_record_that_is_none_of_an_image_is_named_by_its_number(
    copied: Callable[[str], Path], kind: str
) -> None:
    folder = copied(kind)
    shard = min(folder.glob("*-train.*"))
    payloads = [payload for _, payload in read_shard(str(shard), kind)]
    payloads[4] = b""
    shard.write_bytes(compressed(kind, records(*payloads)))
    assert fault(lambda: list(imgrec.open_dataset(folder)["train"])).startswith(
        f"{shard}: record 4: "
    )


@kinds
def test_metadata_of_an_unknown_compression_are_refused(
    copied: Callable[[str], Path], kind: str
) -> None:
    folder = copied(kind)
    text = (folder / "metadata.json").read_text()
    (folder / "metadata.json").write_text(text.replace(f'"{kind}"', '"rar"'))
    with pytest.raises(DatasetError, match="imgrec does not know the compression 'rar'"):
        imgrec.open_dataset(folder)


@kinds
@pytest.mark.parametrize("has_index", [True, False])
def test_shards_that_someone_else_compressed_are_said_to_be(
    copied: Callable[[str], Path], kind: str, has_index: bool
) -> None:
    folder = copied("none")
    for shard in folder.glob("*.tfrecord-*-of-?????"):
        shard.write_bytes(compressed(kind, shard.read_bytes()))
    if not has_index:
        for index in folder.glob("*.idx"):
            index.unlink()
    dataset = imgrec.open_dataset(folder)
    shard = min(folder.glob("*-train.tfrecord-*-of-?????"))
    message = f"{shard} is {kind}-compressed, but the dataset does not declare it"
    assert fault(lambda: dataset["train"][0]) == message
    assert fault(lambda: list(dataset["train"])) == message


def test_shards_that_gzip_has_renamed_are_said_to_be_compressed(
    copied: Callable[[str], Path],
) -> None:
    folder = copied("none")
    shards = sorted(folder.glob("*.tfrecord-*-of-?????"))
    subprocess.run(["gzip", *map(str, shards)], check=True)
    train = min(folder.glob("*-train.tfrecord-*.gz"))
    with pytest.raises(DatasetError) as caught:
        _ = imgrec.open_dataset(folder)["train"][0]
    assert str(caught.value) == f"{train} is gzip-compressed, but the dataset does not declare it"
    assert "decompress all of its shards" in caught.value.hint
