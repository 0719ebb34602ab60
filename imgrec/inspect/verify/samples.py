"""Compare samples.parquet with the records of all shards, row by row."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.codec.pillow import to_pil
from imgrec.errors import BadImage
from imgrec.faults import Code
from imgrec.inspect.verify.shard import RecordFacts, ShardClaim, ShardFacts, images_of
from imgrec.inspect.verify.state import State
from imgrec.model import UNLABELLED
from imgrec.notes import NoteKind
from imgrec.outcome import Report
from imgrec.read.documents import Documents
from imgrec.read.samples import SamplesFile
from imgrec.text import printable

_ROW_BYTES = 4096
"""The most that a row takes on average, beside columns of the source, which records hold too."""
_SLACK_BYTES = 1 << 24
_HASH = "xxh3"
_PLACE = ("shard", "offset")
"""The columns that name the record of a row."""
_MOST_SHOWN = 200


def check_samples(state: State) -> None:
    """Compare the table with the records. The rows of one shard are in memory at a time."""
    import pyarrow as pa

    doubtful: list[str] = []
    try:
        table = SamplesFile(state.folder)
        most = _SLACK_BYTES + _ROW_BYTES * state.records + state.bytes
        if max(table.unpacked_bytes, 64 * table.num_rows) > most:
            state.faults.say(Code.TABLE_TOO_LARGE, layout.SAMPLES, records=state.records)
        else:
            doubtful.extend(_check_rows(state, table))
    except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        state.faults.say(Code.CANNOT_READ, layout.SAMPLES, reason=reason)
    _check_doubtful_hashes(state, doubtful)


def _check_rows(state: State, table: SamplesFile) -> Iterator[str]:
    """Compare all rows; add their hashes to the facts, and yield shards with doubtful ones."""
    is_whole = all(total.is_whole for total in state.totals.values())
    if table.num_rows != state.records and is_whole and not state.incomplete_splits:
        facts = {"found": table.num_rows, "records": state.records}
        state.faults.say(Code.ROW_COUNT, layout.SAMPLES, **facts)
    changed = _ChangedImages(state.documents.report)
    starts = _starts_in_table(state, table) or _declared_starts(state)
    for claim in sorted(state.shards, key=lambda claim: starts[claim.filename]):
        found = state.read(claim.filename)
        hashes = _compare_shard(state, claim, found, table, starts[claim.filename])
        if hashes is None:
            return
        found.source_hashes = [digest or b"" for digest in hashes]
        found.doubtful = {
            number: digest
            for number, (record, digest) in enumerate(zip(found.records, hashes, strict=False))
            if digest not in (None, record.digest)
            and not record.is_damaged
            and not changed.may_include(record)
        }
        state.put(found)
        if found.doubtful:
            yield claim.filename
    if all(total.is_sound for total in state.totals.values()):
        changed.check(state)


def _compare_shard(
    state: State, claim: ShardClaim, found: ShardFacts, table: SamplesFile, start: int
) -> list[bytes | None] | None:
    """Compare the rows of a shard. Return their hashes, None for rows of other images.

    Returns None if the table cannot be read from here on.
    """
    length = len(found.records)
    rows = table.rows(start, length if claim.records is None else min(length, claim.records))
    expected = dict(_expected(claim, found, state.documents, rows.column_names))
    if missing := [name for name in (*expected, _HASH) if name not in rows.column_names]:
        state.faults.say(Code.NO_COLUMN, layout.SAMPLES, columns=", ".join(missing))
        return None
    try:
        cells = {name: rows.column(name).to_pylist() for name in (*expected, _HASH)}
    except (ValueError, KeyError) as error:  # such as text that is not UTF-8, or two of a name
        state.faults.say(Code.UNREADABLE_ROWS, layout.SAMPLES, row=start, reason=str(error))
        return None
    # Nothing else is compared of a row in the place of another record.
    misplaced = {
        number
        for number in range(rows.num_rows)
        if any(cells[name][number] != expected[name][number] for name in _PLACE)
    }
    for name, right in expected.items():
        for number, cell in enumerate(cells[name]) if cells[name] != right else ():
            is_same = cell == right[number] or (cell != cell and right[number] != right[number])
            is_compared = name in _PLACE or number not in misplaced
            if not is_same and is_compared and not found.records[number].is_damaged:
                state.faults.say(
                    Code.WRONG_CELL,
                    layout.SAMPLES,
                    row=start + number,
                    column=name,
                    found=repr(cell)[:_MOST_SHOWN],
                    expected=repr(right[number])[:_MOST_SHOWN],
                    record=number,
                    shard=claim.filename,
                )
    names, right_names = cells["filename"], expected["filename"]
    return [
        None if number in misplaced or names[number] != right_names[number] else _digest(text)
        for number, text in enumerate(cells[_HASH])
    ]


def _expected(
    claim: ShardClaim, found: ShardFacts, documents: Documents, present: Sequence[str]
) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield the columns that the rows of a shard must have, and their cells."""
    records = found.records
    yield "split", [claim.split] * len(records)
    yield "shard", [claim.filename] * len(records)
    yield "offset", [record.offset for record in records]
    yield "length", [record.length for record in records]
    if documents.features.label_key == "labels":
        yield "labels", [list(record.labels) for record in records]
    else:
        yield "label", [next(iter(record.labels), None) for record in records]
    yield "filename", [printable(record.filename) for record in records]
    for at, side in enumerate(("height", "width", "channels")):
        yield side, [record.shape[at] for record in records]
    yield "format", [record.format for record in records]
    # Tables of earlier versions do not have the columns that follow.
    names = dict(enumerate(documents.classes)) | {UNLABELLED: ""}
    class_names = [[names.get(label) for label in record.labels] for record in records]
    if "class_name" in present:
        yield "class_name", [next(iter(each), None) for each in class_names]
    if "class_names" in present:
        yield "class_names", class_names
    for at, feature in enumerate(documents.features.single_columns if documents.is_ours else ()):
        if (name := layout.samples_column(feature)) in present:
            yield name, [record.columns[at] if record.columns else None for record in records]


def _digest(text: object) -> bytes:
    """Return the hash in a cell; b"" if it has none."""
    try:
        return bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return b""


def _starts_in_table(state: State, table: SamplesFile) -> dict[str, int]:
    """Return the first row of each shard by the table, if the documents are wrong; else {}."""
    is_as_declared = all(
        claim.records == total.records
        for claim in state.shards
        if (total := state.totals[claim.filename]).is_whole
    )
    if (state.declared and is_as_declared) or "shard" not in table.column_names:
        return {}
    rows = table.first_rows("shard")
    starts = {claim.filename: rows.get(claim.filename, -1) for claim in state.shards}
    return starts if -1 not in starts.values() else {}


def _declared_starts(state: State) -> dict[str, int]:
    """Return the first row of each shard by the documents, which know about missing shards too."""
    starts: dict[str, int] = {}
    row = 0
    declared = [(claim.filename, claim.records or 0) for claim in state.declared]
    found = [(claim.filename, state.totals[claim.filename].records) for claim in state.shards]
    for filename, length in (*declared, *found):
        if filename not in starts:
            starts[filename] = row
            row += length
    return starts


class _ChangedImages:
    """The images that the pack transcoded or shrunk, from its report.

    Their hash in the table is that of the file, and differs from that of the packed image.
    """

    def __init__(self, report: Report | None) -> None:
        self._is_known = report is not None
        self._transcoded = {file.filename for file in report.transcoded} if report else set()
        options = report.options if report else {}
        self._short_side, self._max_side = options.get("short_side"), options.get("max_side")
        self._unlisted = report.unlisted(NoteKind.TRANSCODED) if report else 0
        self._declared = (report.resized.total if report and report.resized else 0) + self._unlisted
        self._found = 0

    def may_include(self, record: RecordFacts) -> bool:
        """Return whether an image may have another hash than its file."""
        if not self._is_known or printable(record.filename) in self._transcoded:
            return True
        # The report counts shrunk images, but lists only examples; it also lists a limited number
        # of transcoded ones, which are PNGs.
        sides = record.shape[:2]
        may_be = min(sides) == self._short_side or max(sides) == self._max_side
        may_be = may_be or bool(self._unlisted and record.format == "PNG")
        self._found += may_be
        return may_be

    def check(self, state: State) -> None:
        """Add a fault if more images have changed than the report counts."""
        if self._found > self._declared:
            how = "shrunk or transcoded" if self._unlisted else "shrunk"
            facts = {"found": self._found, "declared": self._declared, "how": how}
            state.faults.say(Code.TOO_MANY_CHANGED, layout.SAMPLES, **facts)


def _check_doubtful_hashes(state: State, filenames: Sequence[str]) -> None:
    """Find hashes that are neither those of the images nor, for raw sources, of their pixels."""
    tasks = ((name, state.read(name).doubtful) for name in filenames)
    compression = state.documents.metadata.compression
    check = partial(_wrong_hashes, folder=str(state.folder), compression=compression)
    with closing(state.job.run(check, tasks)) as running:
        for filename, numbers in running:
            records = state.read(filename).records if numbers else ()
            for number in numbers:
                facts = {"name": records[number].filename, "record": number, "shard": filename}
                state.faults.say(Code.WRONG_HASH, layout.SAMPLES, **facts)


def _wrong_hashes(
    task: tuple[str, Mapping[int, bytes]], folder: str, compression: str
) -> tuple[str, list[int]]:
    """Return a shard's name, and the records whose hash is not that of their pixels."""
    filename, digests = task
    left = set(digests)
    for number, image in images_of(os.path.join(folder, filename), compression, frozenset(left)):
        if digests[number] in _pixel_hashes(image):
            left.remove(number)
    return filename, sorted(left)


def _pixel_hashes(image: bytes) -> list[bytes]:
    """Return the hashes of a PNG's pixels, interleaved and in planes: sources have either."""
    if not image.startswith(b"\x89PNG"):
        return []
    try:
        picture = to_pil(image)
    except BadImage:
        return []
    planes = b"".join(band.tobytes() for band in picture.split())
    return [xxh3_128_digest(picture.tobytes()), xxh3_128_digest(planes)]
