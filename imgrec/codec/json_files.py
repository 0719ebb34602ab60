"""The documents that imgrec writes and reads back: report, results of shards, submission format."""

from __future__ import annotations

import base64
import csv
import io
import json
import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import Any

from imgrec.codec.old_layouts import parse_old_layout
from imgrec.codec.untrusted import (
    count_of,
    counts_of,
    list_of,
    option_of,
    parse_json,
    text_of,
    texts_of,
)
from imgrec.errors import DatasetError
from imgrec.model import ARCHIVE_OF, ShardTask, SourceLayout, Submission
from imgrec.near.clusters import NearDuplicates, NearGroup
from imgrec.notes import (
    ALWAYS_LISTED,
    COPIES,
    LISTED,
    Note,
    NoteKind,
    copies,
    ignored_files,
    unlisted,
    warnings_of,
)
from imgrec.options import SourceKind
from imgrec.outcome import RecordTable, Report, ShardResult, SplitInfo
from imgrec.text import printable

_ARRAYS = {"offsets": "Q", "lengths": "Q", "shapes": "I"}
_BYTES = ("hashes", "descriptors", "orientations", "tones")
_COUNTED = (NoteKind.TRANSCODED, NoteKind.LEAK)
"""Of these, report.json also counts the files that it does not list: `verify` needs the total."""


def encode_report(report: Report) -> bytes:
    """Encode `report.json`: the same bytes for the same report."""
    value = {
        "name": report.name,
        "version": report.version,
        "source": printable(report.source),
        "layout": printable(report.layout.text),
        "layout_facts": _encode_layout(report.layout),
        "fingerprint": report.fingerprint,
        "options": dict(report.options),
        "classes": report.classes,
        "splits": {
            split.name: {
                "examples": split.examples,
                "bytes": split.num_bytes,
                "shard_lengths": split.shard_lengths,
                "class_counts": split.class_counts or (),
            }
            for split in report.splits
        },
        "source_bytes": report.source_bytes,
        **dict(_encode_findings(report)),
    }
    return json.dumps(value, indent=1, ensure_ascii=False).encode() + b"\n"


def _encode_layout(layout: SourceLayout) -> dict[str, object]:
    return {
        "kind": layout.kind,
        "is_archive": layout.is_archive,
        "split_depth": layout.split_depth,
        "class_depth": layout.class_depth,
        "columns": [list(map(printable, column)) for column in layout.columns],
        "has_coarse_labels": layout.has_coarse_labels,
    }


def _decode_layout(text: str, value: Any) -> SourceLayout:  # JSON has no types
    if value is None:
        return parse_old_layout(text)
    is_archive = bool(value["is_archive"])
    return SourceLayout(
        kind=SourceKind(text_of(value["kind"])),
        sentence=text.removeprefix(ARCHIVE_OF) if is_archive else text,
        is_archive=is_archive,
        split_depth=count_of(value["split_depth"]),
        class_depth=count_of(value["class_depth"]),
        columns=tuple((name, meaning) for name, meaning in map(texts_of, value["columns"])),
        has_coarse_labels=bool(value["has_coarse_labels"]),
    )


def _encode_findings(report: Report) -> Iterator[tuple[str, object]]:
    """Yield keys and values. A key that older versions did not have is there only if it applies."""

    def counted(kind: NoteKind, items: object) -> Iterator[tuple[str, object]]:
        yield kind, items
        if kind in _COUNTED and (count := report.unlisted(kind)):
            yield f"unlisted_{kind}", count

    ignored = [
        {"kind": i.kind, "count": i.count, "examples": list(map(printable, i.examples))}
        for i in report.ignored
    ]
    yield "skipped", _files(report.skipped)
    yield "ignored", ignored
    for kind, notes in report.listed.items():
        yield from counted(kind, _files(notes))
    if resized := report.resized:
        yield "resized", {"count": resized.total, "examples": _files(resized.examples)}
    for kind in COPIES:
        groups = [list(map(printable, group.filenames)) for group in report.copies(kind)]
        yield from counted(kind, groups)
    if report.near_duplicates:
        yield "near_duplicates", _near(report.near_duplicates)
    yield "warnings", list(map(printable, report.warnings))


def _files(notes: Sequence[Note]) -> list[dict[str, str]]:
    return [
        {"file": printable(note.filename), "reason": note.reason}
        | ({"other": printable(note.other)} if note.other else {})
        for note in notes
    ]


def _near(near: NearDuplicates) -> dict[str, object]:
    examples = [
        {**group._asdict(), "files": list(map(printable, group.files))} for group in near.examples
    ]
    value = {**near._asdict(), "examples": examples}
    if not near.embeddings:
        del value["embeddings"]
    return value


def decode_report(data: bytes, *, path: str) -> Report:
    """Decode `report.json`; raise DatasetError, which names `path`, if it is invalid."""
    try:
        value = parse_json(data)
        return Report(
            name=text_of(value["name"]),
            version=text_of(value["version"]),
            source=text_of(value["source"]),
            layout=_decode_layout(text_of(value["layout"]), value.get("layout_facts")),
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
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DatasetError(
            f"{path} is not a report of imgrec", hint="pack it again with --overwrite", path=path
        ) from error


def _decode_notes(value: Any) -> Iterator[Note]:  # JSON has no types
    """Yield all notes. A report does not keep the kinds of skipped files: all become bad."""
    yield from _decode_files(value["skipped"], NoteKind.BAD)
    for kind in LISTED:
        if kind in ALWAYS_LISTED or kind in value:
            yield from _decode_files(value[kind], kind)
    for item in list_of(value["ignored"]):
        names, count = texts_of(item["examples"]), count_of(item["count"])
        yield from ignored_files(text_of(item["kind"]), names, count)
    if resized := value.get("resized"):
        examples = _decode_files(resized["examples"], NoteKind.RESIZED)
        yield from examples
        yield from unlisted(NoteKind.RESIZED, count_of(resized["count"]) - len(examples))
    for kind in COPIES:
        yield from copies(kind, map(texts_of, list_of(value[kind])))
    for kind in _COUNTED:
        yield from unlisted(kind, count_of(value.get(f"unlisted_{kind}", 0)))
    yield from warnings_of(texts_of(value["warnings"]))


def _decode_files(items: object, kind: NoteKind) -> list[Note]:
    return [
        Note(text_of(it["file"]), text_of(it["reason"]), kind, text_of(it.get("other", "")))
        for it in list_of(items)
    ]


def _decode_near(value: Any) -> NearDuplicates | None:  # JSON has no types
    if value is None:
        return None
    if "pairs" in value:  # of an earlier version, which listed pairs and how much they differ
        examples = list(map(_group_of_pair, list_of(value["examples"])))
        value = {**value, "groups": value["pairs"], "large": 0, "examples": examples}
    value = {"not_compared": 0, **value}  # earlier versions compared all
    counted = [key for key in NearDuplicates._fields if key not in ("examples", "embeddings")]
    groups = tuple(
        NearGroup(
            files=texts_of(group["files"]),
            size=count_of(group["size"]),
            alike=count_of(group["alike"]),
            is_mirrored=bool(group["is_mirrored"]),
        )
        for group in list_of(value["examples"])
    )
    counts = {key: count_of(value[key]) for key in counted}
    embeddings = text_of(value.get("embeddings", ""))
    return NearDuplicates(**counts, examples=groups, embeddings=embeddings)


def _group_of_pair(pair: Any) -> dict[str, object]:
    first, second, thousandths, is_mirrored = pair
    alike = max(0, 100 - math.ceil(float(thousandths) / 10))
    return {"files": [first, second], "size": 2, "alike": alike, "is_mirrored": is_mirrored}


def encode_result(result: ShardResult) -> bytes:
    """Encode the result of a shard as a line of JSON, so that an interrupted run can continue.

    What its task contains already (names, labels, columns) is not repeated.
    """
    records = result.records
    value = {
        "filename": result.filename,
        "size": result.size,
        "sha256": result.sha256,
        "xxh3": result.xxh3,
        "plain_size": result.plain_size,
        "beside": result.beside,
        "source_bytes": result.source_bytes,
        "notes": result.notes,
        **{name: _base64(getattr(records, name).tobytes()) for name in _ARRAYS},
        "formats": " ".join(records.formats),
        **{name: _base64(getattr(records, name)) for name in _BYTES},
    }
    return json.dumps(value).encode() + b"\n"


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def decode_result(data: bytes, task: ShardTask) -> ShardResult:
    """Decode the result of a task; raise DatasetError if it does not belong to that task."""
    try:
        value = json.loads(data)
        result = _decode_result(value, task)
        records = result.records
        count = len(records.samples.filenames)
        sizes = {len(records.offsets), len(records.lengths), len(records.formats)}
        is_whole = sizes | {len(records.shapes) // 3, len(records.hashes) // 16} == {count}
        if value["filename"] != task.filename or not is_whole:
            raise ValueError("it belongs to another task")
    except (ValueError, KeyError, TypeError, OverflowError) as error:  # such as a size of 1e999
        raise DatasetError(f"not the result of {task.filename}", path=task.filename) from error
    return result


def _decode_result(value: Any, task: ShardTask) -> ShardResult:  # JSON has no types
    notes = tuple(
        Note(filename, reason, NoteKind(kind), other, unlisted)
        for filename, reason, kind, other, unlisted in value["notes"]
    )
    bad = {note.filename for note in notes if note.kind is NoteKind.BAD}
    places = [place for place, name in enumerate(task.samples.filenames) if name not in bad]
    columns: dict[str, Any] = {
        name: base64.b64decode(value[name], validate=True) for name in (*_BYTES, *_ARRAYS)
    }
    columns |= {name: array(kind, columns[name]) for name, kind in _ARRAYS.items()}
    return ShardResult(
        split=task.split,
        index=task.index,
        filename=task.filename,
        size=int(value["size"]),
        sha256=str(value["sha256"]),
        xxh3=str(value["xxh3"]),
        plain_size=int(value["plain_size"]),
        beside=tuple((str(name), int(size), str(sha)) for name, size, sha in value["beside"]),
        records=RecordTable(
            samples=task.samples.written(places),
            formats=tuple(value["formats"].split()),
            **columns,
        ),
        source_bytes=int(value["source_bytes"]),
        notes=notes,
    )


def encode_submission(submission: Submission) -> dict[str, object]:
    """Return the required format of a submission, without its sample, as a JSON value."""
    return {
        "id": submission.id_column,
        "label": submission.label_column,
        "separator": submission.separator,
        "values": dict(submission.values),
    }


def decode_submission(value: object, sample: bytes = b"") -> Submission:
    """Decode the output of `encode_submission`; raise ValueError for anything else."""
    try:
        if not isinstance(value, Mapping) or not isinstance(value.get("values"), Mapping):
            raise TypeError("not an object")
        return Submission(
            id_column=text_of(value["id"]),
            label_column=text_of(value["label"]),
            separator=text_of(value["separator"]),
            values={text_of(key): text_of(text) for key, text in value["values"].items()},
            sample=sample,
        )
    except (KeyError, TypeError) as error:
        raise ValueError("it does not describe the format of a submission") from error


def encode_table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> bytes:
    r"""Encode a table as CSV: the same bytes for the same cells.

    >>> encode_table(["id", "label"], [["1", "a,b"]])
    b'id,label\n1,"a,b"\n'
    """
    out = io.StringIO()
    plain = csv.writer(out, lineterminator="\n")
    quoted = csv.writer(out, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in chain((header,), rows):
        # Without quotes a carriage return would be taken for the end of its line.
        (quoted if any("\r" in cell for cell in row) else plain).writerow(row)
    return out.getvalue().encode("utf-8", "backslashreplace")


def decode_table(data: bytes) -> tuple[tuple[str, ...], list[list[str]]]:
    """Return the header and the rows of a CSV table; raise ValueError if it is invalid."""
    try:
        rows = list(csv.reader(io.StringIO(data.decode(), newline=""), strict=True))
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("rows of different lengths")
    return tuple(rows[0]), rows[1:]
