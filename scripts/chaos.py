#!/usr/bin/env python3
"""Kill packs at random points, continue them, and compare the result with an uninterrupted run.

Each round packs a source and is killed up to four times: the process itself or one of its workers,
by SIGKILL, SIGTERM or SIGINT, at a random time or while it scans, writes, completes or publishes.
After each kill, the visible dataset must be whole: nothing, the dataset that was there before, or
the new one. Then the same command runs to its end, and every byte is compared.

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
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from PIL import Image

CHECKOUT = Path(__file__).resolve().parent.parent
NAME, VERSION = "flowers", "1.0.0"
MOST_KILLS_A_ROUND = 4
PATIENCE_S = 120.0
Files = Mapping[str, bytes]

SIGNALS: Mapping[str, signal.Signals] = {
    "SIGKILL": signal.SIGKILL,
    "SIGTERM": signal.SIGTERM,
    "SIGINT": signal.SIGINT,
    "SIGKILL of a worker": signal.SIGKILL,
}
STAGES: Mapping[str, Callable[[Path], bool]] = {
    "anytime": lambda _: True,
    "scanning": lambda staging: staging.exists(),
    "writing": lambda staging: any((staging / ".notes").glob("*-of-*")),
    "completing": lambda staging: (staging / "label.labels.txt").exists(),
    "publishing": lambda staging: (staging / "SHA256SUMS").exists() or not staging.exists(),
}
"""How to see from the staging folder that a run has reached a stage."""


class Chaos(Exception):
    """A run broke a promise."""


class Run(NamedTuple):
    """A pack: its source, where it goes, and whether it replaces a dataset."""

    source: Path
    data_dir: Path
    options: tuple[str, ...]

    @property
    def target(self) -> Path:
        """The path of the dataset."""
        return self.data_dir / NAME / VERSION

    @property
    def staging(self) -> Path:
        """The folder in which the dataset is built."""
        return self.target.with_name(f".{VERSION}.incomplete")

    def start(self) -> subprocess.Popen[str]:
        """Start the command."""
        command = [sys.executable, "-m", "imgrec", "pack", str(self.source), "--quiet"]
        environment = {**os.environ, "PYTHONPATH": str(CHECKOUT)}
        return subprocess.Popen(
            [*command, "--val-split", "0.2", "--workers", "2", *self.options],
            env={**environment, "TFDS_DATA_DIR": str(self.data_dir)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def finish(self) -> str:
        """Run to the end; return the output."""
        process = self.start()
        printed, complaint = process.communicate(timeout=PATIENCE_S)
        if process.returncode:
            raise Chaos(f"exit code {process.returncode}: {complaint}")
        return printed

    def kill(self, how: str, stage: str, delay_s: float) -> bool:
        """Start, and kill in a stage after a delay; return whether it was still running."""
        process = self.start()
        end = time.monotonic() + PATIENCE_S
        while process.poll() is None and not STAGES[stage](self.staging):
            if time.monotonic() > end:
                process.kill()
                raise Chaos(f"it did not get to {stage}")
        time.sleep(delay_s)
        was_running = process.poll() is None
        workers = workers_of(process.pid)
        is_python_starting = not workers  # Python itself prints a traceback for Ctrl-C then
        for victim in workers[:1] if "worker" in how else [process.pid]:
            with suppress(ProcessLookupError):
                os.kill(victim, SIGNALS[how])
        try:
            _, complaint = process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired as error:
            process.kill()
            raise Chaos("it hangs") from error
        has_traceback = "Traceback" in complaint and not (is_python_starting and how == "SIGINT")
        if has_traceback or "should not happen" in complaint:
            raise Chaos(f"it complains: {complaint}")
        return was_running and process.returncode != 0

    def check(self, old: Files | None, new: Files) -> None:
        """Raise Chaos unless the visible dataset is the old one or the new one, whole."""
        found = files(self.target) if self.target.exists() else None
        if found is None and old is not None:
            # Killed between the two renames of a replacement: the next run puts it back.
            found = files(self.target.with_name(f".{VERSION}.replaced"))
        if found not in (old, new):
            raise Chaos(f"neither the old nor the new dataset is visible: {sorted(found or ())}")


def draw_sources(folder: Path, images: int) -> tuple[Path, Path]:
    """Draw different pictures into class folders, and put them into an archive as well."""
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
    """Return the child processes of a process."""
    try:
        return list(map(int, Path(f"/proc/{parent}/task/{parent}/children").read_text().split()))
    except OSError:
        return []


def main() -> int:
    """Run rounds until enough runs were killed."""
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False)
    parser.add_argument("--kills", type=int, default=200, help="how many runs to kill")
    parser.add_argument("--seed", type=int, default=0, help="decides when and how")
    parser.add_argument("--images", type=int, default=300)
    parser.add_argument("--shards", type=int, default=24)
    parser.add_argument("--folder", help="where to work; default: a temporary folder")
    asked = parser.parse_args()
    chance, kills = random.Random(asked.seed), Counter[str]()
    rounds = resumed = 0
    with TemporaryDirectory(prefix="chaos-", dir=asked.folder) as name:
        folder = Path(name)
        root, archive = draw_sources(folder, asked.images)
        shards = ("--shards", str(asked.shards))
        before = Run(root, folder / "before", ("--shards", "3", "--seed", "7"))
        before.finish()
        old = files(before.target)
        references = []
        for source, options in ((root, ()), (archive, ()), (root, ("--overwrite",))):
            run = Run(source, folder / f"whole-{len(references)}", (*shards, *options))
            started = time.monotonic()
            run.finish()
            references.append((run, files(run.target), time.monotonic() - started))
        while kills.total() < asked.kills:
            reference, new, length_s = references[rounds % len(references)]
            run = reference._replace(data_dir=folder / "out")
            is_replacing = "--overwrite" in run.options
            if is_replacing:
                shutil.copytree(before.data_dir, run.data_dir)
            for _ in range(1 + rounds % MOST_KILLS_A_ROUND):
                how, stage = chance.choice(list(SIGNALS)), chance.choice(list(STAGES))
                longest_s = length_s if stage == "anytime" else length_s / 10
                kills[f"{how} {stage}"] += run.kill(how, stage, chance.uniform(0, longest_s))
                run.check(old if is_replacing else None, new)
            resumed += "resumed" in run.finish()
            run.check(new, new)
            left = sorted(path.name for path in run.target.parent.iterdir())
            if left != [f".{VERSION}.origin.json", VERSION]:  # the private note of the source
                raise Chaos(f"left behind: {left}")
            shutil.rmtree(run.data_dir)
            rounds += 1
            print(f"\r{kills.total()} kills in {rounds} rounds", end="", flush=True)
    print(f"\r{kills.total()} runs killed in {rounds} rounds, {resumed} of them resumed")
    for what, count in sorted(kills.items()):
        print(f"{count:6}  {what}")
    print("every dataset was whole at all times, and identical in the end")
    return 0


if __name__ == "__main__":
    sys.exit(main())
