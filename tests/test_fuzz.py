"""Whatever bytes a parser gets, it returns, or raises what it is documented to."""

from __future__ import annotations

import random

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from parsers import DOCUMENTS, Parser, make_parsers, mutated
from sampling import examples

pytestmark = pytest.mark.fuzz

NAMES = (
    "image sniff", "image decode", "image structure", "image header", "image shrink",
    "image thumbnail", "image look", "exif", "tfrecord", "compressed tfrecord", "example",
    "result note", "idx", "cifar pickle", "cifar binary", "archive", "table",
    *(f"dataset {name}" for name in DOCUMENTS),
)  # fmt: skip


@pytest.fixture(scope="module")
def parsers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Parser]:
    return make_parsers(tmp_path_factory.mktemp("parsers"))


def test_every_parser_is_fed(parsers: dict[str, Parser]) -> None:
    assert sorted(parsers) == sorted(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_of_a_parser_are_read(name: str, parsers: dict[str, Parser]) -> None:
    for seed in parsers[name].seeds:
        parsers[name].try_on(seed)


@pytest.mark.parametrize("name", NAMES)
@examples(60, suppress=list(HealthCheck))
@given(chance=st.randoms(use_true_random=False))
def test_damaged_bytes_give_a_result_or_our_error(
    parsers: dict[str, Parser], name: str, chance: random.Random
) -> None:
    parsers[name].try_on(mutated(chance, parsers[name].seeds))


@pytest.mark.parametrize("name", NAMES)
@examples(30, suppress=list(HealthCheck))
@given(st.binary(max_size=300))
def test_any_bytes_give_a_result_or_our_error(
    parsers: dict[str, Parser], name: str, data: bytes
) -> None:
    parsers[name].try_on(data)
