"""How much archives may unpack to: a guard against bombs."""

from __future__ import annotations

from dataclasses import dataclass

from imgrec.errors import SourceError

_RATIO = 200
"""Images do not compress; even tables of text seldom shrink to less than a tenth."""
_FREE_BYTES = 100 << 20
"""Up to here no ratio is too large: a few blank pictures may well compress a thousandfold."""


@dataclass(slots=True)
class Allowance:
    """What some archives together may unpack to, and what they are known to."""

    max_bytes: int
    packed_bytes: int = 0
    unpacked_bytes: int = 0

    def check(self, path: str, more_bytes: int) -> None:
        """Raise SourceError if an archive that unpacks to `more_bytes` is one too many."""
        total = self.unpacked_bytes + more_bytes
        if total > self.max_bytes:
            raise SourceError(
                f"{path} unpacks to more than the {self.max_bytes} bytes that archives may",
                hint="if you trust it, pass a larger --max-archive-bytes",
                path=path,
            )
        if total > max(_FREE_BYTES, _RATIO * self.packed_bytes):
            raise SourceError(
                f"{path} unpacks to more than {_RATIO} times its size, as only a bomb does",
                hint="if you trust it, unpack it and pack the folder",
                path=path,
            )

    def take(self, path: str, more_bytes: int) -> None:
        """Count what an archive unpacks to; raise as `check` does."""
        self.check(path, more_bytes)
        self.unpacked_bytes += more_bytes
