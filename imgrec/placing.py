"""Where the dataset of a source goes, and where it cannot go."""

from __future__ import annotations

from pathlib import Path

from imgrec import layout
from imgrec.engine import Engine
from imgrec.errors import UsageError
from imgrec.options import PackOptions
from imgrec.source.kinds import Source
from imgrec.storage.paths import is_remote, refuse_unwritable, to_path


def place(source: Source, options: PackOptions) -> Path:
    """Return the folder that a dataset will be; raise UsageError if it cannot be there."""
    where = options.data_dir or layout.default_data_dir()
    refuse_unwritable(where)
    data_dir = to_path(where)
    for folder in filter(None, (source.path, options.source.images)):
        if data_dir.resolve().is_relative_to(to_path(folder).resolve()):
            raise UsageError(
                f"--data-dir {data_dir} is inside the source {folder}",
                hint="choose a folder outside, or the next run would find the output of this one",
            )
    name = layout.dataset_name(source.name, options.name)
    return layout.dataset_dir(data_dir, name, options.version)


def refuse_far(engine: Engine | None, source: str, options: PackOptions) -> None:
    """Raise UsageError for what only engines on this machine do: reading and writing stores."""
    if engine is None or engine.is_local:
        return
    for what, path in (
        ("--data-dir", options.data_dir or layout.default_data_dir()),
        ("the source", source),
    ):
        if is_remote(path):
            raise UsageError(
                f"{what} {path} is on an object store, which the local engine alone packs",
                hint="leave out --engine, or mount it where all executors see it",
            )
