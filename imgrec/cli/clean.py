"""`imgrec clean`: remove what runs that were cut off left behind."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.parser import VERBS

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.outcome import Leftover

_EXAMPLES = """\
examples:
  imgrec clean --dry-run
  imgrec clean --data-dir /data/tfds
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "clean",
        help=VERBS["clean"],
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
        print(render.as_json(_as_value(found, is_done=not parsed.dry_run)))
        return 0
    lines = [_as_text(left, is_done=not parsed.dry_run) for left in found]
    print("\n".join(lines) or f"nothing to remove{_why_not(parsed.data_dir)}")
    return 0


def _why_not(data_dir: str) -> str:
    """Say if there is nothing because there is no such folder."""
    is_there = not data_dir or os.path.isdir(os.path.expanduser(data_dir))
    return "" if is_there else render.safe(f": {data_dir} does not exist")


def _as_value(found: Sequence[Leftover], *, is_done: bool) -> dict[str, object]:
    values = [{"path": left.path, "bytes": left.size, "restored": left.restored} for left in found]
    removed = [value for value in values if is_done and not value["restored"]]
    return {"removed": removed, "found": values}


def _as_text(left: Leftover, *, is_done: bool) -> str:
    if left.restored:
        word = "brought back" if is_done else "would bring back"
        return f"{word} {render.safe(left.restored)}, which a run did not get to replace"
    word = "removed" if is_done else "would remove"
    return f"{word} {render.safe(left.path)}, {render.size(left.size)}"
