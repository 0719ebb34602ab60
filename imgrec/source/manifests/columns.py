"""Which column of a manifest says what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.errors import SourceError, UsageError
from imgrec.options import NONE, SourceOptions

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
"""What every record has already."""
_SHOWN = 20


class Holds(NamedTuple):
    """Tells by their cells whether columns, given by their numbers, hold something."""

    images: Callable[[int], bool]
    """Whether some of the first cells name images; asked if several columns may."""
    splits: Callable[[int], bool]
    """Whether all cells are splits; asked of columns that travel into the records."""
    flags: Callable[[int], bool]
    """Whether all cells are 0 or 1; asked if no column is known to hold the labels."""
    lists: Callable[[int], bool]
    """Whether cells look like several labels each; asked as `flags` is."""


class Roles(NamedTuple):
    """The numbers of the columns that are used, and what for."""

    path: int
    label: int | None
    """None where one-hot columns tell, or the folder of each image."""
    split: int | None
    group: int | None
    onehot: tuple[int, ...]
    extras: tuple[int, ...]
    features: tuple[str, ...]
    """What the extra columns are called in records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Header:
    """The columns of a manifest."""

    where: str
    """The manifest, for messages."""
    names: tuple[str, ...]
    is_told: bool
    """Whether the manifest itself names its columns; else they are numbered from 1."""

    def find(self, wanted: str, option: str) -> int:
        """Return the column that an option names; raise UsageError if there is none."""
        same = same_column(self.names, wanted)
        if len(same) == 1:
            return same[0]
        if not same and wanted.isdecimal() and 1 <= int(wanted) <= len(self.names):
            return int(wanted) - 1
        if same:
            raise SourceError(
                f"{self.where} has {len(same)} columns called {wanted}", hint="rename one of them"
            )
        raise UsageError(
            f"{option} {wanted}: {self.where} has no such column", hint=f"it has {self.shown()}"
        )

    def feature_name(self, number: int, wanted: str) -> str:
        """Return what a column that an option calls `wanted` is called in records.

        A number is not a name: the column keeps its own, or gets one such as `column_3`.
        """
        if not self.is_told:
            return f"column_{number + 1}"
        own = self.names[number].strip()
        return wanted if own.casefold() == wanted.strip().casefold() else own

    def shown(self) -> str:
        """Return the columns, as many as people can read."""
        if not self.is_told:
            return f"{len(self.names)} columns and no header: give a number from 1"
        rest = len(self.names) - _SHOWN
        more = f" and {rest} more" if rest > 0 else ""
        return f"the columns {', '.join(self.names[:_SHOWN])}{more}"

    def usual(self, words: frozenset[str], taken: set[int]) -> list[int]:
        """Return the columns with one of the usual names that are not taken for something else."""
        names = enumerate(self.names)
        return [n for n, name in names if n not in taken and squashed(name) in words]


def squashed(name: str) -> str:
    """Return a column's name without what differs between habits of writing.

    >>> squashed(" Image_Id"), squashed("file-name")
    ('imageid', 'filename')
    """
    return "".join(char for char in name.casefold() if char not in " \t_-.")


def same_column(names: Sequence[str], wanted: str) -> list[int]:
    """Return the columns of a name: in just that spelling, in any case, or else squashed.

    >>> same_column(["id", "Class"], "class"), same_column(["class name"], "class_name")
    ([1], [0])
    """
    for spelled in (str.strip, _folded, squashed):
        key = spelled(wanted)
        if found := [number for number, name in enumerate(names) if spelled(name) == key]:
            return found
    return []


def _folded(name: str) -> str:
    return name.strip().casefold()


def is_path_column(name: str) -> bool:
    """Tell whether a column of this name holds paths or ids of images, as a rule."""
    return squashed(name) in _PATHS


def is_label_column(name: str) -> bool:
    """Tell whether a column of this name holds labels, as a rule."""
    return squashed(name) in _LABELS


def is_split_column(name: str) -> bool:
    """Tell whether a column of this name holds splits, as a rule."""
    return squashed(name) in _SPLITS


def has_header(
    first: Sequence[str], where: str, options: SourceOptions, is_image: Callable[[str], bool]
) -> bool:
    """Tell whether the first row of a CSV file names its columns.

    Raises SourceError if that cannot be told.
    """
    said = [wanted for _, wanted in _asked(options)]
    if any(not wanted.isdecimal() for wanted in said):
        return True
    at = int(options.path_col) - 1 if options.path_col else 0
    path = first[at] if 0 <= at < len(first) else ""
    usual = _PATHS | _LABELS | _SPLITS
    if extension(path) in IMAGE_EXTENSIONS or (squashed(path) not in usual and is_image(path)):
        return False
    if any(squashed(cell) in usual for cell in first):
        return True
    if said or path.strip().isdecimal():
        return False
    raise SourceError(
        f"{where} begins with {', '.join(first[:_SHOWN])}: neither usual column names nor an image",
        hint="name the columns with --path-col and --label-col, by numbers if they have no names",
    )


def _asked(options: SourceOptions) -> Iterator[tuple[str, str]]:
    """Yield every column that the options name, with the option."""
    yield from (
        (f"--{option}-col", wanted)
        for option, wanted in (
            ("path", options.path_col),
            ("label", options.label_col),
            ("split", options.split_col if options.split_col != NONE else ""),
            ("group", options.group_col),
        )
        if wanted
    )
    yield from (("--onehot", wanted) for wanted in options.onehot)
    yield from (("--column", column.name) for column in options.column)


def choose_roles(
    header: Header,
    options: SourceOptions,
    holds: Holds,
) -> Roles:
    """Decide which column says what: as the options say, else by the usual names.

    A column that travels into the records may be the one of images, labels or splits as well.
    Raises UsageError if a column is not there, and SourceError if the choice is not clear.
    """
    refuse_nonsense(options)
    said = {
        header.find(wanted, option) for option, wanted in _asked(options) if option != "--column"
    }
    extras = tuple(header.find(column.name, "--column") for column in options.column)
    features = tuple(
        header.feature_name(number, column.name)
        for number, column in zip(extras, options.column, strict=True)
    )
    _refuse_bad_features(features)
    path = _path(header, options, said, extras, holds.images)
    said.add(path)
    label = None if options.onehot else _label(header, options, path, said, extras, holds)
    said.add(path if label is None else label)
    travelling = {number for number in extras if not holds.splits(number)}
    return Roles(
        path=path,
        label=label,
        split=_split(header, options, said | travelling),
        group=header.find(options.group_col, "--group-col") if options.group_col else None,
        onehot=tuple(header.find(name, "--onehot") for name in options.onehot),
        extras=extras,
        features=features,
    )


def refuse_nonsense(options: SourceOptions) -> None:
    """Raise UsageError if columns are asked for that no record can have, or twice."""
    _refuse_bad_features([column.name for column in options.column])
    _refuse_twice("--onehot", options.onehot)
    if options.onehot and (options.label_col or options.label_names):
        other = "--label-col" if options.label_col else "--label-names"
        raise UsageError(
            f"--onehot and {other} do not go together",
            hint="the names of the one-hot columns are the labels",
        )


def _refuse_bad_features(names: Sequence[str]) -> None:
    if reserved := sorted(_RESERVED.intersection(names)):
        raise UsageError(
            f"--column {reserved[0]}: every record has a {reserved[0]} of its own",
            hint="rename the column in the manifest",
        )
    if nested := [name for name in names if "/" in name]:
        raise UsageError(
            f"--column {nested[0]}: TFDS takes a name with / for a nested feature",
            hint="rename the column in the manifest",
        )
    _refuse_twice("--column", names)


def _refuse_twice(option: str, names: Sequence[str]) -> None:
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{option} {twice[0]} is given twice", hint="give it once")


def _path(
    header: Header,
    options: SourceOptions,
    said: set[int],
    extras: Sequence[int],
    holds_images: Callable[[int], bool],
) -> int:
    if options.path_col:
        return header.find(options.path_col, "--path-col")
    if not header.is_told:
        return 0
    usual = header.usual(_PATHS, said)
    if len(usual) > 1:
        usual = [number for number in usual if holds_images(number)] or usual
    return _only_one(header, _rather_not(usual, extras), "images", "--path-col")


def _rather_not(numbers: Sequence[int], extras: Sequence[int]) -> Sequence[int]:
    """Leave out the columns that travel into the records, unless there are no others."""
    return [number for number in numbers if number not in extras] or numbers


def _label(
    header: Header,
    options: SourceOptions,
    path: int,
    taken: set[int],
    extras: Sequence[int],
    holds: Holds,
) -> int | None:
    """Return the column of labels; None if no column is left that may hold them."""
    if options.label_col:
        return header.find(options.label_col, "--label-col")
    splits = header.usual(_SPLITS, taken) if header.is_told else []
    rest = [number for number in range(len(header.names)) if number not in {*taken, *splits}]
    if not rest:
        return None
    likely = _rather_not(header.usual(_LABELS, taken) if header.is_told else rest, extras)
    if len(likely) == 1 or (not header.is_told and (path, likely[0]) == (0, 1)):
        return likely[0]
    error = _unclear(header, likely, "labels", "--label-col")
    if not likely or not header.is_told:
        error.hint += _other_ways(header, rest, holds)
    raise error


def _other_ways(header: Header, rest: Sequence[int], holds: Holds) -> str:
    """Return how to pass several labels an image, if columns look as if they held them."""
    flags = [number for number in rest if holds.flags(number)]
    if len(flags) > 1:
        names = ",".join(header.names[number] for number in flags[:_SHOWN])
        more = ",..." if len(flags) > _SHOWN else ""
        return f"; or, as columns hold 0 and 1 for one label each, pass --onehot {names}{more}"
    if any(map(holds.lists, rest)):
        return ", and add --label-sep, as cells seem to hold several labels"
    return ""


def _split(header: Header, options: SourceOptions, taken: set[int]) -> int | None:
    if options.split_col == NONE:
        return None
    if options.split_col:
        return header.find(options.split_col, "--split-col")
    usual = header.usual(_SPLITS, taken) if header.is_told else []
    return _only_one(header, usual, "splits", "--split-col") if usual else None


def _only_one(header: Header, usual: Sequence[int], what: str, option: str) -> int:
    if len(usual) == 1:
        return usual[0]
    raise _unclear(header, usual, what, option)


def _unclear(header: Header, found: Sequence[int], what: str, option: str) -> SourceError:
    names = " and ".join(header.names[number] for number in found)
    if found and header.is_told:
        return SourceError(
            f"{header.where}: the columns {names} may both hold the {what}",
            hint=f"say which with {option}",
        )
    return SourceError(
        f"{header.where} has no column that is known to hold the {what}, but {header.shown()}",
        hint=f"name it with {option}",
    )


def describe(header: Header, roles: Roles, kinds: Sequence[str], *, is_multi: bool) -> str:
    """Return a line for people that says what each column is taken for.

    `kinds` are those of the extra columns.
    """
    names = header.names if header.is_told else [f"column {name}" for name in header.names]
    parts = [f"{names[roles.path]} -> image"]
    if roles.label is not None:
        parts.append(f"{names[roles.label]} -> {'labels' if is_multi else 'label'}")
    elif not roles.onehot:
        parts.append("folder -> label")
    if roles.onehot:
        parts.append(f"{len(roles.onehot)} one-hot columns -> labels")
    if roles.split is not None:
        parts.append(f"{names[roles.split]} -> split")
    if roles.group is not None:
        parts.append(f"{names[roles.group]} -> group")
    features = zip(roles.features, kinds, strict=True)
    parts += [f"{name} -> {kind} feature" for name, kind in features]
    return ", ".join(parts)
