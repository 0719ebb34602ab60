"""`imgrec show`: show one record of a dataset, or write its image out."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_dataset
from imgrec.cli.parser import VERBS
from imgrec.cli.terminal import table, this_terminal
from imgrec.cli.values import (
    beginning,
    column_text,
    feature_row,
    features_value,
    labels_text,
    record_value,
)

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.records import Place
    from imgrec.read.record import Record

_EXAMPLES = """\
examples:
  imgrec show flowers 0
  imgrec show flowers rose/rose_01.jpg -o rose.jpg
  imgrec show flowers 3 --split val --raw
"""
_STDOUT = "-"


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "show",
        help=VERBS["show"],
        description="Show one record: its file, label, shape, image and columns, and where it is.",
        epilog=_EXAMPLES,
    )
    add_dataset(parser)
    add = parser.add_argument
    add("record", metavar="FILE|NUMBER", help="its path in the source, or its number in the split")
    add(
        "--split",
        default="",
        metavar="S",
        help="where to look; default: the first for a number, all for a file",
    )
    add("--raw", action="store_true", help="show the features as they are stored")
    add("-o", dest="out", default="", metavar="FILE", help="write the image there; - is the output")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Find a record and print it."""
    from imgrec import api
    from imgrec.inspect import records
    from imgrec.storage.named_files import write_new

    dataset = api.open_dataset(parsed.dataset, data_dir=parsed.data_dir)
    number = records.find_number(dataset, parsed.record, parsed.split)
    place = records.place_of(dataset, number)
    if parsed.raw:
        features = dataset.features(number)
        value = {"split": place.split, "number": place.number, "features": features_value(features)}
        rows = [feature_row(name, features[name]) for name in sorted(features)]
        text = table([list(map(render.safe, row)) for row in rows], this_terminal())
        title = _title(dataset.info.name, place)
        print(render.as_json(value) if parsed.json else f"{title}\n{text}")
        return 0
    record = next(iter(dataset.read_all([number])))
    if parsed.out == _STDOUT:
        sys.stdout.buffer.write(record.image)
        return 0
    if parsed.out:
        write_new(parsed.out, record.image)
    if parsed.json:
        print(render.as_json(record_value(record, place)))
    else:
        lines = [_title(dataset.info.name, place), *_lines(record, place, parsed.out)]
        print("\n".join(lines))
    return 0


def _title(name: str, place: Place) -> str:
    return render.safe(f"{name}: record {place.number:,} of {place.split}")


def _lines(record: Record, place: Place, out: str) -> Iterator[str]:
    from imgrec.inspect.records import format_of

    height, width, channels = record.shape
    numbers = ", ".join(map(str, record.labels))
    yield render.line("file", record.filename or "none")
    yield render.line("label", f"{numbers} {labels_text(record)}" if numbers else "none")
    yield render.line("size", f"{width} x {height}, {render.number(channels, 'channel')}")
    yield render.line("image", f"{format_of(record)}, {len(record.image):,} bytes")
    yield render.line("", beginning(record.image))
    for name, value in record.columns.items():
        yield render.line("column", f"{name} = {column_text(value)}")
    yield render.line("shard", f"{place.shard}, record {place.in_shard:,}")
    if out:
        yield render.line("written", out)
