"""Growing a dataset on an object store, where there is no rename and no lock.

Shards are written to a local temporary folder, uploaded to their final place while others are still
being written, and deleted locally. `dataset_info.json`, which makes a dataset visible, is written
last, when a listing has shown that all other objects are what was sent.

    <data-dir>/<name>/<version>/...                          shards, then documents
    <data-dir>/<name>/.<version>.incomplete/notes/<shard>    finished shards: size, tag, result
    <data-dir>/<name>/.<version>.incomplete/owner            the run that began last
    <data-dir>/<name>/.<version>.incomplete/replacing        there while another dataset is replaced
    <data-dir>/<name>/.<version>.incomplete/attempts/...     shards that executors have sent
    <data-dir>/<name>/.<version>.origin.json                 its source, and when it was packed

Executors of a cluster write a shard to a temporary folder of their own and upload it as an attempt,
under a name that nobody else uses. The driver has the store copy the files of one attempt to their
place. So an executor that was given up, but goes on writing, never changes a dataset.

A dataset that is being replaced stays as it is until the new one is complete in the hidden folder.
Then its `dataset_info.json` is removed, the new objects are copied inside the store, and the new
`dataset_info.json` is written; `imgrec clean` finishes that if the run was interrupted. Two runs at
once cannot be prevented, but they never mix: the one that began first finds another owner, or
objects that it did not send, and publishes nothing.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import BoundedSemaphore
from types import TracebackType
from typing import NamedTuple

from imgrec.errors import ExecutionError, ImgrecError
from imgrec.storage.attempts import Attempt
from imgrec.storage.files import Seal, os_errors_as
from imgrec.storage.hidden import incomplete_path, origin_path
from imgrec.storage.remote.owner import OWNER, Owner
from imgrec.storage.remote.read import (
    Span,
    Stat,
    objects,
    read_spans,
)
from imgrec.storage.remote.transfer import (
    Uploader,
    copy_inside,
    copy_sent,
    put_bytes,
    remove_objects,
)

VISIBLE = "dataset_info.json"
"""A dataset without this file does not exist. `layout`, which has the name too, ranks above."""
NOTES, _ATTEMPTS, _RESULTS = "notes/", "attempts", "results"
_RUN = "run"
RUN_NOTE = f"{NOTES}{_RUN}"
REPLACING = "replacing"
"""An object that shows that shards go to the hidden folder."""
_FILES = 4
"""How many files are uploaded at once, each in several parts."""
_COPIES = 16
"""How many objects the store copies at once, which takes nothing of this machine."""
_WAITING = 8
"""How many finished shards may wait for their upload on the local disk."""


class Sent(NamedTuple):
    """Size and tag that the store reported for an object after its upload."""

    size: int
    tag: str


class StoreStaging:
    """A local folder in which a dataset grows, and the part of it that is on the store already."""

    is_sure = True
    """Tags have shown whether files are intact, so nobody needs to read them."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._hidden = incomplete_path(target)
        self._uploader = Uploader()
        self._pool = ThreadPoolExecutor(_FILES, thread_name_prefix="imgrec-store")
        self._copier = ThreadPoolExecutor(_COPIES, thread_name_prefix="imgrec-copy")
        self._room = BoundedSemaphore(_WAITING)
        self._jobs: list[Future[None]] = []
        self._sent: dict[str, Sent] = {}
        """Uploaded files, by name."""
        self._place = target
        """Where shards are uploaded: the target, unless another dataset is there."""
        self._attempts: dict[str, Attempt] = {}
        """Files that workers have sent, by name."""
        self._owner = Owner(self._hidden)
        self.attempts = str(self._hidden / _ATTEMPTS / self._owner.token)
        """Where the workers of this run send files."""
        self.results = str(self._hidden / _RESULTS / self._owner.token)
        """Where they leave what only this run reads."""
        self.shard_notes = str(self._hidden / NOTES.rstrip("/"))
        """Where they note finished shards by themselves."""
        self.path = Path(mkdtemp(prefix=".imgrec-"))
        self.spool = self.path / ".spool"

    def __enter__(self) -> StoreStaging:
        try:
            self._place = self._hidden if _is_replacing(self.target, self._hidden) else self.target
            self._owner.claim()
            if self._place == self._hidden:
                put_bytes(str(self._hidden / REPLACING), b"")
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self._pool.shutdown(cancel_futures=True)
            self._copier.shutdown(cancel_futures=True)
            self._uploader.close()
            with suppress(ImgrecError, OSError):  # the next run removes the rest
                if self._owner.is_ours():
                    self._clear(error)
        finally:
            shutil.rmtree(self.path, ignore_errors=True)

    def _clear(self, error: BaseException | None) -> None:
        """Leave only what a run that continues this one can use."""
        if error is not None and len(objects(str(self._hidden / NOTES))) > 1:
            self._owner.release()
            return
        if error is not None and self._place == self.target:
            remove_objects(*(str(self._place / name) for name in self._sent))
        remove_objects(*_below(self._hidden))

    def notes(self) -> dict[str, bytes]:
        """Return all notes of an earlier run, by name."""
        found = {}
        for name, data in _read_notes(str(self._hidden / NOTES)).items():
            files, found[name] = _decode_note(data)
            self._sent |= files
        return found

    def note(self, name: str, data: bytes) -> None:
        """Keep a note for a run that continues this one."""
        put_bytes(str(self._hidden / NOTES / name), _encode_note({}, data))

    def keep(self, filenames: Collection[str], notes: Collection[str]) -> None:
        """Remove everything of an earlier run except these.

        Files that workers have sent are named by `name_of`.
        """
        notes = {*notes, _RUN}
        self._sent = {name: sent for name, sent in self._sent.items() if name in filenames}
        if self._place == self.target:
            remove_objects(*_below(self.target, but=filenames))
        kept = {OWNER, *(f"{NOTES}{name}" for name in notes), *filenames}
        kept |= {REPLACING} if self._place == self._hidden else set()
        left = _below(self._hidden, but=kept)
        remove_objects(*(url for url in left if not url.startswith(self.results)))

    def name_of(self, url: str) -> str:
        """Name a file that a worker has sent to a URL, for `keep`."""
        return url.removeprefix(f"{self._hidden}/")

    def accept(self, files: Mapping[str, Attempt]) -> None:
        """Take these files from where a worker has sent them, when they are finished.

        They stay there until all is published, for a run that continues this one.
        """
        self._attempts |= files

    def start_sync(self, *filenames: str) -> None:
        """Upload finished files, without a note."""
        self.finish(filenames, "", b"")

    def finish(self, filenames: Iterable[str], name: str, note: bytes) -> None:
        """Upload finished files, then note that; wait if too many are queued."""
        files = tuple(filenames)
        self._raise_fault(wait=False)
        if self._attempts.keys() >= {*files}:
            self._jobs.append(self._copier.submit(self._send_noted, files, name, note))
            return
        self._room.acquire()
        job = self._pool.submit(self._send_noted, files, name, note)
        job.add_done_callback(lambda _: self._room.release())
        self._jobs.append(job)

    def link(self, source: Path, filename: str) -> None:
        """Add a file of another version of the dataset: the store copies it by itself."""
        self._raise_fault(wait=False)
        self._jobs.append(self._copier.submit(self._copy, source, filename))

    def _copy(self, source: Path, filename: str) -> None:
        found = copy_inside(str(source), str(self._place / filename))
        self._sent[filename] = Sent(found.size, found.tag)

    def _send_noted(self, filenames: tuple[str, ...], name: str, note: bytes) -> None:
        for filename in filenames:
            if attempt := self._attempts.pop(filename, None):
                self._take(attempt, filename)
                continue
            self._send(filename, self._place)
            with os_errors_as(self.path / filename):
                os.unlink(self.path / filename)
        files = {filename: self._sent[filename] for filename in filenames}
        if name:
            put_bytes(str(self._hidden / NOTES / name), _encode_note(files, note))

    def _take(self, attempt: Attempt, filename: str) -> None:
        target = self._place / filename
        found = copy_sent(attempt.url, str(target), attempt.size, attempt.tag)
        if found is None:
            raise _not_as_sent(target)
        self._sent[filename] = Sent(found.size, found.tag)

    def _send(self, filename: str, place: Path) -> None:
        found = self._uploader.upload(str(self.path / filename), str(place / filename))
        self._sent[filename] = Sent(found.size, found.tag)

    def _raise_fault(self, *, wait: bool) -> None:
        for job in [job for job in self._jobs if wait or job.done()]:
            job.result()
            self._jobs.remove(job)

    def intact(self, seals: Iterable[Seal]) -> frozenset[str]:
        """Name the files that are still what was sent and match their seals."""
        there = {found.path: found.stat for found in objects(str(self._place))}
        return frozenset(
            seal.filename
            for seal in seals
            if _is_same(there.get(seal.filename), self._sent.get(seal.filename))
            and self._sent[seal.filename].size == seal.size
        )

    def publish(self, files: Collection[Seal], origin: bytes = b"") -> None:
        """Make the dataset visible when all of its files are on the store.

        `origin` is kept beside the dataset, not in it.
        """
        self._raise_fault(wait=True)
        names = {seal.filename for seal in files}
        with os_errors_as(self.path):
            documents = [path.name for path in self.path.iterdir() if path.name in names]
        early = [name for name in documents if name != VISIBLE]
        self._each(lambda name: self._send(name, self._place), early, self._pool)
        self._confirm(names - {VISIBLE})
        if self._place == self._hidden:
            self._send(VISIBLE, self._hidden)  # so that `imgrec clean` can finish it
            self._replace(names - {VISIBLE})
        remove_objects(*_below(self.target, but=names))
        note_origin(self.target, origin)
        self._send(VISIBLE, self.target)

    def _replace(self, names: Iterable[str]) -> None:
        """Copy the objects of the hidden folder over another dataset."""
        remove_objects(str(self.target / VISIBLE))

        def copy(name: str) -> None:
            if not copy_sent(str(self._hidden / name), str(self.target / name), *self._sent[name]):
                raise _not_as_sent(self.target / name)

        self._each(copy, names, self._copier)

    def _confirm(self, names: Collection[str]) -> None:
        """Raise ExecutionError if an object is not what was sent, or another run has begun."""
        there = {found.path: found.stat for found in objects(str(self._place))}
        for name in sorted(names):
            if not _is_same(there.get(name), self._sent.get(name)):
                raise _not_as_sent(self._place / name)
        if not self._owner.is_ours():
            raise ExecutionError(
                f"another run has begun to pack {self.target}",
                hint="wait for it, or pack under another --name or --version",
                path=str(self.target),
            )

    def _each(
        self, work: Callable[[str], None], names: Iterable[str], pool: ThreadPoolExecutor
    ) -> None:
        for job in [pool.submit(work, name) for name in names]:
            job.result()


def is_taken(target: Path) -> bool:
    """Return whether a dataset is there, or anything that is not left by a run of ours."""
    if (target / VISIBLE).is_file():
        return True
    return target.is_dir() and not has_begun(incomplete_path(target))


def has_begun(hidden: Path) -> bool:
    """Return whether all objects at the place of an unfinished dataset are of a run of ours."""
    return (hidden / RUN_NOTE).is_file() and not (hidden / REPLACING).is_file()


def _is_replacing(target: Path, hidden: Path) -> bool:
    """Return whether shards must go, or have gone, to the hidden folder."""
    names = [found.path for found in objects(str(hidden))]
    return is_taken(target) or any("/" not in name and name != OWNER for name in names)


def note_origin(target: Path, origin: bytes) -> None:
    """Note where a dataset came from; b"" removes the note."""
    if origin:
        put_bytes(str(origin_path(target)), origin)
    else:
        remove_objects(str(origin_path(target)))


def _below(folder: Path, *, but: Collection[str] = ()) -> list[str]:
    return [str(folder / found.path) for found in objects(str(folder)) if found.path not in but]


def _is_same(found: Stat | None, sent: Sent | None) -> bool:
    return found is not None and sent is not None and Sent(found.size, found.tag) == sent


def _not_as_sent(path: Path) -> ExecutionError:
    return ExecutionError(
        f"{path} is not what was sent there",
        hint="is another run packing to the same place? Run this again when it is done",
        path=str(path),
    )


def _encode_note(files: Mapping[str, Sent], data: bytes) -> bytes:
    """Return a note: {"shard": [size, tag], ...}, line feed, data of the run itself."""
    return json.dumps(files).encode() + b"\n" + data


def _decode_note(note: bytes) -> tuple[dict[str, Sent], bytes]:
    """Return files and data of a note; nothing if it is damaged."""
    head, _, data = note.partition(b"\n")
    try:
        sent = json.loads(head).items()
        return {str(name): Sent(int(size), str(tag)) for name, (size, tag) in sent}, data
    except (ValueError, TypeError, AttributeError):
        return {}, b""


def _read_notes(folder: str) -> dict[str, bytes]:
    """Read all notes in a folder at once, except those that have just been removed."""
    listed = objects(folder)
    spans = [Span(f"{folder.rstrip('/')}/{found.path}", 0, found.stat.size) for found in listed]
    answers = zip(listed, read_spans(spans), strict=True)
    return {found.path: data for found, data in answers if isinstance(data, bytes)}
