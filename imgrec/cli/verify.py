"""`imgrec verify`: check every byte of a packed dataset."""

from __future__ import annotations

from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.cli.arguments import DATASET_ARGUMENTS, WORKERS, working
from imgrec.cli.parser import argument, switch, verb
from imgrec.cli.render import emit, line, pick
from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from imgrec.faults import Fault
    from imgrec.inspect.verify import Verified

_SHOWN = 20
"""How many faults of one kind are shown for a file."""


@verb(
    ("imgrec verify flowers", "imgrec verify flowers:1.0.0 --source ./flowers --decode"),
    (
        *DATASET_ARGUMENTS,
        argument("--source", "SOURCE", "compare every image with the source it came from"),
        switch("--decode", "decode every image completely"),
        *WORKERS,
    ),
)
def verify(parsed: Namespace) -> int:
    """Check every byte of a dataset, and list all faults with their files and offsets.

    The exit code is 1 if there are any.
    """
    from imgrec import api

    with working(parsed) as workers:
        verified = api.verify(
            parsed.dataset,
            data_dir=parsed.data_dir,
            source=parsed.source,
            decode=parsed.decode,
            **workers,
        )
    emit(parsed, _value(verified), _lines(verified))
    return 1 if verified.faults else 0


def _value(verified: Verified) -> dict[str, object]:
    return {
        **pick(verified, "name version path records shards bytes files not_checked"),
        "ok": not verified.faults,
        "faults": [_fault_value(fault, "fault") for fault in verified.faults],
        "notes": [_fault_value(note, "note") for note in verified.notes],
        "seconds": round(verified.seconds, 3),
    }


def _fault_value(fault: Fault, key: str) -> dict[str, object]:
    return {"file": fault.path, "offset": fault.offset, key: fault.what}


def _lines(verified: Verified) -> Iterator[str]:
    found = number(len(verified.faults), "fault") if verified.faults else "ok"
    files = f" and {number(verified.files, 'file')}" if verified.files else ""
    yield visible(
        f"{verified.name} {verified.version}: {found}; checked "
        f"{number(verified.records, 'record')} in {number(verified.shards, 'shard')} "
        f"({size(verified.bytes)}){files}"
    )
    yield from (line("not checked", what) for what in verified.not_checked)
    yield from _fault_lines(verified.faults)
    if verified.faults:
        yield line("hint", "restore these files from a copy, or pack again with --overwrite")
    if verified.notes:
        count = number(len(verified.notes), "image")
        yield line("note", f"{count} in more than one split, as in the source")
        yield from _fault_lines(verified.notes)


def _fault_lines(faults: Sequence[Fault]) -> Iterator[str]:
    """Show each fault; of many of one kind in one file, only the first."""
    kinds = [(fault.path, fault.code, fault.facts.get("column")) for fault in faults]
    totals, shown = Counter(kinds), Counter[tuple[object, ...]]()
    for fault, kind in zip(faults, kinds, strict=True):
        shown[kind] += 1
        if shown[kind] <= _SHOWN:
            where = fault.path if fault.offset is None else f"{fault.path}, byte {fault.offset}"
            yield visible(f"{where}: {fault.what}")
        if shown[kind] == _SHOWN < totals[kind]:
            more = f"… and {totals[kind] - _SHOWN:,} more of this kind: --json lists all"
            yield visible(f"{fault.path}: {more}")
