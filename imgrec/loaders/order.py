"""The order in which a stream yields records: a pure function of seed, epoch and position.

Shards are shuffled. Consecutive ones form a block, and records are shuffled inside their block:

    shards        4 1 | 3 0 | 2        blocks of two shards
    positions     0 ..... n-1          one number for each record, whoever reads it

Position p belongs to rank `p % ranks`. The workers of a rank take turns, a whole batch each, so a
DataLoader yields batches in the order of positions with any number of workers. After any number of
steps, the ranks together have read the first positions and no others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

Numbers: TypeAlias = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reader:
    """One worker of one rank."""

    rank: int = 0
    ranks: int = 1
    worker: int = 0
    workers: int = 1
    batch_size: int = 1

    def owns(self, places: Numbers) -> NDArray[np.bool_]:
        """Return which places this worker reads, counted from where reading starts."""
        turns = places // self.ranks // self.batch_size
        is_mine = np.logical_and(
            places % self.ranks == self.rank, turns % self.workers == self.worker
        )
        return np.asarray(is_mine, np.bool_)


class _Block(NamedTuple):
    """Records that are shuffled together."""

    start: int
    """The position of its first record."""
    pieces: list[range]
    seeds: tuple[int, ...]
    """Empty to keep the order."""

    def numbers(self) -> Numbers:
        """Return the number of the record at each position."""
        stored = np.concatenate([np.arange(one.start, one.stop) for one in self.pieces])
        return np.random.default_rng(self.seeds).permutation(stored) if self.seeds else stored


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """The epochs of a split."""

    pieces: tuple[range, ...]
    """The numbers of the records in each shard."""
    shuffled: int
    """The least number of records in a block; 0 keeps the order of the records."""
    seed: int

    def __len__(self) -> int:
        return sum(map(len, self.pieces))

    def count(self, ranks: int, start: int = 0) -> int:
        """Count the samples of each rank, from position `start` to the end of an epoch.

        All ranks have equally many: some take a record from the start of the epoch once more.
        """
        return -(-max(len(self) - start, 0) // ranks)

    def parts(self, epoch: int, reader: Reader, start: int = 0, skip: int = 0) -> Iterator[Numbers]:
        """Yield the records of one worker in order, block by block.

        They begin at position `start` of the epoch, without the first `skip` of this worker.
        """
        stop = start + self.count(reader.ranks, start) * reader.ranks
        for block in self._blocks(epoch):
            if block.start >= stop:
                return
            end = min(block.start + sum(map(len, block.pieces)), stop)
            positions = np.arange(max(block.start, start), end)
            mine = positions[reader.owns(positions - start)]
            if len(mine) > skip:
                yield block.numbers()[mine[skip:] - block.start]
            skip = max(skip - len(mine), 0)

    def _blocks(self, epoch: int) -> Iterator[_Block]:
        """Yield the blocks of an epoch, again and again: its first records fill up the last."""
        pieces = list(self.pieces)
        if self.shuffled:
            order = np.random.default_rng((self.seed, epoch)).permutation(len(pieces))
            pieces = [pieces[at] for at in order]
        blocks = _grouped(pieces, self.shuffled)
        start = 0
        for number in count():
            block = blocks[number % len(blocks)]
            seeds = (self.seed, epoch, number % len(blocks)) if self.shuffled else ()
            yield _Block(start, block, seeds)
            start += sum(map(len, block))


def _grouped(pieces: list[range], least: int) -> list[list[range]]:
    """Group consecutive pieces into blocks of at least `least` records, except for the last."""
    blocks: list[list[range]] = []
    records = least
    for piece in pieces:
        if records >= least:
            blocks.append([])
            records = 0
        blocks[-1].append(piece)
        records += len(piece)
    return blocks
