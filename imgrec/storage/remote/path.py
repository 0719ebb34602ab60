"""Paths on object stores, with the methods of pathlib that readers of datasets use.

Not universal_pathlib: its paths are not `pathlib.Path`s, which all readers take, and they raise the
errors of each store's library, without retries.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Generator
from pathlib import PosixPath
from typing import Self, TypeVar

from imgrec.storage.remote import read as reading
from imgrec.storage.remote.errors import denied
from imgrec.storage.remote.read import children

T = TypeVar("T")


_NO_HOST = "~"
"""Stands for the missing host of a URL such as hdfs:///data. pathlib would drop it."""


class StorePath(PosixPath):
    """A path such as `s3://bucket/datasets/flowers`.

    Missing objects raise as on a disk. A store that denies access raises ExecutionError, so that
    nobody takes it for an empty one.
    """

    def __str__(self) -> str:
        # pathlib merges // into /.
        scheme, _, rest = super().__str__().partition(":/")
        host, slash, below = rest.partition("/")
        return f"{scheme}://{'' if host == _NO_HOST else host}{slash}{below}"

    def __fspath__(self) -> str:
        return str(self)

    def absolute(self) -> Self:
        """Return the same: a URL depends on no working directory."""
        return self

    def resolve(self, strict: bool = False) -> Self:  # noqa: ARG002
        """Return the same: there are no links."""
        return self

    def expanduser(self) -> Self:
        """Return the same: there are no homes."""
        return self

    def read_bytes(self) -> bytes:
        """Read an object."""
        return _allowed(self, reading.read_object)

    def read_text(self, *_arguments: str | None, **_options: str | None) -> str:
        """Read an object of UTF-8 text."""
        return self.read_bytes().decode()

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:  # noqa: ARG002
        """Return size and date of an object."""
        found = _allowed(self, reading.stat_object)
        seconds = found.changed_ns // 10**9
        mode = stat.S_IFREG | 0o444
        return os.stat_result((mode, 0, 0, 1, 0, 0, found.size, seconds, seconds, seconds))

    def is_file(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Tell whether the object exists."""
        try:
            self.stat()
        except FileNotFoundError:
            return False
        return True

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Tell whether there are objects below it."""
        return next(self.iterdir(), None) is not None

    def exists(self, *, follow_symlinks: bool = True) -> bool:  # noqa: ARG002
        """Tell whether the object, or one below it, exists."""
        return self.is_file() or self.is_dir()

    def iterdir(self) -> Generator[Self, None, None]:
        """Yield the direct children."""
        yield from (self / name for name in children(str(self)))


def store_path(url: str) -> StorePath:
    """Return the path of a URL."""
    return StorePath(url.replace(":///", f"://{_NO_HOST}/", 1))


def _allowed(path: StorePath, ask: Callable[[str], T]) -> T:
    try:
        return ask(str(path))
    except PermissionError as error:
        raise denied(str(path), error) from None
