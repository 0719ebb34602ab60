"""CIFAR-10 and CIFAR-100: every image with its class and split, or an error that names the file."""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
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
from sampling import examples
from scanning import planes, rows, scanned
from trees import tarred, zipped

from imgrec.codec.cifar_pickle import ByteArray
from imgrec.errors import ExecutionError, SourceError
from imgrec.model import Pixels
from imgrec.notes import Ignored

Files = Callable[[], dict[str, bytes]]
PYTHON = "CIFAR-10, python batches"
BINARY = "CIFAR-10, binary batches"


@pytest.mark.parametrize(
    ("files", "layout"), [(python_files, PYTHON), (binary_files, BINARY)], ids=["python", "binary"]
)
def test_batches_give_every_image_with_its_class_and_split(
    files: Files, layout: str, tmp_path: Path
) -> None:
    catalog = scanned(write_tree(tmp_path / "c", files()))
    assert [row[:4] for row in rows(catalog)] == [
        *((f"train/{name}/{n:05d}.png", name, "train", IMAGE) for n, name in enumerate(NAMES)),
        ("test/truck/00000.png", "truck", "test", IMAGE),
        ("test/ship/00001.png", "ship", "test", IMAGE),
    ]
    assert planes(catalog) == TRAINING + TESTING
    assert len(set(catalog.samples.contents)) == len(set(TRAINING + TESTING))
    assert (catalog.layout.text, catalog.class_order, catalog.notes) == (layout, NAMES, ())


@pytest.mark.parametrize("files", [python_100, binary_100])
def test_cifar_100_has_fine_labels_unless_coarse_ones_are_asked_for(
    files: Files, tmp_path: Path
) -> None:
    root = write_tree(tmp_path / "c", files())
    fine, coarse = scanned(root), scanned(root, cifar100_labels="coarse")
    assert fine.samples.class_names == ("crab", "apple", "bear", "bear")
    assert coarse.samples.class_names == ("beast", "fruit", "beast", "beast")
    assert (fine.class_order, coarse.class_order) == (FINE, COARSE)
    assert fine.samples.splits == coarse.samples.splits == ("train",) * 3 + ("test",)
    assert planes(fine) == [pixels(1, 3)[at : at + IMAGE] for at in (0, 3072, 6144)] + [pixels(2)]
    kind = "python" if files is python_100 else "binary"
    assert fine.layout.text == f"CIFAR-100, {kind} files, fine labels"
    assert coarse.layout.text == f"CIFAR-100, {kind} files, coarse labels"


@pytest.mark.parametrize("pack", [tarred, zipped])
@pytest.mark.parametrize("files", [python_files, binary_files, python_100, binary_100])
def test_an_archive_gives_what_its_folder_gives(
    files: Files, pack: Callable[[Path, Mapping[str, bytes]], Path], tmp_path: Path
) -> None:
    archive = scanned(pack(tmp_path / f"a.{'zip' if pack is zipped else 'tar'}", files()))
    folder = scanned(write_tree(tmp_path / "c", files()))
    assert (rows(archive), planes(archive)) == (rows(folder), planes(folder))


def test_binary_batches_are_not_copied(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "c", binary_files())
    blob = scanned(root).samples.blobs[3]
    assert blob == Pixels(str(root / "data_batch_2.bin"), 3073 + 1, 32, 32, 3, is_planar=True)
    archive = tarred(tmp_path / "a.tar", binary_files())
    assert {blob[0] for blob in scanned(archive).samples.blobs} == {str(archive)}
    assert not (tmp_path / "spool").exists()


def test_the_files_may_be_in_one_folder_and_others_are_counted(tmp_path: Path) -> None:
    inner = {f"cifar-10-batches-py/{name}": data for name, data in python_files().items()}
    more = {"cifar-10-batches-py/readme.html": b"<p>", "readme.txt": b"x"}
    catalog = scanned(write_tree(tmp_path / "c", {**inner, **more}))
    assert catalog.class_folders["cat"] == ("cifar-10-batches-py/batches.meta: cat",)
    others = ("readme.txt", "cifar-10-batches-py/readme.html")
    assert catalog.ignored == (Ignored(kind="not a file of CIFAR", count=2, examples=others),)


@pytest.mark.parametrize(
    "files",
    [
        {"rose/1.jpg": b"", "tulip/2.jpg": b""},
        {"data_batch_1": b"alone"},
        {"train": b"no pickle", "test": b"\x80\x02}.", "meta": b"\x80\x02}."},
        {"train/a.jpg": b"", "test/b.jpg": b"", "meta": b"\x80\x02}."},
        {"train": b"\x80\x02}.", "test": b"\x80\x02}."},
        {"train.bin": b"", "test.bin": b""},
        {"x": b"", **{f"a/b/{name}": b"" for name in ("data_batch_1", "test_batch")}},
    ],
    ids=["classes", "one batch", "text", "folders", "no meta", "other .bin", "deep"],
)
def test_other_trees_are_not_taken_for_cifar(files: dict[str, bytes], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no files of the kind cifar"):
        scanned(write_tree(tmp_path, files), kind="cifar")


# Names of classes.


def test_labels_are_in_the_order_of_the_meta_file_or_of_label_names(tmp_path: Path) -> None:
    names = tuple(reversed(NAMES))
    root = write_tree(tmp_path / "c", {**python_files(), "batches.meta": meta(names)})
    catalog = scanned(root)
    assert catalog.class_order == names
    assert catalog.samples.class_names[:2] == ("truck", "ship")
    assert catalog.class_folders["truck"] == ("batches.meta: truck",)
    (root / "batches.meta").unlink()
    catalog = scanned(root, label_names=tuple("abcdefghij"))
    assert catalog.class_order == tuple("abcdefghij")
    assert catalog.class_folders["a"] == ("--label-names: a",)


def test_no_class_name_leads_out_of_the_tree_or_makes_filenames_equal(tmp_path: Path) -> None:
    names = ("a/b", "a_b", "..", ".", ".x", "/etc", "x\0y", "A", "a", "é")
    catalog = scanned(write_tree(tmp_path / "c", {**python_files(), "batches.meta": meta(names)}))
    assert catalog.samples.class_names[:10] == names
    folders = [filename.split("/")[1:-1] for filename in catalog.samples.filenames[:8]]
    assert folders == [["a_b"], ["a_b"], ["_.."], ["_."], ["_.x"], ["_etc"], ["x_y"], ["A"]]
    assert len(set(catalog.samples.filenames)) == 12


def test_a_missing_test_batch_is_only_a_warning(tmp_path: Path) -> None:
    files = binary_files()
    del files["test_batch.bin"]
    catalog = scanned(write_tree(tmp_path / "c", files))
    assert catalog.warnings == ("test_batch.bin is missing: there is no test split",)
    assert set(catalog.samples.splits) == {"train"}


# What is refused.

ONE = ByteArray((1, IMAGE), bytes(IMAGE))
TWO = ByteArray((2, IMAGE), bytes(2 * IMAGE))
LABELS = [[200], [3], [200], *([number] for number in range(201, 206))]
REFUSED: list[tuple[Mapping[str, bytes | None], str]] = [
    (
        {"data_batch_2": None, "data_batch_5": None, "batches.meta": None},
        (
            f"{PYTHON}: data_batch_2, data_batch_5, batches.meta missing beside "
            "data_batch_1, data_batch_3, data_batch_4, test_batch"
        ),
    ),
    (
        {f"b/{name}": data for name, data in binary_100().items()},
        f"there is more than one CIFAR set: {PYTHON} in the root, CIFAR-100, binary files in b",
    ),
    (
        {"data_batch_3": batch([4, 10], pixels(0, 2))},
        "data_batch_3: has labels that batches.meta does not name: 10 (image 1)",
    ),
    (
        {"test_batch": batch([-1, 0], pixels(0, 2))},
        "test_batch: has labels that batches.meta does not name: -1 (image 0)",
    ),
    *(
        ({"data_batch_2": Python2().dump(content)}, f"data_batch_2: {message}")
        for content, message in [
            ({b"labels": [1]}, "a pickle without data"),
            ({b"data": ONE}, "a pickle without labels"),
            ({b"data": [1], b"labels": [1]}, "its data is not an array, expected (images, 3072)"),
            (
                {b"data": ByteArray((1, 100), bytes(100)), b"labels": [1]},
                "its data is (1, 100), expected (images, 3072)",
            ),
            ({b"data": TWO, b"labels": [1]}, "2 images, but 1 labels"),
            ({b"data": ONE, b"labels": [b"1"]}, "the label of image 0 is not an integer"),
            ({b"data": ONE, b"labels": 1}, "its labels are not a list"),
        ]
    ),
    *(
        ({"batches.meta": meta(names)}, f"batches.meta: unusable class names: {message}")
        for names, message in [
            ([], "there are none"),
            (["a", "b", "a"], "'a' is repeated"),
            (["a", " "], "name 1 is blank"),
        ]
    ),
    (
        {  # a list that holds itself
            "test_batch": array(b"(K\x00M\x00\x0ct", b"\x89", b"")[:-1]
            + b"U\x06labels]q\x01h\x01as."
        },
        "test_batch: the label of image 0 is not an integer",
    ),
]
REFUSED_BINARY = [
    (
        {"data_batch_3.bin": binary_batch(LABELS, pixels(0, 8))},
        (
            "data_batch_3.bin: has labels that batches.meta.txt does not name: "
            "200 (image 0, and others), 201 (image 3), 202 (image 4), 203 (image 5), "
            "204 (image 6) and 1 more"
        ),
    ),
    (
        {
            "data_batch_1.bin": b"",
            "data_batch_4.bin": bytes(3073 + 5),
            "test_batch.bin": binary_batch([[77]], pixels(0)),
        },
        (
            "data_batch_1.bin: 0 bytes are not a multiple of 3,073: 0 images and 0 bytes; "
            "data_batch_4.bin: 3,078 bytes are not a multiple of 3,073: 1 images and 5 bytes; "
            "test_batch.bin: has labels that batches.meta.txt does not name: 77 (image 0)"
        ),
    ),
]


@pytest.mark.parametrize(
    ("files", "changes", "message"),
    [
        *((python_files, *case) for case in REFUSED),
        *((binary_files, *case) for case in REFUSED_BINARY),
    ],
    ids=[message[:60] for _, message in (*REFUSED, *REFUSED_BINARY)],
)
def test_damaged_files_are_named_with_the_reason(
    files: Files, changes: Mapping[str, bytes | None], message: str, tmp_path: Path
) -> None:
    changed = {**files(), **changes}
    root = write_tree(tmp_path / "c", {n: data for n, data in changed.items() if data is not None})
    with pytest.raises(SourceError) as caught:
        scanned(root)
    assert str(caught.value) == message
    assert caught.value.hint


def test_a_hostile_batch_is_named_and_runs_nothing(tmp_path: Path) -> None:
    marker = tmp_path / "was here"
    data = pickle.dumps({"data": Call(os.system, f"touch '{marker}'"), "labels": [1]}, 2)
    with pytest.raises(SourceError, match=r"data_batch_3: .* it names 'posix\.system'") as caught:
        scanned(write_tree(tmp_path / "c", {**python_files(), "data_batch_3": data}))
    assert caught.value.path == "data_batch_3"
    assert not marker.exists()


def test_a_full_disk_ends_the_run(tmp_path: Path) -> None:
    root = write_tree(tmp_path / "c", {**python_files(), "not a folder": b""})
    with pytest.raises(ExecutionError, match="cannot write 6,144 bytes"):
        scanned(root, spool=root / "not a folder" / "spool")


@pytest.mark.fuzz
@given(st.sampled_from(["train.bin", "test.bin", "fine_label_names.txt"]), st.binary(max_size=40))
@examples(100)
def test_any_bytes_in_a_binary_file_give_a_catalog_or_our_error(
    tmp_path_factory: pytest.TempPathFactory, name: str, data: bytes
) -> None:
    root = write_tree(tmp_path_factory.mktemp("c"), {**binary_100(), name: data})
    try:
        assert len(scanned(root).samples) >= 2
    except SourceError as error:
        assert name in str(error) or "fine_label_names.txt" in str(error)
