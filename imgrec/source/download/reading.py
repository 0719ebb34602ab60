"""How a download is to be read: by its tables or by its folders."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from shlex import quote

from imgrec.errors import SourceError
from imgrec.options import NONE, SourceKind, SourceOptions
from imgrec.source.download.folders import FolderReading, read_folders
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.label_tables import (
    Agreement,
    LabelTable,
    agreement,
    find_sample,
    is_test_table,
    naming_tables,
    parts_of_one,
    split_column,
)
from imgrec.source.download.lists import SplitLists, refuse_lists, split_lists
from imgrec.source.download.refusals import (
    folders_decide,
    no_labels,
    no_table,
    table_option,
    template_refusal,
)
from imgrec.source.download.seen import Seen, SeenTable, names_in
from imgrec.source.download.targets import (
    Target,
    choose_target,
    group_columns,
    list_separator,
    may_be_labels,
)
from imgrec.source.download.unlabelled import (
    TestSet,
    find_test_set,
    folder_of,
    sample_set,
    told_test_set,
)
from imgrec.source.download.words import is_submission
from imgrec.source.places import Place

_LOOKED_AT = 400
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """Labels come from tables."""

    tables: tuple[LabelTable, ...]
    target: Target
    separator: str = ""
    """What parts several labels in a cell; "" for one label a cell."""
    names: Mapping[str, str] = field(default_factory=dict)
    """What labels are called, where a table or a JSON map tells."""
    names_from: str = ""
    groups: tuple[str, ...] = ()
    """Columns that likely say what belongs together."""
    template: str = ""
    """How ids become file names; "" if they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """What was understood: one of the two ways, and the test set."""

    by_table: TableReading | None = None
    by_folder: FolderReading | None = None
    lists: SplitLists | None = None
    """The split of each image, where text files list the images of each split."""
    test: TestSet | None = None
    sample: SeenTable | None = None
    """The sample submission."""
    notes: tuple[str, ...] = ()
    """What was left alone."""


def understand(seen: Seen, options: SourceOptions) -> Reading:
    """Decide how a download is to be read; raise SourceError where two readings are possible."""
    index = ImageIndex(seen.images, seen.file_of)
    sample = find_sample(seen)
    if not seen.images:  # there may be files that were meant as images
        return Reading(by_folder=FolderReading(roots={"": ""}))
    tables = naming_tables(seen, sample, index, options)
    folders = _Folders(seen, options, has_sample=sample is not None)
    notes = list(_unread(seen))
    if tables and not folders_decide(options):
        labels = [table for table in tables if not is_test_table(table, tables, sample)]
        tests = [table for table in tables if table not in labels]
        by_table = _by_table(seen, labels, sample, index, folders, options)
        if by_table is not None:
            test = told_test_set(seen, sample) or find_test_set(
                sample, tests, by_table.tables, index
            )
            lists = _lists_beside_table(seen, by_table, test, index, options)
            return Reading(
                by_table=by_table, lists=lists, test=test, sample=sample, notes=tuple(notes)
            )
        notes += [
            f"{table.columns.where} is not used: the folders name the classes"
            for table in labels
            if table not in folders.confirming
        ]
    if table_option(options):
        raise no_table(seen, options)
    notes += _unused_tables(seen, tables)
    if (template := template_refusal(seen, sample, index, options)) is not None:
        raise template
    reading = folders.reading()
    if reading.flat:
        raise no_labels(seen, reading)
    test = told_test_set(seen, sample)
    if test is None and sample and reading.unlabelled:
        test = sample_set(sample)
    return Reading(
        by_folder=reading,
        lists=_lists_beside_folders(seen, reading, index, options),
        test=test,
        sample=sample,
        notes=tuple(notes),
    )


@dataclass(slots=True)
class _Folders:
    """What the folders say, which is asked only if need be."""

    seen: Seen
    options: SourceOptions
    has_sample: bool
    confirming: tuple[LabelTable, ...] = ()
    """The tables that say the same."""

    def reading(self) -> FolderReading:
        """Return it; raise SourceError if it is not clear."""
        return self._read(self.options)

    def _read(self, options: SourceOptions) -> FolderReading:
        folders: dict[str, list[str]] = {}
        for path in self.seen.images:
            folder, _, name = path.rpartition("/")
            folders.setdefault(folder, []).append(name)
        return read_folders(self.seen.root, folders, options, has_sample=self.has_sample)

    def classes(self) -> FolderReading | None:
        """Return it if folders name classes; None if they do not, or if that is not clear.

        `--yes` does not make it clear: it only lets pass what would be refused.
        """
        try:
            reading = self._read(replace(self.options, yes=False))
        except SourceError:
            return None
        if reading.flat or reading.label_regex:
            return None
        names = {place.class_name for place in _places(reading, self.seen.images)} - {""}
        return reading if len(names) > 1 else None


def _by_table(
    seen: Seen,
    tables: Sequence[LabelTable],
    sample: SeenTable | None,
    index: ImageIndex,
    folders: _Folders,
    options: SourceOptions,
) -> TableReading | None:
    """Read tables of labels; return None if the folders name the classes."""
    if not tables:
        return None
    is_asked = bool(table_option(options))
    classes = None if is_asked else folders.classes()
    try:
        parts = parts_of_one(seen, tables)
        target = _target(parts[0], sample, options)
    except SourceError:
        if classes is None:
            raise
        parts, told = _same_as_folders(seen, tables, index, classes)
        if told is None:
            _refuse_unread(seen, tables, index, folders)
            return None
        target = told
    tells_splits = len(parts) > 1 or split_column(parts[0], target, options) is not None
    if classes is not None and not target.is_asked_for:
        agreeing = [
            agreement(part, index, classes, target.columns, in_other_words=True) for part in parts
        ]
        if all(agrees is Agreement.SAME for agrees in agreeing) and not tells_splits:
            folders.confirming = parts
            return None
        if options.yes:
            return None
    else:
        agreeing = []
    if Agreement.OTHER in agreeing:
        raise SourceError(
            f"{seen.root}: {parts[0].columns.where} and the folders name different classes",
            hint=f"pass --label-col {quote(parts[0].columns.names[target.columns[0]])} to take the "
            "table, or --class-depth 1 to take the folders",
            path=seen.root,
        )
    # Labels that are the names of folders are one name each, whatever blanks they have.
    is_whole = target.is_onehot or (bool(agreeing) and not options.label_sep)
    separator = "" if is_whole else _separator(parts, target, options)
    names, names_from = _names(seen, parts, target, separator, options)
    groups = () if options.group_col else group_columns(parts[0].columns, parts[0].id_at, target)
    return TableReading(
        tables=parts,
        target=target,
        separator=separator,
        names=names,
        names_from=names_from,
        groups=tuple(groups),
        template=options.image_template,
    )


def _same_as_folders(
    seen: Seen, tables: Sequence[LabelTable], index: ImageIndex, classes: FolderReading
) -> tuple[tuple[LabelTable, ...], Target | None]:
    """Return the tables and the column that says what folders say, if they tell splits as well."""
    try:
        parts = parts_of_one(seen, tables)
    except SourceError:
        return (), None
    columns = [at for at in range(len(parts[0].columns.names)) if at != parts[0].id_at]
    same = [
        at
        for at in columns
        if all(agreement(part, index, classes, [at]) is Agreement.SAME for part in parts)
    ]
    return parts, Target((same[0],)) if same else None


def _places(reading: FolderReading, paths: Iterable[str]) -> Iterator[Place]:
    places = reading.places()
    for folder in set(map(folder_of, paths)):
        if not isinstance(place := places.of_folder(folder), str):
            yield place


def _refuse_unread(
    seen: Seen, tables: Sequence[LabelTable], index: ImageIndex, folders: _Folders
) -> None:
    """Raise SourceError if class folders have tables beside them that may say otherwise.

    They may if they do not say the same in some column, and have one that may hold labels.
    """
    classes = folders.classes()
    confirming = []
    for table in tables:
        columns = [at for at in range(len(table.columns.names)) if at != table.id_at]
        labels = [at for at in columns if may_be_labels(table.columns.texts(at))]
        if classes and agreement(table, index, classes, columns) is Agreement.SAME:
            confirming.append(table)
        elif labels and not folders.options.yes:
            names = ", ".join(table.columns.names[at] for at in labels[:_SHOWN])
            raise SourceError(
                f"{seen.root}: the folders may be the classes, but {table.columns.where} names "
                f"the same images and may hold the labels, in {names}",
                hint="pass --class-depth 1 to take the folders, or "
                f"--manifest {quote(table.columns.where)} --label-col COLUMN to take the table",
                path=seen.root,
            )
    folders.confirming = tuple(confirming)


def _target(table: LabelTable, sample: SeenTable | None, options: SourceOptions) -> Target:
    columns = table.columns
    for option, names in (("--onehot", options.onehot), ("--label-col", (options.label_col,))):
        if not any(names):
            continue
        found = [columns.find(name) for name in names]
        if None in found:
            missing = names[found.index(None)]
            raise SourceError(
                f"{option} {missing}: {columns.where} has no such column",
                hint=f"it has the columns {', '.join(columns.names)}",
            )
        is_onehot = option == "--onehot"
        columns_found = tuple(at for at in found if at is not None)
        return Target(columns_found, is_onehot, not is_onehot)
    return choose_target(columns, table.id_at, sample.columns if sample else None)


def _separator(parts: Sequence[LabelTable], target: Target, options: SourceOptions) -> str:
    if options.label_sep:
        return "" if options.label_sep == NONE else options.label_sep
    if parts[0].table.has_names:
        return ""
    (at,) = target.columns
    cells = [cell for part in parts for cell in part.columns.cells[at]]
    return list_separator(parts[0].columns.names[at], cells, parts[0].columns.where)


def labels_in(parts: Sequence[LabelTable], target: Target, separator: str) -> set[str]:
    """Return the labels that tables have in their column of labels."""
    (at,) = target.columns
    cells = (text for part in parts for text in part.columns.texts(at))
    words = (word for cell in cells for word in (cell.split(separator) if separator else [cell]))
    return {word.strip() for word in words if word.strip()}


def _names(
    seen: Seen,
    parts: Sequence[LabelTable],
    target: Target,
    separator: str,
    options: SourceOptions,
) -> tuple[Mapping[str, str], str]:
    """Return what labels are called, where exactly one table or map names them all."""
    if target.is_onehot or options.label_names is not None:
        return {}, ""
    labels = labels_in(parts, target, separator)
    own = {part.columns.where for part in parts}
    known = {path: found for path, found in seen.maps.items() if labels <= found.keys()}
    for path, table in seen.tables.items():
        if path not in own and not is_submission(path):
            told = names_in(table.columns)
            if told and labels <= told.keys() and any(k != v for k, v in told.items()):
                known[path] = told
    if not known:
        return {}, ""
    if len({tuple(sorted(found.items())) for found in known.values()}) > 1:
        raise SourceError(
            f"{seen.root}: {' and '.join(sorted(known))} name the labels differently",
            hint="say which with --label-names",
            path=seen.root,
        )
    path = min(known)
    return known[path], path


def _lists_beside_folders(
    seen: Seen, reading: FolderReading, index: ImageIndex, options: SourceOptions
) -> SplitLists | None:
    """Return the splits of class folders; other lists are refused where images are listed."""
    if any(reading.roots.values()) or options.kind is not SourceKind.AUTO:
        return None
    places = reading.places()
    labelled = {
        path for path in index.paths if not isinstance(places.of_folder(folder_of(path)), str)
    }
    return split_lists(seen, index, labelled)


def _lists_beside_table(
    seen: Seen,
    reading: TableReading,
    test: TestSet | None,
    index: ImageIndex,
    options: SourceOptions,
) -> SplitLists | None:
    """Return the splits of images that a table labels; raise SourceError if they are not clear."""
    column = split_column(reading.tables[0], reading.target, options)
    has_splits = len(reading.tables) > 1 or column is not None
    if has_splits or test is not None or options.kind is not SourceKind.AUTO:
        return None
    found = [index.find(text) for text in reading.tables[0].ids()]
    lists = split_lists(seen, index, {paths[0] for paths in found if len(paths) == 1})
    if lists is None:
        refuse_lists(seen, index)
    return lists


def _unused_tables(seen: Seen, naming: Sequence[LabelTable]) -> Iterator[str]:
    """Yield a sentence for each table that names no images."""
    known = {table.columns.where for table in naming}
    for path in sorted(seen.tables):
        if path not in known and not is_submission(path) and path != seen.test_table:
            yield f"{path} is not used: no column of it names images"


def _unread(seen: Seen) -> Iterator[str]:
    for path, reason in sorted(seen.unreadable.items()):
        yield f"{path} was not read: {reason}"
