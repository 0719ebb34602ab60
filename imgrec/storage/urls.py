"""URLs of object stores, and keeping secrets in them out of messages."""

from __future__ import annotations

import os
import re

from imgrec.errors import UsageError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKETS = "s3|s3a|gs|gcs|az|abfs|abfss|oss"
_NO_BUCKET = re.compile(rf"({_BUCKETS})://(?:/|$)", re.I)
_ONE_SLASH = re.compile(rf"({_BUCKETS}|hdfs|https?|ftp):/(?!/)", re.I)
"""pathlib turns the two slashes of a URL into one, and people mistype them."""
_PASSWORD = re.compile(r"(?<=:/)(/?)[^/@\s]*:[^/@\s]*@")
# Names of buckets have no colon. Secret keys of S3 may have slashes.
_BUCKET_KEY = re.compile(rf"\b((?:{_BUCKETS})://?)[^/@\s:]*:(?:[^@\s]+@|[^/\s]+)", re.I)
_SIGNED = re.compile(
    r"[?&](?:X-(?:Amz|Goog)-[\w-]+|AWSAccessKeyId|AccessKey|Signature|sig|token|access_token"
    r"|password|secret)=[^&\s]*",
    re.I,
)
_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSW|ACCESS_KEY|KEY$|CREDENTIAL|CONNECTION_STRING", re.I)
_ENDPOINT = re.compile(r"([^/]*//[^/?#]*)[/?#].+")
"""The path of an endpoint may be a token, too."""
_LEAST_SECRET = 6
"""Shorter values would also match harmless text."""


def is_url(text: str) -> bool:
    """Tell a URL of an object store from a path.

    Raises UsageError if it has no bucket, or if it contains a password or a signature, which would
    show up in reports.

    >>> is_url("s3://bucket/flowers"), is_url("/data/flowers")
    (True, False)
    """
    if _ONE_SLASH.match(text):
        raise UsageError(
            f"{redacted(text)} is not a URL: it has one slash instead of two",
            hint=f"did you mean {redacted(text.replace(':/', '://', 1))}? A folder of that name is "
            f"./{redacted(text)}",
        )
    if not _SCHEME.match(text):
        return False
    if empty := _NO_BUCKET.match(text):
        raise UsageError(
            f"{redacted(text)} has no bucket",
            hint=f"give one, such as {empty[1].lower()}://bucket/datasets",
        )
    if any(secret.search(text) for secret in (_PASSWORD, _BUCKET_KEY, _SIGNED)):
        raise UsageError(
            f"{redacted(text)} contains credentials",
            hint="give them by environment variables or a profile, such as AWS_PROFILE",
        )
    return True


def scheme_of(url: str) -> str:
    """Return the scheme of a URL in lower case.

    >>> scheme_of("S3://bucket/flowers")
    's3'
    """
    return url.partition("://")[0].lower()


def redacted(text: str) -> str:
    """Remove passwords, signatures, keys and the values of secret environment variables.

    >>> redacted("GET https://me:pw@host/key?X-Amz-Signature=c0ffee failed")
    'GET https://***@host/key?*** failed'
    >>> redacted("s3://KEY:sec/ret@bucket/flowers")
    's3://***@bucket/flowers'
    """
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _LEAST_SECRET:
            text = text.replace(value, "***")
        if name.startswith("AWS_ENDPOINT_URL") and (found := _ENDPOINT.fullmatch(value)):
            text = text.replace(value, f"{found[1]}/***")
    text = _BUCKET_KEY.sub(lambda found: f"{found[1]}***{'@' * found[0].endswith('@')}", text)
    text = _PASSWORD.sub(r"\1***@", text)
    text = _SIGNED.sub(lambda found: f"{found[0][0]}***", text)
    return _KEY_ID.sub("***", text)
