"""Whether this Python can import what `tfds.load` needs, found out in processes of their own."""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from contextlib import ExitStack

from imgrec import __version__, layout
from imgrec.inspect.doctor.facts import Environment, Package

_PACKAGES = ("tensorflow_datasets", "tensorflow", "PIL")
_TIMEOUT_S = 90
_CODE = """
import importlib.metadata, importlib.util, json, sys
name, tries = sys.argv[1], sys.argv[2] == "import"
spec = importlib.util.find_spec(name)
found = {"version": "", "fault": "" if spec else "it is not installed"}
if spec:
    names = importlib.metadata.packages_distributions().get(name) or [name]
    try:
        found["version"] = importlib.metadata.version(names[0])
    except importlib.metadata.PackageNotFoundError:
        found["version"] = "of unknown version"
if spec and tries:
    try:
        importlib.import_module(name)
    except BaseException as error:
        found["fault"] = f"{type(error).__name__}: {error}"
print("\\n" + json.dumps(found))
"""


def look_around(*, tries: bool) -> Environment:
    """Find out what is installed and, if `tries`, whether it can be imported.

    TensorFlow is never imported into this process.
    """
    with ExitStack() as stack:
        started = [(name, stack.enter_context(_start(name, tries=tries))) for name in _PACKAGES]
        packages = tuple(_finish(name, process) for name, process in started)
    return Environment(
        python=platform.python_version(),
        imgrec=__version__,
        packages=packages,
        shadows=tuple(filter(os.path.isfile, _shadows())),
        default_data_dir=layout.default_data_dir(),
    )


def _start(name: str, *, tries: bool) -> subprocess.Popen[str]:
    # -P: a dataset's folder, in which this may run, must not bring a tensorflow.py of its own.
    command = [sys.executable, "-P", "-c", _CODE, name, "import" if tries else "find"]
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
    )


def _finish(name: str, process: subprocess.Popen[str]) -> Package:
    try:
        said, _ = process.communicate(timeout=_TIMEOUT_S)
        found = json.loads(said.rstrip().rpartition("\n")[2])
        return Package(name, str(found["version"]), str(found["fault"]))
    except subprocess.TimeoutExpired:
        process.kill()
        return Package(name, "", f"it is not imported after {_TIMEOUT_S} seconds")
    except (ValueError, KeyError, TypeError):
        return Package(name, "", f"importing it ends Python with code {process.returncode}")


def _shadows() -> list[str]:
    files = (f"{name}.py" for name in _PACKAGES)
    folders = (os.path.join(name, "__init__.py") for name in _PACKAGES)
    return [*files, *folders]
