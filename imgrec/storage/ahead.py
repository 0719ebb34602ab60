"""Reading blobs of which many will be read: those on an object store come many at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from imgrec.blob import Blob
from imgrec.errors import BadImage
from imgrec.storage import slow
from imgrec.storage.blobs import read_blob
from imgrec.storage.unreadable import own_fault


class Read(Protocol):
    """Reads a blob, as `read_blob` does."""

    def __call__(self, blob: Blob, size: int, newest_ns: int = 0, name: str = "") -> bytes:
        """Return its bytes."""
        ...


def reader(blobs: Sequence[Blob], sizes: Sequence[int]) -> Read:
    """Return what reads these blobs, as `read_blob` does, if it is asked for all in this order.

    Those on an object store, or a slow disk, are then read many at once, before they are asked for.
    """
    if not any(isinstance(blob, str) and "://" in blob for blob in (*blobs[:1], *blobs[-1:])):
        slow.bring(blobs, max(sizes, default=0), sum(sizes))
        return read_blob
    from imgrec.storage.remote.prefetch import Prefetch

    ahead = Prefetch(blobs, sizes)

    def read(blob: Blob, size: int, newest_ns: int = 0, name: str = "") -> bytes:
        if not isinstance(blob, str) or "://" not in blob:
            return read_blob(blob, size, newest_ns, name)
        try:
            data = ahead.next()
        except OSError as error:
            raise own_fault(error, blob, name) from error
        if len(data) != size:
            raise BadImage("changed while it was being packed")
        return data

    return read


def heads_of_objects(
    blobs: Sequence[Blob], sizes: Sequence[int], head_bytes: int
) -> dict[int, bytes | OSError]:
    """Read the beginnings of those blobs that are on an object store, by their places."""
    if not sizes or not any(isinstance(blob, str) and "://" in blob for blob in blobs):
        return {}
    from imgrec.storage.remote.prefetch import read_heads

    places = [at for at, blob in enumerate(blobs) if isinstance(blob, str) and "://" in blob]
    urls = [str(blobs[at]) for at in places]
    return dict(
        zip(places, read_heads(urls, [sizes[at] for at in places], head_bytes), strict=True)
    )
