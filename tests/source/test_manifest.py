"""Manifests: tables that give each image its class."""

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
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Cli
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
Options = dict[str, Any]


def scan(path: Path, **options: object) -> Catalog:
    return manifest.scan(str(path), context(**options))


def make(root: Path, text: str, *images: str, name: str = "train.csv") -> Path:
    """Write a manifest and images, each different; return the manifest's path."""
    pictures = {image: PICTURES[number] for number, image in enumerate(images)}
    write_tree(root, {name: text.encode(), **pictures})
    return root / name


def scan_text(root: Path, text: str, images: str = "abcd", **options: object) -> Catalog:
    """Scan a table of the images a.jpg, b.jpg and so on. Notes about files without rows go."""
    catalog = scan(make(root, text, *(f"{name}.jpg" for name in images)), **options)
    warnings = [note for note in catalog.notes if "no row in" not in note.reason]
    return replace(catalog, notes=tuple(warnings))


def shown(catalog: Catalog, values: Iterable[object]) -> str:
    """Show a value of each image: "a:x b:y"."""
    names = [name.rpartition("/")[2].partition(".")[0] for name in catalog.samples.filenames]
    return " ".join(f"{name}:{value}" for name, value in zip(names, values, strict=True))


def labels(catalog: Catalog) -> str:
    return shown(catalog, catalog.samples.class_names)


def splits(catalog: Catalog) -> str:
    return shown(catalog, catalog.samples.splits)


def sets(catalog: Catalog) -> str:
    return shown(catalog, map("+".join, catalog.samples.class_sets))


def ignored(catalog: Catalog) -> dict[str, tuple[int, tuple[str, ...]]]:
    return {kind.kind: (kind.count, kind.examples) for kind in catalog.ignored}


def cases(values: dict[str, tuple[Any, ...]]) -> Any:
    """Parametrize over the values of a dict, whose keys name the facts."""
    return pytest.mark.parametrize("case", values.values(), ids=values)


def test_a_csv_file_gives_each_image_its_class(tmp_path: Path) -> None:
    path = make(tmp_path / "dogs", "id,breed\na,pug\nb,boxer\n", "a.jpg", "b.jpg")
    catalog = scan(path)
    assert labels(catalog) == "a:pug b:boxer"
    assert catalog.layout.text == "CSV manifest: id -> image, breed -> label"
    assert catalog.name == "dogs"
    assert catalog.class_folders == {"boxer": ("train.csv:3",), "pug": ("train.csv:2",)}
    assert catalog.notes == ()
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
    assert catalog.notes == ()
    assert set(catalog.class_folders) == set(expected.class_folders)


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


# Files


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
    assert labels(catalog) == "a:x b:y c:x"
    assert catalog.bad == (Note("q", "part-00001:4: no such image"),)
    assert catalog.name == "flowers"
    assert catalog.layout.text == "CSV manifest of 4 parts: id -> image, label -> label"
    assert ignored(catalog) == {
        "not a table": (1, ("README.txt",)),
        "not an image": (1, ("notes.md",)),
    }


@pytest.mark.parametrize(
    ("parts", "layout"),
    [
        ({"000000_0": b"a.jpg\x01x\n", "000001_0": b"b.jpg\x01y\n"}, "CSV manifest of 2 parts"),
        ({"part-00000": b"a.jpg\tx\n", "part-00001": b"b.jpg\ty\n"}, "TSV manifest of 2 parts"),
        ({"t.csv.gz": gzip.compress(b"id,label\na,x\nb,y\n")}, "CSV manifest: "),
    ],
)
def test_parts_may_be_of_hive_or_tsv_or_gzipped(
    tmp_path: Path, parts: dict[str, bytes], layout: str
) -> None:
    write_tree(tmp_path / "t", parts)
    make(tmp_path / "i", "", "a.jpg", "b.jpg", name="_")
    catalog = scan(tmp_path / "t", images=str(tmp_path / "i"))
    assert labels(catalog) == "a:x b:y"
    assert catalog.layout.text.startswith(layout)


def test_a_pattern_names_several_files(tmp_path: Path) -> None:
    make(tmp_path / "d", "id,label\nb,y\n", "a.jpg", "b.jpg", name="p/t2.csv")
    make(tmp_path / "d", "id,label\na,x\nz,x\n", name="p/t1.csv")
    catalog = scan(tmp_path / "d/*/t*.csv")
    assert labels(catalog) == "a:x b:y"
    assert catalog.bad == (Note("z", "p/t1.csv:3: no such image"),)
    assert catalog.name == "d"


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (("p1.csv", "id,label\na,x"), "p2.csv has other columns than p1.csv: id, breed"),
        (("p1.csv", "a.jpg,x,1"), "p2.csv has other columns than p1.csv"),
        (("p1.jsonl", '{"id": "a"}'), "p2.csv is CSV, but p1.jsonl is JSONL"),
        (("_delta_log/0.json", "{}"), "is a Delta table"),
        (("_temporary/0/x", "{}"), "holds an export that is not finished"),
        (("sample_submission.csv", "id,label\na,0"), ""),
    ],
)
def test_files_that_are_not_one_table_are_refused(
    tmp_path: Path, files: tuple[str, str], message: str
) -> None:
    text = b"b.jpg,y\n" if files[1] == "a.jpg,x,1" else b"id,breed\na,y\n"
    write_tree(tmp_path / "t", {"p2.csv": text, files[0]: files[1].encode()})
    make(tmp_path / "i", "", "a.jpg", name="_")
    images = str(tmp_path / "i")
    if message:
        with pytest.raises(SourceError, match=re.escape(message)):
            scan(tmp_path / "t", images=images)
    else:  # a sample submission is never taken for labels
        catalog = scan(tmp_path / "t", images=images)
        assert labels(catalog) == "a:y"
        assert ignored(catalog)["not a table"] == (1, (files[0],))
        with pytest.raises(SourceError, match="is a sample submission by its name"):
            scan(tmp_path / "t" / files[0], images=images)


@cases(
    {
        "no file": ("none.csv", None, "there is no"),
        "no match": ("no*.csv", None, "no file matches"),
        "empty": ("train.csv", "", r"(?m)^train\.csv has no rows$"),
        "only a header": ("train.csv", "id,label\n", r"(?m)^train\.csv has a header but no rows$"),
        "other images": (
            "train.csv", "id,label\nq,x\nr,x\n",
            r"^train\.csv: none of 2 rows names an image in .*; train\.csv:2: 'q': no such image",
        ),
        "only paths": (
            "train.csv", "a.jpg\nb.jpg\n", "no column for labels, and its images are not in fold"
        ),
    }
)  # fmt: skip
def test_a_manifest_without_usable_rows_is_refused(tmp_path: Path, case: Any) -> None:
    name, text, message = case
    if text is not None:
        make(tmp_path, text, "a.jpg")
    with pytest.raises(SourceError, match=message):
        scan(tmp_path / name)


def test_the_images_may_be_in_an_archive(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        archive.writestr("a/1.jpg", PICTURES[1])
        archive.writestr("b/2.jpg", PICTURES[2])
    (tmp_path / "t.csv").write_text("id,label\n1,x\nb/2.jpg,y\n")
    assert labels(scan(tmp_path / "t.csv", images=str(tmp_path / "images.zip"))) == "1:x 2:y"


def test_warnings_do_not_depend_on_the_place_of_the_manifest(tmp_path: Path) -> None:
    parts = {"part-0.csv": b"id,label\na,x\n", "part-1.csv": b"id,label\n"}
    write_tree(tmp_path / "flowers", {**parts, "a.jpg": PICTURES[0], "b.jpg": PICTURES[1]})
    (warning,) = scan(tmp_path / "flowers").warnings
    assert warning == "1 other image has no row in flowers, such as b.jpg"


# Images


@pytest.mark.parametrize(
    "text",
    [
        "cat/one.jpg", "./cat/one.jpg", "cat//one.jpg", "one.jpg", "one", "cat/one", " one ",
        "data/cat/one.jpg", "cat\\one.jpg", ".\\cat\\one.jpg", "dog/../cat/one.jpg", "/cat/one.jpg",
        "{root}/cat/one.jpg",
    ],
)  # fmt: skip
def test_an_image_is_named_by_path_name_or_stem(tmp_path: Path, text: str) -> None:
    root = tmp_path / "data"
    table = f"id,label\n{text.replace('{root}', str(root))},x\n"
    catalog = scan(make(root, table, "cat/one.jpg", "cat/two.jpg"))
    assert catalog.samples.filenames == ("cat/one.jpg",)


@pytest.mark.parametrize("text", ["../secret.jpg", "/secret.jpg", "cat/../../x.jpg", "..", "..\\x"])
def test_a_path_out_of_the_images_is_a_bad_row(tmp_path: Path, text: str) -> None:
    path = make(tmp_path / "d", f"id,label\na,x\n{text},x\n", "a.jpg")
    write_tree(tmp_path, {"secret.jpg": jpeg()})
    assert scan(path).bad == (Note(text, "train.csv:3: outside the folder of the images"),)


@pytest.mark.parametrize("form", ["NFC", "NFD"])
@pytest.mark.parametrize("text", ["café/été.jpg", "café/été", "été.jpg", "été"])
def test_accents_match_however_they_are_encoded(tmp_path: Path, form: str, text: str) -> None:
    other = {"NFC": "NFD", "NFD": "NFC"}[form]
    on_disk = unicodedata.normalize(other, "café/été.jpg")
    path = make(tmp_path, f"id,label\n{unicodedata.normalize(form, text)},x\n", on_disk)
    assert scan(path).samples.filenames == (on_disk,)


def test_a_name_of_several_images_is_a_bad_row_that_names_them(tmp_path: Path) -> None:
    text = "id,label\n1.jpg,x\nb/1.jpg,x\n2,x\n3,x\n"
    path = make(tmp_path, text, "a/1.jpg", "b/1.jpg", "a/2.jpg", "a/2.png", "3.jpg", "a/3.jpg")
    catalog = scan(path)
    assert catalog.samples.filenames == ("3.jpg", "b/1.jpg")
    assert catalog.bad == (
        Note("1.jpg", "train.csv:2: 2 images could be meant: a/1.jpg, b/1.jpg"),
        Note("2", "train.csv:4: 2 images could be meant: a/2.jpg, a/2.png"),
    )


def test_an_id_never_means_a_text_file(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a/1.txt": b"a box", "a/1.xml": b"<box/>"})
    catalog = scan(make(tmp_path, "id,label\n1,x\n", "a/1.jpg"))
    assert catalog.samples.filenames == ("a/1.jpg",)
    assert ignored(catalog) == {"not an image": (2, ("a/1.txt", "a/1.xml"))}


def test_rows_without_a_usable_image_are_bad_with_line_and_reason(tmp_path: Path) -> None:
    text = 'id,label\na,x\nb,x\n,x\nlost,"y\nz"\nc.jpg,x\nnotes.txt,x\ngone.jpg,x\nb\n'
    write_tree(tmp_path, {"c.jpg": b"", "notes.txt": b"hello"})
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere")
    catalog = scan(make(tmp_path, text, "a.jpg"))
    assert labels(catalog) == "a:x"
    broken = "no such image; the label 'y\\nz' contains a line break"
    assert catalog.bad == (
        Note("b", "train.csv:10: 1 cells instead of 2"),
        Note("b", "train.csv:3: no such image"),
        Note("c.jpg", "train.csv:7: empty file"),
        Note("gone.jpg", "train.csv:9: broken link"),
        Note("lost", f"train.csv:5: {broken}"),
        Note("notes.txt", "train.csv:8: not an image"),
        Note("train.csv:4", "train.csv:4: no image is named"),
    )


def test_images_without_a_row_are_counted_and_a_few_are_named(tmp_path: Path) -> None:
    write_tree(tmp_path, {"other.csv": b"1", "broken.jpg": b"", "bare": PICTURES[7]})
    (tmp_path / "gone.jpg").symlink_to(tmp_path / "nowhere")
    catalog = scan(make(tmp_path, "id,label\na,x\n", *(f"{name}.jpg" for name in "abcdef")))
    assert labels(catalog) == "a:x"
    assert (catalog.bad, catalog.unplaced) == ((), ())
    assert ignored(catalog) == {
        "without a row": (6, ("b.jpg", "broken.jpg", "c.jpg", "d.jpg", "e.jpg")),
        "not an image": (1, ("other.csv",)),
        "not named by a row": (1, ("bare",)),
        "unreadable file": (1, ("gone.jpg",)),
    }
    assert catalog.warnings == (
        "6 other images have no row in train.csv, such as b.jpg, broken.jpg, c.jpg",
    )


@pytest.mark.parametrize("is_archive", [False, True])
def test_only_images_with_rows_are_opened(tmp_path: Path, is_archive: bool) -> None:
    images = {f"{at}.jpg": PICTURES[at % 8] + bytes(at) for at in range(200)}
    write_tree(tmp_path / "pool", images)
    if is_archive:
        with zipfile.ZipFile(tmp_path / "pool.zip", "w") as archive:
            for name, data in images.items():
                archive.writestr(name, data)
    table = tmp_path / "t.csv"
    table.write_text("id,label\n" + "".join(f"{at},x\n" for at in range(0, 200, 20)))
    opened: list[object] = []

    def run(function: Callable[..., object], tasks: Iterable[object]) -> Iterator[object]:
        for task in tasks:
            opened.extend(getattr(task, "blobs", ()))
            yield function(task)

    place = str(tmp_path / ("pool.zip" if is_archive else "pool"))
    here = replace(context(tmp_path / "spool", images=place), run=run)
    catalog = manifest.scan(str(table), here)
    assert len(catalog.samples) == len(opened) == 10
    assert catalog.warnings[0].startswith("190 other images have no row in t.csv, such as 1.jpg, ")


def test_the_image_of_a_row_does_not_depend_on_other_rows(tmp_path: Path) -> None:
    names = ["a/1.jpg", "a/1.png", "b/2.jpg", "b/2.dat", "c/3", "é/4.jpg", "5.txt"]
    texts = ["a/1", "1.png", "2", "3", "e\u0301/4", "5", "5.txt", "./b\\2.jpg", "/c/3", "..", " "]
    finder = Finder(names, str(tmp_path))
    found = finder.find_all(texts)
    assert found == [finder.find_all([text])[0] for text in texts]
    assert found == [
        "2 images could be meant: a/1.jpg, a/1.png", 1, 2, 4, 5, "no such image", 6, 2, 4,
        "outside the folder of the images", "no image is named",
    ]  # fmt: skip


def test_identical_images_share_their_content(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.jpg": jpeg(1), "b.jpg": jpeg(1), "c.png": png(1)})
    (tmp_path / "t.csv").write_text("id,label\na,x\nb,x\nc,x\n")
    one, two, three = scan(tmp_path / "t.csv").samples.contents
    assert one == two != three


# Columns

ROLES: dict[str, tuple[str, Options, str]] = {
    "id and breed": ("id,breed\na,x", {}, "id -> image, breed -> label"),
    "other case": ("Image_Name,Class\na,x", {}, "Image_Name -> image, Class -> label"),
    "with spaces": ("FILE NAME,Target\na,x", {}, "FILE NAME -> image, Target -> label"),
    "padded": (" filepath , species \na,x", {}, "filepath -> image, species -> label"),
    "given": (
        "id,label,what,where,who\n1,y,a,val,p",
        {"path_col": "what", "label_col": "id", "split_col": "WHERE", "group_col": "who"},
        "what -> image, id -> label, where -> split, who -> group",
    ),
    "of two ids, the one that names images": (
        "id,filename,label\n17,a.jpg,x", {}, "filename -> image, label -> label"
    ),
    "of two paths, the one that is not a feature": (
        "id,file,label\na,a.jpg,x", {"column": ("id",)},
        "file -> image, label -> label, id -> text feature",
    ),
    "features are not taken for labels or splits": (
        "id,label,level,set\na,x,3,7", {"column": ("level", "set")},
        "id -> image, label -> label, level -> int feature, set -> int feature",
    ),
    "a feature may be image and label too": (
        "id_code,diagnosis\na,x", {"column": ("id_code", "diagnosis")},
        "id_code -> image, diagnosis -> label, id_code -> text feature, diagnosis -> text feature",
    ),
    "a feature may be the split too": (
        "id,label,split\na,x,train", {"column": ("split",)},
        "id -> image, label -> label, split -> split, split -> text feature",
    ),
}  # fmt: skip


@cases(ROLES)
def test_columns_are_chosen_by_options_or_usual_names(tmp_path: Path, case: Any) -> None:
    text, options, roles = case
    catalog = scan_text(tmp_path, f"{text}\n", **options)
    assert catalog.layout.text == f"CSV manifest: {roles}"
    assert catalog.samples.filenames == ("a.jpg",)


@pytest.mark.parametrize("option", ["path_col", "label_col", "split_col", "group_col", "column"])
def test_a_column_that_does_not_exist_is_an_error_that_lists_the_columns(
    tmp_path: Path, option: str
) -> None:
    value = ("nope",) if option == "column" else "nope"
    with pytest.raises(UsageError, match=r"(?m)nope: train\.csv has no such column$") as caught:
        scan_text(tmp_path, "id,label\na,x\n", **{option: value})
    assert caught.value.hint == "it has the columns id, label"


def test_a_misspelled_column_is_a_usage_error_with_a_suggestion(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "scans", {"1.jpg": jpeg(1), "2.jpg": jpeg(2)})
    (tmp_path / "scans/train.csv").write_text("id,diagnosis,age\n1,x,4\n2,y,4\n")
    for option in ("--label-col", "--split-col", "--column"):
        for source in ("scans", "scans/train.csv"):
            done = cli("pack", source, "--label-col", "age", option, "diagnosys")
            assert "did you mean diagnosis? It has the columns id, diagnosis, age" in done.stderr
            assert done.returncode == 2


@cases(
    {
        "two labels": (
            "id,label,class\na,a,a", "the columns label and class may both hold the labels",
            "choose one with --label-col",
        ),
        "two paths": (
            "id,file,label\na,a,a", "the columns id and file may both hold the images",
            "choose one with --path-col",
        ),
        "two splits": (
            "id,label,split,usage\na,x,train,train",
            "the columns split and usage may both hold the splits", "choose one with --split-col",
        ),
        "no path": (
            "split,label,set\na,a,a", "has no usual column for the images",
            "name it with --path-col",
        ),
        "no label": (
            "id,x\na,1\nb,2", "has no usual column for the labels", "name it with --label-col"
        ),
        "flags": (
            "id,rust,scab\na,0,1\nb,1.0,0", "has no usual column for the labels",
            "; or, as columns hold 0 and 1 for one label each, pass --onehot rust,scab",
        ),
        "lists": (
            "id,attributes\na,1 2\nb,1\nc,2 1", "has no usual column for the labels",
            "name it with --label-col, and add --label-sep, as cells seem to hold several labels",
        ),
        "maybe a header": (
            "photo_ref,kind\na,x", "begins with photo_ref, kind: neither usual column",
            "by numbers if they have no names",
        ),
    }
)  # fmt: skip
def test_unclear_columns_are_an_error_that_names_the_option(tmp_path: Path, case: Any) -> None:
    text, message, hint = case
    with pytest.raises(SourceError, match=message) as caught:
        scan_text(tmp_path, f"{text}\n")
    assert caught.value.hint.endswith(hint)


@pytest.mark.parametrize("text", ["a.jpg,x\nb.jpg,y\n", "lost.jpg,x\na,x\nb,y\n", "a,x,9\nb,y,9\n"])
def test_a_table_without_header_has_paths_first_and_labels_second(
    tmp_path: Path, text: str
) -> None:
    catalog = scan_text(tmp_path, text)
    assert labels(catalog) == "a:x b:y"
    layout = "CSV manifest without header: column 1 -> image, column 2 -> label"
    assert catalog.layout.text == layout
    if "9" in text:
        assert labels(scan_text(tmp_path, text, group_col="3")) == "a:x b:y"


def test_columns_without_names_are_given_by_number(tmp_path: Path) -> None:
    text = "x,test,a.jpg\n"
    catalog = scan_text(tmp_path, text, path_col="3", label_col="1", split_col="2")
    assert (labels(catalog), splits(catalog)) == ("a:x", "a:test")
    with pytest.raises(UsageError, match=r"--group-col 4: train\.csv has no such column"):
        scan_text(tmp_path, text, path_col="3", label_col="1", group_col="4")


def test_a_table_in_the_encoding_of_windows_is_a_warning(tmp_path: Path) -> None:
    path = make(tmp_path, "", "a.jpg")
    path.write_bytes("id,label\na,Zoë\n".encode("cp1252"))
    catalog = scan(path)
    assert labels(catalog) == "a:Zoë"
    (warning,) = catalog.warnings
    assert warning.startswith("train.csv is not UTF-8, and was read as cp1252")
    assert scan(path, encoding="latin-1").warnings == ()


@pytest.mark.parametrize("encoding", ["klingon", "hex", "\0"])
def test_an_unknown_encoding_is_an_error(encoding: str) -> None:
    with pytest.raises(UsageError, match=r"encoding (that Python knows|cannot be)"):
        SourceOptions(encoding=encoding)


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
        assert splits(catalog) == "a:train b:val c:test"
        assert catalog.layout.text == (
            "CSV manifest of 3 parts: id -> image, label -> label, file name -> split"
        )


FILES: dict[str, tuple[dict[str, str], str]] = {
    "words that only begin like splits": (
        {"trainers.csv": "id,label\na,x", "latest.csv": "id,label\nb,x"}, "a: b:"
    ),
    "one train file holds all splits": ({"train.csv": "id,label\na,x"}, "a:"),
    "one val file": ({"val.csv": "id,label\na,x"}, "a:val"),
    "one test file": ({"my_test.csv": "id,label\na,x"}, "a:test"),
    "a column that agrees, or is empty": (
        {"train.csv": "id,label,split\na,x,Training", "val.csv": "id,label,split\nb,x,"},
        "a:train b:val",
    ),
    "a column in one train file": (
        {"train.csv": "id,label,split\na,x,train\nb,x,val"}, "a:train b:val"
    ),
    "a test table without labels": (
        {"train.csv": "id,label\na,x", "test.csv": "id\nb"}, "a:train b:test"
    ),
    "a test list without labels": ({"train.csv": "a.jpg,x", "test.csv": "b.jpg"}, "a:train b:test"),
    "a test table of empty labels": (
        {"train.csv": "id,label\na,x", "test.csv": "id,label\nb,"}, "a:train b:test"
    ),
}  # fmt: skip


@cases(FILES)
def test_names_and_columns_give_splits(tmp_path: Path, case: Any) -> None:
    files, expected = case
    for name, text in files.items():
        make(tmp_path, text, "a.jpg", "b.jpg", name=name)
    catalog = scan(tmp_path / "*.csv")
    assert (splits(catalog), catalog.bad) == (expected, ())


@cases(
    {
        "some names": ({"test.csv": "id,label\na,x", "extra.csv": "id,label\nb,x"}, "is not known"),
        "train and val": (
            {"test.csv": "id,label\na,x", "train_val.csv": "id,label\nb,x"},
            "test.csv is for test, but the split of train_val.csv is not known",
        ),
        "a contradiction": (
            {"train.csv": "id,label,split\na,x,train", "val.csv": "id,label,split\nb,x,train"},
            "val.csv:2 is for train, but the name of its file means val",
        ),
        "a val table without labels": (
            {"train.csv": "id,label\na,x", "val.csv": "id\nb"},
            "val.csv has other columns than train.csv",
        ),
        "other words": (
            {"train.csv": "id,label,set\na,x,train\nb,x,kitchen\nc,x,yard"},
            "train.csv: the column set holds words that are not splits: 'kitchen', 'yard'",
        ),
        "images in one folder": (
            {"train.csv": "a.jpg\nb.jpg"}, "its images are not in folders of several classes"
        ),
    }
)  # fmt: skip
def test_unclear_splits_are_refused(tmp_path: Path, case: Any) -> None:
    files, message = case
    for name, text in files.items():
        make(tmp_path, text, "train/a.jpg", "train/b.jpg", name=name)
    with pytest.raises(SourceError, match=re.escape(message)):
        scan(tmp_path / "*.csv")


@pytest.mark.parametrize("source", ["meta", "meta/t*.txt"])
def test_lists_of_paths_take_the_class_from_the_folder(tmp_path: Path, source: str) -> None:
    write_tree(tmp_path / "images", {f"{c}/{c}{n}.jpg": jpeg(n) for c in "ab" for n in (1, 2)})
    lists = {"train.txt": b"a/a1\nb/b1\n", "test.txt": b"a/a2\nb/b2", "classes.txt": b"a\nb\n"}
    write_tree(tmp_path / "meta", lists)
    catalog = scan(tmp_path / source, images=str(tmp_path / "images"))
    assert labels(catalog) == "a1:a a2:a b1:b b2:b"
    assert splits(catalog) == "a1:train a2:test b1:train b2:test"
    assert catalog.layout.text == (
        "CSV manifest of 2 parts without header: "
        "column 1 -> image, folder -> label, file name -> split"
    )


def test_lists_of_paths_and_labels_take_the_split_from_their_names(tmp_path: Path) -> None:
    make(tmp_path, "", "val_1.jpg", "val_2.jpg", "a/airfield/1.jpg", name="_")
    write_tree(tmp_path, {
        "places365_val.txt": b"val_1.jpg 7\nval_2.jpg 0\n",
        "places365_train_standard.txt": b"/a/airfield/1.jpg 0\n",
    })  # fmt: skip
    catalog = scan(tmp_path / "*.txt")
    assert labels(catalog) == "val_1:7 val_2:0 1:0"
    assert splits(catalog) == "val_1:val val_2:val 1:train"


def test_numbers_of_images_are_not_taken_for_labels(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"c/{at}.jpg": PICTURES[at % 8] + bytes(at) for at in range(12)})
    rows = "".join(f"{at + 1} c/{at}.jpg\n" for at in range(12))
    with pytest.raises(SourceError, match="column 1 has a different value in each of 12 rows"):
        scan(make(tmp_path, rows, name="images.txt"), path_col="2")


def test_splits_have_many_names(tmp_path: Path) -> None:
    words = ["train", "Training", "VAL", "valid", "validation", "dev", "Test", "testing"]
    rows = "".join(f"{name},x,{word}\n" for name, word in zip("abcdefgh", words, strict=True))
    catalog = scan_text(tmp_path, f"id,label,Split\n{rows}", "abcdefgh")
    assert catalog.samples.splits == ("train",) * 2 + ("val",) * 4 + ("test",) * 2


# Labels

LABELS: dict[str, tuple[str, Options, str]] = {
    "stripped": ("id,label\na, x ", {}, "a:x"),
    "integers of floats": ("id,label\na,3.0\nb,10.0", {}, "a:3 b:10"),
    "other floats": ("id,label\na,3.0\nb,2.5", {}, "a:3.0 b:2.5"),
    "leading zeros": ("id,label\na,03\nb,10", {}, "a:03 b:10"),
    "composed accents": ("id,label\na,e\u0301\nb,é", {}, "a:é b:é"),
    "the commonest spelling": (
        "id,label\na,pug dog\nb,Pug Dog\nc,Pug Dog\nd,pug  dog", {"fold_case": True},
        "a:Pug Dog b:Pug Dog c:Pug Dog d:Pug Dog",
    ),
    "the first spelling": ("id,label\na,pug\nb,Pug", {"fold_case": True}, "a:pug b:pug"),
    "two spellings for one image": ("id,label\na,Pug\na,pug", {"fold_case": True}, "a:Pug"),
    "names of numbers": ("id,label\na,1\nb,0.0", {"label_names": ("cat", "dog")}, "a:dog b:cat"),
    "no label for a test image": ("id,label,split\na,x,train\nb,,test", {}, "a:x b:"),
}  # fmt: skip


@cases(LABELS)
def test_labels_are_read(tmp_path: Path, case: Any) -> None:
    text, options, expected = case
    catalog = scan_text(tmp_path, f"{text}\n", **options)
    assert (labels(catalog), catalog.bad) == (expected, ())


def test_classes_are_in_the_order_of_their_numbers_or_names(tmp_path: Path) -> None:
    negative = scan_text(tmp_path, "id,label\na,10\nb,-1\nc,-10\n")
    assert negative.class_order == ("-10", "-1", "10")
    named = scan_text(tmp_path, "id,label\na,1\nb,0\n", label_names=("cat", "dog"))
    assert named.class_order == ("cat", "dog")


DIFFER = "the rows of this image differ in"
BAD: dict[str, tuple[str, Options, list[str]]] = {
    "no label": ("id,label,split\na,x,train\nb, ,val", {}, ["3: no label"]),
    "no split": ("id,label,set\na,x,train\nb,x,", {}, ["3: no split in set"]),
    "two labels": (
        "id,label\na,x\nb,x\nb.jpg,y", {},
        [f"3: {DIFFER} label: x in train.csv:3, y in train.csv:4",
         f"4: {DIFFER} label: x in train.csv:3, y in train.csv:4"],
    ),
    "two splits": (
        "id,label,split\na,x,val\nb,x,train\nb,x,val", {},
        [f"{line}: {DIFFER} split: train in train.csv:3, val in train.csv:4" for line in (3, 4)],
    ),
    "two groups": (
        "id,label,who\na,x,p\nb,x,p\nb,x,q", {"group_col": "who"},
        [f"{line}: {DIFFER} group: p in train.csv:3, q in train.csv:4" for line in (3, 4)],
    ),
    "two features": (
        "id,label,age\na,x,1\nb,x,1\nb,x,2", {"column": ("age",)},
        [f"{line}: {DIFFER} age: 1 in train.csv:3, 2 in train.csv:4" for line in (3, 4)],
    ),
    "another type": (
        "id,label,c\na,x,3.0\nb,x,3.5", {"column": ("c:int",)},
        ["3: '3.5' in the column c is not an int"],
    ),
    "too large for float32": (
        "id,label,c\na,x,inf\nb,x,1e300", {"column": ("c:float",)},
        ["3: '1e300' in the column c is not a float"],
    ),
}  # fmt: skip


@cases(BAD)
def test_bad_rows_have_their_line_and_reason(tmp_path: Path, case: Any) -> None:
    text, options, reasons = case
    catalog = scan_text(tmp_path, f"{text}\n", **options)
    assert catalog.samples.filenames == ("a.jpg",)
    assert catalog.bad == tuple(Note("b.jpg", f"train.csv:{reason}") for reason in reasons)


def test_empty_splits_are_no_splits(tmp_path: Path) -> None:
    assert splits(scan_text(tmp_path, "id,label,set\na,x,\nb,x, \n")) == "a: b:"


def test_rows_that_repeat_another_are_listed(tmp_path: Path) -> None:
    catalog = scan_text(tmp_path, "id,label,c\na,x,\na.jpg,x,nan\n", column=("c:float",))
    assert labels(catalog) == "a:x"
    note = Note("a.jpg", "train.csv:3: a duplicate row", NoteKind.UNPLACED)
    assert (catalog.bad, catalog.unplaced) == ((), (note,))


@cases(
    {
        "all are listed": (
            "1 5 cat -1", "train.csv: --label-names has no name for the labels -1, 5, cat"
        ),
        "count from 1": (
            "1 2", "train.csv: the labels count from 1 to 2, but --label-names from 0 to 1"
        ),
        "not numbers": (
            "cat", "train.csv: the labels are not numbers, so --label-names does not apply"
        ),
    }
)  # fmt: skip
def test_labels_without_a_name_are_refused(tmp_path: Path, case: Any) -> None:
    found, message = case
    rows = [f"{name},{label}\n" for name, label in zip("abcd", found.split(), strict=False)]
    with pytest.raises(SourceError) as caught:
        scan_text(tmp_path, "id,label\n" + "".join(rows), label_names=("cat", "dog"))
    assert caught.value.message == message


# Several labels

SETS: dict[str, tuple[str, Options, str]] = {
    "a separator": ("id,tags\na,x y\nb,\nc, y  y ", {"label_sep": " "}, "a:x+y b: c:y"),
    "the same in another order": ("id,tags\na,x y\na,y x", {"label_sep": " "}, "a:x+y"),
    "spellings": ("id,tags\na,x y\nb,X\nc,x", {"label_sep": " "}, "a:x+y b:X c:x"),
    "merged spellings": (
        "id,tags\na,x y\nb,X\nc,x", {"label_sep": " ", "fold_case": True}, "a:x+y b:x c:x"
    ),
    "one-hot": (
        "id,cat,dog,bird\na,1,0,0\nb,1.0,TRUE,0\nc,0,false,0.0",
        {"onehot": ("dog", "cat", "bird")}, "a:cat b:dog+cat c:",
    ),
}  # fmt: skip


@cases(SETS)
def test_a_cell_or_several_columns_hold_several_labels(tmp_path: Path, case: Any) -> None:
    text, options, expected = case
    catalog = scan_text(tmp_path, f"{text}\n", **options)
    assert (sets(catalog), catalog.bad) == (expected, ())
    if options.get("onehot"):
        assert catalog.class_order == ("dog", "cat", "bird")
        assert set(catalog.class_folders) == {"dog", "cat", "bird"}


@pytest.mark.parametrize("kind", ["jsonl", "parquet"])
def test_lists_are_several_labels(tmp_path: Path, kind: str) -> None:
    write_tree(tmp_path, {"a.jpg": jpeg(1), "b.jpg": jpeg(2)})
    path = tmp_path / f"t.{kind}"
    if kind == "jsonl":
        path.write_text('{"id": "a", "label": ["x", 2]}\n{"id": "b", "label": []}\n')
    else:
        pq.write_table(pa.table({"id": ["a", "b"], "label": [["x", "2"], None]}), path)
    assert sets(scan(path)) == "a:x+2 b:"


def test_one_hot_columns_need_no_other_labels(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="--onehot and --label-col do not go together"):
        scan_text(tmp_path, "id,label,cat\na,x,1\n", onehot=("cat",), label_col="label")


@pytest.mark.parametrize("nothing", ["", " ", "NA", "nan"])
def test_empty_one_hot_cells_are_no_label_of_a_test_row_and_a_fault_elsewhere(
    tmp_path: Path, nothing: str
) -> None:
    rows = f"a,1,0,train\nb,{nothing},{nothing},test\nc,{nothing},{nothing},train\n"
    text = f"id,cat,dog,split\n{rows}d,1,{nothing},test\ne,0,0,train\nf,0.5,2,train\n"
    catalog = scan_text(tmp_path, text, "abcdef", onehot=("cat", "dog"))
    assert sets(catalog) == "a:cat b: e:"
    column = "in the one-hot column"
    assert catalog.bad == (
        Note("c.jpg", "train.csv:4: no label"),
        Note("d.jpg", f"train.csv:5: {nothing!r} {column} dog, not 0 or 1"),
        Note("f.jpg", f"train.csv:7: '0.5' {column} cat, not 0 or 1; '2' {column} dog, not 0 or 1"),
    )


# Columns that become features


def test_features_have_the_kind_that_fits(tmp_path: Path) -> None:
    text = "id,label,age,score,note\nb,x,-7,1,\na,x,9223372036854775807,2.5e3, hm\n"
    catalog = scan_text(tmp_path, text, column=("age", "score", "note"))
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
        ("1.0 ", "int"), ("1.0 NA 2", "int"), ("1.5  2.0", "float"), ("1.0 2.0", "float"),
        (" NA", "text"), ("a NA", "text"),
    ],
)  # fmt: skip
def test_the_kind_of_a_column_is_the_narrowest_that_holds_all_values(
    tmp_path: Path, values: str, kind: str
) -> None:
    cells = zip("abc", values.split(" "), strict=False)
    rows = "".join(f"{name},x,{value}\n" for name, value in cells)
    (column,) = scan_text(tmp_path, f"id,label,c\n{rows}", column=("c",)).samples.columns
    assert column.kind == kind


def test_a_column_is_named_by_its_header_or_its_number(tmp_path: Path) -> None:
    bare = scan_text(tmp_path, "a.jpg,x,9\n", column=("3:int",))
    assert bare.samples.columns == (Column("column_3", ColumnKind.INT, (9,)),)
    assert "column 2 -> label, column_3 -> int feature" in bare.layout.text
    text = "id,label,age,image\na,x,9,b\n"
    assert scan_text(tmp_path, text, column=("3",), path_col="id").samples.columns[0].name == "age"
    with pytest.raises(UsageError, match="--column image: every record already has the feature"):
        scan_text(tmp_path, text, column=("4",), path_col="id")
    with pytest.raises(UsageError, match="--column age is given twice"):
        scan_text(tmp_path, text, column=("3", "age"), path_col="id")


@pytest.mark.parametrize("name", ["filename", "image", "label", "labels", "shape"])
def test_a_feature_of_every_record_cannot_be_a_further_column(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match=f"--column {name}: every record already has the feature"):
        scan_text(tmp_path, f"id,class,{name}\na,x,1\n", column=(name,))


@pytest.mark.parametrize(
    ("asked", "values", "default"),
    [
        ("age", (7, -1), "-1"), ("age:int=0", (7, 0), "0"), ("age:float=0.5", (7.0, 0.5), "0.5"),
        ("age:text", ("7", ""), '""'), ("age:text=no", ("7", "no"), '"no"'),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_a_missing_value_keeps_its_image_and_becomes_the_default(
    tmp_path: Path, kind: str, asked: str, values: tuple[object, ...], default: str
) -> None:
    write_tree(tmp_path, {"a.jpg": PICTURES[0], "b.jpg": PICTURES[1]})
    path = tmp_path / f"t.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table({"id": ["a", "b"], "label": ["x", "x"], "age": [7, None]}), path)
    elif kind == "csv":
        path.write_text("id,label,age\na,x,7\nb,x,\n")
    else:
        rows = '{"id":"a","label":"x","age":7}\n{"id":"b","label":"x","age":null}\n'
        path.write_text(rows)
    catalog = scan(path, column=(asked,))
    assert catalog.samples.columns[0].values == values
    warning = f"age: 1 of 2 cells are missing, and become {default}"
    assert (catalog.bad, catalog.warnings) == ((), (warning,))


@pytest.mark.parametrize("word", ["", " ", "NA", "N/A", "nan", "NaN", "null", "None", "\\N"])
def test_a_missing_float_is_nan_however_it_is_written(tmp_path: Path, word: str) -> None:
    catalog = scan_text(tmp_path, f"id,label,c\na,x,2.5\nb,x,{word}\n", column=("c",))
    (column,) = catalog.samples.columns
    assert (column.kind, column.values[0], catalog.bad) == ("float", 2.5, ())
    assert math.isnan(float(column.values[1]))


def test_pandas_writes_missing_values_as_nan(tmp_path: Path) -> None:
    write_tree(tmp_path, {"a.jpg": PICTURES[0], "b.jpg": PICTURES[1]})
    nan = float("nan")
    table = {"id": ["a", "b"], "label": [3.0, nan], "age": [30.0, nan], "split": ["train", "test"]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    catalog = scan(tmp_path / "t.parquet", column=("age",))
    assert labels(catalog) == "a:3 b:"
    assert catalog.samples.columns == (Column("age", ColumnKind.INT, (30, -1)),)


def test_words_for_nothing_are_words_in_a_column_of_text(tmp_path: Path) -> None:
    text = "id,label,c\na,x,NA\nb,x,Namibia\n"
    catalog = scan_text(tmp_path, text, column=("c:text=none",))
    assert catalog.samples.columns[0].values == ("NA", "Namibia")
    assert catalog.warnings == ()


def test_a_default_that_other_cells_hold_is_a_warning(tmp_path: Path) -> None:
    (warning,) = scan_text(tmp_path, "id,label,c\na,x,-1\nb,x,\n", column=("c",)).warnings
    assert warning == (
        "c: 1 of 2 cells are missing, and become -1, which other cells hold too; "
        "pass another default to tell them apart"
    )


def test_groups_are_the_cells_of_their_column(tmp_path: Path) -> None:
    text = "id,label,patient\nb,x, p1\na,x,\n"
    assert scan_text(tmp_path, text).samples.groups == ()
    assert scan_text(tmp_path, text, group_col="patient").samples.groups == ("", "p1")


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
