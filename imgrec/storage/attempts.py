"""Files of a task on a store, under a name that no other attempt at the task has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import NamedTuple


class Attempt(NamedTuple):
    """A file that a worker has sent."""

    url: str
    size: int
    tag: str
    """See `Stat` of stores."""


def is_there(attempt: Attempt) -> bool:
    """Return whether a file that a worker has sent is still what it was."""
    from imgrec.storage.remote.read import stat_object

    try:
        found = stat_object(attempt.url)
    except FileNotFoundError:
        return False
    return (found.size, found.tag) == attempt[1:]


class Sending:
    """Sends the files of one attempt at a task to a new folder below a URL; to be used with `with`.

    The first of them is sent while it is written.
    """

    def __init__(self, attempts: str, first: str, expected_bytes: int) -> None:
        from imgrec.storage.remote.transfer import Uploader

        self._place = f"{attempts}/{os.urandom(8).hex()}"
        self._uploader = Uploader()
        self._growing = self._uploader.begin(f"{self._place}/{first}", expected_bytes)
        self._first = first
        self.on_written = self._growing.send_parts
        """See `create`."""

    def __enter__(self) -> Sending:
        return self

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        self._uploader.close()
        if error:
            self._growing.give_up()

    def send(self, folder: str, filenames: Iterable[str]) -> dict[str, Attempt]:
        """Send files of a folder that are complete; return where they are by name."""
        sent = {}
        for name in filenames:
            path, url = os.path.join(folder, name), f"{self._place}/{name}"
            is_first = name == self._first
            stat = self._growing.finish(path) if is_first else self._uploader.upload(path, url)
            sent[name] = Attempt(url, stat.size, stat.tag)
        return sent
