"""How much memory this machine has left."""

from __future__ import annotations


def available_bytes() -> int | None:
    """Return how much memory this process can still get; None if the system does not tell."""
    limits = [_free_by_system(), *(_free_by_group(*names) for names in _GROUPS)]
    return min((limit for limit in limits if limit is not None), default=None)


_SYSTEM = "/proc/meminfo"
_GROUPS = (
    ("/sys/fs/cgroup/", "memory.max", "memory.current"),
    ("/sys/fs/cgroup/memory/", "memory.limit_in_bytes", "memory.usage_in_bytes"),
)
"""Limit and use of a container's memory, in versions 2 and 1 of control groups."""


def _free_by_system() -> int | None:
    try:
        kib = _numbers(_SYSTEM)
        return (kib["MemAvailable:"] + kib["SwapFree:"]) << 10
    except (OSError, ValueError, KeyError):
        return None


def _free_by_group(folder: str, limit: str, used: str) -> int | None:
    try:
        with open(folder + limit) as most, open(folder + used) as now:
            free = int(most.read()) - int(now.read())
        found = _numbers(f"{folder}memory.stat")
        # Pages of files count as used, but are given back when they are needed.
        return max(free + found["inactive_file"] + found["active_file"], 0)
    except (OSError, ValueError, KeyError):  # no such group, or one whose limit is "max"
        return None


def _numbers(path: str) -> dict[str, int]:
    """Read lines of a name, a number and perhaps a unit."""
    with open(path) as file:
        lines = [line.split() for line in file]
    return {words[0]: int(words[1]) for words in lines if len(words) > 1}
