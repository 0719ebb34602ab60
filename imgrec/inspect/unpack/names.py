"""Which names of records can be names of files below a folder, and of one file each."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from unicodedata import normalize

from imgrec.errors import DatasetError
from imgrec.storage.tree import FileSystem
from imgrec.text import printable

_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.I)
_SHOWN = 20


def refuse_unfit(names: Sequence[str], system: FileSystem, dataset: str) -> None:
    """Raise DatasetError, naming them, if some names cannot be files of their own below a folder.

    They are posix paths, one for each file that is to be written.
    """
    faults = sorted({*_faults(names, system)} or {*_collisions(names, system)})
    if not faults:
        return
    more = f"; and {len(faults) - _SHOWN:,} more" if len(faults) > _SHOWN else ""
    raise DatasetError(
        f"{dataset} has names that cannot be unpacked: {'; '.join(faults[:_SHOWN])}{more}",
        hint="nothing was written; give a folder on another file system if this one is to blame, "
        "and see what `imgrec verify` says of the dataset if it did not come from you",
        path=dataset,
    )


def _faults(names: Iterable[str], system: FileSystem) -> Iterator[str]:
    seen: dict[str, str] = {}  # parts of paths, which many share
    for name in names:
        fault = _path_fault(name, system)
        for part in name.split("/") if not fault else ():
            if part not in seen:
                seen[part] = _part_fault(part, system)
            fault = fault or seen[part]
        if fault:
            yield f"{printable(name)[:300]!r} {fault}"


def _path_fault(name: str, system: FileSystem) -> str:
    if not name:
        return "is empty"
    if name.startswith("/"):
        return "is absolute"
    if len(_encoded(name)) > system.most_path_bytes:
        return "is too long"
    return ""


def _part_fault(part: str, system: FileSystem) -> str:
    """Return why a part of a path cannot be the name of a file or folder, or ""."""
    if not part:
        return "has an empty part"
    if part in (".", ".."):
        return "leads elsewhere"
    if "\0" in part:
        return "has a NUL in it"
    if len(_encoded(part)) > system.most_name_bytes:
        return "is too long"
    if system.strips_dots and part.endswith((".", " ")):
        return "ends with what this file system drops"
    if system.has_devices and _DEVICES.fullmatch(part):
        return "is a device on this file system"
    if not system.takes_bytes and printable(part) != part:
        return "is not UTF-8, as this file system needs"
    return ""


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _collisions(names: Sequence[str], system: FileSystem) -> Iterator[str]:
    counts = Counter(names)
    for name, count in counts.items():
        if count > 1:
            yield f"{printable(name)!r} is the name of {count:,} records"
    folders = _folders(counts)
    for name in counts:
        if name in folders:
            yield f"{printable(name)!r} is a file and a folder"
    if not (system.folds_case or system.composes):
        return
    homes: dict[str, str] = {}
    for name in sorted({*counts, *folders}):
        home = homes.setdefault(_key(name, system), name)
        if home != name:
            yield f"{printable(home)!a} and {printable(name)!a} are one name on this file system"


def _folders(names: Iterable[str]) -> set[str]:
    """Return all folders that names lead through."""
    folders: set[str] = set()
    for folder in {name.rpartition("/")[0] for name in names}:
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    return folders


def _key(name: str, system: FileSystem) -> str:
    key = normalize("NFC", name) if system.composes else name
    return key.casefold() if system.folds_case else key
