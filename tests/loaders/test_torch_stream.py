"""`imgrec.torch_stream` in the real PyTorch, from a disk and from a store."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from inline import pack
from pictures import class_tree, encode, write_tree
from PIL import Image
from stores import Store

import imgrec
from imgrec.errors import UnknownName, UsageError
from imgrec.loaders import torch_dataset, torch_stream

if HAS_TORCH := find_spec("torch") is not None:
    import torch
    from torch.utils.data import DataLoader

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(not HAS_TORCH, reason="PyTorch is missing: pip install 'imgrec[torch]'"),
]
COUNT, BATCH = 61, 4
OPTIONS: dict[str, Any] = {"shuffle": 12, "seed": 5, "batch_size": BATCH, "image_size": 4}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of 61 images in 8 shards."""
    folder = tmp_path_factory.mktemp("stream")
    return pack(class_tree(folder / "trees", {"ash": 40, "birch": 21}), folder / "data", shards=8)


def batches(stream: Any, workers: int = 0, **options: Any) -> list[list[bytes]]:
    """Return the pixels of each batch."""
    loader = DataLoader(stream, batch_size=BATCH, num_workers=workers, **options)
    return list(map(pixels, loader))


def pixels(batch: Any) -> list[bytes]:
    return [image.numpy().tobytes() for image in batch[0]]


def flat(rows: list[list[bytes]]) -> list[bytes]:
    return [one for row in rows for one in row]


def test_an_epoch_has_each_image_once_in_an_order_of_seed_and_epoch(root: Path) -> None:
    stream = torch_stream(root, **OPTIONS)
    images = [image.numpy().tobytes() for image, _ in torch_dataset(root, image_size=4)]
    first = flat(batches(stream))
    assert (len(stream), len(first)) == (COUNT, COUNT)
    assert sorted(first) == sorted(images)
    assert first != images
    assert flat(batches(torch_stream(root, **OPTIONS))) == first
    stream.set_epoch(1)
    assert sorted(second := flat(batches(stream))) == sorted(images)
    assert second != first
    assert flat(batches(torch_stream(root, image_size=4))) == images
    image, label = next(iter(torch_stream(root, transform=lambda one: one.size)))
    assert (image, label) == ((24, 16), torch_dataset(root)[0][1])


@pytest.mark.slow
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_batches_are_the_same_with_any_number_of_workers(root: Path, context: str) -> None:
    stream = torch_stream(root, **OPTIONS)
    alone = batches(stream)
    loader = DataLoader(
        stream, batch_size=BATCH, num_workers=3, persistent_workers=True,
        multiprocessing_context=context,
    )  # fmt: skip
    assert [pixels(batch) for batch in loader] == alone
    stream.set_epoch(1)  # workers that live on hear of it
    later = [pixels(batch) for batch in loader]
    assert later == batches(stream)
    assert later != alone


@pytest.mark.parametrize("ranks", [2, 3, 64])
def test_ranks_share_the_order_and_have_equally_many_samples(root: Path, ranks: int) -> None:
    whole = flat(batches(torch_stream(root, **OPTIONS)))
    streams = [torch_stream(root, rank=rank, world_size=ranks, **OPTIONS) for rank in range(ranks)]
    parts = [flat(batches(stream)) for stream in streams]
    assert {*map(len, parts)} == {*map(len, streams)} == {-(-COUNT // ranks)}
    together = [one for row in zip(*parts, strict=True) for one in row]
    assert together == (whole * 2)[: len(together)]


def test_an_epoch_continues_after_a_number_of_samples_with_other_ranks(root: Path) -> None:
    whole = flat(batches(torch_stream(root, **OPTIONS)))
    done = 5 * BATCH * 2  # five steps of two ranks
    rests = []
    for rank in range(3):
        stream = torch_stream(root, rank=rank, world_size=3, **OPTIONS)
        stream.set_epoch(0, skip_to=done)
        rests.append(flat(batches(stream)))
        assert len(stream) == len(rests[-1]) == 7
    assert [one for row in zip(*rests, strict=True) for one in row] == whole[done:]
    stream = torch_stream(root, **OPTIONS)
    stream.set_epoch(0, skip_to=1000)
    assert (len(stream), batches(stream)) == (0, [])
    stream.set_epoch(0)
    assert flat(batches(stream)) == whole


@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_stateful_loader_resumes_in_the_middle_of_an_epoch(root: Path, workers: int) -> None:
    torchdata = pytest.importorskip("torchdata.stateful_dataloader", reason="torchdata is missing")

    def loader(begin: int = 0) -> Any:
        stream = torch_stream(root, **OPTIONS)
        stream.set_epoch(2, skip_to=begin)
        return torchdata.StatefulDataLoader(stream, batch_size=BATCH, num_workers=workers)

    for begin in (0, 8):
        whole = [pixels(batch) for batch in loader(begin)]
        for done in (1, 5, len(whole)):
            used = loader(begin)
            rows = iter(used)
            before = [pixels(next(rows)) for _ in range(done)]
            state = pickle.loads(pickle.dumps(used.state_dict()))
            again = loader()
            again.load_state_dict(state)
            assert before + [pixels(batch) for batch in again] == whole
    assert [pixels(batch) for batch in again] == [pixels(batch) for batch in loader(8)]


def test_the_state_of_one_rank_resumes_every_rank(root: Path) -> None:
    def stream(rank: int) -> Any:
        return torch_stream(root, rank=rank, world_size=2, **OPTIONS)

    first = stream(0)
    rows = iter(DataLoader(first, batch_size=BATCH))
    for _ in range(3):
        next(rows)
    state = first.state_dict()  # Lightning's checkpoints have that of rank 0 alone
    for rank in range(2):
        again = stream(rank)
        again.load_state_dict(state)
        assert batches(again) == batches(stream(rank))[3:]


def test_a_state_of_another_order_is_refused(root: Path) -> None:
    state = torch_stream(root, **OPTIONS).state_dict()
    for changed in ({"seed": 6}, {"batch_size": 2}, {"rank": 0, "world_size": 2}, {"shuffle": 9}):
        stream = torch_stream(root, **{**OPTIONS, **changed})
        with pytest.raises(UsageError, match="the state is of a stream with ") as caught:
            stream.load_state_dict(state)
        assert "set_epoch(epoch, skip_to=samples)" in caught.value.hint


@pytest.fixture
def group(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    store = torch.distributed.FileStore(str(tmp_path / "group"), 1)
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_ranks_are_found(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stream = torch_stream(root, **OPTIONS)
    parts = []
    monkeypatch.setenv("WORLD_SIZE", "2")
    for rank in "01":
        monkeypatch.setenv("RANK", rank)
        parts.append(flat(batches(stream)))
    assert [one for pair in zip(*parts, strict=True) for one in pair][:COUNT] == flat(
        batches(torch_stream(root, rank=0, world_size=1, **OPTIONS))
    )
    monkeypatch.setenv("RANK", "2")
    with pytest.raises(UsageError, match="RANK='2' and WORLD_SIZE='2' are no rank and number of"):
        len(stream)


def test_the_group_of_torch_goes_before_the_environment(
    root: Path, group: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "4")
    stream = torch_stream(root, **OPTIONS)
    assert len(stream) == COUNT
    torch.distributed.destroy_process_group()
    copy = pickle.dumps(stream)
    torch.distributed.init_process_group(
        "gloo", store=torch.distributed.HashStore(), rank=0, world_size=1
    )
    assert len(pickle.loads(copy)) == COUNT


def test_wrong_use_is_an_error(root: Path, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="has no argument 'world'") as caught:
        torch_stream(root, world=2)  # type: ignore[call-arg]
    assert "world_size" in caught.value.hint
    with pytest.raises(UsageError, match="rank and world_size go together"):
        torch_stream(root, rank=1)
    with pytest.raises(UsageError, match="rank 2 does not fit world_size 2"):
        torch_stream(root, rank=2, world_size=2)
    with pytest.raises(UsageError, match=r"split 'train\[:0\]' is empty"):
        torch_stream(root, "train[:0]")
    with pytest.raises(UnknownName, match="there is no split 'val'"):
        torch_stream(root, "val")
    with pytest.raises(UsageError, match="epoch must be at least 0"):
        torch_stream(root).set_epoch(-1)


# Stores


@pytest.fixture
def url(root: Path, store: Store) -> str:
    store.put_tree(root, "data/trees/1.0.0")
    return store / "data/trees"


@pytest.mark.stores
def test_a_stream_from_a_store_reads_large_ranges_and_nothing_that_is_skipped(
    root: Path, store: Store, url: str
) -> None:
    near, far = torch_stream(root, **OPTIONS), torch_stream(url, **OPTIONS)
    store.proxy.seen.clear()
    assert batches(far) == batches(near)
    reads = [path for _, path in store.proxy.seen if "tfrecord" in path and ".idx" not in path]
    assert len(reads) == 8  # a request for each shard
    far = torch_stream(url, **OPTIONS)
    for stream in (near, far):
        stream.set_epoch(0, skip_to=50)
    store.proxy.seen.clear()
    assert batches(far) == batches(near)
    reads = [path for _, path in store.proxy.seen if "tfrecord" in path]
    assert 0 < len(reads) <= 3 * 2  # index and records of the shards of the last block
    assert flat(batches(torch_stream(url, "train[3:20]", image_size=4))) == flat(
        batches(torch_stream(root, "train[3:20]", image_size=4))
    )


@pytest.mark.stores
def test_ranks_read_past_records_of_others_rather_than_request_each_of_theirs(
    store: Store, tmp_path: Path
) -> None:
    # 40 images of about 40 KB: with a request for each run of records, there would be ten.
    noise = [encode(Image.effect_noise((200, 200), 90 + n), "PNG") for n in range(40)]
    tree = {f"{'ash' if n % 2 else 'fir'}/{n}.png": data for n, data in enumerate(noise)}
    near = pack(write_tree(tmp_path / "noise", tree), tmp_path / "data", shards=1)
    store.put_tree(near, "data/noise/1.0.0")
    for rank in (0, 1):
        options = {**OPTIONS, "rank": rank, "world_size": 2}
        far = torch_stream(store / "data/noise", **options)
        store.proxy.seen.clear()
        assert batches(far) == batches(torch_stream(near, **options))
        assert len(store.proxy.methods("of-00001$")) <= 2


@pytest.mark.stores
def test_a_missing_shard_on_a_store_is_an_error(store: Store, url: str) -> None:
    stream = torch_stream(url, **OPTIONS)
    shard = next(key for key in store.keys("data") if key.endswith("00003-of-00008"))
    store.delete(shard)
    with pytest.raises(imgrec.DatasetError, match=f"cannot read .*{shard}"):
        batches(stream)


@pytest.mark.stores
@pytest.mark.parametrize("workers", [0, pytest.param(2, marks=pytest.mark.slow)])
def test_a_cache_holds_no_more_than_its_bound_and_the_batches_are_the_same(
    root: Path, store: Store, url: str, tmp_path: Path, workers: int
) -> None:
    near = batches(torch_stream(root, **OPTIONS))
    whole = sum(path.stat().st_size for path in root.glob("*of-00008"))
    for bound, kept in ((None, 8), (whole // 3, 2), (10, 0)):
        folder = tmp_path / f"{bound}"
        stream = torch_stream(url, cache_dir=folder, cache_bytes=bound, **OPTIONS)
        assert batches(stream, workers) == near
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        assert len(sizes) >= kept
        assert sum(sizes) <= (bound or whole)
    store.proxy.seen.clear()
    assert batches(torch_stream(url, cache_dir=tmp_path / "None", **OPTIONS), workers) == near
    assert [path for _, path in store.proxy.seen if path.endswith("of-00008")] == []


@pytest.mark.stores
def test_a_shard_that_can_never_fit_into_the_cache_is_named_once(
    root: Path, url: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    stream = torch_stream(url, cache_dir=tmp_path, cache_bytes=10, **OPTIONS)
    assert batches(stream) == batches(torch_stream(root, **OPTIONS))
    (warning,) = (one for one in caplog.records if one.levelname == "WARNING")
    assert re.search(r"-of-00008 has .* KiB, more than cache_bytes \(10 B\)", warning.getMessage())


@pytest.mark.stores
def test_wrong_use_of_a_cache_is_an_error(root: Path, url: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cache_bytes needs cache_dir"):
        torch_stream(url, cache_bytes="1GiB")
    with pytest.raises(UsageError, match="cache_bytes cannot be 'big'"):
        torch_stream(url, cache_dir=tmp_path, cache_bytes="big")
    with pytest.raises(UsageError, match="cache_dir does not work on an object store"):
        torch_dataset(url, cache_dir=url)
    with pytest.raises(UsageError, match="cache_dir has no effect on a dataset that is open"):
        torch_stream(imgrec.open_dataset(root), cache_dir=tmp_path)
