"""What the scripts of the peers share. They run in the Python of their peer, so this needs nothing.

A packer is run as `pack_x.py pack SOURCE OUTPUT WORKERS`, and as `pack_x.py check OUTPUT`, which
prints how many records there are, and how many bytes their images have. A loader is run as
`load_x.py CONTENDER TASK`: it goes through its data once for each line that comes in.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

SHARD_BYTES = 128 << 20


class Source(NamedTuple):
    """An image file."""

    path: str
    key: str
    """Its name in the folder, without its ending."""
    label: int

    def read(self) -> bytes:
        """Return its bytes."""
        with open(self.path, "rb") as file:
            return file.read()


def images_of(folder: str | Path) -> list[Source]:
    """List the images of a folder of class folders."""
    found = []
    for label, name in enumerate(sorted(os.listdir(folder))):
        inside = os.path.join(folder, name)
        for file in sorted(os.listdir(inside)):
            found.append(Source(f"{inside}/{file}", f"{name}/{file[:-4]}", label))  # noqa: PERF401
    return found


def parts(images: Sequence[Source], workers: int) -> list[Sequence[Source]]:
    """Part images into as many runs as there are workers."""
    size = -(-len(images) // workers)
    return [images[start : start + size] for start in range(0, len(images), size)]


# Packers


def packer(pack: Callable[[Path, Path, int], None], check: Callable[[Path], Iterable[int]]) -> None:
    """Pack, or tell what was packed: `check` yields how many bytes each image has."""
    verb, *others = sys.argv[1:]
    if verb == "pack":
        pack(Path(others[0]), Path(others[1]), int(others[2]))
        return
    sizes = list(check(Path(others[0])))
    print(json.dumps({"records": len(sizes), "bytes": sum(sizes)}))


# Loaders


class Task(NamedTuple):
    """What a loader is to go through."""

    folder: str
    """The images in class folders."""
    packed: str
    """What the packer of the same peer made of them."""
    size: int
    """The side that images are resized to; 0 if they are of one size."""
    batch: int
    """How many make a batch; 0 if records are read one by one, at random, as bytes."""


Epoch = Callable[[], Iterable[Any]]
"""Goes through all once: yields batches of images, or the bytes of single ones."""


def serve(contenders: Mapping[str, Callable[[Task], Epoch]]) -> None:
    """Go through the data for each line that comes in; print what it gave and what it took."""
    contender, text = sys.argv[1:]
    epoch = contenders[contender](Task(**json.loads(text)))
    for _ in sys.stdin:
        start = time.perf_counter()
        first_s, images, size, like = 0.0, 0, 0, ""
        for batch in epoch():
            if not images:
                first_s = time.perf_counter() - start
                like = described(batch)
            if isinstance(batch, bytes):
                images, size = images + 1, size + len(batch)
            else:
                images += int(batch.shape[0])
        taken = {"images": images, "bytes": size, "first_s": first_s, "like": like}
        print("epoch", json.dumps({**taken, "wall_s": time.perf_counter() - start}), flush=True)


def described(batch: Any) -> str:
    """Return type and shape, as in `uint8 32x224x224x3`."""
    if isinstance(batch, bytes):
        return "bytes"
    dtype = getattr(batch.dtype, "name", None) or str(batch.dtype).removeprefix("torch.")
    return f"{dtype} {'x'.join(map(str, batch.shape))}"


def at_random(count: int) -> list[int]:
    """Return the numbers below `count` in the order that random reads have."""
    return random.Random(1).sample(range(count), count)


# What the loaders for PyTorch share


def pixels(image: Any, size: int) -> Any:
    """Return a picture of Pillow's as a uint8 tensor: resized bilinearly, channels first."""
    import numpy as np
    import torch
    from PIL import Image

    image = image.convert("RGB")
    if size:
        image = image.resize((size, size), Image.Resampling.BILINEAR)
    return torch.from_numpy(np.array(image)).permute(2, 0, 1).contiguous()


def decoded(data: bytes, size: int) -> Any:
    """Decode an image with Pillow, as `pixels` does."""
    import io

    from PIL import Image

    return pixels(Image.open(io.BytesIO(data)), size)


def torch_batches(data: Any, batch: int) -> Epoch:
    """Let two workers make batches of a dataset, in its order."""
    from torch.utils.data import DataLoader

    loader = DataLoader(data, batch_size=batch, num_workers=2, persistent_workers=True)

    def epoch() -> Iterator[Any]:
        for images, _labels in loader:
            yield images

    return epoch
