"""The names of archives, and the encoding of the names in them.

Zips mark names as UTF-8, or do not. Names that are not marked are UTF-8 if all of them are.
Otherwise an encoding is taken only if it alone gives plausible names: letters that are common in
its script, and as much or as little ASCII among them as its languages write. Tars hold the bytes
that names have on disk, where nothing is guessed either: only `--encoding` decodes those.
"""

from __future__ import annotations

import os
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.text import printable

COMPRESSED_TARS = (
    ".tar.gz", ".tgz", ".taz", ".tar.bz2", ".tbz2", ".tbz", ".tar.xz", ".txz", ".tar.zst", ".tzst",
)  # fmt: skip
_PART = re.compile(r"\.(zip|7z|rar|tar|tgz|tar\.[a-z0-9]+)\.\d{3}$|\.z\d\d$")
"""Suffixes of the parts of a split archive."""
_SUFFIXES = (*COMPRESSED_TARS, ".zip", ".tar", ".7z", ".rar")
_MOST_LOOKED_AT = 10_000
"""How many different names are used for a guess; in the end, all names must decode."""
_COMMON_SHARE = 0.8
"""The share of common characters among the different ones of plausible names."""
_FILE_EXTENSION = re.compile(rb"\.[A-Za-z0-9]{1,5}$")
"""It is not part of any language."""
_UTF8 = "utf-8"
_ASIAN: Mapping[str, Callable[[int], bool]] = {
    "gbk": lambda code: 0xB0A1 <= code <= 0xD7F9 and code & 0xFF >= 0xA1,
    "cp932": lambda code: 0x829F <= code <= 0x8396 or 0x889F <= code <= 0x9872 or code == 0x815B,
    "cp949": lambda code: 0xB0A1 <= code <= 0xC8FE and code & 0xFF >= 0xA1,
    "cp950": lambda code: 0xA440 <= code <= 0xC67E,
}
"""The codes of common characters: hanzi of level 1; kana and kanji of level 1; Hangul; and the
frequent characters of Big5."""
_ALPHABETS = {
    "cp437": ("LATIN", 0.0, 0.5),
    "cp1252": ("LATIN", 0.0, 0.5),
    "cp866": ("CYRILLIC", 0.9, 1.0),
    "cp1251": ("CYRILLIC", 0.9, 1.0),
    "koi8_r": ("CYRILLIC", 0.9, 1.0),
}
"""The script, and the least and the most share of letters that are not ASCII: accents are few
among Latin letters, and other alphabets are hardly mixed with Latin ones."""


def has_archive_name(filename: str) -> bool:
    """Tell whether a file has the name of an archive, readable by imgrec or not."""
    name = filename.lower()
    return name.endswith(_SUFFIXES) or bool(_PART.search(name))


def archive_stem(path: str) -> str:
    """Return the name of an archive without its suffix.

    >>> archive_stem("downloads/flowers.tar.gz")
    'flowers'
    """
    name = os.path.basename(os.path.abspath(path))
    known = (name[: -len(suffix)] for suffix in _SUFFIXES if name.lower().endswith(suffix))
    return next(known, os.path.splitext(name)[0]) or name


class Names(NamedTuple):
    """The encoding of names."""

    encoding: str
    warning: str = ""


def choose_encoding(names: Sequence[bytes], asked: str, shown: str, usual: str = _UTF8) -> Names:
    """Choose one encoding for all names that are not ASCII; messages call the archive `shown`.

    It is the `usual` one if no other fits alone. Raises SourceError if `--encoding` does not fit.
    """
    is_utf8 = all(_decodes(name, _UTF8) for name in names)
    if asked and _may_be_of_names(asked) and not (is_utf8 and _takes_anything(asked)):
        if odd := [name for name in names if not _decodes(name, asked)]:
            raise SourceError(
                f"{shown}: names of its files are not {asked} text, such as {_escaped(odd[0])}",
                hint="pass the encoding of the names with --encoding, or unpack it first",
                path=shown,
            )
        return Names(asked)
    if is_utf8:
        return Names(_UTF8)
    return _guess(names, shown, usual)


def _guess(names: Sequence[bytes], shown: str, usual: str) -> Names:
    looked_at = sorted(set(names))[:_MOST_LOOKED_AT]
    parts = {part for name in looked_at for part in name.split(b"/")}
    words = sorted({_FILE_EXTENSION.sub(b"", part) for part in parts if not part.isascii()})
    fitting = [
        encoding
        for encoding in (*_ASIAN, *_ALPHABETS)
        if all(_decodes(name, encoding) for name in names) and _is_plausible(words, encoding)
    ]
    if len(fitting) == 1:
        return Names(
            fitting[0],
            f"{shown}: names of its files are not UTF-8, and were read as {fitting[0]}; if letters "
            "are wrong, pass --encoding",
        )
    if usual == _UTF8 and not fitting:  # they are bytes on disk, too
        return Names(usual)
    which = (
        f"may be {' or '.join(fitting)}" if fitting else f"are not UTF-8, and were read as {usual}"
    )
    return Names(
        usual, f"{shown}: names such as {_escaped(words[0])} {which}: pass --encoding to say what"
    )


def _decodes(name: bytes, encoding: str) -> bool:
    try:
        name.decode(encoding)
    except UnicodeError:
        return False
    return True


def _may_be_of_names(encoding: str) -> bool:
    """Tell whether file names may have this encoding; UTF-16, for one, is for tables only."""
    return "a/".encode(encoding) == b"a/"


def _takes_anything(encoding: str) -> bool:
    """Tell whether an encoding decodes most single bytes, and so UTF-8 text as well.

    It is then meant for a table, and names in UTF-8 stay as they are.
    """
    high = [bytes([byte]) for byte in range(0x80, 0x100)]
    return sum(_decodes(byte, encoding) for byte in high) > len(high) * 0.7


def _is_plausible(words: Sequence[bytes], encoding: str) -> bool:
    text = "".join(word.decode(encoding) for word in words)
    high = {character for character in text if not character.isascii()}
    if encoding in _ASIAN:
        letters = [character for character in high if character.isalpha()]
        common = [x for x in letters if _ASIAN[encoding](_code(x, encoding))]
        return bool(common) and len(common) >= _COMMON_SHARE * len(letters)
    script, least, most = _ALPHABETS[encoding]
    if not all(unicodedata.name(character, "").startswith(script) for character in high):
        return False
    letters = [character for character in text if character.isalpha()]
    share = sum(not letter.isascii() for letter in letters) / max(len(letters), 1)
    return least <= share <= most


def _code(character: str, encoding: str) -> int:
    return int.from_bytes(character.encode(encoding, "replace"), "big")


def _escaped(name: bytes) -> str:
    return printable(name.decode(_UTF8, "backslashreplace"))
