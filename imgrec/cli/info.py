"""`imgrec info`: show what a packed dataset holds."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.chart import class_lines, side_lines
from imgrec.cli.options import add_dataset
from imgrec.cli.parser import VERBS
from imgrec.cli.terminal import Terminal, this_terminal

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.image_stats import ImageStats, Spread
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
        help=VERBS["info"],
        description="Show splits, classes with their counts, image sizes, formats, shards, bytes "
        "and fingerprint of a dataset.",
        epilog=_EXAMPLES,
    )
    add_dataset(parser)
    parser.add_argument(
        "--all", action="store_true", help="show every class, not only the largest and smallest"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Look a dataset up and print what it holds."""
    from imgrec import api
    from imgrec.inspect.image_stats import read_image_stats

    info = api.info(parsed.dataset, data_dir=parsed.data_dir)
    stats = read_image_stats(info)
    if parsed.json:
        print(render.as_json(as_value(info, stats)))
    else:
        print("\n".join(_lines(info, stats, this_terminal(), all_=parsed.all)))
    return 0


def as_value(info: DatasetInfo, stats: ImageStats | None) -> dict[str, object]:
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
        "images": _stats_value(stats),
    }


def _stats_value(stats: ImageStats | None) -> dict[str, object] | None:
    if stats is None:
        return None
    spreads = {"width": stats.widths, "height": stats.heights, "record_bytes": stats.record_bytes}
    return {
        "formats": stats.formats,
        "channels": stats.channels,
        **{
            name: {"min": spread.least, "median": spread.median, "max": spread.most}
            for name, spread in spreads.items()
        },
        "long_side": {f"{side}-{side * 2 - 1}": n for side, n in stats.long_sides.items()},
    }


def _lines(
    info: DatasetInfo, stats: ImageStats | None, terminal: Terminal, *, all_: bool
) -> Iterator[str]:
    images = sum(split.examples for split in info.splits)
    title = render.safe(f"{info.name} {info.version}: {render.number(images, 'image')}")
    yield terminal.paint(title, "bold")
    yield from render.split_lines(render.split_rows(info.splits))
    if counts := _class_counts(info):
        yield from class_lines(info.classes, counts, terminal, all_=all_)
    else:
        classes = render.number(len(info.classes), "class", "classes")
        shown = render.class_names(info.classes, len(info.classes) if all_ else 8)
        yield render.line("classes", f"{classes}: {shown}" if info.classes else classes)
    if stats:
        yield from _stats_lines(stats, terminal)
    yield from render.storage_lines(info)
    yield render.line("fingerprint", info.fingerprint or "none: not made by imgrec")
    yield render.line("path", info.path)
    yield render.line("load", info.load)


def _class_counts(info: DatasetInfo) -> dict[str, tuple[int, ...]]:
    """Return how many images each class has, by split; empty unless all of it is known."""
    counts = {s.name: s.class_counts for s in info.splits if s.class_counts is not None}
    is_known = info.classes and all(
        len(split) == len(info.classes) and all(type(count) is int for count in split)
        for split in counts.values()
    )
    return counts if is_known and len(counts) == len(info.splits) else {}


def _stats_lines(stats: ImageStats, terminal: Terminal) -> Iterator[str]:
    yield render.line("formats", _counted(stats.formats, "{1:,} {0}"))
    yield render.line("channels", _counted(stats.channels, "{1:,} with {0}"))
    yield render.line("width", _pixels(stats.widths))
    yield render.line("height", _pixels(stats.heights))
    yield from side_lines(stats.long_sides, terminal)
    least, median, most = (render.size(count) for count in stats.record_bytes)
    yield render.line("record", f"{least} to {most}, median {median}")


def _counted(counts: Mapping[str, int], form: str) -> str:
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(form.format(name, count) for name, count in counts.items())


def _pixels(spread: Spread) -> str:
    if spread.least == spread.most:
        return f"{spread.most:,}"
    return f"{spread.least:,} to {spread.most:,}, median {spread.median:,}"
