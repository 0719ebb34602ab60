"""Catalogs made up for planning, with no files behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from hypothesis import strategies as st

from imgrec.model import Catalog, Sample, Samples

CLASSES = ("ash", "birch", "2", "10")


def sample(name: str, class_name: str, content: int, split: str = "", size: int = 100) -> Sample:
    """Make a sample whose content is told apart by a number."""
    prefix = f"{split}/" if split else ""
    filename = f"{prefix}{class_name}/{name}.jpg"
    key = hashlib.sha256(str(content).encode()).digest()[:16]
    return Sample(filename, class_name, split, size, key, f"/source/{filename}")


def catalog(samples: Iterable[Sample], **fields: object) -> Catalog:
    samples = tuple(samples)
    folders = {
        name: tuple(
            sorted({s.filename.rpartition("/")[0] for s in samples if s.class_name == name})
        )
        for name in {s.class_name for s in samples}
    }
    return Catalog(  # type: ignore[arg-type]
        **{
            "name": "trees",
            "layout": "<class>/**/image",
            "samples": Samples.of(samples),
            "class_folders": folders,
            **fields,
        }
    )


@st.composite
def sample_lists(draw: st.DrawFn, min_size: int = 1, *, distinct: bool = False) -> list[Sample]:
    """Samples in a few classes, some of them copies of each other, within and across classes."""
    count = draw(st.integers(min_size, 60))
    contents = [number if distinct else draw(st.integers(0, 2 * count)) for number in range(count)]
    return [
        sample(
            f"{number:03d}",
            draw(st.sampled_from(CLASSES)),
            content,
            size=draw(st.integers(1, 5000)),
        )
        for number, content in enumerate(contents)
    ]


fractions = st.sampled_from([0.05, 0.1, 0.2, 0.25, 0.3, 0.5])
