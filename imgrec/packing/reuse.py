"""Decide what an earlier run left that can be used again.

An interrupted run left finished shards, each with a note of its result; a finished run left a
dataset. Both are the result of a plan, and the plan's fingerprint identifies it. What has the same
fingerprint is used again if its files are intact and the images are still those that were packed.
The fingerprint covers names, sizes and first bytes of images, so the rest of each image is read and
hashed, unless a private note (`origin`) proves that no file of the source has changed since.
"""

from __future__ import annotations

import json
import logging
import os
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from xxhash import xxh3_64_hexdigest, xxh3_128_digest

from imgrec import __version__, layout
from imgrec.codec import json_files
from imgrec.codec.image import pack_pixels, prepare
from imgrec.codec.pillow import CODERS
from imgrec.engine import Engine
from imgrec.errors import BadImage, DatasetError, DatasetExists, ImgrecError
from imgrec.model import Pixels, Plan, ShardTask, Stored, picked
from imgrec.options import Check, ShrinkOptions
from imgrec.outcome import ShardResult
from imgrec.packing.origin import Snapshot
from imgrec.read.documents import find_damage, read_fingerprint, read_report
from imgrec.read.samples import read_hashes
from imgrec.stamp import Stamp
from imgrec.storage.blobs import close_files
from imgrec.storage.files import Seal, has_xxh3, is_intact
from imgrec.storage.read_ahead import reader
from imgrec.storage.staging import Stage
from imgrec.text import printable

_log = logging.getLogger(__name__)

_HASH_BYTES = 16
_RUN = "run"
"""The name of the note about a whole run; others are named after their shard."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The images of a shard when it was written."""

    task: ShardTask
    hashes: bytes
    """16 bytes for each packed image, in order: the XXH3 of its file."""
    bad: Mapping[str, str]
    """The reason for each image that could not be packed, by file name."""
    are_trusted: bool
    """Whether the files of packed images cannot have changed. Bad ones are tried again anyway: the
    reason may have been a fault of the moment."""

    @property
    def need_check(self) -> bool:
        """Whether any image must be read again."""
        return bool(self.bad) or not self.are_trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """A picklable function that compares the images of a shard with the source."""

    check: Check
    shrink_to: ShrinkOptions | None
    newest_ns: int
    """See `read_blob`."""

    def __call__(self, members: Members) -> str:
        """Return the first image that would not be packed, or skipped, as it was; or ""."""
        samples, hashes = members.task.samples, members.hashes
        starts = iter(range(0, len(hashes), _HASH_BYTES))
        before: list[bytes | str] = [
            members.bad[name]
            if name in members.bad
            else hashes[(start := next(starts)) : start + _HASH_BYTES]
            for name in samples.filenames
        ]
        places = [
            place
            for place, known in enumerate(before)
            if isinstance(known, str)
            # A stored image cannot have changed: published shards never do.
            or not (members.are_trusted or type(samples.blobs[place]) is Stored)
        ]
        read = reader(picked(samples.blobs, places), picked(samples.sizes, places))
        try:
            for place in places:
                blob, name = samples.blobs[place], samples.filenames[place]
                now: bytes | str
                try:
                    data = read(blob, samples.sizes[place], self.newest_ns, name)
                    now = xxh3_128_digest(data)
                    if isinstance(before[place], str):
                        if type(blob) is Pixels:
                            pack_pixels(data, blob, self.shrink_to)
                        else:
                            prepare(data, name, self.check, self.shrink_to)
                except BadImage as error:
                    now = str(error)
                if now != before[place]:
                    return name
        finally:
            close_files()
        return ""


# An interrupted run: its finished shards.


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """A run of a plan, as its notes describe it to the next run."""

    fingerprint: str
    stamp: Stamp
    snapshot: Snapshot

    def note(self) -> tuple[str, bytes]:
        """Return the name and content of the note about this run."""
        value = {"fingerprint": self.fingerprint, "made_by": made_by()}
        return _RUN, sealed(json.dumps(value).encode())

    def shard_note(self, result: ShardResult) -> tuple[str, bytes]:
        """Return the name and content of the note about a finished shard."""
        snapshot = json.dumps(self.snapshot).encode()
        return result.filename, sealed(snapshot + b"\n" + json_files.encode_result(result))


class FinishedShard(NamedTuple):
    """A shard that an earlier run has finished, according to its note."""

    result: ShardResult
    members: Members
    reads_files: bool
    """Whether its files must be read to know that they are intact."""


class Resumed(NamedTuple):
    """What is left of an interrupted run."""

    shards: Sequence[FinishedShard] = ()
    restarted: str = ""
    """Why all earlier shards were discarded."""


def resume(
    staging: Stage,
    plan: Plan,
    run: Run,
    files_of: Callable[[str], Iterable[str]],
    *,
    is_wanted: bool = True,
) -> Resumed:
    """Return the finished shards in a staging folder, and remove everything else from it.

    Shards are judged by the names and sizes of their files only. `files_of` names all files of a
    shard. If nothing is left to continue, this run is noted as a new one.
    """
    notes = staging.notes()
    run_note = unsealed(notes.pop(_RUN, b""))
    why = _why_restart(run_note, run) if is_wanted else "--no-resume was given"
    tasks = [task for task in plan.tasks if not why and task.filename in notes]
    if notes:
        _log.info(
            "an earlier run left %d shards; %s", len(notes), why or f"{len(tasks)} may be kept"
        )
    if not tasks:
        staging.keep((), ())
        staging.note(*run.note())
        return Resumed(restarted=why if notes else "")
    names = {task.filename for task in tasks}
    staging.keep({name for shard in names for name in files_of(shard)}, {*names, _RUN})
    shards = []
    for task in tasks:
        snapshot, _, note = unsealed(notes[task.filename]).partition(b"\n")
        with suppress(DatasetError):  # if the note is damaged, the shard is written again
            result = json_files.decode_result(note, task)
            members = Members(
                task=task,
                hashes=result.records.hashes,
                bad={file.filename: file.reason for file in result.bad},
                are_trusted=Snapshot(*json.loads(snapshot)).is_unchanged(run.stamp),
            )
            shards.append(FinishedShard(result, members, reads_files=not staging.is_sure))
    intact = staging.intact(seal for shard in shards for seal in _seals(shard.result))
    return Resumed(
        [shard for shard in shards if all(seal.filename in intact for seal in _seals(shard.result))]
    )


def sealed(data: bytes) -> bytes:
    """Return a note that `unsealed` reads."""
    return xxh3_64_hexdigest(data).encode() + b"\n" + data


def unsealed(note: bytes) -> bytes:
    """Return the data of a note, or b"" if a single bit of it has changed."""
    data = note.partition(b"\n")[2]
    return data if note == sealed(data) else b""


def _why_restart(run_note: bytes, run: Run) -> str:
    """Return why a run cannot continue the one that left `run_note`, or ""."""
    if not run_note:
        return "its notes are damaged"
    before = json.loads(run_note)
    if before["made_by"] != made_by():
        return "another version of imgrec or of its decoders made them"
    if before["fingerprint"] != run.fingerprint:
        return "the source or the options have changed"
    return ""


def made_by() -> str:
    """Name the versions of everything that decides the bytes of a shard."""
    from importlib.metadata import PackageNotFoundError, version

    coders = []
    for package in sorted(set(CODERS.values())):
        with suppress(PackageNotFoundError):
            coders.append(f"{package}-{version(package)}")
    return ", ".join((f"imgrec-{__version__}", f"zlib-{zlib.ZLIB_RUNTIME_VERSION}", *coders))


def _seals(result: ShardResult) -> list[Seal]:
    own = Seal(result.filename, result.size, result.sha256)
    return [own, *(Seal(*beside) for beside in result.beside)]


class CheckedShard(NamedTuple):
    """A finished shard after its check."""

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
        """Read the files of a shard, and the images it was made of, as far as needed."""
        result, members, reads_files = shard
        if reads_files and not files_are_intact(self.folder, result):
            return CheckedShard(result, is_intact=False, is_current=True)
        is_current = not (members.need_check and self.source_check(members))
        return CheckedShard(result, is_intact=True, is_current=is_current)


def files_are_intact(folder: str, result: ShardResult) -> bool:
    """Return whether the files of a shard are what was written; they are read whole."""
    path = os.path.join(folder, result.filename)
    beside = (Seal(*file) for file in result.beside)
    return has_xxh3(path, result.size, result.xxh3) and all(
        is_intact(folder, seal) for seal in beside
    )


def verify_finished_shards(
    shards: Sequence[FinishedShard], check: ShardCheck, engine: Engine
) -> Iterator[CheckedShard]:
    """Check finished shards; yield those first that need no check."""
    doubtful = []
    for shard in shards:
        if shard.reads_files or shard.members.need_check:
            doubtful.append(shard)
        else:
            yield CheckedShard(shard.result, is_intact=True, is_current=True)
    if doubtful:
        with closing(engine.run(check, doubtful)) as checked:
            yield from checked


# A finished run: its dataset.


def refuse_outdated(
    target: Path, plan: Plan, source_check: SourceCheck, engine: Engine, *, are_trusted: bool
) -> None:
    """Raise DatasetExists unless the dataset at `target` is what the plan would make.

    Every image is hashed, unless the files `are_trusted` because none can have changed.
    """
    refuse_other(target, plan)
    bad = _bad_images(target, plan)
    if are_trusted and not bad:
        return
    members = _members(target, plan, bad, are_trusted=are_trusted)
    with closing(engine.run(source_check, members)) as running:
        changed = sorted(filter(None, running))
    if changed:
        raise changed_since(target, changed[0])


def refuse_other(target: Path, plan: Plan) -> None:
    """Raise DatasetExists if the dataset at `target` is that of another plan, or damaged."""
    if read_fingerprint(target) != plan.fingerprint:
        raise _exists(target, _difference(target, plan))
    if fault := find_damage(target):
        raise _damaged(target, fault)


def changed_since(target: Path, filename: str) -> DatasetExists:
    """Return the error for an image that is not what was packed."""
    return _exists(
        target, f"is not up to date: {printable(filename)} has changed since it was packed"
    )


def wrong_skipped(target: Path, shown: str) -> DatasetExists:
    """Return the error for a report that lists other bad images than the plan and the dataset."""
    return _exists(target, f"is not up to date: its {layout.SKIPPED} is wrong about {shown}")


def _difference(target: Path, plan: Plan) -> str:
    what = "already holds another dataset"
    try:
        report = read_report(target)
    except ImgrecError:
        return f"{what}, which imgrec did not make"
    if report.source != printable(plan.source):
        return f"{what}: it was packed from {report.source}"
    layouts = [printable(found.layout.text) for found in (report, plan)]
    if len(set(layouts)) > 1:
        before, now = (text.partition("\n")[0] for text in layouts)
        return f"{what}: the same source was read as {before}, and is now read as {now}"
    differing = [
        f"--{'shard-size' if name == 'shard_bytes' else name.replace('_', '-')}"
        for name in sorted({*report.options, *plan.options})
        if report.options.get(name) != plan.options.get(name)
    ]
    if differing:
        return f"{what}: it was packed with other options ({', '.join(differing)})"
    return f"{what}: its images, names or labels are not those of the source"


def noted_bad(target: Path, plan: Plan) -> dict[str, str]:
    """Return the reason of each image that was skipped when it was packed.

    Names are as reports show them. Raises DatasetExists if the report lacks bad files of the plan.
    """
    report = read_report(target)
    noted = Counter((printable(file.filename), file.reason) for file in report.skipped)
    known = Counter((printable(file.filename), file.reason) for file in plan.skipped)
    if gone := sorted(known - noted):
        raise wrong_skipped(target, gone[0][0])
    return dict((noted - known).elements())


def _bad_images(target: Path, plan: Plan) -> dict[str, str]:
    """Return the planned images that were skipped when they were packed, with the reasons.

    Raises DatasetExists if the report lists other bad files than the plan does.
    """
    found = noted_bad(target, plan)
    bad = {
        name: found.pop(printable(name))
        for task in (plan.tasks if found else ())
        for name in task.samples.filenames
        if printable(name) in found
    }
    if found:
        raise wrong_skipped(target, min(found))
    return bad


def _members(
    target: Path, plan: Plan, bad: Mapping[str, str], *, are_trusted: bool
) -> Iterator[Members]:
    """Yield the members of each shard that must be compared with the source."""
    rows = groupby(read_hashes(target), key=lambda row: row[0])
    hashes = {shard: bytes.fromhex("".join(xxh3 for _, xxh3 in found)) for shard, found in rows}
    for task in plan.tasks:
        names = task.samples.filenames
        members = Members(
            task=task,
            hashes=hashes.get(task.filename, b""),
            bad={name: bad[name] for name in names if name in bad},
            are_trusted=are_trusted,
        )
        if not members.need_check:
            continue
        if len(members.hashes) != _HASH_BYTES * (len(names) - len(members.bad)):
            raise _damaged(target, f"{layout.SAMPLES} does not list what {task.filename} holds")
        yield members


def _damaged(target: Path, fault: str) -> DatasetExists:
    return DatasetExists(
        f"{target} is damaged: {fault}", hint="pass --overwrite to pack it again", path=str(target)
    )


def _exists(target: Path, what: str) -> DatasetExists:
    hint = "pack under another --version or --name, or pass --overwrite to replace it"
    return DatasetExists(f"{target} {what}", hint=hint, path=str(target))
