"""Whether dataset_info.json is what TFDS reads, and what it says of splits and shards.

It is a protobuf as JSON: keys in camelCase or snake_case, 64-bit integers as strings or numbers;
a key that the protobuf does not have makes TFDS refuse the dataset.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from imgrec import layout

_KEYS = frozenset(
    {
        "name", "description", "version", "releaseNotes", "configName", "configDescription",
        "configTags", "features", "citation", "sizeInBytes", "downloadSize", "location",
        "downloadChecksums", "schema", "splits", "supervisedKeys", "redistributionInfo",
        "moduleName", "disableShuffling", "fileFormat", "alternativeFileFormats",
        "dataSourceAccesses", "isBlocked", "nondeterministicOrder",
    }
)  # fmt: skip
_SPLIT_KEYS = frozenset(
    {"name", "numShards", "shardLengths", "numBytes", "statistics", "filepathTemplate"}
)
_TEXTS = ("name", "description", "version", "configName", "moduleName", "fileFormat")
_FORMATS = frozenset({"", "tfrecord", "riegeli", "array_record", "parquet"})
_SPLIT_NAME = re.compile(r"[\w-]+")
_VARIABLE = re.compile(r"\{(\w+)\}")
_MOST = 1 << 63
_MOST_SHARDS = 1_000_000

Say = Callable[[str], None]
"""Takes what is wrong."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitClaim:
    """What is said of one split."""

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int
    template: str


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoClaim:
    """What dataset_info.json says."""

    name: str = ""
    version: str = ""
    module: str = ""
    file_format: str = "tfrecord"
    also: tuple[str, ...] = ()
    """Other formats in which the records are there too."""
    splits: tuple[SplitClaim, ...] = ()
    supervised: tuple[str, ...] = ()
    """The features that `as_supervised` gives."""

    def filename(self, split: SplitClaim, index: int, file_format: str = "") -> str:
        """Name a shard; "" if its template does not say how."""
        count = len(split.shard_lengths)
        width = max(5, len(str(count)))
        values = {
            "DATASET": self.name,
            "SPLIT": split.name,
            "FILEFORMAT": file_format or self.file_format,
            "SHARD_INDEX": f"{index:0{width}d}",
            "NUM_SHARDS": f"{count:0{width}d}",
            "SHARD_X_OF_Y": f"{index:0{width}d}-of-{count:0{width}d}",
        }
        named = _VARIABLE.sub(lambda match: values.get(match[1], "/"), split.template)
        return "" if "/" in named or "\0" in named else named


def parse_info(value: Mapping[str, object], say: Say, *, is_compressed: bool) -> InfoClaim:
    """Return what dataset_info.json says, as far as it does; say what TFDS would not read."""
    value = _named(value, _KEYS, say)
    for key in _TEXTS:
        if not isinstance(value.get(key, ""), str):
            say(f"its {key} is no text")
            value = {**value, key: ""}
    name, version = str(value.get("name", "")), str(value.get("version", ""))
    if not name:
        say("it has no name")
    if not layout.parse_version(version):
        say(f"its version {version!r} is not three numbers")
    file_format = str(value.get("fileFormat", ""))
    if file_format not in _FORMATS and not is_compressed:
        say(f"its fileFormat {file_format!r} is none that TFDS knows")
    said = value.get("alternativeFileFormats", [])
    others = [one for one in said if isinstance(one, str)] if isinstance(said, list) else []
    also = tuple(dict.fromkeys(one for one in others if one in _FORMATS))
    if len(also) < len(others):
        say("its alternativeFileFormats are not different ones that TFDS knows")
    return InfoClaim(
        name=name,
        version=version,
        module=str(value.get("moduleName", "")),
        file_format=file_format or "tfrecord",
        also=also,
        splits=tuple(_splits(value.get("splits", []), say)),
        supervised=tuple(_supervised(value.get("supervisedKeys"), say)),
    )


def _named(value: Mapping[str, object], keys: frozenset[str], say: Say) -> dict[str, object]:
    """Return a message with its keys in camelCase, and without those that it cannot have."""
    found = {}
    for key, item in value.items():
        camel = re.sub("_([a-z])", lambda match: match[1].upper(), key)
        if camel in keys:
            found[camel] = item
        else:
            say(f"TFDS knows no {key!r} there")
    return found


def _splits(value: object, say: Say) -> Iterator[SplitClaim]:
    if not isinstance(value, list) or not value:
        say("it has no splits")
        return
    names = set()
    for item in value:
        if not isinstance(item, dict):
            say("one of its splits is no object")
            continue
        fields = _named(item, _SPLIT_KEYS, say)
        name = fields.get("name")
        if not isinstance(name, str) or not _SPLIT_NAME.fullmatch(name) or name == "all":
            say(f"{name!r} is no name of a split")
        elif name in names:
            say(f"it has two splits called {name}")
        else:
            names.add(name)
            yield _split(name, fields, say)


def _split(name: str, fields: Mapping[str, object], say: Say) -> SplitClaim:
    lengths = fields.get("shardLengths", [])
    numbers = list(map(_integer, lengths)) if isinstance(lengths, list) else [None]
    known = tuple(number for number in numbers if number is not None)[:_MOST_SHARDS]
    if len(known) < len(numbers):
        say(f"the shardLengths of {name} are not all numbers, or more than there can be")
    elif not sum(known):
        say(f"its split {name} is empty, which TFDS does not read")
    num_bytes = _integer(fields.get("numBytes", 0))
    if num_bytes is None:
        say(f"the numBytes of {name} is no number")
    template = fields.get("filepathTemplate", layout.FILEPATH_TEMPLATE)
    if not isinstance(template, str):
        say(f"the filepathTemplate of {name} is no text")
        template = layout.FILEPATH_TEMPLATE
    return SplitClaim(name=name, shard_lengths=known, num_bytes=num_bytes or 0, template=template)


def _integer(value: object) -> int | None:
    """Return an integer that is not negative, written as a number or as text."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,19}", value):
        value = int(value)
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and 0 <= value < _MOST else None  # type: ignore[operator,return-value]  # mypy does not follow is_number


def _supervised(value: object, say: Say) -> Iterator[str]:
    match value:
        case None:
            return
        case {"tuple": {"items": list(items)}}:
            keys: Iterable[object] = (
                item.get("featureKey", item.get("feature_key")) if isinstance(item, dict) else None
                for item in items
            )
        case {"input": first, "output": second}:
            keys = (first, second)
        case _:
            say("its supervisedKeys are not what TFDS has there")
            return
    for key in keys:
        if isinstance(key, str):
            yield key
