"""Find images that a dataset or a source has twice, or that are also in another one."""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from xxhash import xxh3_128_digest

from imgrec.codec.decode import decode_covering
from imgrec.codec.look import Look, look
from imgrec.errors import BadImage, UsageError
from imgrec.inspect.contact_sheet import (
    Captioned,
    draw_contact_sheet,
    encode_sheet,
    refuse_other_formats,
)
from imgrec.inspect.subject import (
    ImagePlace,
    InDataset,
    InSource,
    Job,
    RecordBatch,
    Subject,
    open_dataset,
    open_subject,
    record_batches,
    scan_for,
)
from imgrec.model import TRAIN, Catalog
from imgrec.near.clusters import ALIKE, LEAST_ALIKE, ranked_members
from imgrec.near.duplicates import (
    Images,
    Large,
    Pair,
    See,
    Sight,
    count_flat,
    detailed,
    find_among,
    find_similar,
)
from imgrec.options import PackOptions, SourceOptions
from imgrec.options.packing import Embed, parse_embeddings
from imgrec.options.parsing import OptionError, at_least
from imgrec.planning.build import choose_limited
from imgrec.read.dataset import Dataset
from imgrec.read.shards import refuse_impossible
from imgrec.source.embeddings import EmbeddingFile, embed_images, match_names, open_embeddings
from imgrec.source.looking import (
    UNSEEN,
    UPRIGHT_RGB,
    Album,
    Seen,
    SeenPart,
    close_sight,
    decode_pictures,
    join_seen,
    see_images,
    seen_part,
)
from imgrec.storage.named_files import refuse_no_file, write_out
from imgrec.text import number

if TYPE_CHECKING:
    from imgrec.near.search import Rows
    from imgrec.source.embeddings import Decode, Picture

_BATCH = 256
_SHEET_GROUPS = 50
_SHEET_ACROSS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What to compare, and how."""

    what: str
    """A dataset, by name or path; or a source."""
    against: str = ""
    """A dataset or source to compare it with; empty compares it with itself."""
    data_dir: str = ""
    source: SourceOptions = field(default_factory=SourceOptions)
    """How to read `what` if it is a source."""
    alike: int = ALIKE
    """How much near-duplicates are alike at least, in per cent."""
    embeddings: str | Embed = ""
    """Vectors to search by; empty for descriptors of imgrec's own."""
    against_embeddings: str = ""
    """A file of such vectors for the other dataset, if `embeddings` is a file."""
    sheet: str = ""
    """Where to write a contact sheet of the groups, as PNG, JPEG or WebP by its extension."""

    def __post_init__(self) -> None:
        at_least(LEAST_ALIKE, 100)("alike", self.alike)
        parse_embeddings("embeddings", self.embeddings)
        is_file = bool(self.embeddings) and isinstance(self.embeddings, str)
        names = "against_embeddings", "embeddings", "against"
        if self.against_embeddings and not (is_file and self.against):
            hint = "pass them too, or leave out {0}"
            raise OptionError("{0} needs a file of {1}, and {2}", *names, hint=hint)
        if is_file and self.against and not self.against_embeddings:
            hint = "pass the embeddings of the images in {2} as {0}"
            raise OptionError("{1} and {2} need {0}", *names, hint=hint)
        refuse_no_file(self.sheet, "pairs.png")
        refuse_other_formats(self.sheet)


class Kind(StrEnum):
    """The relation of two near-duplicates, the worst first."""

    AGAINST = "against"
    """One is in the other dataset."""
    SPLITS = "across splits"
    CLASSES = "across classes"
    WITHIN = "within"


class LeakedImage(NamedTuple):
    """One image of a pair."""

    name: str
    split: str
    """Empty where there are no splits."""
    labels: tuple[str, ...]
    where: ImagePlace


class LeakGroup(NamedTuple):
    """Images that look alike, directly or through others."""

    kind: Kind
    images: tuple[LeakedImage, ...]
    """The one that most others look like comes first, then one of each other split and label. With
    another dataset, the first is the image there."""
    alike: int
    """In per cent: of the two that are most alike, across splits or labels if the group is."""
    is_mirrored: bool
    """Whether one of those two is mirrored."""
    is_exact: bool
    """True if all have the same bytes."""

    def order(self) -> tuple[object, ...]:
        """Return the sort key: the worst and most alike first."""
        names = [image[:2] for image in self.images]
        return [*Kind].index(self.kind), not self.is_exact, -self.alike, names


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaks:
    """The groups found in a dataset or source, or between two of them."""

    name: str
    """The dataset or source."""
    version: str
    """Empty for a source."""
    against: str
    """The other dataset or source; empty if there was none."""
    images: int
    flat: int
    """Images with too little content to compare: only exact copies of them are found."""
    unreadable: int
    alike: int
    """How much near-duplicates are alike at least, in per cent."""
    groups: tuple[LeakGroup, ...]
    """Sorted: the worst first. Each image is in one group at most."""
    large: tuple[Large, ...] = ()
    """Groups that hold too much of a class to be one picture; they are not among the others."""
    sheet: str = ""
    """The path of the contact sheet; empty if there is none."""
    seconds: float = 0.0

    @property
    def title(self) -> str:
        """Return the name and version."""
        return f"{self.name} {self.version}".strip()

    def of(self, kind: Kind) -> list[LeakGroup]:
        """Return the groups of one kind."""
        return [group for group in self.groups if group.kind is kind]

    def __repr__(self) -> str:
        against = f" and {self.against}" if self.against else ""
        found = f"{number(len(self.groups), 'group')} among {number(self.images, 'image')}"
        ending = ", leaking" if self.is_leaking else ""
        return f"<Leaks {self.title}{against}: {found}{ending}>"

    @property
    def is_leaking(self) -> bool:
        """Return whether an image is in two splits, or in the other dataset."""
        return any(group.kind in (Kind.AGAINST, Kind.SPLITS) for group in self.groups)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Images:
    """Images by column."""

    name: str
    """The dataset or source."""
    version: str = ""
    names: Sequence[str]
    splits: Sequence[str]
    """Empty texts where there are no splits."""
    labels: Sequence[tuple[str, ...]]
    """The classes of each image."""
    seen: Seen
    """What they look like."""
    see_closely: See
    place_of: Callable[[int], ImagePlace]
    """Returns the place of an image, by its row."""
    decode: Decode
    """Decodes some images, by their rows."""
    bad: int = 0
    """Files that the scan already found not to be images."""

    @property
    def sight(self) -> Sight:
        """How to look at images by their rows."""
        return Sight(self.see_closely, self.seen.see)

    def described(self, source: EmbeddingFile | Embed | None) -> Images:
        """Return what to search by: embeddings from a file or function, or descriptors."""
        # A file that could not be read has no hash, and equals no other.
        contents = [value or b"%d" % row for row, value in enumerate(self.seen.hashes)]
        rows: Rows | None = None
        if source:
            places = detailed(self.seen.descriptors)
            rows = embed_images(match_names(source, self.names), self.names, places, self.decode)
        return Images(self.names, contents, self.seen.descriptors, rows)

    def image(self, row: int) -> LeakedImage:
        return LeakedImage(self.names[row], self.splits[row], self.labels[row], self.place_of(row))


def find_leaks(request: Request, job: Job, spool: str) -> Leaks:
    """Compare images as asked. Archives are unpacked to folders in `spool`."""
    started = time.monotonic()
    large: tuple[Large, ...] = ()
    with ExitStack() as stack:

        def find(what: str, options: SourceOptions) -> Subject:
            return stack.enter_context(open_subject(what, options, request.data_dir))

        def read(subject: Subject, what: str, spool: str) -> _Images:
            return _read(subject, what, job, spool, stack.enter_context(Album()))

        # Find all before reading any, so that a wrong name is reported at once.
        source = open_embeddings(request.embeddings)
        subject = find(request.what, request.source)
        if request.against:
            other = find(request.against, SourceOptions())
            of_others = open_embeddings(request.against_embeddings) or source
            images = read(subject, request.what, os.path.join(spool, "0"))
            others = read(other, request.against, os.path.join(spool, "1"))
            known = images.described(source), others.described(of_others)
            _refuse_other_width(*known)
            groups = _groups_between(images, others, known, request.alike, job)
            against = f"{others.name} {others.version}".strip()
        else:
            images, against = read(subject, request.what, spool), ""
            groups, large = _groups_within(images, images.described(source), request.alike, job)
        groups.sort(key=LeakGroup.order)
        sheet = request.sheet if groups else ""
        if sheet:
            write_out(sheet, encode_sheet(_draw_sheet(groups[:_SHEET_GROUPS], job), sheet))
    unreadable = images.seen.pixels.count(0)
    return Leaks(
        name=images.name,
        version=images.version,
        against=against,
        images=len(images.names),
        flat=count_flat(images.seen.descriptors) - unreadable,
        unreadable=unreadable + images.bad,
        alike=request.alike,
        groups=tuple(groups),
        large=large,
        sheet=sheet,
        seconds=time.monotonic() - started,
    )


def _refuse_other_width(images: Images, others: Images) -> None:
    widths = [each.embeddings.shape[1] for each in (images, others) if each.embeddings is not None]
    if len({*widths}) > 1:
        own, other = widths
        raise UsageError(
            f"the embeddings to compare have {own:,} and {other:,} numbers each",
            hint="make both with the same model",
        )


def _read(subject: Subject, what: str, job: Job, spool: str, album: Album) -> _Images:
    """Read all images of what was asked for. Archives are unpacked to `spool`."""
    found, options = subject
    if isinstance(found, Path):
        return _images_of_dataset(found, job, album)
    catalog = scan_for(job, found, options, spool)
    chosen = choose_limited(catalog, options, PackOptions().seed)
    return _images_of_source(chosen, what, job, album)


def _images_of_source(catalog: Catalog, source: str, job: Job, album: Album) -> _Images:
    samples = catalog.samples
    progress = partial(job.progress, "look")
    seen = see_images(samples, job.run, progress, album)
    is_split = any(samples.splits)
    return _Images(
        name=source,
        names=samples.filenames,
        splits=[split or TRAIN for split in samples.splits] if is_split else samples.splits,
        labels=samples.class_sets or [(name,) if name else () for name in samples.class_names],
        seen=seen,
        see_closely=partial(album.see, see_again=close_sight(samples, job.run)),
        place_of=lambda at: InSource(samples.blobs[at], samples.sizes[at], samples.filenames[at]),
        decode=partial(decode_pictures, samples),
        bad=len(catalog.bad),
    )


class _Batch(NamedTuple):
    """Some records of a dataset by column."""

    names: list[str]
    labels: list[tuple[str, ...]]
    part: SeenPart


def _images_of_dataset(folder: Path, job: Job, album: Album) -> _Images:
    info = Dataset(folder).info
    refuse_impossible(info)
    count = sum(split.examples for split in info.splits)
    found: list[_Batch] = []
    for batch in job.run(partial(_read_batch, album.most), list(record_batches(info))):
        found.append(batch._replace(part=album.take(batch.part)))
        job.progress("look", len(batch.names), count)
    found.sort(key=lambda batch: batch.part.start)
    names = chain.from_iterable(batch.names for batch in found)
    see_again = partial(_see_records_closely, info.path, job)
    seen = join_seen([batch.part for batch in found])
    return _Images(
        name=info.name,
        version=info.version,
        names=[name or f"record {number}" for number, name in enumerate(names)],
        splits=[split.name for split in info.splits for _ in range(split.examples)],
        labels=[labels for batch in found for labels in batch.labels],
        seen=seen,
        see_closely=partial(album.see, see_again=see_again),
        place_of=lambda number: InDataset(info.path, number),
        decode=partial(_decode_records, info.path),
    )


def _see_records_closely(folder: str, job: Job, numbers: Sequence[int]) -> bytes:
    ordered = sorted({*numbers})  # compressed shards are read in order
    parts = [ordered[start : start + _BATCH] for start in range(0, len(ordered), _BATCH)]
    looks: dict[int, bytes] = {}
    for found in job.run(partial(_read_closely, folder), parts):
        looks |= found
    return b"".join([looks[number] for number in numbers])


def _read_closely(folder: str, numbers: Sequence[int]) -> dict[int, bytes]:
    looks = dict.fromkeys(numbers, UNSEEN)
    records = open_dataset(folder).read_all(numbers)
    for place, record in zip(numbers, records, strict=True):
        with suppress(BadImage):
            looks[place] = look(record.image, record.filename).close
    return looks


def _decode_records(folder: str, numbers: Sequence[int]) -> dict[int, Picture]:
    pictures = {}
    records = open_dataset(folder).read_all(numbers)
    for place, record in zip(numbers, records, strict=True):
        with suppress(BadImage):
            pictures[place] = decode_covering(record.image, UPRIGHT_RGB)
    return pictures


def _read_batch(most_kept: int, batch: RecordBatch) -> _Batch:
    names, labels, hashes = [], [], []
    looks: list[Look | None] = []
    for record in open_dataset(batch.folder).read_all(range(batch.start, batch.stop)):
        names.append(record.filename)
        labels.append(record.class_names)
        hashes.append(xxh3_128_digest(record.image))
        try:
            looks.append(look(record.image, record.filename))
        except BadImage:
            looks.append(None)
    part = seen_part(batch.start, looks, hashes, most_kept, checks=False)
    return _Batch(names, labels, part)


def _groups_within(
    images: _Images, known: Images, alike: int, job: Job
) -> tuple[list[LeakGroup], tuple[Large, ...]]:
    """Compare all images with each other."""
    contents = known.contents
    kinds = [frozenset(labels) or None for labels in images.labels]
    found = find_similar(known, alike, job.run, images.sight).without_large(kinds)
    by_picture: dict[int, list[Pair]] = defaultdict(list)
    homes = {row: root for root, rows in found.members().items() for row in rows}
    for pair in chain(found.copies(range(len(found.pictures))), found.pairs()):
        by_picture[homes[pair.first]].append(pair)
    groups = []
    for pairs in by_picture.values():
        is_exact = len({contents[row] for pair in pairs for row in pair[:2]}) == 1
        groups.append(_group(images, pairs, is_exact=is_exact))
    return groups, found.large


def _group(images: _Images, pairs: Sequence[Pair], *, is_exact: bool) -> LeakGroup:
    rows = ranked_members(pairs)
    splits = {images.splits[row] for row in rows}
    # An image without a label contradicts none.
    labels = {frozenset(images.labels[row]) for row in rows} - {frozenset()}
    kind = Kind.SPLITS if len(splits) > 1 else Kind.CLASSES if len(labels) > 1 else Kind.WITHIN

    def sides(row: int) -> tuple[object, ...]:
        return images.splits[row], frozenset(images.labels[row])

    crossing = [pair for pair in pairs if _crosses(images, pair, kind)] or pairs
    top = min(crossing, key=lambda pair: (-pair.alike, pair))
    firsts = {sides(row): row for row in reversed(rows)}.values()
    shown = dict.fromkeys([rows[0], *sorted(firsts, key=rows.index), *rows])
    shown_images = tuple(map(images.image, shown))
    return LeakGroup(kind, shown_images, top.alike, top.is_mirrored, is_exact)


def _crosses(images: _Images, pair: Pair, kind: Kind) -> bool:
    sides = images.splits if kind is Kind.SPLITS else images.labels
    return sides[pair.first] != sides[pair.second]


def _groups_between(
    images: _Images, others: _Images, known: tuple[Images, Images], alike: int, job: Job
) -> list[LeakGroup]:
    """Find the images that are among others too: each with an equal one, else the most alike."""
    nearest: dict[int, Pair] = {}
    sights = images.sight, others.sight
    for pair in find_among(*known, alike, job.run, sights):
        if pair.first not in nearest or pair.alike > nearest[pair.first].alike:
            nearest[pair.first] = pair
    first_rows = {
        value: row for row, value in reversed(list(enumerate(others.seen.hashes))) if value
    }
    hashes = enumerate(images.seen.hashes)
    exact = {row: first_rows[value] for row, value in hashes if value in first_rows}
    nearest |= {row: Pair(row, other, 100, is_mirrored=False) for row, other in exact.items()}
    groups: dict[tuple[int, bool], list[Pair]] = defaultdict(list)
    for row, pair in sorted(nearest.items()):
        groups[pair.second, row in exact].append(pair)
    return [
        LeakGroup(
            Kind.AGAINST,
            (others.image(other), *(images.image(pair.first) for pair in pairs)),
            max(pair.alike for pair in pairs),
            max(pairs, key=lambda pair: pair.alike).is_mirrored,
            is_exact,
        )
        for (other, is_exact), pairs in groups.items()
    ]


def _draw_sheet(groups: Sequence[LeakGroup], job: Job) -> bytes:
    """Return a PNG of the first two images of groups, with files, splits, labels and likeness."""
    tiles = []
    for group in groups:
        how = "the same file" if group.is_exact else f"{group.alike} %"
        how += ", mirrored" if group.is_mirrored else ""
        more = f"and {len(group.images) - 2:,} more" if len(group.images) > 2 else ""
        captions = (f"{group.kind}: {how}", more)
        tiles.append(
            tuple(
                Captioned(
                    image.where,
                    (image.name, " ".join(filter(None, (image.split, *image.labels))), caption),
                )
                for image, caption in zip(group.images, captions, strict=False)
            )
        )
    return draw_contact_sheet(tiles, _SHEET_ACROSS, job)
