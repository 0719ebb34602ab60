"""`imgrec pack` and `imgrec plan`: pack a source, or show what pack would do."""

from __future__ import annotations

import os
import shlex
from argparse import Namespace
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import TYPE_CHECKING

from imgrec.cli.arguments import (
    ENGINE_ARGUMENTS,
    PACK_ARGUMENTS,
    pack_options,
    progress_bars,
    spark_engine,
)
from imgrec.cli.parser import verb
from imgrec.cli.render import (
    SplitRow,
    class_names,
    dataset_value,
    emit,
    line,
    lines,
    names,
    pick,
    split_lines,
    split_rows,
    split_values,
    storage_lines,
)
from imgrec.model import TEST, TRAIN, UNLABELLED, VAL
from imgrec.notes import Ignored
from imgrec.options import NearDups, OnLeak
from imgrec.text import number, size, without_line

if TYPE_CHECKING:
    from imgrec.model import Plan, ShardTask
    from imgrec.near.clusters import NearDuplicates
    from imgrec.notes import Note, SameImage
    from imgrec.outcome import Packed, Report

_SHOWN = 3
"""How many files, groups or rows of a kind are shown."""
_MOST_REASONS = 8
_NEARLY_ALL = 0.9
_BY_HAND = "imgrec view shows them, to drop the copies with imgrec edit"
IN_REPORT = "see report.json"
_AFTER_PACK = "pack lists all in report.json"


@verb(
    (
        "imgrec pack ./flowers --val-split 0.1",
        "imgrec pack photos.zip --name photos --val-split 0.1 --test-split 0.1",
        "imgrec pack --manifest train.csv --images ./jpegs --label-col species",
    ),
    (*PACK_ARGUMENTS, *ENGINE_ARGUMENTS),
)
def pack(parsed: Namespace) -> int:
    """Pack images with labels into sharded TFRecords that tfds.load finds by name."""
    from imgrec import api

    options = pack_options(parsed)
    with spark_engine(parsed) as engine, progress_bars(parsed) as progress:
        packed = api.pack(parsed.source, options, engine=engine, on_progress=progress)
    emit(parsed, _packed_value(packed), _packed_lines(packed))
    return 0


@verb(
    ("imgrec plan ./flowers --val-split 0.1", "imgrec plan train.csv --json"),
    PACK_ARGUMENTS,
)
def plan(parsed: Namespace) -> int:
    """Show what pack would do with the same options, without writing anything.

    If pack would refuse the source, the exit code is the one that pack would return.
    """
    from imgrec import api

    options = pack_options(parsed)
    with progress_bars(parsed) as progress:
        planned = api.plan(parsed.source, options, on_progress=progress)
    emit(parsed, _plan_value(planned), _plan_lines(planned))
    return planned.refused_with


def _packed_value(packed: Packed) -> dict[str, object]:
    info, report = packed.info, packed.report
    return {
        **dataset_value(info),
        **_source_value(report, split_rows(info)),
        **{kind: len(notes) for kind, notes in report.listed.items()},
        "resized": report.resized.total if report.resized else 0,
        "already_packed": not packed.is_new,
        "kept_shards": packed.kept_shards,
        "seconds": round(packed.seconds, 3),
    }


def _plan_value(planned: Plan) -> dict[str, object]:
    return {
        **pick(planned, "name version fingerprint"),
        **_source_value(planned, _planned_splits(planned)),
        **{kind: len(notes) for kind, notes in planned.listed.items() if notes},
        **({"resize": planned.shrink_to.deciding()} if planned.shrink_to else {}),
        **_storage_options(planned),
    }


def _source_value(found: Plan | Report, rows: Sequence[SplitRow]) -> dict[str, object]:
    """Return what a plan and a report have in common."""
    near = found.near_duplicates
    return {
        "layout": found.layout.text,
        "classes": found.classes,
        "splits": split_values(rows),
        **findings_value(found),
        "near_duplicates": near
        and pick(near, "looked_at groups across_splits across_classes large not_compared"),
    }


def findings_value(found: Plan | Report) -> dict[str, object]:
    """Return what is unusual about a source, for JSON."""
    return {
        "skipped": [{"file": note.filename, "reason": note.reason} for note in found.skipped],
        "ignored": sum(kind.count for kind in found.ignored),
        "duplicates": sum(len(group.filenames) - 1 for group in found.duplicates),
        "leaks": len(found.leaks),
        "conflicts": len(found.conflicts),
        "warnings": found.warnings,
    }


def _packed_lines(packed: Packed) -> Iterator[str]:
    info, report = packed.info, packed.report
    images = sum(split.examples for split in info.splits)
    shards = sum(len(split.shard_lengths) for split in info.splits)
    packed_bytes = sum(split.num_bytes for split in info.splits)
    ending = "" if packed.is_new else ", already packed: nothing to do"
    classes = f"{number(len(info.classes), 'class', 'classes')}: {class_names(info.classes)}"
    ratio = packed_bytes / max(report.source_bytes, 1)
    yield f"{info.name} {info.version}: {number(images, 'image')}{ending}"
    yield from lines("layout", report.layout.text.split("\n"))
    yield line("classes", classes)
    yield from split_lines(split_rows(info))
    yield from file_lines(report, IN_REPORT)
    if report.resized:
        resized = number(report.resized.total, "file")
        yield line("resized", f"{resized} to {_side(report.options)}")
    yield from copies_lines(report, split_rows(info), IN_REPORT)
    yield from (line("warning", warning) for warning in report.warnings)
    sizes = f"{size(packed_bytes)} out / {size(report.source_bytes)} in"
    yield line("size", f"{sizes} = {ratio:.2f}")
    yield from storage_lines(info)
    yield from resumed_lines(packed.kept_shards, shards)
    if packed.outdated_shards:
        outdated = number(packed.outdated_shards, "shard")
        why = "discarded: their images have changed since an earlier run"
        yield line("restarted", f"{outdated} {why}")
    if packed.restarted:
        yield line("restarted", f"shards of an earlier run discarded: {packed.restarted}")
    for path in packed.unfinished:
        root = shlex.quote(os.path.dirname(os.path.dirname(path)))  # <data-dir>/<name>/<folder>
        how = f"run its pack again to continue; imgrec clean --data-dir {root} removes it"
        yield line("unfinished", f"{path}: {how}")
    if packed.is_new:
        rate = images / max(packed.seconds, 1e-9)
        yield line("speed", f"{rate:,.0f} images/s, {packed.seconds:.1f} s in all")
    yield line("path", info.path)
    yield line("load", info.load)


def _plan_lines(planned: Plan) -> Iterator[str]:
    rows = _planned_splits(planned)
    yield f"{planned.name} {planned.version}: {number(planned.planned, 'image')} to pack"
    yield from lines("layout", planned.layout.text.split("\n"))
    yield from split_lines(rows)
    yield line("classes", number(len(planned.classes), "class", "classes"))
    yield from _class_lines(planned, [split for split, *_ in rows])
    yield from file_lines(planned, _AFTER_PACK)
    yield from copies_lines(planned, rows, _AFTER_PACK)
    if planned.shrink_to:
        how = f"larger images to {_side(planned.options)}, JPEGs of quality"
        yield line("resize", f"{how} {planned.shrink_to.quality}")
    match _storage_options(planned):
        case {"compression": compression}:
            yield line("compression", f"{compression}; TFDS cannot read such shards")
        case {"also": [*formats]}:
            yield line("also", ", ".join(map(str, formats)))
    yield from (line("warning", warning) for warning in planned.warnings)
    yield from lines("first rows", _first_rows(planned))
    yield "Nothing was written; images are checked when they are packed."


def _planned_splits(planned: Plan) -> list[SplitRow]:
    images: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for task in planned.tasks:
        images[task.split] += len(task.samples.filenames)
        sizes[task.split] += sum(task.samples.sizes)
    shards = Counter(task.split for task in planned.tasks)
    return [(split, images[split], shards[split], sizes[split]) for split in images]


def _storage_options(planned: Plan) -> dict[str, object]:
    """Return the options that change the files that pack would write, if they are given."""
    return {key: planned.options[key] for key in ("compression", "also") if key in planned.options}


def _class_lines(planned: Plan, splits: Sequence[str]) -> Iterator[str]:
    counts: Counter[tuple[str, int]] = Counter()
    for task in planned.tasks:
        for labels in task.samples.label_sets or (task.samples.labels,):
            counts.update((task.split, label) for label in labels)
    for label, name in enumerate(planned.classes):
        in_splits = ", ".join(f"{counts[split, label]:,} {split}" for split in splits)
        yield line(f"  {label}", f"{name}: {in_splits}")
    bare = ", ".join(f"{counts[s, UNLABELLED]:,} {s}" for s in splits if counts[s, UNLABELLED])
    if bare:
        yield line(f"  {UNLABELLED}", f"without a label: {bare}")


def _first_rows(planned: Plan) -> Iterator[str]:
    """Show the first records of each split."""
    for task in planned.tasks:
        if task.index == 0:
            for place, filename in enumerate(task.samples.filenames[:_SHOWN]):
                yield f"{task.split}  {filename}  {_labels_and_columns(planned, task, place)}"


def _labels_and_columns(planned: Plan, task: ShardTask, place: int) -> str:
    samples = task.samples
    labels = samples.label_sets[place] if samples.label_sets else (samples.labels[place],)
    classes = [planned.classes[label] for label in labels if label != UNLABELLED]
    columns = [f"{column.name}={column.values[place]}" for column in samples.columns]
    return "  ".join([" ".join(classes) or "no label", *columns])


def _side(options: Mapping[str, object]) -> str:
    """Return the largest size of images.

    >>> _side({"short_side": 256, "quality": 90})
    'a short side of 256'
    """
    name = "short" if "short_side" in options else "long"
    return f"a {name} side of {options.get('short_side') or options.get('max_side')}"


def file_lines(found: Plan | Report, where: str) -> Iterator[str]:
    """Show the notes about single files, kind by kind."""
    yield from _note_lines("skipped", found.skipped, where)
    if found.ignored:
        total = sum(kind.count for kind in found.ignored)
        kinds = ", ".join(
            f"{kind.count:,} {kind.kind}{_in_brackets(kind)}" for kind in found.ignored
        )
        yield line("ignored", f"{number(total, 'file')}: {kinds}")
    for kind, notes in found.listed.items():
        yield from _note_lines(kind, notes, where)


def _in_brackets(ignored: Ignored) -> str:
    """Show the first files of a kind, if its name does not say it all, as `.DS_Store` does."""
    shown = [name for name in ignored.examples if name.rpartition("/")[2] != ignored.kind]
    more = ignored.count - min(len(shown), _SHOWN)
    rest = f", … {more:,} more" if more else ""
    return f" ({', '.join(shown[:_SHOWN])}{rest})" if shown else ""


def _note_lines(title: str, notes: Sequence[Note], where: str) -> Iterator[str]:
    """Show the reasons of notes, the commonest first, with the first files of each."""
    if not notes:
        return
    yield line(title, number(len(notes), "file"))
    by_reason: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for note in notes:
        reason = without_line(note.reason)
        table_line = note.reason.removesuffix(reason).removesuffix(": ")
        file = f"{note.filename} ({table_line})" if table_line else note.filename
        # Copies of different files are left out for one reason.
        shared = reason.replace(f" {note.other}", " another file") if note.other else reason
        by_reason[shared].append((file, reason))
    ranked = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    for shared, found in ranked[:_MOST_REASONS]:
        files, reasons = zip(*found, strict=True)
        what = shared if len({*reasons}) > 1 else reasons[0]
        yield line("", f"{len(files):,} x {what}: {names(files, _SHOWN)}")
    yield from _more_lines(len(ranked) - _MOST_REASONS, "reason", where)


def _more_lines(count: int, what: str, where: str) -> list[str]:
    return [line("", f"… {number(count, f'more {what}')}: {where}")] if count > 0 else []


def resumed_lines(kept: int, shards: int) -> Iterator[str]:
    """Show how many shards an interrupted run had finished, if any."""
    if kept:
        yield line("resumed", f"{kept:,} of {number(shards, 'shard')} kept from an earlier run")


def copies_lines(
    found: Plan | Report, splits: Sequence[SplitRow], where: str, *, is_pack: bool = True
) -> Iterator[str]:
    """Show duplicates, leaks, conflicting labels and near-duplicates, and the way out."""
    way_out = "--on-leak drop leaves out the copies" if is_pack else _BY_HAND
    leaks = f"in more than one split: {way_out}"
    if found.options.get("on_leak") == OnLeak.DROP:
        leaks = "in more than one split of the source, packed in one"
    yield from _same_lines("duplicates", "more than once", found.duplicates, where)
    yield from _same_lines("leaks", leaks, found.leaks, where)
    yield from _same_lines("conflicts", "under more than one label", found.conflicts, where)
    near = found.near_duplicates
    if near and (near.groups or near.large or near.not_compared):
        yield from _near_lines(near, sum(images for _, images, _, _ in splits))
        if near.across_splits:
            names = {name for name, *_ in splits}
            yield line("", _way_out(found.options, names) if is_pack else _BY_HAND)


def _same_lines(title: str, what: str, groups: Sequence[SameImage], where: str) -> Iterator[str]:
    """Show the first groups of identical files."""
    if groups:
        yield line(title, f"{number(len(groups), 'image')} {what}")
        yield from (line("", _some_of(group.filenames)) for group in groups[:_SHOWN])
        yield from _more_lines(len(groups) - _SHOWN, "image", where)


def _some_of(filenames: Sequence[str]) -> str:
    """Return some names of one image, those from different folders first."""
    firsts = {name.rpartition("/")[0]: name for name in reversed(filenames)}.values()
    shown = list(dict.fromkeys([*sorted(firsts), *filenames]))[:_SHOWN]
    rest = len(filenames) - len(shown)
    return " = ".join(sorted(shown)) + (f" = … {rest:,} more" if rest else "")


def _near_lines(near: NearDuplicates, images: int) -> Iterator[str]:
    """Show how many near-duplicates there are, and the groups that matter most."""
    look = "looks" if near.groups == 1 else "look"
    is_partial = near.looked_at < _NEARLY_ALL * images  # plain ones are never compared
    among = f"{near.looked_at:,} of {number(images, 'image')}" if is_partial else ""
    among = among or number(near.looked_at, "image")
    what = f"{number(near.groups, 'group')} {look} alike among {among}"
    if near.across_splits:
        what += f", {near.across_splits:,} across splits"
    if near.across_classes:
        what += f", {near.across_classes:,} under different labels"
    yield line("near-dups", what)
    for group in near.examples[:_SHOWN]:
        mirrored = ", mirrored" if group.is_mirrored else ""
        more = f" ~ … {group.size - _SHOWN:,} more" if group.size > _SHOWN else ""
        shown = " ~ ".join(group.files[:_SHOWN])
        yield line("", f"{shown}{more} ({group.alike} %{mirrored})")
    yield from _more_lines(near.groups - _SHOWN, "group", "imgrec leaks shows them")
    if near.not_compared:
        pairs = number(near.not_compared, "more pair")
        yield line("", f"{pairs} may be alike, and were not compared: imgrec leaks does that")
    elif is_partial:
        yield line("", "imgrec leaks compares all images")
    if near.large:
        large = number(near.large, "larger group")
        yield line("", f"{large} of more than 5 % of a class: probably not one picture")


def _way_out(options: Mapping[str, object], splits: Set[str]) -> str:
    """Name the options that end leaks of near-duplicates.

    Grouping ends them in splits that imgrec makes, and leaves splits of the source as they are.
    """
    if options.get("near_dups") in (NearDups.GROUP, NearDups.DROP):
        return "--on-leak drop leaves out the copies, as these splits are the source's"
    made = {name for name in (VAL, TEST) if options.get(f"{name}_split")}
    if not made and not options.get("folds"):
        return "--near-dups group --on-leak drop leaves out the copies"
    keeps = "--near-dups group keeps each group in one split"
    is_divided = options.get("split_from") or options.get("split_file")
    if is_divided or not (options.get("folds") or splits <= {TRAIN, *made}):
        return f"{keeps}; with --on-leak drop, it leaves out copies in splits of the source"
    return keeps
