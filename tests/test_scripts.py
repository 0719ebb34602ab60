"""The scripts set up what they need, once, and install nothing else; the tools are stubs."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from waiting import wait_for

TOOLS = ("sh", "bash", "env", "dirname", "cat", "cmp", "cp", "mkdir", "rm", "sleep")
"""What the scripts call besides the programs that the stubs stand for."""
SYSTEM = {"java": "default-jre-headless", "chromium": "chromium", "zsh": "zsh", "zip": "zip"}
STUB = f"""#!{shutil.which("sh")}
# Note each call, and act as tools do: "-m venv DIR" makes more stubs, "-c CODE" runs.
name=${{0##*/}}
[ "$1" != -c ] || exec {sys.executable} "$@"
echo "$name${{*:+ $*}}" >>"$LOG"
case "$*" in
"-m venv "*)
    mkdir -p "$3/bin"
    cp "$0" "$3/bin/python"
    cp "$0" "$3/bin/ruff"
    cp "$0" "$3/bin/mypy"
    ;;
*"pip install"*"${{FAILING:-nothing}}"*)
    echo "this is what pip said"
    exit 1
    ;;
*"pip install"*)
    echo "DEPRECATION: promise"
    echo half >"${{0%/*}}/half"
    sleep "${{PIP_SECONDS:-0}}"
    echo "$name done" >>"$LOG"
    ;;
-m\\ pytest*) echo "CI=${{CI:-}}" >>"$LOG" ;;
esac
"""
PIP = "python -m pip install --disable-pip-version-check --no-compile"
CHECKS = ("ruff check .", "ruff format --check .", "mypy")


class Checkout:
    """A copy of the scripts, run where only stubs and a few tools are on the path."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "checkout"
        self.bin = folder / "bin"
        self.log = folder / "log"
        self.bin.mkdir()
        for part in ("scripts", ".ci"):
            shutil.copytree(ROOT / part, self.folder / part)
        shutil.copy(ROOT / "pyproject.toml", self.folder)
        for tool in TOOLS:
            (self.bin / tool).symlink_to(shutil.which(tool) or tool)
        self.add_stubs("python3", "apt-get")

    def add_stubs(self, *names: str) -> None:
        for name in names:
            (self.bin / name).write_text(STUB)
            (self.bin / name).chmod(0o755)

    def start(self, script: str, *arguments: str, **variables: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [self.folder / script, *arguments],
            env={"PATH": str(self.bin), "LOG": str(self.log), **variables},
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def run(self, script: str, *arguments: str, **variables: str) -> tuple[list[str], str]:
        """Return the calls that a script made, and what it printed; it must succeed."""
        self.log.write_text("")
        process = self.start(script, *arguments, **variables)
        out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err
        return self.calls(), out + err

    def calls(self) -> list[str]:
        """Return the calls so far, but for those that install nothing."""
        lines = self.log.read_text().splitlines() if self.log.exists() else []
        return [line for line in lines if "compileall" not in line and line != "python done"]

    @property
    def installing(self) -> list[str]:
        """Return the calls that make the environment for the tests."""
        return [
            f"python3 -m venv {self.folder}/.venv",
            f"{PIP} torch==2.13.0+cpu",
            f"{PIP} --editable {self.folder}[dev]",
        ]


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    return Checkout(tmp_path)


PYTEST = "python -m pytest -n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder"


def test_the_test_script_installs_all_extras_and_runs_all_checks(checkout: Checkout) -> None:
    calls, printed = checkout.run("scripts/test", "-k", "spec")
    assert calls == [*checkout.installing, *CHECKS, f"{PYTEST} -k spec", "CI="]
    assert len(printed.splitlines()) == 1


def test_ci_installs_system_packages_and_runs_the_test_script(checkout: Checkout) -> None:
    calls, _ = checkout.run(".ci/run", "-k", "spec")
    missing = " ".join(SYSTEM.values())
    assert calls == [
        "apt-get update -qq",
        f"apt-get install --yes --quiet --no-install-recommends {missing}",
        *checkout.installing,
        *CHECKS,
        f"{PYTEST} -k spec",
        "CI=true",
    ]


def test_ci_installs_no_system_package_that_is_there(checkout: Checkout) -> None:
    checkout.add_stubs(*SYSTEM)
    calls, _ = checkout.run(".ci/run")
    assert calls == [*checkout.installing, *CHECKS, PYTEST, "CI=true"]


def test_the_first_command_installs_only_what_it_needs(checkout: Checkout) -> None:
    calls, printed = checkout.run("scripts/imgrec", "pack", "flowers")
    assert calls == [
        checkout.installing[0],
        f"{PIP} --editable {checkout.folder}[tfds,view]",
        "python -P -m imgrec pack flowers",
    ]
    what = f"setting up {checkout.folder}/.venv with imgrec[tfds,view]"
    assert printed == f"{what} (once; this takes a few minutes)\n"


def test_what_is_set_up_is_not_set_up_again(checkout: Checkout) -> None:
    checkout.run("scripts/test")
    assert checkout.run("scripts/test") == ([*CHECKS, PYTEST, "CI="], "")
    assert checkout.run("scripts/imgrec") == (["python -P -m imgrec"], "")


def test_other_requirements_are_set_up_anew(checkout: Checkout) -> None:
    checkout.run("scripts/test")
    with (checkout.folder / "pyproject.toml").open("a") as file:
        file.write("# changed\n")
    assert checkout.run("scripts/test")[0][:2] == checkout.installing[1:]


def test_the_cpu_build_of_torch_is_looked_for_at_pytorch_and_then_any_build(
    checkout: Checkout,
) -> None:
    calls, printed = checkout.run("scripts/test", FAILING="+cpu")
    assert calls[1:4] == [
        f"{PIP} torch==2.13.0+cpu",
        f"{PIP} torch==2.13.0+cpu --extra-index-url https://download.pytorch.org/whl/cpu",
        f"{PIP} torch==2.13.0",
    ]
    assert len(printed.splitlines()) == 1


@pytest.mark.parametrize("script", ["scripts/imgrec", "scripts/test", ".ci/run"])
def test_a_set_up_that_fails_shows_why_and_is_tried_again(checkout: Checkout, script: str) -> None:
    process = checkout.start(script, FAILING="--editable")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 1
    assert not out
    assert err.splitlines()[0].startswith("setting up ")
    assert err.endswith("this is what pip said\n")
    assert "pip install" in checkout.calls()[-1]  # nothing is run after it
    calls, _ = checkout.run(script)
    assert any("--editable" in call for call in calls)
    assert not any("-m venv" in call for call in calls)  # what was there before is kept


def test_a_set_up_that_is_killed_starts_afresh(checkout: Checkout) -> None:
    process = checkout.start("scripts/test", PIP_SECONDS="60")
    wait_for(lambda: (checkout.folder / ".venv/bin/half").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    calls, _ = checkout.run("scripts/imgrec")
    assert calls[0] == checkout.installing[0]
    assert "--editable" in calls[1]


def test_a_set_up_that_is_killed_leaves_the_environment_of_another_checkout_alone(
    checkout: Checkout, tmp_path: Path
) -> None:
    """Worktrees may share one environment by a link."""
    shared = tmp_path / "shared"
    shared.mkdir()
    (checkout.folder / ".venv").symlink_to(shared)
    process = checkout.start("scripts/imgrec", PIP_SECONDS="60")
    wait_for(lambda: (shared / "bin/half").exists())
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    checkout.run("scripts/imgrec")
    assert (shared / "bin/half").exists()
    assert not (checkout.folder / ".venv").is_symlink()


def test_two_set_ups_at_once_take_turns(checkout: Checkout) -> None:
    both = [checkout.start("scripts/imgrec", PIP_SECONDS="0.5") for _ in range(2)]
    assert [(process.communicate(timeout=60), process.returncode)[1] for process in both] == [0, 0]
    assert sum("pip install" in call for call in checkout.calls()) == 1
