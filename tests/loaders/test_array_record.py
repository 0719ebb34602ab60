"""`--also array_record`: twins of shards, which TFDS reads at random."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from array_record.python.array_record_module import ArrayRecordReader
from conftest import ROOT, Cli
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from trap import run_with_trap

import imgrec
from imgrec import ExecutionError, PackOptions, SourceOptions, UsageError
from imgrec.options import AlsoFormat
from imgrec.outcome import Packed
from imgrec.read.shards import read_shard
from imgrec.write.records import create_array_record

ALSO = ("--also", "array_record")


@pytest.fixture(scope="module")
def tfds() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow_datasets

    return tensorflow_datasets


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("source") / "flowers"
    class_tree(root, {"daisy": 12, "rose": 12})
    extra = {
        "rose/a.png": png(90),
        "rose/old.gif": encode(picture(91, "P"), "GIF"),
        "daisy/grey.jpg": jpeg(92, mode="L"),
    }
    return write_tree(root, extra)


@pytest.fixture(scope="module")
def packed(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Packed:
    data_dir = str(tmp_path_factory.mktemp("datasets"))
    options = PackOptions(data_dir=data_dir, val_split=0.2, shards=3, also=("array_record",))  # type: ignore[arg-type]
    return imgrec.pack(source, options)


def data_dir_of(packed: Packed) -> str:
    return str(Path(packed.info.path).parent.parent)


@pytest.mark.parametrize("split", ["val", "train[:50%]", "train[5:9]+val"])
def test_a_data_source_of_tfds_gives_the_records_in_order(
    tfds: ModuleType, packed: Packed, split: str
) -> None:
    data_dir, skip = data_dir_of(packed), {"image": tfds.decode.SkipDecoding()}
    found = tfds.data_source("flowers", split=split, data_dir=data_dir, decoders=skip)
    expected = imgrec.open_dataset(packed.info.path)[split]
    assert len(found) == len(expected) > 0
    for place, record in enumerate(expected):
        example = found[place]
        assert (example["image"], example["label"]) == (record.image, record.label)
        assert example["filename"].decode() == record.filename
        assert tuple(example["shape"]) == record.shape
    decoded = tfds.data_source("flowers", split=split, data_dir=data_dir)
    assert decoded[0]["image"].shape == (16, 24, 3)


def test_neither_packing_nor_reading_twins_imports_tensorflow(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "flowers", {"rose": 3, "tulip": 3})
    done, sprung = run_with_trap(tmp_path, "-m", "imgrec", "pack", str(source), *ALSO)
    assert (done.returncode, done.stderr, sprung) == (0, "", False)
    code = (
        "import sys, tensorflow_datasets as tfds; "
        "print(len(tfds.data_source('flowers', split='train')), 'tensorflow' in sys.modules)"
    )
    environment = {**os.environ, "TFDS_DATA_DIR": str(tmp_path / "data")}
    read = subprocess.run(
        [sys.executable, "-c", code], env=environment, text=True, capture_output=True, timeout=120
    )
    assert read.stdout == "6 False\n"


def test_every_builder_of_tfds_reads_the_twins(tfds: ModuleType, packed: Packed) -> None:
    builders = (
        tfds.builder("flowers", data_dir=data_dir_of(packed)),
        tfds.builder_from_directory(packed.info.path),
        tfds.builder_from_directory(packed.info.path, file_format="array_record"),
    )
    assert [len(builder.as_data_source(split="val")) for builder in builders] == [6, 6, 6]


def test_tfds_load_still_reads_the_tfrecords(
    tfds: ModuleType, source: Path, tmp_path: Path
) -> None:
    options = PackOptions(data_dir=str(tmp_path), also="array_record")  # type: ignore[arg-type]
    outcome = imgrec.pack(source, options)
    for twin in Path(outcome.info.path).glob("*.array_record-*"):
        twin.unlink()
    loaded = tfds.load("flowers", split="train", data_dir=str(tmp_path))
    assert len(list(loaded)) == 27


def test_a_twin_has_the_records_of_its_shard(packed: Packed) -> None:
    shards = sorted(Path(packed.info.path).glob("*.tfrecord-*-of-?????"))
    assert len(shards) == 4
    for shard in shards:
        twin = shard.with_name(shard.name.replace(".tfrecord-", ".array_record-"))
        expected = [payload for _, payload in read_shard(str(shard), "")]
        reader = ArrayRecordReader(str(twin))
        assert reader.read_all() == expected
        # One record at a time, and not compressed again.
        assert {"group_size:1", "uncompressed"} <= set(reader.writer_options_string().split(","))


@pytest.mark.processes
def test_any_number_of_workers_gives_the_same_bytes(cli: Cli, source: Path, tmp_path: Path) -> None:
    found = []
    for workers in ("1", "3"):
        data_dir = tmp_path / workers
        options = [*ALSO, "--shards", "3", "--workers", workers, "--data-dir", data_dir]
        assert cli("pack", source, *options).returncode == 0
        folder = data_dir / "flowers" / "1.0.0"
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert len([name for name in found[0] if ".array_record-" in name]) == 3
    assert found[0] == found[1]


def test_twins_are_in_the_checksums(packed: Packed) -> None:
    folder = Path(packed.info.path)
    command = ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"]
    subprocess.run(command, cwd=folder, check=True)
    listed = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert listed == sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")


def test_twins_do_not_change_the_shards(source: Path, packed: Packed, tmp_path: Path) -> None:
    options = PackOptions(data_dir=str(tmp_path), val_split=0.2, shards=3)
    plain = imgrec.pack(source, options)
    assert plain.info.fingerprint != packed.info.fingerprint
    assert (plain.info.also, plain.info.data_source) == ((), "")
    assert "also" not in plain.report.options
    own, other = (Path(outcome.info.path) for outcome in (plain, packed))
    assert "alternativeFileFormats" not in json.loads((own / "dataset_info.json").read_text())
    for path in own.glob("*.tfrecord-*"):
        assert path.read_bytes() == (other / path.name).read_bytes()


def test_the_documents_name_the_twins(packed: Packed) -> None:
    folder = Path(packed.info.path)
    assert json.loads((folder / "dataset_info.json").read_text())["alternativeFileFormats"] == [
        "array_record"
    ]
    sizes = json.loads((folder / "metadata.json").read_text())["imgrec"]["also"]
    assert sizes == {
        "array_record": {
            split: sum(twin.stat().st_size for twin in folder.glob(f"*-{split}.array_record-*"))
            for split in ("train", "val")
        }
    }


def test_the_summary_shows_how_to_read_at_random(cli: Cli, source: Path) -> None:
    line = '\nalso        array_record: tfds.data_source("flowers", split="train")\n'
    done = cli("pack", source, *ALSO)
    assert (done.returncode, done.stderr) == (0, "")
    assert line in done.stdout
    assert done.stdout.endswith(
        '\nload        tfds.load("flowers", split="train", as_supervised=True)\n'
    )
    assert line in cli("info", "flowers").stdout
    value = json.loads(cli("info", "flowers", "--json").stdout)
    assert value["also"] == ["array_record"]
    assert value["data_source"] == 'tfds.data_source("flowers", split="train")'


def test_twins_are_part_of_the_dataset(cli: Cli, source: Path, data_dir: Path) -> None:
    folder = data_dir / "flowers" / "1.0.0"
    write_tree(
        folder.parent / ".1.0.0.incomplete",  # as a killed run leaves it
        {"flowers-train.array_record-00000-of-00001.part": b"half"},
    )
    assert cli("pack", source, *ALSO).returncode == 0
    assert sorted(path.name for path in folder.parent.iterdir()) == [".1.0.0.origin.json", "1.0.0"]
    assert not list(folder.glob("*.part"))
    assert "already packed: nothing to do" in cli("pack", source, *ALSO).stdout
    plain = cli("pack", source)
    assert (plain.returncode, "already holds another dataset" in plain.stderr) == (5, True)
    assert list(folder.glob("*.array_record-*"))
    assert cli("pack", source, "--overwrite").returncode == 0
    assert not list(folder.glob("*.array_record-*"))


@pytest.mark.parametrize("harm", ["remove", "cut"])
def test_a_damaged_twin_is_found_by_the_next_pack(
    cli: Cli, source: Path, data_dir: Path, harm: str
) -> None:
    assert cli("pack", source, *ALSO).returncode == 0
    (twin,) = (data_dir / "flowers" / "1.0.0").glob("*.array_record-*")
    size = twin.stat().st_size
    if harm == "remove":
        twin.unlink()
        expected = f"{twin.name}: No such file or directory"
    else:
        twin.write_bytes(twin.read_bytes()[:-1])
        expected = f"the array_record files of train have {size - 1} bytes instead of {size}"
    done = cli("pack", source, *ALSO)
    assert (done.returncode, f"is damaged: {expected}" in done.stderr) == (5, True)
    assert cli("pack", source, *ALSO, "--overwrite").returncode == 0


def test_a_shard_or_split_may_have_only_bad_images(
    tfds: ModuleType, cli: Cli, tmp_path: Path, data_dir: Path
) -> None:
    tree = {f"train/a/{number}.jpg": jpeg(number) for number in range(4)}
    tree |= {"train/a/bad.jpg": jpeg(8)[:300], "val/a/bad.jpg": jpeg(9)[:300]}
    write_tree(tmp_path / "x", tree)
    done = cli("pack", "x", *ALSO, "--max-bad", "0.5", "--shards", "5", "--json")
    value = json.loads(done.stdout)
    assert list(value["splits"]) == ["train"]
    folder = Path(value["path"])
    assert not list(folder.glob("*val*"))
    assert len(list(folder.glob("*.array_record-*"))) == 5
    assert len(tfds.data_source("x", split="train", data_dir=str(data_dir))) == 4


def test_several_labels_and_columns_are_in_the_twins(tfds: ModuleType, tmp_path: Path) -> None:
    write_tree(tmp_path / "pets", {f"{number}.jpg": jpeg(number) for number in range(3)})
    table = tmp_path / "pets" / "pets.csv"
    table.write_text("file,tags,age\n0.jpg,cat dog,3\n1.jpg,dog,4\n2.jpg,cat,5\n")
    options = PackOptions(
        data_dir=str(tmp_path / "data"),
        also=(AlsoFormat.ARRAY_RECORD,),
        source=SourceOptions(
            path_col="file",
            label_col="tags",
            label_sep=" ",
            column=(imgrec.ColumnOption("age", imgrec.ColumnKind.INT),),
        ),
    )
    packed = imgrec.pack(table, options)
    found = tfds.data_source(packed.info.name, split="train", data_dir=str(tmp_path / "data"))
    rows = {row["filename"].decode(): (list(row["labels"]), int(row["age"])) for row in found}
    assert rows == {"0.jpg": ([0, 1], 3), "1.jpg": ([1], 4), "2.jpg": ([0], 5)}


@pytest.fixture
def without_array_record(tmp_path: Path, data_dir: Path) -> dict[str, str]:
    """An environment in which array_record cannot be imported."""
    missing = "raise ModuleNotFoundError('No module named array_record', name='array_record')"
    write_tree(tmp_path / "stubs", {"array_record/__init__.py": missing.encode()})
    path = f"{tmp_path / 'stubs'}{os.pathsep}{ROOT}"
    return {**os.environ, "PYTHONPATH": path, "TFDS_DATA_DIR": str(data_dir)}


def test_a_missing_package_is_named_before_anything_is_done(
    cli: Cli, source: Path, data_dir: Path, without_array_record: dict[str, str]
) -> None:
    done = cli("pack", "no such source", *ALSO, env=without_array_record)
    assert done.returncode == 7
    assert done.stderr == (
        "imgrec: --also array_record needs array_record, which is not installed\n"
        "  hint: pip install 'imgrec[arrayrecord]'\n"
    )
    assert not data_dir.exists()
    done = cli("plan", source, *ALSO, env=without_array_record)
    assert done.returncode == 7
    assert "\nalso        array_record\n" in done.stdout
    assert "warning     pack would refuse this: --also array_record needs " in done.stdout
    assert cli("pack", source, env=without_array_record).returncode == 0  # not needed without it


def test_twins_of_compressed_shards_are_refused(cli: Cli, source: Path) -> None:
    done = cli("pack", source, *ALSO, "--compression", "gzip")
    assert done.returncode == 2
    assert done.stderr == (
        "imgrec: --also and --compression cannot be combined\n"
        "  hint: leave out one of them: TFDS cannot open a dataset with compressed TFRecords\n"
    )


def test_unknown_formats_are_refused_and_repeated_ones_merged() -> None:
    for also in ("parquet", ("array_record", "parquet"), 3):
        with pytest.raises(UsageError, match="also cannot be") as caught:
            PackOptions(also=also)  # type: ignore[arg-type]
        assert caught.value.hint == "choose from array_record"
    options = PackOptions(also=["array_record", "array_record"])  # type: ignore[arg-type, list-item]
    assert options.also == (AlsoFormat.ARRAY_RECORD,)


def test_a_full_disk_is_an_error_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.array_record"
    monkeypatch.setattr("imgrec.storage.files.part_of", lambda path: f"{path}.part")
    (tmp_path / "a.array_record.part").symlink_to("/dev/full")
    with (
        pytest.raises(ExecutionError, match="No space left on device") as caught,
        create_array_record(str(path)) as twin,
    ):
        twin.write(b"x" * 1000)
    assert caught.value.exit_code == 6
    assert list(tmp_path.iterdir()) == []


def test_a_twin_whose_shard_fails_leaves_nothing(tmp_path: Path) -> None:
    def write() -> None:
        with create_array_record(str(tmp_path / "a")) as twin:
            twin.write(b"x")
            raise KeyError

    with pytest.raises(KeyError):
        write()
    assert list(tmp_path.iterdir()) == []


def test_metadata_without_the_twins_is_damage(source: Path, tmp_path: Path) -> None:
    options = PackOptions(data_dir=str(tmp_path), also=(AlsoFormat("array_record"),))
    folder = Path(imgrec.pack(source, options).info.path)
    value = json.loads((folder / "metadata.json").read_text())
    value["imgrec"]["also"] = []
    (folder / "metadata.json").write_text(json.dumps(value))
    with pytest.raises(
        imgrec.DatasetExists, match=r"is damaged: metadata\.json: the values of imgrec"
    ):
        imgrec.pack(source, options)
