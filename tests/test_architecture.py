"""The shape of the code, read from its imports: data flows one way."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from conftest import ROOT

PACKAGE = ROOT / "imgrec"
TIERS = (
    "errors text stamp near notes",
    "options spelling html faults",
    "model",
    "outcome",
    "layout storage codec",
    "source planning write read",
    "engine publish loaders inspect",
    "request",
    "packing",
    "api spark view",
    "cli loaders.tfds_builder",
    "builder",
)
"""Rooms from the floor up: a module imports from lower tiers, or from its own room."""
RANKS = {room: rank for rank, rooms in enumerate(TIERS) for room in rooms.split()}
FREE = {"__init__", "__main__"}
"""The doors of the package, which may open on anything."""
MODULES = sorted(PACKAGE.rglob("*.py"))


def module_name(path: Path) -> str:
    parts = path.relative_to(PACKAGE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" and len(parts) > 1 else parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


@cache
def imports(path: Path) -> tuple[str, ...]:
    """The modules of imgrec that a module imports, anywhere in it, without "imgrec."."""
    return tuple(
        name.removeprefix("imgrec.")
        for node in ast.walk(tree(path))
        for name in imported(node)
        if name.startswith("imgrec.") and name != "imgrec.__version__"
    )


def imported(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom) and node.module == "imgrec":
        yield from (f"imgrec.{alias.name}" for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        yield str(node.module)


def rank(module: str) -> int:
    """The rank of a module: its own where it has one, else that of its room."""
    room = module.split(".")[0]
    assert room in RANKS, f"{room} has no place in TIERS"
    return RANKS.get(module, RANKS[room])


def test_modules_import_only_downhill_or_from_their_own_room() -> None:
    assert [
        f"{name} imports {other}"
        for path in MODULES
        if (name := module_name(path)) not in FREE
        for other in imports(path)
        if rank(other) >= rank(name) and other.split(".")[0] != name.split(".")[0]
    ] == []


def test_no_modules_import_each_other_in_a_circle() -> None:
    graph = {module_name(path): set(imports(path)) for path in MODULES}

    def reaches(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            new = graph.get(waiting.pop(), set()) - seen
            seen |= new
            waiting += new
        return seen

    assert [name for name in graph if name in reaches(name)] == []


def test_the_plan_imports_only_the_floor() -> None:
    floor = {
        "errors",
        "options",
        "model",
        "layout",
        "text",
        "spelling",
        "planning",
        "notes",
        "near",
    }
    assert [
        f"{path} imports {other}"
        for path in PACKAGE.glob("planning/*.py")
        for other in imports(path)
        if other.split(".")[0] not in floor
    ] == []


def test_only_storage_creates_replaces_or_deletes_files() -> None:
    verbs = {"write_bytes", "write_text", "mkdir", "rename", "unlink", "rmtree", "fallocate"}
    assert [
        f"{path}:{node.lineno} calls {node.func.attr}"
        for path in MODULES
        if "storage" not in path.parent.parts
        for node in ast.walk(tree(path))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)
        if node.func.attr in verbs
    ] == []


def test_the_top_level_holds_only_what_the_design_names() -> None:
    allowed = {"pyproject.toml", "README.md", "imgrec", "scripts", "tests", "sample_data"}
    allowed |= {"LICENSE", "CHANGELOG.md", "bench-data"}
    found = {path.name for path in ROOT.iterdir() if not path.name.startswith(".")}
    assert found - allowed == set()
