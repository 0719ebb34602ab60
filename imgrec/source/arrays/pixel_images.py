"""Reading tables of pixels, row by row, into a spool."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.blob import Pixels
from imgrec.errors import SourceError
from imgrec.model import TEST, Skipped
from imgrec.source.arrays.pixel_rows import (
    PixelForm,
    Shape,
    form_of,
    is_pixel_row,
    pixel_bytes,
    shape_of,
)
from imgrec.source.arrays.samples import spool
from imgrec.source.context import Context
from imgrec.source.manifests.columns import squashed
from imgrec.source.manifests.tables import Fault, delimited_rows
from imgrec.source.split_words import read_splits, split_of_name
from imgrec.text import name_of

_CHUNK_BYTES = 8 << 20


class PixelFile(NamedTuple):
    """A table of pixels, and the split of all its rows unless a column tells: "" for none."""

    path: str
    split: str

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return name_of(os.path.basename(self.path))


@dataclass(slots=True)
class PixelImages:
    """What the rows of tables say, row by row."""

    wheres: list[tuple[str, int]] = field(default_factory=list)
    """File and line of each."""
    numbers: list[int] = field(default_factory=list)
    """Which row of its file each is, from 1, blank and wrong ones counted too."""
    ids: list[str] = field(default_factory=list)
    """What the column of ids says, if there is one."""
    labels: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    blobs: list[Pixels] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)
    bad: list[Skipped] = field(default_factory=list)
    """Lines that are no rows."""

    def where(self, row: int) -> str:
        """Return the file and line of a row."""
        name, line = self.wheres[row]
        return f"{name}:{line}"

    def extend(self, other: PixelImages) -> None:
        """Add the rows of another table."""
        start = len(self.wheres)
        for column in (
            "wheres", "numbers", "ids", "labels", "splits", "sizes", "contents", "blobs",
        ):  # fmt: skip
            getattr(self, column).extend(getattr(other, column))
        self.faults |= {start + row: fault for row, fault in other.faults.items()}
        self.bad += other.bad


def read_images(
    file: PixelFile, encoding: str, context: Context, id_column: str = ""
) -> tuple[PixelForm, PixelImages, Shape]:
    """Read a table, putting its pixels into the spool."""
    name = file.name
    faults: list[Fault] = []
    rows = delimited_rows(file.path, name, faults, encoding)
    first = next(rows, None)
    if first is None or not is_pixel_row(first[1]):
        raise SourceError(f"{name} is not a table of pixels", path=file.path)
    form, images = form_of(first[1], name, context.options), PixelImages()
    if not form.header.is_told:
        rows = chain([first], rows)
    homes: list[tuple[str, int]] = []
    names = [squashed(name) for name in form.header.names]
    id_at = names.index(squashed(id_column)) if squashed(id_column) in names else None
    for chunk in _chunks(rows, form, name, images, id_at):
        homes += _spool(chunk, context)
    if not homes:
        raise SourceError(f"{name} has no rows", path=file.path)
    shape = _find_shape(images, name)
    images.blobs += [Pixels(path, at, *shape, is_planar=False) for path, at in homes]
    images.bad += [Skipped(f"{name}:{line}", reason) for line, _, reason in faults]
    _find_splits(images, form, file)
    return form, images, shape


def _chunks(
    rows: Iterator[tuple[int, list[str]]],
    form: PixelForm,
    name: str,
    images: PixelImages,
    id_at: int | None,
) -> Iterator[list[bytes]]:
    """Take rows apart, yielding the pixels of some at a time."""
    header_lines = 1 if form.header.is_told else 0
    chunk: list[bytes] = []
    size = 0
    for line, cells in rows:
        try:
            pixels = pixel_bytes(form.values(cells))
        except ValueError as error:
            images.faults[len(images.wheres)] = str(error)
            pixels = b""
        images.wheres.append((name, line))
        images.numbers.append(line - header_lines)
        images.ids.append("" if id_at is None else cells[id_at].strip())
        images.labels.append("" if form.label is None else cells[form.label])
        images.splits.append("" if form.split is None else cells[form.split])
        images.sizes.append(len(pixels))
        images.contents.append(xxh3_128_digest(pixels))
        chunk.append(pixels)
        size += len(pixels)
        if size >= _CHUNK_BYTES:
            yield chunk
            chunk, size = [], 0
    if chunk:
        yield chunk


def _spool(chunk: Sequence[bytes], context: Context) -> list[tuple[str, int]]:
    """Keep pixels until the dataset is written; return the file and offset of each image's."""
    path, offset = spool(b"".join(chunk), context)
    context.on_progress(len(chunk))
    return [(path, at) for at in accumulate(map(len, chunk[:-1]), initial=offset)]


def _find_shape(images: PixelImages, name: str) -> Shape:
    """Take the commonest number of values for that of an image, and others for faults."""
    sizes = Counter(size for row, size in enumerate(images.sizes) if row not in images.faults)
    count = sizes.most_common(1)[0][0] if sizes else 1
    shape = shape_of(count)
    if shape is None:
        raise SourceError(
            f"{name}: {count} values an image make neither a grey square nor an RGB one",
            hint="only square images can be told from their values",
        )
    for row, size in enumerate(images.sizes):
        if size != count:
            images.faults.setdefault(row, f"{size} values instead of {count}")
    return shape


def _find_splits(images: PixelImages, form: PixelForm, file: PixelFile) -> None:
    """Make splits of words, or of the file's name; images without labels must be for testing."""
    if form.split is not None:
        told = read_splits(images.splits, form.header.names[form.split], file.name)
        images.splits = told.splits
        for row, fault in told.faults.items():
            images.faults.setdefault(row, fault)
        return
    split = file.split if form.label is not None else split_of_name(file.path)
    if form.label is None and split != TEST:
        raise SourceError(
            f"{file.name} has no column that is known to hold the labels",
            hint="name it with --label-col; if these are images for testing, call it test.csv",
            path=file.path,
        )
    images.splits = [split] * len(images.splits)
