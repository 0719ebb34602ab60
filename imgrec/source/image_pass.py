"""Passes over all images of a catalog, for options that need more than their first bytes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from xxhash import xxh3_128_digest

from imgrec.blob import Blob, Pixels
from imgrec.codec.image import shape_of
from imgrec.errors import BadImage
from imgrec.model import Catalog, Samples
from imgrec.source.probe import Run
from imgrec.storage.blobs import close_files
from imgrec.storage.read_ahead import Read, reader

V = TypeVar("V")

_BATCH = 256


class ImageBatch(NamedTuple):
    """Some images of a catalog, as a worker gets them."""

    start: int
    """The place of the first one among all."""
    blobs: tuple[Blob, ...]
    sizes: tuple[int, ...]
    filenames: tuple[str, ...]


def batches(samples: Samples) -> Iterator[ImageBatch]:
    """Yield all images in batches."""
    for start in range(0, len(samples), _BATCH):
        part = slice(start, start + _BATCH)
        yield ImageBatch(start, samples.blobs[part], samples.sizes[part], samples.filenames[part])


def pin(catalog: Catalog, known: Mapping[bytes, str], run: Run) -> Catalog:
    """Pin each image with a known hash to its known split."""
    hashes = _each(catalog.samples, partial(_measure, _hash, b""), run)
    pinned = tuple([known.get(value, "") for value in hashes])
    catalog = replace(catalog, samples=replace(catalog.samples, pinned=pinned))
    if any(pinned):
        return catalog
    return catalog.warn("--split-from: that dataset has none of these images")


def without_small(catalog: Catalog, min_side: int, run: Run) -> Catalog:
    """Leave out images with a side below `min_side` pixels, and count them."""
    # An image that cannot be read stays: the writer reports why.
    sides = _each(catalog.samples, partial(_measure, _short_side, min_side), run)
    kept = [place for place, side in enumerate(sides) if side >= min_side]
    return catalog.keep(kept, catalog.bad, f"smaller than --min-side {min_side}")


def _each(
    samples: Samples, function: Callable[[ImageBatch], tuple[int, list[V]]], run: Run
) -> list[V]:
    """Return the value of each image; the function returns a batch's start and its values."""
    answers = dict(run(function, batches(samples)))
    return [value for start in sorted(answers) for value in answers[start]]


def _measure(
    measure: Callable[[Read, Blob, int, str], V], missing: V, images: ImageBatch
) -> tuple[int, list[V]]:
    """Measure each image of a batch; one that cannot be read has the value `missing`."""
    values = []
    read = reader(images.blobs, images.sizes)
    for blob, size, name in zip(images.blobs, images.sizes, images.filenames, strict=True):
        value = missing
        if size:  # 0 if globs leave it out: it was not opened
            with suppress(BadImage):
                value = measure(read, blob, size, name)
        values.append(value)
    close_files()
    return images.start, values


def _hash(read: Read, blob: Blob, size: int, name: str) -> bytes:
    """Return the hash of an image, as in `samples.parquet`."""
    return xxh3_128_digest(read(blob, size, name=name))


def _short_side(read: Read, blob: Blob, size: int, name: str) -> int:
    if isinstance(blob, Pixels):
        return min(blob.height, blob.width)
    return min(shape_of(read(blob, size, name=name), name)[:2])
