"""What only a closer look at its images, or another dataset, tells of a catalog."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from xxhash import xxh3_128_digest

from imgrec.engine import Engine
from imgrec.model import Catalog, split_order
from imgrec.options import NearDups, PackOptions, SourceOptions
from imgrec.plan.select import choose
from imgrec.read.dataset import Dataset
from imgrec.read.documents import read_info
from imgrec.read.locate import find_dataset
from imgrec.read.samples import read_splits
from imgrec.source.image_pass import pin, refine_near_dups, without_small
from imgrec.source.split_file import pin_by_name
from imgrec.source.split_words import split_word

OnProgress: TypeAlias = Callable[[str, int, int | None], object]


def refined(
    catalog: Catalog, options: PackOptions, engine: Engine, on_progress: OnProgress | None
) -> Catalog:
    """Return a catalog without what is too small, with pins, and with its near-duplicates."""
    if options.source.min_side:
        catalog = without_small(catalog, options.source.min_side, engine.run)
    if options.split_from:
        earlier = find_dataset(options.split_from, options.data_dir)
        catalog = pin(catalog, _known_splits(earlier), engine.run)
        catalog = replace(catalog, earlier_classes=read_info(earlier).classes)
    if options.split_file:
        catalog = pin_by_name(catalog, options.split_file)
    if options.near_dups in (NearDups.AUTO, NearDups.OFF):
        return catalog

    def looked(images: int, total: int) -> None:
        if on_progress:
            on_progress("look", images, total)

    chosen = _chosen(catalog, options.source)
    return refine_near_dups(catalog, chosen, options.near_dups, engine.run, looked)


def _known_splits(folder: Path) -> dict[bytes, str]:
    """Return the split of each image of a dataset, by its hash; TFDS may have written it."""
    if read_info(folder).fingerprint:
        return read_splits(folder)
    dataset, known = Dataset(folder), dict[bytes, str]()
    # As in `read_splits`, the split furthest from training comes last, and so wins.
    for split in sorted(dataset, key=lambda name: split_order(split_word(name) or name)):
        for record in dataset[split]:
            known[xxh3_128_digest(record.image)] = split_word(split) or split
    return known


def _chosen(catalog: Catalog, options: SourceOptions) -> set[str]:
    """Name the files that are to be packed: no other is worth keeping in the place of one."""
    chosen = choose(catalog, replace(options, group_by=""))
    return set(chosen.samples.filenames)
