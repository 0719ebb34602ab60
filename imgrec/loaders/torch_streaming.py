"""A packed dataset as PyTorch's iterable dataset, which reads blocks of shards in large ranges."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import accumulate
from typing import Any

import torch
from torch import distributed
from torch.utils.data import IterableDataset, get_worker_info

from imgrec.errors import UsageError
from imgrec.loaders.order import Order, Reader
from imgrec.loaders.torch import TorchDataset
from imgrec.options.loading import StreamOptions
from imgrec.options.parsing import at_least, parse_text
from imgrec.read.record import Record
from imgrec.read.shards import shard_lengths
from imgrec.read.splits import cut, record_ranges
from imgrec.text import printable

_BLOCK_BYTES = 128 << 20
"""The least size of a block, unless the caller gives one in records."""
_MIN_SHUFFLED = 1_000


class TorchStream(IterableDataset):  # type: ignore[misc]  # torch may be missing: Any to mypy
    """Images and labels of a split, in an order that depends on seed, epoch and position alone."""

    def __init__(self, images: TorchDataset, split: str, options: StreamOptions) -> None:
        self.images = images
        """The same images by number, with `classes`, `targets` and `samples`."""
        self._options = options
        self._order = _order(images, split, options)
        # Shared with the workers of a DataLoader, which may outlive an epoch.
        self._begin = torch.zeros(2, dtype=torch.int64).share_memory_()
        """Epoch, and position in it."""
        self._taken = 0
        """How many samples this worker has yielded since the position where it began."""
        self._is_resumed = False

    def __getstate__(self) -> dict[str, Any]:
        # Workers that are not forked do not know of torch.distributed.
        if not (distributed.is_available() and distributed.is_initialized()):
            return dict(vars(self))
        rank, ranks = self._world()
        return {**vars(self), "_options": replace(self._options, rank=rank, world_size=ranks)}

    @property
    def classes(self) -> list[str]:
        """Name all classes, in the order of their labels."""
        return self.images.classes

    def set_epoch(self, epoch: int, skip_to: int = 0) -> None:
        """Choose the order of the next iteration, and begin after `skip_to` samples of all ranks.

        Nothing is read of shards that only skipped samples need.
        """
        self._set(at_least(0)("epoch", epoch), at_least(0)("skip_to", skip_to))
        self._is_resumed = False

    def _set(self, epoch: int, start: int) -> None:
        self._begin[0], self._begin[1] = epoch, start
        self._taken = 0

    def __len__(self) -> int:
        """Count the samples of each rank in the next iteration."""
        return self._order.count(self._world()[1], int(self._begin[1]))

    def __iter__(self) -> Iterator[Any]:
        if not self._is_resumed:
            self._taken = 0
        self._is_resumed = False
        epoch, start = self._begin.tolist()
        return self._elements(epoch, start)

    def _elements(self, epoch: int, start: int) -> Iterator[Any]:
        for record in self._records(epoch, start, self._taken):
            self._taken += 1
            yield self.images.element(record)

    def _records(self, epoch: int, start: int, taken: int) -> Iterator[Record]:
        """Yield the records of this worker, while those of the next block are being read."""
        dataset = self.images.records.dataset
        ahead: Iterator[Record] = iter(())
        for numbers in self._order.parts(epoch, self._reader(), start, taken):
            current, ahead = ahead, dataset.gather(numbers.tolist())
            yield from current
        yield from ahead

    def _reader(self) -> Reader:
        rank, ranks = self._world()
        info = get_worker_info()
        worker, workers = (info.id, info.num_workers) if info else (0, 1)
        return Reader(
            rank=rank,
            ranks=ranks,
            worker=worker,
            workers=workers,
            batch_size=self._options.batch_size,
        )

    def _world(self) -> tuple[int, int]:
        """Return the rank of this process, and the number of ranks."""
        options = self._options
        if options.rank is not None and options.world_size is not None:
            return options.rank, options.world_size
        if distributed.is_available() and distributed.is_initialized():
            return distributed.get_rank(), distributed.get_world_size()
        return _world_of(os.environ)

    def state_dict(self) -> dict[str, Any]:
        """Return where this worker is, for `load_state_dict` and torchdata's StatefulDataLoader."""
        epoch, start = self._begin.tolist()
        return {"epoch": epoch, "skip_to": start, "taken": self._taken, **self._identity()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue where a state was taken, in the next iteration.

        All ranks are equally far, so the state of any rank will do: Lightning keeps that of rank 0.
        Raises UsageError if data, order, or number of ranks or workers differ from the state's.
        """
        for name, value in self._identity().items():
            if state.get(name) != value:
                raise UsageError(
                    f"the state is of a stream with {name} {printable(str(state.get(name)))}, "
                    f"and this one has {printable(str(value))}",
                    hint="open the stream with the same arguments; with other ranks or workers, "
                    "continue with set_epoch(epoch, skip_to=samples)",
                )
        self._set(int(state["epoch"]), int(state["skip_to"]))
        self._taken = int(state["taken"])
        self._is_resumed = True

    def _identity(self) -> dict[str, Any]:
        """Return what decides the order of this worker, as plain values."""
        info, reader = self.images.records.dataset.info, self._reader()
        return {
            "dataset": f"{info.name}:{info.version} {info.fingerprint}",
            "split": self.images.records.name,
            "shuffle": self._order.shuffled,
            "seed": self._order.seed,
            "batch_size": reader.batch_size,
            "world_size": reader.ranks,
            "num_workers": reader.workers,
        }

    def __repr__(self) -> str:
        records = self.images.records
        return f"<TorchStream {records.name} of {records.dataset.info.name}: {len(records)} images>"


def _order(images: TorchDataset, split: str, options: StreamOptions) -> Order:
    info = images.records.dataset.info
    lengths = shard_lengths(info)
    starts = list(accumulate(lengths, initial=0))
    pieces = tuple(
        range(starts[shard] + skip, starts[shard] + skip + take)
        for shard, skip, take in cut(record_ranges(split, info.splits), lengths)
    )
    if not pieces:
        raise UsageError(f"split {split!r} is empty", hint="name a split with records")
    mixed = options.shuffle
    if mixed is True:
        examples = sum(one.examples for one in info.splits)
        record_bytes = sum(one.num_bytes for one in info.splits) // max(examples, 1)
        mixed = max(_BLOCK_BYTES // max(record_bytes, 1), _MIN_SHUFFLED)
    return Order(pieces=pieces, shuffled=int(mixed), seed=options.seed)


def _world_of(variables: Mapping[str, str]) -> tuple[int, int]:
    """Return the rank that torchrun and its like have set; 0 of 1 if none is set."""
    texts = [parse_text(name, variables.get(name, "")) for name in ("RANK", "WORLD_SIZE")]
    if not any(texts):
        return 0, 1
    if not all(text.isdecimal() for text in texts) or int(texts[0]) >= int(texts[1]):
        raise UsageError(
            f"RANK={texts[0]!r} and WORLD_SIZE={texts[1]!r} are no rank and number of ranks",
            hint="set both as torchrun does, or pass rank= and world_size=",
        )
    return int(texts[0]), int(texts[1])
