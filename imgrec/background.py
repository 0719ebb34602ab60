"""Importing what is needed later, while there is something to wait for."""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from threading import Thread


def _import(*modules: str) -> None:
    for module in modules:
        with suppress(ImportError):  # whoever needs it will meet the error again, and say so
            import_module(module)


class Background:
    """The import of modules, one after the other, in a thread of its own.

    Nothing else is to be imported while it runs: an interruption (Ctrl-C) of two imports at once
    can leave Python's import lock locked for ever. So `wait` before the next import.
    """

    def __init__(self, *modules: str) -> None:
        self._thread = Thread(target=_import, args=modules, daemon=True)
        self._is_started = False

    def start(self) -> None:
        """Begin, unless it has begun."""
        if not self._is_started:
            self._is_started = True
            self._thread.start()

    def wait(self) -> None:
        """Wait until it is done, if it has begun."""
        if self._is_started:
            self._thread.join()
