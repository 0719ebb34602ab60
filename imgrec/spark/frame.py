"""Which columns of a DataFrame are packed, and as what."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from imgrec.errors import SourceError, UsageError
from imgrec.model import SourceLayout
from imgrec.options import ColumnKind, ColumnOption, SourceKind, SourceOptions
from imgrec.source.columns import refuse_bad_columns
from imgrec.spark.job import SQL_TYPES, Form
from imgrec.text import suggestion

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_INTEGERS = ("byte", "short", "integer", "long")
_KINDS = {
    **dict.fromkeys(_INTEGERS, ColumnKind.INT),
    **dict.fromkeys(("float", "double"), ColumnKind.FLOAT),
    "decimal": ColumnKind.FLOAT,
    **dict.fromkeys(("string", "boolean", "date", "timestamp", "timestamp_ntz"), ColumnKind.TEXT),
}
"""The kind of feature that a Spark type becomes; an array becomes text, as in a table."""
_LABELS = (*_INTEGERS, "string", "boolean")
_CELLS = (*_LABELS, "float", "double", "decimal", "date")
"""What the arrays of extra columns may hold."""
_DAY_US, _HOUR_US, _MINUTE_US, _SECOND_US = 86_400_000_000, 3_600_000_000, 60_000_000, 1_000_000
_NAMES = ("filename", "path")
"""The usual columns for the names of images that come as bytes."""
_INT64_DIGITS = 18


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """The columns to pack, by their role; "" for none."""

    image: str
    label: str
    filename: str = ""
    split: str = ""
    group: str = ""
    columns: tuple[ColumnOption, ...] = ()
    root: str = ""
    """Removed from the front of file names."""
    label_sep: str = ""
    """Separates the labels of a row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A DataFrame with the columns filename, label, split, grp, image, c0, c1 ..."""

    rows: DataFrame
    is_path: bool
    """Whether `image` holds paths, not bytes."""
    form: Form
    layout: SourceLayout


def frame_of(df: DataFrame, request: Request) -> Frame:
    """Select the requested columns; raise UsageError or SourceError if they do not fit."""
    refuse_bad_columns(SourceOptions(column=request.columns))
    image, is_path = _image(df, request.image)
    name = request.filename or _usual_name(df, request, is_path=is_path)
    extras = tuple((column.name, _extra_kind(df, column)) for column in request.columns)
    form = Form(
        extras=extras,
        defaults=tuple(
            column.missing(kind) for column, (_, kind) in zip(request.columns, extras, strict=True)
        ),
        is_multilabel=bool(request.label_sep) or _kind(df, request.label) == "array",
    )
    roles = {"filename": name, "split": request.split, "grp": request.group}
    rows = df.select(
        *(_column(df, column).cast("string").alias(role) for role, column in roles.items()),
        _label(df, request).alias("label"),
        image.alias("image"),
        *(_extra(df, *extra).alias(f"c{at}") for at, extra in enumerate(extras)),
    )
    meanings = [
        (request.image, "image"),
        (request.label, "labels" if form.is_multilabel else "label"),
    ]
    meanings += [(request.split, "split")] if request.split else []
    meanings += [(request.group, "group")] if request.group else []
    meanings += [(column, f"{kind} feature") for column, kind in extras]
    layout = SourceLayout.of_columns(SourceKind.MANIFEST, "Spark DataFrame", meanings)
    return Frame(rows=rows, is_path=is_path, form=form, layout=layout)


def _kind(df: DataFrame, name: str) -> str:
    """Return the name of a column's type; raise UsageError if there is no such column."""
    found = [field for field in df.schema.fields if field.name == name]
    if not found:
        raise UsageError(f"the DataFrame has no column {name}", hint=suggestion(df.columns, name))
    if len(found) > 1:
        raise UsageError(
            f"the DataFrame has {len(found)} columns called {name}", hint="rename or drop one"
        )
    return found[0].dataType.typeName()


def _element(df: DataFrame, name: str) -> str:
    """Return the name of the type that an array holds; "" for any other column."""
    kind: Any = df.schema[name].dataType if _kind(df, name) == "array" else None
    return kind.elementType.typeName() if kind else ""


def _label(df: DataFrame, request: Request) -> SparkColumn:
    """Return the column of labels as text, or as arrays of texts."""
    from pyspark.sql import functions as f

    kind, element = _kind(df, request.label), _element(df, request.label)
    column = _column(df, request.label)
    if element in _LABELS:
        return column.cast("array<string>")
    if kind in _LABELS:
        return column.cast("string")
    # pandas turns whole numbers into floats if some are missing.
    is_number = kind in ("float", "double", "decimal")
    if is_number and not df.where(~f.isnan(column) & (column != f.floor(column))).limit(1).count():
        return f.when(~f.isnan(column), column.cast("bigint")).cast("string")
    raise SourceError(
        f"column {request.label} is {f'array of {element}' if element else kind}, but labels must "
        "be text, whole numbers, booleans or arrays of them",
        hint="cast it to string, or name another column with label=",
    )


def _column(df: DataFrame, name: str) -> SparkColumn:
    from pyspark.sql import functions as f

    if not name:
        return f.lit("")
    _kind(df, name)
    return df["`" + name.replace("`", "``") + "`"]


def _plain(df: DataFrame, name: str) -> SparkColumn:
    """Return a column whose text is the same in every time zone of a session."""
    from pyspark.sql import functions as f

    column, kind = _column(df, name), _kind(df, name)
    if kind == "timestamp_ntz":
        text = column.cast("string")  # without the zeros at the end of its fraction
        return f.when(f.length(text) > len("2024-01-02 03:04:05"), f.rpad(text, 26, "0")).otherwise(
            text
        )
    if kind != "timestamp":
        return column
    us = f.unix_micros(column)
    rest = f.pmod(us, f.lit(_DAY_US))
    day = f.date_add(f.lit("1970-01-01").cast("date"), f.round((us - rest) / _DAY_US).cast("int"))
    minutes, seconds = f.pmod(rest, f.lit(_HOUR_US)), f.pmod(rest, f.lit(_MINUTE_US))
    parts = (rest, _HOUR_US), (minutes, _MINUTE_US), (seconds, _SECOND_US)
    clock = [f.lpad(f.floor(left / unit).cast("string"), 2, "0") for left, unit in parts]
    fraction = f.pmod(rest, f.lit(_SECOND_US))
    digits = f.concat(f.lit("."), f.lpad(fraction.cast("string"), 6, "0"))
    shown = f.when(fraction == 0, f.lit("")).otherwise(digits)
    return f.concat(day.cast("string"), f.lit(" "), f.concat_ws(":", *clock), shown)


def _image(df: DataFrame, name: str) -> tuple[SparkColumn, bool]:
    """Return the image column and whether it holds paths."""
    kind = _kind(df, name)
    column = _column(df, name)
    if kind == "binary":
        return column, False
    if kind == "string":
        return column, True
    if kind == "struct" and "origin" in df.schema[name].dataType.names:  # type: ignore[attr-defined]  # it is a struct
        # Spark's `image` source holds pixels. We pack the file they were decoded from.
        return column["origin"], True
    raise SourceError(
        f"column {name} is {kind}, but images must be bytes, paths or Spark's image source",
        hint="name another column with image=",
    )


def _usual_name(df: DataFrame, request: Request, *, is_path: bool) -> str:
    if is_path and _kind(df, request.image) == "string":
        return request.image
    found = [name for name in _NAMES if name in df.columns]
    if not found:
        raise UsageError(
            "the DataFrame has no column filename or path",
            hint="name the column of unique file names with filename=",
        )
    return found[0]


def _extra(df: DataFrame, name: str, kind: ColumnKind) -> SparkColumn:
    """Return an extra column as its kind, as far as Spark does what a table does.

    Executors turn arrays into text, and floats into integers, as some may not be whole.
    """
    if _element(df, name):
        return _column(df, name)
    is_float = kind is ColumnKind.INT and _usual_kind(df, name) is ColumnKind.FLOAT
    return _plain(df, name).cast("double" if is_float else SQL_TYPES[kind])


def _extra_kind(df: DataFrame, column: ColumnOption) -> ColumnKind:
    """Return the kind of a feature; raise SourceError if its column cannot be one."""
    usual = _usual_kind(df, column.name)
    if usual is None or (usual is ColumnKind.TEXT and column.kind not in (None, usual)):
        element = _element(df, column.name)
        kind = f"array of {element}" if element else _kind(df, column.name)
        raise SourceError(
            f"column {column.name} is {kind}, not {column.kind or 'int, float or text'}",
            hint="cast it, or leave it out",
        )
    return column.kind or usual


def _usual_kind(df: DataFrame, name: str) -> ColumnKind | None:
    """Return the kind of feature that a column becomes; None if it cannot be one."""
    kind = _kind(df, name)
    if kind == "decimal" and _is_whole(df.schema[name].dataType):
        return ColumnKind.INT
    return ColumnKind.TEXT if _element(df, name) in _CELLS else _KINDS.get(kind)


def _is_whole(decimal: Any) -> bool:  # PySpark is imported late
    """Return whether all values of a decimal type are integers of 64 bits."""
    return bool(decimal.scale == 0 and decimal.precision <= _INT64_DIGITS)
