"""`imgrec clean`: remove what runs that were cut off left behind."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from imgrec.cli import render

if TYPE_CHECKING:
    from imgrec.cli.types import Verbs

_EXAMPLES = """\
examples:
  imgrec clean --dry-run
  imgrec clean --data-dir /data/tfds
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "clean",
        help="remove what packs that were cut off left",
        description="Remove the hidden folders of packs that were cut off and are not to be "
        "continued. Datasets, and packs that are running, are left alone.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add("--data-dir", default="", metavar="DIR", help="default: where TFDS looks")
    add("--dry-run", action="store_true", help="show what would be removed, and remove nothing")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Remove leftovers, and print which."""
    from imgrec import api

    found = api.clean(data_dir=parsed.data_dir, dry_run=parsed.dry_run)
    if parsed.json:
        value = [{"path": left.path, "bytes": left.size} for left in found]
        print(render.as_json({"removed": [] if parsed.dry_run else value, "found": value}))
        return 0
    word = "would remove" if parsed.dry_run else "removed"
    lines = [f"{word} {render.safe(left.path)}, {render.size(left.size)}" for left in found]
    print("\n".join(lines) or "nothing to remove")
    return 0
