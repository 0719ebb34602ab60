"""Classes: rename, merge and leave them out, and number them as labels."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from imgrec.errors import PlanError, SourceError
from imgrec.model import UNLABELLED, Catalog, Submission, picked
from imgrec.notes import Note, NoteKind, warnings_of
from imgrec.options import ClassOrder, PackOptions, SourceOptions
from imgrec.spelling import alike, commonest, spelling_key
from imgrec.text import closest, listed, number, printable, suggestion

_SHOWN = 20
_SEPARATORS = (",", "\t", ";")
_OLD_WORDS = re.compile("(old|from|before|original|source|class|label|category|name)([ _].*)?")
_NEW_WORDS = re.compile(
    "(new|to|after|target|mapped|merged|group|class|label|category|name)([ _].*)?"
)
"""Column names of a map; a header of other words is taken for a class."""


def natural_key(name: str) -> tuple[tuple[int, int, str], ...]:
    """Sort key by which "2" comes before "10".

    >>> sorted(["a10", "a2", "b1"], key=natural_key)
    ['a2', 'a10', 'b1']
    """
    parts = re.split("([0-9]+)", name)
    return tuple(_digits_key(part) if part.isdecimal() else (1, 0, part) for part in parts)


def _digits_key(digits: str) -> tuple[int, int, str]:
    # By length, then by text: the order of numbers, however long they are.
    significant = digits.lstrip("0")
    return 0, len(significant), f"{significant} {digits}"


def normal_name(folder: str) -> str:
    """Return the name of a class for its folder: the same characters, composed (NFC)."""
    return unicodedata.normalize("NFC", folder)


def usual_order(names: Iterable[str], order: ClassOrder) -> tuple[str, ...]:
    """Return names in the order in which they become labels if nothing else decides."""
    by_code_point = sorted(set(names))  # as most tools sort folders
    if order is ClassOrder.LEXICAL:
        return tuple(by_code_point)
    return tuple(sorted(by_code_point, key=natural_key))


def name_fault(name: str) -> str:
    """Return why TFDS would change this name, or "".

    TFDS keeps names as the lines of a file, strips each, and drops empty ones.
    """
    if not name.strip():
        return "is blank"
    if name != name.strip():
        return "begins or ends with a blank"
    if len(name.splitlines()) > 1:
        return "contains a line break"
    return "" if printable(name) == name else "is not valid UTF-8"


def _faults(names: Iterable[str]) -> str:
    """Return the first names that cannot become labels, with the reasons."""
    faults = [f"{name!r} {fault}" for name in names if (fault := name_fault(name))]
    return "; ".join(faults[:_SHOWN])


# Labels.


def rarest(
    label_sets: Sequence[tuple[int, ...]], counts: Mapping[int, int] | None = None
) -> list[int]:
    """Return the rarest label of each image, by which it is put into a split.

    So rare labels, which a split could miss, are spread best. `counts` are the images of each
    label, if there are more than these.
    """
    if counts is None:
        counts = Counter(label for labels in label_sets for label in labels)
    return [
        min(labels, key=lambda label: (counts[label], label)) if labels else UNLABELLED
        for labels in label_sets
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundClasses:
    """The classes of a source, by the names that it uses."""

    folders: Mapping[str, tuple[str, ...]]
    """The folders of each class, by its name on disk."""
    images: Mapping[str, int]
    """How many images each has; 0 if it is missing."""
    order: tuple[str, ...] | None = None
    """Names in the order of their labels, where the source itself fixes it."""
    earlier: tuple[str, ...] = ()
    """Classes of the dataset of `--split-from`, in the order of their labels."""


class Numbering(NamedTuple):
    """The labels of classes."""

    classes: tuple[str, ...]
    """Class names in the order of their labels."""
    label_of: dict[str, int]
    """The label of each class, by the source's own name; "" is unlabelled."""


def number_classes(found: FoundClasses, options: PackOptions) -> Numbering:
    """Decide the label of each class.

    Classes of an earlier dataset keep their labels, even without images, and others follow. With
    `--classes`, the file is the order. A class that it does not list follows with
    `--classes-append`, and is a PlanError without. Names that TFDS would change, or that differ
    only in spelling, are a SourceError unless an option says what they mean.
    """
    faults = [
        f"{folder!r} {fault}"
        for name, folders in found.folders.items()
        if (fault := name_fault(name))
        for folder in folders or (name,)
    ]
    if faults:
        raise SourceError(
            f"classes that cannot become labels: {'; '.join(faults)}", hint="rename them"
        )
    earlier = tuple(map(normal_name, found.earlier))
    fixed = earlier
    if options.classes is not None:
        fixed = _listed_classes(options.classes)
        _refuse_renumbering(fixed, earlier, options.split_from)
    names = _class_names(found, fixed, options.source)
    classes = fixed
    if options.classes is None or options.classes_append:
        own = tuple(dict.fromkeys(names.get(name, normal_name(name)) for name in found.order or ()))
        usual = own or usual_order(names.values(), options.class_order)
        classes = tuple(dict.fromkeys((*fixed, *usual)))
    _refuse_variants(found, names, classes, options.source)
    if missing := sorted(set(names.values()) - set(classes), key=natural_key):
        raise PlanError(
            f"classes that the classes file does not list: {', '.join(missing)}",
            hint="add them to the file, pass --classes-append, or take them out of the source",
        )
    numbers = {name: label for label, name in enumerate(classes)}
    labels = {folder: numbers[name] for folder, name in names.items()}
    return Numbering(classes, labels | {"": UNLABELLED})


def _listed_classes(classes: Sequence[str]) -> tuple[str, ...]:
    """Return the names of `--classes`; raise PlanError if TFDS changes one, or one is repeated."""
    names = tuple(map(normal_name, classes))
    if faults := _faults(names):
        raise PlanError(
            f"--classes cannot be used: {faults}",
            hint="write each class on one line, with no blanks around it",
        )
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        raise PlanError(
            f"--classes lists a class twice: {', '.join(twice)}", hint="list each class once"
        )
    return names


def _refuse_renumbering(classes: Sequence[str], earlier: Sequence[str], dataset: str) -> None:
    """Raise PlanError if `--classes` gives a class of an earlier dataset another label."""
    for label, name in enumerate(earlier):
        other = classes[label] if label < len(classes) else ""
        if name != other:
            found = f"{other} as class {label}" if other else f"no class {label}"
            raise PlanError(
                f"--classes has {found}, which is {name} in {dataset}",
                hint=f"begin the file with the classes of {dataset}, or leave out --classes",
            )


def _class_names(
    found: FoundClasses, fixed: Sequence[str], options: SourceOptions
) -> dict[str, str]:
    """Return the class that each name of the source means; `fixed` names keep their spelling."""
    names = {name: normal_name(name) for name in found.folders}
    if not options.fold_case:
        return names
    spelled = commonest({name: found.images.get(name, 0) for name in sorted(found.folders)})
    by_key = {spelling_key(name): name for name in reversed(fixed)}
    are_fixed = set(fixed)
    return {
        name: own
        if own in are_fixed
        else by_key.get(spelling_key(name), normal_name(spelled[name]))
        for name, own in names.items()
    }


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
    shown = "; ".join(_with_counts(group, found.images) for group in groups[:_SHOWN])
    more = f"; and {len(groups) - _SHOWN} more" if len(groups) > _SHOWN else ""
    hint = "pass --fold-case if they are one class, or --keep-case if they are not"
    if options.keep_case:
        hint = "pass --fold-case to merge them, or rename one: names have composed accents"
    elif options.fold_case:
        hint = "pass --keep-case instead of --fold-case: these are different classes already"
    raise SourceError(f"classes that differ only in spelling: {shown}{more}", hint=hint)


def _with_counts(spellings: Sequence[str], images: Mapping[str, int]) -> str:
    # In ASCII where two of them would look the same.
    looks_same = len(set(map(normal_name, spellings))) < len(spellings)
    show = ascii if looks_same else repr
    return " and ".join(
        f"{show(name)} ({number(images.get(name, 0), 'image')})" for name in spellings
    )


# Changes: --map, --only-classes, --drop-classes, --min-per-class.


def change_classes(catalog: Catalog, options: SourceOptions) -> Catalog:
    """Apply `--map`, then `--only-classes` and `--drop-classes`, which take the new names.

    Images that lose all of their labels are left out; images that never had one stay. Raises
    PlanError if a name is not a class of the source, or if no class is left.
    """
    key = spelling_key if options.fold_case else normal_name
    renamed, unknown = _mapped(_classes_of(catalog), options.map, key)
    left = {key(new) for new in renamed.values() if new}
    only, drop = set(map(key, options.only_classes)), set(map(key, options.drop_classes))
    unknown += [(name, "--only-classes") for name in options.only_classes if key(name) not in left]
    unknown += [(name, "--drop-classes") for name in options.drop_classes if key(name) not in left]
    if unknown:
        _refuse_unknown(unknown, renamed)
    dropped = {}
    for name, new in renamed.items():
        if not new:
            dropped[name] = "its class is dropped by --map"
        elif only and key(new) not in only:
            dropped[name] = "its class is not in --only-classes"
        elif key(new) in drop:
            dropped[name] = "its class is in --drop-classes"
    renames = {name: new for name, new in renamed.items() if new != name and name not in dropped}
    changed = _apply(catalog, _Changes(renames, dropped))
    if not renames:
        return changed
    images = catalog.samples.count_classes()
    total = sum(images[name] for name in renames)
    return changed.warn(
        f"--map renames or merges {number(len(renames), 'class', 'classes')} of "
        f"{number(total, 'image')}"
    )


def without_rare(catalog: Catalog, least: int) -> Catalog:
    """Leave out the classes of fewer than `least` images."""
    images = catalog.samples.count_classes()
    rare = [name for name in _classes_of(catalog) if images[name] < least]
    reason = f"its class has fewer images than --min-per-class {least}"
    return _apply(catalog, _Changes({}, dict.fromkeys(rare, reason)))


def _classes_of(catalog: Catalog) -> list[str]:
    found = {*catalog.class_folders, *(catalog.class_order or ()), *catalog.samples.classes()}
    return sorted(found - {""}, key=natural_key)


def _mapped(
    classes: Sequence[str], rows: Sequence[tuple[str, str]], key: Callable[[str], str]
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the new name of each class, and the names in the map that are not classes."""
    known = set(map(key, classes))
    if rows and key(rows[0][0]) not in known:
        old, new = (cell.strip().casefold() for cell in rows[0])
        if _OLD_WORDS.fullmatch(old) and _NEW_WORDS.fullmatch(new):
            rows = rows[1:]  # a header
    new_names: dict[str, str] = {}
    for old, new in rows:
        if new_names.setdefault(key(old), new) != new:
            raise PlanError(
                f"--map has two new names for {old}: {new_names[key(old)]!r} and {new!r}",
                hint="list each class once",
            )
    if faults := _faults(filter(None, new_names.values())):
        raise PlanError(
            f"--map has names that cannot become labels: {faults}",
            hint="write each on one line, with no blanks around it",
        )
    unknown = [(old, "--map") for old, _ in rows if key(old) not in known]
    return {name: normal_name(new_names.get(key(name), name)) for name in classes}, unknown


def _refuse_unknown(unknown: Sequence[tuple[str, str]], renamed: Mapping[str, str]) -> None:
    """Raise PlanError, given unknown names with their option, and the new names of all classes."""
    left = sorted({new for new in renamed.values() if new}, key=natural_key)
    shown = []
    for name, option in unknown:
        meant = closest(list(renamed) if option == "--map" else left, name)
        note = f" (did you mean {meant}?)" if meant else ""
        if name in renamed and option != "--map":
            note = f" (which --map {f'calls {renamed[name]}' if renamed[name] else 'drops'})"
        shown.append(f"{name!r} in {option}{note}")
    raise PlanError(
        f"these names are not classes of the source: {listed(shown, _SHOWN)}",
        hint=suggestion(sorted(renamed, key=natural_key), ""),
    )


@dataclass(frozen=True, slots=True)
class _Changes:
    """The new names of some classes; others stay as they are."""

    renames: Mapping[str, str]
    dropped: Mapping[str, str]
    """Classes that are left out, and why."""

    def new_name(self, name: str) -> str:
        """Return the new name of a class; "" if it is left out."""
        return "" if name in self.dropped else self.renames.get(name, name)

    def new_names(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return what is left of some classes."""
        return tuple(dict.fromkeys(filter(None, map(self.new_name, names))))

    def reason(self, names: Iterable[str]) -> str:
        """Return why an image of these classes is left out."""
        return "; ".join(sorted({self.dropped[name] for name in names}))


def _apply(catalog: Catalog, changes: _Changes) -> Catalog:
    if not (changes.renames or changes.dropped):
        return catalog
    samples = catalog.samples
    old = samples.class_sets or [(name,) if name else () for name in samples.class_names]
    new = [changes.new_names(names) for names in old]
    gone = {at for at, names in enumerate(old) if names and not new[at]}
    if gone and len(gone) == sum(map(bool, old)):
        raise PlanError(
            f"no class is left to pack: {changes.reason(old[min(gone)])}",
            hint="leave out less; " + suggestion(_classes_of(catalog), ""),
        )
    samples = replace(
        samples,
        class_names=tuple([names[0] if names else "" for names in new]),
        class_sets=tuple(new) if samples.class_sets else (),
    )
    kept = [at for at in range(len(samples)) if at not in gone]
    bad, left_out, is_class_unknown = _split_bad(catalog, changes)
    left_out += [
        Note(samples.filenames[at], changes.reason(old[at]), NoteKind.LEFT_OUT) for at in gone
    ]
    others = [note for note in catalog.notes if note.kind is not NoteKind.BAD]
    folders: dict[str, set[str]] = defaultdict(set)
    for name, own in catalog.class_folders.items():
        folders[changes.new_name(name)].update(own)
    folders.pop("", None)
    order = catalog.class_order
    return replace(
        catalog,
        samples=samples.pick(kept),
        class_folders={name: tuple(sorted(folders[name])) for name in sorted(folders)},
        class_order=None if order is None else changes.new_names(order),
        submission=_rename_in(catalog, changes),
        notes=(
            *bad,
            *others,
            *sorted(left_out),
            *warnings_of(_lost_labels(picked(old, kept), changes)),
        ),
        # Bad files of unknown class count against all images, those left out included.
        beyond_limit=catalog.beyond_limit + (len(gone) if is_class_unknown else 0),
    )


def _rename_in(catalog: Catalog, changes: _Changes) -> Submission | None:
    """Return the form of predictions, which still writes classes as the source does."""
    if catalog.submission is None:
        return None
    old = _classes_of(catalog)
    new = changes.new_names(old)
    labels = {name: new.index(changes.new_name(name)) for name in old if changes.new_name(name)}
    return catalog.submission.named(labels, new)


def _lost_labels(old: Iterable[tuple[str, ...]], changes: _Changes) -> Iterator[str]:
    """Count the images that lost some of their labels, by reason."""
    counts: Counter[str] = Counter()
    for names in old:
        counts.update({changes.dropped[name] for name in names if name in changes.dropped})
    for reason, count in sorted(counts.items()):
        yield f"{number(count, 'image')} lost a label and kept others: {reason}"


def _split_bad(catalog: Catalog, changes: _Changes) -> tuple[list[Note], list[Note], bool]:
    """Return bad files that stay, those of dropped classes, and if the class of one is unknown."""
    classes_of: dict[str, set[str]] = defaultdict(set)
    for name, folders in catalog.class_folders.items():
        for folder in folders:
            classes_of[folder].add(name)
    bad, left_out, is_class_unknown = [], [], False
    for file in catalog.bad:
        folder, names = file.filename, set[str]()
        while folder and not names:  # the nearest folder above the file that belongs to a class
            folder = folder.rpartition("/")[0]
            names = classes_of.get(folder, names)
        if names and names <= changes.dropped.keys():
            left_out.append(Note(file.filename, changes.reason(names), NoteKind.LEFT_OUT))
        else:
            bad.append(file)
            is_class_unknown = is_class_unknown or not names
    return bad, left_out, is_class_unknown


# Files of classes.


def parse_map(text: str, called: str = "the map") -> tuple[tuple[str, str], ...]:
    """Parse the file of `--map`; raise PlanError with every line that does not have two cells."""
    lines = text.removeprefix("\ufeff").splitlines()
    parsed = [_rows(lines, separator) for separator in _SEPARATORS]
    rows = next((rows for rows in parsed if rows and not _odd_lines(rows)), parsed[0])
    if odd := _odd_lines(rows):
        raise PlanError(
            f"{called} cannot be used: not two cells in line {listed(odd, _SHOWN)}",
            hint="write old,new in each line, and old, with nothing behind it to drop a class",
        )
    if not rows:
        raise PlanError(f"{called} is empty", hint="write old,new in each line")
    return tuple((cells[0].strip(), cells[1].strip()) for _, cells in rows)


def _rows(lines: Sequence[str], separator: str) -> list[tuple[int, list[str]]]:
    """Return the cells of each line that is not blank, with its number."""
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    return [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]


def _odd_lines(rows: Iterable[tuple[int, Sequence[str]]]) -> list[str]:
    return [str(line) for line, cells in rows if len(cells) != 2 or not cells[0].strip()]


def parse_classes(text: str, called: str = "the classes file") -> tuple[str, ...]:
    """Parse a classes file, one name per line; raise PlanError with every bad line."""
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
            hint="write one class name per line, each once, with no blanks around it",
        )
    return tuple(map(normal_name, lines))
