"""Completion, asked of the real shells."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import Cli

from imgrec.cli.maintenance import completion_script as script
from imgrec.errors import MissingExtra


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with files to name, and a data directory with datasets."""
    for name in (
        "flowers/1.0.0",
        "flowers/1.1.0",
        "fruit/1.0.0",
        "no_version/new",
        "$(touch bad)/1.0.0",
    ):
        folder = tmp_path / "datasets" / name
        folder.mkdir(parents=True)
        (folder / "dataset_info.json").touch()
    (tmp_path / "elsewhere/trees/2.0.0").mkdir(parents=True)
    (tmp_path / "elsewhere/trees/2.0.0/dataset_info.json").touch()
    (tmp_path / "my photos").mkdir()
    (tmp_path / "my table.csv").touch()
    return tmp_path


def in_bash(place: Path, line: str) -> list[str]:
    """Return what bash offers at the end of a line; words are parted as bash does."""
    words = line.replace("=", " = ").split(" ")
    (place / "complete.bash").write_text(script("bash"))
    code = (
        'source ./complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_imgrec; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", *words],
        cwd=place, text=True, capture_output=True, timeout=60,
        env={**os.environ, "TFDS_DATA_DIR": str(place / "datasets"), "HOME": str(place)},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_bash_completes_verbs(place: Path) -> None:
    assert in_bash(place, "imgrec p") == ["pack", "plan", "preview"]
    assert in_bash(place, "imgrec com") == ["completion"]


def test_bash_completes_options_of_a_verb(place: Path) -> None:
    assert in_bash(place, "imgrec pack --val") == ["--val-split"]
    assert in_bash(place, "imgrec info --val") == []
    assert in_bash(place, "imgrec pack x --seed 7 --on-b") == ["--on-bad"]


def test_bash_completes_choices(place: Path) -> None:
    assert in_bash(place, "imgrec pack --check ") == ["decode", "structure", "header"]
    assert in_bash(place, "imgrec completion z") == ["zsh"]


def test_bash_completes_files_and_folders_with_blanks(place: Path) -> None:
    assert sorted(in_bash(place, "imgrec pack my")) == ["my photos", "my table.csv"]
    assert in_bash(place, "imgrec pack --images my") == ["my photos"]
    assert in_bash(place, "imgrec pack --name my") == []


def test_bash_completes_datasets_once_and_never_executes_their_names(place: Path) -> None:
    assert in_bash(place, "imgrec info f") == ["flowers", "fruit"]
    assert in_bash(place, "imgrec info fl") == ["flowers"]
    assert in_bash(place, "imgrec verify --json f") == ["flowers", "fruit"]
    assert "$(touch bad)" not in in_bash(place, "imgrec info ")
    assert not (place / "bad").exists()


def test_bash_takes_the_script_without_complaint(cli: Cli) -> None:
    command = f"{cli('completion', 'bash').stdout}\ncomplete -p imgrec"
    done = subprocess.run(["bash", "--norc", "-c", command], text=True, capture_output=True)
    assert (done.stdout, done.stderr) == ("complete -o bashdefault -F _shtab_imgrec imgrec\n", "")


class Zsh:
    """A real zsh on a terminal of its own, that notes its line when asked to."""

    def __init__(self, place: Path) -> None:
        self._note = place / "line"
        self.screen = b""
        environment = {**os.environ, "TFDS_DATA_DIR": str(place / "datasets"), "TERM": "dumb"}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(place)
            os.execve(shutil.which("zsh") or "zsh", ["zsh", "-f", "-i"], environment)
        (place / "complete.zsh").write_text(script("zsh"))
        self._send(
            'autoload -U compinit; compinit -u -D; eval "$(<complete.zsh)"; '
            "note() { print -r -- $BUFFER > line.part; mv line.part line }; "
            "zle -N note; bindkey '^O' note; unsetopt beep; setopt nolistbeep; LISTMAX=0\r"
        )

    def _send(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def complete(self, line: str) -> str:
        """Return what a line becomes by pressing the tabulator."""
        self._note.unlink(missing_ok=True)
        self._send(f"\x15{line}\t\x0f")
        until = time.monotonic() + 60
        while not self._note.exists():
            assert time.monotonic() < until, self.screen.decode(errors="replace")
            self._drain()
        return self._note.read_text().removesuffix("\n")

    def _drain(self) -> None:
        if select.select([self._terminal], [], [], 0.02)[0]:
            self.screen += os.read(self._terminal, 4096)

    def close(self) -> None:
        os.close(self._terminal)
        os.waitpid(self._pid, 0)


@pytest.fixture
def in_zsh(place: Path) -> Iterator[Zsh]:
    if not shutil.which("zsh"):
        pytest.skip("zsh is not installed")
    shell = Zsh(place)
    yield shell
    shell.close()


def test_zsh_completes_verbs_options_choices_files_and_datasets(in_zsh: Zsh, place: Path) -> None:
    assert in_zsh.complete("imgrec ver") == "imgrec verify "
    assert in_zsh.complete("imgrec pack --val-s") == "imgrec pack --val-split "
    assert in_zsh.complete("imgrec pack --check str") == "imgrec pack --check structure "
    assert in_zsh.complete("imgrec pack my\\ t") == "imgrec pack my\\ table.csv "
    assert in_zsh.complete("imgrec info fl") == "imgrec info flowers "
    assert in_zsh.complete("imgrec unpack flowers my") == "imgrec unpack flowers my\\ photos/"
    assert in_zsh.complete("imgrec pack --name fl") == "imgrec pack --name fl"
    assert not (place / "bad").exists()


def test_without_shtab_the_hint_is_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(MissingExtra) as caught:
        script("bash")
    assert caught.value.hint == "pip install 'imgrec[completion]'"
