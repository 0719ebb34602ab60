"""Images in NumPy files: `.npz` such as Keras' `mnist.npz` and MedMNIST, or pairs of `.npy`."""

from __future__ import annotations

import os
import re
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import IO, NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, VAL, Catalog
from imgrec.source.archive_members import Allowance
from imgrec.source.label_names import named_classes
from imgrec.source.raw_pixels import Classes, Raster, RawSamples, RecordLayout, read_records
from imgrec.source.split_words import split_word, words
from imgrec.source.tree import Context, Match, TreeFile, local_copy
from imgrec.text import printable

_IMAGES = frozenset({"x", "image", "images", "img", "imgs", "data", "pixels"})
_LABELS = frozenset({"y", "label", "labels", "target", "targets", "class", "classes"})
_MAGIC = b"\x93NUMPY"
_MOST_HEADER = 1 << 16


class _Array(NamedTuple):
    """One array of a file: its name, shape and type, and where its values begin."""

    name: str
    shape: tuple[int, ...]
    kind: str
    """As NumPy writes it, such as `|u1`."""
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
    files = tuple(file for file in listing if is_numpy(file.path))
    return Match(files) if files else None


def is_numpy(name: str) -> bool:
    """Tell whether a file has one of NumPy's suffixes.

    >>> is_numpy("mnist.npz"), is_numpy("mnist.zip")
    (True, False)
    """
    return name.lower().endswith((".npy", ".npz"))


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
    samples = RawSamples()
    numbers: set[int] = set()
    for pair in pairs:
        labels = _labels(pair, root)
        numbers.update(labels)
        names = [str(label) for label in labels] if pair.labels else [""] * pair.images.shape[0]
        with _opened(pair.images) as stream:
            records = read_records(stream, _layout(pair.images), context)
        samples.add(pair.split, names, records)
    classes = Classes({number: str(number) for number in numbers}, root)
    catalog = Catalog(
        name="",
        layout="; ".join(map(_describe, pairs)),
        samples=samples.samples(),
        class_folders=classes.places() if numbers else {},
        class_order=classes.order,
    )
    return named_classes(catalog, context.options.label_names, root)


def _arrays(path: str, shown: str, context: Context) -> Iterator[_Array]:
    if path.lower().endswith(".npy"):
        name = os.path.basename(shown)[:-4]
        with open(path, "rb") as file:
            yield _header(file, os.path.getsize(path), name, path, "", shown)
        return
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if info.filename.endswith(".npy")]
            allowance = Allowance(context.options.max_archive_bytes, os.path.getsize(path))
            allowance.take(shown, sum(info.file_size for info in members))
            for info in members:
                with archive.open(info) as file:
                    name = info.filename[:-4]
                    yield _header(file, info.file_size, name, path, info.filename, shown)
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError) as error:
        raise SourceError(
            f"{shown} is damaged, or not an .npz file: {error}", path=shown
        ) from error


def _header(
    file: IO[bytes], file_bytes: int, name: str, path: str, member: str, shown: str
) -> _Array:
    """Read the header of an array.

    Raises SourceError if there is none, if it is of objects, or if the values it promises are not
    all there: nothing of the size that a header declares is allocated before.
    """
    where = printable(f"{shown}: {name}")
    head = file.read(10)
    if len(head) < 10 or not head.startswith(_MAGIC) or head[6] not in (1, 2, 3):
        raise SourceError(f"{where} is not a NumPy array", path=shown)
    size, start = struct.unpack("<H", head[8:10])[0], 10
    if head[6] > 1:
        size, start = struct.unpack("<I", head[8:10] + file.read(2))[0], 12
    if size > _MOST_HEADER:
        raise SourceError(f"{where} has a header of {size:,} bytes", path=shown)
    text = file.read(size).decode("latin-1")
    if len(text) < size:
        raise SourceError(f"{where} is cut short in its header", path=shown)
    match = re.fullmatch(
        r"\{'descr': '([<>|=]?[a-zA-Z]\d+)', 'fortran_order': (True|False), "
        r"'shape': \(([\d, ]*)\),? *\}\s*",
        text,
    )
    if match is None or match[2] == "True":
        raise SourceError(
            f"{where} is an array of objects, or in Fortran order",
            hint="save it as an array of uint8, as numpy.save does by default",
            path=shown,
        )
    shape = tuple(int(part) for part in match[3].replace(" ", "").split(",") if part)
    needed, present = prod(shape) * int(match[1].lstrip("<>|=")[1:]), file_bytes - start - size
    if needed > present:
        raise SourceError(
            f"{where} is cut short: its shape {shape} needs more than the {present:,} bytes in it",
            hint="get the file again",
            path=shown,
        )
    return _Array(name, shape, match[1], path, member, start + size)


def _pairs(arrays: Sequence[_Array], root: str) -> list[_Pair]:
    """Match images with labels by the split in their names."""
    images: dict[str, _Array] = {}
    labels: dict[str, _Array] = {}
    for array in arrays:
        found = words(array.name)
        role = images if _IMAGES & {*found} else labels if _LABELS & {*found} else None
        if role is None:
            role = images if len(array.shape) in (3, 4) else None
        if role is None:
            continue
        split = next(filter(None, map(split_word, found)), "")
        if split in role:
            raise SourceError(
                f"{root}: {printable(role[split].name)} and {printable(array.name)} are for one "
                "split",
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
    order = {TRAIN: 0, "": 0, VAL: 1, TEST: 2}
    pairs = [_Pair(split, images[split], labels.get(split)) for split in images]
    return sorted(pairs, key=lambda pair: order.get(pair.split, 3))


def _layout(images: _Array) -> RecordLayout:
    where = printable(images.name)
    if images.kind not in ("|u1", "u1", "<u1", ">u1"):
        raise SourceError(
            f"{where} holds values of type {images.kind}, not 8-bit pixels",
            hint="save images as uint8, from 0 to 255",
        )
    count, *sides = images.shape if len(images.shape) in (3, 4) else (0,)
    channels = sides[2] if len(sides) == 3 else 1
    if channels not in (1, 3, 4) or not count or min(sides, default=0) < 1:
        raise SourceError(
            f"{where} has the shape {images.shape}, which is not (images, height, width) or "
            "(images, height, width, 1, 3 or 4)",
            hint="put the channels last",
        )
    raster = Raster(sides[0], sides[1], channels)
    home = (images.file, images.start) if not images.member else None
    return RecordLayout(count, raster, home=home)


@contextmanager
def _opened(array: _Array) -> Iterator[IO[bytes]]:
    """Open an array's file behind its header."""
    if not array.member:
        with open(array.file, "rb") as file:
            file.seek(array.start)
            yield file
        return
    with zipfile.ZipFile(array.file) as archive, archive.open(array.member) as stream:
        stream.read(array.start)
        yield stream


def _labels(pair: _Pair, root: str) -> list[int]:
    """Return the labels of images; raise SourceError unless there is one for each."""
    array = pair.labels
    if array is None:
        return []
    count = pair.images.shape[0]
    form = {"1": "b", "2": "h", "4": "i", "8": "q"}.get(array.kind[-1])
    is_flat = array.shape == (count,) or array.shape == (count, 1)
    if not is_flat or form is None or array.kind[-2] not in "iu":
        raise SourceError(
            f"{root}: {printable(array.name)} has the shape {array.shape} of type {array.kind}, "
            f"not one whole number for each of {count:,} images",
            hint="several labels an image, and one-hot arrays, are not read from NumPy files",
            path=root,
        )
    order = ">" if array.kind[0] == ">" else "<"
    form = form if array.kind[-2] == "i" else form.upper()
    width = int(array.kind[-1])
    with _opened(array) as stream:
        data = stream.read(count * width)
    if len(data) < count * width:
        raise SourceError(f"{root}: {printable(array.name)} is cut short", path=root)
    return [value for (value,) in struct.iter_unpack(order + form, data)]


def _describe(pair: _Pair) -> str:
    labels = f", {printable(pair.labels.name)} -> label" if pair.labels else ", without labels"
    split = f" -> {pair.split}" if pair.split else ""
    return f"NumPy: {printable(pair.images.name)}{split}{labels}"
