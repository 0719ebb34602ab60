"""Identify a file by its first bytes."""

from __future__ import annotations

import re

HEAD_BYTES = 4096
"""How much of the beginning of a file is read to identify it."""
MOST_IMAGE_BYTES = (1 << 30) - (1 << 20)
"""Larger than any picture that can be decoded, even uncompressed. Protobuf allows 2 GiB."""

_MAGIC: tuple[tuple[bytes, str], ...] = (
    (b"\xff\xd8\xff", "JPEG"),
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"II+\0", "TIFF"),  # BigTIFF
    (b"MM\0+", "TIFF"),
    (b"\0\0\0\x0cjP  \r\n\x87\n", "JPEG2000"),
    (b"\xff\x4f\xff\x51", "JPEG2000"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "JXL"),
    (b"\xff\x0a", "JXL"),
    (b"8BPS\0\x01", "PSD"),
    (b"DDS |\0\0\0", "DDS"),
    (b"qoif", "QOI"),
    (b"icns", "ICNS"),
    (b"\0\0\x01\0", "ICO"),
    (b"\x01\xda\0\x01", "SGI"),
    (b"\x01\xda\x01\x01", "SGI"),
    (b"\x59\xa6\x6a\x95", "SUN"),
)
_BMP_HEADERS = frozenset({12, 16, 40, 52, 56, 64, 108, 124})
_PPM = re.compile(rb"P[1-6fFy](\s|#)[\s\S]*?\d")
_AVIF_BRANDS = frozenset({b"avif", b"avis"})
_HEIF_BRANDS = frozenset({b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"})

_BY_EXTENSION = {
    "tga": "TGA", "icb": "TGA", "vda": "TGA", "vst": "TGA",
    "pcx": "PCX", "xbm": "XBM", "im": "IM", "cur": "CUR",
}  # fmt: skip
"""Formats without distinctive first bytes, which only the file name shows."""

IMAGE_EXTENSIONS = frozenset(
    {
        "jpg", "jpeg", "jpe", "jfif", "jif", "mpo", "png", "apng", "gif", "bmp", "dib", "webp",
        "tif", "tiff", "avif", "avifs", "heic", "heif", "hif", "jp2", "j2k", "jpf", "jpx", "jpc",
        "j2c", "jxl", "ppm", "pgm", "pbm", "pnm", "pfm", "ico", "icns", "psd", "dds", "qoi",
        "sgi", "rgb", "rgba", "bw", "ras", *_BY_EXTENSION,
    }
)  # fmt: skip

_OTHERS: tuple[tuple[re.Pattern[bytes], str], ...] = (
    (
        re.compile(rb"version https://git-lfs\.github\.com/spec/"),
        "Git LFS pointer, not the image itself: run `git lfs pull`",
    ),
    (re.compile(rb"\s*<(!doctype\s+html|html|head|body)", re.I), "an HTML page, not an image"),
    (re.compile(rb"[\s\S]{0,400}<svg", re.I), "SVG drawing: convert it to PNG first"),
    (re.compile(rb"\s*<\?xml|\s*<[A-Za-z]+>"), "an XML file, not an image"),
    (re.compile(rb"%PDF-"), "a PDF document, not an image"),
    (re.compile(rb"PK\x03\x04"), "a zip archive, not an image"),
    (re.compile(rb"\x1f\x8b"), "a gzip file, not an image"),
    (re.compile(rb"\0+\Z"), "zeros only: an unfinished download?"),
    (re.compile(rb"[\t\n\r\x20-\x7e]+\Z"), "text, not an image"),
)


def sniff(head: bytes) -> str:
    """Name the image format that begins with `head`, as Pillow does; "" if unknown.

    >>> sniff(b"GIF89a...")
    'GIF'
    """
    for magic, name in _MAGIC:
        if head.startswith(magic):
            return name
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "WEBP"
    if head[4:8] == b"ftyp":
        return _sniff_brands(head)
    if head[:2] == b"BM" and int.from_bytes(head[14:18], "little") in _BMP_HEADERS:
        return "BMP"
    return "PPM" if _PPM.match(head[:256]) else ""


def _sniff_brands(head: bytes) -> str:
    box = head[8 : int.from_bytes(head[:4], "big")]
    brands = {box[at : at + 4] for at in (0, *range(8, len(box), 4))}
    if brands & _AVIF_BRANDS:
        return "AVIF"
    return "HEIF" if brands & _HEIF_BRANDS else ""


def format_of(head: bytes, filename: str) -> str:
    """Name an image's format by its first bytes or, failing that, by its file name."""
    return sniff(head) or _BY_EXTENSION.get(extension(filename), "")


def extension(filename: str) -> str:
    """Return the lower-case extension of a file name, without the dot."""
    _, dot, end = filename.rpartition(".")
    return end.lower() if dot and "/" not in end else ""


def describe(head: bytes) -> str:
    """Describe bytes that are not a known image."""
    if not head:
        return "empty file"
    for pattern, what in _OTHERS:
        if pattern.match(head):
            return what
    return "not an image: unknown content"
