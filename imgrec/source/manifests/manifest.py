"""Manifests: tables that give each image of a folder or an archive its class."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import starmap
from typing import NamedTuple, TypeGuard

from imgrec.errors import SourceError
from imgrec.model import TEST, Catalog, Column, Samples
from imgrec.notes import Note, NoteKind, warnings_of
from imgrec.options import NONE, SourceOptions
from imgrec.source.manifests.columns import Holds, Roles, choose_roles, describe
from imgrec.source.manifests.extras import ExtraColumn, read_column
from imgrec.source.manifests.files import ManifestFiles, manifest_files
from imgrec.source.manifests.images import (
    Finder,
    ManifestImages,
    count_rest,
    doubts,
    open_images,
    refuse_hidden,
)
from imgrec.source.manifests.labels import (
    Labels,
    are_flags,
    first_rows,
    fold,
    read_labels,
    read_onehot,
    separator_in,
)
from imgrec.source.manifests.rows import Rows, join
from imgrec.source.manifests.tables import Cell, Table, read_table
from imgrec.source.probe import FileTable, contents
from imgrec.source.split_words import Splits, read_splits, split_word, splits_of_files
from imgrec.source.tree import Context

_LOOKED_AT = 100
"""How many rows tell whether a column names images."""
_MANY = 10
"""How many rows with a label each of its own are not labelled, but numbered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Said:
    """What the rows say, row by row."""

    labels: Labels
    splits: Splits
    groups: tuple[str, ...] | None
    extras: tuple[ExtraColumn, ...]

    def facts(self) -> Iterator[Fact]:
        """Yield all on which the rows of one image must agree."""
        yield Fact("label", [tuple(sorted(labels)) for labels in self.labels.sets])
        yield Fact("split", self.splits.splits)
        if self.groups is not None:
            yield Fact("group", self.groups)
        yield from (Fact(column.name, column.values) for column, *_ in self.extras)

    def faults(self) -> Iterator[Mapping[int, str]]:
        """Yield all that is wrong with rows, but for their images."""
        yield self.splits.faults
        yield self.labels.faults
        unlabelled: Iterable[int] = self.labels.blank
        if not self.labels.is_multi:
            sets = enumerate(self.labels.sets)
            unlabelled = [row for row, labels in sets if not labels]
        yield {
            row: "no label"
            for row in unlabelled
            if self.splits.splits[row] != TEST and row not in self.labels.faults
        }
        yield from (extra.faults for extra in self.extras)


def scan(path: str, context: Context) -> Catalog:
    """Read a manifest, look at its images, and match them.

    `path` is a file, a pattern, or a folder of part files. Raises SourceError if it cannot be
    understood, and UsageError if an option names a column that it does not have.
    """
    files = manifest_files(path)
    if context.options.label_sep == NONE:
        context = replace(context, options=replace(context.options, label_sep=""))
    encoding = context.options.encoding
    tables = [
        read_table(path, name, encoding)
        for path, name in zip(files.paths, files.names, strict=True)
    ]
    images = open_images(context.options.images or files.folder, context)
    return resolve(files, tables, images, splits_of_files(files.names, files.where), context)


def resolve(
    files: ManifestFiles,
    tables: Sequence[Table],
    images: ManifestImages,
    by_file: dict[str, str],
    context: Context,
) -> Catalog:
    """Match the rows of a manifest with images that are listed, and look at those.

    `by_file` is the split that the names of its files tell.
    """
    options, finder = context.options, images.finder
    unlabelled = {name for name, split in by_file.items() if split == TEST}
    rows = join(
        tables, files.where, options, lambda text: isinstance(finder.find(text), int), unlabelled
    )
    holds = Holds(
        images=lambda number: _names_images(rows, number, finder),
        splits=lambda number: all(map(split_word, set(rows.texts(number)))),
        flags=lambda number: are_flags(rows.columns[number]),
        lists=lambda number: bool(separator_in(filter(_is_text, rows.columns[number]))),
    )
    roles = choose_roles(rows.header, options, holds)
    found = finder.find_all(rows.texts(roles.path))
    _refuse_strangers(rows, roles, found, finder.root)
    refuse_hidden(images, found, options)
    said = _read(rows, roles, _folders(found, finder), by_file, options)
    texts = zip(found, rows.texts(roles.path), strict=True)
    names = [finder.paths[at] if isinstance(at, int) else text.strip() for at, text in texts]
    rest = count_rest(images, found, files.paths)
    named = images.look_at(found, context)
    faults = _merged(_path_faults(named.found), *said.faults())
    good = [
        (row, at) for row, at in enumerate(named.found) if row not in faults and isinstance(at, int)
    ]
    settled = settle(good, list(said.facts()), rows.where)
    faults.update(settled.faults)
    tally = images.lister.tally
    for other in files.others if options.images else ():
        tally.add("not a table", other)
    repeated = dict.fromkeys(settled.repeated, "a duplicate row")
    warnings = (
        *images.lister.warnings,
        *(table.doubt for table in tables if table.doubt),
        *doubts(images, rest, files.where),
        *said.labels.doubts,
        *(extra.doubt for extra in said.extras if extra.doubt),
    )
    return Catalog(
        name=files.name,
        layout=_layout(files, rows, roles, said),
        samples=_samples(named.tree, settled, said, context),
        class_folders=_class_folders(said.labels, rows, roles),
        class_order=said.labels.order,
        notes=(
            *sorted([*rows.bad, *_bad_rows(rows, names, faults)]),
            *sorted(_bad_rows(rows, names, repeated, NoteKind.UNPLACED)),
            *tally.ignored(),
            *warnings_of(warnings),
        ),
        stamp=named.tree.stamp.merged(images.lister.stamp),
        homes=images.lister.homes,
    )


def _is_text(cell: Cell) -> TypeGuard[str]:
    return isinstance(cell, str)


def _names_images(rows: Rows, number: int, finder: Finder) -> bool:
    if rows.header.names[number] in rows.unusable:
        return False
    texts = rows.texts(number)[:_LOOKED_AT]
    return any(isinstance(at, int) for at in finder.find_all(texts))


def _refuse_strangers(rows: Rows, roles: Roles, found: Sequence[int | str], images: str) -> None:
    """Raise SourceError if the rows speak of other images altogether."""
    if any(isinstance(at, int) for at in found):
        return
    text = rows.texts(roles.path)[0]
    raise SourceError(
        f"{rows.header.where}: none of {rows.count} rows names an image in {images}; "
        f"{rows.where(0)}: {text!r}: {found[0]}",
        hint="say with --images where they are, and with --path-col which column names them",
        path=images,
    )


def _folders(found: Sequence[int | str], finder: Finder) -> Iterator[str]:
    """Yield the folder that each row's image is in; "" if it is in none, or in one of a split."""
    for at in found:
        folder = (
            finder.paths[at].rpartition("/")[0].rpartition("/")[2] if isinstance(at, int) else ""
        )
        yield "" if split_word(folder) else folder


def _read(
    rows: Rows,
    roles: Roles,
    folders: Iterable[str],
    by_file: dict[str, str],
    options: SourceOptions,
) -> _Said:
    where, names = rows.header.where, rows.header.names
    if roles.onehot:
        labels = read_onehot(
            [rows.column(number) for number in roles.onehot],
            [names[number] for number in roles.onehot],
        )
    elif roles.label is not None:
        labels = read_labels(rows.column(roles.label), where, options)
        if not (options.label_col or rows.header.is_told):
            _refuse_ids(labels, rows, roles.label)
    else:
        labels = read_labels(_classes(list(folders), rows), where, options)
    if options.fold_case:  # now, so that rows of one image in two spellings agree
        labels = fold(labels)
    if roles.split is None:
        splits = Splits([""] * rows.count, {})
    else:
        splits = read_splits(rows.texts(roles.split), names[roles.split], where)
    splits = _merge_splits(splits, by_file, rows)
    groups = None
    if roles.group is not None:
        groups = tuple(map(str.strip, rows.texts(roles.group)))
    extras = zip(map(rows.texts, roles.extras), roles.features, options.column, strict=True)
    return _Said(
        labels=labels, splits=splits, groups=groups, extras=tuple(starmap(read_column, extras))
    )


def _merge_splits(in_cells: Splits, by_file: dict[str, str], rows: Rows) -> Splits:
    """Return the split of each row, from its cell or from its file's name.

    Raises SourceError if they contradict each other.
    """
    if not by_file:
        return in_cells
    named = [by_file.get(name, "") for name in rows.files()]
    for row, (cell, split) in enumerate(zip(in_cells.splits, named, strict=True)):
        if cell and split and cell != split:
            raise SourceError(
                f"{rows.where(row)} is for {cell}, but the name of its file says {split}",
                hint="rename the file, or name another column with --split-col",
            )
    merged = [cell or split for cell, split in zip(in_cells.splits, named, strict=True)]
    faults = {row: fault for row, fault in in_cells.faults.items() if not merged[row]}
    return Splits(merged, faults)


def _refuse_ids(labels: Labels, rows: Rows, number: int) -> None:
    """Raise SourceError if what is taken for labels differs in every one of many rows."""
    if rows.count >= _MANY and len(set(labels.sets)) == rows.count:
        raise SourceError(
            f"{rows.header.where}: column {number + 1} has another value in each of "
            f"{rows.count:,} rows, as ids have, not labels",
            hint="say with --label-col which column holds the labels",
        )


def _classes(folders: Sequence[str], rows: Rows) -> Sequence[str]:
    """Return folders as classes; raise SourceError if they cannot be, as images share one."""
    if len(set(folders) - {""}) < 2:
        raise SourceError(
            f"{rows.header.where} has no column for labels, and its images are not in folders of "
            "several classes",
            hint="add the label of each image, or put the images of each class into a folder",
        )
    return folders


def _path_faults(found: Sequence[int | str]) -> dict[int, str]:
    return {row: at for row, at in enumerate(found) if isinstance(at, str)}


def _merged(*several: Mapping[int, str]) -> dict[int, str]:
    merged: dict[int, list[str]] = defaultdict(list)
    for faults in several:
        for row, fault in faults.items():
            merged[row].append(fault)
    return {row: "; ".join(faults) for row, faults in sorted(merged.items())}


def _bad_rows(
    rows: Rows, names: Sequence[str], faults: Mapping[int, str], kind: NoteKind = NoteKind.BAD
) -> Iterator[Note]:
    for row, fault in faults.items():
        yield Note(names[row] or rows.where(row), f"{rows.where(row)}: {fault}", kind)


def _samples(tree: FileTable, settled: Settled, said: _Said, context: Context) -> Samples:
    """Gather what is packed, in the order of the tree."""
    numbers = sorted(settled.row_of)
    rows = [settled.row_of[number] for number in numbers]
    sizes = [tree.sizes[number] for number in numbers]
    keys = [tree.keys[number] for number in numbers]
    blobs = [tree.blobs[number] for number in numbers]
    names = [tree.names[number] for number in numbers]
    sets = [said.labels.sets[row] for row in rows]
    return Samples(
        filenames=tuple(names),
        class_names=tuple([labels[0] if labels else "" for labels in sets]),
        splits=tuple([said.splits.splits[row] for row in rows]),
        sizes=tuple(sizes),
        contents=tuple(contents(names, blobs, sizes, keys, context.run)),
        blobs=tuple(blobs),
        groups=tuple([said.groups[row] for row in rows]) if said.groups is not None else (),
        class_sets=tuple(sets) if said.labels.is_multi else (),
        columns=tuple(
            Column(column.name, column.kind, tuple([column.values[row] for row in rows]))
            for column, *_ in said.extras
        ),
    )


def _class_folders(labels: Labels, rows: Rows, roles: Roles) -> dict[str, tuple[str, ...]]:
    """Return where each class is first found, be the image of that row packed or not."""
    first = first_rows(labels)
    found: dict[str, tuple[str, ...]] = {name: (rows.where(row),) for name, row in first.items()}
    if roles.onehot:
        found |= {name: (name,) for name in labels.order or () if name not in found}
    return found


def _layout(files: ManifestFiles, rows: Rows, roles: Roles, said: _Said) -> str:
    parts = f" of {len(files.paths)} parts" if len(files.paths) > 1 else ""
    bare = "" if rows.header.is_told else " without header"
    kinds = [extra.column.kind for extra in said.extras]
    told = describe(rows.header, roles, kinds, is_multi=said.labels.is_multi)
    if roles.split is None and any(said.splits.splits):
        told += ", file name -> split"
    return f"{rows.kind} manifest{parts}{bare}: {told}"


_SHOWN = 5


class Fact(NamedTuple):
    """What the rows say of one thing."""

    name: str
    values: Sequence[object]
    """One for each row."""


class Settled(NamedTuple):
    """Which row speaks for each image."""

    row_of: dict[int, int]
    """By the image's number."""
    repeated: list[int]
    """Rows that say again what an earlier one says."""
    faults: dict[int, str]
    """Rows that another contradicts, and where."""


def settle(
    named: Iterable[tuple[int, int]], facts: Sequence[Fact], where: Callable[[int], str]
) -> Settled:
    """Keep the first row of each image if all its rows agree on all facts, else none of them.

    `named` pairs rows with the numbers of their images.
    """
    row_of: dict[int, int] = {}
    more: dict[int, list[int]] = {}
    for row, image in named:
        if row_of.setdefault(image, row) != row:
            more.setdefault(image, [row_of[image]]).append(row)
    repeated: list[int] = []
    faults: dict[int, str] = {}
    for image, rows in more.items():
        if differing := [fact for fact in facts if len({fact.values[row] for row in rows}) > 1]:
            told = "; ".join(_contradiction(fact, rows, where) for fact in differing)
            faults.update(dict.fromkeys(rows, told))
            del row_of[image]
        else:
            repeated += rows[1:]
    return Settled(row_of, sorted(repeated), faults)


def _contradiction(fact: Fact, rows: Sequence[int], where: Callable[[int], str]) -> str:
    said = ", ".join(f"{_shown(fact.values[row])} in {where(row)}" for row in rows[:_SHOWN])
    more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
    return f"the rows of this image differ in {fact.name}: {said}{more}"


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return " + ".join(map(str, value)) or "none"
    return str(value) or "none"
