"""Filters, counts and pages against a plain reading of the same columns."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgrec.view.catalogue import SIZES, Catalogue, Columns, Query, Row

SPLITS = ("train", "val")
FORMATS = ("", "JPEG", "PNG")
CLASSES = 3


class Item(NamedTuple):
    """A row and its split."""

    split: str
    row: Row


sides = st.one_of(st.integers(0, 40), st.sampled_from([*SIZES, *(side + 1 for side in SIZES)]))
rows = st.builds(
    Row,
    labels=st.sets(st.integers(0, CLASSES - 1), max_size=3).map(lambda found: tuple(sorted(found))),
    filename=st.text("aAbB/._ü", max_size=4),
    height=sides,
    width=sides,
    format=st.sampled_from(FORMATS),
)
items = st.lists(st.builds(Item, split=st.sampled_from(SPLITS), row=rows), max_size=30)
queries = st.builds(
    Query,
    splits=st.frozensets(st.sampled_from(SPLITS)),
    classes=st.frozensets(st.integers(-1, CLASSES - 1)),
    formats=st.frozensets(st.sampled_from(FORMATS)),
    min_side=sides,
    max_side=sides,
    text=st.text("aAbBÜ", max_size=2),
)


def columns_of(listed: list[Item], *, multilabel: bool) -> Columns:
    pairs = [(at, label) for at, item in enumerate(listed) for label in item.row.labels or (-1,)]
    owners, labels = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    return Columns(
        split_names=SPLITS,
        splits=np.array([SPLITS.index(item.split) for item in listed], dtype=np.int64),
        classes=CLASSES,
        labels=labels,
        owners=owners if multilabel else None,
        filenames=pa.array([item.row.filename for item in listed], pa.string()),
        heights=np.array([item.row.height for item in listed], dtype=np.int64),
        widths=np.array([item.row.width for item in listed], dtype=np.int64),
        format_names=FORMATS,
        formats=np.array([FORMATS.index(item.row.format) for item in listed], dtype=np.int64),
    )


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


def size_group(row: Row) -> int:
    return sum(max(row.height, row.width) > size for size in SIZES)


def single(item: Item) -> Item:
    return item._replace(row=item.row._replace(labels=item.row.labels[:1]))


@pytest.mark.parametrize("multilabel", [False, True])
@given(listed=items, query=queries)
def test_exactly_the_records_that_fit_are_found(
    multilabel: bool, listed: list[Item], query: Query
) -> None:
    listed = listed if multilabel else [single(item) for item in listed]
    found = Catalogue(columns_of(listed, multilabel=multilabel)).find(query)
    assert found.numbers.tolist() == [at for at, item in enumerate(listed) if fits(item, query)]


@pytest.mark.parametrize("multilabel", [False, True])
@given(listed=items, query=queries)
def test_a_count_says_how_many_there_would_be(
    multilabel: bool, listed: list[Item], query: Query
) -> None:
    listed = listed if multilabel else [single(item) for item in listed]
    counts = Catalogue(columns_of(listed, multilabel=multilabel)).find(query).counts

    def counted(**other: object) -> int:
        return sum(fits(item, replace(query, **other)) for item in listed)  # type: ignore[arg-type]

    assert counts["split"] == [counted(splits=frozenset({name})) for name in SPLITS]
    assert counts["class"] == [counted(classes=frozenset({n})) for n in range(-1, CLASSES)]
    assert counts["format"] == [counted(formats=frozenset({name})) for name in FORMATS]
    any_side = replace(query, min_side=0, max_side=0)
    groups = [size_group(item.row) for item in listed if fits(item, any_side)]
    assert counts["size"] == [groups.count(group) for group in range(len(SIZES) + 1)]


@pytest.mark.parametrize("multilabel", [False, True])
@given(listed=items)
def test_rows_are_those_of_their_numbers(multilabel: bool, listed: list[Item]) -> None:
    listed = listed if multilabel else [single(item) for item in listed]
    numbers = list(reversed(range(len(listed))))
    rows = columns_of(listed, multilabel=multilabel).rows(numbers)
    assert rows == [listed[number].row for number in numbers]


@given(listed=items, query=queries)
def test_a_record_has_its_place_among_the_found_or_none(listed: list[Item], query: Query) -> None:
    found = Catalogue(columns_of(listed, multilabel=True)).find(query)
    fitting = found.numbers.tolist()
    for number in range(len(listed)):
        assert found.place_of(number) == (fitting.index(number) if number in fitting else None)
