"""The TensorFlow graph that decodes one image to pixels of the requested size.

A record holds the shape of its image. So a JPEG that will be shrunk is decoded at 1/2, 1/4 or 1/8
of its size, and only the part that will be kept is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

from imgrec.codec import exif
from imgrec.options.loading import Crop, LoadOptions
from imgrec.read.samples import ImageRange

Tensor: TypeAlias = Any  # TensorFlow has no types

_RATIOS = (2, 4, 8)
"""The scales at which libjpeg-turbo saves time; it is slower at all others."""
_FIRST_BYTES = {"JPEG": b"\xff", "PNG": b"\x89", "BMP": b"B"}
_CROP_AREA = (0.08, 1.0)
_CROP_ASPECT = (3 / 4, 4 / 3)


class _Window(NamedTuple):
    """Part of an image, in pixels of the image at full size."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoder:
    """Decodes one encoded image; random crops also need its shape and two seeds."""

    options: LoadOptions
    channels: int
    shape: tuple[int, int, int]
    """The shape of all images; -1 where they differ."""
    images: ImageRange

    def __call__(self, image: Tensor, shape: Tensor, seeds: Tensor) -> Tensor:
        """Return pixels as uint8; as float32 if they are resized and must be exact."""
        orientation = _orientation(image) if self.options.orient else None
        if self._keeps_size:
            pixels = self._decode(image, None)
        else:
            pixels = self._resize(image, tf.cast(shape, tf.int32), seeds, orientation)
        if orientation is not None:
            pixels = _turn(pixels, orientation)
        pixels.set_shape((*self._static_size(), self.channels))
        return pixels

    @property
    def _keeps_size(self) -> bool:
        options = self.options
        fits = self.shape[:2] == options.image_size and options.crop is not Crop.RANDOM
        return options.image_size is None or (fits and not options.orient)

    def _static_size(self) -> tuple[int | None, int | None]:
        """Return the height and width of the result; None where images differ."""
        if self.options.image_size is not None:
            return self.options.image_size
        height, width = self.shape[:2]
        if self.options.orient and height != width:
            return None, None
        return height if height > 0 else None, width if width > 0 else None

    def _resize(
        self, image: Tensor, shape: Tensor, seeds: Tensor, orientation: Tensor | None
    ) -> Tensor:
        options = self.options
        target = tf.constant(options.image_size)
        if orientation is not None:
            target = tf.where(orientation >= exif.TURNED, target[::-1], target)
        window = self._window(shape, target, seeds)
        pixels = tf.image.resize(self._decode_covering(image, window, target), target)
        return pixels if options.exact and options.is_float else tf.cast(pixels + 0.5, tf.uint8)

    def _window(self, shape: Tensor, target: Tensor, seeds: Tensor) -> _Window:
        if self.options.crop is Crop.NONE:
            return _Window(0, 0, shape[0], shape[1])
        if self.options.crop is Crop.CENTER:
            return _center(shape, target)
        start, size, _ = tf.image.stateless_sample_distorted_bounding_box(
            tf.concat([shape[:2], [3]], 0),
            tf.zeros([1, 0, 4]),
            seeds,
            min_object_covered=0.0,
            aspect_ratio_range=_CROP_ASPECT,
            area_range=_CROP_AREA,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        return _Window(start[0], start[1], size[0], size[1])

    def _decode_covering(self, image: Tensor, window: _Window, target: Tensor) -> Tensor:
        """Decode at the smallest scale that still covers the target."""
        ratios = self._usable_ratios()
        if not ratios:
            return self._decode(image, window)
        covers = [
            (window.height >= ratio * target[0]) & (window.width >= ratio * target[1])
            for ratio in ratios
        ]
        branch = sum(tf.cast(is_covering, tf.int32) for is_covering in covers)
        if self.images.formats != {"JPEG"}:
            branch *= tf.cast(tf.strings.substr(image, 0, 1) == _FIRST_BYTES["JPEG"], tf.int32)
        branches = [partial(self._decode, image, window)]
        branches += [partial(self._decode_jpeg, image, window, ratio) for ratio in ratios]
        return tf.switch_case(branch, branches)

    def _usable_ratios(self) -> Sequence[int]:
        """Return the scales that some image, or a crop of it, is large enough for."""
        size, images = self.options.image_size, self.images
        if size is None or self.options.exact or "JPEG" not in images.formats:
            return ()
        sizes = [size, size[::-1]] if self.options.orient else [size]
        return [
            ratio
            for ratio in _RATIOS
            if any(
                images.max_height >= ratio * height and images.max_width >= ratio * width
                for height, width in sizes
            )
        ]

    def _decode(self, image: Tensor, window: _Window | None) -> Tensor:
        """Decode an image of any format in the dataset, at full size."""
        decoders = {
            "JPEG": partial(self._decode_jpeg, image, window, 1),
            "PNG": partial(self._decode_png, image, window),
            "BMP": partial(self._decode_bmp, image, window),
        }
        formats = sorted(self.images.formats)
        if len(formats) == 1:
            return decoders[formats[0]]()
        first = tf.strings.substr(image, 0, 1)
        branches = [
            branch * tf.cast(first == _FIRST_BYTES[name], tf.int32)
            for branch, name in enumerate(formats)
        ]
        return tf.switch_case(sum(branches), [decoders[name] for name in formats])

    def _decode_jpeg(self, image: Tensor, window: _Window | None, ratio: int) -> Tensor:
        # libjpeg cannot decode CMYK to grey, and a record does not show which images are CMYK.
        channels = 1 if self.channels == self.shape[2] == 1 else 3
        if window is None or self.options.crop is Crop.NONE:
            pixels = tf.io.decode_jpeg(image, channels=channels, ratio=ratio)
        else:
            # The window is in pixels of the scaled image.
            scaled = tf.stack([side // ratio for side in window])
            pixels = tf.io.decode_and_crop_jpeg(image, scaled, channels=channels, ratio=ratio)
        if self.channels == 4:
            return _with_alpha(pixels)
        return tf.image.rgb_to_grayscale(pixels) if self.channels < channels else pixels

    def _decode_png(self, image: Tensor, window: _Window | None) -> Tensor:
        return self._crop(tf.io.decode_png(image, channels=self.channels), window)

    def _decode_bmp(self, image: Tensor, window: _Window | None) -> Tensor:
        """Decode a BMP; TensorFlow itself does not convert its channels."""
        pixels = self._crop(tf.io.decode_bmp(image, channels=0), window)
        last = tf.shape(pixels)[2] - 1
        colours = tf.gather(pixels, tf.minimum(tf.range(3), last), axis=2)
        colours.set_shape((None, None, 3))
        if self.channels == 1:
            return tf.image.rgb_to_grayscale(colours)
        if self.channels == 3:
            return colours
        return tf.cond(last == 3, lambda: pixels, lambda: _with_alpha(colours))

    def _crop(self, pixels: Tensor, window: _Window | None) -> Tensor:
        if window is None or self.options.crop is Crop.NONE:
            return pixels
        top, left, height, width = window
        return pixels[top : top + height, left : left + width]


def _center(shape: Tensor, target: Tensor) -> _Window:
    """Return the largest central window with the proportions of the target."""
    height, width = shape[0], shape[1]
    sides = [tf.cast(side, tf.int64) for side in (height, width, target[0], target[1])]
    rows = tf.cast((2 * sides[1] * sides[2] + sides[3]) // (2 * sides[3]), tf.int32)
    columns = tf.cast((2 * sides[0] * sides[3] + sides[2]) // (2 * sides[2]), tf.int32)
    rows = tf.clip_by_value(rows, 1, height)
    columns = tf.clip_by_value(columns, 1, width)
    return _Window((height - rows) // 2, (width - columns) // 2, rows, columns)


def _with_alpha(pixels: Tensor) -> Tensor:
    return tf.concat([pixels, tf.ones_like(pixels[:, :, :1]) * 255], 2)


def _orientation(image: Tensor) -> Tensor:
    """Return the EXIF orientation of an encoded image, 1 to 8."""
    found = tf.numpy_function(lambda data: np.int32(exif.orientation(data)), [image], tf.int32)
    return tf.ensure_shape(found, [])


def _turn(pixels: Tensor, orientation: Tensor) -> Tensor:
    """Turn decoded pixels upright."""
    is_turned = orientation >= exif.TURNED
    pixels = tf.cond(is_turned, lambda: tf.transpose(pixels, [1, 0, 2]), lambda: pixels)
    for axis, orientations in enumerate((exif.UPSIDE_DOWN, exif.MIRRORED)):
        is_reversed = tf.reduce_any(orientation == sorted(orientations))
        pixels = tf.cond(
            is_reversed, partial(tf.reverse, pixels, [axis]), partial(tf.identity, pixels)
        )
    return pixels
