"""Bringing imgrec itself to executors that have none, or another one."""

from __future__ import annotations

import hashlib
import io
import os
import zipfile
from collections.abc import Callable, Iterator
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING
from weakref import WeakSet

from imgrec.errors import ExecutionError

if TYPE_CHECKING:
    from pyspark import SparkContext

_MOST_ASKED = 64
_shipped: WeakSet[SparkContext] = WeakSet()


def ship(context: SparkContext) -> None:
    """See to it that executors import the same imgrec as this process, and what it needs."""
    if context in _shipped:
        return
    count = min(context.defaultParallelism, _MOST_ASKED)
    found = context.parallelize(range(count), count).map(_asking()).collect()
    if missing := sorted({name for _, names in found for name in names}):
        raise ExecutionError(
            f"executors cannot import {', '.join(missing)}",
            hint="let PYSPARK_PYTHON name a Python that has them, or ship a packed environment "
            "with spark.archives",
        )
    if any(digest != own_digest() for digest, _ in found):
        with TemporaryDirectory(prefix="imgrec-") as folder:
            path = os.path.join(folder, "imgrec.zip")
            with open(path, "wb") as file:
                file.write(zipped())
            context.addPyFile(path)
    _shipped.add(context)


def _asking() -> Callable[[int], tuple[str, list[str]]]:
    """Return a function that travels by value, as executors may have no imgrec to find it in."""

    def ask(_: int) -> tuple[str, list[str]]:
        import hashlib
        import os
        from importlib.util import find_spec

        needed = ("PIL", "google_crc32c", "simplejpeg", "xxhash")
        missing = [name for name in needed if find_spec(name) is None]
        spec = find_spec("imgrec")  # not imported: another one may have to take its place
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
    """Return what `ask` returns for the imgrec of this process."""
    digest = hashlib.sha256()
    for _, data in _sources(".py"):
        digest.update(data)
    return digest.hexdigest()


def zipped() -> bytes:
    """Return this imgrec as a zip that Python imports from."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in _sources(".py", ".txt", ".typed"):
            archive.writestr(zipfile.ZipInfo(name), data)
    return out.getvalue()


def _sources(*endings: str) -> Iterator[tuple[str, bytes]]:
    """Yield path and bytes of the files of this package, in the order of `os.walk`, sorted."""
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    for folder, folders, names in os.walk(root):
        folders.sort()
        for name in sorted(names):
            if name.endswith(endings):
                with open(os.path.join(folder, name), "rb") as file:
                    yield os.path.relpath(file.name, os.path.dirname(root)), file.read()
