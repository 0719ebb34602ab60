"""Limits on what archives may unpack to and list: a guard against decompression bombs."""

from __future__ import annotations

from dataclasses import dataclass

from imgrec.errors import SourceError

_RATIO = 200
"""Images do not compress; even tables of text seldom shrink to less than a tenth."""
_FREE_BYTES = 100 << 20
"""Up to here no ratio is too large: a few blank pictures may well compress a thousandfold."""
_MEMBER_BYTES = 64
"""The least that a member takes in an uncompressed archive, without its data."""
_FREE_MEMBERS = 1 << 17
"""Up to here no number of members is too large. Each takes half a kilobyte of memory."""


@dataclass(slots=True)
class Allowance:
    """How much some archives together may unpack to, and how much they do."""

    max_bytes: int
    packed_bytes: int = 0
    unpacked_bytes: int = 0
    free_bytes: int = _FREE_BYTES
    members: int = 0

    def check(self, path: str, more_bytes: int) -> None:
        """Raise SourceError if an archive that unpacks to `more_bytes` is one too many."""
        total = self.unpacked_bytes + more_bytes
        if total > self.max_bytes:
            raise SourceError(
                f"{path} unpacks to more than the {self.max_bytes} bytes that archives may",
                hint="if you trust it, pass a larger --max-archive-bytes",
                path=path,
            )
        if total > max(self.free_bytes, _RATIO * self.packed_bytes):
            raise SourceError(
                f"{path} unpacks to more than {_RATIO} times its size: "
                "it looks like a decompression bomb",
                hint="if you trust it, unpack it and pack the folder",
                path=path,
            )

    def take(self, path: str, more_bytes: int) -> None:
        """Count what an archive unpacks to; raise as `check` does."""
        self.check(path, more_bytes)
        self.unpacked_bytes += more_bytes

    def most_members(self) -> int:
        """Return how many more files and folders archives may list."""
        return max(_FREE_MEMBERS, self.packed_bytes // _MEMBER_BYTES) - self.members

    def take_members(self, path: str, count: int) -> None:
        """Count what an archive lists; raise SourceError if that is too much for its size."""
        most = self.most_members()
        if count > most:
            raise too_many_members(path, most)
        self.members += count


def too_many_members(path: str, most: int) -> SourceError:
    """Return the error for an archive with too many members for its size."""
    return SourceError(
        f"{path} lists more than {most:,} files and folders, too many for its size",
        hint="if you trust it, unpack it and pack the folder",
        path=path,
    )
