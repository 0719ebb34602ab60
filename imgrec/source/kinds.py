"""The kinds of sources: how each is detected and scanned, and the options it takes.

A new kind of files with images in them is one module (see `Reader`) and one line in `KINDS`.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import NamedTuple, Protocol, cast

from imgrec.errors import ExecutionError, SourceError, UsageError
from imgrec.model import Catalog
from imgrec.options import SourceKind, SourceOptions
from imgrec.source import manifest, pixel_table
from imgrec.source.archive import is_archive, refuse_foreign
from imgrec.source.archive_members import archive_stem, has_archive_name
from imgrec.source.download import sample_form, scan_download
from imgrec.source.download_contents import Contents, read_contents
from imgrec.source.label_names import fold_classes
from imgrec.source.manifest import is_submission, manifest_files
from imgrec.source.tables import is_table
from imgrec.source.tree import Context, Lister, Match, Tally, TreeFile
from imgrec.source.walk import open_tree
from imgrec.source.words import split_word
from imgrec.stamp import stamp_of
from imgrec.storage.read_errors import is_temporary, read_error
from imgrec.storage.urls import is_url
from imgrec.text import closest, folder_name, given_path, name_of

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


class Reader(Protocol):
    """A module that reads images inside other files."""

    def detect(self, listing: Sequence[TreeFile], context: Context) -> Match | None:
        """Return the files of this kind; None if there are none."""

    def scan(self, match: Match, root: str, context: Context) -> Catalog:
        """List the images in them."""


class Kind(NamedTuple):
    """A kind of source."""

    title: str
    """For messages."""
    options: frozenset[str] = frozenset()
    """The options of `_CHECKED` that it takes."""
    module: str = ""
    """The module that reads images inside other files: a `Reader`."""
    names: re.Pattern[str] | None = None
    """What the names of such files look like."""
    is_set: bool = False
    """Whether it is several files that belong together. They are packed even beside images."""

    def reader(self) -> Reader:
        """Import the module on demand: all of them would take 15 ms of each command."""
        return cast(Reader, import_module(f"imgrec.source.{self.module}"))


KINDS: Mapping[SourceKind, Kind] = {
    SourceKind.FOLDER: Kind("a folder of images", _TABLES | _TREES),
    SourceKind.ARCHIVE: Kind("an archive", _TABLES | _TREES),
    SourceKind.MANIFEST: Kind("a manifest", _TABLES | {"images"}),
    SourceKind.PIXELS: Kind("a table of pixels", frozenset({"label_col", "split_col"})),
    SourceKind.CIFAR: Kind(
        "CIFAR",
        module="cifar",
        names=re.compile(r"^(data|test)_batch|^(train|test|meta)(\.bin)?$", re.I),
        is_set=True,
    ),
    SourceKind.IDX: Kind("IDX", module="idx", names=re.compile("ubyte", re.I), is_set=True),
    SourceKind.TFRECORD: Kind(
        "TFRecords",
        frozenset({"path_col", "label_col"}),
        module="tfrecord",
        names=re.compile(r"\.tfrec(ord)?s?(-\d+-of-\d+)?$", re.I),
    ),
    SourceKind.NUMPY: Kind(
        "NumPy arrays",
        module="numpy_arrays",
        names=re.compile(r"\.np[yz]$", re.I),
    ),
}
"""Readers are tried in this order."""


class Source(NamedTuple):
    """A source and its kind."""

    path: str
    kind: SourceKind
    """A folder or an archive may still turn out to hold CIFAR or IDX files."""
    name: str
    """What it calls itself."""


# Detecting the kind, without reading a whole listing.


def detect(path: str, options: SourceOptions) -> Source:
    """Find out what a source is, from `--kind` or from the outside.

    Raises SourceError if it does not exist or is of no kind, and UsageError if options do not fit.
    """
    if not hasattr(os, "pread"):
        raise ExecutionError(
            "imgrec does not pack on Windows: it only reads packed datasets there",
            hint="pack in WSL, or on Linux or macOS, and copy the dataset's folder",
        )
    if is_url(path):  # what is not a folder there has been copied here
        kind, name = SourceKind.FOLDER, path.rstrip("/").rpartition("/")[2]
    else:
        path = given_path(path)
        _refuse_missing(path)
        kind = _kind_of(path) if options.kind is SourceKind.AUTO else options.kind
        name = _name_of(path, kind)
    refuse_unfit(kind, path, options)
    return Source(path, kind, name)


def refuse_unfit(kind: SourceKind, source: str, options: SourceOptions) -> None:
    """Raise UsageError if an option is given that this kind of source does not take."""
    unfit = [
        f"--{field.replace('_', '-')}"
        for field in _CHECKED
        if field not in KINDS[kind].options and getattr(options, field) != getattr(_DEFAULTS, field)
    ]
    if unfit:
        raise _unfit(", ".join(unfit), source, KINDS[kind].title)


def _unfit(options: str, source: str, title: str) -> UsageError:
    return UsageError(
        f"{options} cannot be used with {source}, which is {title}",
        hint="leave that out, or name the kind of the source with --kind",
    )


def _inside_files(*, are_sets: bool) -> Iterator[tuple[SourceKind, re.Pattern[str]]]:
    """Yield the kinds of images inside other files, and the names of such files."""
    for name, kind in KINDS.items():
        if kind.names is not None and kind.is_set is are_sets:
            yield name, kind.names


def has_set_name(name: str) -> bool:
    """Return whether a file has a name of CIFAR or IDX."""
    return any(names.search(name) for _, names in _inside_files(are_sets=True))


def _has_reader(name: str) -> bool:
    """Return whether a file may have images in it, by its name."""
    return any(names.search(name) for _, names in _inside_files(are_sets=False))


def _name_of(path: str, kind: SourceKind) -> str:
    if kind is SourceKind.MANIFEST:
        return manifest_files(path).name
    if os.path.isdir(path):
        return folder_name(path)
    return name_of(archive_stem(path))


def _kind_of(source: str) -> SourceKind:
    if os.path.isdir(source):
        return _kind_of_folder(source)
    if not os.path.lexists(source):
        return SourceKind.MANIFEST  # a pattern: see `_refuse_missing`
    for kind, names in _inside_files(are_sets=False):
        if names.search(os.path.basename(source)):
            return kind
    if is_archive(source):
        return SourceKind.ARCHIVE
    if os.path.getsize(source) and is_table(source):
        return SourceKind.PIXELS if pixel_table.is_pixel_table(source) else SourceKind.MANIFEST
    what, hint = "is not a source that imgrec knows", _known_kinds()
    if not os.path.getsize(source):
        what = "is an empty file"
    elif has_archive_name(source):
        refuse_foreign([(source, source)])
        what = "has an archive extension but is not a valid archive"
    elif has_set_name(os.path.basename(source)):
        hint = "if it is one of CIFAR's or MNIST's files, give the folder that holds them all"
    raise SourceError(f"{source} {what}", hint=hint, path=source)


def _known_kinds() -> str:
    *titles, last = (kind.title for kind in KINDS.values())
    return f"give {', '.join(titles)} or {last}"


def _kind_of_folder(folder: str) -> SourceKind:
    """Return the kind of a folder: of tables, if there is nothing else in it, or of images."""
    entries = [entry for entry in _entries_of(folder) if entry.name[0] not in "._"]
    # The first file that is not a table settles it, also in a folder of a million images.
    if not entries or not all(map(_may_be_part, entries)):
        return SourceKind.FOLDER
    if not pixel_table.is_pixel_table(folder):
        return SourceKind.MANIFEST
    # A sample submission beside them is read as in the zip of such a download.
    has_sample = any(is_submission(entry.name) for entry in entries)
    return SourceKind.FOLDER if has_sample else SourceKind.PIXELS


def _may_be_part(entry: os.DirEntry[str]) -> bool:
    """Return whether an entry may be a part of a manifest: a table, or a partition as Hive has."""
    return "=" in entry.name if entry.is_dir() else is_table(entry.path)


def _refuse_missing(source: str) -> None:
    if os.path.lexists(source) or (glob.has_magic(source) and glob.glob(source, recursive=True)):
        return
    folder, name = os.path.split(source.rstrip("/"))
    meant = closest(sorted(entry.name for entry in _entries_of(folder or ".")), name)
    hint = f"did you mean {os.path.join(folder, meant)}?" if meant else _known_kinds()
    raise SourceError(f"{source} does not exist", hint=hint, path=source)


def _entries_of(folder: str) -> list[os.DirEntry[str]]:
    """Return the entries of a folder; none if it cannot be read: the scan reports why."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError as error:
        if is_temporary(error):  # a second try could succeed, and find another kind of source
            raise read_error(error, folder) from error
        return []


# Scanning.


def scan(source: Source, context: Context) -> Catalog:
    """List all images of a source."""
    scan_kind = _SCANNERS.get(source.kind, _scan_with_reader)
    catalog = replace(scan_kind(source, context), name=source.name)
    return fold_classes(catalog) if context.options.fold_case else catalog


def _scan_with_reader(source: Source, context: Context) -> Catalog:
    """Scan images inside other files: one such file, or a folder or archive of them."""
    path, known = source.path, KINDS[source.kind]
    if not known.is_set and os.path.isfile(path) and not is_archive(path):
        file = TreeFile(name_of(os.path.basename(path)), path, os.path.getsize(path))
        return _stamped(known.reader().scan(Match((file,)), path, context), (file,))
    lister = open_tree(path, context)
    contents = None if known.is_set else read_contents(lister, context, _has_reader)
    catalog = _scan_listing(source.kind, lister, context, contents)
    if catalog is None:
        raise SourceError(
            f"{path} has no files of the kind {source.kind}",
            hint="leave out --kind, and imgrec detects the kind",
            path=path,
        )
    return catalog


def _scan_folder_or_archive(source: Source, context: Context) -> Catalog:
    path = source.path
    lister = open_tree(path, context)
    is_open = context.options.kind is SourceKind.AUTO and not context.options.label_regex
    is_folder = is_url(path) or os.path.isdir(path)
    if is_open and (not is_folder or _may_hold_sets(path)):
        for kind, _ in _inside_files(are_sets=True):
            if catalog := _scan_listing(kind, lister, context):
                return catalog
    if context.options.cifar100_labels is not _DEFAULTS.cifar100_labels:
        raise _unfit("--cifar100-labels", path, "not CIFAR-100")
    catalog = scan_tree(lister, context)
    layout = replace(catalog.layout, is_archive=not is_folder)
    return replace(catalog, layout=layout)


def _may_hold_sets(folder: str) -> bool:
    """Return whether the files of a folder, or of its only folder, have names of CIFAR or IDX.

    Some tools unpack each file into a folder of its name. But folders called train and test hold
    images.
    """
    entries = _entries_of(folder)
    inner = [entry for entry in entries if entry.is_dir()]
    if len(inner) == 1:
        entries += _entries_of(inner[0].path)
    named = (entry for entry in entries if has_set_name(entry.name))
    return any(not (split_word(entry.name) and entry.is_dir()) for entry in named)


def scan_tree(lister: Lister, context: Context) -> Catalog:
    """Scan a tree of images; without any image, files that may have images in them.

    Raises SourceError if it is ambiguous, or if there is nothing to pack.
    """
    contents = read_contents(lister, context, _has_reader)
    if not contents.images:
        for kind, _ in _inside_files(are_sets=False):
            if catalog := _scan_listing(kind, lister, context, contents):
                return catalog
        if contents.pixels:
            return _scan_pixels_in(contents, lister, context)
    return scan_download(lister, contents, context)


def _scan_listing(
    kind: SourceKind, lister: Lister, context: Context, contents: Contents | None = None
) -> Catalog | None:
    """Scan the files of a kind in a listing; return None if there are none."""
    known = KINDS[kind]
    match = known.reader().detect(contents.packed if contents else lister.files(), context)
    if match is None:
        return None
    refuse_unfit(kind, lister.root, context.options)
    catalog = known.reader().scan(match, lister.root, context)
    if not known.is_set:  # sets are stamped as they are read
        catalog = _stamped(catalog, match.files)
    lister.refuse_closed(context.options)
    return _of_listing(catalog, lister, contents, context)


def _of_listing(
    catalog: Catalog, lister: Lister, contents: Contents | None, context: Context
) -> Catalog:
    """Add what the listing and a sample submission say to a catalog."""
    return replace(
        catalog,
        notes=(*lister.notes(), *catalog.notes),
        submission=sample_form(contents, context.options) if contents else None,
        stamp=catalog.stamp.merged(lister.stamp),
        homes=lister.homes,
    )


def _scan_pixels_in(contents: Contents, lister: Lister, context: Context) -> Catalog:
    """Scan the tables of pixels of a download, with the ids of its sample submission."""
    refuse_unfit(SourceKind.PIXELS, contents.root, context.options)
    sample = contents.sample
    asked = pixel_table.AskedIds(sample.names[0], sample.texts(0)) if sample else None
    catalog = pixel_table.scan_tables(contents.pixels, contents.root, Tally(), context, asked)
    return _of_listing(catalog, lister, contents, context)


def _stamped(catalog: Catalog, files: Sequence[TreeFile]) -> Catalog:
    """Return a catalog whose stamp covers the files on disk that hold its images."""
    paths = [file.blob for file in files if isinstance(file.blob, str) and not is_url(file.blob)]
    return replace(catalog, stamp=catalog.stamp.merged(*map(stamp_of, paths)))


def _scan_manifest(source: Source, context: Context) -> Catalog:
    path, options = source.path, context.options
    if not (options.test_images or options.image_template):
        return manifest.scan(path, context)
    if not os.path.isfile(path):
        option = "--test-images" if options.test_images else "--image-template"
        raise UsageError(
            f"{option} needs one table of labels, but {path} is several",
            hint="put them together, or name one of them",
        )
    # A table of labels with images to predict, or with ids, is read like a download.
    images = options.images or os.path.dirname(path) or "."
    options = replace(options, manifest=path, images="", kind=SourceKind.AUTO)
    context = replace(context, options=options)
    return scan_tree(open_tree(images, context), context)


_SCANNERS: Mapping[SourceKind, Callable[[Source, Context], Catalog]] = {
    SourceKind.FOLDER: _scan_folder_or_archive,
    SourceKind.ARCHIVE: _scan_folder_or_archive,
    SourceKind.MANIFEST: _scan_manifest,
    SourceKind.PIXELS: lambda source, context: pixel_table.scan(source.path, context),
}
"""All other kinds are scanned by their reader."""
