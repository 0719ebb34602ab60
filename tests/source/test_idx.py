"""IDX files: every image with its class and split, or an error that names the file."""

from __future__ import annotations

import gzip
import random
import tracemalloc
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import write_tree
from sampling import examples
from scanning import planes, rows, scanned
from trees import tarred, zipped

from imgrec.codec.idx import IMAGES, LABELS, encode_header, parse_header
from imgrec.errors import ExecutionError, SourceError
from imgrec.model import Pixels
from imgrec.notes import Ignored

HEIGHT, WIDTH = 3, 2
SIZE = HEIGHT * WIDTH
TRAIN_IMAGES, TRAIN_LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"


def pixels(seed: int, count: int) -> bytes:
    return random.Random(seed).randbytes(SIZE * count)


def images(seed: int, count: int) -> bytes:
    return encode_header(count, HEIGHT, WIDTH) + pixels(seed, count)


def labels(*numbers: int) -> bytes:
    return encode_header(len(numbers)) + bytes(numbers)


def mnist(prefix: str = "", test: str = "t10k") -> dict[str, bytes]:
    """Three training images and two test images of three classes."""
    return {
        f"{prefix}train-images-idx3-ubyte": images(1, 3),
        f"{prefix}train-labels-idx1-ubyte": labels(2, 0, 2),
        f"{prefix}{test}-images-idx3-ubyte": images(2, 2),
        f"{prefix}{test}-labels-idx1-ubyte": labels(1, 0),
    }


PIXELS = pixels(1, 3) + pixels(2, 2)


def compressed(data: bytes) -> bytes:
    """Compress without a date, so that equal data is equal."""
    return gzip.compress(data, mtime=0)


def gzipped(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": compressed(data) for name, data in files.items()}


def test_pairs_give_every_image_with_its_class_and_split(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "m", mnist())
    catalog = scanned(root)
    assert [row[:4] for row in rows(catalog)] == [
        ("train/2/00000.png", "2", "train", SIZE),
        ("train/0/00001.png", "0", "train", SIZE),
        ("train/2/00002.png", "2", "train", SIZE),
        ("test/1/00000.png", "1", "test", SIZE),
        ("test/0/00001.png", "0", "test", SIZE),
    ]
    assert (catalog.layout.text, catalog.notes) == ("IDX: train 2x3; test 2x3", ())
    assert b"".join(planes(catalog)) == PIXELS
    path = str(root / TRAIN_IMAGES)
    assert catalog.samples.blobs[1] == Pixels(path, 16 + SIZE, HEIGHT, WIDTH, 1, is_planar=False)
    assert not (tmp_path / "spool").exists()  # plain files are not copied


@pytest.mark.parametrize(
    "change",
    [
        gzipped,
        lambda files: {name: gzip.compress(data) for name, data in files.items()},
        lambda files: {f"{name}.gz": data for name, data in files.items()},
        *(
            lambda files, rename=rename: {rename(name): data for name, data in files.items()}
            for rename in (
                lambda name: name.replace("-idx", ".idx"),
                lambda name: name.replace("t10k", "test"),
                str.upper,
                lambda name: f"raw/{name}",
                lambda name: f"{name}/{name}",
                lambda name: f"raw/{name}/{name}",
                lambda name: f"fashion-{name}",
                lambda name: f"kmnist_{name.replace('-', '_')}",
            )
        ),
    ],
)
@pytest.mark.parametrize("pack", [write_tree, tarred, zipped])
def test_archives_gzip_and_the_usual_names_say_the_same(
    change: Callable[[Mapping[str, bytes]], dict[str, bytes]],
    pack: Callable[[Path, Mapping[str, bytes]], Path],
    tmp_path: Path,
) -> None:
    suffix = {zipped: ".zip", tarred: ".tar"}.get(pack, "")
    catalog = scanned(pack(tmp_path / f"a{suffix}", change(mnist())))
    assert rows(catalog) == rows(scanned(write_tree(tmp_path / "plain", mnist())))
    assert b"".join(planes(catalog)) == PIXELS


@pytest.mark.parametrize(
    "name",
    [
        "a.jpg", "train-images", "train-images-idx1-ubyte", "train-labels-idx3-ubyte",
        "train-labels-idx2-int", "train-images-idx3-ubyte.zip", "a/b/train-images-idx3-ubyte",
    ],
)  # fmt: skip
def test_other_trees_are_not_taken_for_idx(name: str, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"has no files of the kind idx|not a readable|archive"):
        scanned(write_tree(tmp_path, {name: b"", "x": b""}), kind="idx")


def test_classes_are_all_numbers_from_0_to_the_largest_label_of_any_split(tmp_path: Path) -> None:
    files = {**mnist(), "t10k-labels-idx1-ubyte": labels(11, 0)}
    catalog = scanned(write_tree(tmp_path / "m", files))
    assert catalog.class_order == tuple(str(number) for number in range(12))
    assert set(catalog.class_folders) == set(catalog.class_order)


def test_label_names_name_the_classes_in_their_order(tmp_path: Path) -> None:
    catalog = scanned(write_tree(tmp_path / "m", mnist()), label_names=("shoe", "bag", "coat"))
    assert catalog.class_order == ("shoe", "bag", "coat")
    assert catalog.samples.class_names == ("coat", "shoe", "coat", "bag", "shoe")
    assert catalog.class_folders["bag"] == ("--label-names: bag",)


def test_splits_and_test_labels_may_be_missing(tmp_path: Path) -> None:
    files = {"images-idx3-ubyte": images(1, 2), "labels-idx1-ubyte": labels(0, 1)}
    catalog = scanned(write_tree(tmp_path / "m", files))
    assert catalog.samples.splits == ("", "")
    assert catalog.samples.filenames == ("0/00000.png", "1/00001.png")
    assert catalog.layout.text == "IDX: all 2x3"
    files = mnist()
    del files["t10k-labels-idx1-ubyte"]
    catalog = scanned(write_tree(tmp_path / "n", files))
    assert catalog.samples.class_names[3:] == ("", "")
    assert catalog.samples.filenames[3:] == ("test/00000.png", "test/00001.png")
    assert catalog.layout.text == "IDX: train 2x3; test 2x3, without labels"


def test_more_than_100000_images_keep_their_numbers_apart(tmp_path: Path) -> None:
    count = 100_002
    files = {
        TRAIN_IMAGES: encode_header(count, 1, 1) + bytes(count),
        TRAIN_LABELS: encode_header(count) + bytes(count),
    }
    filenames = scanned(write_tree(tmp_path / "m", files)).samples.filenames
    assert filenames[99_999:] == ("train/0/99999.png", "train/0/100000.png", "train/0/100001.png")


def test_a_gzipped_copy_and_other_files_are_counted(tmp_path: Path) -> None:
    copy = {f"{TRAIN_IMAGES}.gz": gzip.compress(images(7, 9))}
    catalog = scanned(write_tree(tmp_path / "m", {**mnist(), **copy, "a.txt": b"", "b/c": b""}))
    assert b"".join(planes(catalog)) == PIXELS
    assert catalog.ignored == (
        Ignored(kind="a second copy of an IDX file", count=1, examples=tuple(copy)),
        Ignored(kind="not an IDX file", count=2, examples=("a.txt", "b/c")),
    )
    (warning,) = catalog.warnings
    assert warning.startswith("not read, because by their names they repeat ")


# EMNIST names its classes in a mapping.

LETTERS = "emnist-letters-"
MAPPING = f"{LETTERS}mapping.txt"
SWAPPED = (
    "emnist-letters: EMNIST stores its images with rows and columns swapped; "
    "they are packed unchanged"
)


def test_a_mapping_names_the_classes_by_the_first_of_their_characters(tmp_path: Path) -> None:
    files = {**mnist(LETTERS, "test"), MAPPING: b"0 65 97\r\n1 66 98\r\n2 67 99\r\n\r\n"}
    root = write_tree(tmp_path / "m", files)
    catalog = scanned(root)
    assert catalog.class_order == ("A", "B", "C")
    assert catalog.samples.class_names == ("C", "A", "C", "B", "A")
    assert catalog.class_folders["B"] == ("emnist-letters-mapping.txt: B",)
    assert (catalog.ignored, catalog.warnings) == ((), (SWAPPED,))
    assert catalog.layout.text == "IDX (emnist-letters): train 2x3; test 2x3"
    assert b"".join(planes(catalog)) == PIXELS
    named = scanned(root, label_names=("x", "y", "z"))
    assert named.class_order == ("x", "y", "z")
    assert [ignored.examples for ignored in named.ignored] == [(MAPPING,)]


@pytest.mark.parametrize(
    ("mapping", "classes", "warning"),
    [
        (
            b"1 65 97\n2 66 98\n3 67\n",
            ("A", "B", "C"),
            "labels are numbered from 0 without gaps, so A becomes 0 instead of 1, and so on",
        ),
        *(
            (mapping, ("0", "1", "2", "3"), f"{reason}; so numbers are used as class names")
            for mapping, reason in [
                (b"1 65\n2 66\n", "it does not name the labels 3"),
                (b"1 65\n2 66\n3 97\n", "names that differ only in case: A a"),
                *(
                    (b"1 65\n2 66\n3 %s\n" % code, "labels 3 have no printable name")
                    for code in (b"10", b"32", b"9999999", b"55296")
                ),
                (b"1 65\n2 66\n2 67\n", "line 3 names label 2 again"),
                (b"1 65\n2,66\n", "line 2 is not a label and the codes of its characters"),
                (b"1 65\n2 \xff\n", "line 2 is not a label and the codes of its characters"),
                (b"", "it does not name the labels 1, 2, 3"),
            ]
        ),
    ],
)
def test_an_unusual_mapping_is_a_warning(
    mapping: bytes, classes: tuple[str, ...], warning: str, tmp_path: Path
) -> None:
    files = {
        f"{LETTERS}{TRAIN_IMAGES}": images(1, 3),
        f"{LETTERS}{TRAIN_LABELS}": labels(1, 2, 3),
        MAPPING: mapping,
    }
    catalog = scanned(write_tree(tmp_path / "m", files))
    assert catalog.class_order == classes
    assert catalog.warnings == (f"{MAPPING}: {warning}", SWAPPED)


# What is refused.

REFUSED: list[tuple[Mapping[str, bytes | None], str]] = [
    (
        {**mnist("emnist-letters-"), **mnist("emnist-digits-")},
        (
            "there are several sets of IDX files in the root: "
            "one without a name, emnist-digits, emnist-letters"
        ),
    ),
    (
        {**mnist("a/"), **mnist("b/")},
        "there are IDX files in several folders: the root, a, b",
    ),
    (
        {TRAIN_LABELS: None, "t10k-images-idx3-ubyte": None},
        (
            "t10k-labels-idx1-ubyte: labels without their images; "
            "train-images-idx3-ubyte: images without their labels"
        ),
    ),
    (
        {TRAIN_LABELS: None, TRAIN_IMAGES: None, "t10k-labels-idx1-ubyte": None},
        "t10k-images-idx3-ubyte: no images have labels",
    ),
    (
        mnist(test="test"),
        "t10k-images-idx3-ubyte and test-images-idx3-ubyte are both for the split test",
    ),
    (
        {"images-idx3-ubyte": images(1, 1), "labels-idx1-ubyte": labels(1)},
        "images-idx3-ubyte names no split, but t10k-images-idx3-ubyte does",
    ),
    *(
        (
            {TRAIN_LABELS: data},
            f"{TRAIN_IMAGES} has 3 images, but {TRAIN_LABELS} has 2 labels",
        )
        for data in (labels(0, 1), compressed(labels(0, 1)))
    ),
    ({TRAIN_LABELS: compressed(labels(2, 0, 2)[:-1])}, f"{TRAIN_LABELS}: ends after 2 of 3 labels"),
    (
        {TRAIN_IMAGES: b"", "t10k-labels-idx1-ubyte": b"x"},
        (
            f"{TRAIN_IMAGES}: begins with nothing, but images begin with 00 00 08 03; "
            "t10k-labels-idx1-ubyte: begins with 78, but labels begin with 00 00 08 01"
        ),
    ),
    *(
        ({TRAIN_IMAGES: data}, f"{TRAIN_IMAGES}: {message}")
        for data, message in [
            (
                labels(1, 2),
                "begins with 00 00 08 01, like labels, but images begin with 00 00 08 03",
            ),
            (
                compressed(labels(1)),
                "begins with 00 00 08 01, like labels, but images begin with 00 00 08 03",
            ),
            (images(1, 3)[:10], "expected a header of 16 bytes, found 10"),
            (images(1, 3)[:-1], "33 bytes, expected 34 by its header (3 x 3 x 2)"),
            (images(1, 3) + b"x", "35 bytes, expected 34 by its header (3 x 3 x 2)"),
            (encode_header(0, 3, 2), "is empty: its header says 0 x 3 x 2"),
            (encode_header(2**32 - 1, 0, 0), "is empty: its header says 4294967295 x 0 x 0"),
            (compressed(images(1, 3)[:-1]), "ends after 17 of 18 bytes of images"),
            (
                compressed(images(1, 3) + b"x"),
                "has more than the 18 bytes in its header (3 x 3 x 2)",
            ),
            (compressed(images(1, 3))[:-9], "its gzip data is damaged or cut short"),
            (compressed(images(1, 3))[:5], "its gzip data is damaged or cut short"),
            (compressed(images(1, 3)) + b"junk", "its gzip data is damaged or cut short"),
        ]
    ),
]


def refused(root: Path, **options: object) -> SourceError:
    with pytest.raises(SourceError) as caught:
        scanned(root, **options)
    assert caught.value.hint
    return caught.value


@pytest.mark.parametrize(("changes", "message"), REFUSED, ids=[case[1][:70] for case in REFUSED])
def test_damaged_files_are_named_with_the_reason(
    changes: Mapping[str, bytes | None], message: str, tmp_path: Path
) -> None:
    files = {name: data for name, data in {**mnist(), **changes}.items() if data is not None}
    assert str(refused(write_tree(tmp_path / "m", files))) == message


def test_labels_outside_the_label_names_are_all_told(tmp_path: Path) -> None:
    assert str(refused(write_tree(tmp_path / "m", mnist()), label_names=("only",))) == (
        "train-labels-idx1-ubyte: has labels that --label-names does not name: "
        "2 (image 0, and others); "
        "t10k-labels-idx1-ubyte: has labels that --label-names does not name: 1 (image 0)"
    )


def test_images_too_large_to_decode_are_refused_unread(tmp_path: Path) -> None:
    bomb = gzip.compress(encode_header(3, 60_000, 60_000))
    error = refused(write_tree(tmp_path / "m", {**mnist(), TRAIN_IMAGES: bomb}))
    assert "60000x60000 pixels: more than the limit" in str(error)


def test_gzipped_files_may_not_unpack_to_more_than_is_allowed(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "m", gzipped(mnist()))
    error = refused(root, max_archive_bytes=34)
    assert str(error) == "the gzipped IDX files unpack to 35 bytes, by their headers"
    assert "--max-archive-bytes 35" in error.hint
    assert len(scanned(root, max_archive_bytes=35).samples) == 5


def test_a_bomb_is_unpacked_only_as_far_as_its_header_says(tmp_path: Path) -> None:
    bomb = gzip.compress(images(1, 3) + bytes(50 << 20))
    root = write_tree(tmp_path / "m", {**mnist(), TRAIN_IMAGES: bomb})
    tracemalloc.start()
    try:
        message = str(refused(root))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "has more than the 18 bytes" in message
    assert peak < 5 << 20
    assert sum(file.stat().st_size for file in (tmp_path / "spool").iterdir()) < 1000


def test_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "m", {**gzipped(mnist()), "not a folder": b""})
    with pytest.raises(ExecutionError, match="cannot write 18 bytes"):
        scanned(root, spool=root / "not a folder" / "spool")


# Laws.


@given(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3), st.binary())
def test_headers_are_read_as_written(sizes: list[int], more: bytes) -> None:
    header = parse_header(encode_header(*sizes) + more, IMAGES)
    assert (header.sizes, header.size) == (tuple(sizes), 16)
    assert parse_header(encode_header(sizes[0]), LABELS).sizes == (sizes[0],)


@given(st.lists(st.integers(0, 255), min_size=1, max_size=50), st.booleans())
@examples(60)
def test_every_image_comes_back_once_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], packed: bool
) -> None:
    files = {TRAIN_IMAGES: images(1, len(numbers)), TRAIN_LABELS: labels(*numbers)}
    root = write_tree(tmp_path_factory.mktemp("m") / "m", gzipped(files) if packed else files)
    catalog = scanned(root)
    assert b"".join(planes(catalog)) == pixels(1, len(numbers))
    assert catalog.samples.class_names == tuple(map(str, numbers))
    assert len(set(catalog.samples.filenames)) == len(numbers)


@pytest.mark.fuzz
@given(
    st.sampled_from(sorted(mnist())),
    st.booleans(),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 3), st.binary(max_size=4)), max_size=4),
)
@examples(150)
def test_changed_files_give_a_catalog_or_our_error(
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    packed: bool,
    edits: list[tuple[int, int, bytes]],
) -> None:
    files = {name: gzip.compress(data) if packed else data for name, data in mnist().items()}
    for place, length, new in edits:
        at = place % (len(files[name]) + 1)
        files[name] = files[name][:at] + new + files[name][at + length :]
    root = write_tree(tmp_path_factory.mktemp("m") / "m", files)
    try:
        assert len(scanned(root).samples) >= 1
    except SourceError as error:
        assert "idx" in str(error)
