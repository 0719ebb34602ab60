"""TFRecord files of images as a source: `tf.train.Example` records, whoever wrote them.

Images are not copied: the bytes of an image are packed from where they are in the record.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from imgrec.codec.example import Feature, decode
from imgrec.codec.sniff import HEAD_BYTES, format_of
from imgrec.codec.tfrecord import read_records
from imgrec.errors import CorruptRecord, SourceError
from imgrec.model import TEST, Catalog, Column, SourceLayout, picked
from imgrec.notes import Note
from imgrec.options import ColumnKind, SourceKind, SourceOptions
from imgrec.source.columns import is_label_column, is_path_column, squashed
from imgrec.source.label_names import named_classes
from imgrec.source.probe import FileTable, content_key
from imgrec.source.tree import Context, Match, TreeFile, local_copy
from imgrec.source.words import split_in, split_of_name
from imgrec.storage.named_files import read_small_text
from imgrec.text import number as count_of

_NAMES = re.compile(r"\.tfrec(ord)?s?(-(?P<number>\d+)-of-\d+)?$", re.I)
_PAYLOAD_AT = 12
"""Where a record's payload begins: after its length and the length's checksum."""
_SAMPLE_RECORDS = 20
_LABELS_FILE = "label.labels.txt"


class _Roles(NamedTuple):
    """Which feature of the records is what; "" for none."""

    image: str
    label: str
    id: str


class _Shard(NamedTuple):
    """A file of records."""

    path: str
    """Its path in the source."""
    copy: str
    """Where it can be read."""
    split: str


class _Records(NamedTuple):
    """The records of a file, by column."""

    images: FileTable
    labels: list[str]
    ids: list[str]


def detect(listing: Sequence[TreeFile], context: Context) -> Match | None:
    """Return the TFRecord files of a listing, and the class names in a file beside them."""
    files = tuple(file for file in listing if _NAMES.search(file.path))
    if not files:
        return None
    label_files = [file for file in listing if file.path.rpartition("/")[2] == _LABELS_FILE]
    if len(label_files) != 1 or context.options.label_names is not None:
        return Match(files)
    copy = local_copy(label_files[0], context)
    text = read_small_text(copy, label_files[0].path, "leave it out with --exclude")
    return Match(files, tuple(line.strip() for line in text.splitlines() if line.strip()))


def scan(match: Match, root: str, context: Context) -> Catalog:
    """List the images of TFRecord files.

    Raises SourceError if records hold no images, or if it is unclear which feature is the label.
    """
    shards = _shards(match.files, context)
    _refuse_copies(shards, root)
    roles = _find_roles(shards, root, context.options)
    by_shard = dict(context.run(partial(_read_shard, roles), list(enumerate(shards))))
    table = FileTable()
    class_names: list[str] = []
    splits: list[str] = []
    ids: list[str] = []
    for number, shard in enumerate(shards):
        images, labels, own_ids = by_shard[number]
        table.extend(images)
        class_names += [_class_name(label, match.names) for label in labels]
        splits += [shard.split] * len(labels)
        ids += own_ids
        context.on_progress(len(labels))
    good = [place for place in range(len(table.names)) if place not in table.faults]
    if not good:
        raise SourceError(f"{root}: no record holds an image", path=root)
    class_names = [class_names[place] for place in good]
    unlisted = sorted({name for name in class_names if name}.difference(match.names))
    samples = table.samples(good, class_names, [splits[place] for place in good], context.run)
    if roles.id:
        column = Column("id", ColumnKind.TEXT, picked(ids, good))
        samples = replace(samples, columns=(column,))
    catalog = Catalog(
        name="",
        layout=_layout(roles, shards),
        samples=samples,
        class_folders={name: (f"{roles.label}: {name}",) for name in [*match.names, *unlisted]},
        class_order=match.names if match.names and not unlisted else None,
        notes=tuple(sorted(Note(table.names[place], why) for place, why in table.faults.items())),
    )
    return named_classes(catalog, context.options.label_names, root)


def _shards(files: Sequence[TreeFile], context: Context) -> list[_Shard]:
    """Return the files with their splits: of a folder's name, else of the file's own."""
    shards = []
    for file in files:
        folder, _, name = file.path.rpartition("/")
        split = next(filter(None, map(split_in, reversed(folder.split("/")))), "")
        split = split or split_of_name(name, takes_trainval=True)
        shards.append(_Shard(file.path, local_copy(file, context), split))
    odd = [shard.path for shard in shards if not shard.split]
    if odd and len(odd) < len(shards):
        raise SourceError(
            f"{odd[0]} names no split, but other files do",
            hint=f"leave it out with --exclude '{odd[0]}'",
        )
    return shards


def _refuse_copies(shards: Sequence[_Shard], root: str) -> None:
    """Raise SourceError if folders hold the same splits, such as copies in several sizes."""
    tops: dict[str, set[str]] = {}
    for shard in shards:
        top, slash, _ = shard.path.partition("/")
        if slash:
            tops.setdefault(top, set()).add(shard.split)
    are_same = len(tops) > 1 and len(set(map(frozenset, tops.values()))) == 1
    if are_same and not all(map(split_in, tops)):
        names = sorted(tops)
        raise SourceError(
            f"{root}: {' and '.join(names)} hold the same splits, so each may be the dataset",
            hint=f"choose one with --include '{names[0]}/*'",
            path=root,
        )


def _find_roles(shards: Sequence[_Shard], root: str, options: SourceOptions) -> _Roles:
    """Find the roles of the features from a sample of records."""
    records = list(islice(_sample(shards), _SAMPLE_RECORDS))
    if not records:
        raise SourceError(f"{root} has TFRecord files without records", path=root)
    images = [name for name in records[0] if all(_is_image(one.get(name)) for one in records)]
    known = sorted({name for record in records for name in record})
    if len(images) != 1:
        what = f"{' and '.join(images)} all hold images" if images else "hold no image"
        raise SourceError(
            f"{root}: the features of its records {what}; there are {', '.join(known)}",
            hint="imgrec packs records with one encoded image",
            path=root,
        )
    labelled = [record for record in records if any(map(_is_label, record))] or records
    scalars = {name for one in labelled for name, value in one.items() if len(value) == 1}
    scalars.discard(images[0])
    label = _find_label(sorted(scalars), known, root, options)
    ids = [name for name in sorted(scalars - {label}) if is_path_column(name.rpartition("/")[2])]
    return _Roles(images[0], label, ids[0] if len(ids) == 1 else "")


def _sample(shards: Sequence[_Shard]) -> Iterator[Mapping[str, Feature]]:
    """Yield the first record of each file, then further ones of the first."""
    for shard in shards[:_SAMPLE_RECORDS]:
        yield from (features for *_, features in islice(_records(shard), 1))
    yield from (features for *_, features in islice(_records(shards[0]), 1, _SAMPLE_RECORDS))


def _records(shard: _Shard) -> Iterator[tuple[int, bytes, Mapping[str, Feature]]]:
    """Yield the offset, payload and features of each record; raise SourceError for a bad one."""
    with open(shard.copy, "rb") as file:
        try:
            for offset, payload in read_records(file, path=shard.path):
                yield offset, payload, decode(payload)
        except CorruptRecord as error:
            raise SourceError(
                f"{error}" if error.path else f"{shard.path}: {error}",
                hint="download the file again, or leave it out with --exclude",
                path=shard.path,
            ) from error


def _is_image(feature: Feature | None) -> bool:
    value = _only(feature)
    return isinstance(value, bytes) and bool(format_of(value[:HEAD_BYTES], ""))


def _is_label(name: str) -> bool:
    return is_label_column(name.rpartition("/")[2])


def _find_label(
    scalars: Sequence[str], known: Sequence[str], root: str, options: SourceOptions
) -> str:
    if options.label_col:
        if options.label_col in known:
            return options.label_col
        raise SourceError(
            f"--label-col {options.label_col}: the records of {root} have no such feature",
            hint=f"they have {', '.join(known)}",
        )
    usual = [name for name in scalars if _is_label(name)]
    if len(usual) == 1:
        return usual[0]
    names = usual or [name for name in scalars if not is_path_column(squashed(name))]
    what = "may each be the label" if names else "hold no label"
    raise SourceError(
        f"{root}: the features {', '.join(names or known)} of its records {what}",
        hint=f"choose one with --label-col, as in --label-col {(names or known)[0]}",
        path=root,
    )


def _read_shard(roles: _Roles, task: tuple[int, _Shard]) -> tuple[int, _Records]:
    """Find the images of a file, with their labels and ids."""
    number, shard = task
    match = _NAMES.search(shard.path)
    shard_number = f"-{match['number']}" if match and match["number"] else ""
    folder = _NAMES.sub("", shard.path) + shard_number
    images, labels, ids = records = _Records(FileTable(), [], [])
    for place, (offset, payload, features) in enumerate(_records(shard)):
        value = _only(features.get(roles.image))
        image = value if isinstance(value, bytes) else b""
        head = image[:HEAD_BYTES]
        kind = format_of(head, "") if image else ""
        suffix = {"JPEG": "jpg", "": "bin"}.get(kind, kind.lower())
        images.names.append(f"{folder}/{place:06d}.{suffix}")
        images.blobs.append((shard.copy, offset + _PAYLOAD_AT + payload.index(image)))
        images.sizes.append(len(image))
        images.keys.append(content_key(len(image), head))
        labels.append(_text(features, roles.label))
        ids.append(_text(features, roles.id))
        if not kind:
            images.faults[place] = "its image is of no known format"
        elif not labels[-1] and shard.split != TEST:
            images.faults[place] = "no label"
    return number, records


def _only(feature: Feature | None) -> object:
    return feature[0] if feature and len(feature) == 1 else None


def _text(features: Mapping[str, Feature], name: str) -> str:
    value = _only(features.get(name)) if name else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace").strip()
    return "" if value is None else str(value)


def _class_name(label: str, names: Sequence[str]) -> str:
    """Return the class of a label; where names are known, labels are their numbers."""
    if names and label.isdecimal() and int(label) < len(names):
        return names[int(label)]
    return "" if label.startswith("-") and names else label


def _layout(roles: _Roles, shards: Sequence[_Shard]) -> SourceLayout:
    columns = [(roles.image, "image"), (roles.label, "label")]
    columns += [(roles.id, "id")] if roles.id else []
    title = f"TFRecords in {count_of(len(shards), 'file')}"
    return SourceLayout.of_columns(SourceKind.TFRECORD, title, columns)
