"""Preview: a contact sheet of some images of a dataset or a source."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from pathlib import Path

from imgrec.errors import UnknownName
from imgrec.inspect.contact_sheet import Captioned, Layout, draw_contact_sheet
from imgrec.inspect.job import Job
from imgrec.inspect.where import InDataset, InSource, Where
from imgrec.model import Plan
from imgrec.read.dataset import Dataset
from imgrec.unknown import among

_LINES = 2
_MAX_ACROSS = 6


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which images to show."""

    split: str = ""
    """Empty for all."""
    class_name: str = ""
    """Empty for all."""
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """The images to choose from, by column."""

    name: str
    classes: tuple[str, ...]
    names: Sequence[str]
    splits: Sequence[tuple[str, range]]
    """The rows of each split."""
    labels: Callable[[int], Sequence[int]]
    """Returns the labels of an image, by its row."""
    where: Callable[[int], Where]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preview:
    """A contact sheet, as PNG."""

    name: str
    shown: int
    """The number of images on it."""
    total: int
    """The number of images to choose from."""
    data: bytes
    path: str = ""

    def at(self, path: str) -> Preview:
        """Return the sheet as it was written there."""
        return replace(self, path=path)


def choices_of_dataset(folder: Path) -> Choices:
    """List the images of a packed dataset."""
    dataset = Dataset(folder)
    info, columns = dataset.info, dataset.columns
    starts = [0]
    for split in info.splits:
        starts.append(starts[-1] + split.examples)

    def labels(place: int) -> Sequence[int]:
        if columns.label_sets:
            return columns.label_sets[place]
        return (columns.labels[place],) if columns.labels[place] >= 0 else ()

    return Choices(
        name=info.name,
        classes=info.classes,
        names=columns.filenames,
        splits=[
            (split.name, range(start, start + split.examples))
            for split, start in zip(info.splits, starts, strict=False)
        ],
        labels=labels,
        where=lambda place: InDataset(info.path, place),
    )


def choices_of_plan(plan: Plan, name: str) -> Choices:
    """List the images of a source, as they would be packed."""
    tasks = plan.tasks
    names = list(chain.from_iterable(task.samples.filenames for task in tasks))
    blobs = list(chain.from_iterable(task.samples.blobs for task in tasks))
    sizes = list(chain.from_iterable(task.samples.sizes for task in tasks))
    labels = list(chain.from_iterable(task.samples.labels for task in tasks))
    label_sets = list(chain.from_iterable(task.samples.label_sets for task in tasks))
    splits: dict[str, range] = {}
    start = 0
    for task in tasks:
        end = start + len(task.samples.filenames)
        splits[task.split] = range(splits.get(task.split, range(start, start)).start, end)
        start = end
    return Choices(
        name=name,
        classes=plan.classes,
        names=names,
        splits=list(splits.items()),
        labels=lambda at: (
            label_sets[at] if label_sets else (labels[at],) if labels[at] >= 0 else ()
        ),
        where=lambda at: InSource(blobs[at], sizes[at], names[at]),
    )


def draw(choices: Choices, wanted: Wanted, job: Job) -> Preview:
    """Draw the wanted images; raise UnknownName if there is no such split or class."""
    found = _found(choices, wanted)
    shown = _in_turn(choices, found, wanted) if not wanted.class_name else found[: wanted.count]
    split_of = {at: name for name, places in choices.splits for at in shown if at in places}
    tiles = [(_captioned(choices, at, split_of[at]),) for at in shown]
    across = min(_MAX_ACROSS, max(1, round(len(tiles) ** 0.5 * 1.3)))
    data = draw_contact_sheet(tiles, Layout(across=across, lines=_LINES), job)
    return Preview(name=choices.name, shown=len(shown), total=len(found), data=data)


def _found(choices: Choices, wanted: Wanted) -> list[int]:
    names = [name for name, _ in choices.splits]
    if wanted.split and wanted.split not in names:
        raise UnknownName(
            f"{choices.name} has no split {wanted.split!r}", hint=among(names, wanted.split)
        )
    if wanted.class_name and wanted.class_name not in choices.classes:
        raise UnknownName(
            f"{choices.name} has no class {wanted.class_name!r}",
            hint=among(choices.classes, wanted.class_name),
        )
    parts = [places for name, places in choices.splits if wanted.split in ("", name)]
    places = list(chain.from_iterable(parts))
    if wanted.class_name:
        label = choices.classes.index(wanted.class_name)
        places = [at for at in places if label in choices.labels(at)]
    if not places:
        where = f" in {wanted.split}" if wanted.split else ""
        raise UnknownName(
            f"there are no images of {wanted.class_name or choices.name}{where}",
            hint="leave out --split or --class to see others",
        )
    return places


def _in_turn(choices: Choices, places: Sequence[int], wanted: Wanted) -> list[int]:
    """Return images of all classes in turn, the first of each before the second of any."""
    by_label: dict[int, list[int]] = {}
    for at in places:
        label = next(iter(choices.labels(at)), -1)
        kept = by_label.setdefault(label, [])
        if len(kept) < wanted.count:
            kept.append(at)
    rounds = (
        by_label[label][depth]
        for depth in range(wanted.count)
        for label in sorted(by_label)
        if depth < len(by_label[label])
    )
    return list(islice(rounds, wanted.count))


def _captioned(choices: Choices, at: int, split: str) -> Captioned:
    labels = ", ".join(choices.classes[label] for label in choices.labels(at)) or "no label"
    return Captioned(choices.where(at), (labels, f"{split} {choices.names[at]}"))
