"""The options of pack and plan, from text to values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable
from enum import StrEnum

from imgrec.errors import UsageError
from imgrec.options import PackOptions, SourceOptions

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


def add_pack_options(parser: argparse.ArgumentParser) -> None:
    """Add the source and all options of `PackOptions` to a verb."""
    parser.add_argument("source", metavar="SOURCE", help="folder of class folders")
    add = parser.add_argument_group("dataset").add_argument
    add("--name", default="", metavar="N", help="default: the source's name, made legal for TFDS")
    add("--version", default=_DEFAULTS.version, metavar="X.Y.Z", help="default: %(default)s")
    add(
        "--data-dir",
        default="",
        metavar="DIR",
        help="default: $TFDS_DATA_DIR, else ~/tensorflow_datasets",
    )
    add(
        "--overwrite",
        action="store_true",
        help="replace a different dataset of that name and version",
    )

    add = parser.add_argument_group("splits").add_argument
    add("--val-split", type=float, default=0.0, metavar="F", help="fraction of each class for val")
    add(
        "--test-split", type=float, default=0.0, metavar="F", help="fraction of each class for test"
    )
    add(
        "--seed", type=int, default=0, metavar="N", help="of splits and order; default: %(default)s"
    )
    _choice(
        add,
        "--on-leak",
        _DEFAULTS.on_leak,
        "what to do about one image in two splits of the source",
    )

    add = parser.add_argument_group("labels").add_argument
    add("--classes", metavar="FILE", help="class names in the order of their labels, one a line")
    _choice(add, "--class-order", _DEFAULTS.class_order, "order of labels without --classes")
    _choice(add, "--layout", _SOURCE.layout, "what the folders in SOURCE are")
    add("--follow-links", action="store_true", help="walk links to folders outside SOURCE too")

    add = parser.add_argument_group("images").add_argument
    _choice(add, "--check", _DEFAULTS.check, "how much of each image is proved")
    _choice(add, "--on-bad", _DEFAULTS.on_bad, "what a bad image does")
    add(
        "--max-bad",
        type=float,
        default=_DEFAULTS.max_bad,
        metavar="F",
        help="publish nothing if more than this fraction is bad; default: %(default)s",
    )

    shards = parser.add_argument_group("shards and speed")
    either = shards.add_mutually_exclusive_group()
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
    shards.add_argument(
        "--workers", type=int, metavar="N", help="processes; default: the CPUs there are"
    )

    add = parser.add_argument_group("output").add_argument
    add("--json", action="store_true", help="print one JSON object")
    add("--quiet", action="store_true", help="show no progress")


def _choice(add: Callable[..., object], flag: str, default: StrEnum, what: str) -> None:
    choices = [str(choice) for choice in type(default)]
    shown = "|".join(choices)
    add(
        flag,
        choices=choices,
        default=str(default),
        metavar=shown,
        help=f"{what}; default: {default}",
    )


def pack_options(parsed: argparse.Namespace) -> PackOptions:
    """Turn parsed arguments into a value; raise UsageError if they cannot be."""
    return PackOptions(
        source=SourceOptions(layout=parsed.layout, follow_links=parsed.follow_links),
        name=parsed.name,
        version=parsed.version,
        data_dir=parsed.data_dir,
        val_fraction=parsed.val_split,
        test_fraction=parsed.test_split,
        seed=parsed.seed,
        classes=_read_classes(parsed.classes) if parsed.classes else None,
        class_order=parsed.class_order,
        shards=parsed.shards,
        shard_bytes=parsed.shard_size,
        check=parsed.check,
        on_bad=parsed.on_bad,
        max_bad=parsed.max_bad,
        on_leak=parsed.on_leak,
        workers=parsed.workers,
        overwrite=parsed.overwrite,
    )


def _read_classes(filename: str) -> tuple[str, ...]:
    from imgrec.plan.labels import parse_classes

    try:
        with open(filename, encoding="utf-8") as file:
            return parse_classes(file.read())
    except OSError as error:
        raise UsageError(f"cannot read --classes {filename}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--classes {filename} is not UTF-8 text") from error
