"""Which tables and lists of a download name images: for labels, for splits, or to predict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from enum import Enum
from shlex import quote
from typing import NamedTuple

from imgrec.errors import SourceError, UsageError
from imgrec.model import TEST, TRAIN
from imgrec.options import NONE, SourceOptions
from imgrec.source.download.contents import Contents
from imgrec.source.download.folders import FolderReading
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.names import is_side
from imgrec.source.download.tables import NamedTable, numbered_columns
from imgrec.source.download.targets import Target
from imgrec.source.manifests.columns import (
    is_label_column,
    is_path_column,
    is_split_column,
    squashed,
)
from imgrec.source.manifests.files import is_submission
from imgrec.source.split_words import split_of_name, split_word

_LOOKED_AT = 400
_SHOWN = 5


class LabelTable(NamedTuple):
    """A table that names images."""

    table: NamedTable
    id_at: int
    """The column that names them."""
    split: str
    """The split that the name of its file means; "" for none."""

    @property
    def name(self) -> str:
        """The path of the table."""
        return self.table.name

    def ids(self) -> list[str]:
        """Return the id in each row."""
        return self.table.texts(self.id_at)

    def others(self) -> list[int]:
        """Return the columns that do not name images."""
        return [at for at in range(len(self.table.columns)) if at != self.id_at]


def find_sample(contents: Contents) -> NamedTable | None:
    """Return the sample submission; of several, the one with the most rows."""
    found = [table for path, table in sorted(contents.tables.items()) if is_submission(path)]
    usable = [table for table in found if len(table.columns) > 1 and len(table.lines)]
    return max(usable, key=lambda table: len(table.lines), default=None)


def naming_tables(
    contents: Contents, sample: NamedTable | None, options: SourceOptions
) -> list[LabelTable]:
    """Return the tables that name images, but for sample submissions."""
    wanted = sample.columns[0] if sample else ""
    index = contents.index
    found = []
    for path, table in sorted(contents.tables.items()):
        is_other = contents.label_table not in ("", path) or path == contents.test_table
        if is_other or is_submission(path) or not len(table.lines):
            continue
        at = id_column(table, wanted, index, options)
        if at is None:
            continue
        table = _with_first_row(table, at, index)
        if options.manifest or not _is_aside(table.texts(at), index):
            found.append(
                LabelTable(
                    table, at, split_of_name(path, takes_trainval=True) or index.split_of(path)
                )
            )
    same = [t for t in found if wanted and squashed(t.table.columns[t.id_at]) == squashed(wanted)]
    return same or found


def _with_first_row(table: NamedTable, id_at: int, index: ImageIndex) -> NamedTable:
    """Return a table without a header, if its first row names an image as the others do."""
    if not index.knows(table.columns[id_at]) or table.lines[0] == 1:
        return table
    cells = tuple((name, *rows) for name, rows in zip(table.columns, table.cells, strict=True))
    names = numbered_columns(len(table.columns))
    return table._replace(columns=names, cells=cells, lines=(1, *table.lines))


def _is_aside(texts: Sequence[str], index: ImageIndex) -> bool:
    """Tell whether all images that a table names are samples, pictograms or the like."""
    folders = {path.rpartition("/")[0] for text in texts for path in index.find(text)}
    return bool(folders) and all(any(map(is_side, folder.split("/"))) for folder in folders)


def id_column(
    table: NamedTable, wanted: str, index: ImageIndex, options: SourceOptions
) -> int | None:
    """Return the column that names images, or None."""
    if options.path_col:
        return table.find(options.path_col)
    known = index.knows
    if options.image_template:
        known = lambda text: index.knows(options.image_template.replace("{id}", text))  # noqa: E731
    shares = {at: _share_of_images(table.texts(at), known) for at in range(len(table.columns))}
    scores = {at: share for at, share in shares.items() if share >= 0.5}
    if not scores:
        return None
    for is_named in (lambda name: squashed(name) == squashed(wanted or "\0"), is_path_column):
        named = [at for at in scores if is_named(table.columns[at])]
        if len(named) == 1:
            return named[0]
    return max(scores, key=lambda at: (scores[at], -at))


def _share_of_images(texts: Sequence[str], known: Callable[[str], bool]) -> float:
    """Return the share of a column's texts that name images; 0 if they repeat as labels do."""
    step = max(1, len(texts) // _LOOKED_AT)
    looked_at = [text for text in texts[::step] if text.strip()]
    if not looked_at or len(set(looked_at)) * 3 < len(looked_at):
        return 0.0
    return sum(map(known, looked_at)) / len(looked_at)


def split_column(part: LabelTable, target: Target, options: SourceOptions) -> int | None:
    """Return the column that holds the split of each row, or None.

    An option names it, or it has a usual name, or all its cells are splits. A column called split
    is taken even if it holds other words: users are then asked about these.
    """
    table = part.table
    if options.split_col == NONE:
        return None
    if options.split_col:
        at = table.find(options.split_col)
        if at is None:
            raise UsageError(
                f"--split-col {options.split_col}: {table.name} has no such column",
                hint=f"it has the columns {', '.join(table.columns)}",
            )
        return at
    found = []
    for at, name in enumerate(table.columns):
        if at == part.id_at or at in target.columns:
            continue
        meant = {split_word(cell) for cell in set(table.texts(at))}
        are_splits = "" not in meant and (len(meant) > 1 or is_split_column(name))
        if are_splits or squashed(name) == "split":
            found.append(at)
    return found[0] if len(found) == 1 else None


def is_test_table(part: LabelTable, parts: Sequence[LabelTable], sample: NamedTable | None) -> bool:
    """Tell whether a table lists the images to predict, and not labels."""
    others = [other for other in parts if other is not part]
    if len(part.table.columns) == 1:
        ids = set(map(_bare, part.ids()))
        return part.split == TEST or all(ids.isdisjoint(map(_bare, o.ids())) for o in others)
    if part.split == TRAIN or not others:
        return False
    if sample is None:
        # A test table with the labels, or all columns, of another has labels, too.
        names = set(part.table.columns)
        return part.split == TEST and all(_labels_of(other) - names for other in others)
    asked = set(map(_bare, sample.texts(0)))
    own = list(map(_bare, part.ids()))
    return part.split == TEST or sum(text in asked for text in own) * 10 > len(own) * 9


def _labels_of(part: LabelTable) -> set[str]:
    """Return the columns that hold labels by their names, or else all."""
    names = set(part.table.columns)
    return set(filter(is_label_column, names)) or names


def _bare(text: str) -> str:
    return text.strip().rpartition("/")[2].partition(".")[0]


def parts_of_one(contents: Contents, tables: Sequence[LabelTable]) -> tuple[LabelTable, ...]:
    """Return the tables that together hold the labels: one, or one for each split."""
    if len(tables) == 1:
        return tuple(tables)
    splits = [part.split for part in tables]
    is_same = len({part.table.columns for part in tables}) == 1
    if is_same and all(splits) and len(set(splits)) == len(splits):
        return tuple(tables)
    names = [part.name for part in tables]
    raise SourceError(
        f"{contents.root}: {' and '.join(names[:_SHOWN])} each name images, so any of them may "
        "hold the labels",
        hint=f"choose one with --manifest {quote(names[0])}",
        path=contents.root,
    )


class Agreement(Enum):
    """How the labels of a table compare with the classes of folders."""

    SAME = "the same"
    MORE = "the same, and labels of images that the folders give no class"
    OTHER = "something else"


def agreement(
    part: LabelTable,
    index: ImageIndex,
    folders: FolderReading,
    columns: Iterable[int],
    *,
    in_other_words: bool = False,
) -> Agreement:
    """Compare the first column that agrees with the folders; their words may be allowed to differ.

    If they may, a one-to-one relation is enough, as between numbers and names.
    """
    places = folders.places()
    classes = {}
    for row, text in enumerate(part.ids()):
        found = index.find(text, part.split)
        place = places.of_folder(found[0].rpartition("/")[0]) if len(found) == 1 else ""
        if not isinstance(place, str):
            classes[row] = place.class_name
    for at in columns:
        cells = part.table.texts(at)
        pairs = {(cells[row].strip(), name) for row, name in classes.items()}
        known = {(value, name) for value, name in pairs if name}
        are_same = all(squashed(value) == squashed(name) for value, name in known)
        if _is_one_to_one(known) and (are_same or in_other_words):
            has_more = any(value for value, name in pairs if not name)
            return Agreement.MORE if has_more else Agreement.SAME
    return Agreement.OTHER


def _is_one_to_one(pairs: Set[tuple[str, str]]) -> bool:
    """Tell whether each value stands for one class, and each class for one value.

    >>> _is_one_to_one({("0", "cat"), ("1", "dog")}), _is_one_to_one({("", "cat")})
    (True, False)
    """
    values, classes = {value for value, _ in pairs}, {name for _, name in pairs}
    return len(pairs) == len(values) == len(classes) and all(values)


class TestSet(NamedTuple):
    """The images to predict, by id."""

    where: str
    ids: Sequence[str]
    lines: Sequence[int]
    paths: Sequence[str] = ()
    """The image of each id, where that is known; else ids are looked up."""

    @classmethod
    def of_paths(cls, paths: Sequence[str]) -> TestSet:
        """Return a test set of images whose names are their ids."""
        where = f"{paths[0].rpartition('/')[0]}/"
        return cls(where, list(map(_stem, paths)), range(1, len(paths) + 1), paths)

    @classmethod
    def of_sample(cls, sample: NamedTable) -> TestSet:
        """Return the images that a sample submission lists."""
        return cls(sample.name, sample.texts(0), sample.lines)


def named_test_set(contents: Contents, sample: NamedTable | None) -> TestSet | None:
    """Return the test set that `--test-images` names."""
    if contents.test_table:
        table = contents.tables[contents.test_table]
        at = id_column(table, "", contents.test_index, SourceOptions())
        return TestSet(table.name, table.texts(at or 0), table.lines)
    if not contents.test_images:
        return None
    if sample is not None:
        known = sum(map(contents.test_index.knows, sample.texts(0)))
        if known * 2 > len(sample.lines):
            return TestSet.of_sample(sample)
    return TestSet.of_paths(contents.test_images)


def find_test_sets(
    sample: NamedTable | None,
    tests: Sequence[LabelTable],
    labels: Sequence[LabelTable],
    index: ImageIndex,
) -> tuple[TestSet, ...]:
    """Return the images to predict: of the sample, of test tables, or of a test folder."""
    if sample is not None:
        return (TestSet.of_sample(sample),)
    if tests:
        return _without_repeated(tests)
    if any(table.split == TEST for table in labels):
        return ()
    # An id that names a train image and a test image means the former, but one that names a test
    # image alone labels it.
    named = {
        path
        for table in labels
        for text in table.ids()
        for path in index.find(text, TRAIN) or index.find(text)
    }
    bare = [path for path in index.paths if index.split_of(path) == TEST and path not in named]
    return (TestSet.of_paths(bare),) if bare else ()


def _without_repeated(tests: Sequence[LabelTable]) -> tuple[TestSet, ...]:
    """Return a test set for each table, the longest first, with each id only once."""
    sets, seen = [], set[str]()
    for test in sorted(tests, key=lambda test: -len(test.table.lines)):
        rows = zip(test.ids(), test.table.lines, strict=True)
        new = [(text, line) for text, line in rows if text.strip() not in seen]
        seen.update(text.strip() for text, _ in new)
        if new:
            sets.append(TestSet(test.name, *zip(*new, strict=True)))
    return tuple(sets)


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name


class SplitLists(NamedTuple):
    """The split of each image by path, from text files such as `meta/train.txt`."""

    splits: Mapping[str, str]
    where: str


class _List(NamedTuple):
    path: str
    split: str
    found: Sequence[Sequence[str]]
    """The images that each line may mean."""


def read_split_lists(contents: Contents, labelled: Set[str]) -> SplitLists | None:
    """Return the splits that lists give to images.

    None unless there is one list for each split and every labelled image is in exactly one.
    """
    splits: dict[str, str] = {}
    used: dict[str, str] = {}
    for path, split, found in _lists(contents):
        if any(len(paths) != 1 for paths in found):
            continue
        if split in used.values() or any(one in splits for (one,) in found):
            return None
        used[path] = split
        splits |= dict.fromkeys((one for (one,) in found), split)
    is_whole = len(used) > 1 and labelled <= splits.keys()
    return SplitLists(splits, ", ".join(used)) if is_whole else None


def refuse_partial_lists(contents: Contents) -> None:
    """Raise SourceError if lists name images for val or test, but not all images."""
    partial = [
        path
        for path, split, found in _lists(contents)
        if split != TRAIN and sum(map(bool, found)) * 2 > len(found)
    ]
    if partial:
        raise SourceError(
            f"{contents.root}: {', '.join(partial[:_SHOWN])} list images by split, but not all of "
            "them exactly once",
            hint="write the split of each image into a column of the table and name it with "
            "--split-col, or pass --kind folder or --kind archive to ignore the lists",
            path=contents.root,
        )


def _lists(contents: Contents) -> Iterator[_List]:
    for path, rows in sorted(contents.lists.items()):
        split = split_of_name(path, takes_trainval=True)
        found = [contents.index.find(row[0]) for row in rows if row] if split else []
        if any(found):
            yield _List(path, split, found)
