"""Continuing a pack that was cut off, however it was: the result equals that of a run in one go."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar

import pytest
from conftest import ROOT, Cli
from inline import InlineEngine
from pictures import class_tree, encode, jpeg, write_tree
from PIL import Image

import imgrec
from imgrec.errors import ExecutionError
from imgrec.notes import Note
from imgrec.options import PackOptions
from imgrec.outcome import Packed, ShardResult
from imgrec.write.shard import ShardWriter

T = TypeVar("T")
R = TypeVar("R")

SHARDS = 12


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = class_tree(tmp_path / "flowers", {"rose": 40, "tulip": 40})
    # What is small is read whole when it is scanned; of this, only the beginning is.
    return write_tree(root, {"rose/large.jpg": jpeg(777, (300, 200), quality=95)})


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def whole(tmp_path: Path, source: Path) -> dict[str, bytes]:
    """The files of a pack in one go."""
    pack(source, tmp_path / "whole")
    return files(tmp_path / "whole/flowers/1.0.0")


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def options(data_dir: Path, **others: object) -> PackOptions:
    settings = {"data_dir": str(data_dir), "shards": SHARDS, "workers": 1, "val_split": 0.2}
    return PackOptions(**{**settings, **others})  # type: ignore[arg-type]


def pack(source: Path, data_dir: Path, **others: object) -> Packed:
    return imgrec.pack(source, options(data_dir, **others))


def cut_off(source: Path, data_dir: Path, after: int, error: BaseException) -> None:
    """Pack until `after` progress calls of the stage of packing have come, then break off."""
    calls = 0

    def on_progress(stage: str, _count: int, _total: int | None) -> None:
        nonlocal calls
        calls += stage == "pack"
        if calls == after:
            raise error

    with pytest.raises(type(error)):
        imgrec.pack(source, options(data_dir), on_progress=on_progress)


def staging(data_dir: Path) -> Path:
    return data_dir / "flowers/.1.0.0.incomplete"


@pytest.mark.parametrize(
    ("error", "after"),
    [(KeyboardInterrupt(), 1), (ExecutionError("full"), 5), (OSError("gone"), SHARDS)],
)
def test_a_pack_that_was_cut_off_goes_on_and_gives_the_same_bytes(
    source: Path, data_dir: Path, whole: dict[str, bytes], error: BaseException, after: int
) -> None:
    cut_off(source, data_dir, after, error)
    assert not (data_dir / "flowers/1.0.0").exists()
    packed = pack(source, data_dir)
    assert packed.kept_shards == after
    assert packed.restarted == ""
    assert files(data_dir / "flowers/1.0.0") == whole
    left = sorted(path.name for path in (data_dir / "flowers").iterdir())
    assert left == [".1.0.0.origin.json", "1.0.0"]


def test_no_resume_starts_over(source: Path, data_dir: Path, whole: dict[str, bytes]) -> None:
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    packed = pack(source, data_dir, resume=False)
    assert (packed.kept_shards, packed.restarted) == (0, "--no-resume was given")
    assert files(data_dir / "flowers/1.0.0") == whole


@pytest.mark.parametrize("change", ["option", "near_dups", "new file", "other file"])
def test_another_source_or_option_starts_afresh_and_says_so(
    tmp_path: Path, source: Path, data_dir: Path, change: str
) -> None:
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    others = {"option": {"seed": 7}, "near_dups": {"near_dups": "off"}}.get(change, {})
    if not others:
        name = "rose/new.jpg" if change == "new file" else "rose/000.jpg"
        write_tree(source, {name: jpeg(998)})
    packed = pack(source, data_dir, **others)
    assert packed.kept_shards == 0
    assert packed.restarted == "the source or the options have changed"
    pack(source, tmp_path / "fresh", **others)
    assert files(data_dir / "flowers/1.0.0") == files(tmp_path / "fresh/flowers/1.0.0")


def flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def shorten(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def delete(path: Path) -> None:
    path.unlink()


@pytest.mark.parametrize(
    ("damage", "pattern"),
    [(flip, "*-of-?????"), (shorten, "*-of-?????"), (empty, "*.idx"), (delete, "*.idx")],
)
def test_a_shard_that_is_not_what_its_result_says_is_written_again(
    source: Path,
    data_dir: Path,
    whole: dict[str, bytes],
    damage: Callable[[Path], None],
    pattern: str,
) -> None:
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    noted = {path.name for path in (staging(data_dir) / ".notes").iterdir()}
    shard = next(
        path
        for path in sorted(staging(data_dir).glob(pattern))
        if path.name.removesuffix(".idx") in noted
    )
    damage(shard)
    assert pack(source, data_dir).kept_shards == 4
    assert files(data_dir / "flowers/1.0.0") == whole


def flip_last(path: Path) -> None:
    data = path.read_bytes()
    path.write_bytes(data[:-3] + bytes([data[-3] ^ 1]) + data[-2:])  # a digit, of some number


@pytest.mark.parametrize("damage", [flip_last, shorten, empty])
def test_a_note_that_is_damaged_costs_its_shard_and_no_more(
    source: Path, data_dir: Path, whole: dict[str, bytes], damage: Callable[[Path], None]
) -> None:
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    damage(sorted((staging(data_dir) / ".notes").glob("flowers-*"))[0])
    assert pack(source, data_dir).kept_shards == 4
    assert files(data_dir / "flowers/1.0.0") == whole


def test_a_run_of_which_nothing_is_known_starts_afresh(
    source: Path, data_dir: Path, whole: dict[str, bytes]
) -> None:
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    (staging(data_dir) / ".notes/run").write_bytes(b"[]")
    packed = pack(source, data_dir)
    assert packed.restarted == "its notes are damaged"
    assert files(data_dir / "flowers/1.0.0") == whole


def test_other_versions_of_what_encodes_images_start_afresh(
    source: Path, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    monkeypatch.setattr("imgrec.packing.reuse.CODERS", {"PIL": "pillow", "xxhash": "xxhash"})
    packed = pack(source, data_dir)
    assert packed.restarted == "another version of imgrec or of its decoders made them"
    assert packed.kept_shards == 0


def test_bad_images_of_shards_that_are_kept_are_still_listed(tmp_path: Path, source: Path) -> None:
    write_tree(source, {f"rose/bad{n}.jpg": jpeg(500 + n)[:200] for n in range(6)})
    write_tree(source, {"tulip/old.gif": b"GIF89a" + b"\0" * 9})
    cut_off(source, tmp_path / "out", SHARDS, KeyboardInterrupt())
    packed = pack(source, tmp_path / "out")
    fresh = pack(source, tmp_path / "whole")
    assert packed.kept_shards == SHARDS
    assert len(packed.report.skipped) == 7
    assert packed.report == fresh.report
    assert files(tmp_path / "out/flowers/1.0.0") == files(tmp_path / "whole/flowers/1.0.0")


@pytest.mark.parametrize(
    ("strict", "lenient"),
    [({"on_bad": "fail"}, {}), ({"max_bad": 0.0}, {"max_bad": 1.0})],
)
def test_shards_of_a_source_with_too_many_bad_images_wait_for_a_run_that_allows_them(
    tmp_path: Path, source: Path, strict: dict[str, object], lenient: dict[str, object]
) -> None:
    write_tree(source, {f"rose/bad{n}.jpg": jpeg(500 + n)[:200] for n in range(3)})
    whole = pack(source, tmp_path / "whole", **lenient)
    with pytest.raises(imgrec.SourceError) as caught:
        pack(source, tmp_path / "out", **strict)
    assert caught.value.hint.endswith(
        "finished shards are kept: a run that allows bad images reuses them"
    )
    assert not (tmp_path / "out/flowers/1.0.0").exists()
    packed = pack(source, tmp_path / "out", **lenient)
    assert packed.kept_shards == sum(len(split.shard_lengths) for split in packed.info.splits)
    assert packed.report == whole.report
    assert files(tmp_path / "out/flowers/1.0.0") == files(tmp_path / "whole/flowers/1.0.0")


def test_an_option_that_does_not_fit_costs_no_finished_shard(tmp_path: Path, source: Path) -> None:
    cut_off(source, tmp_path / "out", 5, KeyboardInterrupt())
    with pytest.raises(imgrec.PlanError):
        pack(source, tmp_path / "out", shards=1000)
    assert pack(source, tmp_path / "out").kept_shards == 5


def test_a_source_of_bad_images_only_leaves_nothing_behind(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "flowers", {"rose/bad.jpg": jpeg(500)[:200]})
    with pytest.raises(imgrec.SourceError, match="none of the 1 images can be packed"):
        pack(source, tmp_path / "out", shards=1)
    assert not (tmp_path / "out").exists()


# As it happens to users


MANY_SHARDS = 300
"""So many that a pack has much to do after its first shards."""


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return class_tree(tmp_path_factory.mktemp("many") / "flowers", {"rose": 200, "tulip": 200})


@pytest.fixture(scope="module")
def whole_of_many(many: Path) -> dict[str, bytes]:
    """The files of a pack of them in one go."""
    pack(many, many.parent / "whole", shards=MANY_SHARDS, val_split=0.0)
    return files(many.parent / "whole/flowers/1.0.0")


def started(source: Path, data_dir: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "imgrec", "pack", str(source)]
    command += ["--shards", str(MANY_SHARDS), "--workers", "2"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(data_dir)}
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def worker_of(parent: int) -> int:
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                if int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1]) == parent:
                    return int(folder.name)
            except OSError:
                continue
    raise AssertionError("there is no worker")


def kill_worker(process: subprocess.Popen[str]) -> None:
    os.kill(worker_of(process.pid), signal.SIGKILL)


def send(signum: signal.Signals) -> Callable[[subprocess.Popen[str]], None]:
    return lambda process: process.send_signal(signum)


@pytest.mark.slow
@pytest.mark.parametrize(
    "blow",
    [send(signal.SIGINT), send(signal.SIGTERM), send(signal.SIGKILL), kill_worker],
    ids=["ctrl-c", "sigterm", "kill -9", "kill -9 of a worker"],
)
def test_a_pack_that_is_killed_goes_on(
    tmp_path: Path,
    many: Path,
    whole_of_many: dict[str, bytes],
    blow: Callable[[subprocess.Popen[str]], None],
) -> None:
    end = time.monotonic() + 90
    notes = staging(tmp_path / "out") / ".notes"
    returncode = 0
    while returncode == 0:  # a pack may end before the blow, while this process has to wait
        assert time.monotonic() < end
        shutil.rmtree(tmp_path / "out", ignore_errors=True)
        process = started(many, tmp_path / "out")
        # The note of the run, those of 19 shards, and one that may be but half written.
        while process.poll() is None and not (notes.exists() and len(os.listdir(notes)) >= 21):
            assert time.monotonic() < end
            time.sleep(0.005)
        blow(process)
        _, complaint = process.communicate(timeout=30)
        returncode = process.returncode
    if process.returncode == 130:
        assert complaint == (
            "imgrec: interrupted; nothing was published\n"
            "  hint: run it again: it continues with the shards that are not finished\n"
        )
    assert not (tmp_path / "out/flowers/1.0.0").exists()
    again = started(many, tmp_path / "out")
    said, complaint = again.communicate(timeout=60)
    assert again.returncode == 0, complaint
    kept = int(said.split("resumed")[1].split()[0])
    assert kept >= 19
    assert files(tmp_path / "out/flowers/1.0.0") == whole_of_many


@pytest.mark.slow
def test_a_full_disk_loses_nothing(tmp_path: Path) -> None:
    """A limit on the size of files stands in for the disk: writing past it fails as well."""
    source = class_tree(tmp_path / "flowers", {"rose": 30, "tulip": 30})
    write_tree(source, {"rose/large.jpg": jpeg(5, (2000, 1500), quality=100)})
    assert (source / "rose/large.jpg").stat().st_size > 200_000

    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)

    command = [sys.executable, "-m", "imgrec", "pack", str(source), "--shards", "20"]
    command += ["--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": str(tmp_path / "out")}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, preexec_fn=small_files
    )
    assert done.returncode == 6, done.stderr
    assert len(done.stderr.splitlines()) <= 2
    again = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert again.returncode == 0, again.stderr
    pack(source, tmp_path / "whole", shards=20, val_split=0.0)
    assert files(tmp_path / "out/flowers/1.0.0") == files(tmp_path / "whole/flowers/1.0.0")


# A source that changes meanwhile


@pytest.mark.parametrize("ahead_s", [-60, 60])
def test_an_archive_that_another_takes_the_place_of_is_an_error_whatever_the_clock_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ahead_s: int
) -> None:
    """A file server has a clock of its own."""
    source = class_tree(tmp_path / "flowers", {"rose": 2, "tulip": 2})
    archive = Path(shutil.make_archive(str(tmp_path / "flowers"), "tar", tmp_path, "flowers"))
    other = Path(shutil.make_archive(str(tmp_path / "other"), "tar", tmp_path, "flowers"))
    shutil.rmtree(source)
    time_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: time_ns() + ahead_s * 10**9)

    def meddle() -> None:
        time.sleep(0.05)  # the clocks of file systems are slow
        other.replace(archive)

    with pytest.raises(ExecutionError, match=r"flowers\.tar changed while it was being packed"):
        imgrec.pack(archive, options(tmp_path / "out", shards=2), engine=_Meddler(meddle))


def test_an_archive_that_was_only_touched_is_packed_already(tmp_path: Path) -> None:
    class_tree(tmp_path / "flowers", {"rose": 2, "tulip": 2})
    archive = Path(shutil.make_archive(str(tmp_path / "flowers"), "gztar", tmp_path, "flowers"))
    assert imgrec.pack(archive, options(tmp_path / "out", shards=None)).is_new
    archive.touch()
    assert not imgrec.pack(archive, options(tmp_path / "out", shards=None)).is_new


def test_an_archive_that_is_dated_in_the_future_is_packed(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "flowers", {"rose": 2, "tulip": 2})
    archive = Path(shutil.make_archive(str(tmp_path / "flowers"), "tar", tmp_path, "flowers"))
    shutil.rmtree(source)
    tomorrow = time.time() + 86_400
    os.utime(archive, (tomorrow, tomorrow))
    time.sleep(0.02)  # the change of its date is a change, too
    assert imgrec.pack(archive, options(tmp_path / "out", shards=None)).is_new


class _Meddler(InlineEngine):
    """Does something when all files are scanned, before shards are written."""

    def __init__(self, meddle: Callable[[], object]) -> None:
        self.meddle = meddle

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        if isinstance(function, ShardWriter):
            self.meddle()
        return super().run(function, tasks)


def test_a_file_that_takes_the_place_of_another_after_the_scan_is_named(
    tmp_path: Path, source: Path
) -> None:
    large = source / "rose/large.jpg"  # small files are read when they are scanned
    data, other = jpeg(5, (300, 200), quality=95), jpeg(6, (300, 200), quality=94)
    size = max(len(data), len(other))
    write_tree(source, {"rose/large.jpg": data.ljust(size, b"\0")})
    write_tree(tmp_path, {"other.jpg": other.ljust(size, b"\0")})
    os.utime(tmp_path / "other.jpg", (1, 1))  # as old as can be

    def meddle() -> None:
        time.sleep(0.05)  # the clocks of file systems are slow
        (tmp_path / "other.jpg").replace(large)

    packed = imgrec.pack(source, options(tmp_path / "out"), engine=_Meddler(meddle))
    assert packed.report.skipped == (Note("rose/large.jpg", "changed while it was being packed"),)


def test_a_file_that_is_written_to_while_it_is_read_is_named(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    large, read = source / "rose/large.jpg", os.read
    size = large.stat().st_size

    def overwritten(descriptor: int, count: int) -> bytes:
        data = read(descriptor, count)
        if len(data) == size == count - 1:
            large.write_bytes(bytes(size))
        return data

    monkeypatch.setattr(os, "read", overwritten)
    packed = imgrec.pack(source, options(tmp_path / "out"), engine=InlineEngine())
    assert packed.report.skipped == (Note("rose/large.jpg", "changed while it was being packed"),)


def swap(one: Path, other: Path) -> None:
    time.sleep(0.05)  # as above
    one.rename(one.with_name("aside"))
    other.rename(one)
    one.with_name("aside").rename(other)


def test_folders_that_are_swapped_after_the_scan_are_an_error(tmp_path: Path) -> None:
    images = [encode(Image.new("RGB", (60, 40), colour), "BMP") for colour in ("red", "blue")]
    root = write_tree(tmp_path / "x", {"a/1.bmp": images[0], "b/1.bmp": images[1]})
    engine = _Meddler(lambda: swap(root / "a", root / "b"))
    with pytest.raises(ExecutionError, match="x/a changed while it was being packed"):
        imgrec.pack(root, options(tmp_path / "out", shards=1, val_split=0.0), engine=engine)
    assert not (tmp_path / "out/x/1.0.0").exists()


def test_a_link_that_leads_to_another_archive_after_the_scan_is_an_error(tmp_path: Path) -> None:
    class_tree(tmp_path / "x", {"a": 2, "b": 2})
    old, new = (shutil.make_archive(str(tmp_path / n), "tar", tmp_path / "x") for n in ("o", "n"))
    link = tmp_path / "x.tar"
    link.symlink_to(new)

    def point_to_old() -> None:
        time.sleep(0.05)  # as above
        link.unlink()
        link.symlink_to(old)

    with pytest.raises(ExecutionError, match=r"x\.tar changed while it was being packed"):
        imgrec.pack(link, options(tmp_path / "out", shards=1), engine=_Meddler(point_to_old))


def test_a_second_pack_of_a_dataset_that_is_being_packed_is_an_error(
    tmp_path: Path, source: Path, whole: dict[str, bytes]
) -> None:
    def pack_too() -> None:
        with pytest.raises(ExecutionError, match="another run is packing"):
            pack(source, tmp_path / "out")

    imgrec.pack(source, options(tmp_path / "out"), engine=_Meddler(pack_too))
    assert files(tmp_path / "out/flowers/1.0.0") == whole


def test_a_file_that_vanishes_after_the_scan_is_named(tmp_path: Path, source: Path) -> None:
    large = jpeg(5, (300, 200), quality=95)  # small files are read when they are scanned
    write_tree(source, {"rose/large.jpg": large})

    def on_progress(stage: str, _count: int, _total: int | None) -> None:
        if stage == "pack":
            (source / "rose/large.jpg").unlink(missing_ok=True)

    packed = imgrec.pack(
        source, options(tmp_path / "out", shards=60, check="header"), on_progress=on_progress
    )
    named = {file.filename for file in packed.report.skipped}
    records = {record.filename for record in imgrec.open_dataset(packed.info.path)["all"]}
    assert ("rose/large.jpg" in named) != ("rose/large.jpg" in records)


class _Loser(InlineEngine):
    """Returns the results of other shards than those it was asked for."""

    def __init__(self, lose: Callable[[list[ShardResult]], list[ShardResult]]) -> None:
        self.lose = lose

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        results: list[Any] = list(super().run(function, tasks))
        yield from self.lose(results) if isinstance(function, ShardWriter) else results


@pytest.mark.parametrize(
    ("lose", "what"),
    [
        (lambda found: found[1:], "was not written"),
        (lambda found: [replace(found[0], records=found[1].records), *found[1:]], "does not hold"),
    ],
)
def test_a_pack_that_lost_images_is_not_published(
    source: Path, data_dir: Path, lose: Callable[[list[ShardResult]], list[ShardResult]], what: str
) -> None:
    with pytest.raises(ExecutionError, match=rf"flowers-\w+\.tfrecord-\S+ {what}"):
        imgrec.pack(source, options(data_dir), engine=_Loser(lose))
    assert not (data_dir / "flowers/1.0.0").exists()


# Cleaning up


def test_clean_removes_what_was_cut_off_and_nothing_else(
    source: Path, data_dir: Path, cli: Cli
) -> None:
    pack(source, data_dir, version="2.0.0")
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    shown = cli("clean", "--dry-run", "--data-dir", data_dir)
    assert shown.stdout.startswith(f"would remove {staging(data_dir)}, ")
    assert staging(data_dir).exists()
    done = cli("clean", "--json", "--data-dir", data_dir)
    assert [left["path"] for left in json.loads(done.stdout)["removed"]] == [str(staging(data_dir))]
    left = sorted(path.name for path in (data_dir / "flowers").iterdir())
    assert left == [".2.0.0.origin.json", "2.0.0"]
    assert cli("clean", "--data-dir", data_dir).stdout == "nothing to remove\n"


def test_clean_leaves_what_it_did_not_make_and_where_links_lead(
    source: Path, data_dir: Path
) -> None:
    others = (
        "project/.cache.incomplete/thesis.tex", "flowers/.foo.incomplete/precious.txt",
        "flowers/.2.0.0.incomplete/my notes", "flowers/.3.0.0.replaced/mine",
    )  # fmt: skip
    write_tree(data_dir, dict.fromkeys(others, b"mine"))
    cut_off(source, data_dir.parent / "elsewhere", 3, KeyboardInterrupt())
    (data_dir / "linked").symlink_to(data_dir.parent / "elsewhere" / "flowers")
    assert imgrec.clean(data_dir=data_dir) == ()
    assert all((data_dir / name).exists() for name in others)
    assert staging(data_dir.parent / "elsewhere").exists()


def test_a_pack_leaves_alone_what_others_keep_where_it_would_grow(
    source: Path, data_dir: Path
) -> None:
    stage = data_dir / "flowers/.1.0.0.incomplete"
    write_tree(stage, {"mine/precious.txt": b"x"})
    with pytest.raises(ExecutionError, match="contains other files"):
        pack(source, data_dir)
    assert [path.name for path in (data_dir / "flowers").iterdir()] == [stage.name]
    assert (stage / "mine/precious.txt").read_bytes() == b"x"


def test_clean_brings_back_a_dataset_that_a_run_did_not_get_to_replace(
    source: Path, data_dir: Path, cli: Cli
) -> None:
    pack(source, data_dir)
    target = data_dir / "flowers/1.0.0"
    before = files(target)
    target.rename(data_dir / "flowers/.1.0.0.replaced")
    shown = cli("clean", "--dry-run", "--data-dir", data_dir)
    assert shown.stdout == f"would restore {target} (an overwrite was interrupted)\n"
    assert not target.exists()
    done = cli("clean", "--json", "--data-dir", data_dir)
    assert json.loads(done.stdout)["removed"] == []
    assert files(target) == before
    assert cli("clean", "--data-dir", data_dir).stdout == "nothing to remove\n"


def test_clean_removes_a_dataset_that_was_replaced(source: Path, data_dir: Path) -> None:
    pack(source, data_dir)
    shutil.copytree(data_dir / "flowers/1.0.0", data_dir / "flowers/.1.0.0.replaced")
    assert [left.restored for left in imgrec.clean(data_dir=data_dir)] == [""]
    left = sorted(path.name for path in (data_dir / "flowers").iterdir())
    assert left == [".1.0.0.origin.json", "1.0.0"]


def test_clean_leaves_a_running_pack_alone(source: Path, data_dir: Path) -> None:
    found: list[object] = []

    def on_progress(stage: str, _count: int, _total: int | None) -> None:
        if stage == "pack" and not found:
            found.append(imgrec.clean(data_dir=data_dir))

    imgrec.pack(source, options(data_dir), on_progress=on_progress)
    assert found == [()]


def test_a_pack_names_what_other_versions_left(source: Path, data_dir: Path) -> None:
    cut_off(source, data_dir, 5, KeyboardInterrupt())
    assert pack(source, data_dir, version="2.0.0").unfinished == (str(staging(data_dir)),)


# The note of a shard
