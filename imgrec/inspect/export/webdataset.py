"""Tar files with one sample for each image, as WebDataset reads them.

    rose/1.jpg     the image, with the extension of its format
    rose/1.cls     its label, if it has exactly one
    rose/1.json    its name in the source, class, id and other columns

WebDataset takes consecutive files with one key for a sample. A key is a path up to the first dot of
its last part.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from tarfile import BLOCKSIZE, PAX_FORMAT, RECORDSIZE, TarInfo

from imgrec.errors import DatasetError
from imgrec.inspect.export.card import CARD, dataset_card
from imgrec.inspect.export.contents import Contents, Form, Shard, WrittenFile
from imgrec.inspect.image_files import extension_for
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record
from imgrec.storage.files import create
from imgrec.storage.urls import is_url, scheme_of
from imgrec.text import literal, printable

_CLASSES = "classes.txt"
_FILE = re.compile(r"[\w-]+-\d{6,}\.tar", re.ASCII)
_META = re.compile(r"__[^/]*__(/|$)")
"""Names that WebDataset skips."""
_READ_BY = {"s3": "pipe:aws s3 cp {} -", "hdfs": "pipe:hdfs dfs -cat {}"}
"""How WebDataset reads from stores that it does not know."""


def file_name(split: str, index: int, count: int) -> str:
    """Name the file for a shard.

    >>> file_name("val", 3, 12)
    'val-000003.tar'
    """
    return f"{split}-{index:0{_width(count)}d}.tar"


def _width(count: int) -> int:
    return max(6, len(str(count - 1)))


def keys(dataset: Dataset) -> list[str]:
    """Return the key of each record, all of them different.

    Where several records would get the same key, the first of them keeps it.
    """
    return list(_unique(map(_key, dataset.columns.filenames)))


def _unique(wanted: Iterable[str]) -> Iterator[str]:
    """Yield names with a number added to each that was there before.

    >>> list(_unique(["a", "b", "a", "a_2", "a"]))
    ['a', 'b', 'a_2', 'a_2_2', 'a_3']
    """
    taken: set[str] = set()
    last: dict[str, int] = {}
    for name in wanted:
        key = name
        while key in taken:
            last[name] = last.get(name, 1) + 1
            key = f"{name}_{last[name]}"
        taken.add(key)
        yield key


def _key(filename: str) -> str:
    """Return the key for a file: its path without extension and without dots in its name.

    >>> _key("rose/my photo.v2.jpg"), _key(".x/../a"), _key("__MACOSX__/a.jpg"), _key("")
    ('rose/my photo_v2', '.x/_/a', '_MACOSX__/a', 'image')
    """
    *folders, base = filename.replace("\0", "_").split("/")
    stem = base.rpartition(".")[0] or base
    safe = ["_" if part in ("", ".", "..") else part for part in folders]
    key = "/".join([*safe, stem.replace(".", "_") or "image"])
    return f"_{key.lstrip('_')}" if _META.match(key) else key


def is_own_file(name: str) -> bool:
    """Return whether an export to tar files may contain a file of that name."""
    return name in (CARD, _CLASSES) or bool(_FILE.fullmatch(name))


def load_line(target: str, contents: Contents) -> str:
    """Return the line of Python that loads the first split of the export."""
    split = contents.info.splits[0]
    pattern = _pattern(split.name, len(split.shard_lengths))
    place = f"{target}/{pattern}"
    if is_url(target):
        place = _READ_BY.get(scheme_of(target), "{}").replace("{}", place)
    return f"webdataset.WebDataset({literal(place)}, shardshuffle=False)"


def _pattern(split: str, count: int) -> str:
    """Name all files of a split in one pattern.

    >>> _pattern("train", 12), _pattern("val", 1)
    ('train-{000000..000011}.tar', 'val-000000.tar')
    """
    if count == 1:
        return file_name(split, 0, 1)
    width = _width(count)
    return f"{split}-{{{0:0{width}d}..{count - 1:0{width}d}}}.tar"


def write(shard: Shard, form: Form, folder: str) -> WrittenFile:
    """Write the tar file for a shard. This runs in a worker."""
    image_bytes = images = 0
    with create(os.path.join(folder, shard.target), option="-o") as file:
        for key, record in zip(shard.keys, shard.records(form), strict=True):
            _refuse_other_name(shard, key, record)
            for ending, data in _members(record, form):
                file.write(_header(f"{key}.{ending}", len(data)))
                file.write(data)
                file.write(bytes(-len(data) % BLOCKSIZE))
            images += 1
            image_bytes += len(record.image)
        # Two empty blocks end a tar, and its size is a multiple of that of a tape's record.
        end = file.position + 2 * BLOCKSIZE
        file.write(bytes(2 * BLOCKSIZE + -end % RECORDSIZE))
    return WrittenFile(
        name=shard.target,
        split=shard.split,
        images=images,
        size=file.position,
        sha256=file.sha256(),
        image_bytes=image_bytes,
        unpacked_bytes=file.position,
    )


def _refuse_other_name(shard: Shard, key: str, record: Record) -> None:
    """Raise DatasetError if a record is not the one that samples.parquet names there."""
    name = printable(record.filename)
    if not key.startswith(_key(name)):
        raise DatasetError(
            f"{shard.path}: the record of {name} is named otherwise in samples.parquet",
            hint="pack the dataset again, or delete that file to export without it",
            path=shard.path,
        )


def _members(record: Record, form: Form) -> Iterator[tuple[str, bytes]]:
    """Yield the extension and contents of each file of a sample."""
    yield extension_for(record.image), record.image
    if not form.is_multilabel and record.labels:
        yield "cls", str(record.label).encode()
    facts: dict[str, object] = {"filename": printable(record.filename)}
    if form.is_multilabel:
        facts |= {"labels": record.labels, "class_names": record.class_names}
    elif record.labels:
        facts |= {"label": record.label, "class_name": record.class_name}
    if record.columns:
        facts["columns"] = {name: _plain(value) for name, value in record.columns.items()}
    yield "json", json.dumps(facts, ensure_ascii=False, allow_nan=False).encode()


def _plain(value: object) -> object:
    """Return a value as JSON holds it; a number that is not finite becomes null."""
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "surrogateescape"))
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _header(name: str, size: int) -> bytes:
    """Return the header of a member, without owner, time or anything else that may differ."""
    member = TarInfo(name)
    member.size = size
    return member.tobuf(PAX_FORMAT)


def documents(contents: Contents, files: Sequence[WrittenFile]) -> Mapping[str, str]:
    """Return a description of the files, and the names of the classes."""
    patterns = [_pattern(split.name, len(split.shard_lengths)) for split in contents.info.splits]
    label = '"json"' if contents.form.is_multilabel else '"cls"'
    usage = (
        "```python\n"
        "import webdataset\n\n"
        f'samples = webdataset.WebDataset("{patterns[0]}", shardshuffle=False)\n'
        f'for image, label in samples.decode("pil").to_tuple("jpg;png;bmp;gif", {label}):\n'
        "    ...\n"
        "```\n\n"
        f"All files: {', '.join(f'`{pattern}`' for pattern in patterns)}. "
        f"`{_CLASSES}` names the classes, in the order of their labels.\n"
    )
    classes = "".join(f"{name}\n" for name in contents.form.classes)
    return {
        CARD: dataset_card(contents, files, {}, usage),
        _CLASSES: classes,
    }
