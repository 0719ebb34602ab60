"""Datasets on an object store: a real S3 server on loopback."""

from __future__ import annotations

import json
import pickle
import shutil
from collections import Counter
from pathlib import Path

import downloads
import pytest
from conftest import ROOT, Cli
from pictures import png
from stores import Store, few_flowers
from viewing import viewing

import imgrec
from imgrec.cli.main import main
from imgrec.storage.paths import to_path

pytestmark = pytest.mark.stores
FLOWERS = few_flowers()
OPTIONS = {"val_split": 0.1, "shards": 4}


def packed_here(data_dir: Path, **options: object) -> dict[str, bytes]:
    """Pack the flowers on the disk, and return all files by name."""
    given = imgrec.PackOptions(data_dir=str(data_dir), **{"val_split": 0.1, **options})  # type: ignore[arg-type]
    folder = Path(imgrec.pack(FLOWERS, given).info.path)
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def pack_there(store: Store, **options: object) -> imgrec.Packed:
    given = imgrec.PackOptions(data_dir=store / "data", **{"val_split": 0.1, **options})  # type: ignore[arg-type]
    return imgrec.pack(FLOWERS, given)


def there(store: Store) -> dict[str, bytes]:
    prefix = "data/flowers/1.0.0/"
    return {key.removeprefix(prefix): data for key, data in store.keys(prefix).items()}


def test_a_pack_on_a_store_has_the_bytes_of_one_on_a_disk_and_is_made_visible_last(
    store: Store, data_dir: Path
) -> None:
    packed = pack_there(store)
    assert packed.is_new
    assert packed.info.path == store / "data/flowers/1.0.0"
    assert there(store) == packed_here(data_dir)
    assert sorted(store.keys("data/flowers/.")) == ["data/flowers/.1.0.0.origin.json"]
    writes = [path for method, path in store.proxy.seen if method in ("PUT", "POST")]
    written = [path.partition("?")[0].rpartition("/")[2] for path in writes if "1.0.0/" in path]
    assert written[-1] == "dataset_info.json"
    assert written.count("dataset_info.json") == 1
    store.proxy.seen.clear()
    assert not pack_there(store).is_new  # packing the same again does nothing
    changed = [path for method, path in store.proxy.seen if method not in ("GET", "HEAD")]
    assert all(path.endswith(".origin.json") for path in changed)


def test_large_files_go_in_parts(store: Store, tmp_path: Path) -> None:
    from imgrec.storage.remote.transfer import Uploader

    path = tmp_path / "shard"
    path.write_bytes(bytes(range(256)) * (160 << 10))
    uploader = Uploader()
    found = uploader.upload(str(path), store / "shard")
    uploader.close()
    assert store.get("shard") == path.read_bytes()
    assert found.size == 40 << 20
    assert len(store.proxy.methods("partNumber=")) == 3


def test_all_verbs_that_read_work_on_it(store: Store, cli: Cli, tmp_path: Path) -> None:
    pack_there(store)
    url = store / "data/flowers"
    page, sheet = tmp_path / "page.html", tmp_path / "sheet.png"
    for arguments in (
        ["info", url], ["verify", url], ["verify", url, "--decode"], ["head", url, "-n", "2"],
        ["show", url, "3"], ["info", store / "data"], ["unpack", url, str(tmp_path / "out")],
        ["info", "flowers:1.0.0", "--data-dir", store / "data"],
        ["verify", "flowers", "--data-dir", store / "data"],
        ["info", f"S3://{store.bucket}/data/flowers"],
        ["report", url, "-o", page], ["preview", url, "-o", sheet],
    ):  # fmt: skip
        done = cli(*arguments)
        assert (done.returncode, done.stderr) == (0, ""), arguments
    assert (tmp_path / "out" / "rose").is_dir()
    assert "data:image/jpeg" in page.read_text()
    assert sheet.read_bytes().startswith(b"\x89PNG")


def test_predictions_for_it_become_a_submission(store: Store, cli: Cli, tmp_path: Path) -> None:
    download = downloads.aptos()
    source = downloads.write(download, tmp_path)
    imgrec.pack(source, imgrec.PackOptions(data_dir=store / "data", name="aptos"))
    sample = download.files["sample_submission.csv"]
    assert store.get("data/aptos/1.0.0/sample_submission.csv") == sample
    (tmp_path / "p.csv").write_bytes(sample.replace(b",0\n", b",2\n"))
    done = cli("submit", store / "data/aptos", tmp_path / "p.csv", "-o", tmp_path / "s.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert (tmp_path / "s.csv").read_bytes() == (tmp_path / "p.csv").read_bytes()


def test_records_are_read_by_ranges(store: Store, data_dir: Path) -> None:
    pack_there(store)
    packed_here(data_dir)
    far = imgrec.open_dataset(store / "data/flowers")
    near = imgrec.open_dataset("flowers", data_dir=data_dir)
    assert list(far["train"]) == list(near["train"])
    assert far["train"][5] == near["train"][5]
    assert list(far["all"][[7, 3, 20, 4]]) == list(near["all"][[7, 3, 20, 4]])
    assert far["train"].of_class("rose")[0] == near["train"].of_class("rose")[0]
    store.proxy.seen.clear()
    again = pickle.loads(pickle.dumps(far))["train"]
    assert again[9] == near["train"][9]
    assert again[10] == near["train"][10]
    assert store.proxy.methods() == ["GET"] * 2  # a request for each; the index is known


def test_another_dataset_is_in_the_way_unless_it_is_to_be_replaced(store: Store) -> None:
    pack_there(store)
    before = store.keys()
    with pytest.raises(imgrec.DatasetExists):
        pack_there(store, val_split=0.3)
    assert store.keys() == before
    assert pack_there(store, val_split=0.3, overwrite=True).is_new
    assert not imgrec.verify(store / "data/flowers").faults
    assert sorted(store.keys("data/flowers/.")) == ["data/flowers/.1.0.0.origin.json"]


def test_a_dataset_that_is_replaced_is_whole_until_the_new_one_is(
    store: Store, data_dir: Path
) -> None:
    pack_there(store)
    before = there(store)
    store.proxy.fault = lambda method, path: "403" if method == "DELETE" else ""
    with pytest.raises(imgrec.ExecutionError):
        pack_there(store, val_split=0.3, overwrite=True)
    assert there(store) == before
    store.proxy.fault = lambda method, path: ""
    again = pack_there(store, val_split=0.3, overwrite=True)
    assert again.kept_shards == 2
    assert there(store) == packed_here(data_dir, val_split=0.3)


def test_files_of_others_are_never_removed(store: Store) -> None:
    store.put("data/flowers/1.0.0/notes.txt", b"mine")
    with pytest.raises(imgrec.DatasetExists):
        pack_there(store)
    assert store.keys() == {"data/flowers/1.0.0/notes.txt": b"mine"}


def test_a_pack_that_was_cut_off_goes_on(store: Store, data_dir: Path) -> None:
    def fails(method: str, path: str) -> str:
        return "403" if "samples.parquet" in path and method == "PUT" else ""

    store.proxy.fault = fails
    with pytest.raises(imgrec.ExecutionError):
        pack_there(store, **OPTIONS)
    assert "dataset_info.json" not in there(store)
    with pytest.raises(imgrec.DatasetNotFound):
        imgrec.info(store / "data/flowers")
    store.proxy.fault = lambda method, path: ""
    shard = next(name for name in there(store) if name.endswith("00000-of-00004"))
    store.put(f"data/flowers/1.0.0/{shard}", b"damaged")
    packed = pack_there(store, **OPTIONS)
    assert packed.kept_shards == 4
    assert there(store) == packed_here(data_dir, **OPTIONS)


def test_a_run_that_another_one_overtook_publishes_nothing(store: Store) -> None:
    def overtaken(method: str, path: str) -> str:
        if method == "PUT" and path.partition("?")[0].endswith("SHA256SUMS"):
            store.put("data/flowers/.1.0.0.incomplete/owner", b"someone else")
        return ""

    store.proxy.fault = overtaken
    with pytest.raises(imgrec.ExecutionError, match="another run has begun"):
        pack_there(store)
    assert "dataset_info.json" not in there(store)


def test_an_object_that_is_another_after_its_upload_is_noticed(store: Store) -> None:
    shard = "data/flowers/1.0.0/flowers-train.tfrecord-00000-of-00001"

    def garbled(method: str, path: str) -> str:
        if method == "PUT" and path.partition("?")[0].endswith("SHA256SUMS"):
            store.put(shard, bytes(len(store.keys(shard)[shard])))
        return ""

    store.proxy.fault = garbled
    with pytest.raises(imgrec.ExecutionError, match="is not what was sent there"):
        pack_there(store)
    assert "dataset_info.json" not in there(store)


@pytest.mark.parametrize("refused", ["", "400 MissingContentMD5"])
def test_leftovers_are_deleted_in_one_request_where_the_server_allows_it(
    store: Store, data_dir: Path, refused: str
) -> None:
    for number in range(3):
        store.put(f"data/flowers/.1.0.0.incomplete/attempts/{number}", b"sent")
    store.put("data/flowers/.1.0.0.incomplete/notes/run", b"")
    seen: list[str] = []

    def fault(method: str, path: str) -> str:
        is_batch = method == "POST" and path.endswith("?delete")
        seen.extend([method] if is_batch or method == "DELETE" else ())
        return refused if is_batch else ""

    store.proxy.fault = fault
    pack_there(store)
    assert there(store) == packed_here(data_dir)
    assert not store.keys("data/flowers/.1.0.0.incomplete")
    assert "POST" in seen
    assert ("DELETE" in seen) == bool(refused)


def test_verify_finds_a_flipped_bit(store: Store) -> None:
    pack_there(store)
    (shard,) = (name for name in there(store) if name.endswith("train.tfrecord-00000-of-00001"))
    data = bytearray(there(store)[shard])
    data[5000] ^= 1
    store.put(f"data/flowers/1.0.0/{shard}", bytes(data))
    faults = imgrec.verify(store / "data/flowers").faults
    assert {fault.path for fault in faults} == {shard}


@pytest.fixture
def pictures(store: Store) -> Store:
    """Put the photographs on the store."""
    store.put_tree(FLOWERS, "in/flowers")
    store.proxy.seen.clear()
    return store


def test_class_folders_on_a_store_give_the_bytes_of_those_on_a_disk(
    pictures: Store, data_dir: Path, tmp_path: Path
) -> None:
    options = imgrec.PackOptions(data_dir=str(tmp_path / "far"), val_split=0.1, thumbnails=0)
    packed = imgrec.pack(pictures / "in/flowers", options)
    far = {path.name: path.read_bytes() for path in Path(packed.info.path).iterdir()}
    assert far == packed_here(data_dir, thumbnails=0)
    assert set(pictures.proxy.methods("in/flowers/")) == {"GET"}  # many at once, by ranges


def test_a_small_image_on_a_store_is_requested_once(pictures: Store, tmp_path: Path) -> None:
    pictures.put("in/flowers/rose/large.png", png(1) + bytes(1 << 18))
    earlier = imgrec.pack(FLOWERS, data_dir=tmp_path, name="earlier").info.path
    pictures.proxy.seen.clear()
    imgrec.pack(
        pictures / "in/flowers", data_dir=tmp_path, split_from=earlier, val_split=0.1, workers=2
    )
    seen = Counter(path.partition("?")[0] for _, path in pictures.proxy.seen if ".jpg" in path)
    assert set(seen.values()) == {1}
    # A first look, the hash for --split-from, the image, and its picture in the report.
    assert len(pictures.proxy.methods("in/flowers/rose/large.png")) == 4


def test_from_a_store_to_a_store(pictures: Store, data_dir: Path) -> None:
    options = imgrec.PackOptions(data_dir=pictures / "data", val_split=0.1)
    assert imgrec.pack(pictures / "in/flowers", options).is_new
    assert there(pictures) == packed_here(data_dir)
    assert not imgrec.verify(pictures / "data/flowers", source=pictures / "in/flowers").faults


@pytest.mark.parametrize("name", ["flowers.zip", "digits", "flowers.csv"])
def test_archives_arrays_and_tables_on_a_store_are_packed_as_on_a_disk(
    store: Store, tmp_path: Path, name: str
) -> None:
    root = tmp_path / "in"
    shutil.copytree(FLOWERS, root / "flowers")
    shutil.make_archive(str(root / "flowers"), "zip", FLOWERS)
    shutil.copytree(ROOT / "sample_data" / "digits", root / "digits")
    images = [path for path in FLOWERS.rglob("*") if path.is_file()]
    rows = [f"{path.relative_to(FLOWERS)},{path.parent.name}\n" for path in images]
    (root / "flowers.csv").write_text("".join(["image,species\n", *rows]))
    store.put_tree(root, "in")
    results = []
    for place, here in (("near", str(root)), ("far", store / "in")):
        source = imgrec.SourceOptions(images=f"{here}/flowers" if name == "flowers.csv" else "")
        options = imgrec.PackOptions(data_dir=str(tmp_path / place), name="same", source=source)
        packed = imgrec.pack(f"{here}/{name}", options)
        results.append({path.name: path.read_bytes() for path in Path(packed.info.path).iterdir()})
    assert results[0] == results[1]


def test_a_missing_source_is_reported(store: Store, cli: Cli) -> None:
    done = cli("pack", store / "nothing")
    assert done.returncode == 3
    assert done.stderr.startswith(f"imgrec: there is nothing at {store / 'nothing'}\n")


def batches(data: object) -> list[tuple[bytes, bytes]]:
    return [(images.numpy().tobytes(), labels.numpy().tobytes()) for images, labels in data]  # type: ignore[attr-defined]


@pytest.mark.slow
def test_load_streams_from_a_store_or_copies_it_once(
    store: Store, data_dir: Path, tmp_path: Path
) -> None:
    pytest.importorskip("tensorflow", reason="TensorFlow is not installed")
    pack_there(store, **OPTIONS)
    packed_here(data_dir, **OPTIONS)
    options = {"image_size": 32, "batch_size": 16}
    near = batches(imgrec.load("flowers", data_dir=data_dir, **options))
    url, cache = store / "data/flowers", tmp_path / "cache"
    assert batches(imgrec.load(url, **options)) == near
    assert batches(imgrec.load(url, "train[3:20]", image_size=32)) == batches(
        imgrec.load("flowers", "train[3:20]", image_size=32, data_dir=data_dir)
    )
    assert batches(imgrec.load(url, cache_dir=cache, **options)) == near
    store.proxy.seen.clear()
    assert batches(imgrec.load(url, cache_dir=cache, **options)) == near
    assert store.proxy.methods(r"of-0000\d$") == []
    shard = next(path for path in cache.rglob("*train*of-?????"))
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-5])
    assert batches(imgrec.load(url, cache_dir=cache, **options)) == near
    assert shard.read_bytes() == whole
    assert not list(cache.rglob("*val*"))  # only what is read


def test_a_dataset_on_a_store_is_viewed(store: Store) -> None:
    pytest.importorskip("starlette", reason="starlette is not installed")
    pytest.importorskip("uvicorn", reason="uvicorn is not installed")
    info = pack_there(store).info
    images = sum(split.examples for split in info.splits)
    with viewing(to_path(info.path)) as viewer:
        found = viewer.page()
        frames = viewer.ask("api/thumbnails?side=192&n=0,5").frames
    assert found["total"] == images
    assert [kind for kind, _ in frames.values()] == [0, 0]


def test_doctor_names_the_line_that_loads_a_dataset_on_a_store(store: Store, cli: Cli) -> None:
    url = pack_there(store).info.path
    for arguments in ((url,), ("flowers", "--data-dir", store / "data")):
        done = cli("doctor", *arguments, "--quick", "--json")
        assert done.returncode == 1, done.stderr
        [case] = json.loads(done.stdout)["datasets"]
        assert [fault["cause"] for fault in case["faults"]] == ["store"]
        assert case["load"] == f'imgrec.load({url!r}, split="train")'
    [shard] = (name for name in there(store) if "train" in name and name.endswith("-00001"))
    store.delete(f"data/flowers/1.0.0/{shard}")
    done = cli("doctor", url, "--quick")
    assert f"fault       {shard} is missing" in done.stdout
    store.put("plain/a.tfrecord", there(store)[shard.replace("train", "val")])
    done = cli("doctor", store / "plain", "--quick")
    assert f"['{store / 'plain/a.tfrecord'}']" in done.stdout


def test_a_source_on_a_store_is_reported_previewed_and_searched_for_leaks(
    store: Store, cli: Cli, tmp_path: Path
) -> None:
    store.put_tree(FLOWERS, "in/flowers")
    page, sheet = tmp_path / "page.html", tmp_path / "sheet.png"
    far = imgrec.report(store / "in/flowers", path=page)
    near = imgrec.report(FLOWERS, path=tmp_path / "near.html")
    assert (far.facts.totals, far.thumbnails) == (near.facts.totals, near.thumbnails)
    assert imgrec.preview(store / "in/flowers", path=sheet).total > 0
    found = cli("leaks", store / "in/flowers", "--json")
    assert found.returncode == 0, found.stderr
    assert json.loads(found.stdout)["images"] == sum(far.facts.totals)
    done = cli("report", store / "nothing")
    assert done.returncode == 5
    assert done.stderr.count("\n") == 2


def test_leaks_of_a_dataset_on_a_store_are_those_of_one_on_the_disk(
    store: Store, cli: Cli, data_dir: Path
) -> None:
    pack_there(store)
    packed_here(data_dir)
    far, near = (
        cli("leaks", url, "--json") for url in (store / "data/flowers", data_dir / "flowers")
    )
    assert far.returncode == near.returncode, far.stderr
    found, expected = json.loads(far.stdout), json.loads(near.stdout)
    for key in ("images", "flat", "unreadable", "leaking", "counts", "groups"):
        assert found[key] == expected[key]


def test_the_default_data_directory_may_be_on_a_store(
    store: Store, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TFDS_DATA_DIR", store / "data")
    packed = imgrec.pack(FLOWERS)
    assert packed.info.path == store / "data/flowers/1.0.0"
    assert packed.info.load == f"imgrec.load('{store / 'data/flowers/1.0.0'}', split=\"train\")"
    assert imgrec.open_dataset("flowers").info == packed.info
    assert imgrec.verify("flowers").faults == ()
    with pytest.raises(imgrec.DatasetNotFound, match="no dataset 'flower'") as caught:
        imgrec.info("flower")
    assert caught.value.hint.startswith("did you mean flowers?")
    assert main(["clean"]) == 0
    assert "nothing to remove" in capsys.readouterr().out


def test_a_local_folder_is_found_whatever_the_default_data_directory_is(
    data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The store does not exist, and nothing asks it."""
    packed_here(data_dir)
    monkeypatch.setenv("TFDS_DATA_DIR", "s3://nowhere/data")
    assert imgrec.verify(data_dir / "flowers").faults == ()
    info = imgrec.info(data_dir / "flowers")
    assert imgrec.info("flowers", data_dir=data_dir) == info


def test_versions_on_a_store_are_listed_and_compared_without_reading_a_shard(
    store: Store, data_dir: Path
) -> None:
    pack_there(store)
    pack_there(store, version="1.1.0", seed=7)
    store.proxy.seen.clear()
    [listed] = imgrec.list_datasets(data_dir=store / "data").datasets
    assert [one.version for one in listed.versions] == ["1.0.0", "1.1.0"]
    assert {(one.state, one.by_imgrec) for one in listed.versions} == {("complete", True)}
    assert listed.versions[0].size == sum(map(len, there(store).values()))
    found = imgrec.diff("flowers", data_dir=store / "data")
    assert [change.name for change in found.options or ()] == ["seed"]
    assert found.before.images == found.after.images
    read = [path for method, path in store.proxy.seen if method == "GET" and "-of-" in path]
    assert read == []
    packed_here(data_dir)
    across = imgrec.diff(store / "data/flowers/1.0.0", data_dir / "flowers")
    assert not across.is_different
