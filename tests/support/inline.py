"""Datasets made, changed and looked at in this process, without workers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import imgrec
from imgrec.api import verify
from imgrec.cli.arguments import pack_options
from imgrec.cli.parser import verb_parser
from imgrec.codec import example, tfrecord
from imgrec.faults import Fault

T = TypeVar("T")
R = TypeVar("R")


class InlineEngine:
    """Calls functions right here, one after the other."""

    is_local = True

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        yield from map(function, tasks)


ENGINE = InlineEngine()


def pack(place: Path, data_dir: Path, **options: object) -> Path:
    """Pack a source and return the dataset's folder."""
    wanted = imgrec.PackOptions(data_dir=str(data_dir), **options)  # type: ignore[arg-type]
    return Path(imgrec.pack(place, wanted, engine=ENGINE).info.path)


def pack_typed(command: Sequence[str], data_dir: Path) -> imgrec.Packed:
    """Run a command such as ("imgrec", "pack", "x") as if it were typed."""
    parsed = verb_parser("pack").parse_args([*command[2:], "--data-dir", str(data_dir)])
    return imgrec.pack(parsed.source, pack_options(parsed), engine=ENGINE)


def faults_of(folder: Path, **options: object) -> list[tuple[str, int | None, str]]:
    """Verify a dataset, and return what is wrong with it."""
    faults: Sequence[Fault] = verify(folder, engine=ENGINE, **options).faults  # type: ignore[arg-type]
    return [(fault.path, fault.offset, fault.what) for fault in faults]


def reseal(folder: Path) -> None:
    """Make SHA256SUMS fit what is there now, so that it hides no other fault."""
    names = sorted(path.name for path in folder.iterdir() if path.name != "SHA256SUMS")
    sums = [(hashlib.sha256((folder / name).read_bytes()).hexdigest(), name) for name in names]
    lines = "".join(f"{digest}  {name}\n" for digest, name in sums)
    (folder / "SHA256SUMS").write_text(lines)


def read_shard(path: Path) -> list[dict[str, example.Feature]]:
    """Return the features of every record of a shard."""
    with path.open("rb") as file:
        payloads = [payload for _, payload in tfrecord.read_records(file, path=str(path))]
    return [dict(example.decode(payload)) for payload in payloads]


def write_shard(path: Path, records: Iterable[Mapping[str, example.Feature] | bytes]) -> None:
    """Write a shard, and its index, of records given by their features or as they are."""
    shard, lines = b"", ""
    for record in records:
        payload = record if isinstance(record, bytes) else serialized(record)
        head, foot = tfrecord.frame(payload)
        lines += f"{len(shard)} {len(payload) + tfrecord.OVERHEAD}\n"
        shard += head + payload + foot
    path.write_bytes(shard)
    path.with_name(path.name + ".idx").write_text(lines)


def serialized(features: Mapping[str, example.Feature]) -> bytes:
    """Return the record of some features; the image is one of them."""
    (image,) = features["image"]
    assert isinstance(image, bytes)
    others = {key: value for key, value in features.items() if key != "image"}
    before, after = example.encode_all_around(len(image), features=others)
    return before + image + after
