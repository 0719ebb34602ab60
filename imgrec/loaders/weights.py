"""How much each class must count, so that rare ones count as much as common ones."""

from __future__ import annotations

from pathlib import Path

from imgrec import layout
from imgrec.errors import UsageError
from imgrec.read.documents import read_info
from imgrec.read.samples import read_labels
from imgrec.read.splits import record_ranges


def weights_of(folder: Path, split: str) -> dict[int, float]:
    """Return the weight of each label, for `model.fit(class_weight=...)`.

    It is images / (classes * images of the class), so that the mean over all images is 1; classes
    that the split has no image of do not count, and weigh 0. Raises UsageError where an image may
    have several labels: of a 0 or 1 for each class, Keras would weigh by the first 1 alone.
    """
    import numpy as np

    info = read_info(folder)
    ranges = record_ranges(split, info.splits)
    if (folder / layout.SEQUENCE_LABELS).is_file():
        raise UsageError(
            f"images of {info.name} have several labels, and Keras weighs each by one",
            hint="weigh the classes in the loss instead",
        )
    labels = read_labels(folder, info)
    counts = np.zeros(len(info.classes), np.int64)
    for records in ranges:
        part = labels[records.start : records.stop]
        counts += np.bincount(part[part >= 0], minlength=len(counts))
    if not counts.any():
        raise UsageError(f"{split!r} has no labels to weigh", hint="name a split that has some")
    share = counts.sum() / np.count_nonzero(counts)
    return {label: float(share / count) if count else 0.0 for label, count in enumerate(counts)}
