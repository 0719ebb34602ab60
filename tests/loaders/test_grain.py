"""`imgrec.grain_source` in the real Grain."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from inline import pack
from pictures import class_tree, jpeg, write_tree

import imgrec
from imgrec.api import open_dataset
from imgrec.errors import DatasetError, OutOfRange, UnknownName, UsageError
from imgrec.loaders import grain_source, load
from imgrec.options import SourceOptions

if HAS_GRAIN := find_spec("grain") is not None:
    import grain.python as grain

pytestmark = pytest.mark.skipif(
    not HAS_GRAIN, reason="Grain is missing: pip install 'imgrec[grain]'"
)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grain")
    pack(class_tree(folder / "trees", {"ash": 9, "birch": 7}), folder / "data")
    return folder / "data"


def loader(root: Path, workers: int) -> grain.DataLoader:
    source = grain_source(root, image_size=8)
    return grain.DataLoader(
        data_source=source,
        sampler=grain.IndexSampler(
            len(source), num_epochs=1, shard_options=grain.NoSharding(), shuffle=True, seed=1
        ),
        worker_count=workers,
        operations=[grain.Batch(batch_size=4)],
    )


def test_an_element_is_an_image_channels_last_and_its_label(root: Path) -> None:
    source = grain_source(root)
    assert isinstance(source, grain.RandomAccessDataSource)
    assert source.classes == ("ash", "birch")
    element, record = source[3], source.records[3]
    assert sorted(element) == ["image", "label"]
    assert np.array_equal(element["image"], np.asarray(record.pil()))
    assert element["label"] == record.label
    first, second = source._getitems([3, 0])  # as Grain calls it
    assert np.array_equal(first["image"], element["image"])
    assert second["label"] == source[0]["label"]
    for channels in (1, 3, 4):
        sized = grain_source(root, image_size=(8, 12), channels=channels)
        assert {sized[at]["image"].shape for at in range(16)} == {(8, 12, channels)}


def test_several_labels_are_a_zero_or_one_for_each_class(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {"0.jpg": jpeg(0), "1.jpg": jpeg(1)})
    (tmp_path / "in" / "tags.csv").write_text("image,tags\n0.jpg,cat dog\n1.jpg,dog\n")
    options = SourceOptions(label_sep=" ")
    source = grain_source(pack(tmp_path / "in/tags.csv", tmp_path / "data", source=options))
    found = {source.records[at].filename: source[at]["labels"].tolist() for at in range(2)}
    assert found == {"0.jpg": [1, 1], "1.jpg": [0, 1]}


def test_a_label_can_be_a_zero_or_one_for_each_class(root: Path) -> None:
    numbers, vectors = grain_source(root), grain_source(root, labels="onehot")
    assert [one["label"].tolist() for one in vectors] == [
        [float(one["label"] == label) for label in range(2)] for one in numbers
    ]


@pytest.mark.torch
def test_grey_images_alone_have_one_channel_in_every_loader(tmp_path: Path) -> None:
    pytest.importorskip("torch")
    write_tree(tmp_path / "in", {f"x/{seed}.jpg": jpeg(seed, mode="L") for seed in range(2)})
    dataset = pack(tmp_path / "in", tmp_path / "data")
    assert grain_source(dataset)[0]["image"].shape[2] == 1
    assert grain_source(dataset, channels=3)[0]["image"].shape[2] == 3
    assert imgrec.torch_dataset(dataset)[0][0].shape[0] == 1
    assert load(dataset).element_spec[0].shape[2] == 1


def test_a_map_dataset_shuffles_and_batches_it(root: Path) -> None:
    batches = grain.MapDataset.source(grain_source(root, image_size=8)).seed(1).shuffle().batch(4)
    assert len(batches) == 4
    assert batches[0]["image"].shape == (4, 8, 8, 3)
    labels = np.concatenate([batches[at]["label"] for at in range(4)])
    assert np.bincount(labels).tolist() == [9, 7]
    records = open_dataset(root)["train"]  # they are a source too
    names = grain.MapDataset.source(records).map(lambda record: record.filename)
    assert sorted(names) == sorted(record.filename for record in records)


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_loader_gives_every_image_once(root: Path, workers: int) -> None:
    batches = list(loader(root, workers))
    assert {batch["image"].shape for batch in batches} == {(4, 8, 8, 3)}
    given = sorted(image.tobytes() for batch in batches for image in batch["image"])
    source = grain_source(root, image_size=8)
    assert given == sorted(source[at]["image"].tobytes() for at in range(16))


def test_a_loader_resumes_from_a_checkpoint_in_a_dataset_opened_again(root: Path) -> None:
    first, again = iter(loader(root, 0)), iter(loader(root, 0))
    next(first)
    again.set_state(first.get_state())
    assert np.array_equal(next(again)["image"], next(first)["image"])


def test_its_repr_depends_on_the_data_and_not_on_the_place(root: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").symlink_to(root / "trees")
    assert repr(grain_source(root)) == repr(grain_source(tmp_path / "elsewhere"))
    other = pack(class_tree(tmp_path / "trees", {"ash": 9, "birch": 7}, 50), tmp_path / "data")
    sources = [
        grain_source(root),
        grain_source(root, "train[:50%]"),
        grain_source(root, image_size=8),
        grain_source(other),
    ]
    assert len(set(map(repr, sources))) == 4


def test_a_pickled_source_is_small_and_reads_the_same(root: Path) -> None:
    source = grain_source(root, "train[:50%]", image_size=8)
    data = pickle.dumps(source)
    assert len(data) < 3000
    assert np.array_equal(pickle.loads(data)[3]["image"], source[3]["image"])


def test_wrong_use_is_an_error(root: Path, tmp_path: Path) -> None:
    with pytest.raises(OutOfRange, match="train has 16 records; 16 is out of range"):
        grain_source(root)[16]
    with pytest.raises(UnknownName, match="there is no split 'val'"):
        grain_source(root, "val")
    loaders: list[Callable[..., object]] = [grain_source, imgrec.torch_dataset, imgrec.load]
    for function in loaders:
        with pytest.raises(UsageError, match="has no argument 'image_sise'") as caught:
            function(root, image_sise=8)
        assert caught.value.hint.startswith("did you mean image_size? There is dataset, split, ")
    source = class_tree(tmp_path / "trees", {"ash": 2})
    where = pack(source, tmp_path / "data", compression="gzip")
    with pytest.raises(DatasetError, match="the shards of trees are compressed"):
        grain_source(where)
