"""Commands on a terminal of their own."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

from conftest import ROOT


def environment(data_dir: Path, **more: str) -> dict[str, str]:
    """Return variables for a command, without those that change what it shows."""
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    return {**kept, "TFDS_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT), **more}


def on_a_terminal(
    data_dir: Path, *arguments: str, width: int = 60, stream: str = "stdout", **more: str
) -> str:
    """Return what a command shows on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    command = [sys.executable, "-m", "imgrec", *arguments]
    streams = {"stdout": subprocess.DEVNULL, "stderr": None, stream: theirs}
    process = subprocess.Popen(command, env=environment(data_dir, TERM="xterm", **more), **streams)  # type: ignore[call-overload]
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 4096):
            seen += block
    except OSError:  # how Linux reports that the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return seen.decode().replace("\r\n", "\n")
