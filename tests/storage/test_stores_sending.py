"""Files that executors send to a store, while they write them."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from stores import Store
from waiting import wait_for

from imgrec.errors import ExecutionError
from imgrec.storage.attempts import Sending, is_there
from imgrec.storage.files import create
from imgrec.storage.remote.read import stat_object
from imgrec.storage.remote.transfer import copy_sent

pytestmark = pytest.mark.stores
MIB = 1 << 20
DATA = random.Random(1).randbytes(40 * MIB)


def parts_sent(store: Store) -> int:
    return sum(method == "PUT" and "partNumber" in path for method, path in store.proxy.seen)


def test_a_shard_is_sent_while_it_is_written(store: Store, tmp_path: Path) -> None:
    with Sending(store / "data/attempts", "shard", len(DATA)) as sending:
        path = str(tmp_path / "shard")
        with create(path, expected_bytes=50 * MIB, on_written=sending.on_written) as file:
            for start in range(0, 32 * MIB, MIB):
                file.write(DATA[start : start + MIB])
            wait_for(lambda: parts_sent(store) == 2)
            file.write(DATA[32 * MIB :])
        (tmp_path / "shard.idx").write_bytes(b"0 9\n")
        sent = sending.send(str(tmp_path), ["shard", "shard.idx"])
    assert parts_sent(store) == 3
    objects = {f"{store.url}/{key}": data for key, data in store.keys("data/attempts").items()}
    assert objects == {sent["shard"].url: DATA, sent["shard.idx"].url: b"0 9\n"}
    assert sent["shard"].size == len(DATA)
    assert all(map(is_there, sent.values()))


def test_a_shard_that_cannot_be_finished_leaves_no_parts(store: Store, tmp_path: Path) -> None:
    with (
        pytest.raises(KeyError),
        Sending(store / "data/attempts", "shard", 0) as sending,
        create(str(tmp_path / "shard"), on_written=sending.on_written) as file,
    ):
        file.write(DATA)
        raise KeyError
    uploads = store._connection().list_multipart_uploads(Bucket=store.bucket)  # type: ignore[attr-defined]
    assert uploads.get("Uploads", []) == []
    assert not store.keys("data")


def test_parts_are_sent_again_by_a_busy_store_and_compared(store: Store, tmp_path: Path) -> None:
    refused: list[str] = []

    def fault(method: str, path: str) -> str:
        if "partNumber" in path and path not in refused:
            refused.append(path)
            return "503"
        return ""

    store.proxy.fault = fault
    (tmp_path / "shard").write_bytes(DATA)
    with Sending(store / "data/attempts", "shard", len(DATA)) as sending:
        sent = sending.send(str(tmp_path), ["shard"])
    assert len(refused) == 3
    assert [*store.keys("data/attempts").values()] == [DATA]
    assert is_there(sent["shard"])


def test_a_file_that_is_another_than_was_sent_is_not_taken(store: Store, tmp_path: Path) -> None:
    (tmp_path / "shard").write_bytes(b"what was sent")
    with Sending(store / "data/attempts", "shard", 0) as sending:
        (sent,) = sending.send(str(tmp_path), ["shard"]).values()
    copied = copy_sent(sent.url, store / "data/shard", sent.size, sent.tag)
    assert copied is not None
    assert copied == stat_object(store / "data/shard")._replace(changed_ns=0)
    store.put(sent.url.partition(f"{store.url}/")[2], b"another thing")
    assert copy_sent(sent.url, store / "data/shard", sent.size, sent.tag) is None


def test_a_store_that_denies_an_upload_is_named_not_the_disk(store: Store, tmp_path: Path) -> None:
    store.proxy.fault = lambda method, path: "403" if method == "POST" else ""
    with (
        pytest.raises(ExecutionError, match=r"attempts/.*: access denied"),
        Sending(store / "data/attempts", "shard", len(DATA)) as sending,
        create(str(tmp_path / "shard"), on_written=sending.on_written) as file,
    ):
        file.write(DATA)
