"""The training scripts reach the accuracy that they state."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec

import pytest
from conftest import ROOT


@pytest.mark.slow
@pytest.mark.parametrize(
    ("script", "framework"),
    [
        ("train_keras.py", "keras"),
        pytest.param("train_torch.py", "torch", marks=pytest.mark.torch),
    ],
)
def test_a_script_trains_to_the_accuracy_it_states(script: str, framework: str) -> None:
    if find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    done = subprocess.run(
        [sys.executable, ROOT / "scripts" / script],
        # Threads that wait for each other by spinning take minutes where others compute too.
        env={**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"},
        text=True,
        capture_output=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert re.fullmatch(r"validation accuracy [01]\.\d{3}, at least 0\.9 expected", last)
