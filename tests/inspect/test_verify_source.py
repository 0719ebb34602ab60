"""Verifying datasets against what they were packed from."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from cifar_files import binary_files
from damage import (
    change,
    make_flowers,
    source_of,
)
from inline import ENGINE, faults_of, pack
from pictures import class_tree, encode, jpeg, picture, write_tree
from trees import tarred, zipped

import imgrec
from imgrec.api import verify


@pytest.fixture(scope="module")
def pristine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flowers(tmp_path_factory.mktemp("pristine"))


@pytest.fixture
def source(pristine: Path, tmp_path: Path) -> Path:
    """A copy of what it was packed from."""
    return Path(shutil.copytree(source_of(pristine), tmp_path / "source"))


def test_a_dataset_is_as_its_source(pristine: Path, source: Path) -> None:
    assert faults_of(pristine, source=source) == []


def test_a_changed_file_of_the_source_is_a_fault(pristine: Path, source: Path) -> None:
    change(source / "rose/000.jpg", -3)
    (fault,) = faults_of(pristine, source=source)
    assert fault[2].startswith("rose/000.jpg differs from the source: they differ from byte ")


def test_a_transcoded_file_that_changed_is_a_fault(pristine: Path, source: Path) -> None:
    (source / "tulip/x.gif").write_bytes(encode(picture(98), "GIF"))
    (fault,) = faults_of(pristine, source=source)
    assert fault[2] == "tulip/x.gif differs from the source: its pixels differ"


def test_a_file_that_is_gone_from_the_source_is_a_fault(pristine: Path, source: Path) -> None:
    (source / "rose/000.jpg").unlink()
    (fault,) = faults_of(pristine, source=source)
    assert fault[2] == f"there is no rose/000.jpg in {source}"


def test_an_image_more_in_the_source_is_a_fault(pristine: Path, source: Path) -> None:
    write_tree(source, {"rose/new.jpg": jpeg(77), "rose/notes.txt": b"x"})
    assert faults_of(pristine, source=source) == [
        ("rose/new.jpg", None, f"it is in {source}, but in no record")
    ]


def test_what_was_skipped_or_left_out_is_not_missed(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    write_tree(tree, {"a/half.jpg": jpeg(5)[:300], "a/thumb.jpg": jpeg(50)})
    chosen = imgrec.SourceOptions(exclude=("*thumb*",))
    folder = pack(tree, tmp_path / "out", source=chosen, max_bad=0.5)
    verified = verify(folder, source=tree, engine=ENGINE)
    assert verified.faults == verified.not_checked == ()
    limited = imgrec.SourceOptions(limit_per_class=2)
    folder = pack(tree, tmp_path / "other", source=limited, max_bad=0.5)
    verified = verify(folder, source=tree, engine=ENGINE)
    assert verified.faults == ()
    (note,) = verified.not_checked
    assert "images are not packed" in note


def test_a_source_of_other_files_is_an_error(pristine: Path, tmp_path: Path) -> None:
    other = class_tree(tmp_path / "other", {"cat": 1})
    with pytest.raises(imgrec.SourceError, match="has none of the dataset's files"):
        verify(pristine, source=other, engine=ENGINE)


@pytest.mark.parametrize("make", [zipped, tarred])
def test_an_archive_is_compared_member_by_member(
    tmp_path: Path, make: Callable[[Path, dict[str, bytes]], Path]
) -> None:
    files = {f"{name}/{n}.jpg": jpeg(n + 10 * len(name)) for name in ("a", "bb") for n in range(3)}
    name = "x.zip" if make is zipped else "x.tar"
    folder = pack(make(tmp_path / name, files), tmp_path / "out")
    assert faults_of(folder, source=tmp_path / name) == []
    make(tmp_path / name, {**files, "a/0.jpg": jpeg(99)})
    (fault,) = faults_of(folder, source=tmp_path / name)
    assert "a/0.jpg differs from the source" in fault[2]


def test_pixels_of_another_image_are_a_fault(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", binary_files())
    folder = pack(source, tmp_path / "out")
    batch = next(path for path in source.iterdir() if path.name.startswith("data_batch_1"))
    change(batch, 100)
    (fault,) = faults_of(folder, source=source)
    assert fault[2].endswith("differs from the source: its pixels differ")


def test_records_without_names_cannot_be_compared(pristine: Path, source: Path) -> None:
    features = json.loads((pristine / "features.json").read_text())
    before = (pristine / "features.json").read_text()
    del features["featuresDict"]["features"]["filename"]
    try:
        (pristine / "features.json").write_text(json.dumps(features))
        found = [what for path, _, what in faults_of(pristine, source=source)]
    finally:
        (pristine / "features.json").write_text(before)
    assert f"records have no filename, so none can be compared with {source}" in found


@pytest.mark.parametrize("linked", [["b"], ["a", "b"]])
def test_what_links_led_to_is_found_again(tmp_path: Path, linked: list[str]) -> None:
    source = tmp_path / "x"
    class_tree(source, {"a": 2, "b": 2})
    for name in linked:
        (source / name).rename(tmp_path / name)
        (source / name).symlink_to(tmp_path / name)
    options = imgrec.SourceOptions(follow_links=True)
    folder = pack(source, tmp_path / "out", source=options)
    assert faults_of(folder, source=source) == []
