"""Parquet files with a dataset card, as Hugging Face datasets and its Hub read them.

The schema of each file says which columns are images and classes, so that the files alone load as
`Image` and `ClassLabel`. Files are named as the Hub names them: data/train-00000-of-00008.parquet.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from imgrec.inspect.export.card import CARD, dataset_card
from imgrec.inspect.export.contents import (
    Column,
    Contents,
    Form,
    Shard,
    WrittenFile,
    refuse_split,
)
from imgrec.inspect.export.croissant import CROISSANT, croissant
from imgrec.options import ColumnKind
from imgrec.read.dataset import Dataset
from imgrec.read.record import Record
from imgrec.storage.files import make_folders, os_errors_as, renamed_when_complete, seal_of
from imgrec.storage.urls import is_url
from imgrec.text import literal, printable

if TYPE_CHECKING:
    import pyarrow as pa

_GROUP_BYTES, _GROUP_ROWS = 16 << 20, 10_000
"""A row group ends when it has that many bytes of images, or rows.

A reader keeps at least one row group in memory, and a streaming one shuffles them.
"""
_SPLIT = re.compile(r"\w+", re.ASCII)
"""The names of splits that Hugging Face datasets accepts."""
_FILE = re.compile(r"data/\w+-\d{5,}-of-\d{5,}\.parquet", re.ASCII)
_IMAGE_COLUMN = "image.bytes"
_DTYPES = {ColumnKind.INT: "int64", ColumnKind.FLOAT: "float32", ColumnKind.TEXT: "string"}
_NAME = Column(ColumnKind.TEXT)


class _Field(NamedTuple):
    """A column of the table, except the image."""

    name: str
    column: Column
    classes: tuple[str, ...] | None = None
    """The names of the values, if they are labels."""

    @property
    def dtype(self) -> str:
        return _DTYPES[self.column.kind]

    def value(self, record: Record) -> object:
        """Return the cell of a record."""
        if self.classes is not None:
            return list(record.labels) if self.column.is_list else record.label
        found = record.filename if self.name == "filename" else record.columns.get(self.name)
        if self.column.is_list:
            values = found if isinstance(found, tuple) else (found,)
            return [_text(value) for value in values if value is not None]
        return _text(found)


def _text(value: object) -> object:
    """Return valid text for text, and anything else as it is."""
    if isinstance(value, bytes):
        return printable(value.decode("utf-8", "surrogateescape"))
    return printable(value) if isinstance(value, str) else value


def _fields(form: Form) -> Iterator[_Field]:
    """Yield the columns beside the image, in their order."""
    label = "labels" if form.is_multilabel else "label"
    yield _Field(label, Column(ColumnKind.INT, is_list=form.is_multilabel), form.classes)
    yield _Field("filename", _NAME)
    for name, column in form.columns.items():
        yield _Field(name, column)


def file_name(split: str, index: int, count: int) -> str:
    """Name the file for a shard as the Hub does; raise DatasetError if it refuses the split.

    >>> file_name("val", 0, 12)
    'data/val-00000-of-00012.parquet'
    """
    refuse_split(split, _SPLIT, "letters, digits and _ only")
    width = max(5, len(str(count)))
    return f"data/{split}-{index:0{width}d}-of-{count:0{width}d}.parquet"


def keys(dataset: Dataset) -> tuple[str, ...]:
    """Return no keys: rows have none."""
    del dataset
    return ()


def is_own_file(name: str) -> bool:
    """Return whether an export to Parquet may contain a file of that name."""
    return name in (CARD, CROISSANT) or bool(_FILE.fullmatch(name))


def load_line(target: str, contents: Contents) -> str:
    """Return the line of Python that loads the export."""
    if not is_url(target):
        return f"datasets.load_dataset({literal(target)})"
    # There it finds no card, and reads only files that are named.
    splits = [split.name for split in contents.info.splits]
    files = ", ".join(
        f"{literal(name)}: {literal(f'{target}/data/{name}-*.parquet')}" for name in splits
    )
    return f'datasets.load_dataset("parquet", data_files={{{files}}})'


def write(shard: Shard, form: Form, folder: str) -> WrittenFile:
    """Write the Parquet file for a shard. This runs in a worker."""
    import pyarrow.parquet as pq

    path = os.path.join(folder, shard.target)
    with os_errors_as(path, "-o"):
        make_folders(os.path.dirname(path))
    fields = tuple(_fields(form))
    names = [field.name + (".list.element" if field.column.is_list else "") for field in fields]
    image_bytes = unpacked_bytes = images = 0
    with (
        renamed_when_complete(path, "-o") as part,
        pq.ParquetWriter(
            part,
            _schema(fields),
            compression=dict.fromkeys(names, "snappy"),  # images are compressed already
            use_dictionary=names,  # type: ignore[arg-type]  # wrong stubs
            write_statistics=names,
        ) as writer,
    ):
        for records in _groups(shard.records(form)):
            batch = _batch(records, fields)
            writer.write_batch(batch, row_group_size=len(records))
            images += len(records)
            image_bytes += sum(len(record.image) for record in records)
            unpacked_bytes += batch.nbytes
    seal = seal_of(path)
    return WrittenFile(
        name=shard.target,
        split=shard.split,
        images=images,
        size=seal.size,
        sha256=seal.sha256,
        image_bytes=image_bytes,
        unpacked_bytes=unpacked_bytes,
    )


def _groups(records: Iterator[Record]) -> Iterator[list[Record]]:
    """Yield the records of each row group."""
    group: list[Record] = []
    size = 0
    for record in records:
        group.append(record)
        size += len(record.image)
        if size >= _GROUP_BYTES or len(group) >= _GROUP_ROWS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _batch(records: Sequence[Record], fields: Sequence[_Field]) -> pa.RecordBatch:
    import pyarrow as pa

    columns: dict[str, list[object]] = {
        "image": [{"bytes": one.image, "path": printable(one.filename)} for one in records]
    }
    for field in fields:
        columns[field.name] = [field.value(record) for record in records]
    return pa.RecordBatch.from_pydict(columns, schema=_schema(fields))


def _schema(fields: Sequence[_Field]) -> pa.Schema:
    """Return the schema, with the note that makes Hugging Face datasets decode images."""
    import pyarrow as pa

    types: dict[str, pa.DataType] = {
        "int64": pa.int64(),
        "float32": pa.float32(),
        "string": pa.string(),
    }
    image = pa.struct([pa.field("bytes", pa.binary()), pa.field("path", pa.string())])
    columns: list[pa.Field[Any]] = [pa.field("image", image)]  # of any type
    for field in fields:
        kind = types[field.dtype]
        columns.append(pa.field(field.name, pa.list_(kind) if field.column.is_list else kind))
    features = {"image": {"_type": "Image"}} | {one.name: _feature(one) for one in fields}
    note = json.dumps({"info": {"features": features}}, ensure_ascii=False)
    return pa.schema(columns, metadata={"huggingface": note})


def _feature(field: _Field) -> dict[str, object]:
    """Describe a column as Hugging Face datasets does in the schema of a file."""
    one: dict[str, object] = {"dtype": field.dtype, "_type": "Value"}
    if field.classes is not None:
        one = {"names": list(field.classes), "_type": "ClassLabel"}
    # Versions before 4 do not know a type List; later ones read Sequence as one.
    return {"feature": one, "_type": "Sequence"} if field.column.is_list else one


def _card_feature(field: _Field) -> dict[str, object]:
    """Describe a column as Hugging Face datasets does in a dataset card."""
    one: object = field.dtype
    if field.classes is not None:
        one = {"class_label": {"names": {str(at): name for at, name in enumerate(field.classes)}}}
    return {"name": field.name, "sequence" if field.column.is_list else "dtype": one}


def documents(contents: Contents, files: Sequence[WrittenFile]) -> Mapping[str, str]:
    """Return the dataset card and the Croissant description."""
    fields = tuple(_fields(contents.form))
    splits = [split.name for split in contents.info.splits]
    by_split = {split: [file for file in files if file.split == split] for split in splits}
    matter = {
        "configs": [
            {
                "config_name": "default",
                "data_files": [{"split": split, "path": f"data/{split}-*"} for split in splits],
            }
        ],
        "dataset_info": {
            "features": [{"name": "image", "dtype": "image"}, *map(_card_feature, fields)],
            "splits": [
                {
                    "name": split,
                    "num_bytes": sum(file.unpacked_bytes for file in written),
                    "num_examples": sum(file.images for file in written),
                }
                for split, written in by_split.items()
            ],
            "download_size": sum(file.size for file in files),
            "dataset_size": sum(file.unpacked_bytes for file in files),
        },
    }
    usage = (
        "```python\n"
        "from datasets import load_dataset\n\n"
        'dataset = load_dataset("FOLDER OR HUB REPOSITORY")\n'
        "```\n"
    )
    columns = {field.name: field.column for field in fields}
    return {
        CARD: dataset_card(contents, files, matter, usage),
        CROISSANT: croissant(contents, files, columns),
    }
