"""Export a dataset: choose the format, write a file for each shard, compare counts, publish."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from itertools import accumulate
from pathlib import Path
from typing import cast

from imgrec.errors import ExecutionError, UsageError
from imgrec.inspect.export.contents import (
    Column,
    Contents,
    Form,
    Format,
    Shard,
    WrittenFile,
)
from imgrec.inspect.subject import Job
from imgrec.outcome import DatasetInfo
from imgrec.read.dataset import Dataset
from imgrec.read.documents import Documents, read_documents
from imgrec.read.files import present_files
from imgrec.read.shards import shard_paths
from imgrec.storage.paths import to_path
from imgrec.storage.trees import open_tree, tree_folder, tree_writer
from imgrec.text import closest, number, printable

FORMATS: Mapping[str, str] = {
    "parquet": "Parquet with a dataset card, as Hugging Face datasets reads it",
    "webdataset": "tar files, as WebDataset reads them",
}
"""Each format, which is also the name of its module, and what it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """The outcome of an export."""

    name: str
    version: str
    path: str
    format: str
    files: int
    """How many files hold images."""
    images: int
    bytes: int
    """The size of all files."""
    splits: Mapping[str, int]
    """Images in each split."""
    load: str
    """The line of Python that loads it."""

    def __repr__(self) -> str:
        what = f"{number(self.images, 'image')} as {self.format}"
        return f"<Exported {self.name} {self.version}: {what}, {self.path}>"


def export_folder(
    folder: Path, target: str, to: str, job: Job, *, overwrite: bool = False
) -> Exported:
    """Write all images of a dataset into a new folder in another format, all or none.

    With `overwrite`, an earlier export in that folder is replaced; anything else is not.

    Raises DatasetError if the dataset is damaged or does not fit the format, UsageError if `target`
    exists, and ExecutionError if it cannot be written.
    """
    writer = format_named(to)
    if to_path(target).resolve().is_relative_to(folder.resolve()):
        raise UsageError(f"{target} is inside the dataset itself", hint="give another folder")
    contents = _contents(read_documents(folder, present_files(folder), report=True))
    shards = tuple(_shards(writer, contents.info, writer.keys(Dataset(folder))))
    replaceable = _is_own_file if overwrite else None
    hint = "only --overwrite replaces an earlier export"
    with open_tree(target, is_replaceable=replaceable, hint=hint) as tree:
        files = _write(shards, contents, to, str(tree.path), job)
        texts = writer.documents(contents, files)
        # Texts of the dataset may hold halves of surrogate pairs.
        documents = {name: printable(text).encode() for name, text in texts.items()}
        with tree_writer(str(tree.path)) as write:
            for name, data in documents.items():
                write(name, data)
        tree.publish(len(files) + len(documents))
    info, images = contents.info, Counter[str]()
    for file in files:
        images[file.split] += file.images
    return Exported(
        name=info.name,
        version=info.version,
        path=str(tree.target),
        format=to,
        files=len(files),
        images=images.total(),
        bytes=sum(file.size for file in files) + sum(map(len, documents.values())),
        splits=dict(images),
        load=writer.load_line(str(tree.target), contents),
    )


def format_named(to: str) -> Format:
    """Return the module of a format; raise UsageError if there is none of that name."""
    if to not in FORMATS:
        meant = closest(list(FORMATS), to)
        hint = f"did you mean {meant}?" if meant else f"choose {' or '.join(FORMATS)}"
        raise UsageError(f"--to {to!r} is not a format", hint=hint)
    return cast("Format", import_module(f"imgrec.inspect.export.{to}"))


def _is_own_file(name: str) -> bool:
    """Return whether an export may contain a file of that name."""
    return any(format_named(to).is_own_file(name) for to in FORMATS)


def _contents(documents: Documents) -> Contents:
    info, features = documents.info(), documents.imgrec_features()
    documents.refuse_other_files()
    columns = {
        name: Column(kind, is_list=features.by_name[name].length != 1)
        for name, kind in features.columns.items()
    }
    form = Form(classes=info.classes, is_multilabel=features.is_multilabel, columns=columns)
    return Contents(info=info, form=form, report=documents.report)


def _shards(writer: Format, info: DatasetInfo, keys: Sequence[str]) -> Iterator[Shard]:
    paths = iter(shard_paths(info))
    lengths = [length for split in info.splits for length in split.shard_lengths]
    starts = accumulate(lengths, initial=0)
    for split in info.splits:
        for index, length in enumerate(split.shard_lengths):
            start = next(starts)
            yield Shard(
                path=next(paths),
                compression=info.compression,
                images=length,
                split=split.name,
                target=writer.file_name(split.name, index, len(split.shard_lengths)),
                keys=tuple(keys[start : start + length]),
            )


def _write(
    shards: Sequence[Shard], contents: Contents, to: str, folder: str, job: Job
) -> list[WrittenFile]:
    """Write all files, in workers; return them in the order of the shards."""
    found: dict[str, WrittenFile] = {}
    write = partial(_write_shard, form=contents.form, to=to, folder=folder)
    with closing(job.run(write, shards)) as running:
        for file in running:
            found[file.name] = file
            job.progress("export", file.images, contents.images)
    written = sum(file.images for file in found.values())
    if written != contents.images or len(found) != len(shards):
        raise ExecutionError(
            f"expected {contents.images} images, but {written} were written",
            hint="this is a bug in imgrec; please report it",
        )
    return [found[shard.target] for shard in shards]


def _write_shard(shard: Shard, form: Form, to: str, folder: str) -> WrittenFile:
    with tree_folder(folder) as here:
        return format_named(to).write(shard, form, here)
