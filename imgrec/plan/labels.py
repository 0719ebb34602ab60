"""Class names to integer labels."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence

from imgrec.errors import PlanError, SourceError
from imgrec.model import UNLABELLED
from imgrec.options import ClassOrder
from imgrec.text import printable


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key by which "2" comes before "10".

    >>> sorted(["a10", "a2", "b1"], key=natural_key)
    ['a2', 'a10', 'b1']
    """
    parts = re.split("([0-9]+)", name)
    return tuple(_digits_key(part) if part.isdecimal() else (1, 0, part) for part in parts)


def _digits_key(digits: str) -> tuple[int, int, str]:
    # By length, then by text: as numbers are ordered, however long they are.
    significant = digits.lstrip("0")
    return 0, len(significant), f"{significant} {digits}"


def lexical_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key by the code points of the name, as most tools sort folders."""
    return ((1, 0, name),)


_ORDERS = {ClassOrder.NATURAL: natural_key, ClassOrder.LEXICAL: lexical_key}


def rarest(label_sets: Sequence[tuple[int, ...]]) -> list[int]:
    """Return for each image the rarest of its labels, by which it is put into a split.

    So the rare labels, of which a split could end up with none, are spread best.
    """
    counts = Counter(label for labels in label_sets for label in labels)
    return [
        min(labels, key=lambda label: (counts[label], label)) if labels else UNLABELLED
        for labels in label_sets
    ]


def normal_name(folder: str) -> str:
    """Return a class's name for its folder: the same characters, composed (NFC)."""
    return unicodedata.normalize("NFC", folder)


def label_names(
    class_folders: Mapping[str, tuple[str, ...]],
    order: ClassOrder,
    classes: Sequence[str] | None,
) -> tuple[str, ...]:
    """Return the class names in the order of their labels.

    `class_folders` maps each name on disk to its folders. With `classes`, that is the order, and
    a folder it does not name is a PlanError. Names that TFDS would change are a SourceError.
    """
    _refuse_unusable(class_folders)
    names = {normal_name(folder) for folder in class_folders}
    if classes is None:
        return tuple(sorted(sorted(names), key=_ORDERS[order]))
    _refuse_unlisted(names, classes)
    return tuple(map(normal_name, classes))


def _refuse_unusable(class_folders: Mapping[str, tuple[str, ...]]) -> None:
    faults = [
        f"{folder!r} {fault}"
        for name, folders in class_folders.items()
        if (fault := name_fault(name))
        for folder in folders
    ]
    alike: dict[str, list[str]] = defaultdict(list)
    for name in class_folders:
        alike[normal_name(name).casefold()].append(name)
    for names in alike.values():
        if len(names) > 1:
            # In ASCII, so that two names that look the same can be told apart.
            folders = sorted(folder for name in names for folder in class_folders[name])
            listed = " and ".join(map(ascii, folders))
            faults.append(f"{listed} differ only by case or by how accents are encoded")
    if faults:
        raise SourceError(
            "classes that cannot become labels: " + "; ".join(faults),
            hint="rename or merge them",
        )


def name_fault(name: str) -> str:
    """Return why TFDS would not give this name back as it is, or "".

    TFDS keeps names as the lines of a file, strips each, and drops the empty ones.
    """
    if not name.strip():
        return "is blank"
    if name != name.strip():
        return "begins or ends with a blank"
    if len(name.splitlines()) > 1:
        return "contains a line break"
    return "" if printable(name) == name else "is not valid UTF-8"


def _refuse_unlisted(names: Iterable[str], classes: Sequence[str]) -> None:
    listed = set(map(normal_name, classes))
    if missing := sorted(set(names) - listed, key=natural_key):
        raise PlanError(
            f"classes that the classes file does not name: {', '.join(missing)}",
            hint="add them to the file of --classes, or take them out of the source",
        )


def parse_classes(text: str, called: str = "the classes file") -> tuple[str, ...]:
    """Parse a classes file, one name a line; raise PlanError naming every bad line."""
    lines = text.removeprefix("\ufeff").splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    faults = []
    seen: dict[str, int] = {}
    for number, line in enumerate(lines, 1):
        key = normal_name(line).casefold()
        if fault := name_fault(line):
            faults.append(f"line {number} {fault}")
        elif key in seen:
            faults.append(f"line {number} repeats line {seen[key]} ({line})")
        seen.setdefault(key, number)
    if not lines:
        faults.append("it is empty")
    if faults:
        raise PlanError(
            f"{called} cannot be used: {'; '.join(faults)}",
            hint="write one class name a line, each once, with no blanks around it",
        )
    return tuple(map(normal_name, lines))
