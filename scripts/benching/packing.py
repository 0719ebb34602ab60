"""The race of the packers: fresh processes, in turn, each output counted and weighed."""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench_pack import PEERS, ImageSet, make_images, read_all
from bench_tools import checkout_environment

from benching.environments import Environment
from benching.runs import FailedError, Run, bytes_of, cleared, drop_caches, interleaved, timed

WORKERS = 2
START = ImageSet("photos", 10)
"""So few images that packing them is all start-up."""
SIZE_SLACK = 0.01


@dataclass(frozen=True, slots=True)
class Packed:
    """What is in an output."""

    records: int
    bytes: int
    """Of the images."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Packer:
    """A contender that makes something of a folder of images."""

    title: str
    environment: str = ""
    """The environment it runs in; nothing for imgrec's own."""
    command: Callable[[str, Path, Path], Sequence[str]]
    """What to run, by Python, source and output."""
    check: Callable[[str, Path, str], Packed]
    """What it made, by Python, output, and what it printed."""
    is_limit: bool = False
    """It is no packer, but what no packer can be faster than."""
    is_ours: bool = False
    photos_only: bool = False


def _tar(_python: str, source: Path, output: Path) -> Sequence[str]:
    return ["tar", "cf", str(output / "all.tar"), "-C", str(source.parent), source.name]


def _tarred(_python: str, output: Path, _printed: str) -> Packed:
    with tarfile.open(output / "all.tar") as archive:
        sizes = [member.size for member in archive if member.isfile()]
    return Packed(len(sizes), sum(sizes))


def _copy(_python: str, source: Path, output: Path) -> Sequence[str]:
    return ["cp", "-r", str(source), str(output / "copy")]


def _copied(_python: str, output: Path, _printed: str) -> Packed:
    return Packed(sum(path.is_file() for path in output.rglob("*")), bytes_of(output))


def _imgrec(check: str) -> Callable[[str, Path, Path], Sequence[str]]:
    def command(_python: str, source: Path, output: Path) -> Sequence[str]:
        return [
            *(sys.executable, "-m", "imgrec", "pack", str(source), "--quiet"),
            *("--data-dir", str(output), "--check", check),
            *("--workers", str(WORKERS), "--val-split", "0.1"),
        ]

    return command


def _libjpeg(_python: str, source: Path, _output: Path) -> Sequence[str]:
    return [sys.executable, str(PEERS / "decode.py"), str(source)]


def _decoded(_python: str, _output: Path, printed: str) -> Packed:
    return Packed(int(printed), -1)


def _peer(script: str, workers: int = WORKERS) -> Callable[[str, Path, Path], Sequence[str]]:
    def command(python: str, source: Path, output: Path) -> Sequence[str]:
        return [python, str(PEERS / script), "pack", str(source), str(output), str(workers)]

    return command


def _read_back(script: str) -> Callable[[str, Path, str], Packed]:
    def check(python: str, output: Path, _printed: str) -> Packed:
        _, printed = timed([python, str(PEERS / script), "check", str(output)])
        return Packed(**json.loads(printed.splitlines()[-1]))

    return check


def _scripted(title: str, environment: str, script: str, workers: int = WORKERS) -> Packer:
    return Packer(
        title=title,
        environment=environment,
        command=_peer(script, workers),
        check=_read_back(script),
    )


PACKERS: Mapping[str, Packer] = {
    "tar": Packer(title="`tar cf`", command=_tar, check=_tarred, is_limit=True),
    "cp": Packer(title="`cp -r`", command=_copy, check=_copied, is_limit=True),
    "libjpeg": Packer(
        title="libjpeg-turbo alone, 1/8 scale, 2 processes",
        command=_libjpeg,
        check=_decoded,
        is_limit=True,
        photos_only=True,
    ),
    "structure": Packer(
        title="**imgrec** `--check structure`",
        command=_imgrec("structure"),
        check=_read_back("check_tfrecords.py"),
        is_ours=True,
    ),
    "decode": Packer(
        title="**imgrec**, every image decoded",
        command=_imgrec("decode"),
        check=_read_back("check_tfrecords.py"),
        is_ours=True,
    ),
    "tfds": _scripted("TFDS `GeneratorBasedBuilder`", "tensorflow", "pack_tfds.py", 1),
    "tutorial": _scripted("`tf.io.TFRecordWriter`", "tensorflow", "pack_tutorial.py", 1),
    "tutorial2": _scripted("`tf.io.TFRecordWriter`, 2 processes", "tensorflow", "pack_tutorial.py"),
    "webdataset": _scripted("webdataset `ShardWriter`", "webdataset", "pack_webdataset.py", 1),
    "webdataset2": _scripted(
        "webdataset `ShardWriter`, 2 processes", "webdataset", "pack_webdataset.py"
    ),
    "mds": _scripted("MosaicML `MDSWriter`, 2 processes", "mosaicml", "pack_mds.py"),
    "huggingface": _scripted(
        "Hugging Face imagefolder to Parquet, `num_proc=2`", "huggingface", "pack_huggingface.py"
    ),
    "array_record": _scripted("array_record, as documented", "grain", "pack_array_record.py", 1),
    "array_record2": replace(
        _scripted(
            "array_record, uncompressed, 2 processes of our own", "grain", "pack_array_record.py"
        ),
        is_limit=True,  # it has no workers: this is bytes being copied, as fast as Python can
    ),
    "litdata": _scripted("LitData `optimize`, `num_workers=2`", "litdata", "pack_litdata.py"),
    "ffcv": _scripted("FFCV `DatasetWriter`, `num_workers=2`", "ffcv", "pack_ffcv.py"),
}


@dataclass(slots=True)
class Race:
    """Packers on one set of images."""

    work: Path
    pythons: Mapping[str, Environment]
    """The environment of each packer that takes part."""
    checks: Mapping[str, Environment]

    def run(self, images: ImageSet, rounds: int) -> dict[str, object]:
        """Let all pack the images in turn; return what was measured as a JSON value."""
        source = make_images(self.work, images)
        image_bytes = read_all(source)
        names = [
            name
            for name in self.pythons
            if images.kind == "photos" or not PACKERS[name].photos_only
        ]
        runs: dict[str, list[Run]] = {name: [] for name in names}
        sizes: dict[str, int] = {}
        failed: dict[str, str] = {}
        for number, name in interleaved(names, rounds):
            if name in failed:
                continue
            try:
                run = self._run(name, source, Packed(images.count, image_bytes), sizes)
            except FailedError as err:
                failed[name] = last_line(str(err))
                print(f"  {name} is out: {failed[name]}", file=sys.stderr)
                continue
            runs[name].append(run)
            print(f"  round {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
        for name in failed:
            del runs[name]
        return {
            "images": images.count,
            "bytes": image_bytes,
            "runs": {name: [run.as_value() for run in each] for name, each in runs.items()},
            "output_bytes": sizes,
            "failed": failed,
        }

    def _run(self, name: str, source: Path, expected: Packed, sizes: dict[str, int]) -> Run:
        """Pack once; see after the first time that all is there, and then that as much is."""
        packer, python = PACKERS[name], self.pythons[name].python
        output = cleared(self.work / "output")
        run, printed = timed(packer.command(python, source, output), checkout_environment())
        size = bytes_of(output)
        if name not in sizes:
            found = packer.check(self.checks[name].python, output, printed)
            if found.records != expected.records or found.bytes not in (expected.bytes, -1):
                raise FailedError(f"made {found} of {expected}")
            sizes[name] = size
        elif abs(size - sizes[name]) > SIZE_SLACK * sizes[name]:
            raise FailedError(f"made {size:,} bytes, and {sizes[name]:,} before")
        cleared(self.work / "output")
        return run

    def start(self, rounds: int) -> dict[str, list[float]]:
        """Pack ten images each; return the seconds by packer."""
        source = make_images(self.work, START)
        seconds: dict[str, list[float]] = {name: [] for name in self.pythons}
        for _, name in interleaved([*self.pythons], rounds):
            output = cleared(self.work / "output")
            command = PACKERS[name].command(self.pythons[name].python, source, output)
            try:
                run, _ = timed(command, checkout_environment())
            except FailedError as err:
                print(f"  {name} cannot pack ten: {last_line(str(err))}", file=sys.stderr)
                continue
            seconds[name].append(run.wall_s)
        return {name: each for name, each in seconds.items() if each}

    def cold(self, images: ImageSet, rounds: int) -> dict[str, object]:
        """Let tar and imgrec read the images from the disk; say why if that cannot be."""
        if reason := drop_caches():
            return {"skipped": reason}
        source = make_images(self.work, images)
        names = [name for name in ("tar", "structure", "decode") if name in self.pythons]
        seconds: dict[str, list[float]] = {name: [] for name in names}
        for number, name in interleaved(names, rounds):
            output = cleared(self.work / "output")
            drop_caches()
            run, _ = timed(PACKERS[name].command("", source, output), checkout_environment())
            seconds[name].append(run.wall_s)
            print(f"  cold {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
        cleared(self.work / "output")
        return {"images": images.count, "seconds": seconds}

    def kept(self, name: str, images: ImageSet) -> Path:
        """Return what a packer makes of the images, packing them unless that was done before."""
        folder = self.work / "peer-packs" / name / images.folder
        if not folder.exists():
            part = cleared(folder.with_name(f".{folder.name}.part"))
            source = make_images(self.work, images)
            timed(PACKERS[name].command(self.pythons[name].python, source, part))
            part.rename(folder)
        return folder


def last_line(text: str) -> str:
    """Return the last line that says anything: of a traceback, the error."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason given"
