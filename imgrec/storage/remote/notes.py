"""Notes of what is finished, kept on a store beside a dataset in the making.

{"shard": [size, tag], ...} · line feed · what the run itself has to note
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import NamedTuple

from imgrec.storage.remote.listing import objects
from imgrec.storage.remote.reading import Span, read_spans


class Evidence(NamedTuple):
    """What a store said of an object when it had been sent."""

    size: int
    tag: str


def encode_note(files: Mapping[str, Evidence], data: bytes) -> bytes:
    """Return a note about files that were sent."""
    return json.dumps(files).encode() + b"\n" + data


def decode_note(note: bytes) -> tuple[dict[str, Evidence], bytes]:
    """Return the files of a note, and what else it says; nothing if it is no note."""
    head, _, data = note.partition(b"\n")
    try:
        sent = json.loads(head).items()
        return {str(name): Evidence(int(size), str(tag)) for name, (size, tag) in sent}, data
    except (ValueError, TypeError, AttributeError):
        return {}, b""


def read_notes(folder: str) -> dict[str, bytes]:
    """Read all notes in a folder, many at once; those that are gone meanwhile are left out."""
    listed = objects(folder)
    spans = [Span(f"{folder.rstrip('/')}/{found.path}", 0, found.stat.size) for found in listed]
    answers = zip(listed, read_spans(spans), strict=True)
    return {found.path: data for found, data in answers if isinstance(data, bytes)}
