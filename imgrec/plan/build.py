"""From a catalog and options to a plan."""

from __future__ import annotations

import hashlib
import struct
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from imgrec.errors import PlanError
from imgrec.layout import dataset_name, shard_filename
from imgrec.model import (
    FOLD,
    FORMAT,
    TEST,
    TRAIN,
    UNLABELLED,
    VAL,
    Catalog,
    Plan,
    SameImage,
    Samples,
    ShardTask,
    Skipped,
    picked,
    split_order,
)
from imgrec.options import OnLeak, PackOptions
from imgrec.plan.groups import find_groups, judge, leaked_copies
from imgrec.plan.labels import label_names, normal_name, rarest
from imgrec.plan.select import choose, limit, straddling
from imgrec.plan.shards import cut, options_for, record_bytes
from imgrec.plan.split import Ranked, assign_splits, rank
from imgrec.plan.units import find_units
from imgrec.text import printable


def make_plan(catalog: Catalog, options: PackOptions) -> Plan:
    """Decide label, split, shard and place of every sample.

    The same samples and options give the same plan, in whatever order the samples come.
    """
    name = dataset_name(catalog.name, options.name)
    catalog = choose(catalog, options.source)
    if options.source.limit_per_class is not None:
        order = rank(catalog.samples, options.seed)
        catalog = limit(catalog, order, options.source.limit_per_class)
    classes = label_names(
        catalog.class_folders, options.class_order, options.classes or catalog.class_order
    )
    number = {class_name: label for label, class_name in enumerate(classes)}
    label_of = {folder: number[normal_name(folder)] for folder in catalog.class_folders}
    label_of[""] = UNLABELLED

    samples = catalog.samples
    label_sets = [tuple(sorted({label_of[name] for name in names})) for names in samples.label_sets]
    labels = (
        rarest(label_sets)
        if label_sets
        else [label_of[class_name] for class_name in samples.class_names]
    )
    order = rank(samples, options.seed)
    ranked = Ranked(samples, labels, find_units(samples), order)
    splits = assign_splits(ranked, options.split_options)
    groups = find_groups(samples)
    findings = judge(samples, groups, label_sets or labels, splits)
    left_out = _leave_out(samples, groups, splits, findings.leaks, options.on_leak)
    kept = [place for place in order if place not in left_out]
    placed = _Placed(samples, labels, label_sets, splits, kept)
    tasks = tuple(_tasks(name, placed, options))
    return Plan(
        name=name,
        version=options.version,
        source=catalog.name,
        layout=catalog.layout,
        classes=classes,
        tasks=tasks,
        check=options.check,
        shrink_to=options.shrink_options,
        fingerprint=_fingerprint(name, classes, placed, tasks, options),
        bad=catalog.bad,
        unplaced=catalog.unplaced,
        left_out=tuple(sorted([*left_out.values(), *catalog.left_out])),
        ignored=catalog.ignored,
        duplicates=findings.duplicates,
        leaks=findings.leaks,
        conflicts=findings.conflicts,
        near_duplicates=catalog.near.sum_up(*_by_name(placed)) if catalog.near else None,
        warnings=(
            *catalog.warnings,
            *_parted_groups(samples, splits),
            *_doubtful_pins(samples, options),
            *_missing_splits(tasks, options),
            *_missing_classes(classes, tasks),
        ),
        options=options.deciding(),
    )


def _leave_out(
    samples: Samples,
    groups: Sequence[tuple[int, ...]],
    splits: Sequence[str],
    leaks: Sequence[SameImage],
    on_leak: OnLeak,
) -> dict[int, Skipped]:
    if leaks and on_leak is OnLeak.FAIL:
        shown = "; ".join(" = ".join(map(printable, leak.filenames)) for leak in leaks[:5])
        raise PlanError(
            f"{len(leaks)} images are in more than one split: {shown}",
            hint="take out the copies, or pass --on-leak drop",
        )
    return leaked_copies(samples, groups, splits) if on_leak is OnLeak.DROP else {}


class _Placed(NamedTuple):
    """Samples with label and split of each, and the order in which they are to be written."""

    samples: Samples
    labels: Sequence[int]
    label_sets: Sequence[tuple[int, ...]]
    """Empty unless an image may have several labels."""
    splits: Sequence[str]
    order: Sequence[int]


def _tasks(name: str, placed: _Placed, options: PackOptions) -> Iterator[ShardTask]:
    samples, compression = placed.samples, options.shard_compression
    orders: dict[str, list[int]] = defaultdict(list)
    for place in placed.order:
        orders[placed.splits[place]].append(place)
    counts = {split: len(order) for split, order in orders.items()}
    for split in sorted(counts, key=split_order):
        order = orders[split]
        filenames = picked(samples.filenames, order)
        sizes = picked(samples.sizes, order)
        blobs = picked(samples.blobs, order)
        labels = picked(placed.labels, order)
        label_sets = picked(placed.label_sets, order)
        columns = [
            column._replace(values=picked(column.values, order)) for column in samples.columns
        ]
        planned = record_bytes(sizes, filenames)
        lengths = cut(planned, options_for(split, counts, options.shard_options))
        end = 0
        for index, length in enumerate(lengths):
            start, end = end, end + length
            yield ShardTask(
                split=split,
                index=index,
                filename=shard_filename(name, split, index, len(lengths), compression),
                expected_bytes=sum(planned[start:end]),
                blobs=blobs[start:end],
                filenames=filenames[start:end],
                sizes=sizes[start:end],
                labels=labels[start:end],
                label_sets=label_sets[start:end],
                columns=tuple(
                    column._replace(values=column.values[start:end]) for column in columns
                ),
            )


def _fingerprint(
    name: str,
    classes: Sequence[str],
    placed: _Placed,
    tasks: Sequence[ShardTask],
    options: PackOptions,
) -> str:
    """Hash everything that decides the bytes of the output."""
    sha256 = hashlib.sha256()
    asked = [f"--also {also}" for also in options.also]
    if options.shrink_options:
        asked += [f"{what} {value}" for what, value in options.shrink_options.deciding().items()]
    if options.thumbnails is not None:
        asked.append(f"--thumbnails {options.thumbnails}")
    for fact in (FORMAT, name, options.version, options.check, *classes, *asked):
        sha256.update(f"{fact}\n".encode())
    for task in tasks:
        columns = (
            task.filename,
            "\0".join(task.filenames),
            *map(repr, (*filter(None, (task.label_sets,)), *task.columns)),
        )
        sha256.update("\n".join(columns).encode("utf-8", "surrogateescape"))
        for numbers in (task.labels, task.sizes):
            sha256.update(struct.pack(f"<{len(numbers)}q", *numbers))
    contents = [placed.samples.contents[place] for place in placed.order]
    sha256.update(b"".join(contents) + bytes(map(len, contents)))
    return sha256.hexdigest()


def _by_name(placed: _Placed) -> tuple[dict[str, str], dict[str, object]]:
    """Return split and label of each image that is to be packed, by its name."""
    names, labels = placed.samples.filenames, placed.label_sets or placed.labels
    splits = {names[place]: placed.splits[place] for place in placed.order}
    return splits, {names[place]: labels[place] for place in placed.order}


def _parted_groups(samples: Samples, splits: Sequence[str]) -> Iterator[str]:
    if parted := straddling(samples, splits):
        shown = _enumerate(list(map(printable, parted)), "groups")
        yield f"groups that the source has in more than one split: {shown}"


def _doubtful_pins(samples: Samples, options: PackOptions) -> Iterator[str]:
    """Yield what may surprise about images that stay in the splits they had."""
    if not samples.pinned:
        return
    own = set(samples.splits)
    moved = [
        (filename, pin, split)
        for filename, pin, split in zip(
            samples.filenames, samples.pinned, samples.splits, strict=True
        )
        # A val or test that the source has not was taken out of its train.
        if pin and split not in ("", pin) and (split != TRAIN or pin in own)
    ]
    if moved:
        filename, pin, split = min(moved)
        yield (
            f"{len(moved)} images stay in another split than the source has them in, such as "
            f"{printable(filename)} in {pin}, not in {split}"
        )
    new = samples.pinned.count("")
    is_divided = options.val_fraction or options.test_fraction or options.folds
    if new and own == {""} and not is_divided and {VAL, TEST}.intersection(samples.pinned):
        yield f"{new} new images are not divided: pass --val-split as well, or they go to train"


def _missing_splits(tasks: Sequence[ShardTask], options: PackOptions) -> Iterator[str]:
    found = {task.split for task in tasks}
    for split, fraction in ((VAL, options.val_fraction), (TEST, options.test_fraction)):
        if fraction and split not in found:
            yield f"there is no {split}: no class has images or groups enough to spare one"
    folds = [f"{FOLD}{fold}" for fold in range(options.folds)]
    if missing := [fold for fold in folds if fold not in found]:
        yield f"there is no {_enumerate(missing, 'folds')}: there are not enough different images"


def _missing_classes(classes: Sequence[str], tasks: Sequence[ShardTask]) -> Iterator[str]:
    """Name the classes that a split does not have; its labels are the same all the same."""
    found: dict[str, set[int]] = {}
    for task in tasks:
        found.setdefault(task.split, set()).update(*(task.label_sets or (task.labels,)))
    for split, labels in found.items():
        if labels <= {UNLABELLED}:
            continue
        if missing := [classes[label] for label in range(len(classes)) if label not in labels]:
            yield f"{split} has no images of {_enumerate(missing, 'classes')}"


def _enumerate(names: Sequence[str], what: str, most: int = 10) -> str:
    rest = f" and {len(names) - most} more {what}" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
