"""EXIF orientation, read and applied in a TensorFlow graph.

A JPEG says in its first bytes how it must be turned to stand upright:

    "Exif" 00 00 · "II" or "MM" · 002A · uint32 offset of the directory
    directory: uint16 count · entries of 12 bytes: uint16 tag, uint16 type, uint32 count, value

Tag 0x0112 is the orientation: 1 as it is, 3 upside down, 6 and 8 on their sides, 2, 4, 5 and 7
the same mirrored.
"""

from __future__ import annotations

from typing import Any, TypeAlias

Tensor: TypeAlias = Any  # TensorFlow has no types

_HEAD_BYTES = 16_384
"""Where the directory is looked for: cameras write it first."""
_MARK = b"Exif\0\0"
_ENTRY_BYTES = 12
_MOST_ENTRIES = 64
_ORIENTATION = 0x0112


def orientation_of(tf: Any, image: Tensor) -> Tensor:
    """Return the orientation of an encoded image, 1 to 8; 1 if it has none."""
    data = tf.cast(tf.io.decode_raw(tf.strings.substr(image, 0, _HEAD_BYTES), tf.uint8), tf.int32)
    data = tf.pad(data, [[0, len(_MARK)]])
    starts = tf.shape(data)[0] - len(_MARK)
    is_mark = tf.ones([starts], tf.bool)
    for place, byte in enumerate(_MARK):
        is_mark &= data[place : place + starts] == byte
    tiff = tf.cast(tf.argmax(is_mark), tf.int32) + len(_MARK)
    is_little = tf.gather(data, tf.minimum(tiff, starts)) == ord("I")

    def number(places: Tensor, size: int) -> Tensor:
        """Read numbers of `size` bytes; what lies outside is 0."""
        spread = places[..., None] + tf.range(size)
        is_inside = (spread >= 0) & (spread < starts)
        values = tf.where(is_inside, tf.gather(data, tf.where(is_inside, spread, 0)), 0)
        powers = tf.constant([1 << 8 * (size - 1 - place) for place in range(size)])
        powers = tf.where(is_little, powers[::-1], powers)
        return tf.reduce_sum(values * powers, -1)

    directory = tiff + number(tiff + 4, 4)
    places = directory + 2 + _ENTRY_BYTES * tf.range(_MOST_ENTRIES)
    is_entry = tf.range(_MOST_ENTRIES) < number(directory, 2)
    is_found = is_entry & (number(places, 2) == _ORIENTATION)
    value = tf.reduce_max(tf.where(is_found, number(places + 8, 2), 0))
    is_told = tf.reduce_any(is_mark) & (value >= 1) & (value <= 8)
    return tf.where(is_told, value, 1)


def is_transposed(orientation: Tensor) -> Tensor:
    """Tell whether height and width change places."""
    return orientation >= 5


def turn(tf: Any, pixels: Tensor, orientation: Tensor) -> Tensor:
    """Turn decoded pixels as an orientation says."""
    pixels = tf.cond(
        is_transposed(orientation), lambda: tf.transpose(pixels, [1, 0, 2]), lambda: pixels
    )
    # What is left after the transposition, by orientation.
    flips = ((), (), (1,), (0, 1), (0,), (), (1,), (0, 1), (0,))
    return tf.switch_case(
        orientation,
        [lambda axes=axes: tf.reverse(pixels, axes) if axes else pixels for axes in flips],
    )
