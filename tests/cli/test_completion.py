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
from pictures import write_tree

from imgrec.cli.maintenance import completion_script
from imgrec.errors import MissingExtra


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with files to name, and a data directory with datasets."""
    names = (
        "flowers/1.0.0",
        "flowers/1.1.0",
        "fruit/1.0.0",
        "no_version/new",
        "$(touch bad)/1.0.0",
    )
    write_tree(tmp_path / "datasets", {f"{name}/dataset_info.json": b"" for name in names})
    (tmp_path / "my photos").mkdir()
    (tmp_path / "my table.csv").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("imgrec p", ["pack", "plan", "preview"]),
        ("imgrec com", ["completion"]),
        ("imgrec pack --val", ["--val-split"]),
        ("imgrec info --val", []),
        ("imgrec pack x --seed 7 --on-b", ["--on-bad"]),
        ("imgrec pack --check ", ["decode", "structure", "header"]),
        ("imgrec completion z", ["zsh"]),
        ("imgrec pack my", ["my photos", "my table.csv"]),
        ("imgrec pack --images my", ["my photos"]),
        ("imgrec pack --name my", []),
        ("imgrec info f", ["flowers", "fruit"]),
        ("imgrec verify --json fl", ["flowers"]),
    ],
)
def test_bash_completes_verbs_options_choices_files_and_datasets(
    place: Path, line: str, offered: list[str]
) -> None:
    assert sorted(in_bash(place, line)) == sorted(offered)


def in_bash(place: Path, line: str) -> list[str]:
    """Return what bash offers at the end of a line."""
    (place / "complete.bash").write_text(completion_script("bash"))
    code = (
        'source ./complete.bash; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _shtab_imgrec; '
        'printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code, "bash", *line.split(" ")],
        cwd=place, text=True, capture_output=True, timeout=60,
        env={**os.environ, "TFDS_DATA_DIR": str(place / "datasets"), "HOME": str(place)},
    )  # fmt: skip
    assert done.stderr == ""
    return done.stdout.split("\n")[:-1] if done.stdout.strip() else []


def test_bash_never_executes_the_name_of_a_dataset(place: Path) -> None:
    assert "$(touch bad)" not in in_bash(place, "imgrec info ")
    assert not (place / "bad").exists()


def test_bash_takes_the_script_without_complaint(cli: Cli) -> None:
    command = f"{cli('completion', 'bash').stdout}\ncomplete -p imgrec"
    done = subprocess.run(["bash", "--norc", "-c", command], text=True, capture_output=True)
    assert (done.stdout, done.stderr) == ("complete -o bashdefault -F _shtab_imgrec imgrec\n", "")


class Zsh:
    """A real zsh on its own terminal, which writes its line to a file on Ctrl-O."""

    def __init__(self, place: Path) -> None:
        self._line = place / "line"
        self.screen = b""
        environment = {**os.environ, "TFDS_DATA_DIR": str(place / "datasets"), "TERM": "dumb"}
        self._pid, self._terminal = pty.fork()
        if self._pid == 0:
            os.chdir(place)
            os.execve(shutil.which("zsh") or "zsh", ["zsh", "-f", "-i"], environment)
        (place / "complete.zsh").write_text(completion_script("zsh"))
        self._send(
            'autoload -U compinit; compinit -u -D; eval "$(<complete.zsh)"; '
            "note() { print -r -- $BUFFER > line.part; mv line.part line }; "
            "zle -N note; bindkey '^O' note; unsetopt beep; setopt nolistbeep; LISTMAX=0\r"
        )

    def _send(self, text: str) -> None:
        os.write(self._terminal, text.encode())

    def complete(self, line: str) -> str:
        """Return what a line becomes when Tab is pressed."""
        self._line.unlink(missing_ok=True)
        self._send(f"\x15{line}\t\x0f")
        until = time.monotonic() + 60
        while not self._line.exists():
            assert time.monotonic() < until, self.screen.decode(errors="replace")
            if select.select([self._terminal], [], [], 0.02)[0]:
                self.screen += os.read(self._terminal, 4096)
        return self._line.read_text().removesuffix("\n")

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
    for typed, completed in (
        ("ver", "verify "),
        ("pack --val-s", "pack --val-split "),
        ("pack --check str", "pack --check structure "),
        ("pack my\\ t", "pack my\\ table.csv "),
        ("info fl", "info flowers "),
        ("unpack flowers my", "unpack flowers my\\ photos/"),
        ("pack --name fl", "pack --name fl"),
    ):
        assert in_zsh.complete(f"imgrec {typed}") == f"imgrec {completed}"
    assert not (place / "bad").exists()


def test_without_shtab_the_hint_is_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(MissingExtra) as caught:
        completion_script("bash")
    assert caught.value.hint == "pip install 'imgrec[completion]'"
