"""Apply a table of corrections to a dataset: relabel, drop and move images, as its next version.

The source is not needed: images come from the shards of the version before, and shards without a
correction are linked.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from imgrec.engine import Engine
from imgrec.engine.local import running
from imgrec.errors import SourceError
from imgrec.model import Catalog, Plan, Samples, Stored, known_label
from imgrec.near.clusters import NearDuplicates
from imgrec.notes import Note, NoteKind, warnings_of
from imgrec.options import OnBad, OnLeak, PackOptions, SourceOptions
from imgrec.packing.catalog import OnProgress
from imgrec.packing.corrections import decode_corrections, encode_corrections
from imgrec.packing.earlier import EarlierVersion, raw_names, read_earlier
from imgrec.packing.next_version import (
    Updated,
    carried_notes,
    for_next_version,
    is_same,
    options_of,
    read_origin_of,
    title,
    updated_version,
)
from imgrec.packing.pack import Job, PackRequest, write_dataset
from imgrec.planning.build import missing_classes
from imgrec.planning.classes import normal_name
from imgrec.planning.corrections import (
    FLAG,
    RESTORE,
    Action,
    Correction,
    Corrections,
    class_names_of,
)
from imgrec.planning.growth import Remembered, grow
from imgrec.source.columns import is_label_column, is_path_column, is_split_column
from imgrec.source.fetch import Fetched
from imgrec.source.tables import Table, read_table
from imgrec.source.words import split_word
from imgrec.storage.named_files import local_file
from imgrec.storage.staging import open_staging
from imgrec.text import closest

_ESCAPED = "\\udc"
_HINT = "write a table with the columns filename, action (relabel, drop or move), label and split"


@dataclass(frozen=True, slots=True, kw_only=True)
class EditRequest:
    """Which dataset to edit, and how."""

    folder: Path
    table: str
    """The file of corrections."""
    version: str
    """"" for the next minor version."""
    new_classes: bool
    """Whether labels may be classes that the dataset does not have."""
    workers: int | None
    engine: Engine | None
    on_progress: OnProgress | None
    started_ns: int


def edit_dataset(request: EditRequest) -> Updated:
    """Make the next version of a dataset with corrections, unless they change nothing."""
    earlier = read_earlier(request.folder)
    origin = read_origin_of(earlier)
    corrections = decode_corrections(request.folder)
    before = options_of(earlier, origin, needs_source=False)
    options = replace(
        for_next_version(before, earlier, request.version, request.workers),
        # What the first pack found bad is reported again, but nothing of it is new.
        on_bad=OnBad.SKIP,
        max_bad=1.0,
    )
    table = _read_table(request, earlier, corrections)
    rows = _with_copies(table.corrections, earlier)
    plan = _plan(earlier, rows, options)
    edits = corrections.without_drops(table.restored).with_rows(rows)
    plan = replace(plan, edits=encode_corrections(edits))
    packing = PackRequest(
        source=origin.source,
        fetched=Fetched("", options.source),
        asked=options,
        engine=request.engine,
        on_progress=request.on_progress,
        started_ns=request.started_ns,
    )
    if is_same(plan, earlier) and not table.restored:
        return table.noted(updated_version(packing, earlier))
    staging = open_staging(request.folder.parent / options.version)
    with running(request.engine, options.workers) as engine, staging:
        from imgrec.inspect.report.images import in_dataset

        numbers = {
            name: blob.number
            for task in plan.tasks
            for name, blob in zip(task.samples.filenames, task.samples.blobs, strict=True)
            if isinstance(blob, Stored)
        }
        place = in_dataset(str(request.folder))
        job = Job(
            request=packing,
            options=options,
            catalog=_catalog(earlier, Samples()),
            plan=plan,
            engine=engine,
            staging=staging,
            own_folders=(str(request.folder),),
            origin=origin,
            earlier=earlier,
            locate=lambda name, _row: place(name, numbers.get(name)),
        )
        written = write_dataset(job)
    return table.noted(updated_version(packing, earlier, written))


# The table.


class _Row(NamedTuple):
    line: int
    filename: str
    action: str
    label: str
    split: str


class _Table(NamedTuple):
    corrections: list[Correction]
    flagged: int
    restored: frozenset[str]
    unused_columns: tuple[str, ...]

    def noted(self, updated: Updated) -> Updated:
        """Return an outcome with what the table holds besides corrections."""
        return replace(
            updated,
            flagged=self.flagged,
            restored=len(self.restored),
            unused_columns=self.unused_columns,
        )


def _read_table(request: EditRequest, earlier: EarlierVersion, corrections: Corrections) -> _Table:
    """Return the rows of a table; raise SourceError with every one that cannot be used."""
    path, old = request.table, earlier.records.samples
    places = dict(zip(old.filenames, range(len(old)), strict=True))
    dropped = corrections.of(Action.DROP).keys() - places.keys()
    table = _with_header(path)
    faults = [(fault.line, fault.reason) for fault in table.faults]
    columns = _columns(table, path)
    found: dict[tuple[str, Action], Correction] = {}
    flagged, restored, still_dropped = set[str](), set[str](), dict[str, int]()
    for row in _rows(table, columns):
        if row.filename not in places and row.filename not in dropped:
            row = row._replace(filename=row.filename.strip())
        is_plain = not row.label and not row.split
        if row.filename in dropped:
            if row.action.casefold() == RESTORE and is_plain:
                restored.add(row.filename)
            elif row.action.casefold() == Action.DROP:
                still_dropped[row.filename] = row.line
            else:
                reason = f"{row.filename} was dropped by an earlier edit: {RESTORE} it first"
                faults.append((row.line, reason))
            continue
        if row.filename not in places:
            meant = closest(list(places), row.filename) if len(places) < 100_000 else ""
            note = f" (did you mean {meant}?)" if meant else ""
            faults.append((row.line, f"no image {row.filename!r}{note}"))
            continue
        if row.action.casefold() == FLAG and is_plain:
            flagged.add(row.filename)
            continue
        content = old.contents[places[row.filename]].hex()
        made = _correction(row, earlier, content, request.new_classes)
        if isinstance(made, str):
            faults.append((row.line, made))
            continue
        others = [found.get((made.filename, action)) for action in Action]
        for other in filter(None, others):
            is_dropped = Action.DROP in (made.action, other.action)
            if made != other and (made.action is other.action or is_dropped):
                faults.append((row.line, f"{made.filename} has another correction already"))
                break
        else:
            found[made.filename, made.action] = made
    rows = list(found.values())
    both = restored & still_dropped.keys()
    faults += [(still_dropped[name], f"{name} is restored in another row") for name in both]
    faults += _contradictions(rows)
    faults += _divided_groups(rows, earlier)
    if sum(row.action is Action.DROP for row in rows) == len(old) and not faults:
        faults.append((0, "it drops every image"))
    if faults:
        shown = "; ".join(
            f"line {line}: {fault}" if line else fault for line, fault in sorted(faults)
        )
        raise SourceError(f"{path} cannot be applied: {shown}", hint=_hint(faults), path=path)
    unused = [name for at, name in enumerate(table.names) if at not in columns.values()]
    return _Table(rows, len(flagged), frozenset(restored), tuple(unused))


def _hint(faults: Iterable[tuple[int, str]]) -> str:
    if any("no class" in fault for _, fault in faults):
        return "correct these rows; --new-classes adds classes that the dataset does not have"
    return "correct these rows; nothing was changed"


_FINDERS: Mapping[str, Callable[[str], bool]] = {
    "filename": is_path_column,
    "action": lambda name: name.strip().casefold() == "action",
    "label": is_label_column,
    "split": is_split_column,
}
_DOUBTFUL = re.compile("action|label|class|split", re.IGNORECASE)


def _with_header(path: str) -> Table:
    with local_file(path) as here:
        if not os.path.isfile(here):
            raise SourceError(f"{path} is not a file", hint=_HINT, path=path)
        table = read_table(here, os.path.basename(path))
    return table if table.names or not table.lines else table.with_header()


def _columns(table: Table, path: str) -> dict[str, int]:
    """Return where each column is; raise SourceError if that is not clear."""
    names = [name.strip() for name in table.names]
    at = {
        what: [place for place, name in enumerate(names) if is_it(name)]
        for what, is_it in _FINDERS.items()
    }
    used = [place for places in at.values() for place in places]
    doubtful = [
        name for place, name in enumerate(names) if place not in used and _DOUBTFUL.search(name)
    ]
    is_clear = len(at["filename"]) == 1 and all(len(places) < 2 for places in at.values())
    needed = at["action"] or (at["label"] and not at["split"])
    if not (is_clear and needed) or doubtful:
        there = ", ".join(names) or "none"
        raise SourceError(f"{path} has no clear columns: it has {there}", hint=_HINT, path=path)
    return {what: places[0] for what, places in at.items() if places}


def _rows(table: Table, columns: Mapping[str, int]) -> Iterator[_Row]:
    """Yield the rows of a table; blank ones, which spreadsheets add, are left out."""
    count = len(table.lines)
    texts = {
        what: table.texts(columns[what]) if what in columns else [""] * count for what in _FINDERS
    }
    if "action" not in columns:
        texts["action"] = [Action.RELABEL] * count
    for line, filename, *others in zip(table.lines, *texts.values(), strict=True):
        cells = [cell.strip() for cell in others]
        # Blanks may be part of a name.
        if filename.strip() or (cells[0] and "action" in columns) or any(cells[1:]):
            yield _Row(line, filename, *cells)


def _correction(
    row: _Row, earlier: EarlierVersion, content: str, new_classes: bool
) -> Correction | str:
    """Return the correction in a row, or why it is none."""
    action = row.action.casefold()
    if action == RESTORE:
        return f"{row.filename} was not dropped"
    if action not in list(Action):
        return f"{row.action!r} is not relabel, drop or move"
    for cell, what, needed in (
        (row.label, "label", action == Action.RELABEL),
        (row.split, "split", action == Action.MOVE),
    ):
        if bool(cell) is not needed:
            return f"{action} needs a {what}" if needed else f"{action} takes no {what}"
    splits = [split.name for split in earlier.info.splits]
    named = {name.casefold(): name for name in splits}
    split = named.get(row.split.casefold()) or split_word(row.split)
    if row.split and split not in splits:
        return f"no split {row.split!r}: there is {', '.join(splits)}"
    label = normal_name(row.label)
    is_multilabel = bool(earlier.records.samples.label_sets)
    names = class_names_of(label) if is_multilabel else (label,)
    classes = earlier.info.classes
    for name in names if row.label and not new_classes else ():
        if name not in classes:
            meant = closest(classes, name)
            return f"no class {name!r}" + (f" (did you mean {meant}?)" if meant else "")
    return Correction(row.filename, Action(action), label, split, content)


def _with_copies(rows: Sequence[Correction], earlier: EarlierVersion) -> list[Correction]:
    """Correct the exact copies of moved and relabelled images too.

    Otherwise they would be leaks, or contradict the new label.
    """
    old = earlier.records.samples
    wanted = {bytes.fromhex(row.content) for row in rows if row.action is not Action.DROP}
    known = {(row.filename, row.action) for row in rows}
    by_content: dict[bytes, list[str]] = defaultdict(list)
    for name, content in zip(old.filenames, old.contents, strict=True) if wanted else ():
        if content in wanted and (name, Action.DROP) not in known:
            by_content[content].append(name)
    copies = {
        (name, row.action): row._replace(filename=name)
        for row in rows
        for name in by_content.get(bytes.fromhex(row.content), ())
        if row.action is not Action.DROP and (name, row.action) not in known
    }
    return [*rows, *copies.values()]


def _contradictions(rows: Sequence[Correction]) -> Iterator[tuple[int, str]]:
    """Yield images whose copies would go to several splits, or get several labels."""
    for action, fault in (
        (Action.MOVE, "go to different splits"),
        (Action.RELABEL, "get different labels"),
    ):
        by_content: dict[str, list[Correction]] = defaultdict(list)
        for row in rows:
            if row.action is action:
                by_content[row.content].append(row)
        for _, same in sorted(by_content.items()):
            if len({(row.split, frozenset(class_names_of(row.label))) for row in same}) > 1:
                names = " = ".join(sorted(row.filename for row in same))
                yield 0, f"{names} are one image, but {fault}"


def _divided_groups(
    rows: Sequence[Correction], earlier: EarlierVersion
) -> Iterator[tuple[int, str]]:
    """Yield why moves would divide a group."""
    old = earlier.records.samples
    moves = {row.filename: row.split for row in rows if row.action is Action.MOVE}
    if not moves:
        return
    dropped = {row.filename for row in rows if row.action is Action.DROP}
    before: dict[str, set[str]] = defaultdict(set)
    after: dict[str, set[str]] = defaultdict(set)
    for name, group, split in zip(old.filenames, old.groups, old.splits, strict=bool(old.groups)):
        if group:
            before[group].add(split)
            if name not in dropped:
                after[group].add(moves.get(name, split))
    for group, splits in sorted(after.items()):
        if len(splits) > max(len(before[group]), 1):
            yield 0, f"the group {group} would be in {' and '.join(sorted(splits))}"


# The plan.


def _plan(earlier: EarlierVersion, rows: Sequence[Correction], options: PackOptions) -> Plan:
    corrections = Corrections().with_rows(rows)
    samples, records = _samples(earlier, corrections), earlier.records
    catalog = _catalog(earlier, samples)
    hashes = records.samples.contents
    corrected = corrections.apply(catalog, hashes, records.contents()).catalog
    stored = {
        blob.number: name
        for name, blob in zip(corrected.samples.filenames, corrected.samples.blobs, strict=True)
        if isinstance(blob, Stored)
    }
    notes = [*_old_notes(earlier), *carried_notes(earlier, stored)]
    known = Remembered(corrected.noted(notes), {name: row for row, name in stored.items()})
    # All splits are known, and nothing is chosen again.
    kept = replace(
        options,
        source=SourceOptions(keep_case=options.source.keep_case),
        val_split=0.0,
        test_split=0.0,
        folds=0,
        on_leak=OnLeak.REPORT,
    )
    plan = _once_warned(grow(known, records, kept))
    more = earlier.report.source_bytes - sum(records.samples.sizes)
    known_options = {**earlier.report.options, "split_from": title(earlier)}
    return replace(
        plan,
        options=known_options,
        more_source_bytes=more,
        near_duplicates=_near_duplicates(earlier, plan),
    )


def _near_duplicates(earlier: EarlierVersion, plan: Plan) -> NearDuplicates | None:
    """Return the near-duplicates that the earlier version knew, as far as they are left."""
    splits: dict[str, str] = {}
    labels: dict[str, Hashable] = {}
    for task in plan.tasks:
        samples = task.samples
        splits |= dict.fromkeys(samples.filenames, task.split)
        known = [known_label(label, task.split) for label in samples.label_sets or samples.labels]
        labels |= zip(samples.filenames, known, strict=True)
    near = earlier.report.near_duplicates
    return near and near.among(splits, labels, len(earlier.records.samples) - len(splits))


def _once_warned(plan: Plan) -> Plan:
    """Return a plan without the warnings that the earlier report has already."""
    others = tuple(note for note in plan.notes if note.kind is not NoteKind.WARNING)
    return replace(plan, notes=(*others, *warnings_of(dict.fromkeys(plan.warnings))))


def _samples(earlier: EarlierVersion, corrections: Corrections) -> Samples:
    """Return the records of a version as samples, in the splits where they are to be."""
    old, classes = earlier.records.samples, (*earlier.info.classes, "")
    names = list(old.filenames)
    escaped = [row for row, name in enumerate(names) if _ESCAPED in name]
    blobs = [blob for blob in (old.blobs[row] for row in escaped) if isinstance(blob, Stored)]
    for row, name in zip(escaped, raw_names(blobs), strict=True):
        names[row] = name
    moves = corrections.of(Action.MOVE)
    pins = [
        moves[name].split if name in moves else split
        for name, split in zip(old.filenames, old.splits, strict=True)
    ]
    class_sets = [tuple(classes[label] for label in labels) for labels in old.label_sets]
    class_names = [classes[label] for label in old.labels] or [
        names[0] if names else "" for names in class_sets
    ]
    return replace(
        old,
        filenames=tuple(names),
        class_names=tuple(class_names),
        class_sets=tuple(class_sets),
        splits=("",) * len(old),
        pinned=tuple(pins),
        labels=(),
        label_sets=(),
    )


def _catalog(earlier: EarlierVersion, samples: Samples) -> Catalog:
    report, classes = earlier.report, earlier.info.classes
    return Catalog(
        name=report.source,
        layout=report.layout,
        samples=samples,
        class_folders=dict.fromkeys(classes, ()),
        earlier_classes=classes,
        submission=earlier.submission,
    )


def _old_notes(earlier: EarlierVersion) -> Iterator[Note]:
    """Yield what is still true of the earlier report, beside what it says of single records."""
    report, old = earlier.report, earlier.records.samples
    sets: Mapping[str, set[int]] = defaultdict(set)
    for split, labels in zip(
        old.splits, old.label_sets or ((label,) for label in old.labels), strict=True
    ):
        sets[split].update(labels)
    outdated = {*missing_classes(earlier.info.classes, sets)}
    for note in report.notes:
        if note.kind in (NoteKind.BAD, NoteKind.IGNORED) or (
            note.kind is NoteKind.WARNING and note.reason not in outdated
        ):
            yield note
