"""Records and their features, as text for people and as values for JSON."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.codec.example import Feature
    from imgrec.inspect.records import Place
    from imgrec.read.record import Record

_KINDS = {bytes: "bytes", int: "int64", float: "float"}
_SHOWN_BYTES = 16
_SHOWN_VALUES = 8
_MOST_TEXT = 200


def labels_text(record: Record) -> str:
    """Name the classes of a record."""
    return ", ".join(record.class_names or map(str, record.labels))


def columns_text(record: Record) -> str:
    """Return the columns of the source that a record has."""
    return "  ".join(f"{name}={column_text(value)}" for name, value in record.columns.items())


def column_text(value: object) -> str:
    """Return the value of a column for people."""
    if isinstance(value, tuple):
        return ", ".join(map(column_text, value))
    return _bytes_text(value) if isinstance(value, bytes) else str(value)


def record_value(record: Record, place: Place) -> dict[str, object]:
    """Return a record, but for its image, as a JSON value."""
    from imgrec.inspect.records import format_of

    return {
        "split": place.split,
        "number": place.number,
        "shard": place.shard,
        "number_in_shard": place.in_shard,
        "filename": printable(record.filename),
        "label": record.label,
        "labels": list(record.labels),
        "classes": [printable(name) for name in record.class_names],
        "shape": list(record.shape),
        "format": format_of(record),
        "bytes": len(record.image),
        "columns": {name: _json(value) for name, value in record.columns.items()},
    }


def features_value(features: Mapping[str, Feature]) -> dict[str, object]:
    """Return raw features as a JSON value: bytes in base64, "NaN" as text, as protobuf does."""
    return {
        printable(name): {"kind": kind_of(values), "values": [_json(value) for value in values]}
        for name, values in sorted(features.items())
    }


def _json(value: object) -> object:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, tuple):
        return [_json(one) for one in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "Infinity", -math.inf: "-Infinity"}.get(value, "NaN")
    return printable(value) if isinstance(value, str) else value


def kind_of(values: Feature) -> str:
    """Name the kind of a feature in the words of TensorFlow; nothing tells that of an empty one."""
    return _KINDS[type(values[0])] if values else "empty"


def feature_row(name: str, values: Feature) -> tuple[str, str, str]:
    """Return name, kind and values of a raw feature for people."""
    shown = ", ".join(
        _bytes_text(value) if isinstance(value, bytes) else str(value)
        for value in values[:_SHOWN_VALUES]
    )
    rest = len(values) - _SHOWN_VALUES
    text = shown + (f", … {rest:,} more" if rest > 0 else "")
    return name, f"{kind_of(values)}[{len(values)}]", text


def _bytes_text(value: bytes) -> str:
    """Return bytes as text if they are, or else their number and beginning."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        pass
    else:
        if text.isprintable() and len(text) <= _MOST_TEXT:
            return repr(text)
    return f"{len(value):,} bytes: {beginning(value)}"


def beginning(data: bytes) -> str:
    """Return the first bytes of some in hex."""
    return data[:_SHOWN_BYTES].hex(" ") + (" …" if len(data) > _SHOWN_BYTES else "")
