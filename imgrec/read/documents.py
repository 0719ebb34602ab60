"""The documents of a dataset, parsed once into one value that also lists their faults.

Readers call `Documents.info` or `imgrec_features`, which raise at the first fault that matters to
them; `verify` and `doctor` list all faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.codec import submission as submission_codec
from imgrec.codec.json_values import count_of, counts_of, parse_json
from imgrec.errors import DatasetError
from imgrec.faults import Code, Fault, Faults
from imgrec.model import FORMAT
from imgrec.outcome import DatasetInfo, Report, SplitInfo
from imgrec.read.dataset_info import InfoDocument, fits_in_file_names, parse_info
from imgrec.read.features import Features, parse_features
from imgrec.read.files import os_fault, read_document, refusal

_FINGERPRINT = re.compile("[0-9a-f]{64}")
_MOST_CLASSES = 1 << 20
"""The largest datasets have some 20,000 classes. Each takes 60 bytes in memory, and 2 in a file."""
_WRITTEN_BY_IMGREC = (layout.CHECKSUMS, layout.SAMPLES, layout.REPORT, layout.SKIPPED)
_READABLE = frozenset(
    {
        Code.UNKNOWN_KEY, Code.BAD_VERSION, Code.BAD_FILE_FORMAT, Code.NO_SPLITS,
        Code.BAD_SPLIT_NAME, Code.EMPTY_SPLIT, Code.BAD_TEMPLATE, Code.BAD_SUPERVISED_KEYS,
        Code.UNKNOWN_SUPERVISED_KEY, Code.NOT_FEATURES, Code.BAD_FEATURE, Code.CLASS_COUNT,
        Code.BLANK_CLASS, Code.CHANGED_CLASS, Code.CLASS_TWICE, Code.UNKNOWN_FORMAT,
        Code.NO_FINGERPRINT, Code.BAD_SUBMISSION,
    }
)  # fmt: skip
"""Faults in spite of which records can be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    """What imgrec itself writes into metadata.json."""

    fingerprint: str = ""
    compression: str = ""
    uncompressed_bytes: int = 0
    class_counts: Mapping[str, tuple[int, ...]]
    """By split; empty if nothing is known."""
    also_bytes: Mapping[str, Mapping[str, int]]
    """Bytes of the files in other formats, by format and split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """What the documents beside the shards say, and all that is wrong with them."""

    folder: Path
    declared: InfoDocument
    features: Features
    classes: tuple[str, ...]
    metadata: _Metadata
    is_ours: bool
    """Whether imgrec made the dataset."""
    report: Report | None
    """None if it was not asked for, too."""
    faults: tuple[Fault, ...]
    unchecked: tuple[Fault, ...]
    """What the dataset lacks, so that it cannot be checked."""

    def info(self) -> DatasetInfo:
        """Return what readers need; raise DatasetError if it is missing or wrong."""
        for fault in self.faults:
            is_unneeded = fault.path == layout.REPORT
            is_unneeded |= fault.path == layout.FEATURES and bool(self.classes)
            is_absent = fault.code is Code.MISSING and fault.path != layout.DATASET_INFO
            if not (is_unneeded or is_absent or fault.code in _READABLE):
                raise refusal(self.folder, fault)
        declared, metadata = self.declared, self.metadata
        first = declared.splits[0].name if declared.splits else "train"
        place = self.folder.absolute().parent.parent, declared.name, declared.version, first
        return DatasetInfo(
            name=declared.name,
            version=declared.version,
            path=str(self.folder.absolute()),
            classes=self.classes,
            splits=tuple(
                SplitInfo(
                    name=split.name,
                    shard_lengths=split.shard_lengths,
                    num_bytes=split.num_bytes,
                    class_counts=metadata.class_counts.get(split.name),
                )
                for split in declared.splits
            ),
            fingerprint=metadata.fingerprint,
            load=layout.load_line(*place, metadata.compression, self.batching_step),
            compression=metadata.compression,
            uncompressed_bytes=metadata.uncompressed_bytes,
            also=declared.also,
            data_source=layout.data_source_line(*place)
            if declared.also and metadata.fingerprint
            else "",
        )

    def imgrec_features(self) -> Features:
        """Return what records hold; raise DatasetError unless it is what imgrec writes."""
        if self.features.is_of_imgrec:
            return self.features
        faults = (fault for fault in self.faults if fault.path == layout.FEATURES)
        fault = next(faults, Fault(Code.NOT_OF_IMGREC, layout.FEATURES))
        raise refusal(self.folder, fault, "pack it with imgrec, or load it with tfds.load")

    @property
    def batching_step(self) -> str:
        """Return the `.map(...)` with which TFDS batches several labels an image; "" if one."""
        features = self.features
        if not features.is_of_imgrec or not features.is_multilabel:
            return ""
        return layout.multilabel_step(features.classes, is_one_size=features.is_one_size)

    def refuse_other_files(self) -> None:
        """Raise DatasetError unless the shards are TFRecords with TFDS's default names."""
        formats = [self.declared.file_format, *self.declared.also]
        if not set(formats) & set(layout.FILE_FORMATS.values()):
            raise DatasetError(
                f"{self.folder} holds {', '.join(formats)} files, and imgrec reads TFRecords",
                hint="read it with tfds.data_source or tfds.load",
                path=str(self.folder),
            )
        for split in self.declared.splits:
            if split.template != layout.FILEPATH_TEMPLATE:
                raise DatasetError(
                    f"{self.folder} names its shards {split.template}, which imgrec cannot read",
                    hint="read it with tfds.load",
                    path=str(self.folder),
                )


def read_documents(
    folder: Path, present: frozenset[str] = frozenset(), *, report: bool = False
) -> Documents:
    """Parse all documents of a dataset, and its report if asked to; nothing is an error.

    `present` are the names of all its files, which also tell whether imgrec made it.
    """
    return _Reading(folder).documents(present, report=report)


def read_info(folder: Path) -> DatasetInfo:
    """Return what readers need of a dataset; raise DatasetError if it is missing or wrong.

    Datasets that imgrec did not make have no counts by class.
    """
    return read_documents(folder).info()


def read_report(folder: Path) -> Report:
    """Read the report of the pack that made a dataset; raise DatasetError if it is wrong."""
    path = folder / layout.REPORT
    try:
        return report_codec.decode(read_document(path), path=str(path))
    except OSError as error:
        raise refusal(folder, os_fault(error, layout.REPORT)) from error


def read_json(path: Path) -> dict[str, Any]:  # JSON is untyped until it is looked at
    """Read a document that is a JSON object; raise DatasetError for any other."""
    reading = _Reading(path.parent)
    value = reading.json(path.name)
    if value is None:
        raise refusal(path.parent, reading.faults.listed()[0])
    return value


def read_fingerprint(folder: Path) -> str:
    """Return the fingerprint of the dataset in `folder`; "" if it is not one of imgrec."""
    try:
        return str(read_json(folder / layout.METADATA)["imgrec"]["fingerprint"])
    except (DatasetError, KeyError, TypeError):
        return ""


class _Reading:
    """One pass over the documents of a dataset."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults, self.unchecked = Faults(), Faults()

    def documents(self, present: frozenset[str], *, report: bool) -> Documents:
        try:
            found = (self.json(layout.METADATA, is_optional=True) or {}).get("imgrec", {})
            has_metadata = True
        except FileNotFoundError:
            found, has_metadata = {}, False
        own = found if isinstance(found, dict) else {}
        metadata = self._metadata(own)
        value = self.json(layout.DATASET_INFO)
        is_compressed = bool(metadata.compression)
        declared = InfoDocument()
        if value is not None:
            declared = parse_info(value, self.faults, is_compressed=is_compressed)
        is_ours = bool(found) or declared.module == "imgrec"
        is_ours = is_ours or not present.isdisjoint(_WRITTEN_BY_IMGREC)
        if is_ours and has_metadata:
            self._check_own(own)
        elif is_ours:
            self.faults.say(Code.MISSING, layout.METADATA)
        features = Features({})
        if (value := self.json(layout.FEATURES)) is not None:
            features = parse_features(value, self.faults, self.unchecked)
        self._check_features(features, declared)
        return Documents(
            folder=self.folder,
            declared=declared,
            features=features,
            classes=self._classes(features, is_ours=is_ours),
            metadata=metadata,
            is_ours=is_ours,
            report=self._report() if report and is_ours else None,
            faults=self.faults.listed(),
            unchecked=self.unchecked.listed(),
        )

    def _read(self, name: str, *, is_optional: bool = False) -> bytes | None:
        """Return a file; None, with a fault, if it cannot be read.

        Raises FileNotFoundError for an optional one that is missing.
        """
        try:
            return read_document(self.folder / name)
        except OSError as error:
            if is_optional and isinstance(error, FileNotFoundError):
                raise
            self.faults.add(os_fault(error, name))
            return None

    def json(self, name: str, *, is_optional: bool = False) -> dict[str, object] | None:
        """Return a JSON object; None, with a fault, if it cannot be read."""
        data = self._read(name, is_optional=is_optional)
        if data is None:
            return None
        try:
            text = data.decode()
            value = parse_json(text)
        except UnicodeDecodeError as error:
            self.faults.say(Code.NOT_UTF8, name, error.start)
            return None
        except json.JSONDecodeError as error:
            offset = len(text[: error.pos].encode())
            self.faults.say(Code.NOT_JSON, name, offset, reason=error.msg)
            return None
        except ValueError as error:
            self.faults.say(Code.NOT_JSON, name, reason=str(error))
            return None
        if not isinstance(value, dict):
            self.faults.say(Code.NOT_AN_OBJECT, name)
            return None
        return value

    # metadata.json

    def _metadata(self, own: Mapping[str, Any]) -> _Metadata:
        counts, also = own.get("class_counts", {}), own.get("also", {})
        compression, size = own.get("compression", ""), own.get("uncompressed_bytes", 0)
        is_known = isinstance(compression, str) and compression in layout.FILE_FORMATS
        if not is_known:
            self.faults.say(Code.BAD_COMPRESSION, layout.METADATA, compression=compression)
        try:
            class_counts = {split: counts_of(found) for split, found in counts.items()}
            also_bytes = {
                name: {split: count_of(found) for split, found in sizes.items()}
                for name, sizes in also.items()
            }
            uncompressed_bytes = count_of(size)
        except (AttributeError, TypeError):
            self.faults.say(Code.BAD_METADATA, layout.METADATA)
            class_counts, also_bytes, uncompressed_bytes = {}, {}, 0
        return _Metadata(
            fingerprint=str(own.get("fingerprint", "")),
            compression=str(compression) if is_known else "",
            uncompressed_bytes=uncompressed_bytes,
            class_counts=class_counts,
            also_bytes=also_bytes,
        )

    def _check_own(self, own: Mapping[str, object]) -> None:
        name = layout.METADATA
        if own.get("format") != FORMAT:
            self.faults.say(Code.UNKNOWN_FORMAT, name, found=own.get("format"), known=FORMAT)
        if not _FINGERPRINT.fullmatch(str(own.get("fingerprint"))):
            self.faults.say(Code.NO_FINGERPRINT, name)
        try:
            _ = submission_codec.decode(own["submission"]) if "submission" in own else None
        except ValueError as error:
            self.faults.say(Code.BAD_SUBMISSION, name, reason=str(error))

    # features.json and the class names

    def _check_features(self, features: Features, declared: InfoDocument) -> None:
        if not features.by_name:
            self.unchecked.say(Code.NO_FEATURES, "records")
        elif "filename" not in features.by_name:
            self.unchecked.say(Code.NO_FILENAMES, "names of files")
        for key in declared.supervised:
            if features.by_name and key not in features.by_name:
                self.faults.say(Code.UNKNOWN_SUPERVISED_KEY, layout.DATASET_INFO, key=key)

    def _classes(self, features: Features, *, is_ours: bool) -> tuple[str, ...]:
        """Return the class names of the first feature of labels, after checking those of all."""
        expected = {
            name: feature.classes
            for name, feature in features.by_name.items()
            if feature.classes is not None and fits_in_file_names(name)
        }
        first: tuple[str, ...] | None = None
        for feature in expected or ("label", "labels"):
            name, count = f"{feature}.labels.txt", expected.get(feature)
            try:
                names: tuple[str, ...] | None = self._class_names(name)
            except FileNotFoundError:
                names = None if count is None else self._numbers(name, count, is_ours=is_ours)
            else:
                if count not in (None, len(names or ())):
                    self.faults.say(Code.CLASS_COUNT, name, expected=count, found=len(names or ()))
            first = names if first is None else first
        return first or ()

    def _numbers(self, name: str, count: int, *, is_ours: bool) -> tuple[str, ...]:
        """Name classes that have no names by their numbers, as TFDS does."""
        if is_ours:
            self.faults.say(Code.MISSING, name)
        else:
            self.unchecked.say(Code.ABSENT, name)
        if count > _MOST_CLASSES:
            self.faults.say(Code.TOO_MANY_CLASSES, name, limit=_MOST_CLASSES)
            return ()
        return tuple(map(str, range(count)))

    def _class_names(self, name: str) -> tuple[str, ...]:
        """Return class names as TFDS does: it strips each line, and drops the empty ones."""
        data = self._read(name, is_optional=True)
        if data is None:
            return ()
        if data.count(b"\n") > _MOST_CLASSES:
            self.faults.say(Code.TOO_MANY_CLASSES, name, limit=_MOST_CLASSES)
            return ()
        try:
            lines = data.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            self.faults.say(Code.NOT_UTF8, name)
            return ()
        seen: dict[str, int] = {}
        for line, text in enumerate(lines, 1):
            if not text.strip():
                self.faults.say(Code.BLANK_CLASS, name, line=line)
            elif text != text.strip() or len(text.splitlines()) > 1:
                self.faults.say(Code.CHANGED_CLASS, name, line=line, name=text)
            elif (earlier := seen.setdefault(text, line)) != line:
                self.faults.say(Code.CLASS_TWICE, name, line=line, first=earlier, name=text)
        return tuple(text.strip() for text in lines if text.strip())

    def _report(self) -> Report | None:
        data = self._read(layout.REPORT)
        if data is None:
            return None
        try:
            return report_codec.decode(data, path=layout.REPORT)
        except DatasetError:
            self.faults.say(Code.NOT_A_REPORT, layout.REPORT)
            return None
