"""Contact sheets: choose images of a dataset or a source, and draw them with captions."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import chain, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec.decode import thumbnail
from imgrec.errors import BadImage, UnknownName, UsageError
from imgrec.inspect.subject import ImagePlace, InDataset, InSource, Job, read_image
from imgrec.model import UNLABELLED, Plan
from imgrec.read.dataset import Dataset
from imgrec.read.splits import existing_name
from imgrec.spelling import same_name
from imgrec.text import suggestion, visible

if TYPE_CHECKING:
    from PIL.Image import Image
    from PIL.ImageFont import FreeTypeFont, ImageFont

_MAX_ACROSS = 6
_SIDE = 192
_GAP = 12
_LINE = 14
_MAX_LETTERS = 30
"""The letters that fit below a picture."""
_PAPER, _INK, _FAINT = (255, 255, 255), (20, 20, 20), (120, 120, 120)
_FORMATS = {"": "PNG", ".png": "PNG", ".jpg": "JPEG", ".jpeg": "JPEG", ".webp": "WEBP"}
_QUALITY = 90
_MISSING = "\uffff"
"""A code point that no font has a glyph for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The images to choose from, by column."""

    name: str
    classes: tuple[str, ...]
    names: Sequence[str]
    splits: Sequence[tuple[str, Sequence[int]]]
    """The rows of each split."""
    labels: Sequence[Sequence[int]]
    """All labels of each image."""
    where: Callable[[int], ImagePlace]
    """Returns the place of an image, by its row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A contact sheet, as PNG."""

    name: str
    shown: int
    """The number of images on it."""
    total: int
    """The number of images to choose from."""
    data: bytes = field(repr=False)
    path: str = ""


class Captioned(NamedTuple):
    """A picture and the lines below it."""

    where: ImagePlace
    lines: tuple[str, ...]


def choices_of_dataset(folder: Path) -> Choices:
    """List the images of a packed dataset."""
    dataset = Dataset(folder)
    columns = dataset.columns
    return Choices(
        name=dataset.info.name,
        classes=dataset.classes,
        names=columns.filenames,
        splits=[(name, split.numbers) for name, split in dataset.items()],
        labels=_label_lists(columns.labels, columns.label_sets),
        where=lambda row: InDataset(dataset.info.path, row),
    )


def choices_of_plan(plan: Plan, name: str) -> Choices:
    """List the images of a source, as they would be packed."""
    parts = [task.samples for task in plan.tasks]
    names, blobs, sizes, labels, label_sets = (
        list(chain.from_iterable(getattr(part, column) for part in parts))
        for column in ("filenames", "blobs", "sizes", "labels", "label_sets")
    )
    splits: dict[str, list[int]] = {}
    start = 0
    for task in plan.tasks:
        stop = start + len(task.samples)
        splits.setdefault(task.split, []).extend(range(start, stop))
        start = stop
    return Choices(
        name=name,
        classes=plan.classes,
        names=names,
        splits=list(splits.items()),
        labels=_label_lists(labels, label_sets),
        where=lambda row: InSource(blobs[row], sizes[row], names[row]),
    )


def _label_lists(
    labels: Sequence[int], label_sets: Sequence[Sequence[int]]
) -> Sequence[Sequence[int]]:
    return label_sets or [(label,) if label >= 0 else () for label in labels]


def draw_preview(choices: Choices, job: Job, *, split: str, class_name: str, count: int) -> Preview:
    """Draw some images of a split and a class; "" stands for all.

    Raises UnknownName if there is no such split or class.
    """
    found = _select(choices, split, class_name)
    rows = [row for row, _ in found]
    if not class_name:
        rows = _in_turn(rows, choices.labels)
    split_of = dict(found)
    tiles = []
    for row in rows[:count]:
        labels = ", ".join(choices.classes[label] for label in choices.labels[row]) or "no label"
        lines = (labels, f"{split_of[row]} {choices.names[row]}")
        tiles.append((Captioned(choices.where(row), lines),))
    across = min(_MAX_ACROSS, max(1, round(len(tiles) ** 0.5 * 1.3)))
    data = draw_contact_sheet(tiles, across, job)
    return Preview(name=choices.name, shown=len(tiles), total=len(found), data=data)


def _select(choices: Choices, split: str, class_name: str) -> list[tuple[int, str]]:
    """Return the rows of all images that fit, with their splits."""
    split_names = [name for name, _ in choices.splits]
    split, class_name = existing_name(split, split_names), same_name(class_name, choices.classes)
    known_names = {"split": (split, split_names), "class": (class_name, choices.classes)}
    for kind, (wanted, names) in known_names.items():
        if wanted and wanted not in names:
            raise UnknownName(
                f"{choices.name} has no {kind} {wanted!r}", hint=suggestion(names, wanted)
            )
    found = [(row, name) for name, rows in choices.splits if split in ("", name) for row in rows]
    if class_name:
        label = choices.classes.index(class_name)
        found = [(row, name) for row, name in found if label in choices.labels[row]]
    if not found:
        place = f" in {split}" if split else ""
        raise UnknownName(
            f"there are no images of {class_name or choices.name}{place}",
            hint="leave out --split or --class to see others",
        )
    return found


def _in_turn(rows: Sequence[int], labels: Sequence[Sequence[int]]) -> list[int]:
    """Return the first image of each class, then the second of each, and so on."""
    by_label: dict[int, list[int]] = {}
    for row in rows:
        by_label.setdefault(next(iter(labels[row]), UNLABELLED), []).append(row)
    columns = [by_label[label] for label in sorted(by_label)]
    return [row for turn in zip_longest(*columns) for row in turn if row is not None]


def draw_contact_sheet(groups: Sequence[tuple[Captioned, ...]], across: int, job: Job) -> bytes:
    """Return a PNG with `across` groups side by side; pictures of a group are close together."""
    from PIL import Image, ImageDraw

    tiles = list(chain.from_iterable(groups))
    thumbnails = dict(job.run(_thumbnail, sorted({tile.where for tile in tiles}, key=repr)))
    width = max(map(len, groups)) * (_SIDE + _GAP)
    height = _SIDE + max(len(tile.lines) for tile in tiles) * _LINE + 2 * _GAP
    across = min(across, len(groups))
    down = -(-len(groups) // across)
    sheet = Image.new("RGB", (across * width + _GAP, down * height + _GAP), _PAPER)
    draw = ImageDraw.Draw(sheet)
    for number, group in enumerate(groups):
        top = number // across * height + _GAP
        for place, tile in enumerate(group):
            left = number % across * width + _GAP + place * (_SIDE + _GAP // 2)
            if picture := thumbnails[tile.where]:
                corner = left + (_SIDE - picture.width) // 2, top + _SIDE - picture.height
                sheet.paste(picture, corner)
            for line, text in enumerate(tile.lines):
                corner = left, top + _SIDE + 2 + line * _LINE
                caption = _shortened(drawable(visible(text)))
                draw.text(corner, caption, fill=_FAINT if line else _INK, font=_font())
    return _encoded(sheet, "PNG")


def _thumbnail(where: ImagePlace) -> tuple[ImagePlace, Image | None]:
    """Return a picture that fits its place; None if the image is unreadable."""
    try:
        data, blob, filename = read_image(where)
        picture = thumbnail(data, filename, _SIDE, blob)
    except BadImage:
        return where, None
    scale = _SIDE / max(picture.size)  # small pictures are enlarged, to be comparable
    size = max(1, round(picture.width * scale)), max(1, round(picture.height * scale))
    return where, picture.resize(size)


def _encoded(sheet: Image, image_format: str) -> bytes:
    out = io.BytesIO()
    sheet.save(out, image_format, quality=_QUALITY)  # which PNG ignores
    return out.getvalue()


def refuse_other_formats(path: str) -> None:
    """Raise UsageError if a sheet cannot be written in the format of an extension."""
    extension = _extension(path)
    if extension not in _FORMATS:
        raise UsageError(
            f"-o {path}: cannot write a contact sheet as {extension}",
            hint="use .png, .jpg or .webp",
        )


def encode_sheet(png: bytes, path: str) -> bytes:
    """Return a sheet in the format of a path's extension."""
    from PIL import Image

    image_format = _FORMATS[_extension(path)]
    if image_format == "PNG":
        return png
    with Image.open(io.BytesIO(png)) as sheet:
        return _encoded(sheet, image_format)


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()


@cache
def _font() -> ImageFont | FreeTypeFont:
    from PIL import ImageFont

    return ImageFont.load_default()


def drawable(text: str) -> str:
    """Return text with escapes for letters that the font lacks."""
    return "".join(
        letter if _has_glyph(letter) else letter.encode("ascii", "backslashreplace").decode()
        for letter in text
    )


@cache
def _has_glyph(letter: str) -> bool:
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
    if len(text) <= _MAX_LETTERS:
        return text
    head = (_MAX_LETTERS - 3) // 2
    return f"{text[:head]}...{text[head + 3 - _MAX_LETTERS :]}"
