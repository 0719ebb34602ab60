"""A hash of everything that decides the bytes of the output."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Sequence
from dataclasses import replace

from imgrec.model import FORMAT, ShardTask, Submission
from imgrec.options import NearDups, PackOptions


def fingerprint(
    about: bytes, tasks: Iterable[bytes], contents: Iterable[bytes], lengths: Iterable[bytes]
) -> str:
    """Return the fingerprint of a plan, from the pieces that the functions below make.

    `contents` and `lengths` are those of all samples in the order of their rank, in pieces of any
    size: with 100 million samples, they do not fit into memory.
    """
    sha256 = hashlib.sha256(about)
    for pieces in (tasks, contents, lengths):
        for piece in pieces:
            sha256.update(piece)
    return sha256.hexdigest()


def facts_about(
    name: str,
    classes: Sequence[str],
    options: PackOptions,
    submission: Submission | None = None,
) -> bytes:
    """Return what decides about all shards."""
    asked = [f"--also {also}" for also in options.also]
    if options.shrink_options:
        asked += [f"{what} {value}" for what, value in options.shrink_options.deciding().items()]
    if options.thumbnails is not None:
        asked.append(f"--thumbnails {options.thumbnails}")
    if options.near_dups is not NearDups.AUTO:  # which decides what is known of each image
        asked.append(f"--near-dups {options.near_dups}")
    if submission is not None:
        sample = hashlib.sha256(submission.sample).hexdigest()
        asked.append(f"submission {replace(submission, sample=b'')!r} {sample}")
    asked += [f"--{what} {value}" for what, value in options.source.class_changes().items()]
    facts = (FORMAT, name, options.version, options.check, *classes, *asked)
    return "".join(f"{fact}\n" for fact in facts).encode("utf-8", "surrogateescape")


def facts_of(task: ShardTask) -> bytes:
    """Return what decides about one shard."""
    columns = (
        task.filename,
        "\0".join(task.samples.filenames),
        *map(
            repr,
            (*filter(None, (task.samples.label_sets, task.samples.groups)), *task.samples.columns),
        ),
    )
    numbers = (
        struct.pack(f"<{len(column)}q", *column)
        for column in (task.samples.labels, task.samples.sizes)
    )
    return b"".join(("\n".join(columns).encode("utf-8", "surrogateescape"), *numbers))


def lengths_of(contents: Iterable[bytes]) -> bytes:
    """Return the length of each content, one byte each."""
    return bytes(map(len, contents))
