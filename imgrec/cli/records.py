"""`imgrec head` and `imgrec show`: show records of a dataset, or write out an image."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from imgrec.cli.arguments import DATASET_ARGUMENTS, whole
from imgrec.cli.parser import argument, switch, verb
from imgrec.cli.render import emit, line, pick, table, this_terminal
from imgrec.text import number, visible

if TYPE_CHECKING:
    from imgrec.codec.example import Feature
    from imgrec.inspect.subject import RecordPlace
    from imgrec.read.record import Record

_TITLES = ("#", "class", "shape", "format", "bytes", "file")
_RIGHT = frozenset({0, 4})
_KINDS = {bytes: "bytes", int: "int64", float: "float"}
_SHOWN_BYTES = 16
_SHOWN_VALUES = 8
_MOST_TEXT = 200


@verb(
    (
        "imgrec head flowers",
        "imgrec head flowers -n 3 --split val",
        "imgrec head flowers --split 'train[100:]' --json",
    ),
    (
        *DATASET_ARGUMENTS,
        argument("-n", "N", "how many; default: 10", dest="count", type=whole, default=10),
        argument("--split", "S", "such as val or train[100:]; default: the first split"),
    ),
)
def head(parsed: Namespace) -> int:
    """Show the first records of a split: number, class, shape, format, bytes and file of each."""
    from imgrec import api
    from imgrec.inspect.subject import place_of, read_head

    dataset = api.open_dataset(parsed.dataset, data_dir=parsed.data_dir)
    part, records = read_head(dataset, parsed.split, parsed.count)
    found = [
        (record, place_of(dataset, position))
        for position, record in zip(part.numbers, records, strict=True)
    ]
    value = {
        **pick(dataset.info, "name version"),
        "records": [_record_value(record, place) for record, place in found],
    }
    rows = [_TITLES, *(_record_row(record, place) for record, place in found)]
    if found or parsed.json:
        emit(parsed, value, table(rows, this_terminal(), right=_RIGHT))
    return 0


@verb(
    (
        "imgrec show flowers 0",
        "imgrec show flowers rose/rose_01.jpg -o rose.jpg",
        "imgrec show flowers 3 --split val --raw",
    ),
    (
        *DATASET_ARGUMENTS,
        argument("record", "FILE|NUMBER", "path in the source, or number in the split"),
        argument(
            "--split", "S", "where to look; default: the first split for a number, all for a file"
        ),
        switch("--raw", "show the features as they are stored"),
        argument("-o", "FILE", "write the image there; - for stdout", dest="out"),
    ),
)
def show(parsed: Namespace) -> int:
    """Show one record: its file, label, shape, image, columns and shard."""
    from imgrec import api
    from imgrec.inspect.subject import find_number, place_of
    from imgrec.storage.named_files import write_new

    dataset = api.open_dataset(parsed.dataset, data_dir=parsed.data_dir)
    position = find_number(dataset, parsed.record, parsed.split)
    place = place_of(dataset, position)
    title = visible(f"{dataset.info.name}: record {place.number:,} of {place.split}")
    if parsed.raw:
        features = dict(sorted(dataset.features(position).items()))
        value = {**pick(place, "split number"), "features": _features_value(features)}
        rows = [_feature_row(name, values) for name, values in features.items()]
        emit(parsed, value, [title, *table(rows, this_terminal())])
        return 0
    record = next(iter(dataset.read_all([position])))
    if parsed.out == "-":
        sys.stdout.buffer.write(record.image)
        return 0
    if parsed.out:
        write_new(parsed.out, record.image)
    lines = [title, *_record_lines(record, place)]
    if parsed.out:
        lines.append(line("written", parsed.out))
    emit(parsed, _record_value(record, place), lines)
    return 0


def _record_value(record: Record, place: RecordPlace) -> dict[str, object]:
    """Return a record without its image."""
    from imgrec.inspect.subject import format_of

    return {
        **pick(place, "split number shard"),
        "number_in_shard": place.in_shard,
        **pick(record, "filename label labels"),
        "classes": record.class_names,
        "shape": record.shape,
        "format": format_of(record),
        "bytes": len(record.image),
        "columns": record.columns,
    }


def _features_value(features: Mapping[str, Feature]) -> dict[str, object]:
    return {
        name: {"kind": _kind(values), "values": list(values)} for name, values in features.items()
    }


def _record_row(record: Record, place: RecordPlace) -> tuple[str, ...]:
    from imgrec.inspect.subject import format_of

    columns = [f"{name}={_column_text(value)}" for name, value in record.columns.items()]
    return (
        f"{place.split} {place.number}",
        _labels(record) or "no label",
        str(record.shape),
        format_of(record),
        f"{len(record.image):,}",
        "  ".join(filter(None, (record.filename, *columns))),
    )


def _record_lines(record: Record, place: RecordPlace) -> Iterator[str]:
    from imgrec.inspect.subject import format_of

    height, width, channels = record.shape
    numbers = ", ".join(map(str, record.labels))
    yield line("file", record.filename or "none")
    yield line("label", f"{numbers} {_labels(record)}" if numbers else "none")
    yield line("size", f"{width} x {height}, {number(channels, 'channel')}")
    yield line("image", f"{format_of(record)}, {len(record.image):,} bytes")
    yield line("", _first_bytes(record.image))
    for name, value in record.columns.items():
        yield line("column", f"{name} = {_column_text(value)}")
    yield line("shard", f"{place.shard}, record {place.in_shard:,}")


def _labels(record: Record) -> str:
    return ", ".join(record.class_names or map(str, record.labels))


def _column_text(value: object) -> str:
    if isinstance(value, tuple):
        return ", ".join(map(_column_text, value))
    return _bytes_text(value) if isinstance(value, bytes) else str(value)


def _kind(values: Feature) -> str:
    """Name the kind of a feature as TensorFlow does; an empty one has no known kind."""
    return _KINDS[type(values[0])] if values else "empty"


def _feature_row(name: str, values: Feature) -> tuple[str, str, str]:
    rest = len(values) - _SHOWN_VALUES
    more = f", … {rest:,} more" if rest > 0 else ""
    shown = _column_text(tuple(values[:_SHOWN_VALUES]))
    return name, f"{_kind(values)}[{len(values)}]", shown + more


def _bytes_text(value: bytes) -> str:
    """Return bytes as text if they are text, otherwise their number and the first of them."""
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and len(text) <= _MOST_TEXT and (text or not value):
        return repr(text)
    return f"{len(value):,} bytes: {_first_bytes(value)}"


def _first_bytes(data: bytes) -> str:
    return data[:_SHOWN_BYTES].hex(" ") + (" …" if len(data) > _SHOWN_BYTES else "")
