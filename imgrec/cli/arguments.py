"""The options of pack and plan, as they are written on the command line."""

from __future__ import annotations

import argparse
import csv
import re
from collections.abc import Callable
from enum import StrEnum
from typing import TypeAlias

from imgrec.options import LEAF, AlsoFormat, PackOptions

_UNITS = {
    "": 1,
    "B": 1,
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}
_DEFAULTS = PackOptions()
_SOURCE = _DEFAULTS.source
Add: TypeAlias = Callable[..., object]
"""The method that adds an option to a group."""


def parse_size(text: str) -> int:
    """Parse "128MiB" into bytes.

    >>> parse_size("1.5KiB")
    1536
    """
    match = re.fullmatch(r"\s*([0-9]*\.?[0-9]+)\s*([A-Za-z]*)\s*", text)
    unit = _UNITS.get(match[2].upper()) if match else None
    if match is None or unit is None:
        raise argparse.ArgumentTypeError(f"{text!r} is not a size; write it as 128MiB or 1GB")
    return int(float(match[1]) * unit)


def parse_depth(text: str) -> int:
    """Parse "2" or "leaf" into a class depth."""
    if text == "leaf":
        return LEAF
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is no depth; write 1, 2 ... or leaf")
    return int(text)


def _parse_names(text: str) -> list[str]:
    """Parse "rose,tulip"; a name with a comma is written in double quotes, as in CSV."""
    (names,) = csv.reader([text], skipinitialspace=True)
    return [name.strip() for name in names if name.strip()]


def add_pack_options(parser: argparse.ArgumentParser) -> None:
    """Add the source and all options of `PackOptions` to a verb."""
    parser.add_argument(
        "source",
        metavar="SOURCE",
        nargs="?",
        help="folder, archive, manifest, CIFAR or IDX files; found out by itself",
    )
    _add_dataset(parser.add_argument_group("dataset").add_argument)
    add_source_options(parser)
    _add_part(parser.add_argument_group("a part of the source").add_argument)
    _add_splits(parser.add_argument_group("splits").add_argument)
    _add_images(parser.add_argument_group("images and labels").add_argument)
    _add_shards(parser.add_argument_group("shards and speed"))
    add = parser.add_argument_group("output").add_argument
    add_thumbnails(add)
    add("--json", action="store_true", help="print one JSON object")
    add("--quiet", action="store_true", help="show no progress")


def add_thumbnails(add: Add) -> None:
    """Add how many pictures a report shows."""
    add(
        "--thumbnails",
        type=int,
        metavar="N",
        help="the most pictures in report.html; default: 96, or more for more than 77 classes",
    )


def add_source_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a source is read."""
    _add_source(parser.add_argument_group("source").add_argument)
    _add_manifest(parser.add_argument_group("manifests").add_argument)


def _add_dataset(add: Add) -> None:
    add("--name", default="", metavar="N", help="default: the source's, or of a table its folder's")
    add("--version", default=_DEFAULTS.version, metavar="X.Y.Z", help="default: %(default)s")
    add(
        "--data-dir",
        default="",
        metavar="DIR",
        help="default: $TFDS_DATA_DIR, else ~/tensorflow_datasets",
    )
    add("--yes", action="store_true", help="pack what looks doubtful, such as a single class")
    add(
        "--overwrite",
        action="store_true",
        help="pack anew, and replace the dataset of that name and version",
    )
    add(
        "--no-resume",
        dest="resume",
        action="store_false",
        help="start over instead of continuing a run that was cut off",
    )


def _add_source(add: Add) -> None:
    _choice(add, "--kind", _SOURCE.kind, "what SOURCE is")
    _choice(add, "--layout", _SOURCE.layout, "what the folders in SOURCE are")
    add(
        "--class-depth",
        type=parse_depth,
        default=_SOURCE.class_depth,
        metavar="N|leaf",
        help="how many folders, joined, name a class; default: 1",
    )
    add(
        "--label-regex",
        default="",
        metavar="REGEX",
        help="take the class from file names: the group (?P<label>...), or all that matches",
    )
    add("--follow-links", action="store_true", help="walk links to folders outside SOURCE too")
    _choice(add, "--cifar100-labels", _SOURCE.cifar100_labels, "which labels of CIFAR-100")
    add(
        "--max-archive-bytes",
        type=parse_size,
        default=_SOURCE.max_archive_bytes,
        metavar="SIZE",
        help="the most that an archive may unpack to; default: 1024GiB",
    )


def _add_manifest(add: Add) -> None:
    add(
        "--manifest",
        default="",
        metavar="FILE",
        help="CSV, TSV, JSONL or Parquet: a file, a glob or a folder of parts; SOURCE, if "
        "given too, holds the images, and may hold the table",
    )
    add("--images", default="", metavar="DIR", help="default: the folder of the manifest")
    add(
        "--test-images",
        default="",
        metavar="DIR|TABLE",
        help="images without labels that become the split test: a folder, or a table of ids",
    )
    add(
        "--image-template",
        default="",
        metavar="T",
        help="how an id becomes a file's name, as in '{id}_green.png'",
    )
    for option, what in (
        ("path", "the image's path or id"),
        ("label", "its class"),
        ("split", "its split"),
        ("group", "what must stay in one split together"),
    ):
        add(f"--{option}-col", default="", metavar="C", help=f"column with {what}")
    add(
        "--label-names",
        metavar="FILE",
        help="names of labels: line i names label i; or a CSV of label,name, or a JSON map",
    )
    add("--fold-case", action="store_true", help="merge classes that differ only in spelling")
    add("--keep-case", action="store_true", help="keep them apart, as different classes")
    add(
        "--encoding",
        default="",
        metavar="E",
        help="of tables of text (default: UTF-8, UTF-16 with a mark, or else cp1252) and of names "
        "in archives (default: UTF-8, or else the only one that fits)",
    )
    add("--label-sep", metavar="SEP", help="several labels in a cell, SEP between them; none: one")
    add(
        "--onehot",
        type=lambda text: tuple(text.split(",")),
        default=(),
        metavar="A,B,C",
        help="columns of 0 and 1, one a label",
    )
    add(
        "--column",
        dest="columns",
        action="append",
        default=[],
        metavar="NAME[:TYPE[=DEFAULT]]",
        help="column that travels into the records as int, float or text; DEFAULT stands for "
        "missing values, otherwise -1, NaN or nothing; may be repeated",
    )


def _add_part(add: Add) -> None:
    for option in ("include", "exclude"):
        add(
            f"--{option}",
            action="append",
            default=[],
            metavar="GLOB",
            help=f"{option} the files whose path matches; may be repeated",
        )
    add(
        "--map",
        default="",
        metavar="FILE",
        help="CSV of old,new class names: rename, merge, or drop with an empty new name",
    )
    for option in ("only", "drop"):
        add(
            f"--{option}-classes",
            type=_parse_names,
            action="extend",
            default=[],
            metavar="A,B",
            help=f"{'pack only' if option == 'only' else 'leave out'} these classes; "
            "names are those after --map",
        )
    add(
        "--min-per-class",
        type=int,
        default=0,
        metavar="N",
        help="leave out classes of fewer than N images",
    )
    add("--limit-per-class", type=int, metavar="N", help="at most N images of each class")
    add("--min-side", type=int, default=0, metavar="PX", help="leave out smaller images")


def _add_splits(add: Add) -> None:
    for split in ("val", "test"):
        add(
            f"--{split}-split",
            type=float,
            default=0.0,
            metavar="F",
            help=f"fraction of each class for {split}",
        )
    add("--folds", type=int, default=0, metavar="K", help="fold_0 ... fold_K-1 instead of train")
    add(
        "--seed", type=int, default=0, metavar="N", help="of splits and order; default: %(default)s"
    )
    add(
        "--group-by",
        default="",
        metavar="REGEX",
        help="keep together the images whose paths match alike: (?P<group>...), or all",
    )
    add("--split-from", default="", metavar="DATASET", help="keep its splits and labels")
    add("--split-file", default="", metavar="CSV", help="table of paths and splits to keep")
    _choice(
        add,
        "--on-leak",
        _DEFAULTS.on_leak,
        "what to do about one image in two splits of the source",
    )
    _choice(
        add,
        "--near-dups",
        _DEFAULTS.near_dups,
        "what to do about images that look alike: tell, keep together, keep one, or, by itself, "
        "tell of JPEGs of at least 256x256 pixels, which are decoded anyway",
    )


def _add_images(add: Add) -> None:
    add("--classes", metavar="FILE", help="class names in the order of their labels, one a line")
    add(
        "--classes-append",
        action="store_true",
        help="number classes that the file does not name after those that it does",
    )
    _choice(add, "--class-order", _DEFAULTS.class_order, "order of labels without --classes")
    add("--short-side", type=int, metavar="PX", help="shrink images with a longer short side to it")
    add("--max-side", type=int, metavar="PX", help="shrink images with a longer long side to it")
    add("--quality", type=int, metavar="Q", help="of the JPEGs that are shrunk; default: 90")
    _choice(add, "--check", _DEFAULTS.check, "how much of each image is proved")
    _choice(add, "--on-bad", _DEFAULTS.on_bad, "what a bad image does")
    add(
        "--max-bad",
        type=float,
        default=_DEFAULTS.max_bad,
        metavar="F",
        help="publish nothing if more than this fraction is bad; default: %(default)s",
    )


def _add_shards(group: argparse._ArgumentGroup) -> None:
    either = group.add_mutually_exclusive_group()
    either.add_argument(
        "--shards",
        type=int,
        metavar="N",
        help="exactly N shards for train, other splits in proportion",
    )
    either.add_argument(
        "--shard-size",
        type=parse_size,
        default=_DEFAULTS.shard_bytes,
        metavar="SIZE",
        help="the most bytes a shard has; default: 128MiB",
    )
    _choice(
        group.add_argument,
        "--compression",
        _DEFAULTS.compression,
        "compress each shard as a whole; TFDS cannot read that",
    )
    group.add_argument(
        "--also",
        action="append",
        choices=[str(choice) for choice in AlsoFormat],
        default=[],
        metavar="array_record",
        help="write the records in this format too, for tfds.data_source",
    )
    group.add_argument(
        "--workers", type=int, metavar="N", help="processes; default: the CPUs there are"
    )


def _choice(add: Add, flag: str, default: StrEnum, what: str) -> None:
    choices = [str(choice) for choice in type(default)]
    shown = "|".join(choices)
    add(
        flag,
        choices=choices,
        default=str(default),
        metavar=shown,
        help=f"{what}; default: {default}",
    )
