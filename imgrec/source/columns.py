"""Which column of a table holds the images, the labels, the splits and the groups."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.errors import SourceError, UsageError
from imgrec.options import NONE, SourceOptions
from imgrec.source.cells import are_flags, separator_in
from imgrec.source.image_names import Finder
from imgrec.source.tables import Cell, cell_text
from imgrec.source.words import split_word
from imgrec.text import closest, listed

_PATHS = frozenset(
    {
        "id", "idcode", "image", "imageid", "imagename", "imagefile", "imagefilename", "imagepath",
        "img", "imgid", "imgname", "imgfile", "imgpath", "file", "filename", "filepath", "path",
        "photo", "photoid", "picture",
    }
)  # fmt: skip
_LABELS = frozenset(
    {
        "label", "labels", "labelname", "labelid", "class", "classes", "classname", "classid",
        "category", "categoryname", "categoryid", "target", "targets", "breed", "diagnosis", "dx",
        "species", "emotion", "level", "tag", "tags", "variety",
    }
)  # fmt: skip
_SPLITS = frozenset({"split", "usage", "subset", "partition", "set"})
_RESERVED = frozenset({"filename", "image", "label", "labels", "shape"})
"""Features that every record has."""
_SHOWN = 20
_SAMPLED = 100
"""How many cells decide whether a column names images."""


def squashed(name: str) -> str:
    """Return a column's name without case, spaces and punctuation.

    >>> squashed(" Image_Id"), squashed("file-name")
    ('imageid', 'filename')
    """
    return "".join(char for char in name.casefold() if char not in " \t_-.")


def is_path_column(name: str) -> bool:
    """Return whether columns of this name usually hold paths or ids of images."""
    return squashed(name) in _PATHS


def is_label_column(name: str) -> bool:
    """Return whether columns of this name usually hold labels."""
    return squashed(name) in _LABELS


def is_split_column(name: str) -> bool:
    """Return whether columns of this name usually hold splits."""
    return squashed(name) in _SPLITS


def columns_called(names: Sequence[str], wanted: str) -> list[int]:
    """Return the columns of a name: spelled exactly so, in any case, or else squashed.

    >>> columns_called(["id", "Class"], "class"), columns_called(["class name"], "class_name")
    ([1], [0])
    """
    for spelled in (str.strip, lambda name: name.strip().casefold(), squashed):
        if found := [at for at, name in enumerate(names) if spelled(name) == spelled(wanted)]:
            return found
    return []


def find_column(names: Sequence[str], wanted: str) -> int | None:
    """Return the only column of a name; None if there is none, or several."""
    found = columns_called(names, wanted)
    return found[0] if len(found) == 1 else None


@dataclass(frozen=True, kw_only=True)
class Header:
    """The names of a table's columns."""

    where: str
    """The table, for messages."""
    names: tuple[str, ...]
    is_named: bool = True
    """False if columns have no names, and are numbered from 1."""

    def find(self, wanted: str, option: str) -> int:
        """Return the column that an option names; raise UsageError if there is none."""
        same = columns_called(self.names, wanted)
        if len(same) == 1:
            return same[0]
        if not same and wanted.isdecimal() and 1 <= int(wanted) <= len(self.names):
            return int(wanted) - 1
        if same:
            raise SourceError(
                f"{self.where} has {len(same)} columns called {wanted}", hint="rename one of them"
            )
        raise self._missing(wanted, option)

    def only(self, wanted: str, option: str) -> int:
        """Return the only column of a name; raise UsageError if there is none, or several."""
        if (at := find_column(self.names, wanted)) is None:
            raise self._missing(wanted, option)
        return at

    def _missing(self, wanted: str, option: str) -> UsageError:
        """Return the error for an option that names no column; suggest the closest name."""
        meant = closest(self.names, wanted) if self.is_named else ""
        hint = f"did you mean {meant}? It" if meant else "it"
        return UsageError(
            f"{option} {wanted}: {self.where} has no such column", hint=f"{hint} has {self.shown()}"
        )

    def feature_name(self, at: int, wanted: str) -> str:
        """Return the name in records of a column that an option calls `wanted`.

        A number is not a name: the column keeps its own, or becomes `column_3`.
        """
        if not self.is_named:
            return f"column_{at + 1}"
        own = self.names[at].strip()
        return wanted if own.casefold() == wanted.strip().casefold() else own

    def shown(self) -> str:
        """Return the first columns, for messages."""
        if not self.is_named:
            return f"{len(self.names)} columns and no header: give a number from 1"
        return f"the columns {listed(self.names, _SHOWN)}"

    def usual(self, words: frozenset[str], taken: set[int]) -> list[int]:
        """Return the columns with one of the usual names that are not taken."""
        if not self.is_named:
            return []
        names = enumerate(self.names)
        return [at for at, name in names if at not in taken and squashed(name) in words]


@dataclass(frozen=True, kw_only=True)
class Rows(Header):
    """The rows of one table or of several parts, by column."""

    kind: str
    columns: tuple[Sequence[Cell], ...]
    parts: tuple[str, ...]
    """The file of each part."""
    starts: tuple[int, ...]
    """The first row of each part."""
    lines: Sequence[int]
    unusable: Mapping[str, str] = field(default_factory=dict)
    """As in `Table`."""

    def __len__(self) -> int:
        return len(self.lines)

    def place(self, row: int) -> str:
        """Return the file and line of a row."""
        return f"{self.parts[bisect_right(self.starts, row) - 1]}:{self.lines[row]}"

    def files(self) -> list[str]:
        """Return the file of each row."""
        spans = zip(self.parts, self.starts, (*self.starts[1:], len(self)), strict=True)
        return [part for part, start, end in spans for _ in range(start, end)]

    def cells(self, at: int) -> Sequence[Cell]:
        """Return the cells of a column; raise SourceError unless they are text or numbers."""
        if kind := self.unusable.get(self.names[at]):
            raise SourceError(
                f"{self.where}: the column {self.names[at]} holds {kind}, neither text nor numbers",
                hint="give a column of text or numbers",
            )
        return self.columns[at]

    def texts(self, at: int) -> list[str]:
        """Return the cells of a column as texts."""
        return list(map(cell_text, self.cells(at)))


class Roles(NamedTuple):
    """The columns that are used, by number."""

    path: int
    label: int | None = None
    """None if one-hot columns hold the labels, or the folder of each image is its label."""
    split: int | None = None
    group: int | None = None
    onehot: tuple[int, ...] = ()
    extras: tuple[tuple[int, str], ...] = ()
    """Columns that become features of the records, with the names of these."""


def has_header(
    first: Sequence[str], where: str, options: SourceOptions, is_image: Callable[[str], bool]
) -> bool:
    """Return whether the first row of a table names its columns; raise SourceError if unclear."""
    given = [wanted for _, wanted in _given(options)]
    if any(not wanted.isdecimal() for wanted in given):
        return True
    at = int(options.path_col) - 1 if options.path_col else 0
    path = first[at] if 0 <= at < len(first) else ""
    usual = _PATHS | _LABELS | _SPLITS
    if extension(path) in IMAGE_EXTENSIONS or (squashed(path) not in usual and is_image(path)):
        return False
    if any(squashed(cell) in usual for cell in first):
        return True
    if given or path.strip().isdecimal():
        return False
    raise SourceError(
        f"{where} begins with {', '.join(first[:_SHOWN])}: neither usual column names nor an image",
        hint="name the columns with --path-col and --label-col, by numbers if they have no names",
    )


def _given(options: SourceOptions) -> Iterator[tuple[str, str]]:
    """Yield every column that the options name, with the option."""
    columns = {
        "--path-col": options.path_col,
        "--label-col": options.label_col,
        "--split-col": "" if options.split_col == NONE else options.split_col,
        "--group-col": options.group_col,
    }
    yield from ((option, wanted) for option, wanted in columns.items() if wanted)
    yield from (("--onehot", wanted) for wanted in options.onehot)
    yield from (("--column", column.name) for column in options.column)


def choose_roles(rows: Rows, options: SourceOptions, finder: Finder) -> Roles:
    """Choose columns by the options, or else by their usual names.

    A column that becomes a feature may hold the images, labels or splits as well. Raises UsageError
    if a column does not exist, and SourceError if several may be meant.
    """
    refuse_bad_columns(options)
    taken = {
        rows.find(wanted, option) for option, wanted in _given(options) if option != "--column"
    }
    extras = _feature_columns(rows, options)
    features = [at for at, _ in extras]
    path = _path_column(rows, options, taken, features, finder)
    taken.add(path)
    label = None if options.onehot else _label_column(rows, options, path, taken, features)
    if label is not None:
        taken.add(label)
    taken.update(at for at in features if not all(map(split_word, set(rows.texts(at)))))
    return Roles(
        path=path,
        label=label,
        split=_split_column(rows, options, taken),
        group=rows.find(options.group_col, "--group-col") if options.group_col else None,
        onehot=tuple(rows.find(name, "--onehot") for name in options.onehot),
        extras=extras,
    )


def _feature_columns(rows: Rows, options: SourceOptions) -> tuple[tuple[int, str], ...]:
    """Return the columns that --column names, and their names in records."""
    found = [(rows.find(column.name, "--column"), column.name) for column in options.column]
    named = tuple((at, rows.feature_name(at, wanted)) for at, wanted in found)
    _refuse_bad_features([name for _, name in named])
    return named


def refuse_bad_columns(options: SourceOptions) -> None:
    """Raise UsageError if options name columns that no record can have, or one twice."""
    _refuse_bad_features([column.name for column in options.column])
    _refuse_repeated("--onehot", options.onehot)
    if options.onehot and (options.label_col or options.label_names):
        other = "--label-col" if options.label_col else "--label-names"
        raise UsageError(
            f"--onehot and {other} do not go together",
            hint="the names of the one-hot columns are the labels",
        )


def _refuse_bad_features(names: Sequence[str]) -> None:
    hint = "rename the column in the manifest"
    for name in sorted(_RESERVED.intersection(names)):
        raise UsageError(f"--column {name}: every record already has the feature {name}", hint=hint)
    for name in names:
        if "/" in name:
            raise UsageError(
                f"--column {name}: TFDS takes a name with / for a nested feature", hint=hint
            )
    _refuse_repeated("--column", names)


def _refuse_repeated(option: str, names: Sequence[str]) -> None:
    for name in sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{option} {name} is given twice", hint="give it once")


def _path_column(
    rows: Rows, options: SourceOptions, taken: set[int], features: Sequence[int], finder: Finder
) -> int:
    if options.path_col:
        return rows.find(options.path_col, "--path-col")
    if not rows.is_named:
        return 0
    usual = rows.usual(_PATHS, taken)
    if len(usual) > 1:
        usual = [at for at in usual if _names_images(rows, at, finder)] or usual
    return _only(rows, _rather_not(usual, features), "images", "--path-col")


def _names_images(rows: Rows, at: int, finder: Finder) -> bool:
    if rows.names[at] in rows.unusable:
        return False
    return any(isinstance(image, int) for image in finder.find_all(rows.texts(at)[:_SAMPLED]))


def _rather_not(columns: Sequence[int], features: Sequence[int]) -> Sequence[int]:
    """Leave out columns that become features, unless there are no others."""
    return [at for at in columns if at not in features] or columns


def _label_column(
    rows: Rows, options: SourceOptions, path: int, taken: set[int], features: Sequence[int]
) -> int | None:
    """Return the column of labels; None if no column is left for them."""
    if options.label_col:
        return rows.find(options.label_col, "--label-col")
    splits = rows.usual(_SPLITS, taken)
    rest = [at for at in range(len(rows.names)) if at not in {*taken, *splits}]
    if not rest:
        return None
    likely = _rather_not(rows.usual(_LABELS, taken) if rows.is_named else rest, features)
    if len(likely) == 1 or (not rows.is_named and (path, likely[0]) == (0, 1)):
        return likely[0]
    error = _unclear(rows, likely, "labels", "--label-col")
    if not likely or not rows.is_named:
        error.hint += _multi_label_hint(rows, rest)
    raise error


def _multi_label_hint(rows: Rows, columns: Sequence[int]) -> str:
    """Return how to pass several labels an image, if columns seem to hold them."""
    flags = [rows.names[at] for at in columns if are_flags(rows.columns[at])]
    if len(flags) > 1:
        more = ",..." if len(flags) > _SHOWN else ""
        names = ",".join(flags[:_SHOWN]) + more
        return f"; or, as columns hold 0 and 1 for one label each, pass --onehot {names}"
    if any(separator_in(rows.columns[at]) for at in columns):
        return ", and add --label-sep, as cells seem to hold several labels"
    return ""


def _split_column(rows: Rows, options: SourceOptions, taken: set[int]) -> int | None:
    if options.split_col == NONE:
        return None
    if options.split_col:
        return rows.find(options.split_col, "--split-col")
    usual = rows.usual(_SPLITS, taken)
    return _only(rows, usual, "splits", "--split-col") if usual else None


def _only(rows: Rows, usual: Sequence[int], what: str, option: str) -> int:
    if len(usual) == 1:
        return usual[0]
    raise _unclear(rows, usual, what, option)


def _unclear(rows: Rows, found: Sequence[int], what: str, option: str) -> SourceError:
    if found and rows.is_named:
        names = " and ".join(rows.names[at] for at in found)
        return SourceError(
            f"{rows.where}: the columns {names} may both hold the {what}",
            hint=f"choose one with {option}",
        )
    return SourceError(
        f"{rows.where} has no usual column for the {what}, but {rows.shown()}",
        hint=f"name it with {option}",
    )


def meanings(
    rows: Rows, roles: Roles, kinds: Sequence[str], *, is_multi: bool
) -> Iterator[tuple[str, str]]:
    """Yield the columns that are used, each with its meaning; `kinds` are those of features."""
    names = rows.names if rows.is_named else [f"column {name}" for name in rows.names]
    yield names[roles.path], "image"
    if roles.label is not None:
        yield names[roles.label], "labels" if is_multi else "label"
    elif roles.onehot:
        yield f"{len(roles.onehot)} one-hot columns", "labels"
    else:
        yield "folder", "label"
    for at, what in ((roles.split, "split"), (roles.group, "group")):
        if at is not None:
            yield names[at], what
    for (_, name), kind in zip(roles.extras, kinds, strict=True):
        yield name, f"{kind} feature"
