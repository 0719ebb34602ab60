"""Which samples are the same image, and what follows: duplicates, leaks and conflicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from imgrec.errors import PlanError
from imgrec.model import Label, Samples, known_label, split_order
from imgrec.notes import Note, NoteKind, Notes, SameImage, copies
from imgrec.text import printable

Group = tuple[int, ...]
"""Places of the samples of one image, two or more, in order of their file names."""


def find_groups(samples: Samples) -> tuple[Group, ...]:
    """Return the groups of samples whose bytes are identical."""
    if len(set(samples.contents)) == len(samples.contents):
        return ()  # as it mostly is, and counting takes twice as long
    repeated = {content for content, count in Counter(samples.contents).items() if count > 1}
    members: dict[bytes, list[int]] = defaultdict(list)
    for place, content in enumerate(samples.contents):
        if content in repeated:
            members[content].append(place)
    by_name = samples.filenames.__getitem__
    ordered = (tuple(sorted(places, key=by_name)) for places in members.values())
    return tuple(sorted(ordered, key=lambda group: by_name(group[0])))


def note_copies(
    samples: Samples,
    groups: Sequence[Group],
    labels: Sequence[Label],
    splits: Sequence[str],
) -> Notes:
    """Note which groups are duplicates, leaks and conflicts, given label and split of each sample.

    A leak is in more than one split, and a conflict under more than one label; a copy without a
    label contradicts none.
    """

    def noted(kind: NoteKind, chosen: Sequence[Group]) -> Notes:
        return copies(kind, [[samples.filenames[place] for place in group] for group in chosen])

    leaks = [group for group in groups if len({splits[place] for place in group}) > 1]
    conflicts = [
        group
        for group in groups
        if len({known_label(labels[place], splits[place]) for place in group} - {None}) > 1
    ]
    return (
        *noted(NoteKind.DUPLICATE, groups),
        *noted(NoteKind.LEAK, leaks),
        *noted(NoteKind.CONFLICT, conflicts),
    )


def leaked_copies(
    samples: Samples, groups: Sequence[Group], splits: Sequence[str]
) -> dict[int, Note]:
    """Return the copies to leave out so that no image is in two splits.

    The copy that is kept is the one furthest from training: test before val before train.
    """
    dropped: dict[int, Note] = {}
    for group in groups:
        kept = max((splits[place] for place in group), key=split_order)
        twin = next(samples.filenames[place] for place in group if splits[place] == kept)
        for place in group:
            if splits[place] != kept:
                reason = f"leak: the same image as {twin} in {kept}"
                dropped[place] = Note(samples.filenames[place], reason, NoteKind.LEFT_OUT, twin)
    return dropped


def refuse_leaks(leaks: Sequence[SameImage], total: int) -> None:
    """Raise PlanError if there are leaks, `total` in all."""
    if leaks:
        shown = "; ".join(" = ".join(map(printable, leak.filenames)) for leak in leaks[:5])
        raise PlanError(
            f"{total} images are in more than one split: {shown}",
            hint="take out the copies, or pass --on-leak drop",
        )
