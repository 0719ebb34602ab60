"""Check that earlier shards, or an earlier dataset, are still right for this source."""

from __future__ import annotations

import hashlib
import json
import os
import time
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, fields, is_dataclass
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, Self, TypeAlias

from xxhash import xxh3_64_hexdigest, xxh3_128_digest

from imgrec import __version__, layout
from imgrec.blob import Pixels
from imgrec.codec import result as result_codec
from imgrec.codec.image import pack_pixels, prepare
from imgrec.codec.pixels import CODERS
from imgrec.engine import Engine
from imgrec.errors import BadImage, DatasetError, DatasetExists, ImgrecError
from imgrec.model import Plan, ShardTask, picked
from imgrec.notes import Note
from imgrec.options import Check, PackOptions, ShrinkOptions
from imgrec.outcome import Report, ShardResult
from imgrec.read.documents import find_damage, read_fingerprint, read_report
from imgrec.read.files import read_document
from imgrec.read.samples import read_hashes
from imgrec.stamp import Stamp
from imgrec.storage.blobs import close_files
from imgrec.storage.files import Seal, has_xxh3, is_intact
from imgrec.storage.read_ahead import Read, reader
from imgrec.storage.staging import Stage
from imgrec.storage.urls import is_url
from imgrec.text import given_path, name_of, printable

_HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The images that a task put into its shard, and those that it could not."""

    task: ShardTask
    hashes: bytes
    """16 bytes for each that was packed, in their order: the XXH3 of its file."""
    bad: Mapping[str, str]
    """Why each of the others was not packed, by file name."""
    are_trusted: bool
    """Whether files that were packed need no look: nobody can have changed them."""


class Differing(NamedTuple):
    """An image that is no longer what it was."""

    shard: str
    filename: str
    """"" if all images of the shard are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """A picklable function that compares the members of a shard with the source."""

    check: Check
    shrink_to: ShrinkOptions | None
    newest_ns: int
    """As `read_blob` has it."""

    def __call__(self, members: Members) -> Differing:
        """Return the first image that would not be packed, or skipped, as it was."""
        task = members.task
        good = [
            place for place, name in enumerate(task.samples.filenames) if name not in members.bad
        ]
        hashes = dict(zip(good, _cut(members.hashes), strict=True))
        places: Sequence[int] = range(len(task.samples.filenames))
        if members.are_trusted:
            # Why a file could not be packed may have been a fault of the moment.
            places = [place for place in places if place not in hashes]
        read = reader(picked(task.samples.blobs, places), picked(task.samples.sizes, places))
        try:
            for place in places:
                told = self._tell(read, task, place, is_good=place in hashes)
                if told != hashes.get(place, members.bad.get(task.samples.filenames[place])):
                    return Differing(task.filename, task.samples.filenames[place])
        finally:
            close_files()
        return Differing(task.filename, "")

    def _tell(self, read: Read, task: ShardTask, place: int, *, is_good: bool) -> bytes | str:
        """Return the hash of a file; of one that was not packed, why it still cannot be."""
        blob, filename = task.samples.blobs[place], task.samples.filenames[place]
        try:
            data = read(blob, task.samples.sizes[place], self.newest_ns, filename)
            if type(blob) is Pixels and not is_good:
                pack_pixels(data, blob, self.shrink_to)
            elif not is_good:
                prepare(data, filename, self.check, self.shrink_to)
        except BadImage as error:
            return str(error)
        return xxh3_128_digest(data)


def _cut(hashes: bytes) -> list[bytes]:
    return [hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES)]


_TICK_NS = 2 * 10**9
"""How far apart two changes may be and yet have one date: FAT counts in steps of two seconds."""


class Seen(NamedTuple):
    """The state in which a run found a source."""

    state: str
    """"" if a file had just changed: the next change may carry the same date."""
    started_ns: int

    @classmethod
    def of(cls, stamp: Stamp, started_ns: int) -> Self:
        """Return the state of a source that a run found which started then."""
        is_settled = stamp.newest_ns < started_ns - _TICK_NS
        return cls(f"{stamp.state:032x}" if is_settled else "", started_ns)

    def is_still(self, stamp: Stamp) -> bool:
        """Tell whether nobody can have changed the source since.

        If the clock was ahead, nothing can be said about what happened since.
        """
        is_past = self.started_ns <= time.time_ns()
        return is_past and self.state == f"{stamp.state:032x}"


UNSEEN = Seen("", 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What is noted about the run that made a dataset, or that found it to be current."""

    checksums: str
    """The hash of the dataset's SHA256SUMS: a note about another dataset is worth nothing."""
    source: str
    """The absolute path, or the URL, that was packed."""
    resolved: str
    """The same without links."""
    folder: str
    """The working folder, in which relative paths of options start."""
    options: Mapping[str, object]
    """Those that are not the defaults, by the names of their fields."""
    seen: Seen

    def encode(self) -> bytes:
        """Return the note as JSON."""
        value = {
            "checksums": self.checksums,
            "source": self.source,
            "resolved": self.resolved,
            "folder": self.folder,
            "options": self.options,
            "state": self.seen.state,
            "started_ns": self.seen.started_ns,
        }
        return json.dumps(value, indent=2).encode() + b"\n"


def origin_of(source: str, options: PackOptions, seen: Seen, checksums: str) -> Origin:
    """Return what is to be noted about a run."""
    path = source if is_url(source) else os.path.abspath(given_path(source))
    return Origin(
        checksums=checksums,
        source=name_of(path),
        resolved=name_of(path if is_url(source) else os.path.realpath(path)),
        folder=name_of(os.getcwd()),
        options=_changed_options(options),
        seen=seen,
    )


def seen_before(note: bytes, checksums: str) -> Seen:
    """Return the state of the source that a note tells, if it is about these checksums."""
    try:
        value = json.loads(note)
        if value["checksums"] != checksums:
            return UNSEEN
        return Seen(str(value["state"]), int(value["started_ns"]))
    except (ValueError, KeyError, TypeError, OverflowError):
        return UNSEEN


def _changed_options(options: Any) -> dict[str, object]:  # of any dataclass
    default = type(options)()
    found = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if value != getattr(default, field.name):
            found[field.name] = _changed_options(value) if is_dataclass(value) else value
    return found


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
    why = _run_difference(before, run) if is_wanted else "--no-resume was given"
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


def _run_difference(before: Mapping[str, object], run: Run) -> str:
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


_REPLACE = "pack under another --version or --name, or pass --overwrite to replace it"
_CALLED = {"shard_bytes": "shard-size"}


def checksums_of(folder: Path) -> str:
    """Return the hash of a dataset's SHA256SUMS; "" if it has none."""
    with suppress(OSError, ImgrecError):
        return hashlib.sha256(read_document(folder / layout.CHECKSUMS)).hexdigest()
    return ""


def refuse_other(
    target: Path, plan: Plan, source_check: SourceCheck, engine: Engine, *, are_trusted: bool
) -> None:
    """Raise DatasetExists unless the dataset at `target` is what the plan would make.

    The plan knows names, sizes and beginnings of images. Unless the files `are_trusted`, as nobody
    can have changed them since, all of each is hashed.
    """
    if read_fingerprint(target) != plan.fingerprint:
        raise _exists(target, _difference(target, plan))
    if fault := find_damage(target):
        raise _damaged(target, fault)
    bad = _bad_images(target, plan, read_report(target))
    if are_trusted and not bad:
        return
    members = _members(target, plan, bad, are_trusted=are_trusted)
    with closing(engine.run(source_check, members)) as running:
        changed = sorted(found.filename for found in running if found.filename)
    if changed:
        raise _exists(
            target, f"is not up to date: {printable(changed[0])} has changed since it was packed"
        )


def _difference(target: Path, plan: Plan) -> str:
    """Say how another dataset differs from the plan."""
    what = "already holds another dataset"
    try:
        report = read_report(target)
    except ImgrecError:
        return f"{what}, which imgrec did not make"
    names = {*report.options, *plan.options}
    differing = [
        f"--{_CALLED.get(name, name.replace('_', '-'))}"
        for name in sorted(names)
        if report.options.get(name) != plan.options.get(name)
    ]
    if report.source != printable(plan.source):
        return f"{what}: it was packed from {report.source}"
    if report.layout != printable(plan.layout):
        before, now = (text.partition("\n")[0] for text in (report.layout, plan.layout))
        return f"{what}: the same source was read as {before}, and is now read as {now}"
    if differing:
        return f"{what}: it was packed with other options ({', '.join(differing)})"
    return f"{what}: its images, names or labels are not those of the source"


def _bad_images(target: Path, plan: Plan, report: Report) -> dict[str, str]:
    """Return which of the planned images were skipped when they were packed, and why.

    Raises DatasetExists if the report lists other bad files than the plan does.
    """
    noted = Counter(map(_shown, report.skipped))
    known = Counter(map(_shown, plan.skipped))
    found = {file.filename: file.reason for file in (noted - known).elements()}
    bad = {
        name: found.pop(printable(name))
        for task in (plan.tasks if found else ())
        for name in task.samples.filenames
        if printable(name) in found
    }
    if others := sorted([*(known - noted), *(Note(*file) for file in found.items())]):
        raise _exists(
            target,
            f"is not up to date: its {layout.SKIPPED} is wrong about {others[0].filename}",
        )
    return bad


def _shown(file: Note) -> Note:
    return Note(printable(file.filename), file.reason)


def _members(
    target: Path, plan: Plan, bad: Mapping[str, str], *, are_trusted: bool
) -> Iterator[Members]:
    """Yield the members of each shard that must be compared with the source."""
    hashes = _hashes_by_shard(read_hashes(target))
    for task in plan.tasks:
        own = {name: bad[name] for name in task.samples.filenames if name in bad}
        if are_trusted and not own:
            continue
        digests = hashes.get(task.filename, b"")
        if len(digests) != 16 * (len(task.samples.filenames) - len(own)):
            raise _damaged(target, f"{layout.SAMPLES} does not list what {task.filename} holds")
        yield Members(task=task, hashes=digests, bad=own, are_trusted=are_trusted)


def _hashes_by_shard(rows: Iterable[tuple[str, str]]) -> dict[str, bytes]:
    shards = groupby(rows, key=lambda row: row[0])
    return {shard: bytes.fromhex("".join(xxh3 for _, xxh3 in found)) for shard, found in shards}


def _damaged(target: Path, fault: str) -> DatasetExists:
    return DatasetExists(
        f"{target} is damaged: {fault}", hint="pass --overwrite to pack it again", path=str(target)
    )


def _exists(target: Path, what: str) -> DatasetExists:
    return DatasetExists(f"{target} {what}", hint=_REPLACE, path=str(target))
