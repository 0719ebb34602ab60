"""Which samples are the same image, and what follows: duplicates, leaks and conflicts."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from imgrec.errors import PlanError
from imgrec.model import Label, SameImage, Samples, Skipped, known_label, split_order
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


class Findings(NamedTuple):
    """What the groups of a source say about it."""

    duplicates: tuple[SameImage, ...]
    leaks: tuple[SameImage, ...]
    """Images in more than one split."""
    conflicts: tuple[SameImage, ...]
    """Images under more than one label; a copy without a label contradicts none."""


def judge(
    samples: Samples,
    groups: Sequence[Group],
    labels: Sequence[Label],
    splits: Sequence[str],
) -> Findings:
    """Sort out which groups are leaks and conflicts, given label and split of each sample."""

    def named(chosen: Sequence[Group]) -> tuple[SameImage, ...]:
        return tuple(
            SameImage(tuple(samples.filenames[place] for place in group)) for group in chosen
        )

    leaks = [group for group in groups if len({splits[place] for place in group}) > 1]
    conflicts = [
        group
        for group in groups
        if len({known_label(labels[place], splits[place]) for place in group} - {None}) > 1
    ]
    return Findings(named(groups), named(leaks), named(conflicts))


def leaked_copies(
    samples: Samples, groups: Sequence[Group], splits: Sequence[str]
) -> dict[int, Skipped]:
    """Return the copies to leave out so that no image is in two splits.

    The copy that is kept is the one furthest from training: test before val before train.
    """
    dropped: dict[int, Skipped] = {}
    for group in groups:
        kept = max((splits[place] for place in group), key=split_order)
        twin = next(samples.filenames[place] for place in group if splits[place] == kept)
        for place in group:
            if splits[place] != kept:
                reason = f"leak: the same image as {twin} in {kept}"
                dropped[place] = Skipped(samples.filenames[place], reason)
    return dropped


def refuse_leaks(leaks: Sequence[SameImage], total: int) -> None:
    """Raise PlanError if there are leaks, `total` in all."""
    if leaks:
        shown = "; ".join(" = ".join(map(printable, leak.filenames)) for leak in leaks[:5])
        raise PlanError(
            f"{total} images are in more than one split: {shown}",
            hint="take out the copies, or pass --on-leak drop",
        )
