"""What may surprise about a plan."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from imgrec.layout import legal_name
from imgrec.model import FOLD, TEST, TRAIN, UNLABELLED, VAL, Samples
from imgrec.options import PackOptions
from imgrec.text import printable

SHOWN = 10
"""How many names a warning has."""


def parted_groups(parted: Sequence[str], total: int) -> Iterator[str]:
    """Name the first of the groups, `total` in all, that the source itself parts."""
    if parted:
        shown = _enumerate(list(map(printable, parted)), "groups", total)
        yield f"groups that the source has in more than one split: {shown}"


def doubtful_pins(samples: Samples, options: PackOptions) -> Iterator[str]:
    """Yield what may surprise about images that stay in the splits they had."""
    if not samples.pinned:
        return
    own = set(samples.splits)
    moved = [
        (filename, pin, split)
        for filename, pin, split in zip(
            samples.filenames, samples.pinned, samples.splits, strict=True
        )
        # A val or test that the source has not was taken out of its train.
        if pin and split not in ("", pin) and (split != TRAIN or pin in own)
    ]
    if moved:
        filename, pin, split = min(moved)
        yield (
            f"{len(moved)} images stay in another split than the source has them in, such as "
            f"{printable(filename)} in {pin}, not in {split}"
        )
    new = samples.pinned.count("")
    is_divided = options.val_split or options.test_split or options.folds
    if new and own == {""} and not is_divided and {VAL, TEST}.intersection(samples.pinned):
        yield f"{new} new images are not divided: pass --val-split as well, or they go to train"


def nameless(source: str, name: str, options: PackOptions) -> Iterator[str]:
    """Say so if nothing of a source's name is left in the dataset's."""
    if not options.name and name == legal_name("") != source.lower():
        yield f"no letter of {printable(source)} can be in a name: pass --name for a better one"


def missing_splits(
    found: Collection[str], options: PackOptions, *, are_pinned: bool = False
) -> Iterator[str]:
    """Name the splits that were asked for and that got nothing; all images may be pinned."""
    why = "no class has images or groups enough to spare one"
    if are_pinned:
        why = "the splits of all images are known already"
    for split, fraction in ((VAL, options.val_split), (TEST, options.test_split)):
        if fraction and split not in found:
            yield f"there is no {split}: {why}"
    folds = [f"{FOLD}{fold}" for fold in range(options.folds)]
    if missing := [fold for fold in folds if fold not in found]:
        yield f"there is no {_enumerate(missing, 'folds')}: too few images are left for them"


def gone_classes(
    earlier: Sequence[str], found: Mapping[str, Collection[int]], dataset: str
) -> Iterator[str]:
    """Name the classes of an earlier dataset of which there are no images any more.

    `found` are the labels of each split.
    """
    if gone := [earlier[label] for label in gone_labels(len(earlier), found)]:
        yield (
            f"no images of {_enumerate(gone, 'classes')}, which {dataset} has: "
            "these classes are empty and keep their labels"
        )


def gone_labels(earlier: int, found: Mapping[str, Collection[int]]) -> list[int]:
    """Return those of the first labels, which an earlier dataset has, that no image has now."""
    used = set().union(*found.values())
    return [label for label in range(earlier) if label not in used]


def missing_classes(
    classes: Sequence[str], found: Mapping[str, Collection[int]], gone: Collection[int] = ()
) -> Iterator[str]:
    """Name the classes that a split does not have; its labels are the same all the same.

    `found` are the labels of each split, and `gone` those that no split has, which is told already.
    """
    for split, labels in found.items():
        if set(labels) <= {UNLABELLED}:
            continue
        there = {*labels, *gone}
        if missing := [classes[label] for label in range(len(classes)) if label not in there]:
            yield f"{split} has no images of {_enumerate(missing, 'classes')}"


def _enumerate(names: Sequence[str], what: str, total: int | None = None) -> str:
    more = (len(names) if total is None else total) - SHOWN
    rest = f" and {more} more {what}" if more > 0 else ""
    return ", ".join(names[:SHOWN]) + rest
