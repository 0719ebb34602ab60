#!/usr/bin/env python3
"""Compare the speed of imgrec with other packers and loaders of images.

    .venv/bin/python scripts/bench.py                  pack, load, random, cold: half an hour
    .venv/bin/python scripts/bench.py --only resume    the rest of a pack that was killed
    .venv/bin/python scripts/bench.py --only update    the next versions of a dataset that grows
    .venv/bin/python scripts/bench.py --only spark     packs with Spark to S3, next to a disk
    .venv/bin/python scripts/bench.py --only stores    loaders, from an object store 40 ms away
    .venv/bin/python scripts/bench.py --manual         put the last figures into the manual

Each peer runs in its own environment, made from PyPI in bench-data/venvs, as its documentation
shows, with two workers where it has workers. A peer that cannot be installed is left out, and the
reason is printed. Contenders take turns, round after round; medians are compared. Packers are fresh
processes, so their start-up counts; another reader counts and weighs their output. Loaders keep
running and get one epoch to warm up; what they yield is counted and its size checked. Everything
runs on two CPUs.

Figures go to bench-data/bench.json, which collects the parts of several runs (`--only`), and to
bench.md. Ratios hold only on a quiet machine. Needs Linux.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import platform
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from benching import figures
from benching.images import QUICK_SETS, SETS
from benching.loaders import LOADERS, READERS, STREAMS, Loader
from benching.packers import PACKERS, Packer
from benching.races import COLD_PACKERS, Packing, Track, race_loaders, race_stores
from benching.runs import (
    CHECKOUT,
    NEEDS,
    THIS_PYTHON,
    Environment,
    NotInstalledError,
    here,
    make_environment,
)
from benching.spark import race_spark
from benching.spark import summary as spark_summary
from benching.updates import race_updates

PARTS = ("pack", "load", "random", "cold", "resume", "update", "spark", "stores")
USUAL = PARTS[:4]
OWN = ("pillow", "pyarrow", "simplejpeg")
START_ROUNDS = 3
COLD_SETS = ("photos5k", "tiny50k")
Measured = tuple[str, str, object]
"""A part of the benchmark, the name of its data ("" for all), and the result as JSON."""


class Bench:
    """One run: its options and its contenders."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.work
        self.sets = QUICK_SETS if options.quick else SETS
        self.rounds: int = 1 if options.quick else options.rounds
        self.skipped: dict[str, str] = {}
        self._environments: dict[str, Environment | None] = {"": THIS_PYTHON}

    def pack(self) -> Iterator[Measured]:
        """Race the packers."""
        packs = self._packing(PACKERS)
        for name in self.options.data:
            print(f"\npack {name}", file=sys.stderr)
            yield "pack", name, packs.run(self.sets[name], self.rounds)
        if not self.options.quick:
            yield "start", "", packs.start(START_ROUNDS)

    def load(self) -> Iterator[Measured]:
        """Race the loaders."""
        photos, tiny = self.sets["photos5k"], self.sets["tiny50k"]
        yield from self._race("load", "photos224", Track(images=photos, size=224, batch=32))
        yield from self._race("load", "photos96", Track(images=photos, size=96, batch=32))
        yield from self._race("load", "tiny", Track(images=tiny, size=0, batch=128))

    def random(self) -> Iterator[Measured]:
        """Race those that read records at random."""
        photos, tiny = self.sets["photos5k"], self.sets["tiny50k"]
        yield from self._race("random", "photos", Track(images=photos, size=0, batch=0))
        yield from self._race("random", "tiny", Track(images=tiny, size=0, batch=0))

    def cold(self) -> Iterator[Measured]:
        """Race imgrec against tar from a cold cache."""
        packs = self._packing(COLD_PACKERS)
        for name in COLD_SETS:
            if name in self.options.data:
                yield "cold", name, packs.cold(self.sets[name], self.rounds)

    def resume(self) -> Iterator[Measured]:
        """Measure what it costs to continue a pack that was killed."""
        packs = Packing(self.work, {}, {})
        yield "resume", "", packs.resume(self.sets["photos20k"], self.rounds)

    def update(self) -> Iterator[Measured]:
        """Measure what the next versions of a dataset cost, compared with a pack."""
        yield "update", "", race_updates(self.work, self.sets["photos20k"], self.rounds)

    def spark(self) -> Iterator[Measured]:
        """Compare packs with Spark to S3 with those to a disk."""
        server = self._environment("rclone")
        rclone = server and Path(server.python).with_name("rclone")
        found = race_spark(self.work, self.sets["photos5k"], self.rounds, rclone)
        print(spark_summary(found))
        yield "spark", "", found

    def stores(self) -> Iterator[Measured]:
        """Race the loaders that read from an object store."""
        packs, contenders = self._loading(STREAMS)
        images = self.sets["photos5k"]
        yield "stores", "", race_stores(contenders, packs, images, self.rounds)

    def versions(self) -> dict[str, str]:
        """Return the versions of the peers' packages."""
        peers = {}
        for environment in self._environments.values():
            peers.update(environment.versions if environment else {})
        return dict(sorted(peers.items()))

    def left_out(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return the peers that could not run and why, including those of earlier parts."""
        return {
            name: why for name, why in before.items() if name not in self._environments
        } | self.skipped

    def _race(self, part: str, name: str, track: Track) -> Iterator[Measured]:
        packs, contenders = self._loading(track.loaders())
        if contenders:
            print(f"\n{part} {name}", file=sys.stderr)
            yield part, name, race_loaders(track, contenders, packs, self.rounds)

    def _packing(self, names: Iterable[str]) -> Packing:
        """Return the races of some packers; TensorFlow reads imgrec's output back."""
        able = self._able({name: PACKERS[name] for name in names})
        readers = {
            name: self._environment(PACKERS[name].reader or PACKERS[name].environment)
            for name in able
        }
        found = {name: reader for name, reader in readers.items() if reader}
        if len(found) < len(able):
            raise SystemExit("TensorFlow is needed to read back what imgrec packs")
        return Packing(self.work, able, found)

    def _loading(self, known: Mapping[str, Loader]) -> tuple[Packing, dict[str, Environment]]:
        """Return the requested loaders that can run, and the packers of what they read."""
        contenders = self._able(known)
        packers = self._able(
            {known[n].packer: PACKERS[known[n].packer] for n in contenders if known[n].packer}
        )
        able = {n: each for n, each in contenders.items() if known[n].packer in {*packers, ""}}
        return Packing(self.work, packers, {}), able

    def _able(
        self, contenders: Mapping[str, Packer] | Mapping[str, Loader]
    ) -> dict[str, Environment]:
        """Return the environments of the requested contenders that can run."""
        able = {}
        for name, contender in contenders.items():
            if self.options.peers and not _is_asked(name, contender, self.options.peers):
                continue
            environment = self._environment(contender.environment)
            if environment:
                able[name] = environment
        return able

    def _environment(self, name: str) -> Environment | None:
        if name not in self._environments:
            try:
                found = (
                    here(name) if self.options.here else make_environment(name, self.work / "venvs")
                )
            except NotInstalledError as err:
                print(f"{name} is left out: {err}", flush=True)
                self.skipped[name] = str(err)
                self._environments[name] = None
            else:
                self._environments[name] = found
        return self._environments[name]


def _is_asked(name: str, contender: Packer | Loader, peers: Iterable[str]) -> bool:
    """Whether a contender was requested; imgrec's own always are."""
    is_ours = contender.title.startswith("**")
    return is_ours or name in peers or contender.environment in peers


def main() -> None:
    """Run the requested parts; print and write the figures."""
    options = _parser().parse_args()
    path: Path = options.work / "bench.json"
    known: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    if options.manual:
        if not known:
            raise SystemExit(f"there is no {path}: run the benchmark first")
        figures.write_manual(CHECKOUT / "imgrec/manual/performance.md", known)
        figures.draw(known, CHECKOUT / ".github" / "speed.svg")
        return
    if hasattr(os, "sched_setaffinity"):  # two CPUs, whatever the machine has
        os.sched_setaffinity(0, {0, 1} & os.sched_getaffinity(0) or os.sched_getaffinity(0))
    options.work.mkdir(parents=True, exist_ok=True)
    if known.get("is_quick") != options.quick:
        known = {"is_quick": options.quick}
    bench = Bench(options)
    for part in options.only:
        measure: Callable[[], Iterator[Measured]] = getattr(bench, part)
        begun = time.monotonic()
        for section, name, value in measure():
            if name:
                known.setdefault(section, {})[name] = value
            else:
                known[section] = value
            known["setting"] = _setting(bench)
            known["skipped"] = bench.left_out(known.get("skipped", {}))
            path.write_text(json.dumps(known, indent=2) + "\n")
        print(f"{part}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    path.with_suffix(".md").write_text(figures.markdown(known))
    print(f"\n{figures.markdown(known)}\n{figures.ratios(known)}")
    if options.quick:
        print("--quick: too few images and runs for any figure to mean anything")


def _setting(bench: Bench) -> dict[str, Any]:
    """Return the machine and the versions."""
    own_versions = {name: importlib.metadata.version(name) for name in OWN}
    cpu = [line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line]
    return {
        "machine": cpu[0].partition(":")[2].strip() if cpu else platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "load": f"{os.getloadavg()[0]:.1f}",
        "python": platform.python_version(),
        "rounds": bench.rounds,
        "versions": own_versions | bench.versions(),
    }


def _several(known: Iterable[str]) -> Callable[[str], tuple[str, ...]]:
    def parse(text: str) -> tuple[str, ...]:
        names = tuple(text.split(","))
        if unknown := sorted({*names} - {*known}):
            raise argparse.ArgumentTypeError(f"there is no {', '.join(unknown)}")
        return names

    return parse


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    peers = sorted({*PACKERS, *LOADERS, *READERS, *NEEDS})
    add("--only", type=_several(PARTS), default=USUAL, metavar="PART,...", help=", ".join(PARTS))
    add("--data", type=_several(SETS), default=tuple(SETS), metavar="SET,...", help=", ".join(SETS))
    add("--peers", type=_several(peers), metavar="NAME,...", help=", ".join(peers))
    add("--rounds", type=int, default=3, metavar="N", help="default: %(default)s")
    add("--quick", action="store_true", help="few images, one round: only to see that it works")
    add("--here", action="store_true", help="make no environments: run what this one has")
    add("--manual", action="store_true", help="run nothing; put the last figures into the manual")
    add(
        "--work",
        type=lambda text: Path(text).resolve(),
        default=CHECKOUT / "bench-data",
        metavar="DIR",
    )
    return parser


if __name__ == "__main__":
    main()
