"""Labels from one version to the next: classes keep their numbers, whatever comes and goes."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack, pack_typed
from pictures import class_tree, jpeg, write_tree
from stores import Store

import imgrec
from imgrec.errors import PlanError, SourceError, UsageError
from imgrec.options import PackOptions, SourceOptions
from imgrec.planning.classes import FoundClasses, number_classes

OLD = ("b", "d", "f")
NEW = ("a", "b", "c", "f")
"""Classes of the next version: d is gone, a and c are new."""
KEPT = ("b", "d", "f", "a", "c")
WARNING = "no images of d, which {} has: these classes are empty and keep their labels"


def numbered(names: Sequence[str], earlier: Sequence[str], **options: object) -> tuple[str, ...]:
    order = options.pop("order", None)
    found = FoundClasses(
        folders={name: (name,) for name in names},
        images=dict.fromkeys(names, 1),
        order=order,  # type: ignore[arg-type]
        earlier=tuple(earlier),
    )
    numbering = number_classes(found, PackOptions(split_from="x:1.0.0", **options))  # type: ignore[arg-type]
    for name in names:
        assert numbering.classes[numbering.label_of[name]].casefold() == name.casefold()
    return numbering.classes


class_names = st.lists(st.text("abcdefgh", min_size=1, max_size=2), unique=True)


@given(class_names, class_names)
def test_every_earlier_class_keeps_its_label_and_new_ones_follow_in_order(
    earlier: list[str], names: list[str]
) -> None:
    classes = numbered(names, earlier)
    assert classes[: len(earlier)] == tuple(earlier)
    assert classes[len(earlier) :] == tuple(sorted(set(names) - set(earlier)))


def test_new_classes_are_in_the_order_that_is_usual_for_the_source() -> None:
    assert numbered(("10", "2", "x"), ("x",)) == ("x", "2", "10")
    assert numbered(("10", "2", "x"), ("x",), class_order="lexical") == ("x", "10", "2")
    assert numbered(("c", "a", "x"), ("x",), order=("c", "x", "a")) == ("x", "c", "a")


def test_classes_are_appended_to_a_file_of_them_on_request() -> None:
    assert numbered(("a", "c"), (), classes=("b", "a"), classes_append=True) == ("b", "a", "c")
    with pytest.raises(PlanError, match=r"(?m)does not list: c$") as caught:
        numbered(("a", "c"), (), classes=("b", "a"))
    assert "--classes-append" in caught.value.hint


def test_appending_needs_a_file() -> None:
    with pytest.raises(UsageError, match="classes_append needs classes"):
        PackOptions(classes_append=True)


def test_a_classes_file_must_agree_with_the_earlier_dataset() -> None:
    assert numbered(NEW, OLD, classes=(*OLD, "c", "a")) == (*OLD, "c", "a")
    assert numbered(NEW, OLD, classes=OLD, classes_append=True) == KEPT
    with pytest.raises(
        PlanError, match=r"(?m)^--classes has f as class 1, which is d in x:1\.0\.0$"
    ):
        numbered(NEW, OLD, classes=("b", "f", "a", "c"))
    with pytest.raises(PlanError, match=r"(?m)^--classes has no class 2, which is f in x:1\.0\.0$"):
        numbered(("b",), OLD, classes=("b", "d"))


def test_the_spelling_of_an_earlier_class_stays_if_spellings_are_merged() -> None:
    folded = {"source": SourceOptions(fold_case=True)}
    assert numbered(("cat", "dog"), ("Cat",), **folded) == ("Cat", "dog")
    with pytest.raises(SourceError, match=r"'Cat' \(0 images\) and 'cat' \(1 image\)"):
        numbered(("cat", "dog"), ("Cat",))
    kept = {"source": SourceOptions(keep_case=True)}
    assert numbered(("cat", "dog"), ("Cat",), **kept) == ("Cat", "cat", "dog")


# Of every kind of source


def folders(root: Path, names: Sequence[str]) -> tuple[Path, SourceOptions]:
    files = {f"{name}/{n}.jpg": jpeg(10 * ord(name) + n) for name in names for n in range(4)}
    return write_tree(root, files), SourceOptions()


def rows(root: Path, names: Sequence[str]) -> tuple[Path, SourceOptions]:
    source, _ = folders(root, names)
    lines = [f"{name}/{n}.jpg,{name}" for name in names for n in range(4)]
    (source / "t.csv").write_text("\n".join(["file,label", *lines]))
    return source / "t.csv", SourceOptions()


def several(root: Path, names: Sequence[str]) -> tuple[Path, SourceOptions]:
    source, _ = folders(root, names)
    lines = [f"{name}/{n}.jpg,{name} {names[0]}" for name in names for n in range(4)]
    (source / "t.csv").write_text("\n".join(["file,labels", *lines]))
    return source / "t.csv", SourceOptions(label_sep=" ")


def digits(root: Path, names: Sequence[str]) -> tuple[Path, SourceOptions]:
    count = 4 * len(names)
    pixels = b"".join(bytes([ord(name), n]) * 32 for name in names for n in range(4))
    labels = bytes(n // 4 for n in range(count))
    files = {
        "train-images-idx3-ubyte": struct.pack(">IIII", 0x803, count, 8, 8) + pixels,
        "train-labels-idx1-ubyte": struct.pack(">II", 0x801, count) + labels,
    }
    return write_tree(root, files), SourceOptions(label_names=tuple(names))


def classes_of(folder: Path) -> dict[str, str]:
    """Return the classes of each record, by its name, as the table has their labels."""
    classes = imgrec.info(folder).classes
    table = pq.read_table(folder / "samples.parquet").to_pylist()
    return {
        row["filename"]: " ".join(classes[at] for at in row.get("labels") or [row["label"]])
        for row in table
    }


@pytest.mark.parametrize("make", [folders, rows, several, digits])
def test_the_next_version_keeps_the_labels_of_any_kind_of_source(
    tmp_path: Path, make: object
) -> None:
    data_dir = tmp_path / "data"
    old, options = make(tmp_path / "old", OLD)  # type: ignore[operator]
    pack(old, data_dir, name="x", source=options, val_split=0.25)
    new, options = make(tmp_path / "new", NEW)  # type: ignore[operator]
    folder = pack(
        new, data_dir, name="x", version="1.1.0", source=options, val_split=0.25, split_from="x"
    )
    plain = pack(new, tmp_path / "plain", name="x", source=options, val_split=0.25)
    assert imgrec.info(folder).classes == KEPT
    labelled = {name: set(found.split()) for name, found in classes_of(folder).items()}
    assert labelled == {name: set(found.split()) for name, found in classes_of(plain).items()}
    assert faults_of(folder) == []
    report = json.loads((folder / "report.json").read_text())
    assert WARNING.format("x") in report["warnings"]
    assert not any("has no images of d" in warning for warning in report["warnings"])


@pytest.fixture(scope="module")
def grown(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset with a class that has no images any more."""
    root = tmp_path_factory.mktemp("grown")
    pack(folders(root / "old", OLD)[0], root / "data", name="x", val_split=0.25)
    options = {"version": "1.1.0", "split_from": "x:1.0.0", "val_split": 0.25}
    return pack(folders(root / "new", NEW)[0], root / "data", name="x", **options)


def test_an_empty_class_is_in_every_file_that_names_classes(grown: Path) -> None:
    assert (grown / "label.labels.txt").read_text().split() == list(KEPT)
    features = json.loads((grown / "features.json").read_text())
    label = features["featuresDict"]["features"]["label"]
    assert label["classLabel"]["numClasses"] == "5"
    report = json.loads((grown / "report.json").read_text())
    assert report["splits"]["train"]["class_counts"] == [3, 0, 3, 3, 3]
    assert report["splits"]["val"]["class_counts"] == [1, 0, 1, 1, 1]


def test_an_empty_class_is_read_checked_shown_and_kept_by_the_next_version(
    grown: Path, tmp_path: Path
) -> None:
    train = imgrec.open_dataset(grown)["train"]
    assert (train.class_counts(), len(train.of_class("d"))) == ((3, 0, 3, 3, 3), 0)
    assert imgrec.class_weights(grown) == {0: 1.0, 1: 0.0, 2: 1.0, 3: 1.0, 4: 1.0}
    data = imgrec.load(grown, "train", image_size=8, batch_size=4, balance=True)
    assert {int(label) for _, labels in data for label in labels.numpy()} == {0, 2, 3, 4}
    assert faults_of(grown, decode=True) == []
    imgrec.report(grown, path=tmp_path / "page.html", engine=ENGINE)
    imgrec.preview(grown, path=tmp_path / "sheet.png", engine=ENGINE)
    folder = pack(folders(tmp_path / "x", ("b", "d", "e"))[0], tmp_path, split_from=str(grown))
    assert imgrec.info(folder).classes == (*KEPT, "e")


def test_tfds_loads_a_dataset_with_an_empty_class(grown: Path) -> None:
    import tensorflow_datasets as tfds

    data, info = tfds.load(
        "x:1.1.0", split="train+val", data_dir=grown.parent.parent, with_info=True
    )
    assert info.features["label"].names == list(KEPT)
    assert {int(row["label"]) for row in data} == {0, 2, 3, 4}


def test_a_dataset_with_an_empty_class_is_unpacked_and_packed_again_to_the_byte(
    grown: Path, tmp_path: Path
) -> None:
    command = imgrec.unpack(grown, tmp_path / "tree", engine=ENGINE).pack_again
    assert "--classes" in command
    again = pack_typed(command, tmp_path / "again")
    assert again.info.classes == imgrec.info(grown).classes
    shards = sorted(grown.glob("*.tfrecord-*"))
    assert {path.name: path.read_bytes() for path in shards} == {
        path.name: path.read_bytes() for path in Path(again.info.path).glob("*.tfrecord-*")
    }


def test_the_command_appends_classes_to_a_file(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "x", {"a": 2, "b": 2, "c": 2})
    (tmp_path / "names").write_text("c\nz\n")
    done = cli("pack", "x", "--classes", "names", "--classes-append", "--json")
    assert json.loads(done.stdout)["classes"] == ["c", "z", "a", "b"]


def test_labels_are_kept_from_a_dataset_that_tfds_wrote(tmp_path: Path) -> None:
    import tensorflow_datasets as tfds

    class Blossoms(tfds.core.GeneratorBasedBuilder):  # type: ignore[misc]
        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> object:
            label = tfds.features.ClassLabel(names=["tulip", "rose"])
            features = {"image": tfds.features.Image(), "label": label}
            return tfds.core.DatasetInfo(
                builder=self, features=tfds.features.FeaturesDict(features)
            )

        def _split_generators(self, _: object) -> dict[str, object]:
            return {"train": self._examples(0, 8), "validation": self._examples(8, 12)}

        def _generate_examples(self) -> object: ...

        def _examples(self, start: int, end: int) -> Iterator[tuple[int, object]]:
            for seed in range(start, end):
                yield seed, {"image": io.BytesIO(jpeg(seed)), "label": seed % 2}

    Blossoms(data_dir=str(tmp_path / "data")).download_and_prepare()
    files = {f"{('tulip', 'rose')[n % 2]}/{n}.jpg": jpeg(n) for n in range(12)}
    source = write_tree(tmp_path / "x", {**files, "aster/1.jpg": jpeg(50), "aster/2.jpg": jpeg(51)})
    folder = pack(source, tmp_path / "data", split_from="blossoms", val_split=0.5)
    assert imgrec.info(folder).classes == ("tulip", "rose", "aster")
    splits = {
        row["filename"]: row["split"]
        for row in pq.read_table(folder / "samples.parquet").to_pylist()
    }
    old = {name: splits[name] for name in files}
    assert sorted(name for name, split in old.items() if split == "val") == sorted(list(files)[8:])


@pytest.mark.stores
def test_labels_are_kept_from_a_dataset_on_a_store(store: Store, tmp_path: Path) -> None:
    old, _ = folders(tmp_path / "old", OLD)
    new, _ = folders(tmp_path / "new", NEW)
    options = PackOptions(name="x", data_dir=store / "data")
    imgrec.pack(old, options, engine=ENGINE)
    folder = pack(new, tmp_path / "data", split_from=store / "data/x/1.0.0")
    assert imgrec.info(folder).classes == KEPT
