"""The images of a dataset as files: list them, choose their paths, and write them, in workers."""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import islice
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from imgrec import layout
from imgrec.codec import example, tfrecord
from imgrec.codec.sniff import format_of
from imgrec.errors import CorruptRecord, DatasetError, UsageError
from imgrec.inspect.subject import Job
from imgrec.outcome import DatasetInfo
from imgrec.read.files import os_fault
from imgrec.read.record import Record, Value, parse
from imgrec.read.shards import MIN_RECORD_BYTES, read_shard
from imgrec.read.splits import ALL, record_ranges
from imgrec.source.words import split_word
from imgrec.storage.paths import FileSystem
from imgrec.storage.trees import tree_writer
from imgrec.text import printable

_HINT = "`imgrec verify` lists all faults; restore the file, or pack the dataset again"
_EXTENSIONS = {"JPEG": "jpg", "TIFF": "tif", "JPEG2000": "jp2", "HEIF": "heic"}
_DEVICES = re.compile(r"(con|prn|aux|nul|com[0-9]|lpt[0-9])(\..*)?", re.I)
_MOST_SHOWN = 20


class Image(NamedTuple):
    """A record without its image, and its place."""

    shard: str
    number: int
    """Of the record in its shard."""
    split: str
    filename: str
    labels: tuple[int, ...]
    columns: Mapping[str, Value | tuple[Value, ...]]
    format: str


class _Shard(NamedTuple):
    filename: str
    split: str
    length: int
    wanted: Sequence[int]
    """The numbers of the records to unpack."""


def list_images(folder: Path, info: DatasetInfo, split: str, job: Job) -> list[Image]:
    """List the images that a split spec selects, each once.

    Raises UnknownName or UsageError if it selects none, and DatasetError if shards are damaged.
    """
    shards = [
        shard
        for shard in _shards(folder, info, record_ranges(split or ALL, info.splits))
        if shard.wanted
    ]
    if not shards:
        raise UsageError(f"--split {split} has no records", hint="name another split")
    list_shard = partial(_list_shard, info=info)
    total = sum(shard.length for shard in shards)
    found: dict[str, list[Image]] = {}
    with closing(job.run(list_shard, shards)) as running:
        for filename, images in running:
            found[filename] = images
            job.progress("list", len(images), total)
    return [found[shard.filename][number] for shard in shards for number in shard.wanted]


def _shards(folder: Path, info: DatasetInfo, ranges: Sequence[range]) -> Iterator[_Shard]:
    start = 0
    for split in info.splits:
        names = layout.shard_filenames(info, split)
        for filename, length in zip(names, split.shard_lengths, strict=True):
            _refuse_too_many(folder / filename, length, info.compression)
            here = range(start, start + length)
            parts = [range(max(p.start, start), min(p.stop, here.stop)) for p in ranges]
            # Do not make a list of a whole shard, which may declare more records than fit there.
            is_whole = here in parts
            wanted = range(length) if is_whole else sorted({at - start for p in parts for at in p})
            yield _Shard(filename, split.name, length, wanted)
            start += length


def _refuse_too_many(path: Path, length: int, compression: str) -> None:
    """Raise DatasetError if a shard is too small for the number of its records."""
    try:
        size = path.stat().st_size
    except OSError as error:
        fault = os_fault(error, path.name)
        raise DatasetError(f"{path}: {fault.what}", hint=_HINT, path=str(path)) from error
    most = size // (MIN_RECORD_BYTES if compression else tfrecord.OVERHEAD)
    if length > most:
        raise wrong_length(str(path), f"{most} at most", length)


def wrong_length(path: str, found: object, expected: int) -> DatasetError:
    """Return the error for a shard with another number of records than it should have."""
    what = f"expected {expected} records ({layout.DATASET_INFO}), found {found}"
    return DatasetError(f"{path}: {what}", hint=_HINT, path=path)


def _list_shard(shard: _Shard, info: DatasetInfo) -> tuple[str, list[Image]]:
    path = os.path.join(info.path, shard.filename)
    records = read_records(path, info.compression, info.classes)
    images = [
        Image(
            shard=shard.filename,
            number=number,
            split=shard.split,
            filename=record.filename,
            labels=record.labels,
            columns=record.columns,
            format=format_of(record.image, ""),
        )
        for number, record in enumerate(islice(records, shard.length + 1))
    ]
    if len(images) != shard.length:
        raise wrong_length(path, len(images), shard.length)
    return shard.filename, images


def read_records(path: str, compression: str, classes: tuple[str, ...]) -> Iterator[Record]:
    """Yield the records of a shard; raise CorruptRecord, with its offset, if one is damaged."""
    for offset, payload in read_shard(path, compression):
        try:
            if example.decode_plain(payload, 0, len(payload)) is None:
                example.refuse_excessive(payload)
            yield parse(payload, 0, len(payload), classes)
        except CorruptRecord as error:
            message = f"{path}: {error} at byte {offset}"
            raise CorruptRecord(message, hint=_HINT, path=path, offset=offset) from error


def write_images(info: DatasetInfo, files: Mapping[str, Image], root: str, job: Job) -> int:
    """Write images, by their paths, below `root`; return how many bytes they are."""
    by_shard: dict[str, dict[int, str]] = {}
    for path, image in files.items():
        by_shard.setdefault(image.shard, {})[image.number] = path
    total = 0
    with closing(job.run(partial(_write_shard, info=info, root=root), by_shard.items())) as running:
        for count, size in running:
            total += size
            job.progress("unpack", count, len(files))
    return total


def _write_shard(
    task: tuple[str, Mapping[int, str]], info: DatasetInfo, root: str
) -> tuple[int, int]:
    """Write images of a shard; return how many files, and how many bytes."""
    shard, paths = task
    size = 0
    records = read_records(os.path.join(info.path, shard), info.compression, ())
    with tree_writer(root) as write:
        for number, record in enumerate(records):
            if number in paths:
                write(paths[number], record.image)
                size += len(record.image)
    return len(paths), size


def file_paths(
    images: Sequence[Image], classes: Sequence[str], *, split_folders: bool
) -> list[str]:
    """Return the path of each image: that in the source, below its split with `split_folders`.

    Nothing is added if the source has a folder for each split. If no record has a name, paths are
    made of split, class and a number.
    """
    if not any(image.filename for image in images):
        return list(_new_paths(images, classes))
    if split_folders and not all(map(_is_in_its_split, images)):
        return [f"{image.split}/{image.filename}" for image in images]
    return [image.filename for image in images]


def _is_in_its_split(image: Image) -> bool:
    top, slash, _ = image.filename.partition("/")
    return bool(slash) and split_word(top) == image.split


def _new_paths(images: Sequence[Image], classes: Sequence[str]) -> Iterator[str]:
    for number, image in enumerate(images):
        folder = ""
        if len(image.labels) == 1:
            (label,) = image.labels
            folder = (classes[label] if label < len(classes) else str(label)).replace("/", "_")
        extension = _extension(image.format)
        yield "/".join(filter(None, (image.split, folder, f"{number:06d}.{extension}")))


def extension_for(image: bytes) -> str:
    r"""Return the extension for an image by its format.

    >>> extension_for(b"\xff\xd8\xff\xe0")
    'jpg'
    """
    return _extension(format_of(image, ""))


def _extension(image_format: str) -> str:
    return _EXTENSIONS.get(image_format, image_format.lower() or "bin")


def refuse_bad_paths(paths: Sequence[str], system: FileSystem, dataset: str) -> None:
    """Raise DatasetError if some paths cannot be different files below a folder; name them."""
    faults = sorted({*_path_faults(paths, system)} or {*_collisions(paths, system)})
    if not faults:
        return
    more = f"; and {len(faults) - _MOST_SHOWN:,} more" if len(faults) > _MOST_SHOWN else ""
    raise DatasetError(
        f"{dataset} has names that cannot be unpacked: {'; '.join(faults[:_MOST_SHOWN])}{more}",
        hint="nothing was written; try a folder on another file system, and check the dataset with "
        "`imgrec verify` if you did not pack it",
        path=dataset,
    )


def _path_faults(paths: Iterable[str], system: FileSystem) -> Iterator[str]:
    known: dict[str, str] = {}  # many paths share their parts
    for path in paths:
        fault = ""
        if not path:
            fault = "is empty"
        elif path.startswith("/"):
            fault = "is absolute"
        elif len(_encoded(path)) > system.most_path_bytes:
            fault = "is too long"
        for part in path.split("/") if not fault else ():
            if part not in known:
                known[part] = _part_fault(part, system)
            fault = fault or known[part]
        if fault:
            yield f"{printable(path)[:300]!r} {fault}"


def _part_fault(part: str, system: FileSystem) -> str:
    """Return why a part of a path cannot be the name of a file or folder, or ""."""
    if not part:
        return "has an empty part"
    if part in (".", ".."):
        return "leads elsewhere"
    if "\0" in part:
        return "has a NUL in it"
    if len(_encoded(part)) > system.most_name_bytes:
        return "is too long"
    if system.strips_dots and part.endswith((".", " ")):
        return "has an end that this file system drops"
    if system.has_devices and _DEVICES.fullmatch(part):
        return "is a device on this file system"
    if not system.takes_bytes and printable(part) != part:
        return "is not UTF-8, as this file system requires"
    return ""


def _encoded(name: str) -> bytes:
    return name.encode("utf-8", "surrogateescape")


def _collisions(paths: Sequence[str], system: FileSystem) -> Iterator[str]:
    counts = Counter(paths)
    for path, count in counts.items():
        if count > 1:
            yield f"{printable(path)!r} is the name of {count:,} records"
    folders: set[str] = set()
    for folder in {path.rpartition("/")[0] for path in counts}:
        while folder and folder not in folders:
            folders.add(folder)
            folder = folder.rpartition("/")[0]
    for path in counts.keys() & folders:
        yield f"{printable(path)!r} is a file and a folder"
    if system.folds_case or system.composes:
        first: dict[str, str] = {}
        for path in sorted({*counts, *folders}):
            key = normalize("NFC", path) if system.composes else path
            other = first.setdefault(key.casefold() if system.folds_case else key, path)
            if other != path:
                pair = f"{printable(other)!a} and {printable(path)!a}"
                yield f"{pair} are the same name on this file system"
