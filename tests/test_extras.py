"""Every extra that code, messages and README name is in pyproject.toml."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable, Iterator

import pytest
from conftest import ROOT

from imgrec.storage.remote.filesystem import _EXTRAS as STORES

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]
SOURCES = sorted((ROOT / "imgrec").rglob("*.py"))


def in_code() -> Iterator[str]:
    """Yield the extras in calls of `import_extra`; fail for one that cannot be read."""
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.keyword) and node.arg == "extra":
                if isinstance(node.value, ast.Constant):
                    yield str(node.value.value)
                else:
                    assert path.stem == "filesystem", path  # its table is read below
    yield from (extra for _package, extra in STORES.values())


def in_text() -> Iterator[str]:
    """Yield the extras that documents, messages and scripts name, such as imgrec[tfds]."""
    for path in (ROOT / "README.md", *(ROOT / "imgrec/manual").glob("*.md"), *SOURCES):
        for names in re.findall(r"(?:imgrec|`\.|'\.)\[([\w.,-]+)\]", path.read_text()):
            yield from names.split(",")
    for script in ("imgrec", "test"):
        found = re.search(r"^setup (\S+)$", (ROOT / "scripts" / script).read_text(), re.MULTILINE)
        assert found
        yield from found[1].split(",")


def test_pip_finds_each_extra_by_its_name_because_it_needs_no_normalisation() -> None:
    assert [name for name in EXTRAS if not re.fullmatch("[a-z0-9]+", name)] == []


@pytest.mark.parametrize("named", [in_code, in_text])
def test_every_extra_that_is_named_exists(named: Callable[[], Iterator[str]]) -> None:
    names = set(named())
    assert len(names) > 5
    assert names - EXTRAS.keys() == set()


def test_dev_includes_all_extras() -> None:
    (own,) = [line for line in EXTRAS["dev"] if line.startswith("imgrec[")]
    assert {*own.removeprefix("imgrec[").removesuffix("]").split(",")} == EXTRAS.keys() - {"dev"}
