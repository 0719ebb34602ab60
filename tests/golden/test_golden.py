"""The output of imgrec, byte by byte and fact by fact, against what was recorded."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from evidence import EXPECTED, ROOT, comparable, gather
from sources import CASES

_RECORD = json.loads(EXPECTED.read_text())


def _expected(name: str) -> object:
    return comparable(_RECORD["cases"][name], CASES[name], _RECORD["libraries"])


@pytest.mark.parametrize("name", CASES)
def test_what_a_source_becomes_is_as_recorded(name: str, tmp_path: Path) -> None:
    evidence = json.loads(json.dumps(gather(CASES[name], tmp_path / "run")))
    assert comparable(evidence, CASES[name], _RECORD["libraries"]) == _expected(name)
    assert evidence["answers"]["pack"][0] == CASES[name].exit_code


def test_every_recorded_case_is_still_packed() -> None:
    assert sorted(_RECORD["cases"]) == sorted(CASES)


def test_a_pack_that_was_killed_continues_to_the_recorded_bytes(tmp_path: Path) -> None:
    folder, case = tmp_path / "run", CASES["shards"]
    (folder / "killed").mkdir(parents=True)
    case.make(folder / "killed")
    command = [sys.executable, "-m", "imgrec", "pack", str(folder / "killed"), "--name", "golden"]
    environment = {
        **os.environ, "TFDS_DATA_DIR": str(folder / "data"), "PYTHONPATH": str(ROOT)
    }  # fmt: skip
    packing = subprocess.Popen(
        [*command, *case.options, "--quiet"], env=environment, stdout=subprocess.DEVNULL
    )
    while not list((folder / "data").rglob("*tfrecord-*")) and packing.poll() is None:
        time.sleep(0.005)
    packing.send_signal(signal.SIGKILL)
    packing.wait()
    evidence = json.loads(json.dumps(gather(case, folder)))
    expected = _RECORD["cases"]["shards"]
    assert evidence["answers"]["pack"][0] == 0
    assert (
        comparable(evidence, case, _RECORD["libraries"])["files"]
        == (  # type: ignore[index]
            comparable(expected, case, _RECORD["libraries"])["files"]  # type: ignore[index]
        )
    )


@pytest.mark.spark
def test_spark_packs_the_recorded_bytes(tmp_path: Path) -> None:
    for name in ("folder", "shards"):
        case = CASES[name]
        engine = ("--engine", "spark", "--spark-master", "local[2]")
        evidence = gather(case, tmp_path / name, engine=engine)
        found = comparable(evidence, case, _RECORD["libraries"])
        assert found["files"] == _expected(name)["files"]  # type: ignore[index]
