"""`imgrec view`: browse a packed dataset in a local page."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_dataset, whole
from imgrec.cli.parser import VERBS
from imgrec.storage.files import write_blocks
from imgrec.text import markup

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.view.server import Serving

_REDIRECT = """\
<!doctype html>
<meta charset="utf-8">
<meta name="referrer" content="no-referrer">
<meta http-equiv="refresh" content="0; url={0}">
<title>imgrec view</title>
<a href="{0}">Open imgrec view</a>
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "view",
        help=VERBS["view"],
        description="Serve a page to browse a dataset: filters, thumbnails, every record in full, "
        "two classes side by side. It can be reached from this machine only, by the address that "
        "is printed. Ctrl-C ends it.",
        epilog="example: imgrec view flowers --open",
        allow_abbrev=False,
    )
    add_dataset(parser)
    add = parser.add_argument
    add("--port", type=whole, default=0, metavar="P", help="default: any that is free")
    add("--open", action="store_true", help="open the page in the browser")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Serve the page until it is interrupted."""
    from imgrec.view.server import view

    with ExitStack() as stack:

        def tell(serving: Serving) -> None:
            text = render.as_json(as_value(serving)) if parsed.json else as_text(serving)
            print(text, flush=True)
            if parsed.open:
                folder = stack.enter_context(TemporaryDirectory(prefix="imgrec-"))
                _open(serving.url, folder)

        view(parsed.dataset, tell, data_dir=parsed.data_dir, port=parsed.port)
    return 0


def _open(url: str, folder: str) -> None:
    """Open a page that leads to the address, by way of a file that nobody else may read.

    Every user of this machine can see the command line of the browser, and the address is what
    lets one in.
    """
    import webbrowser

    path = Path(folder, "view.html")
    write_blocks(str(path), [_REDIRECT.format(markup(url)).encode()])
    webbrowser.open(path.as_uri())


def as_value(serving: Serving) -> dict[str, object]:
    """Return where the page is as a JSON value."""
    info = serving.info
    return {"name": info.name, "version": info.version, "path": info.path, "url": serving.url}


def as_text(serving: Serving) -> str:
    """Return where the page is for people."""
    info = serving.info
    images = sum(split.examples for split in info.splits)
    return "\n".join(
        (
            render.safe(f"{info.name} {info.version}: {render.number(images, 'image')}"),
            render.line("view", serving.url),
            render.line("stop", "Ctrl-C"),
        )
    )
