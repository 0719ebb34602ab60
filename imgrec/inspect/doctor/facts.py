"""What is known about a call of `tfds.load`: the machine, the call and the folders."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from imgrec import layout
from imgrec.faults import Fault
from imgrec.read.documents import Documents
from imgrec.read.tfds_files import InfoDocument

_BUILDER = re.compile(
    r"(?:[\w\-]+:)?(?P<name>[a-zA-Z]\w*)"
    r"(?:/(?P<config>[\w+\-.]+))?"
    r"(?::(?P<version>(?:\d+|\*)(?:\.(?:\d+|\*)){2}))?"
    r"(?:/(?:\w+=[^,]+,?)+)?"
)
_VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)")


TFDS_DOCUMENTS = (layout.DATASET_INFO, layout.FEATURES)
"""What TFDS needs to read a dataset."""


class Package(NamedTuple):
    """A package that `tfds.load` needs."""

    name: str
    version: str
    """Empty if it is not installed."""
    fault: str = ""
    """Why it cannot be imported; empty if it can, or if that was not tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The machine, as far as it matters."""

    python: str
    imgrec: str
    packages: tuple[Package, ...]
    shadows: tuple[str, ...]
    """Files in the current folder that a script there would import instead of a package."""
    default_data_dir: str
    """Where TFDS looks unless it is told."""


class Call(NamedTuple):
    """What TFDS makes of the name it is given."""

    text: str
    """As it was given."""
    name: str = ""
    """As TFDS looks for it; empty if it does not take the text for a name."""
    config: str = ""
    version: str = ""


def parse_call(text: str) -> Call:
    """Read a name as `tfds.load` does.

    >>> parse_call("MyFlowers:1.0.0").name, parse_call("my-flowers").name
    ('my_flowers', '')
    """
    match = _BUILDER.fullmatch(text)
    if match is None:
        return Call(text)
    return Call(text, snake_case(match["name"]), match["config"] or "", match["version"] or "")


def snake_case(name: str) -> str:
    """Change a name as TFDS does before it looks for its folder.

    >>> snake_case("MyFlowers")
    'my_flowers'
    """
    parted = re.sub(r"(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", parted).lower()


def is_version(text: str) -> bool:
    """Tell whether a folder of that name is a version for TFDS: no zeros in front."""
    return _VERSION.fullmatch(text) is not None


class ShardFacts(NamedTuple):
    """One file of records, as it should be and as it is."""

    filename: str
    split: str
    expected: int
    """How many records it should have."""
    is_there: bool
    fault: str = ""
    """What a glance at it shows to be wrong."""
    compression: str = ""
    """How it is compressed, without anyone saying so."""


class FeatureFacts(NamedTuple):
    """What records hold under one name."""

    name: str
    kind: str
    """bytes, int64 or float; empty if none has a value; "mixed" if they differ."""
    records: int
    """How many of those looked at have it."""
    least: int
    most: int
    """How many values it has."""
    shown: str
    """What its values are like."""


class Contents(NamedTuple):
    """What is inside TFRecord files, whoever wrote them."""

    files: tuple[str, ...]
    """Their paths."""
    bytes: int
    compression: str
    records: int
    is_all: bool
    """Whether all records were counted."""
    looked_at: int
    features: tuple[FeatureFacts, ...]
    images: int
    """How many images were tried."""
    bad_images: int
    fault: str = ""
    """Why a file was not read to its end, or its records are not what they mostly are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """A folder with a dataset, or with what is left of one."""

    folder: str
    data_dir: str
    """What TFDS must be given to find it by its name."""
    name: str
    """The name of the dataset's folder."""
    config: str
    version: str
    """The name of the folder; it may be no version."""
    missing: tuple[str, ...]
    """The documents that TFDS needs and that are missing."""
    documents: Documents
    faults: tuple[Fault, ...]
    """What is wrong with the documents that TFDS reads."""
    shards: tuple[ShardFacts, ...]
    strays: tuple[str, ...]
    """Files of records that no document tells of."""
    record_fault: str = ""
    """How its first record differs from what the documents say."""
    contents: Contents | None = None
    """What is inside, where the documents do not tell."""

    @property
    def info(self) -> InfoDocument:
        """Return what dataset_info.json declares."""
        return self.documents.declared

    @property
    def compression(self) -> str:
        """Return how imgrec compressed the shards; "" if it did not."""
        return self.documents.metadata.compression

    @property
    def is_versioned(self) -> bool:
        """Tell whether its folder is named and placed as TFDS wants it."""
        return is_version(self.version)

    @property
    def whole_splits(self) -> tuple[str, ...]:
        """Name the splits that TFDS can read."""
        bad = {
            shard.split
            for shard in self.shards
            if not shard.is_there or shard.fault or shard.compression
        }
        return tuple(
            split.name
            for split in self.info.splits
            if split.name not in bad and any(split.shard_lengths)
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All that the causes are found in."""

    environment: Environment
    call: Call
    """Empty if a path was given."""
    data_dir: str
    """Where TFDS looks."""
    sites: tuple[Site, ...]
    cut_off: Mapping[str, bool]
    """Folders of packs that did not end, and whether one is running there right now."""
    others: tuple[str, ...]
    """The datasets that are in the data directory."""
    is_absent: bool = False
    """Whether that is a folder someone named, and that is not there."""
    has_images: bool = False
    """Whether a folder was given that holds neither datasets nor TFRecords, but images."""


class Finding(NamedTuple):
    """One cause for which `tfds.load` fails."""

    cause: str
    what: str
    fix: str = ""
