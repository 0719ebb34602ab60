"""TFRecords, NumPy files and COCO-style JSON as sources."""

from __future__ import annotations

import json
from pathlib import Path

import cifar_files
import google_crc32c
import numpy as np
import pytest
from downloads import photo, zipped
from pictures import write_tree
from tfrecords import example, flowers_on_tpu, tfrecord

import imgrec
from imgrec.codec.tfrecord import frame
from imgrec.errors import ImgrecError, SourceError


def pack(source: Path, data_dir: Path, **options: object) -> dict[str, tuple[str, str, bytes]]:
    """Pack, and return split, class and bytes by file name."""
    imgrec.pack(
        source,
        imgrec.PackOptions(
            name="d", data_dir=data_dir, on_bad="fail", source=imgrec.SourceOptions(**options)
        ),
    )
    dataset = imgrec.open_dataset("d", data_dir=data_dir)
    assert not imgrec.verify("d", data_dir=data_dir, decode=True).faults
    return {
        record.filename: (split, record.class_name if record.label >= 0 else "", record)
        for split in dataset
        for record in dataset[split]
    }


def source_of(root: Path, files: dict[str, bytes], form: str) -> Path:
    """Write files as a folder or as a zip."""
    if form == "folder":
        return write_tree(root, files)
    root.with_suffix(".zip").write_bytes(zipped(files))
    return root.with_suffix(".zip")


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_tfrecords_are_a_source(form, tmp_path, data_dir):
    expected = flowers_on_tpu(tmp_path / "tpu")
    paths = (tmp_path / "tpu").rglob("*.tfrec")
    files = {str(path.relative_to(tmp_path / "tpu")): path.read_bytes() for path in paths}
    found = pack(source_of(tmp_path / "flowers", files, form), data_dir)
    assert {
        record.columns["id"]: (split, label) for split, label, record in found.values()
    } == expected
    for _, _, record in found.values():
        assert record.image == photo(record.columns["id"])


def test_tfrecords_in_several_sizes_are_asked_about(tmp_path, data_dir):
    source = tmp_path / "flowers"
    flowers_on_tpu(source, "tfrecords-jpeg-192x192")
    flowers_on_tpu(source, "tfrecords-jpeg-224x224")
    with pytest.raises(ImgrecError, match="hold the same splits") as error:
        pack(source, data_dir)
    assert "--include 'tfrecords-jpeg-192x192/*'" in error.value.hint
    assert len(pack(source, data_dir, include="tfrecords-jpeg-224x224/*")) == 12


def test_a_packed_dataset_is_a_source(tmp_path, data_dir):
    pets = [f"{name}/{number}.jpg" for name in ("cat", "dog") for number in range(3)]
    write_tree(tmp_path / "pets", {name: photo(name) for name in pets})
    first = imgrec.pack(tmp_path / "pets", imgrec.PackOptions(data_dir=data_dir))
    found = pack(Path(first.info.path), data_dir / "again")
    assert sorted(label for _, label, _ in found.values()) == ["cat"] * 3 + ["dog"] * 3


def test_records_without_one_clear_label_are_asked_about(tmp_path, data_dir):
    records = [example(image=photo(str(n)), label=n % 2, target=n % 3) for n in range(6)]
    tfrecord(tmp_path / "s" / "train.tfrecord", *records)
    with pytest.raises(ImgrecError, match="may each be the label") as error:
        pack(tmp_path / "s", data_dir)
    assert "--label-col" in error.value.hint
    assert len(pack(tmp_path / "s", data_dir, label_col="target")) == 6


@pytest.mark.parametrize("cut", [1, 20, 200])
def test_a_damaged_tfrecord_is_one_sentence(cut, tmp_path, data_dir):
    flowers_on_tpu(tmp_path / "s")
    path = tmp_path / "s" / "tfrecords-jpeg-224x224" / "train" / "00-224x224-4.tfrec"
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ImgrecError, match="truncated record"):
        pack(tmp_path / "s", data_dir)
    assert not data_dir.exists() or not list(data_dir.glob("*/*/*.json"))


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_of_images_is_a_source(save, tmp_path, data_dir):
    (tmp_path / "mnist").mkdir()
    random = np.random.default_rng(0)
    arrays = {
        "x_train": random.integers(0, 256, (12, 28, 28), np.uint8),
        "y_train": np.arange(12) % 3,
        "x_test": random.integers(0, 256, (4, 28, 28), np.uint8),
        "y_test": (np.arange(4) % 3).astype(np.uint8)[:, None],
    }
    save(tmp_path / "mnist" / "mnist.npz", **arrays)
    found = pack(tmp_path / "mnist", data_dir)
    for split in ("train", "test"):
        mine = sorted((name, r) for name, (s, _, r) in found.items() if s == split)
        pixels = {r.numpy()[..., 0].tobytes(): r.class_name for _, r in mine}
        expected = zip(arrays[f"x_{split}"], arrays[f"y_{split}"].ravel(), strict=True)
        assert pixels == {image.tobytes(): str(label) for image, label in expected}


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"x_train": np.zeros((2, 4, 4)), "y_train": np.zeros(2, int)}, "not 8-bit pixels"),
        ({"x_train": np.zeros((2, 4, 4), np.uint8)}, "has no labels"),
        (
            {"x_train": np.zeros((2, 4, 4), np.uint8), "y_train": np.zeros((2, 5), int)},
            "expected one integer",
        ),
        ({"x_train": np.array([{}], object), "y_train": np.zeros(1, int)}, "array of objects"),
        ({"weights": np.zeros(3)}, "has no array of images"),
    ],
)
def test_arrays_that_are_no_images_are_refused(arrays, reason, tmp_path, data_dir):
    (tmp_path / "s").mkdir()
    np.savez(tmp_path / "s" / "a.npz", **arrays)
    with pytest.raises(ImgrecError, match=reason):
        pack(tmp_path / "s", data_dir)


def test_an_array_without_a_name_has_that_of_its_file(tmp_path, data_dir):
    (tmp_path / "k49").mkdir()
    np.savez(
        tmp_path / "k49" / "k49-train-imgs.npz", np.arange(600, dtype=np.uint8).reshape(6, 10, 10)
    )
    np.savez(tmp_path / "k49" / "k49-train-labels.npz", np.arange(6) % 2)
    assert len(pack(tmp_path / "k49", data_dir)) == 6


def test_coco_style_json_is_a_source(tmp_path, data_dir):
    root = tmp_path / "inat"
    categories = [{"id": 0, "name": "Danaus"}, {"id": 1, "name": "Quercus"}]
    for split, count in (("train", 6), ("val", 2), ("test", 3)):
        images = []
        for number in range(count):
            name = f"train_val2019/Plants/{number % 2}/{split}{number}.jpg"
            if split == "test":
                name = f"test2019/{split}{number}.jpg"
            images.append({"id": 1000 * len(split) + number, "file_name": name})
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(photo(name))
        document: dict[str, object] = {"images": images}
        if split != "test":
            document["categories"] = categories
            document["annotations"] = [
                {"id": n, "image_id": image["id"], "category_id": n % 2}
                for n, image in enumerate(images)
            ]
        (root / f"{split}2019.json").write_text(json.dumps(document))
        if split == "test":
            rows = [f"{image['id']},0" for image in images]
            sample = "\n".join(["id,predicted", *rows])
            (root / "kaggle_sample_submission.csv").write_text(sample)
    found = pack(root, data_dir)
    assert {
        name.rpartition("/")[2]: (split, label) for name, (split, label, _) in found.items()
    } == {
        **{f"train{n}.jpg": ("train", categories[n % 2]["name"]) for n in range(6)},
        **{f"val{n}.jpg": ("val", categories[n % 2]["name"]) for n in range(2)},
        **{f"test{n}.jpg": ("test", "") for n in range(3)},
    }
    assert {r.columns["id"] for s, _, r in found.values() if s == "test"} == {
        "4000",
        "4001",
        "4002",
    }


@pytest.mark.parametrize("form", ["2020", "2022"])
def test_the_categories_of_a_herbarium_are_its_classes(form, tmp_path, data_dir):
    names = ["Acer rubrum", "Quercus alba"]
    own, label = ("id", "name") if form == "2020" else ("image_id", "scientificName")
    top = {"train": "nybg/train/images", "test": "nybg/test/images"}
    inner = "images/" if form == "2020" else ""
    if form == "2022":
        top = {"train": "train_images", "test": "test_images"}
    documents: dict[str, object] = {}
    for split, count, start in (("train", 6, 100), ("test", 4, 100)):
        images = []
        for number in range(start, start + count):
            within = f"00{number % 2}/{number % 10:02d}/{number}.jpg"
            path = tmp_path / "s" / top[split] / within
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(photo(f"{split}{within}"))
            images.append({own: f"{split}{number}", "file_name": inner + within})
        documents[split] = {"images": images}
        if split == "train":
            documents[split] = {
                "images": images,
                "annotations": [
                    {"image_id": image[own], "category_id": n % 2} for n, image in enumerate(images)
                ],
                "categories": [
                    {"id" if form == "2020" else "category_id": n, label: name}
                    for n, name in enumerate(names)
                ],
            }
        elif form == "2022":
            documents[split] = images
    for split, document in documents.items():
        path = f"nybg/{split}/metadata.json" if form == "2020" else f"{split}_metadata.json"
        (tmp_path / "s" / path).write_text(json.dumps(document))
    rows = [f"test{number},0" for number in range(100, 104)]
    (tmp_path / "s" / "sample_submission.csv").write_text("\n".join(["Id,Predicted", *rows]))
    found = pack(tmp_path / "s", data_dir)
    assert {label for split, label, _ in found.values() if split == "train"} == set(names)
    assert [split for split, *_ in found.values()].count("train") == 6
    test = {name: r for name, (split, _, r) in found.items() if split == "test"}
    assert sorted(r.columns["id"] for r in test.values()) == [f"test{n}" for n in range(100, 104)]
    assert all("test" in name for name in test)


def pixels(seed: int, count: int) -> str:
    return " ".join(map(str, np.random.default_rng(seed).integers(0, 256, count)))


def faces() -> dict[str, bytes]:
    """The files of FER2013: a table of all faces, and those of train and test once more."""
    usages = ["Training"] * 6 + ["PublicTest"] * 2 + ["PrivateTest"] * 2
    rows = [(n % 2, usage, pixels(n, 48 * 48)) for n, usage in enumerate(usages)]
    train = [(label, face) for label, usage, face in rows if usage == "Training"]
    test = [face for _, usage, face in rows if usage != "Training"]
    whole = [f"{label}, {usage}, {face}" for label, usage, face in rows]
    again = [f"{label},{face},{usage}" for label, usage, face in rows]
    return {
        "icml_face_data.csv": "\n".join(["emotion, Usage, pixels", *whole]).encode(),
        "train.csv": "\n".join(["emotion,pixels", *(f"{a},{b}" for a, b in train)]).encode(),
        "test.csv": "\n".join(["pixels", *test]).encode(),
        "fer2013.csv.zip": zipped(
            {"fer2013.csv": "\n".join(["emotion,pixels,Usage", *again]).encode()}
        ),
    }


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_the_complete_table_of_faces_is_read_and_the_others_are_named(
    count, form, tmp_path, data_dir
):
    files = dict(list(faces().items())[:count])
    source = source_of(tmp_path / "fer", files, form)
    found = pack(source, data_dir)
    splits = [split for split, _, _ in found.values()]
    assert {split: splits.count(split) for split in splits} == {"train": 6, "val": 2, "test": 2}
    assert {label for _, label, _ in found.values()} == {"0", "1"}
    warnings = imgrec.plan(source).warnings
    assert any("are not read" in warning for warning in warnings) == (count > 1)


@pytest.mark.parametrize("form", ["folder", "zip"])
def test_digits_in_tables_of_pixels_are_read_beside_their_sample(form, tmp_path, data_dir):
    columns = [f"pixel{number}" for number in range(784)]
    train = [f"{n % 2},{pixels(n, 784).replace(' ', ',')}" for n in range(8)]
    test = [pixels(100 + n, 784).replace(" ", ",") for n in range(4)]
    files = {
        "train.csv": "\n".join([",".join(["label", *columns]), *train]).encode(),
        "test.csv": "\n".join([",".join(columns), *test]).encode(),
        "sample_submission.csv": b"ImageId,Label\n1,0\n2,0\n3,0\n4,0\n",
    }
    found = pack(source_of(tmp_path / "digits", files, form), data_dir)
    assert sorted((split, label) for split, label, _ in found.values()) == [
        *[("test", "")] * 4,
        *[("train", "0")] * 4,
        *[("train", "1")] * 4,
    ]
    assert {r.columns["id"] for split, _, r in found.values() if split == "test"} == set("1234")


def test_tfrecords_beside_images_are_read_if_that_is_said(tmp_path, data_dir):
    source = tmp_path / "s"
    expected = flowers_on_tpu(source)
    write_tree(source, {f"{name}/1.jpg": photo(name) for name in ("cat", "dog")})
    found = pack(source, data_dir, kind="tfrecord")
    assert {r.columns["id"] for _, _, r in found.values()} == expected.keys()
    assert len(pack(source, data_dir / "other")) == 2
    with pytest.raises(ImgrecError, match="no files of the kind numpy"):
        pack(source, data_dir, kind="numpy")


def test_a_file_of_records_is_a_source_that_verify_knows(tmp_path, data_dir):
    flowers_on_tpu(tmp_path)
    source = tmp_path / "tfrecords-jpeg-224x224" / "train" / "00-224x224-4.tfrec"
    assert len(pack(source, data_dir)) == 4
    assert not imgrec.verify("d", data_dir=data_dir, source=source).faults


@pytest.mark.parametrize("form", ["file", "folder", "zip"])
def test_arrays_are_a_source_that_verify_knows(form, tmp_path, data_dir):
    random = np.random.default_rng(0)
    (tmp_path / "digits").mkdir()
    source = tmp_path / "digits" / "digits.npz"
    np.savez(source, x=random.integers(0, 256, (6, 9, 9), np.uint8), y=np.arange(6) % 2)
    if form == "folder":
        source = source.parent
    elif form == "zip":
        source = tmp_path / "digits.zip"
        source.write_bytes(zipped({"digits.npz": (tmp_path / "digits/digits.npz").read_bytes()}))
    assert len(pack(source, data_dir)) == 6
    assert not imgrec.verify("d", data_dir=data_dir, source=source).faults


def npy(shape: object, data: bytes, kind: str = "|u1") -> bytes:
    """An array of any shape, whatever its data."""
    text = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\x01\0" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize("form", ["npy", "npz"])
@pytest.mark.parametrize(
    "shape", [(10**12, 28, 28), (1, 1 << 20, 1 << 20), (5, 28, 28), f"({'9' * 60}, 28, 28)"]
)
def test_an_array_that_promises_more_than_it_holds_is_one_sentence(shape, form, tmp_path, cli):
    arrays = {"x_train.npy": npy(shape, bytes(100)), "y_train.npy": npy((5,), bytes(40), "<i8")}
    write_tree(tmp_path / "s", arrays if form == "npy" else {"a.npz": zipped(arrays)})
    done = cli("pack", tmp_path / "s")
    assert done.returncode == 3
    assert "x_train is cut short: its shape" in done.stderr


def test_an_array_with_half_a_header_is_cut_short(tmp_path, data_dir):
    (tmp_path / "x_train.npy").write_bytes(npy((5, 28, 28), b"")[:40])
    with pytest.raises(SourceError, match="x_train is not a NumPy array: EOF"):
        pack(tmp_path / "x_train.npy", data_dir)


@pytest.mark.parametrize("length", [1 << 60, (1 << 31) - 5, 100])
def test_a_record_that_promises_more_than_it_holds_is_one_sentence(length, tmp_path, cli):
    head = frame(bytes(length))[0] if length < 1000 else length.to_bytes(8, "little")
    if len(head) == 8:
        crc = google_crc32c.value(head)
        head += (((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF).to_bytes(4, "little")
    (tmp_path / "train.tfrecord").write_bytes(head + b"abc")
    done = cli("pack", tmp_path / "train.tfrecord")
    assert done.returncode == 3
    assert "train.tfrecord: truncated record at byte 0" in done.stderr
    assert "download the file again" in done.stderr


def test_a_path_out_of_the_source_in_coco_style_json_names_no_image(tmp_path):
    images = [{"id": n, "file_name": f"{n}.jpg" if n else "../../etc/passwd"} for n in range(5)]
    write_tree(tmp_path / "s", {f"images/{n}.jpg": photo(str(n)) for n in range(1, 5)})
    document = {
        "images": images,
        "annotations": [{"image_id": n, "category_id": n % 2} for n in range(5)],
        "categories": [{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}],
    }
    (tmp_path / "s" / "labels.json").write_text(json.dumps(document))
    plan = imgrec.plan(tmp_path / "s")
    assert [file.filename for file in plan.bad] == ["../../etc/passwd"]
    assert plan.planned == 4


UNREAD = {"manifest": "--manifest", "test_images": "--test-images", "image_template": "--image-"}


@pytest.mark.parametrize("option", UNREAD)
@pytest.mark.parametrize("kind", ["cifar", "idx", "pixels", "tfrecord", "numpy"])
def test_options_that_images_in_other_files_do_not_take_are_refused(option, kind, tmp_path):
    files = {
        "cifar": cifar_files.binary_files(),
        "idx": {
            "train-images-idx3-ubyte": bytes([0, 0, 8, 3, *[0, 0, 0, 1] * 3, 7]),
            "train-labels-idx1-ubyte": bytes([0, 0, 8, 1, 0, 0, 0, 1, 5]),
        },
        "pixels": {"train.csv": faces()["icml_face_data.csv"]},
        "numpy": {
            "x_train.npy": npy((2, 4, 4), bytes(32)),
            "y_train.npy": npy((2,), bytes(16), "<i8"),
        },
        "tfrecord": {},
    }
    source = write_tree(tmp_path / "s", files[kind])
    if kind == "tfrecord":
        tfrecord(source / "train.tfrecord", example(image=photo("1"), label=1))
    given = "{id}.jpg" if option == "image_template" else "train.csv"
    for asked in ("auto", kind):
        options = imgrec.SourceOptions(kind=asked, **{option: given})
        with pytest.raises(ImgrecError, match=UNREAD[option]):
            imgrec.plan(source, imgrec.PackOptions(name="d", source=options))
