"""CIFAR-10 and CIFAR-100: what is found in their files."""

from __future__ import annotations

import io
import os
import pickle
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

import pytest
from cifar_files import (
    COARSE,
    FINE,
    IMAGE,
    NAMES,
    TESTING,
    TRAINING,
    Call,
    Python2,
    array,
    batch,
    binary_100,
    binary_batch,
    binary_files,
    meta,
    pixels,
    python_100,
    python_files,
)
from hypothesis import given
from hypothesis import strategies as st
from pictures import write_tree
from PIL import Image
from sampling import examples
from scanning import context
from trees import members, tarred, zipped

from imgrec.codec.cifar_pickle import ByteArray
from imgrec.codec.image import pack_pixels
from imgrec.errors import ExecutionError, SourceError
from imgrec.model import Catalog, Pixels
from imgrec.notes import Ignored
from imgrec.source import cifar
from imgrec.source.tree import Folder, Match
from imgrec.source.walk import Walk
from imgrec.storage.blobs import read_blob


def detect(folders: Iterable[Folder]) -> Match | None:
    return cifar.detect([file for folder in folders for file in folder.tree_files()], context())


def found(root: Path, spool: Path | None = None, **options: object) -> Catalog:
    match = detect(Walk(str(root)).folders())
    assert match is not None
    return cifar.scan(match, str(root), context((spool or root.parent) / "spool", **options))


def told(catalog: Catalog) -> list[tuple[object, ...]]:
    """What a catalog says of its samples, but for where they are."""
    return [(s.filename, s.class_name, s.split, s.size, s.content) for s in catalog.samples]


def decoded(catalog: Catalog) -> list[bytes]:
    """The images as planes of colour, as they come back from what would be packed."""
    out = []
    for sample in catalog.samples:
        assert isinstance(sample.blob, Pixels)
        packed = pack_pixels(read_blob(sample.blob, sample.size), sample.blob)
        assert packed.shape == (32, 32, 3)
        bands = Image.open(io.BytesIO(packed.data)).split()
        out.append(b"".join(band.tobytes() for band in bands))
    return out


def test_python_batches_give_every_image_with_its_class_and_split(tmp_path: Path) -> None:
    catalog = found(write_tree(tmp_path / "c", python_files()))
    assert [(s.filename, s.class_name, s.split, s.size) for s in catalog.samples] == [
        *(
            (f"train/{name}/{number:05d}.png", name, "train", IMAGE)
            for number, name in enumerate(NAMES)
        ),
        ("test/truck/00000.png", "truck", "test", IMAGE),
        ("test/ship/00001.png", "ship", "test", IMAGE),
    ]
    assert catalog.layout == "CIFAR-10, python batches"
    assert (catalog.bad, catalog.ignored, catalog.warnings) == ((), (), ())


@pytest.mark.parametrize("files", [python_files, binary_files])
def test_what_would_be_packed_decodes_to_the_pixels_of_the_source(
    files: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    assert decoded(found(write_tree(tmp_path / "c", files()))) == TRAINING + TESTING


def test_binary_batches_say_the_same_as_python_batches(tmp_path: Path) -> None:
    python = found(write_tree(tmp_path / "p", python_files()))
    binary = found(write_tree(tmp_path / "b", binary_files()))
    assert told(binary) == told(python)
    assert binary.class_order == python.class_order
    assert binary.layout == "CIFAR-10, binary batches"


def test_binary_batches_are_pointed_into_and_not_copied(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "c", binary_files())
    blob = found(root).samples.blobs[3]
    assert blob == Pixels(str(root / "data_batch_2.bin"), 3073 + 1, 32, 32, 3, is_planar=True)
    assert not (tmp_path / "spool").exists()


def test_labels_are_in_the_order_of_the_meta_file_not_of_the_names(tmp_path: Path) -> None:
    names = tuple(reversed(NAMES))
    tree = write_tree(tmp_path / "c", {**python_files(), "batches.meta": meta(names)})
    catalog = found(tree)
    assert catalog.class_order == names
    assert catalog.samples.class_names[:2] == ("truck", "ship")
    assert catalog.class_folders["truck"] == ("batches.meta: truck",)


def test_equal_images_and_no_others_have_equal_contents(tmp_path: Path) -> None:
    files = {**binary_files(), "test_batch.bin": binary_batch([[3], [3]], TRAINING[4] + pixels(5))}
    contents = found(write_tree(tmp_path / "c", files)).samples.contents
    assert contents[10] == contents[4]
    assert len(set(contents)) == 11


@pytest.mark.parametrize("files", [python_100, binary_100])
def test_cifar_100_has_fine_labels_unless_coarse_ones_are_asked_for(
    files: Callable[[], dict[str, bytes]], tmp_path: Path
) -> None:
    root = write_tree(tmp_path / "c", files())
    fine, coarse = found(root), found(root, cifar100_labels="coarse")
    assert fine.samples.class_names == ("crab", "apple", "bear", "bear")
    assert coarse.samples.class_names == ("beast", "fruit", "beast", "beast")
    assert (fine.class_order, coarse.class_order) == (FINE, COARSE)
    assert fine.samples.splits == coarse.samples.splits == ("train",) * 3 + ("test",)
    assert decoded(fine) == [pixels(1, 3)[at : at + IMAGE] for at in (0, 3072, 6144)] + [pixels(2)]


def test_the_layout_of_cifar_100_says_which_labels_are_taken(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "c", python_100())
    assert found(root).layout == "CIFAR-100, python files, fine labels"
    binary = found(write_tree(tmp_path / "b", binary_100()), cifar100_labels="coarse")
    assert binary.layout == "CIFAR-100, binary files, coarse labels"


def test_the_files_may_be_in_one_folder_and_others_are_counted(tmp_path: Path) -> None:
    inner = {f"cifar-10-batches-py/{name}": data for name, data in python_files().items()}
    more = {"cifar-10-batches-py/readme.html": b"<p>", "cifar-10-python.tar.gz": b"x"}
    catalog = found(write_tree(tmp_path / "c", {**inner, **more}))
    assert len(catalog.samples) == 12
    assert catalog.class_folders["cat"] == ("cifar-10-batches-py/batches.meta: cat",)
    others = ("cifar-10-python.tar.gz", "cifar-10-batches-py/readme.html")
    assert catalog.ignored == (Ignored(kind="not a file of CIFAR", count=2, examples=others),)


@pytest.mark.parametrize("pack", [tarred, zipped])
@pytest.mark.parametrize("files", [python_files, binary_files, python_100, binary_100])
def test_files_inside_an_archive_say_the_same_as_on_disk(
    files: Callable[[], dict[str, bytes]],
    pack: Callable[[Path, Mapping[str, bytes]], Path],
    tmp_path: Path,
) -> None:
    archive = pack(tmp_path / f"a.{'zip' if pack is zipped else 'tar'}", files())
    inside = detect([members(archive)])
    assert inside is not None
    catalog = cifar.scan(inside, "", context(tmp_path / "spool"))
    on_disk = found(write_tree(tmp_path / "c", files()))
    assert told(catalog) == told(on_disk)
    assert decoded(catalog) == decoded(on_disk)


def test_binary_batches_in_a_tar_are_pointed_into(tmp_path: Path) -> None:
    archive = tarred(tmp_path / "a.tar", binary_files())
    inside = detect([members(archive)])
    assert inside is not None
    paths = {
        blob.path for blob in cifar.scan(inside, "", context(tmp_path / "spool")).samples.blobs
    }  # type: ignore[union-attr]
    assert paths == {str(archive)}


@pytest.mark.parametrize(
    "files",
    [
        {"rose/1.jpg": b"", "tulip/2.jpg": b""},
        {"data_batch_1": b"alone"},
        {"train": b"no pickle", "test": b"\x80\x02}.", "meta": b"\x80\x02}."},
        {"train/a.jpg": b"", "test/b.jpg": b"", "meta": b"\x80\x02}."},
        {"train": b"\x80\x02}.", "test": b"\x80\x02}."},
        {"train.bin": b"", "test.bin": b""},
        {"a/b/" + name: b"" for name in ("data_batch_1", "test_batch", "batches.meta")},
    ],
    ids=["classes", "one batch", "text", "folders", "no meta", "other .bin", "deep"],
)
def test_other_trees_are_not_taken_for_cifar(files: dict[str, bytes], tmp_path: Path) -> None:
    write_tree(tmp_path, files)
    assert detect(Walk(str(tmp_path)).folders()) is None


def refused(files: Mapping[str, bytes], tmp_path: Path, **options: object) -> SourceError:
    with pytest.raises(SourceError) as caught:
        found(write_tree(tmp_path / "c", dict(files)), **options)
    assert caught.value.hint
    return caught.value


def without(files: Mapping[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: data for name, data in files.items() if name not in names}


def test_missing_training_batches_and_meta_are_all_named(tmp_path: Path) -> None:
    files = without(python_files(), "data_batch_2", "data_batch_5", "batches.meta")
    assert str(refused(files, tmp_path)) == (
        "CIFAR-10, python batches: data_batch_2, data_batch_5, batches.meta missing beside "
        "data_batch_1, data_batch_3, data_batch_4, test_batch"
    )


def test_a_missing_test_batch_is_only_a_warning(tmp_path: Path) -> None:
    catalog = found(write_tree(tmp_path / "c", without(binary_files(), "test_batch.bin")))
    assert catalog.warnings == ("test_batch.bin is missing: there is no test split",)
    assert set(catalog.samples.splits) == {"train"}


def test_label_names_stand_in_for_a_missing_meta_file(tmp_path: Path) -> None:
    names = tuple("abcdefghij")
    root = write_tree(tmp_path / "c", without(python_files(), "batches.meta"))
    catalog = found(root, label_names=names)
    assert catalog.class_order == names
    assert catalog.class_folders["a"] == ("--label-names: a",)


def test_two_sets_in_one_tree_are_an_error_that_lists_them(tmp_path: Path) -> None:
    files = {f"a/{name}": data for name, data in python_files().items()}
    files |= {f"b/{name}": data for name, data in binary_100().items()}
    assert str(refused(files, tmp_path)) == (
        "there is more than one CIFAR set: CIFAR-10, python batches in a, "
        "CIFAR-100, binary files in b"
    )


def test_labels_out_of_range_are_named_with_file_and_position(tmp_path: Path) -> None:
    files = {**python_files(), "data_batch_3": batch([4, 10], pixels(0, 2))}
    assert str(refused(files, tmp_path)) == (
        "data_batch_3: has labels that batches.meta does not name: 10 (image 1)"
    )


def test_labels_out_of_range_in_binary_batches_are_counted(tmp_path: Path) -> None:
    labels = [[200], [3], [200], *([number] for number in range(201, 206))]
    files = {**binary_files(), "data_batch_3.bin": binary_batch(labels, pixels(0, 8))}
    assert str(refused(files, tmp_path)) == (
        "data_batch_3.bin: has labels that batches.meta.txt does not name: "
        "200 (image 0, and others), 201 (image 3), 202 (image 4), 203 (image 5), "
        "204 (image 6) and 1 more"
    )


def test_negative_labels_are_out_of_range(tmp_path: Path) -> None:
    files = {**python_files(), "test_batch": batch([-1, 0], pixels(0, 2))}
    assert "test_batch: has labels that batches.meta does not name: -1 (image 0)" in str(
        refused(files, tmp_path)
    )


def test_the_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    files = {
        **binary_files(),
        "data_batch_1.bin": b"",
        "data_batch_4.bin": bytes(3073 + 5),
        "test_batch.bin": binary_batch([[77]], pixels(0)),
    }
    assert str(refused(files, tmp_path)).split("; ") == [
        "data_batch_1.bin: 0 bytes are not a multiple of 3,073: 0 images and 0 bytes",
        "data_batch_4.bin: 3,078 bytes are not a multiple of 3,073: 1 images and 5 bytes",
        "test_batch.bin: has labels that batches.meta.txt does not name: 77 (image 0)",
    ]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({b"labels": [1]}, "a pickle without data"),
        ({b"data": ByteArray((1, IMAGE), bytes(IMAGE))}, "a pickle without labels"),
        ({b"data": [1], b"labels": [1]}, "its data is not an array, expected (images, 3072)"),
        (
            {b"data": ByteArray((1, 100), bytes(100)), b"labels": [1]},
            "its data is (1, 100), expected (images, 3072)",
        ),
        (
            {b"data": ByteArray((2, IMAGE), bytes(2 * IMAGE)), b"labels": [1]},
            "2 images, but 1 labels",
        ),
        (
            {b"data": ByteArray((1, IMAGE), bytes(IMAGE)), b"labels": [b"1"]},
            "the label of image 0 is not an integer",
        ),
        ({b"data": ByteArray((1, IMAGE), bytes(IMAGE)), b"labels": 1}, "its labels are not a list"),
    ],
)
def test_a_batch_that_is_not_as_it_should_be_is_named_with_the_reason(
    content: dict[bytes, object], message: str, tmp_path: Path
) -> None:
    files = {**python_files(), "data_batch_2": Python2().dump(content)}
    assert str(refused(files, tmp_path)) == f"data_batch_2: {message}"


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ([], "batches.meta: unusable class names: there are none"),
        (["a", "b", "a"], "batches.meta: unusable class names: 'a' is repeated"),
        (["a", " "], "batches.meta: unusable class names: name 1 is blank"),
    ],
)
def test_class_names_that_cannot_be_told_apart_are_refused(
    names: list[str], message: str, tmp_path: Path
) -> None:
    assert str(refused({**python_files(), "batches.meta": meta(names)}, tmp_path)) == message


def test_no_class_name_leads_out_of_the_tree_or_makes_filenames_equal(tmp_path: Path) -> None:
    names = ("a/b", "a_b", "..", ".", ".x", "/etc", "x\0y", "A", "a", "é")
    catalog = found(write_tree(tmp_path / "c", {**python_files(), "batches.meta": meta(names)}))
    assert catalog.samples.class_names[:10] == names
    folders = [filename.split("/")[1:-1] for filename in catalog.samples.filenames[:8]]
    assert folders == [["a_b"], ["a_b"], ["_.."], ["_."], ["_.x"], ["_etc"], ["x_y"], ["A"]]
    assert len(set(catalog.samples.filenames)) == 12


def test_a_full_disk_is_an_error_of_the_run(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "c", {**python_files(), "not a folder": b""})
    with pytest.raises(ExecutionError, match="cannot write 6,144 bytes"):
        found(root, spool=root / "not a folder")


def test_a_hostile_batch_is_named_and_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "was here"
    data = pickle.dumps({"data": Call(os.system, f"touch '{marker}'"), "labels": [1]}, 2)
    error = refused({**python_files(), "data_batch_3": data}, tmp_path)
    assert str(error).startswith("data_batch_3: not a pickle of CIFAR: it names 'posix.system'")
    assert error.path == "data_batch_3"
    assert not marker.exists()


def test_a_list_that_holds_itself_is_no_list_of_labels(tmp_path: Path) -> None:
    labels = b"]q\x01h\x01a"
    data = array(b"(K\x00M\x00\x0ct", b"\x89", b"")[:-1] + b"U\x06labels" + labels + b"s."
    error = refused({**python_files(), "test_batch": data}, tmp_path)
    assert str(error) == "test_batch: the label of image 0 is not an integer"


@pytest.mark.fuzz
@given(st.sampled_from(["train.bin", "test.bin", "fine_label_names.txt"]), st.binary(max_size=40))
@examples(100)
def test_any_bytes_in_a_binary_file_give_a_catalog_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes
) -> None:
    root = write_tree(tmp_path_factory.mktemp("c"), {**binary_100(), name: data})
    try:
        assert len(found(root).samples) >= 2
    except SourceError as error:
        assert name in str(error) or "fine_label_names.txt" in str(error)
