"""Where a dataset came from, as only this machine knows it: a private note beside the dataset.

Paths, inodes and times are facts about a machine, and no two runs share them. So they are no part
of a dataset, nor of its checksums. `<name>/.<version>.origin.json` keeps them. A dataset that was
copied elsewhere has no such note; then the images themselves tell whether it is current.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, NamedTuple, Self

from imgrec.options import PackOptions
from imgrec.stamp import Stamp
from imgrec.storage.urls import is_url
from imgrec.text import given_path, name_of

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
