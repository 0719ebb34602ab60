"""Text files, line by line: plain or gzipped, in any encoding."""

from __future__ import annotations

import codecs
import gzip
import io
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TypeVar

from imgrec.errors import SourceError
from imgrec.source.archive_members import Allowance
from imgrec.storage.read_errors import is_temporary, read_error

T = TypeVar("T")

FALLBACK = "cp1252"
"""Excel and other Windows programs write it where they do not write UTF-8."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LONGEST_LINE = 1 << 24
"""No table has longer lines, but a decompression bomb may."""
_FREE_BYTES = 32 << 20
"""What a gzipped table of any size may unpack to. Short cells take 20 times that in memory."""


class NotUnicode(SourceError):
    """A text without a byte order mark is not UTF-8."""


def with_fallback(read: Callable[[str], T], name: str, encoding: str) -> tuple[T, str]:
    """Call `read` with an encoding, and with Windows-1252 if the text is not Unicode.

    Returns its result, and a warning if it took the fallback.
    """
    try:
        return read(encoding), ""
    except NotUnicode as error:
        try:
            found = read(FALLBACK)
        except SourceError:
            raise error from None
    return found, (
        f"{name} is not UTF-8, and was read as {FALLBACK}; if letters are wrong, pass --encoding"
    )


def lines_of(path: str, name: str, encoding: str) -> Iterator[str]:
    """Yield the lines of a text file with their endings, which may be CR, LF or CRLF.

    Messages call the file `name`. Raises NotUnicode if no encoding is given and the text is neither
    UTF-8 nor UTF-16, and SourceError if it cannot be read.
    """
    number = 0
    try:
        with _unpacked(path) as stream:
            # Escapes keep a bad byte in its line: a strict decoder fails somewhere in a block.
            text = io.TextIOWrapper(
                stream,
                encoding or encoding_of(stream.peek(4)[:4]),
                errors="surrogateescape",
                newline="",
            )
            allowance = Allowance(
                max_bytes=sys.maxsize,
                packed_bytes=os.path.getsize(path),
                free_bytes=_FREE_BYTES,
            )
            for line in iter(partial(text.readline, _LONGEST_LINE), ""):
                if not line.isascii():
                    line.encode()  # raises UnicodeError for an escape
                number += 1
                if len(line) == _LONGEST_LINE or "\0" in line:
                    raise _line_error(line, f"{name}:{number}", path)
                allowance.take(name, len(line))
                # Encodings such as utf-16-le leave the byte order mark in the text.
                yield line.removeprefix("\ufeff") if number == 1 else line
    except UnicodeError as error:
        kind, what = (SourceError, encoding) if encoding else (NotUnicode, "UTF-8 or UTF-16")
        raise kind(
            f"{name}:{number + 1}: not {what} text",
            hint="name the encoding with --encoding, or save the file as UTF-8",
            path=path,
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        _refuse_passing(error, path)
        reason = getattr(error, "strerror", None) or str(error) or "it is truncated"
        raise SourceError(f"cannot read {name}: {reason}", path=path) from error


def _line_error(line: str, where: str, path: str) -> SourceError:
    if len(line) == _LONGEST_LINE:
        what = f"a line of more than {_LONGEST_LINE:,} characters"
        return SourceError(f"{where}: {what}", hint="give a table with one row a line", path=path)
    return SourceError(
        f"{where}: a NUL character, so this is not text",
        hint="give a table of text; if it is UTF-16, pass --encoding utf-16-le",
        path=path,
    )


def head_of(path: str, size: int) -> bytes:
    """Return the first bytes of a file, unpacked if it is gzipped; b"" if it is unreadable.

    Raises ExecutionError if a second try may succeed, and then show another kind of file.
    """
    try:
        with _unpacked(path) as stream:
            return stream.read(size)
    except (OSError, EOFError, zlib.error) as error:
        _refuse_passing(error, path)
        return b""


def _refuse_passing(error: Exception, path: str) -> None:
    if isinstance(error, OSError) and is_temporary(error):
        raise read_error(error, path) from error


def encoding_of(head: bytes) -> str:
    """Return the encoding that a byte order mark names, or else UTF-8."""
    return next((encoding for bom, encoding in _BOMS if head.startswith(bom)), "utf-8")


@contextmanager
def _unpacked(path: str) -> Iterator[io.BufferedReader]:
    # O_NONBLOCK: opening a named pipe must not wait for a writer.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if file.peek(2)[:2] == b"\x1f\x8b":
            with gzip.GzipFile(fileobj=file) as unpacked, io.BufferedReader(unpacked) as stream:
                yield stream  # type: ignore[misc]  # a GzipFile reads as a raw file does
        else:
            yield file
