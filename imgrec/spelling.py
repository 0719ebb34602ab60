"""Class names that differ only in spelling."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from unicodedata import normalize


def as_integer(text: str) -> str:
    """Return an integer without trailing ".0"; "" for anything else.

    >>> as_integer("3.0"), as_integer("-12"), as_integer("03"), as_integer("3.5")
    ('3', '-12', '03', '')
    """
    whole, _, rest = text.partition(".")
    is_integer = whole.removeprefix("-").isdecimal() and text.isascii() and not rest.strip("0")
    return whole if is_integer else ""


def shortest(integer: str) -> str:
    """Return the shortest way to write an integer.

    >>> shortest("007"), shortest("-0")
    ('7', '0')
    """
    digits = integer.removeprefix("-").lstrip("0")
    return ("-" if integer.startswith("-") and digits else "") + (digits or "0")


def spelling_key(name: str) -> str:
    """Return a key that ignores case, spaces, leading zeros and the encoding of accents.

    >>> spelling_key("Pug  dog"), spelling_key("007")
    ('pug dog', '7')
    """
    if integer := as_integer(name.strip()):
        return shortest(integer)
    # Composed again: casefold() may decompose a character.
    return normalize("NFC", " ".join(normalize("NFC", name).casefold().split()))


def same_name(wanted: str, names: Sequence[str]) -> str:
    r"""Return the one of some names that is the wanted one in another Unicode form, else that one.

    >>> same_name("Scho\u0308n", ["Sch\u00f6n", "Schon"]) == "Sch\u00f6n"
    True
    """
    if wanted in names:
        return wanted
    composed = normalize("NFC", wanted)
    same = [name for name in names if normalize("NFC", name) == composed]
    return same[0] if len(same) == 1 else wanted


def alike(names: Iterable[str], key: Callable[[str], str] = spelling_key) -> list[list[str]]:
    """Return groups of two or more names with the same key, in their order."""
    found: dict[str, list[str]] = defaultdict(list)
    for name in names:
        found[key(name)].append(name)
    return [group for group in found.values() if len(group) > 1]


def commonest(uses: Mapping[str, int]) -> dict[str, str]:
    """Return the commonest spelling of each name, given how often each is used.

    Of equally common spellings, the first wins.
    """
    best: dict[str, str] = {}
    for name, count in uses.items():
        usual = best.setdefault(spelling_key(name), name)
        if count > uses[usual]:
            best[spelling_key(name)] = name
    return {name: best[spelling_key(name)] for name in uses}
