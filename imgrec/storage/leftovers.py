"""Hidden folders that interrupted runs leave beside the versions of a dataset.

`remote.leftovers` does the same on a store.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from imgrec.errors import ExecutionError
from imgrec.storage.files import PART, lock, make_locked, os_errors_as, remove_all
from imgrec.storage.hidden import (
    INCOMPLETE,
    ORIGIN,
    REPLACED,
    incomplete_path,
    is_hidden_name,
    origin_path,
    replaced_path,
    target_of,
)
from imgrec.storage.paths import is_remote

NOTES, SPOOL = ".notes", ".spool"
"""Folders for notes and for temporary files, in the hidden folder of an unfinished dataset."""
_METADATA = "metadata.json"
_SHARD = "-of-"


def find_leftovers(*dataset_folders: Path) -> Iterator[Path]:
    """Yield the hidden folders that interrupted runs left beside the versions of datasets.

    Raises ExecutionError if a folder cannot be read.
    """
    for folder in dataset_folders:
        if is_remote(folder):
            from imgrec.storage.remote import leftovers

            yield from leftovers.find_leftovers(folder)
            continue
        for suffix in (INCOMPLETE, REPLACED):
            with os_errors_as(folder):
                found = sorted(folder.glob(f".*{suffix}"))
                left = [path for path in found if _is_ours(path) and not _is_taken(path)]
            yield from left


def find_orphans(*dataset_folders: Path) -> Iterator[Path]:
    """Yield the private notes about removed datasets; raise as `find_leftovers`."""
    for folder in dataset_folders:
        if is_remote(folder):
            from imgrec.storage.remote import leftovers

            yield from leftovers.find_orphans(folder)
            continue
        with os_errors_as(folder):
            orphans = [path for path in sorted(folder.glob(f".*{ORIGIN}")) if _is_orphan(path)]
        yield from orphans


def restorable(path: Path) -> str:
    """Return the path to restore a dataset to if a run died while replacing it, or ""."""
    if is_remote(path):
        from imgrec.storage.remote import leftovers

        return leftovers.restorable(path)
    target = target_of(path)
    is_aside = path.name.endswith(REPLACED) and not os.path.lexists(target)
    return str(target) if is_aside else ""


def occupied(path: Path) -> tuple[Path, ...]:
    """Return the folders of what is removed along with a leftover or a version."""
    if is_remote(path):
        from imgrec.storage.remote import leftovers

        return leftovers.occupied(path)
    return (path,)


def remove_leftover(path: Path) -> None:
    """Remove what `find_leftovers` or `find_orphans` found; restore it if it is `restorable`.

    Raises ExecutionError if a run has begun there since.
    """
    if is_remote(path):
        from imgrec.storage.remote import leftovers

        leftovers.remove_leftover(path)
        return
    guard = _guard(path)
    try:
        held = make_locked(guard)
        try:
            if path == guard:
                remove_stage(path)
            elif path.name.endswith(ORIGIN):
                remove_all(path)
                guard.rmdir()
            else:
                restore(path)
                with suppress(OSError):  # unless there is something in it
                    guard.rmdir()
        finally:
            os.close(held)
    except OSError as error:
        raise _cannot_remove(path, error) from error
    with suppress(OSError):  # unless there is a dataset in it
        path.parent.rmdir()


def _cannot_remove(path: Path, error: OSError) -> ExecutionError:
    return ExecutionError(
        f"cannot remove {path}: {error.strerror or error}",
        hint="check that nobody uses it and that you may remove it, then run this again",
        path=str(path),
    )


def remove_version(path: Path) -> None:
    """Remove a dataset: it disappears at once, and its files after that.

    Raises ExecutionError if a run is making the same version.
    """
    if is_remote(path):
        from imgrec.storage.remote import leftovers

        leftovers.remove_version(path)
        return
    guard = incomplete_path(path)
    try:
        held = make_locked(guard)
        try:
            path.rename(guard)  # which replaces an empty folder only
            remove_stage(guard)
            remove_all(origin_path(path))
        except OSError:
            with suppress(OSError):  # unless there is something in it
                guard.rmdir()
            raise
        finally:
            os.close(held)
    except OSError as error:
        raise _cannot_remove(path, error) from error


def remove_stage(path: Path) -> None:
    """Remove a hidden folder; the files that identify it as ours are removed last."""
    for child in path.iterdir():
        if child.name not in (NOTES, _METADATA):
            remove_all(child)
    remove_all(path)


def _guard(path: Path) -> Path:
    """Return the hidden folder whose lock a run on a dataset holds."""
    return incomplete_path(target_of(path))


def _is_ours(path: Path) -> bool:
    """Tell by name and contents whether a hidden folder was made by a run of ours."""
    suffix = REPLACED if path.name.endswith(REPLACED) else INCOMPLETE
    if not is_hidden_name(path.name, suffix) or not path.is_dir():
        return False
    try:
        if path.name.endswith(REPLACED):
            return any(name == _METADATA or _SHARD in name for name in os.listdir(path))
        return is_stage(path)
    except OSError:  # it was just removed, or belongs to others
        return False


def is_stage(path: Path) -> bool:
    """Return whether a folder contains only files that a run of ours may leave."""
    names = os.listdir(path)
    return (
        NOTES in names
        or _METADATA in names
        or all(name == SPOOL or name.endswith(PART) or _SHARD in name for name in names)
    )


def _is_orphan(path: Path) -> bool:
    """Return whether a private note is about a removed dataset."""
    target = target_of(path)
    beside = (target, _guard(path), replaced_path(target))
    is_note = is_hidden_name(path.name, ORIGIN) and path.is_file() and not path.is_symlink()
    return is_note and not any(map(os.path.lexists, beside))


def _is_taken(path: Path) -> bool:
    """Return whether a hidden folder must stay: it is in use, belongs to others, or is a link."""
    if path.is_symlink():
        return True
    try:
        os.close(lock(_guard(path)))
    except FileNotFoundError:
        return not path.is_dir() or path == _guard(path)  # it was just removed
    except OSError:
        return True
    return False


def restore(path: Path) -> None:
    """Restore a dataset that was moved aside, unless another is in its place."""
    if not os.path.lexists(path):
        return
    if target := restorable(path):
        path.rename(target)
    else:
        remove_all(path)
