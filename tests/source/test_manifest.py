"""What is found in manifests: tables that say which class each image has."""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
import re
import unicodedata
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import jpeg, png, write_tree
from sampling import examples
from scanning import context, scan_folder

from imgrec.errors import ImgrecError, SourceError, UsageError
from imgrec.model import Catalog, Column
from imgrec.notes import Note, NoteKind
from imgrec.options import ColumnKind, ColumnOption, SourceOptions
from imgrec.source import manifest
from imgrec.source.image_names import Finder

PICTURES = [jpeg(seed) for seed in range(8)]


def scan(path: Path, **options: object) -> Catalog:
    return manifest.scan(str(path), context(**options))


def make(root: Path, text: str, *images: str, name: str = "train.csv") -> Path:
    """Write a manifest and images, each different; return the manifest's path."""
    pictures = {image: PICTURES[number] for number, image in enumerate(images)}
    write_tree(root, {name: text.encode(), **pictures})
    return root / name


def labels(catalog: Catalog) -> dict[str, str]:
    return dict(zip(catalog.samples.filenames, catalog.samples.class_names, strict=True))


def splits(catalog: Catalog) -> dict[str, str]:
    return dict(zip(catalog.samples.filenames, catalog.samples.splits, strict=True))


def sets(catalog: Catalog) -> dict[str, tuple[str, ...]]:
    return dict(zip(catalog.samples.filenames, catalog.samples.class_sets, strict=True))


def ignored(catalog: Catalog) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {kind.kind: (kind.count, kind.examples) for kind in catalog.ignored}


def test_a_csv_file_says_which_class_each_image_has(tmp_path: Path) -> None:
    path = make(tmp_path / "dogs", "id,breed\na,pug\nb,boxer\n", "a.jpg", "b.jpg")
    catalog = scan(path)
    assert labels(catalog) == {"a.jpg": "pug", "b.jpg": "boxer"}
    assert catalog.layout == "CSV manifest: id -> image, breed -> label"
    assert catalog.name == "dogs"
    assert catalog.class_folders == {"boxer": ("train.csv:3",), "pug": ("train.csv:2",)}
    assert (catalog.bad, catalog.ignored, catalog.warnings) == ((), (), ())
    assert catalog.samples.class_sets == catalog.samples.groups == catalog.samples.columns == ()


class_trees = st.dictionaries(
    st.tuples(
        st.sampled_from(["rose", "tulip", "été"]), st.text("ab.é _-", min_size=1, max_size=4)
    ).filter(lambda place: not place[1].startswith((".", " ")) and not place[1].endswith(" ")),
    st.sampled_from(PICTURES),
    min_size=1,
    max_size=6,
)


@examples(60)
@given(class_trees, st.sampled_from(["csv", "tsv", "jsonl", "parquet"]), st.data())
def test_a_manifest_of_class_folders_gives_the_same_samples_as_the_folders(
    tmp_path_factory: pytest.TempPathFactory,
    tree: dict[tuple[str, str], bytes],
    kind: str,
    data: st.DataObject,
) -> None:
    root = tmp_path_factory.mktemp("tree")
    files = {f"{name}/{file}.jpg": picture for (name, file), picture in tree.items()}
    write_tree(root / "images", files)
    rows = data.draw(st.permutations([(file, file.partition("/")[0]) for file in files]))
    path = root / f"t.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(json.dumps({"path": p, "label": x}) for p, x in rows))
    elif kind == "parquet":
        paths, classes = zip(*rows, strict=True)
        pq.write_table(pa.table({"path": pa.array(paths), "label": pa.array(classes)}), path)
    else:
        out = io.StringIO(newline="")
        csv.writer(out, delimiter="\t" if kind == "tsv" else ",").writerows(
            [("path", "label"), *rows]
        )
        path.write_bytes(out.getvalue().encode())
    catalog = scan(path, images=str(root / "images"))
    expected = scan_folder(root / "images", context())
    assert catalog.samples == expected.samples
    assert (catalog.bad, catalog.ignored, catalog.warnings) == ((), (), ())
    assert set(catalog.class_folders) == set(expected.class_folders)


@examples(100)
@given(
    st.binary(max_size=80),
    st.sampled_from([b"", b"id,label\n", b"a.jpg,x\n", b'{"id": "a", "label": ', b"PAR1"]),
    st.sampled_from(["t.csv", "t.tsv", "t.jsonl", "t.parquet", "t.txt", "t.csv.gz"]),
)
@pytest.mark.fuzz
def test_any_bytes_are_a_manifest_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, start: bytes, name: str
) -> None:
    root = write_tree(tmp_path_factory.mktemp("bytes"), {"a.jpg": PICTURES[0], name: start + data})
    try:
        catalog = scan(root / name)
    except ImgrecError:
        return
    assert set(catalog.samples.filenames) <= {"a.jpg"}


VALID = (
    b"id,label,split,age\na.jpg,x,train,1\nb,y,val,2\n./c.jpg,x,test,3\n"
    b'"a.jpg",X,train,\n,,,\nb,10,val,2\nc.jpg,"x",test,nan\n'
)


@examples(150)
@given(st.data(), st.booleans(), st.sampled_from(["", " ", "|"]))
@pytest.mark.fuzz
def test_a_damaged_manifest_is_a_catalog_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject, fold_case: bool, sep: str
) -> None:
    pieces = st.one_of(
        st.binary(max_size=3),
        st.sampled_from([b'"', b",", b"\r", b"\n", b"..", b"/", b"\\", b"\0"]),
    )
    damaged = VALID
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(damaged)))
        damaged = (
            damaged[:place] + data.draw(pieces) + damaged[place + data.draw(st.integers(0, 3)) :]
        )
    images = {f"{name}.jpg": PICTURES[number] for number, name in enumerate("abc")}
    root = write_tree(tmp_path_factory.mktemp("damaged"), {"t.csv": damaged, **images})
    columns = data.draw(st.sampled_from([(), (ColumnOption("age"),)]))
    try:
        catalog = scan(root / "t.csv", fold_case=fold_case, label_sep=sep, column=columns)
    except ImgrecError:
        return
    assert set(catalog.samples.filenames) <= set(images)
    assert set(catalog.samples.class_names) <= {*catalog.class_folders, ""}


# Which files


def test_part_files_of_a_folder_are_one_manifest(tmp_path: Path) -> None:
    parts = {
        "part-00000": b"id,label\na,x\n",
        "part-00001": b"id,label\n\nb,y\nq,y\n",
        "part-00002": b"",
        "_SUCCESS": b"",
        ".part-00000.crc": b"\0",
        "dt=2024/part-00000": b"id,label\nc,x\n",
        "README.txt": b"flowers",
    }
    write_tree(tmp_path / "flowers", parts)
    make(tmp_path / "images", "", "a.jpg", "b.jpg", "c.jpg", name="notes.md")
    catalog = scan(tmp_path / "flowers", images=str(tmp_path / "images"))
    assert labels(catalog) == {"a.jpg": "x", "b.jpg": "y", "c.jpg": "x"}
    assert catalog.bad == (Note("q", "part-00001:4: no such image"),)
    assert catalog.name == "flowers"
    assert catalog.layout == "CSV manifest of 4 parts: id -> image, label -> label"
    assert ignored(catalog) == {
        "not a table": (1, ("README.txt",)),
        "not an image": (1, ("notes.md",)),
    }


def test_hive_part_files_have_no_header_and_odd_delimiters(tmp_path: Path) -> None:
    write_tree(tmp_path / "t", {"000000_0": b"a.jpg\x01x\n", "000001_0": b"b.jpg\x01y\n"})
    make(tmp_path / "images", "", "a.jpg", "b.jpg", name="_")
    catalog = scan(tmp_path / "t", images=str(tmp_path / "images"))
    assert labels(catalog) == {"a.jpg": "x", "b.jpg": "y"}


def test_a_pattern_names_several_files(tmp_path: Path) -> None:
    make(tmp_path / "d", "id,label\nb,y\n", "a.jpg", "b.jpg", name="p/t2.csv")
    make(tmp_path / "d", "id,label\na,x\nz,x\n", name="p/t1.csv")
    catalog = scan(tmp_path / "d/*/t*.csv")
    assert labels(catalog) == {"a.jpg": "x", "b.jpg": "y"}
    assert catalog.bad == (Note("z", "p/t1.csv:3: no such image"),)
    assert catalog.name == "d"


def test_parts_with_other_columns_are_an_error_that_names_the_file(tmp_path: Path) -> None:
    write_tree(tmp_path, {"t/p1.csv": b"id,label\na,x\n", "t/p2.csv": b"id,breed\nb,y\n"})
    make(tmp_path / "i", "", "a.jpg", name="_")
    with pytest.raises(SourceError, match=r"^p2\.csv has other columns than p1\.csv: id, breed"):
        scan(tmp_path / "t", images=str(tmp_path / "i"))


def test_parts_without_header_of_other_widths_are_an_error(tmp_path: Path) -> None:
    write_tree(tmp_path, {"t/p1.csv": b"a.jpg,x\n", "t/p2.csv": b"b.jpg,y,1\n"})
    make(tmp_path / "i", "", "a.jpg", name="_")
    with pytest.raises(SourceError, match=r"^p2\.csv has other columns than p1\.csv"):
        scan(tmp_path / "t", images=str(tmp_path / "i"))


def test_parts_of_two_kinds_are_an_error(tmp_path: Path) -> None:
    write_tree(tmp_path, {"t/p1.csv": b"a.jpg,x\n", "t/p2.jsonl": b'{"id": "b", "label": "x"}'})
    make(tmp_path / "i", "", "a.jpg", name="_")
    with pytest.raises(SourceError, match=r"(?m)^p2\.jsonl is JSONL, but p1\.csv is CSV$"):
        scan(tmp_path / "t", images=str(tmp_path / "i"))


@pytest.mark.parametrize("inside", ["_delta_log/0.json", "_temporary/0/x"])
def test_folders_whose_files_are_not_all_meant_are_an_error(tmp_path: Path, inside: str) -> None:
    write_tree(tmp_path / "t", {"part-0.csv": b"id,label\na,x\n", inside: b"{}"})
    with pytest.raises(SourceError, match=r"holds an export|is a Delta table"):
        scan(tmp_path / "t")


@pytest.mark.parametrize("path", ["none.csv", "no*.csv"])
def test_a_manifest_that_is_not_there_is_an_error(tmp_path: Path, path: str) -> None:
    with pytest.raises(SourceError, match=r"there is no|no file matches"):
        scan(tmp_path / path)


def test_a_manifest_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"(?m)^train\.csv has no rows$"):
        scan(make(tmp_path, "", "a.jpg"))
    with pytest.raises(SourceError, match=r"(?m)^train\.csv has a header but no rows$"):
        scan(make(tmp_path, "id,label\n", "a.jpg"))


def test_the_images_may_be_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.writestr("a/1.jpg", PICTURES[1])
        archive.writestr("b/2.jpg", PICTURES[2])
    (tmp_path / "t.csv").write_text("id,label\n1,x\nb/2.jpg,y\n")
    catalog = scan(tmp_path / "t.csv", images=str(tmp_path / "images.zip"))
    assert labels(catalog) == {"a/1.jpg": "x", "b/2.jpg": "y"}


def test_what_is_told_does_not_depend_on_where_the_manifest_is(tmp_path: Path) -> None:
    parts = {"part-0.csv": b"id,label\na,x\n", "part-1.csv": b"id,label\n"}
    write_tree(tmp_path / "flowers", {**parts, "a.jpg": PICTURES[0], "b.jpg": PICTURES[1]})
    (warning,) = scan(tmp_path / "flowers").warnings
    assert warning == "1 other image has no row in flowers, such as b.jpg"


def test_a_gzipped_manifest_is_one(tmp_path: Path) -> None:
    write_tree(tmp_path, {"t.csv.gz": gzip.compress(b"id,label\na,x\n"), "a.jpg": jpeg()})
    assert labels(scan(tmp_path / "t.csv.gz")) == {"a.jpg": "x"}


# Which image


@pytest.mark.parametrize(
    "text",
    [
        "cat/one.jpg", "./cat/one.jpg", "cat//one.jpg", "one.jpg", "one", "cat/one", " one ",
        "data/cat/one.jpg", "cat\\one.jpg", ".\\cat\\one.jpg", "dog/../cat/one.jpg",
    ],
)  # fmt: skip
def test_an_image_is_named_by_path_name_or_stem(tmp_path: Path, text: str) -> None:
    path = make(tmp_path / "data", f"id,label\n{text},x\n", "cat/one.jpg", "cat/two.jpg")
    assert labels(scan(path)) == {"cat/one.jpg": "x"}


def test_an_absolute_path_inside_the_images_is_one(tmp_path: Path) -> None:
    path = make(tmp_path, f"id,label\n{tmp_path}/cat/one.jpg,x\n", "cat/one.jpg")
    assert labels(scan(path)) == {"cat/one.jpg": "x"}


@pytest.mark.parametrize("text", ["../secret.jpg", "/secret.jpg", "cat/../../x.jpg", "..", "..\\x"])
def test_a_path_out_of_the_images_is_a_bad_row(tmp_path: Path, text: str) -> None:
    path = make(tmp_path / "d", f"id,label\na,x\n{text},x\n", "a.jpg")
    write_tree(tmp_path, {"secret.jpg": jpeg()})
    reason = "train.csv:3: outside the folder of the images"
    assert scan(path).bad == (Note(text, reason),)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", ["café/été.jpg", "café/été", "été.jpg", "été"])
def test_accents_match_however_they_are_encoded(tmp_path: Path, form: str, text: str) -> None:
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    on_disk = unicodedata.normalize(other, "café/été.jpg")
    path = make(tmp_path, f"id,label\n{unicodedata.normalize(form, text)},x\n", on_disk)
    assert labels(scan(path)) == {on_disk: "x"}


def test_a_name_that_several_images_have_is_a_bad_row_that_names_them(tmp_path: Path) -> None:
    text = "id,label\n1.jpg,x\nb/1.jpg,x\n2,x\n3,x\n"
    path = make(tmp_path, text, "a/1.jpg", "b/1.jpg", "a/2.jpg", "a/2.png", "3.jpg", "a/3.jpg")
    catalog = scan(path)
    assert labels(catalog) == {"3.jpg": "x", "b/1.jpg": "x"}
    assert catalog.bad == (
        Note("1.jpg", "train.csv:2: 2 images could be meant: a/1.jpg, b/1.jpg"),
        Note("2", "train.csv:4: 2 images could be meant: a/2.jpg, a/2.png"),
    )


def test_an_id_never_means_a_file_that_is_no_image(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/1.txt": b"a box", "a/1.xml": b"<box/>"})
    catalog = scan(make(tmp_path, "id,label\n1,x\n", "a/1.jpg"))
    assert labels(catalog) == {"a/1.jpg": "x"}
    assert ignored(catalog) == {"not an image": (2, ("a/1.txt", "a/1.xml"))}


def test_rows_without_a_usable_image_are_bad_with_line_and_reason(tmp_path: Path) -> None:
    text = 'id,label\na,x\nb,x\n,x\nlost,"y\nz"\nc.jpg,x\nnotes.txt,x\ngone.jpg,x\n'
    write_tree(tmp_path, {"c.jpg": b"", "notes.txt": b"hello"})
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere")
    catalog = scan(make(tmp_path, text, "a.jpg"))
    assert labels(catalog) == {"a.jpg": "x"}
    broken = "no such image; the label 'y\\nz' contains a line break"
    assert catalog.bad == (
        Note("b", "train.csv:3: no such image"),
        Note("c.jpg", "train.csv:7: empty file"),
        Note("gone.jpg", "train.csv:9: broken link"),
        Note("lost", f"train.csv:5: {broken}"),
        Note("notes.txt", "train.csv:8: not an image"),
        Note("train.csv:4", "train.csv:4: no image is named"),
    )


def test_rows_of_another_width_are_bad(tmp_path: Path) -> None:
    catalog = scan(make(tmp_path, "id,label\na,x\nb\nc,x,y\n", "a.jpg"))
    assert catalog.bad == (
        Note("b", "train.csv:3: 1 cells instead of 2"),
        Note("c,x,y", "train.csv:4: 3 cells instead of 2"),
    )


def test_images_without_a_row_are_counted_and_a_few_are_named(tmp_path: Path) -> None:
    write_tree(tmp_path, {"other.csv": b"1", "broken.jpg": b"", "bare": PICTURES[7]})
    catalog = scan(make(tmp_path, "id,label\na,x\n", *(f"{name}.jpg" for name in "abcdef")))
    assert labels(catalog) == {"a.jpg": "x"}
    assert (catalog.bad, catalog.unplaced) == ((), ())
    rest = ("b.jpg", "broken.jpg", "c.jpg", "d.jpg", "e.jpg")
    assert ignored(catalog) == {
        "without a row": (6, rest),
        "not an image": (1, ("other.csv",)),
        "not named by a row": (1, ("bare",)),
    }
    assert catalog.warnings == (
        "6 other images have no row in train.csv, such as b.jpg, broken.jpg, c.jpg",
    )


@pytest.mark.parametrize("is_archive", [False, True])
def test_only_what_rows_name_is_looked_at(tmp_path: Path, is_archive: bool) -> None:
    images = {f"{at}.jpg": PICTURES[at % 8] + bytes(at) for at in range(200)}
    write_tree(tmp_path / "pool", images)
    if is_archive:
        with zipfile.ZipFile(tmp_path / "pool.zip", "w") as archive:
            for name, data in images.items():
                archive.writestr(name, data)
    table = tmp_path / "t.csv"
    table.write_text("id,label\n" + "".join(f"{at},x\n" for at in range(0, 200, 20)))
    looked_at: list[object] = []

    def run(function: Callable[..., object], tasks: Iterable[object]) -> Iterator[object]:
        for task in tasks:
            looked_at.extend(getattr(task, "blobs", ()))
            yield function(task)

    place = str(tmp_path / ("pool.zip" if is_archive else "pool"))
    here = replace(context(tmp_path / "spool", images=place), run=run)
    catalog = manifest.scan(str(table), here)
    assert len(catalog.samples) == len(looked_at) == 10
    assert catalog.unplaced == ()
    assert catalog.warnings[0].startswith("190 other images have no row in t.csv, such as 1.jpg, ")


def test_what_is_found_does_not_depend_on_other_rows(tmp_path: Path) -> None:
    names = ["a/1.jpg", "a/1.png", "b/2.jpg", "b/2.dat", "c/3", "é/4.jpg", "5.txt"]
    texts = ["a/1", "1.png", "2", "3", "e\u0301/4", "5", "5.txt", "./b\\2.jpg", "/c/3", "..", " "]
    finder = Finder(names, str(tmp_path))
    found = finder.find_all(texts)
    assert found == [finder.find_all([text])[0] for text in texts]
    assert found == [
        "2 images could be meant: a/1.jpg, a/1.png", 1, 2, 4, 5, "no such image", 6, 2, 4,
        "outside the folder of the images", "no image is named",
    ]  # fmt: skip


def test_what_is_unreadable_and_has_no_row_is_only_counted(tmp_path: Path) -> None:
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere")
    catalog = scan(make(tmp_path, "id,label\na,x\n", "a.jpg"))
    assert catalog.bad == ()
    assert ignored(catalog) == {"unreadable file": (1, ("gone.jpg",))}


def test_a_manifest_of_other_images_altogether_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError) as caught:
        scan(make(tmp_path, "id,label\nq,x\nr,x\n", "a.jpg"))
    assert str(caught.value) == (
        f"train.csv: none of 2 rows names an image in {tmp_path}; train.csv:2: 'q': no such image"
    )
    assert "--images" in caught.value.hint


def test_identical_images_share_their_content(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.jpg": jpeg(1), "b.jpg": jpeg(1), "c.png": png(1)})
    (tmp_path / "t.csv").write_text("id,label\na,x\nb,x\nc,x\n")
    one, two, three = scan(tmp_path / "t.csv").samples.contents
    assert one == two != three


# Which columns


@pytest.mark.parametrize(
    ("header", "roles"),
    [
        ("id,breed", "id -> image, breed -> label"),
        ("Image_Name,Class", "Image_Name -> image, Class -> label"),
        ("FILE NAME,Target", "FILE NAME -> image, Target -> label"),
        ("image,level", "image -> image, level -> label"),
        ("id_code,diagnosis", "id_code -> image, diagnosis -> label"),
        (" filepath , species ", "filepath -> image, species -> label"),
    ],
)
def test_usual_names_of_columns_are_known(tmp_path: Path, header: str, roles: str) -> None:
    assert scan(make(tmp_path, f"{header}\na,x\n", "a.jpg")).layout == f"CSV manifest: {roles}"


def test_columns_can_be_said(tmp_path: Path) -> None:
    text = "id,label,what,where,who\n1,y,a,val,p\n"
    catalog = scan(
        make(tmp_path, text, "a.jpg"),
        path_col="what", label_col="id", split_col="WHERE", group_col="who",
    )  # fmt: skip
    assert labels(catalog) == {"a.jpg": "1"}
    assert splits(catalog) == {"a.jpg": "val"}
    assert catalog.samples.groups == ("p",)
    expected = "what -> image, id -> label, where -> split, who -> group"
    assert catalog.layout == f"CSV manifest: {expected}"


@pytest.mark.parametrize("option", ["path_col", "label_col", "split_col", "group_col"])
def test_a_column_that_is_not_there_is_an_error_that_lists_those_that_are(
    tmp_path: Path, option: str
) -> None:
    with pytest.raises(UsageError, match=r"(?m)nope: train\.csv has no such column$") as caught:
        scan(make(tmp_path, "id,label\na,x\n", "a.jpg"), **{option: "nope"})
    assert caught.value.hint == "it has the columns id, label"


@pytest.mark.parametrize(
    ("header", "message", "option"),
    [
        ("id,label,class", "the columns label and class may both hold the labels", "--label-col"),
        ("id,file,label", "the columns id and file may both hold the images", "--path-col"),
        ("split,label,set", "has no usual column for the images", "--path-col"),
        ("id,has_cactus,x", "has no usual column for the labels", "--label-col"),
        ("id,x,split", "has no usual column for the labels", "--label-col"),
    ],
)
def test_columns_that_are_not_clear_are_an_error_that_names_them_and_the_option(
    tmp_path: Path, header: str, message: str, option: str
) -> None:
    with pytest.raises(SourceError, match=message) as caught:
        scan(make(tmp_path, f"{header}\na,a,a\n", "a.jpg"))
    assert option in caught.value.hint


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "id,rust,scab\na,0,1\nb,1.0,0\n",
            "; or, as columns hold 0 and 1 for one label each, pass --onehot rust,scab",
        ),
        (
            "id,attributes\na,1 2\nb,1\nc,2 1\n",
            "name it with --label-col, and add --label-sep, as cells seem to hold several labels",
        ),
        ("id,x\na,1\nb,2\n", "name it with --label-col"),
    ],
)
def test_hints_tell_how_several_labels_are_said(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(SourceError, match="no usual column for the labels") as caught:
        scan(make(tmp_path, text, "a.jpg", "b.jpg"))
    assert caught.value.hint.endswith(hint)


def test_a_column_may_be_the_image_and_travel_too(tmp_path: Path) -> None:
    path = make(tmp_path, "id_code,diagnosis\na,x\n", "a.jpg")
    catalog = scan(path, column=("id_code", "diagnosis"))
    assert labels(catalog) == {"a.jpg": "x"}
    assert [column.values for column in catalog.samples.columns] == [("a",), ("x",)]


def test_a_column_of_splits_that_travels_still_splits(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,split\na,x,train\nb,x,val\n", "a.jpg", "b.jpg")
    assert splits(scan(path, column=("split",))) == {"a.jpg": "train", "b.jpg": "val"}


def test_of_two_columns_that_name_images_the_one_that_does_not_travel_is_taken(
    tmp_path: Path,
) -> None:
    path = make(tmp_path, "id,file,label\na,a.jpg,x\n", "a.jpg")
    assert "file -> image" in scan(path, column=("id",)).layout


def test_tables_without_header_take_labels_second_beside_groups(tmp_path: Path) -> None:
    path = make(tmp_path, "a.jpg,x,p,7\nb.jpg,y,q,8\n", "a.jpg", "b.jpg")
    catalog = scan(path, group_col="3")
    assert labels(catalog) == {"a.jpg": "x", "b.jpg": "y"}


def test_tsv_part_files_are_called_tsv(tmp_path: Path) -> None:
    parts = {"part-00000": b"a.jpg\tx\n", "part-00001": b"b.jpg\ty\n"}
    write_tree(tmp_path / "t", parts)
    make(tmp_path / "i", "", "a.jpg", "b.jpg", name="_")
    assert scan(tmp_path / "t", images=str(tmp_path / "i")).layout.startswith("TSV manifest of 2")


def test_a_table_of_windows_is_a_warning(tmp_path: Path) -> None:
    path = make(tmp_path, "", "a.jpg")
    path.write_bytes("id,label\na,Zoë\n".encode("cp1252"))
    catalog = scan(path)
    assert labels(catalog) == {"a.jpg": "Zoë"}
    (told,) = catalog.warnings
    assert told.startswith("train.csv is not UTF-8, and was read as cp1252")
    assert scan(path, encoding="latin-1").warnings == ()


@pytest.mark.parametrize("encoding", ["klingon", "hex", "\0"])
def test_an_encoding_that_is_none_is_an_error(encoding: str) -> None:
    with pytest.raises(UsageError, match=r"encoding (that Python knows|cannot be)"):
        SourceOptions(encoding=encoding)


def test_two_columns_of_splits_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="the columns split and usage may both hold the splits"):
        scan(make(tmp_path, "id,label,split,usage\na,x,train,train\n", "a.jpg"))


def test_of_several_columns_of_ids_that_which_names_images_is_taken(tmp_path: Path) -> None:
    catalog = scan(make(tmp_path, "id,filename,label\n17,a.jpg,x\n", "a.jpg"))
    assert catalog.layout == "CSV manifest: filename -> image, label -> label"


def test_a_column_that_is_asked_for_is_not_taken_for_something_else(tmp_path: Path) -> None:
    text = "id,label,level,set\na,x,3,7\n"
    columns = (ColumnOption("level"), ColumnOption("set"))
    catalog = scan(make(tmp_path, text, "a.jpg"), column=columns)
    assert catalog.layout == (
        "CSV manifest: id -> image, label -> label, level -> int feature, set -> int feature"
    )


@pytest.mark.parametrize("text", ["a.jpg,x\nb.jpg,y\n", "lost.jpg,x\na,x\nb,y\n", "a,x,9\nb,y,9\n"])
def test_a_table_without_header_has_paths_first_and_labels_second(
    tmp_path: Path, text: str
) -> None:
    catalog = scan(make(tmp_path, text, "a.jpg", "b.jpg"))
    assert labels(catalog) == {"a.jpg": "x", "b.jpg": "y"}
    layout = "CSV manifest without header: column 1 -> image, column 2 -> label"
    assert catalog.layout == layout


def test_columns_without_names_are_said_by_number(tmp_path: Path) -> None:
    path = make(tmp_path, "x,test,a.jpg\n", "a.jpg")
    catalog = scan(path, path_col="3", label_col="1", split_col="2")
    assert (labels(catalog), splits(catalog)) == ({"a.jpg": "x"}, {"a.jpg": "test"})
    with pytest.raises(UsageError, match=r"--group-col 4: train\.csv has no such column"):
        scan(path, path_col="3", label_col="1", group_col="4")


def test_a_first_row_that_may_be_a_header_or_not_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="begins with photo_ref, kind: neither usual column"):
        scan(make(tmp_path, "photo_ref,kind\na,x\n", "a.jpg"))


def test_a_table_of_paths_only_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no column for labels, and its images are not in fold"):
        scan(make(tmp_path, "a.jpg\nb.jpg\n", "a.jpg"))


def test_a_column_of_bytes_is_an_error_if_it_is_meant(tmp_path: Path) -> None:
    pq.write_table(pa.table({"image": [b"x"], "label": [1]}), tmp_path / "t.parquet")
    write_tree(tmp_path, {"a.jpg": jpeg()})
    with pytest.raises(SourceError, match=r"^t\.parquet: the column image holds binary, neither"):
        scan(tmp_path / "t.parquet")


# Splits


@pytest.mark.parametrize(
    ("train", "val", "test"),
    [
        ("train.csv", "val.csv", "test.csv"),
        ("train_labels.csv", "valid_labels.csv", "test_labels.csv"),
        ("labels-train.csv", "labels-val.csv", "labels-testing.csv"),
        ("trainLabels.csv", "ValidationLabels.csv", "TESTING.csv"),
        ("a/train/part-0.csv", "a/val/part-0.csv", "a/split=test/part-0.csv"),
        ("set_train2017.csv", "set_val2017.csv", "set_test2017.csv"),
    ],
)
def test_the_files_of_a_manifest_name_their_splits(
    tmp_path: Path, train: str, val: str, test: str
) -> None:
    write_tree(tmp_path / "i", {f"{name}.jpg": PICTURES[at] for at, name in enumerate("abc")})
    rows = zip((train, val, test), "abc", strict=True)
    write_tree(tmp_path / "t", {file: f"id,label\n{name},x\n".encode() for file, name in rows})
    for source in (tmp_path / "t", tmp_path / "t/**/*.csv"):
        catalog = scan(source, images=str(tmp_path / "i"))
        assert splits(catalog) == {"a.jpg": "train", "b.jpg": "val", "c.jpg": "test"}
        assert catalog.layout == (
            "CSV manifest of 3 parts: id -> image, label -> label, file name -> split"
        )


@pytest.mark.parametrize("other", ["extra.csv", "trainers.csv", "train_val.csv", "trainval.csv"])
def test_files_of_which_only_some_name_splits_are_an_error(tmp_path: Path, other: str) -> None:
    make(tmp_path, "id,label\na,x\n", "a.jpg", "b.jpg", name="test.csv")
    make(tmp_path, "id,label\nb,x\n", name=other)
    with pytest.raises(SourceError, match=f"test.csv is for test, but the split of {other} is not"):
        scan(tmp_path / "*.csv")


def test_files_that_name_no_splits_are_parts_of_one_table(tmp_path: Path) -> None:
    make(tmp_path, "id,label\na,x\n", "a.jpg", "b.jpg", name="trainers.csv")
    make(tmp_path, "id,label\nb,x\n", name="latest.csv")
    assert splits(scan(tmp_path / "*.csv")) == {"a.jpg": "", "b.jpg": ""}


@pytest.mark.parametrize(
    ("name", "split"), [("train.csv", ""), ("val.csv", "val"), ("my_test.csv", "test")]
)
def test_a_single_file_is_for_the_split_in_its_name(tmp_path: Path, name: str, split: str) -> None:
    path = make(tmp_path, "id,label\na,x\n", "a.jpg", name=name)
    assert splits(scan(path)) == {"a.jpg": split}


def test_a_column_that_contradicts_the_name_of_its_file_is_an_error(tmp_path: Path) -> None:
    make(tmp_path, "id,label,split\na,x,train\n", "a.jpg", "b.jpg", name="train.csv")
    make(tmp_path, "id,label,split\nb,x,train\n", name="val.csv")
    with pytest.raises(
        SourceError, match=r"val\.csv:2 is for train, but the name of its file means"
    ):
        scan(tmp_path / "*.csv")


def test_a_column_that_agrees_with_the_names_of_files_or_is_empty_is_fine(tmp_path: Path) -> None:
    make(tmp_path, "id,label,split\na,x,Training\n", "a.jpg", "b.jpg", name="train.csv")
    make(tmp_path, "id,label,split\nb,x,\n", name="val.csv")
    catalog = scan(tmp_path / "*.csv")
    assert (splits(catalog), catalog.bad) == ({"a.jpg": "train", "b.jpg": "val"}, ())


def test_a_single_train_table_may_have_a_column_of_all_splits(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,split\na,x,train\nb,x,val\n", "a.jpg", "b.jpg")
    assert splits(scan(path)) == {"a.jpg": "train", "b.jpg": "val"}


@pytest.mark.parametrize("source", ["meta", "meta/t*.txt"])
def test_lists_of_paths_take_the_class_from_the_folder(tmp_path: Path, source: str) -> None:
    write_tree(tmp_path / "images", {f"{c}/{n}.jpg": jpeg(n) for c in "ab" for n in (1, 2)})
    lists = {"train.txt": b"a/1\nb/1\n", "test.txt": b"a/2\nb/2", "classes.txt": b"a\nb\n"}
    write_tree(tmp_path / "meta", lists)
    catalog = scan(tmp_path / source, images=str(tmp_path / "images"))
    assert labels(catalog) == {"a/1.jpg": "a", "a/2.jpg": "a", "b/1.jpg": "b", "b/2.jpg": "b"}
    assert [*splits(catalog).values()] == ["train", "test", "train", "test"]
    assert catalog.layout == (
        "CSV manifest of 2 parts without header: "
        "column 1 -> image, folder -> label, file name -> split"
    )


def test_lists_of_paths_and_labels_take_the_split_from_their_names(tmp_path: Path) -> None:
    names = [f"Places365_val_{at}.jpg" for at in range(2)]
    make(tmp_path, "", *names, "a/airfield/1.jpg", name="_")
    write_tree(tmp_path, {
        "places365_val.txt": f"{names[0]} 7\n{names[1]} 0\n".encode(),
        "places365_train_standard.txt": b"/a/airfield/1.jpg 0\n",
    })  # fmt: skip
    catalog = scan(tmp_path / "*.txt")
    assert labels(catalog) == {"a/airfield/1.jpg": "0", names[0]: "7", names[1]: "0"}
    assert splits(catalog) == {"a/airfield/1.jpg": "train", names[0]: "val", names[1]: "val"}


@pytest.mark.parametrize(
    ("train", "test"),
    [("id,label\na,x", "id\nb"), ("a.jpg x", "b.jpg"), ("id,label\na,x", "id,label\nb,")],
)
def test_a_test_table_needs_no_labels(tmp_path: Path, train: str, test: str) -> None:
    make(tmp_path, train, "a.jpg", "b.jpg", name="train.txt")
    make(tmp_path, test, name="test.txt")
    catalog = scan(tmp_path / "*.txt")
    assert (labels(catalog), catalog.bad) == ({"a.jpg": "x", "b.jpg": ""}, ())


def test_a_val_table_needs_labels(tmp_path: Path) -> None:
    make(tmp_path, "id,label\na,x\n", "a.jpg", "b.jpg", name="train.csv")
    make(tmp_path, "id\nb\n", name="val.csv")
    with pytest.raises(SourceError, match=r"val\.csv has other columns than train\.csv"):
        scan(tmp_path / "*.csv")


@pytest.mark.parametrize("folder", ["JPEGImages", "train"])
def test_a_list_of_images_in_one_folder_tells_no_classes(tmp_path: Path, folder: str) -> None:
    images = [f"{folder}/{name}.jpg" for name in "ab"]
    with pytest.raises(SourceError, match="its images are not in folders of several classes"):
        scan(make(tmp_path, "a.jpg\nb.jpg\n", *images, name="train.txt"))


def test_numbers_of_images_are_not_taken_for_labels(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"c/{at}.jpg": PICTURES[at % 8] + bytes(at) for at in range(12)})
    rows = "".join(f"{at + 1} c/{at}.jpg\n" for at in range(12))
    with pytest.raises(SourceError, match="column 1 has a different value in each of 12 rows"):
        scan(make(tmp_path, rows, name="images.txt"), path_col="2")


@pytest.mark.parametrize("name", ["sample_submission.csv", "sampleSubmission.csv"])
def test_a_sample_submission_is_never_taken_for_labels(tmp_path: Path, name: str) -> None:
    path = make(tmp_path / "t", "id,label\na,0\n", name=name)
    make(tmp_path / "i", "", "a.jpg", name="_")
    with pytest.raises(SourceError, match="is a sample submission by its name"):
        scan(path, images=str(tmp_path / "i"))
    make(tmp_path / "t", "id,label\na,7\n", name="labels.csv")
    catalog = scan(tmp_path / "t", images=str(tmp_path / "i"))
    assert labels(catalog) == {"a.jpg": "7"}
    assert ignored(catalog)["not a table"] == (1, (name,))


def test_splits_have_many_names(tmp_path: Path) -> None:
    words = {
        "train": "train", "Training": "train", "VAL": "val", "valid": "val", "validation": "val",
        "dev": "val", "Test": "test", "testing": "test",
    }  # fmt: skip
    rows = "".join(f"{number},x,{word}\n" for number, word in enumerate(words))
    catalog = scan(make(tmp_path, f"id,label,Split\n{rows}", *(f"{n}.jpg" for n in range(8))))
    assert list(splits(catalog).values()) == list(words.values())


def test_words_that_are_no_splits_are_an_error_that_lists_them(tmp_path: Path) -> None:
    text = "id,label,set\na,x,train\nb,x,kitchen\nc,x,yard\n"
    message = r"(?m)^train\.csv: the column set holds words that are not splits: 'kitchen', 'yard'$"
    with pytest.raises(SourceError, match=message):
        scan(make(tmp_path, text, "a.jpg"))


def test_rows_without_a_split_are_bad_unless_no_row_has_one(tmp_path: Path) -> None:
    catalog = scan(make(tmp_path, "id,label,set\na,x,train\nb,x,\n", "a.jpg", "b.jpg"))
    assert catalog.bad == (Note("b.jpg", "train.csv:3: no split in set"),)
    catalog = scan(make(tmp_path, "id,label,set\na,x,\nb,x, \n"))
    assert splits(catalog) == {"a.jpg": "", "b.jpg": ""}


# Labels


def test_a_row_without_label_is_bad_unless_it_is_for_testing(tmp_path: Path) -> None:
    text = "id,label,split\na,x,train\nb,,test\nc, ,val\n"
    catalog = scan(make(tmp_path, text, "a.jpg", "b.jpg", "c.jpg"))
    assert labels(catalog) == {"a.jpg": "x", "b.jpg": ""}
    assert splits(catalog) == {"a.jpg": "train", "b.jpg": "test"}
    assert catalog.bad == (Note("c.jpg", "train.csv:4: no label"),)
    assert set(catalog.class_folders) == {"x"}


def test_labels_lose_the_blanks_around_them(tmp_path: Path) -> None:
    assert labels(scan(make(tmp_path, "id,label\na, x \n", "a.jpg"))) == {"a.jpg": "x"}


def test_integers_of_a_column_of_floats_are_integers(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,3.0\nb,10.0\n", "a.jpg", "b.jpg")
    assert labels(scan(path)) == {"a.jpg": "3", "b.jpg": "10"}


def test_other_floats_stay_as_they_are(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,3.0\nb,2.5\n", "a.jpg", "b.jpg")
    assert labels(scan(path)) == {"a.jpg": "3.0", "b.jpg": "2.5"}


def test_integers_keep_their_zeros(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,03\nb,10\n", "a.jpg", "b.jpg", "c.jpg")
    assert labels(scan(path)) == {"a.jpg": "03", "b.jpg": "10"}


def test_negative_integers_come_before_the_others(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,10\nb,-1\nc,-10\n", "a.jpg", "b.jpg", "c.jpg")
    assert scan(path).class_order == ("-10", "-1", "10")


def test_spellings_are_merged_into_the_commonest_or_the_first_on_request(tmp_path: Path) -> None:
    text = "id,label\na,pug dog\nb,Pug Dog\nc,Pug Dog\nd,pug  dog\n"
    path = make(tmp_path, text, "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    assert set(labels(scan(path, fold_case=True)).values()) == {"Pug Dog"}
    path = make(tmp_path, "id,label\na,pug\nb,Pug\n")
    assert set(labels(scan(path, fold_case=True)).values()) == {"pug"}


def test_rows_of_one_image_in_two_spellings_agree_if_they_are_merged(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,Pug\na,pug\n", "a.jpg")
    assert labels(scan(path, fold_case=True)) == {"a.jpg": "Pug"}


def test_accents_of_labels_are_composed(tmp_path: Path) -> None:
    text = f"id,label\na,{unicodedata.normalize('NFD', 'é')}\nb,é\n"
    assert set(labels(scan(make(tmp_path, text, "a.jpg", "b.jpg"))).values()) == {"é"}


def test_one_image_with_two_labels_is_bad_with_all_lines(tmp_path: Path) -> None:
    text = "id,label\na,x\nb,x\na.jpg,y\n"
    catalog = scan(make(tmp_path, text, "a.jpg", "b.jpg"))
    assert labels(catalog) == {"b.jpg": "x"}
    told = "the rows of this image differ in label: x in train.csv:2, y in train.csv:4"
    assert catalog.bad == (
        Note("a.jpg", f"train.csv:2: {told}"),
        Note("a.jpg", f"train.csv:4: {told}"),
    )
    assert set(catalog.class_folders) == {"x", "y"}


@pytest.mark.parametrize("column", ["split", "group", "age"])
def test_one_image_with_rows_that_differ_elsewhere_is_bad(tmp_path: Path, column: str) -> None:
    first = {"split": "train", "group": "p", "age": "1"}
    rows = [first, {**first, column: {"split": "val", "group": "q", "age": "2"}[column]}]
    lines = [f"a,x,{row['split']},{row['group']},{row['age']}\n" for row in rows]
    path = make(tmp_path, "id,label,split,group,age\n" + "".join(lines), "a.jpg")
    catalog = scan(path, group_col="group", column=(ColumnOption("age"),))
    assert len(catalog.samples) == 0
    assert f"differ in {column}" in catalog.bad[0].reason


def test_rows_that_say_the_same_again_are_listed(tmp_path: Path) -> None:
    catalog = scan(make(tmp_path, "id,label\na,x\na.jpg,x\na,x\n", "a.jpg"))
    assert labels(catalog) == {"a.jpg": "x"}
    assert catalog.unplaced == (
        Note("a.jpg", "train.csv:3: a duplicate row", NoteKind.UNPLACED),
        Note("a.jpg", "train.csv:4: a duplicate row", NoteKind.UNPLACED),
    )


def test_numbers_get_names(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,1\nb,0.0\n", "a.jpg", "b.jpg")
    catalog = scan(path, label_names=("cat", "dog"))
    assert labels(catalog) == {"a.jpg": "dog", "b.jpg": "cat"}
    assert catalog.class_order == ("cat", "dog")


def test_labels_without_a_name_are_all_listed(tmp_path: Path) -> None:
    text = "id,label\na,1\nb,5\nc,cat\nd,-1\n"
    path = make(tmp_path, text, "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    with pytest.raises(SourceError) as caught:
        scan(path, label_names=("cat", "dog"))
    expected = "train.csv: --label-names has no name for the labels -1, 5, cat"
    assert caught.value.message == expected
    assert caught.value.hint.startswith("it names the labels 0, 1:")


def test_labels_that_count_from_1_are_an_error_and_never_shifted(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,1\nb,2\n", "a.jpg", "b.jpg")
    message = r"(?m)^train\.csv: the labels count from 1 to 2, but --label-names from 0 to 1$"
    with pytest.raises(SourceError, match=message):
        scan(path, label_names=("cat", "dog"))


def test_names_for_labels_that_are_no_numbers_are_an_error(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label\na,cat\n", "a.jpg")
    with pytest.raises(SourceError, match="the labels are not numbers"):
        scan(path, label_names=("cat", "dog"))


# Several labels


def test_a_separator_makes_several_labels_of_a_cell(tmp_path: Path) -> None:
    text = "id,tags\na,x y\nb,\nc, y  y \n"
    catalog = scan(make(tmp_path, text, "a.jpg", "b.jpg", "c.jpg"), label_sep=" ")
    assert sets(catalog) == {"a.jpg": ("x", "y"), "b.jpg": (), "c.jpg": ("y",)}
    assert catalog.samples.class_names == ("x", "", "y")
    assert set(catalog.class_folders) == {"x", "y"}
    assert catalog.layout == "CSV manifest: id -> image, tags -> labels"


def test_one_hot_columns_make_labels(tmp_path: Path) -> None:
    text = "id,cat,dog,bird\na,1,0,0\nb,1.0,TRUE,0\nc,0,false,0.0\nd,0,,0.5\n"
    path = make(tmp_path, text, "a.jpg", "b.jpg", "c.jpg", "d.jpg")
    catalog = scan(path, onehot=("dog", "cat", "bird"))
    assert sets(catalog) == {"a.jpg": ("cat",), "b.jpg": ("dog", "cat"), "c.jpg": ()}
    assert catalog.class_order == ("dog", "cat", "bird")
    assert set(catalog.class_folders) == {"dog", "cat", "bird"}
    assert catalog.bad == (
        Note(
            "d.jpg",
            "train.csv:5: '' in the one-hot column dog, not 0 or 1; "
            "'0.5' in the one-hot column bird, not 0 or 1",
        ),
    )


def test_lists_are_several_labels(tmp_path: Path) -> None:
    rows = [{"id": "a", "label": ["x", 2]}, {"id": "b", "label": []}, {"id": "c", "label": "x"}]
    text = "\n".join(map(json.dumps, rows))
    catalog = scan(make(tmp_path, text, "a.jpg", "b.jpg", "c.jpg", name="t.jsonl"))
    assert sets(catalog) == {"a.jpg": ("x", "2"), "b.jpg": (), "c.jpg": ("x",)}


def test_lists_of_a_parquet_file_are_several_labels(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a", "b"], "label": [[1, 2], None]}), tmp_path / "t.parquet")
    write_tree(tmp_path, {"a.jpg": jpeg(1), "b.jpg": jpeg(2)})
    assert sets(scan(tmp_path / "t.parquet")) == {"a.jpg": ("1", "2"), "b.jpg": ()}


def test_rows_of_one_image_with_the_same_labels_in_another_order_agree(tmp_path: Path) -> None:
    path = make(tmp_path, "id,tags\na,x y\na,y x\nb,x\nb,x y\n", "a.jpg", "b.jpg")
    catalog = scan(path, label_sep=" ")
    assert sets(catalog) == {"a.jpg": ("x", "y")}
    assert [skipped.filename for skipped in catalog.bad] == ["b.jpg", "b.jpg"]


def test_spelling_counts_in_lists_too(tmp_path: Path) -> None:
    path = make(tmp_path, "id,tags\na,x y\nb,X\nc,x\n", "a.jpg", "b.jpg", "c.jpg")
    assert sets(scan(path, label_sep=" "))["b.jpg"] == ("X",)
    assert sets(scan(path, label_sep=" ", fold_case=True))["b.jpg"] == ("x",)


def test_one_hot_columns_need_no_other_labels(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,cat\na,x,1\n", "a.jpg")
    with pytest.raises(UsageError, match="--onehot and --label-col do not go together"):
        scan(path, onehot=("cat",), label_col="label")


@pytest.mark.parametrize("nothing", ["", " ", "NA", "nan"])
def test_empty_one_hot_cells_are_no_label_of_a_test_row_and_a_fault_elsewhere(
    tmp_path: Path, nothing: str
) -> None:
    text = f"""id,cat,dog,split
a,1,0,train
b,{nothing},{nothing},test
c,{nothing},{nothing},train
d,1,{nothing},test
e,0,0,train
"""
    path = make(tmp_path, text, "a.jpg", "b.jpg", "c.jpg", "d.jpg", "e.jpg")
    catalog = scan(path, onehot=("cat", "dog"))
    assert sets(catalog) == {"a.jpg": ("cat",), "b.jpg": (), "e.jpg": ()}
    assert catalog.bad == (
        Note("c.jpg", "train.csv:4: no label"),
        Note("d.jpg", f"train.csv:5: {nothing!r} in the one-hot column dog, not 0 or 1"),
    )


# Further columns


@pytest.mark.parametrize("column", ["3", "3:int"])
def test_a_column_without_a_name_gets_one(tmp_path: Path, column: str) -> None:
    catalog = scan(make(tmp_path, "a.jpg,x,9\n", "a.jpg"), column=(column,))
    assert catalog.samples.columns == (Column("column_3", ColumnKind.INT, (9,)),)
    assert "column 2 -> label, column_3 -> int feature" in catalog.layout


def test_a_column_that_is_asked_for_by_number_keeps_its_name(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,age,image\na,x,9,b\n", "a.jpg")
    catalog = scan(path, column=("3",), path_col="id")
    assert catalog.samples.columns[0].name == "age"
    with pytest.raises(
        UsageError, match="--column image: every record already has the feature image"
    ):
        scan(path, column=("4",), path_col="id")
    with pytest.raises(UsageError, match="--column age is given twice"):
        scan(path, column=("3", "age"), path_col="id")


def test_further_columns_travel_along_in_the_kind_that_fits(tmp_path: Path) -> None:
    text = "id,label,age,score,note\nb,x,-7,1,\na,x,9223372036854775807,2.5e3, hm\n"
    names = ("age", "score", "note")
    catalog = scan(make(tmp_path, text, "a.jpg", "b.jpg"), column=tuple(map(ColumnOption, names)))
    assert catalog.samples.columns == (
        Column("age", ColumnKind.INT, (9223372036854775807, -7)),
        Column("score", ColumnKind.FLOAT, (2500.0, 1.0)),
        Column("note", ColumnKind.TEXT, (" hm", "")),
    )


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ("1 2", "int"), ("1 9223372036854775808", "float"), ("1 2.0", "float"), ("1 x", "text"),
        ("1_0 2", "text"), ("\u0661 2", "text"), ("true false", "text"), ("1  2", "int"),
    ],
)  # fmt: skip
def test_the_kind_of_a_column_is_the_narrowest_that_holds_all(
    tmp_path: Path, values: str, kind: str
) -> None:
    rows = "".join(f"{at},x,{value}\n" for at, value in enumerate(values.split(" ")))
    path = make(tmp_path, f"id,label,c\n{rows}", "0.jpg", "1.jpg", "2.jpg")
    (column,) = scan(path, column=(ColumnOption("c"),)).samples.columns
    assert column.kind == kind


def test_the_kind_of_a_column_can_be_said(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,c\na,x,3.0\nb,x,3.5\nc,x,\n", "a.jpg", "b.jpg", "c.jpg")
    as_int = scan(path, column=(ColumnOption("c", ColumnKind.INT),))
    assert as_int.samples.columns == (Column("c", ColumnKind.INT, (3, -1)),)
    assert as_int.bad == (Note("b.jpg", "train.csv:3: '3.5' in the column c is not an int"),)
    as_text = scan(path, column=(ColumnOption("c", ColumnKind.TEXT),))
    assert as_text.samples.columns == (Column("c", ColumnKind.TEXT, ("3.0", "3.5", "")),)


@pytest.mark.parametrize(
    ("asked", "values", "told"),
    [
        ("age", (7, -1), "age: 1 of 2 cells are missing, and become -1"),
        ("age:int=0", (7, 0), "age: 1 of 2 cells are missing, and become 0"),
        ("age:float=0.5", (7.0, 0.5), "age: 1 of 2 cells are missing, and become 0.5"),
        ("age:text", ("7", ""), 'age: 1 of 2 cells are missing, and become ""'),
        ("age:text=no", ("7", "no"), 'age: 1 of 2 cells are missing, and become "no"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl", "parquet"])
def test_a_missing_value_keeps_its_image_and_becomes_the_default(
    tmp_path: Path, kind: str, asked: str, values: tuple[object, ...], told: str
) -> None:
    tables = {
        "csv": b"id,label,age\na,x,7\nb,x,\n",
        "tsv": b"id\tlabel\tage\na\tx\t7\nb\tx\t\n",
        "jsonl": b'{"id":"a","label":"x","age":7}\n{"id":"b","label":"x","age":null}\n',
    }
    write_tree(tmp_path, {"a.jpg": PICTURES[0], "b.jpg": PICTURES[1]})
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"id": ["a", "b"], "label": ["x", "x"], "age": [7, None]}), path)
    else:
        path.write_bytes(tables[kind])
    catalog = scan(path, column=(asked,))
    assert catalog.samples.columns[0].values == values
    assert (catalog.bad, catalog.warnings) == ((), (told,))


@pytest.mark.parametrize(
    "word", ["", " ", "NA", "N/A", "nan", "NaN", "null", "None", "<NA>", "\\N"]
)
def test_a_missing_float_is_nan_however_it_is_written(tmp_path: Path, word: str) -> None:
    path = make(tmp_path, f"id,label,c\na,x,2.5\nb,x,{word}\n", "a.jpg", "b.jpg")
    catalog = scan(path, column=("c",))
    (column,) = catalog.samples.columns
    assert column.kind == "float"
    assert column.values[0] == 2.5
    assert math.isnan(column.values[1])  # type: ignore[arg-type]
    assert catalog.bad == ()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (("1.0", ""), "int"), (("1.0", "NA", "2"), "int"), (("1.5", "", "2.0"), "float"),
        (("1.0", "2.0"), "float"), (("", "NA"), "text"), (("", ""), "text"), (("a", "NA"), "text"),
    ],
)  # fmt: skip
def test_missing_cells_do_not_change_the_kind_of_a_column(
    tmp_path: Path, values: tuple[str, ...], kind: str
) -> None:
    rows = "".join(f"{at},x,{value}\n" for at, value in enumerate(values))
    path = make(tmp_path, f"id,label,c\n{rows}", "0.jpg", "1.jpg", "2.jpg")
    assert scan(path, column=("c",)).samples.columns[0].kind == kind


def test_whole_numbers_that_pandas_wrote_as_floats_are_numbers_again(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.jpg": PICTURES[0], "b.jpg": PICTURES[1]})
    table = {"id": ["a", "b"], "label": ["x", "x"], "age": [30.0, float("nan")]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    (column,) = scan(tmp_path / "t.parquet", column=("age",)).samples.columns
    assert column == Column("age", ColumnKind.INT, (30, -1))


def test_words_for_nothing_are_words_in_a_column_of_text(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,c\na,x,NA\nb,x,Namibia\n", "a.jpg", "b.jpg")
    catalog = scan(path, column=("c:text=none",))
    assert catalog.samples.columns[0].values == ("NA", "Namibia")
    assert catalog.warnings == ()


def test_a_default_that_other_rows_have_too_is_told(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,c\na,x,-1\nb,x,\n", "a.jpg", "b.jpg")
    (told,) = scan(path, column=("c",)).warnings
    assert told == (
        "c: 1 of 2 cells are missing, and become -1, which other cells hold too; "
        "pass another default to tell them apart"
    )


def test_rows_of_one_image_without_a_value_agree(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,c\na,x,\na,x,nan\nb,x,1.5\n", "a.jpg", "b.jpg")
    assert scan(path, column=("c",)).bad == ()


def test_an_empty_label_of_a_parquet_table_of_floats_is_empty(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.jpg": PICTURES[0], "b.jpg": PICTURES[1]})
    table = {"id": ["a", "b"], "label": [3.0, float("nan")], "split": ["train", "test"]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    assert labels(scan(tmp_path / "t.parquet")) == {"a.jpg": "3", "b.jpg": ""}


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ("age:int=x", "column age: the default 'x' does not fit the type int"),
        ("age:int=9223372036854775808", "the default 9223372036854775808 does not fit"),
        ("age:float=x", "the default 'x' does not fit the type float"),
        ("age:bool", "column age:bool: bool is not a column type"),
        (ColumnOption("age", None, 0), "column age: a default needs a type"),
        (ColumnOption("age", ColumnKind.INT, "0"), "the default '0' does not fit the type int"),
        (ColumnOption("age", ColumnKind.INT, True), "the default True does not fit the type int"),
        (3.5, "column cannot be 3.5"),
    ],
)
def test_a_default_that_does_not_fit_is_an_error(asked: object, message: str) -> None:
    with pytest.raises(UsageError, match=re.escape(message)):
        SourceOptions(column=(asked,))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("age", ColumnOption("age")),
        ("age:int", ColumnOption("age", ColumnKind.INT)),
        ("age:int=-5", ColumnOption("age", ColumnKind.INT, -5)),
        ("age:float=3", ColumnOption("age", ColumnKind.FLOAT, 3.0)),
        ("note:text=", ColumnOption("note", ColumnKind.TEXT, "")),
        ("note:text=a:b=c", ColumnOption("note", ColumnKind.TEXT, "a:b=c")),
        ("a:b", ColumnOption("a:b")),
        ("a:b:int", ColumnOption("a:b", ColumnKind.INT)),
        ("a=b", ColumnOption("a=b")),
        (ColumnOption("a:int"), ColumnOption("a:int")),
        (ColumnOption("age", "float", 3), ColumnOption("age", ColumnKind.FLOAT, 3.0)),
    ],
)
def test_columns_of_options_are_parsed(text: object, expected: ColumnOption) -> None:
    assert SourceOptions(column=(text,)).column == (expected,)  # type: ignore[arg-type]
    assert SourceOptions(column=text).column == (expected,)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["filename", "image", "label", "labels", "shape"])
def test_what_every_record_has_cannot_be_a_further_column(tmp_path: Path, name: str) -> None:
    path = make(tmp_path, f"id,class,{name}\na,x,1\n", "a.jpg")
    with pytest.raises(
        UsageError, match=f"--column {name}: every record already has the feature {name}"
    ):
        scan(path, column=(ColumnOption(name),))


def test_a_further_column_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"--column age: train\.csv has no such column"):
        scan(make(tmp_path, "id,label\na,x\n", "a.jpg"), column=(ColumnOption("age"),))


def test_groups_are_those_of_their_column_and_nothing_for_empty_cells(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,patient\nb,x, p1\na,x,\n", "a.jpg", "b.jpg")
    assert scan(path).samples.groups == ()
    assert scan(path, group_col="patient").samples.groups == ("", "p1")


def test_a_number_too_large_for_a_float_feature_is_a_bad_row(tmp_path: Path) -> None:
    path = make(tmp_path, "id,label,x\na,pug,1e300\nb,pug,inf\n", "a.jpg", "b.jpg")
    catalog = scan(path, column=(ColumnOption("x", ColumnKind.FLOAT),))
    assert [bad.filename for bad in catalog.bad] == ["a.jpg"]
    assert catalog.samples.columns == (Column("x", ColumnKind.FLOAT, (float("inf"),)),)
