"""What -o may name: files, links, pipes and devices."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from imgrec.errors import ExecutionError, UsageError
from imgrec.storage.named_files import refuse_no_file, write_new, write_out


def test_a_file_is_replaced_and_never_seen_half_written(tmp_path: Path) -> None:
    target = tmp_path / "page.html"
    target.write_bytes(b"old")
    with target.open("rb") as reader:
        write_out(str(target), b"new")
        assert reader.read() == b"old"
    assert target.read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["page.html"]


def test_a_link_stays_and_what_it_leads_to_is_written(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    target, link, second = tmp_path / "there" / "a.html", tmp_path / "b.html", tmp_path / "c.html"
    link.symlink_to("there/a.html")
    second.symlink_to(link)
    for data in (b"new", b"newer"):  # first it leads to nothing
        refuse_no_file(str(second), "a.html")
        write_out(str(second), data)
        assert (os.readlink(link), target.read_bytes()) == ("there/a.html", data)


def test_a_link_in_a_circle_is_an_error_and_stays(tmp_path: Path) -> None:
    link = tmp_path / "a.html"
    link.symlink_to("a.html")
    with pytest.raises(ExecutionError, match=r"a\.html: Too many levels of symbolic links"):
        write_out(str(link), b"new")
    assert link.is_symlink()


def test_a_link_into_a_folder_that_is_not_there_is_refused_at_once(tmp_path: Path) -> None:
    link = tmp_path / "a.html"
    link.symlink_to("nowhere/a.html")
    with pytest.raises(UsageError, match=r"nowhere does not exist"):
        refuse_no_file(str(link), "a.html")


def test_a_pipe_gets_the_bytes_and_stays_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for write in (write_out, write_new):
        got: list[bytes] = []
        reader = threading.Thread(target=lambda got=got: got.append(pipe.read_bytes()))
        reader.start()
        refuse_no_file(str(pipe), "a.html")
        write(str(pipe), b"page" * 50_000)
        reader.join(10)
        assert got == [b"page" * 50_000]
        assert stat.S_ISFIFO(pipe.stat().st_mode)


def test_a_device_is_written_into_and_stays_a_device(tmp_path: Path) -> None:
    link = tmp_path / "null"
    link.symlink_to("/dev/null")
    for path in ("/dev/null", str(link)):
        write_out(path, b"page")
        assert stat.S_ISCHR(os.stat(path).st_mode)


def test_a_full_device_is_an_error() -> None:
    with pytest.raises(ExecutionError, match="cannot write /dev/full: No space left on device"):
        write_out("/dev/full", b"page")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind("socket")
        with pytest.raises(UsageError, match="socket is neither a file nor a stream"):
            refuse_no_file("socket", "a.html")


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "out.txt"])
def test_our_own_output_is_written_where_it_is(tmp_path: Path, path: str) -> None:
    code = (
        "from imgrec.storage.named_files import write_out\n"
        f"print('before', flush=True); write_out({path!r}, b'page'); print(' after')"
    )
    with (tmp_path / "out.txt").open("wb") as out:
        subprocess.run([sys.executable, "-c", code], cwd=tmp_path, stdout=out, check=True)
    assert (tmp_path / "out.txt").read_text() == "before\npage after\n"


def test_a_new_file_does_not_replace_one(tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(b"")
    (tmp_path / "b.jpg").symlink_to("nowhere")
    for name in ("a.jpg", "b.jpg"):
        with pytest.raises(UsageError, match="exists already"):
            write_new(str(tmp_path / name), b"new")
