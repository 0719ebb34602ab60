"""What it costs to update a dataset, next to packing it."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benching.images import ImageSet, make_images
from benching.packers import imgrec_pack
from benching.runs import Run, cleared, timed

ADDED = 0.01
"""The part of all images that is added."""
CHANGED = 5
"""How many are removed, and how many relabelled."""
SETTLED_S = 3
"""Files that have just changed are read again, whatever their dates say."""


def race_updates(work: Path, images: ImageSet, rounds: int) -> dict[str, Any]:
    """Time a pack, and updates after nothing, after 1 % more, and after a few other changes."""
    whole = make_images(work, images)
    more = make_images(work, ImageSet(images.kind, round(images.count * ADDED)))
    source, output = work / "growing", work / "output"
    runs: dict[str, list[Run]] = {"pack": [], "nothing": [], "added": [], "changed": []}
    facts: dict[str, dict[str, Any]] = {}
    scan_s = []
    for number in range(rounds):
        shutil.rmtree(source, ignore_errors=True)
        shutil.copytree(whole, source, copy_function=os.link)
        time.sleep(SETTLED_S)
        cleared(output)
        runs["pack"].append(timed(imgrec_pack(source, output, "--name", "growing"))[0])
        scan_s.append(_scan_s(source))
        _update("nothing", output, runs, facts)
        for path in sorted(more.glob("*/*.jpg")):
            os.link(path, source / path.parent.name / f"more_{path.name}")
        _update("added", output, runs, facts)
        paths = sorted(source.glob("class_00/photos_*.jpg"))
        for path in paths[:CHANGED]:
            path.unlink()
        for path in paths[CHANGED : 2 * CHANGED]:
            path.rename(source / "class_01" / f"moved_{path.name}")
        _update("changed", output, runs, facts)
        medians = {name: f"{each[-1].wall_s:.2f} s" for name, each in runs.items()}
        print(f"  round {number + 1}: {medians}", file=sys.stderr)
    cleared(output)
    shutil.rmtree(source)
    as_json = {name: [asdict(run) for run in each] for name, each in runs.items()}
    return {"images": images.count, "runs": as_json, "scan_s": scan_s, "facts": facts}


def _update(
    name: str, output: Path, runs: dict[str, list[Run]], facts: dict[str, dict[str, Any]]
) -> None:
    run, printed = timed(_command(output))
    value = json.loads(printed)
    runs[name].append(run)
    facts[name] = {key: value[key] for key in ("shards", "reused_shards", "written_bytes")}


def _command(output: Path) -> Sequence[str]:
    return [
        *(sys.executable, "-P", "-m", "imgrec", "update", "growing", "--quiet", "--json"),
        *("--data-dir", str(output), "--workers", "2"),
    ]


def _scan_s(source: Path) -> float:
    """Return how long it takes to list the source and to ask for the size of each file."""
    start = time.perf_counter()
    for folder, _, names in os.walk(source):
        for name in names:
            os.lstat(os.path.join(folder, name))
    return time.perf_counter() - start
