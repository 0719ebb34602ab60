"""The distribution is ready to be published: what it holds, and how PyPI shows it."""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from email.message import Message
from email.parser import HeaderParser
from pathlib import Path

import pytest
from conftest import ROOT

import imgrec

for package in ("build", "twine", "hatchling", "hatch_fancy_pypi_readme"):
    pytest.importorskip(package)


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the source distribution, and the wheel from it, without a network."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, text=True, capture_output=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def metadata(dist: Path) -> Message:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        name = next(name for name in wheel.namelist() if name.endswith(".dist-info/METADATA"))
        return HeaderParser().parsestr(wheel.read(name).decode())


def test_pypi_would_take_it_and_show_its_readme(dist: Path) -> None:
    files = sorted(map(str, dist.iterdir()))
    assert len(files) == 2
    command = [sys.executable, "-m", "twine", "check", "--strict", *files]
    done = subprocess.run(command, text=True, capture_output=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_its_readme_has_no_links_to_files_that_pypi_lacks(dist: Path) -> None:
    text = str(metadata(dist).get_payload())
    assert text.startswith("# imgrec\n")
    assert "More about downloads." in text
    assert re.findall(r"\]\((?!https?:)[^)]*\)", text) == []


def test_the_wheel_has_the_package_and_nothing_else(dist: Path) -> None:
    with zipfile.ZipFile(next(dist.glob("*.whl"))) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    expected = {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / "imgrec").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == expected
    assert {"imgrec/py.typed", "imgrec/manual/json.md", "imgrec/view/static/index.html"} <= names


def test_the_source_distribution_is_small(dist: Path) -> None:
    (path,) = dist.glob("*.tar.gz")
    assert path.name == f"imgrec-{imgrec.__version__}.tar.gz"
    assert path.stat().st_size < 1_000_000
    with tarfile.open(path) as archive:
        tops = {name.split("/")[1] for name in archive.getnames()}
    assert tops - {".gitignore"} == {
        "CHANGELOG.md", "LICENSE", "PKG-INFO", "README.md", "imgrec", "pyproject.toml",
    }  # fmt: skip
