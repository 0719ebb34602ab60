"""Reading needs nothing that Windows lacks, and packing there is refused in one sentence."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import ROOT
from pictures import class_tree

import imgrec

_LIKE_WINDOWS = """
import importlib, json, os, select, shutil, signal, sys

def load(*names):
    for name in names:
        importlib.import_module(name)

load("subprocess", "tempfile", "shutil", "multiprocessing.connection", "concurrent.futures",
     "numpy", "pyarrow.parquet", "PIL.Image", "simplejpeg", "xxhash", "google_crc32c", "tqdm")
load(*json.loads(sys.argv[2]))
usage = shutil.disk_usage(os.curdir)  # Windows has it, but not by way of os.statvfs
shutil.disk_usage = lambda _path: usage
for name in ("fcntl", "resource", "pwd", "grp", "termios", "pty", "tty", "posix", "syslog"):
    sys.modules[name] = None
for name in (
    "fork", "forkpty", "pread", "preadv", "pwrite", "pwritev", "posix_fadvise", "posix_fallocate",
    "sysconf", "sched_getaffinity", "getuid", "geteuid", "getgid", "getegid", "statvfs", "fchmod",
    "chown", "fchown", "mkfifo", "killpg", "setsid", "sendfile", "uname", "sync", "wait3",
    "O_NOFOLLOW", "O_DIRECTORY", "O_CLOEXEC", "O_NONBLOCK", "POSIX_FADV_WILLNEED", "RWF_NOWAIT",
):
    if hasattr(os, name):
        delattr(os, name)
del select.poll, signal.SIGKILL
path = sys.argv[1]
"""
_READING = """
import imgrec
assert imgrec.info(path).classes == ("rose", "tulip")
train = imgrec.open_dataset(path)["train"]
assert train[3].numpy().shape == train[3].shape
assert [record.label for record in train] == train.labels.tolist()
assert imgrec.verify(path).faults == ()
assert imgrec.verify(path, decode=True, workers=2).faults == ()
assert imgrec.leaks(path).images == 6
source = imgrec.grain_source(path, image_size=8)
assert source[0]["image"].shape == (8, 8, 3)
from imgrec.cli.main import main
assert main(["info", path]) == main(["verify", path]) == main(["head", path]) == 0
try:
    imgrec.pack(path)
except imgrec.ExecutionError as error:
    assert error.message == (
        "imgrec does not pack on Windows: it only reads packed datasets there"
    ), error
"""
_TENSORFLOW = """
import imgrec
batches = list(imgrec.load(path, image_size=8, batch_size=4).as_numpy_iterator())
assert sum(len(labels) for _, labels in batches) == 6
assert len(list(imgrec.load(path, image_size=8, cache=True))) == 6
"""
_TORCH = """
import imgrec
images = imgrec.torch_dataset(path, image_size=8)
assert images[0][0].shape == (3, 8, 8)
assert len(images.targets) == 6
"""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = tmp_path_factory.mktemp("windows")
    source = class_tree(root / "flowers", {"rose": 3, "tulip": 3})
    return imgrec.pack(source, data_dir=root / "data", workers=1).info.path


@pytest.mark.parametrize(
    ("code", "packages"),
    [
        pytest.param(_READING, ["grain"], id="records"),
        pytest.param(_TENSORFLOW, ["tensorflow"], id="tensorflow"),
        pytest.param(_TORCH, ["torch"], id="torch", marks=pytest.mark.torch),
    ],
)
def test_reading_needs_nothing_that_windows_lacks(
    path: str, code: str, packages: list[str]
) -> None:
    there = [name for name in packages if find_spec(name)]
    if packages != there and packages != ["grain"]:
        pytest.skip(f"{packages} is not installed")
    done = subprocess.run(
        [sys.executable, "-c", _LIKE_WINDOWS + code, path, json.dumps(there)],
        env={**os.environ, "PYTHONPATH": str(ROOT), "TF_CPP_MIN_LOG_LEVEL": "3"},
        text=True, capture_output=True, timeout=120, cwd=Path(path).parent,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
