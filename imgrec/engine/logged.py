"""Carrying log records from workers to the process that started them."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

_LOGGER = "imgrec"
_MOST = 1000
"""The most records that one task can report."""


class Logged(NamedTuple):
    """A log record, as it travels."""

    logger: str
    level: int
    message: str


class _Collector(logging.Handler):
    """Keeps the records of the task that runs."""

    def __init__(self, logged: list[Logged]) -> None:
        super().__init__()
        self._logged = logged

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a record; drop it if there are too many."""
        if len(self._logged) < _MOST:
            self._logged.append(Logged(record.name, record.levelno, record.getMessage()))


@contextmanager
def collected() -> Iterator[list[Logged]]:
    """Collect what is logged, instead of giving it to the handlers that a fork inherits."""
    logger, logged = logging.getLogger(_LOGGER), list[Logged]()
    before = logger.handlers, logger.propagate, logger.level
    logger.handlers, logger.propagate = [_Collector(logged)], False
    logger.setLevel(logging.INFO)
    try:
        yield logged
    finally:
        logger.handlers, logger.propagate, level = before
        logger.setLevel(level)


def replay(logged: Iterable[Logged]) -> None:
    """Log the records of a worker here."""
    for logger, level, message in logged:
        logging.getLogger(logger).log(level, "%s", message)
