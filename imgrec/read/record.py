"""One record of a dataset, as its readers see it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec import example
from imgrec.errors import CorruptRecord
from imgrec.model import UNLABELLED

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

_OWN = frozenset({"filename", "image", "label", "labels", "shape"})


class Record(NamedTuple):
    """One image, as it is packed, and what is known of it."""

    image: bytes
    """The encoded image."""
    label: int
    """-1 if the image has no label, or may have several."""
    shape: tuple[int, int, int]
    """Height, width and channels of the decoded image."""
    filename: str
    """Posix path of the image inside the source."""
    labels: tuple[int, ...]
    """All labels of the image."""
    columns: Mapping[str, int | float | str]
    """The columns of the source that travelled into the record."""
    classes: Sequence[str]
    """The names of all classes of the dataset."""

    @property
    def class_name(self) -> str:
        """Name the image's class; empty if it has no label, or may have several."""
        return self.classes[self.label] if self.label >= 0 else ""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name all classes of the image."""
        return tuple(self.classes[label] for label in self.labels)

    def pil(self) -> Image:
        """Decode the image with Pillow, in the mode that it has."""
        from imgrec.codec import decode

        return decode.to_pil(self.image)

    def numpy(self) -> NDArray[np.uint8]:
        """Decode the image to an array of `shape`, as TensorFlow would."""
        from imgrec.codec import decode

        return decode.to_array(self.image, self.shape)

    def __repr__(self) -> str:
        height, width, channels = self.shape
        label = list(self.labels) if self.label == UNLABELLED and self.labels else self.label
        names = ", ".join(self.class_names)
        return (
            f"<Record {self.filename!r}: {width}x{height}x{channels}, {len(self.image)} bytes, "
            f"label {label}{f' ({names})' if names else ''}>"
        )


def parse(data: bytes, start: int, end: int, classes: Sequence[str]) -> Record:
    """Parse the record in `data[start:end]`; raise CorruptRecord if it is not one of an image."""
    plain = example.decode_plain(data, start, end)
    if plain is None:
        return _parse_any(example.decode(data[start:end]), classes)
    filename, image, label, shape = plain
    labels = (label,) if label >= 0 else ()
    if label >= len(classes):
        raise _wrong_label(label, classes)
    return Record(image, label, shape, _text(filename), labels, {}, classes)


def _parse_any(features: Mapping[str, example.Feature], classes: Sequence[str]) -> Record:
    """Parse a record with several labels, with columns, or of another program."""
    image = b"".join(_bytes(features.get("image", ())))
    if not image:
        raise CorruptRecord("the record has no image")
    numbers = tuple(int(label) for label in features.get("labels", features.get("label", ())))
    labels = tuple(label for label in numbers if label >= 0)
    for label in labels:
        if label >= len(classes):
            raise _wrong_label(label, classes)
    shape = tuple(int(size) for size in features.get("shape", ()))
    return Record(
        image=image,
        label=labels[0] if labels and "labels" not in features else UNLABELLED,
        shape=shape if len(shape) == 3 else _shape(image),
        filename=_text(b"".join(_bytes(features.get("filename", ())))),
        labels=labels,
        columns={
            key: value.decode(errors="replace") if isinstance(value, bytes) else value
            for key, (value, *_) in features.items()
            if key not in _OWN
        },
        classes=classes,
    )


def _shape(image: bytes) -> tuple[int, int, int]:
    from imgrec.codec.image import shape_of

    return shape_of(image, "")


def _bytes(feature: example.Feature) -> Sequence[bytes]:
    return [value for value in feature if isinstance(value, bytes)]


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _wrong_label(label: int, classes: Sequence[str]) -> CorruptRecord:
    return CorruptRecord(f"the record has label {label}, and there are {len(classes)} classes")
