"""The meaning of words: in the names of files and folders, and in cells that hold splits."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, VAL
from imgrec.text import listed

_WORDS = {
    "train": TRAIN, "training": TRAIN,
    "val": VAL, "valid": VAL, "validation": VAL, "dev": VAL,
    "test": TEST, "testing": TEST,
    "publictest": VAL, "privatetest": TEST,  # FER2013's
}  # fmt: skip
_SETS = frozenset({"set", "split", "subset", "stg", "stage"})
"""Words that stand beside a split's: `test_stg1`, `Training Set`."""
_MOST_SPELLINGS = 50
"""A column of splits has no more different cells."""
_BOUNDARY = re.compile(r"[-_.()\s]+|(?<=[a-z])(?=[A-Z])|(?<=[A-Za-z])(?=\d)|(?<=\d)(?=[A-Za-z])")
_LETTERS = re.compile("[A-Za-z]+")
_CAMEL = re.compile("[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


class Splits(NamedTuple):
    """The split of each row ("" for none), and the faults of rows."""

    splits: list[str]
    faults: dict[int, str]


def words(name: str) -> list[str]:
    """Return the words and numbers of a name, in lower case.

    >>> words("Train_images"), words("test1"), words("trainLabels"), words("224x224")
    (['train', 'images'], ['test', '1'], ['train', 'labels'], ['224', 'x', '224'])
    """
    return [word.casefold() for word in _BOUNDARY.split(name) if word]


def split_word(text: str) -> str:
    """Return the split that a word means; "" for none.

    >>> split_word("Validation"), split_word("kitchen")
    ('val', '')
    """
    return _WORDS.get(text.strip().casefold(), "")


def are_splits(cells: Iterable[str]) -> bool:
    """Return whether cells hold splits, and more than one.

    >>> are_splits(["TRAIN", "TEST"]), are_splits(["train", "train"]), are_splits(["test", "tube"])
    (True, False, False)
    """
    distinct = set(cells)
    meant = set(map(split_word, distinct)) if len(distinct) <= _MOST_SPELLINGS else {""}
    return "" not in meant and len(meant) > 1


def split_of_name(path: str, *, takes_trainval: bool = False) -> str:
    """Return the split that a word of a file's name means; "" for none or several.

    With `takes_trainval`, train and val together mean train.

    >>> split_of_name("places365_val.txt"), split_of_name("trainLabels.csv")
    ('val', 'train')
    >>> split_of_name("train_val.txt"), split_of_name("train_val.txt", takes_trainval=True)
    ('', 'train')
    >>> split_of_name("trainers.csv"), split_of_name("train_test_split.txt")
    ('', '')
    """
    meaning = split_of_word if takes_trainval else split_word
    found: set[str] = set()
    for word in _LETTERS.findall(path.rpartition("/")[2]):
        whole = meaning(word)
        found.update([whole] if whole else map(meaning, _CAMEL.findall(word)))
    found.discard("")
    if takes_trainval and found == {TRAIN, VAL}:
        return TRAIN
    return found.pop() if len(found) == 1 else ""


def split_of_path(path: str) -> str:
    """Return the split of a file by its name, or else by the nearest folder above it.

    >>> split_of_path("val/part-0.csv"), split_of_path("split=test/0.parquet")
    ('val', 'test')
    """
    return next(filter(None, map(split_of_name, reversed(path.split("/")))), "")


def split_of_word(word: str) -> str:
    """Return the split that a word in a name means; `trainval` means train."""
    return TRAIN if word.casefold() == "trainval" else split_word(word)


def split_in(name: str) -> str:
    """Return the split that the first word of a folder's name means; "" for none.

    >>> split_in("test_stg1"), split_in("Training Set"), split_in("valley"), split_in("trainers")
    ('test', 'train', '', '')
    >>> split_in("a. Training Set"), split_in("2")
    ('train', '')
    """
    found = _unnumbered(words(name))
    return split_of_word(found[0]) if found else ""


def splits_of(names: Iterable[str]) -> dict[str, str]:
    """Return the split that each of some sibling folders means; "" for none.

    First words that all of them share are ignored: `hoh_train` and `hoh_test` are splits.
    """
    found = {name: _unnumbered(words(name)) for name in names}
    shared = _shared_words(found.values())
    meaning = {}
    for name, parts in found.items():
        direct = split_of_word(parts[0]) if parts else ""
        meaning[name] = direct or (split_of_word(parts[shared]) if shared else "")
    return meaning


def bare_splits(names: Iterable[str]) -> list[str]:
    """Return those of some sibling folders whose names say nothing but a split.

    A class may be called `train_station`, but hardly `val`. Not if the names of all are such.

    >>> bare_splits(["rose", "Test Set 2", "train_station", "val"])
    ['Test Set 2', 'val']
    >>> bare_splits(["flower_rose", "flower_val"]), bare_splits(["train", "val"])
    (['flower_val'], [])
    >>> bare_splits(["box_train", "box_test", "query"]), bare_splits(["bus_test", "query"])
    (['box_train', 'box_test'], [])
    """
    found = {name: _unnumbered(words(name)) for name in names}
    shared = _shared_words(found.values())
    ends = {name: tuple(p[:-1]) for name, p in found.items() if p and split_of_word(p[-1])}
    counts = Counter(ends.values())
    bare = [
        name
        for name, parts in found.items()
        if _is_bare(parts) or _is_bare(parts[shared:]) or (name in ends and counts[ends[name]] > 1)
    ]
    return bare if len(bare) < len(found) else []


def _is_bare(parts: Sequence[str]) -> bool:
    rest = [word for word in parts if not word.isdecimal() and word not in _SETS]
    return bool(rest) and all(map(split_of_word, rest))


def _shared_words(lists: Collection[Sequence[str]]) -> int:
    """Count the first words that all names share, but never the last word of a name."""
    shared, rows = 0, list(lists)
    if len(rows) > 1:
        shortest = min(map(len, rows))
        while shared < shortest - 1 and len({parts[shared] for parts in rows}) == 1:
            shared += 1
    return shared


def _unnumbered(found: list[str]) -> list[str]:
    """Remove leading numbers and single letters: `a. Training Set`, `2_test`."""
    while len(found) > 1 and (len(found[0]) == 1 or found[0].isdecimal()):
        found = found[1:]
    return found


def read_splits(cells: Sequence[str], column: str, where: str) -> Splits:
    """Read a column of splits of the table `where`; raise SourceError for other words.

    A row without a split is a fault, unless no row has one.
    """
    counts = Counter(cells)
    meaning = {cell: split_word(cell) for cell in counts}
    unknown = [repr(cell) for cell in counts if cell.strip() and not meaning[cell]]
    if unknown:
        raise SourceError(
            f"{where}: the column {column} holds words that are not splits: {listed(unknown, 10)}",
            hint="write train, val or test; or name another column with --split-col",
        )
    splits = [meaning[cell] for cell in cells]
    if not any(splits):
        return Splits(splits, {})
    faults = {row: f"no split in {column}" for row, split in enumerate(splits) if not split}
    return Splits(splits, faults)


def splits_of_files(names: Sequence[str], where: str) -> dict[str, str]:
    """Return the splits that the names of a table's files mean; nothing if none does.

    A single file for train holds the rows of all splits. Raises SourceError if only some names mean
    splits.
    """
    splits = {name: split for name in names if (split := split_of_path(name))}
    if len(names) == 1:
        return {name: split for name, split in splits.items() if split != TRAIN}
    if others := [name for name in names if name not in splits] if splits else []:
        named = next(iter(splits))
        raise SourceError(
            f"{where}: {named} is for {splits[named]}, but the split of {listed(others)} is "
            "not known",
            hint="give only the files that are meant, with train, val or test in the name of "
            "each, or one table with a column split",
        )
    return splits


# Words in the names of image folders and files.

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
        "mask", "masks", "segmentation", "segmentations", "bbox", "bboxes", "bounding", "box",
        "boxes",
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
"""Patterns to suggest. They match too much to be used without asking."""


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
