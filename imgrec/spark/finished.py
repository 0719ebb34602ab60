"""The tasks of shards, and the shards that an earlier run has finished.

A worker notes each shard that it has written, with the fingerprint of its task: names, labels,
columns, options, and the hashes of images that are in the DataFrame. A run that continues another
computes the fingerprints first, and writes only shards that are not noted so.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import json_files
from imgrec.errors import DatasetError, ExecutionError
from imgrec.model import Blob, Column, Samples, ShardTask
from imgrec.options import ColumnKind
from imgrec.outcome import ShardResult
from imgrec.packing.reuse import Members, SourceCheck, files_are_intact, sealed, unsealed
from imgrec.planning.shards import record_bytes, task_facts
from imgrec.spark.job import (
    Columns,
    Form,
    batches_of,
    by_key,
    read_result,
    write_result,
)
from imgrec.storage.attempts import Attempt, is_there
from imgrec.text import path_of

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN = {
    "shard": "int", "records": "int", "fingerprint": "string", "files": "array<string>"
}  # fmt: skip
"""`files` are those of a shard that is kept: their names, or the URLs where a worker has put them.
"""
_COLUMNS = ("filenames", "labels", "label_sets", "groups", "columns")
"""The columns of the task that the encoded result leaves out."""


def written_row(
    number: int, records: int, fingerprint: str, files: Sequence[str] = ()
) -> Iterator[pa.RecordBatch]:
    """Yield a row of `WRITTEN`."""
    columns: Columns = {
        "shard": [number], "records": [records], "fingerprint": [fingerprint], "files": [files]
    }  # fmt: skip
    yield from batches_of(columns, WRITTEN)


def facts_file(number: int) -> str:
    """Name the result file with the facts that decide about a shard."""
    return f"{number}.facts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tasks:
    """Makes the task of a shard from its rows, and knows what identifies it."""

    shards: tuple[ShardTask, ...]
    """Without their samples."""
    form: Form
    has_groups: bool
    facts: bytes
    """What decides about all shards."""
    folder: str
    """Where facts go that decide about the dataset."""

    def of(self, number: int, rows: Columns, blobs: Sequence[Blob]) -> tuple[ShardTask, str]:
        """Return a task and its fingerprint."""
        task = replace(
            self.shards[number],
            expected_bytes=sum(record_bytes(rows["size"], rows["filename"])),
            samples=Samples(
                blobs=tuple(blobs),
                filenames=tuple(rows["filename"]),
                sizes=tuple(rows["size"]),
                labels=tuple(rows["label"]),
                label_sets=self.form.label_sets(rows),
                groups=tuple(rows["grp"]) if self.has_groups else (),
                columns=self.form.columns(rows),
            ),
        )
        facts = task_facts(task)
        write_result(self.folder, facts_file(number), facts)
        digests = b"".join(rows["digest"])
        return task, hashlib.sha256(b"\0".join((self.facts, facts, digests))).hexdigest()


class FinishedShard(NamedTuple):
    """What a worker notes about a shard that it has written."""

    fingerprint: str
    """That of its task."""
    result: ShardResult
    files: Mapping[str, Attempt]
    """Where its files are, if they are not in their place."""

    def note(self) -> bytes:
        """Return the note about it."""
        samples = self.result.records.samples
        columns = {name: getattr(samples, name) for name in _COLUMNS}
        head = {"fingerprint": self.fingerprint, "files": self.files, **columns}
        return sealed(json.dumps(head).encode() + b"\n" + json_files.encode_result(self.result))

    @classmethod
    def of_note(cls, note: bytes, shard: ShardTask) -> FinishedShard | None:
        """Read a note; return None if it is damaged, or that of another way to pack."""
        head, _, result = unsealed(note).partition(b"\n")
        try:
            value = json.loads(head)
            columns = [Column(name, ColumnKind(k), tuple(v)) for name, k, v in value["columns"]]
            samples = Samples(
                filenames=tuple(value["filenames"]),
                labels=tuple(value["labels"]),
                label_sets=tuple(map(tuple, value["label_sets"])),
                groups=tuple(value["groups"]),
                columns=tuple(columns),
            )
            return cls(
                value["fingerprint"],
                json_files.decode_result(result, replace(shard, samples=samples)),
                {name: Attempt(*sent) for name, sent in value["files"].items()},
            )
        except (ValueError, TypeError, KeyError, DatasetError):
            return None

    @property
    def own_files(self) -> list[str]:
        """Return the names of its files in their place, or the URLs where they wait."""
        if self.files:
            return [attempt.url for attempt in self.files.values()]
        return [self.result.filename, *(name for name, *_ in self.result.beside)]


@dataclass(frozen=True, slots=True, kw_only=True)
class Checking:
    """Finds out which shards of an earlier run are what their tasks would give."""

    tasks: Tasks
    folder: str
    """Where shards are, unless they wait on a store."""
    notes: str
    source_check: SourceCheck | None
    """Compares files with those that were packed; None if fingerprints cover all images."""

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the shards that are finished."""
        for number, rows in by_key(batches, "shard"):
            task, fingerprint = self.tasks.of(number, rows, list(map(path_of, rows["blob"])))
            with suppress(ExecutionError, FileNotFoundError):  # a note that is not there
                note = read_result(self.notes, task.filename)
                found = FinishedShard.of_note(note, task)
                if found and found.fingerprint == fingerprint and self._is_current(found, task):
                    count = len(rows["size"])
                    yield from written_row(number, count, fingerprint, found.own_files)

    def _is_current(self, found: FinishedShard, task: ShardTask) -> bool:
        if found.files and not all(map(is_there, found.files.values())):
            return False
        if not found.files and not files_are_intact(self.folder, found.result):
            return False
        members = Members(
            task=task,
            hashes=found.result.records.hashes,
            bad={file.filename: file.reason for file in found.result.bad},
            are_trusted=False,
        )
        return not (self.source_check and self.source_check(members))
