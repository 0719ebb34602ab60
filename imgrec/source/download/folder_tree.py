"""The folders of a download that hold images, as a tree."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

_SHOWN = 5


@dataclass(slots=True)
class Node:
    """A folder with images in it or below it."""

    path: str
    images: tuple[str, ...] = ()
    """Names of the images right in it."""
    below: dict[str, Node] = field(default_factory=dict)


def tree_of(folders: Mapping[str, Sequence[str]]) -> Node:
    """Return the tree of folders, from the names of the images right in each."""
    top = Node("")
    for path in sorted(folders):
        node = top
        for name in path.split("/") if path else ():
            inner = f"{node.path}/{name}" if node.path else name
            node = node.below.setdefault(name, Node(inner))
        node.images = tuple(folders[path])
    return top


def folders_below(node: Node) -> Iterator[Node]:
    """Yield a folder and all below it."""
    stack = [node]
    while stack:
        node = stack.pop()
        yield node
        stack += node.below.values()


def count_images(node: Node) -> int:
    """Return how many images are in a folder and below it."""
    return sum(len(folder.images) for folder in folders_below(node))


def within(root: str, node: Node) -> str:
    """Return the path of a folder, for messages."""
    return f"{root}/{node.path}" if node.path else root


def listed(names: Iterable[str]) -> str:
    """Return the first of some names, and how many more there are."""
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
