"""The results of a pack: those of its shards, the report, and the facts about a dataset."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field

from imgrec.model import Samples, SourceLayout
from imgrec.near.clusters import NearDuplicates
from imgrec.notes import COPIES, Noted, NoteKind, Notes, Resized
from imgrec.options.card import DatasetCard
from imgrec.text import number


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordTable:
    """The records of a shard: the packed samples, and what became known while writing them."""

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
    """16 bytes per record: the XXH3 (128 bits) of the file in the source."""
    descriptors: bytes = b""
    """200 bytes per record (`near.descriptor`), to find near-duplicates; empty if not asked for."""
    orientations: bytes = b""
    """1 byte per record: the orientation in its EXIF data, 1 if upright, 0 if unknown; empty if
    the records were not read."""
    tones: bytes = b""
    """2 bytes per record: brightness and contrast; empty if no image was decoded."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardResult(Noted):
    """One written shard: what was computed while writing it."""

    split: str
    index: int
    filename: str
    size: int
    sha256: str
    xxh3: str
    """Another hash of the file, which is faster to check when a run is resumed."""
    plain_size: int
    """Bytes of its records before compression."""
    beside: tuple[tuple[str, int, str], ...]
    """Name, size and SHA-256 of the other files of the shard: its index, its twins."""
    records: RecordTable
    source_bytes: int
    """The size of the packed files in the source."""
    notes: Notes
    """About bad files, and files that were changed or are damaged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SplitInfo:
    """One split of a packed dataset."""

    name: str
    shard_lengths: tuple[int, ...]
    num_bytes: int
    class_counts: tuple[int, ...] | None = None
    """Images per label; None if unknown."""

    @property
    def examples(self) -> int:
        """Count the records of the split."""
        return sum(self.shard_lengths)

    def __repr__(self) -> str:  # there may be thousands of shards and classes
        return (
            f"SplitInfo(name={self.name!r}, examples={self.examples}, "
            f"shards={len(self.shard_lengths)}, num_bytes={self.num_bytes})"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class DatasetInfo:
    """The facts about a packed dataset."""

    name: str
    version: str
    path: str
    classes: tuple[str, ...] = field(repr=False)
    splits: tuple[SplitInfo, ...]
    fingerprint: str
    """Empty if another program wrote the dataset."""
    load: str
    """The line of Python that loads it."""
    compression: str = ""
    """How each shard is compressed as a whole: "gzip" or "zlib"; empty for none."""
    uncompressed_bytes: int = 0
    """The size of compressed shards before compression; 0 without compression."""
    also: tuple[str, ...] = ()
    """Other file formats that also hold all records."""
    data_source: str = ""
    """The line of Python with which TFDS reads `also` in random order, if there is one."""
    about: DatasetCard = field(default_factory=DatasetCard)
    """Its description, citation, license and homepage, as far as they were given."""
    channels: int = 3
    """What loaders decode to unless told otherwise: 1 if all images are grey, else 3."""

    def __repr__(self) -> str:
        return f"<DatasetInfo {self.name} {self.version}: {_counted(self)}, {self.path}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class Report(Noted):
    """What became of every file of a source; `report.json` in the dataset."""

    name: str
    version: str
    source: str
    layout: SourceLayout
    fingerprint: str
    options: Mapping[str, object]
    classes: tuple[str, ...] = field(repr=False)
    splits: tuple[SplitInfo, ...]
    source_bytes: int
    """The size of the packed files in the source."""
    notes: Notes = field(repr=False)
    near_duplicates: NearDuplicates | None = field(default=None, repr=False)
    """None if nobody asked for them."""

    @property
    def about(self) -> DatasetCard:
        """Return the description, citation, license and homepage, as far as they were given."""
        fields = DatasetCard._fields
        return DatasetCard(*(str(self.options.get(field, "")) for field in fields))

    @property
    def resized(self) -> Resized | None:
        """Images that were shrunk; None without `--short-side` or `--max-side`."""
        if not self.options.keys() & {"short_side", "max_side"}:
            return None
        examples = self.of(NoteKind.RESIZED)
        return Resized(len(examples) + self.unlisted(NoteKind.RESIZED), examples)

    def __repr__(self) -> str:
        return f"<Report {self.name} {self.version}: {_counted(self)}, {len(self.skipped)} skipped>"

    def _repr_html_(self) -> str:
        from imgrec.html import Card, SplitRow

        images = sum(split.examples for split in self.splits)
        findings: dict[str, int] = {
            "skipped": len(self.skipped),
            **{kind: len(notes) + self.unlisted(kind) for kind, notes in self.listed.items()},
            **{kind: len(self.copies(kind)) for kind in COPIES},
            "near-duplicates": self.near_duplicates.groups if self.near_duplicates else 0,
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
    report: Report = field(repr=False)
    seconds: float
    is_new: bool
    """False if the same dataset existed already."""
    kept_shards: int = 0
    """How many shards of an interrupted run were reused."""
    outdated_shards: int = 0
    """How many were written again because their images had changed."""
    restarted: str = ""
    """Why all shards of an interrupted run were discarded."""
    unfinished: tuple[str, ...] = ()
    """Folders of interrupted runs of other versions of this dataset."""

    def __repr__(self) -> str:
        info, skipped = self.info, len(self.report.skipped)
        ending = "" if self.is_new else ", already packed"
        what = f"{_counted(info)}, {skipped} skipped{ending}"
        return f"<Packed {info.name} {info.version}: {what}, {info.path}>"

    def _repr_html_(self) -> str:
        from imgrec.text import markup

        page = f"{self.info.path}/report.html"
        lines = (f"load: {self.info.load}", f"see: {page}")
        footer = "".join(f"<div><code>{markup(line)}</code></div>" for line in lines)
        return self.report._repr_html_() + footer


def _counted(found: DatasetInfo | Report) -> str:
    images = sum(split.examples for split in found.splits)
    return f"{number(images, 'image')}, {number(len(found.classes), 'class', 'classes')}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leftover:
    """What `imgrec clean` removes: what an interrupted run left, or an old version."""

    path: str
    size: int
    """The bytes that its removal frees; files that are also elsewhere free nothing."""
    restored: str = ""
    """The dataset that it becomes again, if an overwrite was interrupted."""
