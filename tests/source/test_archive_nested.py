"""Archives that stand in the place of folders are opened, one level deep."""

from __future__ import annotations

from pathlib import Path

import pytest
from archives import (
    COMPRESS,
    DEFLATED,
    FLOWERS,
    STORED,
    contents,
    found,
    ignored,
    lister_of,
    names,
    tar_bytes,
    wrapped,
    written,
    zip_bytes,
)
from pictures import jpeg

from imgrec.errors import SourceError


@pytest.mark.parametrize("outer", ["folder", "zip", "tar", "tar.gz"])
@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_archives_in_the_place_of_folders_are_opened(
    tmp_path: Path, outer: str, method: int
) -> None:
    train = {f"train/{name}": data for name, data in FLOWERS.items()}
    tree = {
        "train.zip": zip_bytes(train, method),
        "test.tar.gz": COMPRESS[".gz"](tar_bytes({"test/1.jpg": jpeg(7)})),
        "train.csv": b"id,label\n",
    }
    catalog = found(wrapped(tmp_path, outer, tree, method))
    assert contents(catalog) == {"test/1.jpg": jpeg(7), **train}
    assert {(s.split, s.class_name) for s in catalog.samples} == {
        ("test", ""), ("train", "rose"), ("train", "tulip"),
    }  # fmt: skip
    assert catalog.warnings == ("train.csv is not used: none of its columns names images",)


@pytest.mark.parametrize("outer", ["folder", "zip"])
def test_an_archive_alone_is_the_source(tmp_path: Path, outer: str) -> None:
    assert names(found(wrapped(tmp_path, outer, {"images.zip": zip_bytes(FLOWERS)}))) == list(
        FLOWERS
    )


def test_an_archive_alone_that_is_a_split_stays_one(tmp_path: Path) -> None:
    catalog = found(wrapped(tmp_path, "zip", {"train.zip": zip_bytes(FLOWERS)}))
    assert {s.split for s in catalog.samples} == {"train"}


def test_an_extra_folder_around_archives_is_left_out(tmp_path: Path) -> None:
    tree = {"kaggle/train.zip": zip_bytes(FLOWERS), "kaggle/labels.csv": b"x"}
    assert names(found(wrapped(tmp_path, "zip", tree))) == [f"train/{name}" for name in FLOWERS]


@pytest.mark.parametrize("outer", ["folder", "zip"])
def test_archives_beside_images_are_left_alone_and_named(tmp_path: Path, outer: str) -> None:
    tree = {"a-first.zip": zip_bytes(FLOWERS), **FLOWERS, "tulip/more.zip": zip_bytes(FLOWERS)}
    catalog = found(wrapped(tmp_path, outer, tree))
    assert names(catalog) == list(FLOWERS)
    assert ignored(catalog) == {"archive beside images": 2}
    assert catalog.warnings == (
        "a-first.zip, tulip/more.zip: not opened because there are images beside archives",
    )


def test_archives_in_inner_archives_are_not_opened_and_named(tmp_path: Path) -> None:
    inner = zip_bytes({**FLOWERS, "rose/deep.zip": zip_bytes(FLOWERS)})
    catalog = found(wrapped(tmp_path, "zip", {"train.zip": inner, "x.csv": b""}))
    assert names(catalog) == [f"train/{name}" for name in FLOWERS]
    assert ignored(catalog) == {
        "archive inside an inner archive": 1, "outside a class folder": 1,
    }  # fmt: skip
    assert catalog.warnings == (
        "train/rose/deep.zip: not opened, because archives are opened one level deep",
    )


def test_two_archives_for_one_folder_are_an_error(tmp_path: Path) -> None:
    tree = {"a.zip": zip_bytes(FLOWERS), "a.tar": tar_bytes(FLOWERS)}
    with pytest.raises(SourceError, match=r"a\.zip would become a, which exists already"):
        found(wrapped(tmp_path, "folder", tree))


@pytest.mark.parametrize("outer", ["folder", "zip"])
def test_an_inner_archive_that_cannot_be_read_is_an_error_that_names_it(
    tmp_path: Path, outer: str
) -> None:
    tree = {"train.zip": zip_bytes(FLOWERS)[:-30], "test.zip": zip_bytes(FLOWERS)}
    with pytest.raises(SourceError, match=r"train\.zip.* is not a readable zip file"):
        found(wrapped(tmp_path, outer, tree))


def test_a_damaged_inner_archive_is_an_error_that_names_it(tmp_path: Path) -> None:
    inner = zip_bytes(FLOWERS, STORED)
    outer = zip_bytes({"train.zip": inner, "x.csv": b""}, STORED)
    damaged = outer.replace(inner, inner[:-1] + b"x")
    with pytest.raises(SourceError, match=r"train\.zip in .* cannot be read: its checksum is not"):
        found(written(tmp_path / "a.zip", damaged))


def test_bad_members_of_inner_archives_are_named_with_their_folder(tmp_path: Path) -> None:
    inner = zip_bytes({**FLOWERS, "../evil.jpg": jpeg(), "rose/bad.jpg": b""})
    catalog = found(wrapped(tmp_path, "zip", {"train.zip": inner, "x.csv": b""}))
    assert [bad.filename for bad in catalog.bad] == ["train/../evil.jpg", "train/rose/bad.jpg"]


def test_a_listing_is_kept(tmp_path: Path) -> None:
    lister = lister_of(wrapped(tmp_path, "folder", {**FLOWERS, "a/.x": b"", "x.zip": b""}))
    assert list(lister.folders()) == list(lister.folders())
    assert [note.filename for note in lister.tally.ignored()] == ["x.zip", "a/.x"]


def test_a_licence_beside_the_only_archive_does_not_make_a_folder_of_it(tmp_path: Path) -> None:
    tree = {"images.zip": zip_bytes(FLOWERS), "LICENSE": b"do as you like"}
    assert names(found(wrapped(tmp_path, "folder", tree))) == list(FLOWERS)
