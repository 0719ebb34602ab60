"""Several labels an image, further columns, and images without a label: from plan to TFDS."""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from catalogs import CLASSES, fractions, labelled, split_of, with_columns
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from pictures import jpeg, write_tree

import imgrec
from imgrec.codec.example import Feature, decode
from imgrec.codec.tfrecord import read_records
from imgrec.engine.local import LocalEngine
from imgrec.model import Column
from imgrec.notes import SameImage
from imgrec.options import ColumnKind, ColumnOption, PackOptions, SourceOptions
from imgrec.outcome import Packed
from imgrec.planning.build import make_plan
from imgrec.planning.classes import rarest

LabelSets = list[set[str]]
label_sets = st.lists(st.sets(st.sampled_from(CLASSES)), min_size=1, max_size=50)


# The plan.


@given(label_sets, fractions)
def test_each_image_gets_the_numbers_of_its_labels_in_order(
    sets: LabelSets, fraction: float
) -> None:
    plan = make_plan(labelled(sets), PackOptions(val_split=fraction, shard_size=1000))
    found = {
        name: labels
        for task in plan.tasks
        for name, labels in zip(task.samples.filenames, task.samples.label_sets, strict=True)
    }
    assert plan.classes == ("2", "10", "ash", "birch")
    assert found == {
        f"all/{n:04d}.jpg": tuple(sorted(plan.classes.index(name) for name in labels))
        for n, labels in enumerate(sets)
    }


@given(label_sets, fractions)
def test_images_are_divided_by_the_rarest_of_their_labels(sets: LabelSets, fraction: float) -> None:
    splits = split_of(make_plan(labelled(sets), PackOptions(val_split=fraction)))
    # With the numbers that labels have in the plan, of two that are as rare the lower counts.
    order = ("2", "10", "ash", "birch")
    strata = rarest([tuple(sorted(order.index(name) for name in labels)) for labels in sets])
    expected = {
        label: min(max(round(count * fraction), 1), count - 1)
        for label, count in Counter(strata).items()
    }
    in_val = Counter(label for n, label in enumerate(strata) if splits[f"all/{n:04d}.jpg"] == "val")
    # To bring a label to val or back to train, one image more may be moved.
    assert abs(in_val.total() - sum(expected.values())) <= len(set().union(*sets))
    if all(len(labels) < 2 for labels in sets):
        assert {label: in_val[label] for label in expected} == expected


def test_a_rare_label_beside_common_ones_is_in_val_and_in_train() -> None:
    sets: LabelSets = [{"ash", "birch"} for _ in range(200)] + [{"ash", "10"}, {"birch", "10"}]
    made = labelled(sets)
    splits = split_of(make_plan(made, PackOptions(val_split=0.05)))
    assert {splits["all/0200.jpg"], splits["all/0201.jpg"]} == {"train", "val"}


def test_one_image_under_two_sets_of_labels_is_a_conflict() -> None:
    sets: LabelSets = [{"ash", "10"}, {"10", "ash"}, {"ash"}, {"ash", "10"}, {"ash"}, {"ash"}]
    plan = make_plan(labelled(sets, [1, 1, 2, 2, 3, 3]), PackOptions())
    assert len(plan.duplicates) == 3
    assert plan.conflicts == (SameImage(("all/0002.jpg", "all/0003.jpg")),)


@pytest.mark.parametrize(
    ("labels", "warnings"),
    [(set(), ()), ({"ash", "2"}, ("test has no images of 10, birch",))],
)
def test_a_split_misses_the_labels_that_none_of_its_images_has(
    labels: set[str], warnings: tuple[str, ...]
) -> None:
    made = with_columns(labelled([set(CLASSES), labels]), splits=("train", "test"))
    assert make_plan(made, PackOptions()).warnings == warnings


@pytest.mark.parametrize(
    "changed",
    [
        {"class_sets": (("ash",), ("birch",))},
        {"columns": (Column("weight", ColumnKind.FLOAT, (1.0, 3.0)),)},
        {"columns": (Column("height", ColumnKind.FLOAT, (1.0, 2.0)),)},
        {"columns": (Column("weight", ColumnKind.INT, (1, 2)),)},
    ],
    ids=["labels", "value", "name", "kind"],
)
def test_the_fingerprint_changes_with_labels_and_columns(changed: dict[str, object]) -> None:
    made = labelled([{"ash"}, {"ash", "birch"}])
    column = Column("weight", ColumnKind.FLOAT, (1.0, 2.0))
    made = with_columns(made, columns=(column,))
    other = with_columns(made, **changed)
    plans = [make_plan(each, PackOptions()) for each in (made, other)]
    assert plans[0].fingerprint != plans[1].fingerprint


# Packed, from a manifest of several labels and further columns.

ROWS = [
    ("a.jpg", "dog cat", "train", -(1 << 63), 0.5, "naïve ✿"),
    ("b.jpg", "dog", "train", 7, -1.5, ""),
    ("c.jpg", "", "train", 0, 1e30, "x"),
    ("d.jpg", "bird cat dog", "test", 1 << 40, 0.1, "a b"),
    ("e.jpg", "cat", "test", -1, 3.0, "y"),
]
NAMES = ["bird", "cat", "dog"]


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(1) as running:
        yield running


def write_manifest(folder: Path) -> Path:
    write_tree(folder, {row[0]: jpeg(seed) for seed, row in enumerate(ROWS)})
    lines = [",".join(map(str, row)) for row in ROWS]
    path = folder / "animals.csv"
    path.write_text("\n".join(["file,tags,split,age,weight,note", *lines]) + "\n")
    return path


COLUMNS = tuple(map(ColumnOption, ("age", "weight", "note")))


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory, engine: LocalEngine) -> Packed:
    folder = tmp_path_factory.mktemp("animals")
    options = PackOptions(
        source=SourceOptions(label_sep=" ", column=COLUMNS),
        name="animals",
        data_dir=str(folder.parent / "datasets"),
    )
    return imgrec.pack(write_manifest(folder), options, engine=engine)


def decoded(outcome: Packed) -> dict[str, dict[str, Feature]]:
    """Return all records of a dataset, by file, without their images."""
    found = {}
    for shard in sorted(Path(outcome.info.path).glob("*.tfrecord-?????-of-?????")):
        with shard.open("rb") as file:
            for _, record in read_records(file, path=str(shard)):
                value = dict(decode(record))
                del value["image"]
                (filename,) = value.pop("filename")
                assert isinstance(filename, bytes)
                found[filename.decode()] = value
    return found


def numbers(tags: str) -> tuple[int, ...]:
    return tuple(sorted(NAMES.index(tag) for tag in tags.split()))


def test_records_have_labels_and_columns(packed: Packed) -> None:
    assert decoded(packed) == {
        name: {
            "labels": numbers(tags),
            "shape": (16, 24, 3),
            "age": (age,),
            "weight": (float(np.float32(weight)),),
            "note": (note.encode(),),
        }
        for name, tags, _, age, weight, note in ROWS
    }


def test_each_label_of_an_image_is_counted(packed: Packed) -> None:
    assert packed.info.classes == tuple(NAMES)
    assert [(split.name, split.examples, split.class_counts) for split in packed.info.splits] == [
        ("train", 3, (0, 1, 2)),
        ("test", 2, (1, 2, 1)),
    ]


# Through TFDS.


@pytest.fixture(scope="module")
def tfds() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow_datasets

    return tensorflow_datasets


@pytest.fixture(scope="module")
def builder(tfds: ModuleType, packed: Packed) -> Any:
    return tfds.builder_from_directory(packed.info.path)


@pytest.fixture(scope="module")
def read(builder: Any) -> dict[str, Any]:
    dataset = builder.as_dataset(split="all")
    return {record["filename"].decode(): record for record in dataset.as_numpy_iterator()}


def test_tfds_returns_all_labels_and_columns(builder: Any, read: dict[str, Any]) -> None:
    for name, tags, _, age, weight, note in ROWS:
        record = read[name]
        assert tuple(record["labels"].tolist()) == numbers(tags)
        assert (record["age"].dtype, record["age"].item()) == (np.int64, age)
        assert (record["weight"].dtype, record["weight"].item()) == (np.float32, np.float32(weight))
        assert record["note"] == note.encode()
    pairs = builder.as_dataset(split="test", as_supervised=True).as_numpy_iterator()
    assert sorted((image.shape, tuple(labels.tolist())) for image, labels in pairs) == [
        ((16, 24, 3), (0, 1, 2)),
        ((16, 24, 3), (1,)),
    ]


def test_features_are_written_as_tfds_writes_them(
    tfds: ModuleType, packed: Packed, tmp_path: Path
) -> None:
    theirs = tfds.features.FeaturesDict(
        {
            "filename": tfds.features.Text(),
            "image": tfds.features.Image(shape=(16, 24, 3)),
            "labels": tfds.features.Sequence(tfds.features.ClassLabel(names=NAMES)),
            "shape": tfds.features.Tensor(shape=(3,), dtype=np.int64),
            "age": np.int64,
            "weight": np.float32,
            "note": tfds.features.Text(),
        }
    )
    theirs.save_config(tmp_path)
    for name in ("features.json", "labels.labels.txt"):
        assert (tmp_path / name).is_file()
    ours, written = (Path(root) / "features.json" for root in (packed.info.path, tmp_path))
    assert json.loads(ours.read_bytes()) == json.loads(written.read_bytes())
    ours, written = (Path(root) / "labels.labels.txt" for root in (packed.info.path, tmp_path))
    assert ours.read_text().split() == written.read_text().split()


# Images without a label, and bad images.


def table_of(folder: Path, header: str, rows: Sequence[str]) -> Path:
    """Write a table of images 0.jpg, 1.jpg and so on."""
    write_tree(folder, {f"{n}.jpg": jpeg(n) for n in range(len(rows))})
    lines = [f"{n}.jpg,{row}" for n, row in enumerate(rows)]
    (folder / "t.csv").write_text("\n".join([f"file,{header}", *lines]))
    return folder / "t.csv"


def test_images_without_label_have_label_minus_1_and_are_in_no_class(
    tfds: ModuleType, tmp_path: Path, engine: LocalEngine
) -> None:
    rows = ["a,train,4", "b,train,3", ",test,2", ",test,1"]
    source = SourceOptions(column=COLUMNS[:1])
    options = PackOptions(source=source, data_dir=str(tmp_path / "out"))
    outcome = imgrec.pack(table_of(tmp_path, "label,split,age", rows), options, engine=engine)
    builder = tfds.builder_from_directory(outcome.info.path)
    found = {
        record["filename"].decode(): (int(record["label"]), int(record["age"]))
        for record in builder.as_dataset(split="all").as_numpy_iterator()
    }
    assert found == {"0.jpg": (0, 4), "1.jpg": (1, 3), "2.jpg": (-1, 2), "3.jpg": (-1, 1)}
    assert builder.info.features["label"].names == ["a", "b"]
    assert [split.class_counts for split in outcome.info.splits] == [(1, 1), (0, 0)]
    assert outcome.report.warnings == ()


@pytest.mark.parametrize("shards", [1, 9])
def test_labels_and_columns_stay_with_their_images_when_one_is_bad(
    tmp_path: Path, engine: LocalEngine, shards: int
) -> None:
    path = table_of(tmp_path, "tags,age", [f"{'a' if n % 2 else 'a b'},{n}" for n in range(9)])
    (tmp_path / "4.jpg").write_bytes(jpeg(4)[:300])
    source = SourceOptions(label_sep=" ", column=COLUMNS[:1])
    settings = {"source": source, "shards": shards, "max_bad": 0.5}
    options = PackOptions(data_dir=str(tmp_path / "out"), **settings)  # type: ignore[arg-type]
    outcome = imgrec.pack(path, options, engine=engine)
    expected = {f"{n}.jpg": ((n,), (0,) if n % 2 else (0, 1)) for n in range(9) if n != 4}
    records = decoded(outcome)
    assert {name: (each["age"], each["labels"]) for name, each in records.items()} == expected
    table = pq.read_table(Path(outcome.info.path) / "samples.parquet").to_pylist()
    assert {row["filename"]: ((row["age"],), tuple(row["labels"])) for row in table} == expected


@pytest.mark.parametrize(
    ("cells", "warnings"),
    [
        (["sun|sea", "sun", "sea", "sand"], ()),
        (["sun|sea", "sun", "sea", "sea|sun"], ("sea|sun", "|")),
        (["sun sea", "sun", "sea sand", "sun sand sea"], ("sea sand", " ")),
        (["red apple", "green apple", "red pear", "green pear"], ()),
        (["golden retriever", "pug", "labrador retriever"], ()),
    ],
)
def test_labels_that_look_like_several_are_a_warning(
    tmp_path: Path, cells: list[str], warnings: tuple[str, str]
) -> None:
    rows = [f"{number}.jpg,{cell}" for number, cell in enumerate(cells)]
    (tmp_path / "a.csv").write_text("\n".join(["file,label", *rows]))
    write_tree(tmp_path, {f"{number}.jpg": jpeg(number) for number in range(len(cells))})
    expected = [
        'labels such as "{}" look like several: pass --label-sep {!r}'.format(*pair)
        for pair in filter(None, [warnings])
    ]
    plan = imgrec.plan(tmp_path / "a.csv", PackOptions(workers=1))
    assert [text for text in plan.warnings if "label" in text] == expected
    other = PackOptions(source=SourceOptions(label_sep="#"), workers=1)
    assert "--label-sep '#' is in no label" in imgrec.plan(tmp_path / "a.csv", other).warnings


def test_an_empty_separator_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("file,label\n1.jpg,sun\n")
    done = cli("plan", "a.csv", "--label-sep", "")
    assert done.returncode == 2
    assert done.stderr.startswith("imgrec: --label-sep is empty\n")
