"""Finding the folders that hold datasets, or TFRecords, wherever they were put."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from itertools import islice

from imgrec import layout
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.inspection.files import RegularFile
from imgrec.storage.deep import walk
from imgrec.storage.leftovers import INCOMPLETE

_DOCUMENTS = frozenset({layout.DATASET_INFO, layout.FEATURES})
_SHARD = re.compile(r"-\d{5,}-of-\d{5,}$")
_OTHERS = (".idx", ".index", ".json", ".txt", ".csv", ".tmp", ".part", ".md5", ".crc")
_OTHER_FORMATS = (".array_record", ".riegeli", ".parquet")
_DEPTH = 3
"""From a data directory to a version of a dataset with configs."""
_MOST_FOLDERS = 5_000
_TRIED = 20
"""Folders, and files of each, in which images are looked for."""


def find_folders(start: str) -> Iterator[str]:
    """Yield the folders at or below `start` that hold documents of TFDS or TFRecords."""
    waiting = [(start, 0)]
    seen = 0
    while waiting and seen < _MOST_FOLDERS:
        folder, depth = waiting.pop(0)
        seen += 1
        names = listed(folder)
        if not _DOCUMENTS.isdisjoint(names) or any(map(is_tfrecord_name, names)):
            yield folder
        elif depth < _DEPTH:
            seen_ones = (name for name in names if not (name[0] == "." or INCOMPLETE in name))
            below = (os.path.join(folder, name) for name in seen_ones)
            waiting += [(path, depth + 1) for path in below if os.path.isdir(path)]


def has_images(start: str) -> bool:
    """Tell whether a folder holds images, right in it or in folders of splits and classes."""
    return any(
        sniff(_head(os.path.join(folder, name)))
        for folder, _, names in islice(walk(start), _TRIED)
        for name in names[:_TRIED]
    )


def _head(path: str) -> bytes:
    try:
        with RegularFile(path) as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def listed(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def is_tfrecord_name(name: str) -> bool:
    """Tell whether a file is called as files of TFRecords are.

    >>> [is_tfrecord_name(name) for name in ("a.tfrec", "train-00000-of-00008", "a.tfrecord.idx")]
    [True, True, False]
    """
    lower = name.lower()
    if lower.endswith(_OTHERS) or any(mark in lower for mark in _OTHER_FORMATS):
        return False
    return ".tfrec" in lower or _SHARD.search(lower) is not None
