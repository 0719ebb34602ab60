"""What the labels of IDX files mean: the names of their classes."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.options import SourceOptions
from imgrec.source.arrays.samples import TreeFile
from imgrec.source.label_names import read_label_names
from imgrec.storage.blobs import look, read_blob

_LINE = re.compile(r"\s*(?P<label>\d{1,3})\s+(?P<code>\d{1,7})(\s+\d{1,7})*\s*")
_MAX_MAPPING_BYTES = 1 << 20


class Classes(NamedTuple):
    """The names of classes by their labels in the files."""

    names: Mapping[int, str]
    where: str
    """What names them."""
    warnings: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """Return the names in the order of their labels."""
        return tuple(self.names[label] for label in sorted(self.names))


def name_classes(
    used: Collection[int], mapping: TreeFile | None, options: SourceOptions
) -> Classes:
    """Name the classes by `--label-names`, else by the set's own mapping, else by their numbers.

    A mapping whose names cannot be used is passed over, with a warning.
    """
    if options.label_names is not None:
        named = read_label_names(options.label_names, [str(label) for label in used])
        names = {int(key): name for key, name in named.names.items() if key.isdecimal()}
        return Classes(names, "--label-names", named.notes)
    numbers = Classes({label: str(label) for label in range(max(used) + 1)}, "the labels")
    if mapping is None:
        return numbers
    try:
        names = _read_mapping(mapping)
        _refuse_unusable(names, used)
        if not (options.keep_case or options.fold_case):
            _refuse_alike(names)
    except SourceError as error:
        warning = f"{mapping.path}: {error}; so the classes are called by their numbers"
        return numbers._replace(warnings=(warning,))
    return Classes(names, mapping.path, tuple(_shift(names, mapping)))


def _read_mapping(mapping: TreeFile) -> dict[int, str]:
    """Read lines of a label and the codes of its characters, of which the first names it."""
    size = look(mapping.blob, mapping.size, 1, dated=True).size
    if size > _MAX_MAPPING_BYTES:
        raise SourceError(f"{size:,} bytes, far more than a mapping has")
    lines = read_blob(mapping.blob, size).decode("ascii", "replace").splitlines()
    names: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        match = _LINE.fullmatch(line)
        if match is None and line.strip():
            raise SourceError(f"line {number} is not a label and the codes of its characters")
        if match is not None:
            if int(match["label"]) in names:
                raise SourceError(f"line {number} names label {match['label']} again")
            names[int(match["label"])] = _character(int(match["code"]))
    return names


def _character(code: int) -> str:
    return chr(code) if code <= 0x10FFFF else ""


def _refuse_unusable(names: Mapping[int, str], used: Collection[int]) -> None:
    if unnamed := sorted(label for label in used if label not in names):
        raise SourceError(f"it does not name the labels {', '.join(map(str, unnamed))}")
    if blank := sorted(label for label, name in names.items() if not _is_visible(name)):
        raise SourceError(f"labels {', '.join(map(str, blank))} have no printable name")


def _refuse_alike(names: Mapping[int, str]) -> None:
    counts = Counter(name.casefold() for name in names.values())
    if alike := [name for name in names.values() if counts[name.casefold()] > 1]:
        raise SourceError(f"names that differ by nothing but case: {' '.join(sorted(alike))}")


def _is_visible(name: str) -> bool:
    return name.isprintable() and bool(name.strip())


def _shift(names: Mapping[int, str], mapping: TreeFile) -> Iterator[str]:
    """Say so if a class gets another number than it has in the files."""
    moved = [(new, old) for new, old in enumerate(sorted(names)) if new != old]
    if moved:
        new, old = moved[0]
        yield (
            f"{mapping.path}: labels are numbered from 0 without gaps, "
            f"so {names[old]} becomes {new} instead of {old}, and so on"
        )
