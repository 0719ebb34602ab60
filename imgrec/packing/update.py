"""Pack the next version of a dataset: only what is new or changed is read, checked and written."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from xxhash import xxh3_128_digest

from imgrec import layout
from imgrec.engine import Engine
from imgrec.engine.local import running
from imgrec.errors import DatasetError, DatasetExists, DatasetNotFound, SourceError, UsageError
from imgrec.model import Catalog, Plan, Samples, SourceLayout, Stored, picked
from imgrec.notes import LISTED, Note, NoteKind, Notes, unlisted
from imgrec.options import NearDups, PackOptions, SourceOptions
from imgrec.options.declaration import declared_options
from imgrec.options.packing import Embed
from imgrec.outcome import DatasetInfo, Report
from imgrec.packing.catalog import OnProgress, known_splits
from imgrec.packing.corrections import decode_corrections, encode_corrections
from imgrec.packing.earlier import EarlierVersion, read_earlier, stored_images
from imgrec.packing.origin import Origin, checksums_of, parse_origin
from imgrec.packing.pack import Job, PackRequest, Written, find_target, pack_source, write_dataset
from imgrec.planning.build import choose
from imgrec.planning.classes import change_classes
from imgrec.planning.corrections import Corrections
from imgrec.planning.growth import (
    Remembered,
    grow,
    refuse_division,
    refuse_loss,
    remember,
    with_stored_images,
)
from imgrec.read.files import find_dataset
from imgrec.source.fetch import fetched
from imgrec.source.kinds import detect, scan
from imgrec.source.tree import Context
from imgrec.source.unchanged import Unopened
from imgrec.storage.paths import to_path
from imgrec.storage.staging import is_taken, note_origin, open_staging, read_origin
from imgrec.storage.urls import is_url
from imgrec.text import number, own_name, printable

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


@dataclass(frozen=True, slots=True, kw_only=True)
class UpdateRequest:
    """Which dataset to update, and how."""

    folder: Path
    source: str
    """"" for the one that it was packed from."""
    version: str
    """"" for the next minor version."""
    compact: bool
    rehash: bool
    images: str
    """Where the images of a table are now; "" if they were not moved."""
    yes: bool
    """Whether to go on where an update would ask."""
    embeddings: str | Embed
    """Vectors of all images; "" for the file that the dataset was packed with."""
    workers: int | None
    engine: Engine | None
    on_progress: OnProgress | None
    started_ns: int


def update_dataset(request: UpdateRequest) -> Updated:
    """Pack the next version of a dataset, unless nothing has changed."""
    earlier = read_earlier(request.folder)
    origin = read_origin_of(earlier)
    corrections = decode_corrections(request.folder)
    before = options_of(earlier, origin, images=request.images)
    is_own = own_name(before.split_from).startswith(
        (f"{earlier.info.name}:", earlier.info.name + "/")
    )
    options = replace(
        for_next_version(before, earlier, request.version, request.workers),
        source=replace(before.source, yes=before.source.yes or request.yes),
        embeddings=request.embeddings or before.embeddings,
        data_dir=str(request.folder.parent.parent),
    )
    source = request.source or _known_source(earlier, origin)
    with fetched(source, options.source) as here, _reading_again(earlier):
        packing = PackRequest(
            source=source,
            fetched=here,
            asked=options,
            engine=request.engine,
            on_progress=request.on_progress,
            started_ns=request.started_ns,
            first_split_from="" if is_own else before.split_from,
        )
        if request.compact:
            packed = pack_source(packing)
            written = Written(packed, 0, sum(split.num_bytes for split in packed.info.splits))
            return updated_version(packing, earlier, written)
        trusted = Origin() if request.rehash else origin
        return _Update(packing, earlier, trusted, corrections, request.yes).run()


@contextmanager
def _reading_again(earlier: EarlierVersion) -> Iterator[None]:
    """Say where the options belong that an error about the source names: update has none."""
    try:
        yield
    except SourceError as error:
        if type(error) is not SourceError or not error.hint:
            raise
        pack = f"options but --yes are those of imgrec pack --split-from {title(earlier)}"
        raise SourceError(error.message, hint=f"{error.hint} ({pack})", path=error.path) from error


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


def _known_source(earlier: EarlierVersion, origin: Origin) -> str:
    name = earlier.info.name
    if not origin.source:
        raise UsageError(
            f"the source of {earlier.folder} is unknown: no private note lies beside it",
            hint=f"give it: imgrec update {name} SOURCE",
        )
    is_pattern = any(mark in origin.source for mark in "*?[")
    if not (is_url(origin.source) or is_pattern or os.path.lexists(origin.source)):
        raise SourceError(
            f"{origin.source}, from which {title(earlier)} was packed, does not exist",
            hint=f"give its new place: imgrec update {name} SOURCE",
            path=origin.source,
        )
    return origin.source


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


class _Looked(NamedTuple):
    """What a look at the source found."""

    known: Remembered
    """Images that did not change are stored ones."""
    files: Samples
    """The same images, all in the source, for pictures."""
    bad: Notes
    """New images that cannot be packed."""
    corrections: Corrections
    is_trusted: bool
    """Whether no known file had to be read."""


@dataclass(frozen=True, slots=True)
class _Update:
    """An update that writes further shards."""

    request: PackRequest
    earlier: EarlierVersion
    origin: Origin
    """What may be trusted of the private note."""
    corrections: Corrections
    yes: bool
    """Whether a large loss and divided groups are accepted."""

    def run(self) -> Updated:
        """Scan, plan, link, write and publish; write nothing if nothing has changed."""
        request, earlier, options = self.request, self.earlier, self.request.options
        source = detect(request.fetched.path, options.source)
        staging = open_staging(find_target(source, options))
        with running(request.engine, options.workers) as engine, staging:
            spool = str(staging.spool)
            own_folders = (spool, *filter(None, [request.fetched.copies]))
            context = Context(
                options=options.source,
                run=engine.run,
                on_progress=partial(self._progress, "scan", total=None),
                spool=spool,
                keeps_small=True,
                unopened=self._unopened(),
            )
            catalog = scan(source, context)
            self._refuse_other_reading(catalog)
            looked = self._look(catalog, own_folders, engine)
            plan = self._plan(looked)
            is_followed = self.corrections.contents() != looked.corrections.contents()
            if is_same(plan, earlier) and not is_followed:
                if not looked.is_trusted:  # so that the next update reads less
                    note = request.origin(catalog).note(checksums_of(earlier.folder))
                    note_origin(earlier.folder, note)
                return updated_version(request, earlier)
            from imgrec.inspect.report.images import in_source

            job = Job(
                request=request,
                options=options,
                catalog=catalog,
                plan=plan,
                engine=engine,
                staging=staging,
                own_folders=(*own_folders, str(earlier.folder)),
                origin=request.origin(catalog),
                earlier=earlier,
                locate=in_source(looked.files),
            )
            written = write_dataset(job)
        return updated_version(request, earlier, written)

    def _progress(self, stage: str, done: int, total: int | None) -> None:
        if self.request.on_progress:
            self.request.on_progress(stage, done, total)

    def _unopened(self) -> Unopened | None:
        """Return which files need not be opened if the clock says that they are unchanged."""
        if not self.origin.source or not self.origin.homes:
            return None
        old = self.earlier.records.samples
        rows = zip(old.filenames, old.sizes, old.contents, strict=True)
        return Unopened(
            files={name: (size, content) for name, size, content in rows if size},
            homes=self.origin.homes,
            before_ns=self.origin.snapshot.settled_ns,
        )

    def _refuse_other_reading(self, catalog: Catalog) -> None:
        """Raise SourceError if new files changed what the folders of the source mean."""
        before, now = self.earlier.report.layout, catalog.layout
        if _reading(before) != _reading(now):
            old, new = (printable(one.text).partition("\n")[0] for one in (before, now))
            raise SourceError(
                f"{title(self.earlier)} was read as {old}, and the source is now read as {new}",
                hint="restore its form, or give options that say how to read it",
                path=self.request.source,
            )

    def _look(self, catalog: Catalog, own_folders: Sequence[str], engine: Engine) -> _Looked:
        from imgrec.source import image_pass
        from imgrec.source.near_images import refine_near_dups

        options, old = self.request.options, self.earlier.records
        if options.source.class_changes():
            catalog = change_classes(catalog, options.source)
        hashes, is_trusted = self._hashes(catalog, own_folders, engine)
        corrected = self.corrections.apply(catalog, hashes, old.contents())
        catalog = corrected.catalog
        if self.request.first_split_from:
            catalog = self._pinned_elsewhere(catalog, corrected.hashes)
        if options.split_file:
            catalog = image_pass.pin_by_name(catalog, os.path.expanduser(options.split_file))
        known = remember(catalog, old, corrected.hashes, options.on_leak)
        catalog = known.catalog
        if not self.yes:
            refuse_loss(old, len(known.rows), len(catalog.samples), title(self.earlier))
        if options.source.min_side:
            least = options.source.min_side
            catalog = image_pass.without_small(catalog, least, engine.run, known.rows.keys())
        if options.near_dups not in (NearDups.AUTO, NearDups.OFF):
            chosen = set(choose(catalog, replace(options.source, group_by="")).samples.filenames)
            look = partial(self._progress, "look")
            catalog = refine_near_dups(catalog, chosen, options, engine.run, look)
        contents = set(old.samples.contents)
        found = zip(catalog.samples.contents, catalog.samples.sizes, strict=True)
        # Files that globs leave out were not opened, and have no size.
        new = [at for at, (one, size) in enumerate(found) if size and one not in contents]
        check = image_pass.ImageCheck(
            check=options.check,
            shrink_to=options.shrink_options,
            newest_ns=catalog.stamp.newest_ns,
        )
        look = partial(self._progress, "look")
        bad = image_pass.find_bad(catalog.samples.pick(new), check, engine.run, look)
        files = catalog.samples
        known = known._replace(catalog=catalog.noted(bad))
        known = known._replace(catalog=with_stored_images(known, old))
        return _Looked(known, files, bad, corrected.corrections, is_trusted)

    def _pinned_elsewhere(self, catalog: Catalog, hashes: Sequence[bytes]) -> Catalog:
        """Pin images of the dataset whose splits the first version kept."""
        other = self.request.first_split_from
        try:
            known = known_splits(find_dataset(other, self.request.options.data_dir))
        except DatasetNotFound:
            return catalog.warn(
                f"{own_name(other)}, whose splits this dataset keeps, is not found: new images "
                "that it has may be in another split here"
            )
        pinned = tuple(known.get(found, "") for found in hashes)
        return replace(catalog, samples=replace(catalog.samples, pinned=pinned))

    def _hashes(
        self, catalog: Catalog, own_folders: Sequence[str], engine: Engine
    ) -> tuple[list[bytes], bool]:
        """Return the hash of each file, and whether all known ones are known to be unchanged."""
        from imgrec.source.image_pass import hash_images

        samples, old = catalog.samples, self.earlier.records.samples
        by_name = dict(zip(old.filenames, old.contents, strict=True))
        known = [by_name.get(printable(name), b"") for name in samples.filenames]
        # No key of a file that was opened equals the hash of a whole file.
        hashes = [
            content if content == one else b""
            for content, one in zip(samples.contents, known, strict=True)
        ]
        if self.origin.snapshot.is_unchanged(catalog.stamp):
            # The stamp covers files of many images, and objects on stores.
            for place, blob in enumerate(samples.blobs):
                is_part = not isinstance(blob, str) or is_url(blob)
                path = blob if isinstance(blob, str) else blob[0]
                if is_part and known[place] and not path.startswith(tuple(own_folders)):
                    hashes[place] = known[place]
        rest = [place for place, found in enumerate(hashes) if not found]
        for place, found in zip(rest, hash_images(samples.pick(rest), engine.run), strict=True):
            hashes[place] = found
        return hashes, not any(known[place] for place in rest)

    def _plan(self, looked: _Looked) -> Plan:
        catalog = looked.known.catalog
        stored = {
            blob.number: name
            for name, blob in zip(catalog.samples.filenames, catalog.samples.blobs, strict=True)
            if isinstance(blob, Stored)
        }
        notes = carried_notes(self.earlier, stored)
        known = looked.known._replace(catalog=catalog.noted(notes))
        bad = {note.filename for note in looked.bad}
        plan = grow(known, self.earlier.records, self.request.options, bad)
        if not self.yes:
            refuse_division(plan, self.earlier.records)
        return replace(plan, edits=encode_corrections(looked.corrections))


def _reading(found: SourceLayout) -> tuple[object, ...]:
    """Return what decides the split and the class of an image. An archive may replace a folder."""
    columns = tuple((printable(name), printable(meaning)) for name, meaning in found.columns)
    depths = found.split_depth, found.class_depth
    return found.kind, *depths, columns, found.has_coarse_labels


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
