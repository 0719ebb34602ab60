"""`imgrec view` in this process or as a user starts it, and what it answers over loopback."""

from __future__ import annotations

import json
import os
import struct
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from queue import Queue
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from conftest import ROOT

from imgrec.view.records import ViewedDataset
from imgrec.view.server import listen, make_server

FRAME = struct.Struct(">IBI")
FAULT = 255


class Answer(NamedTuple):
    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.data)

    @property
    def frames(self) -> dict[int, tuple[int, bytes]]:
        """The thumbnails, or faults, by the number of their record."""
        found, at = {}, 0
        while at < len(self.data):
            number, kind, length = FRAME.unpack_from(self.data, at)
            at += FRAME.size + length
            found[number] = kind, self.data[at - length : at]
        return found


class Viewer(NamedTuple):
    """A running server."""

    url: str

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """Ask for something below the address that was printed."""
        return self.ask_at(urlsplit(self.url).path + path, method, body, **headers)

    def ask_at(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        parts = urlsplit(self.url)
        with closing(HTTPConnection(str(parts.hostname), parts.port, timeout=60)) as connection:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            if body:
                connection.putheader("Content-Length", str(len(body)))
            connection.endheaders(body or None)
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())

    def decide(self, order: object, **headers: str) -> Answer:
        """Send an order to decide, as the page does unless `headers` say otherwise."""
        return self.post(json.dumps(order).encode(), **headers)

    def post(self, data: bytes, **headers: str) -> Answer:
        parts = urlsplit(self.url)
        usual = {"Origin": f"http://{parts.netloc}", "Content-Type": "application/json"}
        found = {**usual, **{name.replace("_", "-"): text for name, text in headers.items()}}
        return self.ask("api/decide", "POST", data, **{k: v for k, v in found.items() if v})

    def page(self, query: str = "") -> Any:
        return self.ask(f"api/page?{query}").json


@contextmanager
def viewing(folder: Path, corrections: str = "") -> Iterator[Viewer]:
    """Serve a dataset from a thread of this process."""
    ready: Queue[str] = Queue()
    with listen(0) as listener, closing(ViewedDataset(folder, corrections)) as viewed:
        server = make_server(viewed, listener, lambda serving: ready.put(serving.url))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            yield Viewer(ready.get(timeout=30))
        finally:
            server.should_exit = True
            thread.join(timeout=30)


def start(folder: Path, *options: str, **environment: str) -> subprocess.Popen[str]:
    """Start the command as a user does."""
    return subprocess.Popen(
        [sys.executable, "-m", "imgrec", "view", str(folder), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT), **environment},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
