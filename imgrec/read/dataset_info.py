"""dataset_info.json: the name, the version, the splits and the shards that TFDS reads.

It is a protobuf as JSON: keys in camelCase or snake_case, 64-bit integers as strings or numbers.
TFDS refuses a dataset whose dataset_info.json has unknown keys.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from imgrec import layout
from imgrec.faults import Code, Faults

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
_MOST_BYTES = 1 << 63
_MOST_RECORDS = 1 << 40
"""In one shard: more than any has, and sums of it do not overflow."""
_MOST_SHARDS = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredSplit:
    """One split, as dataset_info.json declares it."""

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int
    template: str

    @property
    def examples(self) -> int:
        """Count the records of the split."""
        return sum(self.shard_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class InfoDocument:
    """What dataset_info.json says, as far as it can be parsed."""

    name: str = ""
    version: str = ""
    module: str = ""
    config: str = ""
    file_format: str = "tfrecord"
    also: tuple[str, ...] = ()
    """Other formats in which the records are stored too."""
    splits: tuple[DeclaredSplit, ...] = ()
    supervised: tuple[str, ...] = ()
    """The features that `as_supervised` gives."""

    def filename(self, split: DeclaredSplit, index: int, file_format: str = "") -> str:
        """Name a shard; "" if the template of its split does not make a file name."""
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


def parse_info(
    document: Mapping[str, object], faults: Faults, *, is_compressed: bool
) -> InfoDocument:
    """Return what dataset_info.json says, as far as it does; add what TFDS would not read."""
    name = layout.DATASET_INFO
    value = _in_camel_case(document, _KEYS, faults)
    for key in _TEXTS:
        if not isinstance(value.get(key, ""), str):
            faults.say(Code.NOT_TEXT, name, key=key)
            value[key] = ""
    called, version = str(value.get("name", "")), str(value.get("version", ""))
    if not called:
        faults.say(Code.NO_NAME, name)
    elif not fits_in_file_names(called):
        faults.say(Code.BAD_NAME, name, name=called)
    if "version" not in value:
        faults.say(Code.NO_VERSION, name)
    elif not layout.parse_version(version):
        faults.say(Code.BAD_VERSION, name, version=version)
    file_format = str(value.get("fileFormat", ""))
    if file_format not in _FORMATS and not is_compressed:
        faults.say(Code.BAD_FILE_FORMAT, name, format=file_format)
    said = value.get("alternativeFileFormats", [])
    others = [one for one in said if isinstance(one, str)] if isinstance(said, list) else []
    also = tuple(dict.fromkeys(one for one in others if one in _FORMATS))
    if len(also) < len(others):
        faults.say(Code.BAD_OTHER_FORMATS, name)
    return InfoDocument(
        name=called,
        version=version,
        module=str(value.get("moduleName", "")),
        config=str(value.get("configName", "")),
        file_format=file_format or "tfrecord",
        also=also,
        splits=tuple(_splits(value.get("splits", []), faults)),
        supervised=tuple(_supervised(value.get("supervisedKeys"), faults)),
    )


def _in_camel_case(
    value: Mapping[str, object], keys: frozenset[str], faults: Faults
) -> dict[str, object]:
    """Return a message with its keys in camelCase, and without those that it cannot have."""
    found = {}
    for key, item in value.items():
        camel = re.sub("_([a-z])", lambda match: match[1].upper(), key)
        if camel in keys:
            found[camel] = item
        else:
            faults.say(Code.UNKNOWN_KEY, layout.DATASET_INFO, key=key)
    return found


def _splits(value: object, faults: Faults) -> Iterator[DeclaredSplit]:
    name = layout.DATASET_INFO
    if not isinstance(value, list):
        faults.say(Code.BAD_SPLITS, name)
        return
    if not value:
        faults.say(Code.NO_SPLITS, name)
    names = set()
    for item in value:
        if not isinstance(item, dict):
            faults.say(Code.SPLIT_NOT_AN_OBJECT, name)
            continue
        fields = _in_camel_case(item, _SPLIT_KEYS, faults)
        split = fields.get("name")
        if not isinstance(split, str) or not fits_in_file_names(split):
            faults.say(Code.BAD_NAME, name, name=split)
            continue
        if not _SPLIT_NAME.fullmatch(split) or split == "all":
            faults.say(Code.BAD_SPLIT_NAME, name, name=split)
        if split in names:
            faults.say(Code.SPLIT_TWICE, name, split=split)
        else:
            names.add(split)
            yield _split(split, fields, faults)


def _split(split: str, fields: Mapping[str, object], faults: Faults) -> DeclaredSplit:
    name = layout.DATASET_INFO
    lengths = fields.get("shardLengths", [])
    numbers = [_integer(length, _MOST_RECORDS) for length in _items(lengths)]
    known = tuple(number for number in numbers if number is not None)[:_MOST_SHARDS]
    if len(known) < len(numbers):
        faults.say(Code.BAD_SHARD_LENGTHS, name, split=split)
    elif not sum(known):
        faults.say(Code.EMPTY_SPLIT, name, split=split)
    num_bytes = _integer(fields.get("numBytes", 0), _MOST_BYTES)
    if num_bytes is None:
        faults.say(Code.BAD_NUM_BYTES, name, split=split)
    template = fields.get("filepathTemplate") or layout.FILEPATH_TEMPLATE
    if not isinstance(template, str):
        faults.say(Code.BAD_TEMPLATE, name, split=split)
        template = layout.FILEPATH_TEMPLATE
    return DeclaredSplit(
        name=split, shard_lengths=known, num_bytes=num_bytes or 0, template=template
    )


def _supervised(value: object, faults: Faults) -> Iterator[str]:
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
            faults.say(Code.BAD_SUPERVISED_KEYS, layout.DATASET_INFO)
            return
    yield from (key for key in keys if isinstance(key, str))


def fits_in_file_names(name: str) -> bool:
    """Tell whether a name can be part of the name of a file."""
    try:
        name.encode()  # half of a surrogate pair cannot be encoded
    except UnicodeEncodeError:
        return False
    return "/" not in name and "\0" not in name


def _items(value: object) -> list[object]:
    return value if isinstance(value, list) else [None]


def _integer(value: object, most: int) -> int | None:
    """Return an integer from 0 to `most`, written as a number or as text; None for others."""
    if isinstance(value, str) and re.fullmatch("[0-9]{1,19}", value):
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value <= most else None
