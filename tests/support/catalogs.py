"""Catalogs made up for planning, with no files behind them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from hypothesis import strategies as st

from imgrec.model import Catalog, Plan, Sample, Samples, SourceLayout
from imgrec.options import PackOptions, SourceKind

CLASSES = ("ash", "birch", "2", "10")
FOLDERS = SourceLayout(kind=SourceKind.FOLDER, sentence="<class>/**/image", class_depth=1)


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
            "layout": FOLDERS,
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
seeds = st.integers(0, 3)


def split_of(plan: Plan) -> dict[str, str]:
    """Return the split of each file."""
    return {name: task.split for task in plan.tasks for name in task.samples.filenames}


def with_columns(made: Catalog, **columns: object) -> Catalog:
    return replace(made, samples=replace(made.samples, **columns))  # type: ignore[arg-type]


def grouped(samples: Iterable[Sample], groups: Iterable[str]) -> Catalog:
    return with_columns(catalog(samples), groups=tuple(groups))


def pinned(samples: Sequence[Sample], pins: Mapping[str, str]) -> Catalog:
    pins_of = tuple(pins.get(made.filename, "") for made in samples)
    return with_columns(catalog(samples), pinned=pins_of)


def labelled(
    sets: Sequence[AbstractSet[str]], contents: Sequence[int] = (), groups: Sequence[str] = ()
) -> Catalog:
    """Make a catalog of images with several labels each."""
    numbers = contents or range(len(sets))
    names = sorted({*CLASSES, *(name for labels in sets for name in labels)})
    made = catalog(
        [sample(f"{n:04d}", "all", content) for n, content in enumerate(numbers)],
        class_folders=dict.fromkeys(names, ("t.csv",)),
    )
    return with_columns(
        made,
        class_names=tuple(min(labels, default="") for labels in sets),
        class_sets=tuple(tuple(sorted(labels, reverse=True)) for labels in sets),
        groups=tuple(groups),
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[Catalog, PackOptions]:
    """Any catalog with copies, and perhaps groups, pins and several labels; and fitting options."""
    made = catalog(draw(sample_lists()))
    count = len(made.samples)

    def column(values: st.SearchStrategy[object]) -> tuple[object, ...]:
        return tuple(draw(st.lists(values, min_size=count, max_size=count)))

    folds = draw(st.sampled_from([0, 0, 2, 3]))
    if draw(st.booleans()):
        made = with_columns(made, groups=column(st.sampled_from(["", *"pqrstuvw"])))
    if draw(st.booleans()):
        pins = ["", "test"] if folds else ["", "", "train", "val", "test"]
        made = with_columns(made, pinned=column(st.sampled_from(pins)))
    if draw(st.booleans()):
        sets = column(st.sets(st.sampled_from(CLASSES)).map(sorted).map(tuple))
        firsts = tuple(names[0] if names else "" for names in sets)  # type: ignore[index]
        folders = dict.fromkeys(CLASSES, ("t.csv",))
        made = replace(
            with_columns(made, class_sets=sets, class_names=firsts), class_folders=folders
        )
    val, test = (0.9 * draw(fractions) for _ in "vt")
    options = {"folds": folds} if folds else {"val_split": val, "test_split": test}
    return made, PackOptions(**options, seed=draw(seeds), shard_size=20_000)  # type: ignore[arg-type]
