"""Finding a dataset by its name, or by a path at any level."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from imgrec import layout
from imgrec.errors import DatasetNotFound

_SHOWN = 10


def find_dataset(dataset: str, data_dir: str = "") -> Path:
    """Return the version folder of a dataset.

    `dataset` is a name, `name:version`, or the path of a version folder, of a dataset's folder
    (its highest version is taken) or of a data directory with one dataset in it.
    Raises DatasetNotFound, which says what there is.
    """
    root = Path(data_dir) if data_dir else layout.default_data_dir()
    name, _, version = dataset.partition(":")
    for path in (Path(dataset).expanduser(), root / name / version):
        if _is_version_folder(path):
            return path
        if versions := _versions(path):
            return versions[-1]
    if inside := _datasets(Path(dataset).expanduser()):
        return _only(dataset, inside)
    raise _not_found(dataset, root)


def _only(dataset: str, inside: list[Path]) -> Path:
    if len(inside) > 1:
        names = ", ".join(path.parent.name for path in inside)
        raise DatasetNotFound(
            f"{dataset} holds more than one dataset: {names}",
            hint=f"give one of them, such as {inside[0].parent}",
            path=dataset,
        )
    return inside[0]


def _not_found(dataset: str, root: Path) -> DatasetNotFound:
    name, _, version = dataset.partition(":")
    if version and (versions := _versions(root / name)):
        there = ", ".join(path.name for path in versions)
        return DatasetNotFound(
            f"no version {version} of {name} in {root}", hint=f"there is {there}", path=dataset
        )
    names = [path.parent.name for path in _datasets(root)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"there are {', '.join(names[:_SHOWN])}{more}" if names else "there are no datasets"
    return DatasetNotFound(
        f"no dataset {dataset!r}: it is neither a dataset's folder nor a name in {root}",
        hint=f"{there} in {root}; give --data-dir or a path if it is elsewhere",
        path=dataset,
    )


def _is_version_folder(path: Path) -> bool:
    return (path / layout.DATASET_INFO).is_file() and (path / layout.FEATURES).is_file()


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
    try:
        yield from (child for child in path.iterdir() if child.is_dir())
    except OSError:
        return
