"""Memory that is used over and over again."""

from __future__ import annotations

from functools import cache

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_KEPT_BYTES, _LARGE_BYTES = 64 << 20, 32 << 20


@cache
def keep_freed() -> None:
    """Let the C library of Linux keep the memory of images that are done with for those to come.

    Else it gives it back each time, and the kernel has to find and clear pages for the next one:
    a sixth of the time that reading photos takes.
    """
    import ctypes

    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (OSError, TypeError, AttributeError):  # another C library, which need not be told
        return
    mallopt(_M_TRIM_THRESHOLD, _KEPT_BYTES)
    mallopt(_M_MMAP_THRESHOLD, _LARGE_BYTES)
