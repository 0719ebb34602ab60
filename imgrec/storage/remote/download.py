"""Copying objects, and whole datasets, from a store to a local disk."""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from imgrec.errors import DatasetError, ExecutionError
from imgrec.storage.files import os_errors_as, seal_of
from imgrec.storage.remote.errors import denied
from imgrec.storage.remote.read import parts_of, read_ahead, read_object, stat_object

_SUMS = "SHA256SUMS"
_FILES = 8
"""How many objects are copied at once."""


def copy_objects(urls: Mapping[str, str], folder: str) -> dict[str, str]:
    """Copy objects, given by name, into a folder; return the paths by name.

    A file gets its name when it is complete. Raises ExecutionError if one cannot be read.
    """
    if not urls:
        return {}
    paths = {name: os.path.join(folder, name) for name in urls}
    with ThreadPoolExecutor(min(len(urls), _FILES)) as pool:
        list(pool.map(lambda name: copy_object(urls[name], paths[name]), urls))
    return paths


def copy_object(url: str, path: str) -> None:
    """Copy one object to a file with the same date."""
    part = f"{path}.part"
    try:
        found = stat_object(url)
        with os_errors_as(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            for _, data in read_ahead(parts_of(url, found.size)):
                with os_errors_as(path):
                    file.write(data)
    except OSError as error:
        raise denied(url, error) from None
    with os_errors_as(path):
        if os.path.getsize(part) != found.size:
            raise ExecutionError(f"{url} changed while it was being read", path=url)
        os.utime(part, ns=(found.changed_ns, found.changed_ns))
        os.replace(part, path)


def cached(folder: Path, cache_dir: str) -> Path:
    """Return a local copy of a dataset, and make it if there is none.

    Its name contains a hash of the dataset's checksums, so a dataset that replaces another under
    the same URL is copied again. Each file is compared with its checksum, and the copy gets its
    name when it is complete. Raises DatasetError for a wrong or missing checksum.
    """
    url = str(folder)
    try:
        sums = read_object(f"{url}/{_SUMS}")
    except OSError as error:
        raise DatasetError(
            f"{url} has no {_SUMS}, so a copy cannot be checked",
            hint="leave out cache_dir",
            path=url,
        ) from error
    top = Path(os.path.expanduser(cache_dir)) / hashlib.sha256(sums).hexdigest()[:16]
    target = top / folder.parent.name / folder.name
    if target.is_dir():
        return target
    with os_errors_as(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        making = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _copy(url, sums, making)
        with os_errors_as(target):
            making.chmod(0o755)
            try:
                making.rename(target)
            except OSError:
                if not target.is_dir():  # unless another process made the same copy first
                    raise
    finally:
        with suppress(OSError):
            shutil.rmtree(making)
    return target


def _copy(url: str, sums: bytes, folder: Path) -> None:
    listed = [line.partition("  ") for line in sums.decode("utf-8", "replace").splitlines()]

    def copy(digest: str, name: str) -> None:
        if not name or "/" in name or name in (".", ".."):
            raise DatasetError(f"{url}/{_SUMS} lists {name!r}, which is not a file name", path=url)
        copy_object(f"{url}/{name}", str(folder / name))
        if seal_of(str(folder / name)).sha256 != digest:
            raise DatasetError(
                f"{url}/{name} does not match {_SUMS}",
                hint="`imgrec verify` lists all faults; pack it again",
                path=f"{url}/{name}",
            )

    with ThreadPoolExecutor(_FILES) as pool:
        list(pool.map(lambda line: copy(line[0], line[2]), listed))
    with os_errors_as(folder):
        (folder / _SUMS).write_bytes(sums)
