"""What to say of a name that is not there."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 20


def among(names: Sequence[str], wanted: str) -> str:
    """Return the hint that lists what there is, the name that was likely meant first.

    >>> among(["train", "val"], "trian")
    'did you mean train? There is train, val'
    """
    if not names:
        return "there is none"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"there is {', '.join(names[:_SHOWN])}{more}"
    meant = closest(names, wanted)
    return f"did you mean {meant}? T{there[1:]}" if meant else there


def closest(names: Sequence[str], wanted: str) -> str:
    """Return the name that was likely meant; "" if none is close.

    >>> closest(["train", "val"], "Trian")
    'train'
    """
    import difflib

    by_folded = {name.casefold(): name for name in reversed(names)}
    close = difflib.get_close_matches(wanted.casefold(), by_folded, n=1)
    return by_folded[close[0]] if close else ""
