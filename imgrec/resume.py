"""Continuing a run that was cut off: which of its shards can be kept.

A run notes its fingerprint, when it began, and the result of each shard that is finished. The next
run of the same plan keeps the shards that are still, to the byte, what their results say.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from functools import partial

from imgrec import __version__
from imgrec.codec import result as result_codec
from imgrec.engine import Engine
from imgrec.errors import DatasetError
from imgrec.model import Plan
from imgrec.outcome import ShardResult
from imgrec.storage.files import Seal, is_intact
from imgrec.storage.staging import Staging

_RUN = "run"


@dataclass(frozen=True, slots=True, kw_only=True)
class Resumed:
    """What is left of a run that was cut off."""

    started_ns: int
    """When the first of the runs began that this one continues."""
    kept: Mapping[str, ShardResult]
    """The shards that need not be written again, by name."""
    restarted: str = ""
    """Why what there was could not be kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """What decides whether a run continues another."""

    fingerprint: str
    started_ns: int
    newest_change_ns: int
    """When the source last changed."""

    def encode(self, started_ns: int) -> bytes:
        """Return the note that the next run reads."""
        value = {"started_ns": started_ns, "fingerprint": self.fingerprint, "made_by": _made_by()}
        return json.dumps(value).encode() + b"\n"


def resume(staging: Staging, plan: Plan, run: Run, engine: Engine) -> Resumed:
    """Keep what can be kept of a run before, remove the rest, and note that this one has begun."""
    notes = staging.notes()
    before = _decode(notes.pop(_RUN, b""))
    why = _difference(before, run) if notes else ""
    kept = {} if why else _kept(staging, plan, notes, engine)
    seals = [seal for result in kept.values() for seal in _seals(result)]
    staging.keep({seal.filename for seal in seals}, kept)
    started_ns = _started_ns(before) if kept else run.started_ns
    staging.note(_RUN, run.encode(started_ns))
    return Resumed(started_ns=started_ns, kept=kept, restarted=why)


def start_over(staging: Staging, run: Run) -> Resumed:
    """Remove all that a run before left, and note that this one has begun."""
    staging.keep((), ())
    staging.note(_RUN, run.encode(run.started_ns))
    return Resumed(started_ns=run.started_ns, kept={})


def note_result(staging: Staging, result: ShardResult) -> None:
    """Note that a shard is finished."""
    staging.note(result.filename, result_codec.encode(result))


def _difference(before: Mapping[str, object], run: Run) -> str:
    """Say why a run does not continue the one before, or ""."""
    if before.get("made_by") != _made_by():
        return "it was begun by other versions of imgrec or of its decoders"
    if before.get("fingerprint") != run.fingerprint:
        return "its source or its options were others"
    # As in a dataset that is there already, equal names and sizes do not tell everything.
    if run.newest_change_ns >= _started_ns(before):
        return "its source has been touched since"
    return ""


def _kept(
    staging: Staging, plan: Plan, notes: Mapping[str, bytes], engine: Engine
) -> dict[str, ShardResult]:
    found = {}
    for task in plan.tasks:
        if task.filename in notes:
            try:
                found[task.filename] = result_codec.decode(notes[task.filename], task)
            except DatasetError:
                continue  # as if it had not been finished
    checks = [(filename, seal) for filename, result in found.items() for seal in _seals(result)]
    check = partial(_is_intact, str(staging.path))
    with closing(engine.run(check, checks)) as verdicts:
        broken = {filename for filename, is_whole in verdicts if not is_whole}
    return {filename: result for filename, result in found.items() if filename not in broken}


def _is_intact(folder: str, check: tuple[str, Seal]) -> tuple[str, bool]:
    filename, seal = check
    return filename, is_intact(folder, seal)


def _seals(result: ShardResult) -> list[Seal]:
    own = Seal(result.filename, result.size, result.sha256)
    return [own, *(Seal(*beside) for beside in result.beside)]


def _decode(data: bytes) -> dict[str, object]:
    try:
        value = json.loads(data)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _started_ns(before: Mapping[str, object]) -> int:
    found = before.get("started_ns")
    return found if isinstance(found, int) else 0


def _made_by() -> str:
    """Name the versions of all that decides the bytes of a shard."""
    import PIL

    return f"imgrec {__version__}, Pillow {PIL.__version__}"
