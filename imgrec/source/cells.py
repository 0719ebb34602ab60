"""The meaning of a table's cells: labels, one-hot flags, and columns that become features."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import NamedTuple
from unicodedata import normalize

from imgrec.errors import SourceError
from imgrec.model import Column
from imgrec.options import ColumnKind, ColumnOption, SourceOptions
from imgrec.options.source import ColumnValue, LabelLine
from imgrec.source.label_names import LabelNames, label_key, read_label_names, refuse_nameless
from imgrec.source.tables import Cell
from imgrec.spelling import as_integer, commonest, shortest

_LONGEST = 1000
"""No class has a longer name."""
_SEPARATORS = "|;, "
_FLAGS = {"0": False, "false": False, "1": True, "true": True}
_MISSING_NUMBERS = frozenset(
    {"", "na", "n/a", "#n/a", "<na>", "nan", "+nan", "-nan", "null", "none", "\\n", "?", "-"}
)
"""How tables write a missing number; "\\N" is from Hive and MySQL."""


class Labels(NamedTuple):
    """The labels of each row."""

    sets: list[tuple[str, ...]]
    """Empty for a row without a label, and for one whose label cannot be used."""
    faults: dict[int, str]
    """Why the labels of a row cannot be used, by row."""
    is_multi: bool
    """Whether a row may have several."""
    order: tuple[str, ...] | None = None
    """All classes in the order of their labels, if that is given."""
    warnings: tuple[str, ...] = ()
    blank: frozenset[int] = frozenset()
    """Rows whose one-hot cells are all empty: their labels are unknown, not none."""

    def first_rows(self) -> dict[str, int]:
        """Return each class with its first row, in the order of names."""
        first: dict[str, int] = {}
        for row, classes in enumerate(self.sets):
            for name in classes:
                first.setdefault(name, row)
        return dict(sorted(first.items()))

    def fold(self) -> Labels:
        """Merge the spellings of each label into the commonest."""
        spelled = commonest(Counter(name for names in self.sets for name in names))

        def merge(names: Iterable[str]) -> tuple[str, ...]:
            return tuple(dict.fromkeys(spelled.get(name, name) for name in names))

        merged = {names: merge(names) for names in dict.fromkeys(self.sets)}
        return self._replace(
            sets=[merged[names] for names in self.sets],
            order=None if self.order is None else merge(self.order),
        )


def read_labels(cells: Sequence[Cell], where: str, options: SourceOptions) -> Labels:
    """Read a column of labels. A cell holds several if it is a list, or with `label_sep`.

    Raises SourceError if `label_names` does not fit these labels.
    """
    written = {cell: parse_labels(cell, options.label_sep) for cell in dict.fromkeys(cells)}
    found = dict.fromkeys(label for labels in written.values() for label in labels)
    wrong = {label: fault for label in found if (fault := label_fault(label))}
    usable = [label for label in found if label not in wrong]
    integers = {label: integer for label in usable if (integer := as_integer(label))}
    order: tuple[str, ...] | None = None
    notes: tuple[str, ...] = ()
    classes: Mapping[str, str]
    if options.label_names is not None:
        named = _named(usable, where, options.label_names)
        classes = {label: named.names[label_key(label)] for label in usable}
        order, notes = named.order, named.notes
    elif len(integers) == len(usable):
        classes = integers  # tables of floats write 3.0 for the label 3
    else:
        classes = dict(zip(usable, usable, strict=True))
    sets: dict[Cell, tuple[str, ...]] = {}
    faults: dict[Cell, str] = {}
    for cell, labels in written.items():
        if bad := [wrong[label] for label in labels if label in wrong]:
            faults[cell] = "; ".join(bad)
        sets[cell] = () if bad else tuple(dict.fromkeys(classes[label] for label in labels))
    return Labels(
        sets=[sets[cell] for cell in cells],
        faults={row: faults[cell] for row, cell in enumerate(cells) if cell in faults},
        is_multi=bool(options.label_sep) or any(isinstance(cell, tuple) for cell in written),
        order=order or _numeric_order(classes.values()),
        warnings=(*notes, *_separator_warnings(written, options.label_sep)),
    )


def parse_labels(cell: Cell, separator: str) -> tuple[str, ...]:
    """Return the labels in a cell, each once, stripped and with composed characters."""
    if isinstance(cell, tuple):
        parts: Iterable[str] = cell
    else:
        parts = cell.split(separator) if separator else (cell,)
    labels = (normalize("NFC", part).strip() for part in parts)
    return tuple(dict.fromkeys(label for label in labels if label))


def label_fault(label: str) -> str:
    """Return why TFDS, which keeps labels as lines of a file, cannot keep this one."""
    if len(label) > _LONGEST:
        return f"a label of {len(label):,} characters"
    return f"the label {label!r} contains a line break" if len(label.splitlines()) > 1 else ""


def _named(labels: Sequence[str], where: str, given: Sequence[LabelLine]) -> LabelNames:
    """Return what `--label-names` calls the labels."""
    named = read_label_names(given, labels)
    found = set(map(label_key, labels))
    if named.by_line and labels and not any(map(as_integer, found)):
        raise SourceError(
            f"{where}: the labels are not numbers, so --label-names does not apply",
            hint="leave out --label-names, or give a CSV of label,name",
        )
    count = len(named.names)
    if named.by_line and str(count) in found and found <= {str(n) for n in range(1, count + 1)}:
        raise SourceError(
            f"{where}: the labels count from 1 to {count}, but --label-names from 0 to {count - 1}",
            hint="put a line for label 0 before the others, such as: background; or give a CSV of "
            "label,name",
        )
    refuse_nameless(named, labels, where)
    return named


def _numeric_order(classes: Iterable[str]) -> tuple[str, ...] | None:
    """Return the order of integers if some are negative, as names would sort otherwise."""
    found = dict.fromkeys(classes)
    if not all(map(as_integer, found)) or not any(name.startswith("-") for name in found):
        return None
    return tuple(sorted(found, key=lambda name: (int(name), name)))


def _separator_warnings(cells: Iterable[Cell], separator: str) -> Iterator[str]:
    """Warn if cells seem to hold several labels, or do not contain the given separator."""
    texts = [cell for cell in cells if isinstance(cell, str)]
    if separator:
        if texts and not any(separator in text for text in texts):
            yield f"--label-sep {separator!r} is in no label"
    elif separator := separator_in(texts):
        example = min(text.strip() for text in texts if separator in text.strip())
        yield f'labels such as "{example}" look like several: pass --label-sep {separator!r}'


def separator_in(cells: Iterable[Cell]) -> str:
    """Return what seems to separate several labels in a cell; "" if each holds one."""
    names = {cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()}
    for separator in _SEPARATORS:
        several = sorted(name for name in names if separator in name)
        if several and len(several) * 2 >= len(names) and _are_sets(several, names, separator):
            return separator
    return ""


def _are_sets(several: Sequence[str], names: Container[str], separator: str) -> bool:
    """Return whether most parts of labels are labels too or recur, and one of them is a label."""
    uses = Counter(part for name in several for part in {*parse_labels(name, separator)})
    known = sum(part in names or count > 1 for part, count in uses.items())
    return known * 2 > len(uses) and any(part in names for part in uses)


def flag(cell: Cell) -> bool | None:
    """Return the value of a cell of 0 or 1; None for anything else."""
    text = "" if isinstance(cell, tuple) else cell.strip().casefold()
    return _FLAGS.get(shortest(integer) if (integer := as_integer(text)) else text)


def are_flags(cells: Iterable[Cell]) -> bool:
    """Return whether all cells are 0 or 1, as in one-hot columns."""
    return all(flag(cell) is not None for cell in set(cells))


def read_onehot(columns: Sequence[Sequence[Cell]], names: Sequence[str]) -> Labels:
    """Read columns of 0 and 1, one for each class."""
    classes = tuple(normalize("NFC", name).strip() for name in names)
    blank = _blank_rows(columns)
    faults: dict[int, str] = {}
    flags: list[list[bool]] = []
    for name, column in zip(classes, columns, strict=True):
        meaning = {cell: flag(cell) for cell in set(column)}
        flags.append([bool(meaning[cell]) for cell in column])
        for row, cell in enumerate(column) if None in meaning.values() else ():
            if meaning[cell] is None and row not in blank:
                fault = f"{cell!r} in the one-hot column {name}, not 0 or 1"
                faults[row] = f"{faults[row]}; {fault}" if row in faults else fault
    rows = list(zip(*flags, strict=True))
    sets = {row: tuple(compress(classes, row)) for row in dict.fromkeys(rows)}
    return Labels(
        sets=[() if number in faults else sets[row] for number, row in enumerate(rows)],
        faults=faults,
        is_multi=True,
        order=classes,
        blank=blank,
    )


def _blank_rows(columns: Sequence[Sequence[Cell]]) -> frozenset[int]:
    """Return the rows that are empty in all columns."""
    blank = set(range(len(columns[0])))
    for column in columns:
        empty = {cell for cell in set(column) if isinstance(cell, str) and _is_missing(cell)}
        blank.intersection_update(row for row, cell in enumerate(column) if cell in empty)
    return frozenset(blank)


class FeatureColumn(NamedTuple):
    """A column that becomes a feature of the records; "" for the rows that have faults."""

    column: Column
    faults: dict[int, str]
    warning: str = ""
    """How many cells are missing, and what they become; "" if none is."""


def read_feature(cells: Sequence[str], name: str, option: ColumnOption) -> FeatureColumn:
    """Read the column of a feature, and infer its kind if the option has none.

    Missing values become the option's default.
    """
    uses = Counter(cells)
    kind = option.kind or _kind_of(uses)
    default = option.missing(kind)
    # "NA" and "None" may be words: of texts, only the empty one is missing.
    is_missing = _is_missing if kind is not ColumnKind.TEXT else lambda cell: not cell
    missing = set(filter(is_missing, uses))
    values = {cell: default if cell in missing else _READERS[kind](cell) for cell in uses}
    faults = {
        row: f"{cell!r} in the column {name} is not {'an' if kind == 'int' else 'a'} {kind}"
        for row, cell in enumerate(cells)
        if values[cell] is None
    }
    kept = tuple([value if (value := values[cell]) is not None else "" for cell in cells])
    count = sum(uses[cell] for cell in missing)
    is_used = any(value == default for cell, value in values.items() if cell not in missing)
    warning = missing_cells(name, count, len(cells), default, is_used=is_used) if count else ""
    return FeatureColumn(Column(name, kind, kept), faults, warning)


def missing_cells(
    name: str, missing: int, cells: int, default: ColumnValue, *, is_used: bool
) -> str:
    """Return a warning about missing cells, which become the default.

    `is_used`: whether other cells hold the default too.
    """
    shown = f'"{default}"' if isinstance(default, str) else default
    warning = f"{name}: {missing:,} of {cells:,} cells are missing, and become {shown}"
    if is_used:
        warning += ", which other cells hold too; pass another default to tell them apart"
    return warning


def _is_missing(cell: str) -> bool:
    """Return whether a cell of a numeric column has no value."""
    return cell.strip().casefold() in _MISSING_NUMBERS


def _kind_of(cells: Collection[str]) -> ColumnKind:
    """Return the narrowest kind that holds all cells with a value."""
    present = [cell for cell in cells if not _is_missing(cell)]
    # pandas turns whole numbers into floats, 3 into 3.0, if some are missing.
    takes_floats = len(present) < len(cells)
    if present and all(
        _int(cell) is not None and (takes_floats or "." not in cell) for cell in present
    ):
        return ColumnKind.INT
    if present and all(_float(cell) is not None for cell in present):
        return ColumnKind.FLOAT
    return ColumnKind.TEXT


def _int(cell: str) -> int | None:
    whole = as_integer(cell.strip())
    if not whole or len(whole) > 20:
        return None
    return value if -(1 << 63) <= (value := int(whole)) < 1 << 63 else None


def _float(cell: str) -> float | None:
    if "_" in cell or not cell.isascii():  # Python takes 1_000 and Arabic digits for numbers
        return None
    try:
        value = float(cell)
    except ValueError:
        return None
    return None if 3.4028235e38 < abs(value) < math.inf else value  # features are float32


_READERS: Mapping[ColumnKind, Callable[[str], ColumnValue | None]] = {
    ColumnKind.INT: _int,
    ColumnKind.FLOAT: _float,
    ColumnKind.TEXT: str,
}
