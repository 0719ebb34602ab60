"""What a packed dataset says of itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from imgrec import layout
from imgrec.codec import report as report_codec
from imgrec.errors import DatasetError
from imgrec.outcome import DatasetInfo, Report, SplitInfo


def read_info(folder: Path) -> DatasetInfo:
    """Read a dataset's metadata; raise DatasetError if it is missing or wrong.

    Datasets that imgrec did not make are read too; they know no counts by class.
    """
    value = _read_json(folder / layout.DATASET_INFO)
    ours = _read_json(folder / layout.METADATA).get("imgrec", {}) if _has_metadata(folder) else {}
    try:
        name, version = value["name"], value["version"]
        counts = ours.get("class_counts", {})
        splits = tuple(_split(split, counts) for split in value.get("splits", ()))
        fingerprint = str(ours.get("fingerprint", ""))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _wrong(folder / layout.DATASET_INFO) from error
    first = splits[0].name if splits else "train"
    return DatasetInfo(
        name=name,
        version=version,
        path=str(folder.absolute()),
        classes=_read_labels(folder / layout.LABELS)
        or _read_labels(folder / layout.SEQUENCE_LABELS),
        splits=splits,
        fingerprint=fingerprint,
        load=layout.load_line(folder.absolute().parent.parent, name, version, first),
    )


def _split(value: Any, counts: Any) -> SplitInfo:  # JSON is untyped until here
    name = value["name"]
    return SplitInfo(
        name=name,
        shard_lengths=tuple(int(length) for length in value.get("shardLengths", ())),
        num_bytes=int(value.get("numBytes", 0)),
        class_counts=tuple(counts[name]) if name in counts else None,
    )


def read_report(folder: Path) -> Report:
    """Read the report of the pack that made a dataset."""
    path = folder / layout.REPORT
    try:
        return report_codec.decode(path.read_bytes(), path=str(path))
    except OSError as error:
        raise DatasetError(f"cannot read {path}: {error.strerror}", path=str(path)) from error


def read_fingerprint(folder: Path) -> str:
    """Return the fingerprint of the dataset in `folder`; "" if imgrec made none there."""
    try:
        return str(_read_json(folder / layout.METADATA)["imgrec"]["fingerprint"])
    except (DatasetError, KeyError, TypeError):
        return ""


def find_damage(folder: Path) -> str:
    """Return what a glance at its files shows to be wrong with a dataset, or ""."""
    try:
        lines = (folder / layout.CHECKSUMS).read_text("utf-8").splitlines()
        listed = [line.partition("  ")[2] for line in lines]
        sizes = {name: (folder / name).stat().st_size for name in listed}
    except OSError as error:
        return f"{Path(error.filename).name}: {error.strerror}"
    for split in read_info(folder).splits:
        shards = [name for name in listed if f"-{split.name}.tfrecord-" in name]
        total = sum(sizes[name] for name in shards if not name.endswith(layout.INDEX_SUFFIX))
        if total != split.num_bytes:
            return f"the shards of {split.name} have {total} bytes instead of {split.num_bytes}"
    return ""


def _has_metadata(folder: Path) -> bool:
    return (folder / layout.METADATA).is_file()


def _read_labels(path: Path) -> tuple[str, ...]:
    if not path.is_file():
        return ()
    try:
        return tuple(path.read_text("utf-8").splitlines())
    except (OSError, ValueError) as error:
        raise _wrong(path) from error


def _read_json(path: Path) -> dict[str, Any]:  # JSON is untyped until it is looked at
    try:
        value = json.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise _wrong(path) from error
    if not isinstance(value, dict):
        raise _wrong(path)
    return value


def _wrong(path: Path) -> DatasetError:
    return DatasetError(
        f"{path} is not what a packed dataset has there",
        hint="pack it again with --overwrite",
        path=str(path),
    )
