"""Updates and edits of datasets on an object store: a real S3 server on loopback."""

from __future__ import annotations

from pathlib import Path

import pytest
from pictures import class_tree, jpeg, write_tree
from stores import Store

import imgrec
from imgrec.errors import ExecutionError

pytestmark = pytest.mark.stores


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "flowers", {"rose": 20, "tulip": 20})


def pack(source: Path, data_dir: object, **options: object) -> None:
    settings = {"val_split": 0.2, "shards": 4, "workers": 1, **options}
    imgrec.pack(source, data_dir=str(data_dir), **settings)  # type: ignore[arg-type]


def change(source: Path) -> None:
    write_tree(source, {"rose/new.jpg": jpeg(900)})
    (source / "tulip/003.jpg").unlink()


def there(store: Store, version: str) -> dict[str, bytes]:
    prefix = f"data/flowers/{version}/"
    return {key.removeprefix(prefix): data for key, data in store.keys(prefix).items()}


def test_an_update_on_a_store_has_the_bytes_of_one_on_a_disk(
    store: Store, source: Path, data_dir: Path
) -> None:
    pack(source, data_dir)
    pack(source, store / "data")
    change(source)
    here = imgrec.update("flowers", data_dir=data_dir)
    away = imgrec.update("flowers", data_dir=store / "data")
    files = {path.name: path.read_bytes() for path in Path(here.info.path).iterdir()}
    assert there(store, "1.1.0") == files
    assert away.reused_shards == here.reused_shards
    assert imgrec.verify(away.info.path, source=source).faults == ()
    assert not imgrec.update("flowers", data_dir=store / "data").is_new


def test_shards_without_a_change_are_copied_by_the_store(store: Store, source: Path) -> None:
    pack(source, store / "data")
    before = there(store, "1.0.0")
    change(source)
    store.proxy.sent.clear()
    updated = imgrec.update("flowers", data_dir=store / "data")
    after = there(store, "1.1.0")
    copied = [name for name, data in after.items() if "-of-" in name and data in before.values()]
    assert len(copied) == 2 * updated.reused_shards > 0
    shards = [one for one in store.proxy.sent if "-of-" in one[0] and "/notes/" not in one[0]]
    assert 0 < sum(size for _, size in shards) <= 1.2 * updated.written_bytes
    assert there(store, "1.0.0") == before


def test_an_edit_on_a_store_and_one_that_was_cut_off(
    store: Store, source: Path, data_dir: Path, tmp_path: Path
) -> None:
    table = tmp_path / "labels.csv"
    table.write_text("filename,label\nrose/001.jpg,tulip\nrose/010.jpg,tulip\n")
    pack(source, data_dir)
    pack(source, store / "data")
    store.proxy.fault = lambda method, path: (
        "403" if method == "PUT" and path.endswith("/1.1.0/features.json") else ""
    )
    with pytest.raises(ExecutionError):
        imgrec.edit("flowers", table, data_dir=store / "data")
    assert "dataset_info.json" not in there(store, "1.1.0")
    store.proxy.fault = lambda method, path: ""
    edited = imgrec.edit("flowers", table, data_dir=store / "data")
    assert edited.kept_shards > 0
    here = imgrec.edit("flowers", table, data_dir=data_dir)
    files = {path.name: path.read_bytes() for path in Path(here.info.path).iterdir()}
    assert there(store, "1.1.0") == files


def test_a_source_on_a_store_grows(store: Store, source: Path, data_dir: Path) -> None:
    store.put_tree(source, "flowers")
    pack(store / "flowers", data_dir)  # type: ignore[arg-type]
    assert not imgrec.update("flowers", data_dir=data_dir).is_new
    store.put("flowers/rose/new.jpg", jpeg(900))
    store.delete("flowers/tulip/003.jpg")
    updated = imgrec.update("flowers", data_dir=data_dir)
    assert updated.difference is not None
    assert (updated.difference.counts["added"], updated.difference.counts["removed"]) == (1, 1)
