"""Passes over all images of a catalog, for options that need more than their first bytes."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar

from xxhash import xxh3_128_digest

from imgrec.codec import descriptor
from imgrec.codec.image import shape_of
from imgrec.errors import BadImage
from imgrec.model import TRAIN, Blob, Catalog, Pixels, Samples, split_order
from imgrec.near.duplicates import Images, SimilarImages, find_similar
from imgrec.near.search import DISTANCE
from imgrec.notes import Note, NoteKind
from imgrec.options import NearDups
from imgrec.source.probe import ImageBatch, image_batches
from imgrec.source.tree import Run
from imgrec.storage.blobs import close_files, read_blob
from imgrec.storage.read_ahead import Read, reader
from imgrec.text import printable

V = TypeVar("V")

_BATCH = 256


def _batches(samples: Samples) -> Iterator[ImageBatch]:
    return image_batches(samples.filenames, samples.blobs, samples.sizes, _BATCH)


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
    answers = dict(run(function, _batches(samples)))
    return [value for start in sorted(answers) for value in answers[start]]


def _measure(
    measure: Callable[[Read, Blob, int, str], V], missing: V, images: ImageBatch
) -> tuple[int, list[V]]:
    """Measure each image of a batch; one that cannot be read has the value `missing`."""
    values = []
    read = reader(images.blobs, images.sizes)
    for blob, size, name in zip(images.blobs, images.sizes, images.names, strict=True):
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


OnLook = Callable[[int, int], object]
"""Called with how many more images were looked at, and of how many."""

_LARGE_GROUP, _LARGE_SHARE = 20, 0.05
"""A group of that many images, and of that share of all, is called large."""


class Looks(NamedTuple):
    """What images look like, by column."""

    signatures: bytes
    """65 bytes each: see `codec.descriptor`."""
    pixels: list[int]
    """How many each has; 0 for an image that cannot be read."""
    hashes: list[bytes]
    """The XXH3 (128 bits) of the bytes of each; b"" where there are none to be read."""


def look_at(samples: Samples, run: Run, on_look: OnLook) -> Looks:
    """Decode all images, as small as will do; those that cannot be read are flat."""
    found: dict[int, Looks] = {}
    for start, looks in run(_look, _batches(samples)):
        found[start] = looks
        on_look(len(looks.pixels), len(samples))
    parts = [found[start] for start in sorted(found)]
    return Looks(
        b"".join([part.signatures for part in parts]),
        [one for part in parts for one in part.pixels],
        [one for part in parts for one in part.hashes],
    )


def refine_near_dups(
    catalog: Catalog, chosen: Container[str], mode: NearDups, run: Run, on_look: OnLook
) -> Catalog:
    """Find the near-duplicates among the files chosen, and do what is asked about them."""
    samples = catalog.samples
    places = [place for place, name in enumerate(samples.filenames) if name in chosen]
    part = samples.pick(places)
    looks = look_at(part, run, on_look)
    alike = find_similar(Images(part.filenames, part.contents, looks.signatures), DISTANCE, run)
    catalog = replace(catalog, near=alike.near_pairs())
    if mode is NearDups.GROUP:
        return _grouped(catalog, places, alike)
    return _thinned(catalog, places, alike, looks) if mode is NearDups.DROP else catalog


def _grouped(catalog: Catalog, places: Sequence[int], alike: SimilarImages) -> Catalog:
    """Keep look-alikes in one split."""
    if not (catalog.near and catalog.near.pairs):
        return catalog
    groups = alike.groups()
    samples = _held_together(catalog.samples, places, groups)
    return replace(catalog, samples=samples).warn(*_large(groups))


def _held_together(samples: Samples, places: Sequence[int], groups: Sequence[str]) -> Samples:
    near = [""] * len(samples)
    for place, group in zip(places, groups, strict=True):
        near[place] = group
    return replace(samples, near=tuple(near))


def _large(groups: Sequence[str]) -> Iterator[str]:
    """Name the groups that are large: near-duplicates of near-duplicates need not look alike."""
    sizes: dict[str, int] = {}
    for group in filter(None, groups):
        sizes[group] = sizes.get(group, 0) + 1
    for group, size in sorted(sizes.items(), key=lambda item: (-item[1], item[0])):
        if size < _LARGE_GROUP or size < _LARGE_SHARE * len(groups):
            break
        yield (
            f"{size} images stay in one split because each looks like another of them, the first "
            f"of them {printable(group)}: imgrec leaks shows which"
        )


def _thinned(
    catalog: Catalog, places: Sequence[int], alike: SimilarImages, looks: Looks
) -> Catalog:
    """Leave out all but one of what looks alike and has the same label.

    What is kept because its label is another stays in one split with what it looks like.
    """
    samples = catalog.samples.pick(places)
    kinds = list(map(frozenset, samples.class_sets)) or samples.class_names
    order = [place for place in _by_worth(samples, looks.pixels) if looks.pixels[place]]
    spare = alike.to_drop(order, kinds)
    names, contents = samples.filenames, samples.contents
    left_out = [
        Note(
            names[place],
            f"{'' if contents[place] == contents[twin] else 'near-'}duplicate of {names[twin]}",
            NoteKind.LEFT_OUT,
            other=names[twin],
        )
        for place, twin in spare.items()
    ]
    gone = {places[place] for place in spare}
    kept = [place for place in range(len(catalog.samples)) if place not in gone]
    together = _held_together(catalog.samples, places, alike.groups())
    return replace(catalog, samples=together.pick(kept)).noted(sorted(left_out))


def _by_worth(samples: Samples, pixels: Sequence[int]) -> list[int]:
    """Return the places of images, those to be kept rather than others first.

    What another dataset has goes before what is new; test before val before train, since copies
    in train are leaks; then the larger, and the first by name.
    """
    splits = [split or TRAIN for split in samples.splits]
    if samples.pinned:
        splits = [pin or split for pin, split in zip(samples.pinned, splits, strict=True)]
    order = sorted(range(len(samples)), key=samples.filenames.__getitem__)
    order.sort(key=lambda place: -pixels[place])
    order.sort(key=lambda place: split_order(splits[place]), reverse=True)
    if samples.pinned:
        order.sort(key=lambda place: not samples.pinned[place])
    return order


def _look(images: ImageBatch) -> tuple[int, Looks]:
    """Return where a batch starts, and what its images look like."""
    sketches: list[descriptor.Sketch | None] = []
    hashes = []
    for blob, size, filename in zip(images.blobs, images.sizes, images.names, strict=True):
        sketch, digest = _sketched(blob, size, filename)
        sketches.append(sketch)
        hashes.append(digest)
    close_files()
    pixels = [one.pixels if one else 0 for one in sketches]
    return images.start, Looks(descriptor.encode(sketches), pixels, hashes)


def _sketched(blob: Blob, size: int, filename: str) -> tuple[descriptor.Sketch | None, bytes]:
    digest = b""
    try:
        data = read_blob(blob, size, name=filename)
        digest = xxh3_128_digest(data)
        if isinstance(blob, Pixels):
            return descriptor.sketch_pixels(data, blob), digest
        return descriptor.sketch(data, filename), digest
    except BadImage:  # the writer reports why
        return None, digest
