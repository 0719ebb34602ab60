"""Find folders of TFRecords, and compare them with what `tfds.load` expects."""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import example, tfrecord
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.codec.tfrecord import compression_of
from imgrec.errors import CorruptRecord
from imgrec.faults import Code, Fault
from imgrec.inspect.tfrecord_files import (
    MOST_BYTES,
    Contents,
    list_names,
    read_contents,
)
from imgrec.inspect.verify.shard import KINDS, format_fault, takes_all_formats
from imgrec.read.documents import Documents, read_documents
from imgrec.read.files import RegularFile, folders_in, os_fault, present_files, read_start
from imgrec.read.shards import shard_frames
from imgrec.read.tfds_files import Feature, InfoDocument
from imgrec.storage.hidden import INCOMPLETE
from imgrec.storage.paths import is_remote, to_path
from imgrec.text import literal

TFDS_DOCUMENTS = (layout.DATASET_INFO, layout.FEATURES)
"""The documents that TFDS needs to read a dataset."""
_SHARD = re.compile(r"-\d{5,}-of-\d{5,}$")
_OTHERS = (".idx", ".index", ".json", ".txt", ".csv", ".tmp", ".part", ".md5", ".crc")
_OTHER_FORMATS = (".array_record", ".riegeli", ".parquet")
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")
_CONFIG = re.compile(r"[\w+.-]*", re.ASCII)
_DEPTH = 3
"""Levels from a data directory to a version of a dataset with configs."""
_MOST_FOLDERS = 5_000
_TRIED = 20
"""Folders, and files in each, in which to look for images."""
_COUNTED = 200_000
"""Datasets of up to this many records are counted. `verify` counts any number."""
_MOST_SHARDS = 10_000


def find_folders(start: str) -> Iterator[str]:
    """Yield the folders at or below `start` that hold documents of TFDS or TFRecords."""
    waiting = [(start, 0)]
    visited = 0
    while waiting and visited < _MOST_FOLDERS:
        folder, depth = waiting.pop(0)
        visited += 1
        names = list_names(folder)
        if not set(TFDS_DOCUMENTS).isdisjoint(names) or any(map(is_tfrecord_name, names)):
            yield folder
        elif depth < _DEPTH:
            below = (path.name for path in folders_in(to_path(folder)))
            visible = (name for name in below if name[0] != "." and INCOMPLETE not in name)
            waiting += [(os.path.join(folder, name), depth + 1) for name in visible]


def has_images(start: str) -> bool:
    """Return whether a folder holds images, directly or in folders of splits and classes."""
    waiting = [to_path(start)]
    for _ in range(_TRIED):
        if not waiting:
            return False
        folder = waiting.pop(0)
        below = list(folders_in(folder))
        others = sorted(present_files(folder) - {path.name for path in below})
        if any(sniff(_head(str(folder / name))) for name in others[:_TRIED]):
            return True
        waiting += below
    return False


def _head(path: str) -> bytes:
    try:
        return read_start(path, HEAD_BYTES)[0]
    except OSError:
        return b""


def is_tfrecord_name(name: str) -> bool:
    """Return whether a file has the name of a TFRecord file.

    >>> [is_tfrecord_name(name) for name in ("a.tfrec", "train-00000-of-00008", "a.tfrecord.idx")]
    [True, True, False]
    """
    lower = name.lower()
    if lower.endswith(_OTHERS) or any(mark in lower for mark in _OTHER_FORMATS):
        return False
    return ".tfrec" in lower or _SHARD.search(lower) is not None


def snake_case(name: str) -> str:
    """Change a name as TFDS does before it looks for its folder.

    >>> snake_case("MyFlowers")
    'my_flowers'
    """
    parted = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", parted).lower()


class ShardGlance(NamedTuple):
    """One shard that dataset_info.json names, as far as a glance shows."""

    filename: str
    split: str
    is_there: bool = True
    fault: str = ""
    compression: str = ""
    """How it is compressed although the documents do not say so."""

    @property
    def is_readable(self) -> bool:
        """Return whether TFDS can read it."""
        return self.is_there and not self.fault and not self.compression


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetFolder:
    """A folder with a dataset, or with the remains of one."""

    path: Path
    data_dir: Path
    """The data directory in which TFDS finds it by its name."""
    name: str
    """The name of the dataset's folder."""
    config: str
    version: str
    """The name of the version folder, which may not be a version."""
    missing: tuple[str, ...]
    """Those of `TFDS_DOCUMENTS` that are missing."""
    documents: Documents
    faults: tuple[Fault, ...]
    """Faults of the documents that TFDS reads."""
    shards: tuple[ShardGlance, ...]
    strays: tuple[str, ...]
    """Files of records that no document names."""
    record_fault: str
    """How a record differs from features.json."""
    contents: Contents | None
    """The contents of the files, if the documents do not describe them."""

    @property
    def info(self) -> InfoDocument:
        """Return what dataset_info.json declares."""
        return self.documents.declared

    @property
    def is_versioned(self) -> bool:
        """Return whether the folder has the name of a version: for TFDS, 01.0.0 is none."""
        return _VERSION.fullmatch(self.version) is not None

    @property
    def is_loadable(self) -> bool:
        """Return whether `tfds.load` can find the dataset by its name at all."""
        is_named = self.name.isidentifier() and self.name[0].isascii() and self.name[0] != "_"
        is_named = is_named and self.name == snake_case(self.name)
        return self.is_versioned and is_named and bool(_CONFIG.fullmatch(self.config))

    @property
    def load_line(self) -> str:
        """Return the line that loads the dataset, with TFDS if possible; "" if none does."""
        bad = {shard.split for shard in self.shards if not shard.is_readable}
        declared = {split.name: split.examples for split in self.info.splits}
        whole = [name for name, examples in declared.items() if name not in bad and examples]
        split = next((name for name in ("train", *whole) if name in (whole or declared)), "train")
        place = self.data_dir, self.name, self.version, split
        if compression := self.documents.metadata.compression:
            return layout.load_line(*place, compression)
        is_wrong = self.record_fault or any(fault.path in TFDS_DOCUMENTS for fault in self.faults)
        if self.missing or is_wrong or not whole:
            return ""
        supervised = ", as_supervised=True" if self.info.supervised else ""
        step = self.documents.batching_step if supervised else ""
        if not self.is_loadable and is_remote(self.path):
            return f"imgrec.load({str(self.path)!r}, split={literal(split)})"
        if not self.is_loadable:
            builder = f"tfds.builder_from_directory({str(self.path)!r})"
            return f"{builder}.as_dataset(split={literal(split)}{supervised}){step}"
        target = f"{self.name}/{self.config}" if self.config else self.name
        line = layout.load_line(*place, step=step)
        line = line.replace(f'("{self.name}', f'("{target}', 1)
        return line if supervised else line.replace(", as_supervised=True", "")


def describe_folder(folder: str, *, is_thorough: bool) -> DatasetFolder:
    """Describe what a folder holds; if `is_thorough`, count its records and decode some."""
    path = to_path(folder).absolute()
    present = present_files(path)
    documents = read_documents(path, present)
    info = documents.declared
    missing = tuple(name for name in TFDS_DOCUMENTS if name not in present)
    faults = tuple(fault for fault in documents.faults if _concerns_tfds(fault, missing))
    counts = is_thorough and sum(split.examples for split in info.splits) <= _COUNTED
    counts = counts and not is_remote(path)  # every byte would be read
    shards = tuple(_shards(documents, present, counts=counts))
    readable = [str(path / shard.filename) for shard in shards if shard.is_readable]
    record_fault = _record_fault(readable, documents.features.by_name) if is_thorough else ""
    is_described = not (
        missing
        or record_fault
        or any(fault.path in TFDS_DOCUMENTS for fault in faults)
        or any(shard.compression for shard in shards)
    )
    files = sorted(name for name in present if is_tfrecord_name(name))
    name, config, version, data_dir = _address(path, info)
    return DatasetFolder(
        path=path,
        data_dir=data_dir,
        name=name,
        config=config,
        version=version,
        missing=missing,
        documents=documents,
        faults=faults,
        shards=shards,
        strays=tuple(sorted({*files} - {shard.filename for shard in shards})),
        record_fault=record_fault,
        contents=read_contents([str(path / name) for name in files])
        if is_thorough and files and not is_described
        else None,
    )


def _concerns_tfds(fault: Fault, missing: tuple[str, ...]) -> bool:
    """Return whether TFDS meets a fault. Empty splits and missing files are found elsewhere."""
    is_read = fault.path in TFDS_DOCUMENTS or fault.path.endswith(".labels.txt")
    return is_read and fault.code is not Code.EMPTY_SPLIT and fault.path not in missing


def _address(folder: Path, info: InfoDocument) -> tuple[str, str, str, Path]:
    """Return name, config, version and data directory, from the layout that TFDS expects."""
    parent = folder.parent
    is_version = _VERSION.fullmatch(folder.name) is not None
    if info.config and is_version:
        return parent.parent.name, parent.name, folder.name, parent.parent.parent
    if is_version or parent.name == info.name:
        return parent.name, "", folder.name, parent.parent
    return folder.name, "", "", parent


def _shards(
    documents: Documents, present: Container[str], *, counts: bool
) -> Iterator[ShardGlance]:
    info = documents.declared
    if info.file_format not in layout.FILE_FORMATS.values():
        return
    for split in info.splits:
        for index, expected in enumerate(split.shard_lengths[:_MOST_SHARDS]):
            if filename := info.filename(split, index):
                shard = ShardGlance(filename, split.name, is_there=filename in present)
                yield _glance(shard, documents, expected, counts=counts)


def _glance(
    shard: ShardGlance, documents: Documents, expected: int, *, counts: bool
) -> ShardGlance:
    path, is_packed = str(documents.folder / shard.filename), documents.metadata.compression
    if not shard.is_there:
        return shard
    try:
        head, size = read_start(path, HEAD_BYTES)
        compression = compression_of(head)
        if not size:
            return shard._replace(fault=Code.EMPTY_FILE.value) if expected else shard
        if compression is None:
            return shard._replace(fault=Code.NOT_TFRECORD.value)
        if is_packed or compression or not counts:
            return shard if is_packed else shard._replace(compression=compression)
        with open(path, "rb") as file:
            found = sum(1 for _ in tfrecord.record_ends(file, path=shard.filename))
    except CorruptRecord as error:
        return shard._replace(fault=error.message)
    except OSError as error:
        return shard._replace(fault=os_fault(error, shard.filename).what)
    if found == expected:
        return shard
    facts = {"expected": expected, "found": found}
    return shard._replace(fault=Fault(Code.RECORD_COUNT, shard.filename, facts=facts).what)


def _record_fault(paths: Iterable[str], declared: Mapping[str, Feature]) -> str:
    """Return how the first record, or any image, differs from features.json; "" if none does."""
    images = {name: feature for name, feature in declared.items() if feature.is_image}
    needs_formats = not all(map(takes_all_formats, images.values()))
    for number, features in enumerate(_read_records(paths)):
        for name, feature in declared.items() if number == 0 else ():
            values = features.get(name, ())
            if not values and feature.length is not None:
                return f"records have no {name!r}, which {layout.FEATURES} declares"
            if values and not isinstance(values[0], feature.kind):
                has, wants = KINDS[type(values[0])], KINDS[feature.kind]
                return f"records have {has} as {name!r}, but {layout.FEATURES} declares {wants}"
        if not needs_formats:
            return ""
        for name, feature in images.items():
            for value in features.get(name, ()):
                image_format = sniff(value[:HEAD_BYTES]) if isinstance(value, bytes) else ""
                if image_format and (fault := format_fault(image_format, feature)):
                    declares = f"as {layout.FEATURES} declares"
                    return f"{name!r} of record {number:,} is a {fault}, {declares}"
    return ""


def _read_records(paths: Iterable[str]) -> Iterator[Mapping[str, example.Feature]]:
    """Yield the records of shards, as far as they can be read, up to a limit."""
    left = MOST_BYTES
    for path in paths:
        try:
            with RegularFile(path) as file:
                for frame in shard_frames(file, "", path):
                    left -= len(frame.payload)
                    if left < 0:
                        return
                    if not frame.fault:
                        yield example.decode_bounded(frame.payload)
        except (OSError, CorruptRecord):
            continue
