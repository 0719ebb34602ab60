"""From a table of images and the report of a pack to the facts of the page."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from imgrec.codec.tone import NOT_SEEN, TONE_BYTES
from imgrec.inspection.reporting.facts import (
    Column,
    Entry,
    Facts,
    Finding,
    Sheet,
    Shot,
    SplitFacts,
)
from imgrec.inspection.reporting.findings import find_all, named_in, turned_images
from imgrec.inspection.reporting.measures import measure
from imgrec.inspection.reporting.outliers import find_outliers
from imgrec.inspection.reporting.snippets import snippets_for
from imgrec.inspection.reporting.table import ImageTable, places_of
from imgrec.layout import multilabel_step
from imgrec.model import UNLABELLED
from imgrec.outcome import Report
from imgrec.text import printable

_MOST_OF_ENTRIES, _LEAST_OF_ENTRIES = 3, 10
"""One in so many thumbnails, at most and at least, may be of findings and outliers.

Between these, they get what is left when every class has one.
"""


def gather(table: ImageTable, report: Report, thumbnails: int) -> Facts:
    """Count and choose all that the page shows, with `thumbnails` images at the most."""
    turned = turned_images(table.names, table.orientations)
    places = places_of(table, named_in(report, turned))

    def shot(name: str) -> Shot:
        if name in places:
            return _shot(table, report.classes, places[name])
        return Shot(name, where=table.others(name))

    measures = measure(table)
    findings = [found for found in find_all(report, turned, shot) if found.total]
    outliers = [
        Finding(
            found.key,
            found.title,
            found.total,
            found.meaning,
            tuple(Entry((_shot(table, report.classes, at),), why) for at, why in found.shown),
        )
        for found in find_outliers(table, measures)
    ]
    spare = max(thumbnails - len(report.classes), thumbnails // _LEAST_OF_ENTRIES)
    shown = list(_bounded([*findings, *outliers], min(thumbnails // _MOST_OF_ENTRIES, spare)))
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
        ignored=tuple(Column(kind.kind, kind.count) for kind in report.ignored),
        warnings=report.warnings,
    )


def _batching_step(table: ImageTable, report: Report) -> str:
    if not table.label_sets:
        return ""
    is_one_size = len(set(table.shapes[::3])) == len(set(table.shapes[1::3])) == 1
    return multilabel_step(len(report.classes), is_one_size=is_one_size)


def _shot(table: ImageTable, classes: Sequence[str], place: int) -> Shot:
    return Shot(
        name=printable(table.names[place]),
        split=table.split_of(place),
        labels=tuple(classes[label] for label in table.labels_of(place) if label < len(classes)),
        shape=table.shape_of(place),
        format=table.formats[place],
        size=table.sizes[place],
        where=table.where(place),
    )


def _shots(findings: Sequence[Finding]) -> Iterator[Shot]:
    return (shot for found in findings for entry in found.entries for shot in entry.shots)


def _bounded(findings: Sequence[Finding], most: int) -> Iterator[Finding]:
    """Leave thumbnails to the first things of each kind, in turn, until there are `most`."""
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
                entry if (kind, depth) in kept else _bare(entry)
                for depth, entry in enumerate(found.entries)
            )
        )


def _bare(entry: Entry) -> Entry:
    return Entry(tuple(shot._replace(where=None) for shot in entry.shots), entry.reason)


def _splits(table: ImageTable, report: Report) -> Iterator[SplitFacts]:
    known = {split.name: split for split in report.splits}
    for split, start, stop in table.spans:
        labels = (
            chain.from_iterable(table.label_sets[start:stop])
            if table.label_sets
            else table.labels[start:stop]
        )
        counts = Counter(labels)
        unlabelled = (
            sum(not labels for labels in table.label_sets[start:stop])
            if table.label_sets
            else counts[UNLABELLED]
        )
        info = known.get(split)
        if stop > start:
            yield SplitFacts(
                name=split,
                images=stop - start,
                shards=len(info.shard_lengths) if info else 0,
                bytes=info.num_bytes if info else sum(table.sizes[start:stop]),
                counts=tuple(counts[label] for label in range(len(report.classes))),
                unlabelled=unlabelled,
            )


def _sheets(table: ImageTable, report: Report, most: int) -> Iterator[Sheet]:
    """Choose images of every class, the first of each before the second of any."""
    classes = len(report.classes)
    totals = Counter(
        chain.from_iterable(labels or (UNLABELLED,) for labels in table.label_sets)
        if table.label_sets
        else (max(label, UNLABELLED) for label in table.labels)
    )
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
    """Return the places of the first images of every label, up to `most` of each."""
    chosen: dict[int, list[int]] = {label: [] for label in totals}
    missing = sum(min(total, most) for total in totals.values())
    for place in range(len(table)):
        if not missing:
            break
        for label in table.labels_of(place) or (UNLABELLED,):
            if len(chosen[label]) < most:
                chosen[label].append(place)
                missing -= 1
    return chosen
