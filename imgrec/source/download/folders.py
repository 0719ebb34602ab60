"""What a tree of image folders means: which folders are splits, containers and classes.

The decision is made from the names of the folders that hold images, top down. At each level the
siblings are splits, or containers of images, or classes; see `words`. Where a tree can be read in
two ways, the answer is a `SourceError` that names the option to add.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from imgrec.errors import SourceError
from imgrec.model import TEST
from imgrec.options import FolderLayout, SourceOptions
from imgrec.source.download.words import (
    is_container,
    is_side,
    is_tool_word,
    is_unlabelled,
    split_in,
    splits_of,
)
from imgrec.source.places import Places

_LABEL_IN_NAME = r"^(?P<label>[^\W\d_]\D*?)[-_.\s(]+\d+\)?\.[^.]*$"
_NUMBERED = re.compile(_LABEL_IN_NAME)
_SHOWN = 5
_MOST_WORDS = 200


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReading:
    """What the folders of a source mean."""

    roots: Mapping[str, str]
    """The folders that classes are in, each with its split; "" is the source, or no split."""
    unlabelled: frozenset[str] = frozenset()
    """Those of the roots whose images have no class."""
    flat: frozenset[str] = frozenset()
    """Those of the roots with images but no class folders, which need labels from elsewhere."""
    class_depth: int = 1
    label_regex: str = ""
    """Where in a file's name its class is; "" if folders name the classes."""
    beside: tuple[str, ...] = ()
    """Folders of images that are left alone, such as samples."""

    def places(self) -> Places:
        """Return the same as the meaning of paths."""
        regex = re.compile(self.label_regex) if self.label_regex else None
        return Places(self.roots, self.unlabelled, self.class_depth, regex)


@dataclass(slots=True)
class _Node:
    """A folder with images in it or below it."""

    path: str
    images: tuple[str, ...] = ()
    """Names of the images right in it."""
    below: dict[str, _Node] = field(default_factory=dict)

    def total(self) -> int:
        return len(self.images) + sum(node.total() for node in self.below.values())


def read_folders(
    root: str, folders: Mapping[str, Sequence[str]], options: SourceOptions, *, has_sample: bool
) -> FolderReading:
    """Decide what folders mean, from the names of the images right in each.

    `has_sample` tells whether a sample submission lies beside them, so that flat train images are
    expected to be labelled by their names. Raises SourceError where two readings are possible.
    """
    top = _tree(folders)
    if options.layout is FolderLayout.CLASSES:
        return _explicit(FolderReading(roots={"": ""}), options)
    if options.layout is FolderLayout.SPLITS:
        return _splits(root, top, _named_splits(root, top), options)
    reading = _read(root, top, options, has_sample)
    return _explicit(reading, options)


def _explicit(reading: FolderReading, options: SourceOptions) -> FolderReading:
    from dataclasses import replace

    depth = reading.class_depth if options.class_depth is None else options.class_depth
    return replace(
        reading, class_depth=depth, label_regex=options.label_regex or reading.label_regex
    )


def _tree(folders: Mapping[str, Sequence[str]]) -> _Node:
    top = _Node("")
    for path in sorted(folders):
        node = top
        for name in path.split("/") if path else ():
            inner = f"{node.path}/{name}" if node.path else name
            node = node.below.setdefault(name, _Node(inner))
        node.images = tuple(folders[path])
    return top


def _read(root: str, node: _Node, options: SourceOptions, has_sample: bool) -> FolderReading:
    """Read a folder whose meaning is open: what is below it decides."""
    if options.label_regex and not any(splits_of(node.below).values()):
        return FolderReading(roots={node.path: ""})
    if not node.below:
        return _read_flat(node, has_sample)
    splits = splits_of(node.below)
    named = {name: split for name, split in splits.items() if split}
    others = [name for name in node.below if not splits[name]]
    if named and all(is_container(name) or is_unlabelled(name) for name in others):
        return _splits(root, node, named, options)
    if not named and all(map(is_container, node.below)):
        return _containers(root, node, options, has_sample)
    if holders := [name for name in named if _holds_only_folders(node.below[name])]:
        raise SourceError(
            f"{_at(root, node)}: {holders[0]} may be a split or a class, as {others[0]} beside it "
            "is no split",
            hint="pass --layout splits or --layout classes",
            path=root,
        )
    if len(node.below) == 1:
        (inner,) = node.below.values()
        if inner.below and not inner.images:  # one wrapping folder
            return _read(root, inner, options, has_sample)
    return _classes(root, node, options)


def _holds_only_folders(node: _Node) -> bool:
    return bool(node.below) and not node.images


def _read_flat(node: _Node, has_sample: bool) -> FolderReading:
    """Read images without any class folder."""
    regex = leading_word_regex(node.images) if has_sample else ""
    flat = frozenset() if regex else frozenset({node.path})
    return FolderReading(roots={node.path: ""}, flat=flat, label_regex=regex)


def _containers(root: str, node: _Node, options: SourceOptions, has_sample: bool) -> FolderReading:
    """Look into the one container that holds the images; samples and the like stay aside."""
    main = [name for name in node.below if not is_side(name)] or list(node.below)
    if len(main) > 1:
        raise SourceError(
            f"{_at(root, node)}: {_names(node.below)} hold images, and none of them is a class "
            "by its name",
            hint=f"leave some out with --exclude '{main[1]}/*', or pass --layout classes if "
            "they are the classes",
            path=root,
        )
    beside = tuple(node.below[name].path for name in node.below if name != main[0])
    reading = _read(root, node.below[main[0]], options, has_sample)
    from dataclasses import replace

    return replace(reading, beside=(*reading.beside, *beside))


def _named_splits(root: str, top: _Node) -> dict[str, str]:
    named = {name: split for name, split in splits_of(top.below).items() if split}
    if not named:
        raise SourceError(
            f"{root} has no split folders",
            hint="call them train, val and test, or leave out --layout",
            path=root,
        )
    return named


def _splits(
    root: str,
    node: _Node,
    named: Mapping[str, str],
    options: SourceOptions,
) -> FolderReading:
    """Read split folders, which hold classes, or images that have no class folder."""
    _refuse_two_of_one(root, node, named)
    others = [name for name in node.below if name not in named]
    odd = [name for name in others if not is_side(name) and not is_unlabelled(name)]
    if odd and options.layout is FolderLayout.AUTO:
        raise SourceError(
            f"{_at(root, node)}: {', '.join(odd)} holds images beside {_names(named)}",
            hint=f"leave it out with --exclude '{node.below[odd[0]].path}/*', or pass "
            "--layout classes if all of them are classes",
            path=root,
        )
    holders = {name: _holder(node.below[name]) for name in named}
    train_classes = {
        inner for name, split in named.items() if split != TEST for inner in holders[name].below
    }
    roots: dict[str, str] = {}
    unlabelled: set[str] = set()
    flat: set[str] = set()
    for name, split in named.items():
        holder = holders[name]
        only = next(iter(holder.below), "")
        if split == TEST and _is_bare(holder, only, train_classes, options.label_regex):
            unlabelled.add(holder.path)
        elif not holder.below:
            flat.add(holder.path)
        elif options.class_depth is None:
            _refuse_hashed(root, holder)
        roots[holder.path] = split
    regex = ""
    if flat and not options.label_regex:
        regex = _regex_of_flat([holders[n] for n in named if holders[n].path in flat], unlabelled)
        _refuse_half_flat(root, roots, flat, regex)
    if options.label_regex or regex:
        flat.clear()
    return FolderReading(
        roots=roots,
        unlabelled=frozenset(unlabelled),
        flat=frozenset(flat),
        label_regex=regex,
        beside=tuple(node.below[name].path for name in others),
    )


def _holder(node: _Node) -> _Node:
    """Return where the classes or images of a split are: `train/train/` means `train/`."""
    while not node.images and len(node.below) == 1:
        (name,) = node.below
        own = node.path.rpartition("/")[2]
        is_again = name == own or bool(split_in(name) and split_in(name) == split_in(own))
        if not is_again and not is_container(name):
            break
        node = node.below[name]
    return node


def _is_bare(holder: _Node, only: str, train_classes: Iterable[str], label_regex: str) -> bool:
    """Tell whether the images of a test split have no class."""
    if not holder.below:
        return not (label_regex and any(map(re.compile(label_regex).search, holder.images)))
    return len(holder.below) == 1 and only not in train_classes and is_unlabelled(only)


def _regex_of_flat(holders: Sequence[_Node], unlabelled: set[str]) -> str:
    """Return the pattern that takes classes from names, where a test set has no labels."""
    if not unlabelled:
        return ""
    return leading_word_regex([name for holder in holders for name in holder.images])


def _refuse_half_flat(root: str, roots: Mapping[str, str], flat: set[str], regex: str) -> None:
    if regex or not flat:
        return
    with_classes = [path for path in roots if path not in flat]
    if with_classes and any(roots[path] != TEST for path in with_classes):
        raise SourceError(
            f"{root}: {_names(with_classes)} holds class folders, but {_names(flat)} only images",
            hint="put the images of each class into a folder, or leave them out with "
            f"--exclude '{min(flat)}/*'",
            path=root,
        )


def _classes(root: str, node: _Node, options: SourceOptions) -> FolderReading:
    """Read class folders right in a folder."""
    if options.class_depth is None and not options.label_regex:
        _refuse_hashed(root, node)
    return FolderReading(roots={node.path: ""})


def _refuse_hashed(root: str, node: _Node) -> None:
    """Raise SourceError for folders that only spread files: a/b/c/abc1.jpg."""
    if any(len(name) > 2 for name in node.below):
        return
    inner = [below for child in node.below.values() for below in child.below]
    if inner and all(len(name) <= 2 for name in inner):
        raise SourceError(
            f"{_at(root, node)}: folders such as {_example(node)} spread files and name no class",
            hint="name the table of labels with --manifest, or pass --class-depth",
            path=root,
        )


def _example(node: _Node) -> str:
    parts = []
    while node.below:
        name = min(node.below)
        parts.append(name)
        node = node.below[name]
    return "/".join(parts)


def _refuse_two_of_one(root: str, node: _Node, named: Mapping[str, str]) -> None:
    for split in sorted(set(named.values())):
        same = sorted(node.below[name].path for name in named if named[name] == split)
        if len(same) > 1:
            raise SourceError(
                f"{root}: the folders {' and '.join(same)} both mean the split {split}",
                hint=f"merge or rename them, or leave one out with --exclude '{same[1]}/*'",
                path=root,
            )


def leading_word_regex(names: Sequence[str]) -> str:
    r"""Return the pattern that takes the class from file names, or "" if they do not tell one.

    Every name must be a word, a separator and a number, with 2 to 200 words of two images each or
    more, none of which a camera or a scanner writes.

    >>> leading_word_regex(["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"])
    '^(?P<label>[^\\W\\d_]\\D*?)[-_.\\s(]+\\d+\\)?\\.[^.]*$'
    >>> leading_word_regex(["IMG_1.jpg", "IMG_2.jpg", "DSC_1.jpg", "DSC_2.jpg"])
    ''
    """
    counts: dict[str, int] = {}
    for name in names:
        match = _NUMBERED.match(name)
        if match is None:
            return ""
        word = match["label"]
        counts[word] = counts.get(word, 0) + 1
        if len(counts) > _MOST_WORDS:
            return ""
    is_telling = len(counts) >= 2 and min(counts.values()) >= 2
    if not is_telling or any(map(is_tool_word, counts)):
        return ""
    return _LABEL_IN_NAME


def _at(root: str, node: _Node) -> str:
    return f"{root}/{node.path}" if node.path else root


def _names(names: Iterable[str]) -> str:
    found = sorted(names)
    more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
    return ", ".join(found[:_SHOWN]) + more
