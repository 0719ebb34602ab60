"""Probing files: their size, their format, and a key that only identical files share.

Only files of one size can be identical, and almost all of those differ in their first few
kilobytes. So a file is read whole before it is packed only if another one has the same size and the
same beginning. Small files can be copied to the spool while they are probed: they are not opened
again. For a file on a disk, small is what its first read returns anyway; for an object on a store,
what takes hardly longer than its beginning.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec.sniff import HEAD_BYTES, MOST_IMAGE_BYTES, describe, format_of
from imgrec.errors import BadImage
from imgrec.model import Blob, Samples, picked
from imgrec.options import SourceOptions
from imgrec.source.tree import Context, Folder, Lister, Run, has_image_name
from imgrec.source.unchanged import KnownFile, unchanged_files
from imgrec.stamp import NO_STAMP, Stamp, sum_of
from imgrec.storage import read_ahead
from imgrec.storage.blobs import close_files, is_object, read_file_head, read_head
from imgrec.storage.files import append_to_spool, free_bytes
from imgrec.storage.read_errors import image_fault, is_temporary, read_error
from imgrec.text import globs_pattern

KEY_BYTES = 16
_BATCH = 2048
_WHOLE_BATCH = 64
_SMALL_OBJECT_BYTES = 1 << 18
"""The largest image that is read from a store in its first request."""
_MOST_SPOOLED_BYTES = 16 << 30
_SPOOLED_SHARE = 0.25
"""The most that objects may take on the disk of the spool: bytes, and the share of what is free."""


@dataclass(slots=True)
class FileTable:
    """The files of a tree in the order of the listing, by column.

    Listing fills the first columns, probing the others.
    """

    folders: list[Folder] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    blobs: list[Blob] = field(default_factory=list)
    sizes: array[int] = field(default_factory=lambda: array("Q"))
    """0 for files on disk before they are probed."""
    keys: list[bytes] = field(default_factory=list)
    """Equal for files of equal size and beginning."""
    faults: dict[int, str] = field(default_factory=dict)
    """Why files that are meant as images cannot be packed, by number."""
    others: set[int] = field(default_factory=set)
    """Numbers of files that are not meant as images."""
    unopened: set[int] = field(default_factory=set)
    """Numbers of files that are known from an earlier version. Their keys are hashes of the whole,
    which no key of another file equals."""
    stamp: Stamp = NO_STAMP

    def add(self, folder: Folder) -> None:
        """Add a folder and its files."""
        prefix = f"{folder.path}/" if folder.path else ""
        self.folders.append(folder)
        self.names += [prefix + name for name in folder.files]
        self.blobs += folder.blobs
        self.sizes.extend(folder.sizes)

    def extend(self, other: FileTable) -> None:
        """Add the files of another table, which were probed, after these."""
        start = len(self.names)
        self.names += other.names
        self.blobs += other.blobs
        self.sizes += other.sizes
        self.keys += other.keys
        self.faults |= {start + place: why for place, why in other.faults.items()}

    def pick(self, numbers: Sequence[int]) -> FileTable:
        """Return a table of some of the files, before any is probed, without folders."""
        return FileTable(
            names=[self.names[number] for number in numbers],
            blobs=[self.blobs[number] for number in numbers],
            sizes=array("Q", [self.sizes[number] for number in numbers]),
        )

    def samples(
        self, numbers: Sequence[int], class_names: Sequence[str], splits: Sequence[str], run: Run
    ) -> Samples:
        """Return catalog rows for the files at `numbers`, which were probed."""
        names, blobs = picked(self.names, numbers), picked(self.blobs, numbers)
        sizes, keys = picked(self.sizes, numbers), picked(self.keys, numbers)
        # The content of what was not opened is its key already.
        to_read = [0 if at in self.unopened else self.sizes[at] for at in numbers]
        return Samples(
            filenames=names,
            class_names=tuple(class_names),
            splits=tuple(splits),
            sizes=sizes,
            contents=tuple(contents(names, blobs, to_read, keys, run)),
            blobs=blobs,
        )

    def probe(self, context: Context, folders: Iterable[Folder] = ()) -> None:
        """Probe all files, and those of more folders, except files that globs leave out."""
        for start, probed in context.run(probe, self._batches(folders, context)):
            self._fill(start, probed)
            context.on_progress(len(probed.sizes))

    def _batches(self, folders: Iterable[Folder], context: Context) -> Iterator[Batch]:
        """Add folders, and yield files to probe while the listing goes on."""
        start, room = 0, _Room(context.spool if context.keeps_small else "")
        for folder in folders:
            self.add(folder)
            while len(self.names) - start >= _BATCH:
                yield self._batch(start, context, room)
                start += _BATCH
        for last in range(start, len(self.names), _BATCH):
            yield self._batch(last, context, room)

    def _batch(self, start: int, context: Context, room: _Room) -> Batch:
        part = slice(start, start + _BATCH)
        names, sizes = self.names[part], self.sizes[part]
        excluded = frozenset(_excluded(names, context.options))
        for place in excluded:
            sizes[place] = 0  # so that nothing of it is read from an object store
        spool = context.spool if context.keeps_small else ""
        unopened, blobs = context.unopened, self.blobs[part]
        known = unopened.among(names, blobs) if unopened else {}
        before_ns = unopened.before_ns if unopened else 0
        whole = room.take(names, blobs, sizes)
        return Batch(start, names, blobs, sizes, excluded, spool, whole, known, before_ns)

    def _fill(self, start: int, probed: Probed) -> None:
        """Add the results of one batch; batches come in any order."""
        end = start + len(probed.sizes)
        self.keys += [b""] * (end - len(self.keys))
        self.sizes[start:end] = probed.sizes
        self.keys[start:end] = probed.keys
        self.faults.update({start + place: why for place, why in probed.faults.items()})
        self.others.update(start + place for place in probed.others)
        self.unopened.update(start + place for place in probed.unopened)
        self.stamp = self.stamp.merged(probed.stamp)
        for place, blob in probed.copies.items():
            self.blobs[start + place] = blob


def list_tree(lister: Lister) -> FileTable:
    """List a tree without opening its files."""
    table = FileTable()
    for folder in lister.folders():
        table.add(folder)
    return table


def probe_tree(lister: Lister, context: Context) -> FileTable:
    """List a tree and probe its files, except those that globs leave out."""
    table = FileTable()
    table.probe(context, lister.folders())
    return table


def _excluded(names: Sequence[str], options: SourceOptions) -> Iterator[int]:
    """Yield the places of files that `--include` and `--exclude` leave out."""
    if options.include or options.exclude:
        included, excluded = globs_pattern(options.include), globs_pattern(options.exclude)
        for place, name in enumerate(names):
            if excluded.match(name) or (options.include and not included.match(name)):
                yield place


class _Room:
    """Counts how much of the spool is left for objects."""

    def __init__(self, spool: str) -> None:
        self._spool = spool
        self._left = -1
        """-1 until it is needed: few sources are on a store."""

    def take(
        self, names: Sequence[str], blobs: Sequence[Blob], sizes: Sequence[int]
    ) -> frozenset[int]:
        """Return the places of the objects to read whole and to keep."""
        if not self._spool or not any(map(is_object, blobs)):
            return frozenset()
        if self._left < 0:
            free = free_bytes(self._spool)
            self._left = min(int(free * _SPOOLED_SHARE), _MOST_SPOOLED_BYTES)
        taken = set()
        for place, (name, blob, size) in enumerate(zip(names, blobs, sizes, strict=True)):
            is_small = 0 < size <= min(_SMALL_OBJECT_BYTES, self._left)
            if is_small and is_object(blob) and has_image_name(name):
                taken.add(place)
                self._left -= size
        return frozenset(taken)


class Batch(NamedTuple):
    """Some files to probe."""

    start: int
    names: Sequence[str]
    blobs: Sequence[Blob]
    sizes: array[int]
    excluded: frozenset[int]
    """Places of the files that are not packed, and so not opened either."""
    spool: str
    """The folder for copies of small files; "" for none."""
    whole: frozenset[int]
    """Places of the objects on a store that are read whole and copied to the spool."""
    known: Mapping[int, KnownFile]
    """What an earlier version knew, by place."""
    before_ns: int
    """See `Unopened`."""


class Probed(NamedTuple):
    """The columns of a `FileTable` that probing fills, for one batch; keys are places in it."""

    sizes: array[int]
    keys: list[bytes]
    faults: dict[int, str]
    others: list[int]
    stamp: Stamp
    copies: dict[int, Blob]
    """Where files were copied to in the spool."""
    unopened: Sequence[int]
    """Places of the files that are known."""


def probe(batch: Batch) -> tuple[int, Probed]:
    """Read the beginning of each file of a batch; return its start and the results."""
    count = len(batch.names)
    sizes, keys = array("Q", bytes(8 * count)), [bytes(KEY_BYTES)] * count
    faults: dict[int, str] = {}
    others: list[int] = []
    small: dict[int, bytes] = {}
    newest_ns, states = 0, []
    # The next update trusts only dates that are known, and here few files are opened.
    is_dated = not batch.spool or bool(batch.before_ns)
    unopened = unchanged_files(batch.blobs, batch.known, batch.before_ns) if batch.known else {}
    left = {*range(count)}.difference(batch.excluded, unopened)
    remote, copies = _look_at_objects(batch)
    if not remote:
        wanted = [blob for place, blob in enumerate(batch.blobs) if place in left]
        read_ahead.cache_heads(wanted, batch.start, HEAD_BYTES)
    for place, (name, blob) in enumerate(zip(batch.names, batch.blobs, strict=True)):
        if place in batch.excluded:
            if not has_image_name(name):
                others.append(place)
            continue
        if place in unopened:
            sizes[place], keys[place] = batch.known[place].size, batch.known[place].content
            newest_ns = max(newest_ns, unopened[place].newest_ns)
            states.append(unopened[place].state)
            continue
        try:
            if place in remote:
                size, stamp, head = batch.sizes[place], NO_STAMP, _head_or_raise(remote[place])
            elif isinstance(blob, str):
                size, stamp, head = read_file_head(blob, HEAD_BYTES, dated=is_dated)
            else:
                size = batch.sizes[place]
                size, stamp, head = read_head(blob, size, HEAD_BYTES, dated=False, name=name)
        except BadImage as error:
            faults[place] = str(error)
            continue
        except OSError as error:
            faults[place] = str(image_fault(error, blob, name))
            continue
        sizes[place], keys[place] = size, content_key(size, head)
        if stamp.newest_ns > newest_ns:
            newest_ns = stamp.newest_ns
        if stamp.state:
            states.append(stamp.state)
        if not format_of(head, name):
            if has_image_name(name):
                faults[place] = describe(head)
            else:
                others.append(place)
        elif size > MOST_IMAGE_BYTES:
            faults[place] = f"larger than {MOST_IMAGE_BYTES:,} bytes"
        elif batch.spool and len(head) == size and isinstance(blob, str) and place not in remote:
            small[place] = head
    close_files()
    copied = _copy_to_spool(batch.spool, small) if small else {}
    if len(copied) < len(small):  # they will be read from where they are
        newest_ns = max(newest_ns, *(_changed_ns(str(batch.blobs[place])) for place in small))
    stamp = Stamp(newest_ns, sum_of(states))
    probed = Probed(sizes, keys, faults, others, stamp, copies | copied, list(unopened))
    return batch.start, probed


def _look_at_objects(batch: Batch) -> tuple[dict[int, bytes | OSError], dict[int, Blob]]:
    """Return the beginnings of all objects, and where those that were read whole are now."""
    heads: dict[int, bytes | OSError] = {}
    copies: dict[int, Blob] = {}
    lengths = [min(size, HEAD_BYTES) for size in batch.sizes]
    for place in batch.whole:
        lengths[place] = batch.sizes[place] + 1  # an object that has grown is not copied
    for place, data in read_ahead.heads_of_objects(batch.blobs, lengths):
        if isinstance(data, OSError):
            heads[place] = data
            continue
        heads[place] = data[:HEAD_BYTES]
        is_whole = place in batch.whole and len(data) == batch.sizes[place]
        if is_whole and format_of(data, batch.names[place]):
            copies |= _copy_to_spool(batch.spool, {place: data})
    return heads, copies


def _copy_to_spool(spool: str, small: dict[int, bytes]) -> dict[int, Blob]:
    """Return where each file is in the spool; nothing if the disk refuses them."""
    path, offset = append_to_spool(spool, list(small.values()))
    copies: dict[int, Blob] = {}
    for place, data in small.items() if path else ():
        copies[place] = path, offset
        offset += len(data)
    return copies


def _changed_ns(path: str) -> int:
    """Return when a file last changed; 0 if it is gone."""
    try:
        return os.stat(path).st_ctime_ns
    except OSError as error:
        if is_temporary(error):
            raise read_error(error, path) from error
        return 0


def _head_or_raise(head: bytes | OSError) -> bytes:
    if isinstance(head, OSError):
        raise head
    return head


def content_key(size: int, head: bytes) -> bytes:
    """Return a key that differs for files of different size or beginning."""
    return xxh3_128_digest(head, size & 0xFFFFFFFFFFFFFFFF)


class ImageBatch(NamedTuple):
    """Some images, for a worker that reads them whole."""

    start: int
    """The place of the first one among all."""
    names: Sequence[str]
    blobs: Sequence[Blob]
    sizes: Sequence[int]


def image_batches(
    names: Sequence[str], blobs: Sequence[Blob], sizes: Sequence[int], count: int
) -> Iterator[ImageBatch]:
    """Yield images in batches of `count`."""
    for start in range(0, len(names), count):
        part = slice(start, start + count)
        yield ImageBatch(start, names[part], blobs[part], sizes[part])


def contents(
    names: Sequence[str],
    blobs: Sequence[Blob],
    sizes: Sequence[int],
    keys: Sequence[bytes],
    run: Run,
) -> list[bytes]:
    """Return a value for each file that is equal for two files exactly if their bytes are.

    It is the key, followed by a hash of the whole file if several files share the key. So a new
    file with the same key never changes how an old one ranks.
    """
    values = list(keys)
    # Smaller files were read whole, so their key says it all. A key covers the size, too.
    partly = [place for place, size in enumerate(sizes) if size > HEAD_BYTES]
    counts = Counter(map(keys.__getitem__, partly))
    unclear = [place for place in partly if counts[keys[place]] > 1]
    columns = picked(names, unclear), picked(blobs, unclear), picked(sizes, unclear)
    for start, hashes in run(_hash_whole, image_batches(*columns, _WHOLE_BATCH)):
        for place, value in zip(unclear[start:], hashes, strict=False):
            values[place] += value
    return values


def _hash_whole(images: ImageBatch) -> tuple[int, list[bytes]]:
    import hashlib

    hashes = []
    read = read_ahead.reader(images.blobs, images.sizes)
    for name, blob, size in zip(images.names, images.blobs, images.sizes, strict=True):
        try:
            content = read(blob, size, name=name)
        except BadImage:  # the writer reports why
            content = repr(blob).encode("utf-8", "surrogateescape")
        hashes.append(hashlib.sha256(content).digest()[:KEY_BYTES])
    close_files()
    return images.start, hashes
