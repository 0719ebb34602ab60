"""Values as text for people, and as JSON for programs."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from imgrec.cli.terminal import Terminal
from imgrec.text import number as text_number
from imgrec.text import printable, visible, without_line
from imgrec.text import size as text_size

if TYPE_CHECKING:
    from imgrec.notes import Ignored, Note
    from imgrec.outcome import DatasetInfo, Report, SplitInfo

_WIDTH = 12
_SHOWN = 3
_REASONS = 8
_NAME = 40
"""How many cells the name of a class may take among others."""


def safe(text: str) -> str:
    """Return text that a terminal shows as it is: control characters become escapes."""
    return visible(text)


def line(title: str, text: str) -> str:
    """Return one line of a summary, with its title in the left column."""
    return safe(f"{title:<{_WIDTH}}{text}")


def lines(title: str, text: str) -> list[str]:
    """Return the lines of a text, the first with its title in the left column."""
    return [line("" if at else title, part) for at, part in enumerate(text.split("\n"))]


def size(count: int) -> str:
    """Return a number of bytes as people say it.

    >>> size(1536)
    '1.5 KiB'
    """
    return text_size(count)


def number(count: int, singular: str, plural: str = "") -> str:
    """Return a count with its noun.

    >>> number(1, "class", "classes"), number(2000, "image")
    ('1 class', '2,000 images')
    """
    return text_number(count, singular, plural)


def names(values: Sequence[str], most: int = 8) -> str:
    """Return a list of names, the first few of a long one."""
    rest = f", … {len(values) - most:,} more" if len(values) > most else ""
    return ", ".join(values[:most]) + rest


def class_names(classes: Sequence[str], most: int = 8) -> str:
    """Return a list of classes; of a name that would fill a line, the middle is left out."""
    shown = [Terminal().fit(safe(name), _NAME).rstrip() for name in classes[:most]]
    return names([*shown, *classes[most:]], most)


def split_lines(splits: Iterable[tuple[str, int, int, int]]) -> list[str]:
    """Return a table of splits: name, images, their part of all, shards, bytes."""
    rows = list(splits)
    everything = max(sum(images for _, images, _, _ in rows), 1)
    return [
        line(
            name,
            f"{number(images, 'image'):>14}  {images / everything:>6.1%}"
            f"  {number(shards, 'shard'):>10}  {size(total):>10}",
        )
        for name, images, shards, total in rows
    ]


def split_rows(splits: Iterable[SplitInfo]) -> list[tuple[str, int, int, int]]:
    """Return what `split_lines` shows of the splits of a dataset."""
    return [(s.name, s.examples, len(s.shard_lengths), s.num_bytes) for s in splits]


def storage_lines(info: DatasetInfo) -> list[str]:
    """Return what is unusual about the files of a dataset: compression, and other formats."""
    lines = []
    if info.compression:
        stored = sum(split.num_bytes for split in info.splits)
        saved = 1 - stored / max(info.uncompressed_bytes, 1)
        change = f"{saved:.1%} smaller" if saved >= 0 else f"{-saved:.1%} larger"
        lines.append(
            line("compression", f"{info.compression}: {change}; TFDS cannot read such shards")
        )
    if info.also:
        lines.append(
            line("also", ": ".join(filter(None, (", ".join(info.also), info.data_source))))
        )
    return lines


def said_lines(title: str, files: Sequence[Note], where: str = "see report.json") -> list[str]:
    """Return what is to be said of some files: reasons with counts and the first names of each."""
    if not files:
        return []
    lines = [line(title, number(len(files), "file"))]
    by_reason: dict[str, list[str]] = defaultdict(list)
    for file in files:
        reason = without_line(file.reason)
        line_of = file.reason.removesuffix(reason).removesuffix(": ")
        shown = f"{file.filename} ({line_of})" if line_of else file.filename
        by_reason[reason].append(shown)
    ranked = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    for reason, examples in ranked[:_REASONS]:
        lines.append(line("", f"{len(examples):,} x {reason}: {names(examples, _SHOWN)}"))
    return [*lines, *more(len(ranked) - _REASONS, "reason", where)]


def resized_lines(report: Report) -> list[str]:
    """Return how many files were shrunk, and to what: one line, since it may be all of them."""
    if report.resized is None:
        return []
    return [line("resized", f"{number(report.resized.total, 'file')} to {side(report.options)}")]


def side(options: Mapping[str, object]) -> str:
    """Return how large images may be, by the options behind a plan.

    >>> side({"short_side": 256, "quality": 90})
    'a short side of 256'
    """
    name = "short" if "short_side" in options else "long"
    return f"a {name} side of {options.get('short_side') or options.get('max_side')}"


def more(count: int, what: str, where: str) -> list[str]:
    """Return the line that tells of what is not shown, if there is any, and where it is."""
    return [line("", f"… {number(count, f'more {what}')}: {where}")] if count > 0 else []


def ignored_lines(ignored: Sequence[Ignored]) -> list[str]:
    """Return what was passed over, by kind."""
    if not ignored:
        return []
    total = sum(kind.count for kind in ignored)
    kinds = ", ".join(f"{kind.count:,} {kind.kind}" for kind in ignored)
    return [line("ignored", f"{number(total, 'file')}: {kinds}")]


def as_json(value: object) -> str:
    """Return JSON text in plain ASCII, safe for any terminal and pipe."""
    return json.dumps(value, indent=2)


def storage_json(info: DatasetInfo) -> dict[str, object]:
    """Return what `storage_lines` tells as JSON values."""
    value: dict[str, object] = {}
    if info.compression:
        value |= {"compression": info.compression, "uncompressed_bytes": info.uncompressed_bytes}
    if info.also:
        value |= {"also": list(info.also), "data_source": info.data_source}
    return value


def skipped_json(files: Iterable[Note]) -> list[dict[str, str]]:
    """Return files and reasons as JSON values."""
    return [{"file": printable(file.filename), "reason": file.reason} for file in files]
