"""Exports as such: the same bytes always, all or nothing, and one sentence for what cannot be."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Cli
from damage import change, change_records, edit_json, make_flowers
from inline import ENGINE, pack
from pictures import class_tree, encode, picture, write_tree

import imgrec
from imgrec.errors import CorruptRecord, DatasetError, UsageError
from imgrec.inspect.export import parquet
from imgrec.inspect.export.exporting import FORMATS
from imgrec.storage.trees import NewTree

SHARD = "flowers-train.tfrecord-00000-of-00001"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_flowers(tmp_path)


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


@pytest.mark.processes
@pytest.mark.parametrize("to", FORMATS)
def test_files_are_the_same_with_any_number_of_workers(tmp_path: Path, to: str) -> None:
    source = class_tree(tmp_path / "x", {"a": 9, "b": 9})
    folder = pack(source, tmp_path / "data", shards=4, val_split=0.2)
    for workers in (1, 3):
        imgrec.export(folder, tmp_path / f"{workers}", to=to, workers=workers)
    first = files_of(tmp_path / "1")
    assert files_of(tmp_path / "3") == first
    assert len([name for name in first if name.endswith((".tar", ".parquet"))]) == 5


def test_parquet_files_are_named_as_the_hub_names_them(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 9}), tmp_path / "data", shards=2)
    exported = imgrec.export(folder, tmp_path / "out", to="parquet", engine=ENGINE)
    names = {f"data/train-0000{n}-of-00002.parquet" for n in range(2)}
    assert files_of(tmp_path / "out").keys() == {*names, "README.md", "croissant.json"}
    assert (exported.files, exported.images, exported.splits) == (2, 9, {"train": 9})
    assert exported.bytes == sum(map(len, files_of(tmp_path / "out").values()))


def test_a_row_group_ends_at_a_number_of_bytes(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "_GROUP_BYTES", 3000)
    imgrec.export(folder, tmp_path / "out", to="parquet", engine=ENGINE)
    file = pq.ParquetFile(tmp_path / "out/data/train-00000-of-00001.parquet")
    rows = [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)]
    records = list(imgrec.open_dataset(folder)["train"])
    assert sum(rows) == len(records)
    sizes = [len(record.image) for record in records]
    for count in rows[:-1]:
        group, sizes = sizes[:count], sizes[count:]
        assert sum(group[:-1]) < 3000 <= sum(group)


def test_tar_files_have_no_owner_and_no_time(folder: Path, tmp_path: Path) -> None:
    imgrec.export(folder, tmp_path / "out", to="webdataset", engine=ENGINE)
    data = (tmp_path / "out/train-000000.tar").read_bytes()
    assert len(data) % tarfile.RECORDSIZE == 0
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        members = tar.getmembers()
    assert {(one.mtime, one.uid, one.gid, one.uname, one.gname, one.mode) for one in members} == {
        (0, 0, 0, "", "", 0o644)
    }
    endings = [member.name.rpartition(".")[2] for member in members]
    assert endings[:3] in (["jpg", "cls", "json"], ["png", "cls", "json"])


def test_records_with_hostile_names_have_keys_inside_the_folder(
    folder: Path, tmp_path: Path
) -> None:
    names = [b"/etc/passwd", b"../../up.jpg", b"", b"a\0b.jpg", b"__x__/y.jpg", b"\xe9.jpg"]

    def rename(records: list[dict[str, object]]) -> None:
        for record, name in zip(records, names, strict=False):
            record["filename"] = (name,)

    change_records(folder, rename)
    (folder / "samples.parquet").unlink()  # it has the old names
    imgrec.export(folder, tmp_path / "out", to="webdataset", engine=ENGINE)
    with tarfile.open(tmp_path / "out/train-000000.tar") as tar:
        keys = [name[:-5] for name in tar.getnames() if name.endswith(".json")]
    assert keys[: len(names)] == ["_/etc/passwd", "_/_/up", "image", "a_b", "_x__/y", "\\udce9"]


def test_a_table_with_other_names_is_refused(folder: Path, tmp_path: Path) -> None:
    def rename(records: list[dict[str, object]]) -> None:
        records[0]["filename"] = (b"other.jpg",)

    change_records(folder, rename)
    with pytest.raises(DatasetError, match=r"the record of other\.jpg is named otherwise in samp"):
        imgrec.export(folder, tmp_path / "out", to="webdataset", engine=ENGINE)


def test_the_card_says_who_made_the_dataset(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"rose": 3})
    write_tree(source, {"rose/x.gif": encode(picture(99), "GIF")})
    folder = pack(
        source,
        tmp_path / "data",
        description="Flowers of *one* garden.",
        citation="@misc{flowers}",
        license="CC BY 4.0",
        homepage="https://example.org/flowers",
    )
    imgrec.export(folder, tmp_path / "out", to="parquet", engine=ENGINE)
    card = (tmp_path / "out/README.md").read_text()
    assert card.startswith("---\nlicense: cc-by-4.0\ntask_categories:\n- image-classification\n")
    for text in (
        "\nFlowers of *one* garden.\n",
        "<https://example.org/flowers>",
        "## License\n\nCC BY 4.0\n",
        "```bibtex\n@misc{flowers}\n```\n",
        "| 0 | rose |",
        "except 1 re-encoded as PNG",
    ):
        assert text in card
    croissant = json.loads((tmp_path / "out/croissant.json").read_text())
    assert croissant["description"] == "Flowers of *one* garden."
    assert croissant["citeAs"] == "@misc{flowers}"
    assert (croissant["license"], croissant["url"]) == ("CC BY 4.0", "https://example.org/flowers")


@pytest.mark.parametrize("to", FORMATS)
def test_a_damaged_record_leaves_nothing(folder: Path, tmp_path: Path, to: str) -> None:
    change(folder / SHARD, 500)
    with pytest.raises(CorruptRecord, match="wrong checksum of a record at byte"):
        imgrec.export(folder, tmp_path / "out", to=to, engine=ENGINE)
    assert not list(tmp_path.glob("*out*"))


@pytest.mark.parametrize("to", FORMATS)
@pytest.mark.parametrize("count", [-1, 1])
def test_a_wrong_number_of_records_leaves_nothing(
    folder: Path, tmp_path: Path, to: str, count: int
) -> None:
    def miscount(info: dict[str, object]) -> None:
        (length,) = info["splits"][0]["shardLengths"]  # type: ignore[index]
        info["splits"][0]["shardLengths"] = [str(int(length) + count)]  # type: ignore[index]

    edit_json(folder / "dataset_info.json", miscount)
    for path in (folder / "samples.parquet", *folder.glob("*.idx")):
        path.unlink()  # either would be found to be wrong first
    with pytest.raises(DatasetError, match=r"expected \d+ records \(dataset_info.json\), found"):
        imgrec.export(folder, tmp_path / "out", to=to, engine=ENGINE)
    assert not list(tmp_path.glob("*out*"))


def test_only_an_export_is_overwritten(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    imgrec.export(folder, out, to="webdataset", engine=ENGINE)
    with pytest.raises(UsageError, match="exists already") as caught:
        imgrec.export(folder, out, to="parquet", engine=ENGINE)
    assert caught.value.hint.endswith("only --overwrite replaces an earlier export")
    imgrec.export(folder, out, to="parquet", engine=ENGINE, overwrite=True)
    assert {path.suffix for path in out.rglob("*.*")} == {".parquet", ".md", ".json"}
    write_tree(out, {"data/mine.txt": b"x"})
    before = files_of(out)
    with pytest.raises(UsageError, match=r"cannot be replaced: it also contains data/mine\.txt"):
        imgrec.export(folder, out, to="parquet", engine=ENGINE, overwrite=True)
    with pytest.raises(UsageError, match="is inside the dataset itself"):
        imgrec.export(folder, folder / "out", to="parquet", engine=ENGINE, overwrite=True)
    assert files_of(out) == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["datasets", "flowers", "out"]


def test_a_failed_overwrite_keeps_the_earlier_export(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    imgrec.export(folder, out, to="parquet", engine=ENGINE)
    before = files_of(out)
    change(folder / SHARD, 500)
    with pytest.raises(CorruptRecord):
        imgrec.export(folder, out, to="parquet", engine=ENGINE, overwrite=True)
    assert files_of(out) == before


def test_an_export_that_was_set_aside_when_a_run_died_comes_back(tmp_path: Path) -> None:
    (tmp_path / ".out.imgrec-replaced").mkdir()
    write_tree(tmp_path / ".out.imgrec-replaced", {"README.md": b"old"})
    with pytest.raises(UsageError, match="exists already"), NewTree(str(tmp_path / "out")):
        pass
    assert files_of(tmp_path) == {"out/README.md": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["out"]


def test_a_split_that_hugging_face_cannot_name_is_refused(folder: Path, tmp_path: Path) -> None:
    def rename(info: dict[str, object]) -> None:
        info["splits"][1]["name"] = "val-2"  # type: ignore[index]

    edit_json(folder / "dataset_info.json", rename)
    for old in folder.glob("flowers-val.*"):
        old.rename(folder / old.name.replace("-val.", "-val-2."))
    with pytest.raises(DatasetError, match="the split val-2 cannot be exported"):
        imgrec.export(folder, tmp_path / "out", to="parquet", engine=ENGINE)
    exported = imgrec.export(folder, tmp_path / "out", to="webdataset", engine=ENGINE)
    assert exported.splits.keys() == {"train", "val-2"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--to", "parquet", "-o", "https://host/x"), "https://host/x is a web URL, which is"),
        (("--to", "parque", "-o", "x"), "--to 'parque' is not a choice"),
        (("--to", "parquet"), "export needs "),
        (("--to", "parquet", "-o", "."), ". is the current folder and would be replaced"),
    ],
)
def test_wrong_use_is_one_sentence(
    cli: Cli, folder: Path, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    done = cli("export", folder, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(f"imgrec: {message}")
    assert len(done.stderr.splitlines()) == 2


def test_an_unknown_format_suggests_one(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="'webdatset' is not a format") as caught:
        imgrec.export(folder, tmp_path / "out", to="webdatset", engine=ENGINE)
    assert caught.value.hint == "did you mean webdataset?"


def test_the_command_prints_what_it_wrote(cli: Cli, folder: Path, tmp_path: Path) -> None:
    done = cli("export", folder, "--to", "webdataset", "-o", "out", "--json", "--workers", "1")
    value = json.loads(done.stdout)
    assert value == {
        "schema": "imgrec/export/1",
        "name": "flowers",
        "version": "1.0.0",
        "path": str(tmp_path / "out"),
        "format": "webdataset",
        "files": 2,
        "images": 13,
        "bytes": sum(map(len, files_of(tmp_path / "out").values())),
        "splits": {"train": 9, "val": 4},
        "load": f'webdataset.WebDataset("{tmp_path}/out/train-000000.tar", shardshuffle=False)',
    }
