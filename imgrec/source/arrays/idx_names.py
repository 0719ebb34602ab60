"""Which IDX files belong together, told by their names."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from imgrec.codec.idx import IMAGES, LABELS
from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, VAL, split_order
from imgrec.source.arrays.samples import Faults, TreeFile

_NAME = re.compile(
    r"(?:(?P<set>.+?)[-_.])??(?:(?P<part>train|t10k|test|val)[-_.])?"
    r"(?:images[-_.]idx3|(?P<labels>labels)[-_.]idx1)[-_.]ubyte(?P<gz>\.gz)?",
    re.IGNORECASE,
)
_SPLITS = {"train": TRAIN, "t10k": TEST, "test": TEST, "val": VAL, "": ""}


class Named(NamedTuple):
    """An IDX file, by what its name says."""

    set_name: str
    """What stands before the split: `emnist-letters`, or "" for MNIST itself."""
    part: str
    """Its word for the split; "" for none."""
    dimensions: int
    is_packed: bool
    file: TreeFile


class Pair(NamedTuple):
    """The images of a split and their labels, if it has any."""

    split: str
    images: TreeFile
    labels: TreeFile | None


def named(file: TreeFile) -> Named | None:
    """Return what the name of a file says, if it is that of an IDX file."""
    match = _NAME.fullmatch(file.path.rpartition("/")[2])
    if match is None:
        return None
    return Named(
        set_name=(match["set"] or "").lower(),
        part=(match["part"] or "").lower(),
        dimensions=LABELS if match["labels"] else IMAGES,
        is_packed=bool(match["gz"]),
        file=file,
    )


def home_of(path: str) -> str:
    """Return the folder of a file; some unpackers put each into a folder of its own name.

    >>> home_of("mnist/train-images-idx3-ubyte/train-images-idx3-ubyte")
    'mnist'
    """
    folder, _, name = path.rpartition("/")
    above, _, own = folder.rpartition("/")
    return above if own.removesuffix(".gz") == name.removesuffix(".gz") else folder


class IdxSet(NamedTuple):
    """The files of one set."""

    name: str
    home: str
    """The folder they are in."""
    files: list[Named]
    copies: list[Named]
    """Files that hold the same, by their names, as one of the others."""


def only_set(homes: Mapping[str, Sequence[Named]]) -> IdxSet:
    """Return the one set there is; raise SourceError if there are more."""
    if len(homes) > 1:
        raise SourceError(
            f"there are IDX files in several folders: {', '.join(map(_shown, homes))}",
            hint="pack one of these folders",
        )
    ((home, files),) = homes.items()
    sets = sorted({file.set_name for file in files})
    if len(sets) > 1:
        raise SourceError(
            f"there are several sets of IDX files in {_shown(home)}: "
            + ", ".join(name or "one without a name" for name in sets),
            hint="keep the files of one set in the folder",
        )
    return IdxSet(sets[0], home, *_without_copies(files))


def _shown(home: str) -> str:
    return home or "the root"


def _without_copies(files: Iterable[Named]) -> tuple[list[Named], list[Named]]:
    """Return one file for each part and what it holds, the plain one if there is, and the rest."""
    alike: dict[tuple[str, int], list[Named]] = defaultdict(list)
    for file in sorted(files, key=lambda file: (file.is_packed, file.file.path)):
        alike[file.part, file.dimensions].append(file)
    kept = [same[0] for same in alike.values()]
    return kept, [copy for same in alike.values() for copy in same[1:]]


def pair_up(files: Sequence[Named]) -> list[Pair]:
    """Bring images and labels together, by split; raise SourceError for all that is missing."""
    by_part: dict[str, dict[int, TreeFile]] = defaultdict(dict)
    for file in files:
        by_part[file.part][file.dimensions] = file.file
    faults = Faults()
    _check_parts(by_part, faults)
    pairs = []
    for part, held in by_part.items():
        images, labels, split = held.get(IMAGES), held.get(LABELS), _SPLITS[part]
        if images is None:
            faults.add(f"{held[LABELS].path}: labels without their images", _BOTH)
        elif labels is None and split != TEST:
            faults.add(f"{images.path}: images without their labels", _BOTH)
        else:
            pairs.append(Pair(split, images, labels))
    if not faults.errors and not any(pair.labels for pair in pairs):
        faults.add(f"{pairs[0].images.path}: no images have labels", _BOTH)
    faults.check()
    return sorted(pairs, key=lambda pair: split_order(pair.split))


_BOTH = "put the -images-idx3-ubyte and the -labels-idx1-ubyte file of each split into one folder"


def _check_parts(by_part: Mapping[str, Mapping[int, TreeFile]], faults: Faults) -> None:
    """Note parts that cannot be told apart, or of which only some are splits."""
    first = {part: next(iter(held.values())).path for part, held in by_part.items()}
    if "t10k" in first and "test" in first:
        faults.add(
            f"{first['t10k']} and {first['test']} both mean the split test", "take one of them out"
        )
    if "" in first and len(first) > 1:
        faults.add(
            f"{first['']} names no split, but {min(first[part] for part in first if part)} does",
            "take one of them out",
        )
