"""The figures as pictures: bars relative to imgrec = 1, and lines for growth."""

from __future__ import annotations

import re
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benching.goals import against, loader_of, median_s, rate_of
from benching.markdown import RANDOM, SETS, TRACKS
from benching.packing import PACKERS

OURS, PEER, LIMIT = "#1a7f37", "#8c959f", "#d4a72c"
INK, LINES = "#57606a", "#d0d7de"
"""Colours that can be read on white and on black."""
_TITLE = re.compile(r"[*`]")
Bar = tuple[str, float, str]


def draw(figures: Mapping[str, Any], folder: Path) -> list[Path]:
    """Draw all that was measured; return the files."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "imgrec", "font.size": 8, "svg.fonttype": "path"}
    folder.mkdir(parents=True, exist_ok=True)
    panels = _panels(figures)
    made = [_bars(folder / f"{name}.svg", {title: bars}) for name, (title, bars) in panels.items()]
    chosen = [panels[name] for name in ("pack-photos20k", "load-photos224") if name in panels]
    if chosen:
        made.append(_bars(folder / "speed.svg", dict(chosen)))
    if figures.get("growth"):
        made.append(_growth(folder / "growth.svg", figures["growth"]))
    return made


def _panels(figures: Mapping[str, Any]) -> dict[str, tuple[str, list[Bar]]]:
    panels = {}
    for name, value in figures.get("pack", {}).items():
        runs = value["runs"]
        if "structure" not in runs:
            continue
        rates = {each: value["images"] / median_s(runs[each]) for each in runs}
        memory = {each: max(run["peak_bytes"] for run in runs[each]) for each in runs}
        panels[f"pack-{name}"] = (f"pack rate, {SETS[name]}", _packers(rates))
        panels[f"memory-{name}"] = (f"peak memory of a pack, {SETS[name]}", _packers(memory))
    if "structure" in figures.get("start", {}):
        start = {name: statistics.median(each) for name, each in figures["start"].items()}
        panels["start"] = ("time to pack ten images", _packers(start))
    for kind, titles in (("load", TRACKS), ("random", RANDOM)):
        for name, value in figures.get(kind, {}).items():
            panels[f"{kind}-{name}"] = (f"{kind} rate, {titles[name]}", _loaders(value))
    return panels


def _packers(values: Mapping[str, float]) -> list[Bar]:
    ours = values["structure"]
    return [(_plain(PACKERS[name].title), values[name] / ours, _of_packer(name)) for name in values]


def _of_packer(name: str) -> str:
    packer = PACKERS[name]
    return OURS if packer.is_ours else LIMIT if packer.is_limit else PEER


def _loaders(value: Mapping[str, Any]) -> list[Bar]:
    rates = {name: rate_of(result) for name, result in value["contenders"].items()}
    bars = [("imgrec, the loader of the same kind", 1.0, OURS)]
    for name, rate in rates.items():
        loader, ours = loader_of(name, value), against(name, value)
        if ours in rates:
            colour = LIMIT if loader.is_limit else PEER
            bars.append((_plain(loader.title), rate / rates[ours], colour))
    return bars


def _plain(title: str) -> str:
    return _TITLE.sub("", title)


def _bars(path: Path, panels: Mapping[str, list[Bar]]) -> Path:
    from matplotlib.figure import Figure

    most = max(len(bars) for bars in panels.values())
    figure = Figure(figsize=(5.2 * len(panels), 0.5 + 0.22 * most), layout="constrained")
    for axes, (title, bars) in zip(
        figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True
    ):
        bars = sorted(bars, key=lambda bar: bar[1])
        names = [f"{title}{' ' * place}" for place, (title, _, _) in enumerate(bars)]
        drawn = axes.barh(names, [bar[1] for bar in bars], color=[bar[2] for bar in bars])
        axes.bar_label(drawn, fmt="%.2f", padding=2, color=INK)
        axes.set_yticks(range(len(bars)), [bar[0] for bar in bars])
        axes.axvline(1, color=OURS, linewidth=0.8)
        axes.set_title(f"{title}; imgrec = 1", color=INK)
        _quieten(axes)
    return _save(figure, path)


def _growth(path: Path, growth: Mapping[str, list[Mapping[str, float]]]) -> Path:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.5), layout="constrained")
    grid = figure.subplots(2, 2, squeeze=False)
    units = {"files": ("files", 1.0), "gigabytes": ("bytes", 1e9)}
    for row, (kind, points) in zip(grid, growth.items(), strict=False):
        field, unit = units[kind]
        sizes = [point[field] / unit for point in points]
        row[0].plot(sizes, [point["wall_s"] for point in points], "o-", color=OURS)
        row[0].set_title(f"seconds by {kind}", color=INK)
        for field, colour in (("main_bytes", PEER), ("worker_bytes", OURS)):
            name = field.removesuffix("_bytes")
            row[1].plot(sizes, [p[field] / 1e6 for p in points], "o-", color=colour, label=name)
        row[1].set_title(f"peak MB of a process by {kind}", color=INK)
        row[1].legend(frameon=False, labelcolor=INK)
        for axes in row:
            axes.set_xscale("log")
            axes.set_yscale("log")
            _quieten(axes)
    return _save(figure, path)


def _quieten(axes: Any) -> None:
    axes.tick_params(colors=INK)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(LINES)


def _save(figure: Any, path: Path) -> Path:
    figure.savefig(path, transparent=True, metadata={"Date": None})
    return path
