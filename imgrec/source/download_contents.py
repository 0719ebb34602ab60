"""The contents of a download: its images, and the files that may explain them."""

from __future__ import annotations

import json
import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from imgrec.codec.sniff import HEAD_BYTES, IMAGE_EXTENSIONS, extension, format_of
from imgrec.errors import BadImage, SourceError
from imgrec.options import SourceOptions
from imgrec.source.columns import squashed
from imgrec.source.image_names import ImageIndex
from imgrec.source.manifest import is_submission
from imgrec.source.pixel_table import is_pixel_table
from imgrec.source.tables import Cell, Table, TableKind, kind_of, read_table
from imgrec.source.tree import Context, Folder, Lister, TreeFile, local_copy
from imgrec.source.walk import place_of_test_images
from imgrec.source.words import split_of_name
from imgrec.storage.blobs import read_head
from imgrec.storage.urls import is_url
from imgrec.text import globs_pattern, listed

_SUFFIXES = {
    "table": (".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".csv.gz", ".tsv.gz"),
    "list": (".txt", ".lst", ".list"),
    "json": (".json",),
}
_OTHERS = frozenset(
    {"md", "html", "htm", "pdf", "py", "ipynb", "dcm", "zip", "gz", "mp4", "avi", "yaml", "yml",
     "pt", "pth"}
)  # fmt: skip
"""Extensions of files that are never images, whatever their first bytes are."""
_FOREIGN = frozenset({"mat", "xlsx", "xls", "h5", "hdf5", "xml", "pkl", "manifest"})
"""Extensions of files that may hold labels or images, but are not read."""
_SNIFFED = 3
_MOST_FILES = 60
"""How many tables, how many lists and how many JSON files of a download are read."""
_MOST_BYTES = 1 << 30
_MOST_COLUMNS = 10_000
_MOST_JSON_BYTES = 1 << 27
_MOST_JSON_VALUES = 10_000_000
"""Each takes up to 64 bytes of memory."""


@dataclass(kw_only=True)
class Contents:
    """The images, tables, lists and maps of names of a download."""

    root: str
    encoding: str = ""
    """Of its tables, from `--encoding`."""
    images: Sequence[str] = ()
    """Their paths."""
    test_images: Sequence[str] = ()
    """The images that `--test-images` names; they are not among `images`."""
    label_table: str = ""
    """The table that `--manifest` names."""
    test_table: str = ""
    """The table that `--test-images` names."""
    tables: dict[str, Table] = field(default_factory=dict)
    """Tables with a header, by path."""
    lists: dict[str, Table] = field(default_factory=dict)
    """Text files of one image a line, by path."""
    maps: dict[str, Mapping[str, str]] = field(default_factory=dict)
    """JSON objects that name labels, by path."""
    file_of: dict[str, str] = field(default_factory=dict)
    """The file of each image id in COCO-style JSON."""
    packed: Sequence[TreeFile] = ()
    """Files that may hold images, and text files beside them."""
    pixels: list[str] = field(default_factory=list)
    """Tables of pixels."""
    foreign: str = ""
    """A file of a format that often holds labels, and that imgrec does not read; "" for none."""
    unread: dict[str, str] = field(default_factory=dict)
    """Files that were not read, by path, and why."""

    @cached_property
    def sample(self) -> Table | None:
        """The sample submission; of several, the one with the most rows."""
        found = [table for path, table in sorted(self.tables.items()) if is_submission(path)]
        usable = [table for table in found if len(table.names) > 1 and table.lines]
        return max(usable, key=lambda table: len(table.lines), default=None)

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
        """The names of the images directly in each folder."""
        found: dict[str, list[str]] = defaultdict(list)
        for path in self.images:
            folder, _, name = path.rpartition("/")
            found[folder].append(name)
        return found


def read_contents(lister: Lister, context: Context, is_packed: Callable[[str], bool]) -> Contents:
    """List a download and read the files that may explain it. Images are not opened.

    `is_packed` returns whether a file of that name may hold images.
    """
    files = _by_kind(lister.folders(), context.options, is_packed)
    contents = Contents(
        root=lister.root,
        encoding=context.options.encoding,
        foreign=min(map(_depth_first, files["foreign"]), default=(0, ""))[1],
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
    for kind, suffixes in _SUFFIXES.items():
        if name.lower().endswith(suffixes):
            return kind
    if is_packed(name):
        return "packed"
    own = extension(name)
    return "foreign" if own in _FOREIGN else "other" if own in _OTHERS else ""


def _is_image(file: TreeFile) -> bool:
    try:
        head = read_head(file.blob, file.size, HEAD_BYTES, dated=False).head
    except BadImage:
        return False
    return bool(format_of(head, file.path))


def _depth_first(file: TreeFile) -> tuple[int, str]:
    return file.path.count("/"), file.path


def _topmost(files: Sequence[TreeFile], contents: Contents) -> Iterator[TreeFile]:
    """Yield the files that may explain a download, and note the files that are not read.

    Labels are in few files near the top; there may also be a text file for each image.
    """
    by_depth = sorted(files, key=_depth_first)
    for file in by_depth[:_MOST_FILES]:
        is_on_disk = isinstance(file.blob, str) and not is_url(file.blob)
        if (os.path.getsize(str(file.blob)) if is_on_disk else file.size) <= _MOST_BYTES:
            yield file
        else:
            contents.unread[file.path] = f"it is larger than {_MOST_BYTES >> 30} GiB"
    for file in by_depth[_MOST_FILES : _MOST_FILES + 1]:
        rest = len(by_depth) - _MOST_FILES
        contents.unread[file.path] = f"it is one of {rest:,} beyond the first {_MOST_FILES}"


# Tables and lists


def _read_table(path: str, copy: str, contents: Contents) -> None:
    """Read a table with a header, or note a table of pixels."""
    if kind_of(copy) is None:
        return
    if is_pixel_table(copy):
        contents.pixels.append(copy)
    elif table := _with_header(read_table(copy, path, contents.encoding)):
        contents.tables[path] = replace(table, columns=tuple(map(_unbracketed, table.columns)))


def _with_header(table: Table) -> Table | None:
    """Return a table whose columns have names; None if it has no header."""
    if not table.names and table.lines:
        columns = list(table.columns)
        while len(columns) > 1 and not any(columns[-1]):  # spreadsheets write empty columns
            columns.pop()
        table = replace(table, columns=tuple(columns))
        names = table.first_row()
        is_header = all(names[1:]) and len(set(names)) == len(names)
        if any(extension(name) in IMAGE_EXTENSIONS for name in names):
            if split_of_name(table.name):
                return None  # a list of the images of a split: imgrec asks
            table = replace(table, names=numbered_columns(len(names)))
        elif is_header:
            table = table.with_header()
    if len(table.names) > _MOST_COLUMNS:
        raise SourceError(f"it has more than {_MOST_COLUMNS:,} columns")
    return table if table.names else None


def _unbracketed(cells: Sequence[Cell]) -> Sequence[Cell]:
    """Return the cells of a column, as tuples if all are lists in brackets: "['a', 'b']"."""
    texts = [cell.strip() for cell in cells if isinstance(cell, str) and cell.strip()]
    if not texts or not all(text[0] + text[-1] == "[]" for text in texts):
        return cells
    return [
        tuple(word for part in cell.strip("[] ").split(",") if (word := part.strip(" '\"")))
        if isinstance(cell, str)
        else cell
        for cell in cells
    ]


def _read_list(path: str, copy: str, contents: Contents) -> None:
    """Read a text file that may list images."""
    try:
        table = read_table(copy, path, contents.encoding)
    except SourceError:  # a read-me, for example
        return
    if table.lines:
        contents.lists[path] = table


def numbered_columns(count: int) -> tuple[str, ...]:
    """Return names for columns that have none."""
    return tuple(f"column_{number}" for number in range(1, count + 1))


def _find_label_table(given: str, contents: Contents) -> str:
    """Return the table that `--manifest` names: one of the download, or one elsewhere."""
    tables = contents.tables
    if os.path.isfile(given):
        real = os.path.realpath(given)
        named = [n for n, t in tables.items() if t.path and os.path.realpath(t.path) == real]
        named = named or [_read_outside(given, contents)]
    else:
        end = f"/{given.strip('/')}"
        for path, rows in contents.lists.items():
            if f"/{path}".endswith(end) and len(rows.columns) > 1:
                names = numbered_columns(len(rows.columns))
                tables[path] = replace(rows, names=names, faults=(), warning="", path="")
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


def _read_outside(path: str, contents: Contents) -> str:
    """Read a table that is not in the download; return a name for it without its folder."""
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
        contents.test_images = inside
        contents.images = [path for path in contents.images if not path.startswith(start)]
    elif place.inside in contents.tables:
        contents.test_table = place.inside
    if not contents.test_images and contents.test_table not in contents.tables:
        raise SourceError(
            f"--test-images {given} is neither a folder of images nor a table of ids",
            hint=f"name a folder or a table in {contents.root}, or one elsewhere",
            path=contents.root,
        )


# JSON and the names of labels


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
        _read_table(path, copy, contents)  # it may be JSON lines
        return
    if names := _label_names_of_json(document):
        contents.maps[path] = names
        return
    _read_coco(document, path, contents)
    if path not in contents.tables and (table := _table_of_objects(document, path)):
        contents.tables[path] = table


def label_names_in(table: Table) -> Mapping[str, str]:
    """Return the names that a table gives to the labels in its first column.

    Empty if it is another kind of table.
    """
    named = [at for at, name in enumerate(table.names) if at and "name" in squashed(name)]
    if len(table.names) < 2 or (len(named) != 1 and len(table.names) > 2):
        return {}
    at = named[0] if len(named) == 1 else 1
    keys = [text.strip() for text in table.texts(0)]
    names = [text.strip() for text in table.texts(at)]
    is_map = len(set(keys)) == len(keys) and len(set(names)) == len(names) and all(names)
    return dict(zip(keys, names, strict=True)) if is_map else {}


def _label_names_of_json(document: object) -> Mapping[str, str]:
    """Return the names that a JSON object gives to labels; empty for other documents."""
    if not isinstance(document, dict) or not document:
        return {}
    values = document.values()
    if all(isinstance(value, str) for value in values):
        return {str(key).strip(): value.strip() for key, value in document.items()}
    if all(isinstance(value, int) and not isinstance(value, bool) for value in values):
        return {str(value): str(key).strip() for key, value in document.items()}
    return {}


def _table_of_objects(document: object, path: str) -> Table | None:
    """Return a JSON list of objects of single values as a table; None for other documents."""
    rows = _objects(document)
    names = tuple(dict.fromkeys(key for row in rows for key in row))
    values = (value for row in rows for value in row.values())
    is_flat = all(value is None or isinstance(value, str | int | float) for value in values)
    if not isinstance(document, list) or len(rows) < len(document) or not is_flat or not names:
        return None
    if len(names) > _MOST_COLUMNS:
        raise SourceError(f"it has more than {_MOST_COLUMNS:,} columns")
    cells = ([row.get(name) for row in rows] for name in names)
    columns = tuple(["" if cell is None else str(cell) for cell in column] for column in cells)
    lines = range(1, len(rows) + 1)
    return Table(name=path, kind=TableKind.JSONL, names=names, columns=columns, lines=lines)


def _read_coco(document: object, path: str, contents: Contents) -> None:
    """Add a table of COCO-style JSON: the category of each annotated image.

    A list of images alone is a table, too. Some competitions use other keys than `id` and `name`.
    """
    if isinstance(document, list):
        document = {"images": document}
    if not isinstance(document, dict):
        return
    images = _objects(document.get("images"))
    files = {_first(image, "id", "image_id"): _first(image, "file_name") for image in images}
    files = {id_: name for id_, name in files.items() if id_ and name}
    if not files:
        return
    names = {
        _first(category, "id", "category_id"): _first(category, "name", "scientificName")
        for category in _objects(document.get("categories"))
    }
    annotations = _objects(document.get("annotations"))
    pairs = [(files.get(_first(x, "image_id"), ""), _first(x, "category_id")) for x in annotations]
    pairs = [(name, category) for name, category in pairs if name and category]
    columns: dict[str, Sequence[str]] = {"file_name": tuple(files.values())}
    if pairs:
        is_named = len(set(names.values())) == len(names) and all(names.get(k) for _, k in pairs)
        columns["file_name"] = [name for name, _ in pairs]
        columns["category"] = [names[key] if is_named else key for _, key in pairs]
    contents.tables[path] = Table(
        name=path,
        kind=TableKind.JSONL,
        names=tuple(columns),
        columns=tuple(columns.values()),
        lines=range(1, len(columns["file_name"]) + 1),
        has_single_labels=True,
    )
    contents.file_of |= files


def _objects(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _first(one: Mapping[str, object], *keys: str) -> str:
    """Return the value of the first key that an object has, as text."""
    values = (one.get(key) for key in keys)
    texts = (str(value).strip() for value in values if isinstance(value, str | int))
    return next(filter(None, texts), "")
