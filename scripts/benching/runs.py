"""Commands that are timed, with the memory that they and their children take. Needs /proc."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOKS_EVERY_S = 0.05
CHECKOUT = Path(__file__).resolve().parents[2]
PEERS = CHECKOUT / "scripts" / "bench_peers"
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore"}


class FailedError(Exception):
    """A contender failed, or did not do what it should have; says how."""


@dataclass(frozen=True, slots=True)
class Run:
    """What one run took."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    """Most memory at one time, of the process and all below it: shared pages count for each."""
    main_bytes: int
    """Most memory of the process itself."""
    worker_bytes: int
    """Most memory of any one process below it."""

    def as_value(self) -> dict[str, float]:
        """Return it as a JSON value."""
        return asdict(self)


class Watch:
    """Looks at the memory of a process and of all below it, until it is left."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = self.main_bytes = self.worker_bytes = 0
        self._pid = pid
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while True:
            sizes = {pid: _resident_bytes(pid) for pid in family(self._pid)}
            self.peak_bytes = max(self.peak_bytes, sum(sizes.values()))
            self.main_bytes = max(self.main_bytes, sizes.pop(self._pid, 0))
            self.worker_bytes = max([self.worker_bytes, *sizes.values()])
            if self._over.wait(_LOOKS_EVERY_S):
                return


def family(pid: int) -> Iterator[int]:
    """Yield a process and all below it."""
    yield pid
    with suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/children") as file:
                children = file.read().split()
            for child in children:
                yield from family(int(child))


def _resident_bytes(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/statm") as file:
            return int(file.read().split()[1]) * _PAGE
    except (OSError, IndexError):  # it has ended
        return 0


def environment() -> dict[str, str]:
    """Return the environment of a process that runs the imgrec of this checkout, quietly."""
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    found = {**os.environ, "PYTHONPATH": path, **QUIET}
    # With that, every process would compile imgrec anew, as pip did not for the peers.
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def timed(command: Sequence[str]) -> tuple[Run, str]:
    """Run a command; return what it took and what it printed."""
    before, start = _cpu_s_of_children(), time.perf_counter()
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    ) as process:
        with Watch(process.pid) as watch:
            printed, complaint = process.communicate()
        wall_s = time.perf_counter() - start
    if process.returncode:
        raise FailedError(complaint.strip() or f"exit code {process.returncode}")
    cpu_s = _cpu_s_of_children() - before
    return Run(wall_s, cpu_s, watch.peak_bytes, watch.main_bytes, watch.worker_bytes), printed


def _cpu_s_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cleared(folder: Path) -> Path:
    """Empty a folder and sync the disk, so that no run pays for what another left to be written."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.sync()
    return folder


def drop_caches() -> str:
    """Make the kernel forget the files it has in memory; return why it did not, or nothing."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError as err:
        return f"the kernel's caches cannot be dropped: {err.strerror}"
    return ""


def bytes_of(folder: Path) -> int:
    """Return how many bytes the files of a folder have."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True, slots=True)
class Epoch:
    """What a loader gave in one epoch, and what it took."""

    images: int
    bytes: int
    first_s: float
    like: str
    wall_s: float

    @property
    def rate(self) -> float:
        """Return images a second."""
        return self.images / self.wall_s


class Server:
    """A loader in a process that stays, and goes through its data whenever it is asked to."""

    def __init__(self, command: Sequence[str], complaints: Path) -> None:
        self._complaints = complaints
        self._started = time.perf_counter()
        self.first_s = 0.0
        """From the start of the process to its first batch."""
        self.peak_bytes = 0
        # A file, as nobody reads a pipe meanwhile, and a full one would stop the process.
        with complaints.open("w") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=environment(),
            )

    def epoch(self) -> Epoch:
        """Go through the data once."""
        assert self._process.stdin and self._process.stdout
        asked = time.perf_counter()
        with Watch(self._process.pid) as watch, suppress(BrokenPipeError):
            self._process.stdin.write("\n")
            self._process.stdin.flush()
            answer = next((line for line in self._process.stdout if line.startswith("epoch ")), "")
        self.peak_bytes = max(self.peak_bytes, watch.peak_bytes)
        if not answer:
            raise FailedError(self._complaints.read_text().strip()[-2000:])
        epoch = Epoch(**json.loads(answer.removeprefix("epoch ")))
        if not self.first_s:
            # The process was asked as soon as it was started, so its epoch waited for nothing.
            waited = time.perf_counter() - asked - epoch.wall_s
            self.first_s = asked - self._started + waited + epoch.first_s
        return epoch

    def stop(self) -> None:
        """End the process and all below it."""
        for pid in reversed(list(family(self._process.pid))):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._process.communicate()


def interleaved(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield each name once a round, each round beginning with another."""
    for number in range(rounds):
        start = number * len(names) // max(rounds, 1)
        for name in (*names[start:], *names[:start]):
            yield number, name


def last_line(text: str) -> str:
    """Return the last line that has text: the error of a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason given"
