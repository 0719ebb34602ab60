"""The files of a manifest: one table, those of a pattern, or the parts in a folder."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.source.split_words import split_of_name
from imgrec.source.tables import is_table
from imgrec.storage.files import walk
from imgrec.text import name_of

_SUBMISSION = re.compile(r"sample[-_ ]?sub|submission|submit[-_ ]?sample", re.I)
_UNFINISHED = {
    "_delta_log": "is a Delta table, whose files also hold deleted rows",
    "_temporary": "holds an export that is not finished",
}


class ManifestFiles(NamedTuple):
    """The files of a manifest, in the order of their names."""

    folder: str
    """Their folder, and that of the images unless --images names another."""
    paths: tuple[str, ...]
    names: tuple[str, ...]
    """Their paths below the folder, for messages."""
    is_folder: bool
    """Whether a folder of part files was given."""
    others: tuple[str, ...] = ()
    """Other files in that folder."""

    @property
    def name(self) -> str:
        """The name of the dataset: that of the folder."""
        return name_of(os.path.basename(os.path.abspath(self.folder))) or "root"

    @property
    def where(self) -> str:
        """All files together, for messages."""
        return self.name if self.is_folder or len(self.names) > 1 else self.names[0]


def manifest_files(path: str) -> ManifestFiles:
    """List the files of a manifest; raise SourceError if there are none."""
    if os.path.isdir(path):
        return _files_in(path)
    if os.path.lexists(path):
        return _files(os.path.dirname(path) or ".", [path], is_folder=False)
    if found := [match for match in glob.glob(path, recursive=True) if os.path.isfile(match)]:
        kept = [match for match in found if not os.path.basename(match).startswith("_")]
        folder = os.path.dirname(path)
        while glob.has_magic(folder):
            folder = os.path.dirname(folder)
        return _files(folder or ".", kept or found, is_folder=False)
    what = "no file matches" if glob.has_magic(path) else "there is no"
    raise SourceError(
        f"{what} {path}", hint="give a table, a pattern in quotes, or a folder", path=path
    )


def is_submission(path: str) -> bool:
    """Return whether a file is a sample submission, whose labels are made up.

    >>> is_submission("data/sampleSubmission_v2.csv.zip"), is_submission("train.csv")
    (True, False)
    """
    return bool(_SUBMISSION.search(os.path.basename(path)))


def _files(folder: str, paths: list[str], *, is_folder: bool) -> ManifestFiles:
    for path in filter(is_submission, paths):
        raise SourceError(
            f"{path} is a sample submission by its name, whose labels are made up",
            hint="give the table of true labels; if this is it, rename it",
            path=path,
        )
    named = sorted((name_of(os.path.relpath(path, folder)), path) for path in paths)
    return ManifestFiles(
        folder=folder,
        paths=tuple(path for _, path in named),
        names=tuple(name for name, _ in named),
        is_folder=is_folder,
    )


def _files_in(folder: str) -> ManifestFiles:
    paths: list[str] = []
    others: list[str] = []
    for path in _walk(folder):
        (paths if _is_part(path) else others).append(path)
    if not paths:
        raise SourceError(
            f"{folder} holds no tables", hint="give CSV, TSV, JSON lines or Parquet", path=folder
        )
    named = tuple(name_of(os.path.relpath(other, folder)) for other in others)
    return _files(folder, paths, is_folder=True)._replace(others=named)


def _is_part(path: str) -> bool:
    if not is_table(path) or is_submission(path):
        return False
    # Read-me files and notes on single images end in .txt more often than tables do.
    is_text = path.lower().endswith(".txt")
    return not is_text or os.path.basename(path).startswith("part-") or bool(split_of_name(path))


def _walk(root: str) -> Iterator[str]:
    """Yield the files below a folder, except hidden ones and those of a job (`_SUCCESS`)."""
    for folder, folders, files in walk(root):
        for name in sorted(_UNFINISHED.keys() & folders):
            raise SourceError(
                f"{folder} {_UNFINISHED[name]}",
                hint="give a folder in which every part file counts",
                path=folder,
            )
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (os.path.join(folder, name) for name in sorted(files) if name[0] not in "._")
