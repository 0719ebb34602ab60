"""The thumbnails of the page: made in workers, bounded in number and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from imgrec.codec.thumbnail import encode_thumbnail, own_thumbnail, thumbnail
from imgrec.errors import ExecutionError, ImgrecError
from imgrec.inspect.subject import ImagePlace, Job, read_image
from imgrec.storage.blobs import close_files

_MIN_DEFAULT, _MAX_DEFAULT = 96, 1250
"""Without --thumbnails there are 1.25 for each class, within these bounds."""
_MAX_BYTES = 6_400_000
"""For all together. As base64 they take a third more, and the page stays below 10 MB."""
_LARGE, _SMALL, _MANY = 224, 128, 400
"""The longest side of each: large, or small if there are many."""
_BATCH = 8


class Thumbnail(NamedTuple):
    """A small JPEG."""

    data: bytes
    width: int
    height: int


def count_for(asked: int | None, classes: int) -> int:
    """Return the number of thumbnails of a page."""
    if asked is not None:
        return asked
    return min(max(_MIN_DEFAULT, classes * 5 // 4), _MAX_DEFAULT)


def make_thumbnails(wanted: Iterable[ImagePlace], job: Job) -> Mapping[ImagePlace, Thumbnail]:
    """Return thumbnails, as many of the first as fit in the bytes; unreadable images have none.

    One that is wanted twice takes its bytes twice.
    """
    times = Counter(wanted)
    places = list(times)
    side = _SMALL if len(places) > _MANY else _LARGE
    batches = [
        _Batch(start, side, tuple(places[start : start + _BATCH]))
        for start in range(0, len(places), _BATCH)
    ]
    found = dict(job.run(_make, batches))
    made: dict[ImagePlace, Thumbnail] = {}
    left = _MAX_BYTES
    for batch in batches:
        for where, small in zip(batch.places, found[batch.start], strict=True):
            left -= len(small.data) * times[where]
            if left < 0:
                return made
            if small.data:
                made[where] = small
    return made


class _Batch(NamedTuple):
    start: int
    side: int
    places: tuple[ImagePlace, ...]


def _make(batch: _Batch) -> tuple[int, list[Thumbnail]]:
    made = [_thumbnail(where, batch.side) for where in batch.places]
    close_files()
    return batch.start, made


def _thumbnail(where: ImagePlace, side: int) -> Thumbnail:
    try:
        data, blob, filename = read_image(where)
        if blob is None and (shape := own_thumbnail(data, side)):
            return Thumbnail(data, shape[1], shape[0])
        picture = thumbnail(data, filename, side, blob)
    except ExecutionError:
        raise
    except ImgrecError:  # the findings say what is wrong with it
        return Thumbnail(b"", 0, 0)
    return Thumbnail(encode_thumbnail(picture), picture.width, picture.height)
