"""Text files of a download that list its images by split: `meta/train.txt`, `test_list.txt`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TRAIN
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.seen import Seen
from imgrec.source.download.words import split_of_file

_SHOWN = 5


class SplitLists(NamedTuple):
    """The split of each image, by path, and the files that tell it."""

    splits: Mapping[str, str]
    where: str


class _List(NamedTuple):
    path: str
    split: str
    found: Sequence[Sequence[str]]
    """The images that each line may mean."""


def split_lists(seen: Seen, index: ImageIndex, labelled: Set[str]) -> SplitLists | None:
    """Return the splits that lists give to images.

    None unless there is one list for each split and every labelled image is in exactly one.
    """
    splits: dict[str, str] = {}
    used: dict[str, str] = {}
    for path, split, found in _lists(seen, index):
        if any(len(paths) != 1 for paths in found):
            continue
        if split in used.values() or any(one in splits for (one,) in found):
            return None
        used[path] = split
        splits |= dict.fromkeys((one for (one,) in found), split)
    is_whole = len(used) > 1 and labelled <= splits.keys()
    return SplitLists(splits, ", ".join(used)) if is_whole else None


def refuse_lists(seen: Seen, index: ImageIndex) -> None:
    """Raise SourceError if lists say which images are for val or test, but not of all."""
    telling = [
        path
        for path, split, found in _lists(seen, index)
        if split != TRAIN and sum(map(bool, found)) * 2 > len(found)
    ]
    if telling:
        raise SourceError(
            f"{seen.root}: {', '.join(telling[:_SHOWN])} list images by split, but not all of them "
            "exactly once",
            hint="write the split of each image into a column of the table and name it with "
            "--split-col, or pass --kind folder or --kind archive to ignore the lists",
            path=seen.root,
        )


def _lists(seen: Seen, index: ImageIndex) -> Iterator[_List]:
    for path, rows in sorted(seen.lists.items()):
        split = split_of_file(path)
        found = [index.find(row[0]) for row in rows if row] if split else []
        if any(found):
            yield _List(path, split, found)
