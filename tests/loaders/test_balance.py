"""Balanced epochs and class weights: classes count the same, copies are far apart."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from pictures import class_tree, jpeg, write_tree

import imgrec
from imgrec.errors import UsageError
from imgrec.loaders import load
from imgrec.loaders.selection import Balance, balance
from imgrec.options import PackOptions

COUNTS = {"a": 25, "b": 9, "c": 2}
"""Images of each class. Each image of c comes 12 or 13 times in an epoch."""

class_counts = st.lists(st.integers(1, 40), max_size=6)
seeds = st.none() | st.tuples(st.integers(0, 1 << 62), st.integers(0, 1 << 62))
jobs_ = st.integers(1, 5)


def jobs_of(counts: list[int], unlabelled: int, jobs: int, batch_size: int) -> list[Balance]:
    """Balance images with these counts by class, in random order."""
    labels = np.repeat(np.arange(-1, len(counts)), [unlabelled, *counts])
    labels = np.random.default_rng(7).permutation(labels)
    numbers = np.arange(100, 100 + len(labels))
    return [balance(numbers, labels, (job, jobs), batch_size) for job in range(jobs)]


def label_of(counts: list[int], unlabelled: int) -> dict[int, int]:
    (whole,) = jobs_of(counts, unlabelled, 1, 1)
    found = {
        number: label
        for label, visits in enumerate(whole.classes)
        for number in visits.records.tolist()
    }
    return found | dict.fromkeys(whole.unlabelled.tolist(), -1)


@given(class_counts, st.integers(0, 9), jobs_, st.integers(1, 9), seeds)
@example([25, 2], 0, 2, 4, (1, 2))
@example([1], 0, 5, 4, None)
def test_jobs_have_equally_many_images_and_together_all_of_them(
    counts: list[int], unlabelled: int, jobs: int, batch_size: int, seeds: tuple[int, int] | None
) -> None:
    assume(counts or unlabelled)
    made = jobs_of(counts, unlabelled, jobs, batch_size)
    orders = [each.order(seeds).tolist() for each in made]
    assert {len(order) for order in orders} == {made[0].count}
    labels = label_of(counts, unlabelled)
    assert set(chain.from_iterable(orders)) == labels.keys()
    assert all(
        sorted(set(order)) == each.records().tolist()
        for order, each in zip(orders, made, strict=True)
    )
    shown = Counter(labels[number] for number in chain.from_iterable(orders))
    of_classes = [shown[label] for label in range(len(counts))]
    most = max(counts, default=0)
    if jobs == 1:
        assert of_classes == [most] * len(counts)
        assert shown[-1] == unlabelled
    assert min(of_classes, default=0) >= most
    assert max(of_classes, default=0) - min(of_classes, default=0) <= 1
    assert sum(of_classes) < most * len(counts) + jobs
    for order in orders:
        own = Counter(labels[number] for number in order if labels[number] >= 0)
        assert max(own.values(), default=0) - min(own.values(), default=0) <= 1


@given(class_counts.filter(bool), jobs_, st.integers(1, 40), seeds)
@example([1] * 40, 1, 40, (3, 4))
@example([40, 1, 1, 1], 1, 4, (3, 4))
def test_no_batch_repeats_an_image_needlessly(
    counts: list[int], jobs: int, batch_size: int, seeds: tuple[int, int] | None
) -> None:
    for each in jobs_of(counts, 0, jobs, batch_size):
        order = each.order(seeds).tolist()
        images = {len(records) for records, times in each.classes if times > len(records)}
        # Every row has the image of a class with one image.
        apart = min(images, default=len(order)) * len(each.classes)
        for start in range(len(order) - batch_size + 1):
            most = max(Counter(order[start : start + batch_size]).values())
            assert most <= -(-batch_size // max(apart, 1))


@given(class_counts.filter(bool), st.tuples(st.integers(0, 99), st.integers(0, 99)))
def test_an_order_depends_only_on_the_seeds(counts: list[int], seeds: tuple[int, int]) -> None:
    (made,) = jobs_of(counts, 3, 1, 4)
    (again,) = jobs_of(counts, 3, 1, 4)
    assert made.order(seeds).tolist() == again.order(seeds).tolist()
    assert made.order().tolist() == again.order().tolist()
    others = {tuple(made.order((*seeds, other)).tolist()) for other in range(20)}
    assert len(others) > 1 or sum(counts) + 3 < 5


# Through imgrec.load


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("balance")
    files, seed = {}, 0
    for name, count in COUNTS.items():
        for number in range(count):
            files[f"{name}/{number}.jpg"] = jpeg(seed := seed + 1, (20 + seed % 3, 16))
    write_tree(root / "images", files)
    return root


def packed(root: Path, **options: Any) -> str:
    settings = PackOptions(data_dir=str(root / "data"), shards=3, **options)
    return imgrec.pack(root / "images", settings).info.path


@pytest.fixture(scope="module")
def path(root: Path) -> str:
    return packed(root)


def epoch(data: Any) -> list[list[str]]:
    return [[name.decode() for name in b["filename"]] for b in data.as_numpy_iterator()]


def loaded(path: str, **options: Any) -> Any:
    return load(path, **{"image_size": 8, "as_dict": True, **options})


def flat(batches: list[list[str]]) -> list[str]:
    return list(chain.from_iterable(batches))


@pytest.mark.parametrize("cache", [False, True])
def test_a_balanced_epoch_spreads_the_copies(path: str, cache: bool) -> None:
    options = {"batch_size": 6, "balance": True, "shuffle": True, "seed": 3, "cache": cache}
    data = loaded(path, **options)
    epochs = []
    for _ in range(2):
        batches = epoch(data)
        assert len(batches) == int(data.cardinality()) == 13
        assert all(len(set(batch)) == len(batch) for batch in batches)
        names = flat(batches)
        assert Counter(name[0] for name in names) == dict.fromkeys("abc", 25)
        assert len(set(names)) == sum(COUNTS.values())
        epochs.append(names)
    assert epochs[0] != epochs[1]
    both = flat(epoch(loaded(path, repeat=2, **options)))
    assert both[:75] == epochs[0]
    assert both[75:] not in (epochs[0], [])


@pytest.mark.parametrize(("cache", "shuffle"), [(False, True), (True, False)])
def test_balanced_jobs_have_equally_many_batches(path: str, cache: bool, shuffle: bool) -> None:
    options = {"cache": cache, "shuffle": shuffle, "balance": True, "batch_size": 4}
    parts = [epoch(loaded(path, shard=(job, 2), **options)) for job in (0, 1)]
    assert [len(part) for part in parts] == [10, 10]
    assert len({*flat(parts[0]), *flat(parts[1])}) == sum(COUNTS.values())


@pytest.mark.parametrize(("cache", "batch_size", "count"), [(False, 2, 3), (True, 8, 0)])
def test_jobs_that_drop_the_remainder_have_equally_many_batches(
    path: str, cache: bool, batch_size: int, count: int
) -> None:
    # 36 images for 5 jobs: one has 8, enough for one more batch, and the others have 7.
    for job in (0, 4):
        options = {"shuffle": True, "shard": (job, 5), "cache": cache, "drop_remainder": True}
        data = loaded(path, batch_size=batch_size, **options)
        assert len(list(data)) == int(data.cardinality()) == count


def test_jobs_that_drop_nothing_have_every_record_once(path: str) -> None:
    names = flat([flat(epoch(loaded(path, shard=(job, 5), batch_size=3))) for job in range(5)])
    assert len(names) == len(set(names)) == 36


def test_no_record_is_dropped_in_all_epochs(path: str) -> None:
    options = {"batch_size": 1, "drop_remainder": True, "shuffle": True, "shard": (6, 7)}
    data = loaded(path, seed=1, **options)
    epochs = [set(flat(epoch(data))) for _ in range(12)]
    assert {len(names) for names in epochs} == {5}
    assert len(set().union(*epochs)) == 6


@pytest.mark.parametrize("cache", [False, True])
def test_balanced_epochs_may_repeat_for_ever(path: str, cache: bool) -> None:
    import tensorflow as tf

    # Without a seed, batches may overtake each other, so that `take` cuts through an epoch.
    options = {"balance": True, "repeat": True, "shuffle": True, "seed": 1, "cache": cache}
    data = load(path, image_size=8, batch_size=10, **options)
    assert int(data.cardinality()) == tf.data.INFINITE_CARDINALITY
    labels = np.concatenate([labels for _, labels in data.take(30).as_numpy_iterator()])
    assert np.bincount(labels).tolist() == [100, 100, 100]


def test_compressed_shards_are_balanced_in_memory_only(root: Path) -> None:
    path = packed(root, name="gz", compression="gzip")
    with pytest.raises(UsageError, match="compressed, so balance cannot read them by number"):
        load(path, balance=True)
    data = loaded(path, balance=True, cache=True, batch_size=25, shard=(1, 2))
    assert len(flat(epoch(data))) == 38


def test_a_cache_that_does_not_fit_is_refused_before_decoding(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    available = "imgrec.loaders.tf_pipeline.available_bytes"
    needed_bytes = 2 * 36 * 100 * 200 * 3
    monkeypatch.setattr(available, lambda: needed_bytes - 1)
    with pytest.raises(UsageError, match=r"needs 4\.1 MiB of memory for 36 images of 100x200"):
        load(path, image_size=(100, 200), cache=True)
    for enough in (needed_bytes, None):
        monkeypatch.setattr(available, lambda enough=enough: enough)
        assert len(list(load(path, image_size=(100, 200), cache=True))) == 36


def test_weights_make_all_classes_count_the_same(path: str) -> None:
    assert imgrec.class_weights(path) == pytest.approx({0: 12 / 25, 1: 12 / 9, 2: 6})
    assert set(imgrec.class_weights(path, "train[:10%]")) == {0, 1, 2}


def test_weights_without_a_train_split_are_those_of_all_folds(tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers/train", {"rose": 6, "tulip": 2})
    class_tree(tmp_path / "flowers/test", {"rose": 1, "tulip": 9}, start=100)
    packed = imgrec.pack(tmp_path / "flowers", folds=2, data_dir=tmp_path)
    assert [split.name for split in packed.info.splits] == ["fold_0", "fold_1", "test"]
    assert imgrec.class_weights(packed.info.path) == pytest.approx({0: 8 / 12, 1: 2})


def test_weights_and_balance_do_not_read_names(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    import imgrec.read.samples as samples

    read, columns_read = samples.read_bounded, set()

    def noted(file: Any, opened: Any, columns: list[str]) -> Any:
        columns_read.update(columns)
        return read(file, opened, columns)

    monkeypatch.setattr(samples, "read_bounded", noted)
    imgrec.class_weights(path)
    assert columns_read == {"label"}
    load(path, balance=True)
    assert "filename" not in columns_read


def test_a_container_limits_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from imgrec.loaders import tf_pipeline

    (tmp_path / "meminfo").write_text("MemTotal: 900 kB\nMemAvailable: 500 kB\nSwapFree: 100 kB\n")
    (tmp_path / "memory.max").write_text("100000\n")
    (tmp_path / "memory.current").write_text("90000\n")
    (tmp_path / "memory.stat").write_text("anon 10\ninactive_file 3000\nactive_file 400\n")
    monkeypatch.setattr(tf_pipeline, "_MEMINFO", str(tmp_path / "meminfo"))
    monkeypatch.setattr(
        tf_pipeline, "_CGROUPS", ((f"{tmp_path}/", "memory.max", "memory.current"),)
    )
    assert tf_pipeline.available_bytes() == 13_400
    (tmp_path / "memory.max").write_text("max\n")
    assert tf_pipeline.available_bytes() == 600 << 10
    (tmp_path / "meminfo").unlink()
    assert tf_pipeline.available_bytes() is None
