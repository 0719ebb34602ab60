"""The races: packers as fresh processes, loaders as processes that stay; all take turns."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeAlias

from benching.images import ImageSet, make_images, read_all
from benching.loaders import LOADERS, READERS, STREAMS, Loader, Task
from benching.packers import PACKERS, imgrec_pack
from benching.runs import (
    Environment,
    FailedError,
    Run,
    Server,
    bytes_of,
    cleared,
    drop_caches,
    environment,
    interleaved,
    last_line,
    timed,
)
from benching.store import Traffic, serve

START = ImageSet("photos", 10)
"""So few images that packing them is all start-up."""
SIZE_SLACK = 0.01
SHARDS, FINISHED = 50, 45
COLD_PACKERS = ("tar", "structure", "decode")
Race: TypeAlias = dict[str, Any]
"""The figures of a race, as JSON."""


@dataclass(slots=True)
class Packing:
    """Races of packers."""

    work: Path
    pythons: Mapping[str, Environment]
    """The environment of each packer that takes part."""
    readers: Mapping[str, Environment]
    """The environment that reads its output back."""

    def run(self, images: ImageSet, rounds: int) -> Race:
        """Let all pack the images in turn."""
        names = [n for n in self.pythons if images.is_photos or not PACKERS[n].photos_only]
        return self._race(images, names, rounds)

    def start(self, rounds: int) -> Race:
        """Let all pack ten images."""
        return self._race(START, [*self.pythons], rounds)

    def cold(self, images: ImageSet, rounds: int) -> Race:
        """Let tar and imgrec read the images from the disk, if the caches can be dropped."""
        if reason := drop_caches():
            return {"skipped": reason}
        names = [name for name in COLD_PACKERS if name in self.pythons]
        return self._race(images, names, rounds, is_cold=True)

    def _race(
        self, images: ImageSet, names: Sequence[str], rounds: int, *, is_cold: bool = False
    ) -> Race:
        source = make_images(self.work, images)
        expected = images.count, read_all(source)
        runs: dict[str, list[Run]] = {}
        sizes: dict[str, int] = {}
        failed: dict[str, str] = {}
        for number, name in interleaved(names, rounds):
            if name in failed:
                continue
            if is_cold:
                drop_caches()
            try:
                run = self._pack(name, source)
                self._check(name, expected, sizes)
            except FailedError as err:
                failed[name] = last_line(str(err))
                print(f"  {name} is out: {failed[name]}", file=sys.stderr)
                runs.pop(name, None)
                continue
            runs.setdefault(name, []).append(run)
            print(f"  round {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
        cleared(self.work / "output")
        return {
            "images": images.count,
            "bytes": expected[1],
            "runs": _as_json(runs),
            "output_bytes": sizes,
            "failed": failed,
        }

    def resume(self, images: ImageSet, rounds: int) -> Race:
        """Time a whole pack, and the rest of one killed when 45 of its 50 shards were finished."""
        source, output = make_images(self.work, images), self.work / "output"
        command = imgrec_pack(source, output, "--shards", str(SHARDS))
        runs: dict[str, list[Run]] = {"whole": [], "rest": []}
        for _ in range(rounds):
            cleared(output)
            runs["whole"].append(timed(command)[0])
            cleared(output)
            _kill(command, output)
            runs["rest"].append(timed(command)[0])
        return {"runs": _as_json(runs)}

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


def _as_json(runs: Mapping[str, Sequence[Run]]) -> dict[str, list[dict[str, float]]]:
    return {name: [asdict(run) for run in each] for name, each in runs.items()}


def _kill(command: Sequence[str], output: Path) -> None:
    packing = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
    while packing.poll() is None:
        if len(list(output.glob("*/.*.incomplete/.notes/*tfrecord*"))) >= FINISHED:
            packing.kill()
            packing.wait()
            return
        time.sleep(0.002)
    raise FailedError("the pack ended before it was killed")


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
) -> Race:
    """Let all load the images in turn."""
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


BUCKET = "packs"


def race_stores(
    contenders: Mapping[str, Environment], packs: Packing, images: ImageSet, rounds: int
) -> Race:
    """Let all load the images from a store: with an empty cache, then once more.

    Each is a new process with a new cache; opening the dataset is not timed.
    """
    results: dict[str, dict[str, Any]] = {}
    failed: dict[str, str] = {}
    folders = {name: packs.kept(STREAMS[name].packer, images) for name in contenders}
    root = packs.work / "peer-packs"
    with serve({BUCKET: root}) as traffic:
        for number, name in interleaved([*contenders], rounds):
            if name in failed:
                continue
            url = f"s3://{BUCKET}/{folders[name].relative_to(root).as_posix()}"
            task = Task("", url, 224, 32, str(cleared(packs.work / "store-cache")))
            script = [contenders[name].python, "-m", "benching.loaders", name]
            server = Server([*script, json.dumps(task._asdict())], packs.work / f"{name}.log")
            try:
                cold, warm = (_far_epoch(server, images.count, traffic) for _ in range(2))
            except FailedError as err:
                failed[name] = last_line(str(err))
                print(f"  {name} is out: {failed[name]}", file=sys.stderr)
                results.pop(name, None)
                continue
            finally:
                server.stop()
            rates = f"{cold['rate']:,.0f}/s cold, {warm['rate']:,.0f}/s warm"
            print(f"  round {number + 1}: {name} {rates}", file=sys.stderr)
            result = results.setdefault(name, {"cold": [], "warm": [], "peak_bytes": 0})
            result["cold"].append(cold)
            result["warm"].append(warm)
            result["peak_bytes"] = max(result["peak_bytes"], server.peak_bytes)
    shutil.rmtree(packs.work / "store-cache", ignore_errors=True)
    return {"images": images.count, "contenders": results, "failed": failed}


def _far_epoch(server: Server, expected: int, traffic: Traffic) -> dict[str, float]:
    """Run an epoch; return its rate, and the CPU time, requests and bytes of each image."""
    requests, size, cpu_s = traffic.requests, traffic.bytes, server.cpu_s()
    got = server.epoch()
    # MosaicML fills up the last batches of its workers with images that come again.
    if not expected <= got.images <= expected * (1 + SIZE_SLACK):
        raise FailedError(f"gave {got.images:,} of {expected:,} images")
    return {
        "rate": got.images / got.wall_s,
        "cpu_ms": (server.cpu_s() - cpu_s) / got.images * 1e3,
        "requests": (traffic.requests - requests) / got.images,
        "bytes": (traffic.bytes - size) / got.images,
    }
