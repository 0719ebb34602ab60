"""Find a dataset by its name, or by a path at any level."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from imgrec import layout
from imgrec.errors import DatasetNotFound, ExecutionError
from imgrec.read.files import present_files
from imgrec.storage.leftovers import INCOMPLETE, REPLACED, find_leftovers
from imgrec.storage.paths import is_remote, to_path
from imgrec.text import suggestion

_TFRECORD_NAMES = (".tfrecord", ".tfrec")
"""Parts of the names of TFRecord files, whoever wrote them."""
_NEEDED = (layout.DATASET_INFO, layout.FEATURES)
_AGAIN = "run the same imgrec pack again: it continues from there"
RESUME_HINT = f"{_AGAIN}; imgrec clean removes it"
_BUCKET_PARTS = 2
"""The path of a bucket has two parts: s3:, and its name."""


def find_dataset(dataset: str, data_dir: str = "") -> Path:
    """Return the version folder of a dataset; raise DatasetNotFound, which lists what exists.

    `dataset` is a name, `name:version`, or a path: of a version folder, of a dataset's folder (its
    highest version is taken), or of a data directory with one dataset. Text that is written as a
    path is never a name. With `data_dir`, all other text is a name.
    """
    if dataset:
        candidates = places(dataset, data_dir)
        for path in candidates:
            if _is_version_folder(path):
                return path
            if versions := _versions(path):
                return versions[-1]
        path = to_path(dataset)
        if path in candidates and (inside := _datasets(path)):
            if len(inside) == 1:
                return inside[0]
            names = ", ".join(path.parent.name for path in inside)
            raise DatasetNotFound(
                f"{dataset} has more than one dataset: {names}",
                hint=f"give one of them, such as {inside[0].parent}",
                path=dataset,
            )
    raise _not_found(dataset, data_dir)


def previous_version(folder: Path) -> Path:
    """Return the version folder before another one; raise DatasetNotFound if there is none."""
    folder = folder.absolute()  # the parent of "." would be "." again
    versions = _versions(folder.parent)
    earlier = versions[: versions.index(folder)] if folder in versions else []
    if not earlier:
        raise DatasetNotFound(
            f"{folder} has no earlier version beside it",
            hint="give two datasets, such as flowers:1.0.0 flowers:1.1.0",
            path=str(folder),
        )
    return earlier[-1]


def places(dataset: str, data_dir: str = "") -> list[Path]:
    """Return where a dataset may be: under that name, or at that path."""
    name, version = _parse_name(dataset)
    by_name = [_root(data_dir) / name / version] if name else []
    return by_name if by_name and data_dir else [*by_name, to_path(dataset)]


def _root(data_dir: str) -> Path:
    return to_path(data_dir or layout.default_data_dir())


def _parse_name(dataset: str) -> tuple[str, str]:
    """Split "flowers:1.0.0" into name and version; both are "" for a URL or a path."""
    name, _, version = dataset.partition(":")
    return ("", "") if is_remote(dataset) or is_path(dataset) else (name, version)


def is_path(text: str) -> bool:
    """Return whether a text is written as a path, not as a name.

    TFDS writes "name/config" for a config, so that is a path only if it exists.

    >>> is_path("./flowers"), is_path("flowers/"), is_path("flowers:1.0.0")
    (True, True, False)
    """
    is_written_so = text.startswith((os.sep, ".", "~")) or text.endswith(os.sep)
    return is_written_so or (os.sep in text and os.path.lexists(text))


def _not_found(dataset: str, data_dir: str) -> DatasetNotFound:
    root = _root(data_dir)
    name, version = _parse_name(dataset)
    if version and (versions := _versions(root / name)):
        existing = ", ".join(path.name for path in versions)
        return DatasetNotFound(
            f"no version {version} of {name} in {root}", hint=f"there is {existing}", path=dataset
        )
    for path in places(dataset, data_dir) if dataset else ():
        if problem := _problem(path):
            what, hint = problem
            return DatasetNotFound(what, hint=hint, path=str(path))
    if is_remote(dataset):
        return _not_found_at(dataset)
    if data_dir and name and os.path.isdir(dataset):
        return DatasetNotFound(
            f"no dataset {dataset!r} in {root}",
            hint=f"for the folder of that name here, write ./{dataset}",
            path=dataset,
        )
    names: list[str] = []
    with suppress(ExecutionError):  # a store that does not answer only costs the hint
        names = [path.parent.name for path in _datasets(root)]
    existing = suggestion(names, dataset)
    return DatasetNotFound(
        f"no dataset {dataset!r}: it is neither a dataset's folder nor a name in {root}",
        hint=f"{existing} in {root}; give --data-dir or a path if it is elsewhere",
        path=dataset,
    )


def _not_found_at(url: str) -> DatasetNotFound:
    path = to_path(url)
    hint = "give the folder of a dataset, or a data directory with one in it"
    for folder in (path, *([path.parent] if len(path.parts) > _BUCKET_PARTS else ())):
        with suppress(ExecutionError):  # a folder that cannot be listed only costs the hint
            if names := [
                name for name in sorted(present_files(folder)) if not name.startswith(".")
            ]:
                hint = f"{suggestion(names, path.name)} in {folder}"
                break
    return DatasetNotFound(f"there is no dataset at {url}", hint=hint, path=url)


def _problem(path: Path) -> tuple[str, str] | None:
    """Return why an existing path is not a dataset, and what to do about it."""
    if _is_file(path):
        return f"{path} is a file", f"give the folder of the dataset, such as {path.parent}"
    for folder in (path, *_folders(path)):
        names = present_files(folder)
        missing = [name for name in _NEEDED if not _is_file(folder / name)]
        if missing and folder.name.endswith(INCOMPLETE):
            return _unfinished(folder)
        if missing and (hidden := unfinished_beside(folder)):
            return _unfinished(hidden)
        if folder.name.endswith(REPLACED):
            hint = "run that pack again, or imgrec clean, which restores it"
            return f"a pack that would have replaced it was interrupted: it is in {folder}", hint
        if len(missing) == 1:
            hint = "restore it, or pack the dataset again with --overwrite"
            return f"{folder} has no {missing[0]}", hint
        if any(mark in name for name in names for mark in _TFRECORD_NAMES):
            return (
                f"{folder} has TFRecords, but no {' and no '.join(missing)} to describe them",
                "pack the images, or write these files with tfds.folder_dataset.write_metadata",
            )
    return None


def unfinished_beside(folder: Path) -> Path | None:
    """Return the hidden folder of an unfinished pack into a version folder, if there is one.

    On a store, finished shards are in the version folder itself, and only notes are hidden.
    """
    if layout.parse_version(folder.name) is None:
        return None
    hidden = folder.with_name(f".{folder.name}{INCOMPLETE}")
    is_present = hidden.is_dir() if is_remote(hidden) else os.path.isdir(hidden)
    return hidden if is_present else None


def _unfinished(folder: Path) -> tuple[str, str]:
    if is_remote(folder):
        return f"a pack was interrupted, or is running: {folder}", _AGAIN
    if folder not in find_leftovers(folder.parent):
        return f"it is being packed right now, in {folder}", "wait for it"
    return f"a pack was interrupted: {folder}", RESUME_HINT


def _is_version_folder(path: Path) -> bool:
    return all(_is_file(path / name) for name in _NEEDED)


def _is_file(path: Path) -> bool:
    # os.path.isfile is False for a path that may not be accessed, where pathlib raises.
    return path.is_file() if is_remote(path) else os.path.isfile(path)


def _versions(path: Path) -> list[Path]:
    """Return the version folders directly below `path`, the highest last."""
    numbered = [
        (number, child)
        for child in _folders(path)
        if (number := layout.parse_version(child.name)) and _is_version_folder(child)
    ]
    return [child for _, child in sorted(numbered)]


def _datasets(data_dir: Path) -> list[Path]:
    """Return the highest version folder of each dataset directly below `data_dir`."""
    return [versions[-1] for child in _folders(data_dir) if (versions := _versions(child))]


def _folders(path: Path) -> Iterator[Path]:
    names = sorted(present_files(path))
    if is_remote(path):  # checking takes a request each, and no dataset has a dot in its name
        return (path / name for name in names if "." not in name or layout.parse_version(name))
    return (path / name for name in names if os.path.isdir(path / name))
