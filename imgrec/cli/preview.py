"""`imgrec preview`: show some images of a dataset or a source."""

from __future__ import annotations

import argparse
import base64
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_subject, add_workers, subject_of, whole
from imgrec.cli.parser import VERBS
from imgrec.cli.workers import working
from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.contact_sheet import Preview

_CHUNK = 4096
"""The most that kitty takes of a picture at once."""
_KITTY = frozenset({"kitty", "ghostty", "WezTerm"})
_ITERM = frozenset({"iTerm.app"})


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "preview",
        help=VERBS["preview"],
        description="Draw some images of a dataset, or of a source, with their labels and names "
        "as one picture. A terminal that can show it (kitty, Ghostty, WezTerm, iTerm2) does.",
        epilog="example: imgrec preview flowers --split val --class rose -n 12",
        allow_abbrev=False,
    )
    add_subject(parser)
    add = parser.add_argument
    add("--split", default="", metavar="S", help="only of this split")
    add("--class", dest="class_name", default="", metavar="C", help="only of this class")
    add("-n", dest="count", type=whole, default=24, metavar="N", help="how many; default: 24")
    add(
        "-o", dest="path", default="", metavar="FILE", help="default: NAME_preview.png; .jpg, .webp"
    )
    add_workers(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Draw the sheet, and show it or say where it is."""
    subject = subject_of(parsed)
    with working(parsed) as workers:
        from imgrec import api  # while the workers start

        sheet = api.preview(
            subject.what,
            split=parsed.split,
            class_name=parsed.class_name,
            count=parsed.count,
            path=parsed.path,
            data_dir=parsed.data_dir,
            source=subject.options,
            engine=workers.engine,
            on_progress=workers.progress,
        )
    draw_inline = None if parsed.json else inline_protocol(os.environ, is_terminal=_is_terminal())
    if draw_inline:
        print(draw_inline(sheet.data))
    print(render.as_json(as_value(sheet)) if parsed.json else as_text(sheet))
    return 0


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def inline_protocol(
    environment: Mapping[str, str], *, is_terminal: bool
) -> Callable[[bytes], str] | None:
    """Return what makes a PNG text that the terminal shows as a picture; None if it shows none."""
    if not is_terminal or environment.get("TMUX"):  # which passes no pictures on by itself
        return None
    program = environment.get("TERM_PROGRAM", "")
    is_kitty = "KITTY_WINDOW_ID" in environment or "kitty" in environment.get("TERM", "")
    if is_kitty or program in _KITTY:
        return for_kitty
    return for_iterm if program in _ITERM else None


def for_kitty(png: bytes) -> str:
    """Return a picture as kitty takes it: base64 in pieces, all but the last with m=1."""
    text = base64.b64encode(png).decode()
    pieces = [text[at : at + _CHUNK] for at in range(0, len(text), _CHUNK)]
    return "".join(
        f"\x1b_G{'' if place else 'a=T,f=100,'}m={int(place < len(pieces) - 1)};{piece}\x1b\\"
        for place, piece in enumerate(pieces)
    )


def for_iterm(png: bytes) -> str:
    """Return a picture as iTerm2 takes it: one sequence of base64."""
    return f"\x1b]1337;File=inline=1;size={len(png)}:{base64.b64encode(png).decode()}\a"


def as_value(sheet: Preview) -> dict[str, object]:
    """Return what is shown as a JSON value."""
    return {
        "name": printable(sheet.name),
        "path": printable(sheet.path),
        "shown": sheet.shown,
        "images": sheet.total,
    }


def as_text(sheet: Preview) -> str:
    """Return what is shown, and where it is."""
    what = f"{sheet.name}: {sheet.shown:,} of {render.number(sheet.total, 'image')}"
    return "\n".join([render.safe(what), render.line("sheet", sheet.path)])
