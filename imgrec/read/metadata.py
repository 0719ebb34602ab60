"""What a packed dataset says of itself."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.errors import DatasetError
from imgrec.outcome import DatasetInfo, Report, SplitInfo
from imgrec.read.documents import read_document, read_json, too_large, unreadable, wrong
from imgrec.read.features import read_features

_MOST_RECORDS = 1 << 40
"""Of a shard: a number that no other fault reaches, and that no sum of them overflows."""
MOST_CLASSES = 1 << 20
"""Each takes 60 bytes or more in memory, and 2 in a file. The largest sets have some 20,000."""
_MOST_LABEL_BYTES = 1 << 26
_MOST_FILES = 1 << 22
"""That a dataset lists: three for each shard."""


def read_info(folder: Path) -> DatasetInfo:
    """Read a dataset's metadata; raise DatasetError if it is missing or wrong.

    Datasets that imgrec did not make are read too; they know no counts by class.
    """
    value = read_json(folder / layout.DATASET_INFO)
    ours = read_json(folder / layout.METADATA).get("imgrec", {}) if _has_metadata(folder) else {}
    try:
        name, version = _name(value["name"]), str(value["version"])
        counts = ours.get("class_counts", {})
        splits = tuple(_split(split, counts) for split in value.get("splits", ()))
        if len({split.name for split in splits}) < len(splits):
            raise ValueError("two splits of one name")
        fingerprint = str(ours.get("fingerprint", ""))
        compression = str(ours.get("compression", ""))
        _ = layout.FILE_FORMATS[compression]
        uncompressed_bytes = int(ours.get("uncompressed_bytes", 0))
        also = tuple(map(_name, value.get("alternativeFileFormats", ())))
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError) as error:
        raise wrong(folder / layout.DATASET_INFO) from error
    first = splits[0].name if splits else "train"
    data_dir = folder.absolute().parent.parent
    return DatasetInfo(
        name=name,
        version=version,
        path=str(folder.absolute()),
        classes=_read_labels(folder / layout.LABELS)
        or _read_labels(folder / layout.SEQUENCE_LABELS)
        or _numbered_classes(folder / layout.FEATURES),
        splits=splits,
        fingerprint=fingerprint,
        load=layout.load_line(data_dir, name, version, first, compression, batching_step(folder)),
        compression=compression,
        uncompressed_bytes=uncompressed_bytes,
        also=also,
        data_source=layout.data_source_line(data_dir, name, version, first)
        if also and fingerprint
        else "",
    )


def batching_step(folder: Path) -> str:
    """Return what lets TFDS batch images with several labels; "" where each has one."""
    try:
        features = read_features(folder)
    except DatasetError:
        return ""  # not a dataset of imgrec, or a damaged one
    if not features.is_multilabel:
        return ""
    return layout.multilabel_step(features.classes, is_one_size=features.is_one_size)


def _split(value: Any, counts: Any) -> SplitInfo:  # JSON is untyped until here
    name = _name(value["name"])
    lengths = tuple(int(length) for length in value.get("shardLengths", ()))
    if any(not 0 <= length <= _MOST_RECORDS for length in lengths):
        raise ValueError("shards of impossible lengths")
    return SplitInfo(
        name=name,
        shard_lengths=lengths,
        num_bytes=int(value.get("numBytes", 0)),
        class_counts=tuple(map(int, counts[name])) if name in counts else None,
    )


def _name(value: Any) -> str:  # JSON is untyped until here
    if not isinstance(value, str) or set(value) & {"/", "\0"}:
        raise ValueError("a name that no file can have")
    value.encode()  # which half of a surrogate pair does not let one do
    return value


def refuse_other_files(folder: Path) -> None:
    """Raise DatasetError unless a dataset's shards are TFRecords, named as TFDS does by default."""
    value = read_json(folder / layout.DATASET_INFO)
    own = value.get("fileFormat") or layout.FILE_FORMATS[""]
    formats = [str(name) for name in (own, *value.get("alternativeFileFormats", ()))]
    if not set(formats) & set(layout.FILE_FORMATS.values()):
        raise DatasetError(
            f"{folder} holds {', '.join(formats)} files, and imgrec reads TFRecords",
            hint="read it with tfds.data_source or tfds.load",
            path=str(folder),
        )
    for split in value.get("splits", ()):
        template = split.get("filepathTemplate") or layout.FILEPATH_TEMPLATE
        if template != layout.FILEPATH_TEMPLATE:
            raise DatasetError(
                f"{folder} names its shards {template}, and imgrec knows no such names",
                hint="read it with tfds.load",
                path=str(folder),
            )


def read_report(folder: Path) -> Report:
    """Read the report of the pack that made a dataset."""
    path = folder / layout.REPORT
    try:
        return report_codec.decode(read_document(path), path=str(path))
    except OSError as error:
        raise unreadable(path, error) from error


def read_fingerprint(folder: Path) -> str:
    """Return the fingerprint of the dataset in `folder`; "" if imgrec made none there."""
    try:
        return str(read_json(folder / layout.METADATA)["imgrec"]["fingerprint"])
    except (DatasetError, KeyError, TypeError):
        return ""


def find_damage(folder: Path) -> str:
    """Return what a glance at its files shows to be wrong with a dataset, or ""."""
    name = layout.CHECKSUMS
    sizes = {}
    try:
        data = read_document(folder / name)
        if data.count(b"\n") > _MOST_FILES:
            raise ValueError("more files than any dataset has")
        for line in data.decode().splitlines():
            name = line.partition("  ")[2]
            sizes[name] = (folder / name).stat().st_size
    except OSError as error:
        return f"{name}: {error.strerror}"
    except ValueError:  # no text, or names that no file can have
        return f"{layout.CHECKSUMS}: not a list of files"
    try:
        return _find_wrong_size(folder, sizes)
    except (AttributeError, TypeError):
        return f"{layout.METADATA}: not what imgrec writes there"


def _find_wrong_size(folder: Path, sizes: Mapping[str, int]) -> str:
    info, ours = read_info(folder), read_json(folder / layout.METADATA).get("imgrec", {})
    for split in info.splits:
        shards = layout.shard_filenames(info, split)
        kinds = {"shards": (shards, split.num_bytes)}
        for also in info.also:
            twins = tuple(layout.twin_filename(shard, also) for shard in shards)
            kinds[f"{also} files"] = twins, ours.get("also", {}).get(also, {}).get(split.name)
        for kind, (names, wanted) in kinds.items():
            if (total := sum(sizes.get(name, 0) for name in names)) != wanted:
                return f"the {kind} of {split.name} have {total} bytes instead of {wanted}"
    return ""


def _has_metadata(folder: Path) -> bool:
    return (folder / layout.METADATA).is_file()


def _read_labels(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    try:
        data = read_document(path, _MOST_LABEL_BYTES)
    except OSError as error:
        raise unreadable(path, error) from error
    if data.count(b"\n") > MOST_CLASSES:
        raise too_large(path, f"names more than {MOST_CLASSES:,} classes")
    try:
        lines = data.decode().split("\n")
        return tuple(line.strip() for line in lines if line.strip())  # as TFDS does
    except ValueError as error:
        raise wrong(path) from error


def _numbered_classes(path: Path) -> tuple[str, ...]:
    """Name classes that have no names, as TFDS does: by their numbers."""
    value: Any = read_json(path)
    for key in ("featuresDict", "features", "label", "classLabel", "numClasses"):
        value = value.get(key, {}) if isinstance(value, dict) else {}
    try:
        count = int(value or 0)
    except (TypeError, ValueError, OverflowError) as error:
        raise wrong(path) from error
    if count > MOST_CLASSES:
        raise wrong(path)
    return tuple(map(str, range(count)))
