"""`imgrec plan`: show what pack would do."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_pack_options, pack_options
from imgrec.cli.parser import VERBS
from imgrec.cli.twice import twice_json, twice_lines
from imgrec.cli.workers import working
from imgrec.model import UNLABELLED

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.model import Plan, ShardTask

_ROWS = 3
_ALL = "pack lists all in report.json"
_EXAMPLES = """\
examples:
  imgrec plan ./flowers --val-split 0.1
  imgrec plan train.csv --json
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "plan",
        help=VERBS["plan"],
        description="Show what pack would do with the same options, writing nothing. If pack would "
        "refuse the source, the exit code is the one that pack would have.",
        epilog=_EXAMPLES,
    )
    add_pack_options(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Plan, and print the plan."""
    options = pack_options(parsed)
    with working(parsed) as workers:
        from imgrec import api  # while the workers start

        plan = api.dry_run(
            parsed.source, options, engine=workers.engine, on_progress=workers.progress
        )
    print(render.as_json(as_value(plan)) if parsed.json else as_text(plan))
    return plan.refused_with


def _splits(plan: Plan) -> list[tuple[str, int, int, int]]:
    """Return name, images, shards and source bytes of each split."""
    images: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    for task in plan.tasks:
        images[task.split] += len(task.samples.filenames)
        sizes[task.split] += sum(task.samples.sizes)
    shards = Counter(task.split for task in plan.tasks)
    return [(split, images[split], shards[split], sizes[split]) for split in images]


def as_value(plan: Plan) -> dict[str, object]:
    """Return the plan as a JSON value."""
    return {
        "name": plan.name,
        "version": plan.version,
        "fingerprint": plan.fingerprint,
        "layout": plan.layout,
        "classes": list(plan.classes),
        "splits": {
            split: {"examples": images, "bytes": total, "shards": shards}
            for split, images, shards, total in _splits(plan)
        },
        "skipped": render.skipped_json(plan.skipped),
        "ignored": sum(kind.count for kind in plan.ignored),
        **twice_json(plan),
        **({"resize": plan.shrink_to.deciding()} if plan.shrink_to else {}),
        **_storage(plan),
        "warnings": list(plan.warnings),
    }


def _class_lines(plan: Plan, splits: Sequence[str]) -> Iterator[str]:
    counts: Counter[tuple[str, int]] = Counter()
    for task in plan.tasks:
        for labels in task.samples.label_sets or (task.samples.labels,):
            counts.update((task.split, label) for label in labels)
    for label, name in enumerate(plan.classes):
        shares = ", ".join(f"{counts[split, label]:,} {split}" for split in splits)
        yield render.line(f"  {label}", f"{name}: {shares}")
    bare = ", ".join(f"{counts[s, UNLABELLED]:,} {s}" for s in splits if counts[s, UNLABELLED])
    if bare:
        yield render.line(f"  {UNLABELLED}", f"without a label: {bare}")


def _resize_lines(plan: Plan) -> Iterator[str]:
    """Say what is to be shrunk; which images that are, only their pixels tell."""
    if plan.shrink_to:
        how = f"larger images to {render.side(plan.options)}, JPEGs of quality"
        yield render.line("resize", f"{how} {plan.shrink_to.quality}")


def _storage(plan: Plan) -> dict[str, object]:
    """Return what is unusual about the files that pack would write."""
    return {name: plan.options[name] for name in ("compression", "also") if name in plan.options}


def _storage_lines(plan: Plan) -> Iterator[str]:
    match _storage(plan):
        case {"compression": compression}:
            yield render.line("compression", f"{compression}; TFDS cannot read such shards")
        case {"also": [*formats]}:
            yield render.line("also", ", ".join(map(str, formats)))


def _first_rows(plan: Plan) -> Iterator[str]:
    """Show some of the first records of each split."""
    rows = [
        f"{task.split}  {task.samples.filenames[place]}  {_labels(plan, task, place)}"
        for task in plan.tasks
        if task.index == 0
        for place in range(min(_ROWS, len(task.samples.filenames)))
    ]
    for number, row in enumerate(rows):
        yield render.line("" if number else "first rows", row)


def _labels(plan: Plan, task: ShardTask, place: int) -> str:
    labels = (
        task.samples.label_sets[place] if task.samples.label_sets else (task.samples.labels[place],)
    )
    names = [plan.classes[label] for label in labels if label != UNLABELLED]
    extras = [f"{column.name}={column.values[place]}" for column in task.samples.columns]
    return "  ".join([" ".join(names) or "no label", *extras])


def as_text(plan: Plan) -> str:
    """Return the plan for people."""
    splits = _splits(plan)
    lines = [
        f"{plan.name} {plan.version}: {render.number(plan.planned, 'image')} to pack",
        *render.lines("layout", plan.layout),
        *render.split_lines(splits),
        render.line("classes", render.number(len(plan.classes), "class", "classes")),
        *_class_lines(plan, [split for split, *_ in splits]),
        *render.said_lines("skipped", plan.skipped, _ALL),
        *render.ignored_lines(plan.ignored),
        *twice_lines(plan, _ALL),
        *_resize_lines(plan),
        *_storage_lines(plan),
        *(render.line("warning", warning) for warning in plan.warnings),
        *_first_rows(plan),
        "Nothing was written; images are checked when they are packed.",
    ]
    return "\n".join(lines)
