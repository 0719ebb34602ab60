"""From a source to its catalog: scan it, then apply options that need all classes or all images."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeAlias

from xxhash import xxh3_128_digest

from imgrec.engine import Engine
from imgrec.model import Catalog, split_order
from imgrec.options import NearDups, PackOptions
from imgrec.planning.build import choose
from imgrec.planning.classes import change_classes
from imgrec.read.documents import read_info
from imgrec.source.kinds import Source, scan
from imgrec.source.tree import Context

OnProgress: TypeAlias = Callable[[str, int, int | None], object]
"""Called with the stage ("scan", "look" or "pack"), how many more images are done, of how many."""


def scan_source(
    source: Source,
    options: PackOptions,
    engine: Engine,
    on_progress: OnProgress | None,
    *,
    spool: str,
    keeps_small: bool = False,
    is_private: bool = False,
) -> Catalog:
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
) -> Catalog:
    """Leave out small images, pin images to splits, and find near-duplicates, as asked."""
    finds_near = options.near_dups not in (NearDups.AUTO, NearDups.OFF)
    if not (options.source.min_side or options.split_from or options.split_file or finds_near):
        return catalog
    from imgrec.source import image_pass  # slow to import

    if options.source.min_side:
        catalog = image_pass.without_small(catalog, options.source.min_side, engine.run)
    if options.split_from:
        from imgrec.read.files import find_dataset

        earlier = find_dataset(options.split_from, options.data_dir)
        catalog = image_pass.pin(catalog, known_splits(earlier), engine.run)
        catalog = replace(catalog, earlier_classes=read_info(earlier).classes)
    if options.split_file:
        catalog = image_pass.pin_by_name(catalog, os.path.expanduser(options.split_file))
    if not finds_near:
        return catalog
    from imgrec.source.near_images import refine_near_dups

    # Only an image that will be packed is worth keeping in place of its near-duplicate.
    chosen = choose(catalog, replace(options.source, group_by="")).samples.filenames
    return refine_near_dups(catalog, set(chosen), options, engine.run, on_image)


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
