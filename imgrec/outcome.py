"""What comes of a pack: the evidence of its shards, and what is said of the dataset."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass

from imgrec.model import Samples
from imgrec.near.duplicates import NearDuplicates
from imgrec.notes import Noted, NoteKind, Notes, Resized


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """The records of a shard: the samples that were packed, and what writing them has shown."""

    samples: Samples
    offsets: array[int]
    """Where each record's frame starts in the shard, before compression."""
    lengths: array[int]
    """Bytes of each record's frame: length, checksums and payload."""
    shapes: array[int]
    """Height, width and channels of record i at 3i, 3i+1 and 3i+2."""
    formats: tuple[str, ...]
    """How each stored image is encoded: JPEG, PNG or BMP."""
    hashes: bytes
    """16 bytes a record: the XXH3 (128 bits) of the image as it is in the source."""
    signatures: bytes = b""
    """65 bytes a record: what the image looks like (`codec.descriptor`); empty if not asked for."""
    orientations: bytes = b""
    """A byte a record: how it is to be turned, as EXIF data says it; 1 is upright."""
    tones: bytes = b""
    """2 bytes a record: how bright it is (`codec.descriptor`); empty if that is known of none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult(Noted):
    """The evidence of one written shard, gathered while writing it."""

    split: str
    index: int
    filename: str
    size: int
    sha256: str
    xxh3: str
    """Another hash of the file, which takes no time to check if the run is cut off."""
    plain_size: int
    """Bytes of its records before compression."""
    beside: tuple[tuple[str, int, str], ...]
    """Name, size and SHA-256 of each file that goes with it: its index, its twins."""
    records: RecordTable
    source_bytes: int
    """Size of the packed files as they are in the source."""
    notes: Notes
    """About bad files, and those that were not packed as they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInfo:
    """One split of a packed dataset."""

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int
    class_counts: tuple[int, ...] | None = None
    """Images per label; None where the dataset does not say."""

    @property
    def examples(self) -> int:
        """Count the records of the split."""
        return sum(self.shard_lengths)


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """What a packed dataset says of itself."""

    name: str
    version: str
    path: str
    classes: tuple[str, ...]
    splits: tuple[SplitInfo, ...]
    fingerprint: str
    """Empty for a dataset that imgrec did not make."""
    load: str
    """The line of Python that loads it."""
    compression: str = ""
    """How each shard is compressed as a whole: "gzip" or "zlib"; empty if it is not."""
    uncompressed_bytes: int = 0
    """What compressed shards would take if they were not; 0 if they are not."""
    also: tuple[str, ...] = ()
    """Other file formats that hold all records, too."""
    data_source: str = ""
    """The line of Python with which TFDS reads `also` at random; empty if it is not known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Noted):
    """What became of every file of a source; `report.json` in the dataset."""

    name: str
    version: str
    source: str
    layout: str
    fingerprint: str
    options: Mapping[str, object]
    classes: tuple[str, ...]
    splits: tuple[SplitInfo, ...]
    source_bytes: int
    """Size of the files that were packed, as they are in the source."""
    notes: Notes
    near_duplicates: NearDuplicates | None = None
    """None if they were not looked for."""

    @property
    def resized(self) -> Resized | None:
        """Images that were shrunk; None if images were to keep their size."""
        if not self.options.keys() & {"short_side", "max_side"}:
            return None
        examples = self._of(NoteKind.RESIZED)
        return Resized(len(examples) + self._unlisted(NoteKind.RESIZED), examples)

    def _repr_html_(self) -> str:
        from imgrec.notebook import Card, SplitRow

        images = sum(split.examples for split in self.splits)
        findings = {
            "skipped": len(self.skipped),
            "transcoded": len(self.transcoded) + self.unlisted_transcoded,
            "damaged": len(self.damaged),
            "duplicates": len(self.duplicates),
            "leaks": len(self.leaks),
            "conflicts": len(self.conflicts),
            "near-duplicates": self.near_duplicates.pairs if self.near_duplicates else 0,
            "warnings": len(self.warnings),
        }
        return Card(
            title=f"{self.name} {self.version}",
            subtitle=f"{images:,} images, {self.layout}",
            splits=[
                SplitRow(split.name, split.examples, len(split.shard_lengths), split.num_bytes)
                for split in self.splits
            ],
            classes=self.classes,
            counts=[(split.name, split.class_counts) for split in self.splits],
            findings=[(kind, count) for kind, count in findings.items() if count],
        ).html()


@dataclass(frozen=True, slots=True, kw_only=True)
class Packed:
    """The outcome of a pack."""

    info: DatasetInfo
    report: Report
    seconds: float
    is_new: bool
    """False if the dataset was there already, the same to the byte."""
    kept_shards: int = 0
    """How many shards of an interrupted run were used."""
    outdated_shards: int = 0
    """How many were written again, since their images had changed."""
    restarted: str = ""
    """Why all shards of an interrupted run were discarded."""
    unfinished: tuple[str, ...] = ()
    """Folders that other runs of this dataset, of other versions, left when they were cut off."""

    def _repr_html_(self) -> str:
        from imgrec.text import markup

        page = f"{self.info.path}/report.html"
        lines = (f"load: {self.info.load}", f"see: {page}")
        told = "".join(f"<div><code>{markup(line)}</code></div>" for line in lines)
        return self.report._repr_html_() + told


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """The hidden folder of a run that was cut off."""

    path: str
    size: int
    """Bytes of all that is in it."""
    restored: str = ""
    """What it becomes again if it is a dataset that was to be replaced and was not."""
