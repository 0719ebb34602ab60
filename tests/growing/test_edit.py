"""`imgrec edit`: corrections of a dataset as its next version."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from pictures import class_tree, encode, jpeg, picture, write_tree
from PIL import Image
from test_update import facts, faults, files, make_multilabel, pack, update, without_note

import imgrec
from imgrec.errors import SourceError
from imgrec.packing.next_version import Updated


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = class_tree(tmp_path / "flowers", {"rose": 20, "tulip": 20})
    shutil.copy(root / "rose/000.jpg", root / "rose/copy.jpg")
    return write_tree(
        root, {"rose/anim.gif": encode(picture(50), "GIF"), "rose/bad.jpg": b"\xff\xd8"}
    )


def edit(data_dir: Path, *rows: str, name: str = "edits.csv", **options: object) -> Updated:
    header = rows[0] if rows[0].startswith("filename") else "filename,action,label,split"
    lines = [header, *(row for row in rows if row != header)]
    path = data_dir.parent / name
    path.write_text("\n".join(lines) + "\n")
    return imgrec.edit("flowers", path, data_dir=data_dir, **options)  # type: ignore[arg-type]


def test_images_are_relabelled_dropped_and_moved_without_the_source(
    source: Path, data_dir: Path
) -> None:
    before = facts(pack(source, data_dir))
    os.rename(source, source.with_name("away"))
    moved = next(name for name, (split, _, _) in before.items() if split == "val")
    edited = edit(
        data_dir, "rose/001.jpg,relabel,tulip,", "rose/002.jpg,drop,,", f"{moved},move,,train"
    )
    after = facts(edited.info.path)
    split, _, image = before["rose/001.jpg"]
    assert after["rose/001.jpg"] == (split, "tulip", image)
    assert "rose/002.jpg" not in after
    assert after[moved] == ("train", *before[moved][1:])
    others = before.keys() - {"rose/001.jpg", "rose/002.jpg", moved}
    assert all(after[name] == before[name] for name in others)
    assert edited.difference is not None
    counts = {"added": 0, "removed": 1, "changed": 0, "renamed": 0, "relabelled": 1, "moved": 1}
    assert edited.difference.counts == counts
    assert edited.reused_shards > 0
    assert faults(edited, source.with_name("away")) == ()


def test_an_edit_needs_neither_source_nor_note(tmp_path: Path, data_dir: Path) -> None:
    images = class_tree(tmp_path / "images", {"a": 12})
    table = tmp_path / "labels.csv"
    rows = [f"a/{n:03d}.jpg,{'xy'[n % 2]}" for n in range(12)]
    table.write_text("\n".join(["path,label", *rows]) + "\n")
    pack(table, data_dir, images=images)
    without_note(data_dir)
    shutil.rmtree(images)
    edited = edit(data_dir, "filename,label", "a/001.jpg,x")
    assert edited.difference is not None
    assert edited.difference.counts["relabelled"] == 1
    assert imgrec.verify(edited.info.path).faults == ()


def test_no_image_is_decoded(source: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pack(source, data_dir)
    monkeypatch.setattr("imgrec.write.shard.prepare", None)
    assert edit(data_dir, "filename,label", "rose/001.jpg,tulip").is_new


@pytest.mark.parametrize("compact", [False, True])
def test_corrections_survive_the_next_update(source: Path, data_dir: Path, compact: bool) -> None:
    pack(source, data_dir)
    edit(data_dir, "rose/001.jpg,relabel,tulip,", "rose/002.jpg,drop,,")
    assert not update(data_dir).is_new
    write_tree(source, {"rose/new.jpg": jpeg(900)})
    os.rename(source / "rose/002.jpg", source / "rose/002_renamed.jpg")
    updated = update(data_dir, compact=compact)
    after = facts(updated.info.path)
    assert after["rose/001.jpg"][1] == "tulip"
    assert not {"rose/002.jpg", "rose/002_renamed.jpg"} & after.keys()
    assert "rose/new.jpg" in after
    assert "dropped by imgrec edit" in {note.reason for note in updated.report.skipped}
    assert faults(updated, source) == ()


def test_corrections_follow_files_that_are_encoded_anew_and_then_renamed(
    source: Path, data_dir: Path
) -> None:
    pack(source, data_dir)
    edit(data_dir, "rose/001.jpg,relabel,tulip,", "rose/002.jpg,drop,,")
    write_tree(source, {"rose/001.jpg": jpeg(901), "rose/002.jpg": jpeg(902)})
    assert update(data_dir).is_new
    os.rename(source / "rose/001.jpg", source / "rose/one.jpg")
    os.rename(source / "rose/002.jpg", source / "rose/two.jpg")
    after = facts(update(data_dir).info.path)
    assert after["rose/one.jpg"][1] == "tulip"
    assert "rose/two.jpg" not in after


@pytest.mark.parametrize("compact", [False, True])
def test_new_copies_of_a_corrected_picture_are_corrected(
    source: Path, data_dir: Path, compact: bool
) -> None:
    pack(source, data_dir)
    edit(data_dir, "rose/001.jpg,relabel,tulip,", "rose/002.jpg,drop,,", "rose/copy.jpg,drop,,")
    for number in ("000", "001", "002"):
        shutil.copy(source / f"rose/{number}.jpg", source / f"rose/copy_{number}.jpg")
    after = facts(update(data_dir, compact=compact).info.path)
    assert after["rose/copy_001.jpg"][1] == "tulip"
    assert "rose/copy_002.jpg" not in after
    # Only one of two copies was dropped, so the picture itself is wanted.
    assert "rose/copy_000.jpg" in after


def test_pack_with_the_splits_of_an_edited_version_has_its_corrections(
    source: Path, data_dir: Path
) -> None:
    pack(source, data_dir)
    edit(data_dir, "rose/001.jpg,relabel,tulip,", "rose/002.jpg,drop,,")
    write_tree(source, {"rose/003.jpg": jpeg(903)})
    before = facts(data_dir / "flowers/1.1.0")
    compact = update(data_dir, compact=True)
    again = pack(source, data_dir, version="1.2.0", split_from="flowers:1.1.0", overwrite=True)
    assert files(again) == files(compact.info.path)
    after = facts(again)
    assert {name: after[name][:2] for name in after} == {name: before[name][:2] for name in before}
    other = imgrec.pack(
        source, data_dir=data_dir, name="petals", split_from="flowers:1.1.0", val_split=0.2
    )
    assert any("imgrec edit) are not applied" in warning for warning in other.report.warnings)


def test_a_dropped_image_is_restored_by_the_next_update(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    edit(data_dir, "rose/002.jpg,drop,,", "rose/003.jpg,drop,,")
    with pytest.raises(SourceError, match=r"rose/002\.jpg was dropped by an earlier edit"):
        edit(data_dir, "rose/002.jpg,relabel,tulip,")
    with pytest.raises(SourceError, match=r"line 3: rose/002\.jpg is restored in another row"):
        edit(data_dir, "rose/002.jpg,restore,,", "rose/002.jpg,drop,,")
    edited = edit(data_dir, "rose/002.jpg,restore,,", "rose/003.jpg,drop,,")
    assert (edited.restored, edited.reused_shards) == (1, edited.shards)
    after = facts(update(data_dir).info.path)
    assert "rose/002.jpg" in after
    assert "rose/003.jpg" not in after
    with pytest.raises(SourceError, match=r"rose/002\.jpg was not dropped"):
        edit(data_dir, "rose/002.jpg,restore,,")


def test_tables_of_spreadsheets_are_read_and_columns_that_mean_nothing_are_named(
    source: Path, data_dir: Path
) -> None:
    pack(source, data_dir)
    edited = edit(
        data_dir,
        "filename;Action;Label;Split;remark",
        "rose/001.jpg;Move;;VALIDATION;blurred",
        ";;;;",
    )
    assert facts(edited.info.path)["rose/001.jpg"][0] == "val"
    assert edited.unused_columns == ("remark",)
    with pytest.raises(SourceError, match="no clear columns: it has filename, label, new_label"):
        edit(data_dir, "filename,label,new_label", "rose/002.jpg,rose,tulip")


def test_later_corrections_win(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    edit(data_dir, "filename,label", "rose/001.jpg,tulip")
    edited = edit(data_dir, "filename,label", "rose/001.jpg,rose", "rose/003.jpg,tulip")
    table = Path(edited.info.path, "edits.csv").read_text().splitlines()
    assert [row.rpartition(",")[0] for row in table] == [
        "filename,action,label,split",
        "rose/001.jpg,relabel,rose,",
        "rose/003.jpg,relabel,tulip,",
    ]


def test_an_edit_without_effect_writes_nothing(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    assert not edit(data_dir, "filename,label", "rose/001.jpg,rose").is_new
    assert sorted(os.listdir(data_dir / "flowers")) == [".1.0.0.origin.json", "1.0.0"]


def test_near_duplicates_that_are_left_are_still_known(tmp_path: Path, data_dir: Path) -> None:
    def drawn(seed: int, quality: int) -> bytes:
        large = picture(seed, size=(12, 10)).resize((48, 40), Image.Resampling.BICUBIC)
        return encode(large, "JPEG", quality=quality)

    names = ("train/oak/a", "test/oak/b", "train/oak/c")
    files = {
        f"{name}{seed}.jpg": drawn(seed, 95 - at)
        for at, name in enumerate(names)
        for seed in (1, 2, 3)
    }
    pack(write_tree(tmp_path / "trees", files), data_dir, near_dups="report", val_split=0)
    rows = ["test/oak/b1.jpg,drop,,", "test/oak/b2.jpg,drop,,", "train/oak/c2.jpg,drop,,"]
    near = edit(data_dir, *rows).report.near_duplicates
    assert near is not None
    assert (near.looked_at, near.groups, near.across_splits) == (6, 2, 1)
    assert [sorted(group.files) for group in near.examples] == [
        ["test/oak/b3.jpg", "train/oak/a3.jpg", "train/oak/c3.jpg"],
        ["train/oak/a1.jpg", "train/oak/c1.jpg"],
    ]
    near = edit(
        data_dir, "train/oak/a3.jpg,move,,test", "train/oak/c3.jpg,move,,test"
    ).report.near_duplicates
    assert near is not None
    assert (near.groups, near.across_splits) == (2, 0)


def test_a_moved_image_takes_its_copies_along(source: Path, data_dir: Path) -> None:
    before = facts(pack(source, data_dir))
    target = "train" if before["rose/000.jpg"][0] == "val" else "val"
    edited = edit(data_dir, f"rose/000.jpg,move,,{target}")
    assert facts(edited.info.path)["rose/copy.jpg"][0] == target
    assert faults(edited, source) == ()


def test_a_relabelled_image_takes_its_copies_along(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    edited = edit(data_dir, "filename,label", "rose/000.jpg,tulip")
    assert facts(edited.info.path)["rose/copy.jpg"][1] == "tulip"
    assert edited.report.conflicts == ()
    assert not update(data_dir).is_new


def test_a_dropped_copy_is_not_relabelled(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    edited = edit(data_dir, "rose/000.jpg,relabel,tulip,", "rose/copy.jpg,drop,,")
    assert "rose/copy.jpg" not in facts(edited.info.path)


def test_copies_of_an_image_must_not_get_different_labels(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    with pytest.raises(SourceError) as caught:
        edit(data_dir, "filename,label", "rose/000.jpg,tulip", "rose/copy.jpg,rose")
    what = "rose/000.jpg = rose/copy.jpg are one image, but get different labels"
    assert what in caught.value.message


def test_every_row_that_cannot_be_used_is_named_at_once(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    with pytest.raises(SourceError) as caught:
        edit(
            data_dir,
            "rose/none.jpg,drop,,",
            "rose/001.jpg,relabel,tulp,",
            "rose/001.jpg,turn,,",
            "rose/002.jpg,move,,elsewhere",
            "rose/003.jpg,relabel,,",
            "rose/004.jpg,drop,,",
            "rose/004.jpg,relabel,tulip,",
            "rose/000.jpg,move,,val",
            "rose/copy.jpg,move,,train",
        )
    assert caught.value.message.partition(" cannot be applied: ")[2].split("; ") == [
        "rose/000.jpg = rose/copy.jpg are one image, but go to different splits",
        "line 2: no image 'rose/none.jpg' (did you mean rose/copy.jpg?)",
        "line 3: no class 'tulp' (did you mean tulip?)",
        "line 4: 'turn' is not relabel, drop or move",
        "line 5: no split 'elsewhere': there is train, val",
        "line 6: relabel needs a label",
        "line 8: rose/004.jpg has another correction already",
    ]
    assert sorted(os.listdir(data_dir / "flowers")) == [".1.0.0.origin.json", "1.0.0"]


def test_new_classes_must_be_asked_for(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    rows = ("filename,label", "rose/001.jpg,aster")
    with pytest.raises(SourceError, match="no class 'aster'"):
        edit(data_dir, *rows)
    edited = edit(data_dir, *rows, new_classes=True)
    assert edited.info.classes == ("rose", "tulip", "aster")
    assert not update(data_dir).is_new


def test_a_move_must_not_divide_a_group(source: Path, data_dir: Path) -> None:
    pack(source, data_dir, group_by=r"/(\d\d)\d\.jpg$")
    name = next(name for name, (split, _, _) in facts(data_dir / "flowers/1.0.0").items()
                if split == "train" and "/00" in name)  # fmt: skip
    with pytest.raises(SourceError, match="the group 00 would be in train and val"):
        edit(data_dir, f"{name},move,,val")


@pytest.mark.parametrize("options", [{}, {"compression": "gzip"}], ids=["plain", "gzip"])
def test_images_with_several_labels_are_relabelled(
    tmp_path: Path, data_dir: Path, options: dict[str, object]
) -> None:
    root = tmp_path / "source"
    pack(root, data_dir, **make_multilabel(root), **options)
    edited = edit(data_dir, "filename,label", "images/a/003.jpg,x|y", "images/a/001.jpg,y")
    after = facts(edited.info.path)
    assert after["images/a/003.jpg"][1] == "x y"
    assert after["images/a/001.jpg"][1] == "y"
    assert faults(edited, root) == ()
    assert not update(data_dir).is_new


def test_names_that_are_not_utf_8_are_kept(source: Path, data_dir: Path) -> None:
    (source / os.fsdecode(b"rose/caf\xe9.jpg")).write_bytes(jpeg(77))
    pack(source, data_dir, shards=1)
    edited = edit(data_dir, "rose/caf\\udce9.jpg,relabel,tulip,", "rose/001.jpg,drop,,")
    assert facts(edited.info.path)["rose/caf\udce9.jpg"][1] == "tulip"
    assert faults(edited, source) == ()


def test_an_edit_that_was_cut_off_goes_on_and_gives_the_same_bytes(
    source: Path, data_dir: Path, tmp_path: Path
) -> None:
    pack(source, data_dir)
    shutil.copytree(data_dir, tmp_path / "whole/data")
    rows = [f"rose/{n:03d}.jpg,tulip" for n in range(1, 20, 3)]
    calls = 0

    def cut_off(stage: str, _count: int, _total: int | None) -> None:
        nonlocal calls
        calls += stage == "pack"
        if calls > 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        edit(data_dir, "filename,label", *rows, on_progress=cut_off)
    edited = edit(data_dir, "filename,label", *rows)
    whole = edit(tmp_path / "whole/data", "filename,label", *rows)
    assert files(edited.info.path) == files(whole.info.path)


def test_the_command_shows_the_difference(
    source: Path, data_dir: Path, cli: Callable[..., object], tmp_path: Path
) -> None:
    pack(source, data_dir)
    (tmp_path / "labels.tsv").write_text("filename\tlabel\nrose/001.jpg\ttulip\n")
    ran = cli("edit", "flowers", tmp_path / "labels.tsv", "--data-dir", data_dir, "--json")
    value = json.loads(ran.stdout)  # type: ignore[attr-defined]
    assert value["difference"]["counts"]["relabelled"] == 1
    assert (value["version"], value["earlier"]["version"]) == ("1.1.0", "1.0.0")
