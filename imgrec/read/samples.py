"""The table of a dataset's records, `samples.parquet`."""

from __future__ import annotations

from pathlib import Path

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.model import split_order


def read_splits(folder: Path) -> dict[bytes, str]:
    """Return the split of each image of a dataset, by the hash of its bytes in the source.

    One that is in several is said to be in the one furthest from training.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / layout.SAMPLES
    try:
        table = pq.read_table(path, columns=["xxh3", "split"])
        rows = [(str(row["split"]), str(row["xxh3"])) for row in table.to_pylist()]
        rows.sort(key=lambda row: split_order(row[0]))
        return {bytes.fromhex(digest): split for split, digest in rows}
    except (OSError, pa.ArrowException, ValueError, TypeError) as error:
        raise DatasetError(
            f"{path} cannot be read, so the splits of its images are not known",
            hint="name a dataset that imgrec packed",
            path=str(path),
        ) from error
