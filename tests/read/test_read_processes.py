"""One opened dataset, read by many threads and processes at once."""

from __future__ import annotations

import hashlib
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
from imgrec.read.dataset import Dataset, Split
from imgrec.read.record import Record

COUNT = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = class_tree(tmp_path_factory.mktemp("source") / "flowers", {"daisy": 30, "rose": 30})
    data_dir = str(tmp_path_factory.mktemp("datasets"))
    packed = imgrec.pack(source, PackOptions(data_dir=data_dir, shards=5, workers=1))
    return Path(packed.info.path)


@pytest.fixture
def train(folder: Path) -> Split:
    return imgrec.open_dataset(folder)["train"]


def digest(record: Record) -> str:
    text = f"{record.filename} {record.label} {record.shape}".encode()
    return hashlib.sha256(text + record.image).hexdigest()


def digests(train: Split, seed: int, reads: int = 300) -> list[tuple[int, str]]:
    """Read at random, by number and by name, and return what was read."""
    chance = random.Random(seed)
    found = []
    for _ in range(reads):
        number = chance.randrange(len(train))
        record = train[number] if chance.random() < 0.9 else train.find(train[number].filename)
        found.append((number, digest(record)))
    return found


def expected(folder: Path) -> dict[int, str]:
    return {
        number: digest(record) for number, record in enumerate(imgrec.open_dataset(folder)["train"])
    }


def assert_right(folder: Path, found: list[list[tuple[int, str]]]) -> None:
    right = expected(folder)
    assert len(right) == COUNT
    assert all(right[number] == value for part in found for number, value in part)
    assert sum(map(len, found)) == 300 * len(found)


def test_eight_threads_read_at_once_from_a_dataset_that_nobody_has_read(
    folder: Path, train: Split
) -> None:
    start = threading.Barrier(8)

    def read(seed: int) -> list[tuple[int, str]]:
        start.wait()
        return digests(train, seed)

    with ThreadPoolExecutor(8) as threads:
        assert_right(folder, list(threads.map(read, range(8))))


@pytest.mark.parametrize("is_read_before", [True, False])
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_read_what_their_parent_opened(
    folder: Path, train: Split, method: str, is_read_before: bool
) -> None:
    if is_read_before:
        digests(train, 99, 50)
    context = multiprocessing.get_context(method)
    with ProcessPoolExecutor(3, mp_context=context) as pool:
        jobs = [pool.submit(digests, train, seed) for seed in range(4)]
        assert_right(folder, [job.result(timeout=120) for job in jobs])
    assert_right(folder, [digests(train, 5)])


def test_a_child_and_its_parent_read_through_the_same_handles_at_once(
    folder: Path, train: Split
) -> None:
    digests(train, 99, 50)  # all shards are open now
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    child = context.Process(target=lambda: sender.send(digests(train, 1)))
    child.start()
    own = digests(train, 2)
    assert receiver.poll(60)
    assert_right(folder, [own, receiver.recv()])
    child.join(60)
    assert child.exitcode == 0


def test_a_child_that_ends_leaves_the_files_of_its_parent_open(folder: Path, train: Split) -> None:
    digests(train, 99, 50)
    child = os.fork()
    if child == 0:
        train.dataset.__dict__.clear()  # as if it were collected
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    assert_right(folder, [digests(train, 3)])


def test_threads_of_a_forked_child_read_too(folder: Path, train: Split) -> None:
    digests(train, 99, 50)
    context = multiprocessing.get_context("fork")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        found = pool.submit(_read_in_threads, train).result(timeout=120)
    assert_right(folder, found)


def _read_in_threads(train: Split) -> list[list[tuple[int, str]]]:
    with ThreadPoolExecutor(4) as threads:
        return list(threads.map(lambda seed: digests(train, seed), range(4)))


def test_a_pickle_is_small_and_holds_no_records(folder: Path, train: Split) -> None:
    digests(train, 99, 50)
    assert len(pickle.dumps(train)) < 2000
    dataset: Dataset = pickle.loads(pickle.dumps(train.dataset))
    assert_right(folder, [digests(dataset["train"], 4)])
