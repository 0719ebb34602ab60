r"""PNG: its shape, its chunks and a proof that its pixels decompress to their end.

    89 P N G \r \n 1A \n
    uint32 BE length | 4-byte type | payload | uint32 BE CRC-32 of type and payload     a chunk
    IHDR (first) ... PLTE? ... tRNS? ... IDAT+ (one zlib stream) ... IEND (last)

The stream holds, for each row, a filter type from 0 to 4 and the packed pixels; an interlaced
image holds up to seven such sub-images (Adam7).
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from imgrec.errors import BadImage

_IHDR = struct.Struct(">IIBBBBB")  # width, height, bit depth, colour type, three methods
_CHUNK = struct.Struct(">I4s")
_CRC = struct.Struct(">I")
_FIRST_CHUNK = 8
_PALETTE = 3
_SAMPLES = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}  # per pixel, by colour type
_DEPTHS = {0: {1, 2, 4, 8, 16}, 2: {8, 16}, 3: {1, 2, 4, 8}, 4: {8, 16}, 6: {8, 16}}
_ADAM7 = (
    (0, 0, 8, 8),
    (4, 0, 8, 8),
    (0, 4, 4, 8),
    (2, 0, 4, 4),
    (0, 2, 2, 4),
    (1, 0, 2, 2),
    (0, 1, 1, 2),
)
_INFLATE_BYTES = 1 << 18
_LARGEST_WINDOW = 1 << 15
_LIBPNG_BYTES = 1 << 13
"""How much of a chunk libpng passes to zlib at once."""
_MOST_CHUNKS = 200_000
"""Far more than any picture has. Listing this many takes about 60 MB."""
_ESSENTIAL = frozenset({b"IHDR", b"PLTE", b"IDAT", b"IEND"})
_ANIMATION = frozenset({b"acTL", b"fcTL", b"fdAT"})


class PngHeader(NamedTuple):
    """The header of a PNG."""

    shape: tuple[int, int, int]
    bits_per_pixel: int
    is_palette: bool
    is_interlaced: bool

    @property
    def is_deep(self) -> bool:
        """Whether it has several channels of 16 bits."""
        return self.bits_per_pixel > 8 * self.shape[2] > 8


class _Chunk(NamedTuple):
    kind: bytes
    payload: memoryview
    is_sound: bool


def _chunks(data: bytes) -> Iterator[_Chunk]:
    """Yield the chunks up to IEND; raise BadImage if the file ends early or has too many."""
    view, position = memoryview(data), _FIRST_CHUNK
    for _ in range(_MOST_CHUNKS):
        if position + 8 > len(data):
            raise BadImage("truncated PNG")
        length, kind = _CHUNK.unpack_from(data, position)
        end = position + 8 + length
        if end + 4 > len(data):
            raise BadImage("truncated PNG")
        (crc,) = _CRC.unpack_from(data, end)
        yield _Chunk(kind, view[position + 8 : end], zlib.crc32(view[position + 4 : end]) == crc)
        if kind == b"IEND":
            return
        position = end + 4
    raise BadImage(f"PNG of more than {_MOST_CHUNKS:,} chunks")


def read_header(data: bytes) -> PngHeader:
    """Read the shape that TensorFlow decodes a PNG to; raise BadImage if it is broken."""
    try:
        length, kind = _CHUNK.unpack_from(data, _FIRST_CHUNK)
        width, height, depth, colour, *methods = _IHDR.unpack_from(data, _FIRST_CHUNK + 8)
    except struct.error as error:
        raise BadImage("truncated PNG") from error
    is_known = depth in _DEPTHS.get(colour, ()) and methods in ([0, 0, 0], [0, 0, 1])
    if kind != b"IHDR" or length != _IHDR.size or not is_known:
        raise BadImage("PNG with a broken header")
    if not height or not width:
        raise BadImage("PNG of no size")
    channels = _SAMPLES[colour]
    if colour == _PALETTE:  # no other transparency adds a channel in TensorFlow
        channels = 4 if _has_transparency(data) else 3
    return PngHeader(
        (height, width, channels), _SAMPLES[colour] * depth, colour == _PALETTE, methods[2] == 1
    )


def _has_transparency(data: bytes) -> bool:
    """Return whether a palette has transparency that libpng does not ignore."""
    colours = 0
    try:
        for chunk in _chunks(data):
            if chunk.kind == b"PLTE" and not colours:
                colours = len(chunk.payload) // 3
            if chunk.kind == b"tRNS" and chunk.is_sound and 0 < len(chunk.payload) <= colours:
                return True
            if chunk.kind == b"IDAT":
                return False
    except BadImage:
        pass  # truncated before its pixels
    return False


def still(data: bytes) -> bytes:
    """Return a PNG without animation chunks; raise BadImage if it is truncated.

    Pillow would show the first frame of the animation, TensorFlow shows the still image.
    """
    if not any(kind in data for kind in _ANIMATION):
        return data
    return _joined(data, (chunk for chunk in _chunks(data) if chunk.kind not in _ANIMATION))


def without_extras(data: bytes) -> bytes:
    """Return a PNG of the chunks that make its pixels; raise BadImage if it is truncated."""
    header = read_header(data)
    # Only transparency of a palette's colours makes a channel, and only if it fits the palette.
    kept = _ESSENTIAL | ({b"tRNS"} if header.is_palette and header.shape[2] == 4 else set())
    return _joined(data, (chunk for chunk in _chunks(data) if chunk.kind in kept))


def _joined(data: bytes, chunks: Iterable[_Chunk]) -> bytes:
    """Return a PNG of those chunks whose checksum is right."""
    kept = [chunk for chunk in chunks if chunk.is_sound]
    return data[:_FIRST_CHUNK] + b"".join(
        _CHUNK.pack(len(payload), kind) + payload + _CRC.pack(zlib.crc32(payload, zlib.crc32(kind)))
        for kind, payload, _ in kept
    )


def structure_fault(data: bytes, header: PngHeader) -> str:
    """Check the chunks and their checksums; return the fault, or ""."""
    return _walk(data, header)[1]


def _walk(data: bytes, header: PngHeader) -> tuple[list[_Chunk], str]:
    try:
        chunks = list(_chunks(data))
    except BadImage as error:
        return [], str(error)
    return chunks, _chunk_fault(chunks, header)


def _chunk_fault(chunks: Sequence[_Chunk], header: PngHeader) -> str:
    kinds = [chunk.kind for chunk in chunks]
    if not all(kind.isalpha() for kind in kinds) or kinds.count(b"IHDR") != 1:
        return "PNG with a broken chunk"
    if b"IDAT" not in kinds:
        return "PNG without pixels"
    first = kinds.index(b"IDAT")
    if set(kinds[first : first + kinds.count(b"IDAT")]) != {b"IDAT"}:
        return "PNG with scattered pixels"
    palettes = [len(chunk.payload) for chunk in chunks[:first] if chunk.kind == b"PLTE"]
    is_palette_sound = all(3 <= size <= 768 and size % 3 == 0 for size in palettes)
    is_one = len(palettes) == kinds.count(b"PLTE") <= 1
    if not is_palette_sound or not is_one or (header.is_palette and not palettes):
        return "PNG with a broken palette"
    for chunk in chunks:
        is_critical = not chunk.kind[0] & 0x20
        if is_critical and not chunk.is_sound:
            return f"PNG with a wrong checksum of its {chunk.kind.decode()} chunk"
        if is_critical and chunk.kind not in (b"IHDR", b"PLTE", b"IDAT", b"IEND"):
            return "PNG with an unknown critical chunk"
    return ""


def pixel_fault(data: bytes, header: PngHeader) -> str:
    """Check the chunks and decompress every pixel; return the fault, or ""."""
    chunks, fault = _walk(data, header)
    if fault:
        return fault
    pixels = [chunk.payload for chunk in chunks if chunk.kind == b"IDAT"]
    passes = _passes(header)
    try:
        fault = _row_fault(_inflate(pixels), passes)
    except zlib.error as error:
        return f"PNG with corrupt pixels: {error}"
    return fault or _window_fault(pixels, passes)


def _window_fault(pieces: Sequence[memoryview], passes: Sequence[tuple[int, int]]) -> str:
    """Inflate as libpng does, with the window that the stream declares; return the fault, or "".

    Most decoders use the largest window, whatever is declared. In libpng, a reference may reach
    back to the start of the row, or of the piece of input, and from there as far as the window.
    Rows of more than 32 KiB are inflated in parts here, so a fault may be reported that libpng
    would not find, but none is missed.
    """
    first = next(filter(None, pieces))
    window_bytes = 1 << (first[0] >> 4) + 8
    if window_bytes >= min(_LARGEST_WINDOW, sum(rows * size for rows, size in passes)):
        return ""
    inflater = zlib.decompressobj(wbits=0)  # as declared
    inputs = (
        piece[at : at + _LIBPNG_BYTES]
        for piece in pieces
        for at in range(0, len(piece), _LIBPNG_BYTES)
    )
    pending: bytes | memoryview = b""
    try:
        for row_bytes in (size for rows, size in passes for _ in range(rows)):
            missing = row_bytes
            while missing:
                pending = pending or next(inputs, b"")
                if not pending:
                    break  # the rest is in the inflater's own buffers
                missing -= len(inflater.decompress(pending, missing))
                pending = inflater.unconsumed_tail
    except zlib.error as error:
        return f"PNG with a window too small for its pixels: {error}"
    return ""


def _inflate(pieces: Iterable[memoryview]) -> Iterator[bytes]:
    inflater = zlib.decompressobj()
    for piece in pieces:
        pending: bytes | memoryview = piece
        while pending and not inflater.eof:
            yield inflater.decompress(pending, _INFLATE_BYTES)
            pending = inflater.unconsumed_tail
    yield inflater.flush()
    if not inflater.eof:
        raise zlib.error("the stream has no end")


def _passes(header: PngHeader) -> list[tuple[int, int]]:
    """Return rows and bytes per row (with filter type) of each sub-image in the stream."""
    height, width, _ = header.shape

    def sub_image(x: int, y: int, step_x: int, step_y: int) -> tuple[int, int]:
        columns = (width - x + step_x - 1) // step_x
        rows = (height - y + step_y - 1) // step_y
        row_bytes = 1 + (columns * header.bits_per_pixel + 7) // 8
        return (rows, row_bytes) if columns > 0 and rows > 0 else (0, 1)

    grid = _ADAM7 if header.is_interlaced else ((0, 0, 1, 1),)
    return [sub_image(*step) for step in grid]


def _row_fault(stream: Iterator[bytes], passes: Sequence[tuple[int, int]]) -> str:
    """Check that each row begins with a filter type and that none is missing or extra."""
    chunk = b""
    for rows, row_bytes in passes:
        position, end = 0, rows * row_bytes
        while position < end:
            chunk = chunk or next(filter(None, stream), b"")
            if not chunk:
                return "PNG whose pixels end too early"
            piece, chunk = chunk[: end - position], chunk[end - position :]
            if max(piece[-position % row_bytes :: row_bytes], default=0) > 4:
                return "PNG with an unknown row filter"
            position += len(piece)
    return "PNG with more pixels than it says" if chunk or any(stream) else ""
