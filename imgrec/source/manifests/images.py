"""The images that a manifest is about, and those that it leaves out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from imgrec.model import Skipped
from imgrec.options import SourceOptions
from imgrec.source.context import Context
from imgrec.source.listing import open_tree
from imgrec.source.manifests.paths import NO_FILE, Finder
from imgrec.source.tree import Lister, Tree, look_at, refuse_closed, still_closed
from imgrec.storage.unreadable import is_passing

_OTHER = "not an image"


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestImages:
    """All files that rows may name."""

    lister: Lister
    tree: Tree
    finder: Finder
    """Knows the files of the tree by their numbers, and after them those that it passed over."""
    faults: Mapping[int, str]
    """Why a file cannot be packed, by its number."""


def open_images(place: str, context: Context) -> ManifestImages:
    """List a folder or an archive and look at its files."""
    lister = open_tree(place, context)
    tree = look_at(lister, context)
    count = len(tree.names)
    known = set(tree.names) if lister.bad else set()
    unreadable = [file for file in lister.bad if file.filename not in known]
    paths = [*tree.names, *(file.filename for file in unreadable)]
    return ManifestImages(
        lister=lister,
        tree=tree,
        finder=Finder(paths, [at for at in range(len(paths)) if at not in tree.others], place),
        faults={
            **tree.faults,
            **dict.fromkeys(tree.others, _OTHER),
            **{count + at: file.reason for at, file in enumerate(unreadable)},
        },
    )


def count_rest(images: ManifestImages, found: Sequence[int | str], own: Sequence[str]) -> None:
    """Count the files that no row names, but for the manifest's own."""
    tree, tally = images.tree, images.lister.tally
    own_paths = {os.path.realpath(path) for path in own}
    for number in sorted(tree.others.difference(at for at in found if isinstance(at, int))):
        blob = tree.blobs[number]
        if not isinstance(blob, str) or os.path.realpath(blob) not in own_paths:
            tally.add(_OTHER, tree.names[number])
    for number in _without_row(images, found):
        if number >= len(tree.names):
            tally.add("unreadable file", images.finder.paths[number])


def unplaced(images: ManifestImages, found: Sequence[int | str], where: str) -> Iterator[Skipped]:
    """Yield the images that no row names."""
    for number in _without_row(images, found):
        if number < len(images.tree.names):
            yield Skipped(images.finder.paths[number], f"no row in {where}")


def refuse_hidden(
    images: ManifestImages, found: Sequence[int | str], options: SourceOptions
) -> None:
    """Raise an error if a row names no file, but might name one in a folder that was not listed."""
    closed = still_closed(images.lister, options)
    if NO_FILE in found or any(is_passing(one.error) for one in closed):
        refuse_closed(images.lister, options)


def doubts(images: ManifestImages, found: Sequence[int | str], where: str) -> Iterator[str]:
    """Yield what may not be as the user thinks."""
    if images.lister.closed:
        yield f"folders that cannot be read: {', '.join(map(str, images.lister.closed))}"
    if count := len(_without_row(images, found)):
        what = "1 image has" if count == 1 else f"{count:,} images have"
        yield f"{what} no row in {where}, and no place in the dataset"


def _without_row(images: ManifestImages, found: Sequence[int | str]) -> list[int]:
    named = set(found)
    return [number for number in images.finder.images if number not in named]
