"""Folders in folders, however deep: what the standard library does by recursion up to 1,000."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress


def walk(root: str) -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield each folder below `root`, as `os.walk` does: its path, folders and other names.

    Links are not followed. The caller may take folders from the list, or sort it.
    """
    stack = [root]
    while stack:
        path = stack.pop()
        folders: list[str] = []
        names: list[str] = []
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                (folders if entry.is_dir() else names).append(entry.name)
        yield path, folders, names
        below = [os.path.join(path, name) for name in reversed(folders)]
        stack.extend(folder for folder in below if not os.path.islink(folder))


def make_folders(path: str) -> None:
    """Make a folder and those above it that are not there; raise OSError if that cannot be."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        with suppress(FileExistsError):  # another worker may have made it
            os.mkdir(folder)


def remove_tree(root: str) -> None:
    """Delete a folder and all that is in it; raise OSError if that cannot be."""
    found = []
    for path, folders, names in walk(root):
        found.append(path)
        inside = [os.path.join(path, name) for name in (*names, *folders)]
        for one in inside:
            if os.path.islink(one) or not os.path.isdir(one):
                os.unlink(one)
    for path in reversed(found):
        os.rmdir(path)
