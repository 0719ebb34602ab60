"""Remember where a dataset came from: its source, the options, and the state of the source.

That note, `<name>/.<version>.origin.json`, holds paths, inodes and times. They are facts about one
machine, so they are kept outside the dataset and its checksums.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple, TypeAlias

from imgrec import layout
from imgrec.errors import ImgrecError
from imgrec.options import ColumnKind, ColumnOption, PackOptions
from imgrec.options.card import DatasetCard
from imgrec.options.packing import embeddings_text
from imgrec.read.files import read_document
from imgrec.stamp import Stamp
from imgrec.storage.urls import is_url
from imgrec.text import given_path, name_of, path_of

TICK_NS = 2 * 10**9
"""Two changes within this time may have the same date: FAT counts in steps of two seconds."""
_PATHS = ("images", "test_images", "split_file", "split_from", "embeddings")
"""Options that may be paths relative to the folder where the command was given."""


class Snapshot(NamedTuple):
    """The state of a source when a run read it."""

    state: str
    """"" if a file had just changed: its next change could carry the same date."""
    started_ns: int
    newest_ns: int = 0
    """The latest change of any file or folder that was opened, by the clock of its disk."""

    @classmethod
    def of(cls, stamp: Stamp, started_ns: int) -> Snapshot:
        """Take the snapshot of a run that started at `started_ns`."""
        is_settled = stamp.newest_ns < started_ns - TICK_NS
        state = f"{stamp.state:032x}" if is_settled else ""
        return cls(state, started_ns, stamp.newest_ns)

    @property
    def settled_ns(self) -> int:
        """Return a time such that files that changed before it were already what the run read.

        The clock of a disk may be behind ours, so nothing after the latest change counts. If that
        change was just before the run, another may have the same date.
        """
        return self.newest_ns + 1 if self.state else min(self.newest_ns, self.started_ns) - TICK_NS

    def is_unchanged(self, stamp: Stamp) -> bool:
        """Check that no file can have changed since; a clock that was ahead proves nothing."""
        return self.started_ns <= time.time_ns() and self.state == f"{stamp.state:032x}"


Homes: TypeAlias = Mapping[str, tuple[int, int]]
"""Device and inode of each folder of a source, by its path; see `Catalog`."""


class Origin(NamedTuple):
    """Where a dataset came from."""

    source: str = ""
    """The absolute path or URL; "" if it is unknown."""
    folder: str = ""
    """The working folder of the run."""
    options: Mapping[str, Any] = MappingProxyType({})
    """The options that were given, as plain values."""
    snapshot: Snapshot = Snapshot("", 0)
    homes: Homes = MappingProxyType({})

    def note(self, checksums: str) -> bytes:
        """Return the private note about the dataset with these checksums."""
        path = self.source
        value = {
            # A note about another dataset of the same name must not count.
            "checksums": checksums,
            "source": name_of(path),
            "resolved": name_of(path if is_url(path) else os.path.realpath(path)),
            "folder": name_of(self.folder),
            "options": dict(self.options),
            "state": self.snapshot.state,
            "started_ns": self.snapshot.started_ns,
            "newest_ns": self.snapshot.newest_ns,
            "homes": {name_of(path): home for path, home in self.homes.items()},
        }
        return json.dumps(value, indent=2).encode() + b"\n"

    def pack_options(self) -> dict[str, Any]:  # of many types, which PackOptions checks
        """Return the options as keywords, with absolute paths."""
        options = {**self.options, "source": {**self.options.get("source", {})}}
        if "card" in options:
            options["card"] = DatasetCard(*options["card"])
        if columns := options["source"].get("column"):
            options["source"]["column"] = [
                ColumnOption(name, kind and ColumnKind(kind), default)
                for name, kind, default in columns
            ]
        for holder in (options, options["source"]):
            for name in _PATHS:
                path = path_of(str(holder.get(name, "")))
                beside = os.path.join(path_of(self.folder), os.path.expanduser(path))
                if path and not is_url(path) and os.path.lexists(beside):
                    holder[name] = beside
        return options


def origin_of(source: str, options: PackOptions, snapshot: Snapshot, homes: Homes) -> Origin:
    """Return the origin of a dataset that was just made, or found up to date."""
    path = source if is_url(source) else os.path.abspath(given_path(source))
    if options.embeddings:
        options = replace(options, embeddings=embeddings_text(options.embeddings))
    return Origin(path, os.getcwd(), _changed_options(options), snapshot, homes)


def parse_origin(note: bytes, checksums: str) -> Origin:
    """Return the origin in a note, if the note is about the dataset with these checksums."""
    with suppress(ValueError, KeyError, TypeError, OverflowError):  # such as 1e999 for a number
        value = json.loads(note)
        if value["checksums"] == checksums:
            return Origin(
                source=path_of(str(value["source"])),
                folder=str(value["folder"]),
                options=dict(value["options"]),
                snapshot=Snapshot(
                    str(value["state"]), int(value["started_ns"]), int(value.get("newest_ns", 0))
                ),
                homes={
                    path_of(path): (int(device), int(inode))
                    for path, (device, inode) in value.get("homes", {}).items()
                },
            )
    return Origin()


def _changed_options(options: Any) -> dict[str, object]:  # of any dataclass
    default = type(options)()
    values = {field.name: getattr(options, field.name) for field in fields(options)}
    return {
        name: _changed_options(value) if is_dataclass(value) else value
        for name, value in values.items()
        if value != getattr(default, name)
    }


def checksums_of(folder: Path) -> str:
    """Return the hash of a dataset's SHA256SUMS; "" if it has none."""
    with suppress(OSError, ImgrecError):
        return hashlib.sha256(read_document(folder / layout.CHECKSUMS)).hexdigest()
    return ""
