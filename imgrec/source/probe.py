"""A first look at many files: size, format, and a key that only identical files share.

Only files of one size can be identical, and the first few kilobytes tell almost all of those
apart. So a file is read whole, before it is packed, only if another has the same size and the
same beginning. Files that the first look reads whole are kept in a spool, and not opened again.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol, TypeVar

from xxhash import xxh3_128_digest

from imgrec.blob import Blob
from imgrec.codec.sniff import (
    HEAD_BYTES,
    IMAGE_EXTENSIONS,
    MOST_IMAGE_BYTES,
    describe,
    extension,
    format_of,
)
from imgrec.errors import BadImage
from imgrec.stamp import NO_STAMP, Stamp, sum_of
from imgrec.storage import read_ahead
from imgrec.storage.blobs import close_files, look, look_at_file
from imgrec.storage.files import append_to_spool
from imgrec.storage.read_ahead import heads_of_objects, reader
from imgrec.storage.read_errors import disk_fault, is_passing, own_fault

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
    """Some files, numbered from `start`."""

    start: int
    blobs: tuple[Blob, ...]
    sizes: tuple[int, ...]
    """Of the blobs that are not files; empty if all are."""
    names: tuple[str, ...]
    """Of the blobs that are not files; empty if all are."""
    spool: str = ""
    """The folder for copies of small files; "" for none."""
    prefix_chars: int = 0
    """How much of the paths of files comes before their names in the source."""
    left_out: frozenset[int] = frozenset()
    """Places of the files that are not to be packed, and so not opened either."""

    def name(self, place: int) -> str:
        """Return what a file is called in the source."""
        return self.names[place] if self.names else str(self.blobs[place])[self.prefix_chars :]


class Probes(NamedTuple):
    """What a look at each file of a batch showed, by column."""

    start: int
    sizes: array[int]
    keys: tuple[bytes, ...]
    """Equal for files of equal size and beginning."""
    faults: dict[int, str]
    """What is wrong with a file (by its place in the batch) that was meant as an image."""
    others: tuple[int, ...]
    """Places of the other files: neither images nor meant as such."""
    stamp: Stamp
    spool: str
    """The file with copies of small files; "" for none."""
    spooled: tuple[int, ...]
    """Places of the files that are in the spool, one after the other."""
    spool_offset: int
    """Where in the spool they begin."""


def probe(batch: Batch) -> Probes:
    """Look at the beginning of each file of a batch."""
    sizes, keys = array("Q"), []
    faults: dict[int, str] = {}
    others: list[int] = []
    spooled: list[int] = []
    copies: list[bytes] = []
    newest_ns, states = 0, []
    keeps = bool(batch.spool)
    far = heads_of_objects(batch.blobs, batch.sizes, HEAD_BYTES)
    if not far:
        wanted = [blob for at, blob in enumerate(batch.blobs) if at not in batch.left_out]
        read_ahead.cache_heads(wanted, batch.start, HEAD_BYTES)
    for place, blob in enumerate(batch.blobs):
        if place in batch.left_out:
            sizes.append(0)
            keys.append(bytes(KEY_BYTES))
            if extension(batch.name(place)) not in IMAGE_EXTENSIONS:
                others.append(place)
            continue
        fault = ""
        try:
            if place in far:
                size, stamp, head = batch.sizes[place], NO_STAMP, _had(far[place])
            elif isinstance(blob, str):
                size, stamp, head = look_at_file(blob, HEAD_BYTES, dated=not keeps)
            else:
                name = batch.name(place)
                size = batch.sizes[place]
                size, stamp, head = look(blob, size, HEAD_BYTES, dated=False, name=name)
        except BadImage as error:
            fault = str(error)
        except OSError as error:
            fault = str(own_fault(error, blob, batch.name(place)))
        if fault:
            faults[place] = fault
            sizes.append(0)
            keys.append(bytes(KEY_BYTES))
            continue
        sizes.append(size)
        keys.append(content_key(size, head))
        if stamp.newest_ns > newest_ns:
            newest_ns = stamp.newest_ns
        if stamp.state:
            states.append(stamp.state)
        name = batch.names[place] if batch.names else str(blob)
        if not format_of(head, name):
            if extension(name) in IMAGE_EXTENSIONS:
                faults[place] = describe(head)
            else:
                others.append(place)
        elif size > MOST_IMAGE_BYTES:
            faults[place] = f"larger than {MOST_IMAGE_BYTES:,} bytes"
        elif keeps and len(head) == size:
            spooled.append(place)
            copies.append(head)
    close_files()
    spool, spool_offset = append_to_spool(batch.spool, copies) if copies else ("", 0)
    if copies and not spool:  # so they will be read again, from where they are
        newest_ns = max(newest_ns, *(_changed_ns(batch.blobs[place]) for place in spooled))
    return Probes(
        start=batch.start,
        sizes=sizes,
        keys=tuple(keys),
        faults=faults,
        others=tuple(others),
        stamp=Stamp(newest_ns, sum_of(states)),
        spool=spool,
        spooled=tuple(spooled) if spool else (),
        spool_offset=spool_offset,
    )


def _changed_ns(blob: Blob) -> int:
    """Return when a file last changed; 0 if it is gone, or is but a part of another."""
    try:
        return os.stat(blob).st_ctime_ns if isinstance(blob, str) else 0
    except OSError as error:
        if is_passing(error):
            raise disk_fault(error, str(blob)) from error
        return 0


def _had(head: bytes | OSError) -> bytes:
    if isinstance(head, OSError):
        raise head
    return head


def content_key(size: int, head: bytes) -> bytes:
    """Return a key that files of different size or beginning do not share."""
    return xxh3_128_digest(head, size & 0xFFFFFFFFFFFFFFFF)


class _Suspects(NamedTuple):
    start: int
    blobs: tuple[Blob, ...]
    sizes: tuple[int, ...]
    names: tuple[str, ...]


def digest(suspects: _Suspects) -> tuple[int, bytes]:
    """Return the number of the first and a whole-content key for each of some files."""
    import hashlib

    keys = bytearray()
    read = reader(suspects.blobs, suspects.sizes)
    for blob, size, name in zip(suspects.blobs, suspects.sizes, suspects.names, strict=True):
        try:
            content = read(blob, size, name=name)
        except BadImage:
            content = repr(blob).encode("utf-8", "surrogateescape")  # the writer reports why
        keys += hashlib.sha256(content).digest()[:KEY_BYTES]
    close_files()
    return suspects.start, bytes(keys)


def contents(
    names: Sequence[str],
    blobs: Sequence[Blob],
    sizes: Sequence[int],
    keys: Sequence[bytes],
    run: Run,
) -> list[bytes]:
    """Return for each file a value that equals another's exactly if their bytes are equal.

    It is the key, followed by a hash of the whole file where several files share the key. So a new
    file with the same key never changes how this one ranks.
    """
    values = list(keys)
    partly = [place for place, size in enumerate(sizes) if size > HEAD_BYTES]
    counts = Counter(map(keys.__getitem__, partly))  # a key covers the size, too
    unclear = [place for place in partly if counts[keys[place]] > 1]
    suspects = (
        _Suspects(
            start=start,
            blobs=tuple(blobs[place] for place in unclear[start : start + 64]),
            sizes=tuple(sizes[place] for place in unclear[start : start + 64]),
            names=tuple(names[place] for place in unclear[start : start + 64]),
        )
        for start in range(0, len(unclear), 64)
    )
    for start, wholes in run(digest, suspects):
        for at in range(0, len(wholes), KEY_BYTES):
            values[unclear[start + at // KEY_BYTES]] += wholes[at : at + KEY_BYTES]
    return values
