"""One record of a dataset, as its readers see it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar, cast

from imgrec.codec import example
from imgrec.errors import BadImage, CorruptRecord
from imgrec.model import UNLABELLED
from imgrec.text import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Value: TypeAlias = int | float | str | bytes
"""Bytes are those that are no text."""

T = TypeVar("T")

_LABELS = ("labels", "label")
_OWN = frozenset({"filename", "image", "shape"})


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
    columns: Mapping[str, Value | tuple[Value, ...]]
    """What else is in the record: columns of the source, each with one value.

    Other programs may write features of several values, or of none.
    """
    classes: Sequence[str]
    """The names of all classes of the dataset."""

    @property
    def class_name(self) -> str:
        """Name the image's class; empty if it has no label, or may have several."""
        return self.classes[self.label] if self.label >= 0 and self.classes else ""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name all classes of the image."""
        return tuple(self.classes[label] for label in self.labels) if self.classes else ()

    def pil(self) -> Image:
        """Decode with Pillow, in the mode that the image has; raise CorruptRecord if it fails."""
        from imgrec.codec import decode

        with self._naming_it():
            return decode.to_pil(self.image)

    def numpy(self) -> NDArray[np.uint8]:
        """Decode to an array of `shape`, as TensorFlow would; raise CorruptRecord if it fails."""
        from imgrec.codec import decode

        with self._naming_it():
            decoded = decode.to_array(self.image, self.shape)
            if decoded.shape != self.shape:
                raise BadImage(f"the image has shape {decoded.shape}, and its record {self.shape}")
            return decoded

    @contextmanager
    def _naming_it(self) -> Iterator[None]:
        try:
            yield
        except BadImage as error:
            name = printable(self.filename)
            raise CorruptRecord(f"{name}: {error}", path=name) from error

    def __hash__(self) -> int:
        return hash((self.filename, self.label, self.image))

    def __repr__(self) -> str:
        label = list(self.labels) if self.label == UNLABELLED and self.labels else self.label
        names = ", ".join(self.class_names)
        return (
            f"<Record {self.filename!r}: shape {self.shape}, {len(self.image)} bytes, "
            f"label {label}{f' ({names})' if names else ''}>"
        )


def parse(data: bytes, start: int, end: int, classes: Sequence[str]) -> Record:
    """Parse the record in `data[start:end]`; raise CorruptRecord if it is not one of an image."""
    plain = example.decode_plain(data, start, end)
    if plain is None:
        return _parse_any(example.decode(data[start:end]), classes)
    filename, image, label, shape = plain
    labels = (label,) if label >= 0 else ()
    if label >= len(classes) and classes:
        raise _wrong_label(label, classes)
    return Record(image, label, shape, _text(filename), labels, {}, classes)


def _parse_any(features: Mapping[str, example.Feature], classes: Sequence[str]) -> Record:
    """Parse a record with several labels, with columns, or of another program."""
    image = _one(features, "image", bytes)
    if image is None:
        there = ", ".join(map(printable, sorted(features))) or "nothing"
        raise CorruptRecord(f"the record has no feature `image` that is one image, but {there}")
    key = next((key for key in _LABELS if _is_all(features.get(key, ("",)), int)), "")
    labels = tuple(int(label) for label in features.get(key, ()) if int(label) >= 0)
    if classes and labels and max(labels) >= len(classes):
        raise _wrong_label(max(labels), classes)
    shape = features.get("shape", ())
    return Record(
        image=image,
        label=labels[0] if labels and key == "label" else UNLABELLED,
        shape=cast("tuple[int, int, int]", shape)
        if len(shape) == 3 and _is_all(shape, int)
        else _shape(image),
        filename=_text(_one(features, "filename", bytes) or b""),
        labels=labels,
        columns={
            name: _column(feature)
            for name, feature in features.items()
            if name not in _OWN and name != key
        },
        classes=classes,
    )


def _is_all(feature: Sequence[object], kind: type) -> bool:
    return all(isinstance(value, kind) for value in feature)


def _one(features: Mapping[str, example.Feature], name: str, kind: type[T]) -> T | None:
    """Return the value of a feature if it has just one, of that kind."""
    match features.get(name, ()):
        case (value,) if isinstance(value, kind):
            return value
    return None


def _column(feature: example.Feature) -> Value | tuple[Value, ...]:
    values = tuple(_readable(value) for value in feature)
    return values[0] if len(values) == 1 else values


def _readable(value: Value) -> Value:
    if not isinstance(value, bytes):
        return value
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _shape(image: bytes) -> tuple[int, int, int]:
    from imgrec.codec.image import shape_of

    try:
        return shape_of(image, "")
    except BadImage as error:
        raise CorruptRecord(str(error)) from error


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _wrong_label(label: int, classes: Sequence[str]) -> CorruptRecord:
    return CorruptRecord(f"the record has label {label}, and there are {len(classes)} classes")
