"""What the images of a dataset are like, all in all: sizes, formats and bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from imgrec import layout
from imgrec.outcome import DatasetInfo
from imgrec.read.samples import read_table, wrong_table
from imgrec.storage.paths import to_path


class Spread(NamedTuple):
    """The least, the middle and the most of some numbers."""

    least: int
    median: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStats:
    """What is known of all images of a dataset."""

    formats: Mapping[str, int]
    """How many images are of each, the most frequent first."""
    channels: Mapping[str, int]
    widths: Spread
    heights: Spread
    record_bytes: Spread
    long_sides: Mapping[int, int]
    """How many images have a longer side of at least this, and less than twice as much."""


def read_image_stats(info: DatasetInfo) -> ImageStats | None:
    """Return what the images of a dataset are like; None where no table tells, or none is there.

    Raises DatasetError if the table is not as imgrec writes it.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    folder = to_path(info.path)
    if not (folder / layout.SAMPLES).exists():
        return None
    table = read_table(folder, info, ("format", "height", "width", "channels", "length"))
    if not table.num_rows:
        return None
    try:
        width, height = table.column("width"), table.column("height")
        return ImageStats(
            formats=_ranked(table.column("format")),
            channels=_ranked(table.column("channels")),
            widths=_spread(width),
            heights=_spread(height),
            record_bytes=_spread(table.column("length")),
            long_sides=_doubling(pc.max_element_wise(width, height)),
        )
    except (KeyError, TypeError, ValueError, pa.ArrowException) as error:
        raise wrong_table(folder, "is not as imgrec writes it") from error


def _counts(column: Any) -> dict[Any, int]:  # stubs do not tell what a column holds
    counted = column.value_counts()
    values, counts = (counted.field(name).to_pylist() for name in ("values", "counts"))
    return dict(zip(values, counts, strict=True))


def _ranked(column: Any) -> dict[str, int]:
    counts = {str(value): count for value, count in _counts(column).items()}
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _spread(column: Any) -> Spread:
    import pyarrow.compute as pc

    (median,) = pc.quantile(column, 0.5, interpolation="lower").to_pylist()
    return Spread(int(pc.min(column).as_py()), int(median or 0), int(pc.max(column).as_py()))


def _doubling(column: Any) -> dict[int, int]:
    """Count numbers between one power of two and the next, leaving out none in the middle."""
    counts: Counter[int] = Counter()
    for value, count in _counts(column).items():
        counts[max(value, 1).bit_length()] += count
    return {1 << bits >> 1: counts[bits] for bits in range(min(counts), max(counts) + 1)}
