"""Which split each sample goes to: stratified, exact, without leaks, and steady as a set grows.

In each class, groups of identical images are ranked by a hash of their content. The first
`round(n * val_fraction)` are val, the last `round(n * test_fraction)` are test, the rest train.
One image more moves at most one other across each boundary, and a renamed image moves nowhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import count

from imgrec.errors import PlanError
from imgrec.model import TEST, TRAIN, VAL, Samples
from imgrec.options import SplitOptions

_KEY_BYTES = 16


def rank(samples: Samples, seed: int) -> list[int]:
    """Return the places of all samples in an order that is random by their content and the seed.

    Copies of one image stand together, in order of their names.
    """
    key = blake2b(f"imgrec {seed}".encode(), digest_size=16).digest()
    # Only the part of a content that never changes ranks: see `source.probe.contents`.
    ranks = [
        blake2b(content[:_KEY_BYTES], key=key, digest_size=8).digest()
        for content in samples.contents
    ]
    ranked = sorted(zip(ranks, samples.contents, samples.filenames, count()))
    return [place for _, _, _, place in ranked]


def assign_splits(
    samples: Samples, labels: Sequence[int], order: Sequence[int], options: SplitOptions
) -> list[str]:
    """Return the split of each sample, given the label of each and their order by rank.

    A sample keeps the split that the source gives it, except that val and test, where the source
    has none, are taken out of its train. Raises PlanError if it has them already.
    """
    given = set(samples.splits)
    _refuse_second_split(given, VAL, options.val_fraction)
    _refuse_second_split(given, TEST, options.test_fraction)
    splits = [split or TRAIN for split in samples.splits]
    if not splits or (not options.val_fraction and not options.test_fraction):
        return splits
    if TRAIN not in splits:
        raise PlanError("the source has no train images to take a split from")
    # What the source also has in val or test stays where it is: there it would leak once more.
    taken = {
        content for content, split in zip(samples.contents, splits, strict=True) if split != TRAIN
    }
    trainable = [
        place for place in order if splits[place] == TRAIN and samples.contents[place] not in taken
    ]
    moved = _held_out(samples.contents, labels, trainable, options)
    for place in trainable:
        splits[place] = moved.get(samples.contents[place], TRAIN)
    return splits


def _refuse_second_split(given: Iterable[str], split: str, fraction: float) -> None:
    if fraction and split in given:
        raise PlanError(
            f"the source has a {split} split of its own, so --{split}-split cannot make another",
            hint=f"leave out --{split}-split, or move the images of {split} into train",
        )


def _held_out(
    contents: Sequence[bytes],
    labels: Sequence[int],
    trainable: Sequence[int],
    options: SplitOptions,
) -> dict[bytes, str]:
    """Return the contents that leave train, and for which split."""
    home: dict[bytes, int] = {}  # an image under two labels counts for the smaller one
    for place in trainable:
        content, label = contents[place], labels[place]
        if home.setdefault(content, label) > label:
            home[content] = label
    by_class: dict[int, list[bytes]] = defaultdict(list)
    for content, label in home.items():  # still in the order of their ranks
        by_class[label].append(content)
    moved: dict[bytes, str] = {}
    for ranked in by_class.values():
        val, test = held_out_counts(len(ranked), options)
        moved |= dict.fromkeys(ranked[:val], VAL)
        moved |= dict.fromkeys(ranked[len(ranked) - test :], TEST)
    return moved


def held_out_counts(images: int, options: SplitOptions) -> tuple[int, int]:
    """Return how many of a class's `images` go to val and to test.

    Each gets at least one, and train keeps at least one, as far as there are enough.

    >>> held_out_counts(20, SplitOptions(val_fraction=0.1))
    (2, 0)
    """
    val = _share(images, options.val_fraction, kept=1)
    test = _share(images, options.test_fraction, kept=1 + val)
    return val, test


def _share(images: int, fraction: float, *, kept: int) -> int:
    if not fraction:
        return 0
    return max(min(max(round(images * fraction), 1), images - kept), 0)
