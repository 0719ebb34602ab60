"""The file systems of fsspec, one for each store and process, made when they are needed."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from imgrec.errors import MissingExtra, UsageError
from imgrec.extras import needed
from imgrec.storage.remote.faults import denied
from imgrec.storage.remote.retries import persist
from imgrec.storage.urls import scheme_of

System: TypeAlias = Any
"""An fsspec file system; they have no types."""

CONNECTIONS = 32
"""How many requests a process has under way at once, at the most."""
_S3 = frozenset({"s3", "s3a"})
_EXTRAS = {
    "s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"), "gcs": ("gcsfs", "gs"),
    "hdfs": ("fsspec", "hdfs"),
}  # fmt: skip
"""The package for each scheme, and the extra that brings it."""
_OPTIONS: Mapping[str, Mapping[str, object]] = {
    scheme: {
        # How often and when something is tried again is decided in one place, `retries`.
        "config_kwargs": {
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": CONNECTIONS,
        },
    }
    for scheme in _S3
}


def open_system(url: str) -> tuple[System, str]:
    """Return the file system of a URL, and the path in it.

    Endpoint and credentials are found where its library looks for them: in environment variables
    and profiles. Raises MissingExtra if that library is not installed, UsageError if there is none,
    and ExecutionError if it cannot be reached.
    """
    rest = url.partition("://")[2]
    scheme = scheme_of(url)
    # An open one does not survive a fork.
    system = _open(os.getpid(), f"{scheme}://{rest.partition('/')[0]}")
    return system, system._strip_protocol(f"{scheme}://{rest}")  # S3:// it would take for a bucket


def is_s3(url: str) -> bool:
    """Tell whether a URL is one of S3, or of another store that speaks its protocol."""
    return scheme_of(url) in _S3


@lru_cache(maxsize=16)
def _open(_process: int, root: str) -> System:
    scheme = scheme_of(root)
    package, extra = _EXTRAS.get(scheme, ("fsspec", "s3"))
    what = f"{scheme}://"
    fsspec = needed("fsspec", extra=extra, what=what)
    needed(package, extra=extra, what=what)
    if scheme not in fsspec.available_protocols():
        raise UsageError(
            f"{what} is no store that fsspec knows",
            hint="give a path, or a URL such as s3://bucket/datasets",
        )

    def connect() -> System:
        try:
            # Others write there too: what was listed before tells nothing of now.
            return fsspec.url_to_fs(root, use_listings_cache=False, **_OPTIONS.get(scheme, {}))[0]
        except ImportError as error:
            raise MissingExtra(
                f"{what} needs a package that is not installed", hint=str(error).split(". ")[-1]
            ) from error

    try:
        system = persist(connect, root)
    except OSError as error:
        raise denied(root, error) from None
    if scheme in _S3:
        system.retries = 1
    return system
