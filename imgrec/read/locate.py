"""Finding a dataset by its name, or by a path at any level."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from imgrec import layout
from imgrec.errors import DatasetNotFound, ExecutionError
from imgrec.storage.leftovers import INCOMPLETE, REPLACED, find_leftovers
from imgrec.storage.paths import is_remote, to_path
from imgrec.text import suggestion

_TFRECORDS = (".tfrecord", ".tfrec")
"""What names of TFRecord files hold, whoever wrote them."""
_AGAIN = "run the same imgrec pack again: it goes on from there"
GO_ON = f"{_AGAIN}; imgrec clean removes it"
_BUCKET_PARTS = 2
"""How many parts the path of a bucket has: s3:, and its name."""


def find_dataset(dataset: str, data_dir: str = "") -> Path:
    """Return the version folder of a dataset.

    `dataset` is a name, `name:version`, or the path of a version folder, of a dataset's folder
    (its highest version is taken) or of a data directory with one dataset in it. What is written
    as a path is never a name, and what is not is never a path where `data_dir` says where to look.
    Raises DatasetNotFound, which says what there is.
    """
    if not dataset:
        raise _not_found(dataset, data_dir)
    found = places(dataset, data_dir)
    for path in found:
        if _is_version_folder(path):
            return path
        if versions := _versions(path):
            return versions[-1]
    path = to_path(dataset)
    if path in found and (inside := _datasets(path)):
        return _only(dataset, inside)
    raise _not_found(dataset, data_dir)


def places(dataset: str, data_dir: str = "") -> list[Path]:
    """Return where a dataset may be: under that name, or at that path."""
    name, _, version = _named(dataset)
    named = [_root(data_dir) / name / version] if name else []
    return named if named and data_dir else [*named, to_path(dataset)]


def _root(data_dir: str) -> Path:
    return to_path(data_dir or layout.default_data_dir())


def _named(dataset: str) -> tuple[str, str, str]:
    """Take "flowers:1.0.0" apart; a URL or a path names nothing."""
    return ("", "", "") if is_remote(dataset) or is_path(dataset) else dataset.partition(":")


def is_path(text: str) -> bool:
    """Tell whether a text is written as a path, and so is no name.

    TFDS calls a dataset with configs "name/config", so that is a path only where there is one.

    >>> is_path("./flowers"), is_path("flowers/"), is_path("flowers:1.0.0")
    (True, True, False)
    """
    is_written_so = text.startswith((os.sep, ".", "~")) or text.endswith(os.sep)
    return is_written_so or (os.sep in text and os.path.lexists(text))


def _only(dataset: str, inside: list[Path]) -> Path:
    if len(inside) > 1:
        names = ", ".join(path.parent.name for path in inside)
        raise DatasetNotFound(
            f"{dataset} holds more than one dataset: {names}",
            hint=f"give one of them, such as {inside[0].parent}",
            path=dataset,
        )
    return inside[0]


def _not_found(dataset: str, data_dir: str) -> DatasetNotFound:
    root = _root(data_dir)
    name, _, version = _named(dataset)
    if version and (versions := _versions(root / name)):
        there = ", ".join(path.name for path in versions)
        return DatasetNotFound(
            f"no version {version} of {name} in {root}", hint=f"there is {there}", path=dataset
        )
    for path in places(dataset, data_dir) if dataset else ():
        if fault := _fault(path):
            what, hint = fault
            return DatasetNotFound(what, hint=hint, path=str(path))
    if is_remote(dataset):
        return _not_there(dataset)
    if data_dir and name and os.path.isdir(dataset):
        return DatasetNotFound(
            f"no dataset {dataset!r} in {root}",
            hint=f"for the folder of that name here, write ./{dataset}",
            path=dataset,
        )
    names: list[str] = []
    with suppress(ExecutionError):  # a store that does not answer is no reason to say nothing
        names = [path.parent.name for path in _datasets(root)]
    there = suggestion(names, dataset)
    return DatasetNotFound(
        f"no dataset {dataset!r}: it is neither a dataset's folder nor a name in {root}",
        hint=f"{there} in {root}; give --data-dir or a path if it is elsewhere",
        path=dataset,
    )


def _not_there(url: str) -> DatasetNotFound:
    """Return the error for a URL at which there is no dataset."""
    path = to_path(url)
    hint = "give the folder of a dataset, or a data directory with one in it"
    for folder in (path, *([path.parent] if len(path.parts) > _BUCKET_PARTS else ())):
        with suppress(ExecutionError):  # what may not be listed is no reason to say nothing
            if names := [name for name in _listed(folder) if not name.startswith(".")]:
                hint = f"{suggestion(names, path.name)} in {folder}"
                break
    return DatasetNotFound(f"there is no dataset at {url}", hint=hint, path=url)


def _fault(path: Path) -> tuple[str, str] | None:
    """Return why a path that is there is no dataset, and what to do about it."""
    if _is_file(path):
        return f"{path} is a file", f"give the folder of the dataset, such as {path.parent}"
    for folder in (path, *sorted(_folders(path))):
        names = _listed(folder)
        needed = (layout.DATASET_INFO, layout.FEATURES)
        missing = [name for name in needed if not _is_file(folder / name)]
        if missing and folder.name.endswith(INCOMPLETE):
            return _unfinished(folder)
        if missing and (hidden := unfinished_beside(folder)):
            return _unfinished(hidden)
        if folder.name.endswith(REPLACED):
            hint = "run that pack again, or imgrec clean, which brings it back"
            return f"a pack that was to replace it was cut off, and left it aside: {folder}", hint
        if len(missing) == 1:
            hint = "restore it, or pack the dataset again with --overwrite"
            return f"{folder} has no {missing[0]}", hint
        if any(mark in name for name in names for mark in _TFRECORDS):
            return (
                f"{folder} holds TFRecords, but no {' and '.join(missing)} that would say of what",
                "pack the images themselves, or let tfds.folder_dataset.write_metadata write those",
            )
    return None


def unfinished_beside(folder: Path) -> Path | None:
    """Return the hidden folder of a pack into a version folder that did not end, if there is one.

    On a store, finished shards are in the version folder itself, and only notes are hidden.
    """
    if layout.parse_version(folder.name) is None:
        return None
    hidden = folder.with_name(f".{folder.name}{INCOMPLETE}")
    is_there = hidden.is_dir() if is_remote(hidden) else os.path.isdir(hidden)
    return hidden if is_there else None


def _unfinished(folder: Path) -> tuple[str, str]:
    """Return what there is to say of the folder of a pack that did not end."""
    if is_remote(folder):
        return f"a pack was cut off, or is under way: {folder}", _AGAIN
    if folder not in find_leftovers(folder.parent):
        return f"it is being packed right now, in {folder}", "wait for it"
    return f"a pack was cut off: {folder}", GO_ON


def _is_version_folder(path: Path) -> bool:
    return all(_is_file(path / name) for name in (layout.DATASET_INFO, layout.FEATURES))


def _is_file(path: Path) -> bool:
    # Unlike pathlib's, this is False for whatever cannot be looked at.
    return path.is_file() if is_remote(path) else os.path.isfile(path)


def _versions(path: Path) -> list[Path]:
    """Return the version folders right below `path`, the highest last."""
    numbered = [
        (number, child)
        for child in _folders(path)
        if (number := layout.parse_version(child.name)) and _is_version_folder(child)
    ]
    return [child for _, child in sorted(numbered)]


def _datasets(data_dir: Path) -> list[Path]:
    """Return the highest version folder of each dataset right below `data_dir`."""
    return [versions[-1] for child in sorted(_folders(data_dir)) if (versions := _versions(child))]


def _folders(path: Path) -> Iterator[Path]:
    names = _listed(path)
    if is_remote(path):  # where looking takes a request each, and no folder is called a.b
        return (path / name for name in names if "." not in name or layout.parse_version(name))
    return (path / name for name in names if os.path.isdir(path / name))


def _listed(path: Path) -> list[str]:
    if is_remote(path):
        return [child.name for child in path.iterdir()]
    try:
        return os.listdir(path)
    except (OSError, ValueError):
        return []
