#!/usr/bin/env python3
"""Time imgrec's loaders against those people use, and hold the ratios against the goals.

    .venv/bin/python scripts/bench_load.py [--quick] [--rounds N] [--sets NAME,...] [--json FILE]

Each contender is a process that stays: it goes through one epoch to warm up, and then through one
a round, in turn with all others, so that medians of one interleaved run are compared. Images go
through two CPUs, whatever the machine has. What each epoch gave is counted. The images are those
of bench_pack.py, drawn once and kept in the work folder, and packed by imgrec; TFDS reads the same
files as imgrec does.

Ratios hold on a quiet machine only. `--quick` shows within minutes that everything works; its
figures mean nothing.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from bench_pack import LARGE, QUICK_SETS, SETS, ImageSet, make_images
from bench_tools import WORK, Goal, checkout_environment, goal_table, setting, table

PACKAGES = ("tensorflow", "tensorflow-datasets", "torch", "array_record", "pillow", "simplejpeg")
CPUS = {0, 1}
BATCH = 32
TINY_BATCH = 128
READS = 20_000
SHORT_SIDE = 256


class Task(NamedTuple):
    """What one contender is to go through."""

    folder: str
    """The images in class folders."""
    name: str
    """The dataset that was packed of them."""
    data_dir: str
    size: int
    batch: int


# The contenders: each makes a function that goes through all images once and counts them


Epoch = Callable[[], int]


def _count(data: Any) -> Epoch:
    def epoch() -> int:
        return sum(int(images.shape[0]) for images, _ in data)

    return epoch


def tfds_documented(task: Task) -> Epoch:
    """Load as the documentation of TFDS shows."""
    return _count(_tfds(task, None))


def tfds_uncached(task: Task) -> Epoch:
    """Load as above, but read and decode in every epoch, as with a dataset over 250 MiB."""
    import tensorflow_datasets as tfds

    return _count(_tfds(task, tfds.ReadConfig(try_autocache=False)))


def _tfds(task: Task, config: Any) -> Any:
    import tensorflow as tf
    import tensorflow_datasets as tfds

    data = tfds.load(
        task.name, split="train", as_supervised=True, data_dir=task.data_dir, read_config=config
    )
    if task.size:
        side = (task.size, task.size)
        data = data.map(
            lambda image, label: (tf.image.resize(image, side), label),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    return data.batch(task.batch).prefetch(tf.data.AUTOTUNE)


def keras_folder(task: Task) -> Epoch:
    """Read the raw folder with Keras."""
    import keras

    return _count(
        keras.utils.image_dataset_from_directory(
            task.folder, image_size=(task.size, task.size), batch_size=task.batch, verbose=False
        )
    )


def _imgrec(**options: Any) -> Callable[[Task], Epoch]:
    def make(task: Task) -> Epoch:
        import imgrec

        size = {"image_size": (task.size, task.size)} if task.size else {}
        if options.get("cache"):
            size = {"image_size": (32, 32)}
        data = imgrec.load(
            task.name, data_dir=task.data_dir, batch_size=task.batch, **size, **options
        )
        return _count(data)

    return make


def array_record(task: Task) -> Epoch:
    """Read records at random with array_record, and parse them as TFDS does without TensorFlow."""
    import random

    from array_record.python.array_record_module import ArrayRecordReader
    from tensorflow_datasets.proto import tf_example_pb2

    folder = next(Path(task.data_dir, task.name).iterdir())
    paths = sorted(map(str, folder.glob("*-train.array_record-*")))
    readers = [ArrayRecordReader(path, options="readahead_buffer_size:0") for path in paths]
    places = [(reader, at) for reader in readers for at in range(reader.num_records())]
    order = random.Random(1).sample(places, min(READS, len(places)))

    def epoch() -> int:
        for reader, at in order:
            tf_example_pb2.Example.FromString(reader.read([at])[0])
        return len(order)

    return epoch


def imgrec_random(task: Task) -> Epoch:
    """Read records at random with imgrec, checksums checked and parsed."""
    import random

    import imgrec

    split = imgrec.open_dataset(task.name, data_dir=task.data_dir)["train"]
    order = random.Random(1).sample(range(len(split)), min(READS, len(split)))

    def epoch() -> int:
        for place in order:
            _ = split[place]
        return len(order)

    return epoch


def torch_folder(task: Task) -> Epoch:
    """Read the raw folder as torchvision's ImageFolder does, with Pillow, in two workers."""
    from PIL import Image
    from torch.utils.data import Dataset

    paths = sorted(Path(task.folder).glob("*/*.jpg"))
    labels = {name: label for label, name in enumerate(sorted({p.parent.name for p in paths}))}
    transform = _transform(task.size)

    class ImageFolder(Dataset):  # type: ignore[type-arg]
        def __len__(self) -> int:
            return len(paths)

        def __getitem__(self, place: int) -> tuple[Any, int]:
            with open(paths[place], "rb") as file:
                image = Image.open(file).convert("RGB")
            return transform(image), labels[paths[place].parent.name]

    return _torch(ImageFolder(), task)


def torch_imgrec(task: Task) -> Epoch:
    """Read the packed records in two workers, with the same transform."""
    import imgrec

    data = imgrec.torch_dataset(
        task.name, data_dir=task.data_dir, transform=_transform(task.size), decode_size=task.size
    )
    return _torch(data, task)


def torch_sized(task: Task) -> Epoch:
    """Let imgrec resize, and normalise whole batches."""
    import torch

    import imgrec

    data = imgrec.torch_dataset(task.name, data_dir=task.data_dir, image_size=task.size)
    mean, spread = (torch.tensor(values)[:, None, None] for values in _NORMAL)
    loader = _loader(data, task)

    def epoch() -> int:
        return sum(len((images / 255 - mean) / spread) for images, _ in loader)

    return epoch


_NORMAL = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def _transform(size: int) -> Callable[[Any], Any]:
    """Return torchvision's usual one: resize, to tensor, normalise."""
    import numpy as np
    import torch
    from PIL import Image

    mean, spread = (torch.tensor(values)[:, None, None] for values in _NORMAL)

    def transform(image: Any) -> Any:
        sized = image.resize((size, size), Image.Resampling.BILINEAR)
        tensor = torch.from_numpy(np.array(sized)).permute(2, 0, 1).contiguous().float().div(255)
        return tensor.sub_(mean).div_(spread)

    return transform


def _loader(data: Any, task: Task) -> Any:
    from torch.utils.data import DataLoader

    return DataLoader(
        data, batch_size=task.batch, shuffle=True, num_workers=2, persistent_workers=True
    )


def _torch(data: Any, task: Task) -> Epoch:
    return _count(_loader(data, task))


CONTENDERS: Mapping[str, tuple[Callable[[Task], Epoch], str]] = {
    "tfds": (tfds_documented, "tfds.load, as documented (float32; keeps small sets in memory)"),
    "tfds_uncached": (tfds_uncached, "tfds.load without its cache"),
    "keras": (keras_folder, "keras image_dataset_from_directory, raw folder (float32)"),
    "imgrec": (_imgrec(), "imgrec.load (uint8)"),
    "imgrec_float": (_imgrec(dtype="float32"), "imgrec.load (float32)"),
    "imgrec_exact": (_imgrec(exact=True), "imgrec.load, exact (uint8)"),
    "imgrec_cached": (_imgrec(cache=True), "imgrec.load, cached (uint8)"),
    "array_record": (array_record, "array_record, parsed by protobuf, no checksum of ours"),
    "imgrec_random": (imgrec_random, "imgrec.open_dataset, checksums checked"),
    "torch_folder": (torch_folder, "torch DataLoader, ImageFolder with Pillow"),
    "torch_imgrec": (torch_imgrec, "torch DataLoader, imgrec, same transform, decode_size"),
    "torch_sized": (torch_sized, "torch DataLoader, imgrec, image_size, normalised in batches"),
}


# The races


class Race(NamedTuple):
    """Contenders on one set of images, and what the ratios of their rates are to be."""

    images: ImageSet
    size: int
    batch: int
    contenders: tuple[str, ...]
    goals: tuple[tuple[str, str, float], ...]
    """The contender, the one it is measured against, and the least ratio."""
    packed: tuple[str, ...] = ()
    """Options of a second pack, which `imgrec_small` reads."""


RACES: Mapping[str, Race] = {
    "photos224": Race(
        SETS["photos5k"], 224, BATCH,
        ("tfds", "keras", "imgrec", "imgrec_float", "imgrec_exact"),
        (("imgrec", "tfds", 1.15), ("imgrec", "keras", 1.0)),
    ),
    "photos96": Race(
        SETS["photos5k"], 96, BATCH,
        ("tfds", "keras", "imgrec", "imgrec_float"),
        (("imgrec", "tfds", 1.2),),
    ),
    "large224": Race(
        LARGE, 224, BATCH,
        ("tfds", "imgrec", "imgrec_small"),
        (("imgrec", "tfds", 1.3), ("imgrec_small", "tfds", 5)),
        ("--short-side", str(SHORT_SIDE)),
    ),
    "tiny": Race(
        SETS["tiny50k"], 0, TINY_BATCH,
        ("tfds", "tfds_uncached", "imgrec", "imgrec_cached"),
        (("imgrec", "tfds_uncached", 3), ("imgrec_cached", "tfds", 3)),
    ),
    "random_photos": Race(
        SETS["photos5k"], 0, 1, ("array_record", "imgrec_random"),
        (("imgrec_random", "array_record", 1),),
    ),
    "random_tiny": Race(
        SETS["tiny50k"], 0, 1, ("array_record", "imgrec_random"),
        (("imgrec_random", "array_record", 1),),
    ),
    "torch": Race(
        SETS["photos5k"], 224, BATCH, ("torch_folder", "torch_imgrec", "torch_sized"),
        (("torch_imgrec", "torch_folder", 1.3),),
    ),
}  # fmt: skip


class Figures(NamedTuple):
    """What a race came to: images a second, by contender and round."""

    rates: dict[str, list[float]]

    def median(self, contender: str) -> float:
        """Return the median rate of a contender."""
        return statistics.median(self.rates[contender])

    def table(self) -> str:
        """Return the figures as lines of text."""
        rows: list[tuple[str, ...]] = [("", "median images/s", "min", "max")]
        for name, rates in self.rates.items():
            title = SMALL_TITLE if name == "imgrec_small" else CONTENDERS[name][1]
            values = (self.median(name), min(rates), max(rates))
            rows.append((title, *(f"{value:,.0f}" for value in values)))
        return table(rows)


SMALL_TITLE = f"imgrec.load, packed with --short-side {SHORT_SIDE} (uint8)"


class Server:
    """A contender in a process of its own, which runs an epoch whenever it is asked to."""

    def __init__(self, contender: str, task: Task) -> None:
        self._process = subprocess.Popen(
            [sys.executable, __file__, "--serve", contender, json.dumps(task)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**checkout_environment(), "TF_CPP_MIN_LOG_LEVEL": "3"},
        )

    def epoch(self) -> tuple[int, float]:
        """Run one; return images and seconds."""
        assert self._process.stdin and self._process.stdout and self._process.stderr
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("epoch "):
                count, seconds = line.split()[1:]
                return int(count), float(seconds)
        raise SystemExit(f"a contender failed:\n{self._process.stderr.read()}")

    def stop(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def serve(contender: str, task: Task) -> None:
    """Run an epoch for each line that comes in."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, CPUS & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    name = "imgrec" if contender == "imgrec_small" else contender
    epoch = CONTENDERS[name][0](task)
    for _ in sys.stdin:
        start = time.perf_counter()
        count = epoch()
        print("epoch", count, time.perf_counter() - start, flush=True)


def run_race(race: Race, work: Path, rounds: int) -> Figures:
    """Run all contenders of a race in turn."""
    folder = make_images(work, race.images)
    data_dir = work / "packs"
    twin = ("--also", "array_record") if "array_record" in race.contenders else ()
    name = _packed(folder, data_dir, twin, "_twin" if twin else "")
    task = Task(str(folder), name, str(data_dir), race.size, race.batch)
    tasks = dict.fromkeys(race.contenders, task)
    if race.packed:
        small = _packed(folder, data_dir, race.packed, "_small")
        tasks["imgrec_small"] = task._replace(name=small)
    servers = {contender: Server(contender, tasks[contender]) for contender in race.contenders}
    rates: dict[str, list[float]] = {contender: [] for contender in servers}
    expected = min(race.images.count, READS) if race.batch == 1 else race.images.count
    try:
        for number in range(rounds + 1):
            for contender, server in servers.items():
                count, seconds = server.epoch()
                if count != expected:
                    raise SystemExit(f"{contender} gave {count:,} of {expected:,} images")
                if number:  # the first is to warm up
                    rates[contender].append(count / seconds)
                    print(f"  round {number}: {contender} {count / seconds:,.0f}", file=sys.stderr)
    finally:
        for server in servers.values():
            server.stop()
    return Figures(rates)


def _packed(folder: Path, data_dir: Path, options: tuple[str, ...], suffix: str) -> str:
    """Pack the images unless they are; return the dataset's name."""
    name = folder.name + suffix
    command = [sys.executable, "-m", "imgrec", "pack", str(folder), "--quiet", "--overwrite"]
    command += ["--name", name, "--data-dir", str(data_dir), "--check", "structure", *options]
    if not (data_dir / name).exists():
        subprocess.run(command, check=True, stdout=sys.stderr, env=checkout_environment())
    return name


FIRST_SCRIPT = """\
import sys, imgrec
print(imgrec.open_dataset(sys.argv[1], data_dir=sys.argv[2])["train"][7].label)
"""


def first_record(work: Path, rounds: int) -> Goal:
    """Time from the start of a process to its first record."""
    folder = make_images(work, SETS["photos5k"])
    name = _packed(folder, work / "packs", (), "")
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        command = [sys.executable, "-c", FIRST_SCRIPT, name, str(work / "packs")]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=checkout_environment())
        seconds.append(time.perf_counter() - start)
    return Goal("first record after process start", statistics.median(seconds), "<=", 0.5, " s")


def goals_of(race: Race, figures: Figures) -> Iterator[Goal]:
    """Yield what the figures of a race say to its goals."""
    for contender, other, least in race.goals:
        ratio = figures.median(contender) / figures.median(other)
        yield Goal(f"{contender} / {other}", ratio, ">=", least)


def main() -> None:
    """Run the benchmark, print its tables, and write its figures if asked to."""
    if sys.argv[1:2] == ["--serve"]:
        serve(sys.argv[2], Task(*json.loads(sys.argv[3])))
        return
    options = _parser().parse_args()
    facts = setting(PACKAGES)
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    results: dict[str, object] = {}
    print(goal_table([first_record(options.work, 5)]), flush=True)
    for name in options.sets:
        race = RACES[name]
        if options.quick:
            race = race._replace(images=_quick(race.images))
        figures = run_race(race, options.work, 1 if options.quick else options.rounds)
        goals = list(goals_of(race, figures))
        print(f"\n{name}: {race.images.count:,} {race.images.kind}, batches of {race.batch}")
        print(figures.table())
        print(goal_table(goals), flush=True)
        results[name] = {"rates": figures.rates, "goals": [goal.as_value() for goal in goals]}
    if options.json:
        value = {"setting": facts, "races": results}
        options.json.write_text(json.dumps(value, indent=2) + "\n")


def _quick(images: ImageSet) -> ImageSet:
    counts = {"large": 40, "photos": QUICK_SETS["photos5k"].count}
    return ImageSet(images.kind, counts.get(images.kind, QUICK_SETS["tiny50k"].count))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--quick", action="store_true", help="few images, one round")
    parser.add_argument("--rounds", type=int, default=5, help="default: 5")
    parser.add_argument(
        "--sets", type=lambda text: text.split(","), default=list(RACES), help=", ".join(RACES)
    )
    parser.add_argument("--work", type=lambda text: Path(text).resolve(), default=WORK)
    parser.add_argument("--json", type=Path, help="write all figures there")
    return parser


if __name__ == "__main__":
    main()
