"""Progress bars on a terminal."""

from __future__ import annotations

import sys
from types import TracebackType
from typing import TYPE_CHECKING, NoReturn, Self

if TYPE_CHECKING:
    from tqdm import tqdm

_TITLES = {
    "scan": "scanning",
    "pack": "packing",
    "verify": "verifying",
    "compare": "comparing",
    "look": "looking",
    "list": "reading names",
    "unpack": "unpacking",
}


class Progress:
    """One bar a stage on standard error; none unless that is a terminal and `shown` is true."""

    def __init__(self, *, shown: bool) -> None:
        self._shown = shown and sys.stderr is not None and sys.stderr.isatty()
        self._stage = ""
        self._bar: tqdm[NoReturn] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Move the bar of a stage on."""
        if not self._shown:
            return
        if stage != self._stage:
            from tqdm import tqdm

            if self._bar is not None:
                self._bar.close()
            self._stage = stage
            self._bar = tqdm(
                desc=_TITLES[stage], total=total, unit="img", file=sys.stderr, leave=False
            )
        if self._bar is not None:
            self._bar.update(done)
