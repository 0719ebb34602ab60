"""Statistics of the images of a dataset: sizes, formats and bytes."""

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
    """Minimum, median and maximum."""

    least: int
    median: int
    most: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ImageStats:
    """Statistics of all images of a dataset."""

    formats: Mapping[str, int]
    """Images of each format, the most frequent first."""
    channels: Mapping[str, int]
    widths: Spread
    heights: Spread
    record_bytes: Spread
    long_sides: Mapping[int, int]
    """Images whose longer side is at least the key, and less than twice the key."""


def read_image_stats(info: DatasetInfo) -> ImageStats | None:
    """Return the statistics of a dataset; None without samples.parquet or without images.

    Raises DatasetError if samples.parquet is damaged.
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


def _counts(column: Any) -> dict[Any, int]:  # pyarrow's stubs do not type the values
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
    """Count numbers between powers of two, empty ranges in between included."""
    counts: Counter[int] = Counter()
    for value, count in _counts(column).items():
        counts[max(value, 1).bit_length()] += count
    return {1 << bits >> 1: counts[bits] for bits in range(min(counts), max(counts) + 1)}
