"""Raw pixels that stand in a few large files of a tree, as samples."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol

from xxhash import xxh3_128_digest

from imgrec.blob import Blob, Pixels, Slice, ZipMember
from imgrec.errors import ExecutionError, SourceError
from imgrec.model import Samples
from imgrec.source.context import Context
from imgrec.source.tree import Folder
from imgrec.storage.blobs import read_blob
from imgrec.storage.spool import append
from imgrec.text import printable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK_BYTES = 8 << 20
_SHOWN = 5


class TreeFile(NamedTuple):
    """One file of a tree."""

    path: str
    """Posix path inside the source."""
    blob: Blob
    size: int
    """0 on disk, where a look at it tells."""

    @property
    def home(self) -> Slice | None:
        """Where its bytes stand as they are, if they do."""
        if isinstance(self.blob, ZipMember):
            return None
        return (self.blob, 0) if isinstance(self.blob, str) else self.blob[:2]


def files_of(folder: Folder) -> list[TreeFile]:
    """Return the files right in a folder, in the order of their names."""
    prefix = f"{folder.path}/" if folder.path else ""
    sizes = folder.sizes or (0,) * len(folder.files)
    named = zip(folder.files, folder.blobs, sizes, strict=True)
    return [TreeFile(prefix + name, blob, size) for name, blob, size in named]


@dataclass(slots=True)
class Faults:
    """All that is wrong with the files of a source, to be told at once."""

    errors: list[SourceError] = field(default_factory=list)

    @contextmanager
    def of(self, file: TreeFile) -> Iterator[None]:
        """Note a SourceError that comes out of reading a file, with the file's name."""
        try:
            yield
        except SourceError as error:
            hint = error.hint or "get this file again from where it is published"
            self.add(f"{file.path}: {error}", hint, path=file.path, offset=error.offset)

    def add(self, message: str, hint: str, *, path: str = "", offset: int | None = None) -> None:
        """Note what is wrong."""
        self.errors.append(SourceError(printable(message), hint=hint, path=path, offset=offset))

    def check(self) -> None:
        """Raise one SourceError for everything noted, if there is anything."""
        if not self.errors:
            return
        first = self.errors[0]
        raise SourceError(
            "; ".join(map(str, self.errors)),
            hint="; ".join(dict.fromkeys(error.hint for error in self.errors if error.hint)),
            path=first.path,
            offset=first.offset,
        )


class _Part(io.RawIOBase):
    """A part of a file as a file of its own."""

    def __init__(self, start: Slice, size: int) -> None:
        super().__init__()
        self._start, self._size, self._at = start, size, 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        count = min(len(view), self._size - self._at)
        path, offset = self._start
        view[:count] = read_blob((path, offset + self._at), count)
        self._at += count
        return count


def open_file(file: TreeFile, size: int) -> io.BufferedReader | io.BytesIO:
    """Open a file of a tree for reading from its beginning; what reads it may raise BadImage."""
    if file.home is None:
        return io.BytesIO(read_blob(file.blob, size))
    return io.BufferedReader(_Part(file.home, size))


class Raster(NamedTuple):
    """How the pixels of an image stand in a file."""

    height: int
    width: int
    channels: int
    is_planar: bool

    @property
    def size(self) -> int:
        """Count the bytes of an image."""
        return self.height * self.width * self.channels


class RecordLayout(NamedTuple):
    """Images of one size, one after the other, each behind a few bytes of its own."""

    images: int
    """How many."""
    lead_bytes: int
    raster: Raster
    home: Slice | None
    """Where the first of them begins, if they stand as they are in a file."""


class Records(NamedTuple):
    """What was read of such images, by column."""

    leads: tuple[bytes, ...]
    """Lead byte i of all images."""
    contents: list[bytes]
    blobs: list[Pixels]
    size: int
    """Bytes of each image."""


class Readable(Protocol):
    """Something that is read from its beginning to its end."""

    def read(self, size: int, /) -> bytes:
        """Return so many bytes, or fewer at the end."""
        ...


def read_records(stream: Readable, layout: RecordLayout, context: Context) -> Records:
    """Read images, putting them into the spool unless they stand in a file already.

    Raises SourceError if there are fewer, and ExecutionError if the spool does not take them.
    """
    raster, home = layout.raster, layout.home
    stride = layout.lead_bytes + raster.size
    contents: list[bytes] = []
    blobs: list[Pixels] = []
    leads = [bytearray() for _ in range(layout.lead_bytes)]
    for chunk in _chunks(stream, layout.images * stride, stride):
        path, at = (home[0], home[1] + len(blobs) * stride) if home else spool(chunk, context)
        view = memoryview(chunk)
        starts = range(layout.lead_bytes, len(chunk), stride)
        contents += [xxh3_128_digest(view[start : start + raster.size]) for start in starts]
        offsets = range(at + layout.lead_bytes, at + len(chunk), stride)
        blobs += map(Pixels, repeat(path), offsets, *map(repeat, raster))
        for place, lead in enumerate(leads):
            lead += chunk[place::stride]
        context.on_progress(len(starts))
    return Records(tuple(map(bytes, leads)), contents, blobs, raster.size)


def _chunks(stream: Readable, size: int, stride: int) -> Iterator[bytes]:
    """Yield `size` bytes by whole records."""
    most = max(_CHUNK_BYTES // stride, 1) * stride
    for start in range(0, size, most):
        wanted = min(most, size - start)
        chunk = stream.read(wanted)
        if len(chunk) < wanted:
            raise SourceError(f"ends after {start + len(chunk):,} of {size:,} bytes of images")
        yield chunk


def spool(data: bytes, context: Context) -> Slice:
    """Keep bytes until the dataset is written."""
    path, offset = append(context.spool, [data])
    if not path:
        raise ExecutionError(
            f"{context.spool} does not take {len(data):,} bytes of unpacked images",
            hint="free some space on that disk",
            path=context.spool,
        )
    return path, offset


def refuse_outside(labels: Sequence[int], known: Collection[int], names: str) -> None:
    """Raise SourceError for labels that no class has; `names` says where the classes are named."""
    counts = Counter(labels)
    outside = sorted(label for label in counts if label not in known)
    if not outside:
        return
    shown = ", ".join(
        f"{label} (image {labels.index(label)}{', and others' if counts[label] > 1 else ''})"
        for label in outside[:_SHOWN]
    )
    more = f" and {len(outside) - _SHOWN} more" if len(outside) > _SHOWN else ""
    raise SourceError(
        f"has labels that {names} does not name: {shown}{more}",
        hint=f"check that {names} belongs to it; images are counted from 0",
    )


def class_places(names: Sequence[str], where: str) -> dict[str, tuple[str, ...]]:
    """Return where each class is named; raise SourceError for names that cannot be told apart."""
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    faults = [
        *(["it is empty"] if not names else []),
        *(f"{name!r} comes twice" for name in twice),
        *(f"name {number} is blank" for number, name in enumerate(names) if not name.strip()),
    ]
    if faults:
        raise SourceError(
            printable(f"{where}: the class names cannot be used: {'; '.join(faults)}"),
            hint="give each class one name of its own",
        )
    return {name: (f"{where}: {name}",) for name in names}


@dataclass(slots=True)
class SampleColumns:
    """Samples of raw pixels while they are gathered, numbered through in each split."""

    filenames: list[str] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    splits: list[str] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    blobs: list[Pixels] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, split: str, class_names: Sequence[str], records: Records) -> None:
        """Add images of one split, in their order."""
        prefixes = {name: class_prefix(split, name) for name in dict.fromkeys(class_names)}
        numbered = enumerate(class_names, self.counts[split])
        self.filenames += [f"{prefixes[name]}{number:05d}.png" for number, name in numbered]
        self.class_names += class_names
        self.splits += repeat(split, len(class_names))
        self.sizes += repeat(records.size, len(class_names))
        self.contents += records.contents
        self.blobs += records.blobs
        self.counts[split] += len(class_names)

    def samples(self) -> Samples:
        """Return all that was added."""
        return Samples(
            filenames=tuple(self.filenames),
            class_names=tuple(self.class_names),
            splits=tuple(self.splits),
            sizes=tuple(self.sizes),
            contents=tuple(self.contents),
            blobs=tuple(self.blobs),
        )


def class_prefix(split: str, class_name: str) -> str:
    """Return the folder of a class in a tree that could be packed as well."""
    folder = class_name.replace("/", "_").replace("\0", "_")
    if folder.startswith("."):
        folder = f"_{folder}"  # neither hidden nor a way out of the tree
    return "".join(f"{part}/" for part in (split, folder) if part)
