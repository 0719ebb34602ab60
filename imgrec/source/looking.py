"""What images look like, to find near-duplicates: each is decoded once, and remembered."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from tempfile import TemporaryFile, gettempdir
from typing import TYPE_CHECKING, NamedTuple, Self, TypeVar

from xxhash import xxh3_128_digest

from imgrec.codec.decode import Decoding, decode_covering
from imgrec.codec.image import pack_pixels, prepare
from imgrec.codec.look import Look, look, look_at_pixels
from imgrec.errors import BadImage
from imgrec.model import Blob, Pixels, Samples
from imgrec.near.descriptor import BLANK, CLOSE_BYTES, describe
from imgrec.near.duplicates import See
from imgrec.near.search import Run
from imgrec.options import Check
from imgrec.source.probe import ImageBatch, image_batches
from imgrec.storage.blobs import close_files, read_blob
from imgrec.storage.files import free_bytes, os_errors_as
from imgrec.storage.read_ahead import reader

if TYPE_CHECKING:
    from imgrec.source.embeddings import Picture

_T = TypeVar("_T")
_BATCH, _CLOSE_BATCH = 256, 32
"""Images that a task looks at. Few are looked at closely: every worker gets some."""
_MOST_KEPT_BYTES, _KEPT_SHARE = 1 << 30, 0.25
"""The most that close looks take on the disk: bytes, and the share of what is free."""
UPRIGHT_RGB = Decoding(orient=True)
UNSEEN = bytes(CLOSE_BYTES)
"""A close look at an image that cannot be read."""

OnProgress = Callable[[int, int], object]
"""Called with how many more images were decoded, and of how many."""


class Seen(NamedTuple):
    """What images look like, by column."""

    looks: list[bytes]
    """1,024 bytes each: see `codec.look`."""
    descriptors: bytes
    """200 bytes each: see `near.descriptor`."""
    pixels: list[int]
    """How many each has; 0 for an image that cannot be read."""
    hashes: list[bytes]
    """The XXH3 (128 bits) of the bytes of each; b"" if they cannot be read."""
    checked: list[bytes]
    """As in `Samples`."""

    def see(self, places: Sequence[int]) -> bytes:
        """Return the looks of the images at some places."""
        return b"".join([self.looks[place] for place in places])


class SeenPart(NamedTuple):
    """What a worker has seen: some images of all."""

    start: int
    """The place of the first one."""
    seen: Seen
    close: bytes
    """8,192 bytes for each image (`codec.look`), to be kept; b"" for none."""


class Album:
    """Close looks in a temporary file, so that images need not be decoded again for them.

    Those at the first places are kept, as many as the disk has room for. A million would take 8 GB.
    """

    def __init__(self) -> None:
        room = min(_MOST_KEPT_BYTES, int(free_bytes(gettempdir()) * _KEPT_SHARE))
        self.most = room // CLOSE_BYTES
        """Looks at the places below are kept."""

    def __enter__(self) -> Self:
        with os_errors_as(gettempdir(), "TMPDIR"):
            self._file = TemporaryFile()  # closed by __exit__
        return self

    def __exit__(self, *_error: object) -> None:
        self._file.close()

    def take(self, part: SeenPart) -> SeenPart:
        """Keep the close looks of a part; return it without them."""
        with os_errors_as(gettempdir(), "TMPDIR"):
            self._file.seek(part.start * CLOSE_BYTES)
            self._file.write(part.close)
        return part._replace(close=b"")

    def see(self, places: Sequence[int], see_again: See) -> bytes:
        """Return the close looks at some places; `see_again` makes those that were not kept."""
        missing = [place for place in places if place >= self.most]
        made = see_again(missing) if missing else b""
        rest = iter(range(0, len(made), CLOSE_BYTES))
        return b"".join(
            [
                self._kept(place)
                if place < self.most
                else made[(at := next(rest)) : at + CLOSE_BYTES]
                for place in places
            ]
        )

    def _kept(self, place: int) -> bytes:
        self._file.seek(place * CLOSE_BYTES)  # Windows has no pread
        return self._file.read(CLOSE_BYTES)


def join_seen(parts: Sequence[SeenPart]) -> Seen:
    """Join parts, in the order of their places."""
    seen = [part.seen for part in sorted(parts)]
    columns = zip(*seen, strict=True) if seen else ([], [], [], [], [])
    looks, descriptors, pixels, hashes, checked = columns
    return Seen(
        _chained(looks),
        b"".join(descriptors),
        _chained(pixels),
        _chained(hashes),
        _chained(checked),
    )


def see_images(
    samples: Samples, run: Run, on_progress: OnProgress, album: Album, *, checks: bool = False
) -> Seen:
    """Decode all images at a small scale; those that cannot be read look blank.

    With `checks`, say which of them a check at packing time need not decode again.
    """
    parts: list[SeenPart] = []
    batches = list(image_batches(samples.filenames, samples.blobs, samples.sizes, _BATCH))
    for part in run(partial(_see_batch, album.most, checks), batches):
        parts.append(album.take(part))
        on_progress(len(part.seen.pixels), len(samples))
    return join_seen(parts)


def close_sight(samples: Samples, run: Run) -> See:
    """Return a function that decodes some images again, to look at them closely.

    Those that cannot be read look blank.
    """

    def see_closely(places: Sequence[int]) -> bytes:
        chosen = samples.pick(places)
        batches = image_batches(chosen.filenames, chosen.blobs, chosen.sizes, _CLOSE_BATCH)
        parts = dict(run(_see_batch_closely, batches))
        return b"".join([parts[start] for start in sorted(parts)])

    return see_closely


def seen_part(
    start: int, looks: Sequence[Look | None], hashes: list[bytes], most_kept: int, *, checks: bool
) -> SeenPart:
    """Describe looks; None is an image that cannot be read."""
    greys = [one.grey if one else BLANK for one in looks]
    pixels = [one.pixels if one else 0 for one in looks]
    checked = [
        value + one.tone if checks and one and one.tone else b""
        for one, value in zip(looks, hashes, strict=True)
    ]
    kept = looks[: max(most_kept - start, 0)]
    close = b"".join([one.close if one else UNSEEN for one in kept])
    return SeenPart(start, Seen(greys, describe(greys), pixels, hashes, checked), close)


def _chained(parts: Sequence[list[_T]]) -> list[_T]:
    return [value for part in parts for value in part]


def _see_batch(most_kept: int, checks: bool, images: ImageBatch) -> SeenPart:
    looks: list[Look | None] = []
    hashes: list[bytes] = []
    read = reader(images.blobs, images.sizes)
    for blob, size, name in zip(images.blobs, images.sizes, images.names, strict=True):
        seen: Look | None = None
        value = b""
        with suppress(BadImage):  # the writer reports why
            data = read(blob, size, name=name)
            value = xxh3_128_digest(data)
            seen = _look(data, blob, name)
        looks.append(seen)
        hashes.append(value)
    close_files()
    return seen_part(images.start, looks, hashes, most_kept, checks=checks)


def _see_batch_closely(images: ImageBatch) -> tuple[int, bytes]:
    looks = []
    read = reader(images.blobs, images.sizes)
    for blob, size, name in zip(images.blobs, images.sizes, images.names, strict=True):
        seen = UNSEEN
        with suppress(BadImage):
            seen = _look(read(blob, size, name=name), blob, name).close
        looks.append(seen)
    close_files()
    return images.start, b"".join(looks)


def _look(data: bytes, blob: Blob, name: str) -> Look:
    if isinstance(blob, Pixels):
        return look_at_pixels(data, blob)
    return look(data, name)


def decode_pictures(samples: Samples, places: Sequence[int]) -> dict[int, Picture]:
    """Decode some images to RGB, as they would be packed, and upright. Bad ones are left out."""
    pictures = {}
    for place in places:
        blob, name = samples.blobs[place], samples.filenames[place]
        with suppress(BadImage):  # the writer reports why
            data = read_blob(blob, samples.sizes[place], name=name)
            if isinstance(blob, Pixels):
                packed = pack_pixels(data, blob)
            else:
                packed = prepare(data, name, Check.DECODE)
            pictures[place] = decode_covering(packed.data, UPRIGHT_RGB)
    return pictures
