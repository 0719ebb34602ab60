"""What verify keeps in memory: a few bytes a record, and the rows of one or two shards."""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from inline import ENGINE, faults_of, pack, read_shard, reseal, write_shard
from pictures import class_tree

import imgrec.inspect.verify as verify_module
from imgrec import verify
from imgrec.inspect.verify.shard import ShardFacts
from imgrec.read.samples import SamplesFile


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
            counts.append(sum(type(each) is ShardFacts for each in gc.get_objects()))
            return check(*arguments)  # type: ignore[operator]

        return counted

    for name in ("check_samples", "check_names", "check_folders", "check_leaks", "check_counts"):
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
