"""The README is true: its commands and code run."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from itertools import chain
from pathlib import Path

import downloads
import pytest
from conftest import ROOT

from imgrec.cli.parser import VERBS as NAMES
from imgrec.cli.parser import verb_parser

README = (ROOT / "README.md").read_text()
CONSOLE = re.findall(r"```console\n\$ (.*?)\n(.*?)```", README, re.DOTALL)
PYTHON = re.findall(r"```python\n(.*?)```", README, re.DOTALL)
WALK = README.partition("\n## A competition, ")[2].partition("\n## ")[0]
"""The section from a download to a submission."""
OTHERS = {name: [code for code in PYTHON if name in code] for name in ("torch", "grain")}
"""Code that needs optional packages."""
VERBS = {name: verb_parser(name) for name in NAMES}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def environment(home: Path) -> dict[str, str]:
    """Return variables with which `imgrec` is the script of the README's first command."""
    kept = {key: value for key, value in os.environ.items() if key != "TFDS_DATA_DIR"}
    path = f"{ROOT / 'scripts'}{os.pathsep}{kept['PATH']}"
    ours = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT)}
    return {**kept, **ours, "TF_CPP_MIN_LOG_LEVEL": "3"}


def comparable(text: str, home: Path) -> str:
    """Remove what differs from machine to machine."""
    text = re.sub(r"speed .*", "speed", text.replace(str(home), "~"))
    return re.sub(r"[\d.]+ KiB|= [\d.]+", "SIZE", text)  # encoders of other versions differ


def test_there_are_commands_and_code_to_run() -> None:
    assert (len(CONSOLE), len(PYTHON)) == (8, 9)
    assert {name: len(blocks) for name, blocks in OTHERS.items()} == {"torch": 1, "grain": 1}


@pytest.mark.parametrize(("command", "output"), CONSOLE)
def test_a_command_prints_what_the_readme_shows(home: Path, command: str, output: str) -> None:
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment(home), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert comparable(done.stdout, home) == comparable(output, home)


def test_the_code_of_the_readme_runs(home: Path) -> None:
    """Run each block as it is copied, and the walk from a download to a submission."""
    download = downloads.aptos()
    commands = WALK.partition("```text\n")[2].partition("```")[0].splitlines()
    assert [command.split()[0] for command in commands] == ["kaggle", "imgrec"]
    assert commands[0] == f"kaggle competitions download -c {download.name}"
    source = downloads.write_zip(download, home)
    for command, cwd in ((CONSOLE[0][0], ROOT), (commands[1], home)):
        subprocess.run(command, shell=True, cwd=cwd, env=environment(home), check=True)
    source.unlink()
    others = set(chain.from_iterable(OTHERS.values()))
    run_code(home, [code for code in PYTHON if code not in others])
    sample = download.files["sample_submission.csv"].decode().splitlines()
    rows = (home / "submission.csv").read_text().splitlines()
    assert rows[0] == sample[0]
    assert [row.split(",")[0] for row in rows] == [row.split(",")[0] for row in sample]
    assert {row.split(",")[1] for row in rows[1:]} <= set("0123")


@pytest.mark.torch
@pytest.mark.parametrize("package", OTHERS)
def test_the_code_that_needs_more_runs(home: Path, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    subprocess.run(CONSOLE[0][0], shell=True, cwd=ROOT, env=environment(home), check=True)
    run_code(home, OTHERS[package])


def run_code(home: Path, blocks: list[str]) -> None:
    """Run blocks in one process, which imports TensorFlow once; none sees the names of another."""
    lines = ["import os"]
    for block in blocks:
        folder = home if block in WALK else ROOT
        lines.append(f"os.chdir({str(folder)!r}); exec({block!r}, {{}})")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env=environment(home), text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def pages() -> dict[str, str]:
    """Return the section of each verb; "" is what all verbs share."""
    commands = README.partition("\n## Commands\n")[2].partition("\n## ")[0]
    common, *parts = re.split(r"^### (?=imgrec )", commands, flags=re.MULTILINE)
    found = {"": common}
    for part in parts:
        heading, _, text = part.partition("\n")
        found |= dict.fromkeys(re.findall(r"imgrec (\w+)", heading), text)
    return found


def options_in(text: str) -> set[str]:
    """Return the options that a text names in code."""
    code = re.findall(r"```text\n.*?```|`[^`\n]+`", text, re.DOTALL)
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", " ".join(code)))


def options_of(verb: str) -> set[str]:
    flags = {flag for action in VERBS[verb]._actions for flag in action.option_strings}
    return flags - {"-h", "--help"}


def test_every_verb_has_a_page_in_the_readme_and_every_page_a_verb() -> None:
    assert sorted(pages().keys() - {""}) == sorted(VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_verb_is_on_its_page(verb: str) -> None:
    known = options_in(pages()[""]) | options_in(pages()[verb])
    if any("SOURCE" in str(action.metavar) for action in VERBS[verb]._actions):
        known |= options_in(pages()["pack"])  # it documents how a source is read
    assert sorted(options_of(verb) - known) == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_on_the_page_of_a_verb_exists(verb: str) -> None:
    page = pages()[verb]  # several verbs may share it
    there = set().union(*(options_of(one) for one in VERBS if pages()[one] == page))
    others = {"-dc"}
    assert sorted(options_in(page) - there - others) == []


def test_every_option_that_the_readme_names_exists() -> None:
    named = set(re.findall(r"`(--[a-z][a-z0-9-]*)", README)) | {
        option
        for line in re.findall(r"^imgrec \w+ .*$", README, re.MULTILINE)
        for option in re.findall(r"(?<!\w)--[a-z][a-z0-9-]*", line)
    }
    assert sorted(named - {"--help"} - set().union(*map(options_of, VERBS))) == []
