"""Continuing a run that was cut off: which of its shards can be kept.

A run notes its fingerprint, when it began, and the result of each shard that is finished. The next
run of the same plan keeps the shards that are still, to the byte, what their results say.
"""

from __future__ import annotations

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from threading import Thread
from typing import NamedTuple, Self

from imgrec import __version__
from imgrec.codec import result as result_codec
from imgrec.errors import DatasetError
from imgrec.model import Plan
from imgrec.outcome import ShardResult
from imgrec.storage.files import Seal, has_xxh3, is_intact
from imgrec.storage.stages import Stage

_RUN = "run"
_THREADS = 2
"""How many judge claims. A disk was measured to give two twice as much as one."""


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
class Judge:
    """A picklable function that looks into the shards that are claimed to be in a folder."""

    folder: str

    def __call__(self, claim: Claim) -> Verdict:
        """Read all that is claimed to be there."""
        is_whole = has_xxh3(os.path.join(self.folder, claim.filename), claim.size, claim.xxh3)
        is_true = is_whole and all(is_intact(self.folder, seal) for seal in claim.beside)
        return Verdict(claim.filename, is_true)


class Hearing:
    """Judges claims in a few threads, while the workers write what is missing.

    Shards are written past the page cache, so that to read them is to wait for the disk: that
    leaves the CPUs to the workers, which otherwise would be the ones to wait.
    """

    def __init__(self, judge: Judge, claims: Iterable[Claim]) -> None:
        self._judge = judge
        self._left = deque(claims)
        self._verdicts: deque[Verdict] = deque()
        count = min(len(self._left), _THREADS)
        self._threads = [Thread(target=self._hear, daemon=True) for _ in range(count)]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._left.clear()

    def _hear(self) -> None:
        with suppress(IndexError):  # when none is left
            while True:
                self._verdicts.append(self._judge(self._left.popleft()))

    def verdicts(self) -> Iterator[Verdict]:
        """Yield those that were not yielded before."""
        while self._verdicts:
            yield self._verdicts.popleft()

    def rest(self) -> list[Claim]:
        """Return the claims that no thread has begun to judge, and none will."""
        rest = []
        with suppress(IndexError):
            while True:
                rest.append(self._left.popleft())
        return rest

    def wait(self) -> None:
        """Wait until all claims that were not returned have a verdict."""
        for thread in self._threads:
            thread.join()


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
