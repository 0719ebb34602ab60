"""`imgrec diff`: what differs between two packed datasets."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Cli
from inline import ENGINE, pack
from pictures import jpeg, write_tree
from PIL import Image as Picture

import imgrec
from imgrec.errors import DatasetError, DatasetNotFound
from imgrec.inspect.diff import (
    ColumnChange,
    Difference,
    Image,
    OptionChange,
    Pair,
    Relabelling,
    Renumbered,
)

Row = tuple[int, str, str]
"""The contents of an image (a seed), its labels joined by "|", its split."""
ROWS: dict[str, Row] = {
    "1.jpg": (1, "rose", "train"),
    "2.jpg": (2, "rose", "train"),
    "3.jpg": (3, "tulip", "train"),
    "4.jpg": (4, "tulip", "val"),
}

SEVERAL = imgrec.SourceOptions(label_sep="|")


def packed(place: Path, rows: Mapping[str, Row], **options: object) -> Path:
    """Pack a table of images; "" as a label means none."""
    files = {f"images/{name}": jpeg(seed) for name, (seed, _, _) in rows.items()}
    lines = [f"images/{name},{label},{split}" for name, (_, label, split) in rows.items()]
    table = "\n".join(["filename,label,split", *lines, ""]).encode()
    source = write_tree(place / "source", {**files, "table.csv": table}) / "table.csv"
    return pack(source, place / "data", name="flowers", **options)


def difference(
    tmp_path: Path, old: Mapping[str, Row], new: Mapping[str, Row], **options: object
) -> Difference:
    before = packed(tmp_path / "old", old, **options)
    return imgrec.diff(before, packed(tmp_path / "new", new, **options))


def names(images: Iterable[Image]) -> list[str]:
    return [image.filename.removeprefix("images/") for image in images]


def renames(pairs: Iterable[Pair]) -> list[tuple[str, ...]]:
    return [tuple(names(pair)) for pair in pairs]


def test_a_dataset_does_not_differ_from_itself(tmp_path: Path) -> None:
    found = difference(tmp_path, ROWS, ROWS)
    assert not found.is_different
    assert set(found.counts.values()) == {0}
    assert found.options == ()


def test_images_with_other_values_in_a_column_are_counted(tmp_path: Path) -> None:
    def version(place: Path, ages: str, column: str) -> Path:
        lines = [f"{n}.jpg,rose,train,{age}" for n, age in enumerate(ages)]
        table = "\n".join([f"filename,label,split,{column}", *lines, ""]).encode()
        files = {f"{n}.jpg": jpeg(n) for n in range(len(ages))}
        source = write_tree(place / "source", {**files, "table.csv": table}) / "table.csv"
        options = imgrec.SourceOptions(column=(imgrec.ColumnOption(column),))
        return pack(source, place / "data", name="flowers", source=options)

    old = version(tmp_path / "old", "123", "age")
    found = imgrec.diff(old, version(tmp_path / "new", "1458", "age"))
    assert found.columns == (ColumnChange("age", 2),)
    assert names(found.added) == ["3.jpg"]
    assert found.is_different
    found = imgrec.diff(old, version(tmp_path / "other", "123", "years"))
    assert found.columns == (ColumnChange("age", 3), ColumnChange("years", 3))


def test_each_kind_of_difference_is_listed_with_names_labels_and_splits(tmp_path: Path) -> None:
    new = {
        "1.jpg": (11, "rose", "train"),
        "b.jpg": (2, "rose", "train"),
        "3.jpg": (3, "rose", "val"),
        "5.jpg": (5, "tulip", "train"),
    }
    found = difference(tmp_path, ROWS, new)
    assert names(found.added) == ["5.jpg"]
    assert names(found.removed) == ["4.jpg"]
    assert renames(found.changed) == [("1.jpg", "1.jpg")]
    assert renames(found.renamed) == [("2.jpg", "b.jpg")]
    assert found.relabelled == found.moved
    [(before, after)] = found.relabelled
    assert before[:3] == ("images/3.jpg", "train", ("tulip",))
    assert after[:3] == ("images/3.jpg", "val", ("rose",))
    assert found.relabellings == (Relabelling(("tulip",), ("rose",), 1),)
    assert found.before.splits == {"train": 3, "val": 1}


def test_numbers_of_images_are_those_of_their_records(tmp_path: Path) -> None:
    found = difference(tmp_path, ROWS, {"9.jpg": ROWS["1.jpg"]})
    dataset = imgrec.open_dataset(found.before.path)
    assert [dataset.read(image.number).filename for image in found.removed] == [
        image.filename for image in found.removed
    ]


def test_swapped_contents_are_two_changed_files(tmp_path: Path) -> None:
    new = {**ROWS, "1.jpg": ROWS["2.jpg"], "2.jpg": ROWS["1.jpg"]}
    found = difference(tmp_path, ROWS, new)
    assert renames(found.changed) == [("1.jpg", "1.jpg"), ("2.jpg", "2.jpg")]
    assert found.renamed == ()


def test_a_copy_of_an_image_is_added_and_not_renamed(tmp_path: Path) -> None:
    found = difference(tmp_path, ROWS, {**ROWS, "copy.jpg": ROWS["1.jpg"]})
    assert names(found.added) == ["copy.jpg"]
    assert found.renamed == ()


def test_each_of_several_copies_is_renamed_once(tmp_path: Path) -> None:
    same = (1, "rose", "train")
    old = {"a.jpg": same, "b.jpg": same, "c.jpg": same}
    found = difference(tmp_path, old, {"c.jpg": same, "x.jpg": same})
    assert renames(found.renamed) == [("a.jpg", "x.jpg")]
    assert names(found.removed) == ["b.jpg"]


def test_renumbered_classes_relabel_no_image(tmp_path: Path) -> None:
    found = difference(tmp_path, ROWS, {**ROWS, "5.jpg": (5, "aster", "train")})
    assert found.relabelled == ()
    assert found.classes_added == ("aster",)
    assert found.classes_renumbered == (Renumbered("rose", 0, 1), Renumbered("tulip", 1, 2))


def test_several_labels_are_compared_by_name_in_any_order(tmp_path: Path) -> None:
    old = {**ROWS, "1.jpg": (1, "rose|tulip", "train"), "2.jpg": (2, "rose|tulip", "train")}
    new = {**old, "2.jpg": (2, "aster|rose", "train")}
    found = difference(tmp_path, old, new, source=SEVERAL)
    assert found.relabellings == (Relabelling(("rose", "tulip"), ("aster", "rose"), 1),)
    assert names(pair.after for pair in found.relabelled) == ["2.jpg"]


def test_a_single_label_equals_a_list_with_that_label(tmp_path: Path) -> None:
    one = packed(tmp_path / "one", ROWS)
    several = packed(
        tmp_path / "several", {**ROWS, "5.jpg": (5, "rose|tulip", "val")}, source=SEVERAL
    )
    found = imgrec.diff(one, several)
    assert found.relabelled == ()
    assert names(found.added) == ["5.jpg"]


def test_a_test_image_without_a_label_is_relabelled_when_it_gets_one(tmp_path: Path) -> None:
    new = {**ROWS, "5.jpg": (5, "rose", "test")}
    found = difference(tmp_path, {**ROWS, "5.jpg": (5, "", "test")}, new)
    assert found.relabellings == (Relabelling((), ("rose",), 1),)


def test_options_that_differ_are_listed(tmp_path: Path) -> None:
    old = packed(tmp_path / "old", ROWS, seed=1)
    found = imgrec.diff(old, packed(tmp_path / "new", ROWS, seed=2))
    assert found.options == (OptionChange("seed", 1, 2),)
    assert found.is_different


def test_one_dataset_is_compared_with_its_version_before(tmp_path: Path) -> None:
    packed(tmp_path, ROWS, version="1.9.0")
    new = packed(tmp_path, {**ROWS, "5.jpg": (5, "rose", "train")}, version="1.10.0")
    for name in ("flowers", "flowers:1.10.0"):
        found = imgrec.diff(name, data_dir=tmp_path / "data")
        assert (found.before.version, found.after.version) == ("1.9.0", "1.10.0")
        assert found.after.path == str(new)
    with pytest.raises(DatasetNotFound, match="no earlier version"):
        imgrec.diff("flowers:1.9.0", data_dir=tmp_path / "data")


def test_the_exit_code_is_1_only_if_they_differ(tmp_path: Path, cli: Cli) -> None:
    old = packed(tmp_path / "old", ROWS)
    new = packed(tmp_path / "new", {**ROWS, "1.jpg": (1, "tulip", "train")})
    same = cli("diff", old, old)
    assert (same.returncode, same.stdout.splitlines()[-1]) == (
        0,
        "the same images, labels, splits, classes, columns and options",
    )
    assert cli("diff", old, new).returncode == 1
    assert cli("diff", old, tmp_path / "nothing").returncode == 5


def test_text_is_bounded_and_json_lists_all(tmp_path: Path, cli: Cli) -> None:
    old = packed(tmp_path / "old", ROWS)
    more = {f"new{at:02d}.jpg": (100 + at, "rose", "train") for at in range(14)}
    new = packed(tmp_path / "new", {**ROWS, **more})
    shown = cli("diff", old, new).stdout.splitlines()
    assert shown[:5] == [
        "flowers 1.0.0 -> flowers 1.0.0",
        "images      4 -> 18: 14 added",
        "train       3 -> 17",
        "val         1",
        "classes     2",
    ]
    assert shown[5] == "added       train images/new00.jpg [rose]"
    assert shown[-1] == "            … and 4 more: --json lists all"
    value = json.loads(cli("diff", old, new, "--json").stdout)
    assert [image["filename"] for image in value["added"]] == [f"images/{name}" for name in more]
    assert value["counts"]["added"] == 14


def test_a_sheet_shows_what_differs(tmp_path: Path, cli: Cli) -> None:
    old = packed(tmp_path / "old", ROWS)
    new = packed(tmp_path / "new", {**ROWS, "1.jpg": (11, "rose", "train")})
    sheet = tmp_path / "sheet.png"
    assert imgrec.diff(old, new, sheet=sheet, engine=ENGINE).sheet == str(sheet)
    with Picture.open(sheet) as drawn:
        assert drawn.width == 2 * (192 + 12) + 12  # before and after
    done = cli("diff", old, old, "-o", tmp_path / "none.png")
    assert "was not written" in done.stderr
    assert not (tmp_path / "none.png").exists()


def test_a_dataset_without_a_table_of_samples_is_an_error(tmp_path: Path) -> None:
    old, new = packed(tmp_path / "old", ROWS), packed(tmp_path / "new", ROWS)
    table = pq.read_table(new / "samples.parquet")
    pq.write_table(table.drop_columns(["xxh3"]), new / "samples.parquet")
    with pytest.raises(DatasetError, match=r"samples\.parquet is not as imgrec writes it"):
        imgrec.diff(old, new)
    (new / "samples.parquet").unlink()
    with pytest.raises(DatasetError, match=r"samples\.parquet is missing"):
        imgrec.diff(old, new)


def test_a_label_without_a_class_is_an_error(tmp_path: Path) -> None:
    folder = packed(tmp_path, ROWS)
    table = pq.read_table(folder / "samples.parquet")
    at = table.column_names.index("label")
    labels = pa.array(np.full(4, 7))
    pq.write_table(table.set_column(at, "label", labels), folder / "samples.parquet")
    with pytest.raises(DatasetError, match="not as imgrec writes it"):
        imgrec.diff(folder, folder)
