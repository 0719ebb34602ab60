"""Which records a split's name stands for, against TFDS's own reading of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tensorflow_datasets.core import splits as tfds_splits

from imgrec.errors import ImgrecError, UnknownName, UsageError
from imgrec.outcome import SplitInfo
from imgrec.read.splits import record_ranges
from imgrec.text import suggestion

NAMES = ("train", "val", "fold_0", "test-new")


def split(name: str, *lengths: int) -> SplitInfo:
    return SplitInfo(name=name, shard_lengths=lengths, num_bytes=0)


FLOWERS = (split("train", 10, 10, 5), split("val", 7), split("test", 0))


def by_tfds(spec: str, splits: Sequence[SplitInfo]) -> list[range] | None:
    """Return the records that TFDS takes a spec for, counted as ours; None if it refuses."""
    known = {
        one.name: tfds_splits.SplitInfo(
            name=one.name, shard_lengths=list(one.shard_lengths), num_bytes=0
        )
        for one in splits
    }
    starts = dict(zip(known, [sum(s.examples for s in splits[:n]) for n in range(4)], strict=False))
    try:
        found = tfds_splits.AbstractSplit.from_spec(spec).to_absolute(known)
    except (ValueError, NotImplementedError):
        return None
    ranges = []
    for one in found:
        start, count = starts[one.splitname], known[one.splitname].num_examples
        first, last = one.from_ or 0, count if one.to is None else one.to
        ranges.append(range(start + first, start + max(first, last)))
    return ranges


def by_us(spec: str, splits: Sequence[SplitInfo]) -> list[range] | None:
    try:
        return record_ranges(spec, splits)
    except ImgrecError:
        return None


def filled(ranges: list[range] | None) -> list[range] | None:
    """Return ranges without the empty ones, which may begin anywhere."""
    return None if ranges is None else [part for part in ranges if part]


datasets = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True).flatmap(
    lambda names: st.tuples(
        *(
            st.lists(st.integers(0, 30), max_size=6).map(lambda n, name=name: split(name, *n))
            for name in names
        )
    )
)
numbers = (
    st.integers(-70, 70).map(str)
    | st.floats(-101, 101).map(lambda number: f"{number:.3f}")
    | st.sampled_from(
        ["", "", "", "-0", "0", "100", "-100", "5.", ".5", "-.5", "1_0", "1__0", "_", ".", "1.2.3"]
    )
)
bounds = st.tuples(numbers, st.sampled_from(["", "", "%", "%", "shard", "shards", "x"])).map(
    "".join
)
slices = st.lists(bounds, min_size=1, max_size=3).map(lambda parts: f"[{':'.join(parts)}]")
parts = st.tuples(
    st.sampled_from([*NAMES, "train", "train", "all", "missing", "", "tr.in"]),
    st.just("") | slices,
).map("".join)
specs = st.lists(parts, min_size=1, max_size=3).flatmap(
    lambda found: st.sampled_from(["+", " + ", "+ "]).map(lambda plus: plus.join(found))
)


@given(datasets, specs)
@example(FLOWERS, "train[:-0.1%]")
@example(FLOWERS, "train[-0.1%:]")
@example(FLOWERS, "train[:100.1%]")
@example(FLOWERS, "train[:5.%]")
@example(FLOWERS, "train[7shard:]")
@example(FLOWERS, "train[:7shard]")
@example(FLOWERS, "train[:-5shard]")
@example(FLOWERS, "train[:0shard]")
@example(FLOWERS, "train[-1shard]")
@example(FLOWERS, "train[10:50%]")
@example(FLOWERS, "train[1shard:50%]")
@example(FLOWERS, "train[50%:1shard]")
@example(FLOWERS, "train[5:3]")
@example(FLOWERS, " train")
@example(FLOWERS, "train +val")
@example(FLOWERS, "train[ :10%]")
@example(FLOWERS, "val+train+val")
@example(FLOWERS, "test[:50%]")
def test_a_spec_stands_for_the_records_that_tfds_reads(
    splits: tuple[SplitInfo, ...], spec: str
) -> None:
    assert filled(by_us(spec, splits)) == filled(by_tfds(spec, splits))


@given(st.text(alphabet="train[]:%+-. 0159shardl_", max_size=20))
def test_text_that_tfds_refuses_is_refused(spec: str) -> None:
    assert filled(by_us(spec, FLOWERS)) == filled(by_tfds(spec, FLOWERS))


@given(st.integers(1, 10_000), st.integers(0, 1000), st.integers(0, 1000))
def test_percentages_are_rounded_as_tfds_rounds_them(count: int, first: int, last: int) -> None:
    splits = (split("train", count),)
    spec = f"train[{first / 10}%:{last / 10}%]"
    assert filled(by_us(spec, splits)) == filled(by_tfds(spec, splits))


@given(st.integers(1, 1000), st.integers(1, 20))
def test_neighbouring_percentages_part_a_split_without_gaps(count: int, pieces: int) -> None:
    cuts = [100 * n / pieces for n in range(pieces + 1)]
    spec = "+".join(f"train[{first:.6f}%:{last:.6f}%]" for first, last in pairwise(cuts))
    numbers = [number for part in record_ranges(spec, (split("train", count),)) for number in part]
    assert numbers == list(range(count))


def test_all_is_every_split_in_order() -> None:
    assert record_ranges("all", FLOWERS) == [range(25), range(25, 32), range(32, 32)]


def test_all_of_a_dataset_without_splits_is_nothing() -> None:
    assert record_ranges("all", ()) == []


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("trian", "did you mean train? There is train, val, test"),
        ("TRAIN", "did you mean train? There is train, val, test"),
        ("validation", "there is train, val, test"),
        ("train+Test[:3]", "did you mean test? There is train, val, test"),
    ],
)
def test_a_split_that_is_not_there_is_answered_with_those_that_are(spec: str, hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        record_ranges(spec, FLOWERS)
    name = spec.rpartition("+")[2].partition("[")[0]
    assert str(caught.value) == f"there is no split {name!r}"
    assert caught.value.hint == hint


def test_a_slice_that_is_too_long_is_answered_with_what_there_is() -> None:
    with pytest.raises(UsageError) as caught:
        record_ranges("train[:26]", FLOWERS)
    assert str(caught.value) == "train[:26] is out of range"
    assert caught.value.hint == "train has 25 records in 3 shards"


@pytest.mark.parametrize("spec", ["", "train[5]", "train[5%]", "train[:]", "train[", "all[:5]", 0])
def test_what_names_no_records_is_answered_with_examples(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        record_ranges(spec, FLOWERS)
    assert str(caught.value) == f"{spec!r} is not a split"
    assert caught.value.hint == (
        "write train, train[:10%], train[100:200], train[2shard], train+val or all"
    )


def test_a_hint_does_not_list_thousands() -> None:
    names = [f"class_{number:04d}" for number in range(1000)]
    shown = ", ".join(names[:20])
    assert suggestion(names, "zebra") == f"there is {shown} and 980 more"
