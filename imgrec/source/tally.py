"""What is passed over in a source: clutter that no one would expect to be packed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from itertools import chain

from imgrec.notes import Notes, ignored_files

_EXAMPLES = 5
CLUTTER = {
    "__MACOSX": "__MACOSX", "Thumbs.db": "Thumbs.db", "ehthumbs.db": "Thumbs.db",
    "desktop.ini": "desktop.ini", "Desktop.ini": "desktop.ini",
    ".ipynb_checkpoints": ".ipynb_checkpoints", ".DS_Store": ".DS_Store",
}  # fmt: skip
"""Names of files and folders that systems leave behind, and what kind they are counted as."""


@dataclass(slots=True)
class Tally:
    """Counts what is passed over, by kind, with the first few names of each."""

    _counts: dict[str, int] = field(default_factory=lambda: defaultdict(int))
    _examples: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))

    def add(self, kind: str, filename: str) -> None:
        """Count one file of a kind."""
        self._counts[kind] += 1
        if len(self._examples[kind]) < _EXAMPLES:
            self._examples[kind].append(filename)

    def ignored(self) -> Notes:
        """Return notes about what was counted, by kind."""
        counts = sorted(self._counts.items())
        notes = (ignored_files(kind, self._examples[kind], count) for kind, count in counts)
        return tuple(chain.from_iterable(notes))


def clutter_kind(name: str, *, is_folder: bool) -> str:
    """Return the kind of clutter that a file or folder of this name is, or "" for none."""
    if name in CLUTTER:
        return CLUTTER[name]
    if name.startswith("."):
        return "hidden folder" if is_folder else "hidden file"
    return ""
