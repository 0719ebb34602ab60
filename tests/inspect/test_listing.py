"""`imgrec list` and `imgrec clean --versions`: datasets, sizes and old versions."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest
from conftest import Cli
from inline import pack
from pictures import class_tree

import imgrec
from imgrec.errors import DatasetNotFound, UsageError
from imgrec.inspect.listing import ListedVersion, State


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "source", {"rose": 3, "tulip": 2})


def versions(data_dir: Path, name: str = "flowers") -> dict[str, ListedVersion]:
    listed = {one.name: one for one in imgrec.list_datasets(data_dir=data_dir).datasets}
    return {one.version: one for one in listed[name].versions}


def pack_versions(source: Path, data_dir: Path, *numbers: str) -> list[Path]:
    return [pack(source, data_dir, name="flowers", version=number) for number in numbers]


def used(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir())


def link_shards(folder: Path, target: Path) -> int:
    """Copy a version, with hard links for its shards; return the bytes of those."""
    target.mkdir()
    linked = 0
    for path in folder.iterdir():
        if "-of-" in path.name:
            os.link(path, target / path.name)
            linked += path.stat().st_size
        else:
            shutil.copy2(path, target)
    return linked


def make_foreign(folder: Path) -> None:
    """Leave what another program would have written of a dataset."""
    for name in ("metadata.json", "samples.parquet", "report.json", "SHA256SUMS", "skipped.csv"):
        (folder / name).unlink(missing_ok=True)
    info = json.loads((folder / "dataset_info.json").read_text())
    info["moduleName"] = "tensorflow_datasets.flowers"
    (folder / "dataset_info.json").write_text(json.dumps(info))


def test_versions_are_listed_in_order_with_counts_and_sizes(source: Path, data_dir: Path) -> None:
    folders = pack_versions(source, data_dir, "1.9.0", "1.10.0")
    found = versions(data_dir)
    assert list(found) == ["1.9.0", "1.10.0"]
    newest = found["1.10.0"]
    assert (newest.images, newest.classes, newest.state) == (5, 2, State.COMPLETE)
    assert newest.by_imgrec
    assert newest.path == str(folders[1])
    assert newest.size == newest.own_size == used(folders[1])
    assert newest.made.endswith("+00:00")


def test_a_linked_shard_counts_once_and_is_not_a_versions_own(source: Path, data_dir: Path) -> None:
    [first] = pack_versions(source, data_dir, "1.0.0")
    second = first.with_name("1.1.0")
    linked = link_shards(first, second)
    listing = imgrec.list_datasets(data_dir=data_dir)
    assert listing.size == used(first) + used(second) - linked
    assert [one.size - one.own_size for one in listing.datasets[0].versions] == [linked, linked]


def test_what_is_wrong_with_a_version_is_said(source: Path, data_dir: Path) -> None:
    folders = pack_versions(source, data_dir, "1.0.0", "2.0.0", "3.0.0", "4.0.0")
    next(folders[0].glob("*-of-*")).unlink()
    (folders[1] / "dataset_info.json").write_text("{")
    (folders[2] / "features.json").unlink()
    with next(folders[3].glob("*-of-*")).open("ab") as shard:
        shard.write(b"more")
    found = versions(data_dir).values()
    assert {one.state for one in found} == {State.DAMAGED}
    problems = [one.problem for one in found]
    assert problems[0] == "1 of 1 shards of train are missing"
    assert problems[1].startswith("dataset_info.json: ")
    assert problems[2] == "it has no features.json"
    assert problems[3].startswith("the shards of train have ")


def test_a_data_directory_that_is_a_file_or_misspelled_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(imgrec.UsageError, match="file is not a folder"):
        imgrec.list_datasets(data_dir=tmp_path / "file")
    with pytest.raises(imgrec.UsageError, match="fil does not exist"):
        imgrec.list_datasets(data_dir=tmp_path / "fil")


def test_an_unfinished_pack_is_listed(source: Path, data_dir: Path) -> None:
    def interrupt(stage: str, _count: int, _total: int | None) -> None:
        if stage == "pack":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imgrec.pack(source, data_dir=data_dir, name="flowers", on_progress=interrupt)
    [found] = versions(data_dir).values()
    assert (found.version, found.state) == ("1.0.0", State.UNFINISHED)


def test_a_dataset_of_another_program_is_listed_as_such(
    source: Path, data_dir: Path, cli: Cli
) -> None:
    [folder] = pack_versions(source, data_dir, "1.0.0")
    make_foreign(folder)
    shutil.move(data_dir / "flowers", data_dir / "small")
    (data_dir / "flowers").mkdir()
    shutil.move(data_dir / "small", data_dir / "flowers/small")
    [found] = versions(data_dir, "flowers/small").values()
    assert (found.state, found.by_imgrec, found.images) == (State.COMPLETE, False, 5)
    [title, row] = cli("list").stdout.splitlines()
    assert title.startswith(f"{data_dir}: 1 dataset, 1 version, ")
    assert row.startswith("flowers/small  1.0.0  5 images  2 classes")
    assert row.endswith("  not by imgrec")


def test_other_folders_are_not_listed(data_dir: Path, cli: Cli) -> None:
    (data_dir / "node/18.0.0").mkdir(parents=True)
    (data_dir / "node/18.0.0/index.js").write_text("")
    assert imgrec.list_datasets(data_dir=data_dir).datasets == ()
    assert json.loads(cli("list", "--json").stdout)["datasets"] == []


def test_clean_keeps_the_newest_versions(source: Path, data_dir: Path, cli: Cli) -> None:
    pack_versions(source, data_dir, "1.10.0", "1.9.0", "1.2.0")
    pack(source, data_dir, name="others")
    pack(source, data_dir, name="others", version="2.0.0")
    refused = cli("clean", "--versions", "1")
    assert (refused.returncode, list(versions(data_dir))) == (2, ["1.2.0", "1.9.0", "1.10.0"])
    shown = cli("clean", "flowers", "--versions", "1", "--dry-run").stdout
    assert shown.splitlines()[0].startswith(f"would remove {data_dir}/flowers/1.2.0, ")
    assert len(versions(data_dir)) == 3
    assert cli("clean", "flowers", "--versions", "1", "--yes").returncode == 0
    assert sorted(os.listdir(data_dir / "flowers")) == [".1.10.0.origin.json", "1.10.0"]
    assert len(versions(data_dir, "others")) == 2
    assert not imgrec.verify("flowers", data_dir=data_dir).faults


def test_clean_says_what_removal_really_frees(source: Path, data_dir: Path) -> None:
    [first] = pack_versions(source, data_dir, "1.0.0")
    second, third = first.with_name("1.1.0"), first.with_name("1.2.0")
    linked = link_shards(first, second)
    link_shards(first, third)
    freed = [one.size for one in imgrec.clean(versions=1, data_dir=data_dir, dry_run=True)]
    assert freed == [used(first) - linked, used(second) - linked]
    assert imgrec.clean(versions=1, data_dir=data_dir)[0].path == str(first)
    assert used(third)


def test_clean_leaves_versions_that_are_damaged_foreign_or_links(
    source: Path, data_dir: Path, tmp_path: Path
) -> None:
    folders = pack_versions(source, data_dir, "1.0.0", "2.0.0", "3.0.0", "4.0.0", "5.0.0")
    (folders[0] / "dataset_info.json").write_text("{")
    make_foreign(folders[1])
    folders[2].rename(tmp_path / "elsewhere")
    folders[2].symlink_to(tmp_path / "elsewhere")
    found = imgrec.clean(versions=1, data_dir=data_dir)
    assert [one.path for one in found] == [str(folders[3])]
    assert [path.exists() for path in folders] == [True, True, True, False, True]


def test_clean_leaves_a_version_that_is_being_packed_again(source: Path, data_dir: Path) -> None:
    pack_versions(source, data_dir, "1.0.0", "2.0.0")
    refused: list[str] = []

    def on_progress(stage: str, _count: int, _total: int | None) -> None:
        if stage == "pack" and not refused:
            with pytest.raises(imgrec.ExecutionError) as caught:
                imgrec.clean(versions=1, data_dir=data_dir)
            refused.append(caught.value.path)

    imgrec.pack(
        source, data_dir=data_dir, name="flowers", version="1.0.0",
        val_split=0.5, overwrite=True, on_progress=on_progress,
    )  # fmt: skip
    assert refused == [str(data_dir / "flowers/1.0.0")]
    assert list(versions(data_dir)) == ["1.0.0", "2.0.0"]


def test_clean_refuses_unknown_names_and_numbers(source: Path, data_dir: Path) -> None:
    pack_versions(source, data_dir, "1.0.0")
    with pytest.raises(DatasetNotFound, match="no dataset 'flower'"):
        imgrec.clean("flower", data_dir=data_dir)
    with pytest.raises(UsageError, match="at least 1"):
        imgrec.clean(versions=0, data_dir=data_dir)
