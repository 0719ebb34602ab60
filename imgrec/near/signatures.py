"""Image signatures by column: hashes, waves and colours, and the distance of two of them."""

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
MAX_BITS = 5
"""The hashes of near-duplicates differ in at most this many bits."""
_STRONG = 3
"""A bit of a hash is set if its wave is above this, of at most 127.

With 0, chance would decide about the many waves that smooth pictures lack. Among 13,600 pairs of
versions of a picture, 0 changed more than 5 bits of one in 230 pairs, and 3 of one in 450. A higher
value would make hashes too similar to search by.
"""
_MAX_COLOUR = 16
_GREY, _GREYISH = 128, 2


@dataclass(frozen=True, slots=True, eq=False)
class SignatureTable:
    """Signatures that are not flat, and usually distinct."""

    places: Numbers
    """The position of each in the input."""
    waves: NDArray[np.int8]
    lengths: NDArray[np.float64]
    """The norms of the waves."""
    colours: NDArray[np.int16]
    hashes: Hashes
    """The strong waves as bits, in three bands; neighbouring waves are in different bands."""
    mirrored: Hashes
    """The hashes of the mirrored pictures."""

    @classmethod
    def of(cls, signatures: bytes, *, keep_copies: bool = False) -> tuple[SignatureTable, Numbers]:
        """Return a table and, as two rows, pairs of the first of equal signatures and a copy."""
        import numpy as np

        rows = np.frombuffer(signatures, np.uint8).reshape(-1, SIGNATURE_BYTES)
        places = np.flatnonzero(rows[:, :WAVES].any(axis=1))  # flat ones are like no other
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
            hashes=_hashes(waves > _STRONG),
            mirrored=_hashes(np.where(_is_odd(), waves < -_STRONG, waves > _STRONG)),
        )
        return table, copies

    def __len__(self) -> int:
        return len(self.places)

    @staticmethod
    def band(hashes: Hashes, band: int) -> Numbers:
        """Return the bits of one band as numbers."""
        import numpy as np

        shifted = hashes >> np.uint64(band * BAND_BITS)
        return (shifted & np.uint64((1 << BAND_BITS) - 1)).astype(np.int64)

    def distances(
        self, own: Numbers, other: SignatureTable, theirs: Numbers, *, mirrored: bool
    ) -> NDArray[np.float64]:
        """Return the distances of pairs, in thousandths."""
        import numpy as np

        # Sums of whole numbers below 2^24 are exact in float32, in any order.
        ours = self.waves[own].astype(np.float32)
        if mirrored:
            ours[:, _is_odd()] *= -1
        products = np.einsum("ij,ij->i", ours, other.waves[theirs].astype(np.float32))
        return _apart(products, self.lengths[own] * other.lengths[theirs])

    def all_distances(self, own: Numbers, theirs: Numbers) -> NDArray[np.float64]:
        """Return the distances of all `own` from all `theirs`, as a matrix."""
        import numpy as np

        products = self.waves[own].astype(np.float32) @ self.waves[theirs].astype(np.float32).T
        return _apart(products, self.lengths[own][:, None] * self.lengths[theirs])

    def have_same_colour(
        self, own: Numbers, other: SignatureTable, theirs: Numbers
    ) -> NDArray[np.bool_]:
        """Return which pairs have similar colours, or one grey picture; `own` may be a column."""
        import numpy as np

        ours, others = self.colours[own], other.colours[theirs]
        differ = np.abs(ours - others).max(axis=-1) > _MAX_COLOUR
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

    # Equal signatures must have distance 0, however the square roots were rounded.
    apart: NDArray[np.float64] = np.round(np.maximum(1 - products / lengths, 0) * 1000, 6)
    return apart


def _is_odd() -> NDArray[np.bool_]:
    """Return which waves change sign in a mirrored picture: those with odd half-waves across."""
    import numpy as np

    is_odd: NDArray[np.bool_] = np.arange(1, WAVES + 1) % SIDE % 2 == 1
    return is_odd


def _hashes(are_set: NDArray[np.bool_]) -> Hashes:
    import numpy as np

    # Low waves are strong in most pictures, so they must not all be in one band.
    order = np.arange(WAVES).reshape(BAND_BITS, BANDS).T.ravel()
    bits = np.zeros((len(are_set), WAVES + 1), bool)
    bits[:, :WAVES] = are_set[:, order]
    return np.packbits(bits, axis=1, bitorder="little").view("<u8").ravel().astype(np.uint64)


def _distinct(rows: NDArray[np.uint8], places: Numbers) -> tuple[Numbers, Numbers]:
    """Return the first place of each distinct row, and pairs of it and each of its copies."""
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
