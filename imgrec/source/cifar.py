"""CIFAR-10 and CIFAR-100: the python pickles and the binary batches.

A binary batch is one record after another, an image being its red, green and blue planes:
    CIFAR-10:  label u8 · 3072 bytes
    CIFAR-100: coarse label u8 · fine label u8 · 3072 bytes
A python batch is a pickled dict with an array `data` of 3072 bytes an image and lists of labels.
"""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.codec.cifar_pickle import PROTO, ByteArray, Value, loads
from imgrec.errors import BadImage, SourceError
from imgrec.model import TEST, TRAIN, Catalog
from imgrec.notes import warnings_of
from imgrec.options import CifarLabels
from imgrec.options.source import LabelLine
from imgrec.source.label_names import read_label_names
from imgrec.source.raw_pixels import (
    Classes,
    Faults,
    Raster,
    RawSamples,
    RecordLayout,
    Records,
    home_of,
    open_file,
    read_records,
)
from imgrec.source.tree import Context, Match, Tally, TreeFile
from imgrec.stamp import NO_STAMP
from imgrec.storage.blobs import Look, look, read_blob

_RASTER = Raster(height=32, width=32, channels=3, is_planar=True)
_MAX_WHOLE_BYTES = 1 << 30
"""The most that is read of a pickle or a list of names; the largest pickle has 155 MB."""


class _Labels(NamedTuple):
    """Where the labels of one kind are, and the names of their classes."""

    meta: str
    """The file with the class names, in the order of their labels."""
    names_key: str = ""
    """Key of the names in a pickled `meta`; "" for a text file with one name per line."""
    labels_key: str = ""
    """Key of the labels in a pickled batch."""
    lead: int = 0
    """Which of the bytes before an image of a binary batch it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Form:
    """A form in which CIFAR is published."""

    title: str
    training: tuple[str, ...]
    test: str
    labels: Mapping[CifarLabels, _Labels]
    least: int
    """How many of its files must be present to recognise it."""
    lead_bytes: int = 0
    """Labels before each image; none in pickles."""
    is_vague: bool = False
    """Whether files of these names are common elsewhere too."""

    @property
    def files(self) -> frozenset[str]:
        """Return the names of all its files."""
        metas = (labels.meta for labels in self.labels.values())
        return frozenset((*self.training, self.test, *metas))


_NUMBERS = range(1, 6)
_FORMS = (
    _Form(
        title="CIFAR-10, python batches",
        training=tuple(f"data_batch_{number}" for number in _NUMBERS),
        test="test_batch",
        labels=dict.fromkeys(CifarLabels, _Labels("batches.meta", "label_names", "labels")),
        least=2,
    ),
    _Form(
        title="CIFAR-10, binary batches",
        training=tuple(f"data_batch_{number}.bin" for number in _NUMBERS),
        test="test_batch.bin",
        labels=dict.fromkeys(CifarLabels, _Labels("batches.meta.txt")),
        least=2,
        lead_bytes=1,
    ),
    _Form(
        title="CIFAR-100, python files",
        training=("train",),
        test="test",
        labels={
            CifarLabels.FINE: _Labels("meta", "fine_label_names", "fine_labels"),
            CifarLabels.COARSE: _Labels("meta", "coarse_label_names", "coarse_labels"),
        },
        least=3,
        is_vague=True,
    ),
    _Form(
        title="CIFAR-100, binary files",
        training=("train.bin",),
        test="test.bin",
        labels={
            CifarLabels.COARSE: _Labels("coarse_label_names.txt", lead=0),
            CifarLabels.FINE: _Labels("fine_label_names.txt", lead=1),
        },
        least=3,
        lead_bytes=2,
    ),
)
_NAMES = frozenset[str]().union(*(form.files for form in _FORMS))


class _CifarSet(NamedTuple):
    """A folder that holds one of the forms."""

    folder: str
    form: _Form
    files: Mapping[str, TreeFile]
    """Those of the form, by name."""


def detect(listing: Sequence[TreeFile], _: Context) -> Match | None:
    """Find the files of CIFAR, by their names, in the root of a tree or one folder below it."""
    known = {file: None for found in _sets(listing) for file in found.files.values()}
    if not known:
        return None
    return Match(tuple(known), others=tuple(file for file in listing if file not in known))


def _sets(listing: Sequence[TreeFile]) -> Iterator[_CifarSet]:
    folders: dict[str, dict[str, TreeFile]] = {}
    for file in listing:
        folder, _, name = file.path.rpartition("/")
        if name in _NAMES and "/" not in folder:
            folders.setdefault(folder, {})[name] = file
    for folder, named in folders.items():
        for form in _FORMS:
            files = {name: named[name] for name in sorted(form.files & named.keys())}
            is_found = len(files) >= form.least
            if is_found and (not form.is_vague or all(map(_is_pickle, files.values()))):
                yield _CifarSet(folder, form, files)


def _is_pickle(file: TreeFile) -> bool:
    try:
        return look(file.blob, file.size, 2, dated=True).head[:1] == bytes([PROTO])
    except BadImage:
        return False


class _Batch(NamedTuple):
    """A batch to read."""

    file: TreeFile
    size: int
    form: _Form
    labels: _Labels
    classes: Classes


def scan(match: Match, _: str, context: Context) -> Catalog:
    """List the images of CIFAR.

    Raises SourceError, for all files at once, if they are not what they should be.
    """
    form, files = _only(list(_sets(match.files)))
    labels = form.labels[context.options.cifar100_labels]
    _refuse_missing(form, labels, files, context)
    faults = Faults()
    seen: dict[str, Look] = {}
    for filename, file in files.items():
        with faults.of(file):
            seen[filename] = look(file.blob, file.size, 1, dated=True)
    faults.check()
    classes = _classes(labels, files, seen, context)
    places = classes.places()
    images = RawSamples()
    read = _read_binary if form.lead_bytes else _read_pickled
    for name in filter(files.__contains__, (*form.training, form.test)):
        with faults.of(files[name]):
            batch = _Batch(files[name], seen[name].size, form, labels, classes)
            numbers, records = read(batch, context)
            split = TEST if name == form.test else TRAIN
            images.add(split, [classes.names[number] for number in numbers], records)
    faults.check()
    tally = Tally()
    for file in match.others:
        tally.add("not a file of CIFAR", file.path)
    missing_test = [] if form.test in files else [f"{form.test} is missing: there is no test split"]
    return Catalog(
        name="",
        layout=_layout(form, context),
        samples=images.samples(),
        class_folders=places,
        class_order=classes.order,
        notes=(*tally.ignored(), *warnings_of(missing_test)),
        stamp=NO_STAMP.merged(*(one.stamp for one in seen.values())),
    )


def _only(found: Sequence[_CifarSet]) -> tuple[_Form, Mapping[str, TreeFile]]:
    if len(found) > 1:
        listed = ", ".join(f"{one.form.title} in {one.folder or 'the root'}" for one in found)
        raise SourceError(
            f"there is more than one CIFAR set: {listed}",
            hint="pack the folder of one of them, or remove the others",
        )
    return found[0].form, found[0].files


def _refuse_missing(
    form: _Form, labels: _Labels, files: Mapping[str, TreeFile], context: Context
) -> None:
    needed = list(form.training)
    if context.options.label_names is None:
        needed.append(labels.meta)
    if missing := [name for name in needed if name not in files]:
        raise SourceError(
            f"{form.title}: {', '.join(missing)} missing beside {', '.join(files)}",
            hint="unpack all of the archive as it is published, or pack the archive itself",
        )


def _classes(
    labels: _Labels, files: Mapping[str, TreeFile], seen: Mapping[str, Look], context: Context
) -> Classes:
    if context.options.label_names is not None:
        names = _given_names(context.options.label_names)
        return Classes(dict(enumerate(names)), "--label-names")
    meta = files[labels.meta]
    faults = Faults()
    names = ()
    with faults.of(meta):
        data = _whole(meta, seen[labels.meta].size)
        names = _pickled_names(data, labels.names_key) if labels.names_key else _listed_names(data)
    faults.check()
    return Classes(dict(enumerate(names)), meta.path)


def _given_names(given: Sequence[LabelLine]) -> tuple[str, ...]:
    named = read_label_names(given, ["0"])
    if list(named.names) != [str(number) for number in range(len(named.names))]:
        raise SourceError(
            "--label-names does not name CIFAR's labels, which start at 0",
            hint="give a name for each label, from 0 on",
        )
    return named.order


def _whole(file: TreeFile, size: int) -> bytes:
    if size > _MAX_WHOLE_BYTES:
        raise SourceError(f"{size:,} bytes, far more than such a file of CIFAR has")
    return read_blob(file.blob, size)


def _listed_names(data: bytes) -> tuple[str, ...]:
    lines = _text(data).removeprefix("\ufeff").splitlines()
    return tuple(line.strip() for line in lines if line.strip())


def _pickled_names(data: bytes, key: str) -> tuple[str, ...]:
    names = _entry(loads(data), key)
    if not isinstance(names, list):
        raise SourceError(f"its {key} are not a list")
    texts = [_text(name) if isinstance(name, bytes) else name for name in names]
    if not all(isinstance(text, str) for text in texts):
        raise SourceError(f"its {key} are not all text")
    return tuple(map(str, texts))


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise SourceError("its names are not UTF-8", offset=error.start) from error


def _entry(pickled: Mapping[str, Value], key: str) -> Value:
    if key not in pickled:
        raise SourceError(f"a pickle without {key}")
    return pickled[key]


def _read_pickled(batch: _Batch, context: Context) -> tuple[Sequence[int], Records]:
    pickled = loads(_whole(batch.file, batch.size))
    data, labels = _entry(pickled, "data"), _entry(pickled, batch.labels.labels_key)
    if not isinstance(data, ByteArray) or data.shape[1:] != (_RASTER.size,):
        shape = data.shape if isinstance(data, ByteArray) else "not an array"
        raise SourceError(f"its data is {shape}, expected (images, {_RASTER.size})")
    if not isinstance(labels, list):
        raise SourceError(f"its {batch.labels.labels_key} are not a list")
    numbers = [label for label in labels if type(label) is int]
    if len(numbers) != len(labels):
        place = next(place for place, label in enumerate(labels) if type(label) is not int)
        raise SourceError(f"the label of image {place} is not an integer")
    images = data.shape[0]
    if images != len(numbers) or not images:
        raise SourceError(f"{images:,} images, but {len(numbers):,} labels")
    batch.classes.refuse_unnamed(numbers)
    return numbers, read_records(io.BytesIO(data.data), RecordLayout(images, _RASTER), context)


def _read_binary(batch: _Batch, context: Context) -> tuple[Sequence[int], Records]:
    stride = batch.form.lead_bytes + _RASTER.size
    images, left = divmod(batch.size, stride)
    if left or not images:
        raise SourceError(
            f"{batch.size:,} bytes do not divide into images of {stride:,} bytes: "
            f"{images:,} and {left:,} bytes"
        )
    layout = RecordLayout(images, _RASTER, batch.form.lead_bytes, home_of(batch.file))
    with open_file(batch.file, batch.size) as stream:
        records = read_records(stream, layout, context)
    numbers = records.leads[batch.labels.lead]
    batch.classes.refuse_unnamed(numbers)
    return numbers, records


def _layout(form: _Form, context: Context) -> str:
    has_two = len(set(form.labels.values())) > 1
    return f"{form.title}, {context.options.cifar100_labels} labels" if has_two else form.title
