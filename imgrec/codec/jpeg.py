"""JPEG: its shape, its structure and a cheap proof that it decodes to its end.

FF D8                      start of image
FF xx len16 BE payload     segments: tables, the frame header (SOFn), comments
FF DA len16 BE payload     start of scan, then entropy-coded data in which every FF is
                           followed by 00 (a stuffed byte) or D0-D7 (a restart marker)
FF D9                      end of image; anything may follow
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import exif
from imgrec.errors import BadImage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCALES = (8, 4, 2)
"""A JPEG decodes faster to 1/8, 1/4 or 1/2 of its size. Other scales are slower than full size."""
SIMPLE_COLOURS = frozenset({"Gray", "YCbCr", "RGB"})
"""Colours that libjpeg-turbo converts to grey or RGB as other decoders do."""
CHECK_SCALE = 8
"""A check decodes to 1/8 of the size, the smallest scale of libjpeg."""

_SOF = struct.Struct(">BHHB")  # precision, height, width, components
_KNOWN_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_BARE = frozenset({0x01, *range(0xD0, 0xD9)})
"""Markers without a segment."""
_APP0, _APP14, _SCAN, _END = 0xE0, 0xEE, 0xDA, 0xD9
_DECODER_TABLES = frozenset({0xC4, 0xCC, 0xDB, 0xDD})
"""Segments, beside the frame, that a decoder needs: Huffman and other tables, restart interval."""
_HUFFMAN_8_BIT = frozenset({0xC0, 0xC1, 0xC2})
_SOS, _EOI = b"\xff\xda", b"\xff\xd9"
_PROGRESSIVE, _MOST_SCANS = 0xC2, 200
"""Programs write about 10. Each takes the time of a full decode, however little it adds."""
_MOST_SEGMENTS = 100_000
"""Far more than any program writes."""
_LARGE_GAPS = 1 << 16
_KEPT_BYTES = 1 << 14
"""The longest headers that are cached: of larger ones, no two are alike."""
_CHANNELS = {1: 1, 3: 3, 4: 3}  # TensorFlow turns CMYK and YCCK into RGB
_JFIF_BYTES, _ADOBE_BYTES = 14, 12
"""Shorter segments do not count as JFIF's and Adobe's."""
_TRANSFORMS = {"RGB": 0, "YCbCr": 1, "CMYK": 0, "YCCK": 2}
"""The colour transform in Adobe's segment."""
_BETWEEN_SCANS = frozenset({0xC4, 0xDA, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})
_TO_MARKER = re.compile(rb"(?:[^\xff]*+\xff++\x00)*+[^\xff]*+\xff++(?=[^\x00])")
"""Everything that libjpeg skips, up to the last FF of a marker: other bytes, FF 00, repeated FF.

It never backtracks, so its time is linear.
"""


class JpegHeader(NamedTuple):
    """What the segments before the first scan contain."""

    shape: tuple[int, int, int]
    is_common: bool
    """Huffman-coded, 8 bits, 1, 3 or 4 components: the kind that TensorFlow decodes."""
    is_progressive: bool
    scan: int
    """The offset of the first start-of-scan segment."""
    orientation: int
    """As `exif.orientation` returns it."""
    colours: str
    """Gray, YCbCr, RGB, CMYK or YCCK, as libjpeg interprets the components; "" if unknown."""
    is_adobe: bool
    """Whether it has Adobe's segment: programs that write it store inks inverted."""


def read_header(data: bytes) -> JpegHeader:
    """Read the segments up to the first scan; raise BadImage if there is none."""
    # Files of one program often have the same bytes up to the scan. Without this cache,
    # `imgrec pack --check structure` of 20,000 images of 32x32 took 25 % longer.
    scan = data.find(_SOS, 0, _KEPT_BYTES)
    header = (scan > 0 and _known_header(data[: scan + 2])) or _walk(data)
    # In coded data, FF is never followed by DA, so nearly all matches are scans.
    if header.is_progressive and data.count(_SOS, header.scan) > _MOST_SCANS:
        raise BadImage(f"JPEG of more than {_MOST_SCANS} scans")
    return header


@lru_cache(maxsize=256)
def _known_header(head: bytes) -> JpegHeader | None:
    """Read the segments of a file up to where a scan may begin; None if it does not begin there."""
    try:
        header = _walk(head)
    except BadImage:
        return None
    return header if header.scan == len(head) - 2 else None


def _segments(data: bytes) -> Iterator[tuple[int, int, int]]:
    """Yield marker, start and end of each segment up to the first scan or the end marker."""
    position = 2
    for _ in range(_MOST_SEGMENTS):
        match = _TO_MARKER.match(data, position)
        if match is None:
            break
        start = match.end() - 1
        marker = data[start + 1]
        if marker in (_SCAN, _END):
            yield marker, start, start
            return
        position = start + 2
        if marker not in _BARE:
            position += int.from_bytes(data[start + 2 : start + 4], "big")
            if position > len(data):
                break
            yield marker, start, position
    else:
        raise BadImage(f"JPEG of more than {_MOST_SEGMENTS:,} segments")
    raise BadImage("truncated JPEG")


def _walk(data: bytes) -> JpegHeader:
    frame: tuple[int, int, int, int, int] | None = None
    ids, is_jfif, transform = b"", False, None
    for marker, position, end in _segments(data):
        payload = position + 4
        if marker in _KNOWN_FRAMES and frame is None:
            try:
                frame = (marker, *_SOF.unpack_from(data, payload))
            except struct.error as error:
                raise BadImage("truncated JPEG") from error
            ids = data[payload + _SOF.size : end : 3]
        elif marker == _APP0 and end - payload >= _JFIF_BYTES:
            is_jfif = is_jfif or data.startswith(b"JFIF\0", payload)
        elif marker == _APP14 and end - payload >= _ADOBE_BYTES:
            is_adobe = data.startswith(b"Adobe", payload)
            transform = data[payload + _ADOBE_BYTES - 1] if is_adobe else transform
    if frame is None or marker == _END:
        raise BadImage("JPEG without a picture")
    marker, precision, height, width, components = frame
    if not height or not width:
        raise BadImage("JPEG of no size")
    has_exif = data.find(exif.MARK, 0, position) >= 0
    return JpegHeader(
        shape=(height, width, _CHANNELS.get(components, components)),
        is_common=marker in _HUFFMAN_8_BIT and precision == 8 and components in _CHANNELS,
        is_progressive=marker == _PROGRESSIVE,
        scan=position,
        orientation=exif.orientation(data) if has_exif else exif.UPRIGHT,
        colours=_colours(components, ids, transform, is_jfif=is_jfif),
        is_adobe=transform is not None,
    )


def _colours(components: int, ids: bytes, transform: int | None, *, is_jfif: bool) -> str:
    """Interpret the components by the rules of libjpeg."""
    if components == 3:
        is_rgb = transform == 0 if transform is not None else ids == b"RGB"
        return "RGB" if is_rgb and not is_jfif else "YCbCr"
    if components == 4:
        return "CMYK" if transform in (None, 0) else "YCCK"
    return "Gray" if components == 1 else ""


def has_plain_upsampling(data: bytes) -> bool:
    """Return whether no component has half the width or height of another.

    libjpeg smooths only those when it enlarges them.
    """
    for marker, start, end in _segments(data):
        if marker in _KNOWN_FRAMES:
            factors = data[start + 4 + _SOF.size + 1 : end : 3]
            across, down = ([factor >> 4 for factor in factors], [f & 15 for f in factors])
            widest, highest = max(across, default=0), max(down, default=0)
            return not any(
                widest in (h, 2 * h) and highest in (v, 2 * v) and (widest, highest) != (h, v)
                for h, v in zip(across, down, strict=True)
            )
    return False


def without_gaps(data: bytes) -> bytes:
    """Remove the bytes between segments that decoders skip, if there are many.

    Pillow skips them one at a time.
    """
    segments = [(start, end) for _, start, end in _segments(data)]
    scan = segments[-1][0]
    size = 2 + sum(end - start for start, end in segments)
    if scan - size < _LARGE_GAPS:
        return data
    kept = (data[start:end] for start, end in segments)
    return b"".join((data[:2], *kept, data[scan:]))


def without_extras(data: bytes, header: JpegHeader) -> bytes:
    """Return a JPEG of only the segments that make its pixels, with nothing between them.

    The header parser of TurboJPEG rejects much that decoders skip.
    """
    kept = [data[:2]]
    if header.colours in _TRANSFORMS:
        adobe = b"Adobe\0\x64\0\0\0\0" + bytes((_TRANSFORMS[header.colours],))
        kept.append(b"\xff\xee\0\x0e" + adobe)
    for marker, start, end in _segments(data):
        if marker in _KNOWN_FRAMES or marker in _DECODER_TABLES:
            kept.append(data[start:end])
    return b"".join((*kept, data[header.scan :]))


def reaches_end(data: bytes, header: JpegHeader) -> bool:
    """Return whether an end marker follows the first scan; if not, the file is truncated."""
    # An FF D9 after the start of the scan is a marker: in coded data, FF is never followed by D9.
    return data.rfind(_EOI, header.scan) >= 0


def is_well_formed(data: bytes, header: JpegHeader) -> bool:
    """Return whether only scans, tables and restart markers in order lead to the end marker."""
    position, restarts = header.scan, 0
    for _ in range(_MOST_SEGMENTS):
        length = int.from_bytes(data[position + 2 : position + 4], "big")
        match = _TO_MARKER.match(data, position + 2 + length)
        while match and 0xD0 <= data[match.end()] <= 0xD7:
            if data[match.end()] != 0xD0 + restarts % 8 or restarts > _most_blocks(header):
                return False
            restarts += 1
            match = _TO_MARKER.match(data, match.end() + 1)
        if match is None:
            return False
        position = match.end() - 1
        marker = data[position + 1]
        if marker == _END:
            return True
        if marker not in _BETWEEN_SCANS:
            return False
        if marker == _SCAN:
            restarts = 0
    return False


def _most_blocks(header: JpegHeader) -> int:
    """Return the most blocks of a component, and so the most restarts of a scan."""
    height, width, _ = header.shape
    return (height // 8 + 1) * (width // 8 + 1)


def turbo_decode(
    data: bytes, shape: Sequence[int], colours: str, *, scale: int = 1, **options: bool
) -> NDArray[np.uint8]:
    """Decode with libjpeg-turbo to GRAY, RGB, RGBA or CMYK, at 1/`scale` of the size in `shape`.

    Options are `strict`, to reject anything unusual, and `fastdct`. Raises BadImage with the first
    message of the decoder, which may reject images that others decode. `scale` must be 1 unless the
    JPEG is common: scaled decoding of others has been seen to read past its buffers.
    """
    import simplejpeg  # type: ignore[import-untyped]  # it has no stubs

    try:
        decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data,
            colorspace=colours,
            min_height=-(-shape[0] // scale),
            min_width=-(-shape[1] // scale),
            min_factor=scale,
            **options,
        )
    except Exception as error:
        raise BadImage(str(error) or type(error).__name__) from error
    return decoded


def damage_in(fault: str) -> str:
    """Return a fault of `strict_decode`, or "" if it is only an unusual kind of JPEG.

    TurboJPEG supports only the usual sampling factors; libjpeg decodes all of them.
    """
    return "" if "Could not determine subsampling level" in fault else fault


def strict_decode(data: bytes) -> tuple[NDArray[np.uint8] | None, str]:
    """Decode all of the coded data of a common JPEG, to grey at 1/8 of its size.

    Returns the pixels and "", or None and the first message of the decoder.
    """
    try:
        # Grey needs no colour conversion, but the coded data of every component is decoded.
        return turbo_decode(data, (1, 1), "GRAY", scale=CHECK_SCALE, strict=True), ""
    except BadImage as error:
        return None, str(error)
