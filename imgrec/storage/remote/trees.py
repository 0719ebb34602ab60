"""New trees of files on an object store, where there is no rename and no lock.

Files are sent to their final place while others are being made. A tree that replaces another one is
sent to a hidden folder, and the store copies it over the other when it is complete:

    <target>/...                            files
    <parent>/.<name>.imgrec-unpack/owner    the run that began last
    <parent>/.<name>.imgrec-unpack/begun    there if all files at the target are of such a run
    <parent>/.<name>.imgrec-unpack/files/   files that will replace those at the target

A run that fails deletes what it sent. The files of a killed run are deleted by the next one; until
then `refuse_part` keeps others from taking them for the whole tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import BoundedSemaphore

from imgrec.errors import ExecutionError, ImgrecError, SourceError, UsageError
from imgrec.storage.paths import FileSystem, is_web, refuse_miscount, refuse_unwritable, to_path
from imgrec.storage.remote.owner import OWNER, Owner, has_ended
from imgrec.storage.remote.read import at_once, objects, store_path
from imgrec.storage.remote.transfer import Uploader, copy_inside, put_bytes, remove_objects
from imgrec.text import visible

_STAGE = ".imgrec-unpack"
_BEGUN, _FILES = "begun", "files"
_BUCKET_PARTS = 2
_KEY_BYTES = 1024
"""The longest key of S3, GCS and Azure."""
_THREADS = 16
"""How many files a process sends at once."""


class StoreTree:
    """The place where a tree grows on a store."""

    def __init__(
        self, target: str, *, is_replaceable: Callable[[str], bool] | None = None, hint: str = ""
    ) -> None:
        refuse_unwritable(target, "")
        self.target = to_path(target.rstrip("/"))
        if len(self.target.parts) <= _BUCKET_PARTS:
            raise UsageError(f"{target} is a whole bucket", hint="give a folder in it")
        self._hidden = _hidden_beside(self.target)
        self._owner = Owner(self._hidden)
        self._is_replaceable = is_replaceable
        self._hint = hint or "nothing is overwritten"
        self.path = self.target
        """Where files are sent."""

    def __enter__(self) -> StoreTree:
        left = {found.path: found.stat for found in objects(str(self._hidden))}
        changed_ns = max((stat.changed_ns for stat in left.values()), default=0)
        if OWNER in left and not has_ended(self._hidden, changed_ns):
            raise ExecutionError(
                f"another run is writing to {self.target}, or was less than a day ago",
                hint=f"wait for it, or give another folder; if it is gone, delete {self._hidden}",
                path=str(self.target),
            )
        there = [found.path for found in objects(str(self.target))]
        if _BEGUN in left:
            remove_objects(*(str(self.target / name) for name in there))
        elif there or self.target.is_file():
            self._refuse_taken(there)
            self.path = self._hidden / _FILES
        remove_objects(*(str(self._hidden / name) for name in left))
        self._owner.claim()
        if self.path == self.target:
            put_bytes(str(self._hidden / _BEGUN), b"")
        return self

    def _refuse_taken(self, names: list[str]) -> None:
        if self._is_replaceable is None or not names:
            raise UsageError(
                f"{self.target} exists already",
                hint=f"give a folder that is empty or does not exist yet: {self._hint}",
            )
        for name in names:
            if not self._is_replaceable(name):
                raise UsageError(
                    f"{self.target} cannot be replaced: it also contains {visible(name)}",
                    hint="give another folder, or move that file away",
                )

    def __exit__(self, *_exception: object) -> None:
        with suppress(ImgrecError, OSError):  # the next run removes the rest
            left = [found.path for found in objects(str(self._hidden))]
            if self._owner.is_ours():
                if _BEGUN in left:
                    _remove_below(self.target)
                _remove_below(self._hidden)

    def probe(self) -> FileSystem:
        """Return how stores treat names: as UTF-8 text, of which they change nothing."""
        key = str(self.path).partition("://")[2]
        return FileSystem(
            folds_case=False,
            composes=False,
            strips_dots=False,
            has_devices=False,
            takes_bytes=False,
            most_name_bytes=_KEY_BYTES,
            most_path_bytes=_KEY_BYTES - len(key.encode()) - 1,
        )

    def publish(self, count: int) -> None:
        """Finish the tree, which must have so many files; the store copies it over another."""
        if not self._owner.is_ours():
            raise ExecutionError(
                f"another run has begun to write to {self.target}",
                hint="wait for it, or give another folder",
                path=str(self.target),
            )
        names = [found.path for found in objects(str(self.path))]
        refuse_miscount(str(self.target), count, len(names))
        if self.path == self.target:
            remove_objects(str(self._hidden / _BEGUN))
            return
        at_once(lambda name: copy_inside(str(self.path / name), str(self.target / name)), names)
        _remove_below(self.target, but=names)


def refuse_part(url: str) -> None:
    """Raise SourceError if a run has not finished the tree at a URL."""
    path = store_path(url.rstrip("/"))
    if is_web(url) or len(path.parts) <= _BUCKET_PARTS:
        return
    if (_hidden_beside(path) / _BEGUN).is_file():
        raise SourceError(
            f"{url} is only a part: a run of unpack or export to it is not finished",
            hint="wait for that run, or run it again if it was interrupted; if you want the part, "
            f"delete {_hidden_beside(path)}",
            path=url,
        )


def _hidden_beside(target: Path) -> Path:
    return target.with_name(f".{target.name}{_STAGE}")


def _remove_below(folder: Path, but: list[str] | None = None) -> None:
    kept = frozenset(but or ())
    names = [found.path for found in objects(str(folder)) if found.path not in kept]
    remove_objects(*(str(folder / name) for name in names))


@contextmanager
def sending(root: str) -> Iterator[Callable[[str, bytes], None]]:
    """Yield a function that sends a new file; all have arrived when the block ends."""
    jobs: list[Future[None]] = []
    room = BoundedSemaphore(2 * _THREADS)  # so that few images wait in memory

    def send(name: str, data: bytes) -> None:
        try:
            put_bytes(f"{root}/{name}", data)
        finally:
            room.release()

    with ThreadPoolExecutor(_THREADS, thread_name_prefix="imgrec-send") as pool:

        def write(name: str, data: bytes) -> None:
            room.acquire()
            while jobs and jobs[0].done():
                jobs.pop(0).result()
            jobs.append(pool.submit(send, name, data))

        yield write
        for job in jobs:
            job.result()


@contextmanager
def sent_folder(root: str) -> Iterator[str]:
    """Yield a temporary folder; its files are sent when the block ends."""
    with TemporaryDirectory(prefix=".imgrec-") as folder:
        yield folder
        with closing(Uploader()) as uploader:
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    uploader.upload(str(path), f"{root}/{path.relative_to(folder).as_posix()}")
