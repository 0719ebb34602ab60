"""Grain over array_record, and array_record alone at random."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from peer import Epoch, Task, at_random, serve


class Decoded:
    """Makes pixels of a record: resized bilinearly, channels last."""

    def __init__(self, size: int) -> None:
        self._size = size

    def __call__(self, record: bytes) -> Any:
        """Return the pixels and the label."""
        import numpy as np
        from PIL import Image

        image = Image.open(io.BytesIO(record[4:])).convert("RGB")
        if self._size:
            image = image.resize((self._size, self._size), Image.Resampling.BILINEAR)
        return np.array(image), int.from_bytes(record[:4], "little")


def _paths(task: Task) -> list[str]:
    return sorted(map(str, Path(task.packed).glob("*.array_record")))


def threads(task: Task) -> Epoch:
    """Let Grain's threads decode; Pillow leaves them free meanwhile."""
    import grain

    data = grain.MapDataset.source(grain.sources.ArrayRecordDataSource(_paths(task)))
    options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=128)
    batches = data.map(Decoded(task.size)).batch(task.batch)

    def epoch() -> Iterator[Any]:
        for images, _labels in batches.to_iter_dataset(options):
            yield images

    return epoch


def processes(task: Task) -> Epoch:
    """Let two processes decode, which stay from one epoch to the next."""
    import grain

    source = grain.sources.ArrayRecordDataSource(_paths(task))
    data = grain.MapDataset.source(source).map(Decoded(task.size)).batch(task.batch)
    count = len(data)
    # What is made ahead between two epochs is not timed, so that it must be little.
    ahead = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    workers = grain.MultiprocessingOptions(num_workers=2)
    batches = iter(data.repeat().to_iter_dataset(ahead).mp_prefetch(workers))

    def epoch() -> Iterator[Any]:
        for images, _labels in islice(batches, count):
            yield images

    return epoch


def at_places(task: Task) -> Epoch:
    """Read records at random, one by one."""
    from array_record.python.array_record_module import ArrayRecordReader

    readers = [ArrayRecordReader(path, options="readahead_buffer_size:0") for path in _paths(task)]
    places = [(reader, at) for reader in readers for at in range(reader.num_records())]
    order = [places[number] for number in at_random(len(places))]
    return lambda: (reader.read([at])[0][4:] for reader, at in order)


CONTENDERS: dict[str, Callable[[Task], Epoch]] = {
    "threads": threads,
    "processes": processes,
    "random": at_places,
}

if __name__ == "__main__":
    serve(CONTENDERS)
