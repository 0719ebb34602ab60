"""What updates and edits share: the options of the next version, and its outcome."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.errors import DatasetError, DatasetExists, UsageError
from imgrec.model import Plan, Stored, picked
from imgrec.notes import LISTED, Note, NoteKind, Notes, unlisted
from imgrec.options import PackOptions, SourceOptions
from imgrec.options.declaration import declared_options
from imgrec.outcome import DatasetInfo, Report
from imgrec.packing.earlier import EarlierVersion, stored_images
from imgrec.packing.origin import Origin, checksums_of, parse_origin
from imgrec.packing.pack import PackRequest, Written
from imgrec.storage.paths import to_path
from imgrec.storage.staging import is_taken, read_origin
from imgrec.text import number, printable

if TYPE_CHECKING:
    from imgrec.inspect.diff import Difference

_RENAMED = {"shard_bytes": "shard_size", "columns": "column"}
"""Options whose name in report.json differs."""
_FILES = ("embeddings", "split_file", "images", "test_images", "label_names")
"""Options whose files report.json does not hold. A manifest that it names is in the source."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Updated:
    """The outcome of an update or an edit: the next version of a dataset."""

    info: DatasetInfo
    report: Report = field(repr=False)
    earlier: DatasetInfo = field(repr=False)
    """The version that it was made from."""
    difference: Difference | None = field(repr=False)
    """How it differs from that version; None if nothing has changed."""
    shards: int
    reused_shards: int
    """How many of them are those of the earlier version."""
    written_bytes: int
    """The size of all others, with their indexes and copies in other formats."""
    kept_shards: int
    """How many shards of an interrupted run were reused."""
    seconds: float
    is_new: bool
    """False if nothing has changed, and so nothing was written."""
    flagged: int = 0
    """How many images the table of an edit flags. They stay as they are."""
    restored: int = 0
    """How many dropped images the table of an edit restores. The next update packs them."""
    unused_columns: tuple[str, ...] = ()
    """Columns of the table of an edit that mean nothing to it."""

    def __repr__(self) -> str:
        what = self.difference.summary if self.difference else "nothing has changed"
        return (
            f"<Updated {self.info.name} {self.earlier.version} -> {self.info.version}: {what}, "
            f"{self.reused_shards:,} of {number(self.shards, 'shard')} reused, {self.info.path}>"
        )


def title(earlier: EarlierVersion) -> str:
    """Return the name and version of an earlier version."""
    return f"{earlier.info.name}:{earlier.info.version}"


def read_origin_of(earlier: EarlierVersion) -> Origin:
    """Return what the private note beside a version says."""
    return parse_origin(read_origin(earlier.folder), checksums_of(earlier.folder))


def for_next_version(
    options: PackOptions, earlier: EarlierVersion, wanted: str, workers: int | None
) -> PackOptions:
    """Return the options of a version as those of the next one."""
    return replace(
        options,
        name=earlier.info.name,
        version=_next_version(earlier, wanted),
        split_from=title(earlier),
        # The classes of the earlier version come first; others are appended.
        classes=None,
        classes_append=False,
        overwrite=False,
        resume=True,
        workers=workers,
    )


def _next_version(earlier: EarlierVersion, wanted: str) -> str:
    """Return the version to make; raise DatasetError if the earlier one is not in its place."""
    info, folder = earlier.info, earlier.folder
    numbers = layout.parse_version(info.version)
    if numbers is None or (folder.parent.name, folder.name) != (info.name, info.version):
        raise DatasetError(
            f"{folder} holds {info.name} {info.version}, whose next version cannot be beside it",
            hint=f"move it to {info.name}/{info.version} in a data directory",
            path=str(folder),
        )
    major, minor, _ = numbers
    version = PackOptions(version=wanted).version if wanted else f"{major}.{minor + 1}.0"
    if is_taken(target := folder.parent / version):
        raise DatasetExists(
            f"{target} exists already",
            hint=f"update {info.name}:{version} instead, or pass another --version",
            path=str(target),
        )
    return version


def options_of(
    earlier: EarlierVersion, origin: Origin, *, needs_source: bool = True, images: str = ""
) -> PackOptions:
    """Return the options of the earlier version, from the private note or from its report.

    With `images`, that is where the images of a table are now. Raises UsageError if an option has a
    file that nobody knows, and it `needs_source`.
    """
    if origin.source:
        given = PackOptions(**origin.pack_options())
        return replace(given, source=replace(given.source, images=images or given.source.images))
    known: dict[str, Any] = {}
    of_source: dict[str, Any] = {"images": images} if images else {}
    in_source = declared_options(SourceOptions)
    for reported, value in earlier.report.options.items():
        name = _RENAMED.get(reported, reported)
        if name in ("class_order", "split_from") or value in (None, "", [], 0, 0.0):
            continue
        if name in _FILES and (name in of_source or not needs_source):
            continue
        if name in _FILES:
            hint = f"pack the source with {_flag(name)} and --split-from {title(earlier)}"
            raise UsageError(
                f"{earlier.folder} was packed with {_flag(name)}, and no private note says where "
                "that is",
                hint="give it with --images" if name == "images" else hint,
            )
        (of_source if name in in_source else known)[name] = value
    if earlier.report.options.get("seed") == 0:
        known.pop("seed", None)
    return PackOptions(source=SourceOptions(**of_source), **known)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def is_same(plan: Plan, earlier: EarlierVersion) -> bool:
    """Return whether a plan would make the earlier version again."""
    shards, groups = earlier.records.shards, earlier.records.samples.groups
    if plan.classes != earlier.info.classes or len(plan.tasks) != len(shards):
        return False
    for task, shard in zip(plan.tasks, shards, strict=True):
        found = earlier.find(task)
        old_groups = groups[shard.rows.start : shard.rows.stop]
        is_grouped = tuple(map(printable, task.samples.groups)) == old_groups
        if found != shard or task.split != shard.split or not is_grouped:
            return False
    return True


def carried_notes(earlier: EarlierVersion, stored: dict[int, str]) -> Notes:
    """Return what the earlier report says of images that are packed again, by their new names.

    `stored` are the names of those images by row.
    """
    report, old = earlier.report, earlier.records.samples
    names = {old.filenames[row]: name for row, name in stored.items()}
    kinds = (*LISTED, NoteKind.RESIZED)
    notes: list[Note] = [
        note._replace(filename=names[note.filename])
        for kind in kinds
        for note in report.of(kind)
        if note.filename in names
    ]
    for kind in LISTED:
        notes += unlisted(kind, report.unlisted(kind))
    if report.resized:
        listed = sum(note.kind is NoteKind.RESIZED for note in notes)
        left = report.resized.total - _count_resized(earlier, stored)
        notes += unlisted(NoteKind.RESIZED, left - listed)
    return tuple(notes)


def _count_resized(earlier: EarlierVersion, stored: dict[int, str]) -> int:
    """Count the shrunk images among those that are not packed again."""
    report, old = earlier.report, earlier.records.samples
    gone = [row for row in range(len(old)) if row not in stored]
    transcoded = {note.filename for note in report.transcoded}
    short, longest = report.options.get("short_side"), report.options.get("max_side")
    count = 0
    blobs: list[Stored] = [blob for blob in picked(old.blobs, gone) if isinstance(blob, Stored)]
    for row, (image, (height, width, _)) in zip(gone, stored_images(blobs), strict=True):
        if old.filenames[row] in transcoded:
            # Its bytes differ from those of the file anyway.
            count += min(height, width) == short or max(height, width) == longest
        else:
            count += xxh3_128_digest(image) != old.contents[row]
    return count


def updated_version(
    request: PackRequest, earlier: EarlierVersion, written: Written | None = None
) -> Updated:
    """Return the outcome: a version that was written, or the earlier one if nothing has changed."""
    from imgrec.inspect.diff import compare_datasets

    total = len(earlier.records.shards)
    info = written.packed.info if written else earlier.info
    return Updated(
        info=info,
        report=written.packed.report if written else earlier.report,
        earlier=earlier.info,
        difference=compare_datasets(earlier.folder, to_path(info.path)) if written else None,
        shards=sum(len(split.shard_lengths) for split in info.splits),
        reused_shards=written.linked_shards if written else total,
        written_bytes=written.written_bytes if written else 0,
        kept_shards=written.packed.kept_shards if written else 0,
        seconds=(time.time_ns() - request.started_ns) / 1e9,
        is_new=written is not None,
    )
