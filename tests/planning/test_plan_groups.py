"""Groups that stay together: units, `--group-by`, and splits dealt out group by group."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import pytest
from catalogs import catalog, fractions, grouped, sample, split_of
from hypothesis import example, given
from hypothesis import strategies as st

from imgrec.errors import PlanError, UsageError
from imgrec.model import TRAIN, VAL, Plan, Sample
from imgrec.options import PackOptions, SourceOptions
from imgrec.planning.build import make_plan
from imgrec.planning.groups import deal

Units = dict[int, Counter[int]]


@st.composite
def small_groups(draw: st.DrawFn, fraction: float) -> Units:
    """Groups of one class each, of which many fit into what any split gets of that class."""
    units: Units = {}
    for label in range(draw(st.integers(1, 6))):
        sizes = draw(st.lists(st.integers(1, 6), min_size=int(20 / fraction), max_size=200))
        units |= {1000 * label + n: Counter({label: size}) for n, size in enumerate(sizes)}
    order = draw(st.permutations(sorted(units)))
    return {unit: units[unit] for unit in order}


def counted(units: Units, splits: dict[int, str]) -> dict[str, Counter[int]]:
    found: dict[str, Counter[int]] = defaultdict(Counter)
    for unit, split in splits.items():
        found[split].update(units[unit])
    return found


def largest(units: Units) -> int:
    return max(labels.total() for labels in units.values())


@given(st.data(), st.sampled_from([0.1, 0.2, 0.5]))
def test_small_groups_leave_each_class_within_one_group_of_the_fraction(
    data: st.DataObject, fraction: float
) -> None:
    units = data.draw(small_groups(fraction))
    found = counted(units, deal(units, {}, PackOptions(val_split=fraction)))
    totals = found[TRAIN] + found[VAL]
    for label, total in totals.items():
        assert abs(found[VAL][label] - fraction * total) <= largest(units)


labels = st.dictionaries(st.integers(0, 4), st.integers(1, 30), min_size=1, max_size=5)
shared = st.lists(labels, min_size=2, max_size=40).map(lambda units: [*units, *units])
"""Groups of any labels, each of which is in two groups at least."""


@given(shared, fractions)
@example([{label % 100: 5} for label in range(400)], 0.1)
@example([{label // 3: 1} for label in range(300)], 0.1)
@example([{0: 200}, *({0: 1} for _ in range(50))], 0.1)
def test_val_misses_its_fraction_of_all_images_by_no_more_than_the_largest_group(
    unit_labels: list[dict[int, int]], fraction: float
) -> None:
    units = {unit: Counter(labels) for unit, labels in enumerate(unit_labels)}
    found = counted(units, deal(units, {}, PackOptions(val_split=fraction)))
    total = found[TRAIN].total() + found[VAL].total()
    assert abs(found[VAL].total() - fraction * total) <= largest(units)


@given(shared, fractions, fractions)
def test_no_split_is_empty_if_there_are_enough_groups(
    unit_labels: list[dict[int, int]], val: float, test: float
) -> None:
    units = {unit: Counter(labels) for unit, labels in enumerate(unit_labels)}
    options = PackOptions(val_split=0.9 * val, test_split=0.9 * test)
    assert set(deal(units, {}, options).values()) == {"train", "val", "test"}


@given(st.lists(labels, min_size=1, max_size=20), fractions, fractions)
def test_a_group_with_all_images_of_its_classes_is_train(
    unit_labels: list[dict[int, int]], val: float, test: float
) -> None:
    units = {unit: Counter(labels) for unit, labels in enumerate(unit_labels)}
    uses = Counter(label for labels in unit_labels for label in labels)
    options = PackOptions(val_split=0.9 * val, test_split=0.9 * test)
    splits = deal(units, {}, options)
    for unit, labels in units.items():
        if all(uses[label] == 1 for label in labels):
            assert splits[unit] == "train"


def test_a_class_too_rare_for_the_fraction_is_in_val_all_the_same() -> None:
    units = {unit: Counter({0: 1}) for unit in range(200)}
    units |= {200 + unit: Counter({1: 1}) for unit in range(4)}
    found = counted(units, deal(units, {}, PackOptions(val_split=0.1)))
    assert found["val"][1] == 1


def test_val_gets_groups_of_all_sizes() -> None:
    units = {unit: Counter({0: 1 + unit % 20}) for unit in range(400)}
    splits = deal(units, {}, PackOptions(val_split=0.1))
    sizes = [units[unit].total() for unit, split in splits.items() if split == "val"]
    assert 8 < sum(sizes) / len(sizes) < 13  # all have 10.5 on average
    assert min(sizes) < 5
    assert max(sizes) > 16


PATIENTS = [sample(f"p{n // 3}_{n}", "ash" if n % 2 else "birch", n) for n in range(30)]


def plan_by(group_by: str, samples: Sequence[Sample] = PATIENTS, **options: object) -> Plan:
    source = SourceOptions(group_by=group_by)
    return make_plan(catalog(samples), PackOptions(source=source, **options))  # type: ignore[arg-type]


@pytest.mark.parametrize("pattern", [r"/(?P<group>p\d+)_", r"/(p\d+)_", r"p\d+(?=_)"])
def test_groups_are_found_in_paths(pattern: str) -> None:
    splits = split_of(plan_by(pattern, val_split=0.3))
    homes = defaultdict(set)
    for filename, split in splits.items():
        homes[filename.split("/")[1].split("_")[0]].add(split)
    assert len(homes) == 10
    assert all(len(found) == 1 for found in homes.values())
    assert set(splits.values()) == {"train", "val"}


def test_a_pattern_that_matches_nothing_is_an_error_that_shows_paths() -> None:
    with pytest.raises(PlanError) as caught:
        plan_by("patient")
    assert str(caught.value) == "--group-by 'patient' matches no file of the source"
    assert caught.value.hint == "it is searched for in paths such as ash/p0_1.jpg, ash/p1_3.jpg"


def test_a_pattern_that_is_none_is_refused() -> None:
    with pytest.raises(UsageError, match=r"group_by '\(' is not a regular expression"):
        SourceOptions(group_by="(")


def test_images_in_no_group_are_counted() -> None:
    stray = sample("stray", "ash", 99)
    assert plan_by(r"p\d+", [*PATIENTS, stray]).warnings == (
        "1 image is in no group by --group-by, such as ash/stray.jpg",
    )


def test_groups_by_path_and_groups_of_the_source_do_not_mix() -> None:
    made = grouped(PATIENTS, ["x"] * len(PATIENTS))
    with pytest.raises(PlanError, match="has groups of its own"):
        make_plan(made, PackOptions(source=SourceOptions(group_by="p")))


def test_a_group_in_two_splits_of_the_source_is_named() -> None:
    rows = [
        (sample("1", "ash", 1, "train"), "p1"),
        (sample("2", "ash", 2, "test"), "p1"),
        (sample("3", "ash", 3, "train"), "p2"),
        (sample("4", "ash", 4, "test"), "p3"),
    ]
    assert make_plan(grouped(*zip(*rows, strict=True)), PackOptions()).warnings == (
        "groups that the source has in more than one split: p1",
    )


def test_a_group_that_the_source_has_in_test_is_not_parted_once_more() -> None:
    rows = [(sample(f"{n}", "ash", n, "train"), f"p{n // 4}") for n in range(40)]
    rows += [(sample(f"{n}", "ash", n, "test"), f"p{n - 100}") for n in range(100, 105)]
    splits = split_of(make_plan(grouped(*zip(*rows, strict=True)), PackOptions(val_split=0.3)))
    parted = {row.filename for row, group in rows if group in {f"p{n}" for n in range(5)}}
    assert {splits[name] for name in parted} == {"train", "test"}
    assert "val" in splits.values()
