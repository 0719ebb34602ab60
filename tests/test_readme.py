"""The README is true: its commands and code run here."""

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
"""From a download to a submission."""
OTHERS = {name: [code for code in PYTHON if name in code] for name in ("torch", "grain")}
"""The code that needs a package which not everyone has."""
VERBS = {name: verb_parser(name) for name in NAMES}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


def environment(home: Path) -> dict[str, str]:
    """Return a shell's, in which `imgrec` is what the README's first command calls."""
    kept = {key: value for key, value in os.environ.items() if key != "TFDS_DATA_DIR"}
    path = f"{ROOT / 'scripts'}{os.pathsep}{kept['PATH']}"
    ours = {"HOME": str(home), "PATH": path, "PYTHONPATH": str(ROOT)}
    return {**kept, **ours, "TF_CPP_MIN_LOG_LEVEL": "3"}


def comparable(text: str, home: Path) -> str:
    """Take out of a summary what differs from machine to machine."""
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
    """Each block as it is copied, after the command above has packed the flowers."""
    others = set(chain.from_iterable(OTHERS.values()))
    run_code(home, [code for code in PYTHON if code not in others and code not in WALK])


@pytest.mark.torch
@pytest.mark.parametrize("package", OTHERS)
def test_the_code_that_needs_more_runs(home: Path, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    command, _output = CONSOLE[0]
    subprocess.run(command, shell=True, cwd=ROOT, env=environment(home), check=True)
    run_code(home, OTHERS[package])


def test_the_walk_through_a_competition_ends_with_a_submission(tmp_path: Path) -> None:
    """Each command and the code, as they are copied, on a miniature of that download."""
    download = downloads.aptos()
    commands = WALK.partition("```text\n")[2].partition("```")[0].splitlines()
    assert [command.split()[0] for command in commands] == ["kaggle", "imgrec"]
    assert commands[0] == f"kaggle competitions download -c {download.name}"
    source = downloads.write_zip(download, tmp_path)
    subprocess.run(commands[1], shell=True, cwd=tmp_path, env=environment(tmp_path), check=True)
    source.unlink()
    run_code(tmp_path, re.findall(r"```python\n(.*?)```", WALK, re.DOTALL), cwd=tmp_path)
    sample = download.files["sample_submission.csv"].decode().splitlines()
    rows = (tmp_path / "submission.csv").read_text().splitlines()
    assert rows[0] == sample[0]
    assert [row.split(",")[0] for row in rows] == [row.split(",")[0] for row in sample]
    assert {row.split(",")[1] for row in rows[1:]} <= set("0123")


def run_code(home: Path, blocks: list[str], cwd: Path = ROOT) -> None:
    """Run blocks in one process, which imports TensorFlow once; none sees the names of another."""
    code = "\n".join(f"exec({block!r}, {{}})" for block in blocks)
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=cwd, env=environment(home), text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def pages() -> dict[str, str]:
    """Return what the README says of each verb, by verb; "" is what it says of all."""
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
        known |= options_in(pages()["pack"])  # which says how a source is read
    assert sorted(options_of(verb) - known) == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_on_the_page_of_a_verb_exists(verb: str) -> None:
    page = pages()[verb]  # which several verbs may share
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
