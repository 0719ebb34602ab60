"""Images in NumPy files: `.npz` such as Keras' `mnist.npz` and MedMNIST, or pairs of `.npy`."""

from __future__ import annotations

import os
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import IO, TYPE_CHECKING, NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, Catalog, SourceLayout, split_order
from imgrec.options import SourceKind
from imgrec.source.archive_members import Allowance
from imgrec.source.label_names import named_classes
from imgrec.source.pixels import Classes, PixelSamples, Raster, RecordLayout, read_records
from imgrec.source.tree import Context, Match, TreeFile, local_copy
from imgrec.source.words import split_word, words
from imgrec.text import printable

if TYPE_CHECKING:
    import numpy as np

_IMAGES = frozenset({"x", "image", "images", "img", "imgs", "data", "pixels"})
_LABELS = frozenset({"y", "label", "labels", "target", "targets", "class", "classes"})


class _Array(NamedTuple):
    """One array of a file, and where its values begin."""

    name: str
    shape: tuple[int, ...]
    dtype: np.dtype[np.generic]
    file: str
    member: str
    """Its name in an `.npz`; "" for an `.npy`."""
    start: int


class _Pair(NamedTuple):
    split: str
    images: _Array
    labels: _Array | None


def detect(listing: Sequence[TreeFile], _: Context) -> Match | None:
    """Return the NumPy files of a listing."""
    files = tuple(file for file in listing if file.path.lower().endswith((".npy", ".npz")))
    return Match(files) if files else None


def scan(match: Match, root: str, context: Context) -> Catalog:
    """List the images of NumPy files.

    Raises SourceError if arrays are not 8-bit images, or if labels do not fit them.
    """
    arrays = [
        array
        for file in match.files
        for array in _arrays(local_copy(file, context), file.path, context)
    ]
    pairs = _pairs(arrays, root)
    samples = PixelSamples()
    numbers: set[int] = set()
    for pair in pairs:
        labels = _read_labels(pair, root)
        numbers.update(labels)
        names = [str(label) for label in labels] if pair.labels else [""] * pair.images.shape[0]
        layout = _layout(pair.images)
        with _opened(pair.images) as stream:
            samples.add(pair.split, names, read_records(stream, layout, context))
    classes = Classes({number: str(number) for number in numbers}, root)
    catalog = Catalog(
        name="",
        layout=SourceLayout(kind=SourceKind.NUMPY, sentence="; ".join(map(_describe, pairs))),
        samples=samples.samples(),
        class_folders=classes.class_folders() if numbers else {},
        class_order=classes.order,
    )
    return named_classes(catalog, context.options.label_names, root)


def _arrays(path: str, shown: str, context: Context) -> Iterator[_Array]:
    if path.lower().endswith(".npy"):
        with open(path, "rb") as file:
            yield _read_header(file, os.path.getsize(path), path, "", shown)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            allowance = Allowance(context.options.max_archive_bytes, os.path.getsize(path))
            allowance.take(shown, sum(info.file_size for info in members))
            for info in members:
                with archive.open(info) as file:
                    array = _read_header(file, info.file_size, path, info.filename, shown)
                # numpy.savez(file, array) names no array: the file's name says what it is.
                is_only = len(members) == 1 and array.name == "arr_0"
                yield array._replace(name=os.path.basename(shown)[:-4]) if is_only else array
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise SourceError(
            f"{shown} is damaged, or not an .npz file: {error}", path=shown
        ) from error


def _read_header(file: IO[bytes], file_bytes: int, path: str, member: str, shown: str) -> _Array:
    """Read the header of an array.

    Raises SourceError if there is none, if it is of objects, or if values are missing: nothing of
    the size that a header declares is allocated before.
    """
    from numpy.lib import format as npy

    name = (member or os.path.basename(shown))[:-4]
    where = printable(f"{shown}: {name}")
    try:
        version, _ = npy.read_magic(file)
        if version not in (1, 2, 3):
            raise ValueError(f"unknown version {version}")
        read = npy.read_array_header_1_0 if version == 1 else npy.read_array_header_2_0
        shape, is_fortran, dtype = read(file)
    except (ValueError, TypeError, SyntaxError) as error:
        raise SourceError(f"{where} is not a NumPy array: {error}", path=shown) from error
    if dtype.hasobject or dtype.names or is_fortran:
        raise SourceError(
            f"{where} is an array of objects, or in Fortran order",
            hint="save it as an array of uint8, as numpy.save does by default",
            path=shown,
        )
    present = file_bytes - file.tell()
    if prod(shape) * dtype.itemsize > present:
        raise SourceError(
            f"{where} is cut short: its shape {shape} needs more than the {present:,} bytes in it",
            hint="download the file again",
            path=shown,
        )
    return _Array(name, shape, dtype, path, member, file.tell())


def _pairs(arrays: Sequence[_Array], root: str) -> list[_Pair]:
    """Match images with labels by the split in their names."""
    images: dict[str, _Array] = {}
    labels: dict[str, _Array] = {}
    for array in arrays:
        found = words(array.name)
        if _IMAGES & {*found}:
            role = images
        elif _LABELS & {*found}:
            role = labels
        elif len(array.shape) in (3, 4):
            role = images
        else:
            continue
        split = next(filter(None, map(split_word, found)), "")
        if split in role:
            names = f"{printable(role[split].name)} and {printable(array.name)}"
            raise SourceError(
                f"{root}: {names} are for one split",
                hint="give a file with one array of images and one of labels for each split",
                path=root,
            )
        role[split] = array
    if not images:
        raise SourceError(
            f"{root} has no array of images, but {', '.join(printable(a.name) for a in arrays)}",
            hint="call them x_train and y_train, or train_images and train_labels",
            path=root,
        )
    if lost := sorted(split for split in images if split not in labels and split != TEST):
        raise SourceError(
            f"{root}: {printable(images[lost[0]].name)} has no labels",
            hint="name them like the images: y_train for x_train",
            path=root,
        )
    order = sorted(images, key=split_order)
    return [_Pair(split, images[split], labels.get(split)) for split in order]


def _layout(images: _Array) -> RecordLayout:
    name = printable(images.name)
    if images.dtype.str != "|u1":
        raise SourceError(
            f"{name} holds values of type {images.dtype}, not 8-bit pixels",
            hint="save images as uint8, from 0 to 255",
        )
    count, *sides = images.shape if len(images.shape) in (3, 4) else (0,)
    channels = sides[2] if len(sides) == 3 else 1
    if channels not in (1, 3, 4) or not count or min(sides, default=0) < 1:
        raise SourceError(
            f"{name} has the shape {images.shape}, expected (images, height, width) or "
            "(images, height, width, 1, 3 or 4)",
            hint="put the channels last",
        )
    home = (images.file, images.start) if not images.member else None
    return RecordLayout(count, Raster(sides[0], sides[1], channels), home=home)


@contextmanager
def _opened(array: _Array) -> Iterator[IO[bytes]]:
    """Open an array's file after its header."""
    if not array.member:
        with open(array.file, "rb") as file:
            file.seek(array.start)
            yield file
        return
    with zipfile.ZipFile(array.file) as archive, archive.open(array.member) as stream:
        stream.read(array.start)
        yield stream


def _read_labels(pair: _Pair, root: str) -> list[int]:
    """Return the labels of images; raise SourceError unless there is one for each."""
    import numpy as np

    array = pair.labels
    if array is None:
        return []
    name, count = printable(array.name), pair.images.shape[0]
    if array.shape not in ((count,), (count, 1)) or array.dtype.kind not in "iu":
        raise SourceError(
            f"{root}: {name} has the shape {array.shape} of type {array.dtype}, "
            f"expected one integer for each of {count:,} images",
            hint="several labels an image, and one-hot arrays, are not read from NumPy files",
            path=root,
        )
    with _opened(array) as stream:
        data = stream.read(count * array.dtype.itemsize)
    if len(data) < count * array.dtype.itemsize:
        raise SourceError(f"{root}: {name} is cut short", path=root)
    return [int(label) for label in np.frombuffer(data, array.dtype)]


def _describe(pair: _Pair) -> str:
    labels = f", {printable(pair.labels.name)} -> label" if pair.labels else ", without labels"
    split = f" -> {pair.split}" if pair.split else ""
    return f"NumPy: {printable(pair.images.name)}{split}{labels}"
