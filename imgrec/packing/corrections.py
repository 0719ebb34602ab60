"""Read and write the corrections that a dataset keeps, in `edits.csv`."""

from __future__ import annotations

from pathlib import Path

from imgrec import layout
from imgrec.codec.json_files import decode_table, encode_table
from imgrec.errors import DatasetError
from imgrec.planning.corrections import COLUMNS, Action, Correction, Corrections
from imgrec.read.files import read_document


def encode_corrections(corrections: Corrections) -> bytes:
    """Return the table of all corrections; b"" if there are none."""
    return encode_table(COLUMNS, corrections.listed()) if corrections else b""


def decode_corrections(folder: Path) -> Corrections:
    """Read the corrections of a dataset; raise DatasetError if their table is damaged."""
    path = folder / layout.EDITS
    try:
        header, rows = decode_table(read_document(path))
        if header != COLUMNS:
            raise ValueError("other columns")
        found = [Correction(name, Action(action), *others) for name, action, *others in rows]
    except FileNotFoundError:
        return Corrections()
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"{path} cannot be read: {error}", hint="restore it", path=str(path)
        ) from error
    return Corrections({(row.filename, row.action): row for row in found})
