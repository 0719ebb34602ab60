"""What a submission must look like, as a dataset keeps it: facts in JSON, and the sample as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from imgrec.codec.json_values import text_of
from imgrec.model import Submission


def encode(submission: Submission) -> dict[str, object]:
    """Return all but the sample as a JSON value."""
    return {
        "id": submission.id_column,
        "label": submission.label_column,
        "separator": submission.separator,
        "values": dict(submission.values),
    }


def decode(value: object, sample: bytes = b"") -> Submission:
    """Return what `encode` had, with its sample; raise ValueError for anything else."""
    if not isinstance(value, Mapping) or not isinstance(value.get("values"), Mapping):
        raise ValueError("it does not tell what a submission must look like")
    try:
        return Submission(
            id_column=text_of(value["id"]),
            label_column=text_of(value["label"]),
            separator=text_of(value["separator"]),
            values={text_of(key): text_of(text) for key, text in value["values"].items()},
            sample=sample,
        )
    except (KeyError, TypeError) as error:
        raise ValueError("it does not tell what a submission must look like") from error


def encode_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    r"""Return a table as CSV, the same for the same cells.

    >>> encode_table(["id", "label"], [["1", "a,b"]])
    b'id,label\n1,"a,b"\n'
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in chain((header,), rows):
        # Without quotes a carriage return would be taken for the end of its line.
        (quoted if any("\r" in cell for cell in row) else plain).writerow(row)
    return out.getvalue().encode("utf-8", "backslashreplace")


def decode_table(data: bytes) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the header and the rows of a table; raise ValueError if it is none."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("rows of different lengths")
    return tuple(rows[0]), rows[1:]
