"""Continuing a run that was cut off: which of its shards can be kept.

A run notes its fingerprint and, for each shard that is finished, its result and the state of the
source that it was made of. The next run of the same plan keeps the shards that are still, to the
byte, what their results say. If the source may have changed since, it compares the images, too.
"""

from __future__ import annotations

import json
import os
import zlib
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from threading import Thread
from typing import NamedTuple, Self, TypeAlias

from xxhash import xxh3_64_hexdigest

from imgrec import __version__
from imgrec.codec import result as result_codec
from imgrec.codec.pixels import CODERS
from imgrec.errors import DatasetError
from imgrec.model import Plan, ShardTask
from imgrec.origin import UNSEEN, Seen
from imgrec.outcome import ShardResult
from imgrec.stamp import Stamp
from imgrec.storage.files import Seal, has_xxh3, is_intact
from imgrec.storage.stages import Stage
from imgrec.write.recheck import Members, SourceCheck

FilesOf: TypeAlias = Callable[[str], Iterable[str]]

_RUN = "run"
_THREADS = 2
"""How many judge claims. A disk was measured to give two twice as much as one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What decides whether a run continues another."""

    fingerprint: str
    stamp: Stamp
    """Of the source."""
    seen: Seen
    """The state of the source that shards of this run are made of."""

    def noted(self) -> tuple[str, bytes]:
        """Return the note that the next run reads, and its name."""
        value = {"fingerprint": self.fingerprint, "made_by": _made_by()}
        return _RUN, _sealed(json.dumps(value).encode())

    def noted_shard(self, result: ShardResult) -> tuple[str, bytes]:
        """Return the note that a shard is finished, and its name."""
        seen = json.dumps(self.seen).encode()
        return result.filename, _sealed(seen + b"\n" + result_codec.encode(result))


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What is left of a run that was cut off."""

    notes: Mapping[str, bytes]
    """Of the shards that may be finished, by their names."""
    restarted: str = ""
    """Why all earlier shards were discarded."""


def resume(
    staging: Stage, plan: Plan, run: Run, files_of: FilesOf, *, is_wanted: bool = True
) -> Resumed:
    """Keep what may be of use of a run before, if that is wanted, and remove the rest.

    `files_of` names all files of a shard.
    """
    notes = staging.notes()
    before = _decode(notes.pop(_RUN, b""))
    why = _difference(before, run) if is_wanted else "--no-resume was given"
    if why or not notes:
        staging.keep((), ())
        return Resumed(notes={}, restarted=why if notes else "")
    noted = {task.filename: notes[task.filename] for task in plan.tasks if task.filename in notes}
    staging.keep({name for shard in noted for name in files_of(shard)}, {*noted, _RUN})
    return Resumed(notes=noted)


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
        return "its notes are damaged"
    if before.get("made_by") != _made_by():
        return "another version of imgrec or of its decoders made them"
    if before.get("fingerprint") != run.fingerprint:
        return "the source or the options have changed"
    return ""


def find_claims(staging: Stage, plan: Plan, run: Run, resumed: Resumed) -> list[Claim]:
    """Return what the notes say about shards that seem to be whole."""
    found = []
    for task in plan.tasks if resumed.notes else ():
        seen, _, note = _unsealed(resumed.notes.get(task.filename, b"")).partition(b"\n")
        with suppress(DatasetError):  # or it is as if it had not been finished
            result = result_codec.decode(note, task)
            are_trusted = _parse_seen(seen).is_still(run.stamp)
            found.append(_claim(task, result, are_trusted=are_trusted, is_sure=staging.is_sure))
    intact = staging.intact(seal for claim in found for seal in _seals(claim.result))
    return [
        claim for claim in found if all(seal.filename in intact for seal in _seals(claim.result))
    ]


def _claim(task: ShardTask, result: ShardResult, *, are_trusted: bool, is_sure: bool) -> Claim:
    members = Members(
        task=task,
        hashes=result.records.hashes,
        bad={file.filename: file.reason for file in result.bad},
        are_trusted=are_trusted,
    )
    return Claim(result, members if result.bad or not are_trusted else None, not is_sure)


def _parse_seen(note: bytes) -> Seen:
    try:
        state, started_ns = json.loads(note)
        return Seen(str(state), int(started_ns))
    except (ValueError, TypeError, OverflowError):
        return UNSEEN


def _seals(result: ShardResult) -> list[Seal]:
    own = Seal(result.filename, result.size, result.sha256)
    return [own, *(Seal(*beside) for beside in result.beside)]


class Claim(NamedTuple):
    """A shard that an earlier run has finished, as its note says."""

    result: ShardResult
    members: Members | None
    """What is to be compared with the source; None if nothing is."""
    reads_files: bool
    """Whether its own files are to be read."""

    @property
    def is_certain(self) -> bool:
        """Whether there is nothing to look at."""
        return self.members is None and not self.reads_files


class Verdict(NamedTuple):
    """Whether a claim holds."""

    filename: str
    is_whole: bool
    """Whether its files are what was written."""
    is_current: bool
    """Whether its images are those of the source."""

    @property
    def is_true(self) -> bool:
        """Whether the shard can be kept."""
        return self.is_whole and self.is_current


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """A picklable function that looks into the shards that are claimed to be in a folder."""

    folder: str
    source_check: SourceCheck

    def __call__(self, claim: Claim) -> Verdict:
        """Read all that is claimed to be there, and the images that it was made of if need be."""
        result = claim.result
        is_whole = not claim.reads_files or self._is_whole(result)
        is_current = True
        if is_whole and claim.members:
            is_current = not self.source_check(claim.members).filename
        return Verdict(result.filename, is_whole, is_current)

    def _is_whole(self, result: ShardResult) -> bool:
        path = os.path.join(self.folder, result.filename)
        beside = (Seal(*file) for file in result.beside)
        return has_xxh3(path, result.size, result.xxh3) and all(
            is_intact(self.folder, seal) for seal in beside
        )


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
