"""Pixels in CSV: a row for each image, as in Kaggle's digits and faces."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, Catalog, Column, Samples, Skipped
from imgrec.options import ColumnKind
from imgrec.source.arrays.pixel_images import PixelFile, PixelImages, read_images
from imgrec.source.arrays.pixel_rows import PixelForm, Shape, is_pixel_row
from imgrec.source.arrays.samples import class_prefix
from imgrec.source.context import Context
from imgrec.source.manifests.columns import is_split_column
from imgrec.source.manifests.labels import Labels, first_rows, read_labels
from imgrec.source.manifests.tables import TableKind, delimited_rows, kind_of
from imgrec.source.manifests.text_file import with_fallback
from imgrec.source.split_words import split_of_name
from imgrec.source.tally import Tally
from imgrec.stamp import NO_STAMP, stamp_of
from imgrec.text import name_of

_KINDS = (TableKind.CSV, TableKind.TSV, TableKind.TEXT)


def is_pixel_table(path: str) -> bool:
    """Tell whether a file, or one right in a folder, is a table of pixels."""
    try:
        if os.path.isdir(path):
            return any(map(is_pixel_table, _tables_in(path)))
        if kind_of(path) not in _KINDS:
            return False
        first, _ = with_fallback(partial(_first_row, path), path, "")
    except SourceError:
        return False
    return bool(first) and is_pixel_row(first)


def _first_row(path: str, encoding: str) -> list[str]:
    return next((cells for _, cells in delimited_rows(path, path, [], encoding)), [])


def _tables_in(folder: str) -> list[str]:
    """Return the files right in a folder that are tables by their suffix."""
    names = [name for name in _listing(folder) if name[0] not in "._" and "." in name]
    paths = [os.path.join(folder, name) for name in names]
    return [path for path in paths if kind_of(path) in (TableKind.CSV, TableKind.TSV)]


def _listing(folder: str) -> list[str]:
    try:
        return sorted(os.listdir(folder))
    except OSError as error:
        raise SourceError(f"cannot read {folder}: {error.strerror}", path=folder) from error


def scan(path: str, context: Context) -> Catalog:
    """Read tables of pixels, given by a file or by the folder that they are in.

    Raises SourceError if they cannot be understood, and ExecutionError if the disk is full.
    """
    tally = Tally()
    if not os.path.isdir(path):
        return scan_files(path, [PixelFile(path, "")], tally, context)
    tables = list(filter(is_pixel_table, _tables_in(path)))
    names = list(map(os.path.basename, tables))
    for name in _listing(path):
        if name not in names:
            tally.add("not a table of pixels", name_of(name))
    if not tables:
        raise SourceError(f"{path} holds no table of pixels", path=path)
    chosen = one_for_each_split(tables, path)
    catalog = scan_files(path, chosen.files, tally, context)
    return replace(catalog, warnings=(*catalog.warnings, *chosen.notes))


class AskedIds(NamedTuple):
    """The ids of the images to predict, as a sample submission has them."""

    column: str
    ids: Sequence[str]

    def first(self) -> int | None:
        """Return the number of the first row, if ids are the numbers of rows; else None."""
        start = min((int(one) for one in self.ids if one.isdecimal()), default=-1)
        numbers = [str(start + row) for row in range(len(self.ids))]
        return start if start in (0, 1) and sorted(numbers) == sorted(self.ids) else None


def scan_files(
    path: str,
    files: Sequence[PixelFile],
    tally: Tally,
    context: Context,
    asked: AskedIds | None = None,
) -> Catalog:
    """Read tables of pixels, which messages call `path`; images get ids where some are asked for.

    Ids are in a column called as in the sample, or the numbers of the rows, as the sample counts.
    """
    options = context.options
    images, told, doubts = PixelImages(), [], []
    for file in files:
        (form, part, shape), doubt = with_fallback(
            partial(read_images, file, context=context, id_column=asked.column if asked else ""),
            file.name,
            options.encoding,
        )
        doubts += [doubt] if doubt else []
        images.extend(part)
        told.append(_told(form, shape, file.name, part.splits[0]))
    labels = read_labels(images.labels, path, options)
    bad, samples = _sort_out(images, labels, _ids(images, asked) if asked else [])
    folder = path if os.path.isdir(path) else os.path.dirname(path)
    return Catalog(
        name=name_of(os.path.basename(os.path.abspath(folder))) or "root",
        layout=f"pixels in CSV: {'; '.join(told)}",
        samples=samples,
        class_folders=_class_folders(images, labels),
        class_order=labels.order,
        bad=tuple(sorted([*images.bad, *bad])),
        ignored=tally.ignored(),
        warnings=tuple(doubts),
        stamp=NO_STAMP.merged(*(stamp_of(file.path) for file in files)),
    )


class Chosen(NamedTuple):
    """The tables of pixels to read, and a sentence on those that are not."""

    files: list[PixelFile]
    notes: tuple[str, ...] = ()


def one_for_each_split(tables: Sequence[str], path: str) -> Chosen:
    """Choose the tables of pixels to read, each with the split in its name if there are several.

    A table with a column of splits that is as large as all others without one together is the
    complete one. Of several that are, which only differ in their columns, the first is read.
    """
    files = [PixelFile(table, split_of_name(table)) for table in tables]
    names = [file.name for file in files]
    if len(files) == 1:
        return Chosen([PixelFile(files[0].path, "")])
    with_splits = sorted((f for f in files if _has_splits(f.path)), key=lambda file: file.name)
    parts = sum(os.path.getsize(file.path) for file in files if file not in with_splits)
    sizes = [os.path.getsize(file.path) for file in with_splits]
    are_alike = bool(sizes) and min(sizes) * 100 >= 99 * max(sizes)
    if are_alike and min(sizes) * 10 >= 9 * parts:
        left = ", ".join(file.name for file in files if file != with_splits[0])
        note = f"{with_splits[0].name} holds all splits, so {left} are not read"
        return Chosen([PixelFile(with_splits[0].path, "")], (note,))
    splits = {file.split for file in files}
    if "" in splits or len(splits) < len(files):
        raise SourceError(
            f"{path} holds tables that are not one for each split: {', '.join(names)}",
            hint="call them train.csv, val.csv and test.csv, or give one of them",
            path=path,
        )
    return Chosen(files)


def _has_splits(path: str) -> bool:
    first = next(delimited_rows(path, path, []), None)
    return first is not None and any(map(is_split_column, first[1]))


def _told(form: PixelForm, shape: Shape, name: str, first_split: str) -> str:
    """Say for people how a table is understood."""
    names = form.header.names if form.header.is_told else [f"column {n}" for n in form.header.names]
    colour = "grey" if shape.channels == 1 else "RGB"
    is_one_split = form.split is None and first_split
    title = f"{name} -> {first_split}" if is_one_split else name
    parts = [f"{title}: {shape.width}x{shape.height} {colour}"]
    if form.label is not None:
        parts.append(f"{names[form.label]} -> label")
    if form.split is not None:
        parts.append(f"{names[form.split]} -> split")
    return ", ".join(parts)


def _ids(images: PixelImages, asked: AskedIds) -> list[str]:
    """Return the id of each row, "" for none; nothing if rows have no ids that are asked for."""
    if any(images.ids):
        return images.ids
    first = asked.first()
    if first is None:
        return []
    rows = zip(images.numbers, images.splits, strict=True)
    return [str(number - 1 + first) if split == TEST else "" for number, split in rows]


def _sort_out(
    images: PixelImages, labels: Labels, ids: Sequence[str]
) -> tuple[list[Skipped], Samples]:
    """Part the rows that can be packed from the others."""
    bad: list[Skipped] = []
    good: list[int] = []
    for row, (classes, split) in enumerate(zip(labels.sets, images.splits, strict=True)):
        reasons = [images.faults.get(row), labels.faults.get(row)]
        if not classes and split != TEST and row not in labels.faults:
            reasons.append("no label")
        if reason := "; ".join(filter(None, reasons)):
            bad.append(Skipped(images.where(row), reason))
        else:
            good.append(row)
    class_names = ["".join(labels.sets[row]) for row in good]
    splits = [images.splits[row] for row in good]
    named = zip(splits, class_names, (images.numbers[row] for row in good), strict=True)
    return bad, Samples(
        filenames=tuple([f"{class_prefix(*place)}{number:05d}.png" for *place, number in named]),
        class_names=tuple(class_names),
        splits=tuple(splits),
        sizes=tuple([images.sizes[row] for row in good]),
        contents=tuple([images.contents[row] for row in good]),
        blobs=tuple([images.blobs[row] for row in good]),
        columns=(Column("id", ColumnKind.TEXT, tuple([ids[row] for row in good])),) if ids else (),
    )


def _class_folders(images: PixelImages, labels: Labels) -> dict[str, tuple[str, ...]]:
    """Return where each class is first found, be the image of that row packed or not."""
    return {name: (images.where(row),) for name, row in first_rows(labels).items()}
