"""The run that writes to a place on a store: without locks, each run leaves its name there.

<folder>/owner      <random token of the run> <machine> <process, or 0 when it has ended>
"""

from __future__ import annotations

import hashlib
import os
import platform
import time
from contextlib import suppress
from functools import cache
from pathlib import Path

from imgrec.errors import ImgrecError
from imgrec.storage.remote.read import read_object
from imgrec.storage.remote.transfer import put_bytes

OWNER = "owner"
_SILENT_NS = 24 * 3600 * 10**9
"""A run on another machine has ended if it wrote nothing for so long."""


class Owner:
    """A run, as the owner of a folder on a store."""

    def __init__(self, folder: Path) -> None:
        self._url = str(folder / OWNER)
        self.token = os.urandom(8).hex()

    def claim(self) -> None:
        """Make this run the owner, whoever was it before."""
        self._write(os.getpid())

    def is_ours(self) -> bool:
        """Return whether no other run has claimed the folder since."""
        with suppress(FileNotFoundError):
            return read_object(self._url).split()[:1] == [self.token.encode()]
        return False

    def release(self) -> None:
        """Note that this run has ended, if the store lets us."""
        with suppress(ImgrecError, OSError):
            self._write(0)

    def _write(self, process: int) -> None:
        put_bytes(self._url, f"{self.token} {_machine()} {process}".encode())


def has_ended(folder: Path, changed_ns: int) -> bool:
    """Return whether the owner of a folder has ended; it last wrote then; 0 if unknown."""
    try:
        _, machine, process = read_object(str(folder / OWNER)).decode().split()
        if process == "0":
            return True
        if machine == _machine():
            os.kill(int(process), 0)
            return False
    except ProcessLookupError:
        return True
    except PermissionError:  # it runs, for another user
        return False
    except (FileNotFoundError, ValueError, OverflowError):
        pass
    return 0 < changed_ns < time.time_ns() - _SILENT_NS


@cache
def _machine() -> str:
    """Identify this machine since it was started, and the container: it counts processes anew."""
    facts = [platform.node()]
    with suppress(OSError):
        facts.append(Path("/proc/sys/kernel/random/boot_id").read_text())
        facts.append(os.readlink("/proc/self/ns/pid"))
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:16]
