"""The dataset under verification: its shards, and the checks across all of them.

The facts about all records may be larger than memory, so they are kept in a temporary file and
read back one shard at a time.
"""

from __future__ import annotations

import pickle
import re
import unicodedata
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import TYPE_CHECKING, NamedTuple, Self

from xxhash import xxh3_64_intdigest

from imgrec import layout
from imgrec.codec.json_files import decode_table
from imgrec.errors import DatasetNotFound, ExecutionError
from imgrec.faults import Code, Faults
from imgrec.inspect.subject import Job
from imgrec.inspect.verify.shard import RecordFacts, ShardClaim, ShardFacts
from imgrec.model import FOLD, TEST, TRAIN, VAL
from imgrec.notes import NoteKind
from imgrec.options import OnLeak
from imgrec.read.documents import Documents, read_documents
from imgrec.read.files import find_dataset, places, present_files, read_document
from imgrec.spelling import spelling_key
from imgrec.text import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

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


def check_names(state: State) -> None:
    """Find file names that more than one record has; memory is 8 bytes a name."""
    hashes = array("Q")
    for _, found in state.facts():
        hashes.extend(_name_hash(record.filename) for record in found.records if record.filename)
    repeated = _repeated([hashes])
    if not repeated:
        return
    first: dict[str, tuple[int, str]] = {}
    for _, found in state.facts():
        for record in found.records:
            if not record.filename or _name_hash(record.filename) not in repeated:
                continue
            place = record.offset, found.filename
            at, shard = first.setdefault(record.filename, place)
            if (at, shard) != place:
                facts = {"name": record.filename, "at": at, "shard": shard}
                state.faults.say(Code.NAME_TWICE, found.filename, record.offset, **facts)


def _name_hash(filename: str) -> int:
    return xxh3_64_intdigest(filename.encode("utf-8", "surrogatepass"))


def _repeated(groups: Iterable[array[int]]) -> set[int]:
    """Return the 64-bit numbers that occur more than once in all groups together."""
    import numpy as np

    numbers: NDArray[np.uint64] = np.concatenate(
        [np.frombuffer(group, np.uint64) for group in groups] or [np.empty(0, np.uint64)]
    )
    numbers.sort()
    return set(numbers[1:][numbers[1:] == numbers[:-1]].tolist())


def check_folders(state: State) -> None:
    """Find labels that differ from the class folders of their images."""
    report, classes = state.documents.report, state.documents.classes
    if report is None or (class_parts := report.layout.class_folders) is None:
        return
    key = spelling_key if report.options.get("fold_case") else _composed
    class_map = report.options.get("map")
    renamed = class_map if isinstance(class_map, dict) else {}
    new_names = {key(str(old)): str(new) for old, new in renamed.items()}
    corrected = _corrected_names(state)
    for _, found in state.facts():
        for record in found.records:
            if printable(record.filename) in corrected:
                continue
            parts = record.filename.split("/")
            label = record.labels[0] if len(record.labels) == 1 else -1
            if record.is_damaged or not 0 <= label < len(classes) or len(parts) <= class_parts.stop:
                continue
            folder = "/".join(parts[class_parts])
            if key(new_names.get(key(folder), folder)) != key(classes[label]):
                facts = {"name": record.title, "class_name": classes[label]}
                state.faults.say(Code.OTHER_CLASS, found.filename, record.offset, **facts)


def _corrected_names(state: State) -> set[str]:
    """Return the images that `imgrec edit` gave another label than that of their folder."""
    if layout.EDITS not in state.present:
        return set()
    try:
        _, rows = decode_table(read_document(state.folder / layout.EDITS))
    except (OSError, ValueError) as error:
        state.faults.say(Code.CANNOT_READ, layout.EDITS, reason=str(error))
        return set()
    return {name for name, action, *_ in rows if action == "relabel"}


def _composed(name: str) -> str:
    return unicodedata.normalize("NFC", name)


def check_counts(state: State) -> None:
    """Compare the images of each class, and the bytes of each split, with the documents.

    Splits that have lost a shard are skipped: that fault is already listed.
    """
    documents = state.documents
    for split, declared in documents.metadata.class_counts.items():
        is_sound = all(total.is_sound for total in state.totals_of(split))
        if split in state.incomplete_splits or not is_sound:
            continue
        counts: Counter[int] = Counter()
        for _, shard in state.facts(split):
            for record in shard.records:
                counts.update(record.labels)
        found = tuple(counts[label] for label in range(len(declared)))
        if declared != found:
            facts = {"split": split, "declared": declared, "found": found}
            state.faults.say(Code.CLASS_COUNTS, layout.METADATA, **facts)
    for info in documents.declared.splits if documents.is_ours else ():
        size = sum(total.size for total in state.totals_of(info.name))
        if info.name not in state.incomplete_splits and size != info.num_bytes:
            sizes = {"declared": info.num_bytes, "found": size}
            state.faults.say(Code.WRONG_NUM_BYTES, layout.DATASET_INFO, split=info.name, **sizes)


def check_leaks(state: State) -> None:
    """Find images that are in more than one split.

    Both the packed images and their files in the source are compared, by hash: re-encoding may
    make the same PNG from two different files, which is not a leak. Memory is 16 bytes a record,
    and some more for each image in two splits.
    """
    in_several = _in_several_splits(state)
    if not in_several:
        return
    source = _SourceLeaks(state.documents)
    first: dict[bytes, tuple[str, RecordFacts, bytes]] = {}
    for claim, found in state.facts():
        for number, record in enumerate(found.records):
            if record.is_damaged:
                continue
            in_table = b"".join(found.source_hashes[number : number + 1])
            digests = dict.fromkeys(filter(None, (record.digest, in_table)))
            if in_several.isdisjoint(map(_prefix, digests)):
                continue
            source_hash = b"" if number in found.doubtful else in_table
            for digest in digests:
                split, other, other_hash = first.setdefault(
                    digest, (claim.split, record, source_hash)
                )
                have_two_files = source_hash and other_hash and source_hash != other_hash
                if split == claim.split or have_two_files:
                    continue
                facts = {"name": record.title, "split": claim.split}
                facts |= {"other": other.title, "other_split": split}
                is_known = source.has(record.filename, other.filename, {claim.split, split})
                (state.notes if is_known else state.faults).say(
                    Code.SAME_IMAGE, found.filename, record.offset, **facts
                )
                break


def _in_several_splits(state: State) -> set[int]:
    """Return the prefixes of hashes that are in several splits; almost always there are none."""
    import numpy as np

    splits: dict[str, array[int]] = {}
    for claim, found in state.facts():
        digests = {record.digest for record in found.records} | {*found.source_hashes}
        splits.setdefault(claim.split, array("Q")).extend(map(_prefix, digests))
    return _repeated(array("Q", np.unique(prefixes).tolist()) for prefixes in splits.values())


def _prefix(digest: bytes) -> int:
    return int.from_bytes(digest[:8], "little")


class _SourceLeaks:
    """The images that the source itself has in several splits, from the report of the pack."""

    def __init__(self, documents: Documents) -> None:
        report = documents.report
        self._is_foreign = not documents.is_ours  # then imgrec made none of the splits
        self._groups: dict[str, int] = {}
        self._has_unlisted = False
        self._made: set[str] = set()
        """The splits that imgrec made from train, and train itself."""
        if report is None or report.options.get("on_leak") == OnLeak.DROP:
            return
        self._groups = {name: at for at, leak in enumerate(report.leaks) for name in leak.filenames}
        self._has_unlisted = bool(report.unlisted(NoteKind.LEAK))
        if not report.options.get("split_file"):  # which may put copies into different splits
            self._made = {split for split in (VAL, TEST) if report.options.get(f"{split}_split")}
            if report.options.get("folds"):
                self._made |= {split.name for split in report.splits if split.name.startswith(FOLD)}
        self._made |= {TRAIN}

    def has(self, name: str, other: str, splits: set[str]) -> bool:
        """Return whether the source has one image under two names, in two splits."""
        if self._is_foreign:
            return True
        if splits <= self._made:
            return False
        group = self._groups.get(printable(name))
        return self._has_unlisted if group is None else group == self._groups.get(printable(other))
