"""Packs that are killed at random points: a few of what `scripts/chaos.py` does at length."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.exhaustive)])
def test_a_dataset_is_whole_at_all_times_and_the_same_in_the_end(tmp_path: Path, seed: int) -> None:
    script = str(ROOT / "scripts" / "chaos.py")
    options = ["--kills", "6", "--seed", str(seed), "--images", "80", "--shards", "12"]
    done = subprocess.run(
        [sys.executable, script, *options, "--folder", str(tmp_path)],
        text=True,
        capture_output=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].startswith("every dataset was whole at all times")
    assert list(tmp_path.iterdir()) == []
