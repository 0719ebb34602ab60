"""Real image bytes for tests: small, different by seed, the same on every run."""

from __future__ import annotations

import io
import random
import struct
import zlib
from pathlib import Path

from PIL import Image


def picture(seed: int = 0, mode: str = "RGB", size: tuple[int, int] = (24, 16)) -> Image.Image:
    """Make a picture with some structure; `size` is width and height."""
    noise = Image.frombytes("RGB", (6, 4), random.Random(seed).randbytes(72))
    smooth = noise.resize(size, Image.Resampling.BICUBIC)
    if mode in ("LA", "RGBA"):
        smooth = smooth.convert(mode[:-1])
        smooth.putalpha(Image.linear_gradient("L").resize(size))
        return smooth
    if mode == "I;16":
        return smooth.convert("L").convert("I").point(lambda value: value * 257).convert("I;16")
    return smooth.convert(mode)


def encode(image: Image.Image, image_format: str, **options: object) -> bytes:
    out = io.BytesIO()
    image.save(out, image_format, **options)
    return out.getvalue()


def jpeg(
    seed: int = 0, size: tuple[int, int] = (24, 16), mode: str = "RGB", **options: object
) -> bytes:
    return encode(picture(seed, mode, size), "JPEG", **options)


def png(
    seed: int = 0, size: tuple[int, int] = (24, 16), mode: str = "RGB", **options: object
) -> bytes:
    return encode(picture(seed, mode, size), "PNG", **options)


def chunk(kind: bytes, payload: bytes, crc_error: int = 0) -> bytes:
    """Return a chunk of a PNG."""
    crc = zlib.crc32(kind + payload) ^ crc_error
    return struct.pack(">I", len(payload)) + kind + payload + struct.pack(">I", crc)


def png_of(width: int, height: int, rows: bytes) -> bytes:
    """Return a PNG that says it has this size, whatever its compressed rows hold."""
    head = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    chunks = (chunk(b"IHDR", head), chunk(b"IDAT", rows), chunk(b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def write_tree(root: Path, files: dict[str, bytes]) -> Path:
    """Write files, given by their posix paths below `root`; return `root`."""
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def class_tree(root: Path, classes: dict[str, int], start: int = 0) -> Path:
    """Write class folders with so many different JPEGs each."""
    seed = start
    for name, count in classes.items():
        for number in range(count):
            write_tree(root, {f"{name}/{number:03d}.jpg": jpeg(seed)})
            seed += 1
    return root
