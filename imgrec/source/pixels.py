"""Images stored as raw pixels in a few large files: reading them, naming their classes."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple, Protocol

from xxhash import xxh3_128_digest

from imgrec.errors import ExecutionError, SourceError
from imgrec.model import Column, Pixels, Samples, Slice, ZipMember
from imgrec.source.tree import Context, TreeFile
from imgrec.storage.blobs import read_blob
from imgrec.storage.files import append_to_spool
from imgrec.text import listed, printable

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

_CHUNK_BYTES = 8 << 20


@dataclass(slots=True)
class Faults:
    """Collects the errors of all files of a source, to report them at once."""

    errors: list[SourceError] = field(default_factory=list)

    @contextmanager
    def of(self, file: TreeFile) -> Iterator[None]:
        """Collect a SourceError raised while a file is read, with the name of the file."""
        try:
            yield
        except SourceError as error:
            hint = error.hint or "download this file again"
            self.add(f"{file.path}: {error}", hint, path=file.path, offset=error.offset)

    def add(self, message: str, hint: str, *, path: str = "", offset: int | None = None) -> None:
        """Collect an error."""
        self.errors.append(SourceError(printable(message), hint=hint, path=path, offset=offset))

    def check(self) -> None:
        """Raise one SourceError for all errors collected, if any."""
        if self.errors:
            raise SourceError(
                "; ".join(map(str, self.errors)),
                hint="; ".join(dict.fromkeys(error.hint for error in self.errors if error.hint)),
                path=self.errors[0].path,
                offset=self.errors[0].offset,
            )


def home_of(file: TreeFile) -> Slice | None:
    """Return where the bytes of a file start on disk; None if they are compressed."""
    if isinstance(file.blob, ZipMember):
        return None
    return (file.blob, 0) if isinstance(file.blob, str) else file.blob[:2]


class _SliceReader(io.RawIOBase):
    """A part of a file as a stream."""

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
    """Open a file of a tree as a stream; reading it may raise BadImage."""
    home = home_of(file)
    if home is None:
        return io.BytesIO(read_blob(file.blob, size))
    return io.BufferedReader(_SliceReader(home, size))


class Raster(NamedTuple):
    """The shape of an image, and the order of its pixels: the last fields of `Pixels`."""

    height: int
    width: int
    channels: int
    is_planar: bool = False

    @property
    def size(self) -> int:
        """Count the bytes of an image."""
        return self.height * self.width * self.channels


class RecordLayout(NamedTuple):
    """Images of one shape, one after another, each after a few bytes of its own."""

    images: int
    raster: Raster
    lead_bytes: int = 0
    home: Slice | None = None
    """Where the first one starts on disk; None if they must be copied to the spool."""


class Records(NamedTuple):
    """Images, by column."""

    leads: tuple[bytes, ...]
    """Lead byte i of all images."""
    contents: list[bytes]
    blobs: list[Pixels]
    size: int
    """Bytes of each image."""


class Readable(Protocol):
    """A stream."""

    def read(self, size: int, /) -> bytes:
        """Return that many bytes, or fewer at the end."""
        ...


def read_records(stream: Readable, layout: RecordLayout, context: Context) -> Records:
    """Hash images, and copy them to the spool unless they have a home on disk.

    Raises SourceError if there are too few, and ExecutionError if the disk of the spool is full.
    """
    raster, home = layout.raster, layout.home
    stride = layout.lead_bytes + raster.size
    total_bytes, chunk_bytes = layout.images * stride, max(_CHUNK_BYTES // stride, 1) * stride
    leads = [bytearray() for _ in range(layout.lead_bytes)]
    contents: list[bytes] = []
    blobs: list[Pixels] = []
    for at in range(0, total_bytes, chunk_bytes):
        wanted = min(chunk_bytes, total_bytes - at)
        chunk = stream.read(wanted)
        if len(chunk) < wanted:
            raise SourceError(f"ends after {at + len(chunk):,} of {total_bytes:,} bytes of images")
        path, offset = (home[0], home[1] + at) if home else spool(chunk, context)
        view = memoryview(chunk)
        starts = range(layout.lead_bytes, wanted, stride)
        contents += [xxh3_128_digest(view[start : start + raster.size]) for start in starts]
        offsets = range(offset + layout.lead_bytes, offset + wanted, stride)
        blobs += map(Pixels, repeat(path), offsets, *map(repeat, raster))
        for place, lead in enumerate(leads):
            lead += chunk[place::stride]
        context.on_progress(len(starts))
    return Records(tuple(map(bytes, leads)), contents, blobs, raster.size)


def spool(data: bytes, context: Context) -> Slice:
    """Copy bytes to the spool, where they stay until the dataset is written."""
    path, offset = append_to_spool(context.seen_spool(), [data])
    if not path:
        raise ExecutionError(
            f"cannot write {len(data):,} bytes of unpacked images to {context.spool}",
            hint="free some space on that disk",
            path=context.spool,
        )
    return path, offset


class Classes(NamedTuple):
    """The names of classes, by label."""

    names: Mapping[int, str]
    named_by: str
    """The file or option that names them."""
    warnings: tuple[str, ...] = ()

    @property
    def order(self) -> tuple[str, ...]:
        """Return the names in the order of their labels."""
        return tuple(self.names[label] for label in sorted(self.names))

    def class_folders(self) -> dict[str, tuple[str, ...]]:
        """Return where each class is named; raise SourceError for blank or repeated names."""
        names = self.order
        repeated = sorted(name for name, count in Counter(names).items() if count > 1)
        faults = [
            *([] if names else ["there are none"]),
            *(f"{name!r} is repeated" for name in repeated),
            *(f"name {number} is blank" for number, name in enumerate(names) if not name.strip()),
        ]
        if faults:
            raise SourceError(
                printable(f"{self.named_by}: unusable class names: {'; '.join(faults)}"),
                hint="give each class one name of its own",
            )
        return {name: (f"{self.named_by}: {name}",) for name in names}

    def refuse_unnamed(self, labels: Sequence[int]) -> None:
        """Raise SourceError for labels without a name."""
        counts = Counter(labels)
        unnamed = [
            f"{label} (image {labels.index(label)}{', and others' if counts[label] > 1 else ''})"
            for label in sorted(counts)
            if label not in self.names
        ]
        if unnamed:
            raise SourceError(
                f"has labels that {self.named_by} does not name: {listed(unnamed)}",
                hint=f"check that {self.named_by} belongs to it; images are counted from 0",
            )


@dataclass(slots=True)
class PixelSamples:
    """Images of raw pixels on their way into the catalog, by column."""

    splits: list[str] = field(default_factory=list)
    class_names: list[str] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)
    """The number of each in its split; part of its filename."""
    sizes: list[int] = field(default_factory=list)
    contents: list[bytes] = field(default_factory=list)
    blobs: list[Pixels] = field(default_factory=list)

    def add(self, split: str, class_names: Sequence[str], records: Records) -> None:
        """Add images of one split, numbered after those already there."""
        count, start = len(class_names), self.splits.count(split)
        self.splits += repeat(split, count)
        self.class_names += class_names
        self.numbers += range(start, start + count)
        self.sizes += repeat(records.size, count)
        self.contents += records.contents
        self.blobs += records.blobs

    def samples(self, columns: tuple[Column, ...] = ()) -> Samples:
        """Return the rows of the catalog; each image is named as a PNG in a class folder."""
        places = list(zip(self.splits, self.class_names, strict=True))
        folders = {place: _class_folder(*place) for place in set(places)}
        numbered = zip(places, self.numbers, strict=True)
        return Samples(
            filenames=tuple([f"{folders[place]}{number:05d}.png" for place, number in numbered]),
            class_names=tuple(self.class_names),
            splits=tuple(self.splits),
            sizes=tuple(self.sizes),
            contents=tuple(self.contents),
            blobs=tuple(self.blobs),
            columns=columns,
        )


def _class_folder(split: str, class_name: str) -> str:
    folder = class_name.replace("/", "_").replace("\0", "_")
    if folder.startswith("."):
        folder = f"_{folder}"  # neither hidden nor a way out of the tree
    return "".join(f"{part}/" for part in (split, folder) if part)
