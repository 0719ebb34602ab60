"""Classes: rename, merge, leave out, and number them as labels."""

from __future__ import annotations

import csv
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from imgrec.errors import PlanError, SourceError
from imgrec.model import UNLABELLED, Catalog, Samples, Submission, picked
from imgrec.notes import Note, NoteKind, warnings_of
from imgrec.options import ClassOrder, PackOptions, SourceOptions
from imgrec.spelling import alike, commonest, spelling_key
from imgrec.text import closest, number, printable, suggestion

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


_SHOWN = 20
_SEPARATORS = (",", "\t", ";")
_OLD_WORDS = re.compile("(old|from|before|original|source|class|label|category|name)([ _].*)?")
_NEW_WORDS = re.compile(
    "(new|to|after|target|mapped|merged|group|class|label|category|name)([ _].*)?"
)
"""What the columns of a map may be called; a header of other words is taken for a class."""


def change_classes(catalog: Catalog, options: SourceOptions) -> Catalog:
    """Apply `--map`, then `--only-classes` and `--drop-classes`, which take the new names.

    Images that lose all of their labels are left out; images that never had one stay. Raises
    PlanError if a name is no class of the source, or if no class is left.
    """
    classes = _classes_of(catalog)
    same = _Spelling(spelling_key if options.fold_case else normal_name)
    renamed, unknown = _mapped(classes, options.map, same)
    left = [name for name in dict.fromkeys(renamed.values()) if name]
    chosen = {"--only-classes": options.only_classes, "--drop-classes": options.drop_classes}
    for option, names in chosen.items():
        known = same.suggestion(left)
        unknown += [(name, option) for name in names if same.key(name) not in known]
    if unknown:
        _refuse_unknown(unknown, renamed)
    why = {name: "its class is dropped by --map" for name, new in renamed.items() if not new}
    only, drop = (frozenset(map(same.key, names)) for names in chosen.values())
    for name, new in renamed.items():
        if new and only and same.key(new) not in only:
            why[name] = "its class is not in --only-classes"
        elif new and same.key(new) in drop:
            why[name] = "its class is in --drop-classes"
    renames = {name: new for name, new in renamed.items() if new != name and name not in why}
    changed = _changed(catalog, Changes(renames, why))
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
    return _changed(catalog, Changes({}, dict.fromkeys(rare, reason)))


@dataclass(frozen=True, slots=True)
class Changes:
    """What becomes of the classes of a catalog; others stay as they are."""

    renames: Mapping[str, str]
    dropped: Mapping[str, str]
    """Those that are left out, and why."""

    def of(self, name: str) -> str:
        """Return what a class is called now; "" for one that is left out."""
        return "" if name in self.dropped else self.renames.get(name, name)

    def of_all(self, names: Iterable[str]) -> tuple[str, ...]:
        """Return what is left of some classes."""
        return tuple(dict.fromkeys(filter(None, map(self.of, names))))

    def why(self, names: Iterable[str]) -> str:
        """Return why an image of some classes is left out."""
        return "; ".join(sorted({self.dropped[name] for name in names}))


def _classes_of(catalog: Catalog) -> list[str]:
    found = {*catalog.class_folders, *(catalog.class_order or ()), *catalog.samples.classes()}
    return sorted(found - {""}, key=natural_key)


class _Spelling:
    """Which names mean the same class."""

    def __init__(self, key: Callable[[str], str]) -> None:
        self.key = key

    def suggestion(self, names: Iterable[str]) -> frozenset[str]:
        return frozenset(map(self.key, names))


def _mapped(
    classes: Sequence[str], pairs: Sequence[tuple[str, str]], same: _Spelling
) -> tuple[dict[str, str], list[tuple[str, str]]]:
    """Return the new name of each class, and the names that are no class with their option."""
    known = same.suggestion(classes)
    rows = pairs
    if rows and same.key(rows[0][0]) not in known and _is_header(*rows[0]):
        rows = rows[1:]
    new_names: dict[str, str] = {}
    for old, new in rows:
        if new_names.setdefault(same.key(old), new) != new:
            raise PlanError(
                f"--map has two new names for {old}: {new_names[same.key(old)]!r} and {new!r}",
                hint="name each class once",
            )
    if faults := [f"{new!r} {fault}" for new in new_names.values() if (fault := _fault(new))]:
        raise PlanError(
            f"--map has names that cannot become labels: {'; '.join(faults[:_SHOWN])}",
            hint="write each in one line, with no blanks around it",
        )
    unknown = [(old, "--map") for old, _ in rows if same.key(old) not in known]
    return {name: normal_name(new_names.get(same.key(name), name)) for name in classes}, unknown


def _fault(name: str) -> str:
    return name_fault(name) if name else ""


def _is_header(old: str, new: str) -> bool:
    pairs = ((_OLD_WORDS, old), (_NEW_WORDS, new))
    return all(words.fullmatch(cell.strip().casefold()) for words, cell in pairs)


def _refuse_unknown(unknown: Sequence[tuple[str, str]], renamed: Mapping[str, str]) -> None:
    """Raise PlanError, given names with their option, and the new names of all classes."""
    left = sorted({new for new in renamed.values() if new}, key=natural_key)
    shown = []
    for name, option in unknown[:_SHOWN]:
        meant = closest(list(renamed) if option == "--map" else left, name)
        note = f" (did you mean {meant}?)" if meant else ""
        if name in renamed and option != "--map":
            note = f" (which --map {f'calls {renamed[name]}' if renamed[name] else 'drops'})"
        shown.append(f"{name!r} in {option}{note}")
    more = f" and {len(unknown) - _SHOWN} more" if len(unknown) > _SHOWN else ""
    raise PlanError(
        f"these names are not classes of the source: {', '.join(shown)}{more}",
        hint=suggestion(sorted(renamed, key=natural_key), ""),
    )


def _changed(catalog: Catalog, changes: Changes) -> Catalog:
    if not (changes.renames or changes.dropped):
        return catalog
    samples = catalog.samples
    old = samples.class_sets or [(name,) if name else () for name in samples.class_names]
    new = [changes.of_all(names) for names in old]
    gone = [at for at, names in enumerate(old) if names and not new[at]]
    if len(gone) == sum(map(bool, old)) and gone:
        raise PlanError(
            f"no class is left to pack: {changes.why(old[gone[0]])}",
            hint="leave out less; " + suggestion(sorted(_classes_of(catalog), key=natural_key), ""),
        )
    stay, left_out, unknown = _bad_of(catalog, changes)
    left_out += [
        Note(samples.filenames[at], changes.why(old[at]), NoteKind.LEFT_OUT) for at in gone
    ]
    others = [note for note in catalog.notes if note.kind is not NoteKind.BAD]
    left = set(gone)
    kept = [at for at in range(len(samples)) if at not in left]
    folders: dict[str, set[str]] = defaultdict(set)
    for name, where in catalog.class_folders.items():
        folders[changes.of(name)].update(where)
    folders.pop("", None)
    order = catalog.class_order
    return replace(
        catalog,
        samples=_relabelled(samples, new).pick(kept),
        class_folders={name: tuple(sorted(folders[name])) for name in sorted(folders)},
        class_order=None if order is None else changes.of_all(order),
        submission=_renamed_in(catalog, changes),
        notes=(
            *stay,
            *others,
            *sorted(left_out),
            *warnings_of(_trimmed(picked(old, kept), changes)),
        ),
        # Bad files of unknown class count against all images, those left out included.
        beyond_limit=catalog.beyond_limit + (len(gone) if unknown else 0),
    )


def _renamed_in(catalog: Catalog, changes: Changes) -> Submission | None:
    """Return the form of predictions, which still writes classes as the source does."""
    if catalog.submission is None:
        return None
    old = _classes_of(catalog)
    new = changes.of_all(old)
    return catalog.submission.named(
        {name: new.index(changes.of(name)) for name in old if changes.of(name)}, new
    )


def _relabelled(samples: Samples, new: Sequence[tuple[str, ...]]) -> Samples:
    names = tuple([labels[0] if labels else "" for labels in new])
    return replace(samples, class_names=names, class_sets=tuple(new) if samples.class_sets else ())


def _trimmed(old: Sequence[tuple[str, ...]], changes: Changes) -> list[str]:
    """Tell how many images lost some of their labels, and keep others."""
    counts: dict[str, int] = defaultdict(int)
    for names in old:
        for reason in {changes.dropped[name] for name in names if name in changes.dropped}:
            counts[reason] += 1
    return [
        f"{number(count, 'image')} lost a label and kept others: {reason}"
        for reason, count in sorted(counts.items())
    ]


def _bad_of(catalog: Catalog, changes: Changes) -> tuple[list[Note], list[Note], bool]:
    """Return the bad files that stay bad, those of classes left out, and if a class is unknown."""
    class_of: dict[str, set[str]] = defaultdict(set)
    for name, where in catalog.class_folders.items():
        for folder in where:
            class_of[folder].add(name)
    stay, left, unknown = [], [], False
    for file in catalog.bad:
        names = _class_at(file.filename, class_of)
        if names and names <= changes.dropped.keys():
            left.append(Note(file.filename, changes.why(names), NoteKind.LEFT_OUT))
        else:
            stay.append(file)
            unknown = unknown or not names
    return stay, left, unknown


def _class_at(filename: str, class_of: Mapping[str, set[str]]) -> set[str]:
    """Return the classes of the nearest folder above a file that is one of a class."""
    folder = filename
    while folder:
        folder = folder.rpartition("/")[0]
        if folder in class_of:
            return class_of[folder]
    return set()


def parse_map(text: str, called: str = "the map") -> tuple[tuple[str, str], ...]:
    """Parse the file of `--map`; raise PlanError naming every line that has not two cells."""
    lines = text.removeprefix("\ufeff").splitlines()
    parsed = [_rows(lines, separator) for separator in _SEPARATORS]
    rows = next((rows for rows in parsed if rows and not _odd(rows)), parsed[0])
    if odd := _odd(rows):
        more = f" and {len(odd) - _SHOWN} more" if len(odd) > _SHOWN else ""
        raise PlanError(
            f"{called} cannot be used: not two cells in line {', '.join(odd[:_SHOWN])}{more}",
            hint="write old,new in each line, and old, with nothing behind it to drop a class",
        )
    if not rows:
        raise PlanError(f"{called} is empty", hint="write old,new in each line")
    return tuple((cells[0].strip(), cells[1].strip()) for _, cells in rows)


def _rows(lines: Sequence[str], separator: str) -> list[tuple[int, list[str]]]:
    """Return the cells of each line that is not blank, with its number."""
    reader = csv.reader(lines, delimiter=separator, skipinitialspace=True)
    return [(reader.line_num, cells) for cells in reader if any(map(str.strip, cells))]


def _odd(rows: Iterable[tuple[int, Sequence[str]]]) -> list[str]:
    return [str(line) for line, cells in rows if len(cells) != 2 or not cells[0].strip()]
