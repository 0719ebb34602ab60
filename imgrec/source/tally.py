"""What is passed over in a source: clutter that no one would expect to be packed."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from imgrec.model import Ignored

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

    def ignored(self) -> tuple[Ignored, ...]:
        """Return what was counted, by kind."""
        return tuple(
            Ignored(kind=kind, count=count, examples=tuple(self._examples[kind]))
            for kind, count in sorted(self._counts.items())
        )


def clutter_kind(name: str, *, is_folder: bool) -> str:
    """Return the kind of clutter that a file or folder of this name is, or "" for none."""
    if name in CLUTTER:
        return CLUTTER[name]
    if name.startswith("."):
        return "hidden folder" if is_folder else "hidden file"
    return ""
