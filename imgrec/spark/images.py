"""Rows with their images: as files of an executor, also if the DataFrame holds the bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from imgrec.errors import ExecutionError
from imgrec.model import Blob
from imgrec.spark.job import Columns, columns_of
from imgrec.spark.scan import digest_of
from imgrec.storage.files import append_to_spool
from imgrec.text import path_of, printable

if TYPE_CHECKING:
    import pyarrow as pa

UNSTABLE = (
    "imgrec reads the DataFrame twice and needs the same rows each time: persist or checkpoint it, "
    "or write it to a table and pack that"
)


def with_files(
    batches: Iterable[pa.RecordBatch], key: str
) -> Iterator[tuple[int, Columns, list[Blob]]]:
    """Yield each value of the sort column `key` with its rows, and where their images are.

    Images of the column `image` are in files only until the next value is asked for. Raises
    ExecutionError if their bytes are not those of the column `digest`.
    """
    number, rows, blobs = -1, Columns(), list[Blob]()
    place = TemporaryDirectory(prefix="imgrec-")
    try:
        for batch in batches:
            columns = columns_of(batch)
            images = columns.pop("image", None)
            for at, value in enumerate(columns[key]):
                if value != number:
                    if blobs:
                        yield number, rows, blobs
                        place.cleanup()
                        place = TemporaryDirectory(prefix="imgrec-")
                    number, rows, blobs = value, {name: [] for name in columns}, []
                for name, cells in columns.items():
                    rows[name].append(cells[at])
                path = path_of(rows["blob"][-1]) if images is None else ""
                blobs.append(path if images is None else _kept(images[at], rows, place.name))
        if blobs:
            yield number, rows, blobs
    finally:
        place.cleanup()


def _kept(image: bytes | None, rows: Columns, folder: str) -> Blob:
    """Keep an image on the executor's disk."""
    if image is None or digest_of(image) != rows["digest"][-1]:
        raise ExecutionError(
            f"{printable(rows['filename'][-1])} changed between two reads of the DataFrame: "
            f"{rows['size'][-1]} bytes when planned, {len(image or b'')} other bytes when written",
            hint=UNSTABLE,
        )
    path, offset = append_to_spool(folder, [image])
    if not path:
        raise ExecutionError(
            f"cannot write the images of a shard to {folder}",
            hint="set TMPDIR of the executors to a disk with room for several shards",
        )
    return path, offset
