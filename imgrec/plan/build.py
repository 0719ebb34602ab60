"""From a catalog and options to a plan."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

from imgrec.layout import dataset_name, shard_filename
from imgrec.model import (
    Catalog,
    Label,
    Plan,
    Samples,
    ShardTask,
    known_label,
    labels_by_split,
    picked,
    split_order,
)
from imgrec.notes import Note, NoteKind, Notes, groups_of_copies, of_kinds, warnings_of
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
from imgrec.plan.groups import find_groups, leaked_copies, note_copies, refuse_leaks
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
    label_sets = [tuple(sorted({label_of[name] for name in names})) for names in samples.class_sets]
    labels = (
        rarest(label_sets)
        if label_sets
        else [label_of[class_name] for class_name in samples.class_names]
    )
    splits = assign_splits(samples, labels, options.split_options, label_sets)
    groups = find_groups(samples)
    about_copies = note_copies(samples, groups, label_sets or labels, splits)
    left_out = _leave_out(samples, groups, splits, about_copies, options.on_leak)
    order = write_order(samples, options.seed)
    kept = [place for place in order if place not in left_out] if left_out else order
    planned = replace(
        samples, labels=tuple(labels), label_sets=tuple(label_sets), splits=tuple(splits)
    )
    tasks = tuple(_tasks(name, planned, kept, options))
    found = labels_by_split(tasks)
    contents = picked(samples.contents, kept)
    parted = straddling(samples, splits)
    warnings = (
        *nameless(catalog.name, name, options),
        *parted_groups(parted, len(parted)),
        *doubtful_pins(samples, options),
        *missing_splits(found, options, are_pinned="" not in (samples.pinned or [""])),
        *gone_classes(classes[: len(catalog.earlier_classes)], found, own_name(options.split_from)),
        *missing_classes(classes, found, gone_labels(len(catalog.earlier_classes), found)),
    )
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
        notes=(*catalog.notes, *sorted(left_out.values()), *about_copies, *warnings_of(warnings)),
        near_duplicates=catalog.near.sum_up(*_by_name(planned, kept)) if catalog.near else None,
        options=options.deciding(),
        submission=submission,
        beyond_limit=catalog.beyond_limit,
    )


def _leave_out(
    samples: Samples,
    groups: Sequence[tuple[int, ...]],
    splits: Sequence[str],
    about_copies: Notes,
    on_leak: OnLeak,
) -> dict[int, Note]:
    if on_leak is OnLeak.FAIL:
        leaks = groups_of_copies(of_kinds(about_copies, NoteKind.LEAK))
        refuse_leaks(leaks, len(leaks))
    return leaked_copies(samples, groups, splits) if on_leak is OnLeak.DROP else {}


def _tasks(
    name: str, samples: Samples, order: Sequence[int], options: PackOptions
) -> Iterator[ShardTask]:
    orders: dict[str, list[int]] = defaultdict(list)
    for place in order:
        orders[samples.splits[place]].append(place)
    counts = {split: len(places) for split, places in orders.items()}
    compression, to_write = options.shard_compression, samples.to_write()
    for split in sorted(counts, key=split_order):
        ordered = to_write.pick(orders[split])
        planned = record_bytes(ordered.sizes, ordered.filenames)
        lengths = cut(planned, options_for(split, counts, options.shard_options))
        end = 0
        for index, length in enumerate(lengths):
            start, end = end, end + length
            yield ShardTask(
                split=split,
                index=index,
                filename=shard_filename(name, split, index, len(lengths), compression),
                expected_bytes=sum(planned[start:end]),
                samples=ordered.slice(start, end),
            )


def _by_name(samples: Samples, order: Sequence[int]) -> tuple[dict[str, str], dict[str, object]]:
    """Return split and label of each image that is to be packed, by its name."""
    names, splits = samples.filenames, samples.splits
    labels: Sequence[Label] = samples.label_sets or samples.labels
    return (
        {names[place]: splits[place] for place in order},
        {names[place]: known_label(labels[place], splits[place]) for place in order},
    )
