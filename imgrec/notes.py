"""Notes: one row for each finding about a file, from the scan to the report.

A catalog, a plan, a shard's result and a report each carry one tuple of notes. To note a new kind
of finding, add a member to `NoteKind` and append a `Note` where it is found. The summary,
`report.json` and the report page show every kind.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby
from typing import Literal, NamedTuple, Self, TypeAlias

_EXAMPLES = 5
Form: TypeAlias = Literal["listed", "skipped", "copies", "other"]
"""How the notes of a kind are shown.

- listed: packed files, each with a reason, under the key and heading of the kind
- skipped: files that look like images but are not in the dataset; also in skipped.csv
- copies: groups of files with the same bytes
- other: in a way that no other kind shares
"""


class NoteKind(StrEnum):
    """The kind of a finding: its key in JSON and in the summary, its heading, and its form."""

    heading: str
    """On the report page."""
    form: Form

    def __new__(cls, key: str, heading: str = "", form: Form = "listed") -> Self:
        """Make a member. `NoteKind(key)` finds it again."""
        kind = str.__new__(cls, key)
        kind._value_ = key
        kind.heading, kind.form = heading, form
        return kind

    BAD = "bad", "Skipped", "skipped"
    """Meant as an image, but cannot be packed."""
    UNPLACED = "unplaced", "Skipped", "skipped"
    """A row of a manifest that repeats another."""
    LEFT_OUT = "left out", "Skipped", "skipped"
    """A good image that an option excludes, such as a leaked copy."""
    IGNORED = "ignored", "Ignored", "other"
    """Not meant as an image; `reason` is the kind of file."""
    TRANSCODED = "transcoded", "Transcoded"
    """Packed, but not as the file's own bytes."""
    DAMAGED = "damaged", "Damaged, but decodable"
    """Packed unchanged because every decoder accepts it, although a strict one complains."""
    RESIZED = "resized", "Resized", "other"
    """Packed at a smaller size."""
    DUPLICATE = "duplicates", "Exact duplicates", "copies"
    """Has the same bytes as `other`."""
    LEAK = "leaks", "Leaks between splits", "copies"
    """Has the same bytes as `other`, in another split."""
    CONFLICT = "conflicts", "Conflicting labels", "copies"
    """Has the same bytes as `other`, under another label."""
    WARNING = "warnings", "Warnings", "other"
    """About the whole source, without a file."""


LISTED = tuple(kind for kind in NoteKind if kind.form == "listed")
SKIPPED = tuple(kind for kind in NoteKind if kind.form == "skipped")
COPIES = tuple(kind for kind in NoteKind if kind.form == "copies")
ALWAYS_LISTED = (NoteKind.TRANSCODED, NoteKind.DAMAGED)
"""Kinds with a key in JSON even without files. New kinds must not change reports without them."""
_TOO_MANY = {
    NoteKind.LEFT_OUT: "left out copies",
    **{kind: f"{kind} files" for kind in LISTED},
    **{kind: str(kind) for kind in COPIES},
}
"""Names for warnings about findings that are too many to list."""


class Note(NamedTuple):
    """One finding about a file. Notes sort by file name, then by reason."""

    filename: str
    reason: str
    kind: NoteKind = NoteKind.BAD
    other: str = ""
    """The file that this is a copy of: of those with the same bytes, the first by name."""
    unlisted: int = 0
    """How many unnamed files this note stands for; 0 for a note about one file."""


Notes: TypeAlias = tuple[Note, ...]


class SameImage(NamedTuple):
    """Files of identical bytes, in order of their names."""

    filenames: tuple[str, ...]


class Resized(NamedTuple):
    """Images that were shrunk, with a few examples: it may be all of them."""

    total: int
    examples: Notes


@dataclass(frozen=True, slots=True, kw_only=True)
class Ignored:
    """Files of one kind that are not meant as images."""

    kind: str
    count: int
    examples: tuple[str, ...]


def warnings_of(texts: Iterable[str]) -> Notes:
    """Return warnings about the whole source."""
    return tuple([Note("", text, NoteKind.WARNING) for text in texts])


def ignored_files(kind: str, filenames: Sequence[str], count: int | None = None) -> Notes:
    """Return notes about `count` ignored files; by default, as many as there are names."""
    named = [Note(name, kind, NoteKind.IGNORED) for name in filenames[:_EXAMPLES]]
    total = len(filenames) if count is None else count
    return (*named, *unlisted(NoteKind.IGNORED, total - len(named), kind))


def unlisted(kind: NoteKind, count: int, reason: str = "") -> Notes:
    """Return a note that stands for `count` unnamed files, if there are any."""
    return (Note("", reason, kind, unlisted=count),) if count > 0 else ()


def copies(kind: NoteKind, groups: Iterable[Sequence[str]]) -> Notes:
    """Return notes about groups of identical files, each in order of names."""
    return tuple(
        [Note(name, "", kind, other=first) for first, *others in groups for name in others]
    )


def groups_of_copies(notes: Iterable[Note]) -> tuple[SameImage, ...]:
    """Return the groups of identical files in notes of one kind."""
    groups = groupby(notes, key=lambda note: note.other)
    return tuple([SameImage((one, *(note.filename for note in found))) for one, found in groups])


class NoteCollector:
    """Collects the notes of many shards in bounded memory.

    Of each kind, the first `most` by name are kept, and the others are counted. Bad files are all
    kept, for skipped.csv; of images that were shrunk, only a few: it may be all of them.
    """

    def __init__(self, most: int | None = None) -> None:
        self._most: dict[NoteKind, int | None] = dict.fromkeys(NoteKind, most)
        self._most |= {NoteKind.BAD: None, NoteKind.RESIZED: _EXAMPLES}
        self._named: dict[NoteKind, list[Note]] = defaultdict(list)
        self._totals: Counter[NoteKind] = Counter()

    def add(self, notes: Iterable[Note]) -> None:
        """Add some notes; copies of one image all at once."""
        by_kind: dict[NoteKind, list[Note]] = defaultdict(list)
        for note in notes:
            by_kind[note.kind].append(note)
        for kind, found in by_kind.items():
            named = [note for note in found if not note.unlisted]
            self._totals[kind] += len(groups_of_copies(named)) if kind in COPIES else len(named)
            self._totals[kind] += sum(note.unlisted for note in found)
            self._named[kind] += named
            most = self._most[kind]
            if most is not None and len(self._named[kind]) > 2 * most:
                self._named[kind] = self._first(kind)[0]

    def _first(self, kind: NoteKind) -> tuple[list[Note], int]:
        """Return the first notes of a kind, and the number of images in them."""
        if kind not in COPIES:
            named = sorted(self._named[kind])[: self._most[kind]]
            return named, len(named)
        named = sorted(self._named[kind], key=lambda note: (note.other, note.filename))
        firsts = list(dict.fromkeys(note.other for note in named))[: self._most[kind]]
        chosen = set(firsts)
        return [note for note in named if note.other in chosen], len(chosen)

    def notes(self, *kinds: NoteKind) -> Notes:
        """Return the notes of some or all kinds by name, and one for all that were only counted."""
        found: list[Note] = []
        for kind in kinds or NoteKind:
            named, count = self._first(kind)
            found += (*named, *unlisted(kind, self._totals[kind] - count))
        return tuple(found)

    def total(self, kind: NoteKind) -> int:
        """Count the images of a kind."""
        return self._totals[kind]


def unlisted_warnings(notes: Iterable[Note]) -> Notes:
    """Return a warning for each kind with files that are not listed."""
    return warnings_of(
        f"{note.unlisted:,} more {_TOO_MANY[note.kind]} are not listed"
        for note in notes
        if note.unlisted and note.kind in _TOO_MANY
    )


class Noted:
    """A value with notes. Properties group them by kind."""

    __slots__ = ()
    notes: Notes

    def of(self, kind: NoteKind) -> Notes:
        """Return the notes of a kind that name a file."""
        return tuple([note for note in self.notes if note.kind is kind and not note.unlisted])

    def unlisted(self, kind: NoteKind) -> int:
        """Count the files of a kind that are not named."""
        return sum(note.unlisted for note in self.notes if note.kind is kind)

    def copies(self, kind: NoteKind) -> tuple[SameImage, ...]:
        """Return the groups of identical files of a kind."""
        return groups_of_copies(self.of(kind))

    @property
    def listed(self) -> dict[NoteKind, Notes]:
        """Notes about packed files by kind."""
        found = {kind: self.of(kind) for kind in LISTED}
        return {kind: notes for kind, notes in found.items() if notes or kind in ALWAYS_LISTED}

    @property
    def bad(self) -> Notes:
        """Files meant as images that cannot be packed."""
        return self.of(NoteKind.BAD)

    @property
    def unplaced(self) -> Notes:
        """Rows of a manifest that repeat another."""
        return self.of(NoteKind.UNPLACED)

    @property
    def left_out(self) -> Notes:
        """Good images that an option leaves out."""
        return self.of(NoteKind.LEFT_OUT)

    @property
    def skipped(self) -> Notes:
        """All files that look like images but are not in the dataset, by name."""
        return tuple(sorted(n for n in self.notes if n.kind in SKIPPED and not n.unlisted))

    @property
    def ignored(self) -> tuple[Ignored, ...]:
        """Files that are not meant as images, by kind of file."""
        found: dict[str, list[Note]] = defaultdict(list)
        for note in self.notes:
            if note.kind is NoteKind.IGNORED:
                found[note.reason].append(note)
        return tuple(
            Ignored(
                kind=kind,
                count=sum(note.unlisted or 1 for note in notes),
                examples=tuple(note.filename for note in notes if not note.unlisted),
            )
            for kind, notes in found.items()
        )

    @property
    def transcoded(self) -> Notes:
        """Files that were packed with changed bytes."""
        return self.of(NoteKind.TRANSCODED)

    @property
    def damaged(self) -> Notes:
        """Files that were packed although a strict decoder complains."""
        return self.of(NoteKind.DAMAGED)

    @property
    def duplicates(self) -> tuple[SameImage, ...]:
        """Files of identical bytes."""
        return self.copies(NoteKind.DUPLICATE)

    @property
    def leaks(self) -> tuple[SameImage, ...]:
        """Images that are in more than one split of the source."""
        return self.copies(NoteKind.LEAK)

    @property
    def conflicts(self) -> tuple[SameImage, ...]:
        """Images under more than one label."""
        return self.copies(NoteKind.CONFLICT)

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the whole source."""
        return tuple(note.reason for note in self.of(NoteKind.WARNING))
