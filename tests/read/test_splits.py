"""Split specs, compared with TFDS's own reading of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, chain, pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tensorflow_datasets.core import splits as tfds_splits

from imgrec.errors import ImgrecError, UnknownName, UsageError
from imgrec.outcome import SplitInfo
from imgrec.read.splits import cut, part_of, record_ranges
from imgrec.text import suggestion

NAMES = ("train", "val", "fold_0", "test-new")


def split(name: str, *lengths: int) -> SplitInfo:
    return SplitInfo(name=name, shard_lengths=lengths, num_bytes=0)


FLOWERS = (split("train", 10, 10, 5), split("val", 7), split("test", 0))


def by_tfds(spec: str, splits: Sequence[SplitInfo]) -> list[range] | None:
    """Return the records that TFDS selects, numbered as ours; None if it refuses the spec."""
    known = {
        one.name: tfds_splits.SplitInfo(
            name=one.name, shard_lengths=list(one.shard_lengths), num_bytes=0
        )
        for one in splits
    }
    starts = dict(zip(known, accumulate((s.examples for s in splits), initial=0), strict=False))
    try:
        parts = tfds_splits.AbstractSplit.from_spec(spec).to_absolute(known)
    except (ValueError, NotImplementedError):
        return None
    ranges = []
    for part in parts:
        start, count = starts[part.splitname], known[part.splitname].num_examples
        first, last = part.from_ or 0, count if part.to is None else part.to
        ranges.append(range(start + first, start + max(first, last)))
    return [records for records in ranges if records]


def by_us(spec: str, splits: Sequence[SplitInfo]) -> list[range] | None:
    try:
        return [records for records in record_ranges(spec, splits) if records]
    except ImgrecError:
        return None


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
units = st.sampled_from(["", "", "%", "%", "shard", "shards", "x"])
bounds = st.tuples(numbers, units).map("".join)
slices = st.lists(bounds, min_size=1, max_size=3).map(lambda parts: f"[{':'.join(parts)}]")
names = st.sampled_from([*NAMES, "train", "train", "all", "missing", "", "tr.in"])
parts = st.tuples(names, st.just("") | slices).map("".join)
specs = st.lists(parts, min_size=1, max_size=3).flatmap(
    lambda found: st.sampled_from(["+", " + ", "+ "]).map(lambda plus: plus.join(found))
)


@given(datasets, specs | st.text(alphabet="train[]:%+-. 0159shardl_", max_size=20))
def test_a_spec_selects_the_records_that_tfds_reads(
    splits: tuple[SplitInfo, ...], spec: str
) -> None:
    assert by_us(spec, splits) == by_tfds(spec, splits)


@pytest.mark.parametrize(
    "spec",
    [
        "train[:-0.1%]", "train[-0.1%:]", "train[:100.1%]", "train[:5.%]", "train[7shard:]",
        "train[:7shard]", "train[:-5shard]", "train[:0shard]", "train[-1shard]", "train[10:50%]",
        "train[1shard:50%]", "train[50%:1shard]", "train[5:3]", " train", "train +val",
        "train[ :10%]", "val+train+val", "test[:50%]",
    ],
)  # fmt: skip
def test_so_does_a_spec_at_the_edge(spec: str) -> None:
    assert by_us(spec, FLOWERS) == by_tfds(spec, FLOWERS)


@given(st.integers(1, 10_000), st.integers(0, 1000), st.integers(0, 1000))
def test_percentages_are_rounded_as_in_tfds(count: int, first: int, last: int) -> None:
    splits = (split("train", count),)
    spec = f"train[{first / 10}%:{last / 10}%]"
    assert by_us(spec, splits) == by_tfds(spec, splits)


@given(st.integers(1, 1000), st.integers(1, 20))
def test_adjacent_percentages_leave_no_gaps(count: int, pieces: int) -> None:
    cuts = [100 * n / pieces for n in range(pieces + 1)]
    spec = "+".join(f"train[{first:.6f}%:{last:.6f}%]" for first, last in pairwise(cuts))
    ranges = record_ranges(spec, (split("train", count),))
    assert list(chain.from_iterable(ranges)) == list(range(count))


def test_all_is_every_split_in_order() -> None:
    assert record_ranges("all", FLOWERS) == [range(25), range(25, 32), range(32, 32)]
    assert record_ranges("all", ()) == []


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("TRAIN", "did you mean train? There is train, val, test"),
        ("fold_0", "there is train, val, test"),
        ("train+Test[:3]", "did you mean test? There is train, val, test"),
    ],
)
def test_an_unknown_split_lists_the_known_ones(spec: str, hint: str) -> None:
    with pytest.raises(UnknownName) as caught:
        record_ranges(spec, FLOWERS)
    name = spec.rpartition("+")[2].partition("[")[0]
    assert str(caught.value) == f"there is no split {name!r}"
    assert caught.value.hint == hint


def test_a_slice_out_of_range_names_the_range() -> None:
    with pytest.raises(UsageError) as caught:
        record_ranges("train[:26]", FLOWERS)
    assert str(caught.value) == "train[:26] is out of range"
    assert caught.value.hint == "train has 25 records in 3 shards"


@pytest.mark.parametrize("spec", ["", "train[5]", "train[5%]", "train[:]", "train[", "all[:5]", 0])
def test_a_malformed_spec_is_answered_with_examples(spec: str) -> None:
    with pytest.raises(UsageError) as caught:
        record_ranges(spec, FLOWERS)
    assert str(caught.value) == f"{spec!r} is not a split"
    hint = "write train, train[:10%], train[100:200], train[2shard], train+val, all or 'not fold_0'"
    assert caught.value.hint == hint


FOLDED = (split("fold_0", 3), split("fold_1", 2), split("fold_2", 4), split("test", 5))


def test_not_a_fold_means_all_other_folds_and_no_other_split() -> None:
    assert record_ranges("not fold_1", FOLDED) == [range(3), range(5, 9)]
    assert record_ranges(" not  fold_0 ", FOLDED) == [range(3, 5), range(5, 9)]


@pytest.mark.parametrize("spec", ["not test", "not fold_3", "not train"])
def test_only_a_fold_can_be_left_out(spec: str) -> None:
    with pytest.raises(UnknownName, match=f"there is no fold '{spec[4:]}'"):
        record_ranges(spec, FOLDED)
    for malformed in ("not fold_0+test", "not fold_0[:1]", "notfold_0", "not fold_0+not fold_1"):
        with pytest.raises((UnknownName, UsageError)):
            record_ranges(malformed, FOLDED)


def test_train_of_a_dataset_in_folds_is_answered_with_what_to_write() -> None:
    with pytest.raises(UnknownName, match="there is no split 'train'") as caught:
        record_ranges("train", FOLDED)
    hint = "it was packed in 3 folds: write 'not fold_0' for all but one"
    assert caught.value.hint == hint


@given(st.lists(st.integers(0, 9), min_size=1, max_size=6), st.integers(1, 5))
def test_jobs_share_records_evenly_and_pieces_of_shards_hold_them(
    lengths: list[int], count: int
) -> None:
    starts = list(accumulate(lengths, initial=0))
    ranges = [range(a, b) for a, b in pairwise(starts)][::2]
    jobs = [part_of(ranges, index, count) for index in range(count)]
    records = [list(chain.from_iterable(job)) for job in jobs]
    assert list(chain.from_iterable(records)) == list(chain.from_iterable(ranges))
    assert max(map(len, records)) - min(map(len, records)) <= 1
    for job, expected in zip(jobs, records, strict=True):
        firsts = [(starts[shard] + skip, take) for shard, skip, take in cut(job, lengths)]
        assert [n for first, take in firsts for n in range(first, first + take)] == expected


def test_a_hint_does_not_list_thousands() -> None:
    shown = [f"class_{number:04d}" for number in range(1000)]
    expected = f"there is {', '.join(shown[:20])} and 980 more"
    assert suggestion(shown, "zebra") == expected


@pytest.mark.parametrize("name", ["val", "valid", "validation", "dev"])
def test_other_words_for_a_split_mean_the_one_that_exists(name: str) -> None:
    assert record_ranges(f"{name}[:2]+training[:1]", FLOWERS) == [range(25, 27), range(1)]
    assert record_ranges(name, (split("validation", 3),)) == [range(3)]
    own = (split("val", 4), split(name + "2", 1), split("dev", 3))
    assert record_ranges("dev", own) == [range(5, 8)]


def test_a_word_for_two_splits_is_refused() -> None:
    with pytest.raises(UnknownName, match="there is no split 'validation'"):
        record_ranges("validation", (split("val", 4), split("dev", 3)))
