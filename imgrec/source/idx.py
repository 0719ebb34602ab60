"""IDX files (MNIST and its relatives): images in one file, their labels in another."""

from __future__ import annotations

import gzip
import posixpath
import re
import zlib
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NamedTuple

from imgrec.codec.idx import GZIP_MAGIC, HEAD_BYTES, IMAGES, LABELS, Header, parse_header
from imgrec.codec.pillow import refuse_bomb
from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, VAL, Catalog, SourceLayout, split_order
from imgrec.notes import warnings_of
from imgrec.options import SourceKind, SourceOptions
from imgrec.source.label_names import read_label_names
from imgrec.source.pixels import (
    Classes,
    Faults,
    PixelSamples,
    Raster,
    Readable,
    RecordLayout,
    home_of,
    open_file,
    read_records,
)
from imgrec.source.tree import Context, Match, Tally, TreeFile
from imgrec.stamp import NO_STAMP
from imgrec.storage.blobs import BlobHead, read_blob, read_head

_NAME = re.compile(
    r"(?:(?P<set>.+?)[-_.])??(?:(?P<part>train|t10k|test|val)[-_.])?"
    r"(?:images[-_.]idx3|(?P<labels>labels)[-_.]idx1)[-_.]ubyte(?P<gz>\.gz)?",
    re.IGNORECASE,
)
_SPLITS = {"train": TRAIN, "t10k": TEST, "test": TEST, "val": VAL, "": ""}
_FREE_IMAGES = 1_000_000
"""So many may be in a few bytes, and one more for each byte: each takes 700 bytes of memory."""
_MAPPING_LINE = re.compile(r"\s*(?P<label>\d{1,3})\s+(?P<code>\d{1,7})(\s+\d{1,7})*\s*")
_MAX_MAPPING_BYTES = 1 << 20
_BOTH = "put the -images-idx3-ubyte and the -labels-idx1-ubyte file of each split into one folder"


class _IdxFile(NamedTuple):
    """An IDX file, by its name."""

    file: TreeFile
    set_name: str
    """What comes before the split: `emnist-letters`, or "" for MNIST itself."""
    part: str
    """Its word for the split; "" for none."""
    dimensions: int
    is_gzip: bool


class _IdxSet(NamedTuple):
    """The files of one set."""

    name: str
    folder: str
    files: list[_IdxFile]
    copies: list[_IdxFile]
    """Files that have the same content, by their names, as one of `files`."""


class _Opened(NamedTuple):
    """An IDX file whose header was read."""

    file: TreeFile
    look: BlobHead
    is_gzip: bool
    header: Header

    @property
    def items(self) -> int:
        """Count its images or labels."""
        return self.header.sizes[0]


class _Part(NamedTuple):
    """The images of one split, and their labels if it has any."""

    split: str
    images: _Opened
    labels: _Opened | None


def detect(listing: Sequence[TreeFile], _: Context) -> Match | None:
    """Find IDX files, by their names, in the root of a tree or one folder below it."""
    likely = (file for file in listing if "ubyte" in file.path.lower())
    files = {file for file in likely if "/" not in _folder(file.path) and _parse_name(file)}
    if not files:
        return None
    others = tuple(file for file in listing if file not in files)
    return Match(tuple(file for file in listing if file in files), others=others)


def scan(match: Match, _: str, context: Context) -> Catalog:
    """List the images of IDX files; raise SourceError, for all at once, if they are damaged."""
    idx_set, faults = _only_set(match.files), Faults()
    parts = _open_parts(idx_set.files, faults)
    opened = [file for part in parts for file in (part.images, part.labels) if file]
    _refuse_bombs(opened, context)
    labels = _read_labels(parts, faults)
    mapping = _find_mapping(idx_set, match.others)
    classes = _classes(set().union(*labels.values()), mapping, context.options)
    class_folders = classes.class_folders()
    for part in parts:
        if part.labels:
            with faults.of(part.labels.file):
                classes.refuse_unnamed(labels[part.split])
    faults.check()
    images = PixelSamples()
    for part in parts:
        with faults.of(part.images.file), _body(part.images) as stream:
            records = read_records(stream, _layout(part.images), context)
            names = [""] * part.images.items
            if part.labels:
                names = [classes.names[number] for number in labels[part.split]]
            images.add(part.split, names, records)
    faults.check()
    tally = Tally()
    for file in match.others:
        if file.path != classes.named_by:
            tally.add("not an IDX file", file.path)
    for copy in idx_set.copies:
        tally.add("a second copy of an IDX file", copy.file.path)
    return Catalog(
        name="",
        layout=SourceLayout(kind=SourceKind.IDX, sentence=_describe(idx_set, parts)),
        samples=images.samples(),
        class_folders=class_folders,
        class_order=classes.order,
        notes=(*tally.ignored(), *warnings_of((*classes.warnings, *_warnings(idx_set)))),
        stamp=NO_STAMP.merged(*(file.look.stamp for file in opened)),
    )


# Which files belong together, by their names.


def _parse_name(file: TreeFile) -> _IdxFile | None:
    match = _NAME.fullmatch(file.path.rpartition("/")[2])
    if match is None:
        return None
    return _IdxFile(
        file,
        set_name=(match["set"] or "").lower(),
        part=(match["part"] or "").lower(),
        dimensions=LABELS if match["labels"] else IMAGES,
        is_gzip=bool(match["gz"]),
    )


def _folder(path: str) -> str:
    """Return the folder of a file; some tools unpack each file into a folder of its own name.

    >>> _folder("mnist/train-images-idx3-ubyte/train-images-idx3-ubyte")
    'mnist'
    """
    folder, _, name = path.rpartition("/")
    above, _, own = folder.rpartition("/")
    return above if own.removesuffix(".gz") == name.removesuffix(".gz") else folder


def _only_set(files: Sequence[TreeFile]) -> _IdxSet:
    """Return the only set of files; raise SourceError if there are several."""
    folders: dict[str, list[_IdxFile]] = defaultdict(list)
    for file in files:
        if named := _parse_name(file):
            folders[_folder(file.path)].append(named)
    if len(folders) > 1:
        names = ", ".join(folder or "the root" for folder in sorted(folders))
        raise SourceError(
            f"there are IDX files in several folders: {names}", hint="pack one of these folders"
        )
    ((folder, found),) = folders.items()
    sets = sorted({file.set_name for file in found})
    if len(sets) > 1:
        raise SourceError(
            f"there are several sets of IDX files in {folder or 'the root'}: "
            + ", ".join(name or "one without a name" for name in sets),
            hint="keep the files of one set in the folder",
        )
    same: dict[tuple[str, int], list[_IdxFile]] = defaultdict(list)
    for one in sorted(found, key=lambda one: (one.is_gzip, one.file.path)):  # plain ones first
        same[one.part, one.dimensions].append(one)
    copies = [copy for group in same.values() for copy in group[1:]]
    return _IdxSet(sets[0], folder, [group[0] for group in same.values()], copies)


def _open_parts(files: Sequence[_IdxFile], faults: Faults) -> list[_Part]:
    """Pair images with labels, by split, and read all headers before any data."""
    pairs = _pairs(files, faults)
    faults.check()
    parts = []
    for split, image_file, label_file in pairs:
        images = _open(image_file, IMAGES, faults)
        labels = _open(label_file, LABELS, faults) if label_file else None
        if images and labels and images.items != labels.items:
            faults.add(
                f"{images.file.path} has {images.items:,} images, "
                f"but {labels.file.path} has {labels.items:,} labels",
                "put the two that belong together into the folder",
                path=images.file.path,
            )
        elif images:
            parts.append(_Part(split, images, labels))
    faults.check()
    return parts


def _pairs(
    files: Sequence[_IdxFile], faults: Faults
) -> list[tuple[str, TreeFile, TreeFile | None]]:
    """Return each split with its images and its labels; only test may have none."""
    by_part: dict[str, dict[int, TreeFile]] = defaultdict(dict)
    for file in files:
        by_part[file.part][file.dimensions] = file.file
    first = {part: next(iter(held.values())).path for part, held in by_part.items()}
    if "t10k" in first and "test" in first:
        paths = f"{first['t10k']} and {first['test']}"
        faults.add(f"{paths} are both for the split test", "remove one of them")
    if "" in first and len(first) > 1:
        other = min(first[part] for part in first if part)
        faults.add(f"{first['']} names no split, but {other} does", "remove one of them")
    pairs = []
    for part, held in by_part.items():
        images, labels, split = held.get(IMAGES), held.get(LABELS), _SPLITS[part]
        if images is None:
            faults.add(f"{held[LABELS].path}: labels without their images", _BOTH)
        elif labels is None and split != TEST:
            faults.add(f"{images.path}: images without their labels", _BOTH)
        else:
            pairs.append((split, images, labels))
    if not faults.errors and not any(labels for *_, labels in pairs):
        faults.add(f"{pairs[0][1].path}: no images have labels", _BOTH)
    return sorted(pairs, key=lambda pair: split_order(pair[0]))


# Reading them.


def _open(file: TreeFile, dimensions: int, faults: Faults) -> _Opened | None:
    with faults.of(file):
        found = read_head(file.blob, file.size, HEAD_BYTES, dated=True)
        head, is_gzip = found.head, found.head.startswith(GZIP_MAGIC)
        if is_gzip:
            with _unpacked(file, found.size, is_gzip=True) as stream:
                head = stream.read(HEAD_BYTES)
        header = parse_header(head, dimensions)
        expected = header.size + header.data_size
        if not is_gzip and found.size != expected:
            raise SourceError(
                f"{found.size:,} bytes, expected {expected:,} by its header ({_shape(header)})"
            )
        if not header.data_size:
            raise SourceError(f"is empty: its header says {_shape(header)}")
        if dimensions == IMAGES:
            refuse_bomb(*header.sizes[1:])
        return _Opened(file, found, is_gzip, header)
    return None


def _shape(header: Header) -> str:
    return " x ".join(map(str, header.sizes))


def _refuse_bombs(files: Sequence[_Opened], context: Context) -> None:
    gzipped = [file for file in files if file.is_gzip]
    unpacked_bytes = sum(file.header.data_size for file in gzipped)
    if unpacked_bytes > context.options.max_archive_bytes:
        raise SourceError(
            f"the gzipped IDX files unpack to {unpacked_bytes:,} bytes, by their headers",
            hint=f"if that is right, pass --max-archive-bytes {unpacked_bytes}",
        )
    for file in gzipped:
        is_images = len(file.header.sizes) == IMAGES
        if is_images and file.items > _FREE_IMAGES + file.look.size:
            raise SourceError(
                f"{file.file.path} holds {file.items:,} images in {file.look.size:,} bytes, by its "
                "header: it looks like a decompression bomb",
                hint="if you trust it, unpack it and pack the folder",
            )


@contextmanager
def _unpacked(file: TreeFile, size: int, *, is_gzip: bool) -> Iterator[Readable]:
    """Open a file; raise SourceError if its compressed data is damaged."""
    try:
        with open_file(file, size) as stream:
            yield gzip.GzipFile(fileobj=stream) if is_gzip else stream
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise SourceError("its gzip data is damaged or cut short") from error


@contextmanager
def _body(opened: _Opened) -> Iterator[Readable]:
    """Open a file after its header; raise SourceError if data is left after reading it."""
    with _unpacked(opened.file, opened.look.size, is_gzip=opened.is_gzip) as stream:
        stream.read(opened.header.size)
        yield stream
        # No more is unpacked than the header promises, so that a bomb does not go off.
        if stream.read(1):
            raise SourceError(
                f"has more than the {opened.header.data_size:,} bytes in its header "
                f"({_shape(opened.header)})"
            )


def _read_labels(parts: Sequence[_Part], faults: Faults) -> dict[str, bytes]:
    """Return the labels of each split that has any."""
    labels = {}
    for split, _, file in parts:
        if file is None:
            continue
        with faults.of(file.file), _body(file) as stream:
            labels[split] = stream.read(file.items)
            if (count := len(labels[split])) < file.items:
                raise SourceError(f"ends after {count:,} of {file.items:,} labels")
    faults.check()
    return labels


def _layout(images: _Opened) -> RecordLayout:
    _, height, width = images.header.sizes
    home = None if images.is_gzip else home_of(images.file)
    if home:
        home = home[0], home[1] + images.header.size
    return RecordLayout(images.items, Raster(height, width, 1), home=home)


# The names of the classes.


def _classes(used: Collection[int], mapping: TreeFile | None, options: SourceOptions) -> Classes:
    """Name the classes by `--label-names`, else by the set's own mapping, else by their numbers.

    An unusable mapping is ignored with a warning.
    """
    if options.label_names is not None:
        named = read_label_names(options.label_names, [str(label) for label in used])
        names = {int(key): name for key, name in named.names.items() if key.isdecimal()}
        return Classes(names, "--label-names", named.notes)
    numbers = Classes({label: str(label) for label in range(max(used) + 1)}, "the labels")
    if mapping is None:
        return numbers
    try:
        names = _read_mapping(mapping)
        _refuse_unusable(names, used, options)
    except SourceError as error:
        warning = f"{mapping.path}: {error}; so numbers are used as class names"
        return numbers._replace(warnings=(warning,))
    moved = [(new, old) for new, old in enumerate(sorted(names)) if new != old]
    warnings = [
        f"{mapping.path}: labels are numbered from 0 without gaps, "
        f"so {names[old]} becomes {new} instead of {old}, and so on"
        for new, old in moved[:1]
    ]
    return Classes(names, mapping.path, tuple(warnings))


def _find_mapping(idx_set: _IdxSet, others: Sequence[TreeFile]) -> TreeFile | None:
    """Return the file that names the classes of a set, if it is beside the images."""
    wanted = posixpath.join(idx_set.folder, f"{idx_set.name}-mapping.txt").lower()
    return next((file for file in others if file.path.lower() == wanted), None)


def _read_mapping(mapping: TreeFile) -> dict[int, str]:
    """Read lines of a label and the codes of its characters; the first character is its name."""
    size = read_head(mapping.blob, mapping.size, 1, dated=True).size
    if size > _MAX_MAPPING_BYTES:
        raise SourceError(f"{size:,} bytes are too many for a mapping")
    lines = read_blob(mapping.blob, size).decode("ascii", "replace").splitlines()
    names: dict[int, str] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        match = _MAPPING_LINE.fullmatch(line)
        if match is None:
            raise SourceError(f"line {number} is not a label and the codes of its characters")
        label, code = int(match["label"]), int(match["code"])
        if label in names:
            raise SourceError(f"line {number} names label {match['label']} again")
        names[label] = chr(code) if code <= 0x10FFFF else ""
    return names


def _refuse_unusable(
    names: Mapping[int, str], used: Collection[int], options: SourceOptions
) -> None:
    if unnamed := sorted(label for label in used if label not in names):
        raise SourceError(f"it does not name the labels {', '.join(map(str, unnamed))}")
    blank = [label for label, name in names.items() if not (name.isprintable() and name.strip())]
    if blank:
        raise SourceError(f"labels {', '.join(map(str, sorted(blank)))} have no printable name")
    counts = Counter(name.casefold() for name in names.values())
    alike = [name for name in names.values() if counts[name.casefold()] > 1]
    if alike and not (options.keep_case or options.fold_case):
        raise SourceError(f"names that differ only in case: {' '.join(sorted(alike))}")


# What to report.


def _describe(idx_set: _IdxSet, parts: Sequence[_Part]) -> str:
    name = f" ({idx_set.name})" if idx_set.name else ""
    shown = []
    for part in parts:
        _, height, width = part.images.header.sizes
        bare = "" if part.labels else ", without labels"
        shown.append(f"{part.split or 'all'} {width}x{height}{bare}")
    return f"IDX{name}: {'; '.join(shown)}"


def _warnings(idx_set: _IdxSet) -> Iterator[str]:
    if idx_set.copies:
        copies = ", ".join(copy.file.path for copy in idx_set.copies)
        kept = ", ".join(one.file.path for one in idx_set.files)
        yield f"not read, because by their names they repeat {kept}: {copies}"
    if idx_set.name.startswith("emnist"):
        yield (
            f"{idx_set.name}: EMNIST stores its images with rows and columns swapped; "
            "they are packed unchanged"
        )
