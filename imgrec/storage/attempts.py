"""Files of a task on a store, under a name that no other attempt at the task has."""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import closing
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


def send(folder: str, filenames: Iterable[str], attempts: str) -> dict[str, Attempt]:
    """Send files of a folder to a new folder below a URL; return where they are by name."""
    from imgrec.storage.remote.transfer import Uploader

    place = f"{attempts}/{os.urandom(8).hex()}"
    sent = {}
    with closing(Uploader()) as uploader:
        for name in filenames:
            stat = uploader.upload(os.path.join(folder, name), f"{place}/{name}")
            sent[name] = Attempt(f"{place}/{name}", stat.size, stat.tag)
    return sent
