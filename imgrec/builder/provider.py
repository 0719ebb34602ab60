"""Opening packs under their own names, wherever TFDS looks for them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache
from os.path import expanduser
from pathlib import Path
from types import new_class
from typing import Any

import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types
from tensorflow_datasets.core.utils import file_utils  # type: ignore[import-untyped]

from imgrec.builder.dataset_builder import Builder
from imgrec.errors import DatasetNotFound
from imgrec.read.documents import read_fingerprint
from imgrec.read.locate import find_dataset
from imgrec.storage.paths import is_remote

_is_aside: ContextVar[bool] = ContextVar("_is_aside", default=False)


def register() -> None:
    """Let TFDS ask for a pack where it knows of no code: its own datasets come first."""
    tfds.core.add_dataset_builder_provider(_Provider())


class _Provider:
    """Answers for every name that no one before it knows.

    TFDS asks by name alone, and says where to look only when the class is called.
    """

    def has_dataset(self, name: str) -> bool:
        del name
        return not _is_aside.get()

    def get_builder_cls(self, name: str) -> type[Builder]:
        return _class_of(name)


class _Named(Builder, skip_registration=True):
    """Opens a pack by the name of the class; anything else is left to TFDS."""

    def __new__(cls, **kwargs: Any) -> Any:
        """Return a `Builder`, or what TFDS returns without imgrec; raise what it raises."""
        if folder := _find_pack(cls.name, kwargs.get("data_dir")):
            return Builder(**{**kwargs, "dataset": folder})
        with _aside():
            return tfds.builder(cls.name, **kwargs)


@cache
def _class_of(name: str) -> type[Builder]:
    body = {"name": name, "__module__": __name__}
    return new_class(name, (_Named,), {"skip_registration": True}, lambda own: own.update(body))


@contextmanager
def _aside() -> Iterator[None]:
    """Let TFDS do as if imgrec were not there."""
    token = _is_aside.set(True)
    try:
        yield
    finally:
        _is_aside.reset(token)


def _find_pack(name: str, data_dir: Any) -> str:
    """Return the folder of what TFDS would read, if that is a pack; else an empty one."""
    found = []
    for root in file_utils.list_data_dirs(given_data_dir=data_dir):
        if is_remote(root):  # which is left to TFDS
            continue
        folder = Path(expanduser(root)) / name
        try:
            version = find_dataset(str(folder))
        except DatasetNotFound:
            continue
        if version.parent == folder:  # and not a dataset in a data directory of that name
            found.append(version)
    return str(found[0]) if len(found) == 1 and read_fingerprint(found[0]) else ""
