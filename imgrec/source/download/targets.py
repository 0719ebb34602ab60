"""Which column of a table of labels is the target, and what its cells mean.

A sample submission explains the data: its columns name the target or the classes. Without one,
the usual names of columns decide. Where neither does, the answer is a `SourceError` that names the
columns and the option to add.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from shlex import quote
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.source.download.tables import NamedTable
from imgrec.source.manifests.columns import is_label_column, is_path_column, squashed
from imgrec.source.manifests.labels import are_flags, flag
from imgrec.source.manifests.tables import Cell
from imgrec.source.split_words import words
from imgrec.spelling import as_integer

_SEPARATORS = " |,;"
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


class Target(NamedTuple):
    """The column of labels, or the columns of 0 and 1 that are classes."""

    columns: tuple[int, ...]
    is_onehot: bool = False
    is_single: bool = True
    """Whether an image has one label: one-hot columns have exactly one 1 in each row."""
    is_asked_for: bool = False
    """Whether the sample submission asks for it by its name."""


def choose_target(table: NamedTable, id_at: int, sample: NamedTable | None) -> Target:
    """Find the target of a table; raise SourceError if that is not clear."""
    rest = [
        at for at, name in enumerate(table.columns) if at != id_at and squashed(name) != "split"
    ]
    if not rest:
        raise SourceError(
            f"{table.name} has ids but no labels",
            hint="name the table of labels with --manifest",
        )
    target = _by_sample(table, rest, sample) if sample else _by_name(table, rest)
    if not target.is_onehot:
        refuse_values(table, target.columns[0], id_at)
    return target


def _by_sample(table: NamedTable, rest: Sequence[int], sample: NamedTable) -> Target:
    wanted = sample.columns[1:]
    same = [at for at in rest if squashed(table.columns[at]) in set(map(squashed, wanted))]
    if len(same) > 1:
        if all(is_flags(table.texts(at)) for at in same):
            return Target(tuple(same), True, has_one_each(table, same), is_asked_for=True)
        names = ", ".join(table.columns[at] for at in same[:_SHOWN])
        raise SourceError(
            f"{table.name}: {sample.name} asks for {names}, which are not 0 and 1: this is "
            "no classification task",
            hint="if one column holds the class, name it with --label-col",
        )
    if same:
        _refuse_regression(table, same[0], sample)
        return Target((same[0],), is_asked_for=True)
    classes = {squashed(name) for name in wanted}
    as_values = [at for at in rest if _distinct(table.texts(at)) == classes and len(classes) > 1]
    if len(as_values) == 1:
        return Target((as_values[0],))
    if len(rest) == 1:
        return Target((rest[0],))
    raise _ask(table, rest, f"{sample.name} names {', '.join(wanted[:_SHOWN])}")


def _by_name(table: NamedTable, rest: Sequence[int]) -> Target:
    usual = [at for at in rest if is_label_column(table.columns[at])]
    if len(usual) == 1:
        return Target((usual[0],))
    if len(rest) == 1 and not usual:
        return Target((rest[0],))
    are_flags = not usual and all(is_flags(table.texts(at)) for at in rest)
    if are_flags and has_one_each(table, rest):
        return Target(tuple(rest), is_onehot=True)
    raise _ask(table, usual or rest, "")


def _refuse_regression(table: NamedTable, at: int, sample: NamedTable) -> None:
    """Raise SourceError if the sample submission holds amounts: neither classes nor chances."""
    asked = sample.find(table.columns[at])
    cells = [text.strip() for text in sample.texts(asked)] if asked is not None else []
    if _are_fractions(cells) and not all(0 <= float(cell) <= 1 for cell in cells):
        raise SourceError(
            f"{sample.name} holds amounts in the column {table.columns[at]}, such as {cells[0]}: "
            "this is no classification task",
            hint="if another column holds the class, name it with --label-col; to pack it "
            f"anyway, pass --label-col {quote(table.columns[at])}",
        )


def may_be_labels(cells: Sequence[str]) -> bool:
    """Tell whether a column's cells repeat as labels do.

    >>> may_be_labels(["a", "b", "a", "b"]), may_be_labels(["1", "2", "3", "4"])
    (True, False)
    """
    found = {cell.strip() for cell in cells} - {""}
    return 1 < len(found) <= len(cells) / 2 and not _are_fractions(found)


def _ask(table: NamedTable, columns: Sequence[int], why: str) -> SourceError:
    names = [table.columns[at] for at in columns]
    flags = [table.columns[at] for at in columns if is_flags(table.texts(at))]
    shown = ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" * (len(names) > _SHOWN))
    likely = [table.columns[at] for at in columns if may_be_labels(table.texts(at))]
    hint = f"name it with --label-col, as in --label-col {quote((likely or names)[0])}"
    if len(flags) > 1:
        hint += f"; if columns of 0 and 1 are the classes, pass --onehot {quote(','.join(flags))}"
    told = f" ({why})" if why else ""
    return SourceError(
        f"{table.name}: the label may be in any of the columns {shown}{told}", hint=hint
    )


def refuse_values(table: NamedTable, at: int, id_at: int) -> None:
    """Raise SourceError if a column's values are not classes."""
    cells = [text.strip() for text in table.texts(at) if text.strip()]
    name = table.columns[at]
    if not cells:
        raise SourceError(
            f"{table.name}: the column {name} is empty", hint="name another with --label-col"
        )
    distinct = set(cells)
    if _are_fractions(distinct):
        what = f"holds numbers such as {next(c for c in cells if _is_fraction(c))}"
    elif len(distinct) > 0.9 * len(cells) and _mean_length(distinct) > _LONG_TEXT:
        what = f"holds long texts that hardly repeat, such as {cells[0][:_LONG_TEXT]!r}"
    elif _rows_contradict(table, at, id_at):
        what = "has several rows for one image"
    elif len(distinct) > 20 and len(distinct) > 0.9 * len(cells):
        what = f"has a value of its own in {len(distinct):,} of {len(cells):,} rows"
    else:
        return
    raise SourceError(
        f"{table.name}: the column {name} {what}: this is no classification task",
        hint="if another column holds the class, name it with --label-col; to pack it anyway, "
        f"pass --label-col {quote(name)}",
    )


def _rows_contradict(table: NamedTable, at: int, id_at: int) -> bool:
    """Tell whether most images with several rows have several values, as boxes have."""
    values: dict[str, set[Cell]] = {}
    for image, value in zip(table.texts(id_at), table.cells[at], strict=True):
        values.setdefault(image, set()).add(value)
    if len(values) == len(table.cells[at]):
        return False
    several = sum(len(found) > 1 for found in values.values())
    return several * 20 > len(values)


def list_separator(name: str, cells: Iterable[Cell], where: str) -> str:
    """Return what parts the labels of a cell; "" if each cell is one label.

    Raises SourceError if both can be meant.
    """
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    distinct = Counter(texts)
    for separator in _SEPARATORS:
        several = [cell for cell in distinct if len(_parts(cell, separator)) > 1]
        if not several:
            continue
        parts = {cell: _parts(cell, separator) for cell in distinct}
        vocabulary = {part for found in parts.values() for part in found}
        if all(map(as_integer, vocabulary)) or vocabulary <= distinct.keys():
            return separator
        used = Counter(part for found in parts.values() for part in set(found))
        recurs = sum(count > 1 for count in used.values()) * 2 > len(used)
        is_small = len(vocabulary) < len(distinct) or len(vocabulary) * 3 < len(texts)
        if is_plural(name) and recurs and is_small:
            return separator
        if all(_is_box(parts[cell]) for cell in several):
            raise SourceError(
                f"{where}: {several[0]!r} in the column {name} is a label with numbers, as of a "
                "box: this is no table of labels alone",
                hint="if another column holds the class, name it with --label-col",
            )
        alone = any(part in distinct for cell in several for part in parts[cell])
        if alone or is_plural(name) or (recurs and is_small) or len(several) == len(distinct):
            raise SourceError(
                f"{where}: {several[0]!r} in the column {name} may be one label or "
                f"{len(parts[several[0]])}",
                hint=f"pass --label-sep {separator!r} if it is several, or --label-sep none if "
                "it is one",
            )
    return ""


def _is_box(words_of_cell: Sequence[str]) -> bool:
    """Tell whether a cell holds words and at least four numbers."""
    numbers = sum(map(bool, map(as_integer, words_of_cell)))
    return 4 <= numbers < len(words_of_cell)


def _parts(cell: str, separator: str) -> list[str]:
    return [part for text in cell.split(separator) if (part := text.strip())]


def is_plural(name: str) -> bool:
    """Tell whether a column says by its name that it holds several labels.

    >>> is_plural("attribute_ids"), is_plural("Labels"), is_plural("class"), is_plural("species")
    (True, True, False, False)
    """
    found = words(name)
    last = found[-1] if found else ""
    return squashed(name) in _PLURALS or last in _PLURALS or last == "ids"


def group_columns(table: NamedTable, id_at: int, target: Target) -> list[str]:
    """Return the columns that likely say what belongs together: patients, subjects."""
    found = []
    for at, name in enumerate(table.columns):
        if at == id_at or at in target.columns:
            continue
        is_group = squashed(name) in _GROUPS
        is_id = words(name)[-1:] == ["id"] and not is_path_column(name)
        count = len(set(table.texts(at)))
        if (is_group or is_id) and 1 < count < len(table.cells[at]):
            if not target.is_onehot and _is_one_to_one(table, at, target.columns[0]):
                continue  # the class by another name, such as its number
            found.append(name)
    return found


def _is_one_to_one(table: NamedTable, at: int, other: int) -> bool:
    pairs = set(zip(table.texts(at), table.texts(other), strict=True))
    return len(pairs) == len({one for one, _ in pairs}) == len({two for _, two in pairs})


def has_one_each(table: NamedTable, columns: Sequence[int]) -> bool:
    """Tell whether every row has exactly one 1 in these columns."""
    flags = [list(map(flag, table.texts(at))) for at in columns]
    return all(sum(map(bool, row)) == 1 for row in zip(*flags, strict=True))


def is_flags(cells: Iterable[str]) -> bool:
    """Tell whether all cells are 0 or 1."""
    found = {cell.strip() for cell in cells} - {""}
    return bool(found) and are_flags(found)


def _distinct(cells: Iterable[str]) -> set[str]:
    return {squashed(cell) for cell in cells if cell.strip()}


def _is_fraction(cell: str) -> bool:
    try:
        return not float(cell).is_integer()
    except (ValueError, OverflowError):
        return False


def _are_fractions(cells: Iterable[str]) -> bool:
    """Tell whether all cells are numbers and some of them not whole."""
    found = False
    for cell in cells:
        try:
            found = found or not float(cell).is_integer()
        except (ValueError, OverflowError):
            return False
    return found


def _mean_length(cells: Iterable[str]) -> float:
    lengths = list(map(len, cells))
    return sum(lengths) / len(lengths)
