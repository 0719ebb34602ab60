"""Copies of shards that loaders keep on this machine, of datasets on a real S3 server."""

from __future__ import annotations

import os
import pickle
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from conftest import ROOT
from inline import pack
from pictures import class_tree
from stores import Store

import imgrec
from imgrec.storage.remote import cache
from imgrec.storage.remote.cache import Cache

pytestmark = pytest.mark.stores
NAME = "trees-train.tfrecord-0000{}-of-00004"


@pytest.fixture(scope="module")
def near(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 40 images in 4 shards."""
    folder = tmp_path_factory.mktemp("cache")
    return pack(class_tree(folder / "trees", {"ash": 22, "fir": 18}), folder / "data", shards=4)


@pytest.fixture
def url(near: Path, store: Store) -> str:
    store.put_tree(near, "data/trees/1.0.0")
    return store / "data/trees"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "copies"


def copies(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def fetched(store: Store) -> list[str]:
    """Name the shards that were requested, and forget the requests."""
    names = [path for method, path in store.proxy.seen if method == "GET" and "tfrecord" in path]
    store.proxy.seen.clear()
    return [name.rpartition("/")[2] for name in names if not name.endswith(".idx")]


def test_records_are_read_from_copies_of_the_shards_that_are_needed(
    near: Path, store: Store, url: str, folder: Path
) -> None:
    wanted = imgrec.open_dataset(near)["train"]
    train = imgrec.open_dataset(url, cache_dir=folder)["train"]
    assert (train[0], train[1]) == (wanted[0], wanted[1])
    assert fetched(store) == [NAME.format(0)]
    assert [path.name for path in copies(folder)] == [NAME.format(0)]
    assert copies(folder)[0].read_bytes() == (near / NAME.format(0)).read_bytes()
    assert list(train) == list(wanted)
    assert list(pickle.loads(pickle.dumps(train))[[30, 3, 17]]) == list(wanted[[30, 3, 17]])
    assert sorted(fetched(store)) == [NAME.format(shard) for shard in (1, 2, 3)]
    assert list(imgrec.open_dataset(url, cache_dir=folder)["train"]) == list(wanted)
    assert fetched(store) == []


def test_shards_of_a_list_of_records_are_fetched_at_once(
    near: Path, store: Store, url: str, folder: Path
) -> None:
    both = threading.Barrier(2, timeout=20)

    def wait(method: str, path: str) -> str:
        if re.search("0000[01]-of-00004$", path):
            both.wait()
        return ""

    train, places = imgrec.open_dataset(url, cache_dir=folder)["train"], [0, 15, 25, 35]
    store.proxy.fault = wait
    assert list(train[places]) == list(imgrec.open_dataset(near)["train"][places])


def test_shards_that_nobody_waits_for_are_not_fetched(store: Store, url: str, folder: Path) -> None:
    dataset, released = imgrec.open_dataset(url, cache_dir=folder), threading.Event()

    def wait(method: str, path: str) -> str:
        if path.endswith("of-00004"):
            released.wait(20)
        return ""

    store.proxy.fault = wait
    # Four threads fetch. Let all of them wait for one shard.
    held = [dataset.gather([0]) for _ in range(4)]
    unwanted = dataset.gather([15, 25, 35])
    del unwanted
    released.set()
    idle = threading.Barrier(4, timeout=20)
    list(cache._fetchers(os.getpid()).map(lambda _: idle.wait(), range(4)))
    assert {next(records).filename for records in held} == {dataset.read(0).filename}
    assert sorted(fetched(store)) == [NAME.format(0)]


@pytest.mark.parametrize("damage", [lambda data: data[:100], lambda data: bytes(len(data))])
def test_a_damaged_copy_is_fetched_again(
    near: Path, store: Store, url: str, folder: Path, damage: Callable[[bytes], bytes]
) -> None:
    wanted = list(imgrec.open_dataset(near)["train"])
    assert list(imgrec.open_dataset(url, cache_dir=folder)["train"]) == wanted
    path = copies(folder)[2]
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    fetched(store)
    assert list(imgrec.open_dataset(url, cache_dir=folder)["train"]) == wanted
    assert fetched(store) == [path.name]
    assert path.read_bytes() == whole


def test_a_shard_that_does_not_match_its_checksum_is_refused(
    store: Store, url: str, folder: Path
) -> None:
    key = f"data/trees/1.0.0/{NAME.format(1)}"
    store.put(key, store.get(key)[:-1] + b"x")
    with pytest.raises(imgrec.DatasetError, match=rf"{NAME.format(1)} does not match SHA256SUMS"):
        list(imgrec.open_dataset(url, cache_dir=folder)["train"])
    assert NAME.format(1) not in "".join(path.name for path in copies(folder))
    store.delete("data/trees/1.0.0/SHA256SUMS")
    with pytest.raises(imgrec.DatasetError, match="has no SHA256SUMS, so a copy cannot be checked"):
        imgrec.open_dataset(url, cache_dir=folder)


def test_a_cache_keeps_within_its_bound_and_deletes_what_was_not_used_for_longest(
    near: Path, store: Store, url: str, folder: Path
) -> None:
    sizes = [(near / NAME.format(shard)).stat().st_size for shard in range(4)]
    cache = Cache(f"{url}/1.0.0", str(folder), sum(sizes[:2]) + max(sizes) // 2)
    held = cache.open(NAME.format(0))
    assert held
    for shard in (1, 0, 2):
        assert cache.open(NAME.format(shard))
        time.sleep(0.02)
    assert [path.name for path in copies(folder)] == [NAME.format(shard) for shard in (0, 2)]
    assert cache.open(NAME.format(3))  # 0 is older, but in use
    assert [path.name for path in copies(folder)] == [NAME.format(shard) for shard in (0, 3)]
    also = cache.open(NAME.format(3))
    assert cache.open(NAME.format(1)) is None  # both are in use
    assert [path.name for path in copies(folder)] == [NAME.format(shard) for shard in (0, 3)]
    del held, also
    assert cache.open(NAME.format(1))
    assert len(copies(folder)) <= 2
    assert Cache(f"{url}/1.0.0", str(folder), 10).open(NAME.format(2)) is None


def test_threads_and_processes_fetch_a_shard_once(store: Store, url: str, folder: Path) -> None:
    cache = Cache(f"{url}/1.0.0", str(folder))
    fetched(store)
    with ThreadPoolExecutor(8) as pool:
        files = list(pool.map(cache.open, [NAME.format(number % 2) for number in range(8)]))
    assert all(files)
    assert sorted(fetched(store)) == [NAME.format(0), NAME.format(1)]


@pytest.mark.slow
def test_a_killed_process_leaves_nothing_that_others_take_for_a_copy(
    near: Path, store: Store, url: str, folder: Path
) -> None:
    code = f"import imgrec; list(imgrec.open_dataset({url!r}, cache_dir={str(folder)!r})['train'])"
    held = []

    def wait(method: str, path: str) -> str:
        if method == "GET" and path.endswith("of-00004") and not held:
            held.append(path)
            time.sleep(30)
        return ""

    store.proxy.fault = wait
    killed = subprocess.Popen([sys.executable, "-c", code], env=os.environ, cwd=ROOT)
    while not held and killed.poll() is None:
        time.sleep(0.02)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert [path.suffix for path in copies(folder)] == [".part"]
    store.proxy.fault = lambda method, path: ""
    bound = (near / NAME.format(0)).stat().st_size
    for most in (bound // 2, None):  # without room, what the process left is in the way of none
        cache = Cache(f"{url}/1.0.0", str(folder), most)
        assert bool(cache.open(NAME.format(0))) == (most is None)
    assert [path.name for path in copies(folder)] == [NAME.format(0)]
    assert copies(folder)[0].read_bytes() == (near / NAME.format(0)).read_bytes()
