"""The fsspec file system of each store, and retrying requests to it."""

from __future__ import annotations

import logging
import os
import random
import time
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias, TypeVar

from imgrec.errors import ImgrecError, MissingExtra, UsageError
from imgrec.extras import needed
from imgrec.storage.remote.errors import TRIES, denied, explained, is_passing
from imgrec.storage.urls import scheme_of

T = TypeVar("T")
System: TypeAlias = Any
"""An fsspec file system; they have no types."""

_log = logging.getLogger(__name__)

CONNECTIONS = 32
"""The most requests that a process has under way at once."""
_S3 = frozenset({"s3", "s3a"})
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0
_EXTRAS = {
    "s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"), "gcs": ("gcsfs", "gs"),
    "hdfs": ("fsspec", "hdfs"),
}  # fmt: skip
"""The package for each scheme, and the extra that installs it."""
_OPTIONS: Mapping[str, Mapping[str, object]] = {
    scheme: {
        # Only `persist` retries.
        "config_kwargs": {
            "retries": {"total_max_attempts": 1},
            "max_pool_connections": CONNECTIONS,
        },
    }
    for scheme in _S3
}


def open_system(url: str) -> tuple[System, str]:
    """Return the file system of a URL, and the path in it.

    Its library reads endpoint and credentials from environment variables and profiles. Raises
    MissingExtra if that library is not installed, UsageError if there is none for the scheme, and
    ExecutionError if the store cannot be reached.
    """
    rest = url.partition("://")[2]
    scheme = scheme_of(url)
    # A connection does not survive a fork, so each process has its own.
    system = _open(os.getpid(), f"{scheme}://{rest.partition('/')[0]}")
    return system, system._strip_protocol(
        f"{scheme}://{rest}"
    )  # in lower case: fsspec takes "S3:" for a bucket


def is_s3(url: str) -> bool:
    """Tell whether the store of a URL speaks the S3 protocol."""
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
            f"fsspec does not know {what}",
            hint="give a path, or a URL such as s3://bucket/datasets",
        )

    def connect() -> System:
        try:
            # No cache of listings: other processes write there too.
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


def persist(call: Callable[[], T], url: str) -> T:
    """Call a store, and retry with growing pauses while it is busy.

    Raises FileNotFoundError or PermissionError at once, and ExecutionError for other errors: at
    once if they are permanent, else after eight calls.
    """
    for attempt in range(TRIES):
        try:
            return call()
        except ImgrecError:
            raise
        except Exception as error:  # noqa: BLE001  # each store's library has errors of its own
            fault = explained(error, url)
            if attempt + 1 == TRIES or not is_passing(error):
                # Not chained: a message of the library may quote a signed request.
                raise fault from None
            _log.debug("%s: once more, after %s", url, type(error).__name__)
        # Random, so that clients rejected together do not return together.
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**attempt)
        time.sleep(longest * (0.5 + random.random() / 2))
    raise AssertionError(url)
