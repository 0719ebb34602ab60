#!/usr/bin/env python3
"""Measure which changed copies of photographs imgrec recognises as near-duplicates.

    .venv/bin/python scripts/bench_near.py FOLDER [--count 300] [--alike 80] [--sheet pairs.png]

The photographs of FOLDER are compared with each other: all that is found should be copies in truth,
which the sheet shows. Copies are left out, and so are those that are too plain to compare. Each of
the others is changed in many ways, stored as JPEG, and looked for among all of them. The table says
how many of the copies lead to their original.
"""

from __future__ import annotations

import argparse
import io
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageEnhance, ImageFilter, ImageOps

from imgrec.codec.look import look
from imgrec.engine.local import LocalEngine
from imgrec.errors import BadImage
from imgrec.near.clusters import ALIKE, components
from imgrec.near.descriptor import describe
from imgrec.near.duplicates import Images as Compared
from imgrec.near.duplicates import Pair, Sight, find_among, find_similar
from imgrec.near.search import Run

Change = Callable[[Image.Image], Image.Image]
SUFFIXES = {".jpg", ".jpeg", ".png", ".webp"}


def crop(left: float, top: float, right: float, bottom: float) -> Change:
    """Cut off a share of each side."""

    def changed(photo: Image.Image) -> Image.Image:
        w, h = photo.size
        box = round(w * left), round(h * top), round(w * (1 - right)), round(h * (1 - bottom))
        return photo.crop(box)

    return changed


def shift(right: float, down: float) -> Change:
    """Move the picture on black ground."""

    def changed(photo: Image.Image) -> Image.Image:
        moved = Image.new("RGB", photo.size)
        moved.paste(photo, (round(photo.width * right), round(photo.height * down)))
        return moved

    return changed


def hue(degrees: int) -> Change:
    """Turn the colours."""

    def changed(photo: Image.Image) -> Image.Image:
        tint, *rest = photo.convert("HSV").split()
        turned = tint.point(lambda level: (level + degrees * 256 // 360) % 256)
        return Image.merge("HSV", (turned, *rest)).convert("RGB")

    return changed


def again(quality: int) -> Change:
    """Encode as JPEG."""

    def changed(photo: Image.Image) -> Image.Image:
        out = io.BytesIO()
        photo.save(out, "JPEG", quality=quality)
        return Image.open(out).convert("RGB")

    return changed


def resized(factor: float) -> Change:
    """Change the size."""
    return lambda photo: photo.resize((round(photo.width * factor), round(photo.height * factor)))


CHANGES: Mapping[str, Change] = {
    **{f"JPEG of quality {q}": again(q) for q in (75, 50, 20)},
    **{f"{factor:g} of the size": resized(factor) for factor in (2, 0.5, 0.25)},
    "squeezed to a square": lambda photo: photo.resize((224, 224)),
    "mirrored": ImageOps.mirror,
    "grey": lambda photo: photo.convert("L").convert("RGB"),
    "negative": ImageOps.invert,
    **{
        f"brightness x {factor}": lambda photo, f=factor: ImageEnhance.Brightness(photo).enhance(f)
        for factor in (0.6, 0.8, 1.2, 1.4)
    },
    **{
        f"contrast x {factor}": lambda photo, f=factor: ImageEnhance.Contrast(photo).enhance(f)
        for factor in (0.5, 0.75, 1.3, 1.6)
    },
    **{f"hue turned by {angle}°": hue(angle) for angle in (15, 30, 60, 180)},
    **{
        f"blur of {radius} pixels": lambda photo, r=radius: photo.filter(
            ImageFilter.GaussianBlur(r)
        )
        for radius in (1, 3)
    },
    "cut by 5 % all round": crop(0.05, 0.05, 0.05, 0.05),
    "cut by 10 % on one side": crop(0.1, 0, 0, 0),
    "cut by 10 % at a corner": crop(0.1, 0.1, 0, 0),
    "cut by 12 % all round": crop(0.125, 0.125, 0.125, 0.125),
    "cut by 25 % on one side": crop(0.25, 0, 0, 0),
    "cut by 25 % at a corner": crop(0.25, 0.25, 0, 0),
    "shifted by 5 %": shift(0.05, 0.05),
    "shifted by 10 %, one way": shift(0.1, 0),
    "shifted by 10 %, both ways": shift(0.1, 0.1),
    "white border of 5 %": lambda photo: ImageOps.expand(photo, photo.width // 20, "white"),
    "white border of 10 %": lambda photo: ImageOps.expand(photo, photo.width // 10, "white"),
    **{
        f"rotated by {angle}°": lambda photo, a=angle: photo.rotate(a, Image.Resampling.BILINEAR)
        for angle in (2, 5, 10)
    },
}


def photographs(folder: Path, count: int) -> list[Path]:
    """Return some of the images below a folder, always the same ones."""
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES)
    return sorted(random.Random(0).sample(paths, min(count, len(paths))))


def opened(path: Path) -> Image.Image:
    """Return the pixels of a photograph."""
    with Image.open(path) as photo:
        return ImageOps.exif_transpose(photo).convert("RGB")


def encoded(photo: Image.Image) -> bytes:
    """Encode as JPEG of the quality that most programs choose."""
    out = io.BytesIO()
    photo.save(out, "JPEG", quality=85)
    return out.getvalue()


def looks_of(images: Sequence[bytes]) -> list[bytes]:
    """Return what images look like."""
    return [look(data, "x.jpg").grey for data in images]


def sight(images: Sequence[bytes], looks: Sequence[bytes]) -> Sight:
    """Return how to look at images by their places."""
    return Sight(
        lambda places: b"".join([look(images[place], "x.jpg").close for place in places]),
        lambda places: b"".join([looks[place] for place in places]),
    )


class Photos(NamedTuple):
    """Photographs by column."""

    paths: list[Path]
    files: list[bytes]
    looks: list[bytes]

    @property
    def sight(self) -> Sight:
        """How to look at them."""
        return sight(self.files, self.looks)

    @property
    def images(self) -> Compared:
        """What to compare."""
        return Compared(list(map(str, self.paths)), self.files, describe(self.looks))

    def pick(self, places: Sequence[int]) -> Photos:
        """Return some of them."""
        return Photos(
            [self.paths[place] for place in places],
            [self.files[place] for place in places],
            [self.looks[place] for place in places],
        )


def recall(photos: Photos, change: Change, alike: int, run: Run) -> float:
    """Return the share of changed copies that lead to their originals."""
    copies = [encoded(change(opened(path))) for path in photos.paths]
    changed = Photos(photos.paths, copies, looks_of(copies))
    pairs = find_among(changed.images, photos.images, alike, run, (changed.sight, photos.sight))
    return len({pair.first for pair in pairs if pair.first == pair.second}) / len(copies)


def find_pairs(photos: Photos, alike: int, run: Run) -> list[Pair]:
    """Return the photographs that look alike, or are the same."""
    similar = find_similar(photos.images, alike, run, photos.sight)
    return [*similar.pairs(), *similar.copies(range(len(similar.pictures)))]


def without_plain(photos: Photos, run: Run) -> Photos:
    """Leave out photographs that are not even found alike to themselves."""
    pairs = find_among(photos.images, photos.images, ALIKE, run, (photos.sight, photos.sight))
    return photos.pick(sorted({pair.first for pair in pairs if pair.first == pair.second}))


def draw(photos: Sequence[Path], pairs: Sequence[Pair], path: Path) -> None:
    """Draw the pairs that were found among the photographs."""
    side, across = 128, 5
    sheet = Image.new("RGB", (across * 2 * (side + 4), -(-len(pairs) // across) * (side + 4)))
    for number, pair in enumerate(sorted(pairs, key=lambda pair: pair.alike)):
        for column, place in enumerate(pair[:2]):
            photo = opened(photos[place])
            photo.thumbnail((side, side))
            row, start = divmod(number, across)
            sheet.paste(photo, ((start * 2 + column) * (side + 4), row * (side + 4)))
    sheet.save(path)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--count", type=int, default=300)
    parser.add_argument("--alike", type=int, default=ALIKE)
    parser.add_argument("--sheet", type=Path)
    options = parser.parse_args()
    photos = Photos([], [], [])
    for path in photographs(options.folder, options.count):
        data = path.read_bytes()
        try:
            photos.looks.append(look(data, path.name).grey)
        except BadImage as error:
            print(f"left out {path}: {error}")
        else:
            photos.paths.append(path)
            photos.files.append(data)
    count = len(photos.paths)
    with LocalEngine() as engine:
        pairs = find_pairs(photos, options.alike, engine.run)
        roots = components(count, (pair[:2] for pair in pairs))
        sizes = np.bincount(roots, minlength=1)
        alike, groups = sizes[sizes > 1].sum(), (sizes > 1).sum()
        print(f"{count} photographs; {alike} of them are alike, in {groups} groups")
        if options.sheet and pairs:
            draw(photos.paths, pairs, options.sheet)
        single = photos.pick(sorted({*roots}))
        known = without_plain(single, engine.run)
        print(f"{len(single.paths) - len(known.paths)} of {len(single.paths)} are too plain\n")
        for name, change in CHANGES.items():
            found = recall(known, change, options.alike, engine.run)
            print(f"{name:28}{found:6.1%}", flush=True)


if __name__ == "__main__":
    main()
