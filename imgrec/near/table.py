"""Signatures by column: their hashes, their waves and colours, and how far two are apart."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Numbers: TypeAlias = NDArray[np.int64]
    Hashes: TypeAlias = NDArray[np.uint64]

SIGNATURE_BYTES = 65
WAVES, SIDE = 63, 8
BANDS, BAND_BITS = 3, 21
MOST_BITS = 5
"""How many bits of the hashes of pictures that look alike may differ."""
STRONG = 3
"""A bit of a hash is set if its wave is stronger than that, of 127, and not negative.

With 0 in its place, chance would decide about the many waves that smooth pictures lack. Among
13,600 pairs of versions of a picture, that was found to change more than 5 bits of one in 230; with
3, of one in 450. More would leave hashes too much alike to search by.
"""
MOST_COLOUR = 16
_GREY, _GREYISH = 128, 2


@dataclass(frozen=True, slots=True, eq=False)
class Table:
    """Signatures that are neither flat nor, mostly, copies of each other."""

    places: Numbers
    """Where each is in the input."""
    waves: NDArray[np.int8]
    lengths: NDArray[np.float64]
    """Of the waves, as vectors."""
    colours: NDArray[np.int16]
    hashes: Hashes
    """Which waves are strong, band by band; neighbouring waves are in different bands."""
    mirrored: Hashes
    """The same of the mirrored picture."""

    @classmethod
    def of(cls, signatures: bytes, *, keep_copies: bool = False) -> tuple[Table, Numbers]:
        """Make a table; return it with pairs, as two rows, of the first of each and its copies."""
        import numpy as np

        rows = np.frombuffer(signatures, np.uint8).reshape(-1, SIGNATURE_BYTES)
        places = np.flatnonzero(rows[:, :WAVES].any(axis=1))  # the others are flat
        copies = np.empty((2, 0), np.int64)
        if not keep_copies:
            places, copies = _distinct(rows, places)
        rows = rows[places]
        waves = rows[:, :WAVES].view(np.int8)
        squares = np.einsum("ij,ij->i", waves, waves, dtype=np.int64)
        table = cls(
            places=places,
            waves=waves,
            lengths=np.sqrt(squares.astype(np.float64)),
            colours=rows[:, WAVES:].astype(np.int16),
            hashes=_hashes(waves > STRONG),
            mirrored=_hashes(np.where(_is_odd(), waves < -STRONG, waves > STRONG)),
        )
        return table, copies

    def __len__(self) -> int:
        return len(self.places)

    @staticmethod
    def band(hashes: Hashes, band: int) -> Numbers:
        """Return the bits in one band, as numbers."""
        import numpy as np

        shifted = hashes >> np.uint64(band * BAND_BITS)
        return (shifted & np.uint64((1 << BAND_BITS) - 1)).astype(np.int64)

    def distances(
        self, own: Numbers, other: Table, theirs: Numbers, *, mirrored: bool
    ) -> NDArray[np.float64]:
        """Return how far pairs are apart, in thousandths."""
        import numpy as np

        # Whole numbers below 2^24 add up exactly, in whatever order.
        ours = self.waves[own].astype(np.float32)
        if mirrored:
            ours[:, _is_odd()] *= -1
        products = np.einsum("ij,ij->i", ours, other.waves[theirs].astype(np.float32))
        return _apart(products, self.lengths[own] * other.lengths[theirs])

    def all_distances(self, own: Numbers, theirs: Numbers) -> NDArray[np.float64]:
        """Return how far each of some is apart from each of others, as a matrix."""
        import numpy as np

        products = self.waves[own].astype(np.float32) @ self.waves[theirs].astype(np.float32).T
        return _apart(products, self.lengths[own][:, None] * self.lengths[theirs])

    def are_of_one_colour(self, own: Numbers, other: Table, theirs: Numbers) -> NDArray[np.bool_]:
        """Tell for pairs whether their colours are the same or unknown; `own` may be a column."""
        import numpy as np

        ours, others = self.colours[own], other.colours[theirs]
        differ = np.abs(ours - others).max(axis=-1) > MOST_COLOUR
        is_grey = np.abs(ours - _GREY).max(axis=-1) <= _GREYISH
        are_grey = np.abs(others - _GREY).max(axis=-1) <= _GREYISH
        alike: NDArray[np.bool_] = ~differ | is_grey | are_grey
        return alike


def popcount(numbers: Hashes) -> NDArray[np.uint8]:
    """Count the bits of each number."""
    import numpy as np

    counts: NDArray[np.uint8]
    if hasattr(np, "bitwise_count"):  # since NumPy 2
        counts = np.bitwise_count(numbers)
    else:
        bits = np.unpackbits(np.ascontiguousarray(numbers).view(np.uint8).reshape(-1, 8), axis=1)
        counts = bits.sum(axis=1, dtype=np.uint8).reshape(numbers.shape)
    return counts


def _apart(products: NDArray[np.float32], lengths: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    # What is the same must be at 0, whatever the roots were rounded to.
    apart: NDArray[np.float64] = np.round(np.maximum(1 - products / lengths, 0) * 1000, 6)
    return apart


def _is_odd() -> NDArray[np.bool_]:
    """Tell which waves are mirrored with their picture: those of odd half-waves across."""
    import numpy as np

    is_odd: NDArray[np.bool_] = np.arange(1, WAVES + 1) % SIDE % 2 == 1
    return is_odd


def _hashes(are_set: NDArray[np.bool_]) -> Hashes:
    import numpy as np

    # Low waves have their say in most pictures, and must not all be in one band.
    order = np.arange(WAVES).reshape(BAND_BITS, BANDS).T.ravel()
    bits = np.zeros((len(are_set), WAVES + 1), bool)
    bits[:, :WAVES] = are_set[:, order]
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").ravel().astype(np.uint64)


def _distinct(rows: NDArray[np.uint8], places: Numbers) -> tuple[Numbers, Numbers]:
    """Return the places of the first of all equal rows, and pairs of it and each of the others."""
    import numpy as np

    whole = np.ascontiguousarray(rows[places]).view(f"V{SIGNATURE_BYTES}").ravel()
    order = np.argsort(whole, kind="stable")
    if not len(order):
        return places, np.empty((2, 0), np.int64)
    is_first = np.ones(len(order), bool)
    is_first[1:] = whole[order][1:] != whole[order][:-1]
    firsts = places[order[np.flatnonzero(is_first)[np.cumsum(is_first) - 1]]]
    rest = ~is_first
    return np.sort(firsts[is_first]), np.stack([firsts[rest], places[order[rest]]])
