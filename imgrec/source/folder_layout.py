"""The meaning of a tree of image folders: which are splits, containers and classes.

The names of the folders that hold images decide, top down. At each level the siblings are splits,
containers of images, or classes; see `words`. Where a tree can be read in two ways, imgrec
raises a `SourceError` that names the option to add.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from shlex import quote

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN
from imgrec.options import FolderLayout, SourceOptions
from imgrec.source.folder import Places
from imgrec.source.words import (
    bare_splits,
    derived_from,
    is_container,
    is_derived,
    is_side,
    is_unlabelled,
    leading_word_regex,
    split_in,
    splits_of,
    words,
)
from imgrec.spelling import spelling_key
from imgrec.text import listed

_MOST_MISSPELLED = 50
"""More classes than this are not misspelled, and comparing all pairs would take minutes."""
_MOST_VARIANTS = 4
"""More folders that hold the same folders are groups, such as patients."""
_PERSON = re.compile(
    r"(patient|pat|subject|subj|sub|participant|person|people|user|case|study|session)[-_ ]*\d",
    re.I,
)


@dataclass(slots=True)
class _Node:
    """A folder with images in it or below it."""

    path: str
    images: tuple[str, ...] = ()
    """The names of the images directly in it."""
    below: dict[str, _Node] = field(default_factory=dict)

    def folders(self) -> Iterator[_Node]:
        """Yield this folder and all below it."""
        stack = [self]
        while stack:
            stack += (node := stack.pop()).below.values()
            yield node


def _tree_of(folders: Mapping[str, Sequence[str]]) -> _Node:
    top = _Node("")
    for path in sorted(folders):
        node = top
        for name in path.split("/") if path else ():
            inner = f"{node.path}/{name}" if node.path else name
            node = node.below.setdefault(name, _Node(inner))
        node.images = tuple(folders[path])
    return top


@dataclass(frozen=True, slots=True, kw_only=True)
class FolderReading:
    """The meaning of the folders of a source."""

    roots: Mapping[str, str]
    """The folders that hold classes, with their splits; "" is the source, or no split."""
    unlabelled: frozenset[str] = frozenset()
    """The roots whose images get no class from folders."""
    flat: frozenset[str] = frozenset()
    """The roots that hold images but no class folders. They need labels from elsewhere."""
    class_depth: int = 1
    label_regex: str = ""
    """Where in a file's name its class is; "" if folders name the classes."""
    beside: tuple[str, ...] = ()
    """Folders of images that are not packed, such as samples."""

    def places(self) -> Places:
        """Return the meaning of paths."""
        regex = re.compile(self.label_regex) if self.label_regex else None
        return Places(self.roots, self.unlabelled, self.class_depth, regex)


def read_folders(
    root: str,
    folders: Mapping[str, Sequence[str]],
    options: SourceOptions,
    *,
    has_sample: bool,
    labelled: Set[str] = frozenset(),
) -> FolderReading:
    """Decide the meaning of folders, from the names of the images directly in each.

    Beside a sample submission (`has_sample`), the names of flat train images may hold the classes.
    A table labels all images in the folders `labelled`.
    Raises SourceError where two readings are possible.
    """
    reader = _FolderReader(root, options, has_sample, labelled)
    top = _tree_of(folders)
    if options.layout is FolderLayout.SPLITS:
        reading = reader.read_splits(top, reader.named_splits(top))
    elif options.layout is FolderLayout.CLASSES:
        reading = FolderReading(roots={"": ""})
    else:
        try:
            reading = reader.read(top)
        except SourceError as error:
            raise _naming_repeated(error, top) from error
    return replace(
        reading,
        class_depth=reading.class_depth if options.class_depth is None else options.class_depth,
        label_regex=options.label_regex or reading.label_regex,
    )


@dataclass(frozen=True, slots=True)
class _FolderReader:
    root: str
    options: SourceOptions
    has_sample: bool
    labelled: Set[str]

    def refusal(self, message: str, hint: str, node: _Node | None = None) -> SourceError:
        """Return an error about the source, or about a folder in it."""
        where = self.within(node) if node else self.root
        return SourceError(f"{where}: {message}", hint=hint, path=self.root)

    def within(self, node: _Node) -> str:
        return f"{self.root}/{node.path}" if node.path else self.root

    @property
    def knows_classes(self) -> bool:
        """Whether options say where the classes are, or that all is well."""
        options = self.options
        return options.class_depth is not None or bool(options.label_regex) or options.yes

    def read(self, node: _Node) -> FolderReading:
        """Read a folder whose meaning is open."""
        beside: list[str] = []
        while (inner := self.only_holder(node)) is not None:
            beside += [below.path for below in node.below.values() if below is not inner]
            node = inner
        reading = self.read_here(node)
        return replace(reading, beside=(*reading.beside, *beside))

    def only_holder(self, node: _Node) -> _Node | None:
        """Return the one folder below that holds the images, if this one only wraps it."""
        if self.options.label_regex or not node.below or any(splits_of(node.below).values()):
            return None
        if all(map(is_container, node.below)):
            main = [name for name in node.below if not is_side(name)] or list(node.below)
            if len(main) == 1:
                return node.below[main[0]]
            if self.options.yes or _are_parts(node):
                return None
            raise self.refusal(
                f"{_listed(node.below)} hold images, but none of them has the name of a class",
                f"leave some out with --exclude '{node.below[main[1]].path}/*', or pass --yes to "
                "pack them as the classes",
                node,
            )
        only = next(iter(node.below.values()))
        return only if len(node.below) == 1 and only.below and not only.images else None

    def read_here(self, node: _Node) -> FolderReading:
        """Read a folder that holds splits, classes or images."""
        splits = splits_of(node.below)
        named = {name: split for name, split in splits.items() if split}
        if self.options.label_regex and not named:
            if not self.options.yes:
                self.refuse_derived(node)
            return FolderReading(roots={node.path: ""})
        if not node.below:
            regex = leading_word_regex(node.images) if self.has_sample else ""
            flat = frozenset() if regex else frozenset({node.path})
            return FolderReading(roots={node.path: ""}, flat=flat, label_regex=regex)
        others = [name for name in node.below if not splits[name]]
        if named and all(is_container(name) or is_unlabelled(name) for name in others):
            return self.read_splits(node, named)
        if _are_parts(node) and not self.options.yes:
            return self.read_parts(node)
        for name in named:
            if node.below[name].below and not node.below[name].images:
                raise self.refusal(
                    f"{name} may be a split or a class, as {others[0]} beside it is not a split",
                    "pass --layout splits or --layout classes, or leave it out with "
                    f"--exclude {quote(f'{node.below[name].path}/*')}",
                    node,
                )
        return self.read_classes(node)

    def read_parts(self, node: _Node) -> FolderReading:
        """Read numbered parts, which together hold the classes, or images without classes."""
        holders = list(map(_holder, node.below.values()))
        flat = {holder.path for holder in holders if not holder.below}
        if flat and len(flat) < len(holders):
            raise self.refusal(
                f"{_listed(h.path for h in holders if h.below)} holds class folders, but "
                f"{_listed(flat)} only images",
                f"leave some out, as with --exclude '{min(flat)}/*'",
            )
        for holder in holders:
            self.refuse_doubtful(holder)
        return FolderReading(roots={h.path: "" for h in holders}, flat=frozenset(flat))

    def named_splits(self, top: _Node) -> dict[str, str]:
        named = {name: split for name, split in splits_of(top.below).items() if split}
        if not named:
            raise SourceError(
                f"{self.root} has no split folders",
                hint="call them train, val and test, or leave out --layout",
                path=self.root,
            )
        return named

    def read_splits(self, node: _Node, named: Mapping[str, str]) -> FolderReading:
        """Read split folders, which hold classes, or images without class folders."""
        self.refuse_same_split(node, named)
        others = [name for name in node.below if name not in named]
        odd = [name for name in others if not is_side(name) and not is_unlabelled(name)]
        if odd and self.options.layout is FolderLayout.AUTO and not self.options.yes:
            raise self.refusal(
                f"{', '.join(odd)} holds images beside {_listed(named)}",
                f"leave it out with --exclude '{node.below[odd[0]].path}/*', or pass "
                "--layout classes if all of them are the classes",
                node,
            )
        holders = {_holder(node.below[name]).path: split for name, split in named.items()}
        nodes = [_holder(node.below[name]) for name in named]
        train_classes = {
            name for holder in nodes if holders[holder.path] != TEST for name in holder.below
        }
        unlabelled, flat = set[str](), set[str]()
        for holder in nodes:
            is_test = holders[holder.path] == TEST
            if holder.path in self.labelled or (
                is_test and self.has_no_labels(holder, train_classes)
            ):
                unlabelled.add(holder.path)
            elif not holder.below:
                flat.add(holder.path)
            else:
                self.refuse_doubtful(holder)
        if len(train_classes) == 1:
            self.refuse_only_class(next(h for h in nodes if h.below.keys() == train_classes))
        labelled = [holder for holder in nodes if holder.path not in unlabelled]
        if self.options.class_depth is None and not self.options.map and not self.options.yes:
            self.refuse_other_classes(labelled, holders)
        regex = ""
        if flat and not self.options.label_regex:
            if unlabelled:  # as in downloads of competitions, whose names may hold the classes
                names = [name for h in nodes if h.path in flat for name in h.images]
                regex = leading_word_regex(names)
            if not regex:
                self.refuse_half_flat([h.path for h in labelled], holders, flat)
        return FolderReading(
            roots=holders,
            unlabelled=frozenset(unlabelled),
            flat=frozenset() if self.options.label_regex or regex else frozenset(flat),
            label_regex=regex,
            beside=tuple(node.below[name].path for name in others),
        )

    def has_no_labels(self, holder: _Node, train_classes: Set[str]) -> bool:
        """Return whether the images of a test split have no class."""
        if holder.below:
            only = next(iter(holder.below))
            return len(holder.below) == 1 and only not in train_classes and is_unlabelled(only)
        regex = self.options.label_regex
        return not (regex and any(map(re.compile(regex).search, holder.images)))

    def read_classes(self, node: _Node) -> FolderReading:
        if len(node.below) == 1:
            self.refuse_only_class(node)
        self.refuse_doubtful(node)
        beside = [name for name in node.below if is_container(name)]
        if beside and not self.knows_classes:
            raise self.refusal(
                f"{beside[0]} may be a class, or stand beside the classes",
                f"leave it out with --exclude '{node.below[beside[0]].path}/*', or pass --yes if "
                "it is a class",
                node,
            )
        return FolderReading(roots={node.path: ""})

    # What is refused

    def refuse_same_split(self, node: _Node, named: Mapping[str, str]) -> None:
        for split in sorted(set(named.values())):
            same = [node.below[name] for name in sorted(named) if named[name] == split]
            if len(same) > 1:
                fewest = min(same, key=lambda one: sum(len(f.images) for f in one.folders()))
                raise self.refusal(
                    f"the folders {' and '.join(one.path for one in same)} mean the same split, "
                    f"{split}",
                    f"merge or rename them, or leave one out, as with --exclude '{fewest.path}/*'",
                )

    def refuse_other_classes(self, holders: Sequence[_Node], roots: Mapping[str, str]) -> None:
        """Refuse a split if most of its classes are not in train, or if one may be misspelled."""
        train = {name for holder in holders if roots[holder.path] == TRAIN for name in holder.below}
        # Names that differ only in spelling are asked about later, with --fold-case.
        spelled = {spelling_key(name): name for name in train}
        for holder in holders:
            own = {
                name if name in train else spelled.get(spelling_key(name), name)
                for name in holder.below
            }
            if train and own and len(train & own) * 2 < min(len(train), len(own)):
                raise self.refusal(
                    f"{holder.path} has other classes than train, such as {min(own - train)} and "
                    f"{min(train - own)}",
                    "give the same class one name with --map, or pass --yes if they are different",
                )
            unmatched, others = sorted(own - train), sorted(train - own)
            if max(len(unmatched), len(others)) > _MOST_MISSPELLED:
                continue
            for name in unmatched:
                # Misspelled, the class would be missing in both splits.
                if alike := get_close_matches(name, others, 1):
                    raise self.refusal(
                        f"{holder.path}/{name} has no images in train, which has {alike[0]}",
                        "if both are one class, rename the folder, or merge them with --map; "
                        "pass --yes if they are different",
                    )

    def refuse_half_flat(
        self, labelled: Sequence[str], roots: Mapping[str, str], flat: Set[str]
    ) -> None:
        """Refuse train or val images with class folders beside images without them."""
        with_classes = [path for path in labelled if path not in flat]
        if any(roots[path] != TEST for path in with_classes):
            raise self.refusal(
                f"{_listed(with_classes)} holds class folders, but {_listed(flat)} only images",
                "put the images of each class into a folder, or leave them out with "
                f"--exclude '{min(flat)}/*'",
            )

    def refuse_only_class(self, node: _Node) -> None:
        if self.knows_classes:
            return
        (name, inner), *_ = node.below.items()
        hint = "put each class into a folder of its own, or pass --yes to pack all as one class"
        if inner.below:
            folders = f"{len(inner.below)} folders" if len(inner.below) > 1 else "only folder"
            hint = (
                f"pass --class-depth 2 if its {folders} are the classes, or --yes to pack all as "
                "one class"
            )
        raise self.refusal(f"{name} would be the only class", hint, node)

    def refuse_doubtful(self, node: _Node) -> None:
        """Refuse folders in a folder that may not be its classes."""
        if not self.knows_classes:
            self.refuse_hashed(node)
            self.refuse_people(node)
            self.refuse_split_as_class(node)
            self.refuse_inner_splits(node)
            self.refuse_unclear_depth(node)
        if not self.options.yes:
            for inner in node.below.values():
                self.refuse_derived(inner)

    def refuse_hashed(self, node: _Node) -> None:
        """Refuse folders that only spread files: a/b/c/abc1.jpg."""
        inner = [below for child in node.below.values() for below in child.below]
        if not inner or any(len(name) > 2 for name in (*node.below, *inner)):
            return
        path, deeper = list[str](), node
        while deeper.below:
            path.append(min(deeper.below))
            deeper = deeper.below[path[-1]]
        raise self.refusal(
            f"folders such as {'/'.join(path)} spread files, and do not name classes",
            "name the table of labels with --manifest, or pass --class-depth",
            node,
        )

    def refuse_people(self, node: _Node) -> None:
        if node.below and all(map(_PERSON.match, node.below)):
            raise self.refusal(
                f"folders such as {min(node.below)} seem to be groups of images, not classes",
                "name the table of labels with --manifest, take the class from file names with "
                "--label-regex, or pass --yes if they are the classes",
                node,
            )

    def refuse_split_as_class(self, node: _Node) -> None:
        """Refuse a folder such as `val` among classes: of images, or of other classes."""
        for name in bare_splits(node.below):
            raise self.refusal(
                f"{name} may be a split or a class, as the folders beside it are classes",
                f"leave it out with --exclude '{node.below[name].path}/*', or pass --yes if it is "
                "a class",
                node,
            )

    def refuse_inner_splits(self, node: _Node) -> None:
        for inner in node.below.values():
            for folder in inner.folders():
                splits = [name for name in folder.below if split_in(name)]
                if splits and not folder.images:
                    raise self.refusal(
                        f"{inner.path} would be a class, but {folder.path} holds the folder "
                        f"{splits[0]}, which may be a split",
                        f"pack {self.within(folder)} instead, or pass --yes if the folders in "
                        f"{self.within(node)} are the classes",
                        node,
                    )

    def refuse_unclear_depth(self, node: _Node) -> None:
        """Refuse folders that hold no image but several folders: either may be the classes."""
        for name, inner in node.below.items():
            folders = [below for below in inner.below if not is_container(below)]
            if inner.images or len(folders) < 2:
                continue
            example = f"{name}/{folders[0]}"
            raise self.refusal(
                f"the class may be {name} or {example}, as {name} holds {len(folders)} folders of "
                "images and no image",
                f"pass --class-depth 1 for {name}, --class-depth 2 for {example}, or "
                "--class-depth leaf for the folder of each image",
                node,
            )

    def refuse_derived(self, node: _Node) -> None:
        """Refuse masks and other pictures made from the images of a class."""
        for folder in node.folders():
            name = folder.path.rpartition("/")[2]
            if folder is not node and is_derived(name):
                raise self.refusal(
                    f"{folder.path}/ does not seem to hold images of a class",
                    f"leave it out with --exclude '*/{name}/*', or pass --yes to pack it",
                )
            stems = {image.rpartition(".")[0] for image in folder.images}
            for stem in sorted(stems):
                original, word = derived_from(stem)
                if original and original in stems:
                    raise self.refusal(
                        f"{folder.path}/ holds {stem!r} beside {original!r}, so it does not seem "
                        "to be an image of a class",
                        f"leave such files out with --exclude '*{word}*', or pass --yes to pack "
                        "them",
                    )


def _naming_repeated(error: SourceError, top: _Node) -> SourceError:
    """Return an error that also names folders which repeat others: downloads often hold copies."""
    if not (repeated := _repeated(top)):
        return error
    globs = " ".join(f"--exclude {quote(f'{path}/*')}" for path in repeated)
    hint = f"leave out what only repeats other folders, as with {globs}; otherwise {error.hint}"
    return SourceError(error.message, hint=hint, path=error.path)


def _repeated(top: _Node) -> list[str]:
    """Return the folders that hold the same folders as those beside them."""
    for node in sorted(top.folders(), key=lambda node: (node.path.count("/"), node.path)):
        alike: dict[frozenset[str], list[tuple[str, str]]] = {}
        for name, inner in sorted(node.below.items()):
            holder = inner
            while len(holder.below) == 1 and not holder.images:
                (holder,) = holder.below.values()
            if len(holder.below) > 1 and holder.below.keys() == node.below.keys() - {name}:
                return [inner.path]
            if len(holder.below) > 1 and not split_in(name) and not name.isdecimal():
                alike.setdefault(frozenset(holder.below), []).append((holder.path, inner.path))
        for found in alike.values():
            if 1 < len(found) <= _MOST_VARIANTS:
                found.sort(key=lambda paths: (paths[0].count("/"), paths))
                return [path for _, path in found[1:]]
    return []


def _are_parts(node: _Node) -> bool:
    """Return whether folders are numbered parts of one: `images_001` and `images_002`."""
    unnumbered = {tuple(w for w in words(name) if not w.isdecimal()) for name in node.below}
    are_named = all(is_container(name) and not is_side(name) for name in node.below)
    return len(node.below) > 1 and len(unnumbered) == 1 and are_named


def _holder(node: _Node) -> _Node:
    """Return where the classes or images of a split are: `train/train/` means `train/`."""
    while not node.images and len(node.below) == 1:
        (name,) = node.below
        own = node.path.rpartition("/")[2]
        is_repeated = name == own or bool(split_in(name) and split_in(name) == split_in(own))
        if not is_repeated and not is_container(name):
            break
        node = node.below[name]
    return node


def _listed(names: Iterable[str]) -> str:
    return listed(sorted(names))
