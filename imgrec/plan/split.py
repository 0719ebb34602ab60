"""Which split each sample goes to: stratified, exact, without leaks, and steady as a set grows.

In each class, groups of identical images are ranked by a hash of their content. The first
`round(n * val_fraction)` are val, the last `round(n * test_fraction)` are test, the rest train.
One image more moves at most one other across each boundary, and a renamed image moves nowhere.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b

from imgrec.errors import PlanError
from imgrec.model import TEST, TRAIN, VAL, Sample
from imgrec.options import SplitOptions

_KEY_BYTES = 16


def rank(samples: Sequence[Sample], seed: int) -> list[bytes]:
    """Return for each sample a number, as bytes, that is random by its content and the seed."""
    key = blake2b(f"imgrec {seed}".encode(), digest_size=16).digest()
    # Only the part of a content that never changes ranks: see `source.probe.contents`.
    return [
        blake2b(sample.content[:_KEY_BYTES], key=key, digest_size=8).digest() for sample in samples
    ]


def assign_splits(
    samples: Sequence[Sample],
    labels: Sequence[int],
    ranks: Sequence[bytes],
    options: SplitOptions,
) -> list[str]:
    """Return the split of each sample, given label and rank of each.

    A sample keeps the split that the source gives it, except that val and test, where the source
    has none, are taken out of its train. Raises PlanError if it has them already.
    """
    given = {sample.split for sample in samples}
    _refuse_second_split(given, VAL, options.val_fraction)
    _refuse_second_split(given, TEST, options.test_fraction)
    splits = [sample.split or TRAIN for sample in samples]
    if not samples or (not options.val_fraction and not options.test_fraction):
        return splits
    trainable = [place for place, split in enumerate(splits) if split == TRAIN]
    if not trainable:
        raise PlanError("the source has no train images to take a split from")
    home: dict[tuple[bytes, bytes], int] = {}
    for place in trainable:
        # An image under two labels counts for the smaller one.
        image = ranks[place], samples[place].content
        home[image] = min(home.get(image, labels[place]), labels[place])
    moved = _held_out(home, options)
    for place in trainable:
        splits[place] = moved.get(samples[place].content, TRAIN)
    return splits


def _refuse_second_split(given: Iterable[str], split: str, fraction: float) -> None:
    if fraction and split in given:
        raise PlanError(
            f"the source has a {split} split of its own, so --{split}-split cannot make another",
            hint=f"leave out --{split}-split, or move the images of {split} into train",
        )


def _held_out(home: Mapping[tuple[bytes, bytes], int], options: SplitOptions) -> dict[bytes, str]:
    """Return the contents that leave train, and for which split, given the class of each image."""
    by_class: dict[int, list[tuple[bytes, bytes]]] = defaultdict(list)
    for image, label in home.items():
        by_class[label].append(image)
    moved: dict[bytes, str] = {}
    for images in by_class.values():
        images.sort()
        val, test = held_out_counts(len(images), options)
        moved |= {content: VAL for _, content in images[:val]}
        moved |= {content: TEST for _, content in images[len(images) - test :]}
    return moved


def held_out_counts(count: int, options: SplitOptions) -> tuple[int, int]:
    """Return how many of a class's `count` images go to val and to test.

    Each gets at least one, and train keeps at least one, as far as there are enough.

    >>> held_out_counts(20, SplitOptions(val_fraction=0.1))
    (2, 0)
    """
    val = _share(count, options.val_fraction, kept=1)
    test = _share(count, options.test_fraction, kept=1 + val)
    return val, test


def _share(count: int, fraction: float, *, kept: int) -> int:
    if not fraction:
        return 0
    return max(min(max(round(count * fraction), 1), count - kept), 0)
