"""The extras of pyproject.toml can be installed by the names that people are told."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from conftest import ROOT

from imgrec.storage.remote.filesystem import _EXTRAS as STORES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
SOURCES = sorted((ROOT / "imgrec").rglob("*.py"))


def in_code() -> Iterator[str]:
    """Yield the extras that calls of `needed` name, and fail for one that cannot be read."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "extra":
                if isinstance(node.value, ast.Constant):
                    yield str(node.value.value)
                else:
                    assert path.stem == "filesystem", path  # its table is read below
    yield from (extra for _package, extra in STORES.values())


def in_text() -> Iterator[str]:
    """Yield the extras that the README, messages and scripts name, such as imgrec[tfds]."""
    for path in (ROOT / "README.md", *SOURCES):
        for names in re.findall(r"(?:imgrec|`\.|'\.)\[([\w.,-]+)\]", path.read_text()):
            yield from names.split(",")
    for script in ("imgrec", "test"):
        found = re.search(r"^setup (\S+)$", (ROOT / "scripts" / script).read_text(), re.MULTILINE)
        assert found
        yield from found[1].split(",")


def test_names_need_no_normalisation() -> None:
    assert [name for name in EXTRAS if not re.fullmatch("[a-z0-9]+", name)] == []


@pytest.mark.parametrize("told", [in_code, in_text])
def test_every_extra_that_is_told_exists(told: Callable[[], Iterator[str]]) -> None:
    names = set(told())
    assert len(names) > 5
    assert names - EXTRAS.keys() == set()


def test_dev_has_all_extras_in_it() -> None:
    (own,) = [line for line in EXTRAS["dev"] if line.startswith("imgrec[")]
    assert {*own.removeprefix("imgrec[").removesuffix("]").split(",")} == EXTRAS.keys() - {"dev"}


def test_pip_installs_what_each_extra_asks_for(tmp_path: Path) -> None:
    """With the pip that is here, from wheels whose metadata are written as hatchling does."""
    written = {name: re.sub(r"[-_.]+", "-", name).lower() for name in EXTRAS}
    for name in EXTRAS:
        write_wheel(tmp_path, f"needed_by_{name}", [])
    lines = [
        line
        for name, spelled in written.items()
        for line in (
            f"Provides-Extra: {spelled}",
            f"Requires-Dist: needed_by_{name}; extra == '{spelled}'",
        )
    ]
    write_wheel(tmp_path, "probe", lines)
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--isolated", "--no-index"]
    done = subprocess.run(
        [*command, "--find-links", tmp_path, f"probe[{','.join(EXTRAS)}]"],
        text=True, capture_output=True, check=True,
    )  # fmt: skip
    installed = done.stdout.splitlines()[-1].replace("_", "-")
    assert [name for name in EXTRAS if f"needed-by-{name}-1" not in installed] == []


def write_wheel(folder: Path, name: str, metadata: list[str]) -> None:
    info = f"{name}-1.dist-info"
    head = ["Metadata-Version: 2.1", f"Name: {name}", "Version: 1", *metadata, ""]
    tags = ["Wheel-Version: 1.0", "Root-Is-Purelib: true", "Tag: py3-none-any", ""]
    with zipfile.ZipFile(folder / f"{name}-1-py3-none-any.whl", "w") as file:
        file.writestr(f"{info}/METADATA", "\n".join(head))
        file.writestr(f"{info}/WHEEL", "\n".join(tags))
        file.writestr(f"{info}/RECORD", "")
