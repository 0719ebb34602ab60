"""Continue an interrupted run: find the finished shards that can be reused.

A run notes its fingerprint and, for each finished shard, its result and the state of the source.
The next run of the same plan reuses the shards whose bytes still match their results. If the source
may have changed since, it compares the images, too.
"""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from typing import NamedTuple, TypeAlias

from xxhash import xxh3_64_hexdigest

from imgrec import __version__
from imgrec.codec import result as result_codec
from imgrec.codec.pixels import CODERS
from imgrec.engine import Engine
from imgrec.errors import DatasetError
from imgrec.model import Plan, ShardTask
from imgrec.origin import UNSEEN, Seen
from imgrec.outcome import ShardResult
from imgrec.stamp import Stamp
from imgrec.storage.files import Seal, has_xxh3, is_intact
from imgrec.storage.staging import Stage
from imgrec.write.recheck import Members, SourceCheck

FilesOf: TypeAlias = Callable[[str], Iterable[str]]

_RUN = "run"


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


def find_finished_shards(
    staging: Stage, plan: Plan, run: Run, resumed: Resumed
) -> list[FinishedShard]:
    """Return the finished shards of an earlier run, judging by names and sizes of files."""
    found = []
    for task in plan.tasks if resumed.notes else ():
        seen, _, note = _unsealed(resumed.notes.get(task.filename, b"")).partition(b"\n")
        with suppress(DatasetError):  # a damaged note counts as a shard that is not finished
            result = result_codec.decode(note, task)
            are_trusted = _parse_seen(seen).is_still(run.stamp)
            found.append(
                _finished(task, result, are_trusted=are_trusted, reads_files=not staging.is_sure)
            )
    intact = staging.intact(seal for shard in found for seal in _seals(shard.result))
    return [
        shard for shard in found if all(seal.filename in intact for seal in _seals(shard.result))
    ]


def _finished(
    task: ShardTask, result: ShardResult, *, are_trusted: bool, reads_files: bool
) -> FinishedShard:
    members = Members(
        task=task,
        hashes=result.records.hashes,
        bad={file.filename: file.reason for file in result.bad},
        are_trusted=are_trusted,
    )
    return FinishedShard(result, members if result.bad or not are_trusted else None, reads_files)


def _parse_seen(note: bytes) -> Seen:
    try:
        state, started_ns = json.loads(note)
        return Seen(str(state), int(started_ns))
    except (ValueError, TypeError, OverflowError):
        return UNSEEN


def _seals(result: ShardResult) -> list[Seal]:
    own = Seal(result.filename, result.size, result.sha256)
    return [own, *(Seal(*beside) for beside in result.beside)]


class FinishedShard(NamedTuple):
    """A shard that an earlier run has finished, according to its note."""

    result: ShardResult
    members: Members | None
    """The images to compare with the source; None if that is not needed."""
    reads_files: bool
    """Whether the files of the shard must be read to know that they are intact."""


class CheckedShard(NamedTuple):
    """What a check of a finished shard has shown."""

    result: ShardResult
    is_intact: bool
    """Whether its files are what was written."""
    is_current: bool
    """Whether its images are those of the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardCheck:
    """A picklable function that checks the finished shards in a folder."""

    folder: str
    source_check: SourceCheck

    def __call__(self, shard: FinishedShard) -> CheckedShard:
        """Read the files of a shard, and the images that it was made of, as far as needed."""
        result = shard.result
        is_intact = not shard.reads_files or self._is_intact(result)
        is_current = True
        if is_intact and shard.members:
            is_current = not self.source_check(shard.members).filename
        return CheckedShard(result, is_intact, is_current)

    def _is_intact(self, result: ShardResult) -> bool:
        path = os.path.join(self.folder, result.filename)
        beside = (Seal(*file) for file in result.beside)
        return has_xxh3(path, result.size, result.xxh3) and all(
            is_intact(self.folder, seal) for seal in beside
        )


def verify_finished_shards(
    shards: Sequence[FinishedShard], check: ShardCheck, engine: Engine
) -> Iterator[CheckedShard]:
    """Yield what is known of finished shards, those first that need no check."""
    doubtful = [shard for shard in shards if shard.members or shard.reads_files]
    for shard in shards:
        if not (shard.members or shard.reads_files):
            yield CheckedShard(shard.result, is_intact=True, is_current=True)
    if doubtful:
        with closing(engine.run(check, doubtful)) as checked:
            yield from checked


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
    # importlib.metadata would do, but importing it takes longer than packing a few images.
    found = (name for folder in folders for name in os.listdir(folder or os.curdir))
    about = (name for name in found if name.endswith((".dist-info", ".egg-info")))
    coders = sorted(name for name in about if name.partition("-")[0].lower() in packages)
    return ", ".join((f"imgrec-{__version__}", f"zlib-{zlib.ZLIB_RUNTIME_VERSION}", *coders))
