"""The meaning of predictions: a score for each class, or labels."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from imgrec.errors import UsageError
from imgrec.inspect.submit.predictions import Given
from imgrec.source.manifests.columns import squashed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

Scores: TypeAlias = "NDArray[np.floating[Any]]"
NameOf: TypeAlias = Callable[[int], str]
"""Returns the id of a row."""
_SHOWN = 5
_ROUNDING = 1e-6
"""How far outside 0 to 1 a probability may be, as sums of floats are."""


@dataclass(frozen=True)
class Classes:
    """The classes of a dataset, under all names that predictions may use."""

    names: tuple[str, ...]
    """In the order of their labels."""
    values: tuple[str, ...]
    """The text for each in the source."""
    is_multilabel: bool
    separator: str

    def __len__(self) -> int:
        return len(self.names)

    @cached_property
    def label_of(self) -> Mapping[str, int]:
        """The label of each name and each value, unless it is ambiguous."""
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
        """Return the label of a name, in any spelling, or None."""
        label = self.label_of.get(text)
        return self._squashed.get(squashed(text)) if label is None else label

    def number(self, text: str) -> int | None:
        """Return a label written as a number, or None."""
        is_short = text.isascii() and text.isdecimal() and len(text) < 10
        return int(text) if is_short and int(text) < len(self) else None


class Values(NamedTuple):
    """Scores or labels, with a row for each image."""

    scores: Scores | None = None
    """A column for each class, in the order of labels."""
    labels: Sequence[tuple[int, ...]] | None = None

    def take(self, rows: Sequence[int]) -> Values:
        """Return some rows, in that order."""
        if self.scores is not None:
            return Values(scores=self.scores[list(rows)])
        return Values(labels=[(self.labels or ())[row] for row in rows])


def are_probabilities(numbers: NDArray[Any]) -> bool:
    """Tell whether all numbers are from 0 to 1."""
    if not numbers.size:
        return True
    return bool(numbers.min() >= -_ROUNDING and numbers.max() <= 1 + _ROUNDING)


def probabilities(scores: Scores, *, is_multilabel: bool) -> Scores:
    """Return scores as probabilities.

    Numbers from 0 to 1 are probabilities already. Others, such as logits, go through a softmax over
    the classes, or each through the sigmoid in a multi-label dataset.
    """
    import numpy as np

    if are_probabilities(scores):
        return np.clip(scores, 0, 1)
    wide = np.ascontiguousarray(scores, dtype=np.float64)
    if is_multilabel:
        return np.asarray(1 / (1 + np.exp(-np.clip(wide, -700, 700))))
    powers = np.exp(wide - wide.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def read_values(given: Given, classes: Classes, name_of: NameOf) -> Values:
    """Return the scores or labels that predictions mean.

    Raises UsageError if that is not clear, or if a number is not finite.
    """
    reader = _Reader(given, classes, name_of)
    found = reader.rows(given.values) if given.columns is None else reader.columns(given.columns)
    if found.scores is not None:
        reader.refuse_nan(found.scores)
    return found


class _Reader(NamedTuple):
    given: Given
    classes: Classes
    name_of: NameOf

    def columns(self, columns: Mapping[str, Any]) -> Values:
        """Read columns with names: one for each class, or only one."""
        if not columns:
            raise self._error("has no column but the ids")
        if len(columns) == 1:
            return self._one_column(*next(iter(columns.items())))
        import numpy as np

        classes = self.classes
        labels = self._labels_of(list(columns), may_be_numbers=True)
        if labels is None:
            unknown = [n for n in columns if classes.find(n) is None and classes.number(n) is None]
            raise self._error(
                f"has the columns {listed(unknown or list(columns))}, which are not classes of the "
                "dataset"
            )
        if missing := [name for at, name in enumerate(classes.names) if at not in labels]:
            raise self._error(f"has no column for {listed(missing)}")
        stacked: list[Scores] = [np.zeros(0)] * len(classes)
        for label, (name, cells) in zip(labels, columns.items(), strict=True):
            stacked[label] = self._floats(cells, name)
        return Values(scores=np.stack(stacked, axis=1))

    def _one_column(self, name: str, cells: Any) -> Values:
        found = self.rows(cells)
        is_first_class = len(self.classes) == 2 and self.classes.label_of.get(name) == 0
        is_single = getattr(cells, "ndim", 1) == 1
        if found.scores is not None and is_first_class and is_single:
            return Values(scores=found.scores[:, ::-1])  # of the class that it is named after
        return found

    def _floats(self, cells: Any, column: str) -> Scores:
        import numpy as np

        if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub" and cells.ndim == 1:
            return cells if cells.dtype.kind == "f" else cells.astype(np.float64)
        for row, cell in enumerate(cells):
            if _number(cell) is None:
                raise UsageError(
                    f"{self.given.where}: {str(cell)[:40]!r} is not a number, in the column "
                    f"{column} for {self.name_of(row)}",
                    hint="give a probability for each image and class",
                )
        return np.array([_number(cell) for cell in cells], dtype=np.float64)

    def rows(self, values: Any) -> Values:
        """Read a list or an array with a row for each image."""
        import numpy as np

        if isinstance(values, list) and all(isinstance(row, str) for row in values):
            return self._texts(values)
        if isinstance(values, list):
            return self._lists(values)
        array: NDArray[Any] = values
        if array.dtype.kind == "U" and array.ndim == 1:
            return self._texts(array.tolist())
        if array.dtype.kind == "U" and array.ndim == 2:
            return self._lists(array.tolist())
        if array.dtype.kind not in "fiub" or array.ndim not in (1, 2):
            shape = "x".join(map(str, array.shape))
            raise self._error(f"an array of {shape} {array.dtype} is not a row for each image", ":")
        count = len(self.classes)
        if array.ndim == 2 and array.shape[1] == 1 and count != 1:
            array = array[:, 0]
        if array.ndim == 1:
            return self._numbers(array)
        if array.shape[1] != count:
            raise self._error(
                f"{array.shape[1]} numbers for each image, but the dataset has {count} classes", ":"
            )
        return Values(scores=array if array.dtype.kind == "f" else array.astype(np.float64))

    def _numbers(self, numbers: NDArray[Any]) -> Values:
        """Read one number for each image: a label, or the probability of the second of two."""
        import numpy as np

        is_float = numbers.dtype.kind == "f"
        if is_float:
            self.refuse_nan(numbers)
        count = len(self.classes)
        if is_float and count == 2 and not self.classes.is_multilabel:
            other = 1 - numbers if are_probabilities(numbers) else np.zeros_like(numbers)
            return Values(scores=np.stack([other, numbers], axis=1))
        are_labels = (numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers))
        if not are_labels.all():
            row = int(np.flatnonzero(~are_labels)[0])
            raise self._error(
                f"{numbers[row]}, for {self.name_of(row)}, is not one of the labels 0 to "
                f"{count - 1}",
                ":",
            )
        return Values(labels=[(int(number),) for number in numbers])

    def _texts(self, texts: Sequence[str]) -> Values:
        """Read one text for each image: a class, several of them, or a number."""
        import numpy as np

        if self.classes.is_multilabel:
            return self._lists([self._parts(text) for text in texts])
        labels = self._labels_of(texts, may_be_numbers=self.given.are_texts)
        if labels is not None:
            return Values(labels=[(label,) for label in labels])
        numbers = list(map(_number, texts))
        if texts and None not in numbers:
            return self._numbers(np.array(numbers, dtype=np.float64))
        return self._lists([[text] for text in texts])

    def _parts(self, text: str) -> list[str]:
        """Return the labels in a cell."""
        separator = self.classes.separator
        if text in self.classes.label_of or not separator:
            return [text] if text else []
        return [part.strip() for part in text.split(separator) if part.strip()]

    def _lists(self, rows: Sequence[Any]) -> Values:
        """Read the class names of each image."""
        self._refuse_mixed(rows)
        flat = [text.strip() for texts in rows for text in texts]
        labels = self._labels_of(flat, may_be_numbers=self.given.are_texts)
        ends = [0, *accumulate(map(len, rows))]
        if labels is None:
            bad = next(at for at, text in enumerate(flat) if self.classes.find(text) is None)
            row = next(row for row, end in enumerate(ends[1:]) if bad < end)
            shown = f"{flat[bad]!r}" if flat[bad] else "an empty text"
            raise UsageError(
                f"{self.given.where}: {shown}, for {self.name_of(row)}, is not a class of the "
                "dataset",
                hint=f"the classes are {listed(self.classes.names)}",
            )
        return Values(
            labels=[tuple(sorted(set(labels[start:end]))) for start, end in pairwise(ends)]
        )

    def _refuse_mixed(self, rows: Sequence[Any]) -> None:
        kinds = [type(texts) for texts in rows]
        if len(set(kinds)) > 1:
            row = next(row for row, kind in enumerate(kinds) if kind is not kinds[0])
            raise self._error(
                f"are of different types: {_shown(rows[0])} for {self.name_of(0)}, and "
                f"{_shown(rows[row])} for {self.name_of(row)}"
            )
        for row, texts in enumerate(rows):
            is_list = isinstance(texts, list | tuple | set | frozenset) or hasattr(texts, "tolist")
            if not is_list or not all(isinstance(text, str) for text in texts):
                raise self._error(
                    f"{_shown(texts)}, for {self.name_of(row)}, is not a list of class names", ":"
                )

    def _labels_of(self, texts: Sequence[str], *, may_be_numbers: bool) -> list[int] | None:
        """Return the labels that texts mean, as names or as numbers; None if some mean none.

        Raises UsageError if they may be both.
        """
        find, number = self.classes.find, self.classes.number
        distinct = dict.fromkeys(texts)
        named = {text: label for text in distinct if (label := find(text)) is not None}
        numbered = {text: label for text in distinct if (label := number(text)) is not None}
        is_named = len(named) == len(distinct)
        is_numbered = may_be_numbers and len(numbered) == len(distinct)
        if is_named and is_numbered and named != numbered:
            text = next(text for text in distinct if named[text] != numbered[text])
            raise UsageError(
                f"predictions such as {text} may be the names of classes or their labels",
                hint="save them as .parquet, labels as integers and names as text, or give a "
                "number for each class",
            )
        if not (is_named or is_numbered):
            return None
        meant = named if is_named else numbered
        return [meant[text] for text in texts]

    def refuse_nan(self, numbers: NDArray[Any]) -> None:
        """Raise UsageError if a number is not finite."""
        import numpy as np

        wrong = ~np.isfinite(numbers)
        rows = np.flatnonzero(wrong.any(axis=1) if numbers.ndim == 2 else wrong)
        if len(rows):
            shown = listed([self.name_of(int(row)) for row in rows])
            raise UsageError(
                f"{self.given.where}: NaN or infinite for {len(rows):,} images: {shown}",
                hint="predict a finite number for each",
            )

    def _error(self, what: str, colon: str = "") -> UsageError:
        count = len(self.classes)
        names = "class names" if self.classes.is_multilabel else "one label or class name"
        return UsageError(
            f"{self.given.where}{colon} {what}",
            hint=f"give {count} numbers for each image, one for each class, or {names}",
        )


def _number(cell: object) -> float | None:
    try:
        return float(cell)  # type: ignore[arg-type]  # it raises TypeError itself
    except (TypeError, ValueError, OverflowError):
        return None


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:40]


def listed(names: Sequence[str]) -> str:
    """Return the first few names for a message."""
    more = f" and {len(names) - _SHOWN:,} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
