"""Which tables of a download name images: those with labels, those to predict, and the sample."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence, Set
from enum import Enum
from shlex import quote
from typing import NamedTuple

from imgrec.errors import SourceError, UsageError
from imgrec.model import TEST, TRAIN
from imgrec.options import NONE, SourceOptions
from imgrec.source.download.folders import FolderReading
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.seen import Seen, SeenTable
from imgrec.source.download.targets import Columns, Target
from imgrec.source.download.words import is_side, is_submission, split_of_file
from imgrec.source.manifests.columns import (
    is_label_column,
    is_path_column,
    is_split_column,
    squashed,
)
from imgrec.source.split_words import split_word

_LOOKED_AT = 400
_SHOWN = 5


class LabelTable(NamedTuple):
    """A table that names images."""

    table: SeenTable
    id_at: int
    split: str
    """The split that its name tells; "" for none."""

    @property
    def columns(self) -> Columns:
        """Its columns."""
        return self.table.columns

    def ids(self) -> list[str]:
        """Return the id in each row."""
        return self.columns.texts(self.id_at)


def find_sample(seen: Seen) -> SeenTable | None:
    """Return the sample submission; of several, the one with the most rows."""
    found = [table for path, table in sorted(seen.tables.items()) if is_submission(path)]
    usable = [table for table in found if len(table.columns.names) > 1 and len(table.lines)]
    return max(usable, key=lambda table: len(table.lines), default=None)


def naming_tables(
    seen: Seen, sample: SeenTable | None, index: ImageIndex, options: SourceOptions
) -> list[LabelTable]:
    """Return the tables that name images, but for sample submissions."""
    wanted = sample.columns.names[0] if sample else ""
    found = []
    for path, table in sorted(seen.tables.items()):
        is_other = seen.label_table not in ("", path) or path == seen.test_table
        if is_other or is_submission(path) or not len(table.lines):
            continue
        at = id_column(table.columns, wanted, index, options)
        if at is not None:
            table = _with_first_row(table, at, index)
        if at is not None and (options.table or not _is_aside(table.columns.texts(at), index)):
            split = split_of_file(path) or index.split_of(path)
            found.append(LabelTable(table, at, split))
    same = [t for t in found if wanted and squashed(t.columns.names[t.id_at]) == squashed(wanted)]
    return same or found


def _with_first_row(table: SeenTable, id_at: int, index: ImageIndex) -> SeenTable:
    """Return a table without a header, if its first row names an image as the others do."""
    columns = table.columns
    if not index.knows(columns.names[id_at]) or table.lines[0] == 1:
        return table
    names = tuple(f"column_{number}" for number in range(1, len(columns.names) + 1))
    cells = tuple((name, *rows) for name, rows in zip(columns.names, columns.cells, strict=True))
    whole = Columns(columns.where, names, cells)
    return table._replace(columns=whole, lines=(1, *table.lines))


def _is_aside(texts: Sequence[str], index: ImageIndex) -> bool:
    """Tell whether all images that a table names are samples, pictograms or the like."""
    folders = {path.rpartition("/")[0] for text in texts for path in index.find(text)}
    return bool(folders) and all(any(map(is_side, folder.split("/"))) for folder in folders)


def id_column(
    columns: Columns, wanted: str, index: ImageIndex, options: SourceOptions
) -> int | None:
    """Return the column that names images, or None."""
    if options.path_col:
        return columns.find(options.path_col)
    known = index.knows
    if options.image_template:
        known = lambda text: index.knows(options.image_template.replace("{id}", text))  # noqa: E731
    scores = {}
    for at in range(len(columns.names)):
        score = _share_of_images(columns.texts(at), known)
        if score >= 0.5:
            scores[at] = score
    if not scores:
        return None
    for is_named in (lambda name: squashed(name) == squashed(wanted or "\0"), is_path_column):
        named = [at for at in scores if is_named(columns.names[at])]
        if len(named) == 1:
            return named[0]
    return max(scores, key=lambda at: (scores[at], -at))


def _share_of_images(texts: Sequence[str], known: Callable[[str], bool]) -> float:
    """Return how many of a column's texts name images; 0 if they repeat as labels do."""
    step = max(1, len(texts) // _LOOKED_AT)
    looked_at = [text for text in texts[::step] if text.strip()]
    if not looked_at or len(set(looked_at)) * 3 < len(looked_at):
        return 0.0
    return sum(map(known, looked_at)) / len(looked_at)


def split_column(table: LabelTable, target: Target | None, options: SourceOptions) -> int | None:
    """Return the column that says which split each row is of, or None.

    It is named by an option, or as such columns usually are, or all its cells are splits. One that
    is called split is taken even if it holds other words: they are then asked about.
    """
    columns = table.columns
    if options.split_col == NONE:
        return None
    if options.split_col:
        at = columns.find(options.split_col)
        if at is None:
            raise UsageError(
                f"--split-col {options.split_col}: {columns.where} has no such column",
                hint=f"it has the columns {', '.join(columns.names)}",
            )
        return at
    taken = {table.id_at, *(target.columns if target else ())}
    found = []
    for at, name in enumerate(columns.names):
        meant = {split_word(cell) for cell in set(columns.texts(at))}
        are_splits = "" not in meant and (len(meant) > 1 or is_split_column(name))
        if at not in taken and (are_splits or squashed(name) == "split"):
            found.append(at)
    return found[0] if len(found) == 1 else None


def is_test_table(
    table: LabelTable, tables: Sequence[LabelTable], sample: SeenTable | None
) -> bool:
    """Tell whether a table lists the images to predict, and not labels."""
    others = [other for other in tables if other is not table]
    if len(table.columns.names) == 1:
        ids = set(map(_bare, table.ids()))
        return table.split == TEST or all(ids.isdisjoint(map(_bare, o.ids())) for o in others)
    if table.split == TRAIN or not others:
        return False
    if sample is None:
        # A test table with the labels, or all columns, of another has labels, too.
        names = set(table.columns.names)
        return table.split == TEST and all(_labels_of(other) - names for other in others)
    ids = {_bare(text) for text in sample.columns.texts(0)}
    own = [_bare(text) for text in table.ids()]
    is_asked = sum(text in ids for text in own) * 10 > len(own) * 9
    return table.split == TEST or is_asked


def _labels_of(table: LabelTable) -> set[str]:
    """Return the columns that hold labels by their names, or else all."""
    names = set(table.columns.names)
    return set(filter(is_label_column, names)) or names


def _bare(text: str) -> str:
    return text.strip().rpartition("/")[2].partition(".")[0]


class Agreement(Enum):
    """What a table says of images, beside what their folders say."""

    SAME = "the same"
    MORE = "the same, and labels of images that the folders give no class"
    OTHER = "something else"


def agreement(
    table: LabelTable,
    index: ImageIndex,
    folders: FolderReading,
    columns: Iterable[int],
    *,
    in_other_words: bool = False,
) -> Agreement:
    """Tell whether some column says of images what their folders say, in other words maybe."""
    places = folders.places()
    classes, rows = [], []
    for row, text in enumerate(table.ids()):
        found = index.find(text, table.split)
        place = places.of_folder(found[0].rpartition("/")[0]) if len(found) == 1 else ""
        if not isinstance(place, str):
            classes.append(place.class_name)
            rows.append(row)
    for at in columns:
        cells = table.columns.texts(at)
        pairs = {(cells[row].strip(), name) for row, name in zip(rows, classes, strict=True)}
        told = {(value, name) for value, name in pairs if name}
        are_same = all(squashed(value) == squashed(name) for value, name in told)
        if _is_one_to_one(told) and (are_same or in_other_words):
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


def parts_of_one(seen: Seen, tables: Sequence[LabelTable]) -> tuple[LabelTable, ...]:
    """Return the tables that together hold the labels: one, or one for each split."""
    if len(tables) == 1:
        return tuple(tables)
    splits = [table.split for table in tables]
    is_same = len({table.columns.names for table in tables}) == 1
    if is_same and all(splits) and len(set(splits)) == len(splits):
        return tuple(tables)
    names = [table.columns.where for table in tables]
    raise SourceError(
        f"{seen.root}: {' and '.join(names[:_SHOWN])} each name images, so any of them may hold "
        "the labels",
        hint=f"say which with --manifest {quote(names[0])}",
        path=seen.root,
    )
