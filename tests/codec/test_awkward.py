"""Images that were collected because decoders stumble over them."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from conftest import SHARED
from PIL import Image

from imgrec.codec.image import Packable, prepare
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
def tf() -> ModuleType:
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow


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


def decoded_shape(tf: ModuleType, data: bytes, channels: int) -> tuple[int, ...] | str:
    try:
        image = tf.io.decode_image(data, channels=channels, expand_animations=False)
    except tf.errors.InvalidArgumentError as error:
        return str(error)
    return tuple(image.shape)


def test_there_are_thousands_of_awkward_files() -> None:
    assert len(list(files())) > 2000


def test_every_accepted_image_decodes_in_tensorflow_to_its_shape(
    tf: ModuleType, accepted: dict[Path, Packable]
) -> None:
    decoded = {path: decoded_shape(tf, image.data, 0) for path, image in accepted.items()}
    wrong = {path: shape for path, shape in decoded.items() if shape != accepted[path].shape}
    assert wrong == {}


def test_every_accepted_image_decodes_in_tensorflow_to_three_channels(
    tf: ModuleType, accepted: dict[Path, Packable]
) -> None:
    decoded = {path: decoded_shape(tf, image.data, 3) for path, image in accepted.items()}
    coloured = {path: (*image.shape[:2], 3) for path, image in accepted.items()}
    assert {path: shape for path, shape in decoded.items() if shape != coloured[path]} == {}


def test_every_file_that_pillow_decodes_is_accepted(accepted: dict[Path, Packable]) -> None:
    refused = [path for path in files() if path not in accepted]
    assert [path for path in refused if decodes_with_pillow(path.read_bytes())] == []


def test_the_structure_alone_is_wrong_about_few(tf: ModuleType) -> None:
    """What the README says of it: 62 of 1,504."""
    verdicts = []
    for path in files():
        try:
            image = prepare(path.read_bytes(), path.name, Check.STRUCTURE)
        except BadImage:
            continue
        verdicts.append(decoded_shape(tf, image.data, 0) == image.shape)
    assert len(verdicts) > 1400
    assert verdicts.count(False) / len(verdicts) < 0.05
