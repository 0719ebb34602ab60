"""What the label cells of a table mean."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import compress
from typing import NamedTuple
from unicodedata import normalize

from imgrec.errors import SourceError
from imgrec.options import SourceOptions
from imgrec.options.source import LabelLine
from imgrec.source.label_names import label_key, read_label_names, refuse_nameless
from imgrec.source.manifests.tables import Cell, is_missing_number
from imgrec.spelling import as_integer, commonest, shortest

_LONGEST = 1000
"""No class has a longer name."""
_SEPARATORS = "|;, "
_FLAGS = {"0": False, "false": False, "1": True, "true": True}


class Labels(NamedTuple):
    """The labels of each row."""

    sets: list[tuple[str, ...]]
    """Empty for a row without a label, and for one whose label cannot be used."""
    faults: dict[int, str]
    """Why the labels of a row cannot be used, by row."""
    is_multi: bool
    """Whether a row may have several."""
    order: tuple[str, ...] | None = None
    """All classes in the order of their labels, where that is given."""
    doubts: tuple[str, ...] = ()
    """What may be meant otherwise."""
    blank: frozenset[int] = frozenset()
    """Rows whose one-hot cells are all empty: they say nothing, not that there is no label."""


@dataclass(frozen=True, slots=True)
class _Meaning:
    """The class that each label as it is written means, or why it means none."""

    classes: Mapping[str, str]
    faults: Mapping[str, str]
    order: tuple[str, ...] = ()
    """All classes in the order of their labels, where that is given."""
    notes: tuple[str, ...] = ()


def read_labels(cells: Sequence[Cell], where: str, options: SourceOptions) -> Labels:
    """Read a column of labels, or of several to a cell if so it is said or if cells are lists.

    Raises SourceError if `label_names` cannot be meant for these labels.
    """
    written = {cell: _parse(cell, options.label_sep) for cell in dict.fromkeys(cells)}
    found = dict.fromkeys(label for labels in written.values() for label in labels)
    meaning = _meaning(found, where, options)
    sets: dict[Cell, tuple[str, ...]] = {}
    faults: dict[Cell, str] = {}
    for cell, labels in written.items():
        wrong = [meaning.faults[label] for label in labels if label in meaning.faults]
        sets[cell] = () if wrong else tuple(dict.fromkeys(meaning.classes[x] for x in labels))
        if wrong:
            faults[cell] = "; ".join(wrong)
    return Labels(
        sets=[sets[cell] for cell in cells],
        faults={row: faults[cell] for row, cell in enumerate(cells) if cell in faults},
        is_multi=bool(options.label_sep) or any(isinstance(cell, tuple) for cell in written),
        order=meaning.order or _numeric_order(meaning.classes.values()),
        doubts=(
            *meaning.notes,
            *_doubts([cell for cell in written if isinstance(cell, str)], options),
        ),
    )


def _doubts(cells: Sequence[str], options: SourceOptions) -> Iterator[str]:
    """Say if labels look like several, or are parted by something that none of them has."""
    if options.label_sep:
        if cells and not any(options.label_sep in cell for cell in cells):
            yield f"--label-sep {options.label_sep!r} is in no label"
        return
    if separator := separator_in(cells):
        example = min(cell.strip() for cell in cells if separator in cell.strip())
        yield f'labels such as "{example}" look like several: pass --label-sep {separator!r}'


def separator_in(cells: Iterable[str]) -> str:
    """Return what seems to be between several labels of a cell; "" if each holds one."""
    names = {cell.strip() for cell in cells if cell.strip()}
    for separator in _SEPARATORS:
        several = sorted(name for name in names if separator in name)
        if several and len(several) * 2 >= len(names) and _are_sets(several, names, separator):
            return separator
    return ""


def are_flags(cells: Iterable[Cell]) -> bool:
    """Tell whether all cells are 0 or 1, as those of one-hot columns are."""
    return all(flag(cell) is not None for cell in set(cells))


def _are_sets(several: Sequence[str], names: Container[str], separator: str) -> bool:
    """Tell whether most parts of labels are labels as well or recur, and one of them is a label."""
    uses = Counter(part for name in several for part in {*_parse(name, separator)})
    known = sum(part in names or count > 1 for part, count in uses.items())
    return known * 2 > len(uses) and any(part in names for part in uses)


def _numeric_order(classes: Iterable[str]) -> tuple[str, ...] | None:
    """Return the order of integers if some are negative, which names as such do not tell."""
    found = dict.fromkeys(classes)
    if not all(map(as_integer, found)) or not any(name.startswith("-") for name in found):
        return None
    return tuple(sorted(found, key=lambda name: (int(name), name)))


def _parse(cell: Cell, separator: str) -> tuple[str, ...]:
    """Return the labels in a cell, each once, with characters composed and no blanks around."""
    if isinstance(cell, tuple):
        parts: Iterable[str] = cell
    else:
        parts = cell.split(separator) if separator else (cell,)
    labels = (normalize("NFC", part).strip() for part in parts)
    return tuple(dict.fromkeys(label for label in labels if label))


def _meaning(labels: Iterable[str], where: str, options: SourceOptions) -> _Meaning:
    faults = {label: fault for label in labels if (fault := _text_fault(label))}
    usable = [label for label in labels if label not in faults]
    integers = {label: integer for label in usable if (integer := as_integer(label))}
    if options.label_names is not None:
        return replace(_by_name(usable, where, options.label_names), faults=faults)
    if len(integers) == len(usable):
        # Tables of floats write 3.0 for the label 3.
        return _Meaning(integers, faults)
    return _Meaning(dict(zip(usable, usable, strict=True)), faults)


def _text_fault(label: str) -> str:
    """Return why TFDS, which keeps labels as the lines of a file, could not keep this one."""
    if len(label) > _LONGEST:
        return f"a label of {len(label):,} characters"
    return f"the label {label!r} contains a line break" if len(label.splitlines()) > 1 else ""


def _by_name(uses: Sequence[str], where: str, given: Sequence[LabelLine]) -> _Meaning:
    """Call labels by the names that `--label-names` has for them."""
    named = read_label_names(given, uses)
    found = set(map(label_key, uses))
    if named.by_line and uses and not any(map(as_integer, found)):
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
    refuse_nameless(named, uses, where)
    classes = {label: named.names[label_key(label)] for label in uses}
    return _Meaning(classes, {}, named.order, named.notes)


def fold(labels: Labels) -> Labels:
    """Merge the spellings of each label into the one that most rows have."""
    spelled = commonest(Counter(name for names in labels.sets for name in names))
    merged = {names: _merge(names, spelled) for names in dict.fromkeys(labels.sets)}
    return labels._replace(
        sets=[merged[names] for names in labels.sets],
        order=_merge(labels.order, spelled) if labels.order is not None else None,
    )


def _merge(names: Iterable[str], spelled: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelled.get(name, name) for name in names))


def read_onehot(columns: Sequence[Sequence[Cell]], names: Sequence[str]) -> Labels:
    """Read columns of 0 and 1, each of which tells of one class whether an image has it."""
    classes = tuple(normalize("NFC", name).strip() for name in names)
    blank = _blank_rows(columns)
    faults: dict[int, str] = {}
    flags: list[list[bool]] = []
    for name, column in zip(classes, columns, strict=True):
        meaning = {cell: flag(cell) for cell in Counter(column)}
        flags.append([bool(meaning[cell]) for cell in column])
        for row, cell in enumerate(column) if None in meaning.values() else ():
            if meaning[cell] is None and row not in blank:
                fault = f"{cell!r} in the one-hot column {name}, not 0 or 1"
                faults[row] = "; ".join(filter(None, (faults.get(row), fault)))
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
    """Return the rows in which every one of some columns of numbers is empty."""
    blank = set(range(len(columns[0])))
    for column in columns:
        empty = {cell for cell in set(column) if isinstance(cell, str) and is_missing_number(cell)}
        blank.intersection_update(row for row, cell in enumerate(column) if cell in empty)
    return frozenset(blank)


def flag(cell: Cell) -> bool | None:
    """Return the value of a cell of 0 and 1, or None if it is another."""
    text = "" if isinstance(cell, tuple) else cell.strip().casefold()
    return _FLAGS.get(shortest(integer) if (integer := as_integer(text)) else text)


def first_rows(labels: Labels) -> dict[str, int]:
    """Return every class that some row has, with the first such row, in the order of names."""
    first: dict[str, int] = {}
    for row, classes in enumerate(labels.sets):
        for name in classes:
            first.setdefault(name, row)
    return dict(sorted(first.items()))
