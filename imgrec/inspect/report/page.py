"""Draw report.html: one file that needs nothing else, and may load nothing else."""

from __future__ import annotations

import base64
import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec.codec.decode import encode_thumbnail, own_thumbnail, thumbnail
from imgrec.errors import DatasetError, ExecutionError, ImgrecError
from imgrec.html import render
from imgrec.inspect.image_stats import round_step
from imgrec.inspect.report.facts import Facts, gather
from imgrec.inspect.report.findings import Shot
from imgrec.inspect.report.images import ImageTable
from imgrec.inspect.subject import ImagePlace, Job, read_image
from imgrec.options import LEAF, PackOptions
from imgrec.outcome import Report
from imgrec.storage.blobs import close_files
from imgrec.text import size

if TYPE_CHECKING:
    from imgrec.inspect.diff import Difference

_FOLDER = Path(__file__).parent
_MAX_CLASSES = 2000
"""More classes are counted, not listed."""
_MAX_TEXT = 300
_OPTION_NAMES = {"shard_bytes": "shard_size", "columns": "column"}
"""The options whose name on the command line differs from report.json."""
_ROUND_SIDES = tuple(1 << power for power in range(3, 15))
_MAX_TICKS = 7
_MIN_THUMBNAILS, _MAX_THUMBNAILS = 96, 1250
"""Without --thumbnails there are 1.25 for each class, within these bounds."""
_MAX_THUMBNAIL_BYTES = 6_400_000
"""For all together. As base64 they take a third more, and the page stays below 10 MB."""
_LARGE, _SMALL, _MANY = 224, 128, 400
"""The longest side of each thumbnail: large, or small if there are many."""
_BATCH = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportPage:
    """The page of a dataset or a source, and the facts on it."""

    facts: Facts = field(repr=False)
    thumbnails: int
    """The number of different pictures."""
    data: bytes = field(repr=False)
    path: str = ""
    seconds: float = 0.0


class Thumbnail(NamedTuple):
    """A small JPEG."""

    data: bytes
    width: int
    height: int


def make_page(
    table: ImageTable,
    report: Report,
    job: Job,
    thumbnails: int | None,
    difference: Difference | None = None,
) -> ReportPage:
    """Return the page that shows all images of a table, with at most so many thumbnails.

    `difference` is that from the version before.
    """
    if not len(table):
        raise DatasetError(f"{report.name} holds no images", hint="there is nothing to show")
    if thumbnails is None:
        wanted = len(report.classes) * 5 // 4
        thumbnails = min(max(_MIN_THUMBNAILS, wanted), _MAX_THUMBNAILS)
    facts = gather(table, report, thumbnails, difference)
    made = _make_thumbnails(_places(facts), job)
    return ReportPage(facts=facts, thumbnails=len(made), data=_draw(facts, made))


def _places(facts: Facts) -> Iterator[ImagePlace]:
    """Yield the places of all pictures on the page, the most important first."""
    found = (*facts.findings, *facts.changes, *facts.outliers)
    shots: list[Shot | None] = [
        shot for one in found for entry in one.entries for shot in entry.shots
    ]
    for turn in zip_longest(*(sheet.shots for sheet in facts.sheets)):
        shots += turn
    yield from (shot.where for shot in shots if shot and shot.where is not None)


class _Batch(NamedTuple):
    start: int
    side: int
    places: Sequence[ImagePlace]


def _make_thumbnails(wanted: Iterable[ImagePlace], job: Job) -> Mapping[ImagePlace, Thumbnail]:
    """Make as many of the first thumbnails as fit in the bytes; unreadable images have none."""
    times = Counter(wanted)  # a picture that is shown twice takes its bytes twice
    places = list(times)
    side = _SMALL if len(places) > _MANY else _LARGE
    starts = range(0, len(places), _BATCH)
    batches = [_Batch(start, side, places[start : start + _BATCH]) for start in starts]
    found = dict(job.run(_make_batch, batches))
    made: dict[ImagePlace, Thumbnail] = {}
    left = _MAX_THUMBNAIL_BYTES
    for batch in batches:
        for where, small in zip(batch.places, found[batch.start], strict=True):
            left -= len(small.data) * times[where]
            if left < 0:
                return made
            if small.data:
                made[where] = small
    return made


def _make_batch(batch: _Batch) -> tuple[int, list[Thumbnail]]:
    made = [_make_thumbnail(where, batch.side) for where in batch.places]
    close_files()
    return batch.start, made


def _make_thumbnail(where: ImagePlace, side: int) -> Thumbnail:
    try:
        data, blob, filename = read_image(where)
        if blob is None and (shape := own_thumbnail(data, side)):
            return Thumbnail(data, shape[1], shape[0])
        picture = thumbnail(data, filename, side, blob)
    except ExecutionError:
        raise
    except ImgrecError:  # the findings show what is wrong with it
        return Thumbnail(b"", 0, 0)
    return Thumbnail(encode_thumbnail(picture), picture.width, picture.height)


def _draw(facts: Facts, thumbnails: Mapping[ImagePlace, Thumbnail]) -> bytes:
    """Return the page; equal facts and pictures give equal bytes."""
    style, script = ((_FOLDER / name).read_text("utf-8") for name in ("page.css", "page.js"))
    # The browser runs and loads nothing but these two, whatever a file name smuggles in.
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; "
        f"script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    values = {
        "facts": facts,
        "report": facts.report,
        "totals": facts.totals,
        "bytes": sum(split.bytes for split in facts.splits),
        "max_classes": _MAX_CLASSES,
        "sheets": [
            sheet
            for sheet in facts.sheets[:_MAX_CLASSES]
            if any(shot.where in thumbnails for shot in sheet.shots)
        ],
        "size_map": _size_map(facts.measures.sizes),
        "ranks": _ranks(facts.totals),
        "ticks": _ticks,
        "provenance": list(_provenance(facts.report)),
        "thumbnails": thumbnails,
        "cut": _cut,
        "policy": policy,
        "style": style,
        "script": script,
    }
    return render(_FOLDER / "page.html", values).encode()


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"


def _cut(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else f"{text[:_MAX_TEXT]}…"


class _Ranks(NamedTuple):
    """The sizes of all classes, the largest first."""

    path: str
    """An SVG path of 1000 x 100."""
    about: str
    """The same in words."""
    images: Sequence[int]
    """The marks of the vertical axis at equal distances, from the bottom to the top."""
    places: Sequence[int]
    """The marks of the horizontal axis at equal distances."""


def _ranks(totals: Sequence[int]) -> _Ranks:
    ranked = sorted(totals, reverse=True)
    count, ticks = max(len(ranked), 1), _ticks(max(totals, default=0))
    steps, at = [], 0
    # One step for all classes of a size, so that the path stays short for 100,000 classes.
    for total, same in groupby(ranked):
        top, start = 100 - 100 * total / ticks[-1], at
        at += len(list(same))
        steps.append(f"L{1000 * start / count:.1f} {top:.1f}H{1000 * at / count:.1f}")
    places = [1, *(round(count * part / 4) for part in (1, 2, 3)), count]
    about = f"{max(ranked, default=0):,} down to {min(ranked, default=0):,}"
    return _Ranks(f"M0 100{''.join(steps)}V100Z", about, ticks, places)


def _ticks(most: int) -> Sequence[int]:
    """Return round numbers at equal distances from 0 to at least `most`.

    >>> _ticks(130), _ticks(3), _ticks(0)
    ([0, 50, 100, 150], [0, 1, 2, 3], [0, 1])
    """
    step = max(round(round_step(max(most, 1) / 4)), 1)
    return list(range(0, max(most, 1) + step, step))


class _Bubble(NamedTuple):
    width: int
    height: int
    images: int
    x: float
    y: float
    radius: float


class _SizeMap(NamedTuple):
    """Widths and heights on logarithmic axes from 0 to 1."""

    bubbles: Sequence[_Bubble]
    """The largest first, so that it hides no other."""
    ticks: Mapping[int, float]


def _size_map(sizes: Mapping[tuple[int, int], int]) -> _SizeMap:
    sides = [side for size in sizes for side in size]
    low, high = math.log2(min(sides)) - 0.35, math.log2(max(sides)) + 0.35

    def place(side: float) -> float:
        return (math.log2(side) - low) / (high - low)

    most = max(sizes.values())
    bubbles = [
        _Bubble(
            width, height, images, place(width), place(height), 3 + 13 * math.sqrt(images / most)
        )
        for (width, height), images in sorted(sizes.items(), key=lambda item: -item[1])
    ]
    ticks = [side for side in _ROUND_SIDES if low <= math.log2(side) <= high]
    ticks = ticks[:: 1 + len(ticks) // _MAX_TICKS]
    if len(ticks) < 2:
        ticks = sorted({round(2 ** (low + (high - low) * part)) for part in (0.2, 0.5, 0.8)})
    return _SizeMap(bubbles, {side: place(side) for side in ticks})


def _provenance(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the source, the fingerprint, the options, and what was ignored."""
    if report.version and report.source:
        yield "source", report.source
    if report.fingerprint:
        yield "fingerprint", report.fingerprint
    defaults = PackOptions().deciding()
    for key, value in report.options.items():
        if value != defaults.get(key):
            yield f"--{_option_name(key)}", _option_text(key, value)
    usual = [
        f"--{_option_name(key)} {_option_text(key, value)}"
        for key, value in report.options.items()
        if value == defaults.get(key) and value not in (None, "", [])
    ]
    if usual:
        yield "defaults", ", ".join(usual)
    for ignored in report.ignored:
        yield "ignored", f"{ignored.count:,} x {ignored.kind}"


def _option_name(key: str) -> str:
    return _OPTION_NAMES.get(key, key).replace("_", "-")


def _option_text(key: str, value: object) -> str:
    if key == "shard_bytes" and isinstance(value, int):
        return size(value)
    if key == "class_depth" and value == LEAF:
        return "leaf"
    if isinstance(value, dict):
        return ", ".join(f"{old} -> {new or 'dropped'}" for old, new in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
