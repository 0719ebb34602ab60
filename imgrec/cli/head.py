"""`imgrec head`: show the first records of a dataset."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_dataset, whole
from imgrec.cli.parser import VERBS
from imgrec.cli.terminal import table, this_terminal
from imgrec.cli.values import columns_text, labels_text, record_value

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.records import Place
    from imgrec.read.record import Record

_EXAMPLES = """\
examples:
  imgrec head flowers
  imgrec head flowers -n 3 --split val
  imgrec head flowers --split 'train[100:]' --json
"""
_TITLES = ("#", "class", "shape", "format", "bytes", "file")
_NUMBERS = frozenset({0, 4})


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "head",
        help=VERBS["head"],
        description="Show the first records of a split, one a line: number, class, shape, format, "
        "bytes and file.",
        epilog=_EXAMPLES,
    )
    add_dataset(parser)
    add = parser.add_argument
    add("-n", dest="count", type=whole, default=10, metavar="N", help="how many; default: 10")
    add("--split", default="", metavar="S", help="such as val or train[100:]; default: the first")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Read the first records and print them."""
    from imgrec import api
    from imgrec.inspect.records import place_of, read_head

    dataset = api.open_dataset(parsed.dataset, data_dir=parsed.data_dir)
    part, records = read_head(dataset, parsed.split, parsed.count)
    found = [
        (place_of(dataset, number), record)
        for number, record in zip(part.numbers, records, strict=True)
    ]
    if parsed.json:
        value = [record_value(record, place) for place, record in found]
        name = {"name": dataset.info.name, "version": dataset.info.version}
        print(render.as_json({**name, "records": value}))
    elif found:
        rows = [_TITLES, *(_row(place, record) for place, record in found)]
        print(table(rows, this_terminal(), right=_NUMBERS))
    return 0


def _row(place: Place, record: Record) -> tuple[str, ...]:
    from imgrec.inspect.records import format_of

    cells = (
        f"{place.split} {place.number}",
        labels_text(record) or "no label",
        str(record.shape),
        format_of(record),
        f"{len(record.image):,}",
        "  ".join(filter(None, (record.filename, columns_text(record)))),
    )
    return tuple(map(render.safe, cells))
