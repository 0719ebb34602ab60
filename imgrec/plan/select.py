"""Which part of a catalog is wanted, and which of its images belong together."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fnmatch import translate
from itertools import chain

from imgrec.errors import PlanError
from imgrec.model import Catalog, Ignored, Samples
from imgrec.options import SourceOptions
from imgrec.text import picked, printable

_EXAMPLES = 5


def choose(catalog: Catalog, options: SourceOptions) -> Catalog:
    """Return the part of a catalog that the globs let through, with groups by path."""
    for globs, is_exclusion in ((options.include, False), (options.exclude, True)):
        if globs:
            catalog = _filter(catalog, globs, is_exclusion=is_exclusion)
    if options.group_by:
        catalog = _with_groups(catalog, options.group_by)
    return catalog


def _filter(catalog: Catalog, globs: Sequence[str], *, is_exclusion: bool) -> Catalog:
    pattern = re.compile("|".join(map(translate, globs)))

    def is_wanted(filename: str) -> bool:
        return bool(pattern.match(filename)) != is_exclusion

    option = "--exclude" if is_exclusion else "--include"
    kind = f"left out by {option} {' '.join(globs)}"
    bad = tuple(skipped for skipped in catalog.bad if is_wanted(skipped.filename))
    chosen = keep(catalog, kind, lambda place: is_wanted(catalog.samples.filenames[place]))
    if not chosen.samples and not bad:
        raise PlanError(f"nothing is left to pack: everything is {kind}")
    return _without_empty_classes(replace(chosen, bad=bad))


def _without_empty_classes(catalog: Catalog) -> Catalog:
    """Drop the classes that nothing is left of, as far as that is known."""
    if catalog.bad:  # a bad image may have been the last one of its class
        return catalog
    found = {*catalog.samples.class_names, *chain.from_iterable(catalog.samples.label_sets)}
    folders = {name: where for name, where in catalog.class_folders.items() if name in found}
    return replace(catalog, class_folders=folders)


def keep(catalog: Catalog, kind: str, is_kept: Callable[[int], bool]) -> Catalog:
    """Return a catalog with some of its samples; count the others as ignored, by `kind`."""
    samples = catalog.samples
    kept: list[int] = []
    left_out: list[int] = []
    for place in range(len(samples)):
        (kept if is_kept(place) else left_out).append(place)
    if not left_out:
        return catalog
    names = sorted(samples.filenames[place] for place in left_out)
    ignored = Ignored(kind=kind, count=len(names), examples=tuple(names[:_EXAMPLES]))
    return replace(catalog, samples=samples.pick(kept), ignored=(*catalog.ignored, ignored))


def _with_groups(catalog: Catalog, group_by: str) -> Catalog:
    pattern = re.compile(group_by)
    matches = [pattern.search(filename) for filename in catalog.samples.filenames]
    groups = tuple(picked(match, "group") if match else "" for match in matches)
    if not any(groups):
        raise PlanError(
            f"--group-by {group_by!r} matches no file of the source",
            hint="it is searched for in paths such as "
            + ", ".join(map(printable, catalog.samples.filenames[:2])),
        )
    warnings = list(catalog.warnings)
    if alone := [
        name for name, group in zip(catalog.samples.filenames, groups, strict=True) if not group
    ]:
        warnings.append(
            f"{len(alone)} images are in no group by --group-by, such as {printable(min(alone))}"
        )
    samples = replace(catalog.samples, groups=groups)
    return replace(catalog, samples=samples, warnings=tuple(warnings))


def limit(catalog: Catalog, order: Sequence[int], most: int) -> Catalog:
    """Keep the first `most` images, by rank, of each class in each split of the source."""
    samples = catalog.samples
    counts: Counter[tuple[str, str]] = Counter()
    kept = set()
    for place in order:
        stratum = samples.splits[place], samples.class_names[place]
        counts[stratum] += 1
        if counts[stratum] <= most:
            kept.add(place)
    return keep(catalog, f"beyond --limit-per-class {most}", kept.__contains__)


def straddling(samples: Samples, splits: Sequence[str]) -> list[str]:
    """Return the groups that the source itself has put into more than one split."""
    homes: dict[str, str] = {}
    parted = set()
    for group, split in zip(samples.groups, splits, strict=bool(samples.groups)):
        if group and homes.setdefault(group, split) != split:
            parted.add(group)
    return sorted(parted)
