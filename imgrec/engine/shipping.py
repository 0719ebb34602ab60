"""Sending imgrec to executors that lack it or have another version."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from imgrec.errors import ExecutionError

if TYPE_CHECKING:
    from pyspark import SparkContext

_MOST_ASKED = 64
_shipped: WeakKeyDictionary[SparkContext, TemporaryDirectory[str]] = WeakKeyDictionary()
"""The folder of the zip for each context: executors fetch it when their first task runs."""


def ship(context: SparkContext) -> None:
    """Make executors import the same imgrec as this process; check that they have what it needs."""
    if context in _shipped:
        return
    count = min(context.defaultParallelism, _MOST_ASKED)
    found = context.parallelize(range(count), count).map(_asking()).collect()
    if missing := sorted({name for _, names in found for name in names}):
        raise ExecutionError(
            f"executors cannot import {', '.join(missing)}",
            hint="set PYSPARK_PYTHON to a Python that has them, or ship an environment with "
            "spark.archives",
        )
    folder = TemporaryDirectory(prefix="imgrec-")
    if any(digest != own_digest() for digest, _ in found):
        path = os.path.join(folder.name, "imgrec.zip")
        with open(path, "wb") as file:
            file.write(zipped())
        context.addPyFile(path)
    _shipped[context] = folder


def _asking() -> Callable[[int], tuple[str, list[str]]]:
    """Return a function that is pickled by value, as executors may have no imgrec."""

    def ask(_: int) -> tuple[str, list[str]]:
        import hashlib
        import os
        from importlib.util import find_spec

        needed = ("PIL", "google_crc32c", "simplejpeg", "xxhash")
        missing = [name for name in needed if find_spec(name) is None]
        spec = find_spec("imgrec")  # not imported: ours may have to replace it
        places = list(spec.submodule_search_locations or ()) if spec else []
        digest = hashlib.sha256()
        for folder, folders, names in os.walk(places[0]) if places else ():
            folders.sort()
            for name in sorted(names):
                if name.endswith(".py"):
                    with open(os.path.join(folder, name), "rb") as file:
                        digest.update(file.read())
        return digest.hexdigest(), missing

    return ask


def own_digest() -> str:
    """Return the digest of the imgrec of this process, computed as in `ask`."""
    digest = hashlib.sha256()
    for _, data in _sources(".py"):
        digest.update(data)
    return digest.hexdigest()


def zipped() -> bytes:
    """Return this imgrec as an importable zip."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _sources(".py", ".txt", ".typed"):
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def _sources(*endings: str) -> Iterator[tuple[str, bytes]]:
    """Yield the path and bytes of each file of this package, in sorted `os.walk` order."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith(endings):
                with open(os.path.join(folder, name), "rb") as file:
                    yield os.path.relpath(file.name, os.path.dirname(root)), file.read()
