"""What is said of images that a source has more than once, exactly or nearly."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from imgrec.cli.render import line, more, number
from imgrec.options import OnLeak

if TYPE_CHECKING:
    from imgrec.model import Plan
    from imgrec.near.duplicates import NearDuplicates, NearPair
    from imgrec.notes import SameImage
    from imgrec.outcome import Report

_SHOWN = 3


def twice_lines(found: Plan | Report, where: str = "see report.json") -> list[str]:
    """Return what of a source is there twice; `where` is all of what is not shown."""
    said = (
        ("duplicates", "more than once", found.duplicates),
        ("leaks", _leaking(found.options), found.leaks),
        ("conflicts", "under more than one label", found.conflicts),
    )
    return [
        *(text for title, what, groups in said for text in _same_lines(title, what, groups, where)),
        *_near_lines(found.near_duplicates),
    ]


def _leaking(options: Mapping[str, object]) -> str:
    """Return what is said of leaks: what became of them, or what could."""
    if options.get("on_leak") == OnLeak.DROP:
        return "in more than one split of the source, packed in one"
    return "in more than one split: --on-leak drop leaves out the copies"


def twice_json(found: Plan | Report) -> dict[str, object]:
    """Return how much of a source is there twice as JSON values."""
    return {
        "duplicates": _extra_copies(found.duplicates),
        "leaks": len(found.leaks),
        "conflicts": len(found.conflicts),
        "near_duplicates": _near_json(found.near_duplicates),
    }


def _same_lines(title: str, what: str, groups: Sequence[SameImage], where: str) -> list[str]:
    """Return the first of some groups of identical files."""
    if not groups:
        return []
    lines = [line(title, f"{number(len(groups), 'image')} {what}")]
    lines += [line("", _some_of(group.filenames)) for group in groups[:_SHOWN]]
    return [*lines, *more(len(groups) - _SHOWN, "image", where)]


def _near_lines(near: NearDuplicates | None) -> list[str]:
    """Return how many images look alike, and the pairs that matter most."""
    if near is None or not near.pairs:
        return []
    look = "looks" if near.pairs == 1 else "look"
    what = f"{number(near.pairs, 'pair')} {look} alike among {number(near.looked_at, 'image')}"
    if near.across_splits:
        what += f", {near.across_splits:,} across splits"
    if near.across_classes:
        what += f", {near.across_classes:,} under other labels"
    shown = [line("", _near_pair(pair)) for pair in near.examples[:_SHOWN]]
    if near.pairs > _SHOWN:
        rest = number(near.pairs - _SHOWN, "more pair")
        shown.append(line("", f"… {rest}: imgrec leaks shows them"))
    return [line("near-dups", what), *shown]


def _near_pair(pair: NearPair) -> str:
    """Return two files that look alike, and how much."""
    mirrored = ", mirrored" if pair.is_mirrored else ""
    return f"{pair.first} ~ {pair.second} ({pair.distance:.1f}{mirrored})"


def _near_json(near: NearDuplicates | None) -> dict[str, int] | None:
    """Return near-duplicates, counted, as a JSON value."""
    if near is None:
        return None
    return {
        "looked_at": near.looked_at,
        "pairs": near.pairs,
        "across_splits": near.across_splits,
        "across_classes": near.across_classes,
    }


def _some_of(filenames: Sequence[str]) -> str:
    """Return some names of one image, from different folders first."""
    firsts = {name.rpartition("/")[0]: name for name in reversed(filenames)}.values()
    shown = list(dict.fromkeys([*sorted(firsts), *filenames]))[:_SHOWN]
    rest = len(filenames) - len(shown)
    return " = ".join(sorted(shown)) + (f" = … {rest:,} more" if rest else "")


def _extra_copies(groups: Iterable[SameImage]) -> int:
    """Count the files that repeat another one."""
    return sum(len(group.filenames) - 1 for group in groups)
