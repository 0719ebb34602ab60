"""The folders that hold datasets, or what is left of one, and what is in them."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from imgrec import layout
from imgrec.codec import example, tfrecord
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.errors import CorruptRecord
from imgrec.faults import Code, Fault
from imgrec.inspect.doctor.contents import compression_of_file, read_contents
from imgrec.inspect.doctor.facts import TFDS_DOCUMENTS, ShardFacts, Site, is_version
from imgrec.inspect.verify.shard import format_fault, takes_all_formats
from imgrec.read.documents import Documents, read_documents
from imgrec.read.files import RegularFile, os_fault, present_files
from imgrec.read.shards import shard_frames
from imgrec.read.tfds_files import Feature, InfoDocument
from imgrec.storage.files import walk
from imgrec.storage.leftovers import INCOMPLETE

_SHARD = re.compile(r"-\d{5,}-of-\d{5,}$")
_OTHERS = (".idx", ".index", ".json", ".txt", ".csv", ".tmp", ".part", ".md5", ".crc")
_OTHER_FORMATS = (".array_record", ".riegeli", ".parquet")
_DEPTH = 3
"""From a data directory to a version of a dataset with configs."""
_MOST_FOLDERS = 5_000
_TRIED = 20
"""Folders, and files of each, in which images are looked for."""
_COUNTED = 200_000
"""Datasets of up to this many records are counted; `verify` counts any number."""
_MOST_BYTES = 1 << 30
"""How much of the records is read to find an image that does not fit."""
_MOST_SHARDS = 10_000
_KINDS = {bytes: "bytes", int: "whole numbers", float: "numbers"}


def find_folders(start: str) -> Iterator[str]:
    """Yield the folders at or below `start` that hold documents of TFDS or TFRecords."""
    waiting = [(start, 0)]
    seen = 0
    while waiting and seen < _MOST_FOLDERS:
        folder, depth = waiting.pop(0)
        seen += 1
        names = listed(folder)
        if not set(TFDS_DOCUMENTS).isdisjoint(names) or any(map(is_tfrecord_name, names)):
            yield folder
        elif depth < _DEPTH:
            seen_ones = (name for name in names if not (name[0] == "." or INCOMPLETE in name))
            below = (os.path.join(folder, name) for name in seen_ones)
            waiting += [(path, depth + 1) for path in below if os.path.isdir(path)]


def has_images(start: str) -> bool:
    """Tell whether a folder holds images, right in it or in folders of splits and classes."""
    return any(
        sniff(_head(os.path.join(folder, name)))
        for folder, _, names in islice(walk(start), _TRIED)
        for name in names[:_TRIED]
    )


def _head(path: str) -> bytes:
    try:
        with RegularFile(path) as file:
            return file.read(HEAD_BYTES)
    except OSError:
        return b""


def listed(folder: str) -> list[str]:
    """Return the names in a folder, sorted; none if it cannot be read."""
    try:
        return sorted(os.listdir(folder))
    except (OSError, ValueError):
        return []


def is_tfrecord_name(name: str) -> bool:
    """Tell whether a file is called as files of TFRecords are.

    >>> [is_tfrecord_name(name) for name in ("a.tfrec", "train-00000-of-00008", "a.tfrecord.idx")]
    [True, True, False]
    """
    lower = name.lower()
    if lower.endswith(_OTHERS) or any(mark in lower for mark in _OTHER_FORMATS):
        return False
    return ".tfrec" in lower or _SHARD.search(lower) is not None


def look_at_site(folder: str, *, is_thorough: bool) -> Site:
    """Gather what a folder holds; if `is_thorough`, count its records and look into some."""
    place = Path(folder).absolute()
    present = present_files(place)
    documents = read_documents(place, present)
    info, features = documents.declared, documents.features.by_name
    missing = tuple(name for name in TFDS_DOCUMENTS if name not in present)
    faults = tuple(fault for fault in documents.faults if _concerns_tfds(fault, missing))
    counts = is_thorough and sum(split.examples for split in info.splits) <= _COUNTED
    shards = tuple(_shards(documents, counts=counts))
    known = {shard.filename for shard in shards}
    files = sorted(name for name in present if is_tfrecord_name(name))
    is_wrong = any(fault.path in TFDS_DOCUMENTS for fault in faults)
    fault = ""
    if is_thorough:
        sound = [one for one in shards if one.is_there and not one.fault and not one.compression]
        fault = _record_fault(place, sound, features) or _image_fault(place, sound, features)
    is_known = not (missing or is_wrong or fault or any(shard.compression for shard in shards))
    named, config, version, data_dir = _address(place, info)
    return Site(
        folder=str(place),
        data_dir=data_dir,
        name=named,
        config=config,
        version=version,
        missing=missing,
        documents=documents,
        faults=faults,
        shards=shards,
        strays=tuple(name for name in files if name not in known),
        record_fault=fault,
        contents=read_contents([str(place / name) for name in files])
        if is_thorough and files and not is_known
        else None,
    )


def _concerns_tfds(fault: Fault, missing: tuple[str, ...]) -> bool:
    """Tell whether TFDS meets a fault; empty splits and missing files have causes of their own."""
    is_read = fault.path in TFDS_DOCUMENTS or fault.path.endswith(".labels.txt")
    return is_read and fault.code is not Code.EMPTY_SPLIT and fault.path not in missing


def _address(folder: Path, info: InfoDocument) -> tuple[str, str, str, str]:
    """Return name, config, version and data directory, by how TFDS places a dataset."""
    parent = folder.parent
    if info.config and is_version(folder.name):
        return parent.parent.name, parent.name, folder.name, str(parent.parent.parent)
    if is_version(folder.name) or parent.name == info.name:
        return parent.name, "", folder.name, str(parent.parent)
    return folder.name, "", "", str(parent)


def _shards(documents: Documents, *, counts: bool) -> Iterator[ShardFacts]:
    info, is_packed = documents.declared, bool(documents.metadata.compression)
    if info.file_format not in layout.FILE_FORMATS.values():
        return
    for split in info.splits:
        for index, expected in enumerate(split.shard_lengths[:_MOST_SHARDS]):
            if filename := info.filename(split, index):
                shard = ShardFacts(filename, split.name, expected, is_there=False)
                yield _glance(documents.folder, shard, is_packed=is_packed, counts=counts)


def _glance(folder: Path, shard: ShardFacts, *, is_packed: bool, counts: bool) -> ShardFacts:
    path = str(folder / shard.filename)
    if not os.path.lexists(path):
        return shard
    shard = shard._replace(is_there=True)
    try:
        compression = compression_of_file(path)
        if not os.path.getsize(path):
            return shard._replace(fault=Code.EMPTY_FILE.value) if shard.expected else shard
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
    if found != shard.expected:
        facts = {"expected": shard.expected, "found": found}
        return shard._replace(fault=Fault(Code.RECORD_COUNT, shard.filename, facts=facts).what)
    return shard


def _records_of(
    folder: Path, shards: Iterable[ShardFacts]
) -> Iterator[Mapping[str, example.Feature]]:
    """Yield the records of shards, as far as they can be read and no more than a limit."""
    left = _MOST_BYTES
    for shard in shards:
        try:
            with RegularFile(str(folder / shard.filename)) as file:
                for frame in shard_frames(file, "", shard.filename):
                    left -= len(frame.payload)
                    if left < 0:
                        return
                    if not frame.fault:
                        yield example.decode_bounded(frame.payload)
        except (OSError, CorruptRecord):
            continue


def _image_fault(
    folder: Path, shards: Iterable[ShardFacts], declared: Mapping[str, Feature]
) -> str:
    """Name the first image of a format that TFDS cannot decode to what features.json declares."""
    picky = {name: feature for name, feature in declared.items() if feature.is_image}
    if all(map(takes_all_formats, picky.values())):
        return ""
    for place, features in enumerate(_records_of(folder, shards)):
        for name, feature in picky.items():
            for value in features.get(name, ()):
                form = sniff(value[:HEAD_BYTES]) if isinstance(value, bytes) else ""
                if form and (fault := format_fault(form, feature)):
                    return f"{name!r} of record {place:,} is a {fault}, as {layout.FEATURES} asks"
    return ""


def _record_fault(
    folder: Path, shards: Iterable[ShardFacts], declared: Mapping[str, Feature]
) -> str:
    """Say how the first record of a dataset differs from what its features are said to be."""
    features = next(_records_of(folder, shards), {})
    for name, feature in declared.items() if features else ():
        values = features.get(name, ())
        if not values and feature.length is not None:
            return f"records have no {name!r}, which {layout.FEATURES} declares"
        if values and not isinstance(values[0], feature.kind):
            has, wants = _KINDS[type(values[0])], _KINDS[feature.kind]
            return f"records have {has} as {name!r}, but {layout.FEATURES} declares {wants}"
    return ""
