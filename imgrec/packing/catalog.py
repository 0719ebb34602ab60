"""From a source to its catalog: scan it, then apply options that need all classes or all images."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.engine import Engine
from imgrec.model import Catalog, split_order
from imgrec.options import NearDups, PackOptions
from imgrec.planning.build import choose
from imgrec.planning.classes import change_classes
from imgrec.planning.corrections import Corrections
from imgrec.planning.growth import match_records, refuse_loss
from imgrec.read.documents import read_info
from imgrec.source.kinds import Source, scan
from imgrec.source.tree import Context
from imgrec.storage.paths import is_remote

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage ("scan", "look" or "pack"), how many more images are done, of how many."""


def refuse_missing(options: PackOptions) -> None:
    """Raise what is wrong with the datasets and files that options name, before a long scan."""
    if options.split_from:
        from imgrec.read.files import find_dataset

        find_dataset(options.split_from, options.data_dir)
    split_file = os.path.expanduser(options.split_file)
    if split_file and not is_remote(split_file) and not os.path.isfile(split_file):
        from imgrec.source.image_pass import read_split_file

        read_split_file(split_file)
    if options.embeddings:
        from imgrec.source.embeddings import open_embeddings

        open_embeddings(options.embeddings)


class Scanned(NamedTuple):
    """A catalog, and the corrections of an earlier version that it has."""

    catalog: Catalog
    corrections: Corrections


def scan_source(
    source: Source,
    options: PackOptions,
    engine: Engine,
    on_progress: OnProgress | None,
    *,
    spool: str,
    keeps_small: bool = False,
    is_private: bool = False,
) -> Scanned:
    """Scan a source, and apply the options that need all of its classes or all of its images."""

    def report(stage: str, images: int, total: int | None = None) -> None:
        if on_progress:
            on_progress(stage, images, total)

    context = Context(
        options=options.source,
        run=engine.run,
        on_progress=partial(report, "scan"),
        spool=spool,
        keeps_small=keeps_small,
        is_private=is_private,
    )
    catalog = scan(source, context)
    if options.source.class_changes():
        catalog = change_classes(catalog, options.source)
    return _look_at_images(catalog, options, engine, partial(report, "look"))


def _look_at_images(
    catalog: Catalog, options: PackOptions, engine: Engine, on_image: Callable[[int, int], object]
) -> Scanned:
    """Leave out small images, pin images to splits, and find near-duplicates, as asked."""
    corrections = Corrections()
    finds_near = options.near_dups not in (NearDups.AUTO, NearDups.OFF)
    if not (options.source.min_side or options.split_from or options.split_file or finds_near):
        return Scanned(catalog, corrections)
    from imgrec.source import image_pass  # slow to import

    if options.source.min_side:
        catalog = image_pass.without_small(catalog, options.source.min_side, engine.run)
    if options.split_from:
        catalog, corrections = _with_splits_of(catalog, options, engine)
    if options.split_file:
        catalog = image_pass.pin_by_name(catalog, os.path.expanduser(options.split_file))
    if not finds_near:
        return Scanned(catalog, corrections)
    from imgrec.source.near_images import refine_near_dups

    # Only an image that will be packed is worth keeping in place of its near-duplicate.
    chosen = choose(catalog, replace(options.source, group_by="")).samples.filenames
    catalog = refine_near_dups(catalog, set(chosen), options, engine.run, on_image)
    return Scanned(catalog, corrections)


def _with_splits_of(catalog: Catalog, options: PackOptions, engine: Engine) -> Scanned:
    """Pin images to the splits that they have in the dataset of --split-from.

    An earlier version of the same dataset also knows images by their names, and its corrections
    are applied.
    """
    from imgrec.packing.corrections import decode_corrections
    from imgrec.read.files import find_dataset
    from imgrec.source.image_pass import hash_images

    folder = find_dataset(options.split_from, options.data_dir)
    info, corrections = read_info(folder), decode_corrections(folder)
    hashes: Sequence[bytes] = hash_images(catalog.samples, engine.run)
    if info.name == layout.dataset_name(catalog.name, options.name) and info.fingerprint:
        from imgrec.packing.earlier import read_earlier

        records = read_earlier(folder).records
        catalog, hashes, corrections = corrections.apply(catalog, hashes, records.contents())
        splits, homes = records.samples.splits, records.homes()
        rows = match_records(records, catalog.samples.filenames, hashes)
        if not options.source.yes:
            refuse_loss(records, len(rows), len(hashes), f"{info.name}:{info.version}")
        pinned = tuple(
            splits[rows[place]] if place in rows else homes.get(found, "")
            for place, found in enumerate(hashes)
        )
    else:
        if corrections:
            catalog = catalog.warn(
                f"the corrections of {info.name}:{info.version} (imgrec edit) are not applied, as "
                "this dataset has another name"
            )
        corrections, known = Corrections(), known_splits(folder)
        pinned = tuple(known.get(found, "") for found in hashes)
    if not any(pinned):
        catalog = catalog.warn("--split-from: that dataset has none of these images")
    catalog = replace(
        catalog,
        samples=replace(catalog.samples, pinned=pinned),
        earlier_classes=info.classes,
    )
    return Scanned(catalog, corrections)


def known_splits(folder: Path) -> dict[bytes, str]:
    """Return the split of each image of a dataset, by its hash. TFDS may have written it."""
    from imgrec.read.dataset import Dataset
    from imgrec.read.samples import read_splits
    from imgrec.source.words import split_word

    if read_info(folder).fingerprint:
        return read_splits(folder)
    dataset, known = Dataset(folder), dict[bytes, str]()
    # As in `read_splits`, the split furthest from training comes last, and so wins.
    for split in sorted(dataset, key=lambda name: split_order(split_word(name) or name)):
        for record in dataset[split]:
            known[xxh3_128_digest(record.image)] = split_word(split) or split
    return known
