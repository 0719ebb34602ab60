"""From all images and the report of their pack to the facts of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain
from keyword import iskeyword

from imgrec.codec.tone import NOT_SEEN, TONE_BYTES
from imgrec.inspect.report.facts import (
    Bin,
    Entry,
    Facts,
    Finding,
    Sheet,
    Shot,
    Snippet,
    SplitFacts,
)
from imgrec.inspect.report.findings import find_findings, find_outliers
from imgrec.inspect.report.images import ImageTable
from imgrec.inspect.report.measures import measure
from imgrec.layout import multilabel_step
from imgrec.model import UNLABELLED
from imgrec.outcome import Report
from imgrec.text import literal, printable

_MAX_SHARE, _MIN_SHARE = 3, 10
"""Findings and outliers get at most a third and at least a tenth of the thumbnails.

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


def gather(table: ImageTable, report: Report, thumbnails: int) -> Facts:
    """Count and choose everything that the page shows, with at most `thumbnails` pictures."""

    def shot_at(row: int) -> Shot:
        return _shot(table, report.classes, row)

    measures = measure(table)
    findings = _located(
        [found for found in find_findings(report, table) if found.total], table, shot_at
    )
    outliers = list(find_outliers(table, measures, shot_at))
    spare = max(thumbnails - len(report.classes), thumbnails // _MIN_SHARE)
    shown = list(_bounded([*findings, *outliers], min(thumbnails // _MAX_SHARE, spare)))
    used = sum(shot.where is not None for shot in _shots(shown))
    return Facts(
        name=report.name,
        version=report.version,
        layout=report.layout,
        fingerprint=report.fingerprint,
        options=report.options,
        classes=report.classes,
        is_multilabel=bool(table.label_sets),
        splits=tuple(_splits(table, report)),
        source_bytes=report.source_bytes,
        measures=measures,
        findings=tuple(shown[: len(findings)]),
        outliers=tuple(shown[len(findings) :]),
        toned=len(table.tones) // TONE_BYTES - table.tones[1::TONE_BYTES].count(NOT_SEEN),
        sheets=tuple(_sheets(table, report, thumbnails - used)),
        snippets=snippets_for(report, _batching_step(table, report)),
        ignored=tuple(Bin(kind.kind, kind.count) for kind in report.ignored),
        warnings=report.warnings,
    )


def snippets_for(report: Report, step: str = "") -> tuple[Snippet, ...]:
    """Return the code that loads a dataset, or packs a source, wherever it is.

    `step` is what TFDS's dataset needs before it can be batched.
    """
    if not report.version:
        return (
            Snippet("Pack it", "imgrec pack SOURCE --val-split 0.1\n"),
            Snippet("See what pack would do", "imgrec plan SOURCE --val-split 0.1\n"),
        )
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
    return tuple(
        Snippet(title, code.format(**words))
        for title, code in _SNIPPETS.items()
        if not is_compressed or title in _COMPRESSED
    )


def _batching_step(table: ImageTable, report: Report) -> str:
    if not table.label_sets:
        return ""
    is_one_size = len(set(table.shapes[::3])) == len(set(table.shapes[1::3])) == 1
    return multilabel_step(len(report.classes), is_one_size=is_one_size)


def _located(
    findings: Sequence[Finding], table: ImageTable, shot_at: Callable[[int], Shot]
) -> list[Finding]:
    """Add to shots of which only the name is known what the table knows about them."""
    rows = table.rows_of({shot.name for shot in _shots(findings)})

    def located(shot: Shot) -> Shot:
        row = rows.get(shot.name)
        return shot._replace(where=table.others(shot.name)) if row is None else shot_at(row)

    return [
        found._replace(
            entries=tuple(
                Entry(tuple(map(located, entry.shots)), entry.reason) for entry in found.entries
            )
        )
        for found in findings
    ]


def _shot(table: ImageTable, classes: Sequence[str], row: int) -> Shot:
    return Shot(
        name=printable(table.names[row]),
        split=table.split_of(row),
        labels=tuple(classes[label] for label in table.labels_of(row) if label < len(classes)),
        shape=table.shape_of(row),
        format=table.formats[row],
        size=table.sizes[row],
        where=table.where(row),
    )


def _shots(findings: Sequence[Finding]) -> Iterator[Shot]:
    return (shot for found in findings for entry in found.entries for shot in entry.shots)


def _bounded(findings: Sequence[Finding], most: int) -> Iterator[Finding]:
    """Keep at most `most` pictures: those of the first entry of each finding, then the second."""
    in_turn = sorted(
        (depth, kind) for kind, found in enumerate(findings) for depth in range(len(found.entries))
    )
    kept = set()
    for depth, kind in in_turn:
        shots = findings[kind].entries[depth].shots
        most -= sum(shot.where is not None for shot in shots)
        if most < 0:
            break
        kept.add((kind, depth))
    for kind, found in enumerate(findings):
        yield found._replace(
            entries=tuple(
                entry if (kind, depth) in kept else _without_pictures(entry)
                for depth, entry in enumerate(found.entries)
            )
        )


def _without_pictures(entry: Entry) -> Entry:
    return Entry(tuple(shot._replace(where=None) for shot in entry.shots), entry.reason)


def _splits(table: ImageTable, report: Report) -> Iterator[SplitFacts]:
    known = {split.name: split for split in report.splits}
    for split, start, stop in table.spans:
        counts = _label_counts(table, start, stop)
        info = known.get(split)
        if stop > start:
            yield SplitFacts(
                name=split,
                images=stop - start,
                shards=len(info.shard_lengths) if info else 0,
                bytes=info.num_bytes if info else sum(table.sizes[start:stop]),
                counts=tuple(counts[label] for label in range(len(report.classes))),
                unlabelled=counts[UNLABELLED],
            )


def _label_counts(table: ImageTable, start: int, stop: int) -> Counter[int]:
    """Count the images of each label; those without one are UNLABELLED."""
    if table.label_sets:
        sets = table.label_sets[start:stop]
        return Counter(chain.from_iterable(labels or (UNLABELLED,) for labels in sets))
    counts = Counter(table.labels[start:stop])
    for label in [label for label in counts if label < UNLABELLED]:  # of a damaged dataset
        counts[UNLABELLED] += counts.pop(label)
    return counts


def _sheets(table: ImageTable, report: Report, most: int) -> Iterator[Sheet]:
    """Choose images of every class, the first of each before the second of any."""
    classes = len(report.classes)
    totals = _label_counts(table, 0, len(table))
    chosen = _first_of_each(table, totals, -(-most // max(classes, 1)))
    labels = sorted(chosen, key=lambda label: label if label != UNLABELLED else classes)
    in_turn = sorted(
        ((depth, rank) for rank, label in enumerate(labels) for depth in range(len(chosen[label])))
    )[: max(most, 0)]
    shares = Counter(rank for _, rank in in_turn)
    for rank, label in enumerate(labels):
        yield Sheet(
            label=label,
            name=report.classes[label] if 0 <= label < classes else "",
            total=totals[label],
            shots=tuple(_shot(table, report.classes, at) for at in chosen[label][: shares[rank]]),
        )


def _first_of_each(table: ImageTable, totals: Mapping[int, int], most: int) -> dict[int, list[int]]:
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
