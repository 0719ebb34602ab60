"""Images that the source has in several splits: named everywhere, and no fault of the pack."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from catalogs import catalog, sample
from conftest import Cli
from damage import edit_json
from inline import ENGINE, faults_of, pack, read_shard, write_shard
from pictures import jpeg, write_tree

import imgrec
from imgrec.api import verify
from imgrec.near.clusters import NearPair, NearPairs
from imgrec.notes import SameImage
from imgrec.options import PackOptions
from imgrec.planning.build import make_plan

LEAKY = {
    "train/a/1.jpg": jpeg(1),
    "train/a/2.jpg": jpeg(2),
    "train/b/3.jpg": jpeg(3),
    "train/b/4.jpg": jpeg(4),
    "test/unknown.jpg": jpeg(1),
    "test/other.jpg": jpeg(9),
}
"""One image of train is in test, whose images have no labels."""


@pytest.fixture
def leaky(tmp_path: Path) -> Path:
    return pack(write_tree(tmp_path / "x", LEAKY), tmp_path / "out")


def leaks_of(folder: Path) -> tuple[int, int]:
    """Count the leaks that verify takes for faults, and for notes."""
    verified = verify(folder, engine=ENGINE)
    found = [
        [each for each in faults if "is the same image as" in each.what]
        for faults in (verified.faults, verified.notes)
    ]
    return len(found[0]), len(found[1])


def test_an_unlabelled_copy_in_test_is_a_leak_and_contradicts_no_label(leaky: Path) -> None:
    report = json.loads((leaky / "report.json").read_text())
    assert report["leaks"] == [["test/unknown.jpg", "train/a/1.jpg"]]
    assert report["conflicts"] == []
    page = (leaky / "report.html").read_text()
    assert "No conflicting labels" in page
    assert "Leaks between splits: 1" in page
    leaks = imgrec.leaks(leaky, engine=ENGINE)
    assert {(str(group.kind), group.is_exact) for group in leaks.groups} == {
        ("across splits", True)
    }


def test_two_labels_conflict_whatever_copies_without_a_label_there_are() -> None:
    samples = [
        sample("1", "a", 1, "train"),
        sample("1", "b", 1, "train"),
        sample("1", "", 1, "test"),
        sample("2", "a", 2, "train"),
        sample("2", "", 2, "test"),
    ]
    found = catalog(samples)
    folders = {name: where for name, where in found.class_folders.items() if name}
    plan = make_plan(catalog(samples, class_folders=folders), PackOptions())
    assert plan.conflicts == (SameImage(("test//1.jpg", "train/a/1.jpg", "train/b/1.jpg")),)
    assert len(plan.leaks) == 2


def test_several_labels_conflict_with_others_but_not_with_none_in_test(tmp_path: Path) -> None:
    files = {"a.jpg": jpeg(1), "b.jpg": jpeg(1), "c.jpg": jpeg(2), "d.jpg": jpeg(2)}
    source = write_tree(tmp_path / "x", files)
    (source / "t.csv").write_text(
        "file,labels,split\na.jpg,x y,train\nb.jpg,,test\nc.jpg,x,train\nd.jpg,,train\n"
    )
    options = imgrec.SourceOptions(label_sep=" ")
    folder = pack(source / "t.csv", tmp_path / "out", source=options)
    report = json.loads((folder / "report.json").read_text())
    assert report["leaks"] == [["a.jpg", "b.jpg"]]
    assert report["conflicts"] == [["c.jpg", "d.jpg"]]


def test_a_near_duplicate_without_a_label_is_under_no_other_label() -> None:
    found = NearPairs(3, (NearPair("a", "b", 99, False), NearPair("a", "c", 99, False)))
    splits = {"a": "train", "b": "test", "c": "train"}
    near = found.sum_up(splits, {"a": 0, "b": None, "c": 1})
    assert (near.across_splits, near.across_classes) == (1, 1)


def test_verify_notes_a_leak_of_the_source_and_finds_no_fault(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "x", LEAKY)
    assert cli("pack", "x").returncode == 0
    done = cli("verify", "x")
    assert done.returncode == 0
    assert "ok; checked" in done.stdout
    assert "note        1 image in more than one split, as in the source" in done.stdout
    said = "test/unknown.jpg in test is the same image as train/a/1.jpg in train"
    assert said in done.stdout
    told = cli("verify", "x", "--json")
    assert told.returncode == 0
    value = json.loads(told.stdout)
    assert value["ok"] is True
    assert value["faults"] == []
    (note,) = value["notes"]
    assert (note["file"], note["note"]) == ("x-test.tfrecord-00000-of-00001", said)


@pytest.mark.parametrize("options", [{"val_split": 0.25}, {"folds": 2}])
def test_a_leak_of_the_source_is_a_note_beside_splits_that_imgrec_made(
    tmp_path: Path, options: dict[str, object]
) -> None:
    files = {f"train/a/{seed}.jpg": jpeg(seed) for seed in range(8)} | {"test/a/x.jpg": jpeg(3)}
    folder = pack(write_tree(tmp_path / "x", files), tmp_path / "out", **options)
    assert faults_of(folder) == []
    assert leaks_of(folder) == (0, 1)


def test_a_leak_across_a_split_that_imgrec_made_is_a_fault_even_if_recorded(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", {f"a/{seed}.jpg": jpeg(seed) for seed in range(8)})
    folder = pack(source, tmp_path / "out", val_split=0.25)
    shards = [folder / f"x-{split}.tfrecord-00000-of-00001" for split in ("train", "val")]
    train, val = map(read_shard, shards)
    val[0]["image"] = train[0]["image"]
    write_shard(shards[1], val)
    names = [bytes(each[0]["filename"][0]).decode() for each in (train, val)]  # type: ignore[arg-type]
    edit_json(folder / "report.json", lambda value: value.update(leaks=[names]))
    assert leaks_of(folder) == (1, 0)


@pytest.mark.parametrize(
    ("changes", "found"),
    [
        ({"leaks": []}, (1, 0)),
        ({"leaks": [["train/a/2.jpg", "test/unknown.jpg"]]}, (1, 0)),
        ({"leaks": [], "unlisted_leaks": 1}, (0, 1)),  # counted, but not named
        ({"options": {"on_leak": "drop"}}, (1, 0)),
    ],
)
def test_a_leak_that_the_pack_did_not_record_is_a_fault(
    leaky: Path, changes: dict[str, object], found: tuple[int, int]
) -> None:
    edit_json(leaky / "report.json", lambda value: value.update(changes))
    assert leaks_of(leaky) == found


def test_leaks_that_were_dropped_are_gone(tmp_path: Path) -> None:
    folder = pack(write_tree(tmp_path / "x", LEAKY), tmp_path / "out", on_leak="drop")
    assert faults_of(folder) == []
    assert leaks_of(folder) == (0, 0)


def test_copies_that_a_split_file_parts_are_a_note(tmp_path: Path) -> None:
    files = {"a/1.jpg": jpeg(1), "a/2.jpg": jpeg(1), "a/3.jpg": jpeg(3), "b/4.jpg": jpeg(4)}
    source = write_tree(tmp_path / "x", files)
    (tmp_path / "s.csv").write_text("file,split\na/1.jpg,train\na/2.jpg,val\n")
    folder = pack(source, tmp_path / "out", val_split=0.3, split_file=str(tmp_path / "s.csv"))
    assert faults_of(folder) == []
    assert leaks_of(folder) == (0, 1)


def test_a_leak_of_a_dataset_that_imgrec_did_not_make_is_a_note(leaky: Path) -> None:
    for name in ("samples.parquet", "SHA256SUMS", "report.json", "skipped.csv", "metadata.json"):
        (leaky / name).unlink()
    for path in leaky.glob("*.idx"):
        path.unlink()
    info = json.loads((leaky / "dataset_info.json").read_text())
    (leaky / "dataset_info.json").write_text(json.dumps({**info, "moduleName": "tfds"}))
    assert faults_of(leaky) == []
    assert leaks_of(leaky) == (0, 1)
