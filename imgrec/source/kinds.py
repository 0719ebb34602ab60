"""The kinds of sources: the options that each takes, and how it is scanned.

A new kind of files with images in them is one module with `detect` and `scan` (see `match.Kind`)
and one line in `KINDS`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from imgrec.errors import SourceError, UsageError
from imgrec.model import Catalog
from imgrec.notes import NoteKind, of_kinds
from imgrec.options import SourceKind, SourceOptions
from imgrec.source import cifar, idx, numpy_arrays, pixel_table, tfrecord
from imgrec.source.archives.archive import is_archive
from imgrec.source.context import Context
from imgrec.source.download.contents import Contents, read_contents
from imgrec.source.download.label_tables import find_sample
from imgrec.source.download.scan import sample_form, scan_download
from imgrec.source.listing import open_tree
from imgrec.source.manifests import manifest
from imgrec.source.match import Kind, Match
from imgrec.source.split_words import split_word
from imgrec.source.tree import Lister, TreeFile, files_of, notes_of, refuse_closed
from imgrec.stamp import stamp_of
from imgrec.storage.read_errors import disk_fault, is_passing
from imgrec.storage.urls import is_url
from imgrec.text import name_of

_TABLES = frozenset(
    {"path_col", "label_col", "split_col", "group_col", "label_sep", "onehot", "column",
     "test_images", "image_template", "manifest"}
)  # fmt: skip
_TREES = frozenset({"class_depth", "label_regex", "layout"})
_CHECKED = (
    "images", "path_col", "label_col", "split_col", "group_col", "label_sep", "onehot", "column",
    "manifest", "test_images", "image_template", "class_depth", "label_regex", "layout",
)  # fmt: skip
"""Options that some kinds do not take, in the order of messages."""
_DEFAULTS = SourceOptions()
ARRAY_NAME = re.compile(r"ubyte|^(data|test)_batch|^(train|test|meta)(\.bin)?$", re.I)
"""Names of the files of CIFAR and IDX."""


class KindOfSource(NamedTuple):
    """What is known about a kind of source."""

    title: str
    """For messages."""
    options: frozenset[str]
    """The options of `_CHECKED` that it takes."""
    reader: Kind | None = None
    """The module that finds and lists images inside other files."""
    beats_images: bool = False
    """Whether its files are what is packed even if images lie beside them."""


KINDS: Mapping[SourceKind, KindOfSource] = {
    SourceKind.FOLDER: KindOfSource("a folder of images", _TABLES | _TREES),
    SourceKind.ARCHIVE: KindOfSource("an archive", _TABLES | _TREES),
    SourceKind.MANIFEST: KindOfSource("a manifest", _TABLES | {"images"}),
    SourceKind.PIXELS: KindOfSource("a table of pixels", frozenset({"label_col", "split_col"})),
    SourceKind.CIFAR: KindOfSource("CIFAR", frozenset(), cifar, True),
    SourceKind.IDX: KindOfSource("IDX", frozenset(), idx, True),
    SourceKind.TFRECORD: KindOfSource("TFRecords", frozenset({"path_col", "label_col"}), tfrecord),
    SourceKind.NUMPY: KindOfSource("NumPy arrays", frozenset(), numpy_arrays),
}
"""Readers are tried in this order."""


def refuse_unfit(kind: SourceKind, source: str, options: SourceOptions) -> None:
    """Raise UsageError if an option is given that this kind of source does not take."""
    unfit = [
        f"--{field.replace('_', '-')}"
        for field in _CHECKED
        if field not in KINDS[kind].options and getattr(options, field) != getattr(_DEFAULTS, field)
    ]
    if unfit:
        means = "means" if len(unfit) == 1 else "mean"
        raise UsageError(
            f"{', '.join(unfit)} {means} nothing for {source}, which is {KINDS[kind].title}",
            hint="leave that out, or name the kind of the source with --kind",
        )


def scan_kind(kind: SourceKind, source: str, context: Context) -> Catalog:
    """List the images of a source of a known kind."""
    if KINDS[kind].reader is not None:
        return _scan_files_of(kind, source, context)
    return _SCANNERS[kind](source, context)


def _scan_files_of(kind: SourceKind, source: str, context: Context) -> Catalog:
    """Scan images inside other files, given by such a file, or by a folder or archive of them.

    CIFAR and IDX are several files each, and so never given by one of them.
    """
    is_set = KINDS[kind].beats_images
    if not is_set and os.path.isfile(source) and not is_archive(source):
        file = TreeFile(name_of(os.path.basename(source)), source, os.path.getsize(source))
        return _stamped(_reader(kind).scan(Match((file,)), source, context), (file,))
    lister = open_tree(source, context)
    if is_set:
        catalog = _scan_listing(kind, _files(lister), lister, context)
    else:
        contents = read_contents(lister, context)
        catalog = _scan_listing(kind, contents.packed, lister, context, contents)
    if catalog is None:
        raise SourceError(
            f"{source} has no files of the kind {kind}",
            hint="leave out --kind, and imgrec detects the kind",
            path=source,
        )
    return catalog


def _scan_folder_or_archive(source: str, context: Context) -> Catalog:
    """Scan a folder or an archive, be it of images or of files with images in them."""
    lister = open_tree(source, context)
    is_open = context.options.kind is SourceKind.AUTO and not context.options.label_regex
    is_folder = is_url(source) or os.path.isdir(source)
    if is_open and (not is_folder or _may_hold_arrays(source)):
        files = _files(lister)
        for kind, known in KINDS.items():
            if known.beats_images and (catalog := _scan_listing(kind, files, lister, context)):
                return catalog
    if context.options.cifar100_labels is not _DEFAULTS.cifar100_labels:
        raise UsageError(
            f"--cifar100-labels means nothing for {source}, which is not CIFAR-100",
            hint="leave that out, or name the kind of the source with --kind",
        )
    catalog = scan_tree(lister, context)
    return catalog if is_folder else replace(catalog, layout=f"archive of {catalog.layout}")


def _may_hold_arrays(folder: str) -> bool:
    """Tell whether the files of a folder, or of its only folder, have names of CIFAR or IDX.

    Some tools unpack each file into a folder of its name. But folders called train and test hold
    images.
    """
    entries = entries_of(folder)
    inner = [entry for entry in entries if entry.is_dir()]
    if len(inner) == 1:
        entries += entries_of(inner[0].path)
    named = (entry for entry in entries if ARRAY_NAME.search(entry.name))
    return any(not (split_word(entry.name) and entry.is_dir()) for entry in named)


def scan_tree(lister: Lister, context: Context) -> Catalog:
    """Scan a tree of images; without any image, the files that may hold images.

    Raises SourceError if it can be read in two ways, or in none.
    """
    contents = read_contents(lister, context)
    for kind, known in KINDS.items() if not contents.images else ():
        if known.reader is not None and not known.beats_images:
            catalog = _scan_listing(kind, contents.packed, lister, context, contents)
            if catalog is not None:
                return catalog
    if contents.pixels and not contents.images:
        return _scan_pixels_of(contents, lister, context)
    return scan_download(lister, contents, context)


def _reader(kind: SourceKind) -> Kind:
    reader = KINDS[kind].reader
    assert reader is not None
    return reader


def _scan_listing(
    kind: SourceKind,
    files: Sequence[TreeFile],
    lister: Lister,
    context: Context,
    contents: Contents | None = None,
) -> Catalog | None:
    """Scan the files of a kind in a listing; return None if there are none."""
    match = _reader(kind).detect(files, context)
    if match is None:
        return None
    refuse_unfit(kind, lister.root, context.options)
    catalog = _reader(kind).scan(match, lister.root, context)
    if not KINDS[kind].beats_images:  # CIFAR and IDX are stamped as they are read
        catalog = _stamped(catalog, match.files)
    refuse_closed(lister, context.options)
    return replace(
        catalog,
        notes=(*notes_of(lister), *catalog.notes),
        submission=sample_form(contents, context.options) if contents else None,
        stamp=catalog.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


def _scan_pixels_of(contents: Contents, lister: Lister, context: Context) -> Catalog:
    """Scan the tables of pixels of a download, with the ids of its sample submission."""
    refuse_unfit(SourceKind.PIXELS, contents.root, context.options)
    sample = find_sample(contents)
    chosen = pixel_table.one_for_each_split(contents.pixels, contents.root)
    asked = pixel_table.AskedIds(sample.columns[0], sample.texts(0)) if sample else None
    catalog = pixel_table.scan_files(contents.root, chosen, lister.tally, context, asked)
    # The catalog has the ignored files of the listing, which share a tally, already.
    kinds = {*NoteKind} - ({NoteKind.IGNORED} if catalog.ignored else set())
    return replace(
        catalog,
        notes=(*of_kinds(notes_of(lister), *kinds), *catalog.notes),
        submission=sample_form(contents, context.options),
        stamp=catalog.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


def _files(lister: Lister) -> list[TreeFile]:
    return [file for folder in lister.folders() for file in files_of(folder)]


def _stamped(catalog: Catalog, files: Sequence[TreeFile]) -> Catalog:
    """Return a catalog whose stamp counts the files on disk that hold its images."""
    paths = [file.blob for file in files if isinstance(file.blob, str) and not is_url(file.blob)]
    return replace(catalog, stamp=catalog.stamp.merged(*map(stamp_of, paths)))


def _scan_manifest(source: str, context: Context) -> Catalog:
    options = context.options
    if not (options.test_images or options.image_template):
        return manifest.scan(source, context)
    if not os.path.isfile(source):
        option = "--test-images" if options.test_images else "--image-template"
        raise UsageError(
            f"{option} needs one table of labels, but {source} is several",
            hint="put them together, or name one of them",
        )
    # A table of labels with a set of images to predict, or with ids, is what a download is.
    images = options.images or os.path.dirname(source) or "."
    options = replace(options, manifest=source, images="", kind=SourceKind.AUTO)
    context = replace(context, options=options)
    return scan_tree(open_tree(images, context), context)


def entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it cannot be read, as its scan will say why."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        if is_passing(error):  # a second try could succeed, and find another kind of source
            raise disk_fault(error, folder) from error
        return []


_SCANNERS: Mapping[SourceKind, Callable[[str, Context], Catalog]] = {
    SourceKind.FOLDER: _scan_folder_or_archive,
    SourceKind.ARCHIVE: _scan_folder_or_archive,
    SourceKind.MANIFEST: _scan_manifest,
    SourceKind.PIXELS: pixel_table.scan,
}
