"""Growing a dataset on an object store, where there is no rename and no lock.

Shards are written to a local temporary folder, uploaded to where they will stay while others are
still being written, and deleted here. What makes a dataset visible, `dataset_info.json`, is written
last, when all the rest is there and a listing has shown it to be what was sent.

    <data-dir>/<name>/<version>/...                          shards, then documents
    <data-dir>/<name>/.<version>.incomplete/notes/<shard>    which are finished: size, tag, result
    <data-dir>/<name>/.<version>.incomplete/owner            which run was the last to begin
    <data-dir>/<name>/.<version>.origin.json                 what it was made of, and when

A dataset that is replaced stays as it is until the new one is whole in the hidden folder; then it
loses its `dataset_info.json`, objects are copied inside the store, and the new one is written.
Two runs at once are not kept apart, but never make a mixture: the one that began first finds
another owner, or objects that it did not send, and publishes nothing.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp
from threading import BoundedSemaphore
from types import TracebackType

from imgrec.errors import ExecutionError, ImgrecError
from imgrec.storage.files import Seal, telling
from imgrec.storage.leftovers import origin_path
from imgrec.storage.remote.listing import objects
from imgrec.storage.remote.notes import Evidence, decode_note, encode_note, read_notes
from imgrec.storage.remote.reading import Stat, read_object
from imgrec.storage.remote.uploading import Uploader, copy_object, put_bytes, remove_objects

VISIBLE = "dataset_info.json"
"""The document without which there is no dataset; `layout` has the name, for those above."""
_INCOMPLETE = ".incomplete"
_NOTES, _OWNER = "notes/", "owner"
_RUN = "run"
_FILES = 4
"""How many files are uploaded at once, each in several parts."""
_WAITING = 8
"""How many finished shards may wait for that, on the local disk."""


class StoreStaging:
    """A local folder in which a dataset grows, and what of it is on the store already."""

    is_sure = True
    """Whether files that are said to be intact need no other look: their tags have told."""

    def __init__(self, target: Path) -> None:
        self.target = target
        self._hidden = target.with_name(f".{target.name}{_INCOMPLETE}")
        self._uploader = Uploader()
        self._pool = ThreadPoolExecutor(_FILES, thread_name_prefix="imgrec-store")
        self._room = BoundedSemaphore(_WAITING)
        self._jobs: list[Future[None]] = []
        self._sent: dict[str, Evidence] = {}
        """What is known to be on the store, by name."""
        self._place = target
        """Where shards go: where they stay, unless another dataset is there."""
        self._token = os.urandom(8).hex()
        self.path = Path(mkdtemp(prefix=".imgrec-"))
        self.spool = self.path / ".spool"

    def __enter__(self) -> StoreStaging:
        try:
            self._place = self._hidden if _is_replacing(self.target, self._hidden) else self.target
            put_bytes(str(self._hidden / _OWNER), self._token.encode())
        except BaseException:
            shutil.rmtree(self.path, ignore_errors=True)
            raise
        return self

    def __exit__(
        self, _kind: object, error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        try:
            self._pool.shutdown(cancel_futures=True)
            self._uploader.close()
            with suppress(ImgrecError, OSError):  # what cannot be removed now, the next run removes
                if self._is_ours():
                    self._clear(error)
        finally:
            shutil.rmtree(self.path, ignore_errors=True)

    def _clear(self, error: BaseException | None) -> None:
        """Leave no more than a run that continues this one can use."""
        if error is not None and len(objects(str(self._hidden / _NOTES))) > 1:
            return
        if error is not None and self._place == self.target:
            remove_objects(*(str(self._place / name) for name in self._sent))
        remove_objects(*_below(self._hidden))

    def _is_ours(self) -> bool:
        """Tell whether no other run has begun since."""
        with suppress(FileNotFoundError):
            return read_object(str(self._hidden / _OWNER)) == self._token.encode()
        return False

    def notes(self) -> dict[str, bytes]:
        """Return all that was noted here, by name, by a run before."""
        found = {}
        for name, data in read_notes(str(self._hidden / _NOTES)).items():
            files, found[name] = decode_note(data)
            self._sent |= files
        return found

    def note(self, name: str, data: bytes) -> None:
        """Note something that the next run must know if this one is cut off."""
        put_bytes(str(self._hidden / _NOTES / name), encode_note({}, data))

    def keep(self, filenames: Collection[str], notes: Collection[str]) -> None:
        """Remove everything that a run before left but these."""
        notes = {*notes, _RUN}
        self._sent = {name: sent for name, sent in self._sent.items() if name in filenames}
        if self._place == self.target:
            remove_objects(*_below(self.target, but=filenames))
        kept = {_OWNER, *(f"{_NOTES}{name}" for name in notes)}
        kept |= {*filenames} if self._place == self._hidden else set()
        remove_objects(*_below(self._hidden, but=kept))

    def finish(self, filenames: Iterable[str], name: str, note: bytes) -> None:
        """Upload files that are finished, then note so; wait if too many are waiting."""
        self._room.acquire()
        self._raise_fault(wait=False)
        self._jobs.append(self._pool.submit(self._send_noted, tuple(filenames), name, note))

    def _send_noted(self, filenames: tuple[str, ...], name: str, note: bytes) -> None:
        try:
            for filename in filenames:
                self._send(filename, self._place)
                with telling(self.path / filename):
                    os.unlink(self.path / filename)
            files = {filename: self._sent[filename] for filename in filenames}
            put_bytes(str(self._hidden / _NOTES / name), encode_note(files, note))
        finally:
            self._room.release()

    def _send(self, filename: str, place: Path) -> None:
        found = self._uploader.upload(str(self.path / filename), str(place / filename))
        self._sent[filename] = Evidence(found.size, found.tag)

    def _raise_fault(self, *, wait: bool) -> None:
        for job in [job for job in self._jobs if wait or job.done()]:
            job.result()
            self._jobs.remove(job)

    def intact(self, seals: Iterable[Seal]) -> frozenset[str]:
        """Name the files that are still what was sent, and what their seals say."""
        there = {found.path: found.stat for found in objects(str(self._place))}
        return frozenset(
            seal.filename
            for seal in seals
            if _is_same(there.get(seal.filename), self._sent.get(seal.filename))
            and self._sent[seal.filename].size == seal.size
        )

    def publish(self, files: Collection[Seal], origin: bytes = b"") -> None:
        """Make the dataset visible, when all of its files are on the store.

        `origin` is noted beside it, outside of the dataset.
        """
        self._raise_fault(wait=True)
        names = {seal.filename for seal in files}
        with telling(self.path):
            documents = [path.name for path in self.path.iterdir() if path.name in names]
        early = [name for name in documents if name != VISIBLE]
        self._each(lambda name: self._send(name, self._place), early)
        self._confirm(names - {VISIBLE})
        if self._place == self._hidden:
            self._replace(names - {VISIBLE})
        remove_objects(*_below(self.target, but=names))
        note_origin(self.target, origin)
        self._send(VISIBLE, self.target)

    def _replace(self, names: Iterable[str]) -> None:
        """Put what is in the hidden folder in the place of another dataset."""
        remove_objects(str(self.target / VISIBLE))

        def copy(name: str) -> None:
            found = copy_object(str(self._hidden / name), str(self.target / name))
            if found.size != self._sent[name].size:
                raise _not_as_sent(self.target / name)

        self._each(copy, names)

    def _confirm(self, names: Collection[str]) -> None:
        """Raise ExecutionError unless everything is as it was sent, and no other run has begun."""
        there = {found.path: found.stat for found in objects(str(self._place))}
        for name in sorted(names):
            if not _is_same(there.get(name), self._sent.get(name)):
                raise _not_as_sent(self._place / name)
        if not self._is_ours():
            raise ExecutionError(
                f"another run has begun to pack {self.target}",
                hint="wait for it, or pack under another --name or --version",
                path=str(self.target),
            )

    def _each(self, work: Callable[[str], None], names: Iterable[str]) -> None:
        for job in [self._pool.submit(work, name) for name in names]:
            job.result()


def is_taken(target: Path) -> bool:
    """Tell whether there is a dataset, or anything that no run of ours has left."""
    if (target / VISIBLE).is_file():
        return True
    hidden = target.with_name(f".{target.name}{_INCOMPLETE}")
    return target.is_dir() and not (hidden / _NOTES / _RUN).is_file()


def _is_replacing(target: Path, hidden: Path) -> bool:
    """Tell whether shards must wait elsewhere, or do already."""
    names = [found.path for found in objects(str(hidden))]
    return is_taken(target) or any("/" not in name and name != _OWNER for name in names)


def note_origin(target: Path, origin: bytes) -> None:
    """Note where a dataset came from; b"" for a place that nobody can find again."""
    if origin:
        put_bytes(str(origin_path(target)), origin)
    else:
        remove_objects(str(origin_path(target)))


def _below(folder: Path, *, but: Collection[str] = ()) -> list[str]:
    return [str(folder / found.path) for found in objects(str(folder)) if found.path not in but]


def _is_same(found: Stat | None, sent: Evidence | None) -> bool:
    return found is not None and sent is not None and Evidence(found.size, found.tag) == sent


def _not_as_sent(path: Path) -> ExecutionError:
    return ExecutionError(
        f"{path} is not what was sent there",
        hint="is another run packing to the same place? Run this again when it is done",
        path=str(path),
    )
