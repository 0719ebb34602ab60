"""Decisions about the images of a dataset, saved at once, with undo and redo.

The dataset itself is never changed: the decisions go into a table beside it.
"""

from __future__ import annotations

import os
import shlex
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.errors import ExecutionError, ImgrecError, SourceError, UsageError
from imgrec.outcome import DatasetInfo
from imgrec.planning.classes import normal_name
from imgrec.planning.corrections import SEPARATOR
from imgrec.read.files import find_dataset, read_document
from imgrec.storage.files import write_file
from imgrec.storage.paths import is_remote, refuse_remote, to_path
from imgrec.text import listed, number, printable
from imgrec.view.catalogue import Catalogue
from imgrec.view.decided import KEEP, NOTHING, Decided, Decision
from imgrec.view.decision_table import (
    Names,
    decode_decisions,
    encode_decisions,
    label_cell,
    with_new_classes,
)

_SUFFIX = ".csv"
_OPTION = "--corrections"
_SHOWN_FAULTS = 20
_LONGEST_NAME = 200
_MOST_STEPS = 500
"""Steps that can be undone."""


class Wish(StrEnum):
    """What can be asked for images."""

    FLAG = "flag"
    DROP = "drop"
    RELABEL = "relabel"
    MOVE = "move"
    RESET = "reset"


class Step(NamedTuple):
    """One step, to be undone or done again."""

    title: str
    decisions: Mapping[int, Decision]
    """What is decided about its images after the step."""


class Decisions:
    """The decisions about a dataset, and the file that keeps them. Threads may share it."""

    def __init__(self, path: str, catalogue: Catalogue, info: DatasetInfo) -> None:
        """Continue the file at `path` if there is one; raise SourceError if it is not ours."""
        self._catalogue = catalogue
        self._own_classes = len(info.classes)
        self.names = Names(info.classes, catalogue.split_names, catalogue.is_multilabel)
        self.path = checked_path(path, to_path(info.path))
        self._command = f"imgrec edit {shlex.quote(_target(info))} {shlex.quote(self.path)}"
        self._done: list[Step] = []
        self._undone: list[Step] = []
        self._lock = threading.Lock()
        self._state = _state_of(self.path)
        self.now = Decided.nothing(len(catalogue)).having(self._read(info) if self._state else {})

    @property
    def command(self) -> str:
        """The command that applies the decisions."""
        return self._command + " --new-classes" * (len(self.names.classes) > self._own_classes)

    def label_of_new(self, name: str) -> int:
        """Return the label of a class, which is added if the dataset does not have it."""
        name = normal_name(" ".join(name.split()))
        if not name or len(name) > _LONGEST_NAME or not name.isprintable():
            raise UsageError(f"a class needs a name of 1 to {_LONGEST_NAME} characters")
        if self.names.is_multilabel and SEPARATOR in name:
            raise UsageError(f"{SEPARATOR!r} separates the labels of an image")
        with self._lock:
            if name not in self.names.classes:
                self.names = self.names._replace(classes=(*self.names.classes, name))
            return list(self.names.classes).index(name)

    @property
    def undoable(self) -> str:
        """What `undo` would take back; "" for nothing."""
        return self._done[-1].title if self._done else ""

    @property
    def redoable(self) -> str:
        """What `redo` would do again; "" for nothing."""
        return self._undone[-1].title if self._undone else ""

    def decide(
        self, wish: Wish, numbers: Sequence[int], *, labels: Sequence[int] = (), split: int = KEEP
    ) -> str:
        """Decide about some images, save it, and return what was done.

        A second flag or drop takes back the first. Raises ExecutionError if it cannot be saved, and
        nothing is decided then.
        """
        if bool(labels) is not (wish is Wish.RELABEL) or (split != KEEP) is not (wish is Wish.MOVE):
            raise UsageError("relabel needs labels, and move a split; nothing else does")
        labels = tuple(sorted(set(labels)))
        label_cell(labels, self.names)  # or it could not be saved
        with self._lock:
            old = {record: self.now.decisions.get(record, NOTHING) for record in numbers}
            is_on = not all(_has(wish, decision) for decision in old.values())
            new = self._wanted(wish, old, is_on, labels, split)
            new = {record: wanted for record, wanted in new.items() if wanted != old[record]}
            if not new:
                return "Nothing to change"
            title = self._title(wish, len(new), is_on, labels, split)
            self._save(new)
            self._done.append(Step(title, {record: old[record] for record in new}))
            del self._done[:-_MOST_STEPS]
            self._undone.clear()
            return title

    def undo(self) -> str:
        """Take back the last step, save it, and return what was done."""
        return self._swap(self._done, self._undone, "Undone", "Nothing to undo")

    def redo(self) -> str:
        """Do again what was taken back, save it, and return what was done."""
        return self._swap(self._undone, self._done, "Redone", "Nothing to redo")

    def _swap(self, one: list[Step], other: list[Step], verb: str, nothing: str) -> str:
        with self._lock:
            if not one:
                return nothing
            step, decisions = one[-1], self.now.decisions
            before = {record: decisions.get(record, NOTHING) for record in step.decisions}
            self._save(step.decisions)
            one.pop()
            other.append(Step(step.title, before))
            return f"{verb}: {step.title}"

    def _wanted(
        self,
        wish: Wish,
        old: Mapping[int, Decision],
        is_on: bool,
        labels: tuple[int, ...],
        split: int,
    ) -> dict[int, Decision]:
        if wish is Wish.RESET:
            return dict.fromkeys(old, NOTHING)
        if wish is Wish.FLAG:
            return {n: decision._replace(is_flagged=is_on) for n, decision in old.items()}
        if wish is Wish.DROP:  # of a dropped image nothing else can be changed
            return {n: Decision(decision.is_flagged, is_on) for n, decision in old.items()}
        if wish is Wish.MOVE:
            own = dict(zip(old, self._catalogue.splits[list(old)].tolist(), strict=True))
            splits = {n: KEEP if own[n] == split else split for n in old}
            return {n: one._replace(is_dropped=False, split=splits[n]) for n, one in old.items()}
        labels_of = self._catalogue.labels_of
        sets = {n: () if tuple(sorted(labels_of(n))) == labels else labels for n in old}
        return {n: one._replace(is_dropped=False, labels=sets[n]) for n, one in old.items()}

    def _title(self, wish: Wish, count: int, is_on: bool, labels: Sequence[int], split: int) -> str:
        images = number(count, "image")
        if wish is Wish.RELABEL:
            return f"{images} relabelled as {printable(label_cell(labels, self.names))}"
        if wish is Wish.MOVE:
            return f"{images} to move to {printable(self.names.splits[split])}"
        titles = {
            Wish.FLAG: "flagged" if is_on else "no longer flagged",
            Wish.DROP: "to drop" if is_on else "to keep",
            Wish.RESET: "reset",
        }
        return f"{images} {titles[wish]}"

    # The file.

    def _read(self, info: DatasetInfo) -> dict[int, Decision]:
        filenames: list[str] = self._catalogue.filenames.to_pylist()
        hint = f"rename it, or choose another file with {_OPTION}"
        try:
            data = read_document(Path(self.path))
            self.names = with_new_classes(data, self.names)
            found, faults = decode_decisions(data, filenames, self.names)
        except (OSError, ValueError) as error:
            raise SourceError(
                f"{self.path} is not a table of corrections: {error}", hint=hint, path=self.path
            ) from error
        if faults:
            raise SourceError(
                f"{self.path} does not fit {info.name} {info.version}: "
                f"{listed(faults, _SHOWN_FAULTS)}",
                hint=hint,
                path=self.path,
            )
        return {place: found[name] for place, name in enumerate(filenames) if name in found}

    def _save(self, new: Mapping[int, Decision]) -> None:
        """Save and keep the decisions with some new ones; raise ExecutionError."""
        decided = self.now.having(new)
        if _state_of(self.path) != self._state:
            raise ExecutionError(
                f"{self.path} was changed by another program: nothing more is saved until "
                "imgrec view is started again",
                path=self.path,
            )
        names = self._catalogue.filenames_of(list(decided.decisions))
        named = dict(zip(names, decided.decisions.values(), strict=True))
        write_file(self.path, encode_decisions(named, self.names), option=_OPTION)
        self._state = _state_of(self.path)
        self.now = decided


def _has(wish: Wish, decision: Decision) -> bool:
    return {Wish.FLAG: decision.is_flagged, Wish.DROP: decision.is_dropped}.get(wish, False)


def default_path(info: DatasetInfo) -> str:
    """Return the file for corrections that nobody has chosen, in the working folder.

    The home folder takes its place if that is the dataset's own, or cannot be written to.
    """
    path = Path.cwd() / f"{info.name}-{info.version}-corrections{_SUFFIX}"
    is_fit = os.access(path.parent, os.W_OK) and not _is_inside(path, to_path(info.path))
    return str(path if is_fit else Path.home() / path.name)


def checked_path(path: str, folder: Path) -> str:
    """Return the absolute path of a file for corrections; raise UsageError if none may be there."""
    refuse_remote(path, _OPTION)
    real = os.path.realpath(path)  # or a link would be replaced, not the file
    if not real.endswith(_SUFFIX):
        raise UsageError(
            f"{_OPTION} {path} is not a CSV file", hint=f"give it the suffix {_SUFFIX}"
        )
    if _is_inside(Path(real), folder):
        raise UsageError(
            f"{_OPTION} {path} is inside the dataset, which is never changed",
            hint="choose a file elsewhere",
        )
    return real


def _is_inside(path: Path, folder: Path) -> bool:
    """Return whether a file is in the folder of a dataset, or among its versions."""
    if is_remote(folder):
        return False
    real = folder.resolve()
    is_beside = path.parent == real.parent and layout.parse_version(real.name) is not None
    return is_beside or path.is_relative_to(real)


def _target(info: DatasetInfo) -> str:
    """Return the shortest text by which every command finds a dataset, from any folder."""
    for text in (info.name, f"{info.name}:{info.version}"):
        with suppress(ImgrecError):  # such as a store that does not answer
            if str(find_dataset(text, layout.default_data_dir())) == info.path:
                return text
    return info.path


def _state_of(path: str) -> tuple[int, int, int] | None:
    """Return what changes whenever a file is replaced; None if there is no file."""
    try:
        status = os.stat(path)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ExecutionError(f"cannot read {path}: {error.strerror}", path=path) from error
    return status.st_ino, status.st_mtime_ns, status.st_size
