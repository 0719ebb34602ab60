"""Tables of pixels: each row is an image, or bad with its line."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import write_tree
from sampling import examples
from scanning import planes, rows, scanned
from xxhash import xxh3_128_digest

from imgrec.errors import ExecutionError, ImgrecError, SourceError, UsageError
from imgrec.model import Catalog
from imgrec.notes import Note
from imgrec.options import ColumnOption, SourceOptions
from imgrec.source.kinds import detect

HEADER = "label,pixel0,pixel1,pixel2,pixel3\n"
FACES = "emotion,pixels,Usage\n0,1 2 3 4,Training\n6,5 6 7 8,PublicTest\n3,9 10 11 12,PrivateTest\n"


def scan(tmp_path: Path, text: str, name: str = "digits.csv", **options: object) -> Catalog:
    path = write_tree(tmp_path / "t", {name: text.encode()}) / name
    return scanned(path, spool=tmp_path / "spool", kind="pixels", **options)


def places(catalog: Catalog) -> list[tuple[object, ...]]:
    return [row[:3] for row in rows(catalog)]


def test_a_row_of_label_and_pixels_is_an_image(tmp_path: Path) -> None:
    catalog = scan(tmp_path, HEADER + "5,0,1,2,255\n10,9,8,7,6\n")
    assert places(catalog) == [("5/00001.png", "5", ""), ("10/00002.png", "10", "")]
    pixels = planes(catalog)
    assert pixels == [b"\x00\x01\x02\xff", b"\x09\x08\x07\x06"]
    assert catalog.samples.contents == tuple(map(xxh3_128_digest, pixels))
    assert catalog.class_folders == {"10": ("digits.csv:3",), "5": ("digits.csv:2",)}
    assert catalog.layout.text == "pixels in CSV: digits.csv: 2x2 grey, label -> label"
    assert catalog.notes == ()


RGB = ",".join(f"pixel{n:04d}" for n in range(12))
BARE = [[3, *range(64)], [4, *range(64, 128)]]


@pytest.mark.parametrize(
    ("text", "name", "found", "layout"),
    [
        (
            FACES,
            "fer2013.csv",
            [
                ("train/0/00001.png", "0", "train"),
                ("val/6/00002.png", "6", "val"),
                ("test/3/00003.png", "3", "test"),
            ],
            "fer2013.csv: 2x2 grey, emotion -> label, Usage -> split",
        ),
        (
            "emotion, Usage, pixels\n0,Training,1 2 3 4\n",
            "a.csv",
            [("train/0/00001.png", "0", "train")],
            "a.csv: 2x2 grey, emotion -> label, Usage -> split",
        ),
        (
            f"{RGB},label\n{','.join(map(str, range(12)))},4\n",
            "a.csv",
            [("4/00001.png", "4", "")],
            "a.csv: 2x2 RGB, label -> label",
        ),
        (
            "label,1x1,1x2,2x1,2x2\n7,1,2,3,4\n",
            "a.csv",
            [("7/00001.png", "7", "")],
            "a.csv: 2x2 grey, label -> label",
        ),
        (
            "".join(",".join(map(str, row)) + "\n" for row in BARE),
            "a.csv",
            [("3/00001.png", "3", ""), ("4/00002.png", "4", "")],
            "a.csv: 8x8 grey, column 1 -> label",
        ),
        (
            HEADER.removeprefix("label,") + "9,8,7,6\n",
            "test.csv",
            [("test/00001.png", "", "test")],
            "test.csv -> test: 2x2 grey",
        ),
    ],
    ids=["one cell", "other order", "RGB", "row and column", "no header", "test"],
)
def test_columns_are_found_by_their_names(
    tmp_path: Path, text: str, name: str, found: list[tuple[str, ...]], layout: str
) -> None:
    catalog = scan(tmp_path, text, name)
    assert places(catalog) == found
    assert catalog.layout.text == f"pixels in CSV: {layout}"


images = st.integers(1, 4).flatmap(
    lambda side: st.sampled_from([1, 3]).flatmap(
        lambda channels: st.lists(
            st.tuples(
                st.integers(0, 20),
                st.binary(min_size=side * side * channels, max_size=side * side * channels),
            ),
            min_size=1,
            max_size=6,
        )
    )
)


@examples(60)
@given(images, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans())
def test_any_pixels_survive_in_cells_of_their_own_or_in_one(
    tmp_path_factory: pytest.TempPathFactory,
    drawn: list[tuple[int, bytes]],
    ending: str,
    is_one_cell: bool,
    is_gzip: bool,
) -> None:
    count = len(drawn[0][1])
    is_one_cell = is_one_cell or count < 4
    names = ["pixels"] if is_one_cell else [f"pixel{n}" for n in range(count)]
    lines = [",".join(["label", *names])]
    lines += [f"{label}," + (" " if is_one_cell else ",").join(map(str, p)) for label, p in drawn]
    data = (ending.join(lines) + ending).encode()
    name = "t.csv.gz" if is_gzip else "t.csv"
    root = tmp_path_factory.mktemp("pixels")
    write_tree(root / "t", {name: gzip.compress(data) if is_gzip else data})
    catalog = scanned(root / "t" / name)  # which must be known for a table of pixels
    assert list(catalog.samples.class_names) == [str(label) for label, _ in drawn]
    assert catalog.samples.contents == tuple(xxh3_128_digest(image) for _, image in drawn)
    assert catalog.bad == ()


@examples(150)
@given(st.data())
@pytest.mark.fuzz
def test_a_damaged_table_of_pixels_is_a_catalog_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    damaged = data.draw(st.sampled_from([HEADER + "5,0,1,2,255\n10,9,8,7,6\n", FACES])).encode()
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(damaged)))
        end = place + data.draw(st.integers(0, 3))
        damaged = damaged[:place] + data.draw(st.binary(max_size=3)) + damaged[end:]
    root = write_tree(tmp_path_factory.mktemp("damaged") / "t", {"t.csv": damaged})
    try:
        planes(scanned(root / "t.csv", kind="pixels"))
    except ImgrecError:
        return


def test_tables_of_a_folder_are_splits_by_their_names(tmp_path: Path) -> None:
    root = write_tree(
        tmp_path / "digit-recognizer",
        {
            "mnist_train.csv": (HEADER + "5,0,1,2,3\n").encode(),
            "test.csv": (HEADER.removeprefix("label,") + "9,8,7,6\n").encode(),
            "notes.csv": b"ImageId,Label\n1,0\n",
        },
    )
    catalog = scanned(root)
    assert sorted(places(catalog)) == [
        ("test/00001.png", "", "test"),
        ("train/5/00001.png", "5", "train"),
    ]
    assert catalog.name == "digit-recognizer"
    assert set(catalog.class_folders) == {"5"}
    assert [(kind.kind, kind.examples) for kind in catalog.ignored] == [
        ("not a table of pixels", ("notes.csv",))
    ]
    write_tree(root, {"a.csv": (HEADER + "5,0,1,2,3\n").encode()})
    with pytest.raises(SourceError, match=r"not one for each split: a\.csv, mnist_train\.csv, t"):
        scanned(root)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (HEADER, r"(?m)^digits\.csv has no rows$"),
        ("emotion,pixels\n0,1 2 3 4 5\n", r"^digits\.csv: 5 values an image make neither"),
        ("label,pixel1,pixel0,pixel2,pixel3\n1,2,3,4,5\n", "not one after another, in their order"),
        ("pixel0,pixel1,label,pixel2,pixel3\n1,2,3,4,5\n", "not one after another, in their order"),
        (HEADER[6:] + "9,8,7,6\n", r"^digits\.csv has no column that is known to hold the labels"),
        ("id,label\na,1\n", "is not a table of pixels"),
        ("1,2,3,4,5\n", "is not a table of pixels"),
    ],
)
def test_a_table_that_cannot_be_understood_is_an_error(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(SourceError, match=message):
        scan(tmp_path, text)


def test_rows_that_hold_no_image_are_bad_with_their_line(tmp_path: Path) -> None:
    bad = "5,0,1,2,256\n5,0,1,2,-1\n5,0,1,2,x\n5,0,1,2\n,0,1,2,3\n5,0,1,2,1.5\n\n5,007,1, 2,3\n"
    catalog = scan(tmp_path, HEADER + bad)
    assert places(catalog) == [("5/00008.png", "5", "")]
    assert planes(catalog) == [bytes([7, 1, 2, 3])]
    assert catalog.bad == (
        Note("digits.csv:2", "'256' is not a whole number from 0 to 255"),
        Note("digits.csv:3", "'-1' is not a whole number from 0 to 255"),
        Note("digits.csv:4", "'x' is not a whole number from 0 to 255"),
        Note("digits.csv:5", "4 cells instead of 5"),
        Note("digits.csv:6", "no label"),
        Note("digits.csv:7", "'1.5' is not a whole number from 0 to 255"),
    )
    catalog = scan(tmp_path, "emotion,pixels\n0,1 2 3\n1,1 2 3 4\n2,5 6 7 8\n")
    assert catalog.samples.filenames == ("1/00002.png", "2/00003.png")
    assert catalog.bad == (Note("digits.csv:2", "3 values instead of 4"),)


@pytest.mark.parametrize("label", [".", "..", ".hidden", "../../x", "a/b"])
def test_no_label_leads_out_of_the_tree_or_hides(tmp_path: Path, label: str) -> None:
    (filename,) = scan(tmp_path, f"{HEADER}{label},0,1,2,3\n").samples.filenames
    assert filename.count("/") == 1
    assert not filename.startswith(".")


def test_numbers_get_names(tmp_path: Path) -> None:
    catalog = scan(tmp_path, HEADER + "1,0,1,2,3\n", label_names=("angry", "happy"))
    assert places(catalog) == [("happy/00001.png", "happy", "")]
    assert catalog.class_order == ("angry", "happy")


def test_options_for_manifests_are_an_error(tmp_path: Path) -> None:
    path = write_tree(tmp_path, {"a.csv": (HEADER + "1,0,1,2,3\n").encode()}) / "a.csv"
    options = SourceOptions(group_col="x", column=(ColumnOption("y"),))
    message = r"(?m)^--group-col, --column cannot be used with .*pixels$"
    with pytest.raises(UsageError, match=message):
        detect(str(path), options)


def test_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    (tmp_path / "spool").touch()
    with pytest.raises(ExecutionError, match="cannot write 4 bytes of unpacked images") as caught:
        scan(tmp_path, HEADER + "1,0,1,2,3\n")
    assert "space" in caught.value.hint


def test_many_images_go_to_the_spool_in_pieces_and_come_back_whole(tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(64 * 64)
    made = [noise[n:] + noise[:n] for n in range(0, 4096, 2)]
    lines = [f"{n % 7}," + " ".join(map(str, row)) for n, row in enumerate(made)]
    catalog = scan(tmp_path, "label,pixels\n" + "\n".join(lines))
    assert sum(map(len, made)) >= 8 << 20
    assert catalog.samples.contents == tuple(map(xxh3_128_digest, made))
