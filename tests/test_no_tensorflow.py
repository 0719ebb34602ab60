from __future__ import annotations

from pathlib import Path

from pictures import class_tree
from trap import run_with_trap


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
