"""File names, counts and sizes as text."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Sequence
from fnmatch import translate

_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
"""Characters that move the cursor, change colours, or reorder text."""
_PLAIN = re.compile(r"[\w.:/+-]*", re.ASCII)
_LINE = re.compile(r"^[^ ][^:]*:\d+: ")


_CLOSE = 0.65
"""How similar a name must be to be suggested: `password` is not meant as `class-order`."""
_IS_UTF8 = sys.getfilesystemencoding() == "utf-8"
"""Whether Python decodes file names as UTF-8, which it does not do in a few locales."""


def name_of(path: str) -> str:
    """Return the text of a path from the operating system: UTF-8 in every locale."""
    return path if _IS_UTF8 else os.fsencode(path).decode("utf-8", "surrogateescape")


def path_of(name: str) -> str:
    """Return the path for the operating system that `name_of` turns into a name."""
    return name if _IS_UTF8 else os.fsdecode(name.encode("utf-8", "surrogateescape"))


def folder_name(path: str) -> str:
    """Return the name of a folder as text, after which a dataset is named; "root" for `/`."""
    return name_of(os.path.basename(os.path.abspath(path))) or "root"


def given_path(text: str) -> str:
    """Return the path for a caller's argument, which may be text or a path from the system.

    It is a path from the system if it exists, or if its bytes are UTF-8. `~` is expanded.
    """
    text = os.path.expanduser(text)  # Path.expanduser raises for unknown users
    if _IS_UTF8:
        return text
    try:
        is_path = os.path.lexists(text) or bool(os.fsencode(text).decode())
    except UnicodeError:
        is_path = False
    return text if is_path else path_of(text)


def printable(filename: str) -> str:
    r"""Return a file name as valid text; bytes that are not UTF-8 become escapes.

    >>> printable("caf\udce9.jpg")
    'caf\\udce9.jpg'
    """
    return filename.encode("utf-8", "backslashreplace").decode("utf-8")


def own_name(path: str) -> str:
    """Return a path without its parent folders, which do not belong in a report.

    >>> own_name("/data/flowers/1.0.0"), own_name("../splits.csv"), own_name("flowers:1.0.0")
    ('flowers/1.0.0', 'splits.csv', 'flowers:1.0.0')
    """
    *above, name = path.rstrip("/").split("/")
    is_version = bool(above) and re.fullmatch(r"[0-9.]+", name)
    return f"{above[-1]}/{name}" if is_version else name


def visible(text: str) -> str:
    r"""Return text that is safe to show: control characters become escapes.

    >>> visible("a\x1b[2J")
    'a\\x1b[2J'
    """
    return _CONTROL.sub(_escaped, printable(text))


def _escaped(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


def literal(text: str) -> str:
    r"""Return text as a Python literal, for lines that people copy and run.

    >>> print(literal("flowers:1.0.0"), literal('"); evil("'))
    "flowers:1.0.0" '"); evil("'
    """
    return f'"{text}"' if _PLAIN.fullmatch(text) else repr(text)


def markup(text: object) -> str:
    """Return a value as escaped text for an HTML page.

    >>> markup("<b>")
    '&lt;b&gt;'
    """
    from html import escape

    return escape(visible(str(text)))


def size(count: int) -> str:
    """Return a number of bytes with a unit.

    >>> size(1536)
    '1.5 KiB'
    """
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def unmatched_glob(option: str, glob: str, example: str) -> str:
    """Return a warning about a glob of an option; `example` is a path that it could match.

    >>> unmatched_glob("--exclude", "s/val/*", "val/1.jpg")
    '--exclude s/val/* matches no file: paths are such as val/1.jpg'
    """
    paths = f": paths are such as {printable(example)}" if example else ""
    return f"{option} {glob} matches no file{paths}"


def listed(names: Iterable[str], most: int = 5) -> str:
    """Return the first names, and how many more there are.

    >>> listed("abc", 2)
    'a, b and 1 more'
    """
    names = list(names)
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def number(count: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> number(1, "class", "classes"), number(2000, "image")
    ('1 class', '2,000 images')
    """
    return f"{count:,} {singular if count == 1 else plural or singular + 's'}"


def are(count: int) -> str:
    """Return the verb for a count.

    >>> are(1), are(2)
    ('is', 'are')
    """
    return "is" if count == 1 else "are"


def without_line(reason: str) -> str:
    """Return a reason without the table line at its beginning.

    >>> without_line("train.csv:17: no such image")
    'no such image'
    """
    return _LINE.sub("", reason)


def picked(match: re.Match[str], group: str) -> str:
    """Return the named group of a match, else the first group, else the whole match."""
    if group in match.re.groupindex:
        return match[group] or ""
    return (match[1] or "") if match.re.groups else match[0]


def globs_pattern(globs: Iterable[str]) -> re.Pattern[str]:
    """Return a pattern that matches if one of the globs does; no globs match nothing.

    >>> bool(globs_pattern(["a/*", "*.png"]).match("a/b/1.jpg")), globs_pattern([]).match("")
    (True, None)
    """
    return re.compile("|".join(map(translate, globs)) or "(?!)")


def suggestion(names: Sequence[str], wanted: str, most: int = 20) -> str:
    """Return a hint for an unknown name: the closest name, and which names exist, up to `most`.

    >>> suggestion(["train", "val"], "trian")
    'did you mean train? There is train, val'
    """
    if not names:
        return "there is none"
    there = f"there is {listed(names, most)}"
    meant = closest(names, wanted)
    return f"did you mean {meant}? T{there[1:]}" if meant else there


def closest(names: Sequence[str], wanted: str) -> str:
    """Return the name that was probably meant; "" if none is close.

    >>> closest(["train", "val"], "Trian")
    'train'
    """
    import difflib

    by_folded = {name.casefold(): name for name in reversed(names)}
    close = difflib.get_close_matches(wanted.casefold(), by_folded, n=1, cutoff=_CLOSE)
    return by_folded[close[0]] if close else ""
