"""Find the near-duplicates of a catalog, and report, group or drop them."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec.decode import Decoding, decode_covering
from imgrec.codec.image import pack_pixels, prepare
from imgrec.codec.look import Look, look, look_at_pixels, look_closely, look_closely_at_pixels
from imgrec.errors import BadImage
from imgrec.model import TRAIN, Catalog, Pixels, Samples, split_order
from imgrec.near.descriptor import BLANK, CLOSE_BYTES, describe
from imgrec.near.duplicates import (
    Images,
    Large,
    See,
    Sight,
    SimilarImages,
    detailed,
    find_similar,
)
from imgrec.near.search import Run
from imgrec.notes import Note, NoteKind
from imgrec.options import Check, NearDups, PackOptions
from imgrec.source.embeddings import embed_images, match_names, open_embeddings
from imgrec.source.probe import ImageBatch, image_batches
from imgrec.storage.blobs import close_files, read_blob
from imgrec.storage.read_ahead import reader
from imgrec.text import number, printable

if TYPE_CHECKING:
    from imgrec.near.search import Rows
    from imgrec.source.embeddings import Picture

_BATCH, _CLOSE_BATCH = 256, 32
"""Images that a task looks at. Few are looked at closely: every worker gets some."""
_SHOWN = 5
UPRIGHT_RGB = Decoding(orient=True)

OnProgress = Callable[[int, int], object]
"""Called with how many more images were decoded, and of how many."""


class Seen(NamedTuple):
    """What images look like, by column."""

    looks: list[bytes]
    """1,024 bytes each: see `codec.look`."""
    descriptors: bytes
    """200 bytes each: see `near.descriptor`."""
    pixels: list[int]
    """How many each has; 0 for an image that cannot be read."""
    hashes: list[bytes]
    """The XXH3 (128 bits) of the bytes of each; b"" if they cannot be read."""

    def see(self, places: Sequence[int]) -> bytes:
        """Return the looks of the images at some places."""
        return b"".join([self.looks[place] for place in places])


def see_images(samples: Samples, run: Run, on_progress: OnProgress) -> Seen:
    """Decode all images at a small scale; those that cannot be read look blank."""
    parts: dict[int, Seen] = {}
    batches = list(image_batches(samples.filenames, samples.blobs, samples.sizes, _BATCH))
    for start, part in run(_see_batch, batches):
        parts[start] = part
        on_progress(len(part.pixels), len(samples))
    return join_seen([parts[start] for start in sorted(parts)])


def close_sight(samples: Samples, run: Run) -> See:
    """Return a function that decodes some images again, to look at them closely.

    Those that cannot be read look blank.
    """

    def see_closely(places: Sequence[int]) -> bytes:
        chosen = samples.pick(places)
        batches = image_batches(chosen.filenames, chosen.blobs, chosen.sizes, _CLOSE_BATCH)
        parts = dict(run(_see_batch_closely, batches))
        return b"".join([parts[start] for start in sorted(parts)])

    return see_closely


def join_seen(parts: Sequence[Seen]) -> Seen:
    """Join parts, in their order."""
    return Seen(
        [look for part in parts for look in part.looks],
        b"".join([part.descriptors for part in parts]),
        [pixels for part in parts for pixels in part.pixels],
        [value for part in parts for value in part.hashes],
    )


def seen_of(looks: Sequence[Look | None], hashes: list[bytes]) -> Seen:
    """Describe looks; None is an image that cannot be read."""
    greys = [one.grey if one else BLANK for one in looks]
    return Seen(greys, describe(greys), [one.pixels if one else 0 for one in looks], hashes)


def _see_batch(images: ImageBatch) -> tuple[int, Seen]:
    looks: list[Look | None] = []
    hashes: list[bytes] = []
    read = reader(images.blobs, images.sizes)
    for blob, size, name in zip(images.blobs, images.sizes, images.names, strict=True):
        seen: Look | None = None
        value = b""
        with suppress(BadImage):  # the writer reports why
            data = read(blob, size, name=name)
            value = xxh3_128_digest(data)
            seen = look_at_pixels(data, blob) if isinstance(blob, Pixels) else look(data, name)
        looks.append(seen)
        hashes.append(value)
    close_files()
    return images.start, seen_of(looks, hashes)


def _see_batch_closely(images: ImageBatch) -> tuple[int, bytes]:
    looks = []
    read = reader(images.blobs, images.sizes)
    for blob, size, name in zip(images.blobs, images.sizes, images.names, strict=True):
        seen = bytes(CLOSE_BYTES)
        with suppress(BadImage):
            data = read(blob, size, name=name)
            if isinstance(blob, Pixels):
                seen = look_closely_at_pixels(data, blob)
            else:
                seen = look_closely(data, name)
        looks.append(seen)
    close_files()
    return images.start, b"".join(looks)


def decode_pictures(samples: Samples, places: Sequence[int]) -> dict[int, Picture]:
    """Decode some images to RGB, as they would be packed, and upright. Bad ones are left out."""
    pictures = {}
    for place in places:
        blob, name = samples.blobs[place], samples.filenames[place]
        with suppress(BadImage):  # the writer reports why
            data = read_blob(blob, samples.sizes[place], name=name)
            if isinstance(blob, Pixels):
                packed = pack_pixels(data, blob)
            else:
                packed = prepare(data, name, Check.DECODE)
            pictures[place] = decode_covering(packed.data, UPRIGHT_RGB)
    return pictures


def refine_near_dups(
    catalog: Catalog,
    chosen: Container[str],
    options: PackOptions,
    run: Run,
    on_progress: OnProgress,
) -> Catalog:
    """Find the near-duplicates among the files chosen, and report, group or drop them."""
    places = [at for at, name in enumerate(catalog.samples.filenames) if name in chosen]
    samples = catalog.samples.pick(places)
    names = samples.filenames
    source = match_names(open_embeddings(options.embeddings), names)
    seen = see_images(samples, run, on_progress)
    rows: Rows | None = None
    if source:
        decode = partial(decode_pictures, samples)
        rows = embed_images(source, names, detailed(seen.descriptors), decode)
    images = Images(names, samples.contents, seen.descriptors, rows)
    sight = Sight(close_sight(samples, run), seen.see)
    only_groups = options.near_dups is NearDups.GROUP
    found = find_similar(images, options.alike, run, sight, only_groups=only_groups)
    catalog = replace(catalog, near=found.near_pairs())
    if options.near_dups is NearDups.REPORT:
        return catalog
    similar = found.without_large(_labels(samples))
    catalog = catalog.warn(*_large_groups(similar.large))
    if options.near_dups is NearDups.DROP:
        return _drop(catalog, places, similar, seen.pixels)
    return _group(catalog, places, similar) if found.edges else catalog


def _labels(samples: Samples) -> Sequence[Hashable]:
    return list(map(frozenset, samples.class_sets)) or samples.class_names


def _group(catalog: Catalog, places: Sequence[int], similar: SimilarImages) -> Catalog:
    """Keep similar images in one split."""
    near = [""] * len(catalog.samples)
    for place, group in zip(places, similar.groups(), strict=True):
        near[place] = group
    return replace(catalog, samples=replace(catalog.samples, near=tuple(near)))


def _large_groups(large: Sequence[Large]) -> Iterator[str]:
    """Warn about groups that are too large: neighbours of neighbours need not look alike."""
    for group in large[:_SHOWN]:
        yield (
            f"{group.size} images look alike, each like another of them, such as "
            f"{printable(group.first)}: more than 5 % of a class, so they are treated as different "
            "images; --group-by keeps images of one scene together"
        )
    if len(large) > _SHOWN:
        yield f"{number(len(large) - _SHOWN, 'more group')} of more than 5 % of a class look alike"


def _drop(
    catalog: Catalog, places: Sequence[int], similar: SimilarImages, pixels: Sequence[int]
) -> Catalog:
    """Leave out all but one of similar images with the same label.

    Similar images of different labels are kept, in one split.
    """
    samples = catalog.samples.pick(places)
    labels = _labels(samples)
    order = [place for place in _by_worth(samples, pixels) if pixels[place]]
    kept_for = similar.to_drop(order, labels)
    names, contents = samples.filenames, samples.contents
    left_out = [
        Note(
            names[place],
            f"{'' if contents[place] == contents[kept] else 'near-'}duplicate of {names[kept]}",
            NoteKind.LEFT_OUT,
            other=names[kept],
        )
        for place, kept in kept_for.items()
    ]
    dropped = {places[place] for place in kept_for}
    rest = [place for place in range(len(catalog.samples)) if place not in dropped]
    catalog = _group(catalog, places, similar)
    return replace(catalog, samples=catalog.samples.pick(rest)).noted(sorted(left_out))


def _by_worth(samples: Samples, pixels: Sequence[int]) -> list[int]:
    """Return the places of images, the ones to keep first.

    Images of another dataset come before new ones; test before val before train, because copies in
    train are leaks; then larger images, and the first by name.
    """
    pinned = samples.pinned or [""] * len(samples)
    splits = [pin or split or TRAIN for pin, split in zip(pinned, samples.splits, strict=True)]
    order = sorted(range(len(samples)), key=samples.filenames.__getitem__)
    order.sort(key=lambda place: -pixels[place])
    order.sort(key=lambda place: split_order(splits[place]), reverse=True)
    order.sort(key=lambda place: not pinned[place])
    return order
