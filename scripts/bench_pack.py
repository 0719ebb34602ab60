#!/usr/bin/env python3
"""Time imgrec against tar, TFDS and libjpeg-turbo, and hold the ratios against the goals.

    .venv/bin/python scripts/bench_pack.py [--quick] [--rounds N] [--sets NAME,...] [--json FILE]

All contenders run in turn, round after round, each as a fresh process whose start-up counts, and
medians are compared. Outputs are removed and the disk is synced before each run; what each run
made is counted after it. The images are drawn once and kept in the work folder; photos have the
size and the coding cost of real ones.

Ratios hold on a quiet machine only: other work slows down those that use two CPUs (imgrec,
libjpeg-turbo) more than those that use one (tar, TFDS). `--quick` shows within a minute that
everything works; its figures mean nothing. Memory is read from /proc, so this needs Linux.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench_tools import CHECKOUT, WORK, Goal, checkout_environment, goal_table, setting, table

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

PACKAGES = ("tensorflow", "tensorflow-datasets", "pillow", "simplejpeg")
VERSION = "1.0.0"
CLASSES = 10


# The images


CANVAS = (1600, 1200)
CANVASES = 8
NOISE = {5: 8, 16: 14, 50: 22, 160: 28, 500: 34}
"""How strong the noise of each grain (in pixels) is: as in photos, the coarser the stronger."""
FINE_NOISE = 5
BATCH = 250


@dataclass(frozen=True, slots=True)
class ImageSet:
    """Images of one kind, in class folders."""

    kind: str
    count: int

    @property
    def folder(self) -> str:
        """Return the name of the folder that holds them."""
        return f"{self.kind}_{self.count}"

    @property
    def is_photos(self) -> bool:
        """Tell photos from the tiny images."""
        return self.kind == "photos"


class Cut(NamedTuple):
    """A piece of a canvas, and what is made of it."""

    canvas: int
    box: tuple[int, int, int, int]
    size: tuple[int, int]
    quality: int
    shift: int = 0
    """By how many rows the canvas is rolled, so that whole ones differ."""


SETS = {
    "photos5k": ImageSet("photos", 5_000),
    "photos20k": ImageSet("photos", 20_000),
    "tiny50k": ImageSet("tiny", 50_000),
}
LARGE = ImageSet("large", 600)
"""Photos of 1600x1200, for benchmarks of loading."""
QUICK_SETS = {
    "photos5k": ImageSet("photos", 300),
    "photos20k": ImageSet("photos", 300),
    "tiny50k": ImageSet("tiny", 1_000),
}


def make_images(work: Path, images: ImageSet) -> Path:
    """Return the folder of an image set, drawing it if it is not there."""
    folder = work / "images" / images.folder
    if not folder.exists():
        part = folder.with_name(f".{folder.name}.part")
        shutil.rmtree(part, ignore_errors=True)
        for label in range(CLASSES):
            (part / f"class_{label:02d}").mkdir(parents=True)
        print(f"drawing {images.count:,} {images.kind} into {folder}", flush=True)
        starts = range(0, images.count, BATCH)
        with ProcessPoolExecutor(os.cpu_count(), initializer=draw_canvases) as pool:
            for _ in pool.map(_draw_batch, [part] * len(starts), [images] * len(starts), starts):
                pass
        part.rename(folder)
    return folder


_canvases: list[NDArray[np.uint8]] = []
"""What the images are cut from; drawn once in each process of the pool."""


def draw_canvases() -> None:
    """Draw what all images are cut from."""
    _canvases.extend(_canvas(number) for number in range(CANVASES))


def _canvas(number: int) -> NDArray[np.uint8]:
    import numpy as np
    from PIL import Image

    width, height = CANVAS
    chance = np.random.default_rng([1, number])
    total = np.full((height, width, 3), 128, np.float32)
    for grain, strength in NOISE.items():
        for channel in range(3):
            small = (height // grain + 2, width // grain + 2)
            noise = Image.fromarray(chance.standard_normal(small, np.float32))
            smooth = noise.resize(CANVAS, Image.Resampling.BICUBIC)
            total[:, :, channel] += strength * np.asarray(smooth)
    total += FINE_NOISE * chance.standard_normal((height, width, 1), np.float32)
    return np.clip(total, 0, 255).astype(np.uint8)


def _draw_batch(root: Path, images: ImageSet, start: int) -> None:
    """Draw the images from number `start` on; each depends on its set and its number alone."""
    import numpy as np
    from PIL import Image

    for number in range(start, min(start + BATCH, images.count)):
        cut = _cut(images, number)
        left, upper, right, lower = cut.box
        canvas = (
            np.roll(_canvases[cut.canvas], cut.shift, axis=0)
            if cut.shift
            else _canvases[cut.canvas]
        )
        picture = Image.fromarray(canvas[upper:lower, left:right])
        name = f"class_{number % CLASSES:02d}/{images.kind}_{number:06d}.jpg"
        picture.resize(cut.size).save(root / name, quality=cut.quality)


def _cut(images: ImageSet, number: int) -> Cut:
    """Choose a piece: photos are about 500x375 and 70 KB, tiny images are shrunk to 32x32."""
    import numpy as np

    chance = np.random.default_rng([images.count, number])
    if images.kind == "large":
        quality = int(chance.integers(87, 97))
        return Cut(number % CANVASES, (0, 0, *CANVAS), CANVAS, quality, int(chance.integers(1200)))
    if images.is_photos:
        width = int(np.clip(chance.normal(500, 60), 300, 700))
        height = int(np.clip(width * chance.normal(0.75, 0.08), 200, 700))
        size, quality = (width, height), int(chance.integers(87, 97))
    else:
        width = height = int(chance.integers(64, 257))
        size, quality = (32, 32), 90
    left = int(chance.integers(CANVAS[0] - width))
    upper = int(chance.integers(CANVAS[1] - height))
    box = (left, upper, left + width, upper + height)
    return Cut(int(chance.integers(CANVASES)), box, size, quality)


# The contenders


PEERS = Path(__file__).resolve().parent / "bench_peers"


class Places(NamedTuple):
    """Where a run finds what it needs and puts what it makes."""

    source: Path
    output: Path


@dataclass(frozen=True, slots=True)
class Contender:
    """Something that goes through all images of a folder."""

    command: Callable[[Places], list[str]]
    count: Callable[[Places, str], int]
    """How many images a run went through, by its output and by what it printed."""
    title: str
    most_rounds: int | None = None
    photos_only: bool = False


def _tar(places: Places) -> list[str]:
    source = places.source
    return ["tar", "cf", str(places.output / "all.tar"), "-C", str(source.parent), source.name]


def _imgrec(check: str) -> Callable[[Places], list[str]]:
    def command(places: Places) -> list[str]:
        return [
            *(sys.executable, "-m", "imgrec", "pack", str(places.source), "--quiet"),
            *("--data-dir", str(places.output), "--version", VERSION),
            *("--check", check, "--workers", "2", "--val-split", "0.1"),
        ]

    return command


def _tfds(places: Places) -> list[str]:
    script = str(PEERS / "pack_tfds.py")
    return [sys.executable, script, "pack", str(places.source), str(places.output), "1"]


def _libjpeg(places: Places) -> list[str]:
    return [sys.executable, str(PEERS / "decode.py"), str(places.source)]


def _archived(places: Places, _printed: str) -> int:
    command = ["tar", "tf", str(places.output / "all.tar")]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return sum(not name.endswith("/") for name in listed.splitlines())


def _recorded(places: Places, _printed: str) -> int:
    (found,) = places.output.glob(f"*/{VERSION}/dataset_info.json")
    splits = json.loads(found.read_text())["splits"]
    return sum(int(length) for split in splits for length in split["shardLengths"])


def _printed_count(_places: Places, printed: str) -> int:
    return int(printed)


CONTENDERS: Mapping[str, Contender] = {
    "tar": Contender(_tar, _archived, "tar cf"),
    "structure": Contender(_imgrec("structure"), _recorded, "imgrec pack --check structure"),
    "decode": Contender(_imgrec("decode"), _recorded, "imgrec pack --check decode"),
    "tfds": Contender(_tfds, _recorded, "TFDS download_and_prepare", most_rounds=2),
    "libjpeg": Contender(
        _libjpeg, _printed_count, "libjpeg-turbo alone, 2 processes", photos_only=True
    ),
}


# The runs


class Run(NamedTuple):
    """What one run took."""

    wall_s: float
    cpu_s: float


class Figures(NamedTuple):
    """What one image set took."""

    images: ImageSet
    image_bytes: int
    runs: dict[str, list[Run]]
    """The runs of each contender."""

    def median_s(self, contender: str) -> float:
        """Return the median seconds of a contender."""
        return statistics.median(run.wall_s for run in self.runs[contender])

    def table(self) -> str:
        """Return the figures as lines of text."""
        rows: list[tuple[str, ...]] = [
            ("", "median s", "min s", "max s", "CPU s", "runs", "images/s")
        ]
        for name, runs in self.runs.items():
            walls = [run.wall_s for run in runs]
            median_s = self.median_s(name)
            cpu_s = statistics.median(run.cpu_s for run in runs)
            seconds = [f"{value:.2f}" for value in (median_s, min(walls), max(walls), cpu_s)]
            rate = f"{self.images.count / median_s:,.0f}"
            rows.append((CONTENDERS[name].title, *seconds, str(len(runs)), rate))
        return table(rows)


def race(work: Path, images: ImageSet, rounds: int) -> Figures:
    """Run all contenders on an image set, in turn."""
    source = make_images(work, images)
    image_bytes = read_all(source)
    places = Places(source, work / "output")
    names = [name for name, each in CONTENDERS.items() if images.is_photos or not each.photos_only]
    runs: dict[str, list[Run]] = {name: [] for name in names}
    for number in range(rounds):
        for name in names:
            if number < (CONTENDERS[name].most_rounds or rounds):
                run = timed_run(CONTENDERS[name], places, images.count)
                runs[name].append(run)
                print(f"  round {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
    return Figures(images, image_bytes, runs)


def read_all(source: Path) -> int:
    """Read every file, so that the first contender does not pay for a cold cache."""
    return sum(len(path.read_bytes()) for path in source.glob("*/*.jpg"))


def timed_run(contender: Contender, places: Places, count: int) -> Run:
    """Run once and say what it took; end the benchmark unless it went through `count` images."""
    _clear(places.output)
    command = contender.command(places)
    cpu_s, start = _cpu_s_of_children(), time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, env=checkout_environment())
    run = Run(time.perf_counter() - start, _cpu_s_of_children() - cpu_s)
    if done.returncode:
        raise SystemExit(f"{contender.title} failed:\n{done.stderr}")
    if (made := contender.count(places, done.stdout)) != count:
        raise SystemExit(f"{contender.title} went through {made:,} of {count:,} images")
    _clear(places.output)
    return run


def _cpu_s_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _clear(output: Path) -> None:
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    os.sync()  # no run is to pay for what another left to be written


# Memory and start-up


class Memory(NamedTuple):
    """Peak memory of a pack: of its main process, and of each worker."""

    main_bytes: int
    worker_bytes: tuple[int, ...]


def measure_memory(work: Path, images: ImageSet) -> Memory:
    """Pack once more, watching how much memory each process of imgrec takes at most."""
    source = make_images(work, images)
    places = Places(source, work / "output")
    _clear(places.output)
    command = CONTENDERS["decode"].command(places)
    peaks: dict[int, int] = {}
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=checkout_environment()
    ) as process:
        while process.poll() is None:
            for pid, peak in _family_peaks(process.pid):
                peaks[pid] = max(peak, peaks.get(pid, 0))
            time.sleep(0.02)
    if process.returncode:
        raise SystemExit(f"{CONTENDERS['decode'].title} failed while its memory was measured")
    _clear(places.output)
    return Memory(peaks.pop(process.pid), tuple(peaks.values()))


def _family_peaks(parent: int) -> Iterator[tuple[int, int]]:
    """Yield pid and peak resident bytes of a process and of its children."""
    for folder in Path("/proc").iterdir():
        if not folder.name.isdecimal():
            continue
        try:
            lines = (folder / "status").read_text(errors="replace").splitlines()
        except OSError:  # it has ended
            continue
        facts = dict(line.split(":", 1) for line in lines if ":" in line)
        pid = int(folder.name)
        # A process that is ending has no memory any more.
        if "VmHWM" in facts and (pid == parent or int(facts["PPid"]) == parent):
            yield pid, int(facts["VmHWM"].split()[0]) * 1024


def measure_start(rounds: int) -> tuple[float, float]:
    """Return the median seconds of `imgrec --help` and of Python doing nothing."""
    commands = ([sys.executable, "-m", "imgrec", "--help"], [sys.executable, "-c", "pass"])
    seconds: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for command, taken in zip(commands, seconds, strict=True):
            start = time.perf_counter()
            subprocess.run(
                command, check=True, stdout=subprocess.DEVNULL, env=checkout_environment()
            )
            taken.append(time.perf_counter() - start)
    imgrec, python = map(statistics.median, seconds)
    return imgrec, python


# The goals


class Ratio(NamedTuple):
    """A goal about imgrec against another: "<=" is of their times, ">=" of their rates."""

    check: str
    other: str
    sign: str
    target: float


RATIOS: Mapping[str, tuple[Ratio, ...]] = {
    "photos5k": (
        Ratio("structure", "tfds", ">=", 6),
        Ratio("decode", "tfds", ">=", 2),
        Ratio("decode", "libjpeg", ">=", 0.7),
    ),
    "photos20k": (
        Ratio("structure", "tar", "<=", 1.3),
        Ratio("structure", "tfds", ">=", 5),
        Ratio("decode", "libjpeg", ">=", 0.7),
    ),
    "tiny50k": (
        Ratio("structure", "tar", "<=", 2.5),
        Ratio("decode", "tfds", ">=", 5),
    ),
}
START_SECONDS = 0.3
START_ROUNDS = 11
WORKER_MB = 200


def ratio_goals(figures: Figures, ratios: Iterable[Ratio]) -> Iterator[Goal]:
    """Yield what the figures say to the goals of their image set."""
    for ratio in ratios:
        ours, theirs = figures.median_s(ratio.check), figures.median_s(ratio.other)
        is_time = ratio.sign == "<="
        what = f"{ratio.check}: {'time' if is_time else 'rate'} / {ratio.other}"
        yield Goal(what, ours / theirs if is_time else theirs / ours, ratio.sign, ratio.target)


def memory_goal(memory: Memory) -> Goal:
    """Return what the hungriest worker says to its goal."""
    peak = max(memory.worker_bytes) / 1e6
    return Goal("decode: peak memory of a worker", peak, "<", WORKER_MB, " MB")


def start_goal(imgrec: float, python: float) -> Goal:
    """Return what the time until help is shown says to its goal."""
    return Goal("imgrec --help after python -c pass", imgrec - python, "<=", START_SECONDS, " s")


# The command


def main() -> None:
    """Run the benchmark, print its tables, and write its figures if asked to."""
    options = _parser().parse_args()
    facts = setting(PACKAGES)
    print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)
    if options.quick:
        print("--quick: too few images and runs for the goals to mean anything")
    start = measure_start(3 if options.quick else START_ROUNDS)
    goal = start_goal(*start)
    print(f"\nstart-up: imgrec --help {start[0]:.3f} s, python -c pass {start[1]:.3f} s")
    print(goal_table([goal]), flush=True)
    results = {name: bench_set(name, options) for name in options.sets}
    if options.json:
        value = {"setting": facts, "start": goal.as_value(), "sets": results}
        options.json.write_text(json.dumps(value, indent=2) + "\n")


def bench_set(name: str, options: argparse.Namespace) -> dict[str, object]:
    """Run and print one image set; return all that was measured as a JSON value."""
    images = (QUICK_SETS if options.quick else SETS)[name]
    figures = race(options.work, images, 1 if options.quick else options.rounds)
    memory = measure_memory(options.work, images)
    goals = [*ratio_goals(figures, RATIOS[name]), memory_goal(memory)]
    mean_kb = figures.image_bytes / images.count / 1e3
    print(f"\n{name}: {images.count:,} {images.kind}, {mean_kb:.1f} KB on average")
    print(figures.table())
    print(goal_table(goals))
    workers = ", ".join(f"{peak / 1e6:.0f}" for peak in memory.worker_bytes)
    print(f"  peak MB: main process {memory.main_bytes / 1e6:.0f}, workers {workers}", flush=True)
    return {
        "images": images.count,
        "bytes": figures.image_bytes,
        "runs": {name: [run._asdict() for run in runs] for name, runs in figures.runs.items()},
        "peak_bytes": memory._asdict(),
        "goals": [goal.as_value() for goal in goals],
    }


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := sorted({*names} - {*SETS}):
        raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}: see {', '.join(SETS)}")
    return names


def _rounds(text: str) -> int:
    if not text.isdecimal() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not 1 or more")
    return int(text)


def _folder(text: str) -> Path:
    return Path(text).resolve()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    add = parser.add_argument
    default = WORK.relative_to(CHECKOUT)
    add("--work", type=_folder, default=WORK, metavar="DIR", help=f"default: {default} in here")
    add("--rounds", type=_rounds, default=5, metavar="N", help="default: %(default)s; TFDS: 2")
    add("--sets", type=_names, default=tuple(SETS), metavar="NAME,...", help=", ".join(SETS))
    add("--quick", action="store_true", help="few images, one round: only to see that it works")
    add("--json", type=Path, metavar="FILE", help="write all that was measured there")
    return parser


if __name__ == "__main__":
    main()
