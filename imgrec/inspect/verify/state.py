"""The dataset under verification: its shards, and what is known of them so far.

The facts about all records may be larger than memory, so they are kept in a temporary file and
read back one shard at a time.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import NamedTuple, Self

from imgrec import layout
from imgrec.errors import DatasetNotFound, ExecutionError
from imgrec.faults import Code, Faults
from imgrec.inspect.subject import Job
from imgrec.inspect.verify.shard import ShardClaim, ShardFacts
from imgrec.read.documents import read_documents
from imgrec.read.files import present_files
from imgrec.read.locate import find_dataset, places

_SHARD = re.compile(r"(?P<name>.+)-(?P<split>[\w-]+)\.(?P<format>[\w.]+)-\d{5,}-of-\d{5,}")
REMAINS = frozenset(
    {layout.DATASET_INFO, layout.FEATURES, layout.METADATA, layout.SAMPLES, layout.CHECKSUMS}
)
"""Files that show that a folder is, or was, a dataset."""
_MOST_NAMED = 1000
"""How many missing shards are named: a document may declare millions."""
_MEMORY_BYTES = 64 << 20
"""Facts of up to this size stay in memory."""


def find_folder(dataset: str, data_dir: str) -> Path:
    """Return the version folder of a dataset, even if the documents that name it are missing.

    Raises DatasetNotFound.
    """
    try:
        return find_dataset(dataset, data_dir)
    except DatasetNotFound:
        for path in places(dataset, data_dir):
            for folder in (path, *_versions(path)):
                files = present_files(folder)
                if not REMAINS.isdisjoint(files) or any(map(split_of_shard, files)):
                    return folder
        raise


def _versions(path: Path) -> list[Path]:
    """Return the version folders below `path`, the highest first."""
    try:
        found = {layout.parse_version(child.name): child for child in path.iterdir()}
    except OSError:
        return []
    return [found[version] for version in sorted(filter(None, found), reverse=True)]


def split_of_shard(filename: str) -> str:
    """Return the split of a file with the name of a shard; "" for any other.

    >>> split_of_shard("flowers-train.tfrecord-00000-of-00002")
    'train'
    """
    match = _SHARD.fullmatch(filename)
    is_known = match is not None and match["format"] in layout.FILE_FORMATS.values()
    return match["split"] if match and is_known else ""


class _Totals(NamedTuple):
    """What is known of a shard as a whole."""

    size: int
    records: int
    is_whole: bool
    is_sound: bool
    """Whether the shard is whole and no record is damaged."""


class State:
    """What the documents declare, what the shards hold, and what is wrong."""

    def __init__(self, folder: Path, job: Job) -> None:
        self.folder, self.job = folder, job
        self.present = present_files(folder)
        self.documents = read_documents(folder, self.present, report=True)
        self.faults = Faults(self.documents.faults)
        self.unchecked = Faults(self.documents.unchecked)
        """What could not be checked, and why."""
        self.notes = Faults()
        """Not faults of the pack: images that the source itself has in two splits."""
        self.declared = tuple(self._declared_shards())
        """All shards that the documents declare, missing ones too."""
        self.shards = self._present_shards()
        """All shards that exist, in the order of splits and shards."""
        self.incomplete_splits = {
            claim.split for claim in self.declared if claim.filename not in self.present
        }
        """Splits that have lost a shard, so that their records cannot be counted."""
        self.totals: dict[str, _Totals] = {}
        """By shard."""
        self._spans: dict[str, tuple[int, int]] = {}
        self._file = SpooledTemporaryFile(_MEMORY_BYTES, prefix="imgrec-")  # noqa: SIM115

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self._file.close()

    def _declared_shards(self) -> Iterator[ShardClaim]:
        info = self.documents.declared
        if info.file_format not in layout.FILE_FORMATS.values():
            return
        named: set[str] = set()
        for split in info.splits:
            for index, records in enumerate(split.shard_lengths):
                filename = info.filename(split, index)
                if not filename or filename in named:
                    code = Code.TEMPLATE_REPEATS if filename else Code.BAD_TEMPLATE
                    self.faults.say(code, layout.DATASET_INFO, split=split.name)
                    break
                named.add(filename)
                yield ShardClaim(filename, split.name, records)

    def _present_shards(self) -> list[ShardClaim]:
        names = {claim.filename for claim in self.declared}
        missing = [claim.filename for claim in self.declared if claim.filename not in self.present]
        for filename in missing[:_MOST_NAMED]:
            self.faults.say(Code.MISSING, filename)
        if len(missing) > _MOST_NAMED:
            count = len(missing) - _MOST_NAMED
            self.faults.say(Code.MORE_MISSING, layout.DATASET_INFO, count=count)
        undeclared = [
            ShardClaim(filename, split, None)
            for filename in sorted(self.present - names)
            if (split := split_of_shard(filename))
        ]
        for claim in undeclared:
            self.faults.say(Code.NOT_DECLARED, claim.filename)
        needs_index = self.documents.is_ours and not self.documents.metadata.compression
        return [
            claim._replace(
                has_index=needs_index or claim.filename + layout.INDEX_SUFFIX in self.present
            )
            for claim in (*self.declared, *undeclared)
            if claim.filename in self.present
        ]

    def put(self, found: ShardFacts) -> None:
        """Store the facts about a shard. Its faults are listed, and not stored again."""
        self.faults.extend(found.faults)
        found.faults = ()
        is_sound = found.is_whole and not any(record.is_damaged for record in found.records)
        self.totals[found.filename] = _Totals(
            found.size, len(found.records), found.is_whole, is_sound
        )
        data = pickle.dumps(found, pickle.HIGHEST_PROTOCOL)
        try:
            start = self._file.seek(0, 2)
            self._file.write(data)
        except OSError as error:
            raise ExecutionError(
                f"cannot write to the temporary folder: {error.strerror}",
                hint="set TMPDIR to a folder with room for about 200 bytes a record",
            ) from error
        self._spans[found.filename] = start, len(data)

    def read(self, filename: str) -> ShardFacts:
        """Return the facts about a shard."""
        start, size = self._spans[filename]
        self._file.seek(start)
        facts: ShardFacts = pickle.loads(self._file.read(size))  # written by `put`
        return facts

    def facts(self, split: str | None = None) -> Iterator[tuple[ShardClaim, ShardFacts]]:
        """Yield the facts about all shards, or those of a split, one at a time."""
        for claim in self.shards:
            if split in (None, claim.split):
                yield claim, self.read(claim.filename)

    def totals_of(self, split: str) -> list[_Totals]:
        """Return the totals of the shards of a split."""
        return [self.totals[claim.filename] for claim in self.shards if claim.split == split]

    @property
    def records(self) -> int:
        """Count all records, damaged ones too."""
        return sum(total.records for total in self.totals.values())

    @property
    def bytes(self) -> int:
        """Count the bytes of all shards."""
        return sum(total.size for total in self.totals.values())
