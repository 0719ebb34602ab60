"""The images of the benchmark: drawn once, with the size and the coding cost of real photos."""

from __future__ import annotations

import os
import shutil
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

CLASSES = 10
CANVAS = (1600, 1200)
CANVASES = 8
NOISE = {5: 8, 16: 14, 50: 22, 160: 28, 500: 34}
"""How strong the noise of each grain (in pixels) is: as in photos, the coarser the stronger."""
FINE_NOISE = 5
BATCH = 250


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Images of one kind, in class folders."""

    kind: str
    count: int

    @property
    def folder(self) -> str:
        """Return the name of the folder that holds them."""
        return f"{self.kind}_{self.count}"

    @property
    def is_photos(self) -> bool:
        """Tell photos from the tiny images."""
        return self.kind == "photos"


SETS = {
    "photos5k": ImageSet("photos", 5_000),
    "photos20k": ImageSet("photos", 20_000),
    "tiny50k": ImageSet("tiny", 50_000),
}
QUICK_SETS = {
    "photos5k": ImageSet("photos", 300),
    "photos20k": ImageSet("photos", 300),
    "tiny50k": ImageSet("tiny", 1_000),
}


def make_images(work: Path, images: ImageSet) -> Path:
    """Return the folder of an image set, drawing it if it is not there."""
    folder = work / "images" / images.folder
    if not folder.exists():
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        for label in range(CLASSES):
            (part / f"class_{label:02d}").mkdir(parents=True)
        print(f"drawing {images.count:,} {images.kind} into {folder}", flush=True)
        starts = range(0, images.count, BATCH)
        with ProcessPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(_draw_batch, [part] * len(starts), [images] * len(starts), starts):
                pass
        part.rename(folder)
    return folder


@cache
def _canvas(number: int) -> NDArray[np.uint8]:
    """Draw what images are cut from."""
    import numpy as np
    from PIL import Image

    width, height = CANVAS
    chance = np.random.default_rng([1, number])
    total = np.full((height, width, 3), 128, np.float32)
    for grain, strength in NOISE.items():
        for channel in range(3):
            small = (height // grain + 2, width // grain + 2)
            noise = Image.fromarray(chance.standard_normal(small, np.float32))
            smooth = noise.resize(CANVAS, Image.Resampling.BICUBIC)
            total[:, :, channel] += strength * np.asarray(smooth)
    total += FINE_NOISE * chance.standard_normal((height, width, 1), np.float32)
    return np.clip(total, 0, 255).astype(np.uint8)


def _draw_batch(root: Path, images: ImageSet, start: int) -> None:
    """Draw the images from number `start` on; each depends on its set and its number alone.

    Photos are pieces of about 500x375 pixels and 70 KB; tiny images are pieces shrunk to 32x32.
    """
    import numpy as np
    from PIL import Image

    for number in range(start, min(start + BATCH, images.count)):
        chance = np.random.default_rng([images.count, number])
        if images.is_photos:
            width = int(np.clip(chance.normal(500, 60), 300, 700))
            height = int(np.clip(width * chance.normal(0.75, 0.08), 200, 700))
            size, quality = (width, height), int(chance.integers(87, 97))
        else:
            width = height = int(chance.integers(64, 257))
            size, quality = (32, 32), 90
        left = int(chance.integers(CANVAS[0] - width))
        upper = int(chance.integers(CANVAS[1] - height))
        canvas = _canvas(int(chance.integers(CANVASES)))
        picture = Image.fromarray(canvas[upper : upper + height, left : left + width])
        name = f"class_{number % CLASSES:02d}/{images.kind}_{number:06d}.jpg"
        picture.resize(size).save(root / name, quality=quality)


def read_all(source: Path) -> int:
    """Read every file, so that nobody pays for a cold cache; return how many bytes they have."""
    return sum(len(path.read_bytes()) for path in source.glob("*/*.jpg"))
