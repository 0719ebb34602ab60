#!/usr/bin/env python3
"""Say where each microsecond of an image goes, in a pack and in an epoch of `imgrec.load`.

    .venv/bin/python scripts/bench_profile.py [--set photos5k] [--check decode] [--size 224]

A pack runs in this process alone, shards and all, and is looked at every millisecond of CPU time:
what passed since the last look counts for the innermost function of imgrec's that is running, with
all that it calls of others (libjpeg-turbo, hashes, the kernel). So the sum is CPU time, user and
system; two workers share what the rooms `write` and `codec` take.

TensorFlow works in threads of its own, where there is nothing to look at. So an epoch is built up:
records are read; then parsed, too; then decoded, and so on. Each step's share is the CPU time that
the epoch takes more than without it. Parts of it run at the same time on two CPUs.
"""

from __future__ import annotations

import argparse
import collections
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from types import FrameType
from typing import Any, Self, TypeVar

from bench_pack import QUICK_SETS, SETS, make_images
from bench_tools import CHECKOUT, WORK, table

sys.path.insert(0, str(CHECKOUT))

PACKAGE = f"{CHECKOUT}/imgrec/"
LOOKS_EVERY_S = 0.001
LEAST_SHARE = 0.01
BATCH = 32
T = TypeVar("T")
R = TypeVar("R")


class InThisProcess:
    """An engine without processes."""

    is_local = True

    def prepare(self, function: Callable[[T], object], task: T) -> None:
        """Call at once."""
        function(task)

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        """Call one after another."""
        for task in tasks:
            yield function(task)


class Looks:
    """CPU time by function, as a signal finds it while it is entered."""

    def __init__(self) -> None:
        self.seconds: collections.Counter[str] = collections.Counter()
        self._last = 0.0

    def __enter__(self) -> Self:
        self._last = time.process_time()
        signal.signal(signal.SIGPROF, self._look)
        signal.setitimer(signal.ITIMER_PROF, LOOKS_EVERY_S, LOOKS_EVERY_S)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _look(self, _signal: int, frame: FrameType | None) -> None:
        # A long call in C delays the signal until it is over, and then counts as a whole.
        now = time.process_time()
        self.seconds[_place(frame)] += now - self._last
        self._last = now


def _place(frame: FrameType | None) -> str:
    """Return the innermost function of imgrec's."""
    while frame is not None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            module = frame.f_code.co_filename.removeprefix(PACKAGE).removesuffix(".py")
            return f"{module} {frame.f_code.co_qualname}"
        frame = frame.f_back
    return "(Python itself)"


def profile_pack(source: Path, images: int, check: str) -> str:
    """Pack, and return where the time went as a table."""
    import imgrec

    with tempfile.TemporaryDirectory(dir=source.parent) as folder, Looks() as looks:
        options = imgrec.PackOptions(data_dir=folder, check=check, val_fraction=0.1)
        imgrec.pack(source, options, engine=InThisProcess())
    total = sum(looks.seconds.values())
    rooms: collections.Counter[str] = collections.Counter()
    for place, seconds in looks.seconds.items():
        rooms[place.split("/")[0].split(" ")[0]] += seconds
    rows = [("where", "us an image", "share")]
    rows += [(f"{room}, all", *_shares(each, total, images)) for room, each in rooms.most_common()]
    rows += [
        (place, *_shares(spent, total, images))
        for place, spent in looks.seconds.most_common()
        if spent >= LEAST_SHARE * total
    ]
    rows.append(("all of it", *_shares(total, total, images)))
    return table(rows)


def _shares(seconds: float, total: float, images: int) -> tuple[str, str]:
    return f"{seconds / images * 1e6:.1f}", f"{seconds / total:.1%}"


def profile_load(folder: Path, images: int, size: int) -> str:
    """Build up an epoch step by step, and return what each costs as a table."""
    rows = [("an epoch that", "wall us", "CPU us", "CPU us more")]
    before = 0.0
    for title, data in _steps(folder, size):
        for _ in data:  # to warm up
            pass
        wall, cpu = time.perf_counter(), time.process_time()
        for _ in data:
            pass
        wall_us = (time.perf_counter() - wall) / images * 1e6
        cpu_us = (time.process_time() - cpu) / images * 1e6
        rows.append((title, f"{wall_us:.1f}", f"{cpu_us:.1f}", f"{cpu_us - before:+.1f}"))
        before = cpu_us
    return table(rows)


def _steps(folder: Path, size: int) -> list[tuple[str, Any]]:
    import tensorflow as tf

    import imgrec

    features = {"image": tf.string, "label": tf.int64}
    spec = {name: tf.io.FixedLenFeature([], kind) for name, kind in features.items()}
    paths = sorted(map(str, folder.glob("*.tfrecord-*-of-?????")))

    def parse(record: Any) -> Any:
        return tf.io.parse_single_example(record, spec)

    def decode(record: Any) -> Any:
        return tf.io.decode_jpeg(parse(record)["image"], channels=3)

    def resize(record: Any) -> Any:
        image = decode(record)
        return tf.image.resize(image, (size, size)) if size else image

    read = tf.data.TFRecordDataset(paths)
    options: dict[str, Any] = {"batch_size": BATCH} | ({"image_size": size} if size else {})
    return [
        ("reads records", read),
        ("parses them, too", read.map(parse, 4)),
        ("decodes them, at full size", read.map(decode, 4)),
        ("resizes them", read.map(resize, 4)),
        ("makes batches", read.map(resize, 4).batch(BATCH).prefetch(2)),
        ("is imgrec.load(exact=True)", imgrec.load(folder, "all", exact=True, **options)),
        ("is imgrec.load", imgrec.load(folder, "all", **options)),
    ]


def main() -> None:
    """Profile what was asked for."""
    options = _parser().parse_args()
    chosen = (QUICK_SETS if options.quick else SETS)[options.set]
    source = make_images(options.work, chosen)
    print(f"pack of {chosen.count:,} {chosen.kind}, --check {options.check}, CPU time")
    print(profile_pack(source, chosen.count, options.check))
    if options.size is None:
        return
    import imgrec

    with tempfile.TemporaryDirectory(dir=source.parent) as folder:
        made = imgrec.pack(source, imgrec.PackOptions(data_dir=folder, check="structure"))
        print(f"\nload of {chosen.count:,} {chosen.kind}, to {options.size or 'their own'} pixels")
        print(profile_load(Path(made.info.path), chosen.count, options.size))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--set", choices=SETS, default="photos5k")
    add("--check", choices=("decode", "structure"), default="decode")
    add("--size", type=int, metavar="PIXELS", help="profile loading, too; 0 for no resizing")
    add("--quick", action="store_true", help="few images: only to see that it works")
    add("--work", type=lambda text: Path(text).resolve(), default=WORK, metavar="DIR")
    return parser


if __name__ == "__main__":
    main()
