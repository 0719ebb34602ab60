"""`--label-names`: names for the labels of a source, as lines, a table or a map.

    cat          label,name       {"0": "cat",      {"cat": 0,
    dog          0,cat             "1": "dog"}       "dog": 1}
                 1,dog

The labels of the source decide whether a table has a header, and which column holds the labels.
"""

from __future__ import annotations

import csv
import json
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from typing import NamedTuple
from unicodedata import normalize

from imgrec.errors import SourceError, UsageError
from imgrec.model import UNLABELLED, Catalog
from imgrec.options.source import LabelLine
from imgrec.spelling import as_integer, commonest, shortest
from imgrec.text import listed

_SHOWN = 10
_KEY_WORDS = frozenset(("id", "ids", "number", "num", "index", "idx", "code", "key"))
_HEADER_WORDS = _KEY_WORDS | frozenset(
    ("name", "names", "label", "labels", "class", "classes", "category", "value", "target")
)
_OPTION = "--label-names"
_NONE = str(UNLABELLED)
"""The label of images without a label, in records and arrays."""
_ONCE = "give each label one name of its own"


class LabelNames(NamedTuple):
    """The names of labels, in the order of the labels."""

    names: Mapping[str, str]
    """By label, as `label_key` writes it."""
    by_line: bool
    """Whether the number of a line is the label that it names."""
    notes: tuple[str, ...] = ()
    """How the file was read, if users should know."""

    @property
    def order(self) -> tuple[str, ...]:
        """Return the names in the order of their labels."""
        return tuple(self.names.values())


def label_key(label: str) -> str:
    """Return a label for lookup, without spaces around it, leading zeros or split accents.

    >>> label_key("03"), label_key("3.0"), label_key(" cat")
    ('3', '3', 'cat')
    """
    text = normalize("NFC", label).strip()
    integer = as_integer(text)
    return shortest(integer) if integer else text


def read_label_names(given: Sequence[LabelLine], labels: Collection[str]) -> LabelNames:
    """Return the names of the labels of a source. Some labels may have none.

    Raises SourceError if the file can be read in two ways, or names only other labels.
    """
    found = {label_key(label) for label in labels}
    tables = _tables(given, found)
    if whole := [table for table in tables if found <= set(table.keys())]:
        return _only(whole).read()
    if tables:
        return max(tables, key=lambda table: len(found & set(table.keys()))).read()
    lines = [line for line in given if isinstance(line, str)]
    if len(lines) == len(given):
        return _by_line(lines, found)
    if not found:
        return LabelNames({}, by_line=False)
    first = [line[0] for line in given if not isinstance(line, str)]
    raise SourceError(
        f"{_OPTION} names none of the labels {listed(sorted(found, key=_order), _SHOWN)}",
        hint=f"it names {listed(first, _SHOWN)}",
    )


def refuse_nameless(named: LabelNames, labels: Collection[str], where: str) -> None:
    """Raise SourceError if labels of a source have no name."""
    missing = sorted({x for x in labels if label_key(x) not in named.names}, key=_order)
    if missing:
        raise SourceError(
            f"{where}: {_OPTION} has no name for the labels {listed(missing, _SHOWN)}",
            hint=f"it names the labels {listed(named.names, _SHOWN)}: add the others to it, or "
            "take them out of the source",
        )


def named_classes(catalog: Catalog, given: Sequence[LabelLine] | None, where: str) -> Catalog:
    """Return a catalog whose classes have the given names instead of labels."""
    if not given:
        return catalog
    samples = catalog.samples
    labels = samples.classes() - {"", _NONE}
    named = read_label_names(given, labels)
    refuse_nameless(named, labels, where)
    names = {label: named.names[label_key(label)] for label in labels}
    names |= {"": "", _NONE: named.names.get(_NONE, "")}
    catalog = replace(
        catalog,
        samples=replace(samples, class_names=tuple([names[name] for name in samples.class_names])),
        class_folders={name: (f"{_OPTION}: {name}",) for name in named.order},
        class_order=named.order,
    )
    return catalog.warn(*named.notes)


def _order(label: str) -> tuple[bool, int, str]:
    """Sort key of labels: numbers by value, then texts."""
    number = as_integer(label_key(label))
    return not number, int(number or 0), label


def _words(text: str) -> set[str]:
    return set(re.split(r"[\W_]+", text.strip().casefold()))


def _by_line(lines: Sequence[str], found: Set[str]) -> LabelNames:
    """Take the number of each line for the label that it names."""
    names = {str(number): name for number, name in enumerate(lines)}
    last = str(len(lines) - 1)
    # With a label for every line, the first line is a name.
    is_header = len(lines) > 1 and _words(lines[0]) <= _HEADER_WORDS and not {"0", last} <= found
    if not is_header:
        return LabelNames(names, by_line=True)
    note = f"{_OPTION}: its first line, {lines[0].strip()}, is taken for a header"
    first = 0 if last not in found else 1
    names = {str(number): name for number, name in enumerate(lines[1:], first)}
    return LabelNames(names, by_line=True, notes=(note,))


class _Table(NamedTuple):
    """A table of labels and names."""

    header: Sequence[str]
    """Empty if there is none."""
    rows: Sequence[Sequence[str]]
    at: int
    """The column of labels."""

    def keys(self) -> list[str]:
        return [label_key(row[self.at]) for row in self.rows]

    def column(self, at: int) -> str:
        return self.header[at] if self.header else f"column {at + 1}"

    def read(self) -> LabelNames:
        """Return the names of the labels; raise SourceError unless each has one of its own."""
        names: dict[str, str] = {}
        labels: dict[str, str] = {}
        at = self._names_at()
        for key, row in zip(self.keys(), self.rows, strict=True):
            name = normalize("NFC", row[at]).strip()
            if names.setdefault(key, name) != name or not name:
                what = f"two names, {names[key]} and {name}" if name else "no name"
                raise SourceError(f"{_OPTION}: the label {key} has {what}", hint=_ONCE)
        for key, name in names.items():
            if (other := labels.setdefault(name, key)) != key:
                raise SourceError(
                    f"{_OPTION}: the labels {other} and {key} are both called {name}",
                    hint=f"{_ONCE}; --map merges classes",
                )
        if all(map(as_integer, names)):
            names = {key: names[key] for key in sorted(names, key=int)}
        return LabelNames(names, by_line=False)

    def _names_at(self) -> int:
        """Return the column of names: the only other one, or the only one called name."""
        others = [at for at in range(len(self.rows[0])) if at != self.at]
        called = [at for at in others if self.header and "name" in self.header[at].casefold()]
        for found in (others, called):
            if len(found) == 1:
                return found[0]
        raise SourceError(
            f"{_OPTION}: any of {', '.join(map(self.column, others))} may hold the names",
            hint="keep two columns, label,name, or call one of them name",
        )


def _only(tables: Sequence[_Table]) -> _Table:
    """Return the only table, or the only one whose header calls the labels so."""
    called = [t for t in tables if t.header and _KEY_WORDS & _words(t.header[t.at])]
    for found in (tables, called):
        if len(found) == 1:
            return found[0]
    raise SourceError(
        f"{_OPTION}: {' and '.join(t.column(t.at) for t in tables)} both hold the labels of the "
        "source",
        hint="begin the file with the line id,name, in the order of its columns",
    )


def _tables(given: Sequence[LabelLine], found: Set[str]) -> list[_Table]:
    """Return a table for each column that may hold the labels.

    Such a column holds some labels of the source, or only whole numbers.
    """
    rows = _rows(given)
    tables = []
    for at in range(len(rows[0]) if rows else 0):
        keys = [label_key(row[at]) for row in rows]
        if not found.isdisjoint(keys) or all(map(as_integer, keys[1:] or keys)):
            is_odd = not as_integer(keys[0]) and all(map(as_integer, found))
            has_words = any(_HEADER_WORDS & _words(cell) for cell in rows[0])
            has_header = keys[0] not in found and (is_odd or has_words)
            header = [cell.strip() for cell in rows[0]] if has_header else []
            tables.append(_Table(header, rows[1:] if has_header else rows, at))
    return tables


def _rows(given: Sequence[LabelLine]) -> Sequence[Sequence[str]]:
    """Return the cells of a table, equally many in each row; nothing if it is not a table."""
    lines = [line for line in given if isinstance(line, str)]
    if not lines:
        return [line for line in given if not isinstance(line, str)]
    for separator in (",", "\t", ";"):
        rows = list(csv.reader(lines, delimiter=separator, skipinitialspace=True))
        if len(rows) == len(given) and len(rows[0]) > 1 and len({len(row) for row in rows}) == 1:
            return rows
    return []


def parse_label_names(text: str, called: str) -> tuple[LabelLine, ...] | None:
    """Return the names in JSON or in a CSV of several columns; None for other text.

    JSON is a list of names, a map from labels to names or back, or a list of objects. Raises
    UsageError for other JSON.
    """
    text = text.removeprefix("\ufeff")
    if text.lstrip()[:1] in ("{", "["):
        try:
            return _of_json(json.loads(text))
        except (ValueError, TypeError, RecursionError) as error:
            if called.endswith(".json"):
                raise UsageError(
                    f"{called} is not a JSON list or map of names",
                    hint='write it as ["cat", "dog"] or {"0": "cat", "1": "dog"}',
                ) from error
    lines = [line for line in text.splitlines() if line.strip()]
    return tuple(lines) if lines and _rows(lines) else None


def _of_json(document: object) -> tuple[LabelLine, ...]:
    """Return names, or the rows of a table; raise TypeError for other JSON."""
    if isinstance(document, dict) and document:
        rows = [(key, *(one if isinstance(one, list) else [one])) for key, one in document.items()]
    elif isinstance(document, list) and document and isinstance(document[0], dict):
        columns = [
            key
            for key in document[0]
            if all(isinstance(one.get(key), str | int) for one in document)
        ]
        rows = [tuple(columns), *(tuple(one[key] for key in columns) for one in document)]
    elif isinstance(document, list) and document:
        return tuple(_text(one) for one in document)
    else:
        raise TypeError("neither a list nor a map")
    if len({len(row) for row in rows}) > 1 or len(rows[0]) < 2:
        raise TypeError("not a table")
    return tuple(tuple(map(_text, row)) for row in rows)


def _text(value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise TypeError("not a label or a name")
    return str(value)


def fold_classes(catalog: Catalog) -> Catalog:
    """Merge classes that differ only in spelling into the spelling of most images."""
    samples, images = catalog.samples, catalog.samples.count_classes()
    known = sorted({*catalog.class_folders, *(catalog.class_order or ())})
    spelled = commonest({name: images[name] for name in known})
    if all(name == usual for name, usual in spelled.items()):
        return catalog
    folders: dict[str, list[str]] = defaultdict(list)
    for name, where in catalog.class_folders.items():
        folders[spelled[name]] += where
    return replace(
        catalog,
        samples=replace(
            samples,
            class_names=tuple([spelled.get(name, name) for name in samples.class_names]),
            class_sets=tuple([_fold(names, spelled) for names in samples.class_sets]),
        ),
        class_folders={name: tuple(sorted(folders[name])) for name in sorted(folders)},
        class_order=_fold(catalog.class_order, spelled) if catalog.class_order else None,
    )


def _fold(names: Iterable[str], spelled: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(spelled[name] for name in names))
