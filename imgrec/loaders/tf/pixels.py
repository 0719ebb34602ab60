"""The TensorFlow graph from one encoded image to pixels of the size asked for.

A record tells the shape of its image, so that a JPEG which is to be shrunk is decoded at 1/2, 1/4
or 1/8 of its size, and one that is to be cropped only where it is wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

from imgrec.loaders.tf.orient import is_transposed, orientation_of, turn
from imgrec.options.loading import Crop, LoadOptions

Tensor: TypeAlias = Any  # TensorFlow has no types
RATIOS = (1, 2, 4, 8)
"""What libjpeg-turbo scales by at no cost; it is slower at all others."""
_FIRST_BYTES = {"JPEG": b"\xff", "PNG": b"\x89", "BMP": b"B"}
_AREA = (0.08, 1.0)
_STRETCH = (3 / 4, 4 / 3)


class Known(NamedTuple):
    """What is known of all images before one is read."""

    formats: frozenset[str]
    """JPEG, PNG or BMP."""
    shape: tuple[int, int, int]
    """-1 is a size that differs."""
    ratios: tuple[int, ...]
    """Of `RATIOS`, those by which one of the images can be shrunk while it is decoded."""


class _Window(NamedTuple):
    """Part of an image, in pixels of the image at its full size."""

    top: Tensor
    left: Tensor
    height: Tensor
    width: Tensor


_NOWHERE = _Window(None, None, None, None)
"""For images that are not cropped."""


@dataclass(frozen=True, slots=True)
class Decoder:
    """What makes pixels of one encoded image, its shape and, for a random crop, two seeds."""

    tf: Any
    known: Known
    options: LoadOptions
    channels: int

    def __call__(self, image: Tensor, shape: Tensor, seeds: Tensor) -> Tensor:
        """Return pixels as uint8; as float32 where they are resized and must be exact."""
        options = self.options
        orientation = orientation_of(self.tf, image) if options.orient else None
        if self.is_plain:
            pixels = self._decode(image, _NOWHERE)
        else:
            shape = self.tf.cast(shape, self.tf.int32)
            pixels = self._sized(image, shape, seeds, orientation)
        if orientation is not None:
            pixels = turn(self.tf, pixels, orientation)
        pixels.set_shape((*self._sides(), self.channels))
        return pixels

    def _sides(self) -> tuple[int | None, int | None]:
        """Return height and width of what comes out; None is what differs."""
        if self.options.image_size is not None:
            return self.options.image_size
        height, width = self.known.shape[:2]
        if self.options.orient and height != width:
            return None, None
        return height if height > 0 else None, width if width > 0 else None

    @property
    def is_plain(self) -> bool:
        """Tell whether images come out as large as they are, so that their shapes do not matter."""
        options = self.options
        is_fitting = self.known.shape[:2] == options.image_size and options.crop is not Crop.RANDOM
        return options.image_size is None or (is_fitting and not options.orient)

    def _sized(
        self, image: Tensor, shape: Tensor, seeds: Tensor, orientation: Tensor | None
    ) -> Tensor:
        tf, options = self.tf, self.options
        assert options.image_size is not None
        target = tf.constant(options.image_size)
        if orientation is not None:
            target = tf.where(is_transposed(orientation), target[::-1], target)
        window = self._window(shape, target, seeds)
        usable = [ratio for ratio in self.known.ratios if ratio > 1 and not options.exact]
        if self.known.formats.isdisjoint({"JPEG"}):
            usable = []
        covered = [
            (window.height >= ratio * target[0]) & (window.width >= ratio * target[1])
            for ratio in usable
        ]
        pixels = self._choose(image, window, usable, covered)
        sized = tf.image.resize(pixels, target)
        if options.exact and options.is_float:
            return sized
        return tf.cast(sized + 0.5, tf.uint8)

    def _window(self, shape: Tensor, target: Tensor, seeds: Tensor) -> _Window:
        if self.options.crop is Crop.NONE:
            return _whole(shape)
        if self.options.crop is Crop.CENTER:
            return self._middle(shape, target)
        start, size, _ = self.tf.image.stateless_sample_distorted_bounding_box(
            self.tf.concat([shape[:2], [3]], 0),
            self.tf.zeros([1, 0, 4]),
            seeds,
            min_object_covered=0.0,
            aspect_ratio_range=_STRETCH,
            area_range=_AREA,
            max_attempts=10,
            use_image_if_no_bounding_boxes=True,
        )
        return _Window(start[0], start[1], size[0], size[1])

    def _middle(self, shape: Tensor, target: Tensor) -> _Window:
        """Return the largest window in the middle that has the proportions of the target."""
        tf = self.tf
        height, width = shape[0], shape[1]
        sides = [tf.cast(side, tf.int64) for side in (height, width, target[0], target[1])]
        rows = tf.cast((2 * sides[1] * sides[2] + sides[3]) // (2 * sides[3]), tf.int32)
        columns = tf.cast((2 * sides[0] * sides[3] + sides[2]) // (2 * sides[2]), tf.int32)
        rows = tf.clip_by_value(rows, 1, height)
        columns = tf.clip_by_value(columns, 1, width)
        return _Window((height - rows) // 2, (width - columns) // 2, rows, columns)

    def _choose(
        self, image: Tensor, window: _Window, ratios: Sequence[int], covered: Sequence[Tensor]
    ) -> Tensor:
        """Decode at the smallest scale of those that still cover the target."""
        tf = self.tf
        if not ratios:
            return self._decode(image, window)
        place = sum(tf.cast(is_covered, tf.int32) for is_covered in covered)
        if self.known.formats != {"JPEG"}:
            place *= tf.cast(tf.strings.substr(image, 0, 1) == _FIRST_BYTES["JPEG"], tf.int32)
        branches = [partial(self._decode, image, window)]
        branches += [partial(self._decode_jpeg, image, window, ratio) for ratio in ratios]
        return tf.switch_case(place, branches)

    def _decode(self, image: Tensor, window: _Window) -> Tensor:
        """Decode an image of any of the formats there are, at its full size."""
        tf = self.tf
        decoders: dict[str, Callable[[], Tensor]] = {
            "JPEG": partial(self._decode_jpeg, image, window, 1),
            "PNG": partial(self._decode_png, image, window),
            "BMP": partial(self._decode_bmp, image, window),
        }
        formats = sorted(self.known.formats)
        if len(formats) == 1:
            return decoders[formats[0]]()
        first = tf.strings.substr(image, 0, 1)
        places = [
            place * tf.cast(first == _FIRST_BYTES[name], tf.int32)
            for place, name in enumerate(formats)
        ]
        return tf.switch_case(sum(places), [decoders[name] for name in formats])

    def _decode_jpeg(self, image: Tensor, window: _Window, ratio: int) -> Tensor:
        tf = self.tf
        # Libjpeg makes no grey of CMYK, and which of the images are is not known.
        channels = 1 if self.channels == self.known.shape[2] == 1 else 3
        if window is _NOWHERE or self.options.crop is Crop.NONE:
            pixels = tf.io.decode_jpeg(image, channels=channels, ratio=ratio)
        else:
            # The window of an image that is scaled is told in the scaled image's pixels.
            scaled = tf.stack([side // ratio for side in window])
            pixels = tf.io.decode_and_crop_jpeg(image, scaled, channels=channels, ratio=ratio)
        if self.channels == 4:
            return _with_alpha(tf, pixels)
        return tf.image.rgb_to_grayscale(pixels) if self.channels < channels else pixels

    def _decode_png(self, image: Tensor, window: _Window) -> Tensor:
        return self._cropped(self.tf.io.decode_png(image, channels=self.channels), window)

    def _decode_bmp(self, image: Tensor, window: _Window) -> Tensor:
        """Decode a BMP, of which TensorFlow gives only the channels that it has."""
        tf = self.tf
        pixels = self._cropped(tf.io.decode_bmp(image, channels=0), window)
        last = tf.shape(pixels)[2] - 1
        colours = tf.gather(pixels, tf.minimum(tf.range(3), last), axis=2)
        colours.set_shape((None, None, 3))
        if self.channels == 1:
            return tf.image.rgb_to_grayscale(colours)
        if self.channels == 3:
            return colours
        return tf.cond(last == 3, lambda: pixels, lambda: _with_alpha(tf, colours))

    def _cropped(self, pixels: Tensor, window: _Window) -> Tensor:
        if window is _NOWHERE or self.options.crop is Crop.NONE:
            return pixels
        top, left, height, width = window
        return pixels[top : top + height, left : left + width]


def _whole(shape: Tensor) -> _Window:
    return _Window(0, 0, shape[0], shape[1])


def _with_alpha(tf: Any, pixels: Tensor) -> Tensor:
    return tf.concat([pixels, tf.ones_like(pixels[:, :, :1]) * 255], 2)
