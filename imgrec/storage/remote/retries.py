"""Trying again what a store could not do just now, and saying why if it cannot do it at all."""

from __future__ import annotations

import errno
import logging
import random
import time
from collections.abc import Callable, Iterator
from typing import TypeVar

from imgrec.errors import ExecutionError, ImgrecError
from imgrec.storage.urls import redacted, scheme_of

T = TypeVar("T")

_log = logging.getLogger(__name__)

_TRIES = 8
_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0
_PASSING_STATUS = frozenset({408, 409, 425, 429, 500, 502, 503, 504})
_PASSING_CODES = frozenset(
    {
        "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "OperationAborted",
        "Throttling", "ThrottlingException", "RequestLimitExceeded", "BandwidthLimitExceeded",
        "BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody",
    }
)  # fmt: skip
_PASSING_KINDS = frozenset(
    {
        "HTTPClientError", "IncompleteRead", "IncompleteReadError", "FSTimeoutError",
        "ResponseParserError", "ClientPayloadError", "ClientConnectionError",
        "ServerDisconnectedError", "ConnectionError", "TimeoutError", "ChecksumError",
    }
)  # fmt: skip
"""Names of the errors that libraries have for connections which break, time out or garble."""
_DENIED_KINDS = frozenset({"NoCredentialsError", "CredentialRetrievalError", "ProfileNotFound"})
_DENIED_CODES = frozenset(
    {"403", "401", "Forbidden", "AccessDenied", "InvalidToken", "TokenRefreshRequired"}
)
_HINTS = {
    "s3": "check AWS_PROFILE or AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, and what they may do",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS, and what they may do",
}
_SAID_BYTES = 200
NO_BUCKET = "there is no such bucket"


def persist(call: Callable[[], T], url: str) -> T:
    """Return what a call to a store returns, calling again, later and later, while it is busy.

    Raises FileNotFoundError or PermissionError at once, if that is what is wrong, and
    ExecutionError otherwise: at once for what will not pass, and after eight calls for what might.
    """
    for attempt in range(_TRIES):
        try:
            return call()
        except ImgrecError:
            raise
        except Exception as error:  # noqa: BLE001  # each store's library has errors of its own
            fault = explained(error, url)
            if attempt + 1 == _TRIES or not is_passing(error):
                # Not chained: what a library says may quote a signed request.
                raise fault from None
            _log.debug("%s: once more, after %s", url, type(error).__name__)
        # At random, so that those who were turned away together do not come back together.
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**attempt)
        time.sleep(longest * (0.5 + random.random() / 2))
    raise AssertionError(url)


def is_passing(error: BaseException) -> bool:
    """Tell whether the same request may succeed some time later."""
    for one in _chain(error):
        if _code(one) in _PASSING_CODES or _status(one) in _PASSING_STATUS:
            return True
        if _code(one) or isinstance(one, FileNotFoundError | PermissionError):
            return False
        if isinstance(one, ConnectionError | TimeoutError) or _is_kind(one, _PASSING_KINDS):
            return True
        if isinstance(one, OSError) and one.errno in (errno.EBUSY, errno.EAGAIN):
            return True
    return False


def explained(error: BaseException, url: str) -> OSError | ImgrecError:
    """Return the error that says what is wrong, in words of ours."""
    chain = list(_chain(error))
    codes = {_code(one) for one in chain}
    if "NoSuchBucket" in codes:
        return FileNotFoundError(errno.ENOENT, NO_BUCKET, url)
    if any(isinstance(one, FileNotFoundError) for one in chain):
        return FileNotFoundError(errno.ENOENT, "there is no such object", url)
    if codes & _DENIED_CODES or any(
        isinstance(one, PermissionError) or _is_kind(one, _DENIED_KINDS) for one in chain
    ):
        return PermissionError(errno.EACCES, "access denied", url)
    if is_passing(error):
        return ExecutionError(
            f"{url} cannot be reached, or is too busy: {_TRIES} requests failed",
            hint="try it again later; what was finished is kept. If it never worked, check "
            "the endpoint and the network",
            path=url,
        )
    said = " ".join(redacted(str(error)).split())[:_SAID_BYTES]
    return ExecutionError(
        f"{url}: {type(error).__name__}: {said}",
        hint=_HINTS.get(scheme_of(url), "check the URL, the credentials and the network"),
        path=url,
    )


def denied(url: str, error: OSError) -> ExecutionError:
    """Return the error for a store that does not let us do what we must."""
    hint = _HINTS.get(scheme_of(url), "check the credentials, and what they may do")
    if not isinstance(error, PermissionError):
        hint = "check its name"
    return ExecutionError(f"{url}: {error.strerror}", hint=hint, path=url)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(5):
        if error is None:
            return
        yield error
        error = error.__cause__ or error.__context__


def _is_kind(error: BaseException, names: frozenset[str]) -> bool:
    return any(kind.__name__ in names for kind in type(error).__mro__)


def _code(error: BaseException) -> str:
    """Return what S3 calls an error; "" for errors that it did not answer with."""
    response = getattr(error, "response", None)
    found = response.get("Error", {}) if isinstance(response, dict) else {}
    return str(found.get("Code", ""))


def _status(error: BaseException) -> int:
    response = getattr(error, "response", None)
    found = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    status = found.get("HTTPStatusCode", getattr(error, "code", getattr(error, "status", 0)))
    try:
        return int(status or 0)
    except (TypeError, ValueError):
        return 0
