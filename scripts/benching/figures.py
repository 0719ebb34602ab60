"""The figures as Markdown tables, as ratios with their targets, and as one plot."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from benching.loaders import LOADERS, READERS, STREAMS, Loader
from benching.packers import PACKERS

Figures = Mapping[str, Any]
BEGIN, END = "<!-- figures: scripts/bench.py --manual -->", "<!-- end of figures -->"
PLOT = "![Rates of packers and loaders, relative to imgrec](../../.github/speed.svg)"
SETS = {
    "photos5k": "5,000 photos",
    "photos20k": "20,000 photos",
    "tiny50k": "50,000 of 32x32",
}
TRACKS = {"photos224": "photos to 224 px", "photos96": "photos to 96 px", "tiny": "32x32"}
RANDOM = {"photos": "photos", "tiny": "32x32"}


class Target(NamedTuple):
    """A ratio of times, ours to another's, and the most it should be."""

    part: str
    images: str
    ours: str
    other: str
    most: float


TARGETS = (
    Target("pack", "photos20k", "structure", "tar", 1.0),
    Target("pack", "photos20k", "structure", "tfds", 1 / 6),
    Target("pack", "photos20k", "decode", "libjpeg", 1 / 0.75),
    Target("pack", "tiny50k", "structure", "tar", 2.0),
    Target("pack", "tiny50k", "decode", "tfds", 1 / 7),
    Target("cold", "photos5k", "structure", "tar", 1.0),
    Target("cold", "tiny50k", "structure", "tar", 1.0),
)


def ratios(figures: Figures) -> str:
    """Return each measured ratio beside its target."""
    rows = [["time of imgrec / time of another", "measured", "target"]]
    for part, images, ours, other, most in TARGETS:
        medians = _median_seconds(figures.get(part, {}).get(images, {}))
        if ours in medians and other in medians:
            value = medians[ours] / medians[other]
            rows.append([f"{part} {images}: {ours} / {other}", f"{value:.2f}", f"<= {most:.2f}"])
    if resume := figures.get("resume"):
        rows.append(
            ["rest of a killed pack / whole pack", f"{_resume_ratio(resume):.2f}", "<= 0.20"]
        )
    if update := figures.get("update"):
        seconds = _median_seconds(update)
        scan_s = statistics.median(update["scan_s"])
        rows += [
            [f"update {name}", f"{seconds[name]:.2f} s of {seconds['pack']:.2f} s", most]
            for name, most in (
                ("nothing", f"<= {1 + scan_s:.2f} s"),
                ("added", f"<= {0.1 * seconds['pack'] + 1:.2f} s"),
                ("changed", "the shards touched"),
            )
        ]
    if stores := figures.get("stores"):
        for name, state, least in (
            ("stream", "cold", 1.0),
            ("stream", "warm", 1.0),
            ("torch", "cold", 0.5),
            ("torch", "warm", 0.5),
            ("torch_uncached", "cold", 0.5),
        ):
            if {name, "mds"} <= {*stores["contenders"]}:
                ours, theirs = (_far(stores, each, state) for each in (name, "mds"))
                what = f"rate from a store, {state}: {name} / mds"
                rows.append([what, f"{ours['rate'] / theirs['rate']:.2f}", f">= {least:.2f}"])
                what = f"images per CPU second, {state}: {name} / mds"
                rows.append([what, f"{theirs['cpu_ms'] / ours['cpu_ms']:.2f}", ""])
    return table(rows)


def _far(race: Figures, name: str, state: str) -> dict[str, float]:
    """Return the medians of a loader's epochs from a store."""
    epochs = race["contenders"][name][state]
    return {key: statistics.median(epoch[key] for epoch in epochs) for key in epochs[0]}


def _median_seconds(race: Figures) -> dict[str, float]:
    """Return the median seconds of each packer of a race."""
    runs = race.get("runs", {}).items()
    return {name: statistics.median(run["wall_s"] for run in each) for name, each in runs}


def _resume_ratio(race: Figures) -> float:
    """Return the time of the rest of a killed pack, as a fraction of a whole pack."""
    seconds = _median_seconds(race)
    return seconds["rest"] / seconds["whole"]


def _median_rate(result: Figures) -> float:
    return float(statistics.median(result["rates"]))


def markdown(figures: Figures) -> str:
    """Return all figures as Markdown."""
    return "\n\n".join(_parts(figures)) + "\n"


def write_manual(page: Path, figures: Figures) -> None:
    """Replace the block of figures in a page."""
    before, begin, rest = page.read_text().partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{page} has no {BEGIN} followed by {END}")
    page.write_text(f"{before}{BEGIN}\n\n{PLOT}\n\n{markdown(figures)}\n{END}{after}")


def _parts(figures: Figures) -> Iterator[str]:
    if figures.get("pack"):
        yield (
            "Packing in seconds; in brackets, as a multiple of imgrec with `--check structure`. "
            "Memory is the peak of all processes together; start-up is a pack of ten images."
        )
        yield _packing(figures)
    for part, titles, known, what in (
        ("load", TRACKS, LOADERS, "Loading in images per second"),
        ("random", RANDOM, READERS, "Single records at random, in records per second"),
    ):
        if figures.get(part):
            yield f"{what}; in brackets, as a multiple of imgrec's own loader of the same kind."
            yield _loading(figures[part], titles, known)
    for name, race in figures.get("cold", {}).items():
        times = [f"{PACKERS[each].title} {s:.2f} s" for each, s in _median_seconds(race).items()]
        yield f"From a cold cache, {SETS[name]}: {', '.join(times) or race['skipped']}."
    if resume := figures.get("resume"):
        yield f"Continuing a pack that was killed at 90 %: {_resume_ratio(resume):.2f} of a whole."
    if update := figures.get("update"):
        seconds, changed = _median_seconds(update), update["facts"]["changed"]
        yield (
            f"Packing {update['images']:,} photos takes {seconds['pack']:.1f} s. Updating that "
            f"dataset takes {seconds['nothing']:.1f} s if nothing has changed, "
            f"{seconds['added']:.1f} s after adding 1 %, and {seconds['changed']:.1f} s after "
            "removing 5 images and relabelling 5, when "
            f"{changed['reused_shards']} of {changed['shards']} shards are reused."
        )
    if stores := figures.get("stores"):
        yield (
            f"{stores['images']:,} photos to 224 px from an S3 server on the same CPUs that waits "
            "40 ms before each answer, in images per second: with an empty cache, and once more; "
            "and the CPU time of an image in both."
        )
        yield _stores(stores)
    facts = figures["setting"]
    versions = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    yield (
        f"{facts['machine']}, {facts['cpus']} CPUs, Python {facts['python']}; {versions}. "
        f"Medians of {facts['rounds']} interleaved rounds."
    )
    for name, reason in figures.get("skipped", {}).items():
        yield f"Not run: {name}: {reason}"


def _packing(figures: Figures) -> str:
    races = {name: race for name, race in figures["pack"].items() if race["runs"]}
    largest = races.get("photos20k") or next(iter(races.values()))
    rows = [["", *(SETS[name] for name in races), "memory", "start-up"]]
    start = _median_seconds(figures.get("start", {}))
    for name, packer in PACKERS.items():
        if any(name in race["runs"] for race in races.values()):
            memory = max((run["peak_bytes"] for run in largest["runs"].get(name, ())), default=0)
            rows.append(
                [
                    packer.title,
                    *(
                        _relative(name, "structure", _median_seconds(race))
                        for race in races.values()
                    ),
                    f"{memory / 1e6:,.0f} MB" if memory else "",
                    f"{start[name]:.2f} s" if name in start else "",
                ]
            )
    return table(rows)


def _relative(name: str, ours: str, values: Mapping[str, float]) -> str:
    """Return a value, and in brackets how it compares with one of imgrec's."""
    if name not in values:
        return ""
    value = values[name]
    text = f"{value:.2f}" if value < 100 else f"{value:,.0f}"
    return f"{text} ({value / values[ours]:.2g})" if ours in values else text


def _loading(races: Figures, titles: Mapping[str, str], known: Mapping[str, Loader]) -> str:
    races = {name: races[name] for name in titles if name in races}
    rows = [["", "pixels", *(titles[name] for name in races), "memory", "first batch"]]
    for name, loader in known.items():
        results = [r["contenders"][name] for r in races.values() if name in r["contenders"]]
        if results:
            rates = [
                {each: _median_rate(found) for each, found in race["contenders"].items()}
                for race in races.values()
            ]
            cells = [_relative(name, loader.against, each) for each in rates]
            memory, first = results[0]["peak_bytes"] / 1e6, results[0]["first_s"]
            rows.append(
                [loader.title, loader.pixels, *cells, f"{memory:,.0f} MB", f"{first:.1f} s"]
            )
    return table(rows)


def _stores(race: Figures) -> str:
    rows = [["", "cold", "warm", "CPU", "requests an image", "bytes an image", "memory"]]
    for name, result in race["contenders"].items():
        cold, warm = _far(race, name, "cold"), _far(race, name, "warm")
        rows.append(
            [
                STREAMS[name].title,
                *(f"{one['rate']:,.0f}" for one in (cold, warm)),
                " / ".join(f"{one['cpu_ms']:.2f}" for one in (cold, warm)) + " ms",
                f"{cold['requests']:.2f}",
                f"{cold['bytes']:,.0f}",
                f"{result['peak_bytes'] / 1e6:,.0f} MB",
            ]
        )
    return table(rows)


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the titles, as a Markdown table."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])


def draw(figures: Figures, path: Path) -> None:
    """Draw the rates of packers and loaders, imgrec = 1, as SVG."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams |= {"svg.hashsalt": "imgrec", "font.size": 8, "svg.fonttype": "path"}
    from matplotlib.figure import Figure

    panels = list(_panels(figures))
    if not panels:
        return
    most = max(len(bars) for _, bars in panels)
    figure = Figure(figsize=(5.2 * len(panels), 0.5 + 0.22 * most), layout="constrained")
    grid = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, bars) in zip(grid, panels, strict=True):
        names, values = zip(*sorted(bars.items(), key=lambda bar: bar[1]), strict=True)
        colours = ["#1a7f37" if "imgrec" in name else "#8c959f" for name in names]
        axes.bar_label(axes.barh(names, values, color=colours), fmt="%.2f", padding=2)
        axes.set_title(f"{title}; imgrec = 1")
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, transparent=True, metadata={"Date": None})


def _panels(figures: Figures) -> Iterator[tuple[str, dict[str, float]]]:
    seconds = _median_seconds(figures.get("pack", {}).get("photos20k", {}))
    if "structure" in seconds:
        yield (
            "pack rate, 20,000 photos",
            {
                _plain(PACKERS[name].title): seconds["structure"] / each
                for name, each in seconds.items()
            },
        )
    if race := figures.get("load", {}).get("photos224"):
        rates = {name: _median_rate(found) for name, found in race["contenders"].items()}
        bars = {
            _plain(LOADERS[name].title): rate / rates[LOADERS[name].against]
            for name, rate in rates.items()
            if LOADERS[name].against in rates
        }
        yield "load rate, photos to 224 px", {"imgrec, the loader of the same kind": 1.0, **bars}


def _plain(title: str) -> str:
    return title.replace("*", "").replace("`", "")
