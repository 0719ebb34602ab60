"""From a catalog and options to a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from imgrec.layout import dataset_name, shard_filename
from imgrec.model import (
    Catalog,
    Label,
    Plan,
    SameImage,
    Samples,
    ShardTask,
    Skipped,
    known_label,
    labels_by_split,
    picked,
    picked_columns,
    split_order,
)
from imgrec.options import OnLeak, PackOptions
from imgrec.plan.doubts import (
    doubtful_pins,
    gone_classes,
    gone_labels,
    missing_classes,
    missing_splits,
    nameless,
    parted_groups,
)
from imgrec.plan.fingerprint import facts_about, facts_of, fingerprint, lengths_of
from imgrec.plan.groups import find_groups, judge, leaked_copies, refuse_leaks
from imgrec.plan.labels import FoundClasses, number_classes, rarest
from imgrec.plan.order import draw_order, write_order
from imgrec.plan.select import choose, limit, straddling
from imgrec.plan.shards import cut, options_for, record_bytes
from imgrec.plan.split import assign_splits
from imgrec.text import own_name


def make_plan(catalog: Catalog, options: PackOptions) -> Plan:
    """Decide label, split, shard and place of every sample.

    The same samples and options give the same plan, in whatever order the samples come.
    """
    name = dataset_name(catalog.name, options.name)
    catalog = choose(catalog, options.source)
    if options.source.limit_per_class is not None:
        drawn = draw_order(catalog.samples, options.seed)
        catalog = limit(catalog, drawn, options.source.limit_per_class)
    samples = catalog.samples
    found_classes = FoundClasses(
        folders=catalog.class_folders,
        images=samples.count_classes(),
        order=catalog.class_order,
        earlier=catalog.earlier_classes,
    )
    classes, label_of = number_classes(found_classes, options)
    asked = catalog.submission
    submission = asked.named(label_of, classes) if asked else None
    label_sets = [tuple(sorted({label_of[name] for name in names})) for names in samples.label_sets]
    labels = (
        rarest(label_sets)
        if label_sets
        else [label_of[class_name] for class_name in samples.class_names]
    )
    splits = assign_splits(samples, labels, options.split_options, label_sets)
    groups = find_groups(samples)
    findings = judge(samples, groups, label_sets or labels, splits)
    left_out = _leave_out(samples, groups, splits, findings.leaks, options.on_leak)
    order = write_order(samples, options.seed)
    kept = [place for place in order if place not in left_out] if left_out else order
    placed = _Placed(samples, labels, label_sets, splits, kept)
    tasks = tuple(_tasks(name, placed, options))
    found = labels_by_split(tasks)
    contents = picked(samples.contents, kept)
    parted = straddling(samples, splits)
    return Plan(
        name=name,
        version=options.version,
        source=catalog.name,
        layout=catalog.layout,
        classes=classes,
        tasks=tasks,
        check=options.check,
        shrink_to=options.shrink_options,
        fingerprint=fingerprint(
            facts_about(name, classes, options, submission),
            map(facts_of, tasks),
            (b"".join(contents),),
            (lengths_of(contents),),
        ),
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
            *nameless(catalog.name, name, options),
            *parted_groups(parted, len(parted)),
            *doubtful_pins(samples, options),
            *missing_splits(found, options, are_pinned="" not in (samples.pinned or [""])),
            *gone_classes(
                classes[: len(catalog.earlier_classes)], found, own_name(options.split_from)
            ),
            *missing_classes(classes, found, gone_labels(len(catalog.earlier_classes), found)),
        ),
        options=options.deciding(),
        submission=submission,
        beyond_limit=catalog.beyond_limit,
    )


def _leave_out(
    samples: Samples,
    groups: Sequence[tuple[int, ...]],
    splits: Sequence[str],
    leaks: Sequence[SameImage],
    on_leak: OnLeak,
) -> dict[int, Skipped]:
    if on_leak is OnLeak.FAIL:
        refuse_leaks(leaks, len(leaks))
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
        groups = picked(samples.groups, order)
        columns = picked_columns(samples.columns, order)
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
                groups=groups[start:end],
                columns=tuple(
                    column._replace(values=column.values[start:end]) for column in columns
                ),
            )


def _by_name(placed: _Placed) -> tuple[dict[str, str], dict[str, object]]:
    """Return split and label of each image that is to be packed, by its name."""
    names, splits = placed.samples.filenames, placed.splits
    labels: Sequence[Label] = placed.label_sets or placed.labels
    return (
        {names[place]: splits[place] for place in placed.order},
        {names[place]: known_label(labels[place], splits[place]) for place in placed.order},
    )
