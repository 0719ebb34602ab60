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
from imgrec.model import TEST, TRAIN, Catalog, SourceLayout
from imgrec.notes import warnings_of
from imgrec.options import CifarLabels, SourceKind
from imgrec.options.source import LabelLine
from imgrec.source.label_names import read_label_names
from imgrec.source.pixels import (
    Classes,
    Faults,
    PixelSamples,
    Raster,
    RecordLayout,
    Records,
    home_of,
    open_file,
    read_records,
)
from imgrec.source.tree import Context, Match, Tally, TreeFile
from imgrec.stamp import NO_STAMP
from imgrec.storage.blobs import BlobHead, read_blob, read_head

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
    """Which of the bytes before an image of a binary batch is the label."""


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
    """Whether other sources have files of these names too."""

    @property
    def files(self) -> frozenset[str]:
        """Return the names of all its files."""
        metas = (labels.meta for labels in self.labels.values())
        return frozenset((*self.training, self.test, *metas))


_FORMS = (
    _Form(
        title="CIFAR-10, python batches",
        training=tuple(f"data_batch_{number}" for number in range(1, 6)),
        test="test_batch",
        labels=dict.fromkeys(CifarLabels, _Labels("batches.meta", "label_names", "labels")),
        least=2,
    ),
    _Form(
        title="CIFAR-10, binary batches",
        training=tuple(f"data_batch_{number}.bin" for number in range(1, 6)),
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
_FILES = frozenset[str]().union(*(form.files for form in _FORMS))


class _CifarSet(NamedTuple):
    """A folder that holds one of the forms."""

    folder: str
    form: _Form
    files: Mapping[str, TreeFile]
    """The files of the form, by name."""


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
        if name in _FILES and "/" not in folder:
            folders.setdefault(folder, {})[name] = file
    for folder, named in folders.items():
        for form in _FORMS:
            files = {name: named[name] for name in sorted(form.files & named.keys())}
            is_found = len(files) >= form.least
            if is_found and (not form.is_vague or all(map(_is_pickle, files.values()))):
                yield _CifarSet(folder, form, files)


def _is_pickle(file: TreeFile) -> bool:
    try:
        return read_head(file.blob, file.size, 2, dated=True).head[:1] == bytes([PROTO])
    except BadImage:
        return False


def scan(match: Match, _: str, context: Context) -> Catalog:
    """List the images of CIFAR; raise SourceError, for all files at once, if they are damaged."""
    form, files = _only(list(_sets(match.files)))
    labels = form.labels[context.options.cifar100_labels]
    _refuse_missing(form, labels, files, context)
    faults = Faults()
    looks: dict[str, BlobHead] = {}
    for name, file in files.items():
        with faults.of(file):
            looks[name] = read_head(file.blob, file.size, 1, dated=True)
    faults.check()
    if context.options.label_names is not None:
        classes = _given_classes(context.options.label_names)
    else:
        classes = _own_classes(labels, files[labels.meta], looks[labels.meta].size)
    class_folders = classes.class_folders()
    images = PixelSamples()
    read = _read_binary if form.lead_bytes else _read_pickled
    for name in filter(files.__contains__, (*form.training, form.test)):
        with faults.of(files[name]):
            numbers, records = read(files[name], looks[name].size, form, labels, context)
            classes.refuse_unnamed(numbers)
            split = TEST if name == form.test else TRAIN
            images.add(split, [classes.names[number] for number in numbers], records)
    faults.check()
    tally = Tally()
    for file in match.others:
        tally.add("not a file of CIFAR", file.path)
    missing_test = [] if form.test in files else [f"{form.test} is missing: there is no test split"]
    return Catalog(
        name="",
        layout=_layout(form, context.options.cifar100_labels),
        samples=images.samples(),
        class_folders=class_folders,
        class_order=classes.order,
        notes=(*tally.ignored(), *warnings_of(missing_test)),
        stamp=NO_STAMP.merged(*(one.stamp for one in looks.values())),
    )


def _layout(form: _Form, labels: CifarLabels) -> SourceLayout:
    has_two_kinds = len(set(form.labels.values())) > 1
    return SourceLayout(
        kind=SourceKind.CIFAR,
        sentence=form.title + f", {labels} labels" * has_two_kinds,
        has_coarse_labels=has_two_kinds and labels is CifarLabels.COARSE,
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
    meta = [labels.meta] if context.options.label_names is None else []
    if missing := [name for name in (*form.training, *meta) if name not in files]:
        raise SourceError(
            f"{form.title}: {', '.join(missing)} missing beside {', '.join(files)}",
            hint="unpack the whole published archive, or pack the archive itself",
        )


def _given_classes(given: Sequence[LabelLine]) -> Classes:
    named = read_label_names(given, ["0"])
    if list(named.names) != [str(number) for number in range(len(named.names))]:
        raise SourceError(
            "--label-names does not name CIFAR's labels, which start at 0",
            hint="give a name for each label, from 0 on",
        )
    return Classes(dict(enumerate(named.order)), "--label-names")


def _own_classes(labels: _Labels, meta: TreeFile, size: int) -> Classes:
    faults = Faults()
    names: list[str] = []
    with faults.of(meta):
        data = _whole(meta, size)
        if labels.names_key:
            names = [_text(name) for name in _list_in(loads(data), labels.names_key)]
        else:
            lines = _text(data).removeprefix("\ufeff").splitlines()
            names = [line.strip() for line in lines if line.strip()]
    faults.check()
    return Classes(dict(enumerate(names)), meta.path)


def _whole(file: TreeFile, size: int) -> bytes:
    if size > _MAX_WHOLE_BYTES:
        raise SourceError(f"{size:,} bytes are too many for such a file of CIFAR")
    return read_blob(file.blob, size)


def _text(value: Value) -> str:
    try:
        text = value.decode() if isinstance(value, bytes) else value
    except UnicodeDecodeError as error:
        raise SourceError("its names are not UTF-8", offset=error.start) from error
    if not isinstance(text, str):
        raise SourceError("its names are not all text")
    return text


def _entry(pickled: Mapping[str, Value], key: str) -> Value:
    if key not in pickled:
        raise SourceError(f"a pickle without {key}")
    return pickled[key]


def _list_in(pickled: Mapping[str, Value], key: str) -> list[Value]:
    entry = _entry(pickled, key)
    if not isinstance(entry, list):
        raise SourceError(f"its {key} are not a list")
    return entry


def _read_pickled(
    file: TreeFile, size: int, _: _Form, labels: _Labels, context: Context
) -> tuple[Sequence[int], Records]:
    pickled = loads(_whole(file, size))
    data = _entry(pickled, "data")
    if not isinstance(data, ByteArray) or data.shape[1:] != (_RASTER.size,):
        shape = data.shape if isinstance(data, ByteArray) else "not an array"
        raise SourceError(f"its data is {shape}, expected (images, {_RASTER.size})")
    numbers: list[int] = []
    for place, label in enumerate(_list_in(pickled, labels.labels_key)):
        if type(label) is not int:  # a bool is an int, too
            raise SourceError(f"the label of image {place} is not an integer")
        numbers.append(label)
    images = data.shape[0]
    if images != len(numbers) or not images:
        raise SourceError(f"{images:,} images, but {len(numbers):,} labels")
    return numbers, read_records(io.BytesIO(data.data), RecordLayout(images, _RASTER), context)


def _read_binary(
    file: TreeFile, size: int, form: _Form, labels: _Labels, context: Context
) -> tuple[Sequence[int], Records]:
    stride = form.lead_bytes + _RASTER.size
    images, rest = divmod(size, stride)
    if rest or not images:
        raise SourceError(
            f"{size:,} bytes are not a multiple of {stride:,}: {images:,} images and {rest:,} bytes"
        )
    layout = RecordLayout(images, _RASTER, form.lead_bytes, home_of(file))
    with open_file(file, size) as stream:
        records = read_records(stream, layout, context)
    return records.leads[labels.lead], records
