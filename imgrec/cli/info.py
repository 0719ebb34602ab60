"""`imgrec info`: show what a packed dataset holds."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from imgrec.cli import render

if TYPE_CHECKING:
    from imgrec.cli.types import Verbs
    from imgrec.outcome import DatasetInfo

_EXAMPLES = """\
examples:
  imgrec info flowers
  imgrec info flowers:1.0.0 --all
  imgrec info ./datasets/flowers --json
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "info",
        help="show what a packed dataset holds",
        description="Show name, splits, classes, shards, bytes and fingerprint of a dataset.",
        epilog=_EXAMPLES,
    )
    parser.add_argument(
        "dataset", metavar="DATASET", help="a name, name:version, or a path at any level"
    )
    parser.add_argument(
        "--data-dir",
        default="",
        metavar="DIR",
        help="where names are looked up; default: TFDS's own",
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Look a dataset up and print what it holds."""
    from imgrec import api

    info = api.info(parsed.dataset, data_dir=parsed.data_dir)
    print(render.as_json(as_value(info)) if parsed.json else as_text(info))
    return 0


def as_value(info: DatasetInfo) -> dict[str, object]:
    """Return a dataset's info as a JSON value."""
    return {
        "name": info.name,
        "version": info.version,
        "path": info.path,
        "load": info.load,
        "fingerprint": info.fingerprint,
        **render.storage_json(info),
        "classes": list(info.classes),
        "splits": {
            split.name: {
                "examples": split.examples,
                "bytes": split.num_bytes,
                "shards": len(split.shard_lengths),
                "class_counts": split.class_counts,
            }
            for split in info.splits
        },
    }


def as_text(info: DatasetInfo) -> str:
    """Return a dataset's info for people."""
    images = sum(split.examples for split in info.splits)
    lines = [
        f"{info.name} {info.version}: {render.number(images, 'image')}",
        *render.split_lines(render.split_rows(info.splits)),
        render.line("classes", render.number(len(info.classes), "class", "classes")),
    ]
    for label, name in enumerate(info.classes):
        counts = [
            f"{split.class_counts[label]:,} {split.name}"
            for split in info.splits
            if split.class_counts
        ]
        lines.append(render.line(f"  {label}", ": ".join(filter(None, (name, ", ".join(counts))))))
    lines += [
        *render.storage_lines(info),
        render.line("fingerprint", info.fingerprint or "none: not made by imgrec"),
        render.line("path", info.path),
        render.line("load", info.load),
    ]
    return "\n".join(lines)
