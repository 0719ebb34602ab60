"""The files that a manifest consists of: one, those of a pattern, or the parts in a folder."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.source.manifests.tables import is_table
from imgrec.source.split_words import split_of_name
from imgrec.storage.files import walk
from imgrec.text import name_of

_SUBMISSION = re.compile(r"sample[-_ ]?sub|submission|submit[-_ ]?sample", re.I)
_UNFINISHED = {
    "_delta_log": "is a Delta table, whose files hold rows that it no longer has",
    "_temporary": "holds an export that is not finished",
}


class ManifestFiles(NamedTuple):
    """The files of a manifest, in the order of their names."""

    folder: str
    """Where they are, and where their images are unless another place is said."""
    paths: tuple[str, ...]
    names: tuple[str, ...]
    """What each is called in messages: its path below the folder."""
    is_folder: bool
    """Whether a folder of part files was named."""
    others: tuple[str, ...] = ()
    """What else is in that folder."""

    @property
    def name(self) -> str:
        """What the manifest calls itself: its folder's name."""
        return name_of(os.path.basename(os.path.abspath(self.folder))) or "root"

    @property
    def where(self) -> str:
        """What all files together are called in messages, wherever they are."""
        return self.name if self.is_folder or len(self.names) > 1 else self.names[0]


def manifest_files(path: str) -> ManifestFiles:
    """List the files of a manifest; raise SourceError if there are none."""
    if os.path.isdir(path):
        return _of_folder(path)
    if os.path.lexists(path):
        return _files(os.path.dirname(path) or ".", [path], is_folder=False)
    if found := [match for match in glob.glob(path, recursive=True) if os.path.isfile(match)]:
        kept = [match for match in found if not os.path.basename(match).startswith("_")]
        return _files(_fixed_folder(path), kept or found, is_folder=False)
    what = "no file fits" if glob.has_magic(path) else "there is no"
    raise SourceError(
        f"{what} {path}", hint="give a table, a pattern in quotes, or a folder", path=path
    )


def is_submission(path: str) -> bool:
    """Tell whether a file is an example of what to hand in, whose labels are made up.

    >>> is_submission("data/sampleSubmission_v2.csv.zip"), is_submission("train.csv")
    (True, False)
    """
    return bool(_SUBMISSION.search(os.path.basename(path)))


def _files(folder: str, paths: list[str], *, is_folder: bool) -> ManifestFiles:
    if handed_in := [path for path in paths if is_submission(path)]:
        raise SourceError(
            f"{handed_in[0]} is a sample submission by its name, whose labels are made up",
            hint="give the table of true labels; if this is it, rename it",
            path=handed_in[0],
        )
    named = sorted((name_of(os.path.relpath(path, folder)), path) for path in paths)
    return ManifestFiles(
        folder=folder,
        paths=tuple(path for _, path in named),
        names=tuple(name for name, _ in named),
        is_folder=is_folder,
    )


def _fixed_folder(pattern: str) -> str:
    """Return the folder that all files of a pattern are in."""
    folder = os.path.dirname(pattern)
    while glob.has_magic(folder):
        folder = os.path.dirname(folder)
    return folder or "."


def _of_folder(folder: str) -> ManifestFiles:
    paths: list[str] = []
    others: list[str] = []
    for path in _walk(folder):
        (paths if is_part(path) else others).append(path)
    if not paths:
        raise SourceError(
            f"{folder} holds no tables", hint="give CSV, TSV, JSON lines or Parquet", path=folder
        )
    named = tuple(name_of(os.path.relpath(other, folder)) for other in others)
    return _files(folder, paths, is_folder=True)._replace(others=named)


def is_part(path: str) -> bool:
    """Tell whether a file in a folder may be one of the tables of a manifest."""
    if not is_table(path) or is_submission(path):
        return False
    # Read-me files and notes on single images end in .txt more often than tables do.
    is_text = path.lower().endswith(".txt")
    return not is_text or os.path.basename(path).startswith("part-") or bool(split_of_name(path))


def _walk(root: str) -> Iterator[str]:
    """Yield the files below a folder, but none that is hidden or a job's own (`_SUCCESS`)."""
    for folder, folders, files in walk(root):
        for name in sorted(_UNFINISHED.keys() & folders):
            raise SourceError(
                f"{folder} {_UNFINISHED[name]}",
                hint="give a folder of part files that are all meant",
                path=folder,
            )
        folders[:] = sorted(name for name in folders if name[0] not in "._")
        yield from (os.path.join(folder, name) for name in sorted(files) if name[0] not in "._")
