"""Images that were collected because decoders stumble over them."""

from __future__ import annotations

import io
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
from conftest import SHARED
from numpy.typing import NDArray
from PIL import Image

from imgrec.codec.decode import to_array
from imgrec.codec.image import Packable, prepare
from imgrec.codec.jpeg import strict_decode
from imgrec.errors import BadImage
from imgrec.options import Check

AWKWARD = SHARED / "awkward"
NO_IMAGES = (AWKWARD / "go-fuzz" / "zip", AWKWARD / "go-fuzz" / "tar")

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(not AWKWARD.is_dir(), reason=f"{AWKWARD} is not there"),
]


def files() -> Iterator[Path]:
    for path in sorted(AWKWARD.rglob("*")):
        if path.is_file() and not any(folder in path.parents for folder in NO_IMAGES):
            yield path


@pytest.fixture(scope="module")
def accepted() -> dict[Path, Packable]:
    """Return all that can be packed."""
    images = {}
    for path in files():
        try:
            images[path] = prepare(path.read_bytes(), path.name, Check.DECODE)
        except BadImage:
            continue
    return images


def decodes_with_pillow(data: bytes) -> bool:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Image.open(io.BytesIO(data)).load()
    except Exception:  # noqa: BLE001  # Pillow's decoders raise whatever they stumble over
        return False
    return True


def by_tensorflow(tf: ModuleType, data: bytes, channels: int = 0) -> NDArray[np.uint8] | None:
    try:
        image = tf.io.decode_image(data, channels=channels, expand_animations=False)
    except tf.errors.InvalidArgumentError:
        return None
    return image.numpy()  # type: ignore[no-any-return]


def test_every_accepted_image_decodes_as_in_tensorflow(
    tf: ModuleType, accepted: dict[Path, Packable]
) -> None:
    wrong, sound = [], 0
    for path, image in accepted.items():
        expected, coloured = by_tensorflow(tf, image.data), by_tensorflow(tf, image.data, 3)
        decoded = to_array(image.data, image.shape)
        # Decoders upscale components differently if a JPEG has rare sampling factors.
        is_odd = image.data.startswith(b"\xff\xd8") and bool(strict_decode(image.data)[1])
        if (
            expected is None
            or coloured is None
            or expected.shape != decoded.shape
            or decoded.shape != image.shape
            or coloured.shape != (*image.shape[:2], 3)
            or not (is_odd or np.array_equal(decoded, expected))
        ):
            wrong.append(path)
        sound += not is_odd
    assert wrong == []
    assert sound > 1000


def test_every_file_that_pillow_decodes_is_accepted(accepted: dict[Path, Packable]) -> None:
    assert len(list(files())) > 2000
    refused = [path for path in files() if path not in accepted]
    assert [path for path in refused if decodes_with_pillow(path.read_bytes())] == []


def test_the_structure_alone_is_wrong_about_few(tf: ModuleType) -> None:
    """The manual says 62 of 1,504."""
    verdicts = []
    for path in files():
        try:
            image = prepare(path.read_bytes(), path.name, Check.STRUCTURE)
        except BadImage:
            continue
        decoded = by_tensorflow(tf, image.data)
        verdicts.append(decoded is not None and decoded.shape == image.shape)
    assert len(verdicts) > 1400
    assert verdicts.count(False) / len(verdicts) < 0.05
