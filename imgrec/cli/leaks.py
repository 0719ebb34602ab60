"""`imgrec leaks`: show the images that are there twice."""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_subject, add_workers, number, subject_of
from imgrec.cli.parser import VERBS
from imgrec.cli.workers import working
from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.leaks import Kind, LeakedImage, LeakPair, Leaks

_FAULTS = 1
"""Exit code if an image is in two splits, or in the other dataset."""
_SHOWN = 20
_TITLES = {
    "against": "leaks",
    "across splits": "leaks",
    "across classes": "conflicts",
    "within": "copies",
}
_WHAT = {
    "across splits": "pairs across splits",
    "across classes": "pairs under other labels",
    "within": "pairs in one split and class",
}
_EXAMPLES = """\
examples:
  imgrec leaks flowers -o pairs.png
  imgrec leaks ./new_photos --against flowers
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "leaks",
        help=VERBS["leaks"],
        description="Show which images of a dataset or a source are the same or look alike: "
        "across splits first, then across classes, then the rest. Exit code 1 if an image is in "
        "two splits, or in the other dataset.",
        epilog=_EXAMPLES,
    )
    add_subject(parser)
    add = parser.add_argument
    add("--against", default="", metavar="DATASET", help="show which images that has, too")
    add(
        "--distance",
        type=number,
        default=4.0,
        metavar="N",
        help="how far near-duplicates may be apart, in thousandths; default: 4, at most: 50",
    )
    add("-o", dest="sheet", default="", metavar="FILE", help="draw the first 50 pairs there")
    add_workers(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Look for leaks, and print what was found."""
    subject = subject_of(parsed)
    with working(parsed) as workers:
        from imgrec import api  # while the workers start

        leaks = api.leaks(
            subject.what,
            against=parsed.against,
            data_dir=parsed.data_dir,
            source=subject.options,
            distance=parsed.distance,
            sheet=parsed.sheet,
            engine=workers.engine,
            on_progress=workers.progress,
        )
    print(render.as_json(as_value(leaks)) if parsed.json else as_text(leaks))
    if parsed.sheet and not leaks.sheet:
        note = f"{parsed.sheet} was not written: there are no pairs to draw"
        print(render.safe(note), file=sys.stderr)
    return _FAULTS if leaks.is_leaking else 0


def as_value(leaks: Leaks) -> dict[str, object]:
    """Return what was found as a JSON value."""
    return {
        "name": printable(leaks.name),
        "version": leaks.version,
        "against": printable(leaks.against),
        "leaking": leaks.is_leaking,
        "images": leaks.images,
        "flat": leaks.flat,
        "unreadable": leaks.unreadable,
        "distance": leaks.distance,
        "counts": Counter(str(pair.kind) for pair in leaks.pairs),
        "pairs": [
            {
                "kind": str(pair.kind),
                "identical": pair.is_exact,
                "distance": pair.distance,
                "mirrored": pair.is_mirrored,
                "first": _image_value(pair.first),
                "second": _image_value(pair.second),
            }
            for pair in leaks.pairs
        ],
        "sheet": printable(leaks.sheet),
        "seconds": round(leaks.seconds, 3),
    }


def _image_value(image: LeakedImage) -> dict[str, object]:
    return {
        "file": printable(image.name),
        "split": image.split,
        "labels": list(map(printable, image.labels)),
    }


def as_text(leaks: Leaks) -> str:
    """Return what was found for people."""
    against = f" against {leaks.against}" if leaks.against else ""
    looked = f"{leaks.title}{against}: {render.number(leaks.images, 'image')}"
    kinds = {pair.kind: None for pair in leaks.pairs}
    lines = [
        render.safe(looked + ("" if leaks.pairs else ", none of them twice")),
        *(line for kind in kinds for line in _kind_lines(leaks, kind)),
    ]
    if leaks.flat:
        what = "with too little in them to tell: compared to the byte only"
        lines.append(render.line("flat", f"{render.number(leaks.flat, 'image')} {what}"))
    if leaks.unreadable:
        lines.append(render.line("unreadable", render.number(leaks.unreadable, "image")))
    if leaks.sheet:
        lines.append(render.line("sheet", leaks.sheet))
    lines.append(render.line("speed", f"{leaks.images / max(leaks.seconds, 1e-9):,.0f} images/s"))
    return "\n".join(lines)


def _kind_lines(leaks: Leaks, kind: Kind) -> Iterator[str]:
    pairs = leaks.of(kind)
    yield render.line(_TITLES[kind], _counted(leaks, pairs, kind))
    for pair in pairs[:_SHOWN]:
        yield render.line("", _pair(pair))
    if len(pairs) > _SHOWN:
        yield render.line("", f"… {len(pairs) - _SHOWN:,} more: --json lists all")


def _counted(leaks: Leaks, pairs: Sequence[LeakPair], kind: Kind) -> str:
    exact = sum(pair.is_exact for pair in pairs)
    near = f"{exact:,} the same to the byte, {len(pairs) - exact:,} nearly"
    if leaks.against:
        return f"{render.number(len(pairs), 'image')} in {leaks.against}, too: {near}"
    what = _WHAT[kind] if len(pairs) != 1 else _WHAT[kind].replace("pairs", "pair")
    return f"{len(pairs):,} {what}: {near}"


def _pair(pair: LeakPair) -> str:
    sign = "=" if pair.is_exact else "~"
    apart = "" if pair.is_exact else f" ({pair.distance:.1f}{', mirrored' * pair.is_mirrored})"
    return f"{_image(pair.first)} {sign} {_image(pair.second)}{apart}"


def _image(image: LeakedImage) -> str:
    labels = f" [{' '.join(image.labels)}]" if image.labels else ""
    return f"{image.split} {image.name}{labels}".strip()
