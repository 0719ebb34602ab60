"""Images and exports that are written to an object store."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from conftest import Cli
from stores import Store
from test_stores import FLOWERS, pack_there

import imgrec
from imgrec.errors import ExecutionError, SourceError, UsageError

pytestmark = pytest.mark.stores


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file()
    }


def there(store: Store) -> dict[str, bytes]:
    return {key.removeprefix("out/"): data for key, data in store.keys("out/").items()}


@pytest.fixture
def dataset(store: Store) -> str:
    url = pack_there(store).info.path
    store.proxy.seen.clear()
    return url


def test_images_unpacked_to_a_store_are_those_on_a_disk(
    store: Store, dataset: str, tmp_path: Path
) -> None:
    unpacked = imgrec.unpack(dataset, store / "out")
    imgrec.unpack(dataset, tmp_path / "out")
    assert there(store) == files_of(tmp_path / "out")
    assert unpacked.path == store / "out"
    assert store.keys(".out") == {}
    seen = Counter(store.proxy.methods(r"/out/.*\.jpg"))
    assert seen.keys() == {"PUT"}
    assert seen.total() == sum(key.endswith(".jpg") for key in there(store))


@pytest.mark.parametrize("to", ["parquet", "webdataset"])
def test_an_export_to_a_store_has_the_files_of_one_on_a_disk(
    store: Store, dataset: str, tmp_path: Path, to: str
) -> None:
    imgrec.export(dataset, tmp_path / "out", to=to)
    exported = imgrec.export(dataset, store / "out", to=to)
    assert there(store) == files_of(tmp_path / "out")
    assert store / "out" in exported.load


def test_nothing_on_a_store_is_overwritten_without_being_asked(store: Store, dataset: str) -> None:
    store.put("out/mine.txt", b"mine")
    for refused in (
        lambda: imgrec.unpack(dataset, store / "out"),
        lambda: imgrec.export(dataset, store / "out", to="parquet"),
        lambda: imgrec.export(dataset, store / "out", to="parquet", overwrite=True),
        lambda: imgrec.unpack(dataset, store.url),
        lambda: imgrec.unpack(dataset, f"{dataset}/out"),
    ):
        with pytest.raises(UsageError):
            refused()
    assert there(store) == {"mine.txt": b"mine"}


def test_an_export_replaces_another_when_it_is_complete(store: Store, dataset: str) -> None:
    imgrec.export(dataset, store / "out", to="parquet")
    before = there(store)
    store.proxy.fault = lambda method, path: "403" if ".tar" in path else ""
    with pytest.raises(ExecutionError, match="access denied"):
        imgrec.export(dataset, store / "out", to="webdataset", overwrite=True)
    assert there(store) == before
    store.proxy.fault = lambda method, path: ""
    imgrec.export(dataset, store / "out", to="webdataset", overwrite=True)
    assert before.keys() & there(store).keys() == {"README.md"}
    assert store.keys(".out") == {}


def test_a_run_that_fails_or_is_killed_leaves_nothing_that_stays(
    store: Store, dataset: str
) -> None:
    name = next(path.name for path in (FLOWERS / "rose").iterdir())
    store.proxy.fault = lambda method, path: "403" if path.endswith(f"rose/{name}") else ""
    with pytest.raises(ExecutionError, match="access denied"):
        imgrec.unpack(dataset, store / "out")
    store.proxy.fault = lambda method, path: ""
    assert (there(store), store.keys(".out")) == ({}, {})
    # As a killed run leaves it: process 0 has ended.
    store.put("out/rose/half.jpg", b"half")
    store.put(".out.imgrec-unpack/begun", b"")
    store.put(".out.imgrec-unpack/owner", b"0123456789abcdef machine 0")
    imgrec.unpack(dataset, store / "out")
    assert "rose/half.jpg" not in there(store)


def test_a_part_of_a_tree_is_not_taken_for_the_whole(
    store: Store, dataset: str, cli: Cli, tmp_path: Path
) -> None:
    imgrec.unpack(dataset, store / "out")
    store.put(".out.imgrec-unpack/begun", b"")  # as a killed run leaves it
    store.put(".out.imgrec-unpack/owner", b"0123456789abcdef machine 0")
    only_a_part = f"{store / 'out'} is only a part: a run of unpack or export to it is not finished"
    with pytest.raises(SourceError, match=only_a_part) as caught:
        imgrec.pack(store / "out", data_dir=str(tmp_path))
    assert f"delete {store / '.out.imgrec-unpack'}" in caught.value.hint
    asked = cli("doctor", store / "out")
    assert (asked.returncode, only_a_part in asked.stdout) == (1, True)
    imgrec.unpack(dataset, store / "out")
    (train,) = imgrec.pack(store / "out", data_dir=str(tmp_path)).info.splits
    assert train.examples == len(files_of(FLOWERS))


def test_a_run_that_writes_to_the_same_place_is_not_disturbed(store: Store, dataset: str) -> None:
    from imgrec.storage.paths import to_path
    from imgrec.storage.remote.owner import Owner

    Owner(to_path(store / ".out.imgrec-unpack")).claim()
    with pytest.raises(ExecutionError, match="another run is writing to"):
        imgrec.unpack(dataset, store / "out")


def test_tables_are_read_from_a_store_and_outputs_written_to_it(
    store: Store, dataset: str, cli: Cli
) -> None:
    name = sorted(path.name for path in (FLOWERS / "rose").iterdir())[0]
    store.put("in/fix.csv", f"filename,label\nrose/{name},tulip\n".encode())
    edited = cli("edit", dataset, store / "in/fix.csv")
    assert edited.returncode == 0, edited.stderr
    sheet, page = store / "out/sheet.png", store / "out/page.html"
    assert cli("diff", dataset, store / "data/flowers", "-o", sheet).returncode == 1
    assert cli("report", dataset, "-o", page).returncode == 0
    assert cli("show", dataset, "1", "-o", store / "out/1.jpg").returncode == 0
    assert there(store).keys() == {"sheet.png", "page.html", "1.jpg"}
    done = cli("show", dataset, "2", "-o", store / "out/1.jpg")
    assert done.returncode == 2
    assert f"{store / 'out/1.jpg'} exists already" in done.stderr
    done = cli("edit", store / "data/flowers", store / "in/missing.csv")
    assert (done.returncode, done.stderr.count("\n")) == (3, 2)
