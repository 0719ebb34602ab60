"""Write shards where the driver sees no disk of the worker: over an object store."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from tempfile import TemporaryDirectory
from typing import NamedTuple

from imgrec.model import ShardTask
from imgrec.outcome import ShardResult
from imgrec.storage.attempts import Attempt, Sending
from imgrec.write.shard import ShardWriter


class SentShard(NamedTuple):
    """A shard that waits on the store."""

    result: ShardResult
    files: Mapping[str, Attempt]


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardSender:
    """A picklable function that writes a shard to a temporary folder and sends it to a store.

    Each attempt at a task has a name of its own there, so a lost worker that is still writing
    changes nothing.
    """

    writer: ShardWriter
    attempts: str
    """The URL of the folder for attempts."""

    def __call__(self, task: ShardTask) -> SentShard:
        """Return the result of a task, and where its files are.

        A shard is being sent while it is written.
        """
        with (
            TemporaryDirectory(prefix=".imgrec-") as folder,
            Sending(self.attempts, task.filename, task.expected_bytes) as sending,
        ):
            writer = replace(self.writer, folder=folder, on_written=sending.on_written)
            result = writer(task)
            names = (result.filename, *(filename for filename, *_ in result.beside))
            return SentShard(result, sending.send(folder, names))
