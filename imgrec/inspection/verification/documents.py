"""The documents beside the shards, and what they claim of the records."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from imgrec import layout
from imgrec.codec import submission as submission_codec
from imgrec.codec.json_values import parse_json
from imgrec.inspection.files import MISSING, read_whole, why
from imgrec.inspection.reports import MOST_REPORT_BYTES, decode_report
from imgrec.inspection.verification.faults import Faults
from imgrec.inspection.verification.rules import FeatureRule, Rules
from imgrec.inspection.verification.tfds_features import parse_features, read_class_names
from imgrec.inspection.verification.tfds_info import InfoClaim, parse_info
from imgrec.model import FORMAT
from imgrec.outcome import Report

_MOST_BYTES = 1 << 26
_FINGERPRINT = re.compile("[0-9a-f]{64}")
_OURS = (layout.CHECKSUMS, layout.SAMPLES, layout.REPORT, layout.SKIPPED)
"""What no other program writes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claims:
    """What the documents of a dataset say, as far as they can be read."""

    info: InfoClaim
    rules: Rules
    classes: tuple[str, ...]
    compression: str = ""
    class_counts: Mapping[str, tuple[int, ...]]
    """By split; empty if nothing is said."""
    twin_bytes: Mapping[str, Mapping[str, int]]
    """By format and split."""
    report: Report | None = None

    @property
    def is_ours(self) -> bool:
        """Tell whether imgrec made the dataset."""
        return self.rules.is_ours

    @property
    def label_key(self) -> str:
        """Return the name of the feature that holds the label or labels; "" if there is none."""
        labels = (name for name, rule in self.rules.features.items() if rule.classes is not None)
        return next(labels, "")


@dataclass(frozen=True, slots=True)
class Desk:
    """Where documents are read, and what is said of them is gathered."""

    folder: Path
    faults: Faults
    notes: Faults
    """What is worth saying and no fault."""
    not_checked: list[str]

    def say(self, filename: str) -> Callable[[str], None]:
        """Return what takes faults of a file."""
        return partial(self.faults.add, filename)

    def read(self, filename: str, most: int = _MOST_BYTES) -> bytes | None:
        """Return a file; None, with a fault, if it cannot be read."""
        try:
            data, _ = read_whole(str(self.folder / filename), most)
        except OSError as error:
            self.faults.add(filename, why(error))
            return None
        if data is None:
            self.faults.add(filename, f"it has more than {most:,} bytes")
        return data

    def read_json(self, filename: str) -> dict[str, object]:
        """Return a JSON object; an empty one, with a fault, if there is none."""
        data = self.read(filename)
        if data is None:
            return {}
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            self.faults.add(filename, "it is not UTF-8 text", error.start)
            return {}
        try:
            value = parse_json(text)
        except json.JSONDecodeError as error:
            self.faults.add(
                filename, f"it is not JSON: {error.msg}", len(text[: error.pos].encode())
            )
            return {}
        except ValueError as error:
            self.faults.add(filename, f"it is not JSON that can be read: {error}")
            return {}
        if not isinstance(value, dict):
            self.faults.add(filename, "it is no JSON object")
            return {}
        return value


def read_claims(desk: Desk, present: frozenset[str], *, decodes: bool) -> Claims:
    """Read all documents but the table of records; `present` are the files that there are."""
    has_metadata = layout.METADATA in present
    metadata = desk.read_json(layout.METADATA) if has_metadata else {}
    ours = metadata.get("imgrec")
    own = ours if isinstance(ours, dict) else {}
    compression = own.get("compression", "")
    is_known = isinstance(compression, str) and compression in layout.FILE_FORMATS
    info = parse_info(
        desk.read_json(layout.DATASET_INFO),
        desk.say(layout.DATASET_INFO),
        is_compressed=bool(compression) and is_known,
    )
    is_ours = bool(own) or info.module == "imgrec" or not present.isdisjoint(_OURS)
    if is_ours:
        _check_own(own, desk, has_metadata=has_metadata, is_known=is_known)
    features = parse_features(
        desk.read_json(layout.FEATURES), desk.say(layout.FEATURES), desk.not_checked.append
    )
    if not features:
        desk.not_checked.append(f"what is in records: {layout.FEATURES} does not tell what must be")
    elif "filename" not in features:
        desk.not_checked.append("names of files: records have none")
    _check_supervised(info, features, desk)
    classes = _read_classes(features, desk, is_ours=is_ours)
    claims = Claims(
        info=info,
        rules=Rules(features=features, is_ours=is_ours, decodes=decodes),
        classes=classes,
        compression=compression if isinstance(compression, str) and is_known else "",
        class_counts=_counts(own.get("class_counts")),
        twin_bytes=_twin_bytes(own.get("also")),
        report=_read_report(desk) if is_ours else None,
    )
    _check_report(claims, desk)
    return claims


def _check_own(
    own: Mapping[str, object], desk: Desk, *, has_metadata: bool, is_known: bool
) -> None:
    """Look at what imgrec itself wrote into metadata.json."""
    say = desk.say(layout.METADATA)
    if not has_metadata:
        say(MISSING)
        return
    if own.get("format") != FORMAT:
        say(f"its format is {own.get('format')!r}, and this version of imgrec knows {FORMAT}")
    if not _FINGERPRINT.fullmatch(str(own.get("fingerprint"))):
        say("it has no fingerprint")
    try:
        _ = submission_codec.decode(own["submission"]) if "submission" in own else None
    except ValueError as error:
        say(f"its submission: {error}")
    if not is_known:
        say(f"its compression {own.get('compression')!r} is none that imgrec knows")


def _check_supervised(info: InfoClaim, features: Mapping[str, FeatureRule], desk: Desk) -> None:
    for key in info.supervised:
        if features and key not in features:
            desk.faults.add(
                layout.DATASET_INFO,
                f"its supervisedKeys name {key!r}, which {layout.FEATURES} does not have",
            )


def _read_classes(
    features: Mapping[str, FeatureRule], desk: Desk, *, is_ours: bool
) -> tuple[str, ...]:
    """Return the class names of the first feature of labels, having looked at those of all."""
    first: tuple[str, ...] | None = None
    for feature, rule in features.items():
        if rule.classes is None or "/" in feature or "\0" in feature:
            continue
        filename = f"{feature}.labels.txt"
        names = read_class_names(desk.folder, feature, desk.say(filename))
        if names is None and is_ours:
            desk.faults.add(filename, MISSING)
        elif names is None:
            desk.not_checked.append(f"{filename}: the dataset has none, so classes have no names")
        elif len(names) != rule.classes:
            desk.faults.add(
                filename,
                f"it names {len(names):,} classes, and {layout.FEATURES} tells of {rule.classes:,}",
            )
        first = first if first is not None else names
    return first or ()


def _counts(value: object) -> dict[str, tuple[int, ...]]:
    if not isinstance(value, dict):
        return {}
    return {
        split: tuple(counts)
        for split, counts in value.items()
        if isinstance(counts, list) and all(type(count) is int for count in counts)
    }


def _twin_bytes(value: object) -> dict[str, dict[str, int]]:
    if not isinstance(value, dict):
        return {}
    return {
        name: {split: size for split, size in sizes.items() if type(size) is int}
        for name, sizes in value.items()
        if isinstance(sizes, dict)
    }


def _read_report(desk: Desk) -> Report | None:
    data = desk.read(layout.REPORT, MOST_REPORT_BYTES)
    if data is None:
        return None
    report = decode_report(data)
    if report is None:
        desk.faults.add(layout.REPORT, "it is not a report of imgrec")
    return report


def _check_report(claims: Claims, desk: Desk) -> None:
    """Compare what two documents say of one thing."""
    report, info = claims.report, claims.info
    if report is None or not info.name:
        return
    said = {
        "name": (report.name, info.name),
        "version": (report.version, info.version),
        "classes": (report.classes, claims.classes if claims.rules.features else report.classes),
        "splits": (
            [(split.name, split.shard_lengths, split.num_bytes) for split in report.splits],
            [(split.name, split.shard_lengths, split.num_bytes) for split in info.splits],
        ),
    }
    for what, (one, other) in said.items():
        if one != other:
            desk.faults.add(layout.REPORT, f"its {what} and the dataset's differ")
