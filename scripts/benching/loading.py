"""The races of the loaders: processes that stay, each going through an epoch in turn."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from benching.environments import Environment
from benching.images import ImageSet, make_images, read_all
from benching.packing import Race
from benching.runs import PEERS, FailedError, Server, interleaved, last_line

CPUS = {0, 1}


class Loader(NamedTuple):
    """A contender that goes through the images; its code is in bench_peers/loaders.py."""

    title: str
    pixels: str
    """How it resizes, and the type it gives."""
    packer: str = ""
    """Whose output it reads; "" for the raw folder."""
    environment: str = ""
    against: str = ""
    """Which of imgrec's does the same work; "" if it is imgrec's own."""
    is_limit: bool = False


TF = "bilinear, float32"
TF8 = "bilinear, uint8"
PIL = "antialiased bilinear, uint8"
SCALED = "scaled decoding, then "

LOADERS: Mapping[str, Loader] = {
    "libjpeg": Loader(
        "libjpeg-turbo alone, 2 processes", "scaled decoding, not resized",
        against="load", is_limit=True,
    ),
    "load": Loader("**`imgrec.load`**", SCALED + TF8, "structure"),
    "load_float": Loader("**`imgrec.load(dtype='float32')`**", SCALED + TF, "structure"),
    "load_exact": Loader("**`imgrec.load(exact=True)`**", TF8, "structure"),
    "load_cached": Loader(
        "**`imgrec.load(cache=True)`**", "kept in memory, uint8", "structure"
    ),
    "torch": Loader("**`imgrec.torch_dataset`**", SCALED + PIL, "structure"),
    "torch_exact": Loader("**`imgrec.torch_dataset(exact=True)`**", PIL, "structure"),
    "grain": Loader("**`imgrec.grain_source`**, threads", SCALED + TF8, "structure"),
    "grain2": Loader("**`imgrec.grain_source`**, 2 processes", SCALED + TF8, "structure"),
    "tfds": Loader("`tfds.load`, as documented", TF, "tfds", "tensorflow", "load_float"),
    "tfds_tuned": Loader(
        "`tfds.load`, as its performance guide has it", TF8, "tfds", "tensorflow", "load"
    ),
    "keras": Loader(
        "`keras.utils.image_dataset_from_directory`", TF, "", "tensorflow", "load_float"
    ),
    "folder": Loader("torch `ImageFolder`", PIL, "", "torchvision", "torch"),
    "folder_tuned": Loader(
        "torch `ImageFolder`, `torchvision.io`", PIL, "", "torchvision", "torch"
    ),
    "webdataset": Loader("webdataset", PIL, "webdataset", "webdataset", "torch"),
    "mds": Loader("MosaicML `StreamingDataset`", PIL, "mds", "mosaicml", "torch"),
    "huggingface": Loader(
        "Hugging Face `datasets`", PIL, "huggingface", "huggingface", "torch"
    ),
    "grain_threads": Loader(
        "Grain and array_record, threads", PIL, "array_record", "grain", "grain"
    ),
    "grain_processes": Loader(
        "Grain and array_record, 2 processes", PIL, "array_record", "grain", "grain2"
    ),
}  # fmt: skip

READERS: Mapping[str, Loader] = {
    "imgrec": Loader("**`imgrec.open_dataset`**, checksums checked", "bytes", "structure"),
    "array_record": Loader("array_record", "bytes", "array_record", "grain", "imgrec"),
    "mds": Loader("MosaicML `StreamingDataset`", "bytes", "mds", "mosaicml", "imgrec"),
    "huggingface": Loader(
        "Hugging Face `datasets`", "bytes", "huggingface", "huggingface", "imgrec"
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """What a race goes through."""

    images: ImageSet
    size: int
    batch: int


def loaders_of(track: Track) -> dict[str, Loader]:
    """Return who takes part: only small images of one size are kept in memory."""
    if not track.batch:
        return dict(READERS)
    return {name: each for name, each in LOADERS.items() if name != "load_cached" or not track.size}


def race(
    track: Track, contenders: Mapping[str, Environment], packs: Race, rounds: int
) -> dict[str, object]:
    """Let all go through the images in turn; return what was measured as a JSON value."""
    source = make_images(packs.work, track.images)
    image_bytes = read_all(source)
    known = loaders_of(track)
    servers: dict[str, Server] = {}
    results: dict[str, dict[str, object]] = {}
    failed: dict[str, str] = {}
    rates: dict[str, list[float]] = {}

    def epoch(name: str) -> float:
        got = servers[name].epoch()
        size = f"{track.size or 32}"
        if got.images != track.images.count:
            raise FailedError(f"gave {got.images:,} of {track.images.count:,} images")
        if not track.batch and got.bytes != image_bytes:
            raise FailedError(f"gave {got.bytes:,} of {image_bytes:,} bytes")
        if track.batch and got.like.split("x").count(size) != 2:
            raise FailedError(f"gave {got.like}, not images of {size}x{size}")
        results[name] = {"like": got.like}
        return got.rate

    try:
        for name, environment in contenders.items():
            try:
                # One after another, so that the time to a first batch is each one's own.
                servers[name] = _server(name, known[name], environment, track, packs)
                epoch(name)
            except FailedError as err:
                failed[name] = last_line(str(err))
                print(f"  {name} is out: {failed[name]}", file=sys.stderr)
                if name in servers:
                    servers.pop(name).stop()
        names = [name for name in contenders if name not in failed]
        for number, name in interleaved(names, rounds):
            rates.setdefault(name, []).append(epoch(name))
            print(f"  round {number + 1}: {name} {rates[name][-1]:,.0f}/s", file=sys.stderr)
        for name in names:
            server = servers[name]
            results[name] |= {"rates": rates[name], "first_s": server.first_s}
            results[name] |= {"peak_bytes": server.peak_bytes}
    finally:
        for server in servers.values():
            server.stop()
    return {
        "images": track.images.count,
        "bytes": image_bytes,
        "size": track.size,
        "batch": track.batch,
        "contenders": {name: results[name] for name in names},
        "failed": failed,
    }


def _server(
    name: str, loader: Loader, environment: Environment, track: Track, packs: Race
) -> Server:
    packed = packs.kept(loader.packer, track.images) if loader.packer else Path()
    if loader.packer == "structure":
        (packed,) = packed.glob("*/*/dataset_info.json")
        packed = packed.parent
    task = {
        "folder": str(make_images(packs.work, track.images)),
        "packed": str(packed),
        "size": track.size,
        "batch": track.batch,
    }
    command = [environment.python, str(PEERS / "loaders.py"), name, json.dumps(task)]
    return Server(command, packs.work / f"{name}.log")


def use_two_cpus() -> None:
    """Keep this process, and all that it starts, to two CPUs, whatever the machine has."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, CPUS & os.sched_getaffinity(0) or os.sched_getaffinity(0))
