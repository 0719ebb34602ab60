"""What predictions mean: a score for each class, or labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from imgrec.errors import UsageError
from imgrec.inspection.submitting.given import Given
from imgrec.source.manifests.columns import squashed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scores: TypeAlias = "NDArray[np.floating[Any]]"
_SHOWN = 5
_ROUNDING = 1e-6
"""How far a probability may be beside 0 and 1, as sums of floats are."""


@dataclass(frozen=True)
class Classes:
    """The classes of a dataset, by every name that predictions may call them."""

    names: tuple[str, ...]
    """In the order of their labels."""
    values: tuple[str, ...]
    """What the source writes for each."""
    is_multilabel: bool
    separator: str

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def label_of(self) -> Mapping[str, int]:
        """The label of each name and of each value; of none that stand for two."""
        found: dict[str, set[int]] = {}
        for texts in (self.names, self.values):
            for label, text in enumerate(texts):
                found.setdefault(text, set()).add(label)
        return {text: min(labels) for text, labels in found.items() if len(labels) == 1}

    @cached_property
    def _squashed(self) -> Mapping[str, int]:
        found: dict[str, set[int]] = {}
        for text, label in self.label_of.items():
            found.setdefault(squashed(text), set()).add(label)
        return {text: min(labels) for text, labels in found.items() if len(labels) == 1}

    def find(self, text: str) -> int | None:
        """Return the label that a name means, however it is written, or None."""
        label = self.label_of.get(text)
        return self._squashed.get(squashed(text)) if label is None else label

    def number(self, text: str) -> int | None:
        """Return a label that is written as a number, or None."""
        is_short = text.isascii() and text.isdecimal() and len(text) < 10
        return int(text) if is_short and int(text) < len(self) else None


class Predictions(NamedTuple):
    """One of the two, with a row for each image."""

    scores: Scores | None = None
    """For each class, in the order of labels."""
    labels: Sequence[tuple[int, ...]] | None = None

    def take(self, rows: Sequence[int]) -> Predictions:
        """Return some rows, in that order."""
        if self.scores is not None:
            return Predictions(scores=self.scores[list(rows)])
        return Predictions(labels=[(self.labels or ())[row] for row in rows])


NameOf: TypeAlias = Callable[[int], str]
"""Tells which image a row is about."""


def read_values(given: Given, classes: Classes, name_of: NameOf) -> Predictions:
    """Find out what predictions mean; raise UsageError if that is not clear, or some are NaN."""
    if given.columns is None:
        found = _read_rows(given.values, given, classes, name_of)
    else:
        found = _read_columns(given, given.columns, classes, name_of)
    if found.scores is not None:
        _refuse_nan(found.scores, given, name_of)
    return found


def probabilities(scores: Scores, *, is_multilabel: bool) -> tuple[Scores, bool]:
    """Return scores as probabilities, and whether they were none.

    Numbers from 0 to 1 are probabilities as they are. Of others, as logits are, a softmax is taken
    over the classes, or the sigmoid of each where an image may have several labels.
    """
    import numpy as np

    if _are_likely(scores):
        return np.clip(scores, 0, 1), False
    wide = np.ascontiguousarray(scores, dtype=np.float64)
    if is_multilabel:
        return 1 / (1 + np.exp(-np.clip(wide, -700, 700))), True
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True), True


def _are_likely(numbers: NDArray[Any]) -> bool:
    """Tell whether all numbers are probabilities."""
    if not numbers.size:
        return True
    return bool(numbers.min() >= -_ROUNDING and numbers.max() <= 1 + _ROUNDING)


def _read_columns(
    given: Given, columns: Mapping[str, Any], classes: Classes, name_of: NameOf
) -> Predictions:
    if not columns:
        raise UsageError(f"{given.where} has no column but the ids", hint=_hint(classes))
    if len(columns) == 1:
        ((name, cells),) = columns.items()
        found = _read_rows(cells, given, classes, name_of)
        is_first = len(classes) == 2 and classes.label_of.get(name) == 0
        if found.scores is not None and is_first and not _is_wide(cells):
            return Predictions(scores=found.scores[:, ::-1])  # of the class that it is named after
        return found
    import numpy as np

    labels = _labels_of(list(columns), classes)
    if labels is None:
        strange = [n for n in columns if classes.find(n) is None and classes.number(n) is None]
        raise UsageError(
            f"{given.where} has the columns {listed(strange or list(columns))}, which are not "
            "the classes of the dataset",
            hint=_hint(classes),
        )
    if missing := [name for at, name in enumerate(classes.names) if at not in labels]:
        raise UsageError(f"{given.where} has no column for {listed(missing)}", hint=_hint(classes))
    stacked: list[Scores] = [np.zeros(0)] * len(classes)
    for label, (name, cells) in zip(labels, columns.items(), strict=True):
        stacked[label] = _floats(cells, given, name, name_of)
    return Predictions(scores=np.stack(stacked, axis=1))


def _is_wide(cells: Any) -> bool:
    """Tell whether each cell of a column is a list."""
    return getattr(cells, "ndim", 1) == 2


def _floats(cells: Any, given: Given, column: str, name_of: NameOf) -> Scores:
    """Return the cells of a column as numbers."""
    import numpy as np

    if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub" and cells.ndim == 1:
        return cells if cells.dtype.kind == "f" else cells.astype(np.float64)
    for row, cell in enumerate(cells):
        if _number(cell) is None:
            raise UsageError(
                f"{given.where}: {str(cell)[:40]!r}, of {name_of(row)} in the column {column}, is "
                "no number",
                hint="give a probability for each image and class",
            )
    return np.array([_number(cell) for cell in cells], dtype=np.float64)


def _number(cell: object) -> float | None:
    try:
        return float(cell)  # type: ignore[arg-type]  # which it says itself
    except (TypeError, ValueError, OverflowError):
        return None


def _read_rows(values: Any, given: Given, classes: Classes, name_of: NameOf) -> Predictions:
    import numpy as np

    if isinstance(values, list) and all(isinstance(row, str) for row in values):
        return _read_texts(values, given, classes, name_of)
    if isinstance(values, list):
        return Predictions(labels=_read_lists(values, given, classes, name_of))
    array: NDArray[Any] = values
    if array.dtype.kind == "U" and array.ndim == 1:
        return _read_texts(array.tolist(), given, classes, name_of)
    if array.dtype.kind == "U" and array.ndim == 2:
        return Predictions(labels=_read_lists(array.tolist(), given, classes, name_of))
    if array.dtype.kind not in "fiub" or array.ndim not in (1, 2):
        shape = "x".join(map(str, array.shape))
        raise UsageError(
            f"{given.where}: an array of {shape} {array.dtype} is not a row for each image",
            hint=_hint(classes),
        )
    if array.ndim == 2 and array.shape[1] == 1 and len(classes) != 1:
        array = array[:, 0]
    if array.ndim == 1:
        return _read_numbers(array, given, classes, name_of)
    if array.shape[1] != len(classes):
        raise UsageError(
            f"{given.where}: {array.shape[1]} numbers for each image, and the dataset has "
            f"{len(classes)} classes",
            hint=_hint(classes),
        )
    return Predictions(scores=array if array.dtype.kind == "f" else array.astype(np.float64))


def _read_numbers(
    numbers: NDArray[Any], given: Given, classes: Classes, name_of: NameOf
) -> Predictions:
    """Read one number for each image: a label, or how likely it is of the second of two classes."""
    import numpy as np

    is_float = numbers.dtype.kind == "f"
    if is_float:
        _refuse_nan(numbers, given, name_of)
    if is_float and len(classes) == 2 and not classes.is_multilabel:
        other = 1 - numbers if _are_likely(numbers) else np.zeros_like(numbers)
        return Predictions(scores=np.stack([other, numbers], axis=1))
    are_labels = (numbers >= 0) & (numbers < len(classes)) & (numbers == np.floor(numbers))
    if not are_labels.all():
        row = int(np.flatnonzero(~are_labels)[0])
        raise UsageError(
            f"{given.where}: {numbers[row]}, for {name_of(row)}, is none of the labels 0 to "
            f"{len(classes) - 1}",
            hint=_hint(classes),
        )
    return Predictions(labels=[(int(number),) for number in numbers])


def _read_texts(
    texts: Sequence[str], given: Given, classes: Classes, name_of: NameOf
) -> Predictions:
    """Read one text for each image: a class, several of them, or a number."""
    import numpy as np

    if classes.is_multilabel:
        parts = [_parts(text, classes) for text in texts]
        return Predictions(labels=_read_lists(parts, given, classes, name_of))
    numbers = list(map(_number, texts))
    labels = _labels_of(texts, classes, may_be_numbers=given.are_texts)
    if labels is not None:
        return Predictions(labels=[(label,) for label in labels])
    if texts and None not in numbers:
        return _read_numbers(np.array(numbers, dtype=np.float64), given, classes, name_of)
    return Predictions(labels=_read_lists([[text] for text in texts], given, classes, name_of))


def _parts(text: str, classes: Classes) -> list[str]:
    """Return the labels in a cell."""
    if text in classes.label_of or not classes.separator:
        return [text] if text else []
    return [part.strip() for part in text.split(classes.separator) if part.strip()]


def _read_lists(
    rows: Sequence[Any], given: Given, classes: Classes, name_of: NameOf
) -> list[tuple[int, ...]]:
    """Read the names of all classes of each image."""
    kinds = [type(texts) for texts in rows]
    if len(set(kinds)) > 1:
        row = next(row for row, kind in enumerate(kinds) if kind is not kinds[0])
        raise UsageError(
            f"{given.where} are of different kinds: {_shown(rows[0])} for {name_of(0)}, and "
            f"{_shown(rows[row])} for {name_of(row)}",
            hint=_hint(classes),
        )
    for row, texts in enumerate(rows):
        is_list = isinstance(texts, list | tuple | set | frozenset) or hasattr(texts, "tolist")
        if not is_list or not all(isinstance(text, str) for text in texts):
            raise UsageError(
                f"{given.where}: {_shown(texts)}, for {name_of(row)}, is not a list of class names",
                hint=_hint(classes),
            )
    flat = [text.strip() for texts in rows for text in texts]
    labels = _labels_of(flat, classes, may_be_numbers=given.are_texts)
    if labels is None:
        ends = list(accumulate(map(len, rows)))
        bad = next(at for at, text in enumerate(flat) if classes.find(text) is None)
        row = next(row for row, end in enumerate(ends) if bad < end)
        shown = f"{flat[bad]!r}" if flat[bad] else "an empty text"
        raise UsageError(
            f"{given.where}: {shown}, for {name_of(row)}, is no class of the dataset",
            hint=f"the classes are {listed(classes.names)}",
        )
    ends = [0, *accumulate(map(len, rows))]
    return [tuple(sorted(set(labels[start:end]))) for start, end in pairwise(ends)]


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:40]


def _labels_of(
    texts: Sequence[str], classes: Classes, *, may_be_numbers: bool = True
) -> list[int] | None:
    """Return the labels that texts mean, as names or as numbers; None if some mean none.

    Raises UsageError if they may be both.
    """
    distinct = dict.fromkeys(texts)
    named = {text: label for text in distinct if (label := classes.find(text)) is not None}
    numbered = {text: label for text in distinct if (label := classes.number(text)) is not None}
    is_named = len(named) == len(distinct)
    is_numbered = may_be_numbers and len(numbered) == len(distinct)
    if is_named and is_numbered and named != numbered:
        text = next(text for text in distinct if named[text] != numbered[text])
        raise UsageError(
            f"predictions such as {text} may be the names of classes or their labels",
            hint="save them as .parquet, labels as integers and names as text, or give a number "
            "for each class",
        )
    if not (is_named or is_numbered):
        return None
    meant = named if is_named else numbered
    return [meant[text] for text in texts]


def _refuse_nan(numbers: NDArray[Any], given: Given, name_of: NameOf) -> None:
    import numpy as np

    wrong = ~np.isfinite(numbers)
    rows = np.flatnonzero(wrong.any(axis=1) if numbers.ndim == 2 else wrong)
    if len(rows):
        shown = listed([name_of(int(row)) for row in rows])
        raise UsageError(
            f"{given.where}: NaN or infinite for {len(rows):,} images: {shown}",
            hint="predict a finite number for each",
        )


def _hint(classes: Classes) -> str:
    count = len(classes)
    if classes.is_multilabel:
        return f"give {count} numbers for each image, one for each class, or class names"
    return f"give {count} numbers for each image, one for each class, or one label or class name"


def listed(names: Sequence[str]) -> str:
    """Return some names for a message, the first few of many."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
