"""The columns of a DataFrame to pack, checked and renamed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from imgrec.errors import SourceError, UsageError
from imgrec.options import ColumnKind, ColumnOption, SourceOptions
from imgrec.options.source import ColumnValue
from imgrec.source.columns import refuse_bad_columns
from imgrec.spark.tables import Extras

if TYPE_CHECKING:
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import DataFrame

_INTEGERS = ("byte", "short", "integer", "long")
_KINDS = {
    **dict.fromkeys(_INTEGERS, ColumnKind.INT),
    **dict.fromkeys(("float", "double"), ColumnKind.FLOAT),
    "string": ColumnKind.TEXT,
}
_CASTS = {ColumnKind.INT: "bigint", ColumnKind.FLOAT: "double", ColumnKind.TEXT: "string"}
_NAMES = ("filename", "path")
"""The usual columns for the names of images that come as bytes."""


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


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A DataFrame with the columns filename, label, split, grp, image, c0, c1 ..."""

    rows: DataFrame
    is_path: bool
    """Whether `image` holds paths, not bytes."""
    extras: Extras
    defaults: tuple[ColumnValue, ...]
    """The value of a missing cell in each of `extras`."""
    layout: str


def frame_of(df: DataFrame, request: Request) -> Frame:
    """Select the requested columns; raise UsageError or SourceError if they do not fit."""
    refuse_bad_columns(SourceOptions(column=request.columns))
    image, is_path = _image(df, request.image)
    name = request.filename or _usual_name(df, request, is_path=is_path)
    kind = _kind(df, request.label)
    if kind not in (*_INTEGERS, "string"):
        raise SourceError(
            f"column {request.label} is {kind}, but labels must be text or whole numbers",
            hint="cast it to string, or name another column with label=",
        )
    extras = tuple((column.name, _extra_kind(df, column)) for column in request.columns)
    defaults = tuple(
        column.missing(kind) for column, (_, kind) in zip(request.columns, extras, strict=True)
    )
    roles = {"filename": name, "split": request.split, "grp": request.group, "label": request.label}
    rows = df.select(
        *(_column(df, column).cast("string").alias(role) for role, column in roles.items()),
        image.alias("image"),
        *(
            _column(df, column).cast(_CASTS[kind]).alias(f"c{at}")
            for at, (column, kind) in enumerate(extras)
        ),
    )
    parts = [f"{request.image} -> image", f"{request.label} -> label"]
    parts += [f"{request.split} -> split"] if request.split else []
    parts += [f"{request.group} -> group"] if request.group else []
    parts += [f"{column} -> {kind} feature" for column, kind in extras]
    layout = f"Spark DataFrame: {', '.join(parts)}"
    return Frame(rows=rows, is_path=is_path, extras=extras, defaults=defaults, layout=layout)


def _kind(df: DataFrame, name: str) -> str:
    found = {field.name: field.dataType.typeName() for field in df.schema.fields}
    if name not in found:
        raise UsageError(
            f"the DataFrame has no column {name}", hint=f"it has {', '.join(found) or 'none'}"
        )
    return found[name]


def _column(df: DataFrame, name: str) -> SparkColumn:
    from pyspark.sql import functions as f

    if not name:
        return f.lit("")
    _kind(df, name)
    return df["`" + name.replace("`", "``") + "`"]


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


def _extra_kind(df: DataFrame, column: ColumnOption) -> ColumnKind:
    kind = _kind(df, column.name)
    found = _KINDS.get(kind)
    if found is None or (column.kind and column.kind not in (found, ColumnKind.TEXT)):
        raise SourceError(
            f"column {column.name} is {kind}, not {column.kind or 'int, float or text'}",
            hint="cast it, or leave it out",
        )
    return column.kind or found
