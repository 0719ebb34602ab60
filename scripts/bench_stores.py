#!/usr/bin/env python3
"""Time packing 5,000 photos to an S3 server on loopback against a plain upload of the shards.

    .venv/bin/python scripts/bench_stores.py [--work DIR] [--rounds N] [--quick] [--json FILE]

In turn: a pack to a local disk, a pack to the store, and boto3's upload of the shards that the
first one made, eight at once, each in parts. The server (moto) is a process of its own on the same
cores, so all of them compete: what a pack to the store takes longer than one to the disk is what
writing there costs, and is compared with the plain upload. CPU seconds are those of this process,
its workers and the server, so they hold on a busy machine too.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from bench_pack import QUICK_SETS, SETS, make_images
from bench_spark import cpu_s
from bench_tools import WORK, Goal, goal_table, setting, table

TARGET = 0.7
BUCKET = "bench"
STREAMS = 8


@contextmanager
def s3_server() -> Iterator[str]:
    """Start moto, and let all libraries in this process and its workers find it."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    os.environ |= {
        "AWS_ENDPOINT_URL": url,
        "AWS_ACCESS_KEY_ID": "bench",
        "AWS_SECRET_ACCESS_KEY": "bench-secret",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    try:
        for _ in range(300):
            try:
                urllib.request.urlopen(f"{url}/moto-api/").close()
                break
            except OSError:
                time.sleep(0.1)
        yield url
    finally:
        server.terminate()
        server.wait()


def empty_bucket(url: str) -> None:
    """Make the bucket anew: what was uploaded before takes memory."""
    import boto3

    request = urllib.request.Request(f"{url}/moto-api/reset", method="POST")
    urllib.request.urlopen(request).close()
    boto3.client("s3").create_bucket(Bucket=BUCKET)


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Return the wall and CPU seconds that some work takes."""
    os.sync()
    wall, cpu = time.perf_counter(), cpu_s()
    work()
    return time.perf_counter() - wall, cpu_s() - cpu


def pack(source: Path, data_dir: str) -> None:
    """Pack once."""
    import imgrec

    imgrec.pack(source, imgrec.PackOptions(data_dir=data_dir, val_fraction=0.1))


def upload(folder: Path) -> None:
    """Upload all files of a dataset as anyone would."""
    import boto3

    client = boto3.client("s3")
    with ThreadPoolExecutor(STREAMS) as pool:
        list(
            pool.map(
                lambda path: client.upload_file(str(path), BUCKET, f"plain/{path.name}"),
                sorted(folder.iterdir()),
            )
        )


def _medians(figures: Mapping[str, Sequence[tuple[float, float]]], place: int) -> dict[str, float]:
    """Return the median of each, in wall (0) or CPU (1) seconds, and of what the store adds."""
    found = {name: statistics.median(run[place] for run in runs) for name, runs in figures.items()}
    rounds = zip(figures["store"], figures["disk"], strict=True)
    return {**found, "added": statistics.median(far[place] - near[place] for far, near in rounds)}


def main() -> None:
    """Measure, and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--work", type=Path, default=WORK)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    source = make_images(asked.work, (QUICK_SETS if asked.quick else SETS)["photos5k"])
    out = asked.work / "store-out"
    figures: dict[str, list[tuple[float, float]]] = {"disk": [], "store": [], "upload": []}
    with s3_server() as url:
        for number in range(asked.rounds + 1):
            empty_bucket(url)
            shutil.rmtree(out, ignore_errors=True)
            found = {"disk": timed(partial(pack, source, str(out)))}
            found["store"] = timed(partial(pack, source, f"s3://{BUCKET}/data"))
            (folder,) = out.glob("*/1.0.0")
            found["upload"] = timed(partial(upload, folder))
            size = sum(path.stat().st_size for path in folder.iterdir())
            for name, seconds in found.items():
                if number:  # the first round warms up
                    figures[name].append(seconds)
    shutil.rmtree(out, ignore_errors=True)
    wall, cpu = (_medians(figures, place) for place in (0, 1))
    goals = [
        Goal("writing to the store / plain upload", wall["upload"] / wall["added"], ">=", TARGET),
        Goal("the same in CPU seconds", cpu["upload"] / cpu["added"], ">=", TARGET),
    ]
    names = {
        "disk": "pack to the disk", "store": "pack to the store", "upload": "plain upload",
        "added": "what the store adds to a pack",
    }  # fmt: skip
    rows = [("", "seconds", "MB/s", "CPU seconds")]
    rows += [
        (name, f"{wall[key]:.2f}", f"{size / 1e6 / wall[key]:.0f}", f"{cpu[key]:.2f}")
        for key, name in names.items()
    ]
    whole = wall["upload"] / wall["store"]
    print(table(rows), goal_table(goals), sep="\n\n")
    print(f"\n  a whole pack, every image decoded, runs at {whole:.2f} of the plain upload")
    if asked.json:
        value = {
            "setting": setting(("s3fs", "moto", "boto3")),
            "seconds": figures,
            "goals": [goal.as_value() for goal in goals],
        }
        asked.json.write_text(json.dumps(value, indent=1))


if __name__ == "__main__":
    main()
