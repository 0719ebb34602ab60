"""libjpeg-turbo alone: decode a folder at 1/8 scale in two processes, print the count: SOURCE."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

import simplejpeg


def decode(paths: Sequence[str]) -> int:
    """Decode files at 1/8 of their size."""
    for path in paths:
        with open(path, "rb") as file:
            simplejpeg.decode_jpeg(file.read(), min_height=1, min_width=1, min_factor=8)
    return len(paths)


if __name__ == "__main__":
    paths = sorted(map(str, Path(sys.argv[1]).glob("*/*.jpg")))
    with Pool(2) as pool:
        print(sum(pool.map(decode, [paths[0::2], paths[1::2]], chunksize=1)))
