"""Whether features.json and the files of class names are what TFDS reads, and what they say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from imgrec.inspection.files import read_whole, why
from imgrec.inspection.verification.rules import FeatureRule
from imgrec.inspection.verification.tfds_info import Say
from imgrec.read.metadata import MOST_CLASSES

_IMAGE_DTYPES = frozenset({"uint8", "uint16", "float32"})
_DEFAULT_CHANNELS = 3
_MOST_BYTES = 1 << 26
"""No file of class names is longer."""


def parse_features(
    value: Mapping[str, object], say: Say, note: Callable[[str], None]
) -> dict[str, FeatureRule]:
    """Return the rules for records; say what TFDS would not read, and note what has no rule."""
    match value:
        case {"pythonClassName": str(), "featuresDict": {"features": dict(features)}}:
            pass
        case _:
            say("it is not a FeaturesDict of TFDS")
            return {}
    rules = {}
    for name, feature in features.items():
        try:
            rule = _rule(feature)
        except (KeyError, TypeError, ValueError, OverflowError):
            say(f"its {name!r} is not what TFDS has there")
            continue
        if rule is None:
            note(f"{name}: a feature of a kind that is not looked into")
        else:
            rules[str(name)] = rule
    if not any(rule.is_image for rule in rules.values()):
        note("images: no feature is one")
    return rules


def _rule(feature: dict[str, object]) -> FeatureRule | None:
    """Return the rule for one feature, None for a kind that is not known; raises if it is none."""
    kind = str(feature["pythonClassName"]).rpartition(".")[2]
    match kind, feature:
        case "Image", {"image": dict(image)}:
            sides = _dimensions(image)
            height, width = (*sides, -1, -1)[:2] if len(sides) == 3 else (-1, -1)
            return FeatureRule(bytes, size=(height, width), channels=_channels(image, sides))
        case "ClassLabel", {"classLabel": dict(label)}:
            return FeatureRule(int, classes=_whole(label["numClasses"]))
        case "Text", _:
            return FeatureRule(bytes)
        case (("Tensor" | "Scalar"), {"tensor": dict(tensor)}):
            return _tensor(tensor)
        case "Sequence", {"sequence": {"feature": dict(inner)}}:
            rule = _rule(inner)
            is_simple = rule is not None and rule.length == 1 and not rule.is_image
            return rule._replace(length=None) if rule and is_simple else None
    return None


def _channels(image: dict[str, object], sides: tuple[int, ...]) -> int:
    """Return the channels that TFDS has an image decoded to; 0 for as many as it has."""
    channels = sides[2] if len(sides) == 3 else _DEFAULT_CHANNELS if not sides else 0
    dtype = str(image.get("dtype") or "uint8")
    if dtype not in _IMAGE_DTYPES or (dtype == "float32" and channels != 1):
        raise ValueError
    # TFDS stores the four bytes of a float as the four channels of a PNG.
    return 4 if dtype == "float32" else max(channels, 0)


def _tensor(tensor: dict[str, object]) -> FeatureRule:
    dtype, sides = str(tensor["dtype"]), _dimensions(tensor)
    count = math.prod(sides) if -1 not in sides else None
    if str(tensor.get("encoding", "none")) not in ("none", "") or dtype == "string":
        return FeatureRule(bytes, count if dtype == "string" else 1)
    return FeatureRule(float if "float" in dtype else int, count)


def _dimensions(value: dict[str, object]) -> tuple[int, ...]:
    shape = value.get("shape", {})
    found = shape["dimensions"] if isinstance(shape, dict) and shape else []
    if not isinstance(found, list):
        raise TypeError
    return tuple(map(_whole, found))


def _whole(value: object) -> int:
    if not isinstance(value, int | str) or isinstance(value, bool):
        raise TypeError
    number = int(value)
    if not -1 <= number < 1 << 31:
        raise ValueError
    return number


def read_class_names(folder: Path, feature: str, say: Say) -> tuple[str, ...] | None:
    """Return the names of a feature's classes, None if they are not there; say what is wrong.

    TFDS takes the lines of a file, strips each, drops the empty ones, and looks no further.
    """
    filename = f"{feature}.labels.txt"
    try:
        data, _ = read_whole(str(folder / filename), _MOST_BYTES)
    except FileNotFoundError:
        return None
    except OSError as error:
        say(why(error))
        return ()
    if data is None or data.count(b"\n") > MOST_CLASSES:
        say(f"it has more than {_MOST_BYTES:,} bytes or {MOST_CLASSES:,} classes")
        return ()
    try:
        text = data.decode()
    except UnicodeDecodeError:
        say("it is not UTF-8 text")
        return ()
    names = tuple(text.removesuffix("\n").split("\n"))
    for fault in _name_faults(names):
        say(fault)
    return names


def _name_faults(names: tuple[str, ...]) -> Iterator[str]:
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if not name.strip():
            yield f"line {number} is blank, which moves all labels behind it"
        elif name != name.strip() or len(name.splitlines()) > 1:
            yield f"line {number} is {name!r}, which TFDS changes"
        elif seen.setdefault(name, number) != number:
            yield f"line {number} repeats line {seen[name]}: {name}"
