"""A second look at some records of a shard, for what the first left open."""

from __future__ import annotations

import os
from collections.abc import Container, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.codec import example
from imgrec.codec.decode import to_pil
from imgrec.errors import BadImage, CorruptRecord
from imgrec.inspection.files import RegularFile
from imgrec.inspection.frames import shard_frames
from imgrec.inspection.verification.inquiry import Inquiry
from imgrec.inspection.wire import is_excessive
from imgrec.text import printable


def images_of(path: str, compression: str, places: Container[int]) -> Iterator[tuple[int, bytes]]:
    """Yield the images of some records of a shard, by their numbers, as far as they are sound."""
    with RegularFile(path) as file:
        for place, frame in enumerate(shard_frames(file, compression)):
            if place not in places or frame.fault:
                continue
            plain = example.decode_plain(frame.payload, 0, len(frame.payload))
            image = plain.image if plain else _image(frame.payload)
            if image:
                yield place, image


def _image(payload: bytes) -> bytes:
    if is_excessive(payload):
        return b""
    try:
        values = example.decode(payload).get("image", ())
    except CorruptRecord:
        return b""
    return b"".join(value for value in values if isinstance(value, bytes))


class _Doubts(NamedTuple):
    """Hashes of a shard's images in the source that are not those of the images as packed."""

    filename: str
    digests: Mapping[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PixelLook:
    """A picklable function that explains such hashes where the source held mere pixels."""

    folder: str
    compression: str

    def __call__(self, doubts: _Doubts) -> tuple[str, list[int]]:
        """Return the shard's name and the records whose hash is not that of their pixels."""
        left = set(doubts.digests)
        path = os.path.join(self.folder, doubts.filename)
        for place, image in images_of(path, self.compression, doubts.digests):
            if doubts.digests[place] in _pixel_hashes(image):
                left.remove(place)
        return doubts.filename, sorted(left)


def _pixel_hashes(image: bytes) -> list[bytes]:
    """Return the hashes of a PNG's pixels, in the orders that sources have them in."""
    if not image.startswith(b"\x89PNG"):
        return []
    try:
        picture = to_pil(image)
    except BadImage:
        return []
    planes = b"".join(band.tobytes() for band in picture.split())
    return [xxh3_128_digest(picture.tobytes()), xxh3_128_digest(planes)]


def explain(doubtful: Mapping[str, Mapping[int, bytes]], inquiry: Inquiry) -> None:
    """Find the hashes, by shard and record, that belong neither to images nor to their pixels."""
    tasks = (_Doubts(name, digests) for name, digests in doubtful.items() if digests)
    look = _PixelLook(folder=inquiry.folder, compression=inquiry.claims.compression)
    with closing(inquiry.job.run(look, tasks)) as running:
        for filename, places in running:
            names = inquiry.looked[filename].filenames if places else ()
            for place in places:
                inquiry.faults.add(
                    layout.SAMPLES,
                    f"its xxh3 of {printable(names[place])} is not that of record {place} of "
                    f"{filename}",
                )
