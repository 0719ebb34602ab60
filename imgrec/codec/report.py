"""The report of a pack as JSON, encoded and decoded."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from imgrec.codec.json_values import (
    count_of,
    counts_of,
    list_of,
    option_of,
    parse_json,
    text_of,
    texts_of,
)
from imgrec.errors import DatasetError
from imgrec.near.duplicates import NearDuplicates, NearPair
from imgrec.notes import (
    COPIES,
    Note,
    NoteKind,
    Resized,
    SameImage,
    copies,
    ignored_files,
    unlisted,
    warnings_of,
)
from imgrec.outcome import Report, SplitInfo
from imgrec.text import printable

_LISTED = {"transcoded": NoteKind.TRANSCODED, "damaged": NoteKind.DAMAGED}
"""Keys of lists of files with reasons."""


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
        **({"unlisted_transcoded": more} if (more := report.unlisted_transcoded) else {}),
        "damaged": _said(report.damaged),
        **_resized(report.resized),
        "duplicates": _same(report.duplicates),
        "leaks": _same(report.leaks),
        **({"unlisted_leaks": more} if (more := report.unlisted_leaks) else {}),
        "conflicts": _same(report.conflicts),
        **_near(report.near_duplicates),
        "warnings": list(map(printable, report.warnings)),
    }
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def _said(files: Sequence[Note]) -> list[dict[str, str]]:
    return [{"file": printable(file.filename), "reason": file.reason} for file in files]


def _resized(resized: Resized | None) -> dict[str, object]:
    if resized is None:  # and a report is as it was before images could be shrunk
        return {}
    return {"resized": {"count": resized.total, "examples": _said(resized.examples)}}


def _near(near: NearDuplicates | None) -> dict[str, object]:
    if near is None:
        return {}
    examples = [
        (printable(pair.first), printable(pair.second), pair.distance, pair.is_mirrored)
        for pair in near.examples
    ]
    return {"near_duplicates": {**near._asdict(), "examples": examples}}


def _same(groups: Sequence[SameImage]) -> list[list[str]]:
    return [list(map(printable, group.filenames)) for group in groups]


def decode(data: bytes, *, path: str) -> Report:
    """Decode a report; raise DatasetError, which names `path`, if it is none."""
    try:
        return _decode(parse_json(data))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{path} is not a report of imgrec", hint="pack it again with --overwrite", path=path
        ) from error


def _decode(value: Any) -> Report:  # JSON is untyped until here
    return Report(
        name=text_of(value["name"]),
        version=text_of(value["version"]),
        source=text_of(value["source"]),
        layout=text_of(value["layout"]),
        fingerprint=text_of(value["fingerprint"]),
        options={text_of(key): option_of(item) for key, item in value["options"].items()},
        classes=texts_of(value["classes"]),
        splits=tuple(
            SplitInfo(
                name=text_of(name),
                shard_lengths=counts_of(split["shard_lengths"]),
                num_bytes=count_of(split["bytes"]),
                class_counts=counts_of(split["class_counts"]),
            )
            for name, split in value["splits"].items()
        ),
        source_bytes=count_of(value["source_bytes"]),
        notes=tuple(_decode_notes(value)),
        near_duplicates=_decode_near(value.get("near_duplicates")),
    )


def _decode_notes(value: Any) -> Iterator[Note]:
    """Yield all notes. The kinds of skipped files are not told apart any more: all are bad."""
    for key, kind in {"skipped": NoteKind.BAD, **_LISTED}.items():
        yield from _decode_said(value[key], kind)
    for item in list_of(value["ignored"]):
        names, count = texts_of(item["examples"]), count_of(item["count"])
        yield from ignored_files(text_of(item["kind"]), names, count)
    if resized := value.get("resized"):
        examples = _decode_said(resized["examples"], NoteKind.RESIZED)
        yield from examples
        yield from unlisted(NoteKind.RESIZED, count_of(resized["count"]) - len(examples))
    for kind in COPIES:
        yield from copies(kind, map(texts_of, list_of(value[kind])))
    for kind in (NoteKind.TRANSCODED, NoteKind.LEAK):
        yield from unlisted(kind, count_of(value.get(f"unlisted_{kind}", 0)))
    yield from warnings_of(texts_of(value["warnings"]))


def _decode_said(items: object, kind: NoteKind) -> list[Note]:
    return [Note(text_of(it["file"]), text_of(it["reason"]), kind) for it in list_of(items)]


def _decode_near(value: Any) -> NearDuplicates | None:
    if value is None:
        return None
    counts = {key: count_of(value[key]) for key in NearDuplicates._fields if key != "examples"}
    examples = tuple(
        NearPair(text_of(first), text_of(second), float(distance), bool(is_mirrored))
        for first, second, distance, is_mirrored in list_of(value["examples"])
    )
    return NearDuplicates(**counts, examples=examples)
