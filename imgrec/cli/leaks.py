"""`imgrec leaks`: show exact and near-duplicates."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.cli.arguments import SUBJECT_ARGUMENTS, WORKERS, decimal, inspecting
from imgrec.cli.parser import argument, verb
from imgrec.cli.render import emit, line, pick
from imgrec.text import number, visible

if TYPE_CHECKING:
    from imgrec.inspect.leaks import Kind, LeakedImage, LeakPair, Leaks

_SHOWN = 20
_TITLES = {
    "against": "leaks",
    "across splits": "leaks",
    "across classes": "conflicts",
    "within": "copies",
}
_WHERE = {
    "across splits": "across splits",
    "across classes": "under other labels",
    "within": "in one split and class",
}


@verb(
    ("imgrec leaks flowers -o pairs.png", "imgrec leaks ./new_photos --against flowers"),
    (
        *SUBJECT_ARGUMENTS,
        argument("--against", "DATASET", "find the images that are also in this dataset"),
        argument(
            "--distance",
            "N",
            "how much near-duplicates may differ, in thousandths; default: 4, at most: 50",
            type=decimal,
            default=4.0,
        ),
        argument("-o", "FILE", "draw the first 50 pairs there", dest="sheet"),
        *WORKERS,
    ),
)
def leaks(parsed: Namespace) -> int:
    """Show exact and near-duplicates in a dataset or a source.

    Pairs across splits come first, then pairs across classes, then the rest. The exit code is 1
    if an image is in two splits, or in the other dataset.
    """
    from imgrec import api

    with inspecting(parsed) as reading:
        found = api.leaks(
            parsed.source,
            against=parsed.against,
            distance=parsed.distance,
            sheet=parsed.sheet,
            **reading,
        )
    emit(parsed, _value(found), _lines(found))
    if parsed.sheet and not found.sheet:
        note = f"{parsed.sheet} was not written: there are no pairs to draw"
        print(visible(note), file=sys.stderr)
    return 1 if found.is_leaking else 0


def _value(found: Leaks) -> dict[str, object]:
    return {
        **pick(found, "name version against images flat unreadable distance sheet"),
        "leaking": found.is_leaking,
        "counts": Counter(str(pair.kind) for pair in found.pairs),
        "pairs": [
            {
                **pick(pair, "kind distance"),
                "identical": pair.is_exact,
                "mirrored": pair.is_mirrored,
                "first": _image_value(pair.first),
                "second": _image_value(pair.second),
            }
            for pair in found.pairs
        ],
        "seconds": round(found.seconds, 3),
    }


def _image_value(image: LeakedImage) -> dict[str, object]:
    return {"file": image.name, **pick(image, "split labels")}


def _lines(found: Leaks) -> Iterator[str]:
    against = f" against {found.against}" if found.against else ""
    ending = "" if found.pairs else ", no duplicates"
    yield visible(f"{found.title}{against}: {number(found.images, 'image')}{ending}")
    for kind in dict.fromkeys(pair.kind for pair in found.pairs):
        pairs = found.of(kind)
        yield line(_TITLES[kind], _summary(found, pairs, kind))
        yield from (line("", _pair(pair)) for pair in pairs[:_SHOWN])
        if len(pairs) > _SHOWN:
            yield line("", f"… {len(pairs) - _SHOWN:,} more: --json lists all")
    if found.flat:
        what = "with too little detail to compare: only exact duplicates are found"
        yield line("flat", f"{number(found.flat, 'image')} {what}")
    if found.unreadable:
        yield line("unreadable", number(found.unreadable, "image"))
    if found.sheet:
        yield line("sheet", found.sheet)
    yield line("speed", f"{found.images / max(found.seconds, 1e-9):,.0f} images/s")


def _summary(found: Leaks, pairs: Sequence[LeakPair], kind: Kind) -> str:
    exact = sum(pair.is_exact for pair in pairs)
    kinds = f"{exact:,} exact, {len(pairs) - exact:,} near"
    if found.against:
        return f"{number(len(pairs), 'image')} also in {found.against}: {kinds}"
    return f"{number(len(pairs), 'pair')} {_WHERE[kind]}: {kinds}"


def _pair(pair: LeakPair) -> str:
    sign = "=" if pair.is_exact else "~"
    apart = "" if pair.is_exact else f" ({pair.distance:.1f}{', mirrored' * pair.is_mirrored})"
    return f"{_image(pair.first)} {sign} {_image(pair.second)}{apart}"


def _image(image: LeakedImage) -> str:
    labels = f" [{' '.join(image.labels)}]" if image.labels else ""
    return f"{image.split} {image.name}{labels}".strip()
