"""Manifests: tables that give each image of a folder or an archive its class.

A manifest is one file, those of a pattern, or the parts in a folder. `scan` reads the tables and
chooses the columns. `resolve` matches rows with images; a download with tables of labels
(`download`) ends there, too.
"""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, Catalog, Column, Samples, SourceLayout
from imgrec.notes import Note, NoteKind, warnings_of
from imgrec.options import NONE, SourceKind, SourceOptions
from imgrec.source.cells import FeatureColumn, Labels, read_feature, read_labels, read_onehot
from imgrec.source.columns import Roles, Rows, choose_roles, has_header, meanings
from imgrec.source.image_names import Finder, ManifestImages
from imgrec.source.probe import FileTable
from imgrec.source.tables import Cell, Table, TableKind, is_table, read_table
from imgrec.source.tree import Context
from imgrec.source.walk import open_tree
from imgrec.source.words import Splits, read_splits, split_of_name, split_word, splits_of_files
from imgrec.storage.files import walk
from imgrec.storage.urls import redacted
from imgrec.text import folder_name, name_of

_SUBMISSION = re.compile(r"sample[-_ ]?sub|submission|submit[-_ ]?sample", re.I)
_UNFINISHED = {
    "_delta_log": "is a Delta table, whose files also hold deleted rows",
    "_temporary": "holds an export that is not finished",
}
_MANY = 10
"""So many rows with all labels different have ids, not labels."""
_SHOWN = 5


def scan(path: str, context: Context) -> Catalog:
    """Scan a manifest: a file, a pattern, or a folder of part files.

    Raises SourceError if it cannot be understood, and UsageError if an option names a column that
    it does not have.
    """
    files = manifest_files(path)
    options = context.options
    if options.label_sep == NONE:
        options = replace(options, label_sep="")
        context = replace(context, options=options)
    named = zip(files.paths, files.names, strict=True)
    tables = [read_table(path, name, options.encoding) for path, name in named]
    images = ManifestImages.of(open_tree(options.images or files.folder, context))
    for other in files.others if options.images else ():
        images.lister.tally.add("not a table", other)
    split_of_file = splits_of_files(files.names, files.where)
    tests = {name for name, split in split_of_file.items() if split == TEST}
    rows = _join(tables, files.where, tests, options, images.finder)
    roles = choose_roles(rows, options, images.finder)
    parts = f" of {len(files.paths)} parts" if len(files.paths) > 1 else ""
    source = TableSource(
        tables=tables,
        rows=rows,
        roles=roles,
        images=images,
        split_of_file=split_of_file,
        title=f"{rows.kind} manifest{parts}{'' if rows.is_named else ' without header'}",
    )
    return replace(resolve(source, context), name=files.name)


# The files


class ManifestFiles(NamedTuple):
    """The files of a manifest, in the order of their names."""

    folder: str
    """Their folder, and that of the images unless --images names another."""
    paths: tuple[str, ...]
    names: tuple[str, ...]
    """Their paths below the folder, for messages."""
    is_folder: bool
    """Whether a folder of part files was given."""
    others: tuple[str, ...] = ()
    """Other files in that folder."""

    @property
    def name(self) -> str:
        """The name of the dataset: that of the folder."""
        return folder_name(self.folder)

    @property
    def where(self) -> str:
        """All files together, for messages."""
        return self.name if self.is_folder or len(self.names) > 1 else self.names[0]


def manifest_files(path: str) -> ManifestFiles:
    """List the files of a manifest; raise SourceError if there are none."""
    if os.path.isdir(path):
        return _files_in(path)
    if os.path.lexists(path):
        return _files(os.path.dirname(path) or ".", [path], is_folder=False)
    if found := [match for match in glob.glob(path, recursive=True) if os.path.isfile(match)]:
        kept = [match for match in found if not os.path.basename(match).startswith("_")]
        folder = os.path.dirname(path)
        while glob.has_magic(folder):
            folder = os.path.dirname(folder)
        return _files(folder or ".", kept or found, is_folder=False)
    what = "no file matches" if glob.has_magic(path) else "there is no"
    raise SourceError(
        f"{what} {path}", hint="give a table, a pattern in quotes, or a folder", path=path
    )


def is_submission(path: str) -> bool:
    """Return whether a file is a sample submission, whose labels are made up.

    >>> is_submission("data/sampleSubmission_v2.csv.zip"), is_submission("train.csv")
    (True, False)
    """
    return bool(_SUBMISSION.search(os.path.basename(path)))


def _files(folder: str, paths: list[str], *, is_folder: bool) -> ManifestFiles:
    for path in filter(is_submission, paths):
        raise SourceError(
            f"{path} is a sample submission by its name, whose labels are made up",
            hint="give the table of true labels; if this is it, rename it",
            path=path,
        )
    named = sorted((name_of(os.path.relpath(path, folder)), path) for path in paths)
    return ManifestFiles(
        folder=folder,
        paths=tuple(path for _, path in named),
        names=tuple(name for name, _ in named),
        is_folder=is_folder,
    )


def _files_in(folder: str) -> ManifestFiles:
    paths: list[str] = []
    others: list[str] = []
    for path in _walk(folder):
        (paths if _is_part(path) else others).append(path)
    if not paths:
        raise SourceError(
            f"{folder} holds no tables", hint="give CSV, TSV, JSON lines or Parquet", path=folder
        )
    named = tuple(name_of(os.path.relpath(other, folder)) for other in others)
    return _files(folder, paths, is_folder=True)._replace(others=named)


def _is_part(path: str) -> bool:
    if not is_table(path) or is_submission(path):
        return False
    # Read-me files and notes on single images end in .txt more often than tables do.
    is_text = path.lower().endswith((".txt", ".lst", ".list"))
    return not is_text or os.path.basename(path).startswith("part-") or bool(split_of_name(path))


def _walk(root: str) -> Iterator[str]:
    """Yield the files below a folder, except hidden ones and those of a job (`_SUCCESS`)."""
    for folder, folders, files in walk(root):
        for name in sorted(_UNFINISHED.keys() & folders):
            raise SourceError(
                f"{folder} {_UNFINISHED[name]}",
                hint="give a folder in which every part file counts",
                path=folder,
            )
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (os.path.join(folder, name) for name in sorted(files) if name[0] not in "._")


# The rows of several tables


def _join(
    tables: Sequence[Table],
    where: str,
    tests: Container[str],
    options: SourceOptions,
    finder: Finder,
) -> Rows:
    """Put the tables of a manifest together.

    The tables in `tests` may lack columns of the others, such as labels. Raises SourceError if
    there are no rows, or if tables have different kinds or columns.
    """
    filled = [table for table in tables if table.lines]
    if not filled:
        raise no_rows(where, tables)
    main = next((table for table in filled if table.name not in tests), filled[0])
    if odd := next((table for table in filled if table.kind is not filled[0].kind), None):
        raise SourceError(
            f"{odd.name} is {odd.kind}, but {filled[0].name} is {filled[0].kind}",
            hint="give tables of one kind",
        )
    is_named = bool(main.names) or has_header(
        main.first_row(),
        where,
        options,
        lambda text: isinstance(finder.find_all([text])[0], int),
    )
    filled = [_with_names(table, is_named=is_named) for table in filled]
    names = next(table.names for table in filled if table.name == main.name)
    if main.kind is TableKind.JSONL:
        names = tuple(dict.fromkeys(chain.from_iterable(table.names for table in filled)))
    for table in filled if main.kind is not TableKind.JSONL else ():
        if table.names != names and not (table.name in tests and set(table.names) < set(names)):
            raise SourceError(
                f"{table.name} has other columns than {main.name}: "
                f"{', '.join(table.names)[:200]} instead of {', '.join(names)[:200]}",
                hint="give files of one table, or one file",
            )
    if not any(table.lines for table in filled):
        raise no_rows(where, tables, "a header but no")
    return concatenate(filled, where, names, is_named=is_named)


def _with_names(table: Table, *, is_named: bool) -> Table:
    if table.names:
        return table
    if is_named:
        return table.with_header()
    return replace(table, names=tuple(str(at + 1) for at in range(len(table.columns))))


def no_rows(where: str, tables: Sequence[Table], what: str = "no") -> SourceError:
    """Return the error for tables without rows, with the first row that cannot be read."""
    bad = [f" that can be read; {note.reason}" for note in _fault_notes(tables)]
    return SourceError(
        f"{where} has {what} rows{''.join(bad[:1])}", hint="give a row for each image"
    )


def concatenate(
    tables: Sequence[Table], where: str, names: tuple[str, ...], *, is_named: bool = True
) -> Rows:
    """Return the rows of all tables; "" for the cells of columns that a table does not have."""
    columns: list[list[Sequence[Cell]]] = [[] for _ in names]
    for table in tables:
        if table.names == names:  # they may repeat
            own = table.columns
        else:
            by_name = dict(zip(table.names, table.columns, strict=True))
            own = tuple(by_name.get(name, ("",) * len(table.lines)) for name in names)
        for parts, cells in zip(columns, own, strict=True):
            parts.append(cells)
    return Rows(
        where=where,
        names=names,
        is_named=is_named,
        kind=tables[0].kind,
        columns=tuple(tuple(chain.from_iterable(parts)) for parts in columns),
        parts=tuple(table.name for table in tables),
        starts=tuple(accumulate((len(table.lines) for table in tables), initial=0))[:-1],
        lines=tuple(chain.from_iterable(table.lines for table in tables)),
        unusable={name: kind for table in tables for name, kind in table.unusable.items()},
    )


def _fault_notes(tables: Iterable[Table]) -> Iterator[Note]:
    for table in tables:
        for line, text, reason in table.faults:
            place = f"{table.name}:{line}"
            yield Note(text or place, f"{place}: {reason}")


def _without_keys(text: str) -> str:
    """Return a cell without what a signed URL would reveal in reports."""
    return redacted(text) if "://" in text else text


# Rows matched with images


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSource:
    """Rows, the meaning of their columns, and the images that they may name."""

    tables: Sequence[Table]
    """The tables that the rows are from."""
    rows: Rows
    roles: Roles
    images: ManifestImages
    split_of_file: Mapping[str, str] = field(default_factory=dict)
    """The split that the name of a table means."""
    own_files: Container[str] = ()
    """Names of further tables that are not counted as files beside the images."""
    title: str = ""
    """The kind of the source, for the layout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Values:
    """The values of each row."""

    labels: Labels
    splits: Splits
    groups: Sequence[str] | None
    features: Sequence[FeatureColumn]

    def by_name(self) -> dict[str, Sequence[object]]:
        """Return everything on which the rows of one image must agree."""
        values: dict[str, Sequence[object]] = {
            "label": [tuple(sorted(labels)) for labels in self.labels.sets],
            "split": self.splits.splits,
        }
        if self.groups is not None:
            values["group"] = self.groups
        return values | {feature.column.name: feature.column.values for feature in self.features}

    def faults(self) -> Iterator[Mapping[int, str]]:
        yield self.splits.faults
        yield self.labels.faults
        unlabelled: Iterable[int] = self.labels.blank
        if not self.labels.is_multi:
            unlabelled = [row for row, labels in enumerate(self.labels.sets) if not labels]
        yield {
            row: "no label"
            for row in unlabelled
            if self.splits.splits[row] != TEST and row not in self.labels.faults
        }
        yield from (feature.faults for feature in self.features)


def resolve(source: TableSource, context: Context) -> Catalog:
    """Match rows with images, open these, and keep one row for each image.

    Rows that name no image, or contradict each other, become notes.
    """
    rows, roles, images = source.rows, source.roles, source.images
    finder, options = images.finder, context.options
    texts = rows.texts(roles.path)
    found = finder.find_all(texts)
    if not any(isinstance(at, int) for at in found):
        raise SourceError(
            f"{rows.where}: none of {len(rows)} rows names an image in {finder.root}; "
            f"{rows.place(0)}: {_without_keys(texts[0])!r}: {found[0]}",
            hint="name their folder with --images, and the column of paths with --path-col",
            path=finder.root,
        )
    images.refuse_hidden(found, options)
    values = _read_values(source, [_folder_of(at, finder) for at in found], options)
    own = [table.path for table in source.tables if table.path]
    others = tuple(images.tally_others(found, own, rows.where, source.own_files))
    tree, opened = images.open(found, context)
    faults = _merge_faults(
        {row: at for row, at in enumerate(opened) if isinstance(at, str)}, *values.faults()
    )
    good = [(row, at) for row, at in enumerate(opened) if row not in faults and isinstance(at, int)]
    row_of, repeated = _one_row_each(good, values.by_name(), rows.place, faults)
    closed = images.lister.closed
    warnings = (
        *images.lister.warnings,
        *(table.warning for table in source.tables if table.warning),
        *([f"folders that cannot be read: {', '.join(map(str, closed))}"] if closed else ()),
        *others,
        *values.labels.warnings,
        *(feature.warning for feature in values.features if feature.warning),
    )

    def notes(faults: Mapping[int, str], kind: NoteKind) -> Iterator[Note]:
        for row, fault in faults.items():
            at, place = found[row], rows.place(row)
            name = finder.paths[at] if isinstance(at, int) else _without_keys(texts[row].strip())
            yield Note(name or place, f"{place}: {fault}", kind)

    return Catalog(
        name="",
        layout=_layout(source, values),
        samples=_samples(tree, row_of, values, context),
        class_folders=_class_folders(values.labels, rows, roles),
        class_order=values.labels.order,
        notes=(
            *sorted([*_fault_notes(source.tables), *notes(faults, NoteKind.BAD)]),
            *sorted(notes(dict.fromkeys(repeated, "a duplicate row"), NoteKind.UNPLACED)),
            *images.lister.tally.ignored(),
            *warnings_of(warnings),
        ),
        stamp=tree.stamp.merged(images.lister.stamp),
        homes=images.lister.homes,
    )


def _folder_of(at: int | str, finder: Finder) -> str:
    """Return the name of an image's folder; "" if there is none, or if it means a split."""
    folder = finder.paths[at].rpartition("/")[0].rpartition("/")[2] if isinstance(at, int) else ""
    return "" if split_word(folder) else folder


def _read_values(source: TableSource, folders: list[str], options: SourceOptions) -> _Values:
    rows, roles = source.rows, source.roles
    if roles.onehot:
        labels = read_onehot(
            [rows.cells(at) for at in roles.onehot], [rows.names[at] for at in roles.onehot]
        )
    elif roles.label is not None:
        labels = read_labels(rows.cells(roles.label), rows.where, options)
        if not (options.label_col or rows.is_named):
            _refuse_ids(labels, rows, roles.label)
    elif len(set(folders) - {""}) < 2:
        raise SourceError(
            f"{rows.where} has no column for labels, and its images are not in folders of "
            "several classes",
            hint="add the label of each image, or put the images of each class into a folder",
        )
    else:
        labels = read_labels(folders, rows.where, options)
    if options.fold_case:  # now, so that rows of one image in two spellings agree
        labels = labels.fold()
    splits = Splits([""] * len(rows), {})
    if roles.split is not None:
        splits = read_splits(rows.texts(roles.split), rows.names[roles.split], rows.where)
    features = zip(roles.extras, options.column, strict=True)
    return _Values(
        labels=labels,
        splits=_add_splits_of_files(splits, source.split_of_file, rows),
        groups=None if roles.group is None else [x.strip() for x in rows.texts(roles.group)],
        features=[read_feature(rows.texts(at), name, option) for (at, name), option in features],
    )


def _refuse_ids(labels: Labels, rows: Rows, at: int) -> None:
    if len(rows) >= _MANY and len(set(labels.sets)) == len(rows):
        raise SourceError(
            f"{rows.where}: column {at + 1} has a different value in each of {len(rows):,} rows, "
            "so it holds ids rather than labels",
            hint="name the column of labels with --label-col",
        )


def _add_splits_of_files(cells: Splits, split_of_file: Mapping[str, str], rows: Rows) -> Splits:
    """Give rows without a split that of their file; raise SourceError if the two contradict."""
    if not split_of_file:
        return cells
    of_files = [split_of_file.get(name, "") for name in rows.files()]
    for row, (cell, split) in enumerate(zip(cells.splits, of_files, strict=True)):
        if cell and split and cell != split:
            raise SourceError(
                f"{rows.place(row)} is for {cell}, but the name of its file means {split}",
                hint="rename the file, or name another column with --split-col",
            )
    merged = [cell or split for cell, split in zip(cells.splits, of_files, strict=True)]
    return Splits(merged, {row: fault for row, fault in cells.faults.items() if not merged[row]})


def _merge_faults(*several: Mapping[int, str]) -> dict[int, str]:
    merged: dict[int, list[str]] = defaultdict(list)
    for faults in several:
        for row, fault in faults.items():
            merged[row].append(fault)
    return {row: "; ".join(faults) for row, faults in sorted(merged.items())}


def _one_row_each(
    named: Iterable[tuple[int, int]],
    values: Mapping[str, Sequence[object]],
    place: Callable[[int], str],
    faults: dict[int, str],
) -> tuple[dict[int, int], list[int]]:
    """Return the first row of each image, and the rows that repeat it.

    `named` pairs rows with images. If the rows of an image differ in some value, all become faults.
    """
    row_of: dict[int, int] = {}
    several: dict[int, list[int]] = {}
    for row, image in named:
        if row_of.setdefault(image, row) != row:
            several.setdefault(image, [row_of[image]]).append(row)
    repeated: list[int] = []
    for image, rows in several.items():
        differing = [
            name for name, cells in values.items() if len({cells[row] for row in rows}) > 1
        ]
        if not differing:
            repeated += rows[1:]
            continue
        del row_of[image]
        more = f" and {len(rows) - _SHOWN} more" if len(rows) > _SHOWN else ""
        reasons = []
        for name in differing:
            shown = [f"{_shown(values[name][row])} in {place(row)}" for row in rows[:_SHOWN]]
            reasons.append(f"the rows of this image differ in {name}: {', '.join(shown)}{more}")
        faults.update(dict.fromkeys(rows, "; ".join(reasons)))
    return row_of, sorted(repeated)


def _shown(value: object) -> str:
    return (" + ".join(map(str, value)) if isinstance(value, tuple) else str(value)) or "none"


def _samples(
    table: FileTable, row_of: Mapping[int, int], values: _Values, context: Context
) -> Samples:
    """Gather the images that are packed, in the order of the listing."""
    numbers = sorted(row_of)
    rows = [row_of[number] for number in numbers]
    sets = [values.labels.sets[row] for row in rows]
    class_names = [labels[0] if labels else "" for labels in sets]
    splits = [values.splits.splits[row] for row in rows]
    return replace(
        table.samples(numbers, class_names, splits, context.run),
        groups=() if values.groups is None else tuple([values.groups[row] for row in rows]),
        class_sets=tuple(sets) if values.labels.is_multi else (),
        columns=tuple(
            Column(column.name, column.kind, tuple([column.values[row] for row in rows]))
            for column, *_ in values.features
        ),
    )


def _class_folders(labels: Labels, rows: Rows, roles: Roles) -> dict[str, tuple[str, ...]]:
    """Return the place of each class: its first row, even if that row is not packed."""
    first = labels.first_rows()
    places: dict[str, tuple[str, ...]] = {name: (rows.place(at),) for name, at in first.items()}
    columns = (labels.order or ()) if roles.onehot else ()
    return places | {name: (name,) for name in columns if name not in places}


def _layout(source: TableSource, values: _Values) -> SourceLayout:
    kinds = [feature.column.kind for feature in values.features]
    columns = list(meanings(source.rows, source.roles, kinds, is_multi=values.labels.is_multi))
    if source.roles.split is None and any(values.splits.splits):
        columns.append(("file name", "split"))
    return SourceLayout.of_columns(SourceKind.MANIFEST, source.title, columns)
