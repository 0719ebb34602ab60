"""Contact sheets: many pictures in one image, each with a caption."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec.thumbnail import thumbnail
from imgrec.errors import BadImage, UsageError
from imgrec.inspect.job import Job
from imgrec.inspect.where import Where, picture_at
from imgrec.text import visible

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw
    from PIL.ImageFont import FreeTypeFont, ImageFont

_SIDE = 192
_GAP = 12
_LINE = 14
_LETTERS = 30
"""The letters that fit below a picture."""
_PAPER, _INK, _FAINT = (255, 255, 255), (20, 20, 20), (120, 120, 120)
_FORMATS = {"": "PNG", ".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_QUALITY = 90
_MISSING = "\uffff"
"""A code point that no font has a glyph for."""


class Captioned(NamedTuple):
    """A picture and the lines below it."""

    where: Where
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The layout of a sheet."""

    across: int
    """Groups of pictures side by side."""
    lines: int
    """Below each picture."""


def draw_contact_sheet(groups: Sequence[tuple[Captioned, ...]], layout: Layout, job: Job) -> bytes:
    """Return a PNG of groups of pictures; those of a group are close together."""
    from PIL import Image, ImageDraw

    places = sorted({one.where for group in groups for one in group}, key=repr)
    thumbnails = dict(job.run(_thumbnail, places))
    width = max(map(len, groups)) * (_SIDE + _GAP)
    height = _SIDE + layout.lines * _LINE + 2 * _GAP
    across = min(layout.across, len(groups))
    down = -(-len(groups) // across)
    sheet = Image.new("RGB", (across * width + _GAP, down * height + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, group in enumerate(groups):
        left, top = number % across * width + _GAP, number // across * height + _GAP
        for side, one in enumerate(group):
            corner = left + side * (_SIDE + _GAP // 2), top
            _paste(sheet, thumbnails[one.where], corner)
            _write(draw, corner, one.lines)
    out = io.BytesIO()
    sheet.save(out, "PNG")
    return out.getvalue()


def refuse_other_formats(path: str) -> None:
    """Raise UsageError if a sheet cannot be written in the format of an extension."""
    extension = _extension(path)
    if extension not in _FORMATS:
        raise UsageError(
            f"-o {path}: a sheet cannot be written as {extension}", hint="give .png, .jpg or .webp"
        )


def encode_sheet(png: bytes, path: str) -> bytes:
    """Return a sheet in the format of a path's extension."""
    from PIL import Image

    wanted = _FORMATS[_extension(path)]
    if wanted == "PNG":
        return png
    out = io.BytesIO()
    with Image.open(io.BytesIO(png)) as sheet:
        sheet.save(out, wanted, quality=_QUALITY)
    return out.getvalue()


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()


def _paste(sheet: Image, small: tuple[int, int, bytes], corner: tuple[int, int]) -> None:
    from PIL import Image

    width, height, data = small
    if data:
        at = corner[0] + (_SIDE - width) // 2, corner[1] + _SIDE - height
        sheet.paste(Image.frombytes("RGB", (width, height), data), at)


def _write(draw: ImageDraw, corner: tuple[int, int], lines: Sequence[str]) -> None:
    for number, text in enumerate(lines):
        at = corner[0], corner[1] + _SIDE + 2 + number * _LINE
        draw.text(
            at, _shortened(_writable(visible(text))), fill=_FAINT if number else _INK, font=_font()
        )


@cache
def _font() -> ImageFont | FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default()


def _writable(text: str) -> str:
    """Return text with escapes for letters that the font lacks."""
    return "".join(
        letter if _has(letter) else letter.encode("ascii", "backslashreplace").decode()
        for letter in text
    )


@cache
def _has(letter: str) -> bool:
    from PIL.ImageFont import FreeTypeFont

    font = _font()
    if letter.isascii() or not isinstance(font, FreeTypeFont):
        return letter.isascii()
    return bytes(font.getmask(letter)) != bytes(font.getmask(_MISSING))


def _shortened(text: str) -> str:
    """Return text that fits, without its middle: names differ at the ends.

    >>> _shortened("a" * 40)
    'aaaaaaaaaaaaa...aaaaaaaaaaaaaa'
    """
    if len(text) <= _LETTERS:
        return text
    head = (_LETTERS - 3) // 2
    return f"{text[:head]}...{text[head + 3 - _LETTERS :]}"


def _thumbnail(where: Where) -> tuple[Where, tuple[int, int, bytes]]:
    """Return width, height and RGB of a thumbnail; empty if the image is unreadable."""
    try:
        data, blob, filename = picture_at(where)
        picture = thumbnail(data, filename, _SIDE, blob)
    except BadImage:
        return where, (0, 0, b"")
    scale = _SIDE / max(picture.size)  # small pictures are enlarged, to be comparable
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    picture = picture.resize(size)
    return where, (picture.width, picture.height, picture.tobytes())
