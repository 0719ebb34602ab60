"""Loaders of images, imgrec's own and others, each as its documentation shows.

loaders.py NAME TASK      runs an epoch for each line of input, and prints what it took
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

from shared import images_of, parts


class Task(NamedTuple):
    """What a loader goes through."""

    folder: str
    """The images in class folders."""
    packed: str
    """What the packer of the same peer made of them."""
    size: int
    """The side that images are resized to; 0 if they have one size."""
    batch: int
    """Images in a batch; 0 to read records at random, one by one, as bytes."""


Epoch = Callable[[], Iterable[Any]]
"""Goes through everything once: yields batches of images, or the bytes of single ones."""
Maker = Callable[[Task], Epoch]


def _first_of(batches: Iterable[Any]) -> Epoch:
    """Yield the images of batches of images and labels."""

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
    """Return a picture of Pillow as an array: resized bilinearly, channels last."""
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


# Grain: threads, or processes that stay from one epoch to the next.


class ArrayRecord:
    """Turns a record into pixels and a label; a class, as Grain sends it to processes."""

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
        # What is read ahead between two epochs is not timed, so it must be little.
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
    """Load as the documentation shows; TFDS keeps sets of less than 250 MiB in memory."""
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
    """Load as the performance guide has it: decode in parallel, in any order, batch at once."""
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


# libjpeg-turbo alone, at the smallest scale that covers the size: the limit of what decodes.


def _decode(job: tuple[Sequence[str], int]) -> int:
    import simplejpeg

    paths, size = job
    least = {"min_height": size, "min_width": size, "min_factor": 1} if size else {}
    for path in paths:
        with open(path, "rb") as file:
            simplejpeg.decode_jpeg(file.read(), **least)
    return len(paths)


def _libjpeg(task: Task) -> Epoch:
    """Decode everything; the batches hold no pixels, only their number."""
    import numpy as np

    halves = [[image.path for image in part] for part in parts(images_of(task.folder), 2)]
    pool = Pool(2)

    def epoch() -> Iterator[Any]:
        for count in pool.imap_unordered(_decode, [(half, task.size) for half in halves]):
            yield np.empty((count, task.size or 32, task.size or 32, 0), np.uint8)

    return epoch


LOADERS: Mapping[str, Maker] = {
    "load": _load(),
    "load_float": _load(dtype="float32"),
    "load_exact": _load(exact=True),
    "load_cached": _load(cache=True),
    "torch": _torch(),
    "torch_exact": _torch(exact=True),
    "grain": _threads(_grain_source),
    "grain2": _processes(_grain_source),
    "imgrec": _imgrec_at_random,
    "libjpeg": _libjpeg,
    "tfds": _tfds,
    "tfds_tuned": _tfds_tuned,
    "keras": _keras,
    "folder": _folder,
    "folder_tuned": _folder_tuned,
    "webdataset": _webdataset,
    "mds": _mds,
    "huggingface": _huggingface,
    "grain_threads": _threads(_array_records),
    "grain_processes": _processes(_array_records),
    "array_record": _array_record_at_random,
}


def main() -> None:
    """Run an epoch for each line of input; print what it gave and what it took."""
    name, text = sys.argv[1:]
    epoch = LOADERS[name](Task(**json.loads(text)))
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
