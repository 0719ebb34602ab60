"""Caching files before they are read, on a real disk."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from pathlib import Path

import pytest

from imgrec.storage import read_ahead

FILES, FILE_BYTES = 40, 50_000


@pytest.fixture
def paths(tmp_path: Path) -> list[str]:
    """Return files that are on the disk and not in the page cache."""
    if not hasattr(os, "posix_fadvise"):
        pytest.skip("there is no posix_fadvise")
    made = [str(tmp_path / f"{number}.bin") for number in range(FILES)]
    for path in made:
        Path(path).write_bytes(bytes(FILE_BYTES))
    deadline = time.monotonic() + 20
    while not _are_uncached(made):
        if time.monotonic() > deadline:
            pytest.skip("this file system keeps its files in memory")
        for path in made:
            _drop(path)
    return made


def _drop(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    os.fsync(descriptor)  # what is not on disk yet is not dropped
    os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(descriptor)


def _pages_there(path: str) -> list[bool]:
    """Tell which pages of a file are in the cache, without reading them."""
    with open(path, "rb") as file:
        memory = mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE)
    first = ctypes.c_char.from_buffer(memory)
    found = (ctypes.c_ubyte * -(-FILE_BYTES // mmap.PAGESIZE))()
    libc = ctypes.CDLL(None, use_errno=True)
    refused = libc.mincore(ctypes.byref(first), ctypes.c_size_t(FILE_BYTES), found)
    assert not refused, os.strerror(ctypes.get_errno())
    return [bool(each & 1) for each in found]


def _are_uncached(paths: list[str]) -> bool:
    return not any(any(_pages_there(path)) for path in paths)


def _wait_for(paths: list[str]) -> None:
    deadline = time.monotonic() + 60
    while not all(all(_pages_there(path)) for path in paths):
        assert time.monotonic() < deadline, "they were not cached"
        time.sleep(0.01)


def test_uncached_files_are_cached_whole(paths: list[str], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")  # it must not hold anybody up
    others = [str(tmp_path / "pipe"), str(tmp_path / "gone")]
    read_ahead.cache_files([*others, *paths], FILE_BYTES, FILES * FILE_BYTES)
    _wait_for(paths)


def test_heads_are_cached_with_as_much_of_the_file_as_there_is_room_for(paths: list[str]) -> None:
    read_ahead.cache_heads(paths, 0, 4096)
    _wait_for(paths)


def test_cached_files_are_left_alone(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for path in paths:
        Path(path).read_bytes()
    monkeypatch.setattr(read_ahead, "_SLOW_S", 60)  # a busy machine may take its time
    before = threading.active_count()
    read_ahead.cache_files(paths, FILE_BYTES)
    assert threading.active_count() == before


def test_more_than_the_cache_would_keep_is_left_alone(paths: list[str]) -> None:
    read_ahead.cache_files(paths, FILE_BYTES, 1 << 40)
    time.sleep(0.1)
    assert _are_uncached(paths)
