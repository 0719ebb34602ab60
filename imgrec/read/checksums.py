"""SHA256SUMS: the files of a dataset, and whether a glance shows that they have changed.

64 hexadecimal digits · two blanks · the name of a file in the same folder · line feed
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.faults import Code, Faults
from imgrec.read.documents import Documents, read_documents
from imgrec.read.files import os_fault, read_document

_LINE = re.compile(rb"([0-9a-f]{64})  ([^/\0\n]+)")


def read_checksums(folder: Path, faults: Faults) -> dict[str, str]:
    """Return the SHA-256 of each listed file; nothing, with a fault, if there is no list."""
    try:
        data = read_document(folder / layout.CHECKSUMS)
    except OSError as error:
        faults.add(os_fault(error, layout.CHECKSUMS))
        return {}
    if not data.endswith(b"\n"):
        faults.say(Code.NO_LINE_END, layout.CHECKSUMS)
    listed: dict[str, str] = {}
    position = 0
    for line in data.split(b"\n")[:-1]:
        match = _LINE.fullmatch(line)
        name = os.fsdecode(match[2]) if match else ""
        if match is None or name in (".", ".."):
            faults.say(Code.BAD_CHECKSUM_LINE, layout.CHECKSUMS, position)
        elif name in listed:
            faults.say(Code.LISTED_TWICE, layout.CHECKSUMS, position)
        else:
            listed[name] = match[1].decode()
        position += len(line) + 1
    return listed


def find_damage(folder: Path) -> str:
    """Return what a glance at the sizes of its files shows to be wrong with a dataset, or ""."""
    faults = Faults()
    sizes = {}
    for name in read_checksums(folder, faults):
        try:
            sizes[name] = (folder / name).stat().st_size
        except OSError as error:
            return f"{name}: {error.strerror}"
    for fault in faults.listed():
        return f"{fault.path}: {fault.what}"
    try:
        return _wrong_size(read_documents(folder), sizes)
    except DatasetError as error:
        return error.message.removeprefix(f"{folder}/")


def _wrong_size(documents: Documents, sizes: dict[str, int]) -> str:
    info, also_bytes = documents.info(), documents.metadata.also_bytes
    for split in info.splits:
        shards = layout.shard_filenames(info, split)
        kinds: dict[str, tuple[tuple[str, ...], int | None]] = {"shards": (shards, split.num_bytes)}
        for also in info.also:
            twins = tuple(layout.twin_filename(shard, also) for shard in shards)
            kinds[f"{also} files"] = twins, also_bytes.get(also, {}).get(split.name)
        for kind, (names, wanted) in kinds.items():
            if (total := sum(sizes.get(name, 0) for name in names)) != wanted:
                return f"the {kind} of {split.name} have {total} bytes instead of {wanted}"
    return ""
