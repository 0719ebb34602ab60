"""A closer look at the images of a catalog, where an option asks for more than their beginnings."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeVar

from xxhash import xxh3_128_digest

from imgrec.blob import Blob, Pixels
from imgrec.codec.image import shape_of
from imgrec.errors import BadImage
from imgrec.model import Catalog, Samples
from imgrec.source.probe import Run
from imgrec.storage.ahead import reader
from imgrec.storage.blobs import close_files

V = TypeVar("V")

_BATCH = 256


class ImageBatch(NamedTuple):
    """Some images of a catalog, as a worker gets them."""

    start: int
    """Where the first of them is among all."""
    blobs: tuple[Blob, ...]
    sizes: tuple[int, ...]
    filenames: tuple[str, ...]


def pin(catalog: Catalog, known: Mapping[bytes, str], run: Run) -> Catalog:
    """Pin each image that is known, by its hash, to the split it is known in."""
    hashes = _each(catalog.samples, _hashes, run)
    pinned = tuple([known.get(value, "") for value in hashes])
    warnings = catalog.warnings
    if not any(pinned):
        warnings = (*warnings, "--split-from: that dataset has none of these images")
    samples = replace(catalog.samples, pinned=pinned)
    return replace(catalog, samples=samples, warnings=warnings)


def without_small(catalog: Catalog, min_side: int, run: Run) -> Catalog:
    """Leave out the images with a side of fewer than `min_side` pixels, and count them."""
    sides = _each(catalog.samples, _short_sides, run)
    kept = [place for place, side in enumerate(sides) if side is None or side >= min_side]
    return catalog.keep(kept, catalog.bad, f"smaller than --min-side {min_side}")


def _each(
    samples: Samples, function: Callable[[ImageBatch], tuple[int, list[V]]], run: Run
) -> list[V]:
    """Return what a function finds out about each image; it gets and answers many at once."""
    answers = dict(run(function, batches(samples)))
    return [value for start in sorted(answers) for value in answers[start]]


def batches(samples: Samples) -> Iterator[ImageBatch]:
    """Yield all images, many at once."""
    for start in range(0, len(samples), _BATCH):
        part = slice(start, start + _BATCH)
        yield ImageBatch(start, samples.blobs[part], samples.sizes[part], samples.filenames[part])


def _hashes(images: ImageBatch) -> tuple[int, list[bytes]]:
    """Return the hash of each image, as `samples.parquet` has it; b"" for an unreadable one."""
    values = []
    read = reader(images.blobs, images.sizes)
    for blob, size, name in zip(images.blobs, images.sizes, images.filenames, strict=True):
        if not size:  # globs leave it out, and it was not opened
            values.append(b"")
            continue
        try:
            values.append(xxh3_128_digest(read(blob, size, name=name)))
        except BadImage:  # the writer will say why
            values.append(b"")
    close_files()
    return images.start, values


def _short_sides(images: ImageBatch) -> tuple[int, list[int | None]]:
    """Return the shorter side of each image; None for one that cannot be read."""
    values: list[int | None] = []
    read = reader(images.blobs, images.sizes)
    for blob, size, filename in zip(images.blobs, images.sizes, images.filenames, strict=True):
        if isinstance(blob, Pixels):
            values.append(min(blob.height, blob.width))
            continue
        if not size:  # as above
            values.append(None)
            continue
        try:
            values.append(min(shape_of(read(blob, size, name=filename), filename)[:2]))
        except BadImage:  # the writer will say why
            values.append(None)
    close_files()
    return images.start, values
