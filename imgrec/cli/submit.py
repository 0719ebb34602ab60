"""`imgrec submit`: write predictions as a competition takes them."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_dataset
from imgrec.cli.parser import VERBS
from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.submission import Submitted


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "submit",
        help=VERBS["submit"],
        description="Write predictions in the form and the order of the sample submission that "
        "came with the download: probabilities, labels, or lists of labels, with every id once.",
        epilog="example: imgrec submit aptos predictions.csv -o submission.csv",
        allow_abbrev=False,
    )
    add_dataset(parser)
    add = parser.add_argument
    add(
        "predictions",
        metavar="PREDICTIONS",
        help=".csv or .parquet with a column of ids; or .npy, in the order of the split",
    )
    add("-o", dest="path", default="submission.csv", metavar="CSV", help="default: %(default)s")
    add("--split", default="test", metavar="S", help="default: %(default)s")
    add("--fill", metavar="VALUE", help="for images that the dataset does not have")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Write the file, and print what it is."""
    from imgrec import api

    submitted = api.write_submission(
        parsed.dataset,
        parsed.predictions,
        parsed.path,
        split=parsed.split,
        fill=parsed.fill,
        data_dir=parsed.data_dir,
    )
    print(render.as_json(as_value(submitted)) if parsed.json else as_text(submitted))
    return 0


def as_value(submitted: Submitted) -> dict[str, object]:
    """Return what was written as a JSON value."""
    return {
        "path": printable(submitted.path),
        "rows": submitted.rows,
        "columns": list(submitted.columns),
        "form": submitted.form,
        "filled": submitted.filled,
    }


def as_text(submitted: Submitted) -> str:
    """Return what was written, in a few lines."""
    lines = [
        render.safe(f"{submitted.path}: {render.number(submitted.rows, 'row')}"),
        render.line("columns", render.names(submitted.columns)),
        render.line("form", submitted.form),
    ]
    if submitted.conversion:
        lines.append(render.line("scores", f"turned into probabilities by {submitted.conversion}"))
    if submitted.filled:
        lines.append(render.line("filled", render.number(submitted.filled, "row")))
    return "\n".join(lines)
