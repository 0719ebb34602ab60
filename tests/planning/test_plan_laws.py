"""The laws of the plan, held for all catalogs."""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from dataclasses import replace

from catalogs import cases, catalog, fractions, sample, sample_lists, seeds, split_of
from hypothesis import assume, example, given
from hypothesis import strategies as st

from imgrec.errors import PlanError
from imgrec.model import Catalog, Plan, Sample, Samples
from imgrec.options import OnLeak, PackOptions
from imgrec.planning.build import make_plan

Case = tuple[Catalog, PackOptions]


def planned(made: Catalog, options: PackOptions) -> Plan:
    """Plan a catalog; pass over one with too few images for its folds."""
    try:
        return make_plan(made, options)
    except PlanError as error:
        assume("folds cannot be made of" not in str(error))
        raise


def label_of(plan: Plan) -> dict[str, int]:
    return {
        name: label
        for task in plan.tasks
        for name, label in zip(task.samples.filenames, task.samples.labels, strict=True)
    }


def units_of(samples: Samples) -> list[list[int]]:
    """Join what shares a content or a group, the slow and obvious way."""
    units: list[tuple[list[int], set[object]]] = []
    groups = samples.groups or [""] * len(samples)
    for place, keys in enumerate(zip(samples.contents, groups, strict=True)):
        places, ties = [place], {*keys} - {""}
        for other in [other for other in units if other[1] & ties]:
            places, ties = [*places, *other[0]], ties | other[1]
            units.remove(other)
        units.append((places, ties))
    return [places for places, _ in units]


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_the_catalog_does_not_change_the_plan(
    case: Case, chance: random.Random
) -> None:
    made, options = case
    order = list(range(len(made.samples)))
    chance.shuffle(order)
    shuffled = replace(made, samples=made.samples.pick(order))
    assert planned(shuffled, options) == planned(made, options)


@given(cases())
def test_every_sample_is_in_exactly_one_shard_and_pinned_ones_stay(case: Case) -> None:
    made, options = case
    plan = planned(made, options)
    placed = [name for task in plan.tasks for name in task.samples.filenames]
    assert sorted(placed) == sorted(made.samples.filenames)
    splits = split_of(plan)
    for name, pin in zip(made.samples.filenames, made.samples.pinned, strict=False):
        assert pin in ("", splits[name])


@given(cases())
def test_copies_and_groups_are_never_on_both_sides_of_a_split(case: Case) -> None:
    made, options = case
    plan = planned(made, options)
    names, splits = made.samples.filenames, split_of(plan)
    pins = made.samples.pinned or [""] * len(names)
    for unit in units_of(made.samples):
        free = {splits[names[place]] for place in unit if not pins[place]}
        assert len(free) <= 1
        assert free <= {pins[place] for place in unit} or not any(pins[place] for place in unit)
    if not made.samples.pinned:
        assert plan.leaks == ()
        assert not [warning for warning in plan.warnings if warning.startswith("groups")]


def test_the_seed_changes_the_splits() -> None:
    made = catalog([sample(f"{n:03d}", "ash", n) for n in range(60)])
    for options in ({"val_split": 0.2}, {"folds": 3}):
        plans = [make_plan(made, PackOptions(**options, seed=seed)) for seed in range(2)]  # type: ignore[arg-type]
        assert split_of(plans[0]) != split_of(plans[1])


@given(sample_lists(), fractions)
def test_each_class_gives_the_rounded_fraction_of_its_images_to_val(
    samples: list[Sample], fraction: float
) -> None:
    plan = make_plan(catalog(samples), PackOptions(val_split=fraction))
    labels, splits = label_of(plan), split_of(plan)
    home: dict[bytes, int] = {}  # an image under two labels counts for the smaller
    for made in samples:
        label = labels[made.filename]
        home[made.content] = min(home.get(made.content, label), label)
    in_val = {made.content for made in samples if splits[made.filename] == "val"}
    for label, count in Counter(home.values()).items():
        held_out = sum(home[content] == label for content in in_val)
        expected = min(max(round(count * fraction), 1), count - 1)
        assert held_out == expected


@given(sample_lists(distinct=True), fractions, seeds)
@example([sample(f"{i}", "ash", i) for i in range(4)], 0.1, 0)
def test_one_image_more_moves_at_most_one_other_of_its_own_class(
    samples: list[Sample], fraction: float, seed: int
) -> None:
    options = PackOptions(val_split=fraction, seed=seed)
    before = split_of(make_plan(catalog(samples[:-1]), options)) if len(samples) > 1 else {}
    after = split_of(make_plan(catalog(samples), options))
    moved = [name for name, split in before.items() if after[name] != split]
    assert len(moved) <= 1
    assert {name.split("/")[0] for name in moved} <= {samples[-1].class_name}


@given(sample_lists(2), fractions, seeds)
def test_one_copy_more_of_an_image_in_its_class_moves_nothing(
    samples: list[Sample], fraction: float, seed: int
) -> None:
    options = PackOptions(val_split=fraction, seed=seed)
    before = split_of(make_plan(catalog(samples), options))
    twin = samples[0]._replace(filename=f"{samples[0].class_name}/000 copy.jpg")
    after = split_of(make_plan(catalog([*samples, twin]), options))
    assert {name: after[name] for name in before} == before
    assert after[twin.filename] == before[samples[0].filename]


@given(sample_lists(distinct=True), fractions)
def test_a_renamed_image_stays_in_its_split(samples: list[Sample], fraction: float) -> None:
    options = PackOptions(val_split=fraction)
    before = split_of(make_plan(catalog(samples), options))
    old = samples[0]
    renamed = old._replace(filename=f"{old.class_name}/renamed.jpg")
    after = split_of(make_plan(catalog([renamed, *samples[1:]]), options))
    assert after.pop(renamed.filename) == before.pop(old.filename)
    assert after == before


@given(sample_lists(distinct=True), fractions)
def test_a_new_class_keeps_every_other_sample_in_its_split(
    samples: list[Sample], fraction: float
) -> None:
    options = PackOptions(val_split=fraction)
    before = split_of(make_plan(catalog(samples), options))
    more = [sample(f"{number}", "oak", 10_000 + number) for number in range(5)]
    after = split_of(make_plan(catalog([*samples, *more]), options))
    assert {name: after[name] for name in before} == before


@given(sample_lists(), st.integers(500, 30_000))
def test_no_shard_is_larger_than_asked_unless_one_record_is(
    samples: list[Sample], shard_bytes: int
) -> None:
    plan = make_plan(catalog(samples), PackOptions(shard_size=shard_bytes))
    for task in plan.tasks:
        assert task.expected_bytes <= shard_bytes or len(task.samples.filenames) == 1


@given(sample_lists(4), st.integers(1, 4))
def test_a_number_of_shards_is_honoured_exactly(samples: list[Sample], count: int) -> None:
    plan = make_plan(catalog(samples), PackOptions(shards=count))
    assert len(plan.tasks) == count
    assert all(task.samples.filenames for task in plan.tasks)


@given(sample_lists())
def test_the_fingerprint_changes_with_any_sample(samples: list[Sample]) -> None:
    options = PackOptions()
    first = make_plan(catalog(samples), options).fingerprint
    changed = samples[0]._replace(content=bytes(16))
    assert make_plan(catalog([changed, *samples[1:]]), options).fingerprint != first


@given(
    sample_lists(), st.lists(st.sampled_from(["train", "val", "test"]), min_size=60, max_size=60)
)
def test_dropping_leaks_leaves_no_image_in_two_splits_and_loses_none(
    samples: list[Sample], given_splits: list[str]
) -> None:
    placed = [
        made._replace(split=split) for made, split in zip(samples, given_splits, strict=False)
    ]
    plan = make_plan(catalog(placed), PackOptions(on_leak=OnLeak.DROP))
    splits = split_of(plan)
    where = defaultdict(set)
    for made in placed:
        if made.filename in splits:
            where[made.content].add(splits[made.filename])
    assert all(len(found) == 1 for found in where.values())
    assert set(where) == {made.content for made in placed}
    left_out = {skipped.filename for skipped in plan.left_out}
    assert left_out | set(splits) == {made.filename for made in placed}
    assert left_out & set(splits) == set()
