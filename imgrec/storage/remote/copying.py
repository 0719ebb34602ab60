"""Copying objects to a local disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from imgrec.errors import ExecutionError
from imgrec.storage.files import telling
from imgrec.storage.remote.faults import denied
from imgrec.storage.remote.reading import parts_of, read_ahead, stat_object

_FILES = 8


def copy_objects(urls: Mapping[str, str], folder: str) -> dict[str, str]:
    """Copy objects, by their names, into a folder; return the paths by the same names.

    A file gets its name when it is whole. Raises ExecutionError if one cannot be had.
    """
    if not urls:
        return {}
    paths = {name: os.path.join(folder, name) for name in urls}
    with ThreadPoolExecutor(min(len(urls), _FILES)) as pool:
        list(pool.map(lambda name: copy_object(urls[name], paths[name]), urls))
    return paths


def copy_object(url: str, path: str) -> None:
    """Copy one object to a file, which has the object's date."""
    part = f"{path}.part"
    try:
        found = stat_object(url)
        with telling(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            for _, data in read_ahead(parts_of(url, found.size)):
                with telling(path):
                    file.write(data)
    except OSError as error:
        raise denied(url, error) from None
    with telling(path):
        if os.path.getsize(part) != found.size:
            raise ExecutionError(f"{url} changed while it was being read", path=url)
        os.utime(part, ns=(found.changed_ns, found.changed_ns))
        os.replace(part, path)
