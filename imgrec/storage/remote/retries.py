"""Trying again what a store could not do just now."""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable
from typing import TypeVar

from imgrec.errors import ImgrecError
from imgrec.storage.remote.faults import TRIES, explained, is_passing

T = TypeVar("T")

_log = logging.getLogger(__name__)

_FIRST_WAIT_S, _LONGEST_WAIT_S = 0.2, 10.0


def persist(call: Callable[[], T], url: str) -> T:
    """Return what a call to a store returns, calling again, later and later, while it is busy.

    Raises FileNotFoundError or PermissionError at once, if that is what is wrong, and
    ExecutionError otherwise: at once for what will not pass, and after eight calls for what might.
    """
    for attempt in range(TRIES):
        try:
            return call()
        except ImgrecError:
            raise
        except Exception as error:  # noqa: BLE001  # each store's library has errors of its own
            fault = explained(error, url)
            if attempt + 1 == TRIES or not is_passing(error):
                # Not chained: what a library says may quote a signed request.
                raise fault from None
            _log.debug("%s: once more, after %s", url, type(error).__name__)
        # At random, so that those who were turned away together do not come back together.
        longest = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2**attempt)
        time.sleep(longest * (0.5 + random.random() / 2))
    raise AssertionError(url)
