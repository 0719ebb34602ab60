"""Run the tasks of the local engine in this process, as its workers would.

Starting two interpreters takes thirty times as long as packing the few images of most tests. Tests
about processes are marked with `processes` and get the real workers.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import pytest

from imgrec.engine import answer
from imgrec.engine.local import LocalEngine
from imgrec.engine.logged import replay

T = TypeVar("T")
R = TypeVar("R")


@contextmanager
def in_this_process() -> Iterator[None]:
    """Let no local engine start a process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LocalEngine, "__enter__", lambda self: self)
        patch.setattr(LocalEngine, "run", _run)
        yield


def _run(
    self: LocalEngine, function: Callable[[T], R], tasks: Iterable[T]
) -> Generator[R, None, None]:
    """Call a function on each task. What goes to workers and back is pickled here as well."""
    for task in tasks:
        call = pickle.loads(pickle.dumps((function, task), pickle.HIGHEST_PROTOCOL))
        reply = pickle.dumps(answer(*call), pickle.HIGHEST_PROTOCOL)
        result, error, logged = pickle.loads(reply)
        replay(logged)
        if error is not None:
            raise error
        yield result
