"""What the benchmarks share: goals, tables and where things are."""

from __future__ import annotations

import importlib.metadata
import operator
import os
import platform
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

CHECKOUT = Path(__file__).resolve().parent.parent
WORK = CHECKOUT / "bench-data"
"""Where benchmarks keep their data unless told otherwise; not under version control."""

_MEETS: Mapping[str, Callable[[float, float], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">=": operator.ge,
}


class Goal(NamedTuple):
    """One measured value against its target."""

    what: str
    value: float
    sign: str
    """How the value has to compare with the target: "<", "<=" or ">="."""
    target: float
    unit: str = ""

    @property
    def is_met(self) -> bool:
        """Tell whether the value compares with the target as it has to."""
        return _MEETS[self.sign](self.value, self.target)

    def row(self) -> tuple[str, str, str, str]:
        """Return the goal as a row of a table."""
        value = f"{self.value:,.2f}{self.unit}"
        return self.what, value, f"{self.sign} {self.target:,g}{self.unit}", _verdict(self.is_met)

    def as_value(self) -> dict[str, object]:
        """Return the goal as a JSON value."""
        return {**self._asdict(), "is_met": self.is_met}


def _verdict(is_met: bool) -> str:
    return "met" if is_met else "MISSED"


def goal_table(goals: Iterable[Goal]) -> str:
    """Return the goals as lines of text."""
    return table([("goal", "measured", "target", ""), *(goal.row() for goal in goals)])


def table(rows: Sequence[Sequence[str]]) -> str:
    """Return rows, the first of them the titles, as lines of text in even columns.

    Only the first column holds words; the others hold numbers, which line up at their ends.
    """
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = []
    for first, *others in rows:
        cells = [first.ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)]
        lines.append("  " + "  ".join(cells).rstrip())
    return "\n".join(lines)


def setting(packages: Iterable[str]) -> dict[str, str]:
    """Return what figures depend on: CPUs, load, and the versions of Python and of `packages`."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    versions = {package: importlib.metadata.version(package) for package in packages}
    load = f"{os.getloadavg()[0]:.1f}"
    return {"cpus": str(cpus), "load": load, "python": platform.python_version(), **versions}


def checkout_environment() -> dict[str, str]:
    """Return the environment of a process that runs the imgrec of this checkout."""
    path = os.pathsep.join(filter(None, (str(CHECKOUT), os.environ.get("PYTHONPATH"))))
    environment = {**os.environ, "PYTHONPATH": path}
    # Where that is set, every process would compile imgrec anew, which pip did for its peers.
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    return environment
