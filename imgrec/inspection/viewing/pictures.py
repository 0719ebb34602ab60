"""The images of records as a browser may show them: of kinds that are nothing but pictures."""

from __future__ import annotations

from typing import NamedTuple

from imgrec.codec import pixels
from imgrec.codec.image import shape_of
from imgrec.codec.sniff import sniff
from imgrec.codec.thumbnail import rough_thumbnail
from imgrec.read.record import Record

TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "BMP": "image/bmp"}
"""What is shown as it is. Nothing else is, least of all SVG: that is a program."""
_HEAD_BYTES = 64
_SMALL_BYTES = 1 << 14
_LARGEST_SIDE = 4096
"""Of pictures that are of another kind, and so are encoded anew."""


class Picture(NamedTuple):
    """An encoded image."""

    format: str
    """One of `TYPES`."""
    data: bytes


def whole(record: Record) -> Picture:
    """Return a record's image, as it is where browsers know its kind; raise BadImage if none."""
    if plain := _plain(record.image):
        return plain
    return _smaller(record, _LARGEST_SIDE)


def small(record: Record, side: int) -> Picture:
    """Return a record's image, its longer side about `side`; raise BadImage if there is none."""
    is_light = len(record.image) <= _SMALL_BYTES and max(record.shape[:2]) <= side
    # Of tiny images, encoding a million of them anew would blur all and save nothing.
    if is_light and (plain := _plain(record.image)):
        return plain
    return _smaller(record, side)


def _plain(image: bytes) -> Picture | None:
    image_format = sniff(image[:_HEAD_BYTES])
    if image_format not in TYPES:
        return None
    height, width, _ = shape_of(image, "")
    pixels.refuse_bomb(height, width)  # or the browser would decode it
    return Picture(image_format, image)


def _smaller(record: Record, side: int) -> Picture:
    return Picture("JPEG", rough_thumbnail(record.image, record.filename, side))
