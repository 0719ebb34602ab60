#!/usr/bin/env python3
"""Race imgrec against everything else that packs and loads images, and say where it wins.

    .venv/bin/python scripts/bench.py                  pack, load, random, cold: half an hour
    .venv/bin/python scripts/bench.py --only growth    time and memory by size (--full: the largest)
    .venv/bin/python scripts/bench.py --readme         put the last figures into README.md

Each peer gets an environment of its own from PyPI, in bench-data/venvs, and the form that its
documentation shows, with two workers where it has workers; whatever cannot be installed is left
out, and why is printed. Contenders run in turn, round after round, each round beginning with
another, and medians are compared. Packers are fresh processes, whose start-up counts; what they
made is read back by a reader that is not imgrec's, counted and weighed. Loaders stay, go through
one epoch to warm up, and give the images in order; what they give is counted, and must be of the
size that was asked for. Everything is kept to two CPUs.

Figures go to bench-data/bench.json, where runs of different parts (`--only`) are put together;
tables to bench.md, plots to plots/. Ratios hold on a quiet machine only; this needs Linux.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from bench_pack import QUICK_SETS, SETS
from bench_tools import CHECKOUT, WORK, Goal, goal_table, setting
from benching import charts, growth, loading, markdown
from benching.environments import NEEDS, Environment, NotInstalledError, here, made, this_python
from benching.goals import goals_of
from benching.loading import LOADERS, READERS, Loader, Track
from benching.packing import PACKERS, Packer, Race

PARTS = ("pack", "load", "random", "cold", "growth")
USUAL = PARTS[:-1]
OWN = ("pillow", "pyarrow", "simplejpeg")
README_PLOT = CHECKOUT / ".github" / "speed.svg"
START_ROUNDS = 3
COLD_SETS = ("photos5k", "tiny50k")
Measured = tuple[str, str, object]
"""A part of the benchmark, what it was measured on, and what came of it, as a JSON value."""


class Bench:
    """One run: what was asked for, who can take part, and what was measured so far."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.work: Path = options.work
        self.sets = QUICK_SETS if options.quick else SETS
        self.rounds: int = 1 if options.quick else options.rounds
        self.skipped: dict[str, str] = {}
        self._environments: dict[str, Environment | None] = {"": this_python()}
        packers = self._able(PACKERS)
        self.packs = Race(self.work, packers, self._readers(packers))

    def pack(self) -> Iterator[Measured]:
        """Race the packers."""
        for name in self.options.data:
            print(f"\npack {name}", file=sys.stderr)
            yield "pack", name, self.packs.run(self.sets[name], self.rounds)
        if not self.options.quick:
            for name, seconds in self.packs.start(START_ROUNDS).items():
                yield "start", name, seconds

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
        for name in COLD_SETS:
            if name in self.options.data:
                yield "cold", name, self.packs.cold(self.sets[name], self.rounds)

    def growth(self) -> Iterator[Measured]:
        """Measure how time and memory grow."""
        files, gigabytes = growth.FILES, growth.GIGABYTES
        if self.options.full:
            files, gigabytes = (*files, growth.MOST_FILES), (*gigabytes, *growth.MOST_GIGABYTES)
        if self.options.quick:
            files, gigabytes = (100, 1000), ()
        tiny, photos = self.sets["tiny50k"], self.sets["photos20k"]
        yield "growth", "files", growth.of_files(self.work, tiny, files)
        if gigabytes:
            yield "growth", "gigabytes", growth.of_bytes(self.work, photos, gigabytes)

    def versions(self) -> dict[str, str]:
        """Return what was run, by package."""
        peers = {}
        for environment in self._environments.values():
            peers.update(environment.versions if environment else {})
        return dict(sorted(peers.items()))

    def left_out(self, before: Mapping[str, str]) -> dict[str, str]:
        """Return who could not be run and why, with those of parts that were run before."""
        return {
            name: why for name, why in before.items() if name not in self._environments
        } | self.skipped

    def _race(self, part: str, name: str, track: Track) -> Iterator[Measured]:
        known = loading.loaders_of(track)
        contenders = {
            each: environment
            for each, environment in self._able(known).items()
            if known[each].packer in {*self.packs.pythons, ""}
        }
        if contenders:
            print(f"\n{part} {name}", file=sys.stderr)
            yield part, name, loading.race(track, contenders, self.packs, self.rounds)

    def _able(
        self, contenders: Mapping[str, Packer] | Mapping[str, Loader]
    ) -> dict[str, Environment]:
        """Return the environments of those who were asked for and can be run."""
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
                found = here(name) if self.options.here else made(name, self.work / "venvs")
            except NotInstalledError as err:
                print(f"{name} is left out: {err}", flush=True)
                self.skipped[name] = str(err)
                self._environments[name] = None
            else:
                self._environments[name] = found
        return self._environments[name]

    def _readers(self, packers: Iterable[str]) -> dict[str, Environment]:
        """Return who reads back what a packer made: TensorFlow what imgrec did."""
        tensorflow = self._environment("tensorflow")
        own = {name for name in packers if PACKERS[name].is_ours}
        if own and tensorflow is None:
            raise SystemExit("TensorFlow is needed to read back what imgrec packs")
        return {
            name: tensorflow
            if name in own and tensorflow
            else self._environments[PACKERS[name].environment] or this_python()
            for name in packers
        }


def _is_asked(name: str, contender: Packer | Loader, peers: Iterable[str]) -> bool:
    """Tell whether a contender is among those asked for; imgrec's own always are."""
    is_ours = not contender.environment and contender.title.startswith("**")
    return (
        is_ours or name in peers or (bool(contender.environment) and contender.environment in peers)
    )


def main() -> None:
    """Run the parts that were asked for; print and write what they came to."""
    options = _parser().parse_args()
    path = options.work / "bench.json"
    if options.readme or options.markdown:
        figures = _known(path)
        if not figures:
            raise SystemExit(f"there is no {path}: run the benchmark first")
        if options.markdown:
            print(markdown.written(figures), end="")
        if options.readme:
            markdown.into_readme(CHECKOUT / "README.md", figures)
            (plot,) = [each for each in charts.draw(figures, _plots(path)) if each.stem == "speed"]
            shutil.copyfile(plot, README_PLOT)
        return
    started = time.monotonic()
    loading.use_two_cpus()
    options.work.mkdir(parents=True, exist_ok=True)
    bench = Bench(options)
    figures = _known(path)
    if figures.get("is_quick") != options.quick:
        figures = {"is_quick": options.quick}
    for part in options.only:
        measure: Callable[[], Iterator[Measured]] = getattr(bench, part)
        begun = time.monotonic()
        for section, name, value in measure():
            figures.setdefault(section, {})[name] = value
            figures["setting"] = _setting(bench)
            figures["skipped"] = bench.left_out(figures.get("skipped", {}))
            figures["goals"] = [goal.as_value() for goal in goals_of(figures)]
            path.write_text(json.dumps(figures, indent=2) + "\n")
        print(f"{part}: {time.monotonic() - begun:.0f} s", file=sys.stderr)
    path.with_suffix(".md").write_text(markdown.written(figures))
    plots = charts.draw(figures, _plots(path))
    print(f"\n{markdown.written(figures)}")
    print(goal_table(Goal(**_without(goal)) for goal in figures["goals"]))
    print(f"\n{path}, bench.md, {len(plots)} plots; {time.monotonic() - started:.0f} s in all")
    if options.quick:
        print("--quick: too few images and runs for any figure to mean anything")


def _known(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text()) if path.exists() else {}


def _plots(path: Path) -> Path:
    return path.with_name("plots")


def _without(goal: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in goal.items() if name != "is_met"}


def _setting(bench: Bench) -> dict[str, Any]:
    facts: dict[str, Any] = dict(setting(()))
    own = {name: value for name, value in setting(OWN).items() if name in OWN}
    return facts | {
        "machine": _processor(),
        "rounds": bench.rounds,
        "versions": own | bench.versions(),
    }


def _processor() -> str:
    with open("/proc/cpuinfo") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


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
    add("--full", action="store_true", help="growth: up to a million files, and 20 GB")
    add("--markdown", action="store_true", help="run nothing; print the last figures as Markdown")
    add("--readme", action="store_true", help="run nothing; put the last figures into README.md")
    add("--work", type=lambda text: Path(text).resolve(), default=WORK, metavar="DIR")
    return parser


if __name__ == "__main__":
    main()
