"""The evidence of one written shard as JSON, so that a run that was cut off can be continued.

What the task of the shard says already (names, labels, columns) is not told again.
"""

from __future__ import annotations

import base64
import json
from array import array
from typing import Any

from imgrec.errors import DatasetError
from imgrec.model import ShardTask
from imgrec.notes import Note, NoteKind
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
        "notes": result.notes,
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
        count = len(records.samples.filenames)
        sizes = {len(records.offsets), len(records.lengths), len(records.formats)}
        is_whole = sizes | {len(records.shapes) // 3, len(records.hashes) // 16} == {count}
        if value["filename"] != task.filename or not is_whole:
            raise ValueError("it is of another task")
    except (ValueError, KeyError, TypeError, OverflowError) as error:  # of 1e999 bytes
        raise DatasetError(f"not the result of {task.filename}", path=task.filename) from error
    return result


def _result(value: Any, task: ShardTask) -> ShardResult:  # JSON is untyped until here
    notes = tuple(
        Note(filename, reason, NoteKind(kind), other, unlisted)
        for filename, reason, kind, other, unlisted in value["notes"]
    )
    names = {note.filename for note in notes if note.kind is NoteKind.BAD}
    places = [place for place, name in enumerate(task.samples.filenames) if name not in names]
    columns: dict[str, Any] = {name: _bytes(value[name]) for name in _BYTES}
    columns |= {name: array(kind, _bytes(value[name])) for name, kind in _ARRAYS.items()}
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
            samples=task.samples.written(places),
            formats=tuple(value["formats"].split()),
            **columns,
        ),
        source_bytes=int(value["source_bytes"]),
        notes=notes,
    )


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text, validate=True)
