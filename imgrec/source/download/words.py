"""The words that downloads use in the names of folders, tables and files."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from imgrec.model import TEST, TRAIN, VAL
from imgrec.source.split_words import split_word

_BOUNDARY = re.compile(r"[-_.()\s]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
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
_SUFFIXES = re.compile(r"(\.\w{1,7})+$")
_SUBMISSION = re.compile(r"sample[-_ ]?sub|submission|submit[-_ ]?sample", re.I)


def words(name: str) -> list[str]:
    """Return the words of a name, in lower case, with numbers apart.

    >>> words("Train_images"), words("test1"), words("trainLabels"), words("224x224")
    (['train', 'images'], ['test', '1'], ['train', 'labels'], ['224', 'x', '224'])
    """
    return [word.casefold() for word in _BOUNDARY.split(name) if word]


def split_in(name: str) -> str:
    """Return the split that the first word of a name means, or "".

    >>> split_in("test_stg1"), split_in("Training Set"), split_in("valley"), split_in("trainers")
    ('test', 'train', '', '')
    >>> split_in("a. Training Set"), split_in("2")
    ('train', '')
    """
    found = _unnumbered(words(name))
    return _split_of_word(found[0]) if found else ""


def _unnumbered(found: list[str]) -> list[str]:
    """Return words without what counts folders: `a. Training Set`, `2_test`."""
    while len(found) > 1 and (len(found[0]) == 1 or found[0].isdecimal()):
        found = found[1:]
    return found


def split_of_file(name: str) -> str:
    """Return the split that some word of a table's name means; "" for none or several.

    >>> split_of_file("train_labels.csv"), split_of_file("labels-val.csv")
    ('train', 'val')
    >>> split_of_file("train_val_list.txt"), split_of_file("train_test_split.txt")
    ('train', '')
    """
    stem = _SUFFIXES.sub("", os.path.basename(name))
    meant = {_split_of_word(word) for word in words(stem)} - {""}
    if meant == {TRAIN, VAL}:  # all that may be trained with
        return TRAIN
    return meant.pop() if len(meant) == 1 else ""


def _split_of_word(word: str) -> str:
    split = TRAIN if word == "trainval" else split_word(word)
    return split if split in (TRAIN, VAL, TEST) else ""


def splits_of(names: Iterable[str]) -> dict[str, str]:
    """Return the split that each sibling folder means, "" for none.

    A first word that all of them share does not count: `hoh_train` and `hoh_test` are splits.
    """
    found = {name: _unnumbered(words(name)) for name in names}
    shared = 0
    if len(found) > 1:
        lists = list(found.values())
        shortest = min(map(len, lists))
        while shared < shortest - 1 and len({parts[shared] for parts in lists}) == 1:
            shared += 1
    meaning = {}
    for name, parts in found.items():
        direct = _split_of_word(parts[0]) if parts else ""
        meaning[name] = direct or (_split_of_word(parts[shared]) if shared else "")
    return meaning


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
        and all(w in known or w.isdecimal() or _split_of_word(w) for w in found)
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


def is_submission(path: str) -> bool:
    """Tell whether a table shows the form of a submission, by its name.

    >>> is_submission("sample_submission.csv"), is_submission("sampleSubmission_v2.csv.zip")
    (True, True)
    """
    return bool(_SUBMISSION.search(os.path.basename(path)))
