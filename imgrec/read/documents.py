"""The documents of a dataset, parsed once into one value that also lists their faults.

Readers call `Documents.info` or `imgrec_features`, which raise at the first fault that matters to
them. `verify` and `doctor` list all faults.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from imgrec import layout
from imgrec.codec import json_files
from imgrec.codec.untrusted import count_of, counts_of, parse_json
from imgrec.errors import DatasetError
from imgrec.faults import Code, Fault, Faults
from imgrec.model import FORMAT
from imgrec.options.card import DatasetCard
from imgrec.outcome import DatasetInfo, Report
from imgrec.read.files import fault_error, os_fault, read_checksums, read_document
from imgrec.read.tfds_files import (
    Features,
    InfoDocument,
    fits_in_file_names,
    parse_features,
    parse_info,
)

_FINGERPRINT = re.compile("[0-9a-f]{64}")
_MAX_CLASSES = 1 << 20
"""The largest datasets have about 20,000. A class takes 60 bytes in memory, but 2 in a file."""
_WRITTEN_BY_IMGREC = (layout.CHECKSUMS, layout.SAMPLES, layout.REPORT, layout.SKIPPED)
_HARMLESS = frozenset(
    {
        Code.UNKNOWN_KEY, Code.BAD_VERSION, Code.BAD_FILE_FORMAT, Code.NO_SPLITS,
        Code.BAD_SPLIT_NAME, Code.EMPTY_SPLIT, Code.BAD_TEMPLATE, Code.BAD_SUPERVISED_KEYS,
        Code.UNKNOWN_SUPERVISED_KEY, Code.NOT_FEATURES, Code.BAD_FEATURE, Code.CLASS_COUNT,
        Code.BLANK_CLASS, Code.CHANGED_CLASS, Code.CLASS_TWICE, Code.UNKNOWN_FORMAT,
        Code.NO_FINGERPRINT, Code.BAD_SUBMISSION,
    }
)  # fmt: skip
"""Faults that do not prevent reading records."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Metadata:
    """The values that imgrec writes into metadata.json."""

    fingerprint: str = ""
    compression: str = ""
    uncompressed_bytes: int = 0
    class_counts: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """By split; empty if unknown."""
    also_bytes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Bytes of the files in other formats, by format and split."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Documents:
    """The contents of the documents beside the shards, and all their faults."""

    folder: Path
    declared: InfoDocument
    features: Features
    classes: tuple[str, ...]
    metadata: _Metadata
    is_ours: bool
    """Whether imgrec made the dataset."""
    report: Report | None
    """None if it was not requested, or cannot be read."""
    faults: tuple[Fault, ...]
    unchecked: tuple[Fault, ...]
    """What cannot be checked, because the dataset lacks it."""

    def info(self) -> DatasetInfo:
        """Return what readers need; raise DatasetError if it is missing or wrong."""
        for fault in self.faults:
            is_unneeded = fault.path == layout.REPORT
            is_unneeded |= fault.path == layout.FEATURES and bool(self.classes)
            is_absent = fault.code is Code.MISSING and fault.path != layout.DATASET_INFO
            if not (is_unneeded or is_absent or fault.code in _HARMLESS):
                raise fault_error(self.folder, fault)
        declared, metadata = self.declared, self.metadata
        first = declared.splits[0].name if declared.splits else "train"
        place = self.folder.absolute().parent.parent, declared.name, declared.version, first
        has_data_source = declared.also and metadata.fingerprint
        return DatasetInfo(
            name=declared.name,
            version=declared.version,
            path=str(self.folder.absolute()),
            classes=self.classes,
            splits=tuple(
                replace(split, class_counts=metadata.class_counts.get(split.name))
                for split in declared.splits
            ),
            fingerprint=metadata.fingerprint,
            load=layout.load_line(*place, metadata.compression, self.batching_step),
            compression=metadata.compression,
            uncompressed_bytes=metadata.uncompressed_bytes,
            also=declared.also,
            data_source=layout.data_source_line(*place) if has_data_source else "",
            about=self._about(),
            channels=self.features.channels,
        )

    def _about(self) -> DatasetCard:
        """Return what people should know, without the description that imgrec makes up."""
        about, images = self.declared.about, sum(one.examples for one in self.declared.splits)
        is_own = about.description == layout.description(images, len(self.classes))
        return about._replace(description="") if is_own else about

    def imgrec_features(self) -> Features:
        """Return the features of records; raise DatasetError unless imgrec's are among them."""
        if self.features.is_of_imgrec:
            return self.features
        faults = (fault for fault in self.faults if fault.path == layout.FEATURES)
        fault = next(faults, Fault(Code.NOT_OF_IMGREC, layout.FEATURES))
        raise fault_error(self.folder, fault, "pack it with imgrec, or load it with tfds.load")

    @property
    def batching_step(self) -> str:
        """Return the `.map(...)` that lets TFDS batch several labels per image, or ""."""
        features = self.features
        if not features.is_of_imgrec or not features.is_multilabel:
            return ""
        return layout.multilabel_step(features.classes, is_one_size=features.is_one_size)

    def refuse_other_files(self) -> None:
        """Raise DatasetError unless the shards are TFRecords with TFDS's default names."""
        formats = [self.declared.file_format, *self.declared.also]
        names = self.declared.templates.values()
        others = [template for template in names if template != layout.FILEPATH_TEMPLATE]
        if set(formats).isdisjoint(layout.FILE_FORMATS.values()):
            problem = f"has {', '.join(formats)} files; imgrec reads TFRecords only"
        elif others:
            problem = f"has shards named {others[0]}; imgrec cannot read them"
        else:
            return
        hint = "read it with tfds.load or tfds.data_source"
        raise DatasetError(f"{self.folder} {problem}", hint=hint, path=str(self.folder))


def read_documents(
    folder: Path, present: frozenset[str] = frozenset(), *, report: bool = False
) -> Documents:
    """Parse all documents of a dataset, and its report on request; collect all faults.

    `present` are the names of all its files: they also show whether imgrec made it.
    """
    return _DocumentReader(folder).read(present, report=report)


def read_info(folder: Path) -> DatasetInfo:
    """Return what readers need to know of a dataset; raise DatasetError if it is missing or wrong.

    Datasets that imgrec did not make have no counts by class.
    """
    return read_documents(folder).info()


def read_report(folder: Path) -> Report:
    """Read the report of the pack that made a dataset; raise DatasetError if it is wrong."""
    path = folder / layout.REPORT
    try:
        return json_files.decode_report(read_document(path), path=str(path))
    except OSError as error:
        raise fault_error(folder, os_fault(error, layout.REPORT)) from error


def read_json(path: Path) -> dict[str, Any]:  # JSON has no static types
    """Read a JSON object; raise DatasetError for anything else."""
    reader = _DocumentReader(path.parent)
    value = reader.read_json(path.name)
    if value is None:
        raise fault_error(path.parent, reader.faults.listed()[0])
    return value


def read_fingerprint(folder: Path) -> str:
    """Return the fingerprint of the dataset in `folder`; "" if imgrec did not make it."""
    try:
        return str(read_json(folder / layout.METADATA)["imgrec"]["fingerprint"])
    except (DatasetError, KeyError, TypeError):
        return ""


def find_damage(folder: Path) -> str:
    """Describe the first file with a wrong size or no file at all; "" if all sizes are right.

    This is a quick look, without reading the shards.
    """
    faults = Faults()
    sizes = {}
    for name in read_checksums(folder, faults):
        try:
            sizes[name] = (folder / name).stat().st_size
        except OSError as error:
            return f"{name}: {error.strerror}"
    for fault in faults.listed():
        return f"{fault.path}: {fault.what}"
    documents = read_documents(folder)
    try:
        info = documents.info()
    except DatasetError as error:
        return error.message.removeprefix(f"{folder}/")
    for split in info.splits:
        shards = layout.shard_filenames(info, split)
        expected: dict[str, tuple[tuple[str, ...], int | None]] = {}
        expected["shards"] = shards, split.num_bytes
        for also in info.also:
            names = tuple(layout.twin_filename(shard, also) for shard in shards)
            also_bytes = documents.metadata.also_bytes.get(also, {}).get(split.name)
            expected[f"{also} files"] = names, also_bytes
        for what, (names, num_bytes) in expected.items():
            if (total := sum(sizes.get(name, 0) for name in names)) != num_bytes:
                return f"the {what} of {split.name} have {total} bytes instead of {num_bytes}"
    return ""


class _DocumentReader:
    """One pass over the documents of a dataset."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.faults, self.unchecked = Faults(), Faults()

    def read(self, present: frozenset[str], *, report: bool) -> Documents:
        try:
            own = (self.read_json(layout.METADATA, is_optional=True) or {}).get("imgrec", {})
            has_metadata = True
        except FileNotFoundError:
            own, has_metadata = {}, False
        values = own if isinstance(own, dict) else {}
        metadata = self._parse_metadata(values)
        declared, features = InfoDocument(), Features({})
        if (value := self.read_json(layout.DATASET_INFO)) is not None:
            is_compressed = bool(metadata.compression)
            declared = parse_info(value, self.faults, is_compressed=is_compressed)
        is_ours = bool(own) or declared.module == "imgrec"
        is_ours = is_ours or not present.isdisjoint(_WRITTEN_BY_IMGREC)
        if is_ours and has_metadata:
            self._check_metadata(values)
        elif is_ours:
            self.faults.say(Code.MISSING, layout.METADATA)
        if (value := self.read_json(layout.FEATURES)) is not None:
            features = parse_features(value, self.faults, self.unchecked)
        self._check_features(features, declared)
        return Documents(
            folder=self.folder,
            declared=declared,
            features=features,
            classes=self._read_classes(features, is_ours=is_ours),
            metadata=metadata,
            is_ours=is_ours,
            report=self._read_report() if report and is_ours else None,
            faults=self.faults.listed(),
            unchecked=self.unchecked.listed(),
        )

    def _read(self, name: str, *, is_optional: bool = False) -> bytes | None:
        """Return a file; None, with a fault, if it cannot be read.

        Raises FileNotFoundError if an optional file is missing.
        """
        try:
            return read_document(self.folder / name)
        except OSError as error:
            if is_optional and isinstance(error, FileNotFoundError):
                raise
            self.faults.add(os_fault(error, name))
            return None

    def read_json(self, name: str, *, is_optional: bool = False) -> dict[str, object] | None:
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

    def _parse_metadata(self, own: Mapping[str, Any]) -> _Metadata:
        compression = own.get("compression", "")
        if not isinstance(compression, str) or compression not in layout.FILE_FORMATS:
            self.faults.say(Code.BAD_COMPRESSION, layout.METADATA, compression=compression)
            compression = ""
        metadata = _Metadata(fingerprint=str(own.get("fingerprint", "")), compression=compression)
        try:
            counts, also = own.get("class_counts", {}), own.get("also", {})
            return replace(
                metadata,
                uncompressed_bytes=count_of(own.get("uncompressed_bytes", 0)),
                class_counts={split: counts_of(value) for split, value in counts.items()},
                also_bytes={
                    name: {split: count_of(value) for split, value in sizes.items()}
                    for name, sizes in also.items()
                },
            )
        except (AttributeError, TypeError):
            self.faults.say(Code.BAD_METADATA, layout.METADATA)
            return metadata

    def _check_metadata(self, own: Mapping[str, object]) -> None:
        path = layout.METADATA
        if own.get("format") != FORMAT:
            self.faults.say(Code.UNKNOWN_FORMAT, path, found=own.get("format"), known=FORMAT)
        if not _FINGERPRINT.fullmatch(str(own.get("fingerprint"))):
            self.faults.say(Code.NO_FINGERPRINT, path)
        try:
            _ = json_files.decode_submission(own["submission"]) if "submission" in own else None
        except ValueError as error:
            self.faults.say(Code.BAD_SUBMISSION, path, reason=str(error))

    def _check_features(self, features: Features, declared: InfoDocument) -> None:
        if not features.by_name:
            self.unchecked.say(Code.NO_FEATURES, "records")
            return
        if "filename" not in features.by_name:
            self.unchecked.say(Code.NO_FILENAMES, "names of files")
        for key in declared.supervised:
            if key not in features.by_name:
                self.faults.say(Code.UNKNOWN_SUPERVISED_KEY, layout.DATASET_INFO, key=key)

    def _read_classes(self, features: Features, *, is_ours: bool) -> tuple[str, ...]:
        """Check the class names of all features; return those of the first."""
        expected = {
            name: feature.classes
            for name, feature in features.by_name.items()
            if feature.classes is not None and fits_in_file_names(name)
        }
        first: tuple[str, ...] | None = None
        for feature in expected or ("label", "labels"):
            name, count = f"{feature}.labels.txt", expected.get(feature)
            names: tuple[str, ...] | None = None
            try:
                names = self._read_class_names(name)
                if count not in (None, len(names)):
                    self.faults.say(Code.CLASS_COUNT, name, expected=count, found=len(names))
            except FileNotFoundError:
                if count is not None:
                    (self.faults if is_ours else self.unchecked).say(
                        Code.MISSING if is_ours else Code.ABSENT, name
                    )
                    names = self._number_classes(name, count)
            first = names if first is None else first
        return first or ()

    def _number_classes(self, name: str, count: int) -> tuple[str, ...]:
        """Name classes by their numbers, as TFDS does without a file of names."""
        if count > _MAX_CLASSES:
            self.faults.say(Code.TOO_MANY_CLASSES, name, limit=_MAX_CLASSES)
            return ()
        return tuple(map(str, range(count)))

    def _read_class_names(self, name: str) -> tuple[str, ...]:
        """Return class names as TFDS does: it strips each line, and drops empty ones."""
        data = self._read(name, is_optional=True)
        if data is None:
            return ()
        if data.count(b"\n") > _MAX_CLASSES:
            self.faults.say(Code.TOO_MANY_CLASSES, name, limit=_MAX_CLASSES)
            return ()
        try:
            lines = data.decode().removesuffix("\n").split("\n")
        except UnicodeDecodeError:
            self.faults.say(Code.NOT_UTF8, name)
            return ()
        first_lines: dict[str, int] = {}
        for line, text in enumerate(lines, 1):
            if not text.strip():
                self.faults.say(Code.BLANK_CLASS, name, line=line)
            elif text != text.strip() or len(text.splitlines()) > 1:
                self.faults.say(Code.CHANGED_CLASS, name, line=line, name=text)
            elif (first := first_lines.setdefault(text, line)) != line:
                self.faults.say(Code.CLASS_TWICE, name, line=line, first=first, name=text)
        return tuple(text.strip() for text in lines if text.strip())

    def _read_report(self) -> Report | None:
        data = self._read(layout.REPORT)
        if data is None:
            return None
        try:
            return json_files.decode_report(data, path=layout.REPORT)
        except DatasetError:
            self.faults.say(Code.NOT_A_REPORT, layout.REPORT)
            return None
