"""Filters, counts and rows of the viewer, compared with a plain reading of the same records."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgrec.outcome import DatasetInfo, SplitInfo
from imgrec.view.catalogue import SIZES, Catalogue, Query, Row, catalogue_of_rows

SPLITS = ("train", "val")
FORMATS = ("", "JPEG", "PNG")
CLASSES = ("a", "b", "c")


class Item(NamedTuple):
    split: str
    row: Row


sides = st.one_of(st.integers(0, 40), st.sampled_from([*SIZES, *(side + 1 for side in SIZES)]))
rows = st.builds(
    Row,
    labels=st.sets(st.integers(0, 2), max_size=3).map(lambda found: tuple(sorted(found))),
    filename=st.text("aAbB/._ü", max_size=4),
    height=sides,
    width=sides,
    format=st.sampled_from(FORMATS),
)
items = st.lists(st.builds(Item, split=st.sampled_from(SPLITS), row=rows), max_size=30).map(sorted)
queries = st.builds(
    Query,
    splits=st.frozensets(st.sampled_from(SPLITS)),
    classes=st.frozensets(st.integers(-1, 2)),
    formats=st.frozensets(st.sampled_from(FORMATS)),
    min_side=sides,
    max_side=sides,
    text=st.text("aAbBÜ", max_size=2),
)


def catalogue_of(listed: list[Item], *, is_multilabel: bool) -> Catalogue:
    splits = tuple(
        SplitInfo(
            name=name, shard_lengths=(sum(item.split == name for item in listed),), num_bytes=0
        )
        for name in SPLITS
    )
    info = DatasetInfo(
        name="", version="", path="", classes=CLASSES, splits=splits, fingerprint="", load=""
    )
    found = [item.row for item in listed]
    if is_multilabel:
        return catalogue_of_rows(found, info)
    columns = {name: [getattr(row, name) for row in found] for name in Row._fields[1:]}
    types = (pa.string(), pa.int64(), pa.int64(), pa.string())
    table = pa.table(
        {
            name: pa.array(values, kind)
            for (name, values), kind in zip(columns.items(), types, strict=True)
        }
    )
    labels = pa.array([row.labels[0] if row.labels else -1 for row in found], pa.int64())
    return Catalogue(table.append_column("label", labels), info)


def fits(item: Item, query: Query) -> bool:
    row, longer = item.row, max(item.row.height, item.row.width)
    return (
        (not query.splits or item.split in query.splits)
        and (not query.classes or bool(query.classes & set(row.labels or (-1,))))
        and (not query.formats or row.format in query.formats)
        and longer >= query.min_side
        and (not query.max_side or longer <= query.max_side)
        and query.text.lower() in row.filename.lower()
    )


@pytest.mark.parametrize("is_multilabel", [False, True])
@given(listed=items, query=queries)
def test_a_search_finds_and_counts_what_a_plain_reading_does(
    is_multilabel: bool, listed: list[Item], query: Query
) -> None:
    if not is_multilabel:
        listed = [Item(split, row._replace(labels=row.labels[:1])) for split, row in listed]
    catalogue = catalogue_of(listed, is_multilabel=is_multilabel)
    matches = catalogue.find(query)
    numbers = [at for at, item in enumerate(listed) if fits(item, query)]
    assert matches.numbers.tolist() == numbers
    for number in range(len(listed)):
        position = numbers.index(number) if number in numbers else None
        assert matches.position_of(number) == position
    backwards = list(reversed(range(len(listed))))
    assert catalogue.rows(backwards) == [listed[number].row for number in backwards]

    def counted(**other: object) -> int:
        return sum(fits(item, replace(query, **other)) for item in listed)  # type: ignore[arg-type]

    any_side = replace(query, min_side=0, max_side=0)
    groups = [
        sum(max(item.row.height, item.row.width) > size for size in SIZES)
        for item in listed
        if fits(item, any_side)
    ]
    assert matches.counts == {
        "split": [counted(splits=frozenset({name})) for name in SPLITS],
        "class": [counted(classes=frozenset({label})) for label in range(-1, len(CLASSES))],
        "format": [counted(formats=frozenset({name})) for name in catalogue.format_names],
        "size": [groups.count(group) for group in range(len(SIZES) + 1)],
    }
