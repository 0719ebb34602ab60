#!/usr/bin/env python3
"""Time packing 5,000 photos to an S3 server on loopback against a plain upload of the shards.

    .venv/bin/python scripts/bench_stores.py [--work DIR] [--rounds N] [--quick] [--json FILE]

In turn: a pack to a local disk, a pack to the store, and boto3's upload of the shards that the
first one made, eight at once, each in parts. The server (moto) is a process of its own on the same
cores, so all of them compete: what a pack to the store takes longer than one to the disk is what
writing there costs, and is compared with the plain upload.
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
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from bench_pack import QUICK_SETS, SETS, make_images
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


def pack(source: Path, data_dir: str) -> float:
    """Pack once; return seconds."""
    import imgrec

    os.sync()
    begun = time.perf_counter()
    imgrec.pack(source, imgrec.PackOptions(data_dir=data_dir, val_fraction=0.1))
    return time.perf_counter() - begun


def upload(folder: Path) -> float:
    """Upload all files of a dataset as anyone would; return seconds."""
    import boto3

    client = boto3.client("s3")
    begun = time.perf_counter()
    with ThreadPoolExecutor(STREAMS) as pool:
        list(
            pool.map(
                lambda path: client.upload_file(str(path), BUCKET, f"plain/{path.name}"),
                sorted(folder.iterdir()),
            )
        )
    return time.perf_counter() - begun


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
    figures: dict[str, list[float]] = {"disk": [], "store": [], "upload": []}
    with s3_server() as url:
        for number in range(asked.rounds + 1):
            empty_bucket(url)
            shutil.rmtree(out, ignore_errors=True)
            found = {"disk": pack(source, str(out))}
            found["store"] = pack(source, f"s3://{BUCKET}/data")
            (folder,) = out.glob("*/1.0.0")
            found["upload"] = upload(folder)
            size = sum(path.stat().st_size for path in folder.iterdir())
            for name, seconds in found.items():
                if number:  # the first round warms up
                    figures[name].append(seconds)
    shutil.rmtree(out, ignore_errors=True)
    medians = {name: statistics.median(values) for name, values in figures.items()}
    added = statistics.median(
        store - disk for store, disk in zip(figures["store"], figures["disk"], strict=True)
    )
    goals = [
        Goal("writing to the store / plain upload", medians["upload"] / added, ">=", TARGET),
        Goal("a whole pack to the store / plain upload", medians["upload"] / medians["store"], ">=", 0),
    ]  # fmt: skip
    names = {"disk": "pack to the disk", "store": "pack to the store", "upload": "plain upload"}
    rows = [("", "seconds", "MB/s")]
    rows += [
        (names[name], f"{seconds:.2f}", f"{size / 1e6 / seconds:.0f}")
        for name, seconds in medians.items()
    ]
    rows.append(("what the store adds", f"{added:.2f}", f"{size / 1e6 / added:.0f}"))
    print(table(rows), goal_table(goals), sep="\n\n")
    if asked.json:
        value = {
            "setting": setting(("s3fs", "moto", "boto3")),
            "seconds": figures,
            "goals": [goal.as_value() for goal in goals],
        }
        asked.json.write_text(json.dumps(value, indent=1))


if __name__ == "__main__":
    main()
