"""A dataset that is being viewed: its catalogue, and the contents and images of its records.

All thumbnails of a page go in one stream: a hundred requests would take longer than the work. Each
is a frame, sent as soon as it is ready and so in any order, big-endian:

    number u32 · kind u8 · length u32 · data

The kind is 0 for JPEG, 1 for PNG, 2 for BMP, and 255 for an error message instead of an image.
"""

from __future__ import annotations

import os
import struct
import threading
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import pillow, tone
from imgrec.codec.decode import rough_thumbnail
from imgrec.codec.example import Feature
from imgrec.codec.image import shape_of
from imgrec.codec.sniff import HEAD_BYTES, sniff
from imgrec.errors import BadImage, DatasetError, ImgrecError
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record
from imgrec.read.shards import refuse_impossible
from imgrec.text import printable
from imgrec.view.catalogue import Row, catalogue_of_rows, read_catalogue
from imgrec.view.decided import Decided
from imgrec.view.decisions import Decisions, default_path

SIDES = (192, 384)
"""The thumbnail sizes on offer: pixels of the longer side."""
MEDIA_TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "BMP": "image/bmp"}
"""The formats sent unchanged. SVG must never be one: it can contain scripts."""

_FRAME = struct.Struct(">IBI")
_FRAME_KINDS = {name: kind for kind, name in enumerate(MEDIA_TYPES)}
_ERROR = 255
_SMALL_BYTES = 1 << 14
_LARGEST_SIDE = 4096
"""The longer side of an image that is encoded anew because browsers do not know its format."""
_BATCH = 5
"""Thumbnails that are sent at once: sending each alone takes more time than making tiny ones."""
_MAX_THREADS = 8
_PROGRESS_EVERY = 256
_BACKGROUND = 10
"""How nice the thread is that reads everything."""
_SHOWN_VALUES = 64
_SHOWN_CHARACTERS = 2000
_SHOWN_BYTES = 48
_VALUE_TYPES: Mapping[type, str] = {bytes: "bytes", int: "int64", float: "float"}


class Picture(NamedTuple):
    """An encoded image."""

    format: str
    """One of `MEDIA_TYPES`."""
    data: bytes


class ViewedDataset:
    """A dataset and the catalogue of its records.

    A dataset without samples.parquet, such as TFDS writes, is read once in full by a thread. Until
    that is done, the catalogue knows only the splits.
    """

    def __init__(self, folder: Path, corrections: str = "") -> None:
        """Open a dataset. Decisions are kept in the file `corrections`; "" for the usual one."""
        self.decisions: Decisions | None = None
        self.why_undecidable = ""
        """Why nothing can be decided."""
        self.dataset = Dataset(folder)
        info = self.dataset.info
        if info.compression:
            raise DatasetError(
                f"{info.name} is {info.compression}-compressed, so its records cannot be read by "
                "number",
                hint="pack it without --compression to view it",
                path=info.path,
            )
        threads = min(os.cpu_count() or 1, _MAX_THREADS)
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="imgrec-thumbnail")
        self._is_closed = False
        self.gathered: int | None = None
        """The number of records read so far; None once the catalogue is complete."""
        self.looked: int | None = 0
        """The number of images looked at so far; None once all are."""
        if (folder / layout.SAMPLES).exists():
            self.catalogue = read_catalogue(folder, info)
            self._open_decisions(corrections)
        else:
            self.why_undecidable = "it has no samples.parquet"
            refuse_impossible(info)
            unknown = [Row()] * sum(split.examples for split in info.splits)
            self.catalogue = catalogue_of_rows(unknown, info)
            self.gathered = 0
        threading.Thread(target=self._read_all, daemon=True, name="imgrec-view").start()

    def _open_decisions(self, corrections: str) -> None:
        info, catalogue = self.dataset.info, self.catalogue
        if len(set(catalogue.filenames.to_pylist())) < len(catalogue):
            self.why_undecidable = "some of its images have the same file name"
            return
        self.decisions = Decisions(corrections or default_path(info), catalogue, info)

    def close(self) -> None:
        """Stop reading, and cancel thumbnails that are not started."""
        self._is_closed = True
        self._pool.shutdown(wait=False, cancel_futures=True)

    @property
    def classes(self) -> Sequence[str]:
        """The classes of the dataset, and after them those that decisions add."""
        return self.decisions.names.classes if self.decisions else self.dataset.classes

    @property
    def decided(self) -> Decided | None:
        """What is decided at this moment; None if nothing can be."""
        return self.decisions.now if self.decisions else None

    def rows(self, numbers: Sequence[int]) -> list[Row]:
        """Return what the grid shows about some records."""
        if self.gathered is None:
            return self.catalogue.rows(numbers)
        return [self._row(number) for number in numbers]

    def _read_all(self) -> None:
        """Read records that no table describes; then look at all images."""
        with suppress(OSError, AttributeError):  # pages come first; Windows cannot
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _BACKGROUND)
        if self.gathered is not None:
            rows: list[Row] = []
            for number in range(len(self.catalogue)):
                rows.append(self._row(number))
                if number % _PROGRESS_EVERY == 0:
                    self.gathered = number
                if self._is_closed:
                    return
            self.catalogue = catalogue_of_rows(rows, self.dataset.info)
            self.gathered = None
        tones = bytearray()
        for number in range(len(self.catalogue)):
            tones += self._tone(number)
            if number % _PROGRESS_EVERY == 0:
                self.looked = number
            if self._is_closed:
                return
        self.catalogue = self.catalogue.with_tones(bytes(tones))
        self.looked = None

    def _tone(self, number: int) -> bytes:
        try:
            record = self.dataset.read(number)
        except DatasetError:
            return tone.UNKNOWN_TONE
        return tone.tone(tone.levels_of(record.image, record.filename))

    def _row(self, number: int) -> Row:
        try:
            record = self.dataset.read(number)
        except DatasetError:
            return Row()
        height, width, _ = record.shape
        name = printable(record.filename)
        size = len(record.image)
        return Row(record.labels, name, height, width, _format_of(record.image), size)

    def details(self, number: int) -> dict[str, object]:
        """Return the contents of a record as a JSON value; for a damaged one, the fault."""
        shard, place = self.dataset.locate(number)
        splits = self.catalogue.splits
        split = splits[number]
        value: dict[str, object] = {
            "number": number,
            "split": printable(self.catalogue.split_names[split]),
            "split_place": number - int(splits.searchsorted(split)),
            "shard": Path(shard).name,
            "place": place,
        }
        try:
            features = self.dataset.features(number)
            value["features"] = [_feature_value(*item) for item in sorted(features.items())]
            record = self.dataset.read(number)
        except ImgrecError as error:
            row = self.rows([number])[0]
            known = {"filename": row.filename, "labels": list(row.labels)} if row.filename else {}
            return value | known | {"error": printable(str(error)), "hint": printable(error.hint)}
        height, width, channels = record.shape
        return value | {
            "filename": printable(record.filename),
            "labels": list(record.labels),
            "height": height,
            "width": width,
            "channels": channels,
            "format": _format_of(record.image),
            "bytes": len(record.image),
        }

    def image(self, number: int) -> Picture:
        """Return a record's image, unchanged if browsers know its format; raise BadImage."""
        record = self.dataset.read(number)
        return _unchanged(record.image) or _smaller(record, _LARGEST_SIDE)

    def thumbnails(self, numbers: Sequence[int], side: int) -> Iterator[bytes]:
        """Yield the frames of some records, several at once."""
        batches = [numbers[at : at + _BATCH] for at in range(0, len(numbers), _BATCH)]
        futures = [self._pool.submit(self._frames, batch, side) for batch in batches]
        try:
            for done in as_completed(futures):
                yield done.result()
        finally:  # the browser may have gone to another page
            for future in futures:
                future.cancel()

    def _frames(self, numbers: Sequence[int], side: int) -> bytes:
        frames = []
        for number in numbers:
            try:
                picture = _thumbnail(self.dataset.read(number), side)
                kind, data = _FRAME_KINDS[picture.format], picture.data
            except (BadImage, DatasetError) as error:
                kind, data = _ERROR, printable(str(error)).encode()
            frames.append(_FRAME.pack(number, kind, len(data)) + data)
        return b"".join(frames)


def _format_of(image: bytes) -> str:
    return sniff(image[:HEAD_BYTES])


def _thumbnail(record: Record, side: int) -> Picture:
    """Return a record's image with a longer side of about `side`; raise BadImage."""
    is_small = len(record.image) <= _SMALL_BYTES and max(record.shape[:2]) <= side
    # Encoding tiny images anew would blur them and save nothing.
    if is_small and (unchanged := _unchanged(record.image)):
        return unchanged
    return _smaller(record, side)


def _unchanged(image: bytes) -> Picture | None:
    image_format = _format_of(image)
    if image_format not in MEDIA_TYPES:
        return None
    height, width, _ = shape_of(image, "")
    pillow.refuse_bomb(height, width)  # or the browser would decode it
    return Picture(image_format, image)


def _smaller(record: Record, side: int) -> Picture:
    return Picture("JPEG", rough_thumbnail(record.image, record.filename, side))


def _feature_value(name: str, values: Feature) -> dict[str, object]:
    """Return a feature as a JSON value. As JSON numbers, values would lose digits in a browser."""
    texts = [_bytes_text(v) if isinstance(v, bytes) else repr(v) for v in values[:_SHOWN_VALUES]]
    text = ", ".join(texts)
    is_cut = len(values) > _SHOWN_VALUES or len(text) > _SHOWN_CHARACTERS
    return {
        "name": printable(name),
        "kind": _VALUE_TYPES[type(values[0])] if values else "empty",
        "count": len(values),
        "bytes": sum(len(value) for value in values if isinstance(value, bytes)),
        "text": text[:_SHOWN_CHARACTERS] + " …" * is_cut,
    }


def _bytes_text(value: bytes) -> str:
    try:
        text = value.decode()
    except UnicodeDecodeError:
        text = ""
    if text.isprintable() and (text or not value):
        return f'"{text}"'
    return value[:_SHOWN_BYTES].hex(" ") + " …" * (len(value) > _SHOWN_BYTES)
