"""Continuing a run that was cut off: which of its shards can be kept.

A run notes its fingerprint, when it began, and the result of each shard that is finished. The next
run of the same plan keeps the shards that are still, to the byte, what their results say.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import NamedTuple

from imgrec import __version__
from imgrec.codec import result as result_codec
from imgrec.errors import DatasetError
from imgrec.model import Plan, ShardTask
from imgrec.outcome import ShardResult
from imgrec.storage.files import Seal, has_xxh3, is_intact
from imgrec.storage.stages import Stage
from imgrec.write.shard import ShardWriter

_RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What is left of a run that was cut off."""

    started_ns: int
    """When the first of the runs began that this one continues."""
    claimed: Mapping[str, ShardResult]
    """The shards that need not be written again if they are what their results say, by name."""
    restarted: str = ""
    """Why what there was could not be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What decides whether a run continues another."""

    fingerprint: str
    started_ns: int
    newest_change_ns: int
    """When the source last changed."""

    def encode(self, started_ns: int) -> bytes:
        """Return the note that the next run reads."""
        value = {"started_ns": started_ns, "fingerprint": self.fingerprint, "made_by": _made_by()}
        return json.dumps(value).encode() + b"\n"


def resume(staging: Stage, plan: Plan, run: Run) -> Resumed:
    """Keep what can be kept of a run before, remove the rest, and note that this one has begun."""
    notes = staging.notes()
    before = _decode(notes.pop(_RUN, b""))
    why = _difference(before, run) if notes else ""
    claimed = {} if why else _claimed(staging, plan, notes)
    beside = (name for result in claimed.values() for name, *_ in result.beside)
    staging.keep({*claimed, *beside}, claimed)
    started_ns = _started_ns(before) if claimed else run.started_ns
    staging.note(_RUN, run.encode(started_ns))
    return Resumed(started_ns=started_ns, claimed=claimed, restarted=why)


def start_over(staging: Stage, run: Run) -> Resumed:
    """Remove all that a run before left, and note that this one has begun."""
    staging.keep((), ())
    staging.note(_RUN, run.encode(run.started_ns))
    return Resumed(started_ns=run.started_ns, claimed={})


def noted(result: ShardResult) -> tuple[str, bytes]:
    """Return the note that a shard is finished, and its name."""
    return result.filename, result_codec.encode(result)


def _difference(before: Mapping[str, object], run: Run) -> str:
    """Say why a run does not continue the one before, or ""."""
    if before.get("made_by") != _made_by():
        return "it was begun by other versions of imgrec or of its decoders"
    if before.get("fingerprint") != run.fingerprint:
        return "its source or its options were others"
    # As in a dataset that is there already, equal names and sizes do not tell everything.
    if run.newest_change_ns >= _started_ns(before):
        return "its source has been touched since"
    return ""


def _claimed(staging: Stage, plan: Plan, notes: Mapping[str, bytes]) -> dict[str, ShardResult]:
    found = {}
    for task in plan.tasks:
        if task.filename in notes:
            with suppress(DatasetError):  # or it is as if it had not been finished
                found[task.filename] = result_codec.decode(notes[task.filename], task)
    intact = staging.intact(seal for result in found.values() for seal in _seals(result))
    return {
        filename: result
        for filename, result in found.items()
        if all(seal.filename in intact for seal in _seals(result))
    }


def _seals(result: ShardResult) -> list[Seal]:
    own = Seal(result.filename, result.size, result.sha256)
    return [own, *(Seal(*beside) for beside in result.beside)]


class Claim(NamedTuple):
    """A shard that a run before has finished, as it says."""

    filename: str
    size: int
    xxh3: str
    beside: tuple[Seal, ...]


class Verdict(NamedTuple):
    """Whether a claim holds."""

    filename: str
    is_true: bool


def claim_of(result: ShardResult) -> Claim:
    """Return what the result of a shard says of its files."""
    beside = tuple(Seal(*file) for file in result.beside)
    return Claim(result.filename, result.size, result.xxh3, beside)


@dataclass(frozen=True, slots=True, kw_only=True)
class Finisher:
    """A picklable function that writes shards, and looks into those that are claimed to be there.

    Both at once: reading what is there leaves the CPUs time to check and write what is not.
    """

    writer: ShardWriter

    def __call__(self, task: ShardTask | Claim) -> ShardResult | Verdict:
        """Write a shard, or judge a claim."""
        return self._judge(task) if isinstance(task, Claim) else self.writer(task)

    def _judge(self, claim: Claim) -> Verdict:
        folder = self.writer.folder
        is_whole = has_xxh3(os.path.join(folder, claim.filename), claim.size, claim.xxh3)
        is_true = is_whole and all(is_intact(folder, seal) for seal in claim.beside)
        return Verdict(claim.filename, is_true)


def _decode(data: bytes) -> dict[str, object]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _started_ns(before: Mapping[str, object]) -> int:
    found = before.get("started_ns")
    return found if isinstance(found, int) else 0


def _made_by() -> str:
    """Name the versions of all that decides the bytes of a shard."""
    import PIL

    return f"imgrec {__version__}, Pillow {PIL.__version__}"
