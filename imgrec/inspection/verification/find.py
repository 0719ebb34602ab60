"""Finding a dataset that may be damaged, and its files."""

from __future__ import annotations

import os
import re
from pathlib import Path

from imgrec import layout
from imgrec.errors import DatasetNotFound
from imgrec.read.locate import find_dataset, places
from imgrec.storage.paths import is_remote

_SHARD = re.compile(r"(?P<name>.+)-(?P<split>[\w-]+)\.(?P<format>[\w.]+)-\d{5,}-of-\d{5,}")
_FILES = frozenset(
    {layout.DATASET_INFO, layout.FEATURES, layout.METADATA, layout.SAMPLES, layout.CHECKSUMS}
)


def find_folder(dataset: str, data_dir: str) -> Path:
    """Return the version folder of a dataset, even of one without the documents that name it.

    Raises DatasetNotFound.
    """
    try:
        return find_dataset(dataset, data_dir)
    except DatasetNotFound:
        for path in places(dataset, data_dir):
            if _has_remains(path):
                return path
            if below := [child for child in _versions(path) if _has_remains(child)]:
                return below[-1]
        raise


def _has_remains(path: Path) -> bool:
    files = present_files(path)
    return not _FILES.isdisjoint(files) or any(map(split_of_shard, files))


def _versions(path: Path) -> list[Path]:
    try:
        children = [child for child in path.iterdir() if layout.parse_version(child.name)]
    except OSError:
        return []
    return sorted(children, key=lambda child: layout.parse_version(child.name) or (0, 0, 0))


def present_files(folder: Path) -> frozenset[str]:
    """Return the names of all that is in a folder."""
    if is_remote(folder):
        return frozenset(child.name for child in folder.iterdir())
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()


def split_of_shard(filename: str) -> str:
    """Return the split of a file that is called as shards are; "" for any other.

    >>> split_of_shard("flowers-train.tfrecord-00000-of-00002")
    'train'
    """
    match = _SHARD.fullmatch(filename)
    is_known = match is not None and match["format"] in layout.FILE_FORMATS.values()
    return match["split"] if match and is_known else ""
