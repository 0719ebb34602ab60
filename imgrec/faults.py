"""What can be wrong with a dataset: a code for each fault, its facts, and its sentence.

Programs look at the code and the facts. The sentences stand in one table, `Code`, and nothing
parses them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum, unique

from imgrec.text import printable

MOST_FAULTS = 100_000
"""How many faults of one file are kept; the others are counted."""


@unique
class Code(Enum):
    """What is wrong; the value is the sentence, in which the facts are filled in."""

    # Files
    MISSING = "the file is missing"
    CANNOT_READ = "the file cannot be read: {reason}"
    TOO_LARGE = "the file is larger than {limit:,} bytes"
    CHANGED = "its SHA-256 differs from the one in SHA256SUMS"
    EXCHANGED = "its SHA-256 differs from the one in SHA256SUMS: it is that of {other}"
    NOT_LISTED = "SHA256SUMS does not list it"
    NOT_DECLARED = "dataset_info.json does not name this shard"
    MORE_MISSING = "{count:,} more shards are missing"
    MORE_FAULTS = "{count:,} more faults in this file"
    GAVE_UP = "more than {limit:,} faults: the rest of the file is not checked"
    # SHA256SUMS
    NO_LINE_END = "the last line has no line feed"
    BAD_CHECKSUM_LINE = "the line is not a checksum and a file name"
    LISTED_TWICE = "the line names a file that is already listed"
    # Documents
    NOT_UTF8 = "the file is not UTF-8 text"
    NOT_JSON = "the file is not JSON: {reason}"
    NOT_AN_OBJECT = "the file is not a JSON object"
    UNKNOWN_KEY = "TFDS does not know the key {key!r}"
    NOT_TEXT = "{key} is not text"
    NO_NAME = "it has no name"
    BAD_NAME = "the name {name!r} cannot be part of a file name"
    NO_VERSION = "it has no version"
    BAD_VERSION = "the version {version!r} is not three numbers"
    BAD_FILE_FORMAT = "TFDS does not know the fileFormat {format!r}"
    BAD_OTHER_FORMATS = "alternativeFileFormats must be different formats that TFDS knows"
    NO_SPLITS = "it has no splits"
    BAD_SPLITS = "splits is not a list"
    SPLIT_NOT_AN_OBJECT = "one of the splits is not a JSON object"
    BAD_SPLIT_NAME = "{name!r} is not a split name"
    SPLIT_TWICE = "two splits are called {split}"
    BAD_SHARD_LENGTHS = "the shardLengths of {split} are not all numbers, or too many"
    EMPTY_SPLIT = "the split {split} is empty, and TFDS refuses to read it"
    BAD_NUM_BYTES = "the numBytes of {split} is not a number"
    BAD_TEMPLATE = "the filepathTemplate of {split} does not make file names"
    TEMPLATE_REPEATS = "the filepathTemplate of {split} gives two shards the same name"
    BAD_SUPERVISED_KEYS = "supervisedKeys is not what TFDS writes there"
    UNKNOWN_SUPERVISED_KEY = "supervisedKeys names {key!r}, which features.json does not have"
    WRONG_NUM_BYTES = "numBytes of {split} is {declared:,}, but its shards have {found:,} bytes"
    NOT_FEATURES = "the file is not a FeaturesDict of TFDS"
    NOT_OF_IMGREC = "records do not hold what imgrec writes"
    BAD_FEATURE = "the feature {feature!r} is not what TFDS writes there"
    TOO_MANY_CLASSES = "it names more than {limit:,} classes"
    CLASS_COUNT = "expected {expected:,} classes (features.json), found {found:,}"
    BLANK_CLASS = "line {line} is blank, which shifts all labels after it"
    CHANGED_CLASS = "line {line} is {name!r}, which TFDS would change"
    CLASS_TWICE = "line {line} repeats line {first}: {name}"
    UNKNOWN_FORMAT = "its format is {found!r}; this version of imgrec knows {known}"
    NO_FINGERPRINT = "it has no fingerprint"
    BAD_SUBMISSION = "submission: {reason}"
    BAD_COMPRESSION = "imgrec does not know the compression {compression!r}"
    BAD_METADATA = "the values of imgrec are not what it writes"
    CLASS_COUNTS = "class_counts of {split} is {declared}, but the records give {found}"
    UNDECLARED_FORMAT = "it has sizes of {format} files, but dataset_info.json names no such format"
    FORMAT_BYTES = "expected {declared} bytes in the {format} files of {split}, found {found}"
    NOT_A_REPORT = "the file is not a report of imgrec"
    REPORT_DIFFERS = "its {what} and the dataset's differ"
    # Frames of a shard
    LENGTH_CHECKSUM = "wrong checksum of a record's length"
    RECORD_TOO_LONG = "a record of {length:,} bytes, longer than any can be,"
    RECORD_CUT = "truncated record"
    RECORD_CHECKSUM = "wrong checksum of a record"
    NO_RECORD_HERE = "no record begins"
    BROKEN_STREAM = "{reason}"
    REST_LOST = "the file cannot be read from here on"
    RECORD_COUNT = "expected {expected:,} records (dataset_info.json), found {found:,}"
    TOO_MANY_RECORDS = "it has more records than a file of its size can hold"
    NOT_TFRECORD = "the file is not a TFRecord file"
    EMPTY_FILE = "the file is empty"
    INDEX_TOO_LONG = "it is longer than any index of this shard"
    INDEX_LINE = "{line} for record {record}, which is at {span}"
    INDEX_REST = "{line} after the line of the last record"
    # Contents of a record
    NOT_AN_EXAMPLE = "the record cannot be decoded: {reason}"
    NO_FEATURE = "the record has no {feature}"
    FEATURE_KIND = "its {feature} is not {kind}"
    FEATURE_LENGTH = "its {feature} has {found:,} values instead of {expected:,}"
    NO_FILENAME = "its filename is empty"
    BAD_LABEL = "its {feature} is {label}, and there are {classes} classes"
    BAD_IMAGE = "its {feature}: {reason}"
    WRONG_SHAPE = "its shape is {declared}, and the image's is {found}"
    NAME_TWICE = "{name} is also the name of the record at byte {at} of {shard}"
    OTHER_CLASS = "{name} has the label of {class_name}"
    SAME_IMAGE = "{name} in {split} is the same image as {other} in {other_split}"
    # Files with the same records in another format
    NOT_ARRAY_RECORD = "the file is not an array_record file: {reason}"
    OTHER_RECORD = "record {record} differs from that of {shard}"
    UNREADABLE_RECORD = "record {record} cannot be read: {reason}"
    OTHER_COUNT = "it has {found:,} records, and {shard} has {expected:,}"
    # samples.parquet
    TABLE_TOO_LARGE = "it unpacks to far more than {records:,} rows can take"
    ROW_COUNT = "it has {found:,} rows for {records:,} records"
    NO_COLUMN = "it has no column {columns}"
    UNREADABLE_ROWS = "the rows from {row} on cannot be read: {reason}"
    WRONG_CELL = "row {row}: {column} is {found}, but {expected} in record {record} of {shard}"
    WRONG_HASH = "the xxh3 of {name} is not that of record {record} of {shard}"
    TOO_MANY_CHANGED = (
        "{found:,} images differ from the hashes of their files, but report.json counts only "
        "{declared:,} that were {how}"
    )
    # The source
    NO_NAMES_TO_COMPARE = "records have no filename, so none can be compared with {source}"
    NOT_IN_SOURCE = "there is no {name} in {source}"
    NOT_PACKED = "it is in {source}, but in no record"
    DIFFERS_FROM_SOURCE = "{name} differs from the source: {reason}"
    # Not faults: what a dataset does not have, so that it cannot be checked
    ABSENT = "the dataset has none"
    UNKNOWN_KIND = "features of this kind are not checked"
    NO_IMAGES = "no feature is an image"
    NO_FEATURES = "what records must hold is not known"
    NO_FILENAMES = "records have none"
    NO_ARRAY_RECORD = "records are not compared: the package array_record is not installed"
    NOT_NAMED = (
        "{count:,} images are not packed, such as {name}: report.json does not name what was "
        "left out"
    )


_ORDER = {code: place for place, code in enumerate(Code)}


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that is wrong, and where."""

    code: Code
    path: str
    """A file of the dataset, or of the source that it is compared with."""
    offset: int | None = None
    """The byte, before compression, where the fault begins; None if there is no such byte."""
    facts: Mapping[str, object] = field(default_factory=dict)

    @property
    def what(self) -> str:
        """Say what is wrong, in a sentence for people."""
        return printable(self.code.value.format_map(self.facts))


class Faults:
    """Faults, as they are found."""

    def __init__(self, faults: Iterable[Fault] = ()) -> None:
        self._found: list[Fault] = []
        self._counts: Counter[str] = Counter()
        self.extend(faults)

    def add(self, fault: Fault) -> None:
        """Add a fault; beyond `MOST_FAULTS` of its file, count it only."""
        self._counts[fault.path] += 1
        if self._counts[fault.path] <= MOST_FAULTS:
            self._found.append(fault)

    def say(self, code: Code, path: str, offset: int | None = None, /, **facts: object) -> None:
        """Add a fault; `facts` are what the sentence of its code needs."""
        self.add(Fault(code, path, offset, facts))

    def extend(self, faults: Iterable[Fault]) -> None:
        """Add some faults."""
        for fault in faults:
            self.add(fault)

    def count(self, path: str) -> int:
        """Count the faults of one file."""
        return self._counts[path]

    def listed(self) -> tuple[Fault, ...]:
        """Return all faults, each once, by file and offset; files missing or changed come first.

        They explain most of what is wrong elsewhere.
        """
        more = [
            Fault(Code.MORE_FAULTS, path, facts={"count": count - MOST_FAULTS})
            for path, count in self._counts.items()
            if count > MOST_FAULTS
        ]
        changes = (Code.CHANGED, Code.EXCHANGED)
        changed = {fault.path for fault in self._found if fault.code in changes}

        def place(fault: Fault) -> tuple[object, ...]:
            offset = -1 if fault.offset is None else fault.offset
            facts = [
                (0, fact, "") if isinstance(fact, int) else (1, 0, str(fact))
                for fact in fault.facts.values()
            ]
            is_minor = fault.code is not Code.MISSING, fault.path not in changed
            return *is_minor, fault.path, offset, _ORDER[fault.code], facts

        distinct = {(f.code, f.path, f.offset, f.what): f for f in (*self._found, *more)}
        return tuple(sorted(distinct.values(), key=place))
