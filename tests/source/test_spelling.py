"""Classes that differ only in spelling: refused with counts, merged, or kept apart."""

from __future__ import annotations

import json
import struct
import unicodedata
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack, pack_typed
from pictures import jpeg, write_tree

import imgrec
from imgrec.errors import PlanError, SourceError, UsageError
from imgrec.options import PackOptions, SourceOptions
from imgrec.planning.classes import FoundClasses, number_classes, parse_classes
from imgrec.spelling import alike, commonest, spelling_key

CASES = {"cat/1.jpg": jpeg(1), "cat/2.jpg": jpeg(2), "Cat/3.jpg": jpeg(3), "dog/4.jpg": jpeg(4)}
FOLD_OR_KEEP = "pass --fold-case if they are one class, or --keep-case if they are not"


def counts(folder: Path) -> dict[str, int]:
    """Return how many records each class has."""
    classes = imgrec.info(folder).classes
    rows = pq.read_table(folder / "samples.parquet").to_pylist()
    found = Counter(
        label for row in rows for label in row.get("labels", [row.get("label")]) if label >= 0
    )
    return {name: found[number] for number, name in enumerate(classes)}


def write(root: Path, source: str | dict[str, bytes]) -> Path:
    """Write files, or a table of the images a.jpg, b.jpg, c.jpg and d.jpg."""
    if not isinstance(source, str):
        return write_tree(root, source)
    write_tree(root, {f"{name}.jpg": jpeg(at) for at, name in enumerate("abcd")})
    (root / "t.csv").write_text(source, encoding="utf-8")
    return root / "t.csv"


def refusal(source: Path, tmp_path: Path, **options: object) -> SourceError:
    with pytest.raises(SourceError) as caught:
        pack(source, tmp_path / "refused", source=SourceOptions(**options))  # type: ignore[arg-type]
    assert not (tmp_path / "refused" / source.stem).exists()
    return caught.value


def packed(source: Path, tmp_path: Path, **options: object) -> dict[str, int]:
    data_dir = tmp_path / "-".join(map(str, options))
    folder = pack(source, data_dir, source=SourceOptions(**options))  # type: ignore[arg-type]
    assert faults_of(folder) == []
    return counts(folder)


ONE_TWO = "'Cat' (1 image) and 'cat' (2 images)"
MERGED, KEPT = {"cat": 3, "dog": 1}, {"Cat": 1, "cat": 2, "dog": 1}
FORMS: dict[str, tuple[Any, dict[str, Any], str, dict[str, int], dict[str, int]]] = {
    "folders": (CASES, {}, ONE_TWO, MERGED, KEPT),
    "file names": (
        {"Cat_1.jpg": jpeg(1), "cat_2.jpg": jpeg(2), "cat_3.jpg": jpeg(3), "dog_4.jpg": jpeg(4)},
        {"label_regex": "^[A-Za-z]+"}, ONE_TWO, MERGED, KEPT,
    ),
    "cells": ("id,label\na,Cat\nb,cat\nc,cat\nd,dog\n", {}, ONE_TWO, MERGED, KEPT),
    "spaces": (
        "id,label\na,pug dog\nb,pug  dog\nc,x\nd,x\n", {},
        "'pug  dog' (1 image) and 'pug dog' (1 image)",
        {"pug dog": 2, "x": 2}, {"pug  dog": 1, "pug dog": 1, "x": 2},
    ),
    "zeros": (
        "id,label\na,01\nb,1\nc,1\nd,2\n", {}, "'01' (1 image) and '1' (2 images)",
        {"1": 3, "2": 1}, {"1": 2, "01": 1, "2": 1},
    ),
    "several labels": (
        "id,tags\na,x y\nb,X\nc,x X\nd,y\n", {"label_sep": " "},
        "'X' (2 images) and 'x' (2 images)", {"x": 3, "y": 2}, {"X": 2, "x": 2, "y": 2},
    ),
    "one-hot": (
        "id,Cat,cat,dog\na,1,0,0\nb,0,1,1\nc,0,1,0\nd,0,0,1\n", {"onehot": ("Cat", "cat", "dog")},
        ONE_TWO, {"cat": 3, "dog": 2}, {"Cat": 1, "cat": 2, "dog": 2},
    ),
    "label names": (
        "id,label\na,0\nb,1\nc,1\nd,2\n", {"label_names": ("Cat", "cat", "dog")},
        ONE_TWO, MERGED, KEPT,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FORMS.values(), ids=FORMS)
def test_two_spellings_are_refused_merged_or_kept(tmp_path: Path, case: Any) -> None:
    files, options, shown, merged, kept = case
    source = write(tmp_path / "x", files)
    error = refusal(source, tmp_path, **options)
    assert str(error).startswith(f"classes that differ only in spelling: {shown}")
    assert error.hint == FOLD_OR_KEEP
    assert packed(source, tmp_path, **options, fold_case=True) == merged
    assert packed(source, tmp_path, **options, keep_case=True) == kept


def test_spellings_in_different_splits_or_rows_of_one_image_are_refused(tmp_path: Path) -> None:
    source = write(tmp_path / "x", {"train/Cat/1.jpg": jpeg(1), "val/cat/2.jpg": jpeg(2)})
    assert "'Cat' (1 image) and 'cat' (1 image)" in str(refusal(source, tmp_path))
    source = write(tmp_path / "y", "id,label\na,Cat\na,cat\nb,cat\n")
    assert "'Cat' (0 images) and 'cat' (1 image)" in str(refusal(source, tmp_path))


def test_folders_whose_accents_are_encoded_otherwise_are_refused_or_merged(tmp_path: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    source = write(tmp_path / "x", {f"{composed}/1.jpg": jpeg(1), f"{apart}/2.jpg": jpeg(2)})
    shown = r"'cafe\u0301' (1 image) and 'caf\xe9' (1 image)"
    assert shown in str(refusal(source, tmp_path))
    error = refusal(source, tmp_path, keep_case=True)
    assert shown in str(error)
    assert error.hint.startswith("pass --fold-case to merge them, or rename one")
    assert packed(source, tmp_path, fold_case=True) == {composed: 2}


NFD = unicodedata.normalize("NFD", "é")


@pytest.mark.parametrize(
    ("files", "options", "expected"),
    [
        (f"id,label\na,é\nb,{NFD}\nc,x\nd,x\n", {}, {"é": 2, "x": 2}),  # cells are composed
        ({f"{NFD}/1.jpg": jpeg(1), "x/2.jpg": jpeg(2)}, {}, {"é": 1, "x": 1}),
        (CASES, {"exclude": ("Cat/*",)}, {"cat": 2, "dog": 1}),
        (CASES, {"fold_case": True, "limit_per_class": 2}, {"cat": 2, "dog": 1}),
    ],
)
def test_one_spelling_is_no_variant(
    tmp_path: Path, files: Any, options: dict[str, Any], expected: dict[str, int]
) -> None:
    assert packed(write(tmp_path / "x", files), tmp_path, **options) == expected


def test_a_classes_file_decides_the_spelling_that_is_merged_into(tmp_path: Path) -> None:
    source = write(tmp_path / "x", CASES)
    folder = pack(source, tmp_path, source=SourceOptions(fold_case=True), classes=("dog", "Cat"))
    assert counts(folder) == {"dog": 1, "Cat": 3}
    assert faults_of(folder) == []


def test_a_classes_file_in_another_spelling_is_refused_unless_both_are_kept(tmp_path: Path) -> None:
    source = write(tmp_path / "x", CASES)
    with pytest.raises(SourceError, match=r"'Cat' \(0 images\) and 'cat' \(2 images\)"):
        pack(source, tmp_path, source=SourceOptions(exclude=("Cat/*",)), classes=("Cat", "dog"))
    names = parse_classes("dog\nCat\ncat\n")
    with pytest.raises(SourceError, match="differ only in spelling"):
        pack(source, tmp_path, classes=names)
    folder = pack(source, tmp_path, source=SourceOptions(keep_case=True), classes=names)
    assert counts(folder) == {"dog": 1, "Cat": 1, "cat": 2}


def test_what_cannot_be_is_refused() -> None:
    found = FoundClasses(folders={"a": ("a",)}, images={"a": 1})
    with pytest.raises(PlanError, match="--classes lists a class twice: a"):
        number_classes(found, PackOptions(classes=("a", "b", "a")))
    with pytest.raises(UsageError, match="fold_case and keep_case cannot be combined"):
        SourceOptions(fold_case=True, keep_case=True)


def test_characters_of_an_idx_set_that_differ_by_case_can_be_kept(tmp_path: Path) -> None:
    files = {
        "emnist-x-train-images-idx3-ubyte": struct.pack(">IIII", 0x803, 4, 8, 8)
        + bytes(range(256)),
        "emnist-x-train-labels-idx1-ubyte": struct.pack(">II", 0x801, 4) + bytes([0, 1, 1, 0]),
        "emnist-x-mapping.txt": b"0 65\n1 97\n",
    }
    source = write(tmp_path / "x", files)
    assert packed(source, tmp_path) == {"0": 2, "1": 2}
    assert packed(source, tmp_path, keep_case=True) == {"A": 2, "a": 2}
    assert packed(source, tmp_path, fold_case=True) == {"A": 4}


def test_the_command_refuses_with_counts_and_takes_both_options(cli: Cli, tmp_path: Path) -> None:
    write(tmp_path / "x", CASES)
    for verb in ("pack", "plan"):
        done = cli(verb, "x")
        assert done.returncode == 3
        assert ONE_TWO in done.stderr
        assert FOLD_OR_KEEP in done.stderr
    kept = json.loads(cli("pack", "x", "--keep-case", "--json").stdout)
    assert kept["classes"] == ["Cat", "cat", "dog"]
    folded = json.loads(cli("pack", "x", "--fold-case", "--name", "y", "--json").stdout)
    assert folded["classes"] == ["cat", "dog"]
    assert cli("pack", "x", "--fold-case", "--keep-case").returncode == 2


@pytest.mark.parametrize("option", ["fold_case", "keep_case"])
@pytest.mark.parametrize("is_table", [False, True])
def test_an_unpacked_dataset_is_packed_again_to_the_byte(
    tmp_path: Path, option: str, is_table: bool
) -> None:
    source = write(tmp_path / "x", CASES)
    if is_table:
        (source / "x.csv").write_text(
            "file,label\ncat/1.jpg,Cat\ncat/2.jpg,cat\nCat/3.jpg,cat\ndog/4.jpg,dog\n"
        )
        source /= "x.csv"
    folder = pack(source, tmp_path / "out", source=SourceOptions(**{option: True}))  # type: ignore[arg-type]
    command = imgrec.unpack(folder, tmp_path / "again", engine=ENGINE).pack_again
    again = Path(pack_typed(command, tmp_path / "second").info.path)
    for name in ("samples.parquet", "label.labels.txt", "x-train.tfrecord-00000-of-00001"):
        assert (again / name).read_bytes() == (folder / name).read_bytes()


names = st.text(st.sampled_from("aAbß 01é\u0301.-"), min_size=1, max_size=4)


@given(st.lists(names, unique=True))
def test_alike_names_are_those_of_one_key(found: list[str]) -> None:
    groups = alike(found)
    assert all(len({spelling_key(name) for name in group}) == 1 for group in groups)
    alone = set(found) - {name for group in groups for name in group}
    assert len({spelling_key(name) for name in alone}) == len(alone)


@given(st.dictionaries(names, st.integers(0, 3)))
def test_the_commonest_spelling_is_one_of_its_own(uses: dict[str, int]) -> None:
    spelled = commonest(uses)
    assert spelled.keys() == uses.keys()
    for name, usual in spelled.items():
        assert spelling_key(name) == spelling_key(usual)
        assert spelled[usual] == usual
        assert uses[usual] >= uses[name]
