"""IDX files: what is found in them, and what is refused."""

from __future__ import annotations

import gzip
import io
import random
import tracemalloc
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pictures import write_tree
from PIL import Image
from sampling import examples
from scanning import context
from trees import members, tarred, zipped

from imgrec.codec.idx import IMAGES, LABELS, encode_header, parse_header
from imgrec.codec.image import pack_pixels
from imgrec.errors import ExecutionError, SourceError
from imgrec.model import Catalog, Pixels
from imgrec.notes import Ignored
from imgrec.source import idx
from imgrec.source.tree import Folder, Match
from imgrec.source.walk import Walk
from imgrec.storage.blobs import read_blob

HEIGHT, WIDTH = 3, 2
SIZE = HEIGHT * WIDTH


def detect(folders: Iterable[Folder]) -> Match | None:
    return idx.detect([file for folder in folders for file in folder.tree_files()], context())


def found(root: Path, spool: Path | None = None, **options: object) -> Catalog:
    match = detect(Walk(str(root)).folders())
    assert match is not None
    return idx.scan(match, str(root), context((spool or root.parent) / "spool", **options))


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


def gzipped(files: Mapping[str, bytes]) -> dict[str, bytes]:
    return {f"{name}.gz": compressed(data) for name, data in files.items()}


def compressed(data: bytes) -> bytes:
    """Compress without a date, so that equal data is equal."""
    return gzip.compress(data, mtime=0)


def without(files: Mapping[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name not in names}


def told(catalog: Catalog) -> list[tuple[object, ...]]:
    return [(s.filename, s.class_name, s.split, s.size, s.content) for s in catalog.samples]


def decoded(catalog: Catalog) -> bytes:
    """All pixels, as they come back from what would be packed."""
    out = []
    for sample in catalog.samples:
        assert isinstance(sample.blob, Pixels)
        packed = pack_pixels(read_blob(sample.blob, sample.size), sample.blob)
        assert packed.shape == (HEIGHT, WIDTH, 1)
        out.append(Image.open(io.BytesIO(packed.data)).tobytes())
    return b"".join(out)


def test_pairs_give_every_image_with_its_class_and_split(tmp_path: Path) -> None:
    catalog = found(write_tree(tmp_path / "m", mnist()))
    assert [(s.filename, s.class_name, s.split, s.size) for s in catalog.samples] == [
        ("train/2/00000.png", "2", "train", SIZE),
        ("train/0/00001.png", "0", "train", SIZE),
        ("train/2/00002.png", "2", "train", SIZE),
        ("test/1/00000.png", "1", "test", SIZE),
        ("test/0/00001.png", "0", "test", SIZE),
    ]
    assert catalog.layout == "IDX: train 2x3; test 2x3"
    assert (catalog.bad, catalog.ignored, catalog.warnings) == ((), (), ())


def test_what_would_be_packed_decodes_to_the_pixels_of_the_source(tmp_path: Path) -> None:
    for name, files in (("plain", mnist()), ("packed", gzipped(mnist()))):
        assert decoded(found(write_tree(tmp_path / name, files))) == pixels(1, 3) + pixels(2, 2)


def test_gzipped_files_say_the_same_as_plain_ones(tmp_path: Path) -> None:
    plain = found(write_tree(tmp_path / "p", mnist()))
    packed = found(write_tree(tmp_path / "g", gzipped(mnist())))
    assert told(packed) == told(plain)
    assert packed.layout == plain.layout


def test_content_decides_what_is_gzipped_not_the_name(tmp_path: Path) -> None:
    plain = found(write_tree(tmp_path / "p", mnist()))
    hidden = {name: gzip.compress(data) for name, data in mnist().items()}
    bare = {f"{name}.gz": data for name, data in mnist().items()}
    assert told(found(write_tree(tmp_path / "h", hidden))) == told(plain)
    assert told(found(write_tree(tmp_path / "b", bare))) == told(plain)


def test_plain_files_are_pointed_into_and_not_copied(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "m", mnist())
    blob = found(root).samples.blobs[1]
    path = str(root / "train-images-idx3-ubyte")
    assert blob == Pixels(path, 16 + SIZE, HEIGHT, WIDTH, 1, is_planar=False)
    assert not (tmp_path / "spool").exists()


@pytest.mark.parametrize("pack", [tarred, zipped])
@pytest.mark.parametrize("packed", [False, True])
def test_files_inside_an_archive_say_the_same_as_on_disk(
    pack: Callable[[Path, Mapping[str, bytes]], Path], packed: bool, tmp_path: Path
) -> None:
    files = gzipped(mnist()) if packed else mnist()
    archive = pack(tmp_path / f"a.{'zip' if pack is zipped else 'tar'}", files)
    inside = detect([members(archive)])
    assert inside is not None
    catalog = idx.scan(inside, "", context(tmp_path / "spool"))
    assert told(catalog) == told(found(write_tree(tmp_path / "m", files)))
    assert decoded(catalog) == pixels(1, 3) + pixels(2, 2)


@pytest.mark.parametrize(
    "rename",
    [
        lambda name: name.replace("-idx", ".idx"),
        lambda name: name.replace("t10k", "test"),
        str.upper,
        lambda name: f"raw/{name}",
        lambda name: f"{name}/{name}",
        lambda name: f"raw/{name}/{name}",
        lambda name: f"fashion-{name}",
        lambda name: f"kmnist_{name.replace('-', '_')}",
    ],
)
def test_the_usual_ways_to_name_the_files_are_known(
    rename: Callable[[str], str], tmp_path: Path
) -> None:
    usual = found(write_tree(tmp_path / "m", mnist()))
    files = {rename(name): data for name, data in mnist().items()}
    assert told(found(write_tree(tmp_path / "r", files))) == told(usual)


@pytest.mark.parametrize(
    "name",
    [
        "a.jpg", "train-images", "train-images-idx1-ubyte", "train-labels-idx3-ubyte",
        "train-labels-idx2-int", "train-images-idx3-ubyte.zip", "a/b/train-images-idx3-ubyte",
    ],
)  # fmt: skip
def test_other_trees_are_not_taken_for_idx(name: str, tmp_path: Path) -> None:
    write_tree(tmp_path, {name: b""})
    assert detect(Walk(str(tmp_path)).folders()) is None


def test_classes_are_all_numbers_from_0_to_the_largest_label_of_any_split(tmp_path: Path) -> None:
    files = {**mnist(), "t10k-labels-idx1-ubyte": labels(11, 0)}
    catalog = found(write_tree(tmp_path / "m", files))
    assert catalog.class_order == tuple(str(number) for number in range(12))
    assert set(catalog.class_folders) == set(catalog.class_order)


def test_label_names_name_the_classes_in_their_order(tmp_path: Path) -> None:
    catalog = found(write_tree(tmp_path / "m", mnist()), label_names=("shoe", "bag", "coat"))
    assert catalog.class_order == ("shoe", "bag", "coat")
    assert catalog.samples.class_names == ("coat", "shoe", "coat", "bag", "shoe")
    assert catalog.class_folders["bag"] == ("--label-names: bag",)


def test_files_without_a_split_leave_it_open(tmp_path: Path) -> None:
    files = {"images-idx3-ubyte": images(1, 2), "labels-idx1-ubyte": labels(0, 1)}
    catalog = found(write_tree(tmp_path / "m", files))
    assert catalog.samples.splits == ("", "")
    assert catalog.samples.filenames == ("0/00000.png", "1/00001.png")
    assert catalog.layout == "IDX: all 2x3"


def test_test_images_may_be_without_labels(tmp_path: Path) -> None:
    catalog = found(write_tree(tmp_path / "m", without(mnist(), "t10k-labels-idx1-ubyte")))
    assert catalog.samples.class_names[3:] == ("", "")
    assert catalog.samples.filenames[3:] == ("test/00000.png", "test/00001.png")
    assert catalog.layout == "IDX: train 2x3; test 2x3, without labels"


def test_more_than_100000_images_keep_their_numbers_apart(tmp_path: Path) -> None:
    count = 100_002
    files = {
        "train-images-idx3-ubyte": encode_header(count, 1, 1) + bytes(count),
        "train-labels-idx1-ubyte": encode_header(count) + bytes(count),
    }
    filenames = found(write_tree(tmp_path / "m", files)).samples.filenames
    assert filenames[99_999:] == ("train/0/99999.png", "train/0/100000.png", "train/0/100001.png")


# What is passed over, and what is doubtful.


def test_a_gzipped_copy_beside_the_plain_file_is_passed_over_and_named(tmp_path: Path) -> None:
    copy = {"train-images-idx3-ubyte.gz": gzip.compress(images(7, 9))}
    catalog = found(write_tree(tmp_path / "m", {**mnist(), **copy}))
    assert told(catalog) == told(found(write_tree(tmp_path / "n", mnist())))
    assert catalog.ignored == (
        Ignored(kind="a second copy of an IDX file", count=1, examples=tuple(copy)),
    )
    (warning,) = catalog.warnings
    assert warning.startswith("not read, because by their names they repeat ")


def test_other_files_are_counted(tmp_path: Path) -> None:
    catalog = found(write_tree(tmp_path / "m", {**mnist(), "readme.txt": b"x", "a/b.jpg": b""}))
    assert catalog.ignored == (
        Ignored(kind="not an IDX file", count=2, examples=("readme.txt", "a/b.jpg")),
    )


LETTERS = "emnist-letters-"
SWAPPED = (
    "emnist-letters: EMNIST stores its images with rows and columns swapped; "
    "they are packed unchanged"
)
MOVED = (
    "emnist-letters-mapping.txt: labels are numbered from 0 without gaps, "
    "so A becomes 0 instead of 1, and so on"
)


def test_a_mapping_names_the_classes_by_the_first_of_their_characters(tmp_path: Path) -> None:
    mapping = {f"{LETTERS}mapping.txt": b"0 65 97\r\n1 66 98\r\n2 67 99\r\n\r\n"}
    catalog = found(write_tree(tmp_path / "m", {**mnist(LETTERS, "test"), **mapping}))
    assert catalog.class_order == ("A", "B", "C")
    assert catalog.samples.class_names == ("C", "A", "C", "B", "A")
    assert catalog.class_folders["B"] == ("emnist-letters-mapping.txt: B",)
    assert (catalog.ignored, catalog.warnings) == ((), (SWAPPED,))
    assert catalog.layout == "IDX (emnist-letters): train 2x3; test 2x3"


def test_pixels_of_emnist_are_packed_as_they_stand(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "m", mnist(LETTERS, "test"))
    assert decoded(found(root)) == pixels(1, 3) + pixels(2, 2)


def test_labels_that_a_mapping_moves_are_told(tmp_path: Path) -> None:
    files = {
        f"{LETTERS}train-images-idx3-ubyte": images(1, 2),
        f"{LETTERS}train-labels-idx1-ubyte": labels(1, 2),
        f"{LETTERS}mapping.txt": b"1 65 97\n2 66 98\n",
    }
    catalog = found(write_tree(tmp_path / "m", files))
    assert catalog.class_order == ("A", "B")
    assert catalog.warnings == (
        MOVED,
        SWAPPED,
    )


@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        (b"0 65\n1 66\n", "it does not name the labels 2"),
        (b"0 65\n1 66\n2 97\n", "names that differ only in case: A a"),
        (b"0 65\n1 66\n2 10\n", "labels 2 have no printable name"),
        (b"0 65\n1 66\n2 32\n", "labels 2 have no printable name"),
        (b"0 65\n1 66\n2 9999999\n", "labels 2 have no printable name"),
        (b"0 65\n1 66\n2 55296\n", "labels 2 have no printable name"),
        (b"0 65\n1 66\n1 67\n", "line 3 names label 1 again"),
        (b"0 65\n1,66\n", "line 2 is not a label and the codes of its characters"),
        (b"0 65\n1 66\n2 \xff\n", "line 3 is not a label and the codes of its characters"),
        (b"", "it does not name the labels 0, 1, 2"),
    ],
)
def test_a_mapping_that_cannot_be_used_is_passed_over_with_the_reason(
    mapping: bytes, reason: str, tmp_path: Path
) -> None:
    files = {**mnist(LETTERS, "test"), f"{LETTERS}mapping.txt": mapping}
    catalog = found(write_tree(tmp_path / "m", files))
    assert catalog.class_order == ("0", "1", "2")
    assert catalog.warnings == (
        f"emnist-letters-mapping.txt: {reason}; so numbers are used as class names",
        SWAPPED,
    )


def test_label_names_go_before_a_mapping(tmp_path: Path) -> None:
    files = {**mnist(LETTERS, "test"), f"{LETTERS}mapping.txt": b"0 65\n1 66\n2 67\n"}
    catalog = found(write_tree(tmp_path / "m", files), label_names=("x", "y", "z"))
    assert catalog.class_order == ("x", "y", "z")
    assert [ignored.examples for ignored in catalog.ignored] == [("emnist-letters-mapping.txt",)]


# What is refused.


def refused(files: Mapping[str, bytes], tmp_path: Path, **options: object) -> SourceError:
    with pytest.raises(SourceError) as caught:
        found(write_tree(tmp_path / "m", dict(files)), **options)
    assert caught.value.hint
    return caught.value


def test_several_sets_in_one_folder_are_an_error_that_lists_them(tmp_path: Path) -> None:
    error = refused({**mnist("emnist-letters-"), **mnist("emnist-digits-"), **mnist()}, tmp_path)
    assert str(error) == (
        "there are several sets of IDX files in the root: "
        "one without a name, emnist-digits, emnist-letters"
    )
    assert error.hint == "keep the files of one set in the folder"


def test_idx_files_in_several_folders_are_an_error_that_lists_them(tmp_path: Path) -> None:
    error = refused({**mnist("a/"), **mnist("b/"), **mnist()}, tmp_path)
    assert str(error) == "there are IDX files in several folders: the root, a, b"


def test_all_that_is_without_its_other_half_is_named_at_once(tmp_path: Path) -> None:
    files = without(mnist(), "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte")
    assert str(refused(files, tmp_path)) == (
        "t10k-labels-idx1-ubyte: labels without their images; "
        "train-images-idx3-ubyte: images without their labels"
    )


def test_images_without_any_label_are_refused(tmp_path: Path) -> None:
    error = refused({"t10k-images-idx3-ubyte": images(1, 2)}, tmp_path)
    assert str(error) == "t10k-images-idx3-ubyte: no images have labels"


def test_two_names_for_one_split_are_refused(tmp_path: Path) -> None:
    error = refused({**mnist(), **mnist(test="test")}, tmp_path)
    assert "are both for the split test" in str(error)


def test_a_split_beside_files_without_one_is_refused(tmp_path: Path) -> None:
    files = {**mnist(), "images-idx3-ubyte": images(1, 1), "labels-idx1-ubyte": labels(1)}
    assert str(refused(files, tmp_path)) == (
        "images-idx3-ubyte names no split, but t10k-images-idx3-ubyte does"
    )


@pytest.mark.parametrize("packed", [False, True])
def test_counts_that_differ_are_told_with_both_files(packed: bool, tmp_path: Path) -> None:
    files = {**mnist(), "train-labels-idx1-ubyte": labels(0, 1)}
    message = str(refused(gzipped(files) if packed else files, tmp_path))
    assert message.replace(".gz", "") == (
        "train-images-idx3-ubyte has 3 images, but train-labels-idx1-ubyte has 2 labels"
    )


TRAIN_IMAGES = "train-images-idx3-ubyte"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            labels(1, 2),
            "begins with 00 00 08 01, like labels, but images begin with 00 00 08 03",
        ),
        (b"<html>", "begins with 3c 68 74 6d, but images begin with 00 00 08 03"),
        (b"", "begins with nothing, but images begin with 00 00 08 03"),
        (images(1, 3)[:10], "expected a header of 16 bytes, found 10"),
        (images(1, 3)[:-1], "33 bytes, expected 34 by its header (3 x 3 x 2)"),
        (images(1, 3) + b"x", "35 bytes, expected 34 by its header (3 x 3 x 2)"),
        (encode_header(0, 3, 2), "is empty: its header says 0 x 3 x 2"),
        (encode_header(3, 0, 2), "is empty: its header says 3 x 0 x 2"),
        (encode_header(2**32 - 1, 0, 0), "is empty: its header says 4294967295 x 0 x 0"),
    ],
)
def test_a_file_that_is_not_what_its_header_says_is_named_with_both_numbers(
    data: bytes, message: str, tmp_path: Path
) -> None:
    assert str(refused({**mnist(), TRAIN_IMAGES: data}, tmp_path)) == f"{TRAIN_IMAGES}: {message}"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (compressed(images(1, 3)[:-1]), "ends after 17 of 18 bytes of images"),
        (
            compressed(images(1, 3) + b"x"),
            "has more than the 18 bytes in its header (3 x 3 x 2)",
        ),
        (compressed(images(1, 3))[:-9], "its gzip data is damaged or cut short"),
        (compressed(images(1, 3))[:5], "its gzip data is damaged or cut short"),
        (compressed(images(1, 3)) + b"junk", "its gzip data is damaged or cut short"),
        (compressed(labels(1)), "begins with 00 00 08 01, like labels, but images begin"),
    ],
)
def test_a_gzipped_file_that_is_not_what_its_header_says_is_named(
    data: bytes, message: str, tmp_path: Path
) -> None:
    files = {**mnist(), TRAIN_IMAGES: data}
    assert str(refused(files, tmp_path)).startswith(f"{TRAIN_IMAGES}: {message}")


def test_gzipped_labels_that_end_early_are_named(tmp_path: Path) -> None:
    files = {**mnist(), "train-labels-idx1-ubyte": gzip.compress(labels(2, 0, 2)[:-1])}
    assert str(refused(files, tmp_path)) == "train-labels-idx1-ubyte: ends after 2 of 3 labels"


def test_the_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    files = {**mnist(), TRAIN_IMAGES: b"", "t10k-labels-idx1-ubyte": b"x"}
    assert [fault.split(":")[0] for fault in str(refused(files, tmp_path)).split("; ")] == [
        TRAIN_IMAGES,
        "t10k-labels-idx1-ubyte",
    ]


def test_labels_outside_the_label_names_are_all_told(tmp_path: Path) -> None:
    error = refused(mnist(), tmp_path, label_names=("only",))
    assert str(error) == (
        "train-labels-idx1-ubyte: has labels that --label-names does not name: "
        "2 (image 0, and others); "
        "t10k-labels-idx1-ubyte: has labels that --label-names does not name: 1 (image 0)"
    )


def test_images_too_large_to_decode_are_refused_unread(tmp_path: Path) -> None:
    bomb = gzip.compress(encode_header(3, 60_000, 60_000))
    message = str(refused({**mnist(), TRAIN_IMAGES: bomb}, tmp_path))
    assert "60000x60000 pixels: more than the limit" in message


def test_gzipped_files_may_not_unpack_to_more_than_is_allowed(tmp_path: Path) -> None:
    error = refused(gzipped(mnist()), tmp_path, max_archive_bytes=34)
    assert str(error) == "the gzipped IDX files unpack to 35 bytes, by their headers"
    assert "--max-archive-bytes 35" in error.hint
    assert len(found(tmp_path / "m", max_archive_bytes=35).samples) == 5


def test_a_bomb_is_unpacked_only_as_far_as_its_header_tells(tmp_path: Path) -> None:
    bomb = gzip.compress(images(1, 3) + bytes(50 << 20))
    tracemalloc.start()
    try:
        message = str(refused({**mnist(), TRAIN_IMAGES: bomb}, tmp_path))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert "has more than the 18 bytes" in message
    assert peak < 5 << 20
    assert sum(file.stat().st_size for file in (tmp_path / "spool").iterdir()) < 1000


def test_a_full_disk_is_an_error_of_the_run(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "m", {**gzipped(mnist()), "not a folder": b""})
    with pytest.raises(ExecutionError, match="cannot write 18 bytes"):
        found(root, spool=root / "not a folder")


# Laws.


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=1))
def test_the_header_of_labels_is_read_as_it_was_written(sizes: list[int]) -> None:
    assert parse_header(encode_header(*sizes), LABELS).sizes == tuple(sizes)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=3, max_size=3), st.binary())
def test_the_header_of_images_is_read_as_it_was_written(sizes: list[int], more: bytes) -> None:
    header = parse_header(encode_header(*sizes) + more, IMAGES)
    assert (header.sizes, header.size) == (tuple(sizes), 16)


@pytest.mark.fuzz
@given(st.binary(max_size=40), st.sampled_from([IMAGES, LABELS]))
def test_any_bytes_are_a_header_or_our_error(data: bytes, dimensions: int) -> None:
    with suppress(SourceError):
        assert len(parse_header(data, dimensions).sizes) == dimensions


@given(st.lists(st.integers(0, 255), min_size=1, max_size=50), st.booleans())
@examples(60)
def test_every_image_comes_back_once_in_its_order(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int], packed: bool
) -> None:
    files = {
        "train-images-idx3-ubyte": images(1, len(numbers)),
        "train-labels-idx1-ubyte": labels(*numbers),
    }
    root = write_tree(tmp_path_factory.mktemp("m") / "m", gzipped(files) if packed else files)
    catalog = found(root)
    assert decoded(catalog) == pixels(1, len(numbers))
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
        assert len(found(root).samples) >= 1
    except SourceError as error:
        assert "idx" in str(error)
