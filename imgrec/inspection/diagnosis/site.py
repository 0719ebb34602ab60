"""What a folder with a dataset, or with what is left of one, holds."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from imgrec import layout
from imgrec.codec import example, tfrecord
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.errors import CorruptRecord
from imgrec.inspection.diagnosis.contents import compression_of, read_contents
from imgrec.inspection.diagnosis.facts import ShardFacts, Site, is_version
from imgrec.inspection.diagnosis.search import is_tfrecord_name
from imgrec.inspection.files import RegularFile, why
from imgrec.inspection.frames import frames
from imgrec.inspection.verification.documents import Claims, Desk, read_claims
from imgrec.inspection.verification.faults import Faults
from imgrec.inspection.verification.find import present_files
from imgrec.inspection.verification.rules import FeatureRule, format_fault, takes_all_formats
from imgrec.inspection.wire import is_excessive

_DOCUMENTS = (layout.DATASET_INFO, layout.FEATURES)
_COUNTED = 200_000
"""Records of a dataset up to which they are counted; `verify` counts any number."""
_MOST_BYTES = 1 << 30
"""How much of the records is read to find an image that does not fit."""
_MOST_SHARDS = 10_000
_EMPTY = "is empty, which TFDS does not read"  # which has a cause of its own
_UNREADABLE = re.compile("it (is not (JSON|UTF-8)|is no JSON|cannot be read|has more than)")
_KINDS = {bytes: "bytes", int: "whole numbers", float: "numbers"}


def look_at_site(folder: str, *, is_thorough: bool) -> Site:
    """Gather what a folder holds; if `is_thorough`, count its records and look into some."""
    place = Path(folder).absolute()
    present = present_files(place)
    desk = Desk(place, Faults(), Faults(), [])
    claims = read_claims(desk, present, decodes=False)
    missing = tuple(name for name in _DOCUMENTS if name not in present)
    faults = tuple(_document_faults(desk, missing))
    counts = is_thorough and _records(claims) <= _COUNTED
    shards = tuple(_shards(place, claims, counts=counts))
    known = {shard.filename for shard in shards}
    files = sorted(name for name in present if is_tfrecord_name(name))
    is_wrong = any(name in _DOCUMENTS for name, _ in faults)
    fault = ""
    if is_thorough:
        sound = [one for one in shards if one.is_there and not one.fault and not one.compression]
        fault = _record_fault(place, sound, claims.rules.features)
        fault = fault or _image_fault(place, sound, claims.rules.features)
    is_known = not (missing or is_wrong or fault or any(shard.compression for shard in shards))
    named, config, version, data_dir = _address(place, claims.info.name)
    return Site(
        folder=str(place),
        data_dir=data_dir,
        name=named,
        config=config,
        version=version,
        missing=missing,
        info=claims.info,
        faults=faults,
        shards=shards,
        strays=tuple(name for name in files if name not in known),
        compression=claims.compression,
        record_fault=fault,
        contents=read_contents([str(place / name) for name in files])
        if is_thorough and files and not is_known
        else None,
    )


def _records(claims: Claims) -> int:
    return sum(sum(split.shard_lengths) for split in claims.info.splits)


def _document_faults(desk: Desk, missing: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with the documents that TFDS reads; of an unreadable one only that."""
    faults = [fault for fault in desk.faults.listed() if not fault.what.endswith(_EMPTY)]
    unreadable = {fault.path for fault in faults if _UNREADABLE.match(fault.what)}
    for fault in faults:
        is_read = fault.path in _DOCUMENTS or fault.path.endswith(".labels.txt")
        is_cause = fault.path not in unreadable or _UNREADABLE.match(fault.what)
        if is_read and is_cause and fault.path not in missing:
            yield fault.path, fault.what


def _address(folder: Path, name: str) -> tuple[str, str, str, str]:
    """Return name, config, version and data directory, by how TFDS places a dataset."""
    if config := _config(folder):
        above = folder.parent.parent
        return above.name, config, folder.name, str(above.parent)
    if is_version(folder.name) or folder.parent.name == name:
        return folder.parent.name, "", folder.name, str(folder.parent.parent)
    return folder.name, "", "", str(folder.parent)


def _config(folder: Path) -> str:
    value = Desk(folder, Faults(), Faults(), []).read_json(layout.DATASET_INFO)
    config = value.get("configName", value.get("config_name", ""))
    return folder.parent.name if config and is_version(folder.name) else ""


def _shards(folder: Path, claims: Claims, *, counts: bool) -> Iterator[ShardFacts]:
    info = claims.info
    if info.file_format not in layout.FILE_FORMATS.values():
        return
    for split in info.splits:
        for index, claimed in enumerate(split.shard_lengths[:_MOST_SHARDS]):
            if filename := info.filename(split, index):
                shard = ShardFacts(filename, split.name, claimed, is_there=False)
                yield _glance(folder, shard, is_packed=bool(claims.compression), counts=counts)


def _glance(folder: Path, shard: ShardFacts, *, is_packed: bool, counts: bool) -> ShardFacts:
    path = str(folder / shard.filename)
    if not os.path.lexists(path):
        return shard
    shard = shard._replace(is_there=True)
    try:
        compression = compression_of(path)
        if not os.path.getsize(path):
            return shard._replace(fault="it is empty") if shard.claimed else shard
        if compression is None:
            return shard._replace(fault="it is no TFRecord file")
        if is_packed:
            return shard
        if compression or not counts:
            return shard._replace(compression=compression)
        with open(path, "rb") as file:
            found = sum(1 for _ in tfrecord.record_ends(file, path=shard.filename))
    except CorruptRecord as error:
        return shard._replace(fault=str(error).removeprefix(f"{shard.filename}: "))
    except OSError as error:
        return shard._replace(fault=why(error))
    if found != shard.claimed:
        what = f"it has {found:,} records, and {layout.DATASET_INFO} tells of {shard.claimed:,}"
        return shard._replace(fault=what)
    return shard


def _records_of(
    folder: Path, shards: Iterable[ShardFacts]
) -> Iterator[Mapping[str, example.Feature]]:
    """Yield the records of shards, as far as they can be read and no more than a limit."""
    left = _MOST_BYTES
    for shard in shards:
        try:
            with RegularFile(str(folder / shard.filename)) as file:
                for frame in frames(file.read, file.size, ()):
                    left -= len(frame.payload)
                    if left < 0:
                        return
                    if not frame.fault and not is_excessive(frame.payload):
                        yield example.decode(frame.payload)
        except (OSError, CorruptRecord):
            continue


def _image_fault(
    folder: Path, shards: Iterable[ShardFacts], rules: Mapping[str, FeatureRule]
) -> str:
    """Name the first image of a format that TFDS cannot decode to what features.json declares."""
    picky = {name: rule for name, rule in rules.items() if rule.is_image}
    if all(map(takes_all_formats, picky.values())):
        return ""
    for place, features in enumerate(_records_of(folder, shards)):
        for name, rule in picky.items():
            for value in features.get(name, ()):
                form = sniff(value[:HEAD_BYTES]) if isinstance(value, bytes) else ""
                if form and (fault := format_fault(form, rule)):
                    return f"{name!r} of record {place:,} is a {fault}, as {layout.FEATURES} asks"
    return ""


def _record_fault(
    folder: Path, shards: Iterable[ShardFacts], rules: Mapping[str, FeatureRule]
) -> str:
    """Say how the first record of a dataset differs from what its features are said to be."""
    features = next(_records_of(folder, shards), {})
    for name, rule in rules.items() if features else ():
        values = features.get(name, ())
        if not values and rule.length is not None:
            return f"records have no {name!r}, which {layout.FEATURES} tells of"
        if values and not isinstance(values[0], rule.kind):
            has, wants = _KINDS[type(values[0])], _KINDS[rule.kind]
            return f"records have {has} as {name!r}, and {layout.FEATURES} tells of {wants}"
    return ""
