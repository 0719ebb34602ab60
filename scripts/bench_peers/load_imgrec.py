"""imgrec's own loaders."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from peer import Epoch, Task, at_random, serve, torch_batches


def _load(**options: Any) -> Callable[[Task], Epoch]:
    def make(task: Task) -> Epoch:
        import imgrec

        size = {"image_size": task.size} if task.size else {}
        if options.get("cache") and not task.size:
            size = {"image_size": 32}
        data = imgrec.load(task.packed, "all", batch_size=task.batch, **size, **options)

        def epoch() -> Iterator[Any]:
            for images, _labels in data:
                yield images

        return epoch

    return make


def _torch(**options: Any) -> Callable[[Task], Epoch]:
    def make(task: Task) -> Epoch:
        import imgrec

        data = imgrec.torch_dataset(task.packed, "all", image_size=task.size or None, **options)
        return torch_batches(data, task.batch)

    return make


def grain_threads(task: Task) -> Epoch:
    """Let Grain's threads decode."""
    import grain

    import imgrec

    data = imgrec.grain_source(task.packed, "all", image_size=task.size or None)
    options = grain.ReadOptions(num_threads=4, prefetch_buffer_size=128)
    batches = grain.MapDataset.source(data).batch(task.batch)

    def epoch() -> Iterator[Any]:
        for batch in batches.to_iter_dataset(options):
            yield batch["image"]

    return epoch


def grain_processes(task: Task) -> Epoch:
    """Let two processes decode, as `load_grain.py` does."""
    import grain

    import imgrec

    source = imgrec.grain_source(task.packed, "all", image_size=task.size or None)
    data = grain.MapDataset.source(source).batch(task.batch)
    count = len(data)
    ahead = grain.ReadOptions(num_threads=1, prefetch_buffer_size=1)
    workers = grain.MultiprocessingOptions(num_workers=2)
    batches = iter(data.repeat().to_iter_dataset(ahead).mp_prefetch(workers))

    def epoch() -> Iterator[Any]:
        for batch in islice(batches, count):
            yield batch["image"]

    return epoch


def at_places(task: Task) -> Epoch:
    """Read records at random, one by one, checksums checked."""
    import imgrec

    data = imgrec.open_dataset(task.packed)["all"]
    order = at_random(len(data))
    return lambda: (data[number].image for number in order)


CONTENDERS = {
    "load": _load(),
    "load_float": _load(dtype="float32"),
    "load_exact": _load(exact=True),
    "load_cached": _load(cache=True),
    "torch": _torch(),
    "torch_exact": _torch(exact=True),
    "grain": grain_threads,
    "grain_processes": grain_processes,
    "random": at_places,
}

if __name__ == "__main__":
    serve(CONTENDERS)
