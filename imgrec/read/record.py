"""One record of a dataset: an image, its label, and its columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, cast

from imgrec.codec import example
from imgrec.errors import BadImage, CorruptRecord
from imgrec.model import UNLABELLED
from imgrec.text import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from PIL.Image import Image

Value: TypeAlias = int | float | str | bytes
"""Bytes only if they are not UTF-8."""

_NOT_COLUMNS = frozenset({"filename", "image", "shape"})


class Record(NamedTuple):
    """One image as it is packed, and the facts about it."""

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
    """The source's columns, each with one value.

    Records of other programs may have features with several values, or with none.
    """
    classes: Sequence[str]
    """The names of all classes of the dataset."""

    @property
    def class_name(self) -> str:
        """Name the class; "" if the image has no label, or may have several."""
        return self.classes[self.label] if self.label >= 0 and self.classes else ""

    @property
    def class_names(self) -> tuple[str, ...]:
        """Name all classes of the image."""
        return tuple(self.classes[label] for label in self.labels) if self.classes else ()

    def pil(self) -> Image:
        """Decode with Pillow, in the image's own mode; raise CorruptRecord if it fails."""
        from imgrec.codec import pillow

        with self._errors_name_it():
            return pillow.to_pil(self.image)

    def numpy(self) -> NDArray[np.uint8]:
        """Decode to an array of `shape`, as TensorFlow would; raise CorruptRecord if it fails."""
        from imgrec.codec import decode

        with self._errors_name_it():
            decoded = decode.to_array(self.image, self.shape)
            if decoded.shape != self.shape:
                raise BadImage(f"the image has shape {decoded.shape}, and its record {self.shape}")
            return decoded

    @contextmanager
    def _errors_name_it(self) -> Iterator[None]:
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
    _refuse_wrong_label(label, classes)
    labels = (label,) if label >= 0 else ()
    return Record(image, label, shape, _text(filename), labels, {}, classes)


def _parse_any(features: Mapping[str, example.Feature], classes: Sequence[str]) -> Record:
    """Parse a record with several labels, with columns, or of another program."""
    match features.get("image"):
        case (bytes(image),):
            pass
        case _:
            found = ", ".join(map(printable, sorted(features))) or "nothing"
            raise CorruptRecord(f"the record has no feature `image` with one image, but {found}")
    keys = (key for key in ("labels", "label") if _are_ints(features.get(key, ("",))))
    key = next(keys, "")
    labels = tuple(int(label) for label in features.get(key, ()) if int(label) >= 0)
    _refuse_wrong_label(max(labels, default=UNLABELLED), classes)
    shape, names = features.get("shape", ()), features.get("filename", ())
    has_shape = len(shape) == 3 and _are_ints(shape)
    return Record(
        image=image,
        label=labels[0] if labels and key == "label" else UNLABELLED,
        shape=cast("tuple[int, int, int]", shape) if has_shape else _shape_of(image),
        filename=_text(names[0]) if len(names) == 1 and isinstance(names[0], bytes) else "",
        labels=labels,
        columns={
            name: _column(feature)
            for name, feature in features.items()
            if name not in _NOT_COLUMNS and name != key
        },
        classes=classes,
    )


def _are_ints(values: Sequence[object]) -> bool:
    return all(isinstance(value, int) for value in values)


def _column(feature: example.Feature) -> Value | tuple[Value, ...]:
    values = tuple(_decoded(value) if isinstance(value, bytes) else value for value in feature)
    return values[0] if len(values) == 1 else values


def _decoded(value: bytes) -> str | bytes:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return value


def _shape_of(image: bytes) -> tuple[int, int, int]:
    from imgrec.codec.image import shape_of

    try:
        return shape_of(image, "")
    except BadImage as error:
        raise CorruptRecord(str(error)) from error


def _text(name: bytes) -> str:
    return name.decode("utf-8", "surrogateescape")


def _refuse_wrong_label(label: int, classes: Sequence[str]) -> None:
    if classes and label >= len(classes):
        raise CorruptRecord(f"the record has label {label}, but there are {len(classes)} classes")
