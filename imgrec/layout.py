"""Names of a TFDS dataset's directory and files, formatted and parsed."""

from __future__ import annotations

import os
import re
import unicodedata
from functools import cache
from typing import TYPE_CHECKING

from imgrec.errors import UsageError
from imgrec.text import literal

if TYPE_CHECKING:
    from pathlib import Path

    from imgrec.outcome import DatasetInfo, SplitInfo

DATASET_INFO = "dataset_info.json"
FEATURES = "features.json"
LABELS = "label.labels.txt"
SEQUENCE_LABELS = "labels.labels.txt"
"""The same for datasets with several labels per image."""
METADATA = "metadata.json"
SAMPLES = "samples.parquet"
REPORT = "report.json"
PAGE = "report.html"
SKIPPED = "skipped.csv"
SUBMISSION = "sample_submission.csv"
"""The sample submission of a competition, if there is one."""
EDITS = "edits.csv"
"""The corrections of a dataset, if there are any."""
CHECKSUMS = "SHA256SUMS"
INDEX_SUFFIX = ".idx"
_SAMPLES_COLUMNS = frozenset(
    {"split", "shard", "offset", "length", "xxh3", "height", "width", "channels", "format",
     "class_name", "class_names", "group"}
)  # fmt: skip
"""Columns of `SAMPLES` that are not features of records."""
_USUAL_FEATURES = frozenset({"filename", "label", "labels"})
FILEPATH_TEMPLATE = "{DATASET}-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
"""The format of `shard_filename` as TFDS writes it."""
FILE_FORMATS = {"": "tfrecord", "gzip": "tfrecord.gz", "zlib": "tfrecord.zlib"}
"""The file format of shards by their compression.

TFDS would report a compressed shard as corrupt in the middle of training. A format that it does not
know fails at once: "'tfrecord.gz' is not a valid FileFormat". And `*.tfrecord-*` matches plain
shards only.
"""

_NAME = re.compile(r"[a-z][a-z0-9_]{0,99}")  # so that names of shards have at most 255
_VERSION = re.compile(r"(\d+)\.(\d+)\.(\d+)")


def shard_filename(name: str, split: str, index: int, count: int, compression: str = "") -> str:
    """Name a shard as TFDS's default template does.

    >>> shard_filename("flowers", "train", 3, 8)
    'flowers-train.tfrecord-00003-of-00008'
    >>> shard_filename("flowers", "train", 3, 8, "gzip")
    'flowers-train.tfrecord.gz-00003-of-00008'
    """
    width = max(5, len(str(count)))
    file_format = FILE_FORMATS[compression]
    return f"{name}-{split}.{file_format}-{index:0{width}d}-of-{count:0{width}d}"


def shard_filenames(info: DatasetInfo, split: SplitInfo) -> tuple[str, ...]:
    """Name all shards of a split, in their order."""
    count = len(split.shard_lengths)
    return tuple(
        shard_filename(info.name, split.name, index, count, info.compression)
        for index in range(count)
    )


def twin_filename(shard: str, file_format: str) -> str:
    """Name the file with the records of a plain shard in another format.

    >>> twin_filename("flowers-train.tfrecord-00003-of-00008", "array_record")
    'flowers-train.array_record-00003-of-00008'
    """
    # Neither names nor splits have dots.
    return shard.replace(f".{FILE_FORMATS['']}-", f".{file_format}-")


def samples_column(feature: str) -> str:
    """Name the column of `SAMPLES` for a column of the source.

    >>> samples_column("age"), samples_column("split"), samples_column("split_")
    ('age', 'split_', 'split__')
    """
    return f"{feature}_" if feature.rstrip("_") in _SAMPLES_COLUMNS else feature


def is_extra_column(name: str) -> bool:
    """Return whether a column of `SAMPLES` holds groups, or comes from a table of the source.

    >>> is_extra_column("age"), is_extra_column("group"), is_extra_column("width")
    (True, True, False)
    """
    return name == "group" or name not in _SAMPLES_COLUMNS | _USUAL_FEATURES


def dataset_name(source_name: str, wanted: str) -> str:
    """Return the name that is asked for, or one made from the name of the source."""
    return checked_name(wanted or legal_name(source_name))


def checked_name(name: str) -> str:
    """Return `name`; raise UsageError if `tfds.load` cannot find a dataset of that name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"--name {name!r} is not a name that tfds.load can find",
            hint=f"use up to 100 lower-case letters, digits and _, such as {legal_name(name)}",
        )
    return name


def legal_name(text: str) -> str:
    """Make a dataset name that TFDS accepts out of any text.

    >>> legal_name("Blumen-Bilder 2024 (é)")
    'blumen_bilder_2024_e'
    """
    ascii_text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^a-z0-9]+", "_", ascii_text.lower()).strip("_")
    if not name:
        return "dataset"
    return (name if name[0].isalpha() else f"dataset_{name}")[:100].rstrip("_")


def parse_version(text: str) -> tuple[int, int, int] | None:
    """Parse "1.10.0" into numbers that sort as versions do; return None for other text."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def default_data_dir() -> str:
    """Return the directory where TFDS keeps datasets; it may be the URL of an object store."""
    return os.path.expanduser(os.environ.get("TFDS_DATA_DIR") or "~/tensorflow_datasets")


def dataset_dir(data_dir: Path, name: str, version: str) -> Path:
    """Return the directory that TFDS reads a dataset from."""
    return data_dir / name / version


def load_line(
    data_dir: Path, name: str, version: str, split: str, compression: str = "", step: str = ""
) -> str:
    """Return the line of Python that loads a dataset, from any working folder.

    imgrec loads what TFDS cannot: compressed shards and object stores. `step` is appended for TFDS,
    such as `multilabel_step`.
    """
    if "://" in str(data_dir):  # TensorFlow reads few kinds of stores
        return f"imgrec.load({str(dataset_dir(data_dir, name, version))!r}, split={literal(split)})"
    if not compression:
        target, where = _in_tfds(data_dir, name, version)
        arguments = f"{literal(target)}, split={literal(split)}, as_supervised=True{where}"
        return f"tfds.load({arguments}){step}"
    if not _is_default(data_dir):
        path = str(dataset_dir(data_dir, name, version).absolute())
        return f"imgrec.load({path!r}, split={literal(split)})"
    target = f"{name}:{version}" if _has_higher_version(data_dir / name, version) else name
    return f"imgrec.load({literal(target)}, split={literal(split)})"


def multilabel_step(classes: int, *, is_one_size: bool) -> str:
    """Return the `.map(...)` that lets images with several labels be batched.

    TFDS returns a list of labels for each image, and lists of different lengths form no batch.

    >>> multilabel_step(3, is_one_size=True)
    '.map(lambda image, labels: (image, tf.reduce_sum(tf.one_hot(labels, 3), 0)))'
    """
    image = "image" if is_one_size else "tf.image.resize(image, (224, 224))"
    return f".map(lambda image, labels: ({image}, tf.reduce_sum(tf.one_hot(labels, {classes}), 0)))"


def description(images: int, classes: int) -> str:
    """Return the description of a dataset that was packed without one."""
    return f"{images} images in {classes} classes, packed by imgrec."


def data_source_line(data_dir: Path, name: str, version: str, split: str) -> str:
    """Return the line of Python with which TFDS reads a dataset in random order."""
    target, where = _in_tfds(data_dir, name, version)
    return f"tfds.data_source({literal(target)}, split={literal(split)}{where})"


def _in_tfds(data_dir: Path, name: str, version: str) -> tuple[str, str]:
    """Return the name for TFDS, and the data_dir argument if it needs one.

    Without a version, TFDS prefers its own catalogue to files, and the highest version to others.
    """
    is_hidden = name in tfds_catalogue() or _has_higher_version(data_dir / name, version)
    target = f"{name}:{version}" if is_hidden else name
    return target, "" if _is_default(data_dir) else f", data_dir={str(data_dir.absolute())!r}"


def _has_higher_version(folder: Path, version: str) -> bool:
    try:
        versions = [parse_version(entry) for entry in os.listdir(folder)]
    except OSError:
        return False
    return any(found and found > (parse_version(version) or found) for found in versions)


def _is_default(data_dir: Path) -> bool:
    return str(data_dir.absolute()) == os.path.abspath(default_data_dir())


@cache
def tfds_catalogue() -> frozenset[str]:
    """Return the names of TFDS's own datasets."""
    from importlib.resources import files

    return frozenset(files("imgrec").joinpath("tfds_catalogue.txt").read_text("ascii").split())
