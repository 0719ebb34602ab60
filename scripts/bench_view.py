#!/usr/bin/env python3
"""Page through a million images with `imgrec view`, and hold its time to the goal.

    .venv/bin/python scripts/bench_view.py [--records 1000000] [--pages 15] [--json FILE]

A million drawn digits are packed once and kept in bench-data; photos are those that
scripts/bench_pack.py makes, if they are there. The real server answers over loopback. Of each kind
of page, several at random are asked for: what is on it, then all of its thumbnails. Wall time is
what whoever asks has to wait, first byte to last; CPU time is the server's. Hardly a thumbnail is
asked for twice, so that the server's cache does not help.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from bench_tools import CHECKOUT, WORK, Goal, checkout_environment, goal_table, setting, table

DIGITS = CHECKOUT / "sample_data" / "digits"
PHOTOS = WORK / "images" / "photos_5000"
PACKED = WORK / "packed"
PAGE = 100
SIDE = 192
GOAL_MS = 200
QUERIES = {
    "all": "",
    "of a class": "class=3",
    "of a split": "split=val",
    "with 99 in the name": "q=99",
}
TITLES = ("pages of 100", "of records", "page ms", "thumbnails ms", "wall ms", "worst ms", "CPU ms")
_TICKS = os.sysconf("SC_CLK_TCK")
_DRAWN_AT_ONCE = 10_000


class Timed(NamedTuple):
    """What one page took, in milliseconds."""

    page_ms: float
    thumbnails_ms: float
    cpu_ms: float


class Figures(NamedTuple):
    """What pages of one kind took."""

    kind: str
    records: int
    pages: tuple[Timed, ...]

    @property
    def wall_ms(self) -> float:
        """Return how long one waits for a page, thumbnails included: the median."""
        return statistics.median(page.page_ms + page.thumbnails_ms for page in self.pages)

    def row(self) -> tuple[str, ...]:
        """Return the figures as a row of a table."""
        page_ms, thumbnails_ms, _ = map(statistics.median, zip(*self.pages, strict=True))
        worst = max(page.page_ms + page.thumbnails_ms for page in self.pages)
        cpu_ms = statistics.mean(page.cpu_ms for page in self.pages)  # it is counted in ticks
        values = (page_ms, thumbnails_ms, self.wall_ms, worst, cpu_ms)
        return self.kind, f"{self.records:,}", *(f"{value:.1f}" for value in values)


class Server(NamedTuple):
    """`imgrec view`, running."""

    process: subprocess.Popen[str]
    connection: HTTPConnection
    path: str

    def ask(self, what: str) -> tuple[bytes, float]:
        """Return an answer, and how many milliseconds it took."""
        started = time.perf_counter()
        self.connection.request("GET", self.path + what)
        answer = self.connection.getresponse()
        data = answer.read()
        if answer.status != 200:
            raise SystemExit(f"{what}: {answer.status} {data!r}")
        return data, (time.perf_counter() - started) * 1000

    def cpu_ms(self) -> float:
        """Return how much CPU time the server has used; 0 where there is no /proc."""
        try:
            fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            return 0.0
        return (int(fields[11]) + int(fields[12])) / _TICKS * 1000


def main() -> None:
    """Pack what is missing, ask for pages, and print what they took."""
    options = _parser().parse_args()
    facts = setting(("starlette", "uvicorn", "pyarrow", "pillow"))
    print(", ".join(f"{name} {value}" for name, value in facts.items()))
    folders = {f"{options.records:,} digits": packed_digits(options.records)}
    if PHOTOS.is_dir():
        folders["photos"] = packed(PHOTOS, "photos")
    figures = []
    for name, folder in folders.items():
        started = time.perf_counter()
        with serving(folder) as server:
            ready_s = time.perf_counter() - started
            print(f"{name}: ready after {ready_s:.2f} s")
            chosen = QUERIES if name != "photos" else {"all": ""}
            for kind, query in chosen.items():
                figures.append(measure(server, f"{name}, {kind}", query, options.pages))
    print(table([TITLES, *(figure.row() for figure in figures)]))
    goals = [Goal(figure.kind, figure.wall_ms, "<", GOAL_MS, " ms") for figure in figures]
    print(goal_table(goals))
    if options.json:
        value = {"setting": facts, "goals": [goal.as_value() for goal in goals]}
        options.json.write_text(json.dumps(value, indent=2) + "\n")


def measure(server: Server, kind: str, query: str, pages: int) -> Figures:
    """Ask for pages at random; the first, which finds the records that fit, counts too."""
    chosen = random.Random(kind)
    total = int(json.loads(server.ask("api/page?count=1")[0])["total"])
    timed = []
    fitting = total
    for _ in range(pages):
        start = chosen.randrange(max(1, fitting - PAGE))
        before = server.cpu_ms()
        data, page_ms = server.ask(f"api/page?{query}&start={start}&count={PAGE}")
        page = json.loads(data)
        fitting = int(page["total"])
        if not page["rows"]:  # the first guess went past the end
            continue
        numbers = ",".join(str(row["number"]) for row in page["rows"])
        _, thumbnails_ms = server.ask(f"api/thumbnails?side={SIDE}&n={numbers}")
        timed.append(Timed(page_ms, thumbnails_ms, server.cpu_ms() - before))
    return Figures(kind, fitting, tuple(timed))


@contextmanager
def serving(folder: Path) -> Iterator[Server]:
    """Serve a dataset, and stop as Ctrl-C does."""
    process = subprocess.Popen(
        [sys.executable, "-m", "imgrec", "view", folder, "--json"],
        env=checkout_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    text = ""
    while not text.endswith("}\n"):
        text += process.stdout.readline()
    parts = urlsplit(json.loads(text)["url"])
    connection = HTTPConnection(str(parts.hostname), parts.port)
    try:
        yield Server(process, connection, parts.path)
    finally:
        connection.close()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)


def packed_digits(count: int) -> Path:
    """Return a dataset of so many digits, drawing and packing them if they are not there."""
    name = f"digits_{count}"
    source = WORK / "images" / name
    if not (PACKED / name).is_dir() and not source.is_dir():
        draw_digits(source, count)
    return packed(source, name)


def draw_digits(folder: Path, count: int) -> None:
    """Write IDX files of the sample digits, each shifted a little and numbered in three pixels."""
    import numpy as np

    from imgrec.codec.idx import encode_header

    folder.mkdir(parents=True)
    images, labels = (
        np.frombuffer(gzip.decompress((DIGITS / f"train-{name}.gz").read_bytes()), np.uint8)
        for name in ("images-idx3-ubyte", "labels-idx1-ubyte")
    )
    drawn, named = images[16:].reshape(-1, 28, 28), labels[8:]
    chosen = np.random.default_rng(0).integers(0, len(named), count)
    shifts = np.random.default_rng(1).integers(-3, 4, count)
    with (folder / "train-images-idx3-ubyte").open("wb") as file:
        file.write(encode_header(count, 28, 28))
        for start in range(0, count, _DRAWN_AT_ONCE):
            numbers = np.arange(start, min(start + _DRAWN_AT_ONCE, count))
            batch = np.stack([np.roll(drawn[chosen[n]], shifts[n], 1) for n in numbers])
            for pixel in range(3):  # or there would be duplicates
                batch[:, 27, pixel] = numbers >> 8 * pixel & 255
            file.write(batch.tobytes())
    (folder / "train-labels-idx1-ubyte").write_bytes(encode_header(count) + named[chosen].tobytes())


def packed(source: Path, name: str) -> Path:
    """Pack a source unless that is done."""
    folder = PACKED / name
    if not folder.is_dir():
        options = ["--name", name, "--data-dir", PACKED, "--val-split", "0.1", "--near-dups", "off"]
        command = [sys.executable, "-m", "imgrec", "pack", source, *options]
        subprocess.run(command, env=checkout_environment(), check=True)
    return folder


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--records", type=int, default=1_000_000, metavar="N")
    parser.add_argument("--pages", type=int, default=15, metavar="N", help="of each kind")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there, too")
    return parser


if __name__ == "__main__":
    main()
