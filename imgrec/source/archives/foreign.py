"""Archives that imgrec does not read, and the commands that unpack them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Sequence
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.source.archives.names import archive_stem

_SHOWN = 3
_7Z, _RAR = b"7z\xbc\xaf\x27\x1c", b"Rar!\x1a\x07"
MAGIC = (_7Z, _RAR)
_NUMBERED = re.compile(r"(?P<whole>.+)\.\d{3}", re.DOTALL)
_ZIP_PART = re.compile(r"(?P<stem>.+)\.(z\d\d|zip)", re.DOTALL | re.IGNORECASE)


_PARTS = "parts of an archive that was split"


class _Foreign(NamedTuple):
    kind: str
    command: str
    """What makes something of it that imgrec reads."""
    result: str
    """What that is."""


def refuse_foreign(paths: Sequence[str], shown: Sequence[str]) -> None:
    """Raise SourceError if some of the archives at these paths are 7z, RAR or parts of others.

    `shown` is what messages call each. The error has a command for each.
    """
    found = {
        name: foreign
        for path, name in zip(paths, shown, strict=True)
        if (foreign := _look(path, name))
    }
    if not found:
        return
    names, kinds = list(found), {foreign.kind for foreign in found.values()}
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    commands = " && ".join(dict.fromkeys(foreign.command for foreign in found.values()))
    outer = "" if os.path.lexists(names[0]) else "unpack what it is in; then "
    made = {foreign.result for foreign in found.values()}
    then = f"pack {made.pop()}" if len(made) == 1 else "pack the folder again"
    raise SourceError(
        f"imgrec does not read {' and '.join(sorted(kinds))}: {', '.join(names[:_SHOWN])}{more}",
        hint=f"{outer}run: {commands}, and {then}",
        path=names[0],
    )


def _look(path: str, shown: str) -> _Foreign | None:
    """Return what an archive is if imgrec does not read it."""
    within, name = os.path.split(shown.partition(" in ")[0])
    numbered, zip_part = _NUMBERED.fullmatch(name), _ZIP_PART.fullmatch(name)
    own = shlex.quote(os.path.join(within, name))
    stem = archive_stem(numbered["whole"] if numbered else name)
    stem = shlex.quote(os.path.join(within, stem if stem != name else f"{name}_unpacked"))
    head = _head(path)
    if head.startswith(_7Z):
        return _Foreign("7z archives", f"7z x {own} -o{stem}", stem)
    if head.startswith(_RAR):
        return _Foreign("RAR archives", f"unrar x {own} {stem}/", stem)
    if numbered:
        whole = shlex.quote(os.path.join(within, numbered["whole"]))
        return _Foreign(_PARTS, f"cat {whole}.??? > {whole}", whole)
    if zip_part and (not name.lower().endswith(".zip") or _has_first_part(path)):
        last = shlex.quote(os.path.join(within, f"{zip_part['stem']}.zip"))
        return _Foreign(_PARTS, f"zip -s 0 {last} --out {stem}_whole.zip", f"{stem}_whole.zip")
    return None


def _has_first_part(path: str) -> bool:
    stem = os.path.splitext(path)[0]
    return any(os.path.lexists(f"{stem}{suffix}") for suffix in (".z01", ".Z01"))


def _head(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read(max(map(len, MAGIC)))
    except OSError:  # whoever reads it says why
        return b""
