"""Classes that differ only in spelling: refused with counts, merged, or kept apart."""

from __future__ import annotations

import json
import struct
import unicodedata
from collections import Counter
from pathlib import Path

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
from imgrec.plan.classes import FoundClasses, number_classes, parse_classes
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


def table(tmp_path: Path, text: str) -> Path:
    """Write a table of the images a.jpg, b.jpg, c.jpg and d.jpg."""
    source = write_tree(tmp_path / "x", {f"{name}.jpg": jpeg(at) for at, name in enumerate("abcd")})
    (source / "t.csv").write_text(text, encoding="utf-8")
    return source / "t.csv"


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


def test_folders_that_differ_by_case_are_refused_merged_or_kept(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", CASES)
    error = refusal(source, tmp_path)
    assert str(error).startswith(
        "classes that differ only in spelling: 'Cat' (1 image) and 'cat' (2 images)"
    )
    assert error.hint == FOLD_OR_KEEP
    assert packed(source, tmp_path, fold_case=True) == {"cat": 3, "dog": 1}
    assert packed(source, tmp_path, keep_case=True) == {"Cat": 1, "cat": 2, "dog": 1}


@pytest.mark.parametrize(
    ("text", "told", "merged", "kept"),
    [
        ("id,label\na,Cat\nb,cat\nc,cat\nd,dog\n", "'Cat' (1 image) and 'cat' (2 images)",
         {"cat": 3, "dog": 1}, {"Cat": 1, "cat": 2, "dog": 1}),
        ("id,label\na,pug dog\nb,pug  dog\nc,x\nd,x\n",
         "'pug  dog' (1 image) and 'pug dog' (1 image)",
         {"pug dog": 2, "x": 2}, {"pug  dog": 1, "pug dog": 1, "x": 2}),
        ("id,label\na,01\nb,1\nc,1\nd,2\n", "'01' (1 image) and '1' (2 images)",
         {"1": 3, "2": 1}, {"1": 2, "01": 1, "2": 1}),
        ("id,label\na,01\nb,1\nc,1\nd,x\n", "'01' (1 image) and '1' (2 images)",
         {"1": 3, "x": 1}, {"1": 2, "01": 1, "x": 1}),
    ],
)  # fmt: skip
def test_labels_of_a_table_in_two_spellings_are_refused_merged_or_kept(
    tmp_path: Path, text: str, told: str, merged: dict[str, int], kept: dict[str, int]
) -> None:
    source = table(tmp_path, text)
    assert told in str(refusal(source, tmp_path))
    assert packed(source, tmp_path, fold_case=True) == merged
    assert packed(source, tmp_path, keep_case=True) == kept


def test_no_row_is_dropped_where_one_image_is_labelled_in_two_spellings(tmp_path: Path) -> None:
    source = table(tmp_path, "id,label\na,Cat\na,cat\nb,cat\n")
    assert "'Cat' (0 images) and 'cat' (1 image)" in str(refusal(source, tmp_path))


def test_several_labels_in_two_spellings_are_refused_merged_or_kept(tmp_path: Path) -> None:
    source = table(tmp_path, "id,tags\na,x y\nb,X\nc,x X\nd,y\n")
    assert "'X' (2 images) and 'x' (2 images)" in str(refusal(source, tmp_path, label_sep=" "))
    assert packed(source, tmp_path, label_sep=" ", fold_case=True) == {"x": 3, "y": 2}
    assert packed(source, tmp_path, label_sep=" ", keep_case=True) == {"X": 2, "x": 2, "y": 2}


def test_one_hot_columns_in_two_spellings_are_refused_merged_or_kept(tmp_path: Path) -> None:
    source = table(tmp_path, "id,Cat,cat,dog\na,1,0,0\nb,0,1,1\nc,0,1,0\nd,0,0,1\n")
    given_columns = {"onehot": ("Cat", "cat", "dog")}
    error = refusal(source, tmp_path, **given_columns)
    assert "'Cat' (1 image) and 'cat' (2 images)" in str(error)
    assert packed(source, tmp_path, **given_columns, fold_case=True) == {"cat": 3, "dog": 2}
    kept = packed(source, tmp_path, **given_columns, keep_case=True)
    assert kept == {"Cat": 1, "cat": 2, "dog": 2}


def test_label_names_in_two_spellings_are_refused_merged_or_kept(tmp_path: Path) -> None:
    source = table(tmp_path, "id,label\na,0\nb,1\nc,1\nd,2\n")
    names = {"label_names": ("Cat", "cat", "dog")}
    assert "'Cat' (1 image) and 'cat' (2 images)" in str(refusal(source, tmp_path, **names))
    assert packed(source, tmp_path, **names, fold_case=True) == {"cat": 3, "dog": 1}
    assert packed(source, tmp_path, **names, keep_case=True) == {"Cat": 1, "cat": 2, "dog": 1}


def test_labels_by_file_name_are_told_by_their_names_and_counts(tmp_path: Path) -> None:
    files = {"Cat_1.jpg": jpeg(1), "cat_2.jpg": jpeg(2), "cat_3.jpg": jpeg(3), "dog_4.jpg": jpeg(4)}
    source = write_tree(tmp_path / "x", files)
    regex = {"label_regex": "^[A-Za-z]+"}
    assert "'Cat' (1 image) and 'cat' (2 images)" in str(refusal(source, tmp_path, **regex))
    assert packed(source, tmp_path, **regex, fold_case=True) == {"cat": 3, "dog": 1}
    assert packed(source, tmp_path, **regex, keep_case=True) == {"Cat": 1, "cat": 2, "dog": 1}


def test_classes_of_other_splits_in_another_spelling_are_refused(tmp_path: Path) -> None:
    files = {"train/Cat/1.jpg": jpeg(1), "val/cat/2.jpg": jpeg(2)}
    source = write_tree(tmp_path / "x", files)
    assert "'Cat' (1 image) and 'cat' (1 image)" in str(refusal(source, tmp_path))
    assert packed(source, tmp_path, fold_case=True) == {"Cat": 2}


def test_folders_whose_accents_are_encoded_otherwise_are_refused_or_merged(tmp_path: Path) -> None:
    composed, apart = (unicodedata.normalize(form, "café") for form in ("NFC", "NFD"))
    source = write_tree(tmp_path / "x", {f"{composed}/1.jpg": jpeg(1), f"{apart}/2.jpg": jpeg(2)})
    told = r"'cafe\u0301' (1 image) and 'caf\xe9' (1 image)"
    assert told in str(refusal(source, tmp_path))
    error = refusal(source, tmp_path, keep_case=True)
    assert told in str(error)
    assert error.hint.startswith("pass --fold-case to merge them, or rename one")
    assert packed(source, tmp_path, fold_case=True) == {composed: 2}


def test_labels_of_a_table_are_composed_and_so_no_variants(tmp_path: Path) -> None:
    text = f"id,label\na,é\nb,{unicodedata.normalize('NFD', 'é')}\nc,x\nd,x\n"
    assert packed(table(tmp_path, text), tmp_path) == {"é": 2, "x": 2}


def test_one_folder_that_is_not_composed_is_no_variant_of_its_name(tmp_path: Path) -> None:
    apart = unicodedata.normalize("NFD", "café")
    source = write_tree(tmp_path / "x", {f"{apart}/1.jpg": jpeg(1), "x/2.jpg": jpeg(2)})
    assert packed(source, tmp_path) == {unicodedata.normalize("NFC", "café"): 1, "x": 1}


def test_a_spelling_that_is_left_out_is_no_variant(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", CASES)
    assert packed(source, tmp_path, exclude=("Cat/*",)) == {"cat": 2, "dog": 1}


def test_the_limit_of_a_class_counts_its_spellings_together(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", CASES)
    folded = packed(source, tmp_path, fold_case=True, limit_per_class=2)
    assert folded == {"cat": 2, "dog": 1}


def test_a_classes_file_decides_the_spelling_that_is_merged_into(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", CASES)
    folder = pack(source, tmp_path, source=SourceOptions(fold_case=True), classes=("dog", "Cat"))
    assert counts(folder) == {"dog": 1, "Cat": 3}
    assert faults_of(folder) == []


def test_a_classes_file_in_another_spelling_than_the_source_is_refused(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", {"cat/1.jpg": jpeg(1), "dog/2.jpg": jpeg(2)})
    with pytest.raises(SourceError, match=r"'Cat' \(0 images\) and 'cat' \(1 image\)"):
        pack(source, tmp_path, classes=("Cat", "dog"))


def test_a_classes_file_may_name_both_spellings_if_they_are_kept(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", CASES)
    names = parse_classes("dog\nCat\ncat\n")
    with pytest.raises(SourceError, match="differ only in spelling"):
        pack(source, tmp_path, classes=names)
    folder = pack(source, tmp_path, source=SourceOptions(keep_case=True), classes=names)
    assert counts(folder) == {"dog": 1, "Cat": 1, "cat": 2}


def test_a_class_that_is_given_twice_is_refused() -> None:
    found = FoundClasses(folders={"a": ("a",)}, images={"a": 1})
    with pytest.raises(PlanError, match="--classes lists a class twice: a"):
        number_classes(found, PackOptions(classes=("a", "b", "a")))


def test_merging_and_keeping_do_not_go_together() -> None:
    with pytest.raises(UsageError, match="fold_case and keep_case cannot be combined"):
        SourceOptions(fold_case=True, keep_case=True)


def test_characters_of_an_idx_set_that_differ_by_case_can_be_kept(tmp_path: Path) -> None:
    files = {
        "emnist-x-train-images-idx3-ubyte": struct.pack(">IIII", 0x803, 4, 8, 8)
        + bytes(range(256)),
        "emnist-x-train-labels-idx1-ubyte": struct.pack(">II", 0x801, 4) + bytes([0, 1, 1, 0]),
        "emnist-x-mapping.txt": b"0 65\n1 97\n",
    }
    source = write_tree(tmp_path / "x", files)
    assert packed(source, tmp_path) == {"0": 2, "1": 2}
    assert packed(source, tmp_path, keep_case=True) == {"A": 2, "a": 2}
    assert packed(source, tmp_path, fold_case=True) == {"A": 4}


def test_the_command_refuses_with_counts_and_takes_both_options(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "x", CASES)
    for verb in ("pack", "plan"):
        done = cli(verb, "x")
        assert done.returncode == 3
        assert "'Cat' (1 image) and 'cat' (2 images)" in done.stderr
        assert FOLD_OR_KEEP in done.stderr
    kept = json.loads(cli("pack", "x", "--keep-case", "--json").stdout)
    assert kept["classes"] == ["Cat", "cat", "dog"]
    folded = json.loads(cli("pack", "x", "--fold-case", "--name", "y", "--json").stdout)
    assert folded["classes"] == ["cat", "dog"]
    assert cli("pack", "x", "--fold-case", "--keep-case").returncode == 2


@pytest.mark.parametrize("option", ["fold_case", "keep_case"])
@pytest.mark.parametrize("is_table", [False, True])
def test_what_was_merged_or_kept_is_packed_again_to_the_byte(
    tmp_path: Path, option: str, is_table: bool
) -> None:
    source = write_tree(tmp_path / "x", CASES)
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
