"""What a tree of image folders means: which folders are splits, containers and classes.

The names of the folders that hold images decide, top down. At each level the siblings are splits,
containers of images, or classes; see `names`. Where a tree can be read in two ways, the answer is a
`SourceError` that names the option to add.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN
from imgrec.options import FolderLayout, SourceOptions
from imgrec.source.download.names import (
    derived_from,
    is_container,
    is_derived,
    is_side,
    is_unlabelled,
    leading_word_regex,
)
from imgrec.source.folder import Places
from imgrec.source.split_words import split_in, splits_of, words
from imgrec.text import listed


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


def read_folders(
    root: str, folders: Mapping[str, Sequence[str]], options: SourceOptions, *, has_sample: bool
) -> FolderReading:
    """Decide what folders mean, from the names of the images right in each.

    `has_sample` tells whether a sample submission lies beside them, so that flat train images are
    expected to be labelled by their names. Raises SourceError where two readings are possible.
    """
    top = tree_of(folders)
    if options.layout is FolderLayout.CLASSES:
        return _explicit(FolderReading(roots={"": ""}), options)
    if options.layout is FolderLayout.SPLITS:
        return _splits(root, top, _named_splits(root, top), options)
    reading = _read(root, top, options, has_sample)
    return _explicit(reading, options)


def _explicit(reading: FolderReading, options: SourceOptions) -> FolderReading:
    depth = reading.class_depth if options.class_depth is None else options.class_depth
    return replace(
        reading, class_depth=depth, label_regex=options.label_regex or reading.label_regex
    )


def _read(root: str, node: Node, options: SourceOptions, has_sample: bool) -> FolderReading:
    """Read a folder whose meaning is open: what is below it decides."""
    beside: list[str] = []
    while (inner := _inner(root, node, options)) is not None:
        beside += [below.path for below in node.below.values() if below is not inner]
        node = inner
    reading = _read_here(root, node, options, has_sample)
    return replace(reading, beside=(*reading.beside, *beside))


def _inner(root: str, node: Node, options: SourceOptions) -> Node | None:
    """Return the one folder below that holds the images, if this one is only around it."""
    if options.label_regex or not node.below or any(splits_of(node.below).values()):
        return None
    if all(map(is_container, node.below)):
        main = [name for name in node.below if not is_side(name)] or list(node.below)
        if len(main) == 1:
            return node.below[main[0]]
        if options.yes or _are_parts(node):
            return None
        raise SourceError(
            f"{within(root, node)}: {_listed(node.below)} hold images, and by their names none of "
            "them is a class",
            hint=f"leave some out with --exclude '{node.below[main[1]].path}/*', or pass --yes "
            "to pack them as the classes",
            path=root,
        )
    if len(node.below) == 1:
        (only,) = node.below.values()
        return only if only.below and not only.images else None
    return None


def _read_here(root: str, node: Node, options: SourceOptions, has_sample: bool) -> FolderReading:
    """Read a folder that holds splits, classes or images right in it."""
    splits = splits_of(node.below)
    named = {name: split for name, split in splits.items() if split}
    if options.label_regex and not named:
        return FolderReading(roots={node.path: ""})
    if not node.below:
        return _read_flat(node, has_sample)
    others = [name for name in node.below if not splits[name]]
    if named and all(is_container(name) or is_unlabelled(name) for name in others):
        return _splits(root, node, named, options)
    if _are_parts(node) and not options.yes:
        return _parts(root, node, options)
    if holders := [name for name in named if _holds_only_folders(node.below[name])]:
        raise SourceError(
            f"{within(root, node)}: {holders[0]} may be a split or a class, as {others[0]} beside "
            "it is no split",
            hint="pass --layout splits or --layout classes",
            path=root,
        )
    return _classes(root, node, options)


def _are_parts(node: Node) -> bool:
    """Tell whether folders are numbered parts of one: `images_001` and `images_002`."""
    found = {tuple(word for word in words(name) if not word.isdecimal()) for name in node.below}
    are_named = all(is_container(name) and not is_side(name) for name in node.below)
    return len(node.below) > 1 and len(found) == 1 and are_named


def _parts(root: str, node: Node, options: SourceOptions) -> FolderReading:
    """Read numbered parts, which together hold the classes, or images without class folders."""
    holders = [_holder(inner) for inner in node.below.values()]
    flat = {holder.path for holder in holders if not holder.below}
    if flat and len(flat) < len(holders):
        raise SourceError(
            f"{root}: {_listed(h.path for h in holders if h.below)} holds class folders, but "
            f"{_listed(flat)} only images",
            hint=f"leave some out, as with --exclude '{min(flat)}/*'",
            path=root,
        )
    for holder in holders:
        refuse_doubtful(root, holder, options)
    return FolderReading(roots=dict.fromkeys((h.path for h in holders), ""), flat=frozenset(flat))


def _holds_only_folders(node: Node) -> bool:
    return bool(node.below) and not node.images


def _read_flat(node: Node, has_sample: bool) -> FolderReading:
    """Read images without any class folder."""
    regex = leading_word_regex(node.images) if has_sample else ""
    flat = frozenset() if regex else frozenset({node.path})
    return FolderReading(roots={node.path: ""}, flat=flat, label_regex=regex)


def _named_splits(root: str, top: Node) -> dict[str, str]:
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
    node: Node,
    named: Mapping[str, str],
    options: SourceOptions,
) -> FolderReading:
    """Read split folders, which hold classes, or images that have no class folder."""
    _refuse_two_of_one(root, node, named)
    others = [name for name in node.below if name not in named]
    odd = [name for name in others if not is_side(name) and not is_unlabelled(name)]
    if odd and options.layout is FolderLayout.AUTO and not options.yes:
        raise SourceError(
            f"{within(root, node)}: {', '.join(odd)} holds images beside {_listed(named)}",
            hint=f"leave it out with --exclude '{node.below[odd[0]].path}/*', or pass "
            "--layout classes if all of them are the classes",
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
        else:
            refuse_doubtful(root, holder, options)
        roots[holder.path] = split
    if len(train_classes) == 1:
        of_one = [h for h in holders.values() if h.below.keys() == train_classes]
        refuse_only_class(root, of_one[0], options)
    if options.class_depth is None and not options.map and not options.yes:
        _refuse_other_classes(
            root, [h for h in holders.values() if h.path not in unlabelled], roots
        )
    regex = ""
    if flat and not options.label_regex:
        regex = _regex_of_flat([holders[n] for n in named if holders[n].path in flat], unlabelled)
        labelled = {path: split for path, split in roots.items() if path not in unlabelled}
        _refuse_half_flat(root, labelled, flat, regex)
    if options.label_regex or regex:
        flat.clear()
    return FolderReading(
        roots=roots,
        unlabelled=frozenset(unlabelled),
        flat=frozenset(flat),
        label_regex=regex,
        beside=tuple(node.below[name].path for name in others),
    )


def _refuse_other_classes(root: str, holders: Sequence[Node], roots: Mapping[str, str]) -> None:
    """Raise SourceError if most classes of a split are not in train, and the other way round."""
    train = {name for holder in holders if roots[holder.path] == TRAIN for name in holder.below}
    for holder in holders:
        own = set(holder.below)
        common = len(train & own)
        if train and own and common * 2 < min(len(train), len(own)):
            raise SourceError(
                f"{root}: {holder.path} has other classes than train, such as "
                f"{min(own - train)} and {min(train - own)}",
                hint="give the same class one name with --map, or pass --yes if they are different",
                path=root,
            )


def _holder(node: Node) -> Node:
    """Return where the classes or images of a split are: `train/train/` means `train/`."""
    while not node.images and len(node.below) == 1:
        (name,) = node.below
        own = node.path.rpartition("/")[2]
        is_again = name == own or bool(split_in(name) and split_in(name) == split_in(own))
        if not is_again and not is_container(name):
            break
        node = node.below[name]
    return node


def _is_bare(holder: Node, only: str, train_classes: Iterable[str], label_regex: str) -> bool:
    """Tell whether the images of a test split have no class."""
    if not holder.below:
        return not (label_regex and any(map(re.compile(label_regex).search, holder.images)))
    return len(holder.below) == 1 and only not in train_classes and is_unlabelled(only)


def _regex_of_flat(holders: Sequence[Node], unlabelled: set[str]) -> str:
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
            f"{root}: {_listed(with_classes)} holds class folders, but {_listed(flat)} only images",
            hint="put the images of each class into a folder, or leave them out with "
            f"--exclude '{min(flat)}/*'",
            path=root,
        )


def _classes(root: str, node: Node, options: SourceOptions) -> FolderReading:
    """Read class folders right in a folder."""
    if len(node.below) == 1:
        refuse_only_class(root, node, options)
    refuse_doubtful(root, node, options)
    beside = [name for name in node.below if is_container(name)]
    if beside and options.class_depth is None and not options.label_regex and not options.yes:
        raise SourceError(
            f"{within(root, node)}: {beside[0]} may be a class, or stand beside the classes",
            hint=f"leave it out with --exclude '{node.below[beside[0]].path}/*', or pass --yes if "
            "it is a class",
            path=root,
        )
    return FolderReading(roots={node.path: ""})


def _refuse_two_of_one(root: str, node: Node, named: Mapping[str, str]) -> None:
    for split in sorted(set(named.values())):
        same = [node.below[name] for name in sorted(named) if named[name] == split]
        if len(same) > 1:
            fewest = min(same, key=count_images)
            raise SourceError(
                f"{root}: the folders {' and '.join(one.path for one in same)} mean the same "
                f"split, {split}",
                hint=f"merge or rename them, or leave one out, as with --exclude '{fewest.path}/*'",
                path=root,
            )


_PERSON = re.compile(
    r"(patient|pat|subject|subj|sub|participant|person|people|user|case|study|session)[-_ ]*\d",
    re.I,
)


def refuse_doubtful(root: str, node: Node, options: SourceOptions) -> None:
    """Raise SourceError if the folders in a folder may not be classes as they are.

    `--class-depth` and `--label-regex` say where classes are, and `--yes` that all is well.
    """
    if options.class_depth is None and not options.label_regex and not options.yes:
        _refuse_hashed(root, node)
        _refuse_people(root, node)
        _refuse_inner_splits(root, node)
        _refuse_unclear_depth(root, node)
    if not options.yes:
        for inner in node.below.values():
            _refuse_derived(root, inner)


def refuse_only_class(root: str, node: Node, options: SourceOptions) -> None:
    """Raise SourceError for a folder whose images would all be of one class."""
    if options.class_depth is not None or options.label_regex or options.yes:
        return
    (name, inner), *_ = node.below.items()
    hint = "put each class into a folder of its own, or pass --yes to pack all as one class"
    if inner.below:
        folders = f"{len(inner.below)} folders" if len(inner.below) > 1 else "only folder"
        hint = (
            f"pass --class-depth 2 if its {folders} are the classes, or --yes to pack all as "
            "one class"
        )
    raise SourceError(f"{within(root, node)}: {name} would be the only class", hint=hint, path=root)


def _refuse_people(root: str, node: Node) -> None:
    """Raise SourceError for folders of patients and the like, which are no classes."""
    if node.below and all(map(_PERSON.match, node.below)):
        raise SourceError(
            f"{within(root, node)}: folders such as {min(node.below)} seem to be groups of images "
            "that belong together, and no classes",
            hint="name the table of labels with --manifest, take the class from file names with "
            "--label-regex, or pass --yes if they are the classes",
            path=root,
        )


def _refuse_inner_splits(root: str, node: Node) -> None:
    """Raise SourceError for folders that hold splits, which classes do not."""
    for inner in node.below.values():
        for folder in folders_below(inner):
            splits = [name for name in folder.below if split_in(name)]
            if splits and not folder.images:
                raise SourceError(
                    f"{within(root, node)}: {inner.path} would be a class, but {folder.path} holds "
                    f"the folder {splits[0]}, which may be a split",
                    hint=f"pack {within(root, folder)} instead, or pass --yes if the folders in "
                    f"{within(root, node)} are the classes",
                    path=root,
                )


def _refuse_unclear_depth(root: str, node: Node) -> None:
    """Raise SourceError if classes may be one level down or deeper."""
    for name, inner in node.below.items():
        folders = [below for below in inner.below if not is_container(below)]
        if inner.images or len(folders) < 2:
            continue
        example = f"{name}/{folders[0]}"
        raise SourceError(
            f"{within(root, node)}: the class may be {name} or {example}, as {name} holds "
            f"{len(folders)} folders of images and no image",
            hint=f"pass --class-depth 1 for {name}, --class-depth 2 for {example}, or "
            "--class-depth leaf for the folder of each image",
            path=root,
        )


def _refuse_derived(root: str, node: Node) -> None:
    """Raise SourceError for masks and the like among the images of a class."""
    for folder in folders_below(node):
        name = folder.path.rpartition("/")[2]
        if folder is not node and is_derived(name):
            raise SourceError(
                f"{root}: {folder.path}/ seems to hold no images of a class",
                hint=f"leave it out with --exclude '*/{name}/*', or pass --yes to pack it",
                path=root,
            )
        stems = {image.rpartition(".")[0] for image in folder.images}
        derived = {stem: derived_from(stem) for stem in stems}
        made = sorted(stem for stem, (origin, _) in derived.items() if origin in stems)
        if made:
            word = derived[made[0]][1]
            raise SourceError(
                f"{root}: {folder.path}/ holds {made[0]!r} beside {derived[made[0]][0]!r}, so it "
                "seems to be no image of a class",
                hint=f"leave such files out with --exclude '*{word}*', or pass --yes to pack them",
                path=root,
            )


def _refuse_hashed(root: str, node: Node) -> None:
    """Raise SourceError for folders that only spread files: a/b/c/abc1.jpg."""
    if any(len(name) > 2 for name in node.below):
        return
    inner = [below for child in node.below.values() for below in child.below]
    if inner and all(len(name) <= 2 for name in inner):
        raise SourceError(
            f"{within(root, node)}: folders such as {_example(node)} spread files, and name no "
            "class",
            hint="name the table of labels with --manifest, or pass --class-depth",
            path=root,
        )


def _example(node: Node) -> str:
    parts = []
    while node.below:
        name = min(node.below)
        parts.append(name)
        node = node.below[name]
    return "/".join(parts)


def _listed(names: Iterable[str]) -> str:
    return listed(sorted(names))
