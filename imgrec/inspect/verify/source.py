"""Compare a dataset with the source that it was packed from."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from itertools import count
from typing import NamedTuple

from imgrec import layout
from imgrec.codec.image import Packable, pack_pixels, prepare
from imgrec.codec.pillow import to_pil
from imgrec.errors import BadImage, SourceError, UsageError
from imgrec.faults import Code, Fault, Faults
from imgrec.inspect.subject import InSource
from imgrec.inspect.verify.shard import images_of
from imgrec.inspect.verify.state import State
from imgrec.model import Blob, Pixels
from imgrec.options import Check, CifarLabels, ShrinkOptions, SourceKind, SourceOptions
from imgrec.outcome import Report
from imgrec.source.kinds import detect, scan
from imgrec.source.probe import probe_tree
from imgrec.source.tree import Context
from imgrec.source.walk import open_tree
from imgrec.storage.blobs import close_files, read_blob
from imgrec.text import globs_pattern, printable

_UNNAMED = ("outside", "beside", "left out", "smaller", "beyond")
"""How the kinds of ignored files begin that the report counts but does not name."""


def compare_with_source(source: str, spool: str, state: State) -> None:
    """Add a fault for each record and each file that has no counterpart, or a different one.

    Raises SourceError if the source cannot be read, or has none of the dataset's files.
    """
    if "filename" not in state.documents.features.by_name:
        state.faults.say(Code.NO_NAMES_TO_COMPARE, layout.FEATURES, source=source)
        return
    packed = frozenset(
        record.filename for _, found in state.facts() for record in found.records if record.filename
    )
    originals = _find_originals(source, spool, state, packed)
    if packed and packed.isdisjoint(originals.files):
        raise SourceError(
            f"{source} has none of the dataset's files, such as {printable(min(packed))}",
            hint="give what it was packed from; for a manifest, the folder of its images",
            path=source,
        )
    _compare_images(source, state, originals)
    _find_unpacked(source, state, originals.images - packed)


class _Originals(NamedTuple):
    """The files of a source."""

    files: Mapping[str, tuple[Blob, int]]
    """Where the bytes of each are, and how many."""
    images: frozenset[str]
    """The names of those that look like images."""


def _find_originals(source: str, spool: str, state: State, packed: frozenset[str]) -> _Originals:
    """List the files of a source; follow links out of it if some files are missing."""
    report = state.documents.report
    options = SourceOptions()
    with suppress(UsageError):
        encoding = report.options.get("encoding") if report else ""
        options = SourceOptions(encoding=str(encoding or ""))
    context = Context(
        options=options,
        run=state.job.run,
        on_progress=lambda files: state.job.progress("scan", files, None),
        spool=spool,
    )
    within = _list_source(source, report, context)
    if packed <= within.files.keys() or not os.path.isdir(source):
        return within
    context = replace(context, options=replace(options, follow_links=True))
    beyond = _list_source(source, report, context)
    return max(within, beyond, key=lambda found: len(packed & found.files.keys()))


def _list_source(source: str, report: Report | None, context: Context) -> _Originals:
    if report is None or report.layout.has_image_files:
        return _list_files(source, context)
    try:
        labels = CifarLabels.COARSE if report.layout.has_coarse_labels else CifarLabels.FINE
        options = SourceOptions(kind=report.layout.kind, cifar100_labels=labels)
        samples = scan(detect(source, options), replace(context, options=options)).samples
    except SourceError:
        # It may be the folder that the dataset was unpacked to.
        if os.path.isdir(source) and (found := _list_files(source, context)).images:
            return found
        raise
    blobs = zip(samples.blobs, samples.sizes, strict=True)
    files = dict(zip(samples.filenames, blobs, strict=True))
    return _Originals(files, frozenset(samples.filenames))


def _list_files(source: str, context: Context) -> _Originals:
    if detect(source, SourceOptions()).kind is SourceKind.MANIFEST:
        from imgrec.source.manifest import manifest_files

        source = manifest_files(source).folder
    lister = open_tree(source, context)
    tree = probe_tree(lister, context)
    lister.refuse_closed(context.options)
    files = dict(zip(tree.names, zip(tree.blobs, tree.sizes, strict=True), strict=True))
    others = tree.others | tree.faults.keys()
    return _Originals(
        files, frozenset(name for at, name in enumerate(tree.names) if at not in others)
    )


class _Task(NamedTuple):
    shard: str
    originals: Mapping[int, tuple[int, InSource]]
    """The offset of each record, and the file that it was packed from, by number."""


def _compare_images(source: str, state: State, originals: _Originals) -> None:
    tasks = []
    for _, found in state.facts():
        pairs: dict[int, tuple[int, InSource]] = {}
        for number, record in enumerate(found.records):
            if record.is_damaged:
                continue
            if file := originals.files.get(record.filename):
                pairs[number] = record.offset, InSource(*file, record.filename)
            else:
                facts = {"name": record.filename, "source": source}
                state.faults.say(Code.NOT_IN_SOURCE, found.filename, record.offset, **facts)
        if pairs:
            tasks.append(_Task(found.filename, pairs))
    report = state.documents.report
    compare = partial(
        _compare_shard,
        folder=str(state.folder),
        compression=state.documents.metadata.compression,
        options=report.options if report else {},
    )
    total = sum(len(task.originals) for task in tasks)
    with closing(state.job.run(compare, tasks)) as running:
        for compared, faults in running:
            state.faults.extend(faults)
            state.job.progress("compare", compared, total)


def _compare_shard(
    task: _Task, folder: str, compression: str, options: Mapping[str, object]
) -> tuple[int, tuple[Fault, ...]]:
    """Count the images of a task, and find those that were not packed from their files."""
    faults = Faults()
    check, shrink_to = _check(options), _shrink_options(options)
    path = os.path.join(folder, task.shard)
    for number, image in images_of(path, compression, task.originals.keys()):
        offset, original = task.originals[number]
        if reason := _difference(image, original, check, shrink_to):
            facts = {"name": original.filename, "reason": reason}
            faults.say(Code.DIFFERS_FROM_SOURCE, task.shard, offset, **facts)
    close_files()
    return len(task.originals), faults.listed()


def _difference(
    image: bytes, original: InSource, check: Check, shrink_to: ShrinkOptions | None
) -> str:
    """Return how an image differs from the one that its file would be packed as, or ""."""
    try:
        data = read_blob(original.blob, original.size, name=original.filename)
        if data == image:
            return ""
        if isinstance(original.blob, Pixels):
            packable = pack_pixels(data, original.blob, shrink_to)
        else:
            packable = prepare(data, original.filename, check, shrink_to)
    except BadImage as error:
        return f"the file is bad: {error}"
    if packable.data == image:
        return ""
    if packable.data == data:
        return _first_difference(image, data)
    # Another version of Pillow may encode the same pixels differently.
    return "" if _have_same_pixels(packable, image) else "its pixels differ"


def _first_difference(image: bytes, data: bytes) -> str:
    pairs = zip(count(), image, data, strict=False)
    place = next((at for at, one, other in pairs if one != other), -1)
    if place < 0:
        return f"{len(image):,} bytes here, {len(data):,} there"
    return f"they differ from byte {place:,} of the image on"


def _have_same_pixels(packable: Packable, image: bytes) -> bool:
    if packable.format == "JPEG":
        return False  # lossy images have the same pixels only if they have the same bytes
    try:
        one, other = to_pil(packable.data), to_pil(image)
    except BadImage:
        return False
    return (one.mode, one.size, one.tobytes()) == (other.mode, other.size, other.tobytes())


def _find_unpacked(source: str, state: State, left: frozenset[str]) -> None:
    """Find images of the source that are neither in a record nor named by the report."""
    report = state.documents.report
    unpacked = sorted(left)
    if report:
        skipped = {file.filename for file in report.skipped}
        unnamed = [name for name in unpacked if printable(name) not in skipped]
        unpacked = list(_chosen(unnamed, report.options))
    may_be_unnamed = report is None or any(one.kind.startswith(_UNNAMED) for one in report.ignored)
    if unpacked and may_be_unnamed:
        state.unchecked.say(Code.NOT_NAMED, source, count=len(unpacked), name=unpacked[0])
        return
    for filename in unpacked:
        state.faults.say(Code.NOT_PACKED, filename, source=source)


def _chosen(names: Iterable[str], options: Mapping[str, object]) -> Iterable[str]:
    """Return the names that --include and --exclude of a pack let through."""
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


def _shrink_options(options: Mapping[str, object]) -> ShrinkOptions | None:
    names = ("short_side", "max_side", "quality")
    given = {name: value for name in names if type(value := options.get(name)) is int}
    try:
        return ShrinkOptions(**given) if given else None
    except (UsageError, TypeError):
        return None
