"""Read predictions, and find out their meaning: a score for each class, or labels."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from imgrec.codec.untrusted import read_bounded
from imgrec.errors import SourceError, UsageError
from imgrec.source.columns import squashed
from imgrec.source.tables import read_table
from imgrec.storage.named_files import local_file
from imgrec.storage.paths import seekable
from imgrec.text import listed

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_NAME = "the predictions"
_HINT = "use a .npy, .csv or .parquet file"
Scores: TypeAlias = "NDArray[np.floating[Any]]"
_ROUNDING = 1e-6
"""How far outside 0 to 1 a probability may be, because floats are rounded."""


class RawPredictions(NamedTuple):
    """Predictions as given, before their meaning is known."""

    name: str
    """In messages."""
    ids: Sequence[str] | None
    """The id of each row; None if rows come in the order of the split."""
    values: Any  # an array, or a list of rows of different types
    """A row for each image, if columns have no names."""
    columns: Mapping[str, Any] | None = None
    """The cells of each column, if columns have names."""
    are_texts: bool = False
    """True if cells are texts that may stand for numbers, as in CSV."""

    @property
    def rows(self) -> int:
        """Count the rows."""
        if self.columns is None:
            return len(self.values)
        return min(map(len, self.columns.values()), default=0)


class Ids(NamedTuple):
    """The possible names of the id column, and all ids of the dataset."""

    names: frozenset[str]
    known: frozenset[str]


def read_predictions(predictions: object, ids: Ids) -> RawPredictions:
    """Read predictions; raise UsageError for an unknown kind or a file that cannot be read."""
    if isinstance(predictions, str | os.PathLike):
        return _read_file(os.path.expanduser(predictions), ids)
    if isinstance(predictions, Mapping):
        return RawPredictions(_NAME, _texts(predictions), _rows(list(predictions.values())))
    if hasattr(predictions, "columns") and hasattr(predictions, "reset_index"):
        return _separate_ids(_NAME, _frame_columns(predictions), ids)
    if isinstance(predictions, tuple) and len(predictions) == 2:
        return RawPredictions(_NAME, _texts(_rows(predictions[0])), _rows(predictions[1]))
    return RawPredictions(_NAME, None, _rows(predictions))


def _read_file(path: str, ids: Ids) -> RawPredictions:
    readers: Mapping[str, Callable[[str, Ids], RawPredictions]] = {
        ".npy": _read_npy,
        ".csv": _read_csv,
        ".parquet": _read_parquet,
    }
    read = readers.get(Path(path).suffix.lower())
    if read is None:
        raise UsageError(f"{path}: predictions cannot have this extension", hint=_HINT)
    with local_file(path) as here:
        if not os.path.isfile(here):
            why = "is not a file" if os.path.lexists(path) else "does not exist"
            raise UsageError(f"{path} {why}", hint=_HINT, path=path)
        return _read_here(read, here, path, ids)


def _read_here(
    read: Callable[[str, Ids], RawPredictions], here: str, path: str, ids: Ids
) -> RawPredictions:
    """Read a file that is `here`; messages name its path."""
    try:
        return read(here, ids)._replace(name=path)
    except UsageError as error:
        error.message = error.message.replace(here, path)
        error.args = (error.message,)
        raise
    except (SourceError, OSError, ValueError, KeyError, EOFError, MemoryError) as error:
        reason = " ".join(str(error).split())
        raise UsageError(f"cannot read {path}: {reason}", hint=_HINT, path=path) from error


def _read_npy(path: str, _ids: Ids) -> RawPredictions:
    import numpy as np

    # Mapped, because a file may claim more than it holds, and must not take that much memory.
    array = np.load(path, mmap_mode="r", allow_pickle=False)
    if not isinstance(array, np.ndarray):
        raise ValueError("it is not a .npy file")
    return RawPredictions(path, None, _rows(np.array(array)))


def _read_csv(path: str, ids: Ids) -> RawPredictions:
    table = read_table(path, path)
    if table.faults:
        fault = table.faults[0]
        raise ValueError(f"line {fault.line}: {fault.reason}")
    if table.lines:
        table = table.with_header()
    _refuse_repeated(path, table.names)
    cells = ([text.strip() for text in table.texts(at)] for at in range(len(table.names)))
    columns = dict(zip(table.names, cells, strict=True))
    return _separate_ids(path, columns, ids)._replace(are_texts=True)


def _read_parquet(path: str, ids: Ids) -> RawPredictions:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file_or_path = seekable(Path(path))
        with pq.ParquetFile(file_or_path) as file:
            names = file.schema_arrow.names
            _refuse_repeated(path, names)
            table = read_bounded(file, file_or_path, names)
        return _separate_ids(path, {name: _cells(table.column(name)) for name in names}, ids)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from error


def _cells(column: Any) -> Any:  # pyarrow's stubs know no common type of columns
    import pyarrow as pa

    is_number = pa.types.is_floating(column.type) or pa.types.is_integer(column.type)
    if is_number and not column.null_count:
        return column.to_numpy()
    return _rows(column.to_pylist())


def _frame_columns(frame: Any) -> dict[str, Any]:
    """Return the columns of a pandas-like DataFrame, including an index of ids."""
    if type(frame.index).__name__ != "RangeIndex" or frame.index.name:
        frame = frame.reset_index(names=None if frame.index.name else "")
    names = [str(name) for name in frame.columns]
    _refuse_repeated(_NAME, names)
    return {name: _rows(frame.iloc[:, at].to_numpy()) for at, name in enumerate(names)}


def _refuse_repeated(where: str, names: Sequence[str]) -> None:
    for name in names:
        if names.count(name) > 1:
            raise UsageError(f"{where}: several columns {name!r}", hint="rename all but one")


def _separate_ids(where: str, columns: dict[str, Any], ids: Ids) -> RawPredictions:
    """Separate the id column: recognised by its name, or without a name by its cells."""
    named = [name for name in columns if name in ids.names]
    if len(named) > 1:
        raise UsageError(
            f"{where}: the ids may be in any of the columns {', '.join(named)}",
            hint="keep only one of them",
        )
    index = columns.pop("", None)  # how pandas writes an index without a name
    if named:
        return RawPredictions(where, _texts(columns.pop(named[0])), None, columns)
    if index is None:
        return RawPredictions(where, None, None, columns)
    texts = _texts(index)
    are_ids = set(texts) <= ids.known
    if are_ids and texts == [str(row) for row in range(len(texts))]:
        raise UsageError(
            f"{where}: the first column may hold ids or row numbers",
            hint=f"name it {min(ids.names)} if it holds ids; otherwise remove it",
        )
    return RawPredictions(where, texts if are_ids else None, None, columns)


def _as_array(values: Any) -> NDArray[Any]:
    """Return an array of any framework as NumPy; raise ValueError for rows of unequal length."""
    import numpy as np

    if hasattr(values, "detach"):  # PyTorch: may be on a GPU, or of a type that NumPy lacks
        values = values.detach().cpu()
        values = values.float() if values.is_floating_point() else values
    array = np.asarray(values)
    if array.dtype.kind == "V":  # bfloat16 of JAX
        array = array.astype(np.float32)
    if array.dtype.kind == "S":
        array = np.char.decode(array, "utf-8", "replace")
    return array


def _rows(values: Any) -> Any:
    """Return rows as an array, or as a list if they are of different types or lengths."""
    try:
        if isinstance(values, list) and values and hasattr(values[0], "detach"):
            values = list(map(_as_array, values))
        array = _as_array(values)
    except ValueError:
        return list(values)
    except (TypeError, RuntimeError) as error:
        raise UsageError(f"predictions cannot be read as an array: {error}", hint=_HINT) from error
    if array.ndim == 0:
        raise UsageError(
            f"predictions are {type(values).__name__}, not one for each image",
            hint="give an array, a table, or a dict of predictions by id",
        )
    return array.tolist() if array.dtype.kind == "O" else array


def _texts(ids: Any) -> list[str]:
    """Return ids as text; each may be text, bytes, a number, or a tensor of one."""
    found = []
    for one in ids:
        value = one.numpy() if hasattr(one, "numpy") else one
        value = value.item() if hasattr(value, "item") else value
        text = value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
        found.append(text.strip())
    return found


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
        return _unambiguous([*enumerate(self.names), *enumerate(self.values)])

    @cached_property
    def _squashed(self) -> Mapping[str, int]:
        return _unambiguous([(label, squashed(text)) for text, label in self.label_of.items()])

    def find(self, text: str) -> int | None:
        """Return the label of a name, in any spelling, or None."""
        label = self.label_of.get(text)
        return self._squashed.get(squashed(text)) if label is None else label

    def number(self, text: str) -> int | None:
        """Return a label written as a number, or None."""
        is_short = text.isascii() and text.isdecimal() and len(text) < 10
        return int(text) if is_short and int(text) < len(self) else None


def _unambiguous(pairs: Sequence[tuple[int, str]]) -> dict[str, int]:
    found: dict[str, set[int]] = {}
    for label, text in pairs:
        found.setdefault(text, set()).add(label)
    return {text: min(labels) for text, labels in found.items() if len(labels) == 1}


class Predictions(NamedTuple):
    """Scores or labels, with a row for each image."""

    scores: Scores | None = None
    """A column for each class, in the order of labels."""
    labels: Sequence[tuple[int, ...]] = ()
    """If there are no scores."""

    def take(self, rows: Sequence[int]) -> Predictions:
        """Return some rows, in that order."""
        if self.scores is not None:
            return Predictions(scores=self.scores[list(rows)])
        return Predictions(labels=[self.labels[row] for row in rows])


def are_probabilities(numbers: NDArray[Any]) -> bool:
    """Return whether all numbers are from 0 to 1."""
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


def interpret(raw: RawPredictions, classes: Classes, ids: Sequence[str]) -> Predictions:
    """Return predictions as scores or labels; `ids` has the id of each row, for messages.

    Raises UsageError if the meaning is not clear, or if a number is not finite.
    """
    reader = _Interpreter(raw, classes, ids)
    if raw.columns is None:
        return reader.from_rows(raw.values)
    return reader.from_columns(raw.columns)


class _Interpreter(NamedTuple):
    raw: RawPredictions
    classes: Classes
    ids: Sequence[str]

    def from_columns(self, columns: Mapping[str, Any]) -> Predictions:
        """Read columns with names: one for each class, or only one."""
        import numpy as np

        classes = self.classes
        if not columns:
            raise self._error("no column but the ids")
        if len(columns) == 1:
            return self._one_column(*next(iter(columns.items())))
        labels = self._labels_of(list(columns), may_be_numbers=True)
        if labels is None:
            unknown = [n for n in columns if classes.find(n) is None and classes.number(n) is None]
            raise self._error(f"columns that are not classes: {listed(unknown or columns)}")
        if missing := [name for at, name in enumerate(classes.names) if at not in labels]:
            raise self._error(f"no column for {listed(missing)}")
        by_label = dict(zip(labels, columns.items(), strict=True))
        stacked = [self._floats(*by_label[label]) for label in range(len(classes))]
        return self._finite(np.stack(stacked, axis=1))

    def _one_column(self, name: str, cells: Any) -> Predictions:
        found = self.from_rows(cells)
        is_first_class = len(self.classes) == 2 and self.classes.label_of.get(name) == 0
        is_single = getattr(cells, "ndim", 1) == 1
        if found.scores is not None and is_first_class and is_single:
            # A column named after the first of two classes has the scores of that one.
            return Predictions(scores=found.scores[:, ::-1])
        return found

    def _floats(self, column: str, cells: Any) -> Scores:
        import numpy as np

        if isinstance(cells, np.ndarray) and cells.dtype.kind in "fiub" and cells.ndim == 1:
            return cells if cells.dtype.kind == "f" else cells.astype(np.float64)
        numbers = list(map(_number, cells))
        if None in numbers:
            row = numbers.index(None)
            cell = str(cells[row])[:40]
            raise self._error(f"{cell!r}, for {self.ids[row]} in column {column}, is not a number")
        return np.array(numbers, dtype=np.float64)

    def from_rows(self, values: Any) -> Predictions:
        """Read a list or an array with a row for each image."""
        import numpy as np

        if isinstance(values, np.ndarray) and values.dtype.kind == "U" and values.ndim in (1, 2):
            values = values.tolist()
        if isinstance(values, list):
            are_texts = all(isinstance(row, str) for row in values)
            return self._from_texts(values) if are_texts else self._from_lists(values)
        array: NDArray[Any] = values
        if array.dtype.kind not in "fiub" or array.ndim not in (1, 2):
            shape = "x".join(map(str, array.shape))
            raise self._error(f"an array of {shape} {array.dtype} has no row for each image")
        count = len(self.classes)
        if array.ndim == 2 and array.shape[1] == 1 and count != 1:
            array = array[:, 0]
        if array.ndim == 1:
            return self._from_numbers(array)
        if array.shape[1] != count:
            raise self._error(
                f"{array.shape[1]} numbers for each image, but the dataset has {count} classes"
            )
        return self._finite(array if array.dtype.kind == "f" else array.astype(np.float64))

    def _from_numbers(self, numbers: NDArray[Any]) -> Predictions:
        """Read one number for each image: a label, or the probability of the second of two."""
        import numpy as np

        count = len(self.classes)
        if numbers.dtype.kind == "f":
            self._finite(numbers[:, None])
            if count == 2 and not self.classes.is_multilabel:
                other = 1 - numbers if are_probabilities(numbers) else np.zeros_like(numbers)
                return Predictions(scores=np.stack([other, numbers], axis=1))
        are_labels = (numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers))
        if not are_labels.all():
            row = int(np.flatnonzero(~are_labels)[0])
            raise self._error(
                f"{numbers[row]}, for {self.ids[row]}, is not one of the labels 0 to {count - 1}"
            )
        return Predictions(labels=[(int(number),) for number in numbers])

    def _from_texts(self, texts: Sequence[str]) -> Predictions:
        """Read one text for each image: a class, several of them, or a number."""
        import numpy as np

        if self.classes.is_multilabel:
            return self._from_lists([self._split(text) for text in texts])
        labels = self._labels_of(texts, may_be_numbers=self.raw.are_texts)
        if labels is not None:
            return Predictions(labels=[(label,) for label in labels])
        numbers = list(map(_number, texts))
        if texts and None not in numbers:
            return self._from_numbers(np.array(numbers, dtype=np.float64))
        return self._from_lists([[text] for text in texts])

    def _split(self, text: str) -> list[str]:
        separator = self.classes.separator
        is_one = text in self.classes.label_of or not separator
        parts = [text] if is_one else text.split(separator)
        return [part.strip() for part in parts if part.strip()]

    def _from_lists(self, rows: Sequence[Any]) -> Predictions:
        """Read the class names of each image."""
        self._refuse_mixed(rows)
        flat = [text.strip() for texts in rows for text in texts]
        labels = self._labels_of(flat, may_be_numbers=self.raw.are_texts)
        ends = [0, *accumulate(map(len, rows))]
        if labels is None:
            bad = next(at for at, text in enumerate(flat) if self.classes.find(text) is None)
            row = next(row for row, end in enumerate(ends[1:]) if bad < end)
            hint = f"the classes are {listed(self.classes.names)}"
            raise self._error(f"{flat[bad]!r}, for {self.ids[row]}, is not a class", hint)
        sets = [tuple(sorted(set(labels[start:end]))) for start, end in pairwise(ends)]
        return Predictions(labels=sets)

    def _refuse_mixed(self, rows: Sequence[Any]) -> None:
        for row, texts in enumerate(rows):
            if type(texts) is not type(rows[0]):
                raise self._error(
                    f"different types: {_shown(rows[0])} for {self.ids[0]}, and "
                    f"{_shown(texts)} for {self.ids[row]}"
                )
        for row, texts in enumerate(rows):
            is_list = isinstance(texts, list | tuple | set | frozenset) or hasattr(texts, "tolist")
            if not is_list or not all(isinstance(text, str) for text in texts):
                raise self._error(
                    f"{_shown(texts)}, for {self.ids[row]}, is not a list of class names"
                )

    def _labels_of(self, texts: Sequence[str], *, may_be_numbers: bool) -> list[int] | None:
        """Return the labels of texts, all names or all numbers; None if some are neither.

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
            hint = "save them as .parquet, with labels as integers and names as text"
            raise self._error(f"cells such as {text} may be class names or labels", hint)
        if not (is_named or is_numbered):
            return None
        meant = named if is_named else numbered
        return [meant[text] for text in texts]

    def _finite(self, scores: Scores) -> Predictions:
        """Return scores; raise UsageError if a number is not finite."""
        import numpy as np

        rows = np.flatnonzero(~np.isfinite(scores).all(axis=1))
        if len(rows):
            shown = listed(self.ids[int(row)] for row in rows)
            raise self._error(f"NaN or infinite for {len(rows):,} images: {shown}")
        return Predictions(scores=scores)

    def _error(self, what: str, hint: str = "") -> UsageError:
        names = "class names" if self.classes.is_multilabel else "one label or class name"
        usual = f"give {len(self.classes)} numbers for each image, one for each class, or {names}"
        return UsageError(f"{self.raw.name}: {what}", hint=hint or usual)


def _number(cell: object) -> float | None:
    try:
        return float(cell)  # type: ignore[arg-type]  # it raises TypeError itself
    except (TypeError, ValueError, OverflowError):
        return None


def _shown(value: object) -> str:
    return "nothing" if value is None else repr(value)[:40]
