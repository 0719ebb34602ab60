"""The contents of a download: its images, and the files that may explain them."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from imgrec.codec.sniff import HEAD_BYTES, IMAGE_EXTENSIONS, extension, format_of
from imgrec.errors import BadImage, SourceError
from imgrec.options import SourceOptions
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.tables import (
    NamedTable,
    label_names_of_json,
    numbered_columns,
    parse_coco,
    read_named_table,
)
from imgrec.source.manifests.tables import kind_of, read_table
from imgrec.source.pixel_table import is_pixel_table
from imgrec.source.tree import Context, Folder, Lister, TreeFile, local_copy
from imgrec.source.walk import place_of_test_images
from imgrec.storage.blobs import look
from imgrec.storage.urls import is_url
from imgrec.text import globs_pattern, listed

_SUFFIXES = {
    "table": (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".csv.gz", ".tsv.gz"),
    "list": (".txt", ".lst", ".list"),
    "json": (".json",),
}
_OTHERS = frozenset(
    {"md", "html", "htm", "xml", "pdf", "py", "ipynb", "mat", "pkl", "dcm", "zip", "gz", "mp4",
     "avi", "yaml", "yml", "xlsx", "h5", "pt", "pth"}
)  # fmt: skip
"""Extensions of files that are never images, whatever their first bytes are."""
_SNIFFED = 3
_MOST_FILES = 60
"""How many tables, how many lists and how many JSON files of a download are read."""
_MOST_BYTES = 1 << 30
_MOST_JSON_BYTES = 1 << 27
_MOST_JSON_VALUES = 10_000_000
"""Each takes up to 64 bytes of memory."""


@dataclass(kw_only=True)
class Contents:
    """The images, tables, lists and maps of names of a download."""

    root: str
    encoding: str = ""
    """Of its tables, as `--encoding` says."""
    images: Sequence[str] = ()
    """Their paths."""
    test_images: Sequence[str] = ()
    """The images that `--test-images` names; they are not among `images`."""
    label_table: str = ""
    """The table that `--manifest` names."""
    test_table: str = ""
    """The table that `--test-images` names."""
    tables: dict[str, NamedTable] = field(default_factory=dict)
    lists: dict[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """Text files of one image a line, by path: the words of each line."""
    maps: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """JSON objects that name labels, by path."""
    file_of: dict[str, str] = field(default_factory=dict)
    """The file of each image id in COCO-style JSON."""
    packed: Sequence[TreeFile] = ()
    """Files that may hold images, and text files beside them."""
    pixels: list[str] = field(default_factory=list)
    """Tables of pixels, where they can be read."""
    unread: dict[str, str] = field(default_factory=dict)
    """Files that were not read, by path, and why."""

    @cached_property
    def index(self) -> ImageIndex:
        """The images that tables and lists may name."""
        return ImageIndex(self.images, self.file_of)

    @cached_property
    def test_index(self) -> ImageIndex:
        """The images that tables of test images may name."""
        return ImageIndex(self.test_images, self.file_of) if self.test_images else self.index

    @cached_property
    def folders(self) -> Mapping[str, Sequence[str]]:
        """The names of the images right in each folder."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.images:
            folder, _, name = path.rpartition("/")
            found[folder].append(name)
        return found


def read_contents(lister: Lister, context: Context, is_packed: Callable[[str], bool]) -> Contents:
    """List a download and read the files that may explain it; images are not opened.

    `is_packed` tells by its name whether a file may have images in it.
    """
    files = _by_kind(lister.folders(), context.options, is_packed)
    contents = Contents(
        root=lister.root,
        encoding=context.options.encoding,
        images=[file.path for file in files["image"]],
        packed=[*files["packed"], *files["list"]],
    )
    for kind, read in (("table", _read_table), ("list", _read_list), ("json", _read_json)):
        for file in _topmost(files[kind], contents):
            try:
                read(file.path, local_copy(file, context), contents)
            except SourceError as error:
                contents.unread[file.path] = error.message
    if context.options.manifest:
        contents.label_table = _find_label_table(context.options.manifest, contents)
    if context.options.test_images:
        _set_test_images_apart(context.options.test_images, contents)
    return contents


def _find_label_table(given: str, contents: Contents) -> str:
    """Return the table that `--manifest` names: one of the download, or one elsewhere.

    Raises SourceError if it names none or several.
    """
    tables = contents.tables
    if os.path.isfile(given):
        real = os.path.realpath(given)
        copies = ((name, table.copy) for name, table in tables.items() if table.copy)
        inside = [name for name, copy in copies if os.path.realpath(copy) == real]
        named = inside or [_read_outside(given, contents)]
    else:
        end = f"/{given.strip('/')}"
        _add_list_as_table(end, contents)
        named = [name for name in tables if f"/{name}" == end]
        named = named or [name for name in tables if f"/{name}".endswith(end)]
    if len(named) == 1 and named[0] in tables:
        return named[0]
    what = f"several such tables: {', '.join(named)}" if named else "no such table"
    raise SourceError(
        f"--manifest {given}: {contents.root} has {what}",
        hint=f"it has {listed(sorted(tables)) or 'no table'}",
        path=contents.root,
    )


def _add_list_as_table(end: str, contents: Contents) -> None:
    """Make a table of the list that `--manifest` names: its columns have no names."""
    for path in [path for path in contents.lists if f"/{path}".endswith(end)]:
        rows = contents.lists[path]
        if rows and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            names = numbered_columns(len(rows[0]))
            cells = tuple(zip(*rows, strict=True))
            contents.tables[path] = NamedTable(path, names, cells, range(1, len(rows) + 1))


def _read_outside(path: str, contents: Contents) -> str:
    """Read a table that is not in the download; return the name it is given.

    Its folder, which is a fact about the machine, is not part of that.
    """
    name = f"../{os.path.basename(path)}"
    _read_table(name, path, contents)
    return name


def _set_test_images_apart(given: str, contents: Contents) -> None:
    """Find the images or the table that `--test-images` names; raise SourceError for neither."""
    place = place_of_test_images(contents.root, given)
    start = f"{place.inside}/" if place.inside else "\0"
    inside = [path for path in contents.images if path.startswith(start)]
    if place.outside and not place.inside:
        contents.test_table = _read_outside(place.outside, contents)
    elif inside:
        known = set(inside)
        contents.test_images = inside
        contents.images = [path for path in contents.images if path not in known]
    elif place.inside in contents.tables:
        contents.test_table = place.inside
    if not contents.test_images and contents.test_table not in contents.tables:
        raise SourceError(
            f"--test-images {given} is neither a folder of images nor a table of ids",
            hint=f"name a folder or a table in {contents.root}, or one elsewhere",
            path=contents.root,
        )


def _by_kind(
    folders: Iterable[Folder], options: SourceOptions, is_packed: Callable[[str], bool]
) -> Mapping[str, list[TreeFile]]:
    """Group the files of a download; `--include` chooses images, `--exclude` any files."""
    included, excluded = globs_pattern(options.include), globs_pattern(options.exclude)
    found: dict[str, list[TreeFile]] = defaultdict(list)
    for folder in folders:
        by_kind: dict[str, list[TreeFile]] = defaultdict(list)
        for file in folder.tree_files():
            kind = _kind(file.path.rpartition("/")[2], is_packed)
            is_chosen = not options.include or kind in _SUFFIXES or included.match(file.path)
            if is_chosen and not excluded.match(file.path):
                by_kind[kind].append(file)
        unknown = by_kind.pop("", [])
        # Content decides whether files are images, but only where their names do not.
        if not by_kind["image"] and any(map(_is_image, unknown[:_SNIFFED])):
            by_kind["image"] = unknown
        for kind, files in by_kind.items():
            found[kind] += files
    return found


def _kind(name: str, is_packed: Callable[[str], bool]) -> str:
    if extension(name) in IMAGE_EXTENSIONS:
        return "image"
    lower = name.lower()
    for kind, suffixes in _SUFFIXES.items():
        if lower.endswith(suffixes):
            return kind
    if is_packed(name):
        return "packed"
    return "other" if extension(name) in _OTHERS else ""


def _is_image(file: TreeFile) -> bool:
    """Tell by its first bytes whether a file is an image."""
    try:
        head = look(file.blob, file.size, HEAD_BYTES, dated=False).head
    except BadImage:
        return False
    return bool(format_of(head, file.path))


def _topmost(files: Sequence[TreeFile], contents: Contents) -> Iterator[TreeFile]:
    """Yield the files that may explain a download, and note the files that are not read.

    Labels are in few files near the top; there may also be a text file for each image.
    """
    by_depth = sorted(files, key=lambda file: (file.path.count("/"), file.path))
    for file in by_depth[:_MOST_FILES]:
        if _size(file) <= _MOST_BYTES:
            yield file
        else:
            contents.unread[file.path] = f"it is larger than {_MOST_BYTES >> 30} GiB"
    for file in by_depth[_MOST_FILES : _MOST_FILES + 1]:
        rest = len(by_depth) - _MOST_FILES
        contents.unread[file.path] = f"it is one of {rest:,} beyond the first {_MOST_FILES}"


def _size(file: TreeFile) -> int:
    is_on_disk = isinstance(file.blob, str) and not is_url(file.blob)
    return os.path.getsize(file.blob) if is_on_disk else file.size  # type: ignore[arg-type]


def _read_table(path: str, copy: str, contents: Contents) -> None:
    """Read a table with a header, or note a table of pixels."""
    if kind_of(copy) is None:
        return
    if is_pixel_table(copy):
        contents.pixels.append(copy)
    elif table := read_named_table(path, copy, contents.encoding):
        contents.tables[path] = table


def _read_list(path: str, copy: str, contents: Contents) -> None:
    """Read a text file that may list images."""
    try:
        table = read_table(copy, path, contents.encoding)
    except SourceError:  # a read-me, say
        return
    if table.rows:
        contents.lists[path] = [[str(cell) for cell in row] for row in table.rows]


def _read_json(path: str, copy: str, contents: Contents) -> None:
    """Read JSON that names labels, or COCO-style annotations."""
    if os.path.getsize(copy) > _MOST_JSON_BYTES:
        raise SourceError(f"it is larger than {_MOST_JSON_BYTES >> 20} MiB")
    text = Path(copy).read_bytes()
    if text.count(b",") > _MOST_JSON_VALUES:
        raise SourceError(f"it has more than {_MOST_JSON_VALUES:,} values")
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return
    if names := label_names_of_json(document):
        contents.maps[path] = names
    elif coco := parse_coco(document, path):
        contents.tables[path] = coco.table
        contents.file_of |= coco.file_of
