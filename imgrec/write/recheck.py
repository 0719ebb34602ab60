"""Comparing the images of a shard that was written before with the source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from xxhash import xxh3_128_digest

from imgrec.blob import Pixels
from imgrec.codec.image import pack_pixels, prepare
from imgrec.errors import BadImage
from imgrec.model import ShardTask, picked
from imgrec.options import Check, ShrinkOptions
from imgrec.storage.blobs import close_files
from imgrec.storage.read_ahead import Read, reader

_HASH_BYTES = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Members:
    """The images that a task put into its shard, and those that it could not."""

    task: ShardTask
    hashes: bytes
    """16 bytes for each that was packed, in their order: the XXH3 of its file."""
    bad: Mapping[str, str]
    """Why each of the others was not packed, by file name."""
    are_trusted: bool
    """Whether files that were packed need no look: nobody can have changed them."""


class Differing(NamedTuple):
    """An image that is no longer what it was."""

    shard: str
    filename: str
    """"" if all images of the shard are the same."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceCheck:
    """A picklable function that compares the members of a shard with the source."""

    check: Check
    shrink_to: ShrinkOptions | None
    newest_ns: int
    """As `read_blob` has it."""

    def __call__(self, members: Members) -> Differing:
        """Return the first image that would not be packed, or skipped, as it was."""
        task = members.task
        good = [
            place for place, name in enumerate(task.samples.filenames) if name not in members.bad
        ]
        hashes = dict(zip(good, _cut(members.hashes), strict=True))
        places: Sequence[int] = range(len(task.samples.filenames))
        if members.are_trusted:
            # Why a file could not be packed may have been a fault of the moment.
            places = [place for place in places if place not in hashes]
        read = reader(picked(task.samples.blobs, places), picked(task.samples.sizes, places))
        try:
            for place in places:
                told = self._tell(read, task, place, is_good=place in hashes)
                if told != hashes.get(place, members.bad.get(task.samples.filenames[place])):
                    return Differing(task.filename, task.samples.filenames[place])
        finally:
            close_files()
        return Differing(task.filename, "")

    def _tell(self, read: Read, task: ShardTask, place: int, *, is_good: bool) -> bytes | str:
        """Return the hash of a file; of one that was not packed, why it still cannot be."""
        blob, filename = task.samples.blobs[place], task.samples.filenames[place]
        try:
            data = read(blob, task.samples.sizes[place], self.newest_ns, filename)
            if type(blob) is Pixels and not is_good:
                pack_pixels(data, blob, self.shrink_to)
            elif not is_good:
                prepare(data, filename, self.check, self.shrink_to)
        except BadImage as error:
            return str(error)
        return xxh3_128_digest(data)


def _cut(hashes: bytes) -> list[bytes]:
    return [hashes[at : at + _HASH_BYTES] for at in range(0, len(hashes), _HASH_BYTES)]
