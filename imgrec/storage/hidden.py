"""Names of the hidden folders and notes beside the versions of a dataset."""

from __future__ import annotations

import re
from pathlib import Path

INCOMPLETE, REPLACED = ".incomplete", ".replaced"
ORIGIN = ".origin.json"
"""The suffix of the private note beside a dataset; see `imgrec.packing.origin`."""
_VERSION = re.compile(r"\d+\.\d+\.\d+")


def incomplete_path(target: Path) -> Path:
    """Return the path of the hidden folder in which a dataset grows."""
    return target.with_name(f".{target.name}{INCOMPLETE}")


def replaced_path(target: Path) -> Path:
    """Return the path of a dataset that is being replaced."""
    return target.with_name(f".{target.name}{REPLACED}")


def origin_path(target: Path) -> Path:
    """Return the path of the private note about the origin of a dataset."""
    return target.with_name(f".{target.name}{ORIGIN}")


def target_of(hidden: Path) -> Path:
    """Return the path of the dataset that a hidden folder or note belongs to."""
    name = hidden.name[1:]
    for suffix in (ORIGIN, REPLACED, INCOMPLETE):
        name = name.removesuffix(suffix)
    return hidden.with_name(name)


def is_hidden_name(name: str, suffix: str) -> bool:
    """Return whether a name is that of a version, hidden with a suffix.

    >>> [is_hidden_name(name, ".incomplete") for name in (".1.0.0.incomplete", ".old.incomplete")]
    [True, False]
    """
    is_so = name.startswith(".") and name.endswith(suffix)
    return is_so and _VERSION.fullmatch(name[1 : -len(suffix)]) is not None
