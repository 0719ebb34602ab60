"""The Python environments of the peers: each a venv of its own, made from PyPI once and kept."""

from __future__ import annotations

import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

CPU_TORCH = "https://download.pytorch.org/whl/cpu"
"""Where PyTorch keeps its builds without gigabytes of CUDA."""


class Needs(NamedTuple):
    """What an environment is made of."""

    module: str
    """What must be importable in the end."""
    packages: tuple[str, ...]


NEEDS: Mapping[str, Needs] = {
    "tensorflow": Needs("tensorflow_datasets", ("tensorflow", "tensorflow-datasets")),
    "torchvision": Needs("torchvision", ("torch", "torchvision")),
    "webdataset": Needs("webdataset", ("torch", "webdataset", "pillow")),
    "mosaicml": Needs("streaming", ("torch", "mosaicml-streaming", "pillow")),
    "huggingface": Needs("datasets", ("torch", "datasets", "pillow")),
    "grain": Needs("grain", ("grain", "array_record", "pillow")),
    "litdata": Needs("litdata", ("torch", "litdata")),
}
_INSTALL_SECONDS = 1200


class NotInstalledError(Exception):
    """An environment cannot be had; says why."""


@dataclass(frozen=True, slots=True)
class Environment:
    """A Python that has what a peer needs."""

    python: str
    versions: Mapping[str, str]


THIS_PYTHON = Environment(sys.executable, {})
"""What this runs in, and imgrec's own contenders too."""


def here(name: str) -> Environment:
    """Return this environment as that of a peer, if it has what the peer needs."""
    missing = [package for package in NEEDS[name].packages if _version(package) is None]
    if missing:
        raise NotInstalledError(f"{', '.join(missing)} not installed here")
    return Environment(
        sys.executable, {each: _version(each) or "" for each in NEEDS[name].packages}
    )


def made(name: str, folder: Path) -> Environment:
    """Return the environment of a peer, making it if it is not there.

    What could not be installed is not tried again until its note is deleted.
    """
    venv, note = folder / name, folder / f"{name}.failed"
    python, ready = venv / "bin" / "python", venv / "versions.json"
    if note.exists():
        raise NotInstalledError(f"{note.read_text().strip()} (delete {note} to try again)")
    if not ready.exists():
        shutil.rmtree(venv, ignore_errors=True)
        print(f"making an environment for {name}", flush=True)
        try:
            subprocess.run([sys.executable, "-m", "venv", venv], check=True)
            _install(python, NEEDS[name])
        except NotInstalledError as err:
            note.write_text(f"{err}\n")
            shutil.rmtree(venv, ignore_errors=True)
            raise
        ready.write_text(json.dumps(_installed(python)))
    every = json.loads(ready.read_text())
    return Environment(str(python), {each: every[_plain(each)] for each in NEEDS[name].packages})


def _install(python: Path, needs: Needs) -> None:
    """Install with each build of torch there may be, until the module can be imported."""
    others = [package for package in needs.packages if package != "torch"]
    ways = list(_ways_to_torch()) if "torch" in needs.packages else [()]
    for last, way in enumerate(ways, 1 - len(ways)):
        try:
            _pip(python, *way, *others)
            _import(python, needs.module)
        except NotInstalledError:
            if not last:
                raise
        else:
            return


def _ways_to_torch() -> Iterator[tuple[str, ...]]:
    """Yield what to ask pip for: builds without gigabytes of CUDA first."""
    if known := _version("torch"):
        yield (f"torch=={known}",)  # where this came from, more can be had
        # Torchvision has to come from where torch does; "===" takes no other build of it.
        yield (f"torch==={known.partition('+')[0]}",)
    else:
        yield "torch", "--index-url", CPU_TORCH, "--extra-index-url", "https://pypi.org/simple"
        yield ("torch",)


def _import(python: Path, module: str) -> None:
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    if done.returncode:
        raise NotInstalledError(done.stderr.strip().splitlines()[-1])


def _pip(python: Path, *what: str) -> None:
    command = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *what]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_INSTALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"pip took more than {_INSTALL_SECONDS} s") from None
    if done.returncode:
        raise NotInstalledError(_reason(done.stderr))


def _reason(stderr: str) -> str:
    """Return the line that says the most about why pip failed."""
    lines = [line.strip() for line in stderr.splitlines() if line.strip()]
    telling = [line for line in lines if re.match(r"(?!ERROR: Failed)\w*(Error|ERROR): ", line)]
    return (telling or lines or ["pip failed"])[0][:200]


def _installed(python: Path) -> dict[str, str]:
    command = [str(python), "-m", "pip", "list", "--format", "json", "--disable-pip-version-check"]
    listed = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    return {_plain(each["name"]): each["version"] for each in json.loads(listed)}


def _plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
