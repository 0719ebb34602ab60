"""`imgrec diff`: show how two datasets differ."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.cli.arguments import data_dir
from imgrec.cli.parser import argument, verb
from imgrec.cli.render import class_names, emit, line, lines, pick
from imgrec.text import number, visible

if TYPE_CHECKING:
    from imgrec.inspect.diff import Difference, Image, Pair

_SHOWN = 10
_FIELDS = (
    "before after added removed changed renamed relabelled relabellings moved "
    "classes_added classes_removed classes_renumbered columns options sheet"
)


@verb(
    (
        "imgrec diff flowers                  the latest version with the one before",
        "imgrec diff flowers:1.0.0 flowers:2.0.0 -o sheet.png",
    ),
    (
        argument("before", "DATASET", "a name, name:version, or a path at any level"),
        argument(
            "after",
            "DATASET",
            "the dataset to compare it with; default: compare the first with its version before",
            nargs="?",
        ),
        data_dir(),
        argument("-o", "FILE", "draw images that differ there", dest="sheet"),
    ),
)
def diff(parsed: Namespace) -> int:
    """Show which images, labels, splits, classes and options of two datasets differ.

    The tables of samples are compared, and no shard is read. The exit code is 1 if the datasets
    differ.
    """
    from imgrec import api

    found = api.diff(parsed.before, parsed.after, data_dir=parsed.data_dir, sheet=parsed.sheet)
    emit(parsed, difference_value(found), difference_lines(found))
    if parsed.sheet and not found.sheet:
        note = f"{parsed.sheet} was not written: there are no images to draw"
        print(visible(note), file=sys.stderr)
    return 1 if found.is_different else 0


def difference_value(found: Difference) -> dict[str, object]:
    """Return a difference for JSON."""
    own = pick(found, _FIELDS)
    versions = {
        side: pick(own[side], "name version path fingerprint images classes splits")
        for side in ("before", "after")
    }
    return {"different": found.is_different, "counts": found.counts, **own, **versions}


def difference_lines(found: Difference) -> Iterator[str]:
    """Yield a difference as text: counts first, then a bounded list of each kind."""
    old, new = found.before, found.after
    yield visible(f"{old.title} -> {new.title}")
    kinds = ", ".join(f"{count:,} {kind}" for kind, count in found.counts.items() if count)
    yield line("images", f"{_change(old.images, new.images)}{': ' if kinds else ''}{kinds}")
    for split in {**new.splits, **old.splits}:
        yield line(split, _change(old.splits.get(split, 0), new.splits.get(split, 0)))
    yield from _class_lines(found)
    columns = [
        f"{name}: {number(images, 'image')} with another value" for name, images in found.columns
    ]
    yield from _listed("columns", columns[:_SHOWN], len(columns))
    yield from _option_lines(found)
    for kind, images in (("added", found.added), ("removed", found.removed)):
        yield from _listed(kind, [_image(one) for one in images[:_SHOWN]], len(images))
    names = [pair.after.filename for pair in found.changed[:_SHOWN]]
    yield from _listed("changed", names, len(found.changed))
    yield from _listed("renamed", _arrows(found.renamed, "filename"), len(found.renamed))
    yield from _relabelled_lines(found)
    moved = _arrows(found.moved, "split")
    yield from _listed("moved", _named(found.moved, moved), len(found.moved))
    if found.sheet:
        yield line("sheet", found.sheet)
    if not found.is_different:
        yield "the same images, labels, splits, classes, columns and options"


def _change(before: int, after: int) -> str:
    return f"{before:,}" if before == after else f"{before:,} -> {after:,}"


def _class_lines(found: Difference) -> Iterator[str]:
    yield line("classes", _change(found.before.classes, found.after.classes))
    if found.classes_added:
        yield line("", f"added {class_names(found.classes_added)}")
    if found.classes_removed:
        yield line("", f"removed {class_names(found.classes_removed)}")
    renumbered = [f"{name} {old} -> {new}" for name, old, new in found.classes_renumbered]
    if renumbered:
        yield line("", f"renumbered {class_names(renumbered)}")


def _option_lines(found: Difference) -> Iterator[str]:
    if found.options is None:
        yield line("options", "unknown: a report.json cannot be read")
        return
    values = [
        f"{name}: {_value(before)} -> {_value(after)}" for name, before, after in found.options
    ]
    yield from _listed("options", values[:_SHOWN], len(values))


def _value(value: object) -> str:
    return "not given" if value is None else str(value)


def _relabelled_lines(found: Difference) -> Iterator[str]:
    rows = [
        f"{number(images, 'image')} {_labels(before)} -> {_labels(after)}"
        for before, after, images in found.relabellings
    ]
    yield from _listed("relabelled", rows[:_SHOWN], len(rows))
    changes = [
        f"{_labels(pair.before.labels)} -> {_labels(pair.after.labels)}"
        for pair in found.relabelled[:_SHOWN]
    ]
    yield from _listed("", _named(found.relabelled, changes), len(found.relabelled))


def _listed(title: str, shown: Sequence[str], total: int) -> list[str]:
    more = [f"… and {total - len(shown):,} more: --json lists all"] if total > len(shown) else []
    return lines(title, [*shown, *more])


def _image(image: Image) -> str:
    return f"{image.split} {image.filename} [{' '.join(image.labels)}]"


def _named(pairs: Sequence[Pair], changes: Sequence[str]) -> list[str]:
    """Prefix changes with the names of their images."""
    return [
        f"{pair.after.filename}: {change}" for pair, change in zip(pairs, changes, strict=False)
    ]


def _arrows(pairs: Sequence[Pair], name: str) -> list[str]:
    return [
        f"{getattr(before, name)} -> {getattr(after, name)}" for before, after in pairs[:_SHOWN]
    ]


def _labels(names: Sequence[str]) -> str:
    return ", ".join(names) or "no label"
