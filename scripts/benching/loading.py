"""The races of the loaders: processes that stay, each going through an epoch in turn."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from bench_pack import PEERS, ImageSet, make_images, read_all

from benching.environments import Environment
from benching.packing import Race, last_line
from benching.runs import FailedError, Server, interleaved

CPUS = {0, 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class Loader:
    """A contender that goes through the images."""

    title: str
    environment: str = ""
    script: str
    contender: str
    """What the script calls it."""
    packer: str = ""
    """Whose output it reads; nothing for the raw folder."""
    pixels: str
    """How it resizes, and the type it gives."""
    against: str = ""
    """Which of imgrec's does the same work; nothing if it is imgrec's own."""
    is_limit: bool = False


TF = "bilinear, float32"
TF8 = "bilinear, uint8"
PIL = "antialiased bilinear, uint8"
SCALED = "scaled decoding, then "

LOADERS: Mapping[str, Loader] = {
    "libjpeg": Loader(
        title="libjpeg-turbo alone, 2 processes", script="load_libjpeg.py", contender="alone",
        pixels="scaled decoding, not resized", against="load", is_limit=True,
    ),
    "load": Loader(
        title="**`imgrec.load`**", script="load_imgrec.py", contender="load",
        packer="structure", pixels=SCALED + TF8,
    ),
    "load_float": Loader(
        title="**`imgrec.load(dtype='float32')`**", script="load_imgrec.py",
        contender="load_float", packer="structure", pixels=SCALED + TF,
    ),
    "load_exact": Loader(
        title="**`imgrec.load(exact=True)`**", script="load_imgrec.py", contender="load_exact",
        packer="structure", pixels=TF8,
    ),
    "torch": Loader(
        title="**`imgrec.torch_dataset`**", script="load_imgrec.py", contender="torch",
        packer="structure", pixels=SCALED + PIL,
    ),
    "torch_exact": Loader(
        title="**`imgrec.torch_dataset(exact=True)`**", script="load_imgrec.py",
        contender="torch_exact", packer="structure", pixels=PIL,
    ),
    "grain": Loader(
        title="**`imgrec.grain_source`**, threads", script="load_imgrec.py", contender="grain",
        packer="structure", pixels=SCALED + "bilinear, uint8",
    ),
    "grain2": Loader(
        title="**`imgrec.grain_source`**, 2 processes", script="load_imgrec.py",
        contender="grain_processes", packer="structure", pixels=SCALED + "bilinear, uint8",
    ),
    "tfds": Loader(
        title="`tfds.load`, as documented", environment="tensorflow", script="load_tensorflow.py",
        contender="documented", packer="tfds", pixels=TF, against="load_float",
    ),
    "tfds_tuned": Loader(
        title="`tfds.load`, as its performance guide has it", environment="tensorflow",
        script="load_tensorflow.py", contender="tuned", packer="tfds", pixels=TF8, against="load",
    ),
    "tfds_tuned_float": Loader(
        title="`tfds.load`, the same in float32", environment="tensorflow",
        script="load_tensorflow.py", contender="tuned_float", packer="tfds", pixels=TF,
        against="load_float",
    ),
    "keras": Loader(
        title="`keras.utils.image_dataset_from_directory`", environment="tensorflow",
        script="load_tensorflow.py", contender="keras", pixels=TF, against="load_float",
    ),
    "folder": Loader(
        title="torch `ImageFolder`", environment="torchvision", script="load_torch.py",
        contender="folder", pixels=PIL, against="torch",
    ),
    "folder_tuned": Loader(
        title="torch `ImageFolder`, `torchvision.io`", environment="torchvision",
        script="load_torch.py", contender="folder_tuned", pixels=PIL, against="torch",
    ),
    "webdataset": Loader(
        title="webdataset", environment="webdataset", script="load_torch.py",
        contender="webdataset", packer="webdataset2", pixels=PIL, against="torch",
    ),
    "mds": Loader(
        title="MosaicML `StreamingDataset`", environment="mosaicml", script="load_torch.py",
        contender="mds", packer="mds", pixels=PIL, against="torch",
    ),
    "huggingface": Loader(
        title="Hugging Face `datasets`", environment="huggingface", script="load_torch.py",
        contender="huggingface", packer="huggingface", pixels=PIL, against="torch",
    ),
    "grain_threads": Loader(
        title="Grain and array_record, threads", environment="grain", script="load_grain.py",
        contender="threads", packer="array_record2", pixels=PIL, against="grain",
    ),
    "grain_processes": Loader(
        title="Grain and array_record, 2 processes", environment="grain", script="load_grain.py",
        contender="processes", packer="array_record2", pixels=PIL, against="grain2",
    ),
}  # fmt: skip

CACHED = Loader(
    title="**`imgrec.load(cache=True)`**", script="load_imgrec.py", contender="load_cached",
    packer="structure", pixels="kept in memory, uint8",
)  # fmt: skip

READERS: Mapping[str, Loader] = {
    "imgrec": Loader(
        title="**`imgrec.open_dataset`**, checksums checked", script="load_imgrec.py",
        contender="random", packer="structure", pixels="bytes",
    ),
    "array_record": Loader(
        title="array_record", environment="grain", script="load_grain.py", contender="random",
        packer="array_record2", pixels="bytes", against="imgrec",
    ),
    "mds": Loader(
        title="MosaicML `StreamingDataset`", environment="mosaicml", script="load_torch.py",
        contender="mds", packer="mds", pixels="bytes", against="imgrec",
    ),
    "huggingface": Loader(
        title="Hugging Face `datasets`", environment="huggingface", script="load_torch.py",
        contender="huggingface", packer="huggingface", pixels="bytes", against="imgrec",
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Track:
    """What a race goes through."""

    images: ImageSet
    size: int
    batch: int


def loaders_of(track: Track) -> dict[str, Loader]:
    """Return who takes part: images of one size that fit in memory are also kept there."""
    if not track.batch:
        return dict(READERS)
    if track.size:
        return dict(LOADERS)
    return {**LOADERS, "load_cached": CACHED}


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
                servers[name] = _server(known[name], environment, track, packs)
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


def _server(loader: Loader, environment: Environment, track: Track, packs: Race) -> Server:
    packed = packs.kept(loader.packer, track.images) if loader.packer else Path()
    if loader.script == "load_imgrec.py":
        (packed,) = packed.glob("*/*/dataset_info.json")
        packed = packed.parent
    task = {
        "folder": str(make_images(packs.work, track.images)),
        "packed": str(packed),
        "size": track.size,
        "batch": track.batch,
    }
    command = [environment.python, str(PEERS / loader.script), loader.contender, json.dumps(task)]
    return Server(command, packs.work / f"{loader.contender}.log")


def use_two_cpus() -> None:
    """Keep this process, and all that it starts, to two CPUs, whatever the machine has."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, CPUS & os.sched_getaffinity(0) or os.sched_getaffinity(0))
