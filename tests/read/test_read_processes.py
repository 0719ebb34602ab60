"""One opened dataset, read by many threads and processes at once."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import random
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path

import pytest
from pictures import class_tree

import imgrec
from imgrec.options import PackOptions
from imgrec.read.dataset import Split
from imgrec.read.record import Record

Reads = list[tuple[int, Record]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = class_tree(tmp_path_factory.mktemp("source") / "flowers", {"daisy": 30, "rose": 30})
    data_dir = str(tmp_path_factory.mktemp("datasets"))
    packed = imgrec.pack(source, PackOptions(data_dir=data_dir, shards=5, workers=1))
    return Path(packed.info.path)


@pytest.fixture
def train(folder: Path) -> Split:
    return imgrec.open_dataset(folder)["train"]


def read(train: Split, seed: int, count: int = 300) -> Reads:
    """Read at random, by number and by name; return the numbers and the records."""
    chance = random.Random(seed)
    reads = []
    for _ in range(count):
        number = chance.randrange(len(train))
        record = train[number] if chance.random() < 0.9 else train.find(train[number].filename)
        reads.append((number, record))
    return reads


def read_in_threads(train: Split) -> list[Reads]:
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda seed: read(train, seed), range(4)))


def assert_right(folder: Path, *reads: Reads) -> None:
    right = list(imgrec.open_dataset(folder)["train"])
    assert len(right) == 60
    assert all(right[number] == record for part in reads for number, record in part)
    assert [len(part) for part in reads] == [300] * len(reads)


def test_threads_share_a_dataset(folder: Path, train: Split) -> None:
    start = threading.Barrier(8)

    def read_together(seed: int) -> Reads:
        start.wait()
        return read(train, seed)

    with ThreadPoolExecutor(8) as threads:
        assert_right(folder, *threads.map(read_together, range(8)))


@pytest.mark.parametrize(
    ("method", "is_read_before"),
    [("fork", True), ("fork", False), ("spawn", True), ("forkserver", False)],
)
def test_processes_share_a_dataset(
    folder: Path, train: Split, method: str, is_read_before: bool
) -> None:
    if is_read_before:
        read(train, 99, 50)  # all shards are open now
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context(method)) as pool:
        jobs = [pool.submit(read, train, seed) for seed in range(3)]
        own = read(train, 5)  # at the same time, through the same handles
        assert_right(folder, own, *(job.result(timeout=120) for job in jobs))
        assert_right(folder, *pool.submit(read_in_threads, train).result(timeout=120))


def test_a_child_that_ends_leaves_the_files_of_its_parent_open(folder: Path, train: Split) -> None:
    read(train, 99, 50)
    child = os.fork()
    if child == 0:
        train.dataset.__dict__.clear()  # as if it were collected
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert_right(folder, read(train, 3))


def test_a_pickle_is_small_and_has_no_records(folder: Path, train: Split) -> None:
    read(train, 99, 50)
    assert len(pickle.dumps(train)) < 2000
    assert_right(folder, read(pickle.loads(pickle.dumps(train.dataset))["train"], 4))
