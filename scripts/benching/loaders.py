"""The loaders: imgrec and its peers, each used as its documentation shows.

`python -m benching.loaders NAME TASK` runs an epoch for each line of input, and prints its figures.
"""

from __future__ import annotations

import io
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

from benching.packers import halves, images_of


class Task(NamedTuple):
    """The data of a loader."""

    folder: str
    """The images in class folders."""
    packed: str
    """The same images, packed by the same peer."""
    size: int
    """The side to resize to; 0 if all images have one size."""
    batch: int
    """Images in a batch; 0 to read single records at random."""
    cache: str = ""
    """Where copies of shards are kept, if `packed` is on a store."""


Epoch = Callable[[], Iterable[Any]]
"""Goes through the data once; yields batches of images, or the bytes of single images."""
Maker = Callable[[Task], Epoch]


def _first_of(batches: Iterable[Any]) -> Epoch:
    """Drop the labels of batches."""

    def epoch() -> Iterator[Any]:
        for images, _labels in batches:
            yield images

    return epoch


def _at_random(count: int) -> list[int]:
    return random.Random(1).sample(range(count), count)


def _torch_batches(data: Any, batch: int, **more: Any) -> Epoch:
    from torch.utils.data import DataLoader

    loader = DataLoader(data, batch_size=batch, num_workers=2, persistent_workers=True, **more)
    return _first_of(loader)


def _pixels(image: Any, size: int) -> Any:
    """Convert a Pillow image to an array, resized bilinearly, channels last."""
    import numpy as np
    from PIL import Image

    image = image.convert("RGB")
    if size:
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return np.array(image)


def _tensor(image: Any, size: int) -> Any:
    import torch

    return torch.from_numpy(_pixels(image, size)).permute(2, 0, 1).contiguous()


def _decoded(data: bytes) -> Any:
    from PIL import Image

    return Image.open(io.BytesIO(data))


# imgrec


def _load(**options: Any) -> Maker:
    def make(task: Task) -> Epoch:
        import imgrec

        if task.size or options.get("cache"):
            options["image_size"] = task.size or 32
        return _first_of(imgrec.load(task.packed, "all", batch_size=task.batch, **options))

    return make


def _torch(**options: Any) -> Maker:
    def make(task: Task) -> Epoch:
        import imgrec

        data = imgrec.torch_dataset(task.packed, "all", image_size=task.size or None, **options)
        return _torch_batches(data, task.batch)

    return make


# imgrec from a store: shuffled, with copies of shards in a folder or without.


def _load_far(*, is_cached: bool) -> Maker:
    def make(task: Task) -> Epoch:
        import imgrec

        cache = task.cache if is_cached else ""
        return _first_of(
            imgrec.load(
                task.packed, "all", image_size=task.size, batch_size=task.batch, shuffle=True,
                cache_dir=cache,
            )
        )  # fmt: skip

    return make


def _torch_far(*, is_cached: bool) -> Maker:
    def make(task: Task) -> Epoch:
        import imgrec

        cache = task.cache if is_cached else ""
        data = imgrec.torch_dataset(task.packed, "all", image_size=task.size, cache_dir=cache)
        return _torch_batches(data, task.batch, shuffle=True)

    return make


def _stream_far(*, is_cached: bool) -> Maker:
    def make(task: Task) -> Epoch:
        import imgrec

        stream = imgrec.torch_stream(
            task.packed, "all", image_size=task.size, batch_size=task.batch, shuffle=True,
            cache_dir=task.cache if is_cached else "",
        )  # fmt: skip
        return _torch_batches(stream, task.batch)

    return make


def _grain_source(task: Task) -> Any:
    import grain

    import imgrec

    source = imgrec.grain_source(task.packed, "all", image_size=task.size or None)
    return grain.MapDataset.source(source).map(lambda record: (record["image"], record["label"]))


def _imgrec_at_random(task: Task) -> Epoch:
    import imgrec

    data = imgrec.open_dataset(task.packed)["all"]
    order = _at_random(len(data))
    return lambda: (data[number].image for number in order)


# Grain: threads, or processes that live across epochs.


class ArrayRecord:
    """Decodes a record; a class, as Grain pickles it for processes."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, record: bytes) -> Any:
        """Return the pixels and the label."""
        return _pixels(_decoded(record[4:]), self._size), int.from_bytes(record[:4], "little")


def _array_records(task: Task) -> Any:
    import grain

    paths = sorted(map(str, Path(task.packed).glob("*.array_record")))
    data = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(paths))
    return data.map(ArrayRecord(task.size))


def _threads(source: Callable[[Task], Any]) -> Maker:
    def make(task: Task) -> Epoch:
        import grain

        options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=128)
        batches = source(task).batch(task.batch)
        return lambda: _first_of(batches.to_iter_dataset(options))()

    return make


def _processes(source: Callable[[Task], Any]) -> Maker:
    def make(task: Task) -> Epoch:
        import grain

        data = source(task).batch(task.batch)
        # Reading ahead between two epochs is not timed, so keep it small.
        ahead = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
        workers = grain.MultiprocessingOptions(num_workers=2)
        batches = iter(data.repeat().to_iter_dataset(ahead).mp_prefetch(workers))
        return lambda: _first_of(islice(batches, len(data)))()

    return make


def _array_record_at_random(task: Task) -> Epoch:
    from array_record.python.array_record_module import ArrayRecordReader

    paths = sorted(map(str, Path(task.packed).glob("*.array_record")))
    readers = [ArrayRecordReader(path, options="readahead_buffer_size:0") for path in paths]
    places = [(reader, at) for reader in readers for at in range(reader.num_records())]
    order = [places[number] for number in _at_random(len(places))]
    return lambda: (reader.read([at])[0][4:] for reader, at in order)


# TensorFlow


def _tfds(task: Task) -> Epoch:
    """Load as documented; TFDS keeps datasets below 250 MiB in memory."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    data = tfds.load("peer", split="train", as_supervised=True, data_dir=task.packed)
    if task.size:
        side = (task.size, task.size)
        data = data.map(
            lambda image, label: (tf.image.resize(image, side), label), tf.data.AUTOTUNE
        )
    return _first_of(data.batch(task.batch).prefetch(tf.data.AUTOTUNE))


def _tfds_tuned(task: Task) -> Epoch:
    """Load as the performance guide shows: decode in parallel, in any order."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=2)
    config.options.deterministic = False
    skip = {"image": tfds.decode.SkipDecoding()}
    data = tfds.load("peer", split="train", data_dir=task.packed, read_config=config, decoders=skip)

    def decoded(record: Any) -> Any:
        image = tf.io.decode_jpeg(record["image"], channels=3)
        if task.size:
            image = tf.image.resize(image, (task.size, task.size))
            image = tf.cast(tf.round(image), tf.uint8)
        else:
            image.set_shape((32, 32, 3))
        return image, record["label"]

    data = data.map(decoded, tf.data.AUTOTUNE, deterministic=False)
    data = data.batch(task.batch, num_parallel_calls=tf.data.AUTOTUNE)
    return _first_of(data.prefetch(tf.data.AUTOTUNE))


def _keras(task: Task) -> Epoch:
    import keras

    side = (task.size or 32,) * 2
    return _first_of(
        keras.utils.image_dataset_from_directory(
            task.folder, image_size=side, batch_size=task.batch, shuffle=False, verbose=False
        )
    )


# PyTorch


def _folder(task: Task) -> Epoch:
    from torchvision.datasets import ImageFolder

    data = ImageFolder(task.folder, transform=lambda image: _tensor(image, task.size))
    return _torch_batches(data, task.batch)


def _folder_tuned(task: Task) -> Epoch:
    """Read the raw folder with torchvision's own decoder, and resize tensors."""
    from torchvision.datasets import ImageFolder
    from torchvision.io import ImageReadMode, decode_image, read_file
    from torchvision.transforms import v2

    resize = v2.Resize((task.size, task.size), antialias=True) if task.size else None
    data = ImageFolder(
        task.folder,
        transform=resize,
        loader=lambda path: decode_image(read_file(path), ImageReadMode.RGB),
    )
    return _torch_batches(data, task.batch)


def _webdataset(task: Task) -> Epoch:
    import webdataset as wds

    shards = sorted(map(str, Path(task.packed).glob("*.tar")))
    data = (
        wds.WebDataset(shards, shardshuffle=False)
        .decode("pil")
        .to_tuple("jpg", "cls")
        .map_tuple(lambda image: _tensor(image, task.size), int)
        .batched(task.batch)
    )
    return _first_of(wds.WebLoader(data, batch_size=None, num_workers=2, persistent_workers=True))


def _mds(task: Task) -> Epoch:
    from streaming import StreamingDataset
    from streaming.base.util import clean_stale_shared_memory

    clean_stale_shared_memory()  # a process that was killed leaves some

    class Images(StreamingDataset):  # type: ignore[misc]
        """Images and labels."""

        def __getitem__(self, at: Any) -> Any:
            sample = super().__getitem__(at)
            return _tensor(_decoded(sample["image"]), task.size), sample["label"]

    if task.cache:
        far = Images(remote=task.packed, local=task.cache, batch_size=task.batch, shuffle=True)
        for stream in far.streams:
            # Else its forked workers share one connection, and mix up the answers.
            stream._downloader.clean_up()
        return _torch_batches(far, task.batch)
    if task.batch:
        return _torch_batches(Images(local=task.packed, batch_size=task.batch), task.batch)
    data = StreamingDataset(local=task.packed, batch_size=1)
    order = _at_random(len(data))
    return lambda: (data[number]["image"] for number in order)


def _huggingface(task: Task) -> Epoch:
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    from datasets import Dataset, Image

    paths = sorted(map(str, Path(task.packed).glob("*.parquet")))
    data = Dataset.from_parquet(paths, cache_dir=f"{task.packed}/.read")
    if not task.batch:
        data = data.cast_column("image", Image(decode=False))
        order = _at_random(len(data))
        return lambda: (data[number]["image"]["bytes"] for number in order)

    def transform(rows: Any) -> Any:
        return {**rows, "image": [_tensor(image, task.size) for image in rows["image"]]}

    def collate(rows: Any) -> Any:
        import torch

        return torch.stack([row["image"] for row in rows]), [row["label"] for row in rows]

    return _torch_batches(data.with_transform(transform), task.batch, collate_fn=collate)


# libjpeg-turbo alone, at the smallest scale that covers the size: the limit for any loader.


def _decode(job: tuple[Sequence[str], int]) -> int:
    import simplejpeg

    paths, size = job
    least = {"min_height": size, "min_width": size, "min_factor": 1} if size else {}
    for path in paths:
        with open(path, "rb") as file:
            simplejpeg.decode_jpeg(file.read(), **least)
    return len(paths)


def _libjpeg(task: Task) -> Epoch:
    """Decode everything; batches have the right length but no pixels."""
    import numpy as np

    runs = [[image.path for image in run] for run in halves(images_of(task.folder))]
    pool = Pool(2)

    def epoch() -> Iterator[Any]:
        for count in pool.imap_unordered(_decode, [(run, task.size) for run in runs]):
            yield np.empty((count, task.size or 32, task.size or 32, 0), np.uint8)

    return epoch


class Loader(NamedTuple):
    """A contender that loads the images."""

    title: str
    pixels: str
    """How it resizes, and the type it yields."""
    make: Maker
    packer: str = ""
    """The packer whose output it reads; "" for the raw folder."""
    environment: str = ""
    against: str = ""
    """The loader of imgrec that does the same work."""


TF, TF8 = "bilinear, float32", "bilinear, uint8"
PIL = "antialiased bilinear, uint8"
SCALED = "scaled decoding, then "
OURS = "structure"

LOADERS: Mapping[str, Loader] = {
    "libjpeg": Loader(
        "libjpeg-turbo alone, 2 processes", "scaled decoding, not resized", _libjpeg, against="load"
    ),
    "load": Loader("**`imgrec.load`**", SCALED + TF8, _load(), OURS),
    "load_float": Loader(
        "**`imgrec.load(dtype='float32')`**", SCALED + TF, _load(dtype="float32"), OURS
    ),
    "load_exact": Loader("**`imgrec.load(exact=True)`**", TF8, _load(exact=True), OURS),
    "load_cached": Loader(
        "**`imgrec.load(cache=True)`**", "kept in memory, uint8", _load(cache=True), OURS
    ),
    "torch": Loader("**`imgrec.torch_dataset`**", SCALED + PIL, _torch(), OURS),
    "torch_exact": Loader("**`imgrec.torch_dataset(exact=True)`**", PIL, _torch(exact=True), OURS),
    "grain": Loader(
        "**`imgrec.grain_source`**, threads", SCALED + TF8, _threads(_grain_source), OURS
    ),
    "grain2": Loader(
        "**`imgrec.grain_source`**, 2 processes", SCALED + TF8, _processes(_grain_source), OURS
    ),
    "tfds": Loader("`tfds.load`, as documented", TF, _tfds, "tfds", "tensorflow", "load_float"),
    "tfds_tuned": Loader(
        "`tfds.load`, as its performance guide has it", TF8, _tfds_tuned,
        "tfds", "tensorflow", "load",
    ),
    "keras": Loader(
        "`keras.utils.image_dataset_from_directory`", TF, _keras, "", "tensorflow", "load_float"
    ),
    "folder": Loader("torch `ImageFolder`", PIL, _folder, "", "torchvision", "torch"),
    "folder_tuned": Loader(
        "torch `ImageFolder`, `torchvision.io`", PIL, _folder_tuned, "", "torchvision", "torch"
    ),
    "webdataset": Loader("webdataset", PIL, _webdataset, "webdataset", "webdataset", "torch"),
    "mds": Loader("MosaicML `StreamingDataset`", PIL, _mds, "mds", "mosaicml", "torch"),
    "huggingface": Loader(
        "Hugging Face `datasets`", PIL, _huggingface, "huggingface", "huggingface", "torch"
    ),
    "grain_threads": Loader(
        "Grain and array_record, threads", PIL, _threads(_array_records),
        "array_record", "grain", "grain",
    ),
    "grain_processes": Loader(
        "Grain and array_record, 2 processes", PIL, _processes(_array_records),
        "array_record", "grain", "grain2",
    ),
}  # fmt: skip
READERS: Mapping[str, Loader] = {
    "imgrec": Loader(
        "**`imgrec.open_dataset`**, checksums checked", "bytes", _imgrec_at_random, OURS
    ),
    "array_record": Loader(
        "array_record", "bytes", _array_record_at_random, "array_record", "grain", "imgrec"
    ),
    **{
        name: LOADERS[name]._replace(pixels="bytes", against="imgrec")
        for name in ("mds", "huggingface")
    },
}
STREAMS: Mapping[str, Loader] = {
    "mds": LOADERS["mds"]._replace(title="MosaicML `StreamingDataset`, shuffled", against="stream"),
    **{
        f"{name}{ending}": Loader(f"{title}, {how}", pixels, make(is_cached=cached), OURS)
        for name, title, pixels, make in (
            ("stream", "**`imgrec.torch_stream(shuffle=True)`**", SCALED + PIL, _stream_far),
            ("torch", "**`imgrec.torch_dataset`**, shuffled", SCALED + PIL, _torch_far),
            ("load", "**`imgrec.load(shuffle=True)`**", SCALED + TF8, _load_far),
        )
        for ending, how, cached in (("", "`cache_dir`", True), ("_uncached", "no cache", False))
    },
}


def main() -> None:
    """Run an epoch for each line of input; print its figures."""
    name, text = sys.argv[1:]
    task = Task(**json.loads(text))
    known = STREAMS if task.cache else LOADERS if task.batch else READERS
    epoch = known[name].make(task)
    for _ in sys.stdin:
        start = time.perf_counter()
        first_s, images, size, like = 0.0, 0, 0, ""
        for batch in epoch():
            if not images:
                first_s, like = time.perf_counter() - start, _described(batch)
            if isinstance(batch, bytes):
                images, size = images + 1, size + len(batch)
            else:
                images += int(batch.shape[0])
        taken = {"images": images, "bytes": size, "first_s": first_s, "like": like}
        print("epoch", json.dumps({**taken, "wall_s": time.perf_counter() - start}), flush=True)


def _described(batch: Any) -> str:
    """Return type and shape, as in `uint8 32x224x224x3`."""
    if isinstance(batch, bytes):
        return "bytes"
    dtype = getattr(batch.dtype, "name", None) or str(batch.dtype).removeprefix("torch.")
    return f"{dtype} {'x'.join(map(str, batch.shape))}"


if __name__ == "__main__":
    main()
