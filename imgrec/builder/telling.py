"""Telling the user of TFDS what imgrec does."""

from __future__ import annotations

import logging
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from imgrec import layout
from imgrec.outcome import Packed

LOG = logging.getLogger("imgrec")
_TITLES = {"scan": "Scanning", "pack": "Packing"}
_PATIENCE_S = 1
"""How long something may take without a bar."""


def log_what_was_left_out(packed: Packed) -> None:
    """Log what a pack warns of: there is no summary for anyone to read."""
    info, report = packed.info, packed.report
    said = list(report.warnings)
    if skipped := len(report.skipped):
        files = f"{skipped} file{'s' * (skipped > 1)}"
        said.append(f"{files} skipped, as {Path(info.path) / layout.SKIPPED} tells")
    for warning in said:
        LOG.warning("%s %s: %s", info.name, info.version, warning)


class Bars:
    """The progress bars of a pack, unless `tfds.disable_progress_bar()` was called."""

    def __init__(self) -> None:
        self._stage = ""
        self._bar: Any = None  # of tqdm, or what TFDS has in its place

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
        from tensorflow_datasets.core.utils import tqdm_utils  # type: ignore[import-untyped]

        if stage != self._stage:
            self.__exit__(None, None, None)
            self._stage = stage
            self._bar = tqdm_utils.tqdm(
                desc=_TITLES[stage], total=total, unit=" images", leave=False, delay=_PATIENCE_S
            )
        self._bar.update(done)
