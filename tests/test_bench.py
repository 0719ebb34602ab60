"""The benchmark runs, checks what it runs, and tells what it found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import ROOT

BENCH = ROOT / "scripts" / "bench.py"
PEERS = ("tar", "cp", "tfds", "tutorial")


def bench(work: Path, *options: str) -> str:
    command = [sys.executable, BENCH, "--work", work, *options]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, env=environment, text=True, capture_output=True, timeout=900)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_quick_race_of_packers_ends_in_figures_and_tables(tmp_path: Path) -> None:
    if find_spec("tensorflow") is None:
        pytest.skip("tensorflow is not installed")
    printed = bench(
        tmp_path,
        *("--quick", "--here", "--only", "pack", "--data", "tiny50k", "--peers", ",".join(PEERS)),
    )
    figures = json.loads((tmp_path / "bench.json").read_text())
    race = figures["pack"]["tiny50k"]
    assert race["failed"] == {}
    assert {*race["runs"]} == {*PEERS, "structure", "decode"}
    assert all(
        run["wall_s"] > 0 and run["peak_bytes"] > 0
        for runs in race["runs"].values()
        for run in runs
    )
    assert race["images"] == 1000
    assert min(race["output_bytes"].values()) >= race["bytes"]
    rows = printed.splitlines()
    assert [row.split(" | ")[2] for row in rows if row.startswith("| pack ")] == [
        "<= 2.00 |",
        "<= 0.14 |",
    ]
    assert (tmp_path / "bench.md").read_text() in printed
    assert [row for row in rows if row.startswith("| TFDS `GeneratorBasedBuilder` | ")]
    assert [row for row in rows if "--check structure" in row and "(1)" in row]


@pytest.mark.exhaustive
@pytest.mark.slow
def test_a_quick_run_of_updates_ends_in_figures(tmp_path: Path) -> None:
    printed = bench(tmp_path, "--quick", "--here", "--only", "update")
    facts = json.loads((tmp_path / "bench.json").read_text())["update"]["facts"]
    assert facts["nothing"]["reused_shards"] == facts["nothing"]["shards"]
    assert 0 < facts["added"]["reused_shards"] < facts["added"]["shards"]
    assert "Updating that dataset takes" in printed


@pytest.mark.exhaustive
@pytest.mark.slow
@pytest.mark.torch
def test_a_quick_race_from_a_store_makes_no_environment_and_counts_requests(tmp_path: Path) -> None:
    pytest.importorskip("s3fs", reason="s3fs is not installed")
    for package in ("torch", "tensorflow"):
        pytest.importorskip(package, reason=f"{package} is not installed")
    printed = bench(tmp_path, "--quick", "--only", "stores", "--peers", "tar")
    assert not (tmp_path / "venvs").exists()
    race = json.loads((tmp_path / "bench.json").read_text())["stores"]
    assert race["failed"] == {}
    assert all(each["cold"][0]["requests"] > 0 for each in race["contenders"].values())
    assert race["contenders"]["stream"]["warm"][0]["requests"] == 0
    assert "| **`imgrec.torch_stream(shuffle=True)`**, `cache_dir` | " in printed


def test_an_unknown_peer_is_refused(tmp_path: Path) -> None:
    command = [sys.executable, BENCH, "--work", tmp_path, "--peers", "tar,zip"]
    done = subprocess.run(command, text=True, capture_output=True)
    assert done.returncode == 2
    assert done.stderr.splitlines()[-1].endswith("argument --peers: there is no zip")
