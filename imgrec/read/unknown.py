"""What to say of a name that a dataset does not have."""

from __future__ import annotations

from collections.abc import Sequence

_SHOWN = 20


def among(names: Sequence[str], wanted: str) -> str:
    """Return the hint that lists what there is, the name that was likely meant first.

    >>> among(["train", "val"], "trian")
    'did you mean train? There is train, val'
    """
    import difflib

    if not names:
        return "there is none"
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    there = f"there is {', '.join(names[:_SHOWN])}{more}"
    by_folded = {name.casefold(): name for name in reversed(names)}
    close = difflib.get_close_matches(wanted.casefold(), by_folded, n=1)
    return f"did you mean {by_folded[close[0]]}? T{there[1:]}" if close else there
