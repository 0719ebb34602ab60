"""`imgrec verify`: find out whether a packed dataset is sound."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_dataset, add_workers
from imgrec.cli.parser import VERBS
from imgrec.cli.workers import working
from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.faults import Fault
    from imgrec.inspect.verify.verify import Verified

_EXAMPLES = """\
examples:
  imgrec verify flowers
  imgrec verify flowers:1.0.0 --source ./flowers --decode
"""
_SHOWN = 20
"""How many faults of one kind are shown of a file."""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "verify",
        help=VERBS["verify"],
        description="Look at every byte of a dataset and list all faults, each with its file and "
        "offset. Exit code 1 if there are any.",
        epilog=_EXAMPLES,
    )
    add_dataset(parser)
    parser.add_argument(
        "--source",
        default="",
        metavar="SOURCE",
        help="compare every image with what it was packed from",
    )
    parser.add_argument("--decode", action="store_true", help="decode every image to its end")
    add_workers(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Verify, and print what was found."""
    with working(parsed) as workers:
        from imgrec import api  # while the workers start

        verified = api.verify(
            parsed.dataset,
            data_dir=parsed.data_dir,
            source=parsed.source,
            decode=parsed.decode,
            engine=workers.engine,
            on_progress=workers.progress,
        )
    print(render.as_json(as_value(verified)) if parsed.json else as_text(verified))
    return 1 if verified.faults else 0


def as_value(verified: Verified) -> dict[str, object]:
    """Return the outcome as a JSON value."""
    return {
        "name": verified.name,
        "version": verified.version,
        "path": verified.path,
        "ok": not verified.faults,
        "records": verified.records,
        "shards": verified.shards,
        "bytes": verified.bytes,
        "files": verified.files,
        "faults": [_value(fault, "fault") for fault in verified.faults],
        "notes": [_value(note, "note") for note in verified.notes],
        "not_checked": list(map(printable, verified.not_checked)),
        "seconds": round(verified.seconds, 3),
    }


def _value(fault: Fault, called: str) -> dict[str, object]:
    return {"file": printable(fault.path), "offset": fault.offset, called: fault.what}


def as_text(verified: Verified) -> str:
    """Return the outcome for people."""
    found = render.number(len(verified.faults), "fault") if verified.faults else "ok"
    files = f" and {render.number(verified.files, 'file')}" if verified.files else ""
    lines = [
        render.safe(
            f"{verified.name} {verified.version}: {found}; looked at "
            f"{render.number(verified.records, 'record')} in "
            f"{render.number(verified.shards, 'shard')} ({render.size(verified.bytes)}){files}"
        ),
        *(render.line("not checked", what) for what in verified.not_checked),
        *_fault_lines(verified.faults),
        *_note_lines(verified.notes),
    ]
    return "\n".join(lines)


def _note_lines(notes: Sequence[Fault]) -> Iterator[str]:
    if notes:
        count = render.number(len(notes), "image")
        yield render.line("note", f"{count} in more than one split, as in the source")
        yield from _fault_lines(notes)


def _fault_lines(faults: Sequence[Fault]) -> Iterator[str]:
    """Yield a line for each fault; of many of one kind in one file, for the first of them."""
    kinds = [(fault.path, fault.code, fault.facts.get("column")) for fault in faults]
    counts, told = Counter(kinds), Counter[tuple[object, ...]]()
    for fault, kind in zip(faults, kinds, strict=True):
        told[kind] += 1
        if told[kind] <= _SHOWN:
            yield _fault_line(fault)
        if told[kind] == _SHOWN < counts[kind]:
            more = f"… and {counts[kind] - _SHOWN:,} more of this kind: --json lists all"
            yield render.safe(f"{fault.path}: {more}")


def _fault_line(fault: Fault) -> str:
    where = fault.path if fault.offset is None else f"{fault.path}, byte {fault.offset}"
    return render.safe(f"{where}: {fault.what}")
