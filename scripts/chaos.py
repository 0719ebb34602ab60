"""Kill packs at random points, run them again, and compare with what a run in one go gives.

Each round packs a source and is killed once or several times: the process itself, or one of its
workers, by SIGKILL, SIGTERM or SIGINT; while it scans, writes, completes or publishes, or whenever.
After each blow, what is visible under the dataset's name must be whole: nothing, the dataset that
was there before, or the new one. Then the same command runs to its end, and every byte is compared.

Example: python scripts/chaos.py --kills 200
"""

from __future__ import annotations

import argparse
import io
import os
import random
import shutil
import signal
import subprocess
import sys
import tarfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from PIL import Image

CHECKOUT = Path(__file__).resolve().parent.parent
NAME, VERSION = "flowers", "1.0.0"
MOST_BLOWS = 4
"""How often a round is killed at most before it may end."""
PATIENCE_S = 120.0
Files = Mapping[str, bytes]


class Scenario(NamedTuple):
    """What is packed, and whether a dataset is there already."""

    name: str
    source: Path
    options: tuple[str, ...] = ()
    is_replacing: bool = False


SIGNALS: Mapping[str, signal.Signals] = {
    "SIGKILL": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "SIGINT": signal.SIGINT,
    "SIGKILL of a worker": signal.SIGKILL,
}


def anytime(_staging: Path) -> bool:
    """Any time will do."""
    return True


def scanning(staging: Path) -> bool:
    """Tell whether the run has begun to look at its source."""
    return staging.exists()


def writing(staging: Path) -> bool:
    """Tell whether a shard is finished."""
    return any((staging / ".notes").glob("*-of-*"))


def completing(staging: Path) -> bool:
    """Tell whether the files beside the shards are being written."""
    return (staging / "label.labels.txt").exists()


def publishing(staging: Path) -> bool:
    """Tell whether all files are written."""
    return (staging / "SHA256SUMS").exists() or not staging.exists()


STAGES: Mapping[str, Callable[[Path], bool]] = {
    stage.__name__: stage for stage in (anytime, scanning, writing, completing, publishing)
}


class Chaos(Exception):
    """A run did what it must not."""


def draw_sources(folder: Path, images: int) -> tuple[Path, Path]:
    """Draw pictures, all different, in class folders and in a compressed archive of them."""
    root, archive = folder / NAME, folder / f"{NAME}.tar.gz"
    chance = random.Random(0)
    with tarfile.open(archive, "w:gz") as tar:
        for number in range(images):
            small = Image.frombytes("RGB", (6, 4), chance.randbytes(72))
            out = io.BytesIO()
            small.resize((240, 160) if number % 3 else (24, 16)).save(out, "JPEG")
            path = root / ("rose", "tulip")[number % 2] / f"{number:04d}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(out.getvalue())
            tar.add(path, path.relative_to(root))
    return root, archive


def files(folder: Path) -> dict[str, bytes]:
    """Return the bytes of every file below a folder."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def workers_of(parent: int) -> list[int]:
    """Return the processes that a process has started."""
    try:
        return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))
    except OSError:
        return []


@dataclass
class Run:
    """The command of one scenario."""

    scenario: Scenario
    data_dir: Path
    shards: int

    @property
    def target(self) -> Path:
        """Where the dataset appears."""
        return self.data_dir / NAME / VERSION

    @property
    def staging(self) -> Path:
        """Where it grows."""
        return self.target.with_name(f".{VERSION}.incomplete")

    def start(self) -> subprocess.Popen[str]:
        """Start it, as a user would."""
        command = [sys.executable, "-m", "imgrec", "pack", str(self.scenario.source), "--quiet"]
        command += ["--val-split", "0.2", "--shards", str(self.shards), "--workers", "2"]
        command += ["--overwrite"] * self.scenario.is_replacing + list(self.scenario.options)
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        environment["TFDS_DATA_DIR"] = str(self.data_dir)
        return subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def finish(self) -> str:
        """Run it to its end, and return what it says."""
        process = self.start()
        said, complaint = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise Chaos(f"exit code {process.returncode}: {complaint}")
        return said


@dataclass
class Blow:
    """How, and when, a run is killed."""

    how: str
    stage: str
    delay_s: float

    def strike(self, run: Run) -> str:
        """Start a run and kill it; return "too late" if it ended before, else "hit"."""
        process = run.start()
        end = time.monotonic() + PATIENCE_S
        while process.poll() is None and not STAGES[self.stage](run.staging):
            if time.monotonic() > end:
                process.kill()
                raise Chaos(f"it did not get to {self.stage}")
        time.sleep(self.delay_s)
        was_running = process.poll() is None
        workers = workers_of(process.pid)
        is_python_starting = not workers  # which has no better words for Ctrl-C
        victims = workers if "worker" in self.how else [process.pid]
        for victim in victims[:1]:
            with suppress(ProcessLookupError):
                os.kill(victim, SIGNALS[self.how])
        try:
            _, complaint = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise Chaos("it hangs") from error
        if "should not happen" in complaint or (
            "Traceback" in complaint and not (is_python_starting and self.how == "SIGINT")
        ):
            raise Chaos(f"it complains: {complaint}")
        return "hit" if was_running and process.returncode else "too late"


@dataclass
class Tally:
    """What happened."""

    kills: Counter[str] = field(default_factory=Counter)
    rounds: int = 0
    resumed: int = 0

    @property
    def total(self) -> int:
        """Count the runs that were killed while they ran."""
        return sum(self.kills.values())


def blows(chance: random.Random, length_s: float) -> Iterator[Blow]:
    """Yield ways to kill a run that takes so long."""
    while True:
        stage = chance.choice(list(STAGES))
        longest_s = length_s if stage == "anytime" else length_s / 10
        yield Blow(chance.choice(list(SIGNALS)), stage, chance.uniform(0, longest_s))


def check(found: Path, allowed: Mapping[str, Files | None]) -> str:
    """Return which of the datasets that may be there is; raise Chaos if it is none of them."""
    state = files(found) if found.exists() else None
    for name, expected in allowed.items():
        if state == expected:
            return name
    raise Chaos(f"what is visible is neither of {', '.join(allowed)}: {sorted(state or ())}")


def play(run: Run, old: Files | None, whole: Files, ways: Iterator[Blow], tally: Tally) -> None:
    """Kill one run, perhaps several times, then let it end."""
    count = 1 + tally.rounds % MOST_BLOWS
    for blow in (next(ways) for _ in range(count)):
        outcome = blow.strike(run)
        # A run that is killed between the two renames of a replacement leaves it to the next.
        aside = run.target.with_name(f".{VERSION}.replaced")
        is_between = old is not None and not run.target.exists()
        if is_between and files(aside) != old:
            raise Chaos(f"after {blow}: the old dataset is neither there nor aside")
        check(run.target, {"old": old, "new": whole, **({"nothing": None} if is_between else {})})
        if outcome == "hit":
            tally.kills[f"{blow.how} {blow.stage}"] += 1
    tally.resumed += "resumed" in run.finish()
    check(run.target, {"new": whole})
    left = sorted(path.name for path in run.target.parent.iterdir())
    if left != [f".{VERSION}.origin.json", VERSION]:  # the private note of where it came from
        raise Chaos(f"left behind: {left}")
    tally.rounds += 1


def main() -> int:
    """Run rounds until enough runs were killed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=200, help="how many runs to kill")
    parser.add_argument("--seed", type=int, default=0, help="chooses when and how")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--folder", help="where to work; default: a temporary folder")
    parsed = parser.parse_args()
    chance, tally = random.Random(parsed.seed), Tally()
    with TemporaryDirectory(prefix="chaos-", dir=parsed.folder) as name:
        folder = Path(name)
        root, archive = draw_sources(folder, parsed.images)
        scenarios = (
            Scenario("folder", root),
            Scenario("archive", archive),
            Scenario("replacement", root, is_replacing=True),
        )
        whole, old, lengths = {}, {}, {}
        for scenario in scenarios:
            reference = Run(scenario, folder / "whole" / scenario.name, parsed.shards)
            started = time.monotonic()
            reference.finish()
            lengths[scenario.name] = time.monotonic() - started
            whole[scenario.name] = files(reference.target)
        before = Run(Scenario("old", root, ("--seed", "7")), folder / "old", 3)
        before.finish()
        old["replacement"] = files(before.target)
        while tally.total < parsed.kills:
            scenario = scenarios[tally.rounds % len(scenarios)]
            run = Run(scenario, folder / "out", parsed.shards)
            if scenario.is_replacing:
                shutil.copytree(before.data_dir, run.data_dir)
            ways = blows(chance, lengths[scenario.name])
            play(run, old.get(scenario.name), whole[scenario.name], ways, tally)
            shutil.rmtree(run.data_dir)
            print(f"\r{tally.total} kills in {tally.rounds} rounds", end="", flush=True)
    print(f"\r{tally.total} runs killed in {tally.rounds} rounds, {tally.resumed} of which went on")
    for what, count in sorted(tally.kills.items()):
        print(f"{count:6}  {what}")
    print("every dataset was whole at all times, and the same to the byte in the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
