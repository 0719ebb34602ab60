"""The figures as Markdown, and the README's block of it."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benching.goals import against, loader_of, median_s, rate_of
from benching.loading import LOADERS, READERS
from benching.packing import PACKERS

BEGIN, END = "<!-- figures: scripts/bench.py --readme -->", "<!-- end of figures -->"
PLOT = "![Rates of packers and loaders, relative to imgrec](.github/speed.svg)"
SETS = {
    "photos5k": "5,000 photos",
    "photos20k": "20,000 photos",
    "tiny50k": "50,000 of 32x32",
}
TRACKS = {"photos224": "photos to 224 px", "photos96": "photos to 96 px", "tiny": "32x32"}
RANDOM = {"photos": "photos", "tiny": "32x32"}


def written(figures: Mapping[str, Any]) -> str:
    """Return all figures as Markdown."""
    return "\n\n".join(_parts(figures)) + "\n"


def into_readme(readme: Path, figures: Mapping[str, Any]) -> None:
    """Replace what stands between the two comments of a README."""
    before, begin, rest = readme.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{readme} has no {BEGIN} followed by {END}")
    readme.write_text(f"{before}{BEGIN}\n\n{PLOT}\n\n{written(figures)}\n{END}{after}")


def _parts(figures: Mapping[str, Any]) -> Iterator[str]:
    if figures.get("pack"):
        yield (
            "Packing, in seconds, and in brackets as a multiple of what imgrec takes with "
            "`--check structure`; memory is the most that all processes had at one time, and "
            "start-up a pack of ten images:"
        )
        yield _packing(figures)
    if figures.get("load"):
        yield (
            "Loading, in images a second, and in brackets as a multiple of the rate of imgrec's "
            "own loader of the same kind and type; first is the time from the start of the "
            "process to its first batch of photos at 224 px:"
        )
        yield _loading(figures["load"], TRACKS, LOADERS)
    if figures.get("random"):
        yield "Records read one by one at random, bytes and label, in records a second:"
        yield _loading(figures["random"], RANDOM, READERS)
    yield from _sentences(figures)


def _packing(figures: Mapping[str, Any]) -> str:
    sets = {name: value for name, value in figures["pack"].items() if value["runs"]}
    largest = next((name for name in ("photos20k", *sets) if name in sets), "")
    rows = [["", *(SETS.get(name, name) for name in sets), "memory", "start-up"]]
    for name, packer in PACKERS.items():
        if not any(name in value["runs"] for value in sets.values()):
            continue
        cells = [_seconds(name, value) for value in sets.values()]
        runs = sets[largest]["runs"].get(name, ())
        memory = max((run["peak_bytes"] for run in runs), default=0)
        start = figures.get("start", {}).get(name)
        cells += [f"{memory / 1e6:,.0f} MB" if memory else ""]
        cells += [f"{statistics.median(start):.2f} s" if start else ""]
        rows.append([packer.title, *cells])
    return table(rows)


def _seconds(name: str, value: Mapping[str, Any]) -> str:
    if name not in value["runs"]:
        return ""
    seconds = median_s(value["runs"][name])
    if "structure" not in value["runs"]:
        return f"{seconds:.2f}"
    return f"{seconds:.2f} ({seconds / median_s(value['runs']['structure']):.2g})"


def _loading(races: Mapping[str, Any], titles: Mapping[str, str], known: Mapping[str, Any]) -> str:
    races = {name: races[name] for name in titles if name in races}
    first = next(iter(races.values()))
    is_bytes = not first["batch"]
    names = [*known, *([] if is_bytes else ["load_cached"])]
    head = [] if is_bytes else ["pixels"]
    tail = ["memory"] if is_bytes else ["memory", "first"]
    rows = [["", *head, *(titles[name] for name in races), *tail]]
    for name in names:
        holders = [value for value in races.values() if name in value["contenders"]]
        if not holders:
            continue
        loader = loader_of(name, holders[0])
        result = holders[0]["contenders"][name]
        cells = [] if is_bytes else [loader.pixels]
        cells += [_rate(name, value) for value in races.values()]
        cells += [f"{result['peak_bytes'] / 1e6:,.0f} MB"]
        cells += [] if is_bytes else [f"{result['first_s']:.1f} s"]
        rows.append([loader.title, *cells])
    return table(rows)


def _rate(name: str, value: Mapping[str, Any]) -> str:
    contenders = value["contenders"]
    if name not in contenders:
        return ""
    rate, ours = rate_of(contenders[name]), against(name, value)
    if ours not in contenders:
        return f"{rate:,.0f}"
    return f"{rate:,.0f} ({rate / rate_of(contenders[ours]):.2f})"


def _sentences(figures: Mapping[str, Any]) -> Iterator[str]:
    for name, value in figures.get("cold", {}).items():
        if "skipped" in value:
            yield f"From a cold cache: not measured, as {value['skipped']}."
            continue
        medians = {each: statistics.median(times) for each, times in value["seconds"].items()}
        told = ", ".join(f"{PACKERS[each].title} {took:.2f} s" for each, took in medians.items())
        yield f"From a cold cache, {SETS.get(name, name)}: {told}."
    if growth := figures.get("growth"):
        yield _growth(growth)
    if ahead := [*_faster_packers(figures), *_faster_loaders(figures)]:
        yield f"Ahead of imgrec: {'; '.join(ahead)}."
    facts = figures["setting"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    yield (
        f"{facts['machine']}, {facts['cpus']} CPUs, Python {facts['python']}; {versions}. "
        f"Medians of {facts['rounds']} interleaved rounds."
    )
    if skipped := figures.get("skipped"):
        told = "; ".join(f"{name}: {reason.rstrip('.')}" for name, reason in skipped.items())
        yield f"Not run: {told}."


def _faster_packers(figures: Mapping[str, Any]) -> Iterator[str]:
    """Say who packs, or only copies, in less time than imgrec packs."""
    for name, value in figures.get("pack", {}).items():
        runs = value["runs"]
        for each in runs if "structure" in runs else ():
            share = median_s(runs[each]) / median_s(runs["structure"])
            if share < 1 and not PACKERS[each].is_ours:
                yield f"{PACKERS[each].title}, {SETS[name]}: {share:.2f} of the time"


def _faster_loaders(figures: Mapping[str, Any]) -> Iterator[str]:
    """Say which peers load faster than what of imgrec's does the same work."""
    for kind, titles in (("load", TRACKS), ("random", RANDOM)):
        for name, value in figures.get(kind, {}).items():
            rates = {each: rate_of(result) for each, result in value["contenders"].items()}
            for each in rates:
                ours, loader = against(each, value), loader_of(each, value)
                if ours in rates and not loader.is_limit and rates[each] > rates[ours]:
                    times = rates[each] / rates[ours]
                    yield f"{loader.title}, {titles[name]}: {times:.2f} of the rate"


def _growth(growth: Mapping[str, Sequence[Mapping[str, float]]]) -> str:
    rows = [["pack of", "seconds", "us a file", "MB/s", "main process", "a worker"]]
    for kind, points in growth.items():
        for point in points:
            size = f"{point['bytes'] / 1e9:.1f} GB of photos"
            rows.append(
                [
                    f"{point['files']:,.0f} files" if kind == "files" else size,
                    f"{point['wall_s']:.2f}",
                    f"{point['wall_s'] / point['files'] * 1e6:.0f}",
                    f"{point['bytes'] / point['wall_s'] / 1e6:,.0f}",
                    f"{point['main_bytes'] / 1e6:,.0f} MB",
                    f"{point['worker_bytes'] / 1e6:,.0f} MB",
                ]
            )
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the titles, as a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
