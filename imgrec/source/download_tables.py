"""Which tables and lists of a download name images: for labels, for splits, or to predict."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from enum import Enum
from shlex import quote
from typing import NamedTuple

from imgrec.errors import SourceError
from imgrec.model import TEST, TRAIN, VAL
from imgrec.options import NONE, SourceOptions
from imgrec.source.columns import (
    Header,
    find_column,
    is_label_column,
    is_path_column,
    is_split_column,
    squashed,
)
from imgrec.source.download_contents import Contents, numbered_columns
from imgrec.source.folder_layout import FolderReading
from imgrec.source.image_names import ImageIndex, stem_of
from imgrec.source.label_columns import Target, are_one_to_one, may_be_labels
from imgrec.source.manifest import is_submission
from imgrec.source.tables import Table
from imgrec.source.words import are_splits, is_side, split_of_name, split_word
from imgrec.spelling import spelling_key

_SAMPLED = 400
_SHOWN = 5


class ImageTable(NamedTuple):
    """A table that names images."""

    table: Table
    id_at: int
    """The column that names them."""
    split: str
    """The split that the name of its file means; "" for none."""

    @property
    def name(self) -> str:
        """The path of the table."""
        return self.table.name

    def ids(self) -> list[str]:
        """Return the id in each row."""
        return self.table.texts(self.id_at)

    def others(self) -> list[int]:
        """Return the columns that do not name images."""
        return [at for at in range(len(self.table.names)) if at != self.id_at]


def tables_of_images(contents: Contents, options: SourceOptions) -> list[ImageTable]:
    """Return the tables that name images, except sample submissions."""
    wanted = contents.sample.names[0] if contents.sample else ""
    index = contents.index
    found = []
    for path, table in sorted(contents.tables.items()):
        is_other = contents.label_table not in ("", path) or path == contents.test_table
        if is_other or is_submission(path) or not table.lines:
            continue
        at = _id_column(table, wanted, index, options)
        if at is None:
            continue
        if table.lines[0] > 1 and index.knows(table.names[at]):
            table = _without_header(table)
        if options.manifest or not _is_aside(table.texts(at), index):
            split = split_of_name(path, takes_trainval=True) or index.split_of(path)
            found.append(ImageTable(table, at, split))
    same = [t for t in found if wanted and squashed(t.table.names[t.id_at]) == squashed(wanted)]
    return same or found


def _without_header(table: Table) -> Table:
    """Return a table whose first row is a row like the others, not the names of columns."""
    columns = zip(table.names, table.columns, strict=True)
    return replace(
        table,
        names=numbered_columns(len(table.names)),
        columns=tuple((name, *cells) for name, cells in columns),
        lines=(1, *table.lines),
    )


def _is_aside(texts: Sequence[str], index: ImageIndex) -> bool:
    """Return whether all images that a table names are samples, pictograms or the like."""
    folders = {path.rpartition("/")[0] for text in texts for path in index.find(text)}
    return bool(folders) and all(any(map(is_side, folder.split("/"))) for folder in folders)


def _id_column(table: Table, wanted: str, index: ImageIndex, options: SourceOptions) -> int | None:
    """Return the column that names images, or None.

    Most of its cells name images. Of several such columns, the one called `wanted` is taken, or the
    one with a usual name, or else the one with the most images.
    """
    if options.path_col:
        return find_column(table.names, options.path_col)
    template = options.image_template or "{id}"
    shares = {
        at: _share_of_images(
            table.texts(at), lambda text: index.knows(template.replace("{id}", text))
        )
        for at in range(len(table.names))
    }
    shares = {at: share for at, share in shares.items() if share >= 0.5}
    for is_named in (lambda name: wanted and squashed(name) == squashed(wanted), is_path_column):
        named = [at for at in shares if is_named(table.names[at])]
        if len(named) == 1:
            return named[0]
    return max(shares, key=lambda at: (shares[at], -at), default=None)


def _share_of_images(texts: Sequence[str], is_known: Callable[[str], bool]) -> float:
    """Return the share of a column's texts that name images; 0 if they repeat as labels do."""
    sampled = [text for text in texts[:: max(1, len(texts) // _SAMPLED)] if text.strip()]
    if not sampled or len(set(sampled)) * 3 < len(sampled):
        return 0.0
    return sum(map(is_known, sampled)) / len(sampled)


def split_column(part: ImageTable, target: Target, options: SourceOptions) -> int | None:
    """Return the column that holds the split of each row, or None.

    An option names it, or it has a usual name, or all its cells are splits. A column called split
    is taken even if it holds other words: users are then asked about these.
    """
    table = part.table
    if options.split_col == NONE:
        return None
    if options.split_col:
        return Header(where=table.name, names=table.names).only(options.split_col, "--split-col")
    found = []
    for at in part.others():
        name, cells = table.names[at], table.texts(at)
        is_split = are_splits(cells) or (is_split_column(name) and all(map(split_word, cells)))
        if at not in target.columns and (is_split or squashed(name) == "split"):
            found.append(at)
    return found[0] if len(found) == 1 else None


def parts_of_one(contents: Contents, tables: Sequence[ImageTable]) -> tuple[ImageTable, ...]:
    """Return the tables that together hold the labels: one, or one for each split."""
    splits = [part.split for part in tables]
    is_same = len({part.table.names for part in tables}) == 1
    if len(tables) == 1 or (is_same and all(splits) and len(set(splits)) == len(splits)):
        return tuple(tables)
    names = [part.name for part in tables]
    best = max(tables, key=_promise)
    alike = [part for part in tables if part.table.names == best.table.names]
    hint = f"choose one with --manifest {quote(best.name)}"
    if len({part.split for part in alike} - {""}) == len(alike) > 1:
        others = [f"--exclude {quote(part.name)}" for part in tables if part not in alike]
        hint = f"leave out the others, as with {' '.join(others[:_SHOWN])}"
    raise SourceError(
        f"{contents.root}: {' and '.join(names[:_SHOWN])} each name images, so any of them may "
        "hold the labels",
        hint=hint,
        path=contents.root,
    )


def _promise(part: ImageTable) -> tuple[bool, bool, int]:
    """Return how likely a table holds the labels: by its columns, and by the images it names."""
    has_labels = any(may_be_labels(part.table.texts(at)) for at in part.others())
    return any(map(is_label_column, part.table.names)), has_labels, len(part.table.lines)


# Tables and class folders


class Agreement(Enum):
    """How the labels of a table compare with the classes of folders."""

    SAME = "the same"
    MORE = "the same, and labels of images that the folders give no class"
    OTHER = "something else"


def compare_labels(
    part: ImageTable,
    index: ImageIndex,
    folders: FolderReading,
    columns: Iterable[int],
    *,
    in_other_words: bool = False,
) -> Agreement:
    """Compare the first column that agrees with the folders.

    With `in_other_words`, a one-to-one relation is enough, as between numbers and names.
    """
    places = folders.places()
    classes = {}
    for row, text in enumerate(part.ids()):
        found = index.find(text, part.split)
        place = places.of_folder(found[0].rpartition("/")[0]) if len(found) == 1 else ""
        if not isinstance(place, str):
            classes[row] = place.class_name
    # Ids that mean several images, or none, say nothing about the folders.
    for at in columns if classes else ():
        cells = part.table.texts(at)
        pairs = {(cells[row].strip(), name) for row, name in classes.items()}
        known = {(value, name) for value, name in pairs if name}
        are_same = all(squashed(value) == squashed(name) for value, name in known)
        if (are_same or in_other_words) and are_one_to_one(known) and all(v for v, _ in known):
            has_more = any(value for value, name in pairs if not name)
            return Agreement.MORE if has_more else Agreement.SAME
    return Agreement.OTHER


class FlatLabels(NamedTuple):
    """Labels of images in split folders without class folders, from tables or lists."""

    labels: Mapping[str, str]
    """By the path of the image."""
    files: Sequence[str]

    @property
    def folders(self) -> set[str]:
        """The folders of the images."""
        return {path.rpartition("/")[0] for path in self.labels}


def flat_labels(contents: Contents) -> FlatLabels | None:
    """Find tables and lists that label all images of a split by the class folders of train."""
    index = contents.index
    train = (path for path in contents.folders if index.split_of(f"{path}/") == TRAIN)
    classes = {spelling_key(name): name for path in train for name in path.split("/")}
    labels: dict[str, str] = {}
    files = []
    for path, table in sorted({**contents.lists, **contents.tables}.items()):
        found = _labels_of_split(table, path, contents, classes)
        if any(labels.get(image, label) != label for image, label in found.items()):
            return None  # two tables differ
        if found:
            labels |= found
            files.append(path)
    return FlatLabels(labels, files) if labels else None


def _labels_of_split(
    table: Table, path: str, contents: Contents, classes: Mapping[str, str]
) -> Mapping[str, str]:
    """Return the label of each image; empty unless all of a folder have one class of train."""
    index = contents.index
    split = split_of_name(path) or index.split_of(path)
    if is_submission(path) or split not in (VAL, TEST) or len(table.columns) < 2:
        return {}
    table = replace(table, names=table.names or numbered_columns(len(table.columns)))
    id_at = _id_column(table, "", index, SourceOptions())
    others = [
        at
        for at in range(len(table.columns))
        if at != id_at and all(spelling_key(cell) in classes for cell in set(table.texts(at)))
    ]
    others = [at for at in others if is_label_column(table.names[at])] or others
    if id_at is None or len(others) != 1:
        return {}
    rows = zip(table.texts(id_at), table.texts(others[0]), strict=True)
    pairs = [(index.find(text, split), classes[spelling_key(label)]) for text, label in rows]
    found = {paths[0]: label for paths, label in pairs if len(paths) == 1}
    folders = {one.rpartition("/")[0] for one in found}
    is_whole = len(found) == len(pairs) == sum(len(contents.folders[folder]) for folder in folders)
    return found if is_whole and all(index.split_of(one) == split for one in found) else {}


# Images to predict


class TestSet(NamedTuple):
    """The images to predict, by id."""

    where: str
    ids: Sequence[str]
    lines: Sequence[int]
    paths: Sequence[str] = ()
    """The image of each id, where that is known; else ids are looked up."""

    @classmethod
    def of_paths(cls, paths: Sequence[str]) -> TestSet:
        """Return a test set of images whose names are their ids."""
        where = f"{paths[0].rpartition('/')[0]}/"
        ids = [stem_of(path.rpartition("/")[2]) for path in paths]
        return cls(where, ids, range(1, len(paths) + 1), paths)

    @classmethod
    def of_sample(cls, sample: Table) -> TestSet:
        """Return the images that a sample submission lists."""
        return cls(sample.name, sample.texts(0), sample.lines)


def is_test_table(part: ImageTable, parts: Sequence[ImageTable], sample: Table | None) -> bool:
    """Return whether a table lists the images to predict rather than labels."""
    others = [other for other in parts if other is not part]
    if len(part.table.names) == 1:
        ids = set(map(_bare, part.ids()))
        return part.split == TEST or all(ids.isdisjoint(map(_bare, o.ids())) for o in others)
    if part.split == TRAIN or not others:
        return False
    if sample is None:
        # A test table with the labels, or all columns, of another has labels, too.
        names = set(part.table.names)
        return part.split == TEST and all(_label_names(other) - names for other in others)
    asked = set(map(_bare, sample.texts(0)))
    own = list(map(_bare, part.ids()))
    return part.split == TEST or sum(text in asked for text in own) * 10 > len(own) * 9


def _label_names(part: ImageTable) -> set[str]:
    """Return the columns that hold labels by their names, or else all."""
    names = set(part.table.names)
    return set(filter(is_label_column, names)) or names


def _bare(text: str) -> str:
    return text.strip().rpartition("/")[2].partition(".")[0]


def given_test_set(contents: Contents) -> TestSet | None:
    """Return the test set that `--test-images` names."""
    sample = contents.sample
    if contents.test_table:
        table = contents.tables[contents.test_table]
        at = _id_column(table, "", contents.test_index, SourceOptions())
        return TestSet(table.name, table.texts(at or 0), table.lines)
    if not contents.test_images:
        return None
    if sample is not None:
        known = sum(map(contents.test_index.knows, sample.texts(0)))
        if known * 2 > len(sample.lines):
            return TestSet.of_sample(sample)
    return TestSet.of_paths(contents.test_images)


def find_test_sets(
    contents: Contents, tests: Sequence[ImageTable], labels: Sequence[ImageTable]
) -> tuple[TestSet, ...]:
    """Return the images to predict: of the sample, of test tables, or of a test folder."""
    index = contents.index
    if contents.sample is not None:
        return (TestSet.of_sample(contents.sample),)
    if tests:
        return _without_repeated(tests)
    if any(table.split == TEST for table in labels):
        return ()
    # An id of a train image and a test image means the former; an id of a test image labels it.
    named = {
        path
        for table in labels
        for text in table.ids()
        for path in index.find(text, TRAIN) or index.find(text)
    }
    bare = [path for path in index.paths if index.split_of(path) == TEST and path not in named]
    return (TestSet.of_paths(bare),) if bare else ()


def _without_repeated(tests: Sequence[ImageTable]) -> tuple[TestSet, ...]:
    """Return a test set for each table, the longest first, with each id only once."""
    sets, known = [], set[str]()
    for test in sorted(tests, key=lambda test: -len(test.table.lines)):
        rows = zip(test.ids(), test.table.lines, strict=True)
        new = [(text, line) for text, line in rows if text.strip() not in known]
        known.update(text.strip() for text, _ in new)
        if new:
            sets.append(TestSet(test.name, *zip(*new, strict=True)))
    return tuple(sets)


# Lists of the images of each split


class ListedSplits(NamedTuple):
    """The split of each image by path, from text files such as `meta/train.txt`."""

    splits: Mapping[str, str]
    files: Sequence[str]

    @property
    def where(self) -> str:
        """The lists, for messages."""
        return ", ".join(self.files)


def read_split_lists(contents: Contents, labelled: Set[str]) -> ListedSplits | None:
    """Return the splits that lists give to images.

    None unless there is one list for each split and every labelled image is in exactly one.
    """
    splits: dict[str, str] = {}
    used: dict[str, str] = {}
    for path, split, found in _lists(contents):
        if any(len(paths) != 1 for paths in found):
            continue
        if split in used.values() or any(one in splits for (one,) in found):
            return None
        used[path] = split
        splits |= dict.fromkeys((one for (one,) in found), split)
    is_whole = len(used) > 1 and labelled <= splits.keys()
    return ListedSplits(splits, tuple(used)) if is_whole else None


def lists_of_images(contents: Contents) -> list[str]:
    """Return the text files with columns of images and labels, the likeliest first."""
    found = []
    for _, table in sorted(contents.lists.items()):
        named = replace(table, names=numbered_columns(len(table.columns)))
        id_at = _id_column(named, "", contents.index, SourceOptions())
        if id_at is not None and len(named.names) > 1:
            found.append(ImageTable(named, id_at, ""))
    return [part.name for part in sorted(found, key=_promise, reverse=True)]


def refuse_partial_lists(contents: Contents) -> None:
    """Raise SourceError if lists name images for val or test, but not all images."""
    partial = [
        path
        for path, split, found in _lists(contents)
        if split != TRAIN and sum(map(bool, found)) * 2 > len(found)
    ]
    if partial:
        raise SourceError(
            f"{contents.root}: {', '.join(partial[:_SHOWN])} list images by split, but not all of "
            "them exactly once",
            hint="write the split of each image into a column of the table and name it with "
            "--split-col, or pass --kind folder or --kind archive to ignore the lists",
            path=contents.root,
        )


def _lists(contents: Contents) -> Iterator[tuple[str, str, list[Sequence[str]]]]:
    """Yield the lists of images: path, split, and the images that each line may mean."""
    for path, table in sorted(contents.lists.items()):
        if split := split_of_name(path, takes_trainval=True):
            found = [contents.index.find(text) for text in map(str, table.columns[0])]
            if any(found):
                yield path, split, found
