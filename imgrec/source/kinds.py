"""The kinds of sources: how each is detected and scanned, and the options it takes.

A new kind of files with images in them is one module with `detect` and `scan` (see `Kind`) and one
line in `KINDS`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol

from imgrec.errors import SourceError, UsageError
from imgrec.model import Catalog
from imgrec.notes import NoteKind, of_kinds
from imgrec.options import SourceKind, SourceOptions
from imgrec.source import cifar, idx, numpy_arrays, pixel_table, tfrecord
from imgrec.source.archive import is_archive
from imgrec.source.archive_names import archive_stem, has_archive_name
from imgrec.source.download.contents import Contents, read_contents
from imgrec.source.download.label_tables import find_sample
from imgrec.source.download.scan import sample_form, scan_download
from imgrec.source.label_names import fold_classes
from imgrec.source.manifests import manifest
from imgrec.source.manifests.files import is_submission
from imgrec.source.split_words import split_word
from imgrec.source.tfrecord import is_tfrecord
from imgrec.source.tree import Context, Lister, Match, TreeFile
from imgrec.source.walk import open_tree
from imgrec.stamp import stamp_of
from imgrec.storage.read_errors import disk_fault, is_passing
from imgrec.storage.urls import is_url
from imgrec.text import closest, given_path, name_of

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


class Kind(Protocol):
    """A kind of source whose images are inside other files."""

    def detect(self, listing: Sequence[TreeFile], context: Context) -> Match | None:
        """Return the files of this kind; None if there are none."""
        ...

    def scan(self, match: Match, root: str, context: Context) -> Catalog:
        """List the images in them."""
        ...


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
        catalog = _scan_listing(kind, lister.files(), lister, context)
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
        files = lister.files()
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
    lister.refuse_closed(context.options)
    return replace(
        catalog,
        notes=(*lister.notes(), *catalog.notes),
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
        notes=(*of_kinds(lister.notes(), *kinds), *catalog.notes),
        submission=sample_form(contents, context.options),
        stamp=catalog.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


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


_KNOWN = (
    "a folder of class folders, a zip or tar of them, a table of images, CIFAR or IDX files, "
    "TFRecords, or NumPy arrays"
)


class Source(NamedTuple):
    """A source, and what it was found to be."""

    path: str
    kind: SourceKind
    """A folder or an archive may yet turn out to hold CIFAR or IDX files."""
    name: str
    """What it calls itself."""


def detect(path: str, options: SourceOptions) -> Source:
    """Find out what a source is, from what is asked for or from what it looks like from outside.

    Raises SourceError if it is not there or not known, and UsageError if options do not fit it.
    """
    if is_url(path):  # what is no folder there has been copied here
        refuse_unfit(SourceKind.FOLDER, path, options)
        return Source(path, SourceKind.FOLDER, path.rstrip("/").rpartition("/")[2])
    path = given_path(path)
    _refuse_missing(path)
    kind = _kind_of(path) if options.kind is SourceKind.AUTO else options.kind
    refuse_unfit(kind, path, options)
    return Source(path, kind, _name_of(path, kind))


def scan(source: Source, context: Context) -> Catalog:
    """List all that a source holds."""
    catalog = replace(scan_kind(source.kind, source.path, context), name=source.name)
    return fold_classes(catalog) if context.options.fold_case else catalog


def _name_of(path: str, kind: SourceKind) -> str:
    if kind is SourceKind.MANIFEST:
        from imgrec.source.manifests.files import manifest_files

        return manifest_files(path).name
    if os.path.isdir(path):
        return name_of(os.path.basename(os.path.abspath(path))) or "root"
    return name_of(archive_stem(path))


def _kind_of(source: str) -> SourceKind:
    if os.path.isdir(source):
        return _kind_of_folder(source)
    if not os.path.lexists(source):
        return SourceKind.MANIFEST  # a pattern: see `_refuse_missing`
    from imgrec.source.archive import is_archive
    from imgrec.source.manifests.tables import is_table
    from imgrec.source.numpy_arrays import is_numpy
    from imgrec.source.pixel_table import is_pixel_table

    if is_tfrecord(source):
        return SourceKind.TFRECORD
    if is_numpy(source):
        return SourceKind.NUMPY
    if is_archive(source):
        return SourceKind.ARCHIVE
    if os.path.getsize(source) and is_table(source):
        return SourceKind.PIXELS if is_pixel_table(source) else SourceKind.MANIFEST
    raise _unknown(source)


def _unknown(source: str) -> SourceError:
    what, hint = "is not a source that imgrec knows", f"give {_KNOWN}"
    if not os.path.getsize(source):
        what = "is an empty file"
    elif has_archive_name(source):
        from imgrec.source.archive import refuse_foreign

        refuse_foreign([(source, source)])
        what = "is called as archives are, but holds none"
    elif ARRAY_NAME.search(os.path.basename(source)):
        hint = "if it is one of CIFAR's or MNIST's files, give the folder that holds them all"
    return SourceError(f"{source} {what}", hint=hint, path=source)


def _kind_of_folder(folder: str) -> SourceKind:
    """Tell a folder of part files, in which there is nothing else, from all others."""
    entries = [entry for entry in entries_of(folder) if entry.name[0] not in "._"]
    # The first that is no part settles it: a folder of a million images is not looked through.
    if not entries or not all(map(_may_be_part, entries)):
        return SourceKind.FOLDER
    from imgrec.source.pixel_table import is_pixel_table

    if not is_pixel_table(folder):
        return SourceKind.MANIFEST
    # A sample submission beside them is read as in the zip of such a download.
    has_sample = any(is_submission(entry.name) for entry in entries)
    return SourceKind.FOLDER if has_sample else SourceKind.PIXELS


def _may_be_part(entry: os.DirEntry[str]) -> bool:
    if entry.is_dir():
        return "=" in entry.name  # as Hive calls the folders of partitions
    from imgrec.source.manifests.tables import is_table

    return is_table(entry.path)


def _refuse_missing(source: str) -> None:
    if os.path.lexists(source) or (glob.has_magic(source) and glob.glob(source, recursive=True)):
        return
    meant = _sibling(source)
    hint = f"did you mean {meant}?" if meant else f"give {_KNOWN}"
    raise SourceError(f"{source} does not exist", hint=hint, path=source)


def _sibling(source: str) -> str:
    """Return what has nearly that name in the same folder; "" if nothing has."""
    folder, name = os.path.split(source.rstrip("/"))
    meant = closest(sorted(entry.name for entry in entries_of(folder or ".")), name)
    return os.path.join(folder, meant) if meant else ""
