"""Listing what is on a store."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from imgrec.storage.remote.faults import NO_BUCKET, denied
from imgrec.storage.remote.reading import Stat, stat_of
from imgrec.storage.remote.retries import persist
from imgrec.storage.remote.systems import open_system

T = TypeVar("T", bound="list[Any] | dict[str, Any]")


class Listed(NamedTuple):
    """An object below a folder."""

    path: str
    """Below the folder."""
    stat: Stat


def children(url: str) -> list[str]:
    """Name what is right below a folder; nothing if there is no such folder."""
    system, path = open_system(url)
    found = _listed(lambda: system.ls(path, detail=True), url)
    names = {entry["name"].rstrip("/").rpartition("/")[2] for entry in found if _is_in(entry, path)}
    return sorted(names)


def _is_in(entry: dict[str, str], folder: str) -> bool:
    """Tell an entry of a folder from the folder itself, which some stores list too."""
    return entry["name"].strip("/") != folder.strip("/")


def objects(url: str) -> list[Listed]:
    """List all objects below a folder, in the order of their paths."""
    system, path = open_system(url)
    prefix = f"{path.rstrip('/')}/"
    found = dict(_listed(lambda: system.find(path, detail=True), url))
    below = [
        Listed(name.removeprefix(prefix), stat_of(entry))
        for name, entry in found.items()
        if name.startswith(prefix) and entry.get("type") == "file"
    ]
    return sorted(below)


def _listed(ask: Callable[[], T], url: str) -> T | list[Any]:
    """List a folder: none, and one with nothing in it, are the same on a store."""
    try:
        return persist(ask, url)
    except PermissionError as error:
        raise denied(url, error) from None
    except FileNotFoundError as error:
        if error.strerror == NO_BUCKET:
            raise denied(url, error) from None
        return []
