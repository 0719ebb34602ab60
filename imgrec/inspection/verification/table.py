"""Whether samples.parquet tells of every record what is so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from imgrec import layout
from imgrec.codec.parquet import iter_bounded
from imgrec.inspection.verification.documents import Claims
from imgrec.inspection.verification.faults import Faults
from imgrec.inspection.verification.inquiry import Inquiry
from imgrec.inspection.verification.shard import ShardClaim, ShardSeen
from imgrec.inspection.verification.spool import Shelf
from imgrec.model import UNLABELLED
from imgrec.storage.paths import seekable, to_path
from imgrec.text import printable

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.parquet as pq

_ROW_BYTES = 4096
"""The most that a row takes on average, beside columns of the source, which records hold, too; what
unpacks to more is no table of records."""
_SLACK_BYTES = 1 << 24
_HASH = "xxh3"
_WHERE = ("shard", "offset")
"""The columns that tell which record a row is about."""
_SHOWN = 200


class TableSeen(NamedTuple):
    """What the table says that the shards alone do not."""

    hashes: Mapping[str, Sequence[bytes]]
    """Of each image in the source, by shard; empty where they cannot be read."""
    doubtful: Mapping[str, Mapping[int, bytes]]
    """By shard and record: hashes that are not those of the images, though these seem raw."""

    def doubts_about(self, shard: str) -> Mapping[int, bytes]:
        """Return the doubtful hashes of a shard, by record."""
        return self.doubtful.get(shard, {})


def check_table(inquiry: Inquiry) -> TableSeen:
    """Compare the table, row by row, with the records of all shards.

    Only the rows of one shard are in memory at a time.
    """
    import pyarrow as pa

    hashes: Shelf[Sequence[bytes]] = Shelf(inquiry.spool)
    doubtful: Shelf[Mapping[int, bytes]] = Shelf(inquiry.spool)
    seen = TableSeen(hashes, doubtful)
    looked = inquiry.looked
    try:
        table = _open(inquiry.folder, looked.records, inquiry.faults, looked.bytes)
        if table is not None:
            _check_rows(inquiry, table, hashes, doubtful)
    except (OSError, ValueError, MemoryError, pa.ArrowException) as error:
        what = f"it cannot be read: {' '.join(str(error).split())}"
        inquiry.faults.add(layout.SAMPLES, what)
    return seen


def _check_rows(
    inquiry: Inquiry,
    table: _Table,
    hashes: Shelf[Sequence[bytes]],
    doubtful: Shelf[Mapping[int, bytes]],
) -> None:
    looked, claims, faults = inquiry.looked, inquiry.claims, inquiry.faults
    records, shards = looked.records, looked.facts()
    is_whole = not inquiry.maimed and all(shard.is_whole for shard in shards)
    if table.num_rows != records and is_whole:
        faults.add(layout.SAMPLES, f"it has {table.num_rows:,} rows for {records:,} records")
    changes = _Changes(claims)
    starts = _own_starts(inquiry, table) or _starts(inquiry)
    for claim in sorted(looked.claims, key=lambda claim: starts[claim.filename]):
        seen, start = looked[claim.filename], starts[claim.filename]
        length = claim.records if claim.records is not None else seen.records
        rows = table.rows(start, min(length, seen.records))
        wanted = _wanted(claim, seen, claims)
        wanted |= _named(seen, claims, rows.column_names)
        columns = _columns(rows, wanted, start, faults)
        if columns is None:
            break
        strange = _strange(columns, wanted)
        _compare(columns, wanted, _Rows(seen, start, strange), faults)
        strange |= _strange(columns, wanted, ("filename",))
        known = [
            b"" if place in strange else _digest(text) for place, text in enumerate(columns[_HASH])
        ]
        doubts = {
            place: digest
            for place, digest in enumerate(known)
            if digest != seen.digest(place)
            and place not in seen.unsound
            and place not in strange
            and not changes.has(seen, place)
        }
        hashes.put(seen.filename, known)
        if doubts:
            doubtful.put(seen.filename, doubts)
    if changes.fault and all(shard.is_whole and shard.is_sound for shard in shards):
        faults.add(layout.SAMPLES, changes.fault)


class _Table:
    """The rows of a table, read from front to back."""

    def __init__(self, file: pq.ParquetFile, path: str | BinaryIO) -> None:
        self._file, self._path = file, path
        groups = [file.metadata.row_group(at) for at in range(file.num_row_groups)]
        self.num_rows = sum(group.num_rows for group in groups)
        self.column_names = file.schema_arrow.names
        self._begin()

    def _begin(self) -> None:
        self._batches = iter_bounded(self._file, self._path, self.column_names)
        self._first, self._batch = 0, next(self._batches, None)

    def rows(self, start: int, count: int) -> pa.Table:
        """Return some rows, as far as there are any; going back means reading again."""
        import pyarrow as pa

        if start < self._first:
            self._begin()
        parts, stop = [], start + count
        while self._batch is not None and self._first < stop:
            end = self._first + self._batch.num_rows
            if end > start:
                skipped = max(start - self._first, 0)
                parts.append(self._batch.slice(skipped, min(stop, end) - self._first - skipped))
            if end > stop:
                break
            self._first, self._batch = end, next(self._batches, None)
        return pa.Table.from_batches(parts) if parts else self._file.schema_arrow.empty_table()

    def first_rows(self, column: str) -> dict[str, int]:
        """Return the row where each value of a column comes first."""
        found: dict[str, int] = {}
        row = 0
        for batch in iter_bounded(self._file, self._path, [column]):
            cells = batch.column(0)
            for value in cells.unique():
                found.setdefault(value.as_py(), row + cells.index(value).as_py())
            row += batch.num_rows
        return found


def _own_starts(inquiry: Inquiry, table: _Table) -> dict[str, int]:
    """Return the row of each shard's first record by the table, if no document tells that truly."""
    looked = inquiry.looked
    is_told = bool(inquiry.declared) and looked.are_counted
    if is_told or _WHERE[0] not in table.column_names:
        return {}
    rows = table.first_rows(_WHERE[0])
    starts = {claim.filename: rows.get(claim.filename, -1) for claim in looked.claims}
    return starts if -1 not in starts.values() else {}


def _starts(inquiry: Inquiry) -> dict[str, int]:
    """Return the row of each shard's first record.

    The documents tell, also where a shard is missing or could not be read to its end.
    """
    starts: dict[str, int] = {}
    row = 0
    told = [(claim.filename, claim.records or 0) for claim in inquiry.declared]
    looked = inquiry.looked
    seen = [
        (claim.filename, facts.records)
        for claim, facts in zip(looked.claims, looked.facts(), strict=True)
    ]
    for filename, length in (*told, *seen):
        if filename not in starts:
            starts[filename] = row
            row += length
    return starts


def _strange(
    found: Mapping[str, Sequence[object]],
    wanted: Mapping[str, Sequence[object]],
    names: tuple[str, ...] = _WHERE,
) -> frozenset[int]:
    """Return which rows tell of other records than those in their places, by some columns."""
    if all(found[name] == wanted[name] for name in names):
        return frozenset()
    rows = zip(*(found[name] for name in names), strict=True)
    right = zip(*(wanted[name] for name in names), strict=True)
    pairs = enumerate(zip(rows, right, strict=False))
    return frozenset(place for place, (row, record) in pairs if row != record)


def _open(folder: str, records: int, faults: Faults, held: int = 0) -> _Table | None:
    """Open the table; return None if it is far too large for so many records of `held` bytes."""
    import pyarrow.parquet as pq

    path = seekable(to_path(folder) / layout.SAMPLES)
    file = pq.ParquetFile(path)
    groups = [file.metadata.row_group(at) for at in range(file.metadata.num_row_groups)]
    size = sum(group.total_byte_size for group in groups)
    most = _SLACK_BYTES + _ROW_BYTES * records + held
    if max(size, 64 * file.metadata.num_rows) > most:
        faults.add(layout.SAMPLES, f"it unpacks to far more than {records:,} rows can take")
        return None
    return _Table(file, path)


class _Changes:
    """Which images are packed otherwise than they were in the source, by the report."""

    def __init__(self, claims: Claims) -> None:
        report = claims.report
        self._is_known = report is not None
        self._transcoded = {file.filename for file in report.transcoded} if report else set()
        options = report.options if report else {}
        self._short_side, self._max_side = options.get("short_side"), options.get("max_side")
        self._unlisted = report.unlisted_transcoded if report else 0
        self._claimed = (report.resized.total if report and report.resized else 0) + self._unlisted
        self._unnamed = 0

    def has(self, seen: ShardSeen, place: int) -> bool:
        """Tell whether an image may have another hash than its file."""
        if not self._is_known or printable(seen.filenames[place]) in self._transcoded:
            return True
        # The report counts the images that were shrunk, but does not name them all; nor does it
        # name more of those that are PNGs now than anyone reads.
        sides = seen.shapes[place][:2]
        may_be = min(sides) == self._short_side or max(sides) == self._max_side
        may_be = may_be or bool(self._unlisted and seen.formats[place] == "PNG")
        self._unnamed += may_be
        return may_be

    @property
    def fault(self) -> str:
        """Say if more images were changed than the report knows of."""
        if self._unnamed <= self._claimed:
            return ""
        return (
            f"{self._unnamed:,} images have another hash than their files, and "
            f"{layout.REPORT} tells of {self._claimed:,} that were "
            f"{'shrunk or transcoded' if self._unlisted else 'shrunk'}"
        )


def _wanted(claim: ShardClaim, seen: ShardSeen, claims: Claims) -> dict[str, Sequence[object]]:
    """Return what the rows of a shard must say, by column."""
    is_multilabel = claims.label_key == "labels"
    labels: Sequence[object] = (
        [list(labels) for labels in seen.labels]
        if is_multilabel
        else [labels[0] if labels else None for labels in seen.labels]
    )
    return {
        "split": [claim.split] * seen.records,
        "shard": [claim.filename] * seen.records,
        "offset": seen.offsets.tolist(),
        "length": seen.lengths.tolist(),
        "labels" if is_multilabel else "label": labels,
        "filename": [printable(name) for name in seen.filenames],
        "height": [shape[0] for shape in seen.shapes],
        "width": [shape[1] for shape in seen.shapes],
        "channels": [shape[2] for shape in seen.shapes],
        "format": list(seen.formats),
    }


def _named(
    seen: ShardSeen, claims: Claims, there: Sequence[str]
) -> Iterator[tuple[str, Sequence[object]]]:
    """Yield what else the rows of a shard must say: tables of earlier versions have none of it."""
    names = dict(enumerate(claims.classes)) | {UNLABELLED: ""}
    sets = [[names.get(label) for label in labels] for labels in seen.labels]
    if "class_name" in there:
        yield "class_name", [found[0] if found else None for found in sets]
    if "class_names" in there:
        yield "class_names", sets
    for at, feature in enumerate(claims.rules.columns):
        if (name := layout.samples_column(feature)) in there:
            yield name, [row[at] if row else None for row in seen.columns]


def _columns(
    rows: pa.Table, wanted: Mapping[str, object], start: int, faults: Faults
) -> dict[str, list[object]] | None:
    """Return the cells of some rows by column; None if they cannot be read."""
    if missing := [name for name in (*wanted, _HASH) if name not in rows.column_names]:
        faults.add(layout.SAMPLES, f"it has no column {', '.join(missing)}")
        return None
    try:
        return {name: rows.column(name).to_pylist() for name in (*wanted, _HASH)}
    except (ValueError, KeyError) as error:  # such as text that is not UTF-8, or two of a name
        faults.add(layout.SAMPLES, f"its rows from {start} on cannot be read: {error}")
        return None


class _Rows(NamedTuple):
    """Where the rows of a shard are."""

    seen: ShardSeen
    start: int
    strange: frozenset[int]
    """Those that are about other records, of which nothing else is compared."""

    def sound(self, count: int) -> Iterator[int]:
        """Yield the records, of the first `count`, of which something is known."""
        return (place for place in range(count) if place not in self.seen.unsound)


def _compare(
    found: Mapping[str, Sequence[object]],
    wanted: Mapping[str, Sequence[object]],
    rows: _Rows,
    faults: Faults,
) -> None:
    for name, right in wanted.items():
        cells = found[name]
        if cells == right:
            continue
        for place in rows.sound(len(cells)):
            is_compared = name in _WHERE or place not in rows.strange
            if is_compared and not _is_same(cells[place], right[place]):
                faults.add(
                    layout.SAMPLES,
                    f"row {rows.start + place}: its {name} is {_shown(cells[place])}, and that of "
                    f"record {place} of {rows.seen.filename} {_shown(right[place])}",
                )


def _is_same(one: object, other: object) -> bool:
    return one == other or (one != one and other != other)  # or both are NaN


def _shown(cell: object) -> str:
    return repr(cell)[:_SHOWN]


def _digest(text: object) -> bytes:
    """Return the hash that a cell holds; b"" if it holds none."""
    try:
        return bytes.fromhex(text) if isinstance(text, str) else b""
    except ValueError:
        return b""
