"""SHA256SUMS: which files a dataset has, and whether they are as they were.

64 hexadecimal digits · two blanks · the name of a file in the same folder · line feed
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from imgrec import layout
from imgrec.inspection.files import read_whole, why
from imgrec.inspection.verification.faults import CHANGED, Faults

_LINE = re.compile(rb"([0-9a-f]{64})  ([^/\0\n]+)")
_MOST_BYTES = 1 << 28


def read_checksums(folder: Path, faults: Faults) -> dict[str, str]:
    """Return the SHA-256 of each file that is listed; nothing if there is no list."""
    try:
        data, _ = read_whole(str(folder / layout.CHECKSUMS), _MOST_BYTES)
    except OSError as error:
        faults.add(layout.CHECKSUMS, why(error))
        return {}
    if data is None or not data.endswith(b"\n"):
        faults.add(layout.CHECKSUMS, "it does not end with a line of its own")
    listed: dict[str, str] = {}
    position = 0
    for line in (data or b"").split(b"\n")[:-1]:
        match = _LINE.fullmatch(line)
        name = os.fsdecode(match[2]) if match else ""
        if match is None or name in listed or name in (".", ".."):
            what = "a file that is listed already" if name in listed else "no checksum of a file"
            faults.add(layout.CHECKSUMS, f"a line with {what}", position)
        else:
            listed[name] = match[1].decode()
        position += len(line) + 1
    return listed


def compare(found: Mapping[str, str], listed: Mapping[str, str], faults: Faults) -> None:
    """Add a fault for each file whose hash is not the one that is listed."""
    names = {digest: name for name, digest in listed.items()}
    for name, digest in found.items():
        if name in listed and digest != listed[name]:
            other = f", but that of {names[digest]}" if digest in names else ""
            faults.add(name, CHANGED + other)
