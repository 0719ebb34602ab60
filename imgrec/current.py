"""Whether the dataset that is there already is what a plan would make."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, suppress
from itertools import groupby
from pathlib import Path

from imgrec import layout
from imgrec.engine import Engine
from imgrec.errors import DatasetExists, ImgrecError
from imgrec.model import Plan
from imgrec.notes import Note
from imgrec.outcome import Report
from imgrec.read.checksums import find_damage
from imgrec.read.documents import read_fingerprint, read_report
from imgrec.read.files import read_document
from imgrec.read.samples import read_hashes
from imgrec.text import printable
from imgrec.write.recheck import Members, SourceCheck

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
