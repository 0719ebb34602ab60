"""The images that a manifest is about, and those that it leaves out."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from imgrec.codec.sniff import IMAGE_EXTENSIONS, extension
from imgrec.model import Skipped
from imgrec.options import SourceOptions
from imgrec.source.context import Context
from imgrec.source.listing import open_tree
from imgrec.source.manifests.paths import NO_FILE, Finder
from imgrec.source.tree import (
    Lister,
    Tree,
    list_files,
    look_at_listed,
    refuse_closed,
    still_closed,
)
from imgrec.storage.unreadable import is_passing

_OTHER = "not an image"
_EXAMPLES = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class ManifestImages:
    """All files that rows may name: they are listed, but not looked at."""

    lister: Lister
    listed: Tree
    unreadable: Sequence[Skipped]
    """Files that are known not to be readable, numbered after those that are listed."""
    finder: Finder

    def look_at(self, found: Sequence[int | str], context: Context) -> Named:
        """Look at the files that rows name, and at no others.

        `found` are the numbers of files as the finder has them, or why there is none.
        """
        count = len(self.listed.names)
        numbers = sorted({at for at in found if isinstance(at, int) and at < count})
        tree = self.listed.pick(numbers)
        look_at_listed(tree, context)
        faults = {**tree.faults, **dict.fromkeys(tree.others, _OTHER)}
        places: dict[int | str, int | str] = {
            number: faults.get(place, place) for place, number in enumerate(numbers)
        }
        for at, file in enumerate(self.unreadable, count):
            places[at] = file.reason
        return Named(tree, [places.get(at, at) for at in found])


@dataclass(frozen=True, slots=True)
class Named:
    """The files that rows name, and what a look at each showed."""

    tree: Tree
    found: Sequence[int | str]
    """For each row, the number of its image in that tree, or why it has none."""


def open_images(place: str, context: Context) -> ManifestImages:
    """List a folder or an archive."""
    lister = open_tree(place, context)
    return images_of(lister, lister.root)


def images_of(lister: Lister, place: str) -> ManifestImages:
    """List the files of a folder or an archive, which messages call `place`."""
    listed = list_files(lister)
    known = set(listed.names) if lister.bad else set()
    unreadable = [file for file in lister.bad if file.filename not in known]
    paths = [*listed.names, *(file.filename for file in unreadable)] if unreadable else listed.names
    return ManifestImages(
        lister=lister, listed=listed, unreadable=unreadable, finder=Finder(paths, place)
    )


@dataclass(frozen=True, slots=True)
class Rest:
    """The images that no row names."""

    count: int
    examples: tuple[str, ...]


def count_rest(images: ManifestImages, found: Sequence[int | str], own: Sequence[str]) -> Rest:
    """Count the files that no row names, but for the manifest's own.

    They are told apart by their names alone, as there may be millions of them.
    """
    listed, tally = images.listed, images.lister.tally
    named = set(found)
    own_names = {os.path.basename(path) for path in own}
    own_paths = {os.path.realpath(path) for path in own}
    count, examples = 0, list[str]()
    for number, name in enumerate(listed.names):
        if number in named:
            continue
        if extension(name) in IMAGE_EXTENSIONS:
            count += 1
            tally.add("without a row", name)
            if len(examples) < _EXAMPLES:
                examples.append(name)
        elif name.rpartition("/")[2] not in own_names or not _is_one_of(
            listed.blobs[number], own_paths
        ):
            tally.add(_OTHER if extension(name) else "not named by a row", name)
    for at, file in enumerate(images.unreadable, len(listed.names)):
        if at not in named:
            tally.add("unreadable file", file.filename)
    return Rest(count, tuple(examples))


def _is_one_of(blob: object, paths: set[str]) -> bool:
    return isinstance(blob, str) and os.path.realpath(blob) in paths


def refuse_hidden(
    images: ManifestImages, found: Sequence[int | str], options: SourceOptions
) -> None:
    """Raise an error if a row names no file, but might name one in a folder that was not listed."""
    closed = still_closed(images.lister, options)
    if NO_FILE in found or any(is_passing(one.error) for one in closed):
        refuse_closed(images.lister, options)


def doubts(images: ManifestImages, rest: Rest, where: str) -> Iterator[str]:
    """Yield what may not be as the user thinks."""
    if images.lister.closed:
        yield f"folders that cannot be read: {', '.join(map(str, images.lister.closed))}"
    if rest.count:
        what = "1 other image has" if rest.count == 1 else f"{rest.count:,} other images have"
        yield f"{what} no row in {where}, such as {', '.join(rest.examples)}"
