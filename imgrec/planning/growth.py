"""Plan the next version of a dataset: what it had stays where it was, and new images follow.

An image that the earlier version had keeps its split, its shard and its place in it, so that a
shard whose images did not change is the same task again, and need not be written. New images are
drawn for splits as with `--split-from`, and go into further shards of their own.
"""

from __future__ import annotations

import hashlib
from array import array
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, NamedTuple

from imgrec.errors import PlanError
from imgrec.layout import samples_column, shard_filename
from imgrec.model import Catalog, Plan, Samples, ShardTask, Stored, split_order
from imgrec.notes import Note, NoteKind, warnings_of
from imgrec.options import ColumnKind, OnLeak, PackOptions
from imgrec.planning.build import Decided, decide
from imgrec.planning.shards import cut, record_bytes
from imgrec.planning.split import write_order
from imgrec.text import are, number, printable

_Splits = defaultdict[str, set[str]]
_LARGE_LOSS, _LARGE_SHARE = 10, 0.25
"""So many images, and such a part of all, must be gone for an update to ask."""


class EarlierShard(NamedTuple):
    """One shard of an earlier version, and the rows of its records."""

    split: str
    filename: str
    rows: range


@dataclass(frozen=True, slots=True, kw_only=True)
class EarlierRecords:
    """The records of an earlier version. Row i is record i, counted through all splits."""

    fingerprint: str
    """That of the whole version."""
    classes: tuple[str, ...]
    samples: Samples
    """Names are printable, contents are hashes of whole files, and blobs are `Stored`."""
    shards: tuple[EarlierShard, ...]

    def contents(self) -> dict[str, bytes]:
        """Return the content of each image by its name."""
        return dict(zip(self.samples.filenames, self.samples.contents, strict=True))

    def homes(self) -> dict[bytes, str]:
        """Return the split of each content; the one furthest from training if there are more."""
        return _homes(zip(self.samples.contents, self.samples.splits, strict=True))


def _homes(pairs: Iterable[tuple[bytes, str]]) -> dict[bytes, str]:
    homes: dict[bytes, str] = {}
    for content, split in pairs:
        homes[content] = max(homes.get(content, split), split, key=split_order)
    return homes


# Which file of the source is which record.


def match_records(
    records: EarlierRecords, filenames: Sequence[str], hashes: Sequence[bytes]
) -> dict[int, int]:
    """Return the row of each file that the earlier version knew, by place.

    `hashes` are those of whole files; b"" if one is unknown. The same name with the same content
    comes first, then a content that has another name now, then a name that has other content now.
    A row belongs to one file at most, so that another copy of it is a new image.
    """
    old, names = records.samples, list(map(printable, filenames))
    by_name = dict(zip(old.filenames, range(len(old)), strict=True))
    rows: dict[int, int] = {}
    for place, name in enumerate(names):
        row = by_name.get(name)
        if row is not None and hashes[place] == old.contents[row]:
            rows[place] = row
    rest = [place for place in range(len(names)) if place not in rows and hashes[place]]
    rest.sort(key=names.__getitem__)
    used, there = set(rows.values()), set(names)
    free: dict[bytes, list[int]] = defaultdict(list)
    for row in range(len(old)) if rest else ():
        if row not in used:
            free[old.contents[row]].append(row)
    for own in free.values():  # the last is taken first: one whose name is gone, the first by name
        own.sort(key=lambda row: (old.filenames[row] in there, old.filenames[row]), reverse=True)
    for place in rest:
        if own := free.get(hashes[place], []):
            rows[place] = own.pop()
    used = set(rows.values())
    named = {place: by_name[names[place]] for place in rest if names[place] in by_name}
    changed = {at: row for at, row in named.items() if at not in rows and row not in used}
    if not changed:
        return rows
    known = records.homes()
    new = _homes((hashes[place], old.splits[row]) for place, row in changed.items())
    # Content that belongs into another split must go there, or it would be a leak.
    return rows | {
        place: row
        for place, row in changed.items()
        if old.splits[row] == known.get(hashes[place], new[hashes[place]])
    }


def refuse_loss(records: EarlierRecords, left: int, files: int, title: str) -> None:
    """Raise PlanError if a large part of the images of a version is gone.

    The source still has so many of them `left`, among so many `files`.
    """
    total = len(records.samples)
    if total - left < max(_LARGE_LOSS, total * _LARGE_SHARE):
        return
    new = f", and {number(files - left, 'other image')} {are(files - left)} new" * (files > left)
    raise PlanError(
        f"{total - left:,} of the {total:,} images of {title} are not in the source any more{new}",
        hint="restore them (images that were both renamed and encoded anew count as new), or pass "
        "--yes to go on without them",
    )


def refuse_division(plan: Plan, records: EarlierRecords) -> None:
    """Raise PlanError if known images, which keep their splits, would divide a group anew."""
    old, before, after = records.samples, _Splits(set), _Splits(set)
    for group, split in zip(old.groups, old.splits, strict=bool(old.groups)):
        before[group].add(split)
    for task in plan.tasks:
        for group in map(printable, task.samples.groups):
            after[group].add(task.split)
    divided = [
        f"{group} in {' and '.join(sorted(splits, key=split_order))}"
        for group, splits in sorted(after.items())
        if group and len(splits) > 1 and not splits <= before[group]
    ]
    if divided:
        raise PlanError(
            f"{number(len(divided), 'group')} would be in several splits, such as {divided[0]}: "
            "images of other groups, which keep their splits, are in it now",
            hint="correct the groups, drop these images with imgrec edit, or pass --yes to go on",
        )


class Remembered(NamedTuple):
    """A catalog, and what the earlier version knew of it."""

    catalog: Catalog
    rows: Mapping[str, int]
    """The row of each known image, by its name in the source."""


def remember(
    catalog: Catalog, records: EarlierRecords, hashes: Sequence[bytes], on_leak: OnLeak
) -> Remembered:
    """Pin each known image to its split, and each new copy to that of the image it is a copy of.

    With `--on-leak drop`, a copy that the source has in a split nearer to training is left out.
    """
    samples, old = catalog.samples, records.samples
    rows = match_records(records, samples.filenames, hashes)
    homes = records.homes()
    hashed = {*homes, *(hashes[place] for place in rows)}
    pinned, kept, left_out = list[str](), list[int](), list[Note]()
    for place, (name, split) in enumerate(zip(samples.filenames, samples.splits, strict=True)):
        home = homes.get(hashes[place], "")
        pinned.append(old.splits[rows[place]] if place in rows else home)
        is_leak = place not in rows and home and split and split_order(split) < split_order(home)
        if is_leak and on_leak is OnLeak.DROP:
            twin = old.filenames[old.contents.index(hashes[place])]
            reason = f"leak: the same image as {twin} in {home}"
            left_out.append(Note(name, reason, NoteKind.LEFT_OUT, twin))
        else:
            kept.append(place)
    known = {samples.filenames[place]: row for place, row in rows.items()}
    # Copies must have equal contents, and of known images only the hash is known.
    contents = [
        found if found in hashed else content
        for found, content in zip(hashes, samples.contents, strict=True)
    ]
    given = samples.pinned or [""] * len(samples)
    pins = [pin or other for pin, other in zip(pinned, given, strict=True)]
    samples = replace(samples, contents=tuple(contents), pinned=tuple(pins))
    if left_out:
        samples = samples.pick(kept)
    catalog = replace(catalog, samples=samples, earlier_classes=records.classes)
    return Remembered(catalog.noted(sorted(left_out)), known)


def with_stored_images(known: Remembered, records: EarlierRecords) -> Catalog:
    """Return the catalog with images in the place of files whose content has not changed."""
    samples, old = known.catalog.samples, records.samples
    blobs = list(samples.blobs)
    for place, name in enumerate(samples.filenames):
        row = known.rows.get(name)
        if row is not None and samples.contents[place] == old.contents[row]:
            blobs[place] = old.blobs[row]
    return replace(known.catalog, samples=replace(samples, blobs=tuple(blobs)))


# The plan.


def grow(
    known: Remembered, records: EarlierRecords, options: PackOptions, bad: Collection[str] = ()
) -> Plan:
    """Plan the next version, without the `bad` files, which take part in the draw for splits.

    The same records, samples and options give the same plan.
    """
    decided = decide(known.catalog, options)
    names = decided.samples.filenames
    left_out = {*decided.left_out, *(at for at, name in enumerate(names) if name in bad)}
    places = {known.rows[name]: at for at, name in enumerate(names) if name in known.rows}
    pieces = list(_pieces(decided, records, places, left_out, options))
    counts = Counter(split for split, _ in pieces)
    to_write, tasks, done = decided.samples.to_write(), list[ShardTask](), Counter[str]()
    for split, piece in pieces:
        index, samples = done[split], to_write.pick(piece)
        done[split] += 1
        tasks.append(
            ShardTask(
                split=split,
                index=index,
                filename=shard_filename(
                    decided.name, split, index, counts[split], options.shard_compression
                ),
                expected_bytes=sum(record_bytes(samples.sizes, samples.filenames)),
                samples=samples,
            )
        )
    order = [place for _, piece in pieces for place in piece]
    facts = f"grown from {records.fingerprint}\n".encode()
    plan = decided.plan(tuple(tasks), order, options, facts)
    gone = sorted({shard.split for shard in records.shards} - counts.keys(), key=split_order)
    return replace(
        plan, notes=(*plan.notes, *warnings_of(f"{split} has no images any more" for split in gone))
    )


def _pieces(
    decided: Decided,
    records: EarlierRecords,
    places: Mapping[int, int],
    left_out: Collection[int],
    options: PackOptions,
) -> Iterator[tuple[str, list[int]]]:
    """Yield split and places of each shard: those of the earlier version, then new ones."""
    samples = decided.samples
    at_home: set[int] = set()
    earlier: dict[str, list[list[int]]] = defaultdict(list)
    for split, _, rows in records.shards:
        found = [places[row] for row in rows if row in places]
        stay = [at for at in found if at not in left_out and samples.splits[at] == split]
        at_home.update(stay)
        if stay:
            earlier[split].append(stay)
    new: dict[str, list[int]] = defaultdict(list)
    for place in write_order(samples, options.seed):
        if place not in at_home and place not in left_out:
            new[samples.splits[place]].append(place)
    for split in sorted({*earlier, *new}, key=split_order):
        yield from ((split, piece) for piece in earlier[split])
        if new[split]:
            sizes = [samples.sizes[place] for place in new[split]]
            names = [samples.filenames[place] for place in new[split]]
            # --shards counted the shards of the first version; more images need more shards.
            lengths = cut(list(accumulate(record_bytes(sizes, names))), None, options.shard_size)
            for start, end in pairwise(accumulate(lengths, initial=0)):
                yield split, new[split][start:end]


# What makes a shard of an earlier version the result of a task.


def records_key(samples: Samples) -> bytes | None:
    """Return the fingerprint of the records that a task makes of stored images.

    Two tasks have the same key if and only if their shards have the same bytes, given the same
    format of records. Returns None if an image comes from the source: nobody knows its record yet.
    """
    # The images themselves are stored as the same version of imgrec once packed them.
    if not all(type(blob) is Stored for blob in samples.blobs):
        return None
    key = hashlib.sha256()
    for blob in samples.blobs:
        key.update(f"{blob[0]}\n{blob[1]}\n".encode("utf-8", "surrogateescape"))
    key.update("\0".join(map(printable, samples.filenames)).encode())
    key.update(repr(samples.label_sets or samples.labels).encode())
    for column in sorted(samples.columns):
        key.update(f"\n{samples_column(column.name)}\n{column.kind}\n".encode())
        if column.kind is ColumnKind.TEXT:
            key.update("\0".join(map(str, column.values)).encode())
        else:
            code = "q" if column.kind is ColumnKind.INT else "f"
            numbers: Any = column.values  # of the kind of the column
            key.update(array(code, numbers).tobytes())
    return key.digest()
