"""`imgrec report`, `imgrec preview` and `imgrec view`: look at images of a dataset or a source."""

from __future__ import annotations

import base64
import os
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec.cli.arguments import (
    DATASET_ARGUMENTS,
    SUBJECT_ARGUMENTS,
    WORKERS,
    declared,
    inspecting,
    whole,
)
from imgrec.cli.parser import argument, switch, verb
from imgrec.cli.render import emit, line, lines, pick
from imgrec.storage.files import write_blocks
from imgrec.text import markup, number, size, visible

if TYPE_CHECKING:
    from imgrec.inspect.contact_sheet import Preview
    from imgrec.inspect.report.page import ReportPage
    from imgrec.view.server import Serving

_KITTY = frozenset({"kitty", "ghostty", "WezTerm"})
_ITERM = frozenset({"iTerm.app"})
_KITTY_CHUNK = 4096
"""The most bytes of a picture that kitty takes at once."""
_REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>imgrec view</title>
<a href="{0}">Open imgrec view</a>
"""


@verb(
    ("imgrec report flowers -o flowers.html --open",),
    (
        *SUBJECT_ARGUMENTS,
        argument("-o", "HTML", "file to write; default: NAME_report.html", dest="path"),
        switch("--open", "open it in the browser"),
        replace(declared("thumbnails"), group=""),
        *WORKERS,
    ),
)
def report(parsed: Namespace) -> int:
    """Write one HTML page about a dataset, or about a source before it is packed.

    It shows counts, charts, pictures and everything unusual. It needs no network and can be sent
    to others.
    """
    from imgrec import api

    with inspecting(parsed) as reading:
        page = api.report(parsed.source, path=parsed.path, thumbnails=parsed.thumbnails, **reading)
    emit(parsed, _report_value(page), _report_lines(page))
    if parsed.open:
        import webbrowser

        webbrowser.open(Path(os.path.abspath(page.path)).as_uri())
    return 0


def _report_value(page: ReportPage) -> dict[str, object]:
    facts = page.facts
    return {
        **pick(facts.report, "name version classes"),
        "images": facts.images,
        **pick(page, "path thumbnails"),
        "bytes": len(page.data),
        "splits": {split.name: split.images for split in facts.splits},
        "findings": {found.key: found.total for found in facts.findings},
        "outliers": {found.key: found.total for found in facts.outliers},
        "seconds": round(page.seconds, 3),
    }


def _report_lines(page: ReportPage) -> Iterator[str]:
    facts = page.facts
    title = " ".join(filter(None, (facts.report.name, facts.report.version)))
    classes = number(len(facts.report.classes), "class", "classes")
    yield visible(f"{title}: {number(facts.images, 'image')}, {classes}")
    for heading, kinds in (("findings", facts.findings), ("outliers", facts.outliers)):
        yield from lines(heading, (f"{one.total:,} x {one.title.lower()}" for one in kinds))
    yield line("page", f"{page.path}, {size(len(page.data))}")


@verb(
    ("imgrec preview flowers --split val --class rose -n 12",),
    (
        *SUBJECT_ARGUMENTS,
        argument("--split", "S", "only images of this split"),
        argument("--class", "C", "only images of this class", dest="class_name"),
        argument("-n", "N", "how many; default: 24", dest="count", type=whole, default=24),
        argument(
            "-o",
            "FILE",
            "file to write (.png, .jpg or .webp); default: NAME_preview.png",
            dest="path",
        ),
        *WORKERS,
    ),
)
def preview(parsed: Namespace) -> int:
    """Draw some images of a dataset or a source, with labels and names, as one picture.

    Terminals that can show pictures (kitty, Ghostty, WezTerm, iTerm2) show it.
    """
    from imgrec import api

    with inspecting(parsed) as reading:
        sheet = api.preview(
            parsed.source,
            split=parsed.split,
            class_name=parsed.class_name,
            count=parsed.count,
            path=parsed.path,
            **reading,
        )
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    as_picture = picture_protocol(os.environ, is_terminal=is_terminal)
    if as_picture and not parsed.json:
        print(as_picture(sheet.data))
    value = {**pick(sheet, "name path shown"), "images": sheet.total}
    emit(parsed, value, _preview_lines(sheet))
    return 0


def _preview_lines(sheet: Preview) -> Iterator[str]:
    yield visible(f"{sheet.name}: {sheet.shown:,} of {number(sheet.total, 'image')}")
    yield line("sheet", sheet.path)


def picture_protocol(
    environment: Mapping[str, str], *, is_terminal: bool
) -> Callable[[bytes], str] | None:
    """Return the function that turns a PNG into text that the terminal shows as a picture.

    Returns None if the terminal shows no pictures.
    """
    if not is_terminal or environment.get("TMUX"):  # tmux does not pass pictures on
        return None
    program = environment.get("TERM_PROGRAM", "")
    is_kitty = "KITTY_WINDOW_ID" in environment or "kitty" in environment.get("TERM", "")
    if is_kitty or program in _KITTY:
        return for_kitty
    return for_iterm if program in _ITERM else None


def for_kitty(png: bytes) -> str:
    """Return a picture for kitty: base64 in pieces, all but the last with m=1."""
    text = base64.b64encode(png).decode()
    pieces = [text[at : at + _KITTY_CHUNK] for at in range(0, len(text), _KITTY_CHUNK)]
    return "".join(
        f"\x1b_G{'' if place else 'a=T,f=100,'}m={int(place < len(pieces) - 1)};{piece}\x1b\\"
        for place, piece in enumerate(pieces)
    )


def for_iterm(png: bytes) -> str:
    """Return a picture for iTerm2: one sequence of base64."""
    return f"\x1b]1337;File=inline=1;size={len(png)}:{base64.b64encode(png).decode()}\a"


@verb(
    ("imgrec view flowers --open", "imgrec view flowers --corrections fixes.csv"),
    (
        *DATASET_ARGUMENTS,
        argument(
            "--corrections",
            "CSV",
            "file of your decisions, for imgrec edit; default: NAME-VERSION-corrections.csv",
            default="",
        ),
        argument("--port", "P", "default: any free port", type=whole, default=0),
        switch("--open", "open the page in the browser"),
    ),
)
def view(parsed: Namespace) -> int:
    """Serve a page to browse a dataset: filters, thumbnails, full records, class comparison.

    Flag, relabel, drop or move images there, and apply that with imgrec edit: the dataset itself
    is never changed. Only this machine can reach the page, at the address that is printed. Ctrl-C
    stops it.
    """
    from imgrec.view.server import view as serve

    with ExitStack() as stack:

        def announce(serving: Serving) -> None:
            value = {
                **pick(serving.info, "name version path"),
                "url": serving.url,
                "corrections": serving.corrections,
            }
            emit(parsed, value, _view_lines(serving))
            if parsed.open:
                _open(serving.url, stack.enter_context(TemporaryDirectory(prefix="imgrec-")))

        serve(
            parsed.dataset,
            announce,
            data_dir=parsed.data_dir,
            port=parsed.port,
            corrections=parsed.corrections,
        )
    return 0


def _view_lines(serving: Serving) -> Iterator[str]:
    images = sum(split.examples for split in serving.info.splits)
    yield visible(f"{serving.info.name} {serving.info.version}: {number(images, 'image')}")
    yield line("view", serving.url)
    if serving.corrections:
        yield line("decisions", visible(serving.corrections))
    yield line("stop", "Ctrl-C")


def _open(url: str, folder: str) -> None:
    """Open the address in the browser through a file that only this user can read.

    Every user of the machine can see the browser's command line, and the address grants access.
    """
    import webbrowser

    path = Path(folder, "view.html")
    write_blocks(str(path), [_REDIRECT.format(markup(url)).encode()])
    webbrowser.open(path.as_uri())
