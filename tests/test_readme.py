"""The README is true: its commands and code run here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import pytest
from conftest import ROOT

README = (ROOT / "README.md").read_text()
CONSOLE = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
OTHERS = {name: [code for code in PYTHON if name in code] for name in ("torch", "grain")}
"""The code that needs a package which not everyone has."""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def environment(home: Path) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key != "TFDS_DATA_DIR"}
    return {**kept, "HOME": str(home), "TF_CPP_MIN_LOG_LEVEL": "3", "PYTHONPATH": str(ROOT)}


def comparable(text: str, home: Path) -> str:
    """Take out of a summary what differs from machine to machine."""
    text = re.sub(r"speed .*", "speed", text.replace(str(home), "~"))
    return re.sub(r"[\d.]+ KiB|= [\d.]+", "SIZE", text)  # encoders of other versions differ


def test_there_are_commands_and_code_to_run() -> None:
    assert (len(CONSOLE), len(PYTHON)) == (4, 8)
    assert {name: len(blocks) for name, blocks in OTHERS.items()} == {"torch": 1, "grain": 1}


@pytest.mark.parametrize(("command", "output"), CONSOLE)
def test_a_command_prints_what_the_readme_shows(home: Path, command: str, output: str) -> None:
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment(home), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert comparable(done.stdout, home) == comparable(output, home)


def test_the_code_of_the_readme_runs(home: Path) -> None:
    """All blocks in one process, after the command above has packed the flowers."""
    others = set(chain.from_iterable(OTHERS.values()))
    run_code(home, [code for code in PYTHON if code not in others])


@pytest.mark.torch
@pytest.mark.parametrize("package", OTHERS)
def test_the_code_that_needs_more_runs(home: Path, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    command, _output = CONSOLE[0]
    subprocess.run(command, shell=True, cwd=ROOT, env=environment(home), check=True)
    run_code(home, OTHERS[package])


def run_code(home: Path, blocks: list[str]) -> None:
    folder = home / "tensorflow_datasets" / "flowers" / "1.0.0"
    code = f"folder = {str(folder)!r}\n" + "\n".join(blocks)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT, env=environment(home), text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_every_option_of_pack_is_in_the_readme() -> None:
    shown = subprocess.run(
        [sys.executable, "-m", "imgrec", "pack", "--help"],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True, capture_output=True, check=True,
    ).stdout  # fmt: skip
    options = set(re.findall(r"--[a-z-]+", shown)) - {"--help"}
    assert [option for option in sorted(options) if f"`{option}" not in README] == []


def test_every_verb_is_in_the_readme() -> None:
    verbs = {path.stem for path in (ROOT / "imgrec/cli").glob("*.py")}
    verbs -= {"__init__", "arguments", "main", "options", "progress", "render", "subject", "types"}
    assert [verb for verb in sorted(verbs) if f"imgrec {verb} " not in README] == []
