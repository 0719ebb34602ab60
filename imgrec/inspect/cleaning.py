"""Choose and remove what a data directory no longer needs."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from imgrec.errors import DatasetNotFound
from imgrec.inspect.listing import ListedVersion, Listing, State, list_data_dir
from imgrec.outcome import Leftover
from imgrec.read.files import folders_in
from imgrec.storage.leftovers import (
    find_leftovers,
    find_orphans,
    occupied,
    remove_leftover,
    remove_version,
    restorable,
)
from imgrec.storage.paths import to_path
from imgrec.storage.usage import StoredFile, freed_bytes, stored_files
from imgrec.text import suggestion


def clean_data_dir(
    root: Path, *, dataset: str, versions: int | None, dry_run: bool
) -> tuple[Leftover, ...]:
    """Remove leftovers, and all but the newest `versions` of each dataset, or of one.

    Raises DatasetNotFound if there is no such dataset.
    """
    if dataset or versions is not None:
        listing = list_data_dir(root)
        refuse_unknown(listing, dataset)
    old = [] if versions is None else list(_outdated(listing, versions, dataset))
    left = _leftovers(root, dataset)
    restored = {path: target for path in left if (target := restorable(path))}
    removed = [path for path in [*left, *old] if path not in restored]
    freed = freed_bytes(map(_files, removed))
    sizes = dict(zip(removed, freed, strict=True))
    found = tuple(
        Leftover(path=str(path), size=sizes.get(path, 0), restored=restored.get(path, ""))
        for path in [*left, *old]
    )
    if not dry_run:
        for path in left:
            remove_leftover(path)
        for path in old:
            remove_version(path)
    return found


def _files(path: Path) -> list[StoredFile]:
    """List the files that are removed along with a leftover or a version."""
    return list(chain.from_iterable(map(stored_files, occupied(path))))


def refuse_unknown(listing: Listing, dataset: str) -> None:
    """Raise DatasetNotFound if a data directory has no dataset of that name; "" is any."""
    names = [one.name for one in listing.datasets]
    if dataset and dataset not in names:
        raise DatasetNotFound(
            f"there is no dataset {dataset!r} in {listing.data_dir}",
            hint=suggestion(names, dataset, most=3),
            path=listing.data_dir,
        )


def _leftovers(root: Path, dataset: str) -> list[Path]:
    folders = [path for path in folders_in(root) if not path.is_symlink()]
    places = [path for path in folders if path.name == dataset] if dataset else [root, *folders]
    return [*find_leftovers(*places), *find_orphans(*places)]  # `root` may be a dataset's folder


def _outdated(listing: Listing, keep: int, dataset: str) -> Iterator[Path]:
    """Yield all but the newest versions, the oldest first. Others than whole ones do not count."""
    for one in listing.datasets:
        if dataset in ("", one.name):
            whole = [to_path(version.path) for version in one.versions if _is_removable(version)]
            yield from whole[: max(len(whole) - keep, 0)]


def _is_removable(version: ListedVersion) -> bool:
    """Return whether imgrec made a version and can read it, and it is here."""
    path = to_path(version.path)
    is_whole = version.by_imgrec and version.state is State.COMPLETE
    return is_whole and not path.is_symlink() and not path.parent.is_symlink()
