"""What the figures are to come to, and whether they do."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from bench_tools import Goal

from benching.loading import CACHED, LOADERS, READERS
from benching.packing import PACKERS

FASTEST = 1.5
GROWTH = 1.2


class Ratio(NamedTuple):
    """Ours against another: "<=" is of their times, ">=" of their rates."""

    ours: str
    other: str
    sign: str
    target: float


RATIOS: Mapping[str, tuple[Ratio, ...]] = {
    "photos20k": (
        Ratio("structure", "tar", "<=", 1),
        Ratio("structure", "tfds", ">=", 6),
        Ratio("decode", "libjpeg", ">=", 0.75),
    ),
    "tiny50k": (
        Ratio("structure", "tar", "<=", 2),
        Ratio("decode", "tfds", ">=", 7),
    ),
}


def goals_of(figures: Mapping[str, Any]) -> Iterator[Goal]:
    """Yield a goal for each thing that was measured."""
    for name, value in figures.get("pack", {}).items():
        yield from _of_packing(name, value)
    for name, value in figures.get("load", {}).items():
        yield from _of_loading(f"load {name}", value)
    for name, value in figures.get("random", {}).items():
        yield from _of_loading(f"random {name}", value)
    for name, value in figures.get("cold", {}).items():
        if "seconds" in value:
            yield from _of_ratios(f"cold {name}", _medians(value["seconds"]), _COLD)
    points = {point["files"]: point for point in figures.get("growth", {}).get("files", ())}
    if 10_000 in points and 1_000_000 in points:
        each = {count: points[count]["wall_s"] / count for count in points}
        what = "growth: time a file, 1,000,000 / 10,000"
        yield Goal(what, each[1_000_000] / each[10_000], "<=", GROWTH)


_COLD = (Ratio("structure", "tar", "<=", 1),)


def _of_packing(name: str, value: Mapping[str, Any]) -> Iterator[Goal]:
    medians = {each: median_s(runs) for each, runs in value["runs"].items()}
    yield from _of_ratios(f"pack {name}", medians, RATIOS.get(name, ()))
    peers = {
        each: seconds
        for each, seconds in medians.items()
        if not PACKERS[each].is_ours and not PACKERS[each].is_limit
    }
    if peers and "structure" in medians:
        fastest = min(peers, key=peers.__getitem__)
        what = f"pack {name}: structure, rate / fastest peer ({fastest})"
        yield Goal(what, peers[fastest] / medians["structure"], ">=", FASTEST)


def _of_ratios(
    name: str, medians: Mapping[str, float], ratios: tuple[Ratio, ...]
) -> Iterator[Goal]:
    for ours, other, sign, target in ratios:
        if ours not in medians or other not in medians:
            continue
        is_time = sign == "<="
        what = f"{name}: {ours}, {'time' if is_time else 'rate'} / {other}"
        value = medians[ours] / medians[other] if is_time else medians[other] / medians[ours]
        yield Goal(what, value, sign, target)


def _of_loading(name: str, value: Mapping[str, Any]) -> Iterator[Goal]:
    rates = {each: rate_of(result) for each, result in value["contenders"].items()}
    for each in rates:
        loader = loader_of(each, value)
        ours = against(each, value)
        if ours in rates and not loader.is_limit:
            yield Goal(f"{name}: {ours}, rate / {each}", rates[ours] / rates[each], ">=", 1)


def loader_of(name: str, value: Mapping[str, Any]) -> Any:
    """Return a contender of a race by its name."""
    return (LOADERS if value["batch"] else READERS)[name] if name != "load_cached" else CACHED


def against(name: str, value: Mapping[str, Any]) -> str:
    """Return which of imgrec's a contender is measured against, or nothing.

    What TFDS keeps in memory is measured against what imgrec keeps there.
    """
    if name == "tfds" and "load_cached" in value["contenders"]:
        return "load_cached"
    return str(loader_of(name, value).against)


def median_s(runs: list[dict[str, float]]) -> float:
    """Return the median seconds of some runs."""
    return statistics.median(run["wall_s"] for run in runs)


def rate_of(result: Mapping[str, Any]) -> float:
    """Return the median rate of a loader."""
    return float(statistics.median(result["rates"]))


def _medians(seconds: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: statistics.median(each) for name, each in seconds.items()}
