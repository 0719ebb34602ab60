"""Corrections of a dataset: images relabelled, dropped or moved to another split.

They are kept with the dataset, so that the next version has them too, whatever the source says.
A correction is about a file, by its name, and about new files with its content: it was renamed or
copied. What the file contains is noted anew in each version.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import NamedTuple

from imgrec.model import Catalog
from imgrec.notes import Note, NoteKind
from imgrec.text import printable

SEPARATOR = "|"
"""Separates several labels in a cell, where images may have several."""
COLUMNS = ("filename", "action", "label", "split", "xxh3")
FLAG = "flag"
"""In a table to be applied, a row that only marks its image, to look at it again."""


RESTORE = "restore"
"""In a table to be applied, a row that takes back an earlier drop."""


class Action(StrEnum):
    """What a correction does."""

    RELABEL = "relabel"
    DROP = "drop"
    MOVE = "move"


class Correction(NamedTuple):
    """One correction, as a row of the table of corrections."""

    filename: str
    """Printable."""
    action: Action
    label: str = ""
    """The name of a class; where images may have several, they are separated by "|"."""
    split: str = ""
    content: str = ""
    """The hash of the file, in hexadecimal digits."""


class Corrected(NamedTuple):
    """A catalog with corrections, and the hashes of its samples."""

    catalog: Catalog
    hashes: Sequence[bytes]
    corrections: Corrections


@dataclass(frozen=True, slots=True)
class Corrections:
    """All corrections of a dataset, by file and action."""

    rows: Mapping[tuple[str, Action], Correction] = field(default_factory=dict)

    def with_rows(self, rows: Sequence[Correction]) -> Corrections:
        """Return these and newer ones, which win. A dropped file needs no other correction."""
        found = dict(self.rows)
        for row in rows:
            others = [key for key in found if key[0] == row.filename]
            for key in others if row.action is Action.DROP else ():
                del found[key]
            found.pop((row.filename, Action.DROP), None)
            found[row.filename, row.action] = row
        return Corrections(found)

    def without_drops(self, names: Collection[str]) -> Corrections:
        """Return these without the drops of some files."""
        drops = {(name, Action.DROP) for name in names}
        return Corrections({key: row for key, row in self.rows.items() if key not in drops})

    def __bool__(self) -> bool:
        return bool(self.rows)

    def listed(self) -> list[Correction]:
        """Return all corrections in the order of names."""
        return [self.rows[key] for key in sorted(self.rows)]

    def of(self, action: Action) -> dict[str, Correction]:
        """Return the corrections of one kind by file."""
        return {name: row for (name, kind), row in self.rows.items() if kind is action}

    def apply(
        self, catalog: Catalog, hashes: Sequence[bytes], before: Mapping[str, bytes]
    ) -> Corrected:
        """Apply what still concerns files of the source.

        `hashes` are those of whole files, b"" if one is unknown; `before` has those of the images
        of the version before, by name. Moved images need nothing here: a known image stays in its
        split.
        """
        if not self:
            return Corrected(catalog, hashes, self)
        names = list(map(printable, catalog.samples.filenames))
        corrections = self._followed(dict(zip(names, hashes, strict=True)), before)
        catalog = corrections._relabelled(catalog, names)
        dropped = corrections.of(Action.DROP)
        kept = [place for place, name in enumerate(names) if name not in dropped]
        if len(kept) == len(names):
            return Corrected(catalog, hashes, corrections)
        notes = [
            Note(catalog.samples.filenames[place], "dropped by imgrec edit", NoteKind.LEFT_OUT)
            for place, name in enumerate(names)
            if name in dropped
        ]
        catalog = replace(catalog, samples=catalog.samples.pick(kept)).noted(sorted(notes))
        return Corrected(catalog, [hashes[place] for place in kept], corrections)

    def contents(self) -> set[tuple[str, Action]]:
        """Return what is corrected, by content."""
        return {(row.content, row.action) for row in self.rows.values()}

    def _followed(self, files: Mapping[str, bytes], before: Mapping[str, bytes]) -> Corrections:
        """Return corrections that follow renamed, copied and changed files."""
        by_content: dict[str, list[Correction]] = defaultdict(list)
        for row in self.listed():
            by_content[row.content].append(row)
        kept = set(before.values())
        rows: dict[tuple[str, Action], Correction] = {}
        renamed = set[tuple[str, Action]]()
        for name, found in sorted(files.items()):
            own = [self.rows[name, action] for action in Action if (name, action) in self.rows]
            if not own and found and before.get(name) != found:
                own = [
                    row
                    for row in by_content.get(found.hex(), ())
                    # Of a picture that another copy keeps, only the dropped file stays out.
                    if row.action is not Action.DROP
                    or found not in kept
                    or row.filename not in files
                ]
                renamed.update((row.filename, row.action) for row in own)
            for row in own:
                content = found.hex() if found else row.content
                rows[name, row.action] = row._replace(filename=name, content=content)
        gone = {
            key: row  # the file may come back
            for key, row in self.rows.items()
            if row.filename not in files and key not in renamed
        }
        return Corrections(rows | gone)

    def _relabelled(self, catalog: Catalog, names: Sequence[str]) -> Catalog:
        labels = self.of(Action.RELABEL)
        places = [place for place, name in enumerate(names) if name in labels]
        if not places:
            return catalog
        samples, folders = catalog.samples, dict(catalog.class_folders)
        class_names, class_sets = list(samples.class_names), list(samples.class_sets)
        for place in places:
            label = labels[names[place]].label
            own = class_names_of(label) if class_sets else (label,)
            class_names[place] = own[0] if own else ""
            if class_sets:
                class_sets[place] = own
            folders |= {name: folders.get(name, ()) for name in own}
        samples = replace(samples, class_names=tuple(class_names), class_sets=tuple(class_sets))
        return replace(catalog, samples=samples, class_folders=folders)


def class_names_of(label: str) -> tuple[str, ...]:
    """Return the classes in a cell.

    >>> class_names_of("rose|tulip"), class_names_of("")
    (('rose', 'tulip'), ())
    """
    return tuple(filter(None, label.split(SEPARATOR)))
