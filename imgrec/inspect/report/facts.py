"""The facts of a report page: everything is counted and chosen here, and drawn by `page`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from keyword import iskeyword
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec.tone import NOT_DECODED, TONE_BYTES
from imgrec.inspect.image_stats import Measures, measure
from imgrec.inspect.report.columns import ColumnFacts, describe_columns
from imgrec.inspect.report.findings import (
    Entry,
    Finding,
    Shot,
    Shots,
    find_changes,
    find_findings,
    find_outliers,
)
from imgrec.inspect.report.images import ImageTable
from imgrec.layout import multilabel_step
from imgrec.model import UNLABELLED
from imgrec.outcome import Report
from imgrec.text import literal, printable

if TYPE_CHECKING:
    from imgrec.inspect.diff import Difference

_MAX_SHARE, _MIN_SHARE = 3, 10
"""Findings, outliers and changes get at most a third and at least a tenth of the thumbnails.

In between, they get what is left when every class has one.
"""
_SNIPPETS = {
    "TFDS": """\
{imports}import tensorflow_datasets as tfds

{variable} = tfds.load({target}, split={split}, as_supervised=True){step}
""",
    "Keras, with imgrec": """\
import imgrec

{variable} = imgrec.load(
    {target}, {split}, image_size=(224, 224), batch_size=32{shuffle}
)
""",
    "PyTorch": """\
import imgrec
from torch.utils.data import DataLoader

data = imgrec.torch_dataset({target}, {split}, image_size=224)
{variable} = DataLoader(data, batch_size=32{shuffle}, num_workers=2)
""",
    "Records": """\
import imgrec

records = imgrec.open_dataset({target})[{split}]
records[0].pil().show()
""",
}
_COMPRESSED = frozenset({"Keras, with imgrec", "Records"})
"""The snippets that can read compressed shards."""


class SplitFacts(NamedTuple):
    """A split, and its images by label."""

    name: str
    images: int
    bytes: int
    counts: tuple[int, ...]
    unlabelled: int


class Sheet(NamedTuple):
    """Some images of a class."""

    label: int
    name: str
    """Empty for images without a label."""
    total: int
    shots: tuple[Shot, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the page shows."""

    report: Report
    """Of a source, it has no version."""
    is_multilabel: bool
    splits: tuple[SplitFacts, ...]
    measures: Measures
    findings: tuple[Finding, ...]
    outliers: tuple[Finding, ...]
    changes: tuple[Finding, ...]
    """How the images differ from those of the version before."""
    before: str
    """That version; "" if this is the first one."""
    toned: int
    """The number of images whose brightness is known."""
    columns: tuple[ColumnFacts, ...]
    sheets: tuple[Sheet, ...]
    snippets: Mapping[str, str]
    """Code to copy, by title."""

    @property
    def images(self) -> int:
        """Count all images."""
        return sum(split.images for split in self.splits)

    @property
    def unlabelled(self) -> int:
        """Count the images without a label."""
        return sum(split.unlabelled for split in self.splits)

    @property
    def totals(self) -> tuple[int, ...]:
        """Count the images of each class in all splits."""
        return tuple(map(sum, zip(*(split.counts for split in self.splits), strict=True)))


def gather(
    table: ImageTable, report: Report, thumbnails: int, difference: Difference | None = None
) -> Facts:
    """Count and choose everything that the page shows, with at most `thumbnails` pictures."""
    measures = measure(table.shapes, table.sizes, table.formats)
    shots = _shots(table, report.classes)
    findings = list(find_findings(report, table, shots))
    outliers = list(find_outliers(table, measures, shots))
    spare = max(thumbnails - len(report.classes), thumbnails // _MIN_SHARE)
    changes = list(find_changes(difference, shots)) if difference else []
    shown = _with_pictures([*findings, *outliers, *changes], min(thumbnails // _MAX_SHARE, spare))
    cut = len(findings), len(findings) + len(outliers)
    used = sum(
        shot.where is not None for found in shown for entry in found.entries for shot in entry.shots
    )
    return Facts(
        report=report,
        is_multilabel=bool(table.label_sets),
        splits=tuple(_splits(table, report)),
        measures=measures,
        findings=tuple(shown[: cut[0]]),
        outliers=tuple(shown[cut[0] : cut[1]]),
        changes=tuple(shown[cut[1] :]),
        before=difference.before.title if difference else "",
        toned=len(table.tones) // TONE_BYTES - table.tones[1::TONE_BYTES].count(NOT_DECODED),
        columns=tuple(describe_columns(table.columns)),
        sheets=tuple(_sheets(table, report.classes, thumbnails - used, shots.at)),
        snippets=snippets_for(report, _batching_step(table, report)),
    )


def snippets_for(report: Report, step: str = "") -> dict[str, str]:
    """Return the code that loads a dataset, or packs a source, wherever it is.

    `step` is what TFDS's dataset needs before it can be batched.
    """
    if not report.version:
        return {
            "Pack it": "imgrec pack SOURCE --val-split 0.1\n",
            "See what pack would do": "imgrec plan SOURCE --val-split 0.1\n",
        }
    split = report.splits[0].name if report.splits else "train"
    is_variable = split.isidentifier() and not iskeyword(split)
    words = {
        "target": literal(f"{report.name}:{report.version}"),
        "split": literal(split),
        "variable": split if is_variable else "images",
        "shuffle": ", shuffle=True" if split == "train" else "",
        "step": step,
        "imports": "import tensorflow as tf\n" if step else "",
    }
    is_compressed = bool(report.options.get("compression"))
    return {
        title: code.format(**words)
        for title, code in _SNIPPETS.items()
        if not is_compressed or title in _COMPRESSED
    }


def _batching_step(table: ImageTable, report: Report) -> str:
    if not table.label_sets:
        return ""
    is_one_size = len(set(table.shapes[::3])) == len(set(table.shapes[1::3])) == 1
    return multilabel_step(len(report.classes), is_one_size=is_one_size)


def _shots(table: ImageTable, classes: Sequence[str]) -> Shots:
    rows: dict[str, int] = {}

    def at(row: int) -> Shot:
        labels = table.labels_of(row)
        return Shot(
            name=printable(table.names[row]),
            split=table.split_of(row),
            labels=tuple(classes[label] for label in labels if label < len(classes)),
            shape=tuple(table.shapes[3 * row : 3 * row + 3]),
            format=table.formats[row],
            size=table.sizes[row],
            where=table.locate(table.names[row], row),
        )

    def named(name: str) -> Shot:
        if not rows:  # the first of several rows with the same name counts
            rows.update(zip(reversed(table.names), reversed(range(len(table))), strict=True))
        if name in rows:
            return at(rows[name])
        return Shot(name, where=table.locate(name, None))

    return Shots(named, at)


def _with_pictures(findings: Sequence[Finding], count: int) -> list[Finding]:
    """Keep at most `count` pictures: those of the first entry of each finding, then the second."""
    kept = set()
    for depth, kind in _in_turn([len(found.entries) for found in findings]):
        shots = findings[kind].entries[depth].shots
        count -= sum(shot.where is not None for shot in shots)
        if count < 0:
            break
        kept.add((depth, kind))
    return [
        found._replace(
            entries=tuple(
                entry if (depth, kind) in kept else _without_pictures(entry)
                for depth, entry in enumerate(found.entries)
            )
        )
        for kind, found in enumerate(findings)
    ]


def _in_turn(lengths: Sequence[int]) -> list[tuple[int, int]]:
    """Return (depth, list) for the first elements of some lists, then for the second, and so on."""
    return sorted((depth, at) for at, length in enumerate(lengths) for depth in range(length))


def _without_pictures(entry: Entry) -> Entry:
    return Entry(tuple(shot._replace(where=None) for shot in entry.shots), entry.reason)


def _splits(table: ImageTable, report: Report) -> Iterator[SplitFacts]:
    known = {split.name: split for split in report.splits}
    for split, rows in table.splits.items():
        if rows:
            counts = _label_counts(table, rows)
            info = known.get(split)
            yield SplitFacts(
                name=split,
                images=len(rows),
                bytes=info.num_bytes if info else sum(table.sizes[rows.start : rows.stop]),
                counts=tuple(counts[label] for label in range(len(report.classes))),
                unlabelled=counts[UNLABELLED],
            )


def _label_counts(table: ImageTable, rows: range) -> Counter[int]:
    """Count the images of each label; those without one are UNLABELLED."""
    if table.label_sets:
        sets = table.label_sets[rows.start : rows.stop]
        return Counter(chain.from_iterable(labels or (UNLABELLED,) for labels in sets))
    counts = Counter(table.labels[rows.start : rows.stop])
    for label in [label for label in counts if label < UNLABELLED]:  # in a damaged dataset
        counts[UNLABELLED] += counts.pop(label)
    return counts


def _sheets(
    table: ImageTable, classes: Sequence[str], count: int, shot_at: Callable[[int], Shot]
) -> Iterator[Sheet]:
    """Choose `count` images, the first of every class before the second of any."""
    totals = _label_counts(table, range(len(table)))
    rows = _first_rows(table, totals, -(-count // max(len(classes), 1)))
    labels = sorted(rows, key=lambda label: label if label != UNLABELLED else len(classes))
    in_turn = _in_turn([len(rows[label]) for label in labels])
    shown = Counter(labels[place] for _, place in in_turn[:count])
    for label in labels:
        yield Sheet(
            label=label,
            name=classes[label] if 0 <= label < len(classes) else "",
            total=totals[label],
            shots=tuple(map(shot_at, rows[label][: shown[label]])),
        )


def _first_rows(table: ImageTable, totals: Mapping[int, int], most: int) -> dict[int, list[int]]:
    """Return the rows of the first images of every label, up to `most` of each."""
    chosen: dict[int, list[int]] = {label: [] for label in totals}
    missing = sum(min(total, most) for total in totals.values())
    for row in range(len(table)):
        if not missing:
            break
        for label in table.labels_of(row) or (UNLABELLED,):
            if len(chosen[label]) < most:
                chosen[label].append(row)
                missing -= 1
    return chosen
