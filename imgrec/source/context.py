"""What every kind of source is given to work with."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from imgrec.options import SourceOptions
from imgrec.source.probe import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """How to read a source, and with whose help."""

    options: SourceOptions
    run: Run
    """Decides where files are looked at."""
    on_progress: Callable[[int], object]
    """Is told how many more files were seen."""
    spool: str
    """A folder, which may not exist yet, for what must be unpacked before it can be read."""
    keeps_small: bool = False
    """Whether small files are copied to the spool at the first look, and not opened again."""
