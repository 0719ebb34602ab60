"""Two orders of samples, both random by content and seed: they are written in one, drawn in other.

Neither tells anything about the other. If val took the first of each class in the order in which
records are written, train would begin with images of the classes that gave the least.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from hashlib import blake2b
from itertools import pairwise

from imgrec.model import Samples

_KEY_BYTES = 8
_MOST = (1 << 64) - 1


def write_order(samples: Samples, seed: int) -> list[int]:
    """Return the places of all samples in the order in which they are written.

    Copies of one image stand together, in order of their names.
    """
    return _sorted(samples, ranks_of(samples.contents, seed))


def draw_order(samples: Samples, seed: int) -> list[int]:
    """Return the places of all samples in the order in which splits and limits draw them.

    Copies of one image stand together, in order of their names.
    """
    return _sorted(samples, draws_of(samples.contents, seed))


def ranks_of(contents: Sequence[bytes], seed: int) -> list[int]:
    """Return a number below 2 ** 64 for each content, by which they are written."""
    # A content is a hash already; multiplying it by a random odd number shuffles what it orders.
    # Only the part of a content that never changes ranks: see `source.probe.contents`.
    noise = _noise(f"imgrec {seed}")
    factor = int.from_bytes(noise[:8], "big") | 1
    mask = int.from_bytes(noise[8:], "big")
    heads = b"".join([content[:_KEY_BYTES] for content in contents])
    keys = struct.unpack(f"<{len(contents)}Q", heads)
    return [(key ^ mask) * factor & _MOST for key in keys]


def draws_of(contents: Sequence[bytes], seed: int) -> list[int]:
    """Return a number below 2 ** 64 for each content, by which they are drawn.

    Two contents have one number if and only if they have one rank.
    """
    # What is first by rank is known by the upper half of its bits. Folding that onto the lower
    # half, which is noise, before multiplying anew spreads it over all numbers.
    factor = int.from_bytes(_noise(f"imgrec draw {seed}")[:8], "big") | 1
    return [(rank ^ rank >> 32) * factor & _MOST for rank in ranks_of(contents, seed)]


def _noise(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=16).digest()


def _sorted(samples: Samples, numbers: Sequence[int]) -> list[int]:
    """Sort places by number, and those of one number by content and name."""
    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    if len(set(numbers)) == len(numbers):
        return order

    def full(place: int) -> tuple[bytes, str]:
        return samples.contents[place], samples.filenames[place]

    steps = enumerate(pairwise(map(numbers.__getitem__, order)), 1)
    starts = [0, *(at for at, (one, other) in steps if one != other), len(order)]
    for start, end in pairwise(starts):
        if end - start > 1:
            order[start:end] = sorted(order[start:end], key=full)
    return order
