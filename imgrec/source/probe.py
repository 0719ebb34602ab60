"""A first look at many files: size, format, and a key that only identical files share.

Only files of one size can be identical, and the first few kilobytes tell almost all of those
apart. So a file is read whole, before it is packed, only if another has the same size and the
same beginning.
"""

from __future__ import annotations

import os
import stat
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from xxhash import xxh3_128_digest

from imgrec.codec.sniff import HEAD_BYTES, IMAGE_EXTENSIONS, describe, extension, format_of

T = TypeVar("T")
R = TypeVar("R")

KEY_BYTES = 16
BATCH = 2048


class Run(Protocol):
    """Calls a function on each task, somewhere; results come in any order."""

    def __call__(self, function: Callable[[T], R], tasks: Iterable[T]) -> Iterator[R]:
        """Yield the results."""
        ...


class Batch(NamedTuple):
    """Some files below a root, numbered from `start`."""

    root: str
    start: int
    filenames: tuple[str, ...]


class Probes(NamedTuple):
    """What a look at each file of a batch showed, by column."""

    start: int
    sizes: array[int]
    keys: tuple[bytes, ...]
    """Equal for files of equal size and beginning."""
    faults: dict[int, str]
    """What is wrong with a file (by its place in the batch) that was meant as an image."""
    others: tuple[int, ...]
    """Places of files that are no images and were not meant as such."""
    newest_change_ns: int


def probe(batch: Batch) -> Probes:
    """Look at the beginning of each file of a batch."""
    sizes, keys = array("Q"), []
    faults: dict[int, str] = {}
    others: list[int] = []
    newest = 0
    prefix = os.path.join(batch.root, "")
    for place, filename in enumerate(batch.filenames):
        size, key = 0, bytes(KEY_BYTES)
        try:
            size, changed_ns, head = _look(prefix + filename)
        except OSError as error:
            faults[place] = f"unreadable: {error.strerror}"
        else:
            key = content_key(size, head)
            if changed_ns > newest:
                newest = changed_ns
            if not format_of(head, filename):
                if extension(filename) in IMAGE_EXTENSIONS:
                    faults[place] = describe(head)
                else:
                    others.append(place)
        sizes.append(size)
        keys.append(key)
    return Probes(
        start=batch.start,
        sizes=sizes,
        keys=tuple(keys),
        faults=faults,
        others=tuple(others),
        newest_change_ns=newest,
    )


def _look(path: str) -> tuple[int, int, bytes]:
    # O_NONBLOCK: a file that has become a pipe since it was listed must not hold us up.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(0, "not a regular file")
        return status.st_size, status.st_ctime_ns, os.read(descriptor, HEAD_BYTES)
    finally:
        os.close(descriptor)


def content_key(size: int, head: bytes) -> bytes:
    """Return a key that files of different size or beginning do not share."""
    return xxh3_128_digest(head, size & 0xFFFFFFFFFFFFFFFF)


def digest(batch: Batch) -> tuple[int, bytes]:
    """Return the batch's number and a whole-content key for each of its files."""
    import hashlib

    keys = bytearray()
    for filename in batch.filenames:
        sha256 = hashlib.sha256()
        try:
            with open(os.path.join(batch.root, filename), "rb") as file:
                while block := file.read(1 << 20):
                    sha256.update(block)
        except OSError:
            sha256.update(os.fsencode(filename))  # gone since: the writer will say so
        keys += sha256.digest()[:KEY_BYTES]
    return batch.start, bytes(keys)


def contents(
    root: str, filenames: Sequence[str], sizes: Sequence[int], keys: Sequence[bytes], run: Run
) -> list[bytes]:
    """Return for each file a value that equals another's exactly if their bytes are equal.

    It is the key, lengthened by a hash of the whole file where the key alone does not tell; so
    another file that comes to share the key never changes where this one ranks.
    """
    counts = Counter(keys)
    values = list(keys)
    unclear = [
        place for place, key in enumerate(keys) if sizes[place] > HEAD_BYTES and counts[key] > 1
    ]
    suspects = (
        Batch(
            root=root,
            start=start,
            filenames=tuple(filenames[place] for place in unclear[start : start + 64]),
        )
        for start in range(0, len(unclear), 64)
    )
    for start, wholes in run(digest, suspects):
        for at in range(0, len(wholes), KEY_BYTES):
            values[unclear[start + at // KEY_BYTES]] += wholes[at : at + KEY_BYTES]
    return values
