"""The race of the packers: fresh processes, in turn, each output counted and weighed."""

from __future__ import annotations

import json
import sys
import tarfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benching.environments import Environment
from benching.images import ImageSet, make_images, read_all
from benching.runs import (
    PEERS,
    FailedError,
    Run,
    bytes_of,
    cleared,
    drop_caches,
    interleaved,
    last_line,
    timed,
)

WORKERS = 2
START = ImageSet("photos", 10)
"""So few images that packing them is all start-up."""
SIZE_SLACK = 0.01


@dataclass(frozen=True, slots=True, kw_only=True)
class Packer:
    """A contender that makes something of a folder of images."""

    title: str
    environment: str = ""
    """The environment it runs in; "" for this one."""
    command: str
    """A packer of bench_peers/packers.py, `tar`, `cp`, or a --check of imgrec."""
    reader: str = ""
    """The packer of bench_peers/packers.py that reads its output back, if that is another."""
    workers: int = WORKERS
    is_limit: bool = False
    """It only copies or only decodes: no packer can be faster."""
    photos_only: bool = False

    @property
    def is_ours(self) -> bool:
        """Tell whether this is imgrec."""
        return self.title.startswith("**")

    def arguments(self, python: str, source: Path, output: Path) -> Sequence[str]:
        """Return what to run."""
        if self.command == "tar":
            return ["tar", "cf", f"{output}/all.tar", "-C", str(source.parent), source.name]
        if self.command == "cp":
            return ["cp", "-r", str(source), f"{output}/copy"]
        if self.is_ours:
            return imgrec_pack(source, output, "--check", self.command)
        script = str(PEERS / "packers.py")
        return [python, script, "pack", self.command, str(source), str(output), str(self.workers)]

    def packed(self, python: str, output: Path) -> tuple[int, int]:
        """Return how many images an output has, and how many bytes they have."""
        if self.command == "tar":
            with tarfile.open(output / "all.tar") as archive:
                sizes = [member.size for member in archive if member.isfile()]
            return len(sizes), sum(sizes)
        if self.command == "cp":
            return sum(path.is_file() for path in output.rglob("*")), bytes_of(output)
        name = self.reader or self.command
        _, printed = timed([python, str(PEERS / "packers.py"), "check", name, str(output)])
        found = json.loads(printed.splitlines()[-1])
        return found["records"], found["bytes"]


def imgrec_pack(source: Path, output: Path, *options: str) -> Sequence[str]:
    """Return the command that packs a source with imgrec."""
    return [
        *(sys.executable, "-P", "-m", "imgrec", "pack", str(source), "--quiet"),
        *("--data-dir", str(output), "--workers", str(WORKERS), "--val-split", "0.1", *options),
    ]


PACKERS: Mapping[str, Packer] = {
    "tar": Packer(title="`tar cf`", command="tar", is_limit=True),
    "cp": Packer(title="`cp -r`", command="cp", is_limit=True),
    "libjpeg": Packer(
        title="libjpeg-turbo alone, 1/8 scale, 2 processes", command="libjpeg",
        is_limit=True, photos_only=True,
    ),
    "structure": Packer(
        title="**imgrec** `--check structure`", command="structure", reader="tutorial"
    ),
    "decode": Packer(
        title="**imgrec**, every image decoded", command="decode", reader="tutorial"
    ),
    "tfds": Packer(
        title="TFDS `GeneratorBasedBuilder`", environment="tensorflow", command="tfds", workers=1
    ),
    "tutorial": Packer(
        title="`tf.io.TFRecordWriter`", environment="tensorflow", command="tutorial", workers=1
    ),
    "tutorial2": Packer(
        title="`tf.io.TFRecordWriter`, 2 processes", environment="tensorflow", command="tutorial"
    ),
    "webdataset": Packer(
        title="webdataset `ShardWriter`, 2 processes", environment="webdataset",
        command="webdataset",
    ),
    "mds": Packer(
        title="MosaicML `MDSWriter`, 2 processes", environment="mosaicml", command="mds"
    ),
    "huggingface": Packer(
        title="Hugging Face imagefolder to Parquet, `num_proc=2`", environment="huggingface",
        command="huggingface",
    ),
    "array_record": Packer(
        title="array_record, uncompressed, 2 processes", environment="grain",
        command="array_record", is_limit=True,  # the label and the bytes, copied by two processes
    ),
    "litdata": Packer(
        title="LitData `optimize`, `num_workers=2`", environment="litdata", command="litdata"
    ),
}  # fmt: skip


@dataclass(slots=True)
class Race:
    """Packers on one set of images."""

    work: Path
    pythons: Mapping[str, Environment]
    """The environment of each packer that takes part."""
    readers: Mapping[str, Environment]
    """The environment that reads its output back."""

    def run(self, images: ImageSet, rounds: int) -> dict[str, object]:
        """Let all pack the images in turn; return what was measured as a JSON value."""
        source = make_images(self.work, images)
        expected = images.count, read_all(source)
        names = [n for n in self.pythons if images.is_photos or not PACKERS[n].photos_only]
        runs: dict[str, list[Run]] = {name: [] for name in names}
        sizes: dict[str, int] = {}
        failed: dict[str, str] = {}
        for number, name in interleaved(names, rounds):
            if name in failed:
                continue
            try:
                run = self._run(name, source, expected, sizes)
            except FailedError as err:
                failed[name] = last_line(str(err))
                print(f"  {name} is out: {failed[name]}", file=sys.stderr)
                continue
            runs[name].append(run)
            print(f"  round {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
        return {
            "images": images.count,
            "bytes": expected[1],
            "runs": {
                name: [run.as_value() for run in each]
                for name, each in runs.items()
                if name not in failed
            },
            "output_bytes": sizes,
            "failed": failed,
        }

    def _run(
        self, name: str, source: Path, expected: tuple[int, int], sizes: dict[str, int]
    ) -> Run:
        """Pack once; the first output is read back, the others must be as large."""
        packer, output = PACKERS[name], cleared(self.work / "output")
        run, _ = timed(packer.arguments(self.pythons[name].python, source, output))
        size = bytes_of(output)
        if name not in sizes:
            records, image_bytes = packer.packed(self.readers[name].python, output)
            if records != expected[0] or image_bytes not in (expected[1], 0):
                raise FailedError(f"packed {records}, {image_bytes} bytes of {expected}")
            sizes[name] = size
        elif abs(size - sizes[name]) > SIZE_SLACK * sizes[name]:
            raise FailedError(f"made {size:,} bytes, and {sizes[name]:,} before")
        cleared(self.work / "output")
        return run

    def start(self, rounds: int) -> dict[str, list[float]]:
        """Pack ten images each; return the seconds by packer."""
        return self._seconds(START, [*self.pythons], rounds, before=lambda: "")

    def cold(self, images: ImageSet, rounds: int) -> dict[str, object]:
        """Let tar and imgrec read the images from the disk; say why if that cannot be."""
        if reason := drop_caches():
            return {"skipped": reason}
        names = [name for name in ("tar", "structure", "decode") if name in self.pythons]
        seconds = self._seconds(images, names, rounds, before=drop_caches)
        return {"images": images.count, "seconds": seconds}

    def _seconds(
        self,
        images: ImageSet,
        names: Sequence[str],
        rounds: int,
        *,
        before: Callable[[], str],
    ) -> dict[str, list[float]]:
        source = make_images(self.work, images)
        seconds: dict[str, list[float]] = {}
        for number, name in interleaved(names, rounds):
            output = cleared(self.work / "output")
            before()
            try:
                run, _ = timed(PACKERS[name].arguments(self.pythons[name].python, source, output))
            except FailedError as err:
                print(f"  {name} failed: {last_line(str(err))}", file=sys.stderr)
                continue
            seconds.setdefault(name, []).append(run.wall_s)
            print(f"  round {number + 1}: {name} {run.wall_s:.2f} s", file=sys.stderr)
        cleared(self.work / "output")
        return seconds

    def kept(self, name: str, images: ImageSet) -> Path:
        """Return what a packer makes of the images, packing them unless that was done before."""
        folder = self.work / "peer-packs" / name / images.folder
        if not folder.exists():
            part = cleared(folder.with_name(f".{folder.name}.part"))
            source = make_images(self.work, images)
            timed(PACKERS[name].arguments(self.pythons[name].python, source, part))
            part.rename(folder)
        return folder
