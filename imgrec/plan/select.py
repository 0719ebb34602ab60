"""Which part of a catalog is wanted, and which of its images belong together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from imgrec.errors import PlanError
from imgrec.model import Catalog, Samples
from imgrec.options import SourceOptions
from imgrec.plan.classes import without_rare
from imgrec.text import globs_pattern, picked, printable


def choose(catalog: Catalog, options: SourceOptions) -> Catalog:
    """Return the part of a catalog that globs and rare classes leave, with groups by path."""
    for globs, is_exclusion in ((options.include, False), (options.exclude, True)):
        if globs:
            catalog = _filter(catalog, globs, is_exclusion=is_exclusion)
    if options.min_per_class:
        catalog = without_rare(catalog, options.min_per_class)
    if options.group_by:
        catalog = _with_groups(catalog, options.group_by)
    return catalog


def _filter(catalog: Catalog, globs: Sequence[str], *, is_exclusion: bool) -> Catalog:
    pattern = globs_pattern(globs)
    names, bad = catalog.samples.filenames, catalog.bad

    def is_wanted(filename: str) -> bool:
        return bool(pattern.match(filename)) != is_exclusion

    option = "--exclude" if is_exclusion else "--include"
    if not is_exclusion and not any(map(is_wanted, names)):
        raise PlanError(
            f"nothing is left to pack: everything is left out by {option} {' '.join(globs)}",
            hint=f"globs are for whole paths such as {printable(min(names, default=''))}: write "
            f"'{globs[0].rstrip('/')}/*' for all that is in a folder",
        )
    chosen = catalog.keep(
        [place for place, name in enumerate(names) if is_wanted(name)],
        [file for file in bad if is_wanted(file.filename)],
        f"left out by {option} {' '.join(globs)}",
    )
    everything = [*names, *(file.filename for file in bad)]
    open_globs = [glob for glob in globs if glob not in catalog.matched_globs]
    idle = [glob for glob in open_globs if not any(map(globs_pattern([glob]).match, everything))]
    return chosen.warn(*(f"{option} {glob} matches no file" for glob in idle))


def _with_groups(catalog: Catalog, group_by: str) -> Catalog:
    if catalog.samples.groups:
        raise PlanError(
            "the source has groups of its own, so --group-by cannot make others",
            hint="leave out --group-by or --group-col",
        )
    pattern = re.compile(group_by)
    matches = [pattern.search(filename) for filename in catalog.samples.filenames]
    groups = tuple(picked(match, "group") if match else "" for match in matches)
    if groups and not any(groups):
        raise PlanError(
            f"--group-by {group_by!r} matches no file of the source",
            hint="it is searched for in paths such as "
            + ", ".join(map(printable, sorted(catalog.samples.filenames)[:2])),
        )
    if alone := [
        name for name, group in zip(catalog.samples.filenames, groups, strict=True) if not group
    ]:
        catalog = catalog.warn(
            f"{len(alone)} images are in no group by --group-by, such as {printable(min(alone))}"
        )
    return replace(catalog, samples=replace(catalog.samples, groups=groups))


def limit(catalog: Catalog, order: Sequence[int], most: int) -> Catalog:
    """Keep the `most` images that are drawn first of each class in each split of the source.

    An image of several classes is kept if it is among the first of one of them.
    """
    samples = catalog.samples
    label_sets = samples.class_sets or [(name,) for name in samples.class_names]
    counts: Counter[tuple[str, str]] = Counter()
    kept = []
    for place in order:
        strata = {(samples.splits[place], name) for name in label_sets[place] or ("",)}
        counts.update(strata)
        if any(counts[stratum] <= most for stratum in strata):
            kept.append(place)
    limited = catalog.keep(sorted(kept), catalog.bad, f"beyond --limit-per-class {most}")
    return replace(limited, beyond_limit=len(samples) - len(kept))


def straddling(samples: Samples, splits: Sequence[str]) -> list[str]:
    """Return the groups that the source itself has put into more than one split."""
    homes: dict[str, str] = {}
    parted = set()
    for group, split in zip(samples.groups, splits, strict=bool(samples.groups)):
        if group and homes.setdefault(group, split) != split:
            parted.add(group)
    return sorted(parted)
