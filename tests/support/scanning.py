"""What a source works with in tests: everything happens in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from imgrec.model import Catalog
from imgrec.options import SourceOptions
from imgrec.source.kinds import scan_tree
from imgrec.source.tree import Context
from imgrec.source.walk import Walk


def run(function: Callable[..., object], tasks: Iterable[object]) -> Iterator[object]:
    return map(function, tasks)


def context(spool: Path | str = "", **options: object) -> Context:
    return Context(
        options=SourceOptions(**options),  # type: ignore[arg-type]
        run=run,  # type: ignore[arg-type]
        on_progress=lambda _: None,
        spool=str(spool),
    )


def scan_folder(root: Path | str, context: Context) -> Catalog:
    """The catalog of a folder of images."""
    return scan_tree(Walk(str(root), follow_links=context.options.follow_links), context)
