"""Uploading and downloading files, with proof that what arrived is what was sent.

Each part for S3 carries its MD5, and S3 refuses a part that does not match. The ETag of a part is
its MD5 too, unless the bucket encrypts with its own keys, and is compared. The `put_file` of fsspec
sends parts without MD5, so we upload to S3 ourselves. Other stores use `put_file`; size and, if the
store reports it, MD5 are compared. Downloads are compared with the size of the object.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

from imgrec.errors import ExecutionError
from imgrec.storage.files import os_errors_as
from imgrec.storage.remote.filesystem import (
    System,
    denied,
    is_s3,
    open_system,
    persist,
    reason_of,
)
from imgrec.storage.remote.read import Stat, parts_of, read_ahead, stat_object

_log = logging.getLogger(__name__)

_PART_BYTES = 16 << 20
_MOST_PARTS = 9_000
"""S3 allows 10,000."""
_THREADS = 8
"""How many parts, or files, are transferred at once."""
_MD5_HEX = 32
_MOST_REMOVED = 1000
"""S3 deletes no more objects in one request."""
_MOST_COPIED_BYTES = 5 << 30
"""S3 copies no larger object in one request."""


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

    def begin(self, url: str, expected_bytes: int = 0) -> Growing:
        """Return an upload of a file that need not be complete, of about the expected size."""
        return Growing(self._pool, url, expected_bytes)

    def upload(self, path: str, url: str) -> Stat:
        """Upload a file, and return size and tag of the object; not always its date.

        Raises ExecutionError if the store refuses it or reports different contents.
        """
        growing = self.begin(url, os.path.getsize(path))
        try:
            return growing.finish(path)
        except BaseException:
            growing.give_up()
            raise


class Growing:
    """The upload of a file to which something may still be appended.

    On S3, parts are sent while the rest is being written.
    """

    def __init__(self, pool: ThreadPoolExecutor, url: str, expected_bytes: int) -> None:
        self._pool, self._url = pool, url
        self._part_bytes = max(_PART_BYTES, -(-expected_bytes // _MOST_PARTS))
        self._is_s3 = is_s3(url)
        self._target: dict[str, Any] = {}
        """What all requests name; with the id of the upload as soon as there is one."""
        self._parts: list[Future[dict[str, Any]]] = []
        self._begun_bytes = 0

    def send_parts(self, path: str, size: int) -> None:
        """Start to send what is complete of the first `size` bytes of the file at `path`."""
        try:
            while self._is_s3 and size - self._begun_bytes >= self._part_bytes:
                self._send_part(path, self._part_bytes)
        except OSError as error:
            raise denied(self._url, error) from None

    def finish(self, path: str) -> Stat:
        """Send the rest of a file that is complete; return size and tag of the object."""
        try:
            stat = self._finish(path) if self._is_s3 else _upload_whole(path, self._url)
        except OSError as error:
            raise denied(self._url, error) from None
        if stat.size != os.path.getsize(path):
            raise _corrupted(self._url)
        return stat

    def give_up(self) -> None:
        """Delete the parts that were sent."""
        if "UploadId" in self._target:
            for part in self._parts:
                part.cancel()
            wait(self._parts)
            with suppress(Exception):  # leftover parts cost money, but do no harm
                self._system.call_s3("abort_multipart_upload", **self._target)

    @property
    def _system(self) -> System:
        return open_system(self._url)[0]

    def _send_part(self, path: str, size: int) -> None:
        if not self._parts:
            bucket, _, name = open_system(self._url)[1].partition("/")
            target = {"Bucket": bucket, "Key": name}
            call = "create_multipart_upload"
            begun = persist(lambda: self._system.call_s3(call, **target), self._url)
            self._target = {**target, "UploadId": begun["UploadId"]}
        part = _Part(len(self._parts) + 1, self._begun_bytes, size)
        self._begun_bytes += size
        # Opened now: the file gets another name when it is complete.
        self._parts.append(self._pool.submit(self._send, open(path, "rb"), part))  # noqa: SIM115

    def _send(self, file: BinaryIO, part: _Part) -> dict[str, Any]:
        with file:
            data = _read_part(file, part)
        numbered = {**self._target, "PartNumber": part.number}
        tag = _send(self._system, "upload_part", numbered, data, self._url)
        return {"PartNumber": part.number, "ETag": f'"{tag}"'}

    def _finish(self, path: str) -> Stat:
        size = os.path.getsize(path)
        if not self._parts and size <= self._part_bytes:
            with open(path, "rb") as file:
                data = _read_part(file, _Part(1, 0, size))
            bucket, _, name = open_system(self._url)[1].partition("/")
            target = {"Bucket": bucket, "Key": name}
            return Stat(size, 0, _send(self._system, "put_object", target, data, self._url))
        self.send_parts(path, size)
        if size > self._begun_bytes:
            self._send_part(path, size - self._begun_bytes)
        sent = {"Parts": [part.result() for part in self._parts]}

        def complete() -> Stat:
            call = "complete_multipart_upload"
            try:
                done = self._system.call_s3(call, MultipartUpload=sent, **self._target)
            except FileNotFoundError:
                # Either the answer to an earlier try was lost and the upload is complete, or there
                # is no such object or a different one.
                return stat_object(self._url)
            return Stat(size, 0, str(done["ETag"]).strip('"'))

        return persist(complete, self._url)


def _read_part(file: BinaryIO, part: _Part) -> bytes:
    file.seek(part.start)
    data = file.read(part.size)
    if len(data) != part.size:
        raise ExecutionError(f"{file.name} changed while it was being uploaded", path=file.name)
    return data


def _send(system: System, call: str, target: dict[str, Any], data: bytes, url: str) -> str:
    """Send an object, or a part of one, and return its ETag."""
    digest = hashlib.md5(data, usedforsecurity=False)
    md5 = b64encode(digest.digest()).decode()
    done = persist(lambda: system.call_s3(call, Body=data, ContentMD5=md5, **target), url)
    tag = str(done["ETag"]).strip('"')
    if _is_md5(tag, done) and tag != digest.hexdigest():
        raise _corrupted(url)
    return tag


def _is_md5(tag: str, answer: Mapping[str, Any]) -> bool:
    """Return whether a tag of S3 is the MD5 of the object, given the answer that it is in."""
    has_own_key = answer.get("SSEKMSKeyId") or answer.get("SSECustomerAlgorithm")
    return len(tag) == _MD5_HEX and not has_own_key


def _upload_whole(path: str, url: str) -> Stat:
    _write(url, lambda system, key: system.put_file(path, key))
    system, key = open_system(url)
    if md5 := persist(lambda: system.info(key), url).get("md5Hash"):
        with open(path, "rb") as file:
            digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False))
        if b64encode(digest.digest()).decode() != md5:
            raise _corrupted(url)
    return stat_object(url)


def put_bytes(url: str, data: bytes) -> None:
    """Write an object in one request; S3 compares its MD5."""
    if not is_s3(url):
        _write(url, lambda system, key: system.pipe_file(key, data))
        return
    system, key = open_system(url)
    bucket, _, name = key.partition("/")
    try:
        _send(system, "put_object", {"Bucket": bucket, "Key": name}, data, url)
    except OSError as error:
        raise denied(url, error) from None


def remove_objects(*urls: str) -> None:
    """Delete objects, if they exist."""
    buckets = {url.split("/", 3)[2] for url in urls}
    is_batch = len(urls) > 1 and len(buckets) == 1 and is_s3(urls[0])
    left = _removed_at_once(urls) if is_batch else urls

    def remove(url: str) -> None:
        system, key = open_system(url)
        try:
            persist(lambda: system.rm_file(key), url)
        except PermissionError as error:
            raise denied(url, error) from None
        except FileNotFoundError:
            pass

    if left:
        with ThreadPoolExecutor(min(len(left), _THREADS)) as pool:
            list(pool.map(remove, left))


def _removed_at_once(urls: Sequence[str]) -> list[str]:
    """Delete objects of one bucket, many in a request; return those that must be deleted alone.

    Some servers refuse such requests, or the checksum that botocore adds to them.
    """
    system, bucket = open_system(urls[0])[0], open_system(urls[0])[1].partition("/")[0]
    left: list[str] = []
    for start in range(0, len(urls), _MOST_REMOVED):
        part = {open_system(url)[1].partition("/")[2]: url for url in urls[start:][:_MOST_REMOVED]}
        wanted = {"Objects": [{"Key": key} for key in part], "Quiet": True}
        try:
            done = system.call_s3("delete_objects", Bucket=bucket, Delete=wanted)
            left += [part[fault["Key"]] for fault in done.get("Errors", ())]
        except Exception as error:  # noqa: BLE001  # deleting them alone raises what is wrong
            _log.info("%s: %s; deleting %d objects alone", urls[0], reason_of(error), len(part))
            left += part.values()
    return left


def copy_sent(url: str, target: str, size: int, tag: str) -> Stat | None:
    """Copy an object inside a store if it has this size and tag still; else return None.

    Returns size and tag of the copy. On S3, that is one request instead of four.
    """
    if not is_s3(url) or size > _MOST_COPIED_BYTES:
        found = stat_object(url)
        return copy_inside(url, target) if (found.size, found.tag) == (size, tag) else None
    system, source = open_system(url)
    bucket, _, key = source.partition("/")
    to_bucket, _, to_key = open_system(target)[1].partition("/")

    def copy() -> Stat | None:
        try:
            done = system.call_s3(
                "copy_object",
                CopySource={"Bucket": bucket, "Key": key},
                CopySourceIfMatch=f'"{tag}"',
                Bucket=to_bucket,
                Key=to_key,
            )
        except OSError as error:
            if error.errno == errno.EINVAL:  # s3fs, for "precondition failed"
                return None
            raise
        own_tag = str(done["CopyObjectResult"]["ETag"]).strip('"')
        # Some servers ignore the condition.
        if len(tag) == _MD5_HEX and _is_md5(own_tag, done) and own_tag != tag:
            return None
        return Stat(size, 0, own_tag)

    try:
        return persist(copy, target)
    except OSError as error:
        raise denied(target, error) from None


def copy_inside(url: str, target: str) -> Stat:
    """Copy an object inside a store, without downloading it."""
    source = open_system(url)[1]
    _write(target, lambda system, key: system.cp_file(source, key))
    return stat_object(target)


def _write(url: str, write: Callable[[System, str], object]) -> None:
    system, key = open_system(url)

    def call() -> None:
        if not is_s3(url):
            with suppress(OSError, NotImplementedError):  # needed on stores with folders only
                system.makedirs(key.rpartition("/")[0], exist_ok=True)
        write(system, key)

    try:
        persist(call, url)
    except OSError as error:
        raise denied(url, error) from None


def _corrupted(url: str) -> ExecutionError:
    return ExecutionError(
        f"{url} is not what was uploaded",
        hint="run it again; if it happens again, the connection to the store is faulty",
        path=url,
    )


def download_all(
    urls: Mapping[str, str], folder: str, stats: Mapping[str, Stat] | None = None
) -> dict[str, str]:
    """Download objects, given by name, into a folder; return the paths by name.

    A file gets its name when it is complete. `stats` are known of the objects, by name, or are
    asked for. Raises ExecutionError if one cannot be read.
    """
    if urls:
        first = next(iter(urls.values()))
        _log.info("copying %d objects to %s, such as %s", len(urls), folder, first)
    paths = {name: os.path.join(folder, name) for name in urls}
    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(download, urls.values(), paths.values(), map((stats or {}).get, urls)))
    return paths


def download(url: str, path: str, stat: Stat | None = None) -> None:
    """Download one object to a file with the same date."""
    part = f"{path}.part"
    try:
        stat = stat or stat_object(url)
        with os_errors_as(path):
            Path(path).parent.mkdir(parents=True, exist_ok=True)
        with open(part, "wb") as file:
            for _, data in read_ahead(parts_of(url, stat.size)):
                with os_errors_as(path):
                    file.write(data)
    except OSError as error:
        raise denied(url, error) from None
    with os_errors_as(path):
        if os.path.getsize(part) != stat.size:
            raise ExecutionError(f"{url} changed while it was being read", path=url)
        os.utime(part, ns=(stat.changed_ns, stat.changed_ns))
        os.replace(part, path)
