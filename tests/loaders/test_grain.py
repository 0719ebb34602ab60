"""A packed dataset in the real Grain."""

from __future__ import annotations

import pickle
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pictures import class_tree, jpeg, write_tree

from imgrec.api import open_dataset, pack
from imgrec.errors import DatasetError, OutOfRange, UnknownName
from imgrec.loaders import grain_source
from imgrec.options import PackOptions, SourceOptions

if HAS_GRAIN := find_spec("grain") is not None:
    import grain.python as grain

pytestmark = pytest.mark.skipif(
    not HAS_GRAIN, reason="Grain is missing: pip install 'imgrec[grain]'"
)


def packed(path: Path, data_dir: Path, **options: Any) -> Path:
    pack(path, PackOptions(data_dir=str(data_dir), workers=1, **options))
    return data_dir


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("grain")
    return packed(class_tree(folder / "trees", {"ash": 9, "birch": 7}), folder / "data")


def loader(root: Path, workers: int, **options: Any) -> grain.DataLoader:
    source = grain_source(root, image_size=8)
    sampler = grain.IndexSampler(
        len(source), num_epochs=1, shard_options=grain.NoSharding(), **options
    )
    return grain.DataLoader(
        data_source=source,
        sampler=sampler,
        worker_count=workers,
        operations=[grain.Batch(batch_size=4)],
    )


def test_it_is_a_random_access_data_source(root: Path) -> None:
    assert isinstance(grain_source(root), grain.RandomAccessDataSource)


def test_an_element_is_an_image_channels_last_and_its_label(root: Path) -> None:
    source = grain_source(root)
    element = source[3]
    record = source.records[3]
    assert sorted(element) == ["image", "label"]
    assert np.array_equal(element["image"], np.asarray(record.pil()))
    assert element["label"] == record.label
    assert source.classes == ("ash", "birch")


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_with_an_image_size_all_images_have_it(root: Path, channels: int) -> None:
    source = grain_source(root, image_size=(8, 12), channels=channels)
    assert {source[at]["image"].shape for at in range(len(source))} == {(8, 12, channels)}


def test_several_labels_are_a_zero_or_one_for_each_class(tmp_path: Path) -> None:
    write_tree(tmp_path / "in", {"0.jpg": jpeg(0), "1.jpg": jpeg(1)})
    (tmp_path / "in" / "tags.csv").write_text("image,tags\n0.jpg,cat dog\n1.jpg,dog\n")
    where = packed(
        tmp_path / "in" / "tags.csv", tmp_path / "data", source=SourceOptions(label_sep=" ")
    )
    source = grain_source(where)
    found = {source.records[at].filename: source[at]["labels"].tolist() for at in range(2)}
    assert found == {"0.jpg": [1, 1], "1.jpg": [0, 1]}


def test_a_map_dataset_shuffles_and_batches_it(root: Path) -> None:
    batches = grain.MapDataset.source(grain_source(root, image_size=8)).seed(1).shuffle().batch(4)
    assert len(batches) == 4
    assert batches[0]["image"].shape == (4, 8, 8, 3)
    labels = np.concatenate([batches[at]["label"] for at in range(4)])
    assert np.bincount(labels).tolist() == [9, 7]


def test_records_themselves_are_a_source_too(root: Path) -> None:
    names = grain.MapDataset.source(open_dataset(root)["train"]).map(lambda record: record.filename)
    assert sorted(names) == [f"ash/{n:03d}.jpg" for n in range(9)] + [
        f"birch/{n:03d}.jpg" for n in range(7)
    ]


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_loader_gives_every_image_once(root: Path, workers: int) -> None:
    batches = list(loader(root, workers, shuffle=True, seed=1))
    assert {batch["image"].shape for batch in batches} == {(4, 8, 8, 3)}
    given = sorted(image.tobytes() for batch in batches for image in batch["image"])
    source = grain_source(root, image_size=8)
    assert given == sorted(source[at]["image"].tobytes() for at in range(16))


def test_a_loader_goes_on_from_a_checkpoint_in_a_dataset_opened_again(root: Path) -> None:
    first = iter(loader(root, 0, shuffle=True, seed=1))
    next(first)
    state = first.get_state()
    again = iter(loader(root, 0, shuffle=True, seed=1))
    again.set_state(state)
    assert np.array_equal(next(again)["image"], next(first)["image"])


def test_its_repr_is_the_same_wherever_the_dataset_lies(root: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.symlink_to(root / "trees")
    assert repr(grain_source(root)) == repr(grain_source(elsewhere))


def test_its_repr_tells_other_data_and_other_pixels_apart(root: Path, tmp_path: Path) -> None:
    other = packed(class_tree(tmp_path / "trees", {"ash": 9, "birch": 7}, 50), tmp_path / "data")
    shown = [
        repr(source)
        for source in (
            grain_source(root),
            grain_source(root, "train[:50%]"),
            grain_source(root, image_size=8),
            grain_source(other),
        )
    ]
    assert len(set(shown)) == 4


def test_a_pickled_source_reads_the_same(root: Path) -> None:
    source = grain_source(root, "train[:50%]", image_size=8)
    data = pickle.dumps(source)
    assert len(data) < 3000
    assert np.array_equal(pickle.loads(data)[3]["image"], source[3]["image"])


def test_wrong_use_is_answered_as_elsewhere(root: Path, tmp_path: Path) -> None:
    with pytest.raises(OutOfRange, match="train has 16 records; 16 is out of range"):
        grain_source(root)[16]
    with pytest.raises(UnknownName, match="there is no split 'val'"):
        grain_source(root, "val")


def test_compressed_shards_are_refused_at_once(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "trees", {"ash": 2})
    where = packed(source, tmp_path / "data", compression="gzip")
    with pytest.raises(DatasetError, match="the shards of trees are compressed"):
        grain_source(where)
