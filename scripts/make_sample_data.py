#!/usr/bin/env python3
"""Draw sample_data: class folders of flowers with the oddities of real ones, and other sources.

    flowers/       five class folders
    flowers.zip    some of them in an archive
    flowers.csv    a manifest of the class folders' images
    digits/        handwriting of a kind, as IDX files

The drawing is reproducible: the same pictures on every run. Usage: make_sample_data.py [FOLDER]
"""

from __future__ import annotations

import gzip
import math
import random
import shutil
import struct
import sys
import zipfile
from pathlib import Path
from typing import NamedTuple

from PIL import Image, ImageDraw, ImageFilter, ImageFont

SIZE = 96
COUNT = 20
SCALE = 4  # drawn larger, then shrunk, for smooth edges


class Flower(NamedTuple):
    """How one kind of flower looks."""

    petals: int
    petal_length: float
    petal_width: float
    petal_colours: tuple[str, ...]
    heart: float
    heart_colour: str


FLOWERS = {
    "daisy": Flower(16, 0.36, 0.07, ("#ffffff", "#f6f3ea"), 0.11, "#f2b705"),
    "dandelion": Flower(40, 0.30, 0.03, ("#ffd21f", "#f7b500"), 0.09, "#e09a00"),
    "rose": Flower(7, 0.24, 0.20, ("#c2183b", "#e0335a"), 0.12, "#8c0f2a"),
    "sunflower": Flower(22, 0.42, 0.08, ("#ffc107", "#ff9f00"), 0.20, "#5a3413"),
    "tulip": Flower(3, 0.34, 0.17, ("#e8478f", "#f2a13b", "#8a4bc9"), 0.0, "#000000"),
}


def draw(name: str, number: int) -> Image.Image:
    """Draw one picture of a flower."""
    chance = random.Random(f"{name} {number}")
    flower, side = FLOWERS[name], SIZE * SCALE
    picture = Image.new("RGB", (side, side), chance.choice(("#9cc3e6", "#b7d9a8", "#7fae6b")))
    _grass(picture, chance)
    centre_x = side * chance.uniform(0.42, 0.58)
    centre_y = side * chance.uniform(0.36, 0.48)
    pen = ImageDraw.Draw(picture)
    stem = [(centre_x, centre_y), (side * chance.uniform(0.4, 0.6), side)]
    pen.line(stem, fill="#3f7a32", width=side // 28)
    size = side * chance.uniform(0.85, 1.1)
    colour = chance.choice(flower.petal_colours)
    spread = 0.9 if name == "tulip" else 2 * math.pi
    first = -math.pi / 2 - spread / 3 if name == "tulip" else chance.uniform(0, 1)
    for petal in range(flower.petals):
        shade = colour if name == "tulip" else chance.choice(flower.petal_colours)
        angle = first + spread * petal / flower.petals
        _petal(picture, (centre_x, centre_y), angle, flower, size, shade)
    heart = flower.heart * size
    pen.ellipse(
        (centre_x - heart, centre_y - heart, centre_x + heart, centre_y + heart),
        fill=flower.heart_colour if flower.heart else None,
    )
    picture = picture.filter(ImageFilter.GaussianBlur(chance.uniform(0, 2)))
    return picture.resize((SIZE, SIZE), Image.Resampling.LANCZOS)


def _grass(picture: Image.Image, chance: random.Random) -> None:
    pen, side = ImageDraw.Draw(picture), picture.width
    for _ in range(60):
        x, y = chance.uniform(0, side), chance.uniform(side * 0.6, side)
        red, green, blue = (chance.randint(*span) for span in ((40, 90), (110, 160), (40, 80)))
        pen.line([(x, side), (x + chance.uniform(-30, 30), y)], fill=(red, green, blue), width=5)


def _petal(
    picture: Image.Image,
    centre: tuple[float, float],
    angle: float,
    flower: Flower,
    size: float,
    colour: str,
) -> None:
    length, width = flower.petal_length * size, flower.petal_width * size
    outline = []
    for step in range(25):
        turn = 2 * math.pi * step / 24
        along, across = length * (0.5 + 0.5 * math.cos(turn)), width / 2 * math.sin(turn)
        x = centre[0] + along * math.cos(angle) - across * math.sin(angle)
        y = centre[1] + along * math.sin(angle) + across * math.cos(angle)
        outline.append((x, y))
    ImageDraw.Draw(picture).polygon(outline, fill=colour, outline="#00000030")


def make(root: Path) -> None:
    """Draw everything anew into `root`."""
    shutil.rmtree(root, ignore_errors=True)
    for name in FLOWERS:
        (root / name).mkdir(parents=True)
        for number in range(1, COUNT + 1):
            path = root / name / f"{name}_{number:02d}"
            picture = draw(name, number)
            if number % 7 == 0:
                picture.save(path.with_suffix(".png"), optimize=True)
            else:
                picture.save(path.with_suffix(".jpg"), quality=88)
    add_oddities(root)


def add_oddities(root: Path) -> None:
    """Add what real folders have: each of these is met by imgrec in its own way."""
    draw("rose", 101).save(root / "rose" / "really_a_png.jpg", format="PNG")
    draw("daisy", 102).convert("L").save(root / "daisy" / "grey.jpg", quality=88)
    draw("tulip", 103).save(root / "tulip" / "tulip.webp", lossless=True)
    whole = (root / "sunflower" / "sunflower_01.jpg").read_bytes()
    (root / "sunflower" / "half_downloaded.jpg").write_bytes(whole[: len(whole) // 2])
    (root / "dandelion" / ".DS_Store").write_bytes(b"\0\0\0\x01Bud1\0\0\x10\0")
    shutil.copyfile(root / "rose" / "rose_01.jpg", root / "rose" / "rose_01 (copy).jpg")


def make_zip(flowers: Path, path: Path) -> None:
    """Put a few flowers of each class into an archive, as downloads come: in one top folder."""
    with zipfile.ZipFile(path, "w") as archive:
        for name in FLOWERS:
            for number in range(1, 5):
                file = f"{name}/{name}_{number:02d}.jpg"
                entry = zipfile.ZipInfo(f"flowers/{file}", date_time=(2024, 1, 1, 0, 0, 0))
                archive.writestr(entry, (flowers / file).read_bytes())


def make_manifest(flowers: Path, path: Path) -> None:
    """Write a table of flowers as competitions do: ids without folder and extension."""
    images = sorted(file for file in flowers.glob("*/*_[0-9][0-9].*"))
    rows = [f"{file.stem},{file.parent.name}\n" for file in images]
    path.write_text("image_id,species\n" + "".join(rows))


def make_digits(folder: Path) -> None:
    """Draw digits into IDX files, train and t10k, with their labels."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for prefix, copies in (("train", 6), ("t10k", 2)):
        labels = [digit for _ in range(copies) for digit in range(10)]
        chance = random.Random(prefix)
        pixels = b"".join(_digit(label, chance).tobytes() for label in labels)
        images = struct.pack(">4B3I", 0, 0, 8, 3, len(labels), 28, 28) + pixels
        names = struct.pack(">4BI", 0, 0, 8, 1, len(labels)) + bytes(labels)
        for kind, data in (("images-idx3", images), ("labels-idx1", names)):
            (folder / f"{prefix}-{kind}-ubyte.gz").write_bytes(gzip.compress(data, mtime=0))


def _digit(digit: int, chance: random.Random) -> Image.Image:
    picture = Image.new("L", (28 * SCALE, 28 * SCALE))
    font = ImageFont.load_default(24 * SCALE)
    ImageDraw.Draw(picture).text((7 * SCALE, -1 * SCALE), str(digit), 255, font)
    turned = picture.rotate(chance.uniform(-20, 20), translate=(chance.randint(-9, 9), 0))
    return turned.resize((28, 28), Image.Resampling.LANCZOS)


def make_all(root: Path) -> None:
    """Draw all sample data anew into `root`."""
    make(root / "flowers")
    make_zip(root / "flowers", root / "flowers.zip")
    make_manifest(root / "flowers", root / "flowers.csv")
    make_digits(root / "digits")


if __name__ == "__main__":
    here = Path(__file__).resolve().parent.parent
    make_all(Path(sys.argv[1]) if len(sys.argv) > 1 else here / "sample_data")
