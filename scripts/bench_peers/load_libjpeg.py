"""libjpeg-turbo alone: decode files in two processes at the smallest scale that covers a size."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from multiprocessing import Pool
from typing import Any

import numpy as np
import simplejpeg
from peer import Epoch, Task, images_of, parts, serve


def decode(job: tuple[Sequence[str], int]) -> int:
    """Decode files, and keep nothing."""
    paths, size = job
    least = {"min_height": size, "min_width": size, "min_factor": 1} if size else {}
    for path in paths:
        with open(path, "rb") as file:
            simplejpeg.decode_jpeg(file.read(), **least)
    return len(paths)


def alone(task: Task) -> Epoch:
    """Decode everything; the batches that are given hold no pixels, only their number."""
    halves = [[image.path for image in part] for part in parts(images_of(task.folder), 2)]
    pool = Pool(2)

    def epoch() -> Iterator[Any]:
        for count in pool.imap_unordered(decode, [(half, task.size) for half in halves]):
            yield np.empty((count, task.size or 32, task.size or 32, 0), np.uint8)

    return epoch


if __name__ == "__main__":
    serve({"alone": alone})
