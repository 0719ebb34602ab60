"""The races: packers as fresh processes, loaders as processes that stay; all take turns."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benching.environments import Environment
from benching.images import ImageSet, make_images, read_all
from benching.loaders import LOADERS, READERS, Loader, Task
from benching.packers import PACKERS
from benching.runs import (
    FailedError,
    Run,
    Server,
    bytes_of,
    cleared,
    drop_caches,
    interleaved,
    last_line,
    timed,
)

START = ImageSet("photos", 10)
"""So few images that packing them is all start-up."""
SIZE_SLACK = 0.01


@dataclass(slots=True)
class Packing:
    """Races of packers."""

    work: Path
    pythons: Mapping[str, Environment]
    """The environment of each packer that takes part."""
    readers: Mapping[str, Environment]
    """The environment that reads its output back."""

    def run(self, images: ImageSet, rounds: int) -> dict[str, object]:
        """Let all pack the images in turn; return the figures as JSON."""
        source = make_images(self.work, images)
        expected = images.count, read_all(source)
        names = [n for n in self.pythons if images.is_photos or not PACKERS[n].photos_only]
        runs: dict[str, list[Run]] = {name: [] for name in names}
        sizes: dict[str, int] = {}
        failed: dict[str, str] = {}
        for number, name in interleaved(names, rounds):
            if name in failed:
                continue
            try:
                run = self._pack(name, source)
                self._check(name, expected, sizes)
            except FailedError as err:
                failed[name] = last_line(str(err))
                print(f"  {name} is out: {failed[name]}", file=sys.stderr)
                continue
            runs[name].append(run)
            print(f"  round {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
        cleared(self.work / "output")
        return {
            "images": images.count,
            "bytes": expected[1],
            "runs": {
                name: [run.as_value() for run in each]
                for name, each in runs.items()
                if name not in failed
            },
            "output_bytes": sizes,
            "failed": failed,
        }

    def _pack(self, name: str, source: Path, output: Path | None = None) -> Run:
        packer, output = PACKERS[name], cleared(output or self.work / "output")
        script = [self.pythons[name].python, "-m", "benching.packers", "pack", name]
        command = packer.pack(source, output) if packer.is_command else None
        run, _ = timed(
            command if isinstance(command, list) else [*script, f"{source}", f"{output}"]
        )
        return run

    def _check(self, name: str, expected: tuple[int, int], sizes: dict[str, int]) -> None:
        """Read the first output of a packer back; later ones must have its size."""
        output = self.work / "output"
        size = bytes_of(output)
        if name not in sizes:
            script = [self.readers[name].python, "-m", "benching.packers", "sizes", name]
            records, image_bytes = json.loads(timed([*script, str(output)])[1].splitlines()[-1])
            if records != expected[0] or image_bytes not in (expected[1], 0):
                raise FailedError(f"packed {records}, {image_bytes} bytes of {expected}")
            sizes[name] = size
        elif abs(size - sizes[name]) > SIZE_SLACK * sizes[name]:
            raise FailedError(f"made {size:,} bytes, but {sizes[name]:,} before")

    def start(self, rounds: int) -> dict[str, list[float]]:
        """Pack ten images; return the seconds of each packer."""
        return self._seconds(START, [*self.pythons], rounds, is_cold=False)

    def cold(self, images: ImageSet, rounds: int) -> dict[str, object]:
        """Let tar and imgrec read the images from the disk, if the caches can be dropped."""
        if reason := drop_caches():
            return {"skipped": reason}
        names = [name for name in ("tar", "structure", "decode") if name in self.pythons]
        return {
            "images": images.count,
            "seconds": self._seconds(images, names, rounds, is_cold=True),
        }

    def _seconds(
        self, images: ImageSet, names: Sequence[str], rounds: int, *, is_cold: bool
    ) -> dict[str, list[float]]:
        source = make_images(self.work, images)
        seconds: dict[str, list[float]] = {}
        for number, name in interleaved(names, rounds):
            if is_cold:
                drop_caches()
            try:
                run = self._pack(name, source)
            except FailedError as err:
                print(f"  {name} failed: {last_line(str(err))}", file=sys.stderr)
                continue
            seconds.setdefault(name, []).append(run.wall_s)
            print(f"  round {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
        cleared(self.work / "output")
        return seconds

    def kept(self, name: str, images: ImageSet) -> Path:
        """Return a packer's output; pack on first use."""
        folder = self.work / "peer-packs" / name / images.folder
        if not folder.exists():
            part = folder.with_name(f".{folder.name}.part")
            self._pack(name, make_images(self.work, images), part)
            part.rename(folder)
        if PACKERS[name].is_ours:
            (folder,) = (path.parent for path in folder.glob("*/*/dataset_info.json"))
        return folder


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """The data of a race of loaders."""

    images: ImageSet
    size: int
    batch: int

    def loaders(self) -> dict[str, Loader]:
        """Return the contenders: only small images of one size are kept in memory."""
        if not self.batch:
            return dict(READERS)
        return {
            name: each for name, each in LOADERS.items() if name != "load_cached" or not self.size
        }


def race_loaders(
    track: Track, contenders: Mapping[str, Environment], packs: Packing, rounds: int
) -> dict[str, object]:
    """Let all load the images in turn; return the figures as JSON."""
    source = make_images(packs.work, track.images)
    image_bytes = read_all(source)
    known = track.loaders()
    servers: dict[str, Server] = {}
    results: dict[str, dict[str, object]] = {}
    failed: dict[str, str] = {}
    rates: dict[str, list[float]] = {}

    def epoch(name: str) -> float:
        got = servers[name].epoch()
        size = f"{track.size or 32}"
        if got.images != track.images.count:
            raise FailedError(f"gave {got.images:,} of {track.images.count:,} images")
        if not track.batch and got.bytes != image_bytes:
            raise FailedError(f"gave {got.bytes:,} of {image_bytes:,} bytes")
        if track.batch and got.like.split("x").count(size) != 2:
            raise FailedError(f"gave {got.like}, not images of {size}x{size}")
        results[name] = {"like": got.like}
        return got.images / got.wall_s

    try:
        for name, environment in contenders.items():
            packed = packs.kept(known[name].packer, track.images) if known[name].packer else ""
            task = Task(str(source), str(packed), track.size, track.batch)
            script = [environment.python, "-m", "benching.loaders", name]
            try:
                # One after another, so that each has the machine until its first batch.
                command = [*script, json.dumps(task._asdict())]
                servers[name] = Server(command, packs.work / f"{name}.log")
                epoch(name)
            except FailedError as err:
                failed[name] = last_line(str(err))
                print(f"  {name} is out: {failed[name]}", file=sys.stderr)
                servers.pop(name).stop()
        names = [name for name in contenders if name not in failed]
        for number, name in interleaved(names, rounds):
            rates.setdefault(name, []).append(epoch(name))
            print(f"  round {number + 1}: {name} {rates[name][-1]:,.0f}/s", file=sys.stderr)
        for name in names:
            results[name] |= {"rates": rates[name], "first_s": servers[name].first_s}
            results[name] |= {"peak_bytes": servers[name].peak_bytes}
    finally:
        for server in servers.values():
            server.stop()
    return {
        "images": track.images.count,
        "bytes": image_bytes,
        "size": track.size,
        "batch": track.batch,
        "contenders": {name: results[name] for name in names},
        "failed": failed,
    }
