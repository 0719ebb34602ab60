"""What verify keeps in memory: hashes of a fixed size, and the rows of one or two shards."""

from __future__ import annotations

import gc
import random
import tracemalloc
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack, read_shard, reseal, write_shard
from pictures import class_tree

from imgrec import verify
from imgrec.inspect.verify import across as hash_module
from imgrec.inspect.verify import verify as verify_module
from imgrec.inspect.verify.across import Hashes, shared
from imgrec.inspect.verify.shard import ShardFacts
from imgrec.inspect.verify.state import Shelf, Spool
from imgrec.read.samples import SamplesFile

number_lists = st.lists(st.integers(0, (1 << 64) - 1) | st.integers(0, 5), max_size=30)


@given(number_lists)
def test_hashes_that_are_there_twice_are_found(values: list[int]) -> None:
    hashes = Hashes()
    hashes.add(values)
    assert hashes.repeated() == {value for value in values if values.count(value) > 1}


@given(st.lists(number_lists, max_size=4))
def test_hashes_of_several_groups_are_found(groups: list[list[int]]) -> None:
    made = []
    for values in groups:
        made.append(Hashes())
        made[-1].add(values)
    every = [value for values in groups for value in set(values)]
    assert shared(made) == {value for value in every if every.count(value) > 1}


def test_a_hash_takes_eight_bytes() -> None:
    values = [random.Random(1).getrandbits(64) for _ in range(50_000)]
    tracemalloc.start()
    hashes = Hashes()
    hashes.add(values)
    used, _ = tracemalloc.get_traced_memory()
    hashes.repeated()
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert used < 12 * len(values) + 256 * 200
    assert most - used < used
    assert hash_module._BUCKETS == 256


@pytest.mark.parametrize("in_memory", [0, 1 << 20])
def test_a_shelf_gives_back_what_was_put_there(
    in_memory: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgrec.inspect.verify.state._MEMORY_BYTES", in_memory)
    with Spool() as spool:
        one, other = Shelf[list[int]](spool), Shelf[str](spool)
        for number in range(9):
            one.put(f"{number}", [number] * number)
            other.put(f"{number}", f"it is {number}")
        assert dict(one) == {f"{number}": [number] * number for number in range(9)}
        assert [other[f"{number}"] for number in (8, 0, 8)] == ["it is 8", "it is 0", "it is 8"]
        assert one.get("9") is None


@pytest.fixture
def many(tmp_path: Path) -> Path:
    """A dataset of 12 shards and two splits."""
    source = class_tree(tmp_path / "many", {"a": 30, "b": 30})
    return pack(source, tmp_path / "data", shards=10, val_split=0.2)


def test_only_some_shards_are_in_memory_at_a_time(
    many: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgrec.inspect.verify.state._MEMORY_BYTES", 0)
    counts = []

    def counting(check: object) -> object:
        def counted(*arguments: object) -> object:
            gc.collect()
            counts.append(sum(type(each) is ShardFacts for each in gc.get_objects()))
            return check(*arguments)  # type: ignore[operator]

        return counted

    for name in ("check_table", "check_names", "check_folders", "check_leaks", "check_counts"):
        monkeypatch.setattr(verify_module, name, counting(getattr(verify_module, name)))
    assert verify(many, engine=ENGINE).faults == ()
    assert len(counts) == 5
    assert max(counts) <= 3


def test_rows_of_a_table_are_those_of_a_slice_in_any_order(many: Path) -> None:
    wanted = pq.read_table(many / "samples.parquet")
    table = SamplesFile(many)
    assert table.num_rows == 60
    for start, count in ((0, 7), (7, 0), (7, 30), (50, 20), (3, 4), (60, 5), (0, 60)):
        assert table.rows(start, count).to_pylist() == wanted.slice(start, count).to_pylist()
    first = table.first_rows("shard")
    shards = wanted.column("shard").to_pylist()
    assert first == {name: shards.index(name) for name in set(shards)}


def test_a_name_and_an_image_in_two_shards_are_still_found(many: Path) -> None:
    train = many / "many-train.tfrecord-00000-of-00010"
    val = next(many.glob("many-val.tfrecord-00000-of-?????"))
    records = read_shard(val)
    write_shard(val, [read_shard(train)[0], *records[1:]])
    reseal(many)
    said = "\n".join(what for _, _, what in faults_of(many))
    assert "is also the name of the record at byte 0 of many-train.tfrecord-00000-of-00010" in said
    assert "in val is the same image as" in said
