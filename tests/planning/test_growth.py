"""The plan of the next version: what was there stays, what is new follows."""

from __future__ import annotations

from dataclasses import replace

from catalogs import catalog, fractions, sample, sample_lists, seeds, split_of
from hypothesis import given
from hypothesis import strategies as st

from imgrec.model import Plan, Sample, Samples, Stored
from imgrec.options import OnLeak, PackOptions
from imgrec.planning.build import make_plan
from imgrec.planning.growth import (
    EarlierRecords,
    EarlierShard,
    grow,
    match_records,
    records_key,
    remember,
    with_stored_images,
)


def records_of(plan: Plan, samples: list[Sample]) -> EarlierRecords:
    """What a version packed by this plan knows; the content of a file is its hash."""
    by_name = {made.filename: made for made in samples}
    names = [name for task in plan.tasks for name in task.samples.filenames]
    hashes = [by_name[name].content for name in names]
    shards, row = [], 0
    for task in plan.tasks:
        shards.append(EarlierShard(task.split, task.filename, range(row, row + len(task.samples))))
        row = shards[-1].rows.stop
    return EarlierRecords(
        fingerprint=plan.fingerprint,
        classes=plan.classes,
        shards=tuple(shards),
        samples=Samples(
            filenames=tuple(names),
            splits=tuple(task.split for task in plan.tasks for _ in task.samples.filenames),
            sizes=tuple(by_name[name].size for name in names),
            contents=tuple(hashes),
            blobs=tuple(Stored("/old", row, "JPEG", found) for row, found in enumerate(hashes)),
            labels=tuple(label for task in plan.tasks for label in task.samples.labels),
        ),
    )


def grown(records: EarlierRecords, samples: list[Sample], options: PackOptions) -> Plan:
    hashes = [made.content for made in samples]
    known = remember(catalog(samples), records, hashes, OnLeak.REPORT)
    known = known._replace(catalog=with_stored_images(known, records))
    return grow(known, records, options)


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[Sample], list[Sample], PackOptions]:
    """A source, the same source later, and options."""
    pool = draw(sample_lists(3))
    old = draw(st.lists(st.sampled_from(pool), min_size=1, unique=True))
    later = draw(st.lists(st.sampled_from(pool), min_size=1, unique=True))
    options = PackOptions(val_split=draw(fractions), seed=draw(seeds), shard_size=20_000)
    return old, later, options


@given(histories())
def test_a_known_image_keeps_split_and_order_and_every_image_is_packed_once(
    history: tuple[list[Sample], list[Sample], PackOptions],
) -> None:
    old, later, options = history
    first = make_plan(catalog(old), options)
    plan = grown(records_of(first, old), later, options)
    before, after = split_of(first), split_of(plan)
    assert sorted(after) == sorted(made.filename for made in later)
    for name in before.keys() & after.keys():
        assert after[name] == before[name]
    stayed = [name for task in plan.tasks for name in task.samples.filenames if name in before]
    assert stayed == [name for name in before if name in after]
    contents = {made.filename: made.content for made in later}
    homes: dict[bytes, set[str]] = {}
    for name, split in after.items():
        homes.setdefault(contents[name], set()).add(split)
    assert all(len(splits) == 1 for splits in homes.values())


@given(histories())
def test_only_tasks_whose_images_changed_have_other_keys(
    history: tuple[list[Sample], list[Sample], PackOptions],
) -> None:
    old, later, options = history
    first = make_plan(catalog(old), options)
    records = records_of(first, old)
    keys = {
        task.samples.filenames: records_key(
            replace(task.samples, blobs=records.samples.blobs[shard.rows.start : shard.rows.stop])
        )
        for task, shard in zip(first.tasks, records.shards, strict=True)
    }
    plan = grown(records, later, options)
    found = {records_key(task.samples) for task in plan.tasks}
    later_names = {made.filename for made in later}
    if first.classes == plan.classes:
        for names, key in keys.items():
            assert (key in found) == later_names.issuperset(names)
    assert {task.samples.filenames for task in grown(records, old, options).tasks} == keys.keys()


@given(histories())
def test_the_order_of_the_catalog_does_not_matter(
    history: tuple[list[Sample], list[Sample], PackOptions],
) -> None:
    old, later, options = history
    records = records_of(make_plan(catalog(old), options), old)
    shuffled = sorted(later, key=lambda made: made.content)
    assert grown(records, shuffled, options) == grown(records, later, options)


@given(histories())
def test_new_images_get_the_splits_of_split_from(
    history: tuple[list[Sample], list[Sample], PackOptions],
) -> None:
    old, later, options = history
    records = records_of(make_plan(catalog(old), options), old)
    homes = records.homes()
    made = catalog(later)
    pins = tuple(homes.get(one.content, "") for one in later)
    split_from = replace(
        made,
        samples=replace(made.samples, pinned=pins),
        earlier_classes=records.classes,
    )
    assert split_of(grown(records, later, options)) == split_of(make_plan(split_from, options))


OLD = [sample(f"{n}", "ash", n) for n in range(6)]
RECORDS = records_of(make_plan(catalog(OLD), PackOptions()), OLD)
CONTENTS = RECORDS.samples.contents


def test_a_renamed_file_is_matched_by_its_content_and_a_changed_one_by_its_name() -> None:
    names = [*RECORDS.samples.filenames]
    renamed = ["birch/new.jpg", *names[1:]]
    changed = [CONTENTS[0], b"other", *CONTENTS[2:]]
    assert match_records(RECORDS, renamed, CONTENTS)[0] == 0
    assert match_records(RECORDS, names, changed)[1] == 1
    # An old content under a new name takes the row with it, even if its name has another now.
    both = match_records(RECORDS, [*names, "ash/new.jpg"], [b"other", *CONTENTS[1:], CONTENTS[0]])
    assert both[len(names)] == 0
    assert 0 not in both


def test_a_copy_of_a_known_image_is_new() -> None:
    names = [*RECORDS.samples.filenames, "ash/copy.jpg"]
    assert len(names) - 1 not in match_records(RECORDS, names, [*CONTENTS, CONTENTS[0]])
