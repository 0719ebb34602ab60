"""IDX files, as of MNIST and its relatives: images in one file, their labels in another."""

from __future__ import annotations

import gzip
import posixpath
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from imgrec.codec.idx import GZIP_MAGIC, HEAD_BYTES, IMAGES, LABELS, Header, parse_header
from imgrec.codec.pixels import refuse_bomb
from imgrec.errors import SourceError
from imgrec.model import Catalog, Ignored
from imgrec.source.arrays.idx_classes import Classes, name_classes
from imgrec.source.arrays.idx_names import IdxSet, Named, Pair, home_of, named, only_set, pair_up
from imgrec.source.arrays.samples import (
    Faults,
    Raster,
    Readable,
    RecordLayout,
    SampleColumns,
    TreeFile,
    class_places,
    files_of,
    open_file,
    read_records,
    refuse_outside,
)
from imgrec.source.context import Context
from imgrec.source.tally import Tally
from imgrec.source.tree import Folder
from imgrec.stamp import NO_STAMP
from imgrec.storage.blobs import Look, look

_FREE_IMAGES = 1_000_000
"""So many may be in a few bytes, and one more for each byte: what is known of each takes 700."""


class IdxFiles(NamedTuple):
    """The IDX files of a tree."""

    homes: Mapping[str, tuple[Named, ...]]
    """By the folder they are in."""
    others: tuple[TreeFile, ...]


def find(folders: Sequence[Folder]) -> IdxFiles | None:
    """Find IDX files, by their names, in the root of a tree or the folders right in it."""
    homes: dict[str, list[Named]] = {}
    for folder in folders:
        # Few folders pass this, and a million names take 0.07 s.
        if not any("ubyte" in name.lower() for name in folder.files):
            continue
        for file in files_of(folder):
            home = home_of(file.path)
            if "/" not in home and (name := named(file)):
                homes.setdefault(home, []).append(name)
    if not homes:
        return None
    known = {name.file.path for names in homes.values() for name in names}
    rest = [file for folder in folders for file in files_of(folder) if file.path not in known]
    return IdxFiles({home: tuple(homes[home]) for home in sorted(homes)}, tuple(rest))


class _Opened(NamedTuple):
    """An IDX file of which the header was read."""

    file: TreeFile
    look: Look
    is_packed: bool
    header: Header

    @property
    def items(self) -> int:
        """Count its images or labels."""
        return self.header.sizes[0]


class _Part(NamedTuple):
    """One split of a set, ready to be read."""

    split: str
    images: _Opened
    labels: _Opened | None

    @property
    def files(self) -> list[_Opened]:
        return [self.images, *([self.labels] if self.labels else [])]


def scan(name: str, found: IdxFiles, context: Context) -> Catalog:
    """List the images of the one set of IDX files that was found.

    Raises SourceError, for all files at once, if they are not what they should be.
    """
    idx_set, faults = only_set(found.homes), Faults()
    parts = _open_pairs(pair_up(idx_set.files), context, faults)
    labels = _read_labels(parts, faults)
    used = set().union(*labels.values())
    classes = name_classes(used, _mapping(idx_set, found.others), context.options)
    places = class_places(classes.order, classes.where)
    _refuse_unnamed(parts, labels, classes, faults)
    columns = SampleColumns()
    for part in parts:
        with faults.of(part.images.file), _body(part.images) as stream:
            records = read_records(stream, _layout(part.images), context)
            columns.add(part.split, _class_names(part, labels, classes), records)
    faults.check()
    return Catalog(
        name=name,
        layout=_describe(idx_set, parts),
        samples=columns.samples(),
        class_folders=places,
        class_order=classes.order,
        ignored=_ignored(found.others, idx_set, classes.where),
        warnings=(*classes.warnings, *_doubts(idx_set)),
        stamp=NO_STAMP.merged(*(file.look.stamp for part in parts for file in part.files)),
    )


def _class_names(part: _Part, labels: Mapping[str, bytes], classes: Classes) -> list[str]:
    if part.labels is None:
        return [""] * part.images.items
    return [classes.names[label] for label in labels[part.split]]


def _refuse_unnamed(
    parts: Sequence[_Part], labels: Mapping[str, bytes], classes: Classes, faults: Faults
) -> None:
    for part in parts:
        if part.labels:
            with faults.of(part.labels.file):
                refuse_outside(labels[part.split], classes.names, classes.where)
    faults.check()


def _open_pairs(pairs: Sequence[Pair], context: Context, faults: Faults) -> list[_Part]:
    """Read all headers before any data; raise SourceError for all that is wrong with them."""
    parts = []
    for pair in pairs:
        images = _open(pair.images, IMAGES, faults)
        labels = _open(pair.labels, LABELS, faults) if pair.labels else None
        if images and labels and images.items != labels.items:
            faults.add(
                f"{images.file.path} has {images.items:,} images, "
                f"but {labels.file.path} has {labels.items:,} labels",
                "put the two that belong together into the folder",
                path=images.file.path,
            )
        elif images:
            parts.append(_Part(pair.split, images, labels))
    faults.check()
    _refuse_too_much([file for part in parts for file in part.files], context)
    return parts


def _open(file: TreeFile, dimensions: int, faults: Faults) -> _Opened | None:
    with faults.of(file):
        seen = look(file.blob, file.size, HEAD_BYTES, dated=True)
        is_packed = seen.head.startswith(GZIP_MAGIC)
        head = _unpacked_head(file, seen) if is_packed else seen.head
        header = parse_header(head, dimensions)
        if not is_packed and seen.size != header.size + header.data_size:
            raise SourceError(
                f"{seen.size:,} bytes, but by its header ({_by(header)}) it should have "
                f"{header.size + header.data_size:,}"
            )
        if not header.data_size:
            raise SourceError(f"is empty: its header says {_by(header)}")
        if dimensions == IMAGES:
            refuse_bomb(*header.sizes[1:])
        return _Opened(file, seen, is_packed, header)
    return None


def _by(header: Header) -> str:
    return " x ".join(map(str, header.sizes))


def _refuse_too_much(files: Sequence[_Opened], context: Context) -> None:
    unpacked = sum(file.header.data_size for file in files if file.is_packed)
    if unpacked > context.options.max_archive_bytes:
        raise SourceError(
            f"the gzipped IDX files unpack to {unpacked:,} bytes, by their headers",
            hint=f"pass --max-archive-bytes {unpacked} if that is so",
        )
    for file in files:
        is_images = len(file.header.sizes) == IMAGES
        if is_images and file.is_packed and file.items > _FREE_IMAGES + file.look.size:
            raise SourceError(
                f"{file.file.path} holds {file.items:,} images in {file.look.size:,} bytes, by its "
                "header, as only a bomb does",
                hint="if you trust it, unpack it and pack the folder",
            )


@contextmanager
def _unpacked(file: TreeFile, seen: Look, *, is_packed: bool) -> Iterator[Readable]:
    """Open a file; raise SourceError for what is wrong with its compression."""
    try:
        with open_file(file, seen.size) as stream:
            yield gzip.GzipFile(fileobj=stream) if is_packed else stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError("its gzip data is damaged or cut short") from error


def _unpacked_head(file: TreeFile, seen: Look) -> bytes:
    with _unpacked(file, seen, is_packed=True) as stream:
        return stream.read(HEAD_BYTES)


@contextmanager
def _body(opened: _Opened) -> Iterator[Readable]:
    """Open a file behind its header; raise SourceError if it goes on when all of it was read."""
    with _unpacked(opened.file, opened.look, is_packed=opened.is_packed) as stream:
        stream.read(opened.header.size)
        yield stream
        # Nothing more is unpacked than a header promises, so that a bomb does not go off.
        if stream.read(1):
            raise SourceError(
                f"goes on after the {opened.header.data_size:,} bytes that its header tells of "
                f"({_by(opened.header)})"
            )


def _read_labels(parts: Sequence[_Part], faults: Faults) -> dict[str, bytes]:
    """Return the labels of each split that has any."""
    labels = {}
    for part in parts:
        if (file := part.labels) is None:
            continue
        with faults.of(file.file), _body(file) as stream:
            labels[part.split] = stream.read(file.items)
            if (count := len(labels[part.split])) < file.items:
                raise SourceError(f"ends after {count:,} of {file.items:,} labels")
    faults.check()
    return labels


def _mapping(idx_set: IdxSet, others: Sequence[TreeFile]) -> TreeFile | None:
    """Return the file that names the classes of a set, if it is beside its images."""
    wanted = posixpath.join(idx_set.home, f"{idx_set.name}-mapping.txt").lower()
    return next((file for file in others if file.path.lower() == wanted), None)


def _layout(images: _Opened) -> RecordLayout:
    _, height, width = images.header.sizes
    home = None if images.is_packed else images.file.home
    if home:
        home = home[0], home[1] + images.header.size
    return RecordLayout(images.items, 0, Raster(height, width, 1, is_planar=False), home)


def _describe(idx_set: IdxSet, parts: Sequence[_Part]) -> str:
    name = f" ({idx_set.name})" if idx_set.name else ""
    shown = []
    for part in parts:
        _, height, width = part.images.header.sizes
        bare = "" if part.labels else ", without labels"
        shown.append(f"{part.split or 'all'} {width}x{height}{bare}")
    return f"IDX{name}: {'; '.join(shown)}"


def _ignored(others: Sequence[TreeFile], idx_set: IdxSet, used: str) -> tuple[Ignored, ...]:
    tally = Tally()
    for file in others:
        if file.path != used:
            tally.add("not an IDX file", file.path)
    for copy in idx_set.copies:
        tally.add("a second copy of an IDX file", copy.file.path)
    return tally.ignored()


def _doubts(idx_set: IdxSet) -> Iterator[str]:
    """Yield what may not be as the user thinks."""
    if idx_set.copies:
        copies = ", ".join(copy.file.path for copy in idx_set.copies)
        kept = ", ".join(name.file.path for name in idx_set.files)
        yield f"not read, by their names copies of others: {copies}; read were {kept}"
    if idx_set.name.startswith("emnist"):
        yield (
            f"{idx_set.name}: EMNIST stores its images with rows and columns swapped; "
            "they are packed as they stand"
        )
