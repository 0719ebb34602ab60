"""What a download says about the form of predictions."""

from __future__ import annotations

from collections.abc import Collection

from imgrec.codec.submission import encode_table
from imgrec.model import Submission
from imgrec.options import SourceOptions
from imgrec.source.download.reading import Reading, TableReading, labels_in
from imgrec.source.download.targets import Columns
from imgrec.source.label_names import read_label_names


def submission_of(reading: Reading, options: SourceOptions) -> Submission | None:
    """Return what predictions must look like; None if a download says nothing about it.

    A sample submission tells most. Tables of labels tell how they call and write things.
    """
    by_table, sample = reading.by_table, reading.sample
    if by_table is None and sample is None:
        return None
    names = {}
    if by_table is not None:
        columns, target = by_table.tables[0].columns, by_table.target
        names["id_column"] = columns.names[by_table.tables[0].id_at]
        if not target.is_onehot:
            names["label_column"] = columns.names[target.columns[0]]
        if by_table.separator:
            names["separator"] = by_table.separator
    return Submission(
        **names,
        values=_values(by_table, options),
        sample=_table(sample.columns) if sample else b"",
    )


def _values(by_table: TableReading | None, options: SourceOptions) -> dict[str, str]:
    """Return what a table writes for each class that has a name of its own."""
    if options.label_names is not None:
        labels: Collection[str] = ["0"]
        if by_table is not None:
            labels = labels_in(by_table.tables, by_table.target, by_table.separator)
        named = read_label_names(options.label_names, labels)
        return {name: label for label, name in named.names.items()}
    names = by_table.names if by_table else {}
    return {name: text for text, name in names.items()}


def _table(columns: Columns) -> bytes:
    cells = [columns.texts(at) for at in range(len(columns.names))]
    return encode_table(columns.names, zip(*cells, strict=True))
