"""How much of a long sweep runs: a fixed sample, or all of it with `pytest --exhaustive`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

from hypothesis import HealthCheck, settings

T = TypeVar("T")

is_exhaustive = False
_SHARE = 5
"""Without --exhaustive, one of so many examples of Hypothesis is tried."""


def configure(*, exhaustive: bool) -> None:
    """Decide how much runs, before any test is imported."""
    global is_exhaustive
    is_exhaustive = exhaustive
    # Speed is not what tests are about: a busy machine must not fail them.
    calm = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
    settings.register_profile("exhaustive", **calm)  # type: ignore[arg-type]
    settings.register_profile(
        "sampled", max_examples=100 // _SHARE, derandomize=True, database=None, **calm
    )
    settings.load_profile("exhaustive" if exhaustive else "sampled")


def examples(count: int, *, suppress: Sequence[HealthCheck] = (HealthCheck.too_slow,)) -> settings:
    """Settings for a property that takes so many examples to be tried in full."""
    tried = count if is_exhaustive else max(count // _SHARE, 10)
    return settings(max_examples=tried, suppress_health_check=list(suppress))


def some_of(values: Sequence[T], count: int) -> Sequence[T]:
    """All values, or a fixed choice of so many with the first and the last among them."""
    if is_exhaustive or len(values) <= count:
        return values
    inner = random.Random(len(values)).sample(range(1, len(values) - 1), max(count - 2, 0))
    return [values[index] for index in sorted({0, *inner, len(values) - 1})]
