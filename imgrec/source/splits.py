"""Which top folders of a tree are splits, and which are classes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.errors import SourceError
from imgrec.model import TEST
from imgrec.options import FolderLayout, SourceOptions
from imgrec.source.split_words import split_word
from imgrec.source.tree import Folder


def has_images(folder: Folder) -> bool:
    """Tell whether images, by their names, are right in a folder."""
    return any(extension(name) in IMAGE_EXTENSIONS for name in folder.files)


def split_folders(
    root: str, folders: Sequence[Folder], options: SourceOptions
) -> Mapping[str, str]:
    """Return which split each split folder is; nothing if the top folders are classes.

    Raises SourceError if what was asked for is not there, or if splits hold no classes.
    """
    layout = options.layout
    tops = {folder.path: folder for folder in folders if folder.path and "/" not in folder.path}
    named = {path: folder for path, folder in tops.items() if split_word(path)}
    if layout is FolderLayout.SPLITS and not named:
        raise SourceError(
            f"{root} has no split folders",
            hint="call them train, val and test, or leave out --layout",
            path=root,
        )
    if layout is FolderLayout.CLASSES or not named:
        return {}
    is_clear = layout is FolderLayout.SPLITS or bool(options.label_regex)
    if not is_clear and not _are_splits(root, tops, named):
        return {}
    splits = {path: split_word(path) for path in named}
    _refuse_two_of_one(root, splits)
    return splits


def _are_splits(root: str, tops: Mapping[str, Folder], named: Mapping[str, Folder]) -> bool:
    """Tell split folders, which hold class folders, from classes called `train` or `test`.

    If there are only folders of such names, they are splits, be there a stray image or not.
    Among others, they are splits unless there are images right in them; a flat `test` beside a
    `train` of class folders is common, though.
    """
    hold_folders = any(folder.has_folders for folder in named.values())
    if len(tops) > len(named):
        flat = {split_word(path) for path in named if has_images(named[path])}
        return hold_folders and flat <= {TEST}
    if not hold_folders and any(map(has_images, named.values())):
        raise SourceError(
            f"{root}: {' and '.join(sorted(named))} hold images but no class folders",
            hint="put the images of each class into a folder; if the file names tell the classes, "
            "pass --label-regex; if these are the classes, --layout classes",
            path=root,
        )
    return True


def _refuse_two_of_one(root: str, splits: Mapping[str, str]) -> None:
    for split in sorted(set(splits.values())):
        same = [path for path, meaning in splits.items() if meaning == split]
        if len(same) > 1:
            raise SourceError(
                f"{root}: the folders {' and '.join(same)} both mean the split {split}",
                hint="merge or rename them",
                path=root,
            )
