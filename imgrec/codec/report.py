"""The report of a pack as JSON, encoded and decoded."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from imgrec.errors import DatasetError
from imgrec.model import Ignored, SameImage, Skipped
from imgrec.outcome import Report, SplitInfo
from imgrec.text import printable


def encode(report: Report) -> bytes:
    """Encode a report as JSON that is the same for the same report."""
    value = {
        "name": report.name,
        "version": report.version,
        "source": printable(report.source),
        "layout": report.layout,
        "fingerprint": report.fingerprint,
        "options": dict(report.options),
        "classes": list(report.classes),
        "splits": {
            split.name: {
                "examples": split.examples,
                "bytes": split.num_bytes,
                "shard_lengths": list(split.shard_lengths),
                "class_counts": list(split.class_counts or ()),
            }
            for split in report.splits
        },
        "source_bytes": report.source_bytes,
        "skipped": _said(report.skipped),
        "ignored": [
            {"kind": i.kind, "count": i.count, "examples": list(map(printable, i.examples))}
            for i in report.ignored
        ],
        "transcoded": _said(report.transcoded),
        "damaged": _said(report.damaged),
        "duplicates": _same(report.duplicates),
        "leaks": _same(report.leaks),
        "conflicts": _same(report.conflicts),
        "warnings": list(map(printable, report.warnings)),
    }
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def _said(files: Sequence[Skipped]) -> list[dict[str, str]]:
    return [{"file": printable(file.filename), "reason": file.reason} for file in files]


def _same(groups: Sequence[SameImage]) -> list[list[str]]:
    return [list(map(printable, group.filenames)) for group in groups]


def decode(data: bytes, *, path: str) -> Report:
    """Decode a report; raise DatasetError, which names `path`, if it is none."""
    try:
        return _decode(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(f"{path} is not a report of imgrec", path=path) from error


def _decode(value: Any) -> Report:  # JSON is untyped until here
    def said(key: str) -> tuple[Skipped, ...]:
        return tuple(Skipped(item["file"], item["reason"]) for item in value[key])

    def same(key: str) -> tuple[SameImage, ...]:
        return tuple(SameImage(tuple(group)) for group in value[key])

    return Report(
        name=value["name"],
        version=value["version"],
        source=value["source"],
        layout=value["layout"],
        fingerprint=value["fingerprint"],
        options=value["options"],
        classes=tuple(value["classes"]),
        splits=tuple(
            SplitInfo(
                name=name,
                shard_lengths=tuple(split["shard_lengths"]),
                num_bytes=split["bytes"],
                class_counts=tuple(split["class_counts"]),
            )
            for name, split in value["splits"].items()
        ),
        source_bytes=value["source_bytes"],
        skipped=said("skipped"),
        ignored=tuple(
            Ignored(kind=item["kind"], count=item["count"], examples=tuple(item["examples"]))
            for item in value["ignored"]
        ),
        transcoded=said("transcoded"),
        damaged=said("damaged"),
        duplicates=same("duplicates"),
        leaks=same("leaks"),
        conflicts=same("conflicts"),
        warnings=tuple(value["warnings"]),
    )
