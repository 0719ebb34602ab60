"""Filters, counts and rows of the viewer, compared with a plain reading of the same records."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from imgrec.codec.tone import UNKNOWN_TONE
from imgrec.errors import UsageError
from imgrec.outcome import DatasetInfo, SplitInfo
from imgrec.view.catalogue import SIZES, Catalogue, Query, Row, catalogue_of_rows
from imgrec.view.facets import ColumnFilter
from imgrec.view.findings import Named

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
    length=st.integers(0, 3),
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
    types = (pa.string(), pa.int64(), pa.int64(), pa.string(), pa.int64())
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
        "finding": [
            len(catalogue.find(replace(query, findings=frozenset({key}))).numbers)
            for key in catalogue.findings.titles
        ],
        "decision": [],
    }


@pytest.mark.parametrize("is_descending", [False, True])
@pytest.mark.parametrize("sort", ["", "name", "class", "size", "bytes"])
@given(listed=items, query=queries)
def test_sorting_keeps_the_matches_and_puts_what_is_unknown_last(
    sort: str, is_descending: bool, listed: list[Item], query: Query
) -> None:
    catalogue = catalogue_of(listed, is_multilabel=True)
    found = catalogue.find(replace(query, sort=sort, is_descending=is_descending))
    numbers = found.numbers.tolist()
    assert sorted(numbers) == catalogue.find(query).numbers.tolist()
    assert [found.position_of(number) for number in numbers] == list(range(len(numbers)))

    def key(number: int) -> str | int | None:
        row = listed[number].row
        area, label = row.width * row.height, row.labels[0] if row.labels else None
        return {
            "": number, "name": row.filename, "class": label, "size": area, "bytes": row.length
        }[sort]  # fmt: skip

    keys = list(map(key, numbers))
    known = [value for value in keys if value is not None]
    assert known == sorted(known, reverse=is_descending)  # type: ignore[type-var]
    assert keys[len(known) :] == [None] * (len(keys) - len(known))


def small(**columns: object) -> Catalogue:
    """A catalogue of six images, the last of which is tiny."""
    info = DatasetInfo(
        name="", version="", path="", classes=CLASSES, fingerprint="", load="",
        splits=(SplitInfo(name="train", shard_lengths=(6,), num_bytes=0),),
    )  # fmt: skip
    sides = [100] * 5 + [9]
    table = pa.table(
        {
            "label": [0, 0, 1, 1, -1, 2], "filename": [f"{at}.jpg" for at in range(6)],
            "height": sides, "width": sides, "format": ["JPEG"] * 6, "length": [1] * 6, **columns,
        }
    )  # fmt: skip
    named = [
        Named("leaks", "Leaks", [("4.jpg", "0.jpg")]),
        Named("duplicates", "Duplicates", [("5.jpg", "1.jpg", "elsewhere.jpg")]),
    ]
    return Catalogue(table, info, named)


def test_findings_are_found_by_name_and_by_shape_and_copies_are_put_together() -> None:
    catalogue = small()
    assert catalogue.findings.titles == {
        "leaks": "Leaks", "duplicates": "Duplicates", "tiny": "Tiny"
    }  # fmt: skip
    found = {
        key: catalogue.find(Query(findings=frozenset({key}))).numbers.tolist()
        for key in catalogue.findings.titles
    }
    assert found == {"leaks": [0, 4], "duplicates": [1, 5], "tiny": [5]}
    both = Query(findings=frozenset({"tiny", "leaks"}), classes=frozenset({0, 2}))
    assert catalogue.find(both).numbers.tolist() == [0, 5]
    assert catalogue.find(both).counts["finding"] == [1, 2, 1]
    # A group begins with its first file.
    assert catalogue.find(Query(sort="copies")).numbers.tolist() == [4, 0, 5, 1, 2, 3]
    assert catalogue.groups_of([4, 2, 1]) == [(0, 2), None, (1, 2)]
    assert [catalogue.group_with(number) for number in (0, 1, 2)] == [[4, 0], [5, 1], []]
    assert [catalogue.findings_of(number) for number in (2, 5)] == [[], ["Duplicates", "Tiny"]]


def test_near_duplicates_are_divided_by_what_they_cross() -> None:
    splits = [SplitInfo(name=name, shard_lengths=(4,), num_bytes=0) for name in SPLITS]
    info = DatasetInfo(
        name="", version="", path="", classes=CLASSES, fingerprint="", load="", splits=(*splits,)
    )
    table = pa.table(
        {
            "label": [0, 0, 1, 2, 0, 1, 2, -1], "filename": [f"{at}.jpg" for at in range(8)],
            "height": [9] * 8, "width": [9] * 8, "format": ["PNG"] * 8, "length": [1] * 8,
        }
    )  # fmt: skip
    cases = [("0.jpg", "4.jpg"), ("1.jpg", "2.jpg"), ("3.jpg", "5.jpg"), ("6.jpg", "7.jpg")]
    findings = Catalogue(table, info, [Named("near", "Near-duplicates (first 4)", cases)]).findings
    found = {key: findings.masks[key].nonzero()[0].tolist() for key in findings.titles}
    divided = {"near_leaks": [0, 3, 4, 5], "near_conflicts": [1, 2, 3, 5], "near": [6, 7]}
    assert found == divided
    assert findings.titles["near_leaks"] == "Near leaks (first 4)"


def test_blank_dark_bright_and_unreadable_images_are_findings_once_they_were_looked_at() -> None:
    usual, blank, dark, bright = (120, 90), (0, 2), (9, 30), (250, 30)
    tones = bytes([*usual, *blank, *dark, *bright, *UNKNOWN_TONE, *usual])
    before = small()
    query = Query(findings=frozenset({"dark"}))
    assert before.find(query).numbers.tolist() == []
    catalogue = before.with_tones(tones)
    assert [*catalogue.findings.titles][-4:] == ["blank", "dark", "bright", "unreadable"]
    assert catalogue.find(query).numbers.tolist() == [2]
    assert catalogue.find(Query()).counts["finding"][-4:] == [1, 1, 1, 1]
    # Where most images are dark, a dark one is as it should be.
    assert "dark" not in before.with_tones(bytes([12, 90] * 6)).findings.titles


def test_columns_are_filtered_by_value_by_bounds_or_by_text() -> None:
    ages = [float(at) for at in range(30, 60)]
    catalogue = small(site=["arm", "leg", "arm", "", "leg", "arm"], note=list("abcdeé"))
    site = ColumnFilter("site", frozenset({"arm", ""}))
    found = catalogue.find(Query(columns=frozenset({site}), classes=frozenset({0, 1})))
    assert found.numbers.tolist() == [0, 2, 3]
    assert catalogue.columns["site"].describe() == {"values": ["arm", "leg", ""]}
    assert found.counts["column site"] == [2, 1, 1]
    note = Query(columns=frozenset({ColumnFilter("note", text="É")}))
    assert catalogue.find(note).numbers.tolist() == [5]
    assert catalogue.find(Query(sort="column site")).numbers.tolist() == [0, 2, 5, 1, 4, 3]
    info = DatasetInfo(
        name="", version="", path="", classes=CLASSES, fingerprint="", load="",
        splits=(SplitInfo(name="train", shard_lengths=(31,), num_bytes=0),),
    )  # fmt: skip
    rows = catalogue_of_rows([Row()] * 31, info)
    table = pa.table(
        {
            "label": [0] * 31, "filename": [""] * 31, "height": [1] * 31, "width": [1] * 31,
            "format": [""] * 31, "length": [1] * 31, "age": [float("nan"), *ages],
        }
    )  # fmt: skip
    aged = Catalogue(table, info)
    assert rows.columns == {}
    assert aged.columns["age"].describe() == {"range": ["30", "59"]}
    between = Query(columns=frozenset({ColumnFilter("age", least=57, most=58.5)}))
    assert aged.find(between).numbers.tolist() == [28, 29]
    down = Query(sort="column age", is_descending=True)
    assert aged.find(down).numbers.tolist() == [*range(30, 0, -1), 0]


@pytest.mark.parametrize(
    "query", [Query(sort="shoe"), Query(columns=frozenset({ColumnFilter("shoe")}))]
)
def test_unknown_columns_are_refused(query: Query) -> None:
    with pytest.raises(UsageError, match="'shoe'"):
        small().find(query)
