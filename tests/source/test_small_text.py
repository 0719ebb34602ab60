"""Files that an option names are read only if that ends, and takes little memory."""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path

import pytest
from conftest import Cli
from pictures import class_tree

from imgrec.errors import UsageError
from imgrec.request import options_from
from imgrec.storage.named_files import read_small_text


def read(path: str | Path) -> str:
    return read_small_text(str(path), f"--classes {path}", "give a text file")


def test_a_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "names.txt").write_text("rosé\ntulip\n", "utf-8")
    (tmp_path / "link.txt").symlink_to("names.txt")
    assert read(tmp_path / "link.txt") == "rosé\ntulip\n"


@pytest.mark.parametrize("device", ["/dev/zero", "/dev/null", "/dev/urandom"])
def test_a_device_is_refused(device: str) -> None:
    with pytest.raises(UsageError, match=f"--classes {device} is not a regular file"):
        read(device)


def test_a_named_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match=r"pipe is not a regular file"):
        read(tmp_path / "pipe")


def test_a_pipe_of_the_shell_is_read_to_its_end() -> None:
    reading, writing = os.pipe()

    def write() -> None:
        for _ in range(100):
            os.write(writing, b"a" * 9999)
        os.close(writing)

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert len(read(f"/dev/fd/{reading}")) == 999_900
    finally:
        writer.join()
        os.close(reading)


def test_a_large_file_is_refused(tmp_path: Path) -> None:
    with (tmp_path / "large").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(UsageError, match=r"large is larger than 16\.0 MiB"):
        read(tmp_path / "large")


@pytest.mark.parametrize(
    ("name", "said"),
    [
        (".", "cannot read --classes .: Is a directory"),
        ("nowhere", "cannot read --classes nowhere: No such file or directory"),
        ("utf16", "--classes utf16 is not UTF-8 text"),
    ],
)
def test_what_cannot_be_read_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("utf16").write_text("rose", "utf-16")
    with pytest.raises(UsageError) as caught:
        read(name)
    assert caught.value.message == said


@pytest.mark.parametrize(
    ("option", "path"),
    [("--classes", "pipe"), ("--label-names", "/dev/zero"), ("--split-file", "pipe")],
)
def test_every_option_that_names_a_file_refuses_pipes_and_devices(
    cli: Cli, tmp_path: Path, option: str, path: str
) -> None:
    class_tree(tmp_path / "flowers", {"rose": 2})
    os.mkfifo(tmp_path / "pipe")
    done = cli("plan", "flowers", option, path, timeout=60)
    assert done.returncode in (2, 3)
    assert done.stderr.startswith(f"imgrec: {option} {path} is not a")


def test_names_can_come_from_a_command(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 2, "aster": 2})
    reading, writing = os.pipe()
    os.write(writing, b"rose\naster\n")
    os.close(writing)
    done = cli("plan", "flowers", "--json", "--classes", f"/dev/fd/{reading}", pass_fds=[reading])
    os.close(reading)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["classes"] == ["rose", "aster"]


def test_a_file_of_many_bad_lines_is_named_in_few_words(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 2})
    (tmp_path / "names.txt").write_text("rose\n" * 100_000)
    done = cli("plan", "flowers", "--classes", "names.txt")
    assert done.returncode == 4
    assert "line 2 repeats line 1 (rose); line 3 repeats line 1 (rose)" in done.stderr
    assert "; and 99979 more" in done.stderr
    assert len(done.stderr) < 2000


def test_keyword_arguments_read_names_in_the_same_way(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="is not a regular file"):
        options_from({"classes": tmp_path / "pipe"})
