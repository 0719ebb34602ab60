"""The images to predict: those of a sample submission, of a table, or of a folder."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from imgrec.model import TEST, TRAIN
from imgrec.options import SourceOptions
from imgrec.source.download.index import ImageIndex
from imgrec.source.download.label_tables import LabelTable, id_column
from imgrec.source.download.seen import Seen, SeenTable


class TestSet(NamedTuple):
    """The images to predict, by id."""

    where: str
    ids: Sequence[str]
    lines: Sequence[int]
    paths: Sequence[str] = ()
    """The image of each id, where that is known; else ids are looked up."""

    @classmethod
    def of_paths(cls, where: str, paths: Sequence[str]) -> TestSet:
        """Return a test set of images whose names are their ids."""
        return cls(where, list(map(_stem, paths)), range(1, len(paths) + 1), paths)


def find_test_set(
    sample: SeenTable | None,
    tests: Sequence[LabelTable],
    labels: Sequence[LabelTable],
    index: ImageIndex,
) -> TestSet | None:
    """Return the images to predict: those of the sample, of a test table, or of a test folder."""
    if sample is not None:
        return sample_set(sample)
    if tests:
        table = max(tests, key=lambda test: len(test.table.lines))
        return TestSet(table.columns.where, table.ids(), table.table.lines)
    if any(table.split == TEST for table in labels):
        return None
    # An id that names a train image and a test image means the former, but one that names a test
    # image alone labels it.
    named = {
        path
        for table in labels
        for text in table.ids()
        for path in index.find(text, TRAIN) or index.find(text)
    }
    bare = [path for path in index.paths if index.split_of(path) == TEST and path not in named]
    return TestSet.of_paths(f"{folder_of(bare[0])}/", bare) if bare else None


def told_test_set(seen: Seen, sample: SeenTable | None) -> TestSet | None:
    """Return the test set that `--test-images` names."""
    if seen.test_table:
        table = seen.tables[seen.test_table]
        index = ImageIndex(seen.images, seen.file_of)
        at = id_column(table.columns, "", index, SourceOptions())
        return TestSet(table.columns.where, table.columns.texts(at or 0), table.lines)
    if seen.test_images and sample is not None:
        index = ImageIndex(seen.test_images, seen.file_of)
        named = sum(map(index.knows, sample.columns.texts(0)))
        if named * 2 > len(sample.lines):
            return sample_set(sample)
    if seen.test_images:
        return TestSet.of_paths(f"{folder_of(seen.test_images[0])}/", seen.test_images)
    return None


def sample_set(sample: SeenTable) -> TestSet:
    """Return the images whose ids a sample submission lists."""
    return TestSet(sample.columns.where, sample.columns.texts(0), sample.lines)


def folder_of(path: str) -> str:
    """Return the folder of a path, "" for the root."""
    return path.rpartition("/")[0]


def _stem(path: str) -> str:
    name = path.rpartition("/")[2]
    return name.rpartition(".")[0] or name
