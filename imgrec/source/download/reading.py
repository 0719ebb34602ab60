"""Decide how a download is read: by its tables or by its folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote

from imgrec.errors import SourceError, UsageError
from imgrec.options import NONE, FolderLayout, SourceKind, SourceOptions
from imgrec.source.download.contents import Contents
from imgrec.source.download.folders import FolderReading, read_folders
from imgrec.source.download.label_tables import (
    Agreement,
    LabelTable,
    SplitLists,
    TestSet,
    agreement,
    find_sample,
    find_test_sets,
    is_test_table,
    named_test_set,
    naming_tables,
    parts_of_one,
    read_split_lists,
    refuse_partial_lists,
    split_column,
)
from imgrec.source.download.names import suggested_regex
from imgrec.source.download.tables import NamedTable, label_names_in
from imgrec.source.download.targets import (
    Target,
    choose_target,
    group_columns,
    list_separator,
    may_be_labels,
)
from imgrec.source.manifests.columns import is_path_column, squashed
from imgrec.source.manifests.files import is_submission

_LOOKED_AT = 400
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """Labels come from tables."""

    tables: tuple[LabelTable, ...]
    target: Target
    split_at: tuple[int | None, ...] = ()
    """The column of splits in each table."""
    separator: str = ""
    """What separates several labels in a cell; "" for one label a cell."""
    names: Mapping[str, str] = field(default_factory=dict)
    """The names of labels, where a table or a JSON map has them."""
    names_from: str = ""
    groups: tuple[str, ...] = ()
    """Columns that likely hold groups of images, such as patients."""
    template: str = ""
    """How ids become file names; "" if they are file names."""

    @property
    def has_splits(self) -> bool:
        """Whether the tables give each image a split."""
        return len(self.tables) > 1 or self.split_at[0] is not None

    def labels(self) -> set[str]:
        """Return the labels in the column of labels."""
        (at,) = self.target.columns
        cells = (text for part in self.tables for text in part.table.texts(at))
        words = (word for cell in cells for word in self.words(cell))
        return {word.strip() for word in words if word.strip()}

    def words(self, cell: str) -> list[str]:
        """Return the labels of a cell."""
        return cell.split(self.separator) if self.separator else [cell]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a download is read: one of the two ways, and its test sets."""

    by_table: TableReading | None = None
    by_folder: FolderReading | None = None
    lists: SplitLists | None = None
    """The split of each image, where text files list the images of each split."""
    tests: tuple[TestSet, ...] = ()
    """The images to predict, one set for each table or folder that lists them."""
    sample: NamedTable | None = None
    """The sample submission."""
    notes: tuple[str, ...] = ()
    """Files that are not used, and why."""


def understand(contents: Contents, options: SourceOptions) -> Reading:
    """Decide how a download is read; raise SourceError where two readings are possible."""
    if not contents.images:  # there may be files that were meant as images
        return Reading(by_folder=FolderReading(roots={"": ""}))
    sample = find_sample(contents)
    tables = naming_tables(contents, sample, options)
    unread = sorted(contents.unread.items())
    notes = [f"{path} was not read: {reason}" for path, reason in unread]
    if tables and not _folders_decide(options):
        labels = [part for part in tables if not is_test_table(part, tables, sample)]
        by_table, confirming = _by_table(contents, labels, sample, options)
        if by_table is not None:
            named = named_test_set(contents, sample)
            tests = [part for part in tables if part not in labels]
            sets = (
                (named,)
                if named
                else find_test_sets(sample, tests, by_table.tables, contents.index)
            )
            lists = None if sets else _lists_beside_table(contents, by_table, options)
            return Reading(
                by_table=by_table, lists=lists, tests=sets, sample=sample, notes=tuple(notes)
            )
        notes += [
            f"{part.name} is not used: the folders name the classes"
            for part in labels
            if part not in confirming
        ]
    if option := _table_option(options):
        raise _no_table(contents, option)
    notes += _unused_tables(contents, tables)
    if not _folders_decide(options):
        _refuse_beginnings(contents, sample)
    reading = read_folders(contents.root, contents.folders, options, has_sample=sample is not None)
    if reading.flat:
        raise _no_labels(contents, reading)
    test = named_test_set(contents, sample)
    if test is None and sample and reading.unlabelled:
        test = TestSet.of_sample(sample)
    return Reading(
        by_folder=reading,
        lists=_lists_beside_folders(contents, reading, options),
        tests=(test,) if test else (),
        sample=sample,
        notes=tuple(notes),
    )


def _by_table(
    contents: Contents,
    tables: Sequence[LabelTable],
    sample: NamedTable | None,
    options: SourceOptions,
) -> tuple[TableReading | None, Sequence[LabelTable]]:
    """Read tables of labels; return None, and the tables that agree, if folders name the classes.

    A table that agrees with the folders is still read if it has splits, or labels of more images.
    """
    if not tables:
        return None, ()
    classes = None if _table_option(options) else _class_folders(contents, options, sample)
    try:
        parts = parts_of_one(contents, tables)
        target = _target(parts[0], sample, options)
    except SourceError:
        if classes is None:
            raise
        agreeing_parts = _same_as_folders(contents, tables, classes)
        if agreeing_parts is None:
            return None, _confirming(contents, tables, classes, options)
        parts, target = agreeing_parts
    reading = TableReading(
        tables=parts,
        target=target,
        split_at=tuple(split_column(part, target, options) for part in parts),
        template=options.image_template,
    )
    agreeing: list[Agreement] = []
    if classes is not None and not target.is_asked_for:
        agreeing = [
            agreement(part, contents.index, classes, target.columns, in_other_words=True)
            for part in parts
        ]
        if all(agrees is Agreement.SAME for agrees in agreeing) and not reading.has_splits:
            return None, parts
    if Agreement.OTHER in agreeing:
        if options.yes:
            return None, ()
        column = parts[0].table.columns[target.columns[0]]
        raise SourceError(
            f"{contents.root}: {parts[0].name} and the folders name different classes",
            hint=f"pass --label-col {quote(column)} to take the table, or --class-depth 1 to take "
            "the folders",
            path=contents.root,
        )
    # Labels that are the names of folders are one name each, even with blanks in them.
    is_whole = target.is_onehot or (bool(agreeing) and not options.label_sep)
    if not is_whole:
        reading = replace(reading, separator=_separator(parts, target, options))
    if not target.is_onehot and options.label_names is None:
        names, names_from = _label_names(contents, reading)
        reading = replace(reading, names=names, names_from=names_from)
    if not options.group_col:
        groups = group_columns(parts[0].table, parts[0].id_at, target)
        reading = replace(reading, groups=tuple(groups))
    return reading, ()


def _class_folders(
    contents: Contents, options: SourceOptions, sample: NamedTable | None
) -> FolderReading | None:
    """Return the reading of the folders if they name classes; None if not, or if that is unclear.

    `--yes` does not make it clear: it only lets pass what would be refused.
    """
    asking = replace(options, yes=False)
    try:
        reading = read_folders(
            contents.root, contents.folders, asking, has_sample=sample is not None
        )
    except SourceError:
        return None
    if reading.flat or reading.label_regex:
        return None
    places = map(reading.places().of_folder, contents.folders)
    names = {place.class_name for place in places if not isinstance(place, str)} - {""}
    return reading if len(names) > 1 else None


def _same_as_folders(
    contents: Contents, tables: Sequence[LabelTable], classes: FolderReading
) -> tuple[tuple[LabelTable, ...], Target] | None:
    """Return the parts of one table, and their column that agrees with the folders."""
    try:
        parts = parts_of_one(contents, tables)
    except SourceError:
        return None
    for at in parts[0].others():
        agreeing = (agreement(part, contents.index, classes, [at]) for part in parts)
        if all(agrees is Agreement.SAME for agrees in agreeing):
            return parts, Target((at,))
    return None


def _confirming(
    contents: Contents,
    tables: Sequence[LabelTable],
    classes: FolderReading,
    options: SourceOptions,
) -> list[LabelTable]:
    """Return the tables with a column that agrees with the class folders.

    Raises SourceError if another table has a column that may hold labels.
    """
    confirming = []
    for part in tables:
        labels = [at for at in part.others() if may_be_labels(part.table.texts(at))]
        if agreement(part, contents.index, classes, part.others()) is Agreement.SAME:
            confirming.append(part)
        elif labels and not options.yes:
            names = ", ".join(part.table.columns[at] for at in labels[:_SHOWN])
            raise SourceError(
                f"{contents.root}: the folders may be the classes, but {part.name} names the same "
                f"images and may hold the labels, in {names}",
                hint="pass --class-depth 1 to take the folders, or "
                f"--manifest {quote(part.name)} --label-col COLUMN to take the table",
                path=contents.root,
            )
    return confirming


def _target(part: LabelTable, sample: NamedTable | None, options: SourceOptions) -> Target:
    """Return the column of labels that options name, or else the likeliest."""
    table = part.table
    for option, names in (("--onehot", options.onehot), ("--label-col", (options.label_col,))):
        if not any(names):
            continue
        found = [table.find(name) for name in names]
        if None in found:
            raise SourceError(
                f"{option} {names[found.index(None)]}: {table.name} has no such column",
                hint=f"it has the columns {', '.join(table.columns)}",
            )
        is_onehot = option == "--onehot"
        columns = tuple(at for at in found if at is not None)
        return Target(columns, is_onehot, is_single=not is_onehot)
    return choose_target(table, part.id_at, sample)


def _separator(parts: Sequence[LabelTable], target: Target, options: SourceOptions) -> str:
    if options.label_sep:
        return "" if options.label_sep == NONE else options.label_sep
    first = parts[0].table
    if first.has_names:
        return ""
    (at,) = target.columns
    cells = [cell for part in parts for cell in part.table.cells[at]]
    return list_separator(first.columns[at], cells, first.name)


def _label_names(contents: Contents, reading: TableReading) -> tuple[Mapping[str, str], str]:
    """Return the names of labels, where exactly one table or map names them all."""
    labels = reading.labels()
    own = {part.name for part in reading.tables}
    known = {path: found for path, found in contents.maps.items() if labels <= found.keys()}
    for path, table in contents.tables.items():
        if path not in own and not is_submission(path):
            names = label_names_in(table)
            if names and labels <= names.keys() and any(k != v for k, v in names.items()):
                known[path] = names
    if not known:
        return {}, ""
    if len({tuple(sorted(found.items())) for found in known.values()}) > 1:
        raise SourceError(
            f"{contents.root}: {' and '.join(sorted(known))} name the labels differently",
            hint="choose one with --label-names",
            path=contents.root,
        )
    path = min(known)
    return known[path], path


def _lists_beside_folders(
    contents: Contents, reading: FolderReading, options: SourceOptions
) -> SplitLists | None:
    """Return the splits that lists give to class folders."""
    if any(reading.roots.values()) or options.kind is not SourceKind.AUTO:
        return None
    places = reading.places()
    labelled = {
        path
        for path in contents.images
        if not isinstance(places.of_folder(path.rpartition("/")[0]), str)
    }
    return read_split_lists(contents, labelled)


def _lists_beside_table(
    contents: Contents, reading: TableReading, options: SourceOptions
) -> SplitLists | None:
    """Return the splits that lists give to images of a table; raise SourceError if unclear."""
    if reading.has_splits or options.kind is not SourceKind.AUTO:
        return None
    found = [contents.index.find(text) for text in reading.tables[0].ids()]
    lists = read_split_lists(contents, {paths[0] for paths in found if len(paths) == 1})
    if lists is None:
        refuse_partial_lists(contents)
    return lists


def _unused_tables(contents: Contents, naming: Sequence[LabelTable]) -> Iterator[str]:
    """Yield a sentence for each table that names no images."""
    known = {part.name for part in naming}
    for path in sorted(contents.tables):
        if path not in known and not is_submission(path) and path != contents.test_table:
            yield f"{path} is not used: no column of it names images"


def _table_option(options: SourceOptions) -> str:
    """Return a given option that needs a table; "" if there is none."""
    given = {
        "--manifest": options.manifest,
        "--path-col": options.path_col,
        "--label-col": options.label_col,
        "--onehot": options.onehot,
        "--split-col": options.split_col,
        "--group-col": options.group_col,
        "--column": options.column,
        "--label-sep": options.label_sep,
        "--label-names": options.label_names,
        "--image-template": options.image_template,
    }
    return next((option for option, value in given.items() if value), "")


def _folders_decide(options: SourceOptions) -> bool:
    """Tell whether options say that folders or file names are the classes."""
    if options.manifest:
        return False
    is_given = options.layout is not FolderLayout.AUTO or options.class_depth is not None
    return is_given or bool(options.label_regex)


def _refuse_beginnings(contents: Contents, sample: NamedTable | None) -> None:
    """Raise SourceError if the ids of a table are only the beginnings of file names."""
    asked = squashed(sample.columns[0]) if sample else ""
    for path, table in sorted(contents.tables.items()):
        for at, name in enumerate(table.columns):
            is_id = is_path_column(name) or (asked and squashed(name) == asked)
            texts = table.texts(at)[:_LOOKED_AT]
            if is_submission(path) or not is_id or any(map(contents.index.knows, texts)):
                continue
            if templates := contents.index.templates(texts):
                shown = templates[max(len(templates) // 2 - 1, 0)]
                count = f"{len(templates)} files" if len(templates) > 1 else "a file"
                raise SourceError(
                    f"{contents.root}: ids of {path} name {count} each: "
                    f"{', '.join(templates[:_SHOWN])}",
                    hint=f"choose one with --image-template '{shown}'",
                    path=contents.root,
                )


def _no_table(contents: Contents, option: str) -> SourceError | UsageError:
    """Return the refusal of an option that needs a table, where there is none."""
    if not contents.tables:
        return UsageError(
            f"{option} needs a table of labels, and {contents.root} has none",
            hint=f"leave out {option}, or name the table with --manifest",
        )
    return SourceError(
        f"{option} needs a table of labels, and none of "
        f"{', '.join(sorted(contents.tables)[:_SHOWN])} names images in {contents.root}",
        hint="name the column of images with --path-col, or the table with --manifest",
        path=contents.root,
    )


def _no_labels(contents: Contents, reading: FolderReading) -> SourceError:
    """Return the refusal of images that neither folders nor tables give a class."""
    flat = sorted(path or "." for path in reading.flat)
    tables = sorted(path for path in contents.tables if not is_submission(path))
    named = f" and no table names them ({', '.join(tables[:_SHOWN])})" if tables else ""
    unread = [f"{path} was not read: {why}" for path, why in sorted(contents.unread.items())]
    names = [name for folder in sorted(reading.flat) for name in contents.folders[folder]]
    regex = suggested_regex(names)
    pattern = f"--label-regex '{regex}'" if regex else "--label-regex with a pattern"
    return SourceError(
        "; ".join(
            [
                f"{contents.root}: the images in {', '.join(flat)} have no class folders{named}",
                *unread[:_SHOWN],
            ]
        ),
        hint=f"pass {pattern} if names such as {names[0]} tell the class, name a table with "
        "--manifest, or put the images of each class into a folder",
        path=contents.root,
    )
