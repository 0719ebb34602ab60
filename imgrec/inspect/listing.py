"""List the datasets of a data directory from their metadata."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.inspect.dataset_folders import TFDS_DOCUMENTS, is_tfrecord_name
from imgrec.read.documents import Documents, read_documents
from imgrec.read.files import folders_in, present_files, unfinished_beside
from imgrec.storage.hidden import INCOMPLETE, REPLACED
from imgrec.storage.leftovers import find_leftovers, restorable
from imgrec.storage.paths import is_remote
from imgrec.storage.usage import StoredFile, freed_bytes, stored_files, used_bytes
from imgrec.text import number

_HIDDEN = re.compile(rf"\.(\d+\.\d+\.\d+)({re.escape(INCOMPLETE)}|{re.escape(REPLACED)})")


class State(StrEnum):
    """The condition of a version, as far as its metadata and sizes of files show."""

    COMPLETE = "complete"
    DAMAGED = "damaged"
    UNFINISHED = "unfinished"
    """A pack was interrupted."""
    RUNNING = "running"
    """It is being packed, or was until a moment ago."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedVersion:
    """One version of a dataset."""

    version: str
    path: str
    state: State
    problem: str
    """What is wrong with it; "" if nothing is."""
    by_imgrec: bool
    """Whether imgrec made it."""
    images: int
    classes: int
    size: int
    """The bytes it takes, each file counted once."""
    own_size: int
    """The bytes that removing it would free: those of files that have no other links."""
    made: str
    """When its metadata was written, as ISO 8601 in UTC; "" if unknown."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedDataset:
    """All versions of a dataset."""

    name: str
    """With its config, if it has one: "name/config"."""
    versions: tuple[ListedVersion, ...]
    """The highest last."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing:
    """The datasets of a data directory."""

    data_dir: str
    datasets: tuple[ListedDataset, ...]
    """Sorted by name."""
    size: int
    """The bytes that all of them take; files that versions share count once."""

    def __repr__(self) -> str:
        return f"<Listing {self.data_dir}: {number(len(self.datasets), 'dataset')}>"


def list_data_dir(data_dir: Path) -> Listing:
    """List all datasets directly in a data directory; no shard is read."""
    files: list[StoredFile] = []
    datasets = []
    for name, folder in _dataset_folders(data_dir):
        versions = []
        for path in _version_folders(folder):
            found = stored_files(path)
            files += found
            versions.append(_describe(path, found))
        if versions:
            datasets.append(ListedDataset(name=name, versions=tuple(versions)))
    return Listing(
        data_dir=str(data_dir.absolute()), datasets=tuple(datasets), size=used_bytes(files)
    )


def _dataset_folders(data_dir: Path) -> Iterator[tuple[str, Path]]:
    """Yield the folders that may hold versions, with names: of datasets, and of their configs."""
    for folder in folders_in(data_dir):
        if not folder.name.startswith("."):
            yield folder.name, folder
            for config in folders_in(folder):
                if not (config.name.startswith(".") or layout.parse_version(config.name)):
                    yield f"{folder.name}/{config.name}", config


def _version_folders(folder: Path) -> list[Path]:
    """Return the versions in a folder, the highest last, each after what a pack left of it."""
    found = []
    for child in folders_in(folder):
        hidden = _HIDDEN.fullmatch(child.name)
        if hidden:
            found.append((layout.parse_version(hidden[1]), False, child))
        elif (number := layout.parse_version(child.name)) and _has_dataset(child):
            found.append((number, True, child))
    return [child for _, _, child in sorted(found)]


def _has_dataset(folder: Path) -> bool:
    names = present_files(folder)
    return not names.isdisjoint(TFDS_DOCUMENTS) or any(map(is_tfrecord_name, names))


def _describe(path: Path, files: Sequence[StoredFile]) -> ListedVersion:
    by_name = {file.name: file for file in files}
    hidden = _HIDDEN.fullmatch(path.name)
    documents = read_documents(path, frozenset(by_name))
    state, problem = _hidden_state(path) if hidden else _state(documents, by_name)
    last = by_name.get(layout.DATASET_INFO)
    return ListedVersion(
        version=hidden[1] if hidden else path.name,
        path=str(path.absolute()),
        state=state,
        problem=problem,
        by_imgrec=bool(hidden) or documents.is_ours,
        images=sum(split.examples for split in documents.declared.splits),
        classes=len(documents.classes),
        size=used_bytes(files),
        own_size=freed_bytes([files])[0],
        made=_time(last.changed_ns) if last and not hidden else "",
    )


def _time(ns: int) -> str:
    return datetime.fromtimestamp(ns // 1_000_000_000, UTC).isoformat() if ns else ""


def _hidden_state(path: Path) -> tuple[State, str]:
    if path.name.endswith(REPLACED) or restorable(path):
        return State.UNFINISHED, "an overwrite was interrupted; imgrec clean restores it"
    if path in find_leftovers(path.parent):
        return State.UNFINISHED, "a pack was interrupted; run it again, or imgrec clean"
    return State.RUNNING, "it is being packed"


def _state(documents: Documents, files: Mapping[str, StoredFile]) -> tuple[State, str]:
    """Judge a version by its documents, and by names and sizes of its files."""
    for name in TFDS_DOCUMENTS:
        if name not in files:
            # On a store, finished shards are in the version folder before its metadata.
            if is_remote(documents.folder) and (hidden := unfinished_beside(documents.folder)):
                return _hidden_state(hidden)
            return State.DAMAGED, f"it has no {name}"
    try:
        documents.info()
    except DatasetError as error:
        return State.DAMAGED, error.message.removeprefix(f"{documents.folder}/")
    info = documents.declared
    for split in info.splits:
        names = [info.filename(split, index) for index in range(len(split.shard_lengths))]
        known = [name for name in names if name]
        if missing := sum(name not in files for name in known):
            return (
                State.DAMAGED,
                f"{missing:,} of {len(known):,} shards of {split.name} are missing",
            )
        size = sum(files[name].size for name in known)
        # The sizes that TFDS writes are those of records, without their frames.
        if documents.is_ours and size != split.num_bytes:
            expected = f"{split.num_bytes:,} bytes"
            return State.DAMAGED, f"the shards of {split.name} have {size:,} instead of {expected}"
    return State.COMPLETE, ""
