"""How much each class must count, so that rare ones count as much as common ones."""

from __future__ import annotations

from collections import Counter
from itertools import chain
from pathlib import Path

from imgrec.errors import UsageError
from imgrec.read.metadata import read_info
from imgrec.read.samples import read_columns
from imgrec.read.spec import record_ranges


def class_weights(folder: Path, split: str) -> dict[int, float]:
    """Return the weight of each label, for `model.fit(class_weight=...)`.

    It is images / (classes * images of the class), so that the mean over all images is 1; classes
    that the split has no image of do not count, and weigh 0. Raises UsageError where an image may
    have several labels: of a 0 or 1 for each class, Keras would weigh by the first 1 alone.
    """
    info = read_info(folder)
    ranges = record_ranges(split, info.splits)
    columns = read_columns(folder, info)
    if columns.label_sets:
        raise UsageError(
            f"images of {info.name} have several labels, and Keras weighs each by one",
            hint="weigh the classes in the loss instead",
        )
    labels = (columns.labels[number] for number in chain.from_iterable(ranges))
    counts = Counter(label for label in labels if label >= 0)
    if not counts:
        raise UsageError(f"{split!r} has no labels to weigh", hint="name a split that has some")
    share = counts.total() / len(counts)
    return {
        label: share / counts[label] if counts[label] else 0.0 for label in range(len(info.classes))
    }
