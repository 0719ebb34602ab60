"""An S3 server on loopback, as far away as a store: it serves folders, and waits before it answers.

It answers only what loaders ask: GET of an object or a range, HEAD, and ListObjectsV2. moto answers
too, but takes 27 ms of CPU for each request, on the CPUs that the loaders need.
"""

from __future__ import annotations

import os
import re
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, unquote, urlsplit
from xml.sax.saxutils import escape

WAIT_S = 0.04
_RANGE = re.compile(r"bytes=(\d+)-(\d*)")


@dataclass(slots=True)
class Traffic:
    """What a server has answered."""

    requests: int = 0
    bytes: int = 0


@contextmanager
def serve(buckets: Mapping[str, Path]) -> Iterator[Traffic]:
    """Serve folders as buckets; libraries find the server by environment variables."""
    traffic = Traffic()
    server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(buckets, traffic))
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}"
    names = {
        "AWS_ENDPOINT_URL": url,
        "S3_ENDPOINT_URL": url,  # as MosaicML streaming reads it
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench",
        "AWS_DEFAULT_REGION": "us-east-1",
        "AWS_EC2_METADATA_DISABLED": "true",
        "NO_PROXY": "127.0.0.1",
        "no_proxy": "127.0.0.1",
    }
    before = {name: os.environ.get(name) for name in names}
    os.environ |= names
    try:
        yield traffic
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
        server.shutdown()
        server.server_close()


def _handler(buckets: Mapping[str, Path], traffic: Traffic) -> type[BaseHTTPRequestHandler]:
    counting = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        disable_nagle_algorithm = True

        def do_GET(self) -> None:
            time.sleep(WAIT_S)
            url = urlsplit(self.path)
            bucket, _, key = unquote(url.path).lstrip("/").partition("/")
            folder = buckets.get(bucket)
            if folder is None or (key and not (folder / key).is_file()):
                self._answer(404, _error("NoSuchKey" if folder else "NoSuchBucket"))
            elif key:
                self._send(folder / key)
            else:
                asked = {name: values[0] for name, values in parse_qs(url.query).items()}
                listing = _listing(folder, asked.get("prefix", ""), asked.get("delimiter", ""))
                self._answer(200, listing)

        do_HEAD = do_GET  # noqa: N815

        def _send(self, path: Path) -> None:
            status = path.stat()
            first, last = 0, status.st_size - 1
            asked = _RANGE.match(self.headers.get("Range", ""))
            if asked:
                first, last = int(asked[1]), min(int(asked[2] or last), last)
            self.send_response_only(206 if asked else 200)
            if asked:
                self.send_header("Content-Range", f"bytes {first}-{last}/{status.st_size}")
            self.send_header("Content-Length", str(last - first + 1))
            self.send_header("ETag", f'"{status.st_mtime_ns:x}"')
            self.send_header("Last-Modified", self.date_time_string(status.st_mtime))
            self.send_header("Accept-Ranges", "bytes")
            self.end_headers()
            size = last - first + 1 if self.command == "GET" else 0
            self._count(size)
            if size:
                self.wfile.flush()
                with path.open("rb") as file:
                    self.connection.sendfile(file, first, size)

        def _answer(self, status: int, body: bytes) -> None:
            self.send_response_only(status)
            self.send_header("Content-Type", "application/xml")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            if self.command == "GET":
                self.wfile.write(body)
            self._count(len(body))

        def _count(self, size: int) -> None:
            with counting:
                traffic.requests += 1
                traffic.bytes += size

        def log_message(self, *_arguments: object) -> None:
            pass

    return Handler


def _listing(folder: Path, prefix: str, delimiter: str) -> bytes:
    """Answer ListObjectsV2; a dataset has far fewer than the 1,000 objects of a page."""
    entries = []
    seen = set()
    for path in sorted(folder.rglob("*")):
        key = path.relative_to(folder).as_posix()
        if not path.is_file() or not key.startswith(prefix):
            continue
        below, found, _ = key.removeprefix(prefix).partition(delimiter or "\0")
        if found:
            if below not in seen:
                seen.add(below)
                common = escape(prefix + below + delimiter)
                entries.append(f"<CommonPrefixes><Prefix>{common}</Prefix></CommonPrefixes>")
            continue
        status = path.stat()
        date = time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(status.st_mtime))
        entries.append(
            f"<Contents><Key>{escape(key)}</Key><Size>{status.st_size}</Size>"
            f"<LastModified>{date}</LastModified><ETag>&quot;{status.st_mtime_ns:x}&quot;</ETag>"
            "</Contents>"
        )
    count = f"<IsTruncated>false</IsTruncated><KeyCount>{len(entries)}</KeyCount>"
    return f"<ListBucketResult>{count}{''.join(entries)}</ListBucketResult>".encode()


def _error(code: str) -> bytes:
    return f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode()
