"""The fsspec file system of each store: connecting, retrying, and explaining its errors."""

from __future__ import annotations

import errno
import logging
import os
import random
import time
from collections.abc import Callable, Iterator
from functools import lru_cache
from socket import gaierror
from typing import Any, TypeAlias, TypeVar

from imgrec.errors import ExecutionError, ImgrecError, MissingExtra, UsageError, import_extra
from imgrec.storage.urls import redacted, scheme_of

T = TypeVar("T")
System: TypeAlias = Any
"""An fsspec file system; they have no types."""

_log = logging.getLogger(__name__)

CONNECTIONS = 32
"""The most requests that a process has under way at once."""
_TRIES = 8
"""How often a busy store is asked."""
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0
_SLOW_S = 5.0
"""A request that takes longer is logged."""
_S3 = frozenset({"s3", "s3a"})
_EXTRAS = {
    "s3": ("s3fs", "s3"), "s3a": ("s3fs", "s3"),
    "gs": ("gcsfs", "gs"), "gcs": ("gcsfs", "gs"),
    "hdfs": ("fsspec", "hdfs"),
}  # fmt: skip
"""The package for each scheme, and the extra that installs it."""
_S3_OPTIONS = {
    "config_kwargs": {
        "retries": {"total_max_attempts": 1},  # only `persist` retries
        "max_pool_connections": CONNECTIONS,
        # A request that hangs is not noticed before. The default is 60 seconds for both.
        "connect_timeout": 10,
        "read_timeout": 30,
    },
}

NO_BUCKET = "there is no such bucket"
_BUSY_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_BUSY_CODES = frozenset(
    {
        "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "OperationAborted",
        "Throttling", "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded",
        "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody",
    }
)  # fmt: skip
_BROKEN_CONNECTIONS = frozenset(
    {
        "HTTPClientError", "IncompleteRead", "IncompleteReadError", "FSTimeoutError",
        "ResponseParserError", "ClientPayloadError", "ClientConnectionError",
        "ServerDisconnectedError", "ConnectionError", "TimeoutError", "ChecksumError",
    }
)  # fmt: skip
"""Names of libraries' errors for connections that break, time out or corrupt data."""
_DENIED_STATUS = frozenset({401, 403})
_DENIED = "access denied"
_DENIED_KINDS = {
    "NoCredentialsError": "no credentials found",
    "PartialCredentialsError": "the credentials are incomplete",
    "CredentialRetrievalError": "the credentials could not be retrieved",
    "ProfileNotFound": "the profile in AWS_PROFILE does not exist",
    "PermissionError": _DENIED,
}
_DENIED_CODES = {
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the secret key does not match the access key",
    "ExpiredToken": "the credentials have expired",
    "TokenRefreshRequired": "the credentials have expired",
    "InvalidToken": "the session token is not valid",
    "RequestTimeTooSkewed": "the clocks of this machine and of the store differ",
    "400": "bad request; have the credentials expired?",  # the only answer to a HEAD request
    **dict.fromkeys(("403", "401", "Forbidden", "AccessDenied"), _DENIED),
}
_OTHER_REGION = frozenset({"PermanentRedirect", "301", "AuthorizationHeaderMalformed"})
_HINTS = {
    "s3": "check AWS_PROFILE or AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, and their permissions",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS and its permissions",
    "hdfs": "check the host, and JAVA_HOME, HADOOP_HOME and CLASSPATH",
}
_MOST_CHARACTERS = 200


def open_system(url: str) -> tuple[System, str]:
    """Return the file system of a URL, and the path in it.

    Its library reads endpoint and credentials from environment variables and profiles. Raises
    MissingExtra if that library is not installed, UsageError if there is none for the scheme, and
    ExecutionError if the store cannot be reached.
    """
    scheme, rest = scheme_of(url), url.partition("://")[2]
    # A connection does not survive a fork, so each process has its own.
    system = _open(os.getpid(), f"{scheme}://{rest.partition('/')[0]}")
    # With the scheme in lower case: fsspec takes "S3:" for a bucket.
    return system, system._strip_protocol(f"{scheme}://{rest}")


def is_s3(url: str) -> bool:
    """Return whether the store of a URL speaks the S3 protocol."""
    return scheme_of(url) in _S3


@lru_cache(maxsize=16)
def _open(_process: int, root: str) -> System:
    scheme = scheme_of(root)
    package, extra = _EXTRAS.get(scheme, ("fsspec", "s3"))
    what = f"{scheme}://"
    fsspec = import_extra("fsspec", extra=extra, what=what)
    import_extra(package, extra=extra, what=what)
    if scheme not in fsspec.available_protocols():
        raise UsageError(
            f"fsspec does not know {what}",
            hint="give a path, or a URL such as s3://bucket/datasets",
        )

    def connect() -> System:
        options = _S3_OPTIONS if scheme in _S3 else {}
        try:
            # No cache of listings: other processes write there too.
            return fsspec.url_to_fs(root, use_listings_cache=False, **options)[0]
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
    for attempt in range(_TRIES):
        started = time.monotonic()
        try:
            result = call()
            if (took := time.monotonic() - started) > _SLOW_S:
                _log.info("%s: the store took %.1f s to answer", url, took)
            return result
        except ImgrecError:
            raise
        except Exception as error:  # noqa: BLE001  # each store's library has errors of its own
            if attempt + 1 == _TRIES or not is_temporary(error):
                # Not chained: a message of the library may quote a signed request.
                raise explained(error, url) from None
            # Never the message: a library may quote a signed request in it.
            why = reason_of(error)
        # Random, so that clients rejected together do not return together.
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**attempt)
        wait_s = longest * (0.5 + random.random() / 2)
        _log.info("%s: %s; try %d of %d in %.1f s", url, why, attempt + 2, _TRIES, wait_s)
        time.sleep(wait_s)
    raise AssertionError(url)


def reason_of(error: BaseException) -> str:
    """Name the reason to try again: an error code of the store, or the class of an error."""
    codes = filter(None, map(_code, _chain(error)))
    return next((code for code in codes if code in _BUSY_CODES), type(error).__name__)


def is_temporary(error: BaseException) -> bool:
    """Return whether the same request may succeed later."""
    for one in _chain(error):
        if _code(one) in _BUSY_CODES or _status(one) in _BUSY_STATUS:
            return True
        if _code(one) or isinstance(one, FileNotFoundError | PermissionError):
            return False
        if _is_broken(one):
            return True
        if isinstance(one, OSError) and one.errno in (errno.EBUSY, errno.EAGAIN):
            return True
    return False


def explained(error: BaseException, url: str) -> OSError | ImgrecError:
    """Translate an error of a store's library: what is wrong, where, and what to do."""
    chain = list(_chain(error))
    codes = {_code(one) for one in chain}
    if "NoSuchBucket" in codes:
        return FileNotFoundError(errno.ENOENT, NO_BUCKET, url)
    if any(isinstance(one, FileNotFoundError) for one in chain):
        return FileNotFoundError(errno.ENOENT, "there is no such object", url)
    if denials := list(filter(None, map(_denial, chain))):
        reason = next((reason for reason in denials if reason != _DENIED), _DENIED)
        return PermissionError(errno.EACCES, reason, url)
    if any("Invalid bucket name" in str(one) for one in chain):
        return UsageError(
            f"{url}: the bucket name is not valid",
            hint="bucket names have 3 to 63 lower-case letters, digits, hyphens and dots",
        )
    message, hint = f"{url}: {_message(error)}", "check the URL, the credentials and the network"
    hint = _HINTS.get(scheme_of(url), hint)
    if codes & _OTHER_REGION:
        message = f"{url}: the bucket is in another region"
        hint = "set AWS_DEFAULT_REGION to the region of the bucket"
    elif is_temporary(error):
        message = f"{url} cannot be reached{_endpoint(url)}, or is too busy: "
        message += f"{_TRIES} requests failed"
        hint = "try again later: finished work is kept. If it never worked, check the endpoint "
        hint += "and the network"
    elif any(isinstance(one, gaierror) for one in chain):
        message, hint = f"{url}: there is no such host", "check its name, and the network"
    return ExecutionError(message, hint=hint, path=url)


def denied(url: str, error: OSError) -> ExecutionError:
    """Return the error for a store that refuses a request."""
    hint = _HINTS.get(scheme_of(url), "check the credentials and their permissions")
    if not isinstance(error, PermissionError):
        hint = "check its name"
    return ExecutionError(f"{url}: {error.strerror}", hint=hint, path=url)


def _endpoint(url: str) -> str:
    """Name the endpoint of S3, if it is set."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if is_s3(url) else ()
    endpoint = next(filter(None, map(os.environ.get, names)), "")
    return endpoint and f" at {redacted(endpoint)}"


def _message(error: BaseException) -> str:
    """Return the message of a library, without secrets."""
    if isinstance(error, OSError) and error.strerror:
        return redacted(error.strerror)
    message = " ".join(redacted(str(error)).split())[:_MOST_CHARACTERS]
    return f"{type(error).__name__}: {message}"


def _denial(error: BaseException) -> str:
    """Return why a store denies access; "" if it does not."""
    if reason := _DENIED_CODES.get(_code(error)):
        return reason
    kinds = (kind.__name__ for kind in type(error).__mro__)
    reason = next((_DENIED_KINDS[kind] for kind in kinds if kind in _DENIED_KINDS), "")
    return reason or (_DENIED if _status(error) in _DENIED_STATUS else "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(5):
        if error is None:
            return
        if not _hides_its_cause(error):
            yield error
        error = error.__cause__ or error.__context__


def _hides_its_cause(error: BaseException) -> bool:
    """Return whether an error only claims that a file is missing.

    fsspec raises FileNotFoundError for every web page that it cannot get.
    """
    cause = error.__cause__
    if cause is None or not isinstance(error, FileNotFoundError):
        return False
    return _is_broken(cause) or _status(cause) in _DENIED_STATUS | _BUSY_STATUS


def _is_broken(error: BaseException) -> bool:
    """Return whether a connection broke, or could not be made."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(kinds & _BROKEN_CONNECTIONS)


def _code(error: BaseException) -> str:
    """Return the error code in an answer of S3; "" for other errors."""
    response = getattr(error, "response", None)
    fields = response.get("Error", {}) if isinstance(response, dict) else {}
    return str(fields.get("Code", ""))


def _status(error: BaseException) -> int:
    response = getattr(error, "response", None)
    fields = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    status = fields.get("HTTPStatusCode") or getattr(error, "status", 0)
    status = status or getattr(error, "code", 0)  # last: aiohttp warns when it is read
    try:
        return int(status or 0)
    except (TypeError, ValueError):
        return 0
