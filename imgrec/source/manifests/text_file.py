"""Files of text, line by line: plain or gzipped, in any encoding."""

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
from imgrec.storage.read_errors import disk_fault, is_passing

T = TypeVar("T")

_MARK = "\ufeff"
"""The byte order mark, which encodings such as utf-16-le leave in the text."""
_GZIP_MAGIC = b"\x1f\x8b"
_LONGEST_LINE = 1 << 24
"""No table has longer lines, but a bomb may."""
_FREE_BYTES = 32 << 20
"""What a gzipped table of any size may unpack to. Short cells take 20 times that in memory."""
_BOMS = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


FALLBACK = "cp1252"
"""What Excel and other programs of Windows write where they do not write UTF-8."""


class NotUnicode(SourceError):
    """A text is not in UTF-8, and has no byte order mark that tells another encoding."""


def with_fallback(read: Callable[[str], T], name: str, encoding: str) -> tuple[T, str]:
    """Call `read` with the encoding that is asked for, or else with the one that fits.

    Returns what it returns, and a warning if the text was neither UTF-8 nor UTF-16.
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


def lines_of(path: str, name: str, encoding: str = "") -> Iterator[str]:
    """Yield the lines of a text file with their endings, which may be CR, LF or CRLF.

    Without an `encoding`, it is what a byte order mark says, or UTF-8. Raises NotUnicode if the
    text is not in that, and SourceError, which calls the file `name`, if it cannot be read.
    """
    number = 0
    try:
        with _unpacked(path) as stream:
            text = io.TextIOWrapper(stream, encoding or _encoding(stream), newline="")
            allowance = _allowance(path)
            for number, line in enumerate(iter(partial(text.readline, _LONGEST_LINE), ""), 1):
                if len(line) == _LONGEST_LINE:
                    raise SourceError(
                        f"{name}:{number}: a line of more than {_LONGEST_LINE:,} characters",
                        hint="give a table with one row a line",
                        path=path,
                    )
                if "\0" in line:
                    raise SourceError(
                        f"{name}:{number}: a NUL character, which text does not hold",
                        hint="give a table of text; if it is UTF-16, pass --encoding utf-16-le",
                        path=path,
                    )
                allowance.take(name, len(line))
                yield line.removeprefix(_MARK) if number == 1 else line
    except UnicodeError as error:
        kind, what = (SourceError, encoding) if encoding else (NotUnicode, "UTF-8 or UTF-16")
        raise kind(
            f"{name}:{_undecodable_line(path, encoding) or number + 1}: not {what} text",
            hint="say with --encoding what it is, or save the file as UTF-8",
            path=path,
        ) from error
    except (OSError, EOFError, zlib.error) as error:
        _refuse_passing(error, path)
        reason = getattr(error, "strerror", None) or str(error) or "it is cut short"
        raise SourceError(f"cannot read {name}: {reason}", path=path) from error


def head_of(path: str, size: int) -> bytes:
    """Return the first bytes of a file, unpacked if it is gzipped; b"" if it is unreadable.

    Raises ExecutionError if it may be readable the next time, and then seem another kind of file.
    """
    try:
        with _unpacked(path) as stream:
            return stream.read(size)
    except (OSError, EOFError, zlib.error) as error:
        _refuse_passing(error, path)
        return b""


def _refuse_passing(error: Exception, path: str) -> None:
    if isinstance(error, OSError) and is_passing(error):
        raise disk_fault(error, path) from error


def encoding_of(head: bytes) -> str:
    """Return the encoding that a byte order mark tells, or UTF-8."""
    return next((encoding for bom, encoding in _BOMS if head.startswith(bom)), "utf-8")


@contextmanager
def _unpacked(path: str) -> Iterator[io.BufferedReader]:
    # O_NONBLOCK: a pipe must not hold us up.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        if file.peek(2)[:2] == _GZIP_MAGIC:
            with gzip.GzipFile(fileobj=file) as unpacked, io.BufferedReader(unpacked) as stream:
                yield stream  # type: ignore[misc]  # a GzipFile reads as a raw file does
        else:
            yield file


def _allowance(path: str) -> Allowance:
    """Return what a file may unpack to: what an archive of its size may."""
    size = os.path.getsize(path)
    return Allowance(max_bytes=sys.maxsize, packed_bytes=size, free_bytes=_FREE_BYTES)


def _encoding(stream: io.BufferedReader) -> str:
    return encoding_of(stream.peek(4)[:4])


def _undecodable_line(path: str, encoding: str) -> int:
    """Return the first line that is not of an encoding; 0 if that cannot be told."""
    with _unpacked(path) as stream:
        encoding = encoding or _encoding(stream)
        if not encoding.startswith("utf-8"):
            return 0
        text = io.TextIOWrapper(stream, encoding, errors="surrogateescape", newline="")
        lines = enumerate(iter(partial(text.readline, _LONGEST_LINE), ""), 1)
        return next((number for number, line in lines if _has_escapes(line)), 0)


def _has_escapes(line: str) -> bool:
    try:
        line.encode()
    except UnicodeEncodeError:
        return True
    return False
