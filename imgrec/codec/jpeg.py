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
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import exif
from imgrec.errors import BadImage

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CHECK_SCALE = 8
"""A check decodes to one part in so many of the size: the smallest there is."""

_SOF = struct.Struct(">BHHB")  # precision, height, width, components
_SEGMENT, _FRAME, _SCAN, _BARE, _END, _NONE = range(6)
_KINDS = [_SEGMENT] * 256
"""What follows a marker: a segment to pass over unless it is said otherwise."""
for _marker in {*range(0xC0, 0xD0)} - {0xC4, 0xC8, 0xCC}:
    _KINDS[_marker] = _FRAME
for _marker in (0x01, *range(0xD0, 0xD9)):
    _KINDS[_marker] = _BARE
_KINDS[0xDA], _KINDS[0xD9], _KINDS[0x00], _KINDS[0xFF] = _SCAN, _END, _NONE, _NONE
_HUFFMAN_8_BIT = frozenset({0xC0, 0xC1, 0xC2})
_SOS, _EOI = b"\xff\xda", b"\xff\xd9"
_PROGRESSIVE, _MOST_SCANS = 0xC2, 200
"""Programs write 10 or so. Each takes as long as all pixels do, however little it adds to them."""
_KEPT_BYTES = 1 << 14
"""The longest headers that are kept: of larger ones, no two are alike."""
_CHANNELS = {1: 1, 3: 3, 4: 3}  # TensorFlow turns CMYK and YCCK into RGB
_BETWEEN_SCANS = frozenset({0xC4, 0xDA, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)})
_MARKER_IN_SCAN = re.compile(rb"\xff[^\x00\xff]")


class JpegHeader(NamedTuple):
    """What a JPEG says of itself before its first scan."""

    shape: tuple[int, int, int]
    is_common: bool
    """Huffman-coded, 8 bits, 1, 3 or 4 components: the kind that TensorFlow decodes."""
    is_progressive: bool
    scan: int
    """Where the first start-of-scan segment is."""
    orientation: int
    """As `exif.orientation` tells it."""


def read_header(data: bytes) -> JpegHeader:
    """Walk the segments up to the first scan; raise BadImage if they do not lead there."""
    # Files of one camera or program begin alike, and what leads to the scan is all that counts.
    end = data.find(_SOS) + 2
    header = (end <= _KEPT_BYTES and _known_header(data[:end])) or _walk(data)
    # In coded data, FF is never followed by DA; so nearly all that are counted are scans.
    if header.is_progressive and data.count(_SOS, header.scan) > _MOST_SCANS:
        raise BadImage(f"JPEG of more than {_MOST_SCANS} scans")
    return header


@lru_cache(maxsize=256)
def _known_header(head: bytes) -> JpegHeader | None:
    """Walk the segments of a file up to where a scan may begin; None if none does just there."""
    try:
        header = _walk(head)
    except BadImage:
        return None
    return header if header.scan == len(head) - 2 else None


def _walk(data: bytes) -> JpegHeader:
    position = 2
    frame: tuple[int, int, int, int, int] | None = None
    try:
        while True:
            kind = _KINDS[data[position + 1]] if data[position] == 0xFF else _NONE
            if kind == _SEGMENT:
                position += 2 + (data[position + 2] << 8 | data[position + 3])
                continue
            if kind == _FRAME and frame is None:
                frame = (data[position + 1], *_SOF.unpack_from(data, position + 4))
            if kind == _FRAME:
                position += 2 + (data[position + 2] << 8 | data[position + 3])
            elif kind in (_SCAN, _END):
                break
            elif kind == _BARE:
                position += 2
            else:  # not a marker: libjpeg skips to the next one, and so does everyone else
                position = data.index(b"\xff", position + 1)
    except (IndexError, ValueError, struct.error) as error:
        raise BadImage("truncated JPEG") from error
    if frame is None or kind == _END:
        raise BadImage("JPEG without a picture")
    marker, precision, height, width, components = frame
    if not height or not width:
        raise BadImage("JPEG of no size")
    is_common = marker in _HUFFMAN_8_BIT and precision == 8 and components in _CHANNELS
    shape = (height, width, _CHANNELS.get(components, components))
    tells = data.find(exif.MARK, 0, position) >= 0
    orientation = exif.orientation(data) if tells else exif.UPRIGHT
    return JpegHeader(shape, is_common, marker == _PROGRESSIVE, position, orientation)


def reaches_end(data: bytes, header: JpegHeader) -> bool:
    """Tell whether an end marker follows the first scan, as it does unless the file is cut."""
    # An FF D9 after the start of the scan is a marker: in coded data, FF is never followed by D9.
    return data.rfind(_EOI, header.scan) >= 0


def is_well_formed(data: bytes, header: JpegHeader) -> bool:
    """Tell whether only scans, tables and restart markers in order lead to the end marker."""
    position, restarts = header.scan, 0
    while True:
        length = int.from_bytes(data[position + 2 : position + 4], "big")
        match = _MARKER_IN_SCAN.search(data, position + 2 + length)
        while match and 0xD0 <= data[match.start() + 1] <= 0xD7:
            if data[match.start() + 1] != 0xD0 + restarts % 8:
                return False
            restarts += 1
            match = _MARKER_IN_SCAN.search(data, match.end())
        if match is None:
            return False
        position = match.start()
        marker = data[position + 1]
        if marker == 0xD9:
            return True
        if marker not in _BETWEEN_SCANS:
            return False
        if marker == 0xDA:
            restarts = 0


def preload() -> None:
    """Import what `strict_fault` needs, which takes a while."""
    import simplejpeg  # type: ignore[import-untyped]  # it has no stubs  # noqa: F401


def strict_fault(data: bytes) -> str:
    """Decode all of the coded data; return the decoder's first complaint, or ""."""
    return strict_decode(data)[1]


def strict_decode(data: bytes) -> tuple[NDArray[np.uint8] | None, str]:
    """Decode all of the coded data, to grey at 1/8 of its size.

    Returns the pixels and "", or None and the decoder's first complaint. Only for common JPEGs
    (`JpegHeader.is_common`): libjpeg-turbo's scaled decoding of others has been seen to read past
    its buffers.
    """
    import simplejpeg

    try:
        # Grey needs no colour conversion, yet the coded data of every component is walked.
        decoded: NDArray[np.uint8] = simplejpeg.decode_jpeg(
            data, colorspace="GRAY", min_height=1, min_width=1, min_factor=CHECK_SCALE, strict=True
        )
    except ValueError as error:
        return None, str(error)
    return decoded, ""
