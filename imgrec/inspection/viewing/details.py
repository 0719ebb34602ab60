"""All there is to say of one record, down to its raw features."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from imgrec.codec.example import Feature
from imgrec.codec.sniff import sniff
from imgrec.errors import ImgrecError
from imgrec.inspection.viewing.opened import Opened
from imgrec.read.record import Record
from imgrec.text import printable

_SHOWN_VALUES = 64
_SHOWN_CHARACTERS = 2000
_SHOWN_BYTES = 48
_KINDS: Mapping[type, str] = {bytes: "bytes", int: "int64", float: "float"}


def details(opened: Opened, number: int) -> dict[str, object]:
    """Return what a record holds, as a JSON value; of a damaged one, what is wrong with it."""
    dataset = opened.dataset
    shard, place = dataset.locate(number)
    columns = opened.catalogue.columns
    split = columns.splits[number]
    value: dict[str, object] = {
        "number": number,
        "split": printable(columns.split_names[split]),
        "split_place": number - int(columns.splits.searchsorted(split)),
        "shard": Path(shard).name,
        "place": place,
    }
    try:
        value["features"] = [
            _feature(name, feature) for name, feature in sorted(dataset.features(number).items())
        ]
        return value | _parsed(dataset.read(number))
    except ImgrecError as error:
        return value | {"error": printable(str(error)), "hint": printable(error.hint)}


def _parsed(record: Record) -> dict[str, object]:
    height, width, channels = record.shape
    return {
        "filename": printable(record.filename),
        "labels": list(record.labels),
        "height": height,
        "width": width,
        "channels": channels,
        "format": sniff(record.image[:64]),
        "bytes": len(record.image),
    }


def _feature(name: str, values: Feature) -> dict[str, object]:
    kind = _KINDS[type(values[0])] if values else "empty"
    shown = ", ".join(_texts(values[:_SHOWN_VALUES]))
    more = len(values) > _SHOWN_VALUES or len(shown) > _SHOWN_CHARACTERS
    return {
        "name": printable(name),
        "kind": kind,
        "count": len(values),
        "bytes": sum(len(value) for value in values if isinstance(value, bytes)),
        "text": shown[:_SHOWN_CHARACTERS] + " …" * more,
    }


def _texts(values: Sequence[bytes | int | float]) -> Iterator[str]:
    """Yield values as text: numbers in JSON would lose digits in a browser."""
    for value in values:
        yield _text(value) if isinstance(value, bytes) else repr(value)


def _text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and (text or not value):
        return f'"{text}"'
    return value[:_SHOWN_BYTES].hex(" ") + " …" * (len(value) > _SHOWN_BYTES)
