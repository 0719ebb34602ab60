"""The words that downloads use in the names of folders, tables and files."""

from __future__ import annotations

import re
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
"""Words that say what a folder holds, not which class."""
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
"""Words for what stands beside the images of a dataset."""
_DERIVED = frozenset(
    {
        "mask", "masks", "segmentation", "segmentations", "seg", "annotation", "annotations",
        "groundtruth", "gt", "bbox", "bboxes", "label", "labels", "thumbnail", "thumbnails",
        "thumbs", "trimap", "trimaps", "preview", "previews", "heatmap", "depth",
    }
)  # fmt: skip
"""Words for pictures that are made of the images of a class, and are no images of it."""
_DERIVED_NAME = re.compile(
    rf"(?P<stem>.+?)[-_. ]+(?P<word>{'|'.join(sorted(_DERIVED))})[-_. ]*\d*$", re.I
)
_UNLABELLED = frozenset(
    {
        "unknown", "unlabeled", "unlabelled", "nolabel", "pred", "predict", "prediction",
    }
)  # fmt: skip
_CAMERAS = frozenset(
    {
        "img", "image", "images", "imgp", "imag", "dsc", "dscn", "dscf", "dcim", "pict", "pic",
        "picture", "photo", "p", "pxl", "mvimg", "gopr", "gopro", "dji", "scan", "scanned",
        "frame", "video", "vid", "screenshot", "snapshot", "capture", "mask", "label", "file",
        "sample", "train", "test", "val", "im", "i", "n", "no", "id", "page", "crop", "patch",
        "tile", "output", "result", "untitled", "unnamed", "download", "whatsapp",
    }
)  # fmt: skip
"""Leading words that cameras, scanners and tools give to all files alike."""
_SIZE = re.compile(r"\d+ ?(x ?\d+|px|p)|(size|px) ?\d+", re.I)
"""A size in pixels, as in `jpeg-224x224`."""


def is_container(name: str) -> bool:
    """Tell whether a folder's name says that it holds images, and not which.

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
    """Tell whether a folder is one that stands beside the images: samples, docs, masks.

    >>> is_side("sample_images"), is_side("annotations"), is_side("images")
    (True, True, False)
    """
    return is_container(name) and any(word in _SIDE for word in words(name))


def is_derived(name: str) -> bool:
    """Tell whether a folder holds masks or the like of the images beside it.

    >>> is_derived("masks"), is_derived("Mask"), is_derived("mask wearers")
    (True, True, False)
    """
    found = [word for word in words(name) if not word.isdecimal()]
    return bool(found) and all(word in _DERIVED for word in found)


def derived_from(stem: str) -> tuple[str, str]:
    """Return the stem of the image that a mask or the like is made of, and the word for it.

    >>> derived_from("benign (1)_mask"), derived_from("benign (1)_mask_1"), derived_from("rose")
    (('benign (1)', 'mask'), ('benign (1)', 'mask'), ('', ''))
    """
    match = _DERIVED_NAME.match(stem)
    return (match["stem"], match["word"]) if match else ("", "")


def is_unlabelled(name: str) -> bool:
    """Tell whether a folder says that its images have no labels.

    >>> is_unlabelled("unlabeled"), is_unlabelled("seg_pred")
    (True, True)
    """
    return any(word in _UNLABELLED for word in words(name))


def is_tool_word(word: str) -> bool:
    """Tell whether a file's leading word comes from a camera, a scanner or a tool.

    >>> is_tool_word("IMG"), is_tool_word("cat")
    (True, False)
    """
    return word.casefold() in _CAMERAS or bool(split_word(word))


_LABEL_IN_NAME = r"^(?P<label>[^\W\d_]\D*?)[-_.\s(]+\d+\)?\.[^.]*$"
_NUMBERED = re.compile(_LABEL_IN_NAME)
_MOST_WORDS = 200
_SUGGESTED = (
    r"^(?P<label>[^\W\d_][^\d]*?)[-_. (]*\d",
    r"(?P<label>[^\W\d_]+)\.\w+$",
    r"^(?P<label>\d+)[-_]",
)
"""Patterns that are not sure enough to be taken unasked."""


def leading_word_regex(names: Sequence[str]) -> str:
    r"""Return the pattern that takes the class from file names, or "" if they do not tell one.

    Every name must be a word, a separator and a number, with 2 to 200 words of two images each or
    more, none of which a camera or a scanner writes.

    >>> leading_word_regex(["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"])
    '^(?P<label>[^\\W\\d_]\\D*?)[-_.\\s(]+\\d+\\)?\\.[^.]*$'
    >>> leading_word_regex(["IMG_1.jpg", "IMG_2.jpg", "DSC_1.jpg", "DSC_2.jpg"])
    ''
    """
    counts: dict[str, int] = {}
    for name in names:
        match = _NUMBERED.match(name)
        if match is None:
            return ""
        word = match["label"]
        counts[word] = counts.get(word, 0) + 1
        if len(counts) > _MOST_WORDS:
            return ""
    is_telling = len(counts) >= 2 and min(counts.values()) >= 2
    if not is_telling or any(map(is_tool_word, counts)):
        return ""
    return _LABEL_IN_NAME


def suggested_regex(names: Sequence[str]) -> str:
    r"""Return a pattern that may find the class in file names; "" if none of the usual ones does.

    >>> suggested_regex(["Great_Dane_1.jpg", "Great_Dane_2.jpg", "pug_1.jpg", "pug_7.jpg"])
    '^(?P<label>[^\\W\\d_][^\\d]*?)[-_. (]*\\d'
    """
    for pattern in _SUGGESTED:
        counts: dict[str, int] = {}
        for match in map(re.compile(pattern).search, names):
            if match is None:
                break
            counts[match["label"]] = counts.get(match["label"], 0) + 1
        else:
            is_few = 2 <= len(counts) <= min(_MOST_WORDS, len(names) / 2)
            if is_few and not any(map(is_tool_word, counts)):
                return pattern
    return ""
