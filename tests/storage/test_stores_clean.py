"""What interrupted runs leave on an object store, and `imgrec clean`."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from stores import Store
from test_stores import FLOWERS, OPTIONS, pack_there, packed_here, there

import imgrec
from imgrec.errors import ExecutionError
from imgrec.storage.paths import to_path
from imgrec.storage.remote.owner import Owner

pytestmark = pytest.mark.stores


def interrupt(store: Store, **options: object) -> None:
    store.proxy.fault = lambda method, path: (
        "403" if "samples.parquet" in path and method == "PUT" else ""
    )
    with pytest.raises(ExecutionError):
        pack_there(store, **options)
    store.proxy.fault = lambda method, path: ""


def test_an_interrupted_pack_is_removed_with_its_shards(store: Store, cli: Cli) -> None:
    store.put("data/notes.txt", b"mine")
    interrupt(store, **OPTIONS)
    size = sum(len(data) for key, data in store.keys("data/flowers/").items())
    [listed] = imgrec.list_datasets(data_dir=store / "data").datasets
    assert {one.state for one in listed.versions} == {"unfinished"}
    [left] = imgrec.clean(data_dir=store / "data", dry_run=True)
    assert (left.path, left.size) == (store / "data/flowers/.1.0.0.incomplete", size)
    done = cli("clean", "--data-dir", store / "data")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"removed {left.path}, ")
    assert store.keys("data/") == {"data/notes.txt": b"mine"}
    assert imgrec.clean(data_dir=store / "data") == ()


def test_a_killed_pack_is_removed_and_a_running_one_is_not(store: Store) -> None:
    code = (
        "import os, sys, imgrec\n"
        "from imgrec.storage.remote import staging\n"
        "staging.StoreStaging.publish = lambda *_, **__: os.kill(os.getpid(), 9)\n"
        f"imgrec.pack({str(FLOWERS)!r}, data_dir={store / 'data'!r}, workers=1)\n"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    before = store.keys("data/")
    assert any("-of-" in key for key in before)
    owner = Owner(to_path(store / "data/flowers/.1.0.0.incomplete"))
    killed = store.get("data/flowers/.1.0.0.incomplete/owner")
    owner.claim()  # this process runs
    assert imgrec.clean(data_dir=store / "data") == ()
    store.put("data/flowers/.1.0.0.incomplete/owner", b"of another machine that wrote just now")
    assert imgrec.clean(data_dir=store / "data") == ()
    store.put("data/flowers/.1.0.0.incomplete/owner", killed)
    assert store.keys("data/") == before
    assert len(imgrec.clean(data_dir=store / "data")) == 1
    assert store.keys("data/") == {}


def test_an_overwrite_that_was_interrupted_while_copying_is_finished(
    store: Store, data_dir: Path
) -> None:
    pack_there(store)

    def copies_fail(method: str, path: str) -> str:
        return "403" if method == "PUT" and "/1.0.0/" in path and "val" in path else ""

    store.proxy.fault = copies_fail
    with pytest.raises(ExecutionError):
        pack_there(store, val_split=0.3, overwrite=True)
    store.proxy.fault = lambda method, path: ""
    assert "dataset_info.json" not in there(store)
    [left] = imgrec.clean(data_dir=store / "data")
    assert left.restored == store / "data/flowers/1.0.0"
    assert there(store) == packed_here(data_dir, val_split=0.3)
    assert store.keys("data/flowers/.") == {
        key: data for key, data in store.keys("data/flowers/.").items() if "origin" in key
    }


def test_an_interrupted_overwrite_leaves_the_old_dataset(store: Store) -> None:
    pack_there(store)
    before = there(store)
    interrupt(store, val_split=0.3, overwrite=True)
    [left] = imgrec.clean(data_dir=store / "data")
    assert left.restored == ""
    assert there(store) == before
    assert not imgrec.verify(store / "data/flowers").faults


def test_only_the_newest_versions_are_kept(store: Store, cli: Cli) -> None:
    pack_there(store)
    pack_there(store, version="1.1.0", seed=7)
    pack_there(store, version="1.2.0", seed=8)
    done = cli("clean", "--versions", "2", "--yes", "--data-dir", store / "data")
    assert done.returncode == 0, done.stderr
    keys = store.keys("data/")
    assert {key.split("/")[2] for key in keys} == {
        "1.1.0", "1.2.0", ".1.1.0.origin.json", ".1.2.0.origin.json"
    }  # fmt: skip


def test_removing_a_version_that_was_interrupted_is_finished_by_the_next_run(store: Store) -> None:
    pack_there(store)
    pack_there(store, version="1.1.0", seed=7)

    def denied(method: str, path: str) -> str:
        is_shard = method == "DELETE" and "-of-" in path
        return "403" if is_shard or path.endswith("?delete") else ""

    store.proxy.fault = denied
    with pytest.raises(ExecutionError):
        imgrec.clean(versions=1, data_dir=store / "data")
    store.proxy.fault = lambda method, path: ""
    with pytest.raises(imgrec.DatasetNotFound):
        imgrec.info(store / "data/flowers/1.0.0")
    imgrec.clean(data_dir=store / "data")
    assert {key.split("/")[2] for key in store.keys("data/")} == {"1.1.0", ".1.1.0.origin.json"}


def test_the_note_of_a_dataset_that_is_gone_is_removed(store: Store) -> None:
    store.put("data/flowers/.1.0.0.origin.json", b"{}")
    store.put("data/flowers/.mine.origin.json", b"{}")
    store.put("data/flowers/.2.0.0.incomplete/mine.txt", b"mine")
    [left] = imgrec.clean(data_dir=store / "data")
    assert left.path == store / "data/flowers/.1.0.0.origin.json"
    assert sorted(store.keys("data/")) == [
        "data/flowers/.2.0.0.incomplete/mine.txt", "data/flowers/.mine.origin.json"
    ]  # fmt: skip
