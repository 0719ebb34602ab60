"""Pack the next version of a dataset: only what is new or changed is read, checked and written."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec.engine import Engine
from imgrec.engine.local import running
from imgrec.errors import DatasetNotFound, SourceError, UsageError
from imgrec.model import Catalog, Plan, Samples, SourceLayout, Stored
from imgrec.notes import Notes
from imgrec.options import NearDups
from imgrec.options.packing import Embed
from imgrec.packing.catalog import OnProgress, known_splits
from imgrec.packing.corrections import decode_corrections, encode_corrections
from imgrec.packing.earlier import EarlierVersion, read_earlier
from imgrec.packing.next_version import (
    Updated,
    carried_notes,
    for_next_version,
    is_same,
    options_of,
    read_origin_of,
    title,
    updated_version,
)
from imgrec.packing.origin import Origin, checksums_of
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
from imgrec.storage.staging import note_origin, open_staging
from imgrec.storage.urls import is_url
from imgrec.text import own_name, printable

if TYPE_CHECKING:
    pass


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
