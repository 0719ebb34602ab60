"""How to read a download: by its tables or by its folders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename
from shlex import quote

from imgrec.errors import SourceError, UsageError
from imgrec.options import NONE, FolderLayout, SourceKind, SourceOptions
from imgrec.source.columns import Header, is_path_column, squashed
from imgrec.source.download_contents import Contents, label_names_in
from imgrec.source.download_tables import (
    Agreement,
    FlatLabels,
    ImageTable,
    ListedSplits,
    TestSet,
    compare_labels,
    find_test_sets,
    flat_labels,
    given_test_set,
    is_test_table,
    lists_of_images,
    parts_of_one,
    read_split_lists,
    refuse_partial_lists,
    split_column,
    tables_of_images,
)
from imgrec.source.folder_layout import FolderReading, read_folders
from imgrec.source.label_columns import (
    Target,
    choose_target,
    group_columns,
    list_separator,
    may_be_labels,
)
from imgrec.source.manifest import is_submission
from imgrec.source.tables import Table
from imgrec.source.words import suggested_regex
from imgrec.text import name_of

_SAMPLED = 400
_SHOWN = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TableReading:
    """Labels come from tables."""

    tables: tuple[ImageTable, ...]
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
    def first(self) -> Table:
        """The first table, whose columns the others have, too."""
        return self.tables[0].table

    @property
    def has_splits(self) -> bool:
        """Whether the tables give each image a split."""
        return len(self.tables) > 1 or self.split_at[0] is not None

    @property
    def target_names(self) -> tuple[str, ...]:
        """The names of the target's columns."""
        return tuple(self.first.names[at] for at in self.target.columns)

    def labels(self) -> set[str]:
        """Return the labels in the column of labels."""
        (at,) = self.target.columns
        cells = (text for part in self.tables for text in part.table.texts(at))
        separator = self.separator
        words = (w for cell in cells for w in (cell.split(separator) if separator else [cell]))
        return {word.strip() for word in words} - {""}


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """How a download is read: by table or by folder, and its test sets."""

    by_table: TableReading | None = None
    by_folder: FolderReading | None = None
    lists: ListedSplits | None = None
    """The split of each image, where text files list the images of each split."""
    flat: FlatLabels | None = None
    """Labels of images that are in no class folder."""
    tests: tuple[TestSet, ...] = ()
    """The images to predict, one set for each table or folder that lists them."""
    notes: tuple[str, ...] = ()
    """Files that are not used, and why."""


def choose_reading(contents: Contents, options: SourceOptions) -> Reading:
    """Decide how a download is read; raise SourceError where two readings are possible."""
    if not contents.images:  # there may be files that were meant as images
        return Reading(by_folder=FolderReading(roots={"": ""}))
    reader = _Reader(contents, options)
    is_named = reader.table_option() or options.label_regex or options.class_depth not in (None, 1)
    if not contents.sample and not is_named:
        reader = replace(reader, flat=flat_labels(contents))
    return reader.read()


def group_offer(column: str) -> str:
    """Return what a column of groups would be good for."""
    return f"--group-col {quote(column)} would keep images of one {column} in one split"


@dataclass(frozen=True, slots=True)
class _Reader:
    contents: Contents
    options: SourceOptions
    flat: FlatLabels | None = None

    def refusal(self, message: str, hint: str) -> SourceError:
        root = self.contents.root
        return SourceError(f"{root}: {message}", hint=hint, path=root)

    def read(self) -> Reading:
        contents, sample = self.contents, self.contents.sample
        tables = tables_of_images(contents, self.options)
        flat = self.flat or FlatLabels({}, ())
        tables = [part for part in tables if part.name not in flat.files]
        notes = [f"{path} was not read: {why}" for path, why in sorted(contents.unread.items())]
        test = given_test_set(contents)
        if tables and not self.folders_decide():
            labels = [part for part in tables if not is_test_table(part, tables, sample)]
            by_table, unused = self.read_tables(labels)
            if by_table is not None:
                others = [part for part in tables if part not in labels]
                tests = (test,) if test else find_test_sets(contents, others, by_table.tables)
                if test is None and contents.sample is None and not others:
                    self.refuse_test_classes(tests, by_table)
                lists = None if tests else self.lists_beside_table(by_table)
                return Reading(by_table=by_table, lists=lists, tests=tests, notes=tuple(notes))
            notes += [
                f"{part.name} is not used: " + unused.get(part.name, "the folders name the classes")
                for part in labels
            ]
        if option := self.table_option():
            raise self.no_table(option)
        known = {part.name for part in tables} | {*flat.files}
        notes += [
            f"{path} is not used: none of its columns names images"
            for path in sorted(contents.tables)
            if path not in known and not is_submission(path) and path != contents.test_table
        ]
        if not self.folders_decide():
            self.refuse_partial_ids()
        reading = self.read_folders()
        if not flat.folders <= reading.unlabelled:
            return replace(self, flat=None).read()
        if reading.flat:
            raise self.no_labels(reading)
        if test is None and self.flat:
            bare = [
                f"{folder}/{name}"
                for folder in sorted(reading.unlabelled - flat.folders)
                for name in contents.folders[folder]
            ]
            test = TestSet.of_paths(bare) if bare else None
        if test is None and sample and reading.unlabelled:
            test = TestSet.of_sample(sample)
        return Reading(
            by_folder=reading,
            lists=self.lists_beside_folders(reading),
            flat=self.flat,
            tests=(test,) if test else (),
            notes=tuple(notes),
        )

    def read_folders(self, *, asking: bool = False) -> FolderReading:
        """Read the folders; if `asking`, as without --yes, which lets pass what is unclear."""
        options = replace(self.options, yes=False) if asking else self.options
        contents = self.contents
        has_sample = contents.sample is not None
        return read_folders(
            contents.root,
            contents.folders,
            options,
            has_sample=has_sample,
            labelled=self.flat.folders if self.flat else frozenset(),
        )

    # Tables of labels

    def read_tables(
        self, tables: Sequence[ImageTable]
    ) -> tuple[TableReading | None, Mapping[str, str]]:
        """Read tables of labels; return None if folders name classes, and which tables agree.

        A table that agrees with the folders is still read if it has splits, or labels of more
        images.
        """
        if not tables:
            return None, {}
        options, contents = self.options, self.contents
        classes = None if self.table_option() else self.class_folders()
        try:
            parts = parts_of_one(contents, tables)
            target = self.target(parts[0])
        except SourceError:
            if classes is None:
                raise
            same = self.same_as_folders(tables, classes)
            if same is None:
                return None, self.about_agreeing(self.confirming(tables, classes), classes)
            parts, target = same
        reading = TableReading(
            tables=parts,
            target=target,
            split_at=tuple(split_column(part, target, options) for part in parts),
            template=options.image_template,
        )
        agreements: list[Agreement] = []
        if classes is not None and not target.is_asked_for:
            agreements = [
                compare_labels(part, contents.index, classes, target.columns, in_other_words=True)
                for part in parts
            ]
            if all(found is Agreement.SAME for found in agreements) and not reading.has_splits:
                return None, self.about_agreeing(parts, classes)
        if Agreement.OTHER in agreements:
            if options.yes:
                return None, {}
            raise self.refusal(
                f"{parts[0].name} and the folders name different classes",
                f"pass --label-col {quote(reading.target_names[0])} to take the table, or "
                "--class-depth 1 to take the folders",
            )
        # Labels that are the names of folders are one name each, even with spaces in them.
        if not target.is_onehot and (not agreements or options.label_sep):
            reading = replace(reading, separator=self.separator(reading))
        if not target.is_onehot and options.label_names is None:
            names, names_from = self.label_names(reading)
            reading = replace(reading, names=names, names_from=names_from)
        if not options.group_col:
            groups = group_columns(reading.first, parts[0].id_at, target)
            reading = replace(reading, groups=tuple(groups))
        return reading, {}

    def about_agreeing(
        self, tables: Iterable[ImageTable], classes: FolderReading
    ) -> dict[str, str]:
        """Return why tables with the labels of the folders are not used, and their other use."""
        return {
            part.name: "; ".join(
                [
                    "its labels are those of the folders",
                    *map(group_offer, self.groups_beside(part, classes)),
                ]
            )
            for part in tables
        }

    def groups_beside(self, part: ImageTable, classes: FolderReading) -> list[str]:
        """Return the columns that likely group images, beside one that agrees with the folders."""
        for at in part.others():
            agreement = compare_labels(
                part, self.contents.index, classes, [at], in_other_words=True
            )
            if agreement is Agreement.SAME:
                return group_columns(part.table, part.id_at, Target((at,)))
        return []

    def class_folders(self) -> FolderReading | None:
        """Return the reading of the folders if they clearly name several classes."""
        try:
            reading = self.read_folders(asking=True)
        except SourceError:
            return None
        if reading.flat or reading.label_regex:
            return None
        places = map(reading.places().of_folder, self.contents.folders)
        names = {place.class_name for place in places if not isinstance(place, str)} - {""}
        return reading if len(names) > 1 else None

    def target(self, part: ImageTable) -> Target:
        """Return the column of labels that options name, or else the likeliest."""
        table, options = part.table, self.options
        header = Header(where=table.name, names=table.names)
        if options.onehot:
            columns = tuple(header.only(name, "--onehot") for name in options.onehot)
            return Target(columns, is_onehot=True, is_single=False)
        if options.label_col:
            return Target((header.only(options.label_col, "--label-col"),))
        return choose_target(table, part.id_at, self.contents.sample)

    def same_as_folders(
        self, tables: Sequence[ImageTable], classes: FolderReading
    ) -> tuple[tuple[ImageTable, ...], Target] | None:
        """Return the parts of one table, and their column that agrees with the folders."""
        try:
            parts = parts_of_one(self.contents, tables)
        except SourceError:
            return None
        index = self.contents.index
        for at in parts[0].others():
            agreements = (compare_labels(part, index, classes, [at]) for part in parts)
            if all(found is Agreement.SAME for found in agreements):
                return parts, Target((at,))
        return None

    def confirming(self, tables: Sequence[ImageTable], classes: FolderReading) -> list[ImageTable]:
        """Return the tables with a column that agrees with the class folders.

        Raises SourceError if another table has a column that may hold labels.
        """
        confirming = []
        for part in tables:
            agreement = compare_labels(part, self.contents.index, classes, part.others())
            labels = [at for at in part.others() if may_be_labels(part.table.texts(at))]
            if agreement is Agreement.SAME:
                confirming.append(part)
            elif labels and not self.options.yes:
                names = ", ".join(part.table.names[at] for at in labels[:_SHOWN])
                raise self.refusal(
                    f"the folders may be the classes, but {part.name} names the same images and "
                    f"may hold the labels, in {names}",
                    "pass --class-depth 1 to take the folders, or "
                    f"--manifest {quote(part.name)} --label-col COLUMN to take the table",
                )
        return confirming

    def separator(self, reading: TableReading) -> str:
        if self.options.label_sep:
            return "" if self.options.label_sep == NONE else self.options.label_sep
        if reading.first.has_single_labels:
            return ""
        (at,) = reading.target.columns
        cells = [cell for part in reading.tables for cell in part.table.columns[at]]
        return list_separator(reading.first.names[at], cells, reading.first.name)

    def label_names(self, reading: TableReading) -> tuple[Mapping[str, str], str]:
        """Return the names of labels, where exactly one table or map names them all."""
        contents, labels = self.contents, reading.labels()
        own = {part.name for part in reading.tables}
        known = {path: found for path, found in contents.maps.items() if labels <= found.keys()}
        for path, table in contents.tables.items():
            names = label_names_in(table) if path not in own and not is_submission(path) else {}
            if any(map(contents.index.knows, " ".join(names.values()).split())):
                continue  # a list of the images of each label
            if names and labels <= names.keys() and any(k != v for k, v in names.items()):
                known[path] = names
        if not known:
            return {}, ""
        if len({tuple(sorted(found.items())) for found in known.values()}) > 1:
            raise self.refusal(
                f"{' and '.join(sorted(known))} name the labels differently",
                "choose one with --label-names",
            )
        return known[min(known)], min(known)

    # Lists of the images of each split

    def lists_beside_folders(self, reading: FolderReading) -> ListedSplits | None:
        if any(reading.roots.values()) or self.options.kind is not SourceKind.AUTO:
            return None
        places = reading.places()
        labelled = {
            path
            for path in self.contents.images
            if not isinstance(places.of_folder(path.rpartition("/")[0]), str)
        }
        return read_split_lists(self.contents, labelled)

    def lists_beside_table(self, reading: TableReading) -> ListedSplits | None:
        if reading.has_splits or self.options.kind is not SourceKind.AUTO:
            return None
        found = [self.contents.index.find(text) for text in reading.tables[0].ids()]
        lists = read_split_lists(self.contents, {paths[0] for paths in found if len(paths) == 1})
        if lists is None:
            refuse_partial_lists(self.contents)
        return lists

    # Options and refusals

    def table_option(self) -> str:
        """Return a given option that needs a table; "" if there is none."""
        options = (
            "manifest path_col label_col onehot split_col group_col column label_sep label_names "
            "image_template"
        )
        given = (name for name in options.split() if getattr(self.options, name))
        return next((f"--{name.replace('_', '-')}" for name in given), "")

    def folders_decide(self) -> bool:
        """Return whether options say that folders or file names are the classes."""
        options = self.options
        is_given = options.layout is not FolderLayout.AUTO or options.class_depth is not None
        return not options.manifest and (is_given or bool(options.label_regex))

    def refuse_test_classes(self, tests: Iterable[TestSet], by_table: TableReading) -> None:
        """Refuse images without a row in a test folder, if their folders are called as labels."""
        target = by_table.target
        labels = by_table.target_names if target.is_onehot else by_table.labels()
        known = set(map(squashed, labels))
        for path in (path for test in tests for path in test.paths):
            folder = path.rpartition("/")[0]
            if squashed(folder.rpartition("/")[2]) in known:
                raise self.refusal(
                    f"no row of {by_table.tables[0].name} names the images in {folder}, but the "
                    "folder has the name of a class",
                    f"leave them out, as with --exclude '{folder.split('/')[0]}/*', or pass "
                    "--class-depth 1 to take the classes from folders",
                )

    def refuse_partial_ids(self) -> None:
        """Refuse a table whose ids are only the beginnings of file names."""
        contents, sample = self.contents, self.contents.sample
        asked = squashed(sample.names[0]) if sample else ""
        for path, table in sorted(contents.tables.items()):
            for at, name in enumerate(table.names):
                is_id = is_path_column(name) or (asked and squashed(name) == asked)
                texts = table.texts(at)[:_SAMPLED]
                if is_submission(path) or not is_id or any(map(contents.index.knows, texts)):
                    continue
                if templates := contents.index.templates(texts):
                    shown = templates[max(len(templates) // 2 - 1, 0)]
                    count = f"{len(templates)} files" if len(templates) > 1 else "a file"
                    raise self.refusal(
                        f"ids of {path} name {count} each: {', '.join(templates[:_SHOWN])}",
                        f"choose one with --image-template '{shown}'",
                    )

    def no_table(self, option: str) -> SourceError | UsageError:
        """Return the error for an option that needs a table, where none names images."""
        root, tables = self.contents.root, sorted(self.contents.tables)
        if not tables:
            return UsageError(
                f"{option} needs a table of labels, and {root} has none",
                hint=f"leave out {option}, or name the table with --manifest",
            )
        return SourceError(
            f"{option} needs a table of labels, and none of {', '.join(tables[:_SHOWN])} names "
            f"images in {root}",
            hint="name the column of images with --path-col, or the table with --manifest",
            path=root,
        )

    def no_labels(self, reading: FolderReading) -> SourceError:
        """Return the error for images that get a class neither from folders nor from tables."""
        contents = self.contents
        tables = [path for path in sorted(contents.tables) if not is_submission(path)]
        named = f" and no table names them ({', '.join(tables[:_SHOWN])})" if tables else ""
        unread = [f"; {path} was not read: {why}" for path, why in sorted(contents.unread.items())]
        names = [name for folder in sorted(reading.flat) for name in contents.folders[folder]]
        regex = suggested_regex(names)
        pattern = f"--label-regex '{regex}'" if regex else "--label-regex with a pattern"
        flat = ", ".join(sorted(path or "." for path in reading.flat))
        others = ""
        if contents.foreign:
            others = (
                f"; imgrec does not read {contents.foreign}: if it has labels, write them to a CSV"
            )
        if contents.pixels:
            table = name_of(basename(contents.pixels[0]))
            others += f"; to pack the pixels in {table}, name that table alone"
        lists = lists_of_images(contents)
        as_in = f", as in --manifest {quote(lists[0])}" if lists else ""
        return self.refusal(
            f"the images in {flat} have no class folders{named}{''.join(unread[:_SHOWN])}",
            f"pass {pattern} if names such as {names[0]} hold the class, name a table with "
            f"--manifest{as_in}, or put the images of each class into a folder{others}",
        )
