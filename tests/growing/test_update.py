"""`imgrec update`: the next version of a dataset, at the cost of what has changed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from sampling import examples

import imgrec
from imgrec.errors import DatasetExists, PlanError, SourceError, UsageError
from imgrec.packing.next_version import Updated

CLASSES = {"rose": 20, "tulip": 20}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "flowers", CLASSES)


def pack(source: Path, data_dir: Path, **options: object) -> Path:
    settings = {"name": "flowers", "val_split": 0.2, "shards": 4, "workers": 1, **options}
    return Path(imgrec.pack(source, data_dir=data_dir, **settings).info.path)  # type: ignore[arg-type]


def update(data_dir: Path, source: Path | str = "", **options: object) -> Updated:
    return imgrec.update("flowers", source, data_dir=data_dir, **options)  # type: ignore[arg-type]


def files(folder: Path | str) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def facts(folder: Path | str) -> dict[str, tuple[str, str, bytes]]:
    """Split, class and content of each image."""
    dataset = imgrec.open_dataset(folder)
    return {
        record.filename: (split, " ".join(record.class_names), record.image)
        for split in dataset
        for record in dataset[split]
    }


def faults(updated: Updated, source: Path) -> object:
    return imgrec.verify(updated.info.path, source=source).faults


def without_note(data_dir: Path) -> None:
    for note in (data_dir / "flowers").glob(".*.origin.json"):
        note.unlink()


def change(root: Path) -> None:
    """Add three images and a class, remove one, change one, and move one to another class."""
    write_tree(root, {"rose/new.jpg": jpeg(900), "tulip/new.jpg": jpeg(901)})
    write_tree(root, {"aster/1.jpg": jpeg(902), "tulip/005.jpg": jpeg(903)})
    (root / "tulip/003.jpg").unlink()
    os.rename(root / "tulip/004.jpg", root / "rose/moved.jpg")


def test_known_images_keep_their_split_and_everything_is_verified(
    source: Path, data_dir: Path
) -> None:
    before = facts(pack(source, data_dir))
    change(source)
    updated = update(data_dir)
    assert updated.info.version == "1.1.0"
    assert updated.info.classes == ("rose", "tulip", "aster")
    assert updated.difference is not None
    counts = {"added": 3, "removed": 1, "changed": 1, "renamed": 1, "relabelled": 1, "moved": 0}
    assert updated.difference.counts == counts
    after = facts(updated.info.path)
    assert sorted(after) == sorted(
        path.relative_to(source).as_posix() for path in source.rglob("*.jpg")
    )
    for name in before.keys() & after.keys():
        assert after[name][:2] == before[name][:2]
    assert after["rose/moved.jpg"] == (
        before["tulip/004.jpg"][0],
        "rose",
        before["tulip/004.jpg"][2],
    )
    assert faults(updated, source) == ()


def test_the_report_page_shows_what_has_changed_with_pictures(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    change(source)
    page = (Path(update(data_dir).info.path) / "report.html").read_text()
    section = page.partition('<section id="changes"')[2].partition("</section>")[0]
    assert "those of flowers 1.0.0" in section
    counted = re.findall(r'<h3>([^<]*)</h3><span class="badge">(\d+)<', section)
    assert counted == [
        ("Added", "3"), ("Removed", "1"), ("Other contents", "1"), ("Relabelled", "1"),
        ("Renamed", "1"),
    ]  # fmt: skip
    assert section.count("<img ") == 8  # two for the changed image
    assert "was tulip/004.jpg" in section


def test_shards_without_a_change_are_linked_and_the_old_version_stays_as_it_was(
    source: Path, data_dir: Path
) -> None:
    old = pack(source, data_dir)
    before = files(old)
    write_tree(source, {"rose/new.jpg": jpeg(900)})
    updated = update(data_dir)
    inodes = {path.stat().st_ino for path in old.iterdir()}
    shards = [path for path in Path(updated.info.path).iterdir() if "-of-" in path.name]
    linked = [path for path in shards if path.stat().st_ino in inodes]
    assert (updated.reused_shards, updated.shards) == (5, 6)
    assert len(linked) == 2 * updated.reused_shards  # each has an index
    assert files(old) == before
    assert imgrec.verify(old).faults == ()


def test_an_update_without_changes_writes_nothing(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    write_tree(source, {"rose/bad.jpg": b"\xff\xd8\xff\xe0 nothing"})
    first = update(data_dir)  # a bad file is no image, now or later
    assert (first.is_new, first.difference, first.info.version) == (False, None, "1.0.0")
    assert sorted(os.listdir(data_dir / "flowers")) == [".1.0.0.origin.json", "1.0.0"]


def test_removing_and_relabelling_decode_no_image(
    source: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pack(source, data_dir)
    (source / "rose/001.jpg").unlink()
    os.rename(source / "rose/002.jpg", source / "tulip/002b.jpg")
    monkeypatch.setattr("imgrec.write.shard.prepare", None)
    monkeypatch.setattr("imgrec.source.image_pass.prepare", None)
    updated = update(data_dir)
    assert updated.difference is not None
    assert updated.difference.counts["relabelled"] == 1
    assert updated.reused_shards >= updated.shards - 2


def test_unchanged_files_are_not_opened_unless_their_folder_is_another(
    source: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(source, {"last": b""})  # the latest change, after those of all images
    (source / "last").unlink()
    monkeypatch.setattr("imgrec.packing.origin.TICK_NS", -(10**12))  # as if it were long ago
    pack(source, data_dir)
    opened: list[str] = []
    read_head = imgrec.source.probe.read_file_head  # type: ignore[attr-defined]

    def read(path: str, *arguments: object, **named: object) -> object:
        opened.append(path)
        return read_head(path, *arguments, **named)

    monkeypatch.setattr("imgrec.source.probe.read_file_head", read)
    write_tree(source, {"rose/new.jpg": jpeg(900)})
    assert update(data_dir, version="2.0.0").is_new
    assert opened == [str(source / "rose/new.jpg")]
    # Files of the same size may come with a folder that was made before.
    other = class_tree(source.parent / "other", {"rose": 20})
    data = bytearray((other / "rose/000.jpg").read_bytes())
    data[-20] ^= 1
    (other / "rose/000.jpg").write_bytes(data)
    shutil.rmtree(source / "rose")
    os.rename(other / "rose", source / "rose")
    updated = update(data_dir, version="3.0.0")
    assert updated.difference is not None
    assert updated.difference.counts["changed"] == 1


def test_without_its_note_a_dataset_asks_for_its_source_and_gives_the_same_bytes(
    source: Path, data_dir: Path, tmp_path: Path
) -> None:
    pack(source, data_dir)
    shutil.copytree(data_dir, tmp_path / "copy")
    change(source)
    without_note(tmp_path / "copy")
    with pytest.raises(UsageError, match=r"the source of .* is unknown") as caught:
        update(tmp_path / "copy")
    assert caught.value.hint == "give it: imgrec update flowers SOURCE"
    copied = update(tmp_path / "copy", source)
    assert files(copied.info.path) == files(update(data_dir).info.path)


def test_a_source_that_is_gone_is_asked_for(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    os.rename(source, source.with_name("elsewhere"))
    with pytest.raises(SourceError, match=r"from which flowers:1\.0\.0 was packed, does not exist"):
        update(data_dir)
    assert not update(data_dir, source.with_name("elsewhere")).is_new


def test_a_version_that_exists_is_not_made_again(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    pack(source, data_dir, version="1.1.0", seed=1)
    with pytest.raises(DatasetExists, match=r"1\.1\.0 exists already"):
        imgrec.update("flowers:1.0.0", data_dir=data_dir)


def test_new_folders_must_not_change_what_the_others_mean(source: Path, data_dir: Path) -> None:
    root = source.parent / "root"
    for split in ("train", "test"):
        shutil.copytree(source, root / split)
    shutil.rmtree(root / "test")
    class_tree(root / "train", {"lily": 3}, start=700)
    pack(source, data_dir)
    shutil.rmtree(source)
    for split in ("train", "val"):
        class_tree(source / split, CLASSES, start=len(split))
    with pytest.raises(SourceError, match=r"is now read as <split>/<class>"):
        update(data_dir)


@pytest.mark.usefixtures("asking")
def test_images_in_a_new_folder_called_val_are_asked_about(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    write_tree(source, {"val/new.jpg": jpeg(900)})
    with pytest.raises(SourceError, match="val may be a split or a class") as caught:
        update(data_dir)
    assert caught.value.hint.endswith(
        "(options but --yes are those of imgrec pack --split-from flowers:1.0.0)"
    )
    assert update(data_dir, yes=True).info.classes == ("rose", "tulip", "val")


@pytest.mark.usefixtures("asking")
@pytest.mark.parametrize("compact", [False, True])
def test_a_source_that_lost_a_quarter_of_its_images_is_asked_about(
    source: Path, data_dir: Path, compact: bool
) -> None:
    before = facts(pack(source, data_dir))
    for path in sorted(source.rglob("*.jpg"))[::2]:
        path.unlink()
    with pytest.raises(
        PlanError, match=r"images of flowers:1\.0\.0 are not in the source any more"
    ):
        update(data_dir, compact=compact)
    assert len(facts(update(data_dir, compact=compact, yes=True).info.path)) < len(before)


def test_a_group_that_would_be_divided_is_refused(tmp_path: Path, data_dir: Path) -> None:
    images = class_tree(tmp_path / "photos", {"a": 30})
    table = tmp_path / "labels.csv"

    def write(groups: list[str]) -> None:
        rows = [f"a/{n:03d}.jpg,{'xy'[n % 2]},{group}" for n, group in enumerate(groups)]
        table.write_text("\n".join(["path,label,patient", *rows]) + "\n")

    groups = [f"P{n}" for n in range(30)]
    write(groups)
    before = facts(pack(table, data_dir, images=images, group_col="patient"))
    split_of = {int(name[2:5]): split for name, (split, _, _) in before.items()}
    one = next(n for n, split in split_of.items() if split == "train")
    other = next(n for n, split in split_of.items() if split == "val")
    groups[one] = groups[other]
    write(groups)
    with pytest.raises(PlanError, match=rf"such as P{other} in train and val"):
        update(data_dir)
    assert imgrec.verify(update(data_dir, yes=True).info.path).faults == ()


def test_the_images_of_a_table_may_be_moved(tmp_path: Path, data_dir: Path) -> None:
    images = class_tree(tmp_path / "photos", {"a": 12})
    table = tmp_path / "labels.csv"
    rows = [f"a/{n:03d}.jpg,{'xy'[n % 2]}" for n in range(12)]
    table.write_text("\n".join(["path,label", *rows]) + "\n")
    pack(table, data_dir, images=images)
    moved = tmp_path / "elsewhere"
    os.rename(images, moved)
    with pytest.raises(SourceError):
        update(data_dir)
    assert not update(data_dir, images=moved).is_new
    without_note(data_dir)
    with pytest.raises(UsageError, match="no private note says where"):
        update(data_dir, table)
    assert not update(data_dir, table, images=moved).is_new


def test_compact_gives_the_bytes_of_split_from(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    change(source)
    compact = update(data_dir, compact=True)
    again = pack(source, data_dir, version="1.1.0", split_from="flowers:1.0.0", overwrite=True)
    assert (compact.reused_shards, compact.is_new) == (0, True)
    assert files(again) == files(compact.info.path)


def test_files_that_globs_leave_out_are_counted_once(source: Path, data_dir: Path) -> None:
    class_tree(source, {"draft": 3}, start=800)
    pack(source, data_dir, exclude="draft/*")
    class_tree(source, {"draft": 5}, start=800)
    write_tree(source, {"rose/new.jpg": jpeg(900)})
    updated = update(data_dir)
    assert [(kind.kind, kind.count) for kind in updated.report.ignored] == [
        ("left out by --exclude draft/*", 5)
    ]
    assert updated.report.skipped == ()


def test_a_new_copy_of_an_image_joins_its_split(source: Path, data_dir: Path) -> None:
    before = facts(pack(source, data_dir))
    name = next(name for name, (split, _, _) in before.items() if split == "val")
    shutil.copy(source / name, source / "rose/copy.jpg")
    updated = update(data_dir)
    assert facts(updated.info.path)["rose/copy.jpg"][0] == "val"
    assert faults(updated, source) == ()


def test_the_summary_shows_copies_and_conflicting_labels(
    source: Path, data_dir: Path, cli: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    pack(source, data_dir)
    name = next(iter(sorted(source.glob("rose/*.jpg")))).name
    shutil.copy(source / "rose" / name, source / "tulip/again.jpg")
    shown = cli("update", "flowers", "--data-dir", data_dir).stdout
    for title, what in (("duplicates", "more than once"), ("conflicts", "under more than one la")):
        assert re.search(rf"^{title} +\d+ images? {what}", shown, re.MULTILINE)
    assert f"rose/{name} = tulip/again.jpg" in shown


def test_options_that_an_update_sets_are_no_differences(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    for name in ("new.jpg", "newer.jpg"):
        write_tree(source, {f"rose/{name}": jpeg(len(name) + 60)})
        updated = update(data_dir)
        assert updated.difference is not None
        assert updated.difference.options == ()


def test_new_images_of_the_dataset_whose_splits_were_kept_join_them(
    source: Path, data_dir: Path
) -> None:
    held_out = class_tree(source.parent / "other/test", {"rose": 4}, start=900).parent
    class_tree(held_out / "train", {"rose": 4}, start=950)
    imgrec.pack(held_out, name="other", data_dir=data_dir, workers=1)
    shutil.copy(held_out / "test/rose/000.jpg", source / "rose/shared.jpg")
    pack(source, data_dir, split_from="other")
    for number, version in ((1, "2.0.0"), (2, "3.0.0")):
        shutil.copy(held_out / f"test/rose/00{number}.jpg", source / f"rose/new{number}.jpg")
        updated = update(data_dir, version=version)
        assert facts(updated.info.path)[f"rose/new{number}.jpg"][0] == "test"


def test_a_near_duplicate_of_an_image_joins_its_split(source: Path, data_dir: Path) -> None:
    large = jpeg(321, (400, 300), quality=95)
    write_tree(source, {"rose/large.jpg": large})
    before = facts(pack(source, data_dir, near_dups="group"))
    smaller = imgrec.open_dataset(data_dir / "flowers")["all"].find("rose/large.jpg").pil()
    write_tree(source, {"tulip/small.jpg": encode(smaller.resize((320, 240)), "JPEG")})
    after = facts(update(data_dir).info.path)
    assert after["tulip/small.jpg"][0] == before["rose/large.jpg"][0]


@pytest.mark.parametrize("after", [1, 3])
def test_an_update_that_was_cut_off_goes_on_and_gives_the_same_bytes(
    source: Path, data_dir: Path, tmp_path: Path, after: int
) -> None:
    pack(source, data_dir)
    shutil.copytree(data_dir, tmp_path / "whole")
    for name in ("001", "002", "007", "011", "015"):
        (source / f"rose/{name}.jpg").unlink()
    change(source)
    calls = 0

    def cut_off(stage: str, _count: int, _total: int | None) -> None:
        nonlocal calls
        calls += stage == "pack"
        if calls > after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(data_dir, on_progress=cut_off)
    assert not (data_dir / "flowers/1.1.0").exists()
    updated = update(data_dir)
    assert files(updated.info.path) == files(update(tmp_path / "whole").info.path)


@pytest.mark.slow
@pytest.mark.processes
def test_an_update_that_is_killed_leaves_nothing_and_goes_on(
    source: Path, data_dir: Path, tmp_path: Path
) -> None:
    for name in CLASSES:
        for number in range(20, 120):
            write_tree(source, {f"{name}/{number:03d}.jpg": jpeg(number + len(name) * 1000)})
    pack(source, data_dir, shards=24)
    for path in sorted(source.glob("*/*[05].jpg")):
        path.unlink()
    shutil.copytree(data_dir, tmp_path / "whole")
    command = [sys.executable, "-m", "imgrec", "update", "flowers", "--data-dir", str(data_dir)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen([*command, "--workers", "1"], env=environment) as process:
        notes = data_dir / "flowers/.1.1.0.incomplete/.notes"
        end = time.monotonic() + 90
        while not notes.exists() or len(os.listdir(notes)) < 6:
            assert time.monotonic() < end
            time.sleep(0.005)
        process.kill()
    assert not (data_dir / "flowers/1.1.0").exists()
    updated = update(data_dir)
    assert updated.kept_shards >= 4
    assert files(updated.info.path) == files(update(tmp_path / "whole").info.path)


@pytest.mark.processes
def test_any_number_of_workers_gives_the_same_bytes(
    source: Path, data_dir: Path, tmp_path: Path
) -> None:
    pack(source, data_dir)
    shutil.copytree(data_dir, tmp_path / "copy")
    change(source)
    one, two = update(data_dir, workers=1), update(tmp_path / "copy", workers=2)
    assert files(one.info.path) == files(two.info.path)


# Every kind of source and of shards.


def table(root: Path, rows: list[str]) -> None:
    (root / "labels.csv").write_text("\n".join(["path,label,who,age", *rows]) + "\n")


def make_table(root: Path) -> dict[str, object]:
    class_tree(root / "images", {"a": 12})
    table(root, [f"images/a/{n:03d}.jpg,{'xy'[n % 2]},p{n // 2},{n}.5" for n in range(12)])
    return {"column": "age", "group_col": "who", "manifest": "labels.csv"}


def change_table(root: Path) -> None:
    class_tree(root / "images", {"b": 3}, start=600)
    (root / "images/a/011.jpg").unlink()
    rows = [f"images/a/{n:03d}.jpg,{'yx'[n % 2 or n > 9]},p{n // 2},{n}.5" for n in range(11)]
    table(root, [*rows, *(f"images/b/{n:03d}.jpg,x,p{n},-1" for n in range(3))])


def make_multilabel(root: Path) -> dict[str, object]:
    class_tree(root / "images", {"a": 12})
    rows = [f"images/a/{n:03d}.jpg,{'x|y' if n % 3 else 'y'},p,0" for n in range(12)]
    table(root, rows)
    return {"label_sep": "|", "manifest": "labels.csv"}


def change_multilabel(root: Path) -> None:
    class_tree(root / "images", {"b": 3}, start=600)
    (root / "images/a/011.jpg").unlink()
    rows = [f"images/a/{n:03d}.jpg,{'x|y' if n % 4 else 'z'},p,0" for n in range(11)]
    table(root, [*rows, *(f"images/b/{n:03d}.jpg,x,p,0" for n in range(3))])


def make_mixed(root: Path) -> dict[str, object]:
    """Images that are transcoded, and a name that is not UTF-8."""
    class_tree(root, {"a": 8, "b": 8})
    for n in range(4):
        write_tree(root, {f"a/{n}.gif": encode(picture(n + 50), "GIF")})
    (root / os.fsdecode(b"b/caf\xe9.jpg")).write_bytes(jpeg(77))
    return {}


def change_mixed(root: Path) -> None:
    write_tree(root, {"a/9.gif": encode(picture(99), "GIF"), "b/new.png": png(98)})
    (root / "a/2.gif").unlink()
    (root / "b/003.jpg").unlink()


def make_large(root: Path) -> dict[str, object]:
    for n in range(12):
        side = 60 if n % 3 else 30
        write_tree(root, {f"{'ab'[n % 2]}/{n}.jpg": jpeg(n, (side, side))})
        write_tree(root, {f"{'ab'[n % 2]}/{n}.gif": encode(picture(n + 50, size=(90, 70)), "GIF")})
    return {"short_side": 32}


def change_large(root: Path) -> None:
    for name in ("a/0.jpg", "a/4.jpg", "b/5.gif", "a/6.gif"):
        (root / name).unlink()
    write_tree(root, {"a/new.jpg": jpeg(300, (80, 90)), "b/small.jpg": jpeg(301, (20, 20))})


def make_splits(root: Path) -> dict[str, object]:
    class_tree(root / "train", {"a": 8, "b": 8})
    class_tree(root / "test", {"a": 3, "b": 3}, start=100)
    shutil.copy(root / "test/a/000.jpg", root / "train/a/leak.jpg")
    return {"on_leak": "drop", "val_split": 0.25}


def change_splits(root: Path) -> None:
    class_tree(root / "train", {"c": 4}, start=200)
    os.rename(root / "train/a/001.jpg", root / "test/a/001b.jpg")
    (root / "test/b/000.jpg").unlink()


def make_classes(root: Path) -> dict[str, object]:
    class_tree(root, {"a": 10, "b": 10})
    return {}


def change_classes(root: Path) -> None:
    class_tree(root, {"c": 3}, start=200)
    (root / "a/001.jpg").unlink()
    os.rename(root / "b/002.jpg", root / "b/renamed.jpg")


KINDS: dict[str, tuple[Callable[[Path], dict[str, object]], Callable[[Path], None]]] = {
    "table": (make_table, change_table),
    "several labels": (make_multilabel, change_multilabel),
    "mixed formats": (make_mixed, change_mixed),
    "shrunk": (make_large, change_large),
    "splits": (make_splits, change_splits),
    "classes": (make_classes, change_classes),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "options",
    [{}, {"compression": "gzip"}, {"near_dups": "group", "folds": 3, "val_split": 0.0}],
    ids=["plain", "gzip", "folds"],
)
def test_each_kind_of_source_and_shard_grows(
    tmp_path: Path, data_dir: Path, kind: str, options: dict[str, object]
) -> None:
    root = tmp_path / "source"
    make, change_it = KINDS[kind]
    pack(root, data_dir, **{**make(root), **options})
    change_it(root)
    updated = update(data_dir)
    assert updated.is_new
    assert faults(updated, root) == ()
    assert imgrec.verify(data_dir / "flowers/1.0.0").faults == ()
    assert not update(data_dir).is_new
    assert not update(data_dir, rehash=True).is_new


def test_archives_and_array_records_grow(tmp_path: Path, data_dir: Path) -> None:
    pytest.importorskip("array_record")
    root = class_tree(tmp_path / "flowers", {"a": 10, "b": 10})
    archive = Path(shutil.make_archive(str(tmp_path / "flowers"), "zip", root))
    pack(archive, data_dir, also="array_record")
    assert not update(data_dir).is_new
    change_classes(root)
    shutil.make_archive(str(tmp_path / "flowers"), "zip", root)
    updated = update(data_dir)
    assert faults(updated, archive) == ()
    assert updated.reused_shards > 0


def test_arrays_grow(tmp_path: Path, data_dir: Path) -> None:
    numpy = pytest.importorskip("numpy")
    images = numpy.random.default_rng(0).integers(0, 255, (30, 8, 8), numpy.uint8)
    labels = numpy.arange(30) % 2
    numpy.savez(tmp_path / "digits.npz", x_train=images[:20], y_train=labels[:20])
    pack(tmp_path / "digits.npz", data_dir)
    assert not update(data_dir).is_new
    numpy.savez(tmp_path / "digits.npz", x_train=images, y_train=labels)
    updated = update(data_dir)
    assert updated.difference is not None
    assert updated.difference.counts["added"] == 10
    assert updated.reused_shards == 5
    assert faults(updated, tmp_path / "digits.npz") == ()


# Any history.

EDITS = st.lists(
    st.tuples(
        st.sampled_from(["add", "remove", "rename", "change", "copy"]),
        st.integers(0, 11),
        st.sampled_from(["rose", "tulip", "aster"]),
    ),
    max_size=6,
)


@given(st.lists(EDITS, min_size=1, max_size=3))
@examples(40)
def test_any_history_is_verified_and_leaves_no_leak(
    tmp_path_factory: pytest.TempPathFactory, history: list[list[tuple[str, int, str]]]
) -> None:
    folder = tmp_path_factory.mktemp("history")
    source, data_dir = class_tree(folder / "flowers", {"rose": 6, "tulip": 6}), folder / "data"
    pack(source, data_dir, thumbnails=0, near_dups="off")
    seed = 500
    for edits in history:
        for action, number, name in edits:
            paths = sorted(source.rglob("*.jpg"))
            chosen, seed = paths[number % len(paths)], seed + 1
            if action == "add":
                write_tree(source, {f"{name}/{seed}.jpg": jpeg(seed)})
            elif action == "change":
                chosen.write_bytes(jpeg(seed))
            elif action == "remove" and len(paths) > 6:
                chosen.unlink()
            elif action in ("rename", "copy"):
                target = source / name / f"{seed}.jpg"
                target.parent.mkdir(exist_ok=True)
                (shutil.copy if action == "copy" else os.rename)(chosen, target)
        before = facts(imgrec.info("flowers", data_dir=data_dir).path)
        updated = update(data_dir)
        after = facts(updated.info.path)
        assert faults(updated, source) == ()
        for name, (split, _, image) in after.items():
            if name in before and before[name][2] == image:
                assert before[name][0] == split


def test_the_note_remembers_options_of_every_type(tmp_path: Path, data_dir: Path) -> None:
    root = tmp_path / "source"
    make_table(root)
    pack(
        root,
        data_dir,
        manifest="labels.csv",
        column=["age:float=-1", "who"],
        map={"x": "ex"},
        exclude="*/011.jpg",
        card={"license": "cc0"},
    )
    note = json.loads((data_dir / "flowers/.1.0.0.origin.json").read_text())
    assert note["options"]["source"]["map"] == [["x", "ex"]]
    change_table(root)
    updated = update(data_dir)
    assert updated.info.classes == ("ex", "y")
    assert updated.info.about.license == "cc0"
    assert faults(updated, root) == ()


def test_the_command_says_what_changed_and_what_was_reused(
    source: Path, data_dir: Path, cli: Callable[..., object]
) -> None:
    pack(source, data_dir)
    change(source)
    ran = cli("update", "flowers", "--data-dir", data_dir, "--workers", "1")
    text: str = ran.stdout  # type: ignore[attr-defined]
    assert "images      40 -> 42: 3 added, 1 removed, 1 changed, 1 renamed, 1 relabelled" in text
    assert "shards, wrote" in text
    again = cli("update", "flowers", "--data-dir", data_dir, "--json")
    value = json.loads(again.stdout)  # type: ignore[attr-defined]
    assert (value["is_new"], value["difference"]) == (False, None)
