"""The forms in which CIFAR-10 and CIFAR-100 are published, as tables of file names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.options import CifarLabels


class Labels(NamedTuple):
    """Where one of the labels of an image is, and the names of its classes."""

    meta: str
    """The file that names the classes, in the order of their labels."""
    names_key: str = ""
    """Of the names in a pickled `meta`; "" for one name a line."""
    labels_key: str = ""
    """Of the labels in a pickled batch."""
    lead: int = 0
    """Which byte before an image of a binary batch it is."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Form:
    """One of the forms in which the sets are published."""

    title: str
    training: tuple[str, ...]
    test: str
    labels: Mapping[CifarLabels, Labels]
    least: int
    """How many of its files tell that it is there."""
    lead_bytes: int = 0
    """Labels before each image; none in pickles."""
    is_vague: bool = False
    """Whether other things have files of these names, too."""

    @property
    def batches(self) -> tuple[str, ...]:
        """Return the names of the files with images, in their order."""
        return (*self.training, self.test)

    @property
    def files(self) -> frozenset[str]:
        """Return the names of all its files."""
        return frozenset((*self.batches, *(labels.meta for labels in self.labels.values())))


_NUMBERS = range(1, 6)
FORMS = (
    Form(
        title="CIFAR-10, python batches",
        training=tuple(f"data_batch_{number}" for number in _NUMBERS),
        test="test_batch",
        labels=dict.fromkeys(CifarLabels, Labels("batches.meta", "label_names", "labels")),
        least=2,
    ),
    Form(
        title="CIFAR-10, binary batches",
        training=tuple(f"data_batch_{number}.bin" for number in _NUMBERS),
        test="test_batch.bin",
        labels=dict.fromkeys(CifarLabels, Labels("batches.meta.txt")),
        least=2,
        lead_bytes=1,
    ),
    Form(
        title="CIFAR-100, python files",
        training=("train",),
        test="test",
        labels={
            CifarLabels.FINE: Labels("meta", "fine_label_names", "fine_labels"),
            CifarLabels.COARSE: Labels("meta", "coarse_label_names", "coarse_labels"),
        },
        least=3,
        is_vague=True,
    ),
    Form(
        title="CIFAR-100, binary files",
        training=("train.bin",),
        test="test.bin",
        labels={
            CifarLabels.COARSE: Labels("coarse_label_names.txt", lead=0),
            CifarLabels.FINE: Labels("fine_label_names.txt", lead=1),
        },
        least=3,
        lead_bytes=2,
    ),
)
