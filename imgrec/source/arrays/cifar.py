"""CIFAR-10 and CIFAR-100: the python pickles and the binary batches.

A binary batch is one record after another, an image being its red, green and blue planes:
    CIFAR-10:  label u8 · 3072 bytes
    CIFAR-100: coarse label u8 · fine label u8 · 3072 bytes
A python batch is a pickled dict with an array `data` of 3072 bytes an image and lists of labels.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from imgrec.codec.cifar_pickle import PROTO, ByteArray, Value, loads
from imgrec.errors import BadImage, SourceError
from imgrec.model import TEST, TRAIN, Catalog
from imgrec.options.source import LabelLine
from imgrec.source.arrays.cifar_forms import FORMS, Form, Labels
from imgrec.source.arrays.samples import (
    Faults,
    Raster,
    RecordLayout,
    Records,
    SampleColumns,
    TreeFile,
    class_places,
    files_of,
    open_file,
    read_records,
    refuse_outside,
)
from imgrec.source.context import Context
from imgrec.source.label_names import read_label_names
from imgrec.source.tally import Tally
from imgrec.source.tree import Folder
from imgrec.stamp import NO_STAMP
from imgrec.storage.blobs import Look, look, read_blob

_NAMES = frozenset[str]().union(*(form.files for form in FORMS))
_RASTER = Raster(height=32, width=32, channels=3, is_planar=True)
_MAX_WHOLE_BYTES = 1 << 30
"""The most that is read of a pickle or a list of names; the largest pickle has 155 MB."""


class _Home(NamedTuple):
    """A folder that holds one of the forms."""

    folder: str
    form: Form
    files: Mapping[str, TreeFile]
    """Those of the form, by name."""


class CifarFiles(NamedTuple):
    """The files of CIFAR in a tree."""

    homes: tuple[_Home, ...]
    others: tuple[str, ...]
    """Paths of all other files."""


def find(folders: Sequence[Folder]) -> CifarFiles | None:
    """Find the files of CIFAR, by their names, in the root of a tree or the folders right in it."""
    homes = [home for folder in folders if "/" not in folder.path for home in _homes_in(folder)]
    if not homes:
        return None
    known = {file.path for home in homes for file in home.files.values()}
    paths = [file.path for folder in folders for file in files_of(folder)]
    return CifarFiles(tuple(homes), tuple(path for path in paths if path not in known))


def _homes_in(folder: Folder) -> list[_Home]:
    present = _NAMES.intersection(folder.files)
    forms = [form for form in FORMS if len(form.files & present) >= form.least]
    named = dict(zip(folder.files, files_of(folder), strict=True)) if forms else {}
    homes = [
        _Home(folder.path, form, {name: named[name] for name in sorted(form.files & named.keys())})
        for form in forms
    ]
    return [
        home
        for home in homes
        if not home.form.is_vague or all(map(_is_pickle, home.files.values()))
    ]


def _is_pickle(file: TreeFile) -> bool:
    try:
        return look(file.blob, file.size, 2, dated=True).head[:1] == bytes([PROTO])
    except BadImage:
        return False


class _Classes(NamedTuple):
    names: tuple[str, ...]
    where: str
    """What names them."""


class _Batch(NamedTuple):
    """A batch that is to be read."""

    file: TreeFile
    size: int
    form: Form
    labels: Labels
    classes: _Classes


def scan(name: str, found: CifarFiles, context: Context) -> Catalog:
    """List the images of the one CIFAR set that was found.

    Raises SourceError, for all files at once, if they are not what they should be.
    """
    form, files = _only(found.homes)
    labels = form.labels[context.options.cifar100_labels]
    _refuse_missing(form, labels, files, context)
    faults = Faults()
    seen: dict[str, Look] = {}
    for filename, file in files.items():
        with faults.of(file):
            seen[filename] = look(file.blob, file.size, 1, dated=True)
    faults.check()
    classes = _classes(labels, files, seen, context)
    places = class_places(classes.names, classes.where)
    columns = SampleColumns()
    for batch in filter(files.__contains__, form.batches):
        with faults.of(files[batch]):
            numbers, records = (_read_binary if form.lead_bytes else _read_pickled)(
                _Batch(files[batch], seen[batch].size, form, labels, classes), context
            )
            split = TEST if batch == form.test else TRAIN
            columns.add(split, [classes.names[number] for number in numbers], records)
    faults.check()
    tally = Tally()
    for path in found.others:
        tally.add("not a file of CIFAR", path)
    return Catalog(
        name=name,
        layout=_layout(form, context),
        samples=columns.samples(),
        class_folders=places,
        class_order=classes.names,
        ignored=tally.ignored(),
        warnings=() if form.test in files else (f"{form.test} is missing: there is no test split",),
        stamp=NO_STAMP.merged(*(one.stamp for one in seen.values())),
    )


def _only(homes: Sequence[_Home]) -> tuple[Form, Mapping[str, TreeFile]]:
    if len(homes) > 1:
        listed = ", ".join(f"{home.form.title} in {home.folder or 'the root'}" for home in homes)
        raise SourceError(
            f"there is more than one CIFAR set: {listed}",
            hint="pack the folder of one of them, or take the others out",
        )
    return homes[0].form, homes[0].files


def _refuse_missing(
    form: Form, labels: Labels, files: Mapping[str, TreeFile], context: Context
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
    labels: Labels, files: Mapping[str, TreeFile], seen: Mapping[str, Look], context: Context
) -> _Classes:
    if context.options.label_names is not None:
        return _Classes(_given_names(context.options.label_names), "--label-names")
    meta = files[labels.meta]
    faults = Faults()
    names: tuple[str, ...] = ()
    with faults.of(meta):
        data = _whole(meta, seen[labels.meta].size)
        names = _pickled_names(data, labels.names_key) if labels.names_key else _listed_names(data)
    faults.check()
    return _Classes(names, meta.path)


def _given_names(given: Sequence[LabelLine]) -> tuple[str, ...]:
    named = read_label_names(given, ["0"])
    if list(named.names) != [str(number) for number in range(len(named.names))]:
        raise SourceError(
            "--label-names does not name the labels from 0 on, which CIFAR has",
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
        raise SourceError(f"its {key} are no list")
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
        shape = data.shape if isinstance(data, ByteArray) else "no array"
        raise SourceError(f"its data is {shape}, not (images, {_RASTER.size})")
    if not isinstance(labels, list):
        raise SourceError(f"its {batch.labels.labels_key} are no list")
    numbers = [label for label in labels if type(label) is int]
    if len(numbers) != len(labels):
        place = next(place for place, label in enumerate(labels) if type(label) is not int)
        raise SourceError(f"the label of image {place} is no integer")
    images = data.shape[0]
    if images != len(numbers) or not images:
        raise SourceError(f"{images:,} images, but {len(numbers):,} labels")
    _refuse_outside(numbers, batch.classes)
    layout = RecordLayout(images, 0, _RASTER, None)
    return numbers, read_records(io.BytesIO(data.data), layout, context)


def _read_binary(batch: _Batch, context: Context) -> tuple[Sequence[int], Records]:
    stride = batch.form.lead_bytes + _RASTER.size
    images, left = divmod(batch.size, stride)
    if left or not images:
        raise SourceError(
            f"{batch.size:,} bytes are no whole number of images of {stride:,} bytes: "
            f"{images:,} and {left:,} bytes"
        )
    layout = RecordLayout(images, batch.form.lead_bytes, _RASTER, batch.file.home)
    with open_file(batch.file, batch.size) as stream:
        records = read_records(stream, layout, context)
    numbers = records.leads[batch.labels.lead]
    _refuse_outside(numbers, batch.classes)
    return numbers, records


def _refuse_outside(numbers: Sequence[int], classes: _Classes) -> None:
    refuse_outside(numbers, range(len(classes.names)), classes.where)


def _layout(form: Form, context: Context) -> str:
    choice = context.options.cifar100_labels
    has_two = len(set(form.labels.values())) > 1
    return f"{form.title}, {choice} labels" if has_two else form.title
