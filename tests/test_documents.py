"""The README and the manual are true: their commands and code run, and no option is missing."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import downloads
import pytest
from conftest import ROOT

from imgrec.cli.main import topics
from imgrec.cli.parser import VERBS as NAMES
from imgrec.cli.parser import verb_parser
from imgrec.near.clusters import ALIKE

README = (ROOT / "README.md").read_text()
MANUAL = {path.stem: path.read_text() for path in sorted((ROOT / "imgrec/manual").glob("*.md"))}
PAGES = {"README": README, **MANUAL}
FIRST = "./scripts/imgrec pack sample_data/flowers --val-split 0.1"
CONSOLE = [
    pytest.param(command, output, id=f"{page}: {command}")
    for page, text in PAGES.items()
    for command, output in re.findall(r"```console\n\$ (.*?)\n(.*?)```", text, re.DOTALL)
]
PYTHON = [
    code for text in PAGES.values() for code in re.findall(r"```python\n(.*?)```", text, re.DOTALL)
]
OPTIONAL = ("torch", "grain")
"""Packages that not everybody has."""
WALK = README.partition("\n## A Kaggle competition\n")[2].partition("\n## ")[0]
VERBS = {name: verb_parser(name) for name in NAMES}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A home directory in which the README's first command has run."""
    found = tmp_path_factory.mktemp("home")
    subprocess.run(FIRST, shell=True, cwd=ROOT, env=environment(found), check=True)
    return found


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


@pytest.mark.parametrize(("command", "output"), CONSOLE)
def test_a_command_prints_what_its_page_shows(tmp_path: Path, command: str, output: str) -> None:
    if command != FIRST:
        subprocess.run(FIRST, shell=True, cwd=ROOT, env=environment(tmp_path), check=True)
    done = subprocess.run(
        command, shell=True, cwd=ROOT, env=environment(tmp_path), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert comparable(done.stdout, tmp_path) == comparable(output, tmp_path)


def test_the_code_of_all_pages_runs(home: Path) -> None:
    """Run each block as it is copied, and the competition from download to submission."""
    download = downloads.aptos()
    commands = WALK.partition("```text\n")[2].partition("```")[0].splitlines()
    assert [command.split()[0] for command in commands] == ["kaggle", "imgrec"]
    assert commands[0] == f"kaggle competitions download -c {download.name}"
    source = downloads.write_zip(download, home)
    subprocess.run(commands[1], shell=True, cwd=home, env=environment(home), check=True)
    source.unlink()
    run_code(home, [code for code in PYTHON if not any(name in code for name in OPTIONAL)])
    sample = download.files["sample_submission.csv"].decode().splitlines()
    rows = (home / "submission.csv").read_text().splitlines()
    assert rows[0] == sample[0]
    assert [row.split(",")[0] for row in rows] == [row.split(",")[0] for row in sample]
    assert {row.split(",")[1] for row in rows[1:]} <= set("0123")


@pytest.mark.torch
@pytest.mark.parametrize("package", OPTIONAL)
def test_the_code_that_needs_more_runs(home: Path, package: str) -> None:
    pytest.importorskip(package, reason=f"{package} is not installed")
    blocks = [code for code in PYTHON if package in code]
    assert blocks
    run_code(home, blocks)


@pytest.mark.torch
@pytest.mark.slow
def test_the_training_in_several_processes_runs(home: Path) -> None:
    pytest.importorskip("torch", reason="torch is missing")
    (code,) = (
        block
        for block in re.findall(r"```text\n(.*?)```", MANUAL["pytorch"], re.DOTALL)
        if "init_process_group" in block
    )
    (home / "train.py").write_text(code)
    launcher = (sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    done = subprocess.run(
        [*launcher, "train.py"], cwd=home, env=environment(home), text=True, capture_output=True
    )
    assert done.returncode == 0, done.stderr


def run_code(home: Path, blocks: list[str]) -> None:
    """Run blocks in one process, which imports TensorFlow once; none sees the names of another."""
    lines = ["import os"]
    for block in dict.fromkeys(blocks):
        folder = home if block in WALK else ROOT
        lines.append(f"os.chdir({str(folder)!r}); exec({block!r}, {{}})")
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        env=environment(home), text=True, capture_output=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr


def test_the_readme_is_one_that_people_finish() -> None:
    assert len(README.splitlines()) <= 300


def test_every_link_leads_to_a_file_and_the_readme_to_every_page() -> None:
    places = {"README": ROOT, **dict.fromkeys(MANUAL, ROOT / "imgrec/manual")}
    links = {
        (places[page] / link).resolve()
        for page, text in PAGES.items()
        for link in re.findall(r"\]\(([^)#]+)", text)
    }
    assert [str(link) for link in links if not link.exists()] == []
    assert {f"imgrec/manual/{name}.md" for name in MANUAL} <= set(re.findall(r"\((i.+?)\)", README))


def test_help_shows_every_topic(capsys: pytest.CaptureFixture[str]) -> None:
    from imgrec.cli.main import main

    main(["--help"])
    listed = capsys.readouterr().out.partition("pages of the manual:")[2]
    assert re.findall(r"\w+", listed) == topics()
    for topic in topics():
        main(["help", topic])
        shown = MANUAL.get(topic) or page_of(topic)
        assert capsys.readouterr().out.startswith(shown.splitlines()[0])


def page_of(verb: str) -> str:
    """Return the page of a verb, which may share it with another."""
    (page,) = (
        text
        for text in MANUAL.values()
        if re.match(rf"# imgrec .*\b{verb}\b", text.splitlines()[0])
    )
    return page


def options_in(text: str) -> set[str]:
    """Return the options that a text names in code."""
    code = re.findall(r"```text\n.*?```|`[^`\n]+`", text, re.DOTALL)
    return set(re.findall(r"(?<![\w-])--?[a-z][a-z0-9-]*", " ".join(code)))


def options_of(verb: str) -> set[str]:
    flags = {flag for action in VERBS[verb]._actions for flag in action.option_strings}
    return flags - {"-h", "--help"}


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_of_a_verb_is_on_its_page(verb: str) -> None:
    known = options_in(MANUAL["commands"]) | options_in(page_of(verb))
    if any("SOURCE" in str(action.metavar) for action in VERBS[verb]._actions):
        known |= options_in(MANUAL["pack"])  # it documents how a source is read
    assert sorted(options_of(verb) - known) == []


@pytest.mark.parametrize("verb", VERBS)
def test_every_option_on_the_page_of_a_verb_exists(verb: str) -> None:
    page = page_of(verb)
    there = set().union(*(options_of(one) for one in VERBS if page_of(one) == page))
    assert sorted(options_in(page) - there - {"-dc"}) == []


@pytest.mark.parametrize("page", PAGES)
def test_every_option_that_a_page_names_exists(page: str) -> None:
    named = set(re.findall(r"`(--[a-z][a-z0-9-]*)", PAGES[page])) | {
        option
        for line in re.findall(r"^imgrec \w+ .*$", PAGES[page], re.MULTILINE)
        for option in re.findall(r"(?<!\w)--[a-z][a-z0-9-]*", line)
    }
    assert sorted(named - {"--help"} - set().union(*map(options_of, VERBS))) == []


def test_the_manual_names_the_default_likeness() -> None:
    assert f"`--alike PERCENT` | {ALIKE} |" in MANUAL["pack"]
    assert f"the line: {ALIKE} unless you say otherwise" in MANUAL["leaks"]
