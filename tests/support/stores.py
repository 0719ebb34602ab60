"""A real S3 server on loopback, and a proxy before it that is as bad as networks are."""

from __future__ import annotations

import atexit
import os
import re
import shutil
import socket
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

KEY_ID, SECRET = "AKIAIMGRECTESTKEYID1", "this+is/the/secret+of+the/tests+0123456"
TOKEN = "this-is-the-session-token-of-the-tests"
_SLOW_DOWN = (
    b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
)


@dataclass
class Proxy:
    """Forwards requests to a server; `fault` says what becomes of each instead."""

    upstream: int
    fault: Callable[[str, str], str] = field(default=lambda method, path: "")
    """Is given method and path, and answers "", "503", "cut", "cut after", "403", "400 Code"."""
    seen: list[tuple[str, str]] = field(default_factory=list)
    sent: list[tuple[str, int]] = field(default_factory=list)
    """The path of each request, and how many bytes it sent."""
    port: int = 0

    def start(self) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        server.daemon_threads = True
        self.port = server.server_address[1]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def methods(self, pattern: str = "") -> list[str]:
        return [method for method, path in self.seen if re.search(pattern, path)]


def _handler(proxy: Proxy) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def handle_one(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length) if length else b""
            proxy.seen.append((self.command, self.path))
            proxy.sent.append((self.path, length))
            fault = proxy.fault(self.command, self.path)
            if fault == "cut":
                self._cut()
                return
            if fault[:3].isdigit():
                status, _, said = fault.partition(" ")
                code = said or {"503": "SlowDown", "403": "AccessDenied"}[status]
                self._answer(int(status), {}, _SLOW_DOWN.replace(b"SlowDown", code.encode()))
                return
            upstream = HTTPConnection("127.0.0.1", proxy.upstream, timeout=60)
            upstream.request(self.command, self.path, body, dict(self.headers))
            answer = upstream.getresponse()
            data = answer.read()
            if fault == "cut after":
                self._cut(data[: len(data) // 2], dict(answer.getheaders()))
                return
            self._answer(answer.status, dict(answer.getheaders()), data)

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = handle_one  # noqa: N815

        def _answer(self, status: int, headers: dict[str, str], data: bytes) -> None:
            self.send_response_only(status)
            size = headers.get("Content-Length", str(len(data)))
            for name, value in headers.items():
                if name.lower() not in ("transfer-encoding", "connection", "content-length"):
                    self.send_header(name, value)
            self.send_header("Content-Length", size if self.command == "HEAD" else str(len(data)))
            self.end_headers()
            if self.command != "HEAD":
                with suppress(ConnectionError):  # a client may stop reading
                    self.wfile.write(data)

        def _cut(self, data: bytes = b"", headers: dict[str, str] | None = None) -> None:
            if data:
                self.send_response_only(200)
                for name, value in (headers or {}).items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(data)
                self.wfile.flush()
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)

        def log_message(self, *arguments: object) -> None:
            pass

    return Handler


@dataclass
class Store:
    """A bucket of its own for each test."""

    bucket: str
    proxy: Proxy

    @property
    def url(self) -> str:
        return f"s3://{self.bucket}"

    def __truediv__(self, path: str) -> str:
        return f"{self.url}/{path}"

    def _connection(self) -> object:
        import boto3

        return boto3.client("s3", endpoint_url=f"http://127.0.0.1:{self.proxy.upstream}")

    def keys(self, prefix: str = "") -> dict[str, bytes]:
        """Return all objects, read past imgrec."""
        client = self._connection()
        pages = client.get_paginator("list_objects_v2").paginate(  # type: ignore[attr-defined]
            Bucket=self.bucket, Prefix=prefix
        )
        names = [entry["Key"] for page in pages for entry in page.get("Contents", ())]
        return {name: self.get(name) for name in names}

    def get(self, key: str) -> bytes:
        client = self._connection()
        data: bytes = client.get_object(Bucket=self.bucket, Key=key)["Body"].read()  # type: ignore[attr-defined]
        return data

    def put(self, key: str, data: bytes) -> None:
        self._connection().put_object(Bucket=self.bucket, Key=key, Body=data)  # type: ignore[attr-defined]

    def delete(self, key: str) -> None:
        self._connection().delete_object(Bucket=self.bucket, Key=key)  # type: ignore[attr-defined]

    def put_tree(self, root: os.PathLike[str], prefix: str) -> None:
        for folder, _, files in os.walk(root):
            for name in files:
                path = os.path.join(folder, name)
                key = f"{prefix}/{os.path.relpath(path, root)}"
                with open(path, "rb") as file:
                    self.put(key, file.read())


def few_flowers() -> Path:
    """Copy the first photographs of three classes: a request for each of all takes long."""
    root = Path(tempfile.mkdtemp(prefix="imgrec-test-")) / "flowers"
    atexit.register(shutil.rmtree, root.parent, ignore_errors=True)
    whole = Path(__file__).parents[2] / "sample_data" / "flowers"
    for name in ("daisy", "rose", "tulip"):
        (root / name).mkdir(parents=True)
        for path in sorted((whole / name).glob(f"{name}_0?.*")):
            shutil.copy(path, root / name)
    return root


@pytest.fixture(scope="session")
def s3_port() -> Iterator[int]:
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    server = pytest.importorskip("moto.server", reason="moto is not installed")
    import logging

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    moto = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    yield moto.get_host_and_port()[1]
    moto.stop()


@pytest.fixture
def store(
    s3_port: int, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[Store]:
    """Give a test an empty bucket, and the environment in which any S3 library finds it."""
    import boto3

    proxy = Proxy(upstream=s3_port)
    server = proxy.start()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{proxy.port}",
        "AWS_ACCESS_KEY_ID": KEY_ID,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_SESSION_TOKEN": TOKEN,
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }.items():
        monkeypatch.setenv(name, value)
    from imgrec.storage.remote import filesystem

    filesystem._open.cache_clear()  # it knows the endpoint of another test
    import fsspec

    fsspec.get_filesystem_class("s3").clear_instance_cache()
    bucket = "test-" + os.urandom(6).hex()
    client = boto3.client("s3", endpoint_url=f"http://127.0.0.1:{s3_port}")
    client.create_bucket(Bucket=bucket)
    yield Store(bucket, proxy)
    server.shutdown()
    server.server_close()
    filesystem._open.cache_clear()
