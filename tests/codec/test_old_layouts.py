"""The facts in the layout sentences of datasets that were packed before reports had facts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from imgrec.codec.old_layouts import parse_old_layout
from imgrec.model import SourceLayout
from imgrec.options import SourceKind

FOLDER = SourceLayout(kind=SourceKind.FOLDER, sentence="")
IMAGE_LABEL = (("id", "image"), ("label", "label"))


@pytest.mark.parametrize(
    ("text", "facts"),
    [
        ("<class>/**/image", replace(FOLDER, class_depth=1)),
        ("<split>/<class>/<class>/**/image", replace(FOLDER, split_depth=1, class_depth=2)),
        ("archive of <class>/**/image", replace(FOLDER, is_archive=True, class_depth=1)),
        (
            "<split>/<class>/**/image, test/ without labels",
            replace(FOLDER, split_depth=1, class_depth=1),
        ),
        ("images/<class>/**/image", FOLDER),
        ("<class>/image, classes at any depth", FOLDER),
        ("classes from folders, splits from lists", FOLDER),
        ("train.csv: id -> image, breed -> label\ntest: 3 ids of x.csv -> images", FOLDER),
        ("CIFAR/<class>/**/image", FOLDER),
        ("IDX/<class>/**/image", FOLDER),
        ("pixels/<class>/**/image", FOLDER),
        ("CIFAR-10, python batches", replace(FOLDER, kind=SourceKind.CIFAR)),
        (
            "CIFAR-100, binary files, coarse labels",
            replace(FOLDER, kind=SourceKind.CIFAR, has_coarse_labels=True),
        ),
        ("CIFAR-100, python files, fine labels", replace(FOLDER, kind=SourceKind.CIFAR)),
        ("IDX: train 28x28; test 28x28", replace(FOLDER, kind=SourceKind.IDX)),
        ("IDX (emnist-letters): all 2x3", replace(FOLDER, kind=SourceKind.IDX)),
        ("pixels in CSV: a.csv: 2x2 grey", replace(FOLDER, kind=SourceKind.PIXELS)),
        (
            "archive of NumPy: x_train -> train, y_train -> label",
            replace(FOLDER, kind=SourceKind.NUMPY, is_archive=True),
        ),
        (
            "TFRecords in 2 files: id -> image, label -> label",
            replace(FOLDER, kind=SourceKind.TFRECORD, columns=IMAGE_LABEL),
        ),
        (
            "CSV manifest of 4 parts without header: id -> image, label -> label",
            replace(FOLDER, kind=SourceKind.MANIFEST, columns=IMAGE_LABEL),
        ),
        (
            "JSONL manifest: id -> image, label -> label, b, c -> int feature, a -> text feature",
            replace(
                FOLDER,
                kind=SourceKind.MANIFEST,
                columns=(*IMAGE_LABEL, ("b, c", "int feature"), ("a", "text feature")),
            ),
        ),
        (
            "Spark DataFrame: id -> image, label -> label",
            replace(FOLDER, kind=SourceKind.MANIFEST, columns=IMAGE_LABEL),
        ),
    ],
)
def test_a_sentence_tells_kind_depths_and_columns(text: str, facts: SourceLayout) -> None:
    found = parse_old_layout(text)
    assert found.text == text
    assert replace(found, sentence="") == facts
