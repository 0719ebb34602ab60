"""A contact sheet of pairs: one picture of many, for eyes to judge."""

from __future__ import annotations

import io
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.codec.thumbnail import thumbnail
from imgrec.errors import BadImage
from imgrec.inspection.job import Job
from imgrec.inspection.leaking.leaks import LeakedImage, LeakPair
from imgrec.inspection.where import Where, picture_at

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageDraw import ImageDraw

MOST_PAIRS = 50
_SIDE = 192
_GAP = 12
_LINE = 14
_ACROSS = 3
"""Pairs side by side."""
_LETTERS = 30
"""How many fit under a picture."""
_PAPER, _INK, _FAINT = (255, 255, 255), (20, 20, 20), (120, 120, 120)


def draw_sheet(pairs: Sequence[LeakPair], job: Job) -> bytes:
    """Return a PNG of the first 50 pairs, each with files, splits, labels and distance."""
    from PIL import Image, ImageDraw

    shown = pairs[:MOST_PAIRS]
    places = sorted(
        {image.where for pair in shown for image in (pair.first, pair.second)}, key=repr
    )
    thumbnails = dict(job.run(_thumbnail, places))
    width, height = 2 * _SIDE + 2 * _GAP, _SIDE + 3 * _LINE + 2 * _GAP
    across = min(_ACROSS, len(shown))
    down = -(-len(shown) // across)
    sheet = Image.new("RGB", (across * width + _GAP, down * height + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, pair in enumerate(shown):
        left, top = number % across * width + _GAP, number // across * height + _GAP
        for side, image in enumerate((pair.first, pair.second)):
            corner = left + side * (_SIDE + _GAP // 2), top
            _paste(sheet, thumbnails[image.where], corner)
            _write(draw, corner, [*_caption(image), "" if side else _verdict(pair)])
    out = io.BytesIO()
    sheet.save(out, "PNG")
    return out.getvalue()


def _paste(sheet: Image, thumbnail: tuple[int, int, bytes], corner: tuple[int, int]) -> None:
    from PIL import Image

    width, height, data = thumbnail
    if data:
        at = corner[0] + (_SIDE - width) // 2, corner[1] + _SIDE - height
        sheet.paste(Image.frombytes("RGB", (width, height), data), at)


def _write(draw: ImageDraw, corner: tuple[int, int], lines: Sequence[str]) -> None:
    for number, text in enumerate(lines):
        # The font that comes with Pillow has hardly more than these letters.
        plain = text.encode("ascii", "backslashreplace").decode()
        at = corner[0], corner[1] + _SIDE + 2 + number * _LINE
        draw.text(at, _shortened(plain), fill=_FAINT if number else _INK)


def _caption(image: LeakedImage) -> Iterator[str]:
    yield image.name
    yield " ".join(filter(None, (image.split, *image.labels)))


def _verdict(pair: LeakPair) -> str:
    if pair.is_exact:
        return f"{pair.kind}: the same file"
    return f"{pair.kind}: {pair.distance:.1f}" + (", mirrored" if pair.is_mirrored else "")


def _shortened(text: str) -> str:
    """Return text that fits, without its middle: names differ at their ends.

    >>> _shortened("a" * 40)
    'aaaaaaaaaaaaa...aaaaaaaaaaaaaa'
    """
    if len(text) <= _LETTERS:
        return text
    head = (_LETTERS - 3) // 2
    return f"{text[:head]}...{text[head + 3 - _LETTERS :]}"


def _thumbnail(where: Where) -> tuple[Where, tuple[int, int, bytes]]:
    """Return width, height and RGB of a small version of a picture; nothing if it is unreadable."""
    try:
        data, blob, filename = picture_at(where)
        picture = thumbnail(data, filename, _SIDE, blob)
    except BadImage:
        return where, (0, 0, b"")
    scale = _SIDE / max(picture.size)  # small ones are shown larger, to be compared
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    picture = picture.resize(size)
    return where, (picture.width, picture.height, picture.tobytes())
