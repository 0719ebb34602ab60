"""What lies in a download: its images, and whatever may explain them."""

from __future__ import annotations

import json
import os
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import translate
from typing import NamedTuple

from imgrec.codec.sniff import HEAD_BYTES, IMAGE_EXTENSIONS, extension, format_of
from imgrec.errors import BadImage, SourceError
from imgrec.options import SourceOptions
from imgrec.source.arrays.numpy_arrays import is_numpy
from imgrec.source.arrays.pixel_table import is_pixel_table
from imgrec.source.arrays.samples import TreeFile, files_of
from imgrec.source.context import Context
from imgrec.source.download import coco
from imgrec.source.download.targets import Columns
from imgrec.source.listing import place_of_test_images
from imgrec.source.manifests.columns import squashed
from imgrec.source.manifests.tables import Cell, Fault, Table, TableKind, kind_of, read_table
from imgrec.source.spooled import spooled
from imgrec.source.tfrecord import is_tfrecord
from imgrec.source.tree import Folder, Lister
from imgrec.storage.blobs import look
from imgrec.storage.urls import is_url
from imgrec.text import globs_pattern

_SUFFIXES = {
    "table": (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".csv.gz", ".tsv.gz"),
    "list": (".txt", ".lst", ".list"),
    "json": (".json",),
}
_OTHERS = frozenset(
    {"md", "html", "htm", "xml", "pdf", "py", "ipynb", "mat", "pkl", "dcm", "zip", "gz", "mp4",
     "avi", "yaml", "yml", "xlsx", "h5", "pt", "pth"}
)  # fmt: skip
"""Extensions of files that are no images, whatever they begin with."""
_SNIFFED = 3
_SHOWN = 5
_MOST_FILES = 60
"""More tables than this are data of the images themselves, such as one a picture."""
_MOST_BYTES = 1 << 30
_MOST_JSON_BYTES = 1 << 29


class SeenTable(NamedTuple):
    """A table of a download, with named columns."""

    columns: Columns
    lines: Sequence[int]
    """The line of each row."""
    copy: str
    """Where it can be read; "" if it was made of JSON."""
    faults: tuple[Fault, ...] = ()
    """Lines that could not be parsed."""
    doubt: str = ""
    """What to tell users about how the file was read."""
    has_names: bool = False
    """Whether each label is known to be one name, whatever blanks it has."""


@dataclass(slots=True, kw_only=True)
class Seen:
    """The images, tables, lists and maps of names that lie in a download."""

    root: str
    images: Sequence[str] = ()
    """Their paths."""
    test_images: Sequence[str] = ()
    """Those of them that `--test-images` says have no labels; they are not among `images`."""
    label_table: str = ""
    """The table that `--manifest` names."""
    test_table: str = ""
    """The table that `--test-images` names."""
    tables: dict[str, SeenTable] = field(default_factory=dict)
    lists: dict[str, Sequence[Sequence[str]]] = field(default_factory=dict)
    """Text files of one image a line, by path: the words of each line."""
    maps: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """JSON objects that name labels, by path."""
    file_of: dict[str, str] = field(default_factory=dict)
    """The file that an id stands for, by COCO-style JSON."""
    packed: Sequence[TreeFile] = ()
    """Files that may hold images, and text files beside them."""
    pixels: list[str] = field(default_factory=list)
    """Tables of pixels, where they can be read."""
    unreadable: dict[str, str] = field(default_factory=dict)
    """Files that could not be read, by path, and why."""


def look_around(lister: Lister, context: Context) -> Seen:
    """List a download and read what may explain it; images are not opened."""
    left_out = globs_pattern(context.options.exclude)
    files = _sorted_out(lister.folders(), wanted(context.options), left_out)
    seen = Seen(
        root=lister.root,
        images=[file.path for file in files["image"]],
        packed=[*files["packed"], *files["list"]],
    )
    for kind, read in (("table", _read_table), ("list", _read_list), ("json", _read_json)):
        for file in _few(files[kind]):
            try:
                read(file, spooled(file.path, file.blob, file.size, context), seen)
            except SourceError as error:
                seen.unreadable[file.path] = error.message
    if context.options.table:
        seen.label_table = _find_label_table(context.options.table, seen)
    _set_aside_test_images(lister.root, context.options.test_images, seen)
    return seen


def _find_label_table(given: str, seen: Seen) -> str:
    """Return the table that `--manifest` names: one of the download, or one elsewhere.

    Raises SourceError if it names none or several.
    """
    if os.path.isfile(given):
        real = os.path.realpath(given)
        copies = ((name, table.copy) for name, table in seen.tables.items() if table.copy)
        inside = [name for name, copy in copies if os.path.realpath(copy) == real]
        named = inside or [_read_outside(given, seen)]
    else:
        end = f"/{given.strip('/')}"
        _take_list(end, seen)
        named = [name for name in seen.tables if f"/{name}" == end]
        named = named or [name for name in seen.tables if f"/{name}".endswith(end)]
    if len(named) == 1 and named[0] in seen.tables:
        return named[0]
    what = f"several such tables: {', '.join(named)}" if named else "no such table"
    raise SourceError(
        f"--manifest {given}: {seen.root} has {what}",
        hint=f"it has {', '.join(sorted(seen.tables)[:_SHOWN]) or 'no table'}",
        path=seen.root,
    )


def _take_list(end: str, seen: Seen) -> None:
    """Make a table of the list that `--manifest` names: its columns have no names."""
    for path in [path for path in seen.lists if f"/{path}".endswith(end)]:
        rows = seen.lists[path]
        if rows and len({len(row) for row in rows}) == 1 and len(rows[0]) > 1:
            names = tuple(f"column_{number}" for number in range(1, len(rows[0]) + 1))
            columns = Columns(path, names, tuple(zip(*rows, strict=True)))
            seen.tables[path] = SeenTable(columns, range(1, len(rows) + 1), "")


def _read_outside(path: str, seen: Seen) -> str:
    """Read a table that is not in the download; return what it is called.

    Its folder, which is a fact about the machine, is not part of that.
    """
    name = f"../{os.path.basename(path)}"
    _read_table(TreeFile(name, path, os.path.getsize(path)), path, seen)
    return name


def _set_aside_test_images(root: str, given: str, seen: Seen) -> None:
    """Find the images or the table that `--test-images` names."""
    if not given:
        return
    place = place_of_test_images(root, given)
    inside = [path for path in seen.images if place.inside and path.startswith(f"{place.inside}/")]
    if place.outside and not place.inside:
        seen.test_table = _read_outside(place.outside, seen)
    elif inside:
        known = set(inside)
        seen.test_images = inside
        seen.images = [path for path in seen.images if path not in known]
    elif place.inside in seen.tables:
        seen.test_table = place.inside
    if not seen.test_images and seen.test_table not in seen.tables:
        raise SourceError(
            f"--test-images {given} is neither a folder of images nor a table of ids",
            hint=f"name a folder or a table in {root}, or one elsewhere",
            path=root,
        )


def _sorted_out(
    folders: Iterable[Folder], is_wanted: Callable[[str], bool], left_out: re.Pattern[str]
) -> Mapping[str, list[TreeFile]]:
    """Return the files of a download by kind; `--include` chooses images only."""
    found: dict[str, list[TreeFile]] = defaultdict(list)
    for folder in folders:
        by_kind: dict[str, list[TreeFile]] = defaultdict(list)
        for file in files_of(folder):
            kind = _kind(file.path.rpartition("/")[2])
            is_text = kind in ("table", "list", "json")
            if is_wanted(file.path) or (is_text and not left_out.match(file.path)):
                by_kind[kind].append(file)
        unknown = by_kind.pop("", [])
        # Content decides what is an image, but only where names do not.
        if not by_kind["image"] and any(map(_is_image, unknown[:_SNIFFED])):
            by_kind["image"] = unknown
        for kind, files in by_kind.items():
            found[kind] += files
    return found


def _kind(name: str) -> str:
    if extension(name) in IMAGE_EXTENSIONS:
        return "image"
    lower = name.lower()
    for kind, suffixes in _SUFFIXES.items():
        if lower.endswith(suffixes):
            return kind
    if is_tfrecord(name) or is_numpy(name):
        return "packed"
    return "other" if extension(name) in _OTHERS else ""


def wanted(options: SourceOptions) -> Callable[[str], bool]:
    """Return what tells whether `--include` and `--exclude` let a path through."""
    patterns = [
        (re.compile("|".join(map(translate, globs))), is_exclusion)
        for globs, is_exclusion in ((options.include, False), (options.exclude, True))
        if globs
    ]
    return lambda path: all(bool(p.match(path)) != is_exclusion for p, is_exclusion in patterns)


def _is_image(file: TreeFile) -> bool:
    """Tell by its first bytes whether a file is an image."""
    try:
        head = look(file.blob, file.size, HEAD_BYTES, dated=False).head
    except BadImage:
        return False
    return bool(format_of(head, file.path))


def _few(files: Sequence[TreeFile]) -> Iterator[TreeFile]:
    """Yield the files that may explain a download: not one for each image, nor huge ones."""
    if len(files) <= _MOST_FILES:
        yield from (file for file in files if _size(file) <= _MOST_BYTES)


def _size(file: TreeFile) -> int:
    is_on_disk = isinstance(file.blob, str) and not is_url(file.blob)
    return os.path.getsize(file.blob) if is_on_disk else file.size  # type: ignore[arg-type]


def _read_table(file: TreeFile, copy: str, seen: Seen) -> None:
    """Read a table with a header, or note one of pixels."""
    if kind_of(copy) is None:
        return
    if is_pixel_table(copy):
        seen.pixels.append(copy)
        return
    table = _without_empty_columns(read_table(copy, file.path))
    names, skipped = _header(table)
    if names:
        rows = table.rows[skipped:]
        cells = tuple(zip(*rows, strict=True)) if rows else ((),) * len(names)
        columns = Columns(file.path, names, tuple(map(_unbracketed, cells)))
        lines = table.lines[skipped:]
        seen.tables[file.path] = SeenTable(columns, lines, copy, table.faults, table.doubt)


def _without_empty_columns(table: Table) -> Table:
    """Return a table without last columns that hold nothing, as spreadsheets write them."""
    width = max(map(len, table.rows), default=0)
    if table.keys or any(len(row) != width for row in table.rows):
        return table
    kept = width
    while kept > 1 and not any(row[kept - 1] for row in table.rows):
        kept -= 1
    return table if kept == width else replace(table, rows=[row[:kept] for row in table.rows])


def _unbracketed(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells of a column whose texts are lists in brackets, such as "['a', 'b']"."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    if not texts or not all(text[0] + text[-1] == "[]" for text in texts):
        return cells
    return [
        tuple(word for part in cell.strip("[] ").split(",") if (word := part.strip(" '\"")))
        if isinstance(cell, str)
        else cell
        for cell in cells
    ]


def _header(table: Table) -> tuple[tuple[str, ...], int]:
    """Return the names of the columns and how many first rows they take; () for no header."""
    if table.kind in (TableKind.JSONL, TableKind.PARQUET):
        return table.keys, 0
    if not table.rows:
        return (), 0
    names = tuple(str(cell).strip() for cell in table.rows[0])
    is_header = all(names[1:]) and len(set(names)) == len(names)
    return (names, 1) if is_header and not any(map(_is_path, names)) else ((), 0)


def _is_path(cell: str) -> bool:
    return extension(cell) in IMAGE_EXTENSIONS


def _read_list(file: TreeFile, copy: str, seen: Seen) -> None:
    """Read a text file, of which nobody expects to be a list of images."""
    try:
        table = read_table(copy, file.path)
    except SourceError:  # a read-me, say
        return
    if table.rows:
        seen.lists[file.path] = [[str(cell) for cell in row] for row in table.rows]


def _read_json(file: TreeFile, copy: str, seen: Seen) -> None:
    """Read JSON that names labels, or COCO-style annotations."""
    if os.path.getsize(copy) > _MOST_JSON_BYTES:
        raise SourceError(f"it is larger than {_MOST_JSON_BYTES >> 20} MiB")
    with open(copy, "rb") as stream:
        try:
            document = json.load(stream)
        except (ValueError, RecursionError):
            return
    if names := _names(document):
        seen.maps[file.path] = names
    elif found := coco.parse(document, file.path):
        count = len(found.columns.cells[0])
        lines = range(1, count + 1)
        seen.tables[file.path] = SeenTable(found.columns, lines, "", has_names=True)
        seen.file_of |= found.file_of


def _names(document: object) -> Mapping[str, str]:
    """Return what a JSON object calls each label; empty if it is no such object."""
    if not isinstance(document, dict) or not document:
        return {}
    values = document.values()
    if all(isinstance(value, str) for value in values):
        return {str(key).strip(): value.strip() for key, value in document.items()}
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return {str(value): str(key).strip() for key, value in document.items()}
    return {}


def names_in(columns: Columns) -> Mapping[str, str]:
    """Return what a table calls each label: its first column, named by another.

    Empty if it is no such table.
    """
    if len(columns.names) < 2:
        return {}
    named = [at for at, name in enumerate(columns.names) if at and "name" in squashed(name)]
    if len(named) != 1 and len(columns.names) > 2:
        return {}
    at = named[0] if len(named) == 1 else 1
    keys = [text.strip() for text in columns.texts(0)]
    names = [text.strip() for text in columns.texts(at)]
    is_map = len(set(keys)) == len(keys) and len(set(names)) == len(names) and all(names)
    return dict(zip(keys, names, strict=True)) if is_map else {}
