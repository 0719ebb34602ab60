"""Read embeddings of images from a file, or make them with a function.

A file has a row for each image, and a text file beside it has the names of the images: rows without
names could be those of other images, and nobody would notice.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from imgrec.errors import SourceError, UsageError
from imgrec.near.embeddings import WIDEST, quantize
from imgrec.options.packing import Embed, embeddings_text
from imgrec.text import number, printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.near.search import Rows

    Picture: TypeAlias = NDArray[np.uint8]
    Decode: TypeAlias = Callable[[Sequence[int]], dict[int, Picture]]
    """Decodes the images at some places to RGB; leaves out those that cannot be read."""

T = TypeVar("T")

_CHUNK = 4096
"""Vectors converted at once, which bounds the memory."""
_BATCH = 32
"""Pictures that a function is given at once."""
_NAMES = ".txt"
_MAKE = "write names and vectors together; imgrec help leaks shows how"


class EmbeddingFile(NamedTuple):
    """Vectors, and the row of each image."""

    path: str
    vectors: NDArray[np.generic]
    rows: dict[str, int]


def open_embeddings(given: str | Embed) -> EmbeddingFile | Embed | None:
    """Open a file of embeddings; return a function as it is, and None for "".

    Raises SourceError or UsageError if the file cannot be used.
    """
    return _open(given) if given and isinstance(given, str) else given or None


def match_names(source: T, names: Sequence[str]) -> T:
    """Return embeddings by the names of images; raise SourceError if a file has none of them."""
    if not isinstance(source, EmbeddingFile):
        return source
    file = source._replace(rows=_without_folder(source.rows, frozenset(names)))
    if file.rows.keys().isdisjoint(names):
        raise _no_row(file, names)
    return file


def embed_images(
    source: EmbeddingFile | Embed,
    names: Sequence[str],
    places: Sequence[int],
    decode: Decode,
) -> Rows:
    """Return a row for each image. `places` are the images that need one; others get zeros."""
    import numpy as np

    if isinstance(source, EmbeddingFile):
        parts = _from_file(source, names, places)
    else:
        parts = _from_function(source, places, decode)
    rows: Rows = np.zeros((len(names), 0), np.int8)
    for vectors, part in parts:
        found = quantize(vectors)
        is_usable = found.any(axis=1)
        if not is_usable.all():
            at = int(is_usable.argmin())
            raise _no_direction(names[part[at]], is_zero=not np.asarray(vectors[at]).any())
        if not rows.shape[1]:
            rows = np.zeros((len(names), found.shape[1]), np.int8)
        rows[part] = found
    return rows


def _open(path: str) -> EmbeddingFile:
    """Open a file of vectors, and the names beside it. Nothing is ever unpickled."""
    from numpy.lib.format import open_memmap

    where, shown = os.path.expanduser(path), f"--embeddings {path}"
    stem, extension = os.path.splitext(where)
    if path.endswith("()"):
        raise UsageError(
            f"the embeddings were made by a function, {path}",
            hint="pass it again, or the embeddings as a file",
        )
    if extension != ".npy":
        raise UsageError(f"{shown} is not a .npy file", hint="save an array with numpy.save")
    try:
        vectors = open_memmap(where, mode="r")
    except OSError as error:
        raise SourceError(f"cannot read {shown}: {error.strerror}", path=path) from error
    except ValueError as error:  # no array, a part of one, or one of Python objects
        raise SourceError(
            f"{shown} is not an array of numbers: {error}", hint=_MAKE, path=path
        ) from error
    if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
        raise SourceError(
            f"{shown} is not a table of numbers: its shape is {vectors.shape}, its type "
            f"{vectors.dtype}",
            hint="save an array of n x d numbers, a row for each image",
            path=path,
        )
    _refuse_width(vectors.shape[1], shown)
    names = _read_names(stem + _NAMES, shown)
    if len(names) != len(vectors):
        raise SourceError(
            f"{shown} has {number(len(vectors), 'row')}, and {stem}{_NAMES} "
            f"{number(len(names), 'name')}",
            hint=_MAKE,
            path=path,
        )
    rows = {name: row for row, name in enumerate(names)}
    if len(rows) < len(names):
        twice = next(name for row, name in enumerate(names) if rows[name] != row)
        raise SourceError(f"{stem}{_NAMES} has {printable(twice)} more than once", path=path)
    return EmbeddingFile(path, vectors, rows)


def _read_names(path: str, shown: str) -> list[str]:
    try:
        with open(path, encoding="utf-8", errors="surrogateescape", newline="\n") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise SourceError(
            f"{shown} needs {path}, with the file name of each row in a line: {error.strerror}",
            hint=_MAKE,
            path=path,
        ) from error
    lines = [line.removesuffix("\r") for line in lines]
    return lines[:-1] if not lines[-1] else lines


_Part: TypeAlias = "tuple[NDArray[np.generic], Sequence[int]]"
"""Some vectors, and the places of their images."""


def _without_folder(rows: dict[str, int], names: frozenset[str]) -> dict[str, int]:
    """Return rows without the folder in front of all their names, such as "/data/flowers/"."""
    for name in rows:
        parts = name.split("/")
        endings = ("/".join(parts[at:]) for at in range(len(parts)))
        known = next((ending for ending in endings if ending in names), None)
        if known is None:
            continue
        folder = name.removesuffix(known)
        # Names below another folder could be those of other images.
        is_common = all(one.startswith(folder) for one in rows)
        return {one.removeprefix(folder): row for one, row in rows.items()} if is_common else rows
    return rows


def _from_file(file: EmbeddingFile, names: Sequence[str], places: Sequence[int]) -> Iterator[_Part]:
    """Yield the vectors of images from a file. It may have more of them, in any order."""
    wanted = [names[place] for place in places]
    if len(set(wanted)) < len(wanted):
        raise UsageError(
            "--embeddings go by file names, and some images have the same name",
            hint="pass a function of Python instead",
        )
    missing = [name for name in wanted if name not in file.rows]
    if missing:
        raise _no_row(file, missing)
    for start in range(0, len(places), _CHUNK):
        part = places[start : start + _CHUNK]
        yield file.vectors[[file.rows[names[place]] for place in part]], part


def _no_row(file: EmbeddingFile, missing: Sequence[str]) -> SourceError:
    first = printable(next(iter(file.rows), ""))
    return SourceError(
        f"--embeddings {file.path} has no row for {number(len(missing), 'image')}, such as "
        f"{printable(missing[0])}; its first row is for {first}",
        hint="name images by their paths in the source, as imgrec does",
        path=file.path,
    )


def _from_function(embed: Embed, places: Sequence[int], decode: Decode) -> Iterator[_Part]:
    """Yield what a function makes of pictures, a few at a time, in order."""
    import numpy as np

    shown, width = embeddings_text(embed), 0
    for start in range(0, len(places), _BATCH):
        pictures = decode(places[start : start + _BATCH])
        if not pictures:
            continue
        vectors = np.asarray(embed(list(pictures.values())))
        is_table = vectors.ndim == 2 and vectors.dtype.kind in "fiu"
        if not is_table or vectors.shape != (len(pictures), width or vectors.shape[1]):
            raise UsageError(
                f"{shown} returned an array of {vectors.dtype} of shape {vectors.shape} for "
                f"{number(len(pictures), 'picture')}",
                hint=f"return {len(pictures)} x {width or 'd'} numbers, a row for each picture",
            )
        width = vectors.shape[1]
        _refuse_width(width, f"the array of {shown}")
        yield vectors, list(pictures)


def _no_direction(name: str, *, is_zero: bool) -> SourceError:
    what = "0 everywhere" if is_zero else "not a finite number everywhere"
    return SourceError(
        f"the embedding of {printable(name)} is {what}",
        hint="compute it again, or leave out that image",
    )


def _refuse_width(width: int, shown: str) -> None:
    if not 2 <= width <= WIDEST:
        raise UsageError(
            f"{shown} has {number(width, 'column')}",
            hint=f"embeddings have from 2 to {WIDEST:,} numbers",
        )
