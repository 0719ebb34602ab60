"""A dataset of an object store, copied to a local disk once, and checked."""

from __future__ import annotations

import hashlib
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from tempfile import mkdtemp

from imgrec.errors import DatasetError
from imgrec.storage.files import seal_of, telling
from imgrec.storage.remote.copying import copy_object
from imgrec.storage.remote.reading import read_object

_SUMS = "SHA256SUMS"
_FILES = 8


def cached(folder: Path, cache_dir: str) -> Path:
    """Return a local copy of a dataset, made now unless there is one.

    It is found by the checksums that the dataset has at this moment, so another dataset under the
    same URL is another copy. Each file is compared with its checksum, and the copy gets its name
    when all of it is there. Raises DatasetError if a file is not what its checksum says, or there
    are no checksums.
    """
    url = str(folder)
    try:
        sums = read_object(f"{url}/{_SUMS}")
    except OSError as error:
        raise DatasetError(
            f"{url} has no {_SUMS}, so that a copy of it could not be checked",
            hint="leave out cache_dir",
            path=url,
        ) from error
    top = Path(os.path.expanduser(cache_dir)) / hashlib.sha256(sums).hexdigest()[:16]
    target = top / folder.parent.name / folder.name
    if target.is_dir():
        return target
    with telling(target):
        target.parent.mkdir(parents=True, exist_ok=True)
        making = Path(mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    try:
        _copy(url, sums, making)
        with telling(target):
            making.chmod(0o755)
            try:
                making.rename(target)
            except OSError:
                if not target.is_dir():  # another process was faster, and its copy is the same
                    raise
    finally:
        with suppress(OSError):
            shutil.rmtree(making)
    return target


def _copy(url: str, sums: bytes, folder: Path) -> None:
    listed = [line.partition("  ") for line in sums.decode("utf-8", "replace").splitlines()]

    def copy(digest: str, name: str) -> None:
        if not name or "/" in name or name in (".", ".."):
            raise DatasetError(f"{url}/{_SUMS} lists {name!r}, which no file is called", path=url)
        copy_object(f"{url}/{name}", str(folder / name))
        if seal_of(str(folder / name)).sha256 != digest:
            raise DatasetError(
                f"{url}/{name} is not what {_SUMS} says",
                hint="`imgrec verify` lists all that is wrong; pack it again",
                path=f"{url}/{name}",
            )

    with ThreadPoolExecutor(_FILES) as pool:
        list(pool.map(lambda line: copy(line[0], line[2]), listed))
    with telling(folder):
        (folder / _SUMS).write_bytes(sums)
