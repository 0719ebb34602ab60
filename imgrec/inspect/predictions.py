"""Read predictions from a file, an array, a table or a dict by id."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from imgrec.codec.untrusted import read_bounded
from imgrec.errors import SourceError, UsageError
from imgrec.source.tables import read_table
from imgrec.storage.paths import seekable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_NAME = "the predictions"
_HINT = "use a .npy, .csv or .parquet file"


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
    if not os.path.isfile(path):
        why = "is not a file" if os.path.lexists(path) else "does not exist"
        raise UsageError(f"{path} {why}", hint=_HINT, path=path)
    try:
        return read(path, ids)
    except UsageError:
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
