"""From a catalog and options to a plan."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from imgrec.errors import PlanError
from imgrec.layout import dataset_name, legal_name
from imgrec.model import (
    FOLD,
    TEST,
    TRAIN,
    UNLABELLED,
    VAL,
    Catalog,
    Label,
    Plan,
    Samples,
    ShardTask,
    Stored,
    known_label,
    labels_by_split,
    picked,
)
from imgrec.notes import Note, NoteKind, Notes, groups_of_copies, warnings_of
from imgrec.options import OnLeak, PackOptions, SourceOptions
from imgrec.planning.classes import FoundClasses, number_classes, rarest, without_rare
from imgrec.planning.groups import (
    Group,
    divided_groups,
    find_groups,
    find_near_groups,
    leaked_copies,
    note_copies,
    refuse_leaks,
    refuse_near_leaks,
)
from imgrec.planning.shards import (
    dataset_facts,
    embeddings_facts,
    fingerprint,
    lengths_of,
    make_tasks,
    task_facts,
)
from imgrec.planning.split import assign_splits, draw_order, write_order
from imgrec.text import are, globs_pattern, number, own_name, printable, unmatched_glob
from imgrec.text import picked as picked_text

_SHOWN = 10
"""How many names a warning lists."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The name, label and split of every sample, before shards are cut."""

    name: str
    """The name of the dataset."""
    catalog: Catalog
    classes: tuple[str, ...]
    label_of: Mapping[str, int]
    """The label of each class, by the source's own name."""
    samples: Samples
    """With labels and final splits."""
    left_out: Mapping[int, Note]
    """Copies that are not packed, by place."""
    about_copies: Notes

    def plan(
        self,
        tasks: tuple[ShardTask, ...],
        order: Sequence[int],
        options: PackOptions,
        more_facts: bytes = b"",
    ) -> Plan:
        """Return the plan of these tasks, which hold the samples at `order`, in this order.

        `more_facts` are whatever else decides the output.
        """
        catalog = self.catalog
        contents = picked(self.samples.contents, order)
        more_facts += embeddings_facts(catalog.near)
        submission = catalog.submission and catalog.submission.named(self.label_of, self.classes)
        warnings = _warnings(
            catalog, self.classes, options, self.samples.splits, labels_by_split(tasks)
        )
        return Plan(
            name=self.name,
            version=options.version,
            source=catalog.name,
            layout=catalog.layout,
            classes=self.classes,
            tasks=tasks,
            check=options.check,
            shrink_to=options.shrink_options,
            fingerprint=fingerprint(
                dataset_facts(self.name, self.classes, options, submission) + more_facts,
                map(task_facts, tasks),
                (b"".join(contents),),
                (lengths_of(contents),),
            ),
            notes=(
                *catalog.notes,
                *sorted(self.left_out.values()),
                *self.about_copies,
                *warnings_of(warnings),
            ),
            near_duplicates=(
                catalog.near.sum_up(*_by_name(self.samples, order)) if catalog.near else None
            ),
            options=options.deciding(),
            submission=submission,
            beyond_limit=catalog.beyond_limit,
        )


def make_plan(catalog: Catalog, options: PackOptions) -> Plan:
    """Decide label, split, shard and place of every sample.

    The same samples and options give the same plan, in whatever order the samples come.
    """
    decided = decide(catalog, options)
    order = write_order(decided.samples, options.seed)
    if decided.left_out:
        order = [place for place in order if place not in decided.left_out]
    tasks = tuple(make_tasks(decided.name, decided.samples, order, options))
    return decided.plan(tasks, order, options)


def decide(catalog: Catalog, options: PackOptions) -> Decided:
    """Choose the samples of a catalog, and decide label and split of each."""
    name = dataset_name(catalog.name, options.name)
    catalog = choose_limited(catalog, options.source, options.seed)
    samples = catalog.samples
    found_classes = FoundClasses(
        folders=catalog.class_folders,
        images=samples.count_classes(),
        order=catalog.class_order,
        earlier=catalog.earlier_classes,
    )
    classes, label_of = number_classes(found_classes, options)
    label_sets = [tuple(sorted({label_of[name] for name in names})) for names in samples.class_sets]
    labels = rarest(label_sets) if label_sets else [label_of[name] for name in samples.class_names]
    splits = assign_splits(samples, labels, options, label_sets)
    groups = find_groups(samples)
    about_copies = note_copies(samples, groups, label_sets or labels, splits)
    return Decided(
        name=name,
        catalog=catalog,
        classes=classes,
        label_of=label_of,
        samples=replace(
            samples, labels=tuple(labels), label_sets=tuple(label_sets), splits=tuple(splits)
        ),
        left_out=leave_out(samples, groups, splits, about_copies, options.on_leak),
        about_copies=about_copies,
    )


def choose_limited(catalog: Catalog, options: SourceOptions, seed: int) -> Catalog:
    """Choose images, and then as many of each class as the options allow."""
    catalog = choose(catalog, options)
    if options.limit_per_class is None:
        return catalog
    return _limit(catalog, options.limit_per_class, seed)


def choose(catalog: Catalog, options: SourceOptions) -> Catalog:
    """Leave out what globs and rare classes exclude, and group images by their paths."""
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
    unmatched = [
        glob
        for glob in globs
        if glob not in catalog.matched_globs
        and not any(map(globs_pattern([glob]).match, everything))
    ]
    return chosen.warn(
        *(unmatched_glob(option, glob, min(everything, default="")) for glob in unmatched)
    )


def _with_groups(catalog: Catalog, group_by: str) -> Catalog:
    if catalog.samples.groups:
        raise PlanError(
            "the source has groups of its own, so --group-by cannot make others",
            hint="leave out --group-by or --group-col",
        )
    names = catalog.samples.filenames
    matches = map(re.compile(group_by).search, names)
    groups = tuple(picked_text(match, "group") if match else "" for match in matches)
    alone = [name for name, group in zip(names, groups, strict=True) if not group]
    if names and len(alone) == len(names):
        raise PlanError(
            f"--group-by {group_by!r} matches no file of the source",
            hint="it is searched for in paths such as "
            + ", ".join(map(printable, sorted(names)[:2])),
        )
    if alone:
        catalog = catalog.warn(
            f"{number(len(alone), 'image')} {are(len(alone))} in no group by --group-by, "
            f"such as {printable(min(alone))}"
        )
    return replace(catalog, samples=replace(catalog.samples, groups=groups))


def _limit(catalog: Catalog, most: int, seed: int) -> Catalog:
    """Keep the `most` images drawn first of each class in each split of the source.

    Images that an earlier version has come before all others. An image of several classes is kept
    if it is among the first of one of them.
    """
    samples = catalog.samples
    class_sets = samples.class_sets or [(name,) for name in samples.class_names]
    counts: Counter[tuple[str, str]] = Counter()
    kept = []
    order = draw_order(samples, seed)
    order.sort(key=lambda place: not isinstance(samples.blobs[place], Stored))
    for place in order:
        strata = {(samples.splits[place], name) for name in class_sets[place] or ("",)}
        counts.update(strata)
        if any(counts[stratum] <= most for stratum in strata):
            kept.append(place)
    limited = catalog.keep(sorted(kept), catalog.bad, f"beyond --limit-per-class {most}")
    return replace(limited, beyond_limit=len(samples) - len(kept))


def leave_out(
    samples: Samples,
    groups: Sequence[Group],
    splits: Sequence[str],
    about_copies: Notes,
    on_leak: OnLeak,
) -> dict[int, Note]:
    """Return the copies that are not packed, by place; raise PlanError if there must be none."""
    if on_leak is OnLeak.FAIL:
        leaks = groups_of_copies(note for note in about_copies if note.kind is NoteKind.LEAK)
        refuse_leaks(leaks, len(leaks))
        refuse_near_leaks(samples, find_near_groups(samples), splits)
    if on_leak is not OnLeak.DROP:
        return {}
    near = leaked_copies(samples, find_near_groups(samples), splits, "a near-duplicate of")
    return near | leaked_copies(samples, groups, splits)


def _by_name(samples: Samples, order: Sequence[int]) -> tuple[dict[str, str], dict[str, object]]:
    """Return split and label of each image that is to be packed, by its name."""
    names, splits = samples.filenames, samples.splits
    labels: Sequence[Label] = samples.label_sets or samples.labels
    return (
        {names[place]: splits[place] for place in order},
        {names[place]: known_label(labels[place], splits[place]) for place in order},
    )


def _warnings(
    catalog: Catalog,
    classes: Sequence[str],
    options: PackOptions,
    splits: Sequence[str],
    found: Mapping[str, Collection[int]],
) -> Iterator[str]:
    """Yield what may surprise about a plan, given the labels found in each split."""
    if not options.name and legal_name(catalog.name) == legal_name("") != catalog.name.lower():
        source = printable(catalog.name)
        yield f"no letter of {source} can be in a name: pass --name for a better one"
    yield from warnings_of_samples(catalog.samples, splits, options)
    earlier = len(catalog.earlier_classes)
    are_pinned = "" not in (catalog.samples.pinned or [""])
    yield from warnings_of_splits(classes, found, options, earlier, are_pinned=are_pinned)


def warnings_of_samples(
    samples: Samples, splits: Sequence[str], options: PackOptions
) -> Iterator[str]:
    """Yield what may surprise about the splits of samples, compared with those of the source."""
    if divided := divided_groups(samples, splits):
        shown = _shown(list(map(printable, divided)), "groups")
        if any(samples.pinned):
            yield f"groups in more than one split, as images stay where they were: {shown}"
        else:
            yield f"groups that the source has in more than one split: {shown}"
    yield from _doubtful_pins(samples, options)


def warnings_of_splits(
    classes: Sequence[str],
    found: Mapping[str, Collection[int]],
    options: PackOptions,
    earlier: int,
    *,
    are_pinned: bool,
) -> Iterator[str]:
    """Yield what may surprise about the labels found in each split.

    The first `earlier` classes are those of another dataset. `are_pinned`: whether all images are.
    """
    yield from _missing_splits(found, options, are_pinned=are_pinned)
    used = set().union(*found.values())
    gone = [label for label in range(earlier) if label not in used]
    if gone:
        yield (
            f"no images of {_shown([classes[label] for label in gone], 'classes')}, which "
            f"{own_name(options.split_from)} has: these classes are empty and keep their labels"
        )
    yield from missing_classes(classes, found, gone)


def _doubtful_pins(samples: Samples, options: PackOptions) -> Iterator[str]:
    """Yield what may surprise about images that stay in the splits they had."""
    if not samples.pinned:
        return
    own = set(samples.splits)
    rows = zip(samples.filenames, samples.pinned, samples.splits, strict=True)
    moved = [
        (filename, pin, split)
        for filename, pin, split in rows
        # A val or test that the source does not have was taken out of its train.
        if pin and split not in ("", pin) and (split != TRAIN or pin in own)
    ]
    if moved:
        filename, pin, split = min(moved)
        yield (
            f"{len(moved)} images stay in another split than the source has them in, such as "
            f"{printable(filename)} in {pin}, not in {split}"
        )
    new = samples.pinned.count("")
    is_divided = options.val_split or options.test_split or options.folds
    if new and own == {""} and not is_divided and {VAL, TEST}.intersection(samples.pinned):
        those = f"{number(new, 'new image')} {are(new)}"
        yield f"{those} not divided: pass --val-split as well, or they go to train"


def _missing_splits(
    found: Collection[str], options: PackOptions, *, are_pinned: bool
) -> Iterator[str]:
    """Name the splits that were asked for and got nothing, perhaps as all images are pinned."""
    why = "no class has images or groups enough to spare one"
    if are_pinned:
        why = "the splits of all images are known already"
    for split, fraction in ((VAL, options.val_split), (TEST, options.test_split)):
        if fraction and split not in found:
            yield f"there is no {split}: {why}"
    folds = [f"{FOLD}{fold}" for fold in range(options.folds)]
    if missing := [fold for fold in folds if fold not in found]:
        yield f"there is no {_shown(missing, 'folds')}: too few images are left for them"


def missing_classes(
    classes: Sequence[str], found: Mapping[str, Collection[int]], gone: Collection[int] = ()
) -> Iterator[str]:
    """Name the classes that a split lacks, given the labels of each split.

    Labels that are `gone` from all splits are left out.
    """
    splits_without: dict[tuple[str, ...], list[str]] = {}
    for split, labels in found.items():
        if set(labels) <= {UNLABELLED}:
            continue
        there = {*labels, *gone}
        missing = tuple(classes[label] for label in range(len(classes)) if label not in there)
        splits_without.setdefault(missing, []).append(split)
    for missing, splits in splits_without.items():
        if missing:
            have = "has" if len(splits) == 1 else "have"
            yield f"{_shown(splits, 'splits')} {have} no images of {_shown(missing, 'classes')}"


def _shown(names: Sequence[str], what: str) -> str:
    more = len(names) - _SHOWN
    rest = f" and {more} more {what}" if more > 0 else ""
    return ", ".join(names[:_SHOWN]) + rest
