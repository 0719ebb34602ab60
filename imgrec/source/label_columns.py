"""Which column of a download's table holds the labels, and what separates several in a cell.

A sample submission explains the data: its columns name the target or the classes. Without one, the
usual names of columns decide. Where neither does, imgrec raises a `SourceError` that names the
columns and the option to add.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.source.cells import are_flags, flag
from imgrec.source.columns import find_column, is_label_column, is_path_column, squashed
from imgrec.source.tables import Cell, Table
from imgrec.source.words import are_splits, words
from imgrec.spelling import as_integer
from imgrec.text import listed

_SEPARATORS = "|;, "
"""Blanks come last: names of labels hold them, too, and they follow commas."""
_PLURALS = frozenset(
    {"labels", "tags", "classes", "categories", "targets", "attributes", "attributeids", "genres",
     "labelids", "classids", "categoryids", "tagids", "keywords", "species_list"}
)  # fmt: skip
_GROUPS = frozenset(
    {"patient", "patientid", "subject", "subjectid", "person", "personid", "driver"}
)
_SHOWN = 8
_LONG_TEXT = 60
"""Longer cells that hardly repeat are masks, boxes or captions."""
_OTHER_COLUMN = "if another column holds the class, name it with --label-col"


class Target(NamedTuple):
    """The column of labels, or the columns of 0 and 1 that are classes."""

    columns: tuple[int, ...]
    is_onehot: bool = False
    is_single: bool = True
    """Whether an image has one label: each row has exactly one 1 in one-hot columns."""
    is_asked_for: bool = False
    """Whether the sample submission has a column of its name."""


def choose_target(table: Table, id_at: int, sample: Table | None) -> Target:
    """Return the target of a table; raise SourceError if it is not clear."""
    rest = [at for at, name in enumerate(table.names) if at != id_at and squashed(name) != "split"]
    rest = [at for at in rest if not are_splits(table.texts(at))] or rest
    if not rest:
        raise SourceError(
            f"{table.name} has ids but no labels", hint="name the table of labels with --manifest"
        )
    target = _by_sample(table, rest, sample) if sample else _by_name(table, rest)
    if not target.is_onehot:
        _refuse_values(table, target.columns[0], id_at)
    return target


def _by_sample(table: Table, rest: Sequence[int], sample: Table) -> Target:
    wanted = sample.names[1:]
    classes = set(map(squashed, wanted))
    same = [at for at in rest if squashed(table.names[at]) in classes]
    if len(same) > 1:
        if all(_is_onehot(table.texts(at)) for at in same):
            return Target(tuple(same), True, _has_one_each(table, same), is_asked_for=True)
        names = ", ".join(table.names[at] for at in same[:_SHOWN])
        raise SourceError(
            f"{table.name}: {sample.name} asks for {names}, which are not 0 and 1: this is not a "
            "classification task",
            hint="if one column holds the class, name it with --label-col",
        )
    if same:
        _refuse_regression(table, same[0], sample)
        return Target((same[0],), is_asked_for=True)
    as_values = [
        at
        for at in rest
        if len(classes) > 1 and {squashed(c) for c in table.texts(at) if c.strip()} == classes
    ]
    for found in (as_values, rest):
        if len(found) == 1:
            return Target((found[0],))
    raise _unclear(table, rest, f" ({sample.name} names {', '.join(wanted[:_SHOWN])})")


def _by_name(table: Table, rest: Sequence[int]) -> Target:
    usual = [at for at in rest if is_label_column(table.names[at])]
    if len(usual) == 1:
        return Target((usual[0],))
    if len(rest) == 1:
        return Target((rest[0],))
    if not usual and all(_is_onehot(table.texts(at)) for at in rest) and _has_one_each(table, rest):
        return Target(tuple(rest), is_onehot=True)
    raise _unclear(table, usual or rest, "")


def _is_onehot(cells: Iterable[str]) -> bool:
    found = {cell.strip() for cell in cells} - {""}
    return bool(found) and are_flags(found)


def _has_one_each(table: Table, columns: Sequence[int]) -> bool:
    """Return whether every row has exactly one 1 in these columns."""
    flags = [map(flag, table.texts(at)) for at in columns]
    return all(sum(map(bool, row)) == 1 for row in zip(*flags, strict=True))


def _unclear(table: Table, columns: Sequence[int], why: str) -> SourceError:
    names = [table.names[at] for at in columns]
    flags = [table.names[at] for at in columns if _is_onehot(table.texts(at))]
    likely = [table.names[at] for at in columns if may_be_labels(table.texts(at))]
    hint = f"name it with --label-col, as in --label-col {quote((likely or names)[0])}"
    if len(flags) > 1:
        hint += f"; if columns of 0 and 1 are the classes, pass --onehot {quote(','.join(flags))}"
    return SourceError(
        f"{table.name}: the label may be in any of the columns {listed(names, _SHOWN)}{why}",
        hint=hint,
    )


def may_be_labels(cells: Sequence[str]) -> bool:
    """Return whether a column's cells repeat as labels do.

    >>> may_be_labels(["a", "b", "a", "b"]), may_be_labels(["1", "2", "3", "4"])
    (True, False)
    """
    found = {cell.strip() for cell in cells} - {""}
    return 1 < len(found) <= len(cells) / 2 and not _fractions(found)


def _fractions(cells: Iterable[str]) -> list[str]:
    """Return the cells that are not whole numbers; nothing if some are not numbers."""
    try:
        return [cell for cell in cells if not float(cell).is_integer()]
    except ValueError:
        return []


def _refuse_regression(table: Table, at: int, sample: Table) -> None:
    """Refuse a target for which the sample submission holds amounts."""
    name = table.names[at]
    asked = find_column(sample.names, name)
    cells = [text.strip() for text in sample.texts(asked)] if asked is not None else []
    if _fractions(cells) and not all(0 <= float(cell) <= 1 for cell in cells):
        raise SourceError(
            f"{sample.name} holds amounts in the column {name}, such as {cells[0]}: this is not a "
            "classification task",
            hint=f"{_OTHER_COLUMN}; to pack it anyway, pass --label-col {quote(name)}",
        )


def _refuse_values(table: Table, at: int, id_at: int) -> None:
    """Refuse a column whose values are not classes."""
    cells = [text.strip() for text in table.texts(at) if text.strip()]
    name, distinct = table.names[at], set(cells)
    if not cells:
        raise SourceError(
            f"{table.name}: the column {name} is empty", hint="name another with --label-col"
        )
    hardly_repeat = len(distinct) > 0.9 * len(cells)
    if all("://" in cell for cell in distinct):
        what = f"holds URLs, such as {cells[0]}"
    elif _fractions(distinct):
        what = f"holds numbers such as {_fractions(cells)[0]}"
    elif hardly_repeat and sum(map(len, distinct)) > _LONG_TEXT * len(distinct):
        what = f"holds long texts that hardly repeat, such as {cells[0][:_LONG_TEXT]!r}"
    elif _rows_contradict(table, at, id_at):
        what = "has several rows for one image"
    elif len(distinct) > 20 and hardly_repeat:
        what = f"has a value of its own in {len(distinct):,} of {len(cells):,} rows"
    else:
        return
    raise SourceError(
        f"{table.name}: the column {name} {what}: this is not a classification task",
        hint=f"{_OTHER_COLUMN}; to pack it anyway, pass --label-col {quote(name)}",
    )


def _rows_contradict(table: Table, at: int, id_at: int) -> bool:
    """Return whether many images have several rows with different values, as boxes have."""
    values: dict[str, set[Cell]] = {}
    for image, value in zip(table.texts(id_at), table.columns[at], strict=True):
        values.setdefault(image, set()).add(value)
    return sum(len(found) > 1 for found in values.values()) * 20 > len(values)


def list_separator(name: str, cells: Iterable[Cell], where: str) -> str:
    """Return what separates several labels in a cell; "" if each cell is one label.

    Raises SourceError if both are possible.
    """
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    distinct = Counter(texts)
    for separator in _SEPARATORS:
        parts = {cell: _parts(cell, separator) for cell in distinct}
        several = [cell for cell in distinct if len(parts[cell]) > 1]
        if not several:
            continue
        vocabulary = {part for found in parts.values() for part in found}
        if all(map(as_integer, vocabulary)) or vocabulary <= distinct.keys():
            return separator
        used = Counter(part for found in parts.values() for part in set(found))
        is_small = len(vocabulary) < len(distinct) or len(vocabulary) * 3 < len(texts)
        recurs = is_small and sum(count > 1 for count in used.values()) * 2 > len(used)
        if _is_plural(name) and recurs:
            return separator
        if all(_is_box(parts[cell]) for cell in several):
            raise SourceError(
                f"{where}: {several[0]!r} in the column {name} is a label with numbers, as of a "
                "box, so the table holds more than labels",
                hint=f"{_OTHER_COLUMN}; if folders do, pass --class-depth 1",
            )
        alone = any(part in distinct for cell in several for part in parts[cell])
        if alone or _is_plural(name) or recurs or len(several) == len(distinct):
            raise SourceError(
                f"{where}: {several[0]!r} in the column {name} may be one label or "
                f"{len(parts[several[0]])}",
                hint=f"pass --label-sep {separator!r} if it is several, or --label-sep none if "
                "it is one",
            )
    return ""


def _parts(cell: str, separator: str) -> list[str]:
    return [part for text in cell.split(separator) if (part := text.strip())]


def _is_box(parts: Sequence[str]) -> bool:
    """Return whether a cell holds words and at least four numbers."""
    return 4 <= sum(map(bool, map(as_integer, parts))) < len(parts)


def _is_plural(name: str) -> bool:
    """Return whether the name of a column means several labels: `attribute_ids`, `Labels`."""
    last = (words(name) or [""])[-1]
    return squashed(name) in _PLURALS or last in _PLURALS or last == "ids"


def group_columns(table: Table, id_at: int, target: Target) -> list[str]:
    """Return the columns that likely group images: patients, subjects."""
    found = []
    for at, name in enumerate(table.names):
        is_id = words(name)[-1:] == ["id"] and not is_path_column(name)
        if at == id_at or at in target.columns or not (is_id or squashed(name) in _GROUPS):
            continue
        texts, labels = table.texts(at), table.texts(target.columns[0])
        # A column one-to-one with the labels is the class by another name, such as its number.
        is_class = not target.is_onehot and are_one_to_one(set(zip(texts, labels, strict=True)))
        if 1 < len(set(texts)) < len(texts) and not is_class:
            found.append(name)
    return found


def are_one_to_one(pairs: set[tuple[str, str]]) -> bool:
    """Return whether each of some texts goes with one other text, and back.

    >>> are_one_to_one({("0", "cat"), ("1", "dog")}), are_one_to_one({("0", "cat"), ("1", "cat")})
    (True, False)
    """
    return len(pairs) == len({a for a, _ in pairs}) == len({b for _, b in pairs})
