"""Find the near-duplicates of a catalog, and report, group or drop them."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from imgrec.model import TRAIN, Catalog, Samples, split_order
from imgrec.near.duplicates import Images, Large, Sight, SimilarImages, detailed, find_similar
from imgrec.near.search import Run
from imgrec.notes import Note, NoteKind
from imgrec.options import Check, NearDups, OnLeak, PackOptions
from imgrec.source.embeddings import embed_images, match_names, open_embeddings
from imgrec.source.looking import Album, OnProgress, close_sight, decode_pictures, see_images
from imgrec.text import number, printable

if TYPE_CHECKING:
    from imgrec.near.search import Rows

_SHOWN = 5


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
    is_checked_at_packing = options.check is Check.DECODE and options.shrink_options is None
    with Album() as album:
        seen = see_images(samples, run, on_progress, album, checks=is_checked_at_packing)
        rows: Rows | None = None
        if source:
            decode = partial(decode_pictures, samples)
            rows = embed_images(source, names, detailed(seen.descriptors), decode)
        images = Images(names, samples.contents, seen.descriptors, rows)
        see_closely = partial(album.see, see_again=close_sight(samples, run))
        only_groups = options.near_dups is NearDups.GROUP
        sight = Sight(see_closely, seen.see)
        found = find_similar(images, options.alike, run, sight, only_groups=only_groups)
    if is_checked_at_packing:
        checked = [b""] * len(catalog.samples)
        for place, value in zip(places, seen.checked, strict=True):
            checked[place] = value
        catalog = replace(catalog, samples=replace(catalog.samples, checked=tuple(checked)))
    catalog = replace(catalog, near=found.near_pairs())
    is_reported = options.near_dups is NearDups.REPORT
    if is_reported and options.on_leak is OnLeak.REPORT:
        return catalog
    similar = found.without_large(_labels(samples))
    catalog = catalog.warn(*_large_groups(similar.large))
    if options.near_dups is NearDups.DROP:
        return _drop(catalog, places, similar, seen.pixels)
    if not found.edges:
        return catalog
    catalog = _group(catalog, places, similar)
    return _only_given(catalog) if is_reported else catalog


def _only_given(catalog: Catalog) -> Catalog:
    """Forget the groups of images without a split: only leaks that the source has are wanted."""
    samples = catalog.samples
    pinned = samples.pinned or [""] * len(samples)
    rows = zip(samples.near, samples.splits, pinned, strict=True)
    near = tuple(group if split or pin else "" for group, split, pin in rows)
    return replace(catalog, samples=replace(samples, near=near))


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
