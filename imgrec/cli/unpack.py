"""`imgrec unpack`: restore the files that a dataset was packed from."""

from __future__ import annotations

import argparse
import shlex
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_dataset, add_workers
from imgrec.cli.parser import VERBS
from imgrec.cli.workers import working

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.unpack.unpack import Unpacked

_EXAMPLES = """\
examples:
  imgrec unpack flowers ./flowers_again
  imgrec unpack flowers ./some --split 'train[:10%]' --splits
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "unpack",
        help=VERBS["unpack"],
        description="Write every image of a dataset under its name into a new folder.",
        epilog=_EXAMPLES,
    )
    add_dataset(parser)
    add = parser.add_argument
    add("target", metavar="DIR", help="a folder that is empty or does not exist yet")
    add("--split", default="", metavar="S", help="only these records, such as val or train[:10%%]")
    add("--splits", action="store_true", help="put the images of each split into a folder")
    add_workers(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Unpack, and print what came of it."""
    with working(parsed) as workers:
        from imgrec import api  # while the workers start

        unpacked = api.unpack(
            parsed.dataset,
            parsed.target,
            data_dir=parsed.data_dir,
            split=parsed.split,
            split_folders=parsed.splits,
            engine=workers.engine,
            on_progress=workers.progress,
        )
    print(render.as_json(as_value(unpacked)) if parsed.json else as_text(unpacked))
    return 0


def as_value(unpacked: Unpacked) -> dict[str, object]:
    """Return the outcome as a JSON value."""
    return {
        "name": unpacked.name,
        "version": unpacked.version,
        "path": unpacked.path,
        "images": unpacked.images,
        "unnamed": unpacked.unnamed,
        "bytes": unpacked.bytes,
        "transcoded": unpacked.transcoded,
        "resized": unpacked.resized,
        "skipped": unpacked.skipped,
        "manifest": unpacked.manifest,
        "pack_again": list(unpacked.pack_again),
        "notes": list(unpacked.notes),
    }


def as_text(unpacked: Unpacked) -> str:
    """Return the outcome for people."""
    lines = [
        render.safe(
            f"{unpacked.name} {unpacked.version}: {render.number(unpacked.images, 'image')}, "
            f"{render.size(unpacked.bytes)}"
        ),
        render.line("path", unpacked.path),
    ]
    for title, count, what in (
        ("unnamed", unpacked.unnamed, "called by split, class and number"),
        ("transcoded", unpacked.transcoded, "not byte for byte as in the source"),
        ("resized", unpacked.resized, "smaller than in the source"),
    ):
        if count:
            lines.append(render.line(title, f"{render.number(count, 'image')}, {what}"))
    if unpacked.skipped:
        files = render.number(unpacked.skipped, "file")
        lines.append(render.line("skipped", f"{files} of the source, never packed"))
    lines += [render.line("note", note) for note in unpacked.notes]
    if unpacked.manifest:
        lines.append(render.line("manifest", unpacked.manifest))
    if unpacked.pack_again:
        lines.append(render.line("pack again", shlex.join(unpacked.pack_again)))
    return "\n".join(lines)
