"""The Python environments of the peers: a venv for each, made from PyPI once and kept."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple


class Needs(NamedTuple):
    """The module that must be importable, and the packages to install for it."""

    module: str
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
        # This environment's build of torch: the registry's may bring gigabytes of CUDA.
        torch = _version("torch")
        packages = [f"torch=={torch}" if p == "torch" and torch else p for p in needs.packages]
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
