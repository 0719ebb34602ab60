"""Class names to integer labels."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from imgrec.errors import PlanError, SourceError
from imgrec.model import UNLABELLED
from imgrec.options import ClassOrder, PackOptions, SourceOptions
from imgrec.spelling import alike, commonest, spelling_key
from imgrec.text import number, printable

_SHOWN = 10


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


_SHOWN = 20
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


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClasses:
    """The classes of a source, by the names that it has for them."""

    folders: Mapping[str, tuple[str, ...]]
    """Where each is; the names are those on disk."""
    images: Mapping[str, int]
    """How many images each has; one that is not in here has none."""
    order: tuple[str, ...] | None = None
    """Names in the order of their labels, where the source itself fixes it."""
    earlier: tuple[str, ...] = ()
    """Classes of the dataset that `--split-from` names, in the order of their labels."""


class Numbering(NamedTuple):
    """The labels of classes."""

    classes: tuple[str, ...]
    """Class names in the order of their labels."""
    label_of: dict[str, int]
    """The label of each class, by the name that the source has for it; "" has none."""


def number_classes(found: FoundClasses, options: PackOptions) -> Numbering:
    """Decide the label of each class.

    Classes of an earlier dataset keep their labels, be there images of them or not, and others
    follow. With `--classes`, the file is the order; a class that it does not name follows with
    `--classes-append`, and is a PlanError without. Names that TFDS would change, or that differ
    only in spelling, are a SourceError unless an option says what they mean.
    """
    _refuse_unusable(found.folders)
    earlier = tuple(map(normal_name, found.earlier))
    listed = None if options.classes is None else _listed(options.classes)
    if listed is not None:
        _refuse_renumbering(listed, earlier, options.split_from)
    fixed = earlier if listed is None else listed
    names = _names(found, fixed, options.source)
    classes = fixed
    if listed is None or options.classes_append:
        own = tuple(dict.fromkeys(names.get(name, normal_name(name)) for name in found.order or ()))
        usual = own or usual_order(names.values(), options.class_order)
        classes = tuple(dict.fromkeys((*fixed, *usual)))
    _refuse_variants(found, names, classes, options.source)
    _refuse_unlisted(names.values(), classes)
    numbers = {name: label for label, name in enumerate(classes)}
    labels = {folder: numbers[name] for folder, name in names.items()}
    return Numbering(classes, labels | {"": UNLABELLED})


def usual_order(names: Iterable[str], order: ClassOrder) -> tuple[str, ...]:
    """Return names in the order in which they become labels if nothing else says it."""
    return tuple(sorted(sorted(set(names)), key=_ORDERS[order]))


def _listed(classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of `--classes`; raise PlanError if one comes twice, or TFDS changes it."""
    listed = tuple(map(normal_name, classes))
    if faults := [f"{name!r} {fault}" for name in listed if (fault := name_fault(name))]:
        raise PlanError(
            f"--classes cannot be used: {'; '.join(faults[:_SHOWN])}",
            hint="name each class in one line, with no blanks around it",
        )
    if twice := [name for name, count in Counter(listed).items() if count > 1]:
        raise PlanError(
            f"--classes names a class twice: {', '.join(twice)}", hint="name each class once"
        )
    return listed


def _names(found: FoundClasses, known: Sequence[str], options: SourceOptions) -> dict[str, str]:
    """Return the class that each name of the source means; `known` names are already fixed."""
    names = {name: normal_name(name) for name in found.folders}
    if not options.fold_case:
        return names
    spelled = commonest({name: found.images.get(name, 0) for name in sorted(found.folders)})
    fixed = {spelling_key(name): name for name in reversed(known)}
    as_known = set(known)
    return {
        name: own if own in as_known else fixed.get(spelling_key(name), normal_name(spelled[name]))
        for name, own in names.items()
    }


def _refuse_renumbering(listed: Sequence[str], earlier: Sequence[str], dataset: str) -> None:
    """Raise PlanError if `--classes` gives a class of an earlier dataset another label."""
    for label, name in enumerate(earlier):
        if name != (other := listed[label] if label < len(listed) else ""):
            said = f"{other} as class {label}" if other else f"no class {label}"
            raise PlanError(
                f"--classes has {said}, which is {name} in {dataset}",
                hint=f"begin the file with the classes of {dataset}, or leave out --classes",
            )


def _refuse_variants(
    found: FoundClasses, names: Mapping[str, str], classes: Sequence[str], options: SourceOptions
) -> None:
    """Raise SourceError for classes that differ only in spelling, unless all are to be kept.

    Two names that differ only in how their accents are encoded cannot be kept apart.
    """
    spellings = {*names.values(), *classes}
    if not options.fold_case:
        spellings = {*names, *(spellings - set(names.values()))}
    groups = alike(sorted(spellings), normal_name if options.keep_case else spelling_key)
    if not groups:
        return
    shown = "; ".join(_counted(group, found.images) for group in groups[:_SHOWN])
    more = f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    hint = "pass --fold-case if they are one class, or --keep-case if they are not"
    if options.keep_case:
        hint = "pass --fold-case to merge them, or rename one: names have composed accents"
    elif options.fold_case:
        hint = "pass --keep-case instead of --fold-case: these are different classes already"
    raise SourceError(f"classes that differ only in spelling: {shown}{more}", hint=hint)


def _counted(spellings: Sequence[str], images: Mapping[str, int]) -> str:
    """Return spellings of a name, with how many images each has."""
    # In ASCII where two of them would look the same.
    looks_same = len(set(map(normal_name, spellings))) < len(spellings)
    show = ascii if looks_same else repr
    return " and ".join(
        f"{show(name)} ({number(images.get(name, 0), 'image')})" for name in spellings
    )


def _refuse_unusable(class_folders: Mapping[str, tuple[str, ...]]) -> None:
    faults = [
        f"{folder!r} {fault}"
        for name, folders in class_folders.items()
        if (fault := name_fault(name))
        for folder in folders or (name,)
    ]
    if faults:
        raise SourceError(
            "classes that cannot become labels: " + "; ".join(faults), hint="rename them"
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
            hint="add them to the file, pass --classes-append, or take them out of the source",
        )


def parse_classes(text: str, called: str = "the classes file") -> tuple[str, ...]:
    """Parse a classes file, one name a line; raise PlanError naming every bad line."""
    lines = text.removeprefix("\ufeff").splitlines()
    while lines and not lines[-1].strip():
        lines.pop()
    faults = []
    seen: dict[str, int] = {}
    for at, line in enumerate(lines, 1):
        key = normal_name(line)
        if fault := name_fault(line):
            faults.append(f"line {at} {fault}")
        elif key in seen:
            faults.append(f"line {at} repeats line {seen[key]} ({line})")
        seen.setdefault(key, at)
    if not lines:
        faults.append("it is empty")
    if faults:
        more = f"; and {len(faults) - _SHOWN} more" if len(faults) > _SHOWN else ""
        raise PlanError(
            f"{called} cannot be used: {'; '.join(faults[:_SHOWN])}{more}",
            hint="write one class name a line, each once, with no blanks around it",
        )
    return tuple(map(normal_name, lines))
