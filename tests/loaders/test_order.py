"""Laws of the order in which a stream yields records."""

from __future__ import annotations

from dataclasses import replace
from itertools import accumulate, chain

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from imgrec.loaders.order import Order, Reader

lengths = st.lists(st.integers(1, 9), min_size=1, max_size=9)
orders = st.builds(
    lambda counts, shuffled, seed: Order(
        pieces=tuple(
            range(end - count, end) for count, end in zip(counts, accumulate(counts), strict=True)
        ),
        shuffled=shuffled,
        seed=seed,
    ),
    lengths,
    st.integers(0, 20),
    st.integers(0, 1 << 62),
)
epochs, few = st.integers(0, 3), st.integers(1, 5)


def read(order: Order, epoch: int, reader: Reader, start: int = 0, skip: int = 0) -> list[int]:
    return [one for part in order.parts(epoch, reader, start, skip) for one in part.tolist()]


def steps(order: Order, epoch: int, ranks: int, workers: int, batch: int, start: int) -> list[int]:
    """Read as DataLoaders do: a batch from each rank, and from its workers in turn."""
    reader = Reader(ranks=ranks, workers=workers, batch_size=batch)
    read_by = [
        [read(order, epoch, replace(reader, rank=r, worker=w), start) for w in range(workers)]
        for r in range(ranks)
    ]
    done: list[int] = []
    turn = 0
    while any(read_by[0]):
        batches = [own[turn % workers][:batch] for own in read_by]
        for own in read_by:
            del own[turn % workers][:batch]
        assert len({*map(len, batches)}) == 1
        done += [one for row in zip(*batches, strict=True) for one in row]
        turn += 1
    assert not any(part for own in read_by for part in own)
    return done


@given(orders, epochs)
def test_an_epoch_has_each_record_once(order: Order, epoch: int) -> None:
    assert sorted(read(order, epoch, Reader())) == list(range(len(order)))


@given(orders, epochs, few, few, few, st.integers(0, 30))
def test_ranks_and_workers_share_one_order_and_all_ranks_have_equally_many(
    order: Order, epoch: int, ranks: int, workers: int, batch: int, start: int
) -> None:
    whole = read(order, epoch, Reader())
    done = steps(order, epoch, ranks, workers, batch, start)
    assert len(done) == ranks * order.count(ranks, start)
    rest = whole[start:]
    assert done[: len(rest)] == rest
    filled = done[len(rest) :]
    assert len(filled) < ranks
    assert filled == (whole * ranks)[: len(filled)]


@given(orders, epochs, few, few, st.integers(0, 30))
def test_a_worker_that_skips_reads_the_rest(
    order: Order, epoch: int, ranks: int, workers: int, skip: int
) -> None:
    reader = Reader(rank=ranks - 1, ranks=ranks, workers=workers, batch_size=2)
    whole = read(order, epoch, reader)
    assert read(order, epoch, reader, skip=skip) == whole[skip:]


@given(orders, epochs)
def test_records_are_shuffled_inside_blocks_of_whole_shards(order: Order, epoch: int) -> None:
    parts = [part.tolist() for part in order.parts(epoch, Reader())]
    for part in parts:
        own = [one for one in order.pieces if one[0] in part]
        assert sorted(part) == sorted(number for one in own for number in one)
    assert all(len(part) >= order.shuffled for part in parts[:-1])
    if not order.shuffled:
        assert list(chain.from_iterable(parts)) == list(range(len(order)))


def test_orders_depend_on_seed_and_epoch() -> None:
    pieces = tuple(range(at, at + 10) for at in range(0, 100, 10))
    found = {
        tuple(read(Order(pieces=pieces, shuffled=20, seed=seed), epoch, Reader()))
        for seed in range(5)
        for epoch in range(5)
    }
    assert len(found) == 25


def test_nothing_of_skipped_blocks_is_read() -> None:
    order = Order(pieces=tuple(range(at, at + 10) for at in range(0, 100, 10)), shuffled=20, seed=1)
    whole = [part.tolist() for part in order.parts(0, Reader())]
    rest = [part.tolist() for part in order.parts(0, Reader(), start=45)]
    assert rest == [whole[2][5:], *whole[3:]]
    assert np.shape(whole) == (5, 20)
