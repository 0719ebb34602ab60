"""What a builder is about: a pack that is there, or one that is to be made."""

from __future__ import annotations

import glob
import os
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

from imgrec import layout
from imgrec.builder.options import read_request, refuse_unknown
from imgrec.errors import UsageError
from imgrec.options import PackOptions
from imgrec.read.locate import find_dataset
from imgrec.read.metadata import read_info
from imgrec.source.detect import detect
from imgrec.storage.paths import refuse_remote


class Subject(NamedTuple):
    """The pack of a builder."""

    name: str
    options: PackOptions
    """How it is made, or was: of one that is there, no more than the version and the classes."""
    source: str = ""
    """What it is made of; empty if it is there."""
    folder: str = ""
    """Where it is, if that is known already."""

    @property
    def has_lost_its_source(self) -> bool:
        """Tell whether it cannot be made any more."""
        return not os.path.lexists(self.source) and not glob.glob(self.source, recursive=True)


def to_be_packed(
    source: str, given: Mapping[str, object], defaults: PackOptions, name: str
) -> Subject:
    """Return a pack to be made of a source, and called as the options, `name` or the source say.

    Raises UsageError if it cannot be, and SourceError if there is no such source.
    """
    source, options = read_request(source, given, defaults)
    if options.shard_compression:
        raise UsageError(
            f"compression {options.compression} makes shards that TFDS cannot read",
            hint="leave it out; `imgrec pack --compression` makes them for other readers",
        )
    if not source:
        raise UsageError(
            "there is nothing to pack or to read",
            hint="give source, what is to be packed, or dataset, the name or path of a pack",
        )
    name = options.name or name
    name = layout.checked_name(name) if name else _own_name(source, options)
    return Subject(name, options, source=source)


def _own_name(source: str, options: PackOptions) -> str:
    return layout.dataset_name(detect(source, options.source).name, "")


def already_packed(dataset: str, data_dir: str, given: Mapping[str, object]) -> Subject:
    """Return a pack that is there, found by name or by a path at any level.

    Raises DatasetNotFound if it is not, and UsageError for options that only packing has.
    """
    refuse_unknown(given)
    fit = ("classes", "classes_append")
    unfit = sorted(name for name, value in given.items() if value and name not in fit)
    if unfit:
        raise UsageError(
            f"{unfit[0]} is for packing, and {dataset} is packed already",
            hint="give source too, to pack, or leave it out",
        )
    folder = find_dataset(dataset, data_dir)
    refuse_remote(os.fspath(folder), "imgrec.builder")
    pack = read_info(folder)
    options = replace(read_request("", given, PackOptions()).options, version=pack.version)
    return Subject(pack.name, options, folder=pack.path)
