"""The evidence of one written shard as JSON, so that a run that was cut off can be continued.

What the task of the shard says already (names, labels, columns) is not told again.
"""

from __future__ import annotations

import base64
import json
from array import array
from typing import Any

from imgrec.errors import DatasetError
from imgrec.model import Resized, ShardTask, Skipped, picked, picked_columns
from imgrec.outcome import RecordTable, ShardResult

_ARRAYS = {"offsets": "Q", "lengths": "Q", "shapes": "I"}
_BYTES = ("hashes", "signatures", "orientations", "tones")


def encode(result: ShardResult) -> bytes:
    """Encode a result as one line of JSON."""
    records = result.records
    value = {
        "filename": result.filename,
        "size": result.size,
        "sha256": result.sha256,
        "xxh3": result.xxh3,
        "plain_size": result.plain_size,
        "beside": result.beside,
        "source_bytes": result.source_bytes,
        "bad": result.bad,
        "transcoded": result.transcoded,
        "damaged": result.damaged,
        "resized": result.resized,
        **{name: _text(getattr(records, name).tobytes()) for name in _ARRAYS},
        "formats": " ".join(records.formats),
        **{name: _text(getattr(records, name)) for name in _BYTES},
    }
    return json.dumps(value).encode() + b"\n"


def decode(data: bytes, task: ShardTask) -> ShardResult:
    """Decode the result of a task; raise DatasetError if it is none of that task."""
    try:
        value = json.loads(data)
        result = _result(value, task)
        records = result.records
        count = len(records.filenames)
        sizes = {len(records.offsets), len(records.lengths), len(records.formats)}
        is_whole = sizes | {len(records.shapes) // 3, len(records.hashes) // 16} == {count}
        if value["filename"] != task.filename or not is_whole:
            raise ValueError("it is of another task")
    except (ValueError, KeyError, TypeError, OverflowError) as error:  # of 1e999 bytes
        raise DatasetError(f"not the result of {task.filename}", path=task.filename) from error
    return result


def _result(value: Any, task: ShardTask) -> ShardResult:  # JSON is untyped until here
    bad = tuple(Skipped(*file) for file in value["bad"])
    names = {file.filename for file in bad}
    places = [place for place, name in enumerate(task.filenames) if name not in names]
    columns: dict[str, Any] = {name: _bytes(value[name]) for name in _BYTES}
    columns |= {name: array(kind, _bytes(value[name])) for name, kind in _ARRAYS.items()}
    total, examples = value["resized"]
    return ShardResult(
        split=task.split,
        index=task.index,
        filename=task.filename,
        size=int(value["size"]),
        sha256=str(value["sha256"]),
        xxh3=str(value["xxh3"]),
        plain_size=int(value["plain_size"]),
        beside=tuple((str(name), int(size), str(sha)) for name, size, sha in value["beside"]),
        records=RecordTable(
            filenames=picked(task.filenames, places),
            labels=array("q", picked(task.labels, places)),
            label_sets=picked(task.label_sets, places),
            groups=picked(task.groups, places),
            columns=picked_columns(task.columns, places),
            formats=tuple(value["formats"].split()),
            **columns,
        ),
        source_bytes=int(value["source_bytes"]),
        bad=bad,
        transcoded=tuple(Skipped(*file) for file in value["transcoded"]),
        damaged=tuple(Skipped(*file) for file in value["damaged"]),
        resized=Resized(int(total), tuple(Skipped(*file) for file in examples)),
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
