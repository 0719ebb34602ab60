"""What interrupted runs leave on a store, as `imgrec.storage.leftovers` finds it on a disk.

Finished shards of a new dataset are at its final place already; the hidden folder says whose they
are. `staging` describes its files.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

from imgrec.errors import ExecutionError
from imgrec.storage.hidden import (
    INCOMPLETE,
    ORIGIN,
    incomplete_path,
    is_hidden_name,
    origin_path,
    target_of,
)
from imgrec.storage.remote.owner import OWNER, Owner, has_ended
from imgrec.storage.remote.read import at_once, children, objects
from imgrec.storage.remote.staging import REPLACING, RUN_NOTE, VISIBLE, has_begun
from imgrec.storage.remote.transfer import copy_inside, put_bytes, remove_objects

_log = logging.getLogger(__name__)


def find_leftovers(folder: Path) -> Iterator[Path]:
    """Yield the hidden folders of runs that have ended, beside the versions of a dataset."""
    for name in children(str(folder)):
        if is_hidden_name(name, INCOMPLETE) and _is_over(folder / name):
            yield folder / name


def find_orphans(folder: Path) -> Iterator[Path]:
    """Yield the private notes about removed datasets."""
    names = frozenset(children(str(folder)))
    for name in sorted(names):
        path = folder / name
        if is_hidden_name(name, ORIGIN):
            target = target_of(path)
            if names.isdisjoint({target.name, incomplete_path(target).name}):
                yield path


def restorable(path: Path) -> str:
    """Return the path of the dataset that a run was replacing when it was interrupted, or ""."""
    target = target_of(path)
    is_whole = path.name.endswith(INCOMPLETE) and (path / VISIBLE).is_file()
    return str(target) if is_whole and not (target / VISIBLE).is_file() else ""


def occupied(path: Path) -> tuple[Path, ...]:
    """Return the folders of what is removed along with a leftover."""
    target = target_of(path)
    return (path, target) if _has_shards(path, target) else (path,)


def remove_leftover(path: Path) -> None:
    """Remove a leftover, or finish replacing a dataset; raise ExecutionError if a run has begun."""
    if path.name.endswith(ORIGIN):
        remove_objects(str(path))
        return
    if not _is_over(path):
        raise _in_use(path)
    target = target_of(path)
    if restorable(path):
        _finish_replacing(path, target)
    elif _has_shards(path, target):
        _remove_below(target)
        remove_objects(str(origin_path(target)))
    _remove_hidden(path)


def remove_version(path: Path) -> None:
    """Remove a dataset, which disappears first; raise ExecutionError if a run is making it."""
    hidden = incomplete_path(path)
    if objects(str(hidden)) and not _is_over(hidden):
        raise _in_use(hidden)
    # If this run is interrupted, the next one finds a leftover.
    owner = Owner(hidden)
    owner.claim()
    try:
        put_bytes(str(hidden / RUN_NOTE), b"")
        remove_objects(str(path / VISIBLE))
        _remove_below(path)
        remove_objects(str(origin_path(path)))
        _remove_hidden(hidden)
    except BaseException:
        owner.release()
        raise


def _is_over(hidden: Path) -> bool:
    """Return whether a run of ours has left a hidden folder, and does not write to it now."""
    found = objects(str(hidden))
    if {OWNER, RUN_NOTE}.isdisjoint(one.path for one in found):
        return False
    target = target_of(hidden)
    found += objects(str(target)) if _has_shards(hidden, target) else []
    is_over = has_ended(hidden, max(one.stat.changed_ns for one in found))
    if not is_over:
        _log.info("%s: left alone, a run is writing there, or was less than a day ago", hidden)
    return is_over


def _has_shards(hidden: Path, target: Path) -> bool:
    """Return whether the run of a hidden folder has left shards at the place of its dataset."""
    return has_begun(hidden) and not (target / VISIBLE).is_file()


def _finish_replacing(hidden: Path, target: Path) -> None:
    own = {OWNER, REPLACING, VISIBLE}
    names = [one.path for one in objects(str(hidden)) if "/" not in one.path]
    new = [name for name in names if name not in own]
    at_once(lambda name: copy_inside(str(hidden / name), str(target / name)), new)
    _remove_below(target, but=frozenset(new))
    copy_inside(str(hidden / VISIBLE), str(target / VISIBLE))


def _remove_hidden(hidden: Path) -> None:
    """Remove a hidden folder; the objects that identify it as ours are removed last."""
    _remove_below(hidden, but=frozenset({RUN_NOTE, OWNER}))
    remove_objects(str(hidden / RUN_NOTE))
    remove_objects(str(hidden / OWNER))


def _remove_below(folder: Path, but: frozenset[str] = frozenset()) -> None:
    names = [one.path for one in objects(str(folder)) if one.path not in but]
    remove_objects(*(str(folder / name) for name in names))


def _in_use(hidden: Path) -> ExecutionError:
    return ExecutionError(
        f"cannot remove {hidden}: a run is writing there, or was less than a day ago",
        hint="wait for it, then run this again",
        path=str(hidden),
    )
