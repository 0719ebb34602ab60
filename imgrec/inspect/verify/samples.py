"""samples.parquet, compared row by row with the records of all shards."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.codec.decode import to_pil
from imgrec.errors import BadImage
from imgrec.faults import Code, Faults
from imgrec.inspect.verify.shard import ShardClaim, ShardFacts, images_of
from imgrec.inspect.verify.state import Shelf, State
from imgrec.model import UNLABELLED
from imgrec.outcome import Report
from imgrec.read.documents import Documents
from imgrec.read.samples import SamplesFile
from imgrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa

_ROW_BYTES = 4096
"""The most that a row takes on average, beside columns of the source, which records hold too."""
_SLACK_BYTES = 1 << 24
_HASH = "xxh3"
_WHERE = ("shard", "offset")
"""The columns that name the record of a row."""
_MOST_SHOWN = 200


class TableFacts(NamedTuple):
    """What the table says that the shards alone do not."""

    hashes: Mapping[str, Sequence[bytes]]
    """Of each image in the source, by shard; empty where they cannot be read."""
    doubtful: Mapping[str, Mapping[int, bytes]]
    """By shard and record: hashes that differ from those of the images, though these seem raw."""


def check_table(state: State) -> TableFacts:
    """Compare the table with the records; the rows of one shard are in memory at a time."""
    import pyarrow as pa

    hashes: Shelf[Sequence[bytes]] = Shelf(state.spool)
    doubtful: Shelf[Mapping[int, bytes]] = Shelf(state.spool)
    records, held = state.shards.records, state.shards.bytes
    try:
        table = SamplesFile(state.documents.folder)
        most = _SLACK_BYTES + _ROW_BYTES * records + held
        if max(table.unpacked_bytes, 64 * table.num_rows) > most:
            state.faults.say(Code.TABLE_TOO_LARGE, layout.SAMPLES, records=records)
        else:
            _check_rows(state, table, hashes, doubtful)
    except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
        reason = " ".join(str(error).split())
        state.faults.say(Code.CANNOT_READ, layout.SAMPLES, reason=reason)
    return TableFacts(hashes, doubtful)


def _check_rows(
    state: State,
    table: SamplesFile,
    hashes: Shelf[Sequence[bytes]],
    doubtful: Shelf[Mapping[int, bytes]],
) -> None:
    shards, documents = state.shards, state.documents
    is_whole = not state.incomplete_splits and all(each.is_whole for each in shards.totals())
    if table.num_rows != shards.records and is_whole:
        facts = {"found": table.num_rows, "records": shards.records}
        state.faults.say(Code.ROW_COUNT, layout.SAMPLES, **facts)
    changed = _ChangedImages(documents.report)
    starts = _starts_by_table(state, table) or _starts_by_documents(state)
    for claim in sorted(shards.claims, key=lambda claim: starts[claim.filename]):
        found, start = shards[claim.filename], starts[claim.filename]
        length = claim.records if claim.records is not None else found.records
        rows = table.rows(start, min(length, found.records))
        expected = _expected(claim, found, documents)
        expected |= _expected_names(found, documents, rows.column_names)
        cells = _cells(rows, expected, start, state.faults)
        if cells is None:
            break
        misplaced = _differing(cells, expected, _WHERE)
        _compare(cells, expected, _Rows(found, start, misplaced), state.faults)
        misplaced |= _differing(cells, expected, ("filename",))
        known = [
            b"" if place in misplaced else _digest(text) for place, text in enumerate(cells[_HASH])
        ]
        doubts = {
            place: digest
            for place, digest in enumerate(known)
            if digest != found.digest(place)
            and place not in found.damaged
            and place not in misplaced
            and not changed.may_include(found, place)
        }
        hashes.put(found.filename, known)
        if doubts:
            doubtful.put(found.filename, doubts)
    if all(each.is_whole and each.is_sound for each in shards.totals()):
        changed.check(state.faults)


def _starts_by_table(state: State, table: SamplesFile) -> dict[str, int]:
    """Return the row of each shard's first record by the table, if the documents are wrong."""
    is_declared = bool(state.declared) and state.shards.are_as_declared
    if is_declared or _WHERE[0] not in table.column_names:
        return {}
    rows = table.first_rows(_WHERE[0])
    starts = {claim.filename: rows.get(claim.filename, -1) for claim in state.shards.claims}
    return starts if -1 not in starts.values() else {}


def _starts_by_documents(state: State) -> dict[str, int]:
    """Return the row of each shard's first record by the documents.

    They know it even if a shard is missing, or could not be read to its end.
    """
    starts: dict[str, int] = {}
    row = 0
    declared = [(claim.filename, claim.records or 0) for claim in state.declared]
    pairs = zip(state.shards.claims, state.shards.totals(), strict=True)
    for filename, length in (*declared, *((claim.filename, each.records) for claim, each in pairs)):
        if filename not in starts:
            starts[filename] = row
            row += length
    return starts


def _expected(
    claim: ShardClaim, found: ShardFacts, documents: Documents
) -> dict[str, Sequence[object]]:
    """Return what the rows of a shard must say, by column."""
    is_multilabel = documents.features.label_key == "labels"
    labels: Sequence[object] = (
        [list(labels) for labels in found.labels]
        if is_multilabel
        else [labels[0] if labels else None for labels in found.labels]
    )
    return {
        "split": [claim.split] * found.records,
        "shard": [claim.filename] * found.records,
        "offset": found.offsets.tolist(),
        "length": found.lengths.tolist(),
        "labels" if is_multilabel else "label": labels,
        "filename": [printable(name) for name in found.filenames],
        "height": [shape[0] for shape in found.shapes],
        "width": [shape[1] for shape in found.shapes],
        "channels": [shape[2] for shape in found.shapes],
        "format": list(found.formats),
    }


def _expected_names(
    found: ShardFacts, documents: Documents, present: Sequence[str]
) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield what else the rows of a shard must say: tables of earlier versions lack it."""
    names = dict(enumerate(documents.classes)) | {UNLABELLED: ""}
    sets = [[names.get(label) for label in labels] for labels in found.labels]
    if "class_name" in present:
        yield "class_name", [each[0] if each else None for each in sets]
    if "class_names" in present:
        yield "class_names", sets
    columns = documents.features.single_columns if documents.is_ours else ()
    for at, feature in enumerate(columns):
        if (name := layout.samples_column(feature)) in present:
            yield name, [row[at] if row else None for row in found.columns]


def _cells(
    rows: pa.Table, expected: Mapping[str, object], start: int, faults: Faults
) -> dict[str, list[object]] | None:
    """Return the cells of some rows by column; None, with a fault, if they cannot be read."""
    if missing := [name for name in (*expected, _HASH) if name not in rows.column_names]:
        faults.say(Code.NO_COLUMN, layout.SAMPLES, columns=", ".join(missing))
        return None
    try:
        return {name: rows.column(name).to_pylist() for name in (*expected, _HASH)}
    except (ValueError, KeyError) as error:  # such as text that is not UTF-8, or two of a name
        faults.say(Code.UNREADABLE_ROWS, layout.SAMPLES, row=start, reason=str(error))
        return None


def _differing(
    cells: Mapping[str, Sequence[object]],
    expected: Mapping[str, Sequence[object]],
    names: tuple[str, ...],
) -> frozenset[int]:
    """Return which rows differ from the records in their places, by some columns."""
    if all(cells[name] == expected[name] for name in names):
        return frozenset()
    rows = zip(*(cells[name] for name in names), strict=True)
    right = zip(*(expected[name] for name in names), strict=True)
    pairs = enumerate(zip(rows, right, strict=False))
    return frozenset(place for place, (row, record) in pairs if row != record)


class _Rows(NamedTuple):
    """Where the rows of a shard are."""

    found: ShardFacts
    start: int
    misplaced: frozenset[int]
    """Rows of other records: nothing else of them is compared."""


def _compare(
    cells: Mapping[str, Sequence[object]],
    expected: Mapping[str, Sequence[object]],
    rows: _Rows,
    faults: Faults,
) -> None:
    for name, right in expected.items():
        if cells[name] == right:
            continue
        for place, cell in enumerate(cells[name]):
            is_compared = name in _WHERE or place not in rows.misplaced
            is_same = cell == right[place] or (cell != cell and right[place] != right[place])  # NaN
            if is_compared and not is_same and place not in rows.found.damaged:
                faults.say(
                    Code.WRONG_CELL,
                    layout.SAMPLES,
                    row=rows.start + place,
                    column=name,
                    found=repr(cell)[:_MOST_SHOWN],
                    expected=repr(right[place])[:_MOST_SHOWN],
                    record=place,
                    shard=rows.found.filename,
                )


def _digest(text: object) -> bytes:
    """Return the hash that a cell holds; b"" if it holds none."""
    try:
        return bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return b""


class _ChangedImages:
    """The images that were transcoded or shrunk when they were packed, by the report."""

    def __init__(self, report: Report | None) -> None:
        self._is_known = report is not None
        self._transcoded = {file.filename for file in report.transcoded} if report else set()
        options = report.options if report else {}
        self._short_side, self._max_side = options.get("short_side"), options.get("max_side")
        self._unlisted = report.unlisted_transcoded if report else 0
        self._declared = (report.resized.total if report and report.resized else 0) + self._unlisted
        self._found = 0

    def may_include(self, found: ShardFacts, place: int) -> bool:
        """Tell whether an image may have another hash than its file."""
        if not self._is_known or printable(found.filenames[place]) in self._transcoded:
            return True
        # The report counts the images that were shrunk, but does not name them all; nor does it
        # name more transcoded ones than anyone reads. Those are PNGs.
        sides = found.shapes[place][:2]
        may_be = min(sides) == self._short_side or max(sides) == self._max_side
        may_be = may_be or bool(self._unlisted and found.formats[place] == "PNG")
        self._found += may_be
        return may_be

    def check(self, faults: Faults) -> None:
        """Add a fault if more images were changed than the report counts."""
        if self._found > self._declared:
            how = "shrunk or transcoded" if self._unlisted else "shrunk"
            facts = {"found": self._found, "declared": self._declared, "how": how}
            faults.say(Code.TOO_MANY_CHANGED, layout.SAMPLES, **facts)


class _Doubts(NamedTuple):
    """Hashes in the table that differ from those of a shard's images."""

    filename: str
    digests: Mapping[int, bytes]


@dataclass(frozen=True, slots=True, kw_only=True)
class _PixelCheck:
    """A picklable function that explains such hashes if the source held bare pixels."""

    folder: str
    compression: str

    def __call__(self, doubts: _Doubts) -> tuple[str, list[int]]:
        """Return the shard's name and the records whose hash is not that of their pixels."""
        left = set(doubts.digests)
        path = os.path.join(self.folder, doubts.filename)
        for place, image in images_of(path, self.compression, frozenset(left)):
            if doubts.digests[place] in _pixel_hashes(image):
                left.remove(place)
        return doubts.filename, sorted(left)


def _pixel_hashes(image: bytes) -> list[bytes]:
    """Return the hashes of a PNG's pixels, in the orders that sources have them in."""
    if not image.startswith(b"\x89PNG"):
        return []
    try:
        picture = to_pil(image)
    except BadImage:
        return []
    planes = b"".join(band.tobytes() for band in picture.split())
    return [xxh3_128_digest(picture.tobytes()), xxh3_128_digest(planes)]


def check_doubtful_hashes(state: State, table: TableFacts) -> None:
    """Find hashes in the table that belong neither to images nor to their pixels."""
    tasks = (_Doubts(name, digests) for name, digests in table.doubtful.items() if digests)
    check = _PixelCheck(folder=state.folder, compression=state.documents.metadata.compression)
    with closing(state.job.run(check, tasks)) as running:
        for filename, places in running:
            names = state.shards[filename].filenames if places else ()
            for place in places:
                facts = {"name": names[place], "record": place, "shard": filename}
                state.faults.say(Code.WRONG_HASH, layout.SAMPLES, **facts)
