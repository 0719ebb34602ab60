from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from conftest import ROOT
from pictures import class_tree

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


def test_the_trap_works(tmp_path: Path) -> None:
    done, sprung = run_with_trap(tmp_path, "-c", "import tensorflow")
    assert done.returncode == 1
    assert sprung


def test_importing_imgrec_imports_nothing_heavy(tmp_path: Path) -> None:
    code = (
        "import imgrec, sys; imgrec.pack; "
        "print([m for m in ('numpy', 'PIL', 'pyarrow', 'tqdm', 'simplejpeg') if m in sys.modules])"
    )
    done, sprung = run_with_trap(tmp_path, "-c", code)
    assert done.stdout == "[]\n"
    assert not sprung


def test_a_whole_pack_never_imports_tensorflow(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "flowers", {"rose": 3, "tulip": 3})
    done, sprung = run_with_trap(
        tmp_path, "-m", "imgrec", "pack", str(source), "--val-split", "0.3"
    )
    assert done.stderr == ""
    assert done.returncode == 0
    assert not sprung
