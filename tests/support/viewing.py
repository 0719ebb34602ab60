"""`imgrec view` as a user starts it, and what it answers over loopback."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from conftest import ROOT

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
    """A server that runs."""

    process: subprocess.Popen[str]
    url: str

    def ask(self, path: str, method: str = "GET", **headers: str) -> Answer:
        """Ask for something below the address that was printed."""
        return self.ask_at(urlsplit(self.url).path + path, method, **headers)

    def ask_at(self, path: str, method: str = "GET", **headers: str) -> Answer:
        parts = urlsplit(self.url)
        connection = HTTPConnection(str(parts.hostname), parts.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host="Host" in headers)
            for name, value in headers.items():
                connection.putheader(name, value)
            connection.endheaders()
            answer = connection.getresponse()
            found = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, found, answer.read())
        finally:
            connection.close()

    def page(self, query: str = "") -> Any:
        return self.ask(f"api/page?{query}").json


def start(folder: Path | str, *options: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "imgrec", "view", str(folder), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


@contextmanager
def viewing(folder: Path | str, *options: str) -> Iterator[Viewer]:
    """Serve a dataset, and stop as Ctrl-C does."""
    process = start(folder, "--json", *options)
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        line = process.stdout.readline()
        assert line, process.communicate()[1]
        text += line
    try:
        yield Viewer(process, json.loads(text)["url"])
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def recording_browser(folder: Path) -> tuple[str, Path]:
    """Return a command that is run in the place of a browser, and where its arguments go."""
    script, told = folder / "browser.sh", folder / "told.txt"
    script.write_text(f'#!/bin/sh\nprintf %s "$*" > {told}.part && mv {told}.part {told}\n')
    script.chmod(0o755)
    return f"{script} %s", told


def wait_for(path: Path) -> str:
    """Return what a file says, as soon as it is there."""
    ends = time.monotonic() + 30
    while not path.exists():
        assert time.monotonic() < ends, path
        time.sleep(0.05)
    return path.read_text()
