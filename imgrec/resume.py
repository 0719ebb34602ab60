"""Continuing a run that was cut off: which of its shards can be kept.

A run notes its fingerprint, when it began, and the result of each shard that is finished. The next
run of the same plan keeps the shards that are still, to the byte, what their results say.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.util import find_spec
from threading import Thread
from typing import NamedTuple, Self, TypeAlias

from xxhash import xxh3_64_hexdigest

from imgrec import __version__
from imgrec.codec import result as result_codec
from imgrec.codec.pixels import CODERS
from imgrec.errors import DatasetError
from imgrec.model import Plan
from imgrec.outcome import ShardResult
from imgrec.storage.files import Seal, has_xxh3, is_intact
from imgrec.storage.stages import Stage

FilesOf: TypeAlias = Callable[[str], Iterable[str]]

_RUN = "run"
_THREADS = 2
"""How many judge claims. A disk was measured to give two twice as much as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What decides whether a run continues another."""

    fingerprint: str
    started_ns: int
    newest_change_ns: int
    """When the source last changed."""

    def noted(self) -> tuple[str, bytes]:
        """Return the note that the next run reads, and its name."""
        value = {
            "started_ns": self.started_ns,
            "fingerprint": self.fingerprint,
            "made_by": _made_by(),
        }
        return _RUN, _sealed(json.dumps(value).encode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What is left of a run that was cut off."""

    run: Run
    """The one that goes on, which began when the first of those began that it continues."""
    notes: Mapping[str, bytes]
    """Of the shards that may be finished, by their names."""
    restarted: str = ""
    """Why what there was could not be kept."""


def resume(
    staging: Stage, plan: Plan, run: Run, files_of: FilesOf, *, is_wanted: bool = True
) -> Resumed:
    """Keep what may be of use of a run before, if that is wanted, and remove the rest.

    `files_of` names all files of a shard.
    """
    notes = staging.notes()
    before = _decode(notes.pop(_RUN, b""))
    why = _difference(before, run) if is_wanted else "--no-resume asks for that"
    if why or not notes:
        staging.keep((), ())
        return Resumed(run=run, notes={}, restarted=why if notes else "")
    noted = {task.filename: notes[task.filename] for task in plan.tasks if task.filename in notes}
    staging.keep({name for shard in noted for name in files_of(shard)}, {*noted, _RUN})
    return Resumed(run=replace(run, started_ns=_started_ns(before)), notes=noted)


def noted(result: ShardResult) -> tuple[str, bytes]:
    """Return the note that a shard is finished, and its name."""
    return result.filename, _sealed(result_codec.encode(result))


def _sealed(data: bytes) -> bytes:
    """Return a note of some data: a line of its hash, and then the data itself."""
    return xxh3_64_hexdigest(data).encode() + b"\n" + data


def _unsealed(note: bytes) -> bytes:
    """Return the data of a note, or nothing if a single bit of it has changed."""
    data = note.partition(b"\n")[2]
    return data if note == _sealed(data) else b""


def _difference(before: Mapping[str, object], run: Run) -> str:
    """Say why a run does not continue the one before, or ""."""
    if not before:
        return "nothing is known of how it was begun"
    if before.get("made_by") != _made_by():
        return "it was begun by other versions of imgrec or of its decoders"
    if before.get("fingerprint") != run.fingerprint:
        return "its source or its options were others"
    # As in a dataset that is there already, equal names and sizes do not tell everything.
    if run.newest_change_ns >= _started_ns(before):
        return "its source has been touched since"
    return ""


def claimed_results(staging: Stage, plan: Plan, resumed: Resumed) -> dict[str, ShardResult]:
    """Return what the notes say of shards that seem to be whole, by their names."""
    found = {}
    for task in plan.tasks if resumed.notes else ():
        if note := _unsealed(resumed.notes.get(task.filename, b"")):
            with suppress(DatasetError):  # or it is as if it had not been finished
                found[task.filename] = result_codec.decode(note, task)
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
        while claim := self._next():
            self._verdicts.append(self._judge(claim))

    def _next(self) -> Claim | None:
        try:
            return self._left.popleft()  # which others do, too: to look first would not do
        except IndexError:
            return None

    def verdicts(self) -> Iterator[Verdict]:
        """Yield those that were not yielded before."""
        while self._verdicts:
            yield self._verdicts.popleft()

    def rest(self) -> list[Claim]:
        """Return the claims that no thread has begun to judge, and none will."""
        return list(iter(self._next, None))

    def wait(self) -> None:
        """Wait until all claims that were not returned have a verdict."""
        for thread in self._threads:
            thread.join()


def _decode(note: bytes) -> dict[str, object]:
    try:
        value = json.loads(_unsealed(note))
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _started_ns(before: Mapping[str, object]) -> int:
    found = before.get("started_ns")
    return found if isinstance(found, int) else 0


def _made_by() -> str:
    """Name the versions of all that decides the bytes of a shard."""
    specs = filter(None, map(find_spec, CODERS))
    folders = {os.path.dirname(os.path.dirname(spec.origin or "")) for spec in specs}
    packages = {package.replace("-", "_") for package in CODERS.values()}
    # importlib.metadata tells the same, but to import it takes longer than to pack a few images.
    found = (name for folder in folders for name in os.listdir(folder or os.curdir))
    about = (name for name in found if name.endswith((".dist-info", ".egg-info")))
    coders = sorted(name for name in about if name.partition("-")[0].lower() in packages)
    return ", ".join((f"imgrec-{__version__}", f"zlib-{zlib.ZLIB_RUNTIME_VERSION}", *coders))
