"""Comparing the records of a shard with the files that they were packed from, in a worker."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

from imgrec.blob import Blob, Pixels
from imgrec.codec.decode import to_pil
from imgrec.codec.image import Packable, pack_pixels, prepare
from imgrec.errors import BadImage
from imgrec.inspection.verification.faults import Fault, Faults
from imgrec.inspection.verification.second_look import images_of
from imgrec.options import Check, ShrinkOptions
from imgrec.storage.blobs import close_files, read_blob
from imgrec.text import printable


class Original(NamedTuple):
    """The file that a record was packed from."""

    offset: int
    """Of the record."""
    filename: str
    blob: Blob
    size: int


class Pairs(NamedTuple):
    """Some records of a shard, by number, each with its file."""

    filename: str
    originals: Mapping[int, Original]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceLook:
    """A picklable function that compares records with files."""

    folder: str
    compression: str
    check: Check
    shrink_to: ShrinkOptions | None

    def __call__(self, pairs: Pairs) -> tuple[str, tuple[Fault, ...]]:
        """Return the shard's name and a fault for each record that is not made of its file."""
        faults = Faults()
        path = os.path.join(self.folder, pairs.filename)
        for place, image in images_of(path, self.compression, pairs.originals):
            original = pairs.originals[place]
            if what := self._difference(image, original):
                name = printable(original.filename)
                faults.add(
                    pairs.filename, f"{name} is not as in the source: {what}", original.offset
                )
        close_files()
        return pairs.filename, faults.listed()

    def _difference(self, image: bytes, original: Original) -> str:
        """Return how an image differs from what its file would be packed as, or ""."""
        try:
            data = read_blob(original.blob, original.size, name=original.filename)
            if data == image:
                return ""
            packable = self._packed(data, original)
        except BadImage as error:
            return f"there it is bad: {error}"
        if packable.data == image:
            return ""
        if packable.data == data:
            return _first_difference(image, data)
        # Another version of Pillow may encode the same pixels otherwise.
        return "" if _have_same_pixels(packable, image) else "its pixels differ"

    def _packed(self, data: bytes, original: Original) -> Packable:
        if isinstance(original.blob, Pixels):
            return pack_pixels(data, original.blob, self.shrink_to)
        return prepare(data, original.filename, self.check, self.shrink_to)


def _first_difference(image: bytes, data: bytes) -> str:
    pairs = zip(image, data, strict=False)
    place = next((at for at, (one, other) in zip(count(), pairs, strict=False) if one != other), -1)
    if place < 0:
        return f"{len(image):,} bytes here, {len(data):,} there"
    return f"they differ from byte {place:,} of the image on"


def _have_same_pixels(packable: Packable, image: bytes) -> bool:
    if packable.format == "JPEG":
        return False  # a lossy one is not the same pixels unless it is the same bytes
    try:
        one, other = to_pil(packable.data), to_pil(image)
    except BadImage:
        return False
    return (one.mode, one.size, one.tobytes()) == (other.mode, other.size, other.tobytes())
