"""Telling URLs of object stores from paths, and keeping secrets out of text."""

from __future__ import annotations

import os
import re

from imgrec.errors import UsageError

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKETS = "s3|s3a|gs|gcs|az|abfs|abfss|oss"
_NO_BUCKET = re.compile(rf"({_BUCKETS})://(?:/|$)", re.I)
_ONE_SLASH = re.compile(rf"({_BUCKETS}|hdfs|https?|ftp):/(?!/)", re.I)
"""What pathlib makes of a URL, and who is in a hurry types."""
_PASSWORD = re.compile(r"(?<=://)[^/@\s]*:[^/@\s]*@")
_SIGNED = re.compile(
    r"[?&](?:X-(?:Amz|Goog)-[\w-]+|AWSAccessKeyId|Signature|sig|token|access_token)=[^&\s]*", re.I
)
_KEY_ID = re.compile(r"\b(?:AKIA|ASIA)[A-Z0-9]{12,}\b")
_SECRET_NAME = re.compile(r"SECRET|TOKEN|PASSWORD|ACCESS_KEY|CREDENTIAL", re.I)
_LEAST_SECRET = 6
"""What is shorter than this would be found in innocent text."""


def is_url(text: str) -> bool:
    """Tell whether something is the URL of an object store, and not a path.

    Raises UsageError if it names no bucket, or if it holds a password or a signature, which would
    show up in reports.

    >>> is_url("s3://bucket/flowers"), is_url("/data/flowers")
    (True, False)
    """
    if _ONE_SLASH.match(text):
        raise UsageError(
            f"{redacted(text)} is no URL: it has one slash where two belong",
            hint=f"did you mean {redacted(text.replace(':/', '://', 1))}? A folder of that name is "
            f"./{redacted(text)}",
        )
    if not _SCHEME.match(text):
        return False
    if empty := _NO_BUCKET.match(text):
        raise UsageError(
            f"{redacted(text)} names no bucket",
            hint=f"give one, such as {empty[1].lower()}://bucket/datasets",
        )
    if _PASSWORD.search(text) or _SIGNED.search(text):
        raise UsageError(
            f"{redacted(text)} is a URL with credentials in it",
            hint="give them by environment variables or a profile, such as AWS_PROFILE",
        )
    return True


def scheme_of(url: str) -> str:
    """Return what a URL begins with.

    >>> scheme_of("s3://bucket/flowers")
    's3'
    """
    return url.partition("://")[0].lower()


def redacted(text: str) -> str:
    """Return text without passwords, signatures, keys, and values of secret variables.

    >>> redacted("GET https://me:pw@host/key?X-Amz-Signature=c0ffee failed")
    'GET https://***@host/key?*** failed'
    """
    for name, value in os.environ.items():
        if _SECRET_NAME.search(name) and len(value) >= _LEAST_SECRET:
            text = text.replace(value, "***")
    text = _PASSWORD.sub("***@", text)
    text = _SIGNED.sub(lambda found: f"{found[0][0]}***", text)
    return _KEY_ID.sub("***", text)
