"""The shape of the code, read from its imports: data flows one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import ROOT

PACKAGE = ROOT / "imgrec"
RANKS = {
    "errors": 0, "text": 0, "blob": 0, "background": 0, "unknown": 0, "stamp": 0,
    "options": 1, "spelling": 1, "extras": 1, "near": 1, "notebook": 1,
    "model": 2,
    "outcome": 3,
    "layout": 4, "storage": 4, "codec": 4,
    "source": 5, "plan": 5, "write": 5, "read": 5,
    "engine": 6, "publish": 6, "inspection": 6, "origin": 6,
    "resume": 7, "refining": 7, "current": 7, "placing": 7,
    "packing": 8, "examining": 8,
    "api": 9, "loaders": 9, "showing": 9,
    "cli": 10, "builder": 10, "spark": 10,
}  # fmt: skip
FREE = {"__init__", "__main__"}
"""The doors of the package, which may open on anything."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def room(module: str) -> str:
    return module.split(".")[1]


def module_name(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 2 else parts)


def imports(path: Path) -> Iterator[str]:
    """Yield the imgrec modules that a module imports, anywhere in it."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name.startswith("imgrec."))
        elif isinstance(node, ast.ImportFrom) and node.module == "imgrec":
            yield from (f"imgrec.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("imgrec."):
            yield str(node.module)


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_imports_only_downhill_or_from_its_own_room(path: Path) -> None:
    name = module_name(path)
    if room(name) in FREE:
        return
    uphill = [
        imported
        for imported in imports(path)
        if room(imported) != room(name)
        and room(imported) != "__version__"
        and RANKS[room(imported)] >= RANKS[room(name)]
    ]
    assert uphill == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module_name(path): set(imports(path)) for path in MODULES}

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for following in graph.get(waiting.pop(), ()):
                if following not in seen:
                    seen.add(following)
                    waiting.append(following)
        return seen

    assert [name for name in graph if name in reaches(name)] == []


@pytest.mark.parametrize("path", MODULES, ids=module_name)
def test_a_module_has_at_most_450_lines(path: Path) -> None:
    assert len(path.read_text().splitlines()) <= 450


def test_the_plan_needs_nothing_but_the_standard_library() -> None:
    allowed = {"imgrec.errors", "imgrec.options", "imgrec.model", "imgrec.layout"}
    allowed |= {"imgrec.text", "imgrec.spelling", "imgrec.unknown"}
    for path in PACKAGE.glob("plan/*.py"):
        for imported in imports(path):
            assert imported in allowed or imported.startswith("imgrec.plan"), path


def test_only_storage_creates_replaces_or_deletes_files() -> None:
    verbs = {"write_bytes", "write_text", "mkdir", "rename", "unlink", "rmtree", "fallocate"}
    for path in MODULES:
        if "storage" in path.parent.parts:
            continue
        calls = {
            node.func.attr
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        }
        assert calls & verbs == set(), path


def test_the_top_level_holds_only_what_the_design_names() -> None:
    allowed = {"pyproject.toml", "README.md", "imgrec", "scripts", "tests", "sample_data"}
    allowed |= {"LICENSE", "CHANGELOG.md", "bench-data"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - allowed == set()
