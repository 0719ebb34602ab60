"""A first look at each row of a DataFrame, where the row is."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple
from unicodedata import normalize

from xxhash import xxh3_128_digest

from imgrec.codec.sniff import HEAD_BYTES, describe, format_of
from imgrec.errors import BadImage
from imgrec.model import TEST
from imgrec.options.source import ColumnValue
from imgrec.plan.split import ranks_of
from imgrec.source.probe import KEY_BYTES, content_key
from imgrec.source.split_words import split_word
from imgrec.spark.tables import SEEN, Columns, Extras, batches_of, columns_of, with_extras
from imgrec.storage.blobs import look_at_file
from imgrec.storage.read_errors import own_fault
from imgrec.text import path_of

if TYPE_CHECKING:
    import pyarrow as pa

_FILE = re.compile(r"file:(//)?(?=/)")
_SCHEME = re.compile(r"[a-z][a-z0-9+.-]+:", re.I)
_MAX_FLOAT32 = 3.4028235e38


def local_path(path: str) -> str:
    """Return the path on disk that a URL of a file means; other paths are as they are.

    >>> local_path("file:/data/a.jpg"), local_path("file:///data/a.jpg"), local_path("a.jpg")
    ('/data/a.jpg', '/data/a.jpg', 'a.jpg')
    """
    return _FILE.sub("", path)


class _Image(NamedTuple):
    size: int
    key: bytes
    whole: bytes | None
    fault: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Looking:
    """Looks at the rows of a `Frame`, and yields rows of `SEEN`."""

    is_path: bool
    extras: Extras
    seed: int
    root: str
    has_splits: bool

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Look at some rows."""
        fields = with_extras(SEEN, self.extras)
        for batch in batches:
            yield from batches_of(self._seen(columns_of(batch)), fields)

    def _seen(self, rows: Columns) -> Columns:
        names = [self.name(name) for name in rows["filename"]]
        splits = [split_word(split or "") for split in rows["split"]]
        classes = [normalize("NFC", label or "").strip() for label in rows["label"]]
        images = list(map(self._image, rows["image"], names))
        faults = [
            "; ".join(filter(None, (image.fault, *self._row_faults(rows, row, splits, classes))))
            for row, image in enumerate(images)
        ]
        ranks = ranks_of([image.key for image in images], self.seed)
        return {
            "filename": names,
            "class_name": classes,
            "split": splits,
            "grp": [(group or "").strip() for group in rows["grp"]],
            "size": [image.size for image in images],
            "rank": [rank - (rank >> 63 << 64) for rank in ranks],
            "key": [image.key for image in images],
            "whole": [image.whole for image in images],
            "digest": [b"" if self.is_path else digest_of(cell or b"") for cell in rows["image"]],
            "blob": [local_path(path or "") for path in rows["image"]]
            if self.is_path
            else [""] * len(images),
            "fault": [fault or None for fault in faults],
            **{
                f"c{at}": [None if _is_missing(cell) else cell for cell in rows[f"c{at}"]]
                for at in range(len(self.extras))
            },
        }

    def name(self, name: str | None) -> str:
        """Return what an image is called in the dataset."""
        path, root = local_path(name or ""), local_path(self.root).rstrip("/") + "/"
        return path[len(root) :] if self.root and path.startswith(root) else path

    def _image(self, cell: bytes | str | None, name: str) -> _Image:
        if cell is None or not name:
            return _bad("no image" if name else "no name")
        if isinstance(cell, bytes):
            whole = hashlib.sha256(cell).digest()[:KEY_BYTES] if len(cell) > HEAD_BYTES else None
            head = cell[:HEAD_BYTES]
            fault = "" if format_of(head, name) else describe(head)
            return _Image(len(cell), content_key(len(cell), head), whole, fault)
        path = local_path(cell)
        if _SCHEME.match(path):
            return _bad("not on a disk: read it with spark.read.format('binaryFile')")
        try:
            size, _, head = look_at_file(path_of(path), HEAD_BYTES, dated=True)
        except BadImage as error:
            return _bad(str(error))
        except OSError as error:
            return _bad(str(own_fault(error, path)))
        fault = "" if format_of(head, name) else describe(head)
        return _Image(size, content_key(size, head), None, fault)

    def _row_faults(
        self, rows: Columns, row: int, splits: list[str], classes: list[str]
    ) -> Iterator[str]:
        if self.has_splits and not splits[row]:
            yield "no split"
        if not classes[row] and splits[row] != TEST:
            yield "no label"
        for at, (name, kind) in enumerate(self.extras):
            value = rows[f"c{at}"][row]
            if isinstance(value, float) and _MAX_FLOAT32 < abs(value) < math.inf:
                yield f"{value!r} in the column {name} is no {kind}"


def digest_of(image: bytes) -> bytes:
    """Return a hash of all bytes of an image."""
    return xxh3_128_digest(image)


def _is_missing(cell: ColumnValue | None) -> bool:
    """Tell whether a cell has no value, as `source.manifests.extras` does of text."""
    return cell is None or cell == "" or cell != cell  # NaN alone differs from itself


def _bad(fault: str) -> _Image:
    return _Image(0, bytes(KEY_BYTES), None, fault)
