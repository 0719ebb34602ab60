"""Notes: one row for each finding about a file, from the scan to the report.

A catalog, a plan, a shard's result and a report each carry one tuple of notes. To note a new kind
of finding, add a member to `NoteKind`, append a `Note` where it is found, and show it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import chain, groupby
from typing import NamedTuple, TypeAlias

_EXAMPLES = 5


class NoteKind(StrEnum):
    """The kind of a finding; the value is its heading."""

    BAD = "bad"
    """Meant as an image, but cannot be packed."""
    UNPLACED = "unplaced"
    """A row of a manifest that repeats another."""
    LEFT_OUT = "left out"
    """A good image that an option excludes, such as a leaked copy."""
    IGNORED = "ignored"
    """Not meant as an image; `reason` is the kind of file."""
    TRANSCODED = "transcoded"
    """Packed, but not as the file's own bytes."""
    DAMAGED = "damaged"
    """Packed unchanged because every decoder accepts it, although a strict one complains."""
    RESIZED = "resized"
    """Packed at a smaller size."""
    DUPLICATE = "duplicates"
    """Has the same bytes as `other`."""
    LEAK = "leaks"
    """Has the same bytes as `other`, in another split."""
    CONFLICT = "conflicts"
    """Has the same bytes as `other`, under another label."""
    WARNING = "warnings"
    """About the whole source, without a file."""


SKIPPED = (NoteKind.BAD, NoteKind.UNPLACED, NoteKind.LEFT_OUT)
"""Files that look like images and are not in the dataset."""
COPIES = (NoteKind.DUPLICATE, NoteKind.LEAK, NoteKind.CONFLICT)
"""Files with the same bytes as another."""
_TOO_MANY = {
    NoteKind.LEFT_OUT: "left out copies",
    NoteKind.TRANSCODED: "transcoded files",
    NoteKind.DAMAGED: "damaged files",
    **{kind: str(kind) for kind in COPIES},
}
"""Names for warnings about findings that are too many to list."""


class Note(NamedTuple):
    """One finding about a file. Notes sort by file name, then by reason."""

    filename: str
    reason: str
    kind: NoteKind = NoteKind.BAD
    other: str = ""
    """The first file by name with the same bytes."""
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


def of_kinds(notes: Iterable[Note], *kinds: NoteKind) -> Notes:
    """Return the notes of some kinds, in their order."""
    return tuple([note for note in notes if note.kind in kinds])


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

    Of a kind in `most`, the first so many by name are kept, and the others are counted.
    """

    def __init__(self, most: Mapping[NoteKind, int]) -> None:
        self._most = {NoteKind.RESIZED: _EXAMPLES, **most}
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
            if len(self._named[kind]) > 2 * self._most.get(kind, len(self._named[kind])):
                self._named[kind] = self._first(kind)[0]

    def _first(self, kind: NoteKind) -> tuple[list[Note], int]:
        """Return the first notes of a kind, and the number of images in them."""
        if kind not in COPIES:
            named = sorted(self._named[kind])[: self._most.get(kind)]
            return named, len(named)
        named = sorted(self._named[kind], key=lambda note: (note.other, note.filename))
        firsts = list(dict.fromkeys(note.other for note in named))[: self._most.get(kind)]
        chosen = set(firsts)
        return [note for note in named if note.other in chosen], len(chosen)

    def notes(self, *kinds: NoteKind) -> Notes:
        """Return the notes of some kinds by name, and one note for those that were only counted."""
        found = [(kind, *self._first(kind)) for kind in kinds]
        return tuple(
            chain.from_iterable(
                (*named, *unlisted(kind, self._totals[kind] - count))
                for kind, named, count in found
            )
        )

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

    def _of(self, kind: NoteKind) -> Notes:
        return tuple([note for note in self.notes if note.kind is kind and not note.unlisted])

    def _unlisted(self, kind: NoteKind) -> int:
        return sum(note.unlisted for note in self.notes if note.kind is kind)

    @property
    def bad(self) -> Notes:
        """Files meant as images that cannot be packed."""
        return self._of(NoteKind.BAD)

    @property
    def unplaced(self) -> Notes:
        """Rows of a manifest that repeat another."""
        return self._of(NoteKind.UNPLACED)

    @property
    def left_out(self) -> Notes:
        """Good images that an option leaves out."""
        return self._of(NoteKind.LEFT_OUT)

    @property
    def skipped(self) -> Notes:
        """All files that look like images but are not in the dataset, by name."""
        return tuple(sorted(chain.from_iterable(map(self._of, SKIPPED))))

    @property
    def ignored(self) -> tuple[Ignored, ...]:
        """Files that are not meant as images, by kind of file."""
        found: dict[str, list[Note]] = defaultdict(list)
        for note in of_kinds(self.notes, NoteKind.IGNORED):
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
        return self._of(NoteKind.TRANSCODED)

    @property
    def unlisted_transcoded(self) -> int:
        """How many more there are that are not listed."""
        return self._unlisted(NoteKind.TRANSCODED)

    @property
    def damaged(self) -> Notes:
        """Files that were packed although a strict decoder complains."""
        return self._of(NoteKind.DAMAGED)

    @property
    def duplicates(self) -> tuple[SameImage, ...]:
        """Files of identical bytes."""
        return groups_of_copies(self._of(NoteKind.DUPLICATE))

    @property
    def leaks(self) -> tuple[SameImage, ...]:
        """Images that are in more than one split of the source."""
        return groups_of_copies(self._of(NoteKind.LEAK))

    @property
    def unlisted_leaks(self) -> int:
        """How many more there are that are not listed."""
        return self._unlisted(NoteKind.LEAK)

    @property
    def conflicts(self) -> tuple[SameImage, ...]:
        """Images under more than one label."""
        return groups_of_copies(self._of(NoteKind.CONFLICT))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Warnings about the whole source."""
        return tuple(note.reason for note in self._of(NoteKind.WARNING))
