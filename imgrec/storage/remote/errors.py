"""What the errors of stores' libraries mean, in words of ours: where, what, and what to do."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from socket import gaierror

from imgrec.errors import ExecutionError, ImgrecError, UsageError
from imgrec.storage.urls import redacted, scheme_of

TRIES = 8
"""How often a store is asked that is busy."""
NO_BUCKET = "there is no such bucket"
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
_DENIED_STATUS = frozenset({401, 403})
_DENIED = "access denied"
_DENIED_KINDS = {
    "NoCredentialsError": "no credentials are found",
    "PartialCredentialsError": "a part of the credentials is missing",
    "CredentialRetrievalError": "no credentials are to be had",
    "ProfileNotFound": "there is no profile of the name that AWS_PROFILE gives",
    "PermissionError": _DENIED,
}
_DENIED_CODES = {
    "InvalidAccessKeyId": "the store does not know the access key",
    "SignatureDoesNotMatch": "the secret key is not that of the access key",
    "ExpiredToken": "the credentials have expired",
    "TokenRefreshRequired": "the credentials have expired",
    "InvalidToken": "the session token is not valid",
    "RequestTimeTooSkewed": "the clock of this machine is not that of the store",
    "400": "bad request, as if the credentials had expired",  # a HEAD is told no more
    **dict.fromkeys(("403", "401", "Forbidden", "AccessDenied"), _DENIED),
}
_ELSEWHERE = frozenset({"PermanentRedirect", "301", "AuthorizationHeaderMalformed"})
_HINTS = {
    "s3": "check AWS_PROFILE or AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL, and what they may do",
    "gs": "check GOOGLE_APPLICATION_CREDENTIALS, and what they may do",
    "hdfs": "check the host, and JAVA_HOME, HADOOP_HOME and CLASSPATH, by which it is reached",
}
_SAID_CHARACTERS = 200


def is_passing(error: BaseException) -> bool:
    """Tell whether the same request may succeed some time later."""
    for one in _chain(error):
        if _code(one) in _PASSING_CODES or _status(one) in _PASSING_STATUS:
            return True
        if _code(one) or isinstance(one, FileNotFoundError | PermissionError):
            return False
        if _is_broken(one):
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
    if denials := list(filter(None, map(_denial, chain))):
        told = next((said for said in denials if said != _DENIED), _DENIED)
        return PermissionError(errno.EACCES, told, url)
    if any("Invalid bucket name" in str(one) for one in chain):
        return UsageError(
            f"{url}: no bucket can be called that",
            hint="buckets have names of 3 to 63 small letters, digits, hyphens and dots",
        )
    if codes & _ELSEWHERE:
        return ExecutionError(
            f"{url}: the bucket is in another region",
            hint="set AWS_DEFAULT_REGION to the region that it is in",
            path=url,
        )
    return _unreachable(error, url) or ExecutionError(
        f"{url}: {_said(error)}",
        hint=_HINTS.get(scheme_of(url), "check the URL, the credentials and the network"),
        path=url,
    )


def _unreachable(error: BaseException, url: str) -> ExecutionError | None:
    """Return the error for a store that does not answer, if that is what is wrong."""
    if is_passing(error):
        return ExecutionError(
            f"{url} cannot be reached{_endpoint(url)}, or is too busy: {TRIES} requests failed",
            hint="try it again later; what was finished is kept. If it never worked, check "
            "the endpoint and the network",
            path=url,
        )
    if any(isinstance(one, gaierror) for one in _chain(error)):
        return ExecutionError(
            f"{url}: there is no such host", hint="check its name, and the network", path=url
        )
    return None


def _endpoint(url: str) -> str:
    """Say where S3 is looked for, as far as that is not where everybody's is."""
    names = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL") if scheme_of(url) in ("s3", "s3a") else ()
    told = next(filter(None, map(os.environ.get, names)), "")
    return told and f" at {redacted(told)}"


def _said(error: BaseException) -> str:
    """Return what a library says, as far as it may be repeated."""
    if isinstance(error, OSError) and error.strerror:
        return redacted(error.strerror)
    said = " ".join(redacted(str(error)).split())[:_SAID_CHARACTERS]
    return f"{type(error).__name__}: {said}"


def denied(url: str, error: OSError) -> ExecutionError:
    """Return the error for a store that does not let us do what we must."""
    hint = _HINTS.get(scheme_of(url), "check the credentials, and what they may do")
    if not isinstance(error, PermissionError):
        hint = "check its name"
    return ExecutionError(f"{url}: {error.strerror}", hint=hint, path=url)


def _denial(error: BaseException) -> str:
    """Say why a store does not let us; "" if it does."""
    if said := _DENIED_CODES.get(_code(error)):
        return said
    kinds = (kind.__name__ for kind in type(error).__mro__)
    said = next((_DENIED_KINDS[kind] for kind in kinds if kind in _DENIED_KINDS), "")
    return said or (_DENIED if _status(error) in _DENIED_STATUS else "")


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    for _ in range(5):
        if error is None:
            return
        if not _hides_its_cause(error):
            yield error
        error = error.__cause__ or error.__context__


def _hides_its_cause(error: BaseException) -> bool:
    """Tell whether an error says that nothing is there where nothing could be asked.

    That is what fsspec says of pages of the web which it cannot have.
    """
    cause = error.__cause__
    if cause is None or not isinstance(error, FileNotFoundError):
        return False
    return _is_broken(cause) or _status(cause) in _DENIED_STATUS | _PASSING_STATUS


def _is_broken(error: BaseException) -> bool:
    """Tell whether a connection broke, or could not be made."""
    kinds = {kind.__name__ for kind in type(error).__mro__}
    return isinstance(error, ConnectionError | TimeoutError) or bool(kinds & _PASSING_KINDS)


def _code(error: BaseException) -> str:
    """Return what S3 calls an error; "" for errors that it did not answer with."""
    response = getattr(error, "response", None)
    found = response.get("Error", {}) if isinstance(response, dict) else {}
    return str(found.get("Code", ""))


def _status(error: BaseException) -> int:
    response = getattr(error, "response", None)
    found = response.get("ResponseMetadata", {}) if isinstance(response, dict) else {}
    status = found.get("HTTPStatusCode") or getattr(error, "status", 0)
    status = status or getattr(error, "code", 0)  # asked last: aiohttp warns of it
    try:
        return int(status or 0)
    except (TypeError, ValueError):
        return 0
