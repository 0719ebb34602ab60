"""Comparing a dataset with the source that it was packed from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from itertools import count
from typing import NamedTuple

from imgrec import layout
from imgrec.blob import Blob, Pixels
from imgrec.codec.decode import to_pil
from imgrec.codec.image import Packable, pack_pixels, prepare
from imgrec.errors import BadImage, SourceError, UsageError
from imgrec.faults import Code, Fault, Faults
from imgrec.inspect.source_layout import array_kind, has_coarse_labels
from imgrec.inspect.verify.shard import images_of
from imgrec.inspect.verify.state import State
from imgrec.options import Check, CifarLabels, ShrinkOptions, SourceKind, SourceOptions
from imgrec.outcome import Report
from imgrec.source.kinds import detect, scan
from imgrec.source.tree import Context, look_at, refuse_closed
from imgrec.source.walk import open_tree
from imgrec.storage.blobs import close_files, read_blob
from imgrec.text import globs_pattern, printable

_ARRAYS = {
    "CIFAR": SourceKind.CIFAR,
    "IDX": SourceKind.IDX,
    "pixels": SourceKind.PIXELS,
    "TFRecords": SourceKind.TFRECORD,
    "NumPy": SourceKind.NUMPY,
}
_UNNAMED = ("outside", "beside", "left out", "smaller", "beyond")
"""How the kinds of ignored files begin that the report counts but does not name."""


class Place(NamedTuple):
    """A source, and a folder into which its archives can be unpacked."""

    source: str
    spool: str


def compare_with_source(place: Place, state: State) -> None:
    """Add a fault for each record and each file without a counterpart, or with another one.

    Raises SourceError if the source cannot be read, or has none of the dataset's files.
    """
    documents, job, source = state.documents, state.job, place.source
    if "filename" not in documents.features.by_name:
        state.faults.say(Code.NO_NAMES_TO_COMPARE, layout.FEATURES, source=source)
        return
    packed = frozenset(name for _, found in state.shards for name in found.filenames if name)
    originals = _find(place, state, packed)
    if packed and packed.isdisjoint(originals.files):
        raise SourceError(
            f"{source} has none of the dataset's files, such as {printable(min(packed))}",
            hint="give what it was packed from; for a manifest, the folder of its images",
            path=source,
        )
    tasks = [task for task in _tasks(source, state, originals) if task.originals]
    options = documents.report.options if documents.report else {}
    comparison = _Comparison(
        folder=state.folder,
        compression=documents.metadata.compression,
        check=_check(options),
        shrink_to=_shrinking(options),
    )
    sizes = {task.filename: len(task.originals) for task in tasks}
    with closing(job.run(comparison, tasks)) as running:
        for filename, faults in running:
            state.faults.extend(faults)
            job.tell("compare", sizes[filename], sum(sizes.values()))
    _find_unpacked(source, state, originals, packed)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Originals:
    """The files of a source by their names."""

    files: Mapping[str, tuple[Blob, int]]
    """Where the bytes of each are, and how many."""
    images: frozenset[str]
    """The names of those that look like images."""


def _find(place: Place, state: State, packed: frozenset[str]) -> _Originals:
    """List the files of a source; follow links out of it if some are not found within."""
    job, report = state.job, state.documents.report
    options = SourceOptions()
    with suppress(UsageError):
        encoding = report.options.get("encoding") if report else ""
        options = SourceOptions(encoding=str(encoding or ""))
    context = Context(
        options=options,
        run=job.run,
        on_progress=lambda files: job.tell("scan", files, None),
        spool=place.spool,
    )
    within = _list(place.source, report, context)
    if packed <= within.files.keys() or not os.path.isdir(place.source):
        return within
    context = replace(context, options=replace(options, follow_links=True))
    beyond = _list(place.source, report, context)
    return max(within, beyond, key=lambda found: len(packed & found.files.keys()))


def _list(source: str, report: Report | None, context: Context) -> _Originals:
    """List what a source holds, of whatever kind it is; raise SourceError if it cannot be read."""
    kind = _ARRAYS.get(array_kind(report))
    if report is None or kind is None:
        return _list_files(source, context)
    try:
        labels = CifarLabels.COARSE if has_coarse_labels(report) else CifarLabels.FINE
        options = SourceOptions(kind=kind, cifar100_labels=labels)
        samples = scan(detect(source, options), replace(context, options=options)).samples
    except SourceError:
        # It may be what the dataset was unpacked to.
        if os.path.isdir(source) and (found := _list_files(source, context)).images:
            return found
        raise
    blobs = zip(samples.blobs, samples.sizes, strict=True)
    return _Originals(
        files=dict(zip(samples.filenames, blobs, strict=True)),
        images=frozenset(samples.filenames),
    )


def _list_files(source: str, context: Context) -> _Originals:
    if detect(source, SourceOptions()).kind is SourceKind.MANIFEST:
        from imgrec.source.manifests.files import manifest_files

        source = manifest_files(source).folder
    lister = open_tree(source, context)
    tree = look_at(lister, context)
    refuse_closed(lister, context.options)
    files = dict(zip(tree.names, zip(tree.blobs, tree.sizes, strict=True), strict=True))
    odd = tree.others | tree.faults.keys()
    images = frozenset(name for at, name in enumerate(tree.names) if at not in odd)
    return _Originals(files=files, images=images)


class _Original(NamedTuple):
    """The file that a record was packed from."""

    offset: int
    """Of the record."""
    filename: str
    blob: Blob
    size: int


class _Task(NamedTuple):
    """Some records of a shard, by number, each with its file."""

    filename: str
    originals: Mapping[int, _Original]


def _tasks(source: str, state: State, originals: _Originals) -> list[_Task]:
    """Pair each record with its file; records without one are faults."""
    tasks = []
    for _, found in state.shards:
        pairs: dict[int, _Original] = {}
        for at, filename in enumerate(found.filenames):
            if at in found.damaged:
                continue
            offset = found.offsets[at]
            if filename in originals.files:
                pairs[at] = _Original(offset, filename, *originals.files[filename])
            else:
                facts = {"name": filename, "source": source}
                state.faults.say(Code.NOT_IN_SOURCE, found.filename, offset, **facts)
        tasks.append(_Task(found.filename, pairs))
    return tasks


@dataclass(frozen=True, slots=True, kw_only=True)
class _Comparison:
    """A picklable function that compares records with files."""

    folder: str
    compression: str
    check: Check
    shrink_to: ShrinkOptions | None

    def __call__(self, task: _Task) -> tuple[str, tuple[Fault, ...]]:
        """Return the shard's name and a fault for each record that was not made from its file."""
        faults = Faults()
        path = os.path.join(self.folder, task.filename)
        for place, image in images_of(path, self.compression, task.originals.keys()):
            original = task.originals[place]
            if reason := self._difference(image, original):
                facts = {"name": original.filename, "reason": reason}
                faults.say(Code.DIFFERS_FROM_SOURCE, task.filename, original.offset, **facts)
        close_files()
        return task.filename, faults.listed()

    def _difference(self, image: bytes, original: _Original) -> str:
        """Return how an image differs from what its file would be packed as, or ""."""
        try:
            data = read_blob(original.blob, original.size, name=original.filename)
            if data == image:
                return ""
            packable = self._packed(data, original)
        except BadImage as error:
            return f"there it is bad: {error}"
        if packable.data == image:
            return ""
        if packable.data == data:
            return _first_difference(image, data)
        # Another version of Pillow may encode the same pixels differently.
        return "" if _have_same_pixels(packable, image) else "its pixels differ"

    def _packed(self, data: bytes, original: _Original) -> Packable:
        if isinstance(original.blob, Pixels):
            return pack_pixels(data, original.blob, self.shrink_to)
        return prepare(data, original.filename, self.check, self.shrink_to)


def _first_difference(image: bytes, data: bytes) -> str:
    pairs = zip(count(), zip(image, data, strict=False), strict=False)
    place = next((at for at, (one, other) in pairs if one != other), -1)
    if place < 0:
        return f"{len(image):,} bytes here, {len(data):,} there"
    return f"they differ from byte {place:,} of the image on"


def _have_same_pixels(packable: Packable, image: bytes) -> bool:
    if packable.format == "JPEG":
        return False  # lossy images have the same pixels only if they are the same bytes
    try:
        one, other = to_pil(packable.data), to_pil(image)
    except BadImage:
        return False
    return (one.mode, one.size, one.tobytes()) == (other.mode, other.size, other.tobytes())


def _find_unpacked(
    source: str, state: State, originals: _Originals, packed: frozenset[str]
) -> None:
    """Find the images of the source that are in no record, and that the report does not name."""
    report = state.documents.report
    left = originals.images - packed
    if report:
        skipped = {file.filename for file in report.skipped}
        unnamed = [name for name in left if printable(name) not in skipped]
        left = frozenset(_chosen(unnamed, report.options))
    unpacked = sorted(left)
    may_be_unnamed = report is None or any(one.kind.startswith(_UNNAMED) for one in report.ignored)
    if unpacked and may_be_unnamed:
        state.unchecked.say(Code.NOT_NAMED, source, count=len(unpacked), name=unpacked[0])
        return
    for filename in unpacked:
        state.faults.say(Code.NOT_PACKED, filename, source=source)


def _chosen(names: Iterable[str], options: Mapping[str, object]) -> Iterable[str]:
    """Return the names that the globs of a pack let through."""
    for option, is_wanted in (("include", True), ("exclude", False)):
        globs = options.get(option)
        if isinstance(globs, list) and globs:
            pattern = globs_pattern(map(str, globs))
            names = [name for name in names if bool(pattern.match(name)) is is_wanted]
    return names


def _check(options: Mapping[str, object]) -> Check:
    with suppress(ValueError):
        return Check(str(options.get("check")))
    return Check.DECODE


def _shrinking(options: Mapping[str, object]) -> ShrinkOptions | None:
    """Return the largest size of images, by the options of the pack."""
    asked = {
        name: value
        for name in ("short_side", "max_side", "quality")
        if type(value := options.get(name)) is int
    }
    try:
        return ShrinkOptions(**asked) if asked else None
    except (UsageError, TypeError):
        return None
