"""Uploading files, in parts, with proof that what arrived is what was sent.

Each part for S3 carries its MD5, and S3 refuses a part that does not match. The ETag of a part is
its MD5 too, unless the bucket encrypts with its own keys, and is compared. The `put_file` of fsspec
sends parts without MD5, so we upload to S3 ourselves. Other stores use `put_file`; size and, if the
store reports it, MD5 are compared.
"""

from __future__ import annotations

import hashlib
import os
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from itertools import count
from typing import Any, NamedTuple

from imgrec.errors import ExecutionError
from imgrec.storage.remote.errors import denied
from imgrec.storage.remote.filesystem import System, is_s3, open_system, persist
from imgrec.storage.remote.read import Stat, stat_object

_PART_BYTES = 16 << 20
_MOST_PARTS = 9_000
"""S3 takes 10,000."""
_THREADS = 8
_MD5_HEX = 32


class _Part(NamedTuple):
    number: int
    start: int
    size: int


class Uploader:
    """Uploads parts of files, several at once. Must be closed."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="imgrec-upload")

    def close(self) -> None:
        """Wait for uploads in progress, and start no more."""
        self._pool.shutdown(cancel_futures=True)

    def upload(self, path: str, url: str) -> Stat:
        """Upload a file, and return size, date and tag of the object.

        Raises ExecutionError if the store refuses it or reports different contents.
        """
        try:
            found = self._upload_s3(path, url) if is_s3(url) else _upload_whole(path, url)
        except OSError as error:
            raise denied(url, error) from None
        if found.size != os.path.getsize(path):
            raise _garbled(url)
        return found

    def _upload_s3(self, path: str, url: str) -> Stat:
        parts = list(_parts(os.path.getsize(path)))
        system, key = open_system(url)
        bucket, _, name = key.partition("/")
        where = {"Bucket": bucket, "Key": name}
        if len(parts) == 1:
            tag = _send(system, "put_object", where, path, parts[0], url)
        else:
            tag = self._upload_parts(system, where, path, parts, url)
        found = stat_object(url)
        if found.tag != tag:
            raise _garbled(url)
        return found

    def _upload_parts(
        self, system: System, where: dict[str, str], path: str, parts: list[_Part], url: str
    ) -> str:
        begun = persist(lambda: system.call_s3("create_multipart_upload", **where), url)
        target = {**where, "UploadId": begun["UploadId"]}
        try:
            tags = self._pool.map(
                lambda part: _send(
                    system, "upload_part", {**target, "PartNumber": part.number}, path, part, url
                ),
                parts,
            )
            listed = [
                {"PartNumber": part.number, "ETag": f'"{tag}"'}
                for part, tag in zip(parts, tags, strict=True)
            ]
            return self._complete(system, target, listed, url)
        except BaseException:
            with suppress(Exception):  # leftover parts cost money, but do no harm
                system.call_s3("abort_multipart_upload", **target)
            raise

    def _complete(
        self, system: System, target: dict[str, str], parts: list[dict[str, Any]], url: str
    ) -> str:
        def complete() -> str:
            try:
                done = system.call_s3(
                    "complete_multipart_upload", MultipartUpload={"Parts": parts}, **target
                )
            except FileNotFoundError:
                # Either the answer to an earlier try was lost and the upload is complete, or there
                # is no such object or a different one.
                return stat_object(url).tag
            return str(done["ETag"]).strip('"')

        return persist(complete, url)


def _parts(size: int) -> Iterator[_Part]:
    part_bytes = max(_PART_BYTES, -(-size // _MOST_PARTS))
    for number, start in zip(count(1), range(0, max(size, 1), part_bytes), strict=False):
        yield _Part(number, start, min(part_bytes, size - start))


def _send(
    system: System, call: str, target: dict[str, Any], path: str, part: _Part, url: str
) -> str:
    """Send a part of a file, and return its ETag."""
    with open(path, "rb") as file:
        file.seek(part.start)
        data = file.read(part.size)
    digest = hashlib.md5(data, usedforsecurity=False)
    md5 = b64encode(digest.digest()).decode()
    done = persist(lambda: system.call_s3(call, Body=data, ContentMD5=md5, **target), url)
    tag = str(done["ETag"]).strip('"')
    is_md5 = len(tag) == _MD5_HEX and not done.get("SSEKMSKeyId") and not _has_own_key(done)
    if len(data) != part.size or (is_md5 and tag != digest.hexdigest()):
        raise _garbled(url)
    return tag


def _has_own_key(done: dict[str, Any]) -> bool:
    return bool(done.get("SSECustomerAlgorithm"))


def _upload_whole(path: str, url: str) -> Stat:
    system, key = open_system(url)

    def put() -> None:
        with suppress(OSError, NotImplementedError):  # needed on stores with folders only
            system.makedirs(key.rpartition("/")[0], exist_ok=True)
        system.put_file(path, key)

    persist(put, url)
    found = persist(lambda: system.info(key), url)
    if md5 := found.get("md5Hash"):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        if b64encode(digest.digest()).decode() != md5:
            raise _garbled(url)
    return stat_object(url)


def put_bytes(url: str, data: bytes) -> None:
    """Write a small object in one request."""
    _changing(url, lambda system, key: system.pipe_file(key, data), makes=True)


def remove_objects(*urls: str) -> None:
    """Delete objects, if they exist."""

    def remove(url: str) -> None:
        with suppress(FileNotFoundError):
            _changing(url, lambda system, key: system.rm_file(key))

    if urls:
        with ThreadPoolExecutor(min(len(urls), _THREADS)) as pool:
            list(pool.map(remove, urls))


def copy_object(url: str, target: str) -> Stat:
    """Copy an object inside a store, without downloading it."""
    _, path = open_system(target)
    _changing(url, lambda system, key: system.cp_file(key, path))
    return stat_object(target)


def _changing(url: str, change: Callable[[System, str], object], *, makes: bool = False) -> None:
    system, key = open_system(url)
    try:
        if makes and not is_s3(url):
            with suppress(OSError, NotImplementedError):
                system.makedirs(key.rpartition("/")[0], exist_ok=True)
        persist(lambda: change(system, key), url)
    except PermissionError as error:
        raise denied(url, error) from None


def _garbled(url: str) -> ExecutionError:
    return ExecutionError(
        f"{url} is not what was uploaded",
        hint="run it again; if it happens again, the connection to the store is faulty",
        path=url,
    )
