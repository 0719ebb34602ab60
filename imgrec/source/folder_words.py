"""The meaning of words in the names of image folders and files, except words for splits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from imgrec.source.split_words import split_of_word, split_word, words

_CONTAINERS = frozenset(
    {
        "image", "images", "img", "imgs", "picture", "pictures", "pic", "pics", "photo",
        "photos", "data", "dataset", "datasets", "database", "jpg", "jpgs", "jpeg", "jpegs",
        "png", "pngs", "bmp", "tif", "tiff", "webp", "raw", "all", "full", "original",
        "originals", "files", "input", "content", "media", "archive", "download", "downloads",
        "extracted", "unzipped", "resized", "cropped", "part", "parts", "batch", "chunk",
        "volume", "vol", "new", "folder", "copy",
    }
)  # fmt: skip
"""Folders of images, whose names are not classes."""
_SIDE = frozenset(
    {
        "sample", "samples", "example", "examples", "doc", "docs", "documentation",
        "annotation", "annotations", "anno", "annotated", "meta", "metadata", "label", "labels",
        "mask", "masks", "segmentation", "segmentations", "bbox", "bboxes", "bounding", "boxes",
        "demo", "preview", "previews", "thumbnail", "thumbnails", "thumbs", "screenshot",
        "screenshots", "assets", "figure", "figures", "tfrecord", "tfrecords", "tfrec",
        "tfrecs", "dicom", "dcm", "csv", "json", "xml", "readme", "license",
    }
)  # fmt: skip
"""Folders beside the images of a dataset."""
_DERIVED = frozenset(
    {
        "mask", "masks", "segmentation", "segmentations", "seg", "annotation", "annotations",
        "groundtruth", "gt", "bbox", "bboxes", "label", "labels", "thumbnail", "thumbnails",
        "thumbs", "trimap", "trimaps", "preview", "previews", "heatmap", "depth",
    }
)  # fmt: skip
"""Pictures made from the images of a class."""
_DERIVED_NAME = re.compile(
    rf"(?P<stem>.+?)[-_. ]+(?P<word>{'|'.join(sorted(_DERIVED))})[-_. ]*\d*$", re.I
)
_UNLABELLED = frozenset(
    {"unknown", "unlabeled", "unlabelled", "nolabel", "pred", "predict", "prediction"}
)
_CAMERAS = frozenset(
    {
        "img", "image", "images", "imgp", "imag", "dsc", "dscn", "dscf", "dcim", "pict", "pic",
        "picture", "photo", "p", "pxl", "mvimg", "gopr", "gopro", "dji", "scan", "scanned",
        "frame", "video", "vid", "screenshot", "snapshot", "capture", "mask", "label", "file",
        "sample", "train", "test", "val", "im", "i", "n", "no", "id", "page", "crop", "patch",
        "tile", "output", "result", "untitled", "unnamed", "download", "whatsapp",
    }
)  # fmt: skip
"""First words in the names that cameras, scanners and tools give to files."""
_SIZE = re.compile(r"\d+ ?(x ?\d+|px|p)|(size|px) ?\d+", re.I)
"""A size in pixels, as in `jpeg-224x224`."""


def is_container(name: str) -> bool:
    """Return whether a folder's name says only that it holds images.

    >>> is_container("Images"), is_container("jpeg-224x224"), is_container("rose images")
    (True, True, False)
    """
    unsized, sizes = _SIZE.subn(" ", name)
    found = words(unsized)
    known = _CONTAINERS | _SIDE
    return bool(sizes and not found) or (
        any(w in known for w in found)
        and all(w in known or w.isdecimal() or split_of_word(w) for w in found)
    )


def is_side(name: str) -> bool:
    """Return whether a folder stands beside the images: samples, docs, masks.

    >>> is_side("sample_images"), is_side("annotations"), is_side("images")
    (True, True, False)
    """
    return is_container(name) and any(word in _SIDE for word in words(name))


def is_derived(name: str) -> bool:
    """Return whether a folder holds masks or the like of the images beside it.

    >>> is_derived("masks"), is_derived("Mask"), is_derived("mask wearers")
    (True, True, False)
    """
    found = [word for word in words(name) if not word.isdecimal()]
    return bool(found) and all(word in _DERIVED for word in found)


def derived_from(stem: str) -> tuple[str, str]:
    """Return the stem of the image that a mask was made from, and the word for the mask.

    >>> derived_from("benign (1)_mask"), derived_from("benign (1)_mask_1"), derived_from("rose")
    (('benign (1)', 'mask'), ('benign (1)', 'mask'), ('', ''))
    """
    match = _DERIVED_NAME.match(stem)
    return (match["stem"], match["word"]) if match else ("", "")


def is_unlabelled(name: str) -> bool:
    """Return whether a folder's name says that its images have no labels.

    >>> is_unlabelled("unlabeled"), is_unlabelled("seg_pred")
    (True, True)
    """
    return any(word in _UNLABELLED for word in words(name))


_LABEL_IN_NAME = r"^(?P<label>[^\W\d_]\D*?)[-_.\s(]+\d+\)?\.[^.]*$"
_MOST_WORDS = 200
_SUGGESTED = (
    r"^(?P<label>[^\W\d_][^\d]*?)[-_. (]*\d",
    r"(?P<label>[^\W\d_]+)\.\w+$",
    r"^(?P<label>\d+)[-_]",
)
"""Patterns to suggest. They are not sure enough to be taken unasked."""


def _labels_in(names: Sequence[str], pattern: str) -> Counter[str]:
    """Count the labels that a pattern finds in all names; empty if they are not labels."""
    counts = Counter[str]()
    for match in map(re.compile(pattern).search, names):
        if match is None:
            return Counter()
        counts[match["label"]] += 1
    is_tool = any(word.casefold() in _CAMERAS or split_word(word) for word in counts)
    return Counter() if is_tool or not 2 <= len(counts) <= _MOST_WORDS else counts


def leading_word_regex(names: Sequence[str]) -> str:
    r"""Return the pattern that takes the class from file names, or "" if they hold none.

    Every name must be a word, a separator and a number, with 2 to 200 words of two images each or
    more, none of which a camera or a scanner writes.

    >>> leading_word_regex(["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"])
    '^(?P<label>[^\\W\\d_]\\D*?)[-_.\\s(]+\\d+\\)?\\.[^.]*$'
    >>> leading_word_regex(["IMG_1.jpg", "IMG_2.jpg", "DSC_1.jpg", "DSC_2.jpg"])
    ''
    """
    counts = _labels_in(names, _LABEL_IN_NAME)
    return _LABEL_IN_NAME if counts and min(counts.values()) >= 2 else ""


def suggested_regex(names: Sequence[str]) -> str:
    r"""Return a pattern that may find the class in file names; "" if no usual one does.

    >>> suggested_regex(["Great_Dane_1.jpg", "Great_Dane_2.jpg", "pug_1.jpg", "pug_7.jpg"])
    '^(?P<label>[^\\W\\d_][^\\d]*?)[-_. (]*\\d'
    """
    for pattern in _SUGGESTED:
        counts = _labels_in(names, pattern)
        if counts and len(counts) * 2 <= len(names):
            return pattern
    return ""
