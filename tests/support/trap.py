"""Detect whether a command imports TensorFlow."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT

TRAP = """
import os
open(os.environ["TRAP"], "a").write(__name__)
raise ImportError("imported")
"""


def run_with_trap(tmp_path: Path, *command: str) -> tuple[subprocess.CompletedProcess[str], bool]:
    """Run Python where importing TensorFlow or TFDS, in any process, leaves a trace."""
    traps = tmp_path / "traps"
    traps.mkdir()
    for name in ("tensorflow", "tensorflow_datasets"):
        (traps / f"{name}.py").write_text(TRAP)
    trace = tmp_path / "trace"
    environment = {
        **os.environ,
        "PYTHONPATH": f"{traps}{os.pathsep}{ROOT}",
        "TRAP": str(trace),
        "TFDS_DATA_DIR": str(tmp_path / "data"),
    }
    done = subprocess.run(
        [sys.executable, *command], env=environment, text=True, capture_output=True, timeout=120
    )
    return done, trace.exists()
