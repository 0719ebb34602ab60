"""TFRecord files of images as a source: `tf.train.Example` records, whoever wrote them.

Images are packed from where they are: the bytes of an image stand as they are in its record.
"""

from __future__ import annotations

import re
from array import array
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import NamedTuple

from imgrec.codec.example import Feature, decode
from imgrec.codec.sniff import HEAD_BYTES, format_of
from imgrec.codec.tfrecord import read_records
from imgrec.errors import CorruptRecord, SourceError
from imgrec.model import TEST, Catalog, Column
from imgrec.notes import Note
from imgrec.options import ColumnKind, SourceOptions
from imgrec.source.label_names import named_classes
from imgrec.source.manifests.columns import is_label_column, is_path_column, squashed
from imgrec.source.probe import FileTable, content_key
from imgrec.source.split_words import split_in, split_of_name
from imgrec.source.tree import Context, Match, TreeFile, local_copy
from imgrec.storage.named_files import read_small_text

_NAME = re.compile(r"\.tfrec(ord)?s?(-\d+-of-\d+)?$", re.I)
_PAYLOAD_AT = 12
"""Where a record's payload begins: behind its length and the length's checksum."""
_LOOKED_AT = 20
_LABELS_FILE = "label.labels.txt"
_NOT_IMAGE = "its image is of no known format"


def is_tfrecord(name: str) -> bool:
    """Tell whether a file has the name of a TFRecord file.

    >>> is_tfrecord("00-224x224-798.tfrec"), is_tfrecord("a-train.tfrecord-00000-of-00004")
    (True, True)
    """
    return bool(_NAME.search(name))


class Roles(NamedTuple):
    """Which feature of the records is what; "" for none."""

    image: str
    label: str
    id: str


class Shard(NamedTuple):
    """A file of records."""

    path: str
    """Where it is in the source."""
    copy: str
    """Where it can be read."""
    split: str


class _Row(NamedTuple):
    offset: int
    size: int
    key: bytes
    kind: str
    """The format of the image; "" for none that is known."""
    label: str
    id: str


def detect(listing: Sequence[TreeFile], context: Context) -> Match | None:
    """Return the TFRecord files of a listing, and the classes that a file beside them names."""
    files = tuple(file for file in listing if is_tfrecord(file.path.rpartition("/")[2]))
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

    Raises SourceError if records hold no images, or if it is not clear which feature is the label.
    """
    shards = _shards(match.files, context)
    _refuse_copies(shards, root)
    roles = _roles(shards, root, context.options)
    rows = dict(context.run(partial(_read_shard, roles), list(enumerate(shards))))
    good: list[tuple[Shard, int, _Row]] = []
    bad: list[Note] = []
    for number, shard in enumerate(shards):
        for place, row in enumerate(rows[number]):
            if fault := _fault(row, shard):
                bad.append(Note(_filename(shard, place, row), fault))
            else:
                good.append((shard, place, row))
        context.on_progress(len(rows[number]))
    if not good:
        raise SourceError(f"{root}: no record holds an image", path=root)
    catalog = _catalog(good, bad, roles, match.names, shards, context)
    return named_classes(catalog, context.options.label_names, root)


def _catalog(
    good: Sequence[tuple[Shard, int, _Row]],
    bad: Sequence[Note],
    roles: Roles,
    names: Sequence[str],
    shards: Sequence[Shard],
    context: Context,
) -> Catalog:
    tree = FileTable(
        names=[_filename(*one) for one in good],
        blobs=[(shard.copy, row.offset) for shard, _, row in good],
        sizes=array("Q", [row.size for *_, row in good]),
        keys=[row.key for *_, row in good],
    )
    class_names = [_class_name(row.label, names) for *_, row in good]
    found = sorted({name for name in class_names if name}.difference(names))
    splits = [shard.split for shard, *_ in good]
    samples = tree.samples(range(len(good)), class_names, splits, context.run)
    if roles.id:
        ids = Column("id", ColumnKind.TEXT, tuple([row.id for *_, row in good]))
        samples = replace(samples, columns=(ids,))
    return Catalog(
        name="",
        layout=_layout(roles, shards),
        samples=samples,
        class_folders={name: (f"{roles.label}: {name}",) for name in [*names, *found]},
        class_order=tuple(names) if names and not found else None,
        notes=tuple(sorted(bad)),
    )


def _shards(files: Sequence[TreeFile], context: Context) -> list[Shard]:
    """Return the files with their splits: of a folder's name, else of the file's own."""
    found = []
    for file in files:
        folder, _, name = file.path.rpartition("/")
        named = next(filter(None, map(split_in, reversed(folder.split("/")))), "")
        copy = local_copy(file, context)
        found.append(Shard(file.path, copy, named or split_of_name(name, takes_trainval=True)))
    if any(shard.split for shard in found) and not all(shard.split for shard in found):
        odd = next(shard.path for shard in found if not shard.split)
        raise SourceError(
            f"{odd} names no split, as other files do", hint=f"leave it out with --exclude '{odd}'"
        )
    return found


def _refuse_copies(shards: Sequence[Shard], root: str) -> None:
    """Raise SourceError if folders hold the same splits, as copies of several sizes do."""
    tops: dict[str, Counter[str]] = {}
    for shard in shards:
        if "/" in shard.path:
            top = shard.path.partition("/")[0]
            tops.setdefault(top, Counter())[shard.split] += 1
    are_same = len(tops) > 1 and len({frozenset(splits) for splits in tops.values()}) == 1
    if are_same and not all(map(split_in, tops)):
        names = sorted(tops)
        raise SourceError(
            f"{root}: {' and '.join(names)} hold the same splits, so each may be the dataset",
            hint=f"choose one with --include '{names[0]}/*'",
            path=root,
        )


def _roles(shards: Sequence[Shard], root: str, options: SourceOptions) -> Roles:
    """Find the roles of the features from some records."""
    looked_at = list(islice(_some_records(shards), _LOOKED_AT))
    if not looked_at:
        raise SourceError(f"{root} has TFRecord files without records", path=root)
    images = [name for name in looked_at[0] if all(_is_image(r.get(name)) for r in looked_at)]
    known = sorted({name for record in looked_at for name in record})
    if len(images) != 1:
        what = f"{' and '.join(images)} all hold images" if images else "hold no image"
        raise SourceError(
            f"{root}: the features of its records {what}; there are {', '.join(known)}",
            hint="imgrec packs records with one encoded image",
            path=root,
        )
    labelled = [record for record in looked_at if any(map(_is_label, record))] or looked_at
    scalars = {n for r in labelled for n, value in r.items() if len(value) == 1} - {images[0]}
    label = _label(sorted(scalars), known, root, options)
    ids = [n for n in sorted(scalars - {label}) if is_path_column(n.rpartition("/")[2])]
    return Roles(images[0], label, ids[0] if len(ids) == 1 else "")


def _some_records(shards: Sequence[Shard]) -> Iterator[Mapping[str, Feature]]:
    """Yield the first record of each file, then further ones of the first."""
    for shard in shards[:_LOOKED_AT]:
        yield from (features for _, _, features in islice(_records(shard), 1))
    yield from (features for _, _, features in islice(_records(shards[0]), 1, _LOOKED_AT))


def _records(shard: Shard) -> Iterator[tuple[int, bytes, Mapping[str, Feature]]]:
    """Yield the offset, payload and features of each record; raise SourceError for a bad one."""
    with open(shard.copy, "rb") as file:
        try:
            for offset, payload in read_records(file, path=shard.path):
                yield offset, payload, decode(payload)
        except CorruptRecord as error:
            raise SourceError(
                f"{error}" if error.path else f"{shard.path}: {error}",
                hint="get the file again, or leave it out with --exclude",
                path=shard.path,
            ) from error


def _is_image(feature: Feature | None) -> bool:
    if not feature or len(feature) != 1 or not isinstance(feature[0], bytes):
        return False
    return bool(format_of(feature[0][:HEAD_BYTES], ""))


def _is_label(name: str) -> bool:
    return is_label_column(name.rpartition("/")[2])


def _label(scalars: Sequence[str], known: Sequence[str], root: str, options: SourceOptions) -> str:
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
        hint=f"say which with --label-col, as in --label-col {(names or known)[0]}",
        path=root,
    )


def _read_shard(roles: Roles, task: tuple[int, Shard]) -> tuple[int, list[_Row]]:
    """Read where the images of a file are, with their labels and ids."""
    number, shard = task
    records = _records(shard)
    return number, [_row(features, payload, offset, roles) for offset, payload, features in records]


def _row(features: Mapping[str, Feature], payload: bytes, offset: int, roles: Roles) -> _Row:
    image = _only(features.get(roles.image))
    if not isinstance(image, bytes) or not image:
        return _Row(offset, 0, b"", "", _text(features, roles.label), _text(features, roles.id))
    head = image[:HEAD_BYTES]
    return _Row(
        offset=offset + _PAYLOAD_AT + payload.index(image),
        size=len(image),
        key=content_key(len(image), head),
        kind=format_of(head, ""),
        label=_text(features, roles.label),
        id=_text(features, roles.id),
    )


def _only(feature: Feature | None) -> object:
    return feature[0] if feature and len(feature) == 1 else None


def _text(features: Mapping[str, Feature], name: str) -> str:
    value = _only(features.get(name)) if name else None
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace").strip()
    return "" if value is None else str(value)


def _fault(row: _Row, shard: Shard) -> str:
    if not row.size or not row.kind:
        return _NOT_IMAGE
    return "" if row.label or shard.split == TEST else "no label"


def _filename(shard: Shard, place: int, row: _Row) -> str:
    """Name an image by its file and its place in it."""
    suffix = {"JPEG": "jpg", "": "bin"}.get(row.kind, row.kind.lower())
    return f"{_NAME.sub('', shard.path)}{_shard_number(shard.path)}/{place:06d}.{suffix}"


def _shard_number(path: str) -> str:
    match = _NAME.search(path)
    return f"-{match[2].split('-')[1]}" if match and match[2] else ""


def _class_name(label: str, names: Sequence[str]) -> str:
    """Return the class of a label: its name where labels are numbers that have names."""
    if names and label.isdecimal() and int(label) < len(names):
        return names[int(label)]
    return "" if label.startswith("-") and names else label


def _layout(roles: Roles, shards: Sequence[Shard]) -> str:
    parts = [f"{roles.image} -> image", f"{roles.label} -> label"]
    parts += [f"{roles.id} -> id"] if roles.id else []
    files = f"{len(shards)} file{'s' if len(shards) != 1 else ''}"
    return f"TFRecords in {files}: {', '.join(parts)}"
