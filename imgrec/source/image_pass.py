"""Options about all images of a catalog: their smallest side and known splits."""

from __future__ import annotations

import os
import posixpath
import re
from collections.abc import Callable, Container
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias, TypeVar

from xxhash import xxh3_128_digest

from imgrec.codec.image import pack_pixels, prepare, shape_of
from imgrec.errors import BadImage, SourceError
from imgrec.model import Blob, Catalog, Pixels, Samples, picked
from imgrec.notes import Note, NoteKind, Notes
from imgrec.options import Check, ShrinkOptions
from imgrec.source.columns import is_path_column, is_split_column
from imgrec.source.probe import ImageBatch, image_batches
from imgrec.source.tables import Table, read_table
from imgrec.source.tree import Run
from imgrec.source.words import split_word
from imgrec.storage.blobs import close_files
from imgrec.storage.named_files import local_file
from imgrec.storage.read_ahead import Read, reader
from imgrec.text import are, number, printable

V = TypeVar("V")
OnProgress: TypeAlias = Callable[[int, int], object]
"""Called with how many more images were decoded, and of how many."""

NONE_KNOWN = "--split-from: that dataset has none of these images"
_BATCH = 256
_SHOWN = 5
_SPLIT_NAME = re.compile(r"(?!all$)[a-z][a-z0-9_]*")  # TFDS calls all splits together "all"


def without_small(catalog: Catalog, min_side: int, run: Run, known: Container[str] = ()) -> Catalog:
    """Leave out images with a side below `min_side` pixels, and count them.

    Those with `known` names are large enough.
    """
    names = catalog.samples.filenames
    places = [place for place, name in enumerate(names) if name not in known]
    # An image that cannot be read stays: the writer reports why.
    sides = _measure_all(catalog.samples.pick(places), _short_side, min_side, run)
    small = {place for place, side in zip(places, sides, strict=True) if side < min_side}
    kept = [place for place in range(len(names)) if place not in small]
    return catalog.keep(kept, catalog.bad, f"smaller than --min-side {min_side}")


def hash_images(samples: Samples, run: Run) -> list[bytes]:
    """Return the hash of each image, as in `samples.parquet`; b"" if it cannot be read."""
    return _measure_all(samples, _hash, b"", run)


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageCheck:
    """A picklable function that finds the images that cannot be packed."""

    check: Check
    shrink_to: ShrinkOptions | None
    newest_ns: int
    """See `read_blob`."""

    def __call__(self, images: ImageBatch) -> Notes:
        """Return a note for each bad image of a batch."""
        found, read = list[Note](), reader(images.blobs, images.sizes)
        for blob, size, name in zip(images.blobs, images.sizes, images.names, strict=True):
            try:
                data = read(blob, size, self.newest_ns, name)
                if isinstance(blob, Pixels):
                    pack_pixels(data, blob, self.shrink_to)
                else:
                    prepare(data, name, self.check, self.shrink_to)
            except BadImage as error:
                found.append(Note(name, str(error), NoteKind.BAD))
        close_files()
        return tuple(found)


def find_bad(samples: Samples, check: ImageCheck, run: Run, on_progress: OnProgress) -> Notes:
    """Return a note for each image that cannot be packed."""
    batches = image_batches(samples.filenames, samples.blobs, samples.sizes, _BATCH)
    notes: list[Note] = []
    for found in run(check, batches):
        notes += found
        on_progress(min(_BATCH, len(samples)), len(samples))
    return tuple(sorted(notes))


def _measure_all(
    samples: Samples, measure: Callable[[Read, Blob, int, str], V], missing: V, run: Run
) -> list[V]:
    """Measure each image; one that cannot be read has the value `missing`."""
    batches = image_batches(samples.filenames, samples.blobs, samples.sizes, _BATCH)
    values = dict(run(partial(_measure_batch, measure, missing), batches))
    return [value for start in sorted(values) for value in values[start]]


def _measure_batch(
    measure: Callable[[Read, Blob, int, str], V], missing: V, images: ImageBatch
) -> tuple[int, list[V]]:
    values = [missing] * len(images.names)
    # Files that globs leave out were not opened: their size is 0, and a reader would read them.
    opened = [place for place, size in enumerate(images.sizes) if size]
    read = reader(picked(images.blobs, opened), picked(images.sizes, opened))
    for place in opened:
        with suppress(BadImage):
            blob, size, name = images.blobs[place], images.sizes[place], images.names[place]
            values[place] = measure(read, blob, size, name)
    close_files()
    return images.start, values


def _hash(read: Read, blob: Blob, size: int, name: str) -> bytes:
    """Return the hash of an image, as in `samples.parquet`."""
    return xxh3_128_digest(read(blob, size, name=name))


def _short_side(read: Read, blob: Blob, size: int, name: str) -> int:
    if isinstance(blob, Pixels):
        return min(blob.height, blob.width)
    return min(shape_of(read(blob, size, name=name), name)[:2])


def pin_by_name(catalog: Catalog, path: str) -> Catalog:
    """Pin each image that a table names to its split there.

    Raises SourceError if the table cannot be read, contradicts itself, or names other files.
    """
    splits = read_split_file(path)
    filenames = catalog.samples.filenames
    old = catalog.samples.pinned or ("",) * len(filenames)
    pinned = tuple(splits.get(name, pin) for name, pin in zip(filenames, old, strict=True))
    if strangers := sorted(set(splits).difference(filenames)):
        shown = ", ".join(strangers[:_SHOWN])
        if len(strangers) == len(splits):
            raise SourceError(
                f"--split-file {path} names no file of the source, but such as {shown}",
                hint=f"give paths such as {', '.join(map(printable, sorted(filenames)[:2]))}",
                path=path,
            )
        name = os.path.basename(path)
        catalog = catalog.warn(
            f"{number(len(strangers), 'file')} of {name} {are(len(strangers))} not in the source, "
            f"such as {shown}"
        )
    return replace(catalog, samples=replace(catalog.samples, pinned=pinned))


def read_split_file(path: str) -> dict[str, str]:
    """Return the split of each file."""
    with local_file(path) as here:
        if not os.path.isfile(here):
            raise SourceError(f"--split-file {path} is not a file", path=path)
        read = read_table(here, os.path.basename(path))
    table, path_at, split_at = _with_columns(read, path)
    faults = [(fault.line, fault.reason) for fault in table.faults]
    splits: dict[str, str] = {}
    rows = zip(table.lines, table.texts(path_at), table.texts(split_at), strict=True)
    for line, cell, word in rows:
        name = posixpath.normpath(cell.strip()) if cell.strip() else ""
        split = split_word(word) or (word.strip() if _SPLIT_NAME.fullmatch(word.strip()) else "")
        if not name:
            faults.append((line, "no file"))
        elif not split:
            faults.append((line, f"{word.strip()!r} is not a split"))
        elif splits.setdefault(name, split) != split:
            faults.append((line, f"{name} is in {splits[name]} already"))
    if faults:
        shown = "; ".join(f"line {line}: {fault}" for line, fault in sorted(faults)[:_SHOWN])
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise SourceError(
            f"--split-file {path} cannot be used: {shown}{more}",
            hint="write one line a file: its path in the source and its split",
            path=path,
        )
    return splits


def _with_columns(table: Table, path: str) -> tuple[Table, int, int]:
    """Return the table without its header, and the columns of paths and of splits."""
    header = table.names or (table.first_row() if table.lines else ())
    paths = [at for at, name in enumerate(header) if is_path_column(name)]
    splits = [at for at, name in enumerate(header) if is_split_column(name)]
    if len(paths) == 1 and len(splits) == 1:
        return table if table.names else table.with_header(), paths[0], splits[0]
    if len(header) == 2 and not table.names:
        return table, 0, 1
    raise SourceError(
        f"--split-file {path} has no clear columns of files and splits",
        hint="call them filename and split",
        path=path,
    )
