"""What is found in tables of pixels."""

from __future__ import annotations

import gzip
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, write_tree
from sampling import examples
from scanning import run
from xxhash import xxh3_128_digest

from imgrec.errors import ExecutionError, ImgrecError, SourceError, UsageError
from imgrec.model import Catalog, Pixels
from imgrec.notes import Note
from imgrec.options import ColumnOption, SourceOptions
from imgrec.source import pixel_table
from imgrec.source.kinds import detect
from imgrec.source.pixel_table import is_pixel_table
from imgrec.source.tree import Context
from imgrec.storage.blobs import read_blob

HEADER = "label,pixel0,pixel1,pixel2,pixel3\n"


def scan(path: Path, spool: Path | None = None, **options: object) -> Catalog:
    context = Context(
        options=SourceOptions(**options),  # type: ignore[arg-type]
        run=run,  # type: ignore[arg-type]
        on_progress=lambda _: None,
        spool=str(spool or (path if path.is_dir() else path.parent) / ".spool"),
    )
    return pixel_table.scan(str(path), context)


def make(root: Path, text: str, name: str = "digits.csv") -> Path:
    return write_tree(root, {name: text.encode()}) / name


def places(catalog: Catalog) -> list[tuple[str, str, str]]:
    samples = catalog.samples
    return list(zip(samples.filenames, samples.class_names, samples.splits, strict=True))


def pixels(catalog: Catalog) -> list[bytes]:
    samples = catalog.samples
    return [read_blob(blob, size) for blob, size in zip(samples.blobs, samples.sizes, strict=True)]


def shapes(catalog: Catalog) -> list[tuple[int, int, int, bool]]:
    blobs = catalog.samples.blobs
    return [blob[2:] for blob in blobs if isinstance(blob, Pixels)]


def test_a_row_of_label_and_pixels_is_an_image(tmp_path: Path) -> None:
    path = make(tmp_path / "digits", HEADER + "5,0,1,2,255\n10,9,8,7,6\n")
    catalog = scan(path)
    assert places(catalog) == [("5/00001.png", "5", ""), ("10/00002.png", "10", "")]
    assert pixels(catalog) == [b"\x00\x01\x02\xff", b"\x09\x08\x07\x06"]
    assert shapes(catalog) == [(2, 2, 1, False)] * 2
    assert catalog.samples.contents == tuple(map(xxh3_128_digest, pixels(catalog)))
    assert catalog.class_folders == {"10": ("digits.csv:3",), "5": ("digits.csv:2",)}
    assert catalog.layout == "pixels in CSV: digits.csv: 2x2 grey, label -> label"
    assert (catalog.name, catalog.bad, catalog.ignored) == ("digits", (), ())


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
    rows: list[tuple[int, bytes]],
    ending: str,
    is_one_cell: bool,
    is_gzip: bool,
) -> None:
    count = len(rows[0][1])
    is_one_cell = is_one_cell or count < 4
    names = ["pixels"] if is_one_cell else [f"pixel{n}" for n in range(count)]
    lines = [",".join(["label", *names])]
    lines += [f"{label}," + (" " if is_one_cell else ",").join(map(str, p)) for label, p in rows]
    data = (ending.join(lines) + ending).encode()
    name = "t.csv.gz" if is_gzip else "t.csv"
    root = tmp_path_factory.mktemp("pixels")
    write_tree(root, {name: gzip.compress(data) if is_gzip else data})
    assert is_pixel_table(str(root / name))
    catalog = scan(root / name)
    assert pixels(catalog) == [image for _, image in rows]
    assert list(catalog.samples.class_names) == [str(label) for label, _ in rows]
    assert catalog.bad == ()


@examples(150)
@given(st.data())
@pytest.mark.fuzz
def test_a_damaged_table_of_pixels_is_a_catalog_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    wide = (HEADER + "5,0,1,2,255\n10,9,8,7,6\n").encode()
    damaged = data.draw(
        st.sampled_from([wide, b"emotion,pixels,Usage\n0,1 2 3 4,Training\n1,5 6 7 8,PublicTest\n"])
    )
    for _ in range(data.draw(st.integers(0, 4))):
        place = data.draw(st.integers(0, len(damaged)))
        end = place + data.draw(st.integers(0, 3))
        damaged = damaged[:place] + data.draw(st.binary(max_size=3)) + damaged[end:]
    root = write_tree(tmp_path_factory.mktemp("damaged"), {"t.csv": damaged})
    try:
        catalog = scan(root / "t.csv")
    except ImgrecError:
        return
    sizes = [height * width * channels for height, width, channels, _ in shapes(catalog)]
    assert list(map(len, pixels(catalog))) == sizes


def test_faces_have_their_pixels_in_one_cell_and_usage_for_splits(tmp_path: Path) -> None:
    text = (
        "emotion,pixels,Usage\n0,1 2 3 4,Training\n6,5 6 7 8,PublicTest\n3,9 10 11 12,PrivateTest\n"
    )
    catalog = scan(make(tmp_path, text, "fer2013.csv"))
    assert places(catalog) == [
        ("train/0/00001.png", "0", "train"),
        ("val/6/00002.png", "6", "val"),
        ("test/3/00003.png", "3", "test"),
    ]
    assert pixels(catalog)[2] == bytes([9, 10, 11, 12])
    expected = "fer2013.csv: 2x2 grey, emotion -> label, Usage -> split"
    assert catalog.layout == f"pixels in CSV: {expected}"


def test_columns_may_stand_in_another_order_and_have_blanks(tmp_path: Path) -> None:
    catalog = scan(make(tmp_path, "emotion, Usage, pixels\n0,Training,1 2 3 4\n"))
    assert places(catalog) == [("train/0/00001.png", "0", "train")]
    rgb = ",".join(f"pixel{n:04d}" for n in range(12))
    values = ",".join(map(str, range(12)))
    catalog = scan(make(tmp_path, f"{rgb},label\n{values},4\n"))
    assert (pixels(catalog), shapes(catalog)) == ([bytes(range(12))], [(2, 2, 3, False)])


def test_pixels_may_be_named_by_row_and_column(tmp_path: Path) -> None:
    catalog = scan(make(tmp_path, "label,1x1,1x2,2x1,2x2\n7,1,2,3,4\n"))
    assert pixels(catalog) == [bytes([1, 2, 3, 4])]


def test_numbers_without_header_are_a_label_and_an_image(tmp_path: Path) -> None:
    rows = [[3, *range(64)], [4, *range(64, 128)]]
    path = make(tmp_path, "".join(",".join(map(str, row)) + "\n" for row in rows))
    catalog = scan(path)
    assert is_pixel_table(str(path))
    assert places(catalog) == [("3/00001.png", "3", ""), ("4/00002.png", "4", "")]
    assert pixels(catalog) == [bytes(range(64)), bytes(range(64, 128))]
    assert catalog.layout == "pixels in CSV: digits.csv: 8x8 grey, column 1 -> label"


def test_train_and_test_of_a_folder_are_splits_and_test_needs_no_labels(tmp_path: Path) -> None:
    root = tmp_path / "digit-recognizer"
    make(root, HEADER + "5,0,1,2,3\n", "train.csv")
    make(root, HEADER.removeprefix("label,") + "9,8,7,6\n", "test.csv")
    make(root, "ImageId,Label\n1,0\n", "sample_submission.csv")
    assert is_pixel_table(str(root))
    catalog = scan(root, spool=tmp_path / "spool")
    assert places(catalog) == [
        ("test/00001.png", "", "test"),
        ("train/5/00001.png", "5", "train"),
    ]
    assert catalog.layout == (
        "pixels in CSV: test.csv -> test: 2x2 grey; train.csv -> train: 2x2 grey, label -> label"
    )
    assert catalog.name == "digit-recognizer"
    assert set(catalog.class_folders) == {"5"}
    assert [(kind.kind, kind.examples) for kind in catalog.ignored] == [
        ("not a table of pixels", ("sample_submission.csv",))
    ]


def test_the_split_may_be_a_part_of_the_name(tmp_path: Path) -> None:
    root = tmp_path / "mnist"
    make(root, HEADER + "5,0,1,2,3\n", "mnist_train.csv")
    make(root, HEADER + "5,9,8,7,6\n", "mnist-test.csv")
    catalog = scan(root, spool=tmp_path / "spool")
    assert sorted(catalog.samples.filenames) == ["test/5/00001.png", "train/5/00001.png"]


def test_tables_that_are_not_one_for_each_split_are_an_error(tmp_path: Path) -> None:
    make(tmp_path, HEADER + "5,0,1,2,3\n", "a.csv")
    make(tmp_path, HEADER + "5,0,1,2,3\n", "train.csv")
    with pytest.raises(SourceError, match=r"not one for each split: a\.csv, train\.csv"):
        scan(tmp_path)


def test_images_without_labels_are_an_error_unless_they_are_for_testing(tmp_path: Path) -> None:
    text = HEADER.removeprefix("label,") + "9,8,7,6\n"
    with pytest.raises(SourceError, match=r"^train\.csv has no column that is known to hold"):
        scan(make(tmp_path, text, "train.csv"))
    assert places(scan(make(tmp_path, text, "test.csv"))) == [("test/00001.png", "", "test")]


def test_rows_that_hold_no_image_are_bad_with_their_line(tmp_path: Path) -> None:
    rows = "5,0,1,2,256\n5,0,1,2,-1\n5,0,1,2,x\n5,0,1,2\n,0,1,2,3\n5,0,1,2,1.5\n\n5,007,1, 2,3\n"
    catalog = scan(make(tmp_path, HEADER + rows))
    assert places(catalog) == [("5/00008.png", "5", "")]
    assert pixels(catalog) == [bytes([7, 1, 2, 3])]
    assert catalog.bad == (
        Note("digits.csv:2", "'256' is not a whole number from 0 to 255"),
        Note("digits.csv:3", "'-1' is not a whole number from 0 to 255"),
        Note("digits.csv:4", "'x' is not a whole number from 0 to 255"),
        Note("digits.csv:5", "4 cells instead of 5"),
        Note("digits.csv:6", "no label"),
        Note("digits.csv:7", "'1.5' is not a whole number from 0 to 255"),
    )


def test_an_image_of_another_size_is_bad(tmp_path: Path) -> None:
    text = "emotion,pixels\n0,1 2 3\n1,1 2 3 4\n2,5 6 7 8\n"
    catalog = scan(make(tmp_path, text))
    assert [name for name, _, _ in places(catalog)] == ["1/00002.png", "2/00003.png"]
    assert catalog.bad == (Note("digits.csv:2", "3 values instead of 4"),)


def test_values_that_make_no_square_are_an_error_with_their_number(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^digits\.csv: 5 values an image make neither"):
        scan(make(tmp_path, "emotion,pixels\n0,1 2 3 4 5\n"))


def test_columns_of_pixels_out_of_order_are_an_error(tmp_path: Path) -> None:
    for header in ("label,pixel1,pixel0,pixel2,pixel3", "pixel0,pixel1,label,pixel2,pixel3"):
        with pytest.raises(SourceError, match="not one after another, in their order"):
            scan(make(tmp_path, f"{header}\n1,2,3,4,5\n"))


def test_numbers_get_names(tmp_path: Path) -> None:
    catalog = scan(make(tmp_path, HEADER + "1,0,1,2,3\n"), label_names=("angry", "a/b"))
    assert places(catalog) == [("a_b/00001.png", "a/b", "")]
    assert catalog.class_order == ("angry", "a/b")


@pytest.mark.parametrize("label", [".", "..", ".hidden", "../../x"])
def test_no_label_leads_out_of_the_tree_or_hides(tmp_path: Path, label: str) -> None:
    (filename,) = scan(make(tmp_path, f"{HEADER}{label},0,1,2,3\n")).samples.filenames
    assert filename.count("/") == 1
    assert not filename.startswith(".")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("label,pixel0,pixel1,pixel2,pixel3\n", True),
        ("emotion,pixels,Usage\n", True),
        ("id,label\na,1\n", False),
        ("1,2,3,4,5\n", False),
        ("", False),
        ('"', False),
    ],
)
def test_tables_of_pixels_are_known_by_their_first_row(
    tmp_path: Path, text: str, expected: bool
) -> None:
    assert is_pixel_table(str(make(tmp_path, text))) is expected


def test_a_folder_of_images_is_no_table_of_pixels(tmp_path: Path) -> None:
    assert not is_pixel_table(str(class_tree(tmp_path, {"rose": 1})))
    assert not is_pixel_table(str(tmp_path / "nowhere"))


def test_a_table_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"(?m)^digits\.csv has no rows$"):
        scan(make(tmp_path, HEADER))


def test_options_for_manifests_are_an_error(tmp_path: Path) -> None:
    path = make(tmp_path, HEADER + "1,0,1,2,3\n")
    options = SourceOptions(group_col="x", column=(ColumnOption("y"),))
    with pytest.raises(
        UsageError, match=r"(?m)^--group-col, --column cannot be used with .*pixels$"
    ):
        detect(str(path), options)


def test_a_disk_that_does_not_take_the_pixels_is_an_error(tmp_path: Path) -> None:
    path = make(tmp_path, HEADER + "1,0,1,2,3\n")
    with pytest.raises(ExecutionError, match="cannot write 4 bytes of unpacked images") as caught:
        scan(path, spool=path)
    assert "space" in caught.value.hint


def test_many_images_go_to_the_spool_in_pieces_and_come_back_whole(tmp_path: Path) -> None:
    noise = random.Random(0).randbytes(64 * 64)
    rows = [noise[n:] + noise[:n] for n in range(0, 4096, 2)]
    lines = [f"{n % 7}," + " ".join(map(str, row)) for n, row in enumerate(rows)]
    catalog = scan(make(tmp_path, "label,pixels\n" + "\n".join(lines)))
    assert sum(map(len, rows)) >= 8 << 20
    assert pixels(catalog) == rows
