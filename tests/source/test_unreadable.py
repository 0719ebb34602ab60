"""A disk's fault is not an image's: only a file's own faults skip it, any other ends the run."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import TypeVar

import pytest
from conftest import ROOT
from faulty import broken
from inline import ENGINE, InlineEngine, pack
from pictures import jpeg, png, write_tree

import imgrec
from imgrec.errors import ExecutionError, SourceError
from imgrec.options import PackOptions, SourceOptions
from imgrec.storage.blobs import close_files
from imgrec.storage.read_errors import image_fault

T = TypeVar("T")
R = TypeVar("R")

PASSING = [errno.EIO, errno.ESTALE, errno.EMFILE]
OWN = [errno.ENOENT, errno.EACCES, errno.EPERM, errno.ELOOP, errno.ENAMETOOLONG]
LARGE = "rose/large.jpg"
"""Not read whole by the first look, as all others are."""


@pytest.fixture
def source(tmp_path: Path) -> Path:
    tree = {f"rose/{n}.png": png(n) for n in range(6)} | {
        f"tulip/{n}.png": png(9 + n) for n in range(6)
    }
    return write_tree(tmp_path / "flowers", {**tree, LARGE: jpeg(1, (300, 200), quality=95)})


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def names(folder: Path) -> set[str]:
    return {record.filename for record in imgrec.open_dataset(folder)["all"]}


@pytest.mark.parametrize("error", PASSING, ids=errno.errorcode.get)
@pytest.mark.parametrize("call", ["open", "read"])
@pytest.mark.parametrize("after", [0, 1])
def test_an_error_that_may_pass_ends_the_run_and_the_next_one_packs_all(
    tmp_path: Path, source: Path, error: int, call: str, after: int
) -> None:
    """Be it met by the first look or by the writer, as it is after one good call."""
    whole = files(pack(source, tmp_path / "whole", shards=3))
    with (
        broken(source / LARGE, error, call, after) as failed,
        pytest.raises(ExecutionError) as caught,
    ):
        pack(source, tmp_path / "out", shards=3)
    assert failed
    assert str(caught.value) == f"cannot read {source / LARGE}: {os.strerror(error)}"
    assert caught.value.hint.endswith(f"pass --exclude {LARGE}")
    assert files(pack(source, tmp_path / "out", shards=3)) == whole


def test_every_error_that_is_not_the_files_own_ends_the_run(source: Path) -> None:
    for code in errno.errorcode.keys() - {*OWN, errno.ENOTDIR, errno.EISDIR, errno.ENXIO}:
        with pytest.raises(ExecutionError):
            image_fault(OSError(code, os.strerror(code)), str(source / LARGE))


@pytest.mark.parametrize("error", OWN, ids=errno.errorcode.get)
@pytest.mark.parametrize("after", [0, 1])
def test_an_error_about_a_file_itself_skips_it(
    tmp_path: Path, source: Path, error: int, after: int
) -> None:
    with broken(source / LARGE, error, "open", after) as failed:
        folder = pack(source, tmp_path / "out")
    assert failed
    assert LARGE not in names(folder)
    assert f"{LARGE},unreadable: {os.strerror(error)}" in (folder / "skipped.csv").read_text()


class Cut(InlineEngine):
    """Does something when so many tasks of a kind are done."""

    def __init__(self, kind: str, act: Callable[[], object], after: int = 0) -> None:
        self._kind, self._act, self._after = kind, act, after

    def run(self, function: Callable[[T], R], tasks: Iterable[T]) -> Generator[R, None, None]:
        is_it = getattr(function, "__name__", type(function).__name__) == self._kind
        for number, task in enumerate(tasks):
            if is_it and number == self._after:
                self._act()
            yield function(task)


def test_finished_shards_are_kept_when_a_disk_fails(tmp_path: Path, source: Path) -> None:
    write_tree(source, {f"rose/l{n}.jpg": jpeg(n, (300, 200), quality=95) for n in range(6)})
    whole = files(pack(source, tmp_path / "whole", shards=4))
    where = tmp_path / "out/flowers/.1.0.0.incomplete"
    options = PackOptions(data_dir=str(tmp_path / "out"), shards=4)
    kept = []
    for name in [LARGE, *(f"rose/l{n}.jpg" for n in range(6))]:
        with broken(source / name, errno.EIO, after=1), pytest.raises(ExecutionError):
            imgrec.pack(source, options, engine=ENGINE)
        kept.append(len(list(where.glob("*-of-00004"))) if where.exists() else 0)
    packed = imgrec.pack(source, options, engine=ENGINE)
    assert packed.kept_shards == kept[-1] > 1
    assert files(Path(packed.info.path)) == whole


@pytest.mark.parametrize("kind", ["zip", "tar"])
@pytest.mark.parametrize("error", [errno.EIO, errno.ENOENT])
def test_an_archive_that_cannot_be_read_ends_the_run(
    tmp_path: Path, source: Path, kind: str, error: int
) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "a" / "flowers"), kind, source))
    whole = files(pack(archive, tmp_path / "whole", max_bad=1))
    for after in range(0, 26, 5):
        wrong = pytest.raises(ExecutionError, match=os.strerror(error))
        close_files()
        with broken(archive, error, "pread", after), wrong:
            pack(archive, tmp_path / "out", max_bad=1)
    assert files(pack(archive, tmp_path / "out", max_bad=1)) == whole


def test_a_member_whose_checksum_is_wrong_is_bad_itself(tmp_path: Path, source: Path) -> None:
    archive = Path(shutil.make_archive(str(tmp_path / "flowers"), "zip", source))
    data = archive.read_bytes()
    at = data.index(LARGE.encode()) + len(LARGE) + 500
    archive.write_bytes(data[:at] + bytes([data[at] ^ 255]) + data[at + 1 :])
    assert LARGE not in names(pack(archive, tmp_path / "out"))


@pytest.mark.parametrize(
    ("folder", "call", "after"),
    [("rose", "scandir", 0), ("", "scandir", 1), ("", "scandir", 0), ("", "listdir", 0)],
)
def test_a_folder_that_cannot_be_listed_ends_the_run(
    tmp_path: Path, source: Path, folder: str, call: str, after: int
) -> None:
    with (
        broken(source / folder, errno.EIO, call, after),
        pytest.raises(ExecutionError, match="Input/output error") as caught,
    ):
        pack(source, tmp_path / "out")
    assert caught.value.path.rstrip("/") == str(source / folder)
    assert len(names(pack(source, tmp_path / "out"))) == 13


def test_a_table_whose_folder_of_images_cannot_be_listed_ends_the_run(
    tmp_path: Path, source: Path
) -> None:
    rows = [path.relative_to(source) for path in sorted(source.rglob("*.??g"))]
    lines = "".join(f"{row},{row.parent}\n" for row in rows)
    (source / "labels.csv").write_text(f"image,label\n{lines}")
    with broken(source / "rose", errno.EIO, "scandir"), pytest.raises(ExecutionError):
        pack(source / "labels.csv", tmp_path / "out")
    with (
        broken(source / "rose", errno.EACCES, "scandir"),
        pytest.raises(SourceError, match=r"folders that cannot be read: rose \(Permission") as said,
    ):
        pack(source / "labels.csv", tmp_path / "out", max_bad=1)
    assert said.value.hint.endswith("--exclude 'rose/*'")
    (source / "labels.csv").write_text("image,label\ntulip/1.png,tulip\ntulip/2.png,tulip\n")
    with broken(source / "rose", errno.EACCES, "scandir"):
        assert len(names(pack(source / "labels.csv", tmp_path / "out"))) == 2


def vanish(source: Path, how: str) -> None:
    source.rename(source.with_name("elsewhere"))
    if how == "empty":  # as when a disk is unmounted, and the folder that it was mounted on is left
        source.mkdir()


@pytest.mark.parametrize("how", ["gone", "empty"])
@pytest.mark.parametrize("kind", ["probe", "ShardWriter"])
@pytest.mark.parametrize("layout", ["folders", "flat"])
def test_a_source_that_vanishes_ends_the_run(
    tmp_path: Path, how: str, kind: str, layout: str
) -> None:
    folder = "rose/" if layout == "folders" else "rose-"
    large = {f"{folder}{n}.jpg": jpeg(n, (300, 200), quality=95) for n in range(8)}
    source = write_tree(tmp_path / "flowers", large)
    options = PackOptions(
        source=SourceOptions(label_regex="^[a-z]+" if layout == "flat" else ""),
        data_dir=str(tmp_path / "out"), shards=4, max_bad=1,
    )  # fmt: skip
    engine = Cut(kind, lambda: vanish(source, how), after=2 if kind == "ShardWriter" else 0)
    with pytest.raises(ExecutionError, match=r"is gone|is empty now") as caught:
        imgrec.pack(source, options, engine=engine)
    assert "mounted" in caught.value.hint
    if source.exists():
        source.rmdir()
    (tmp_path / "elsewhere").rename(source)
    packed = imgrec.pack(source, options, engine=ENGINE)
    assert len(names(Path(packed.info.path))) == 8


def test_a_link_to_a_disk_that_vanishes_ends_the_run(tmp_path: Path) -> None:
    pool = write_tree(
        tmp_path / "pool", {f"{n}.jpg": jpeg(n, (300, 200), quality=95) for n in range(8)}
    )
    (tmp_path / "flowers/rose").mkdir(parents=True)
    for path in pool.iterdir():
        os.symlink(path, tmp_path / "flowers/rose" / path.name)
    options = PackOptions(data_dir=str(tmp_path / "out"), shards=4, max_bad=1)
    engine = Cut("ShardWriter", lambda: vanish(pool, "gone"), after=2)
    with pytest.raises(ExecutionError, match="pool is gone"):
        imgrec.pack(tmp_path / "flowers", options, engine=engine)


def test_no_file_that_globs_leave_out_is_opened(tmp_path: Path, source: Path) -> None:
    left = PackOptions(source=SourceOptions(exclude=(LARGE,)), data_dir=str(tmp_path / "out"))
    with broken(source / LARGE, errno.EIO) as failed:
        report = imgrec.pack(source, left, engine=ENGINE).report
    assert not failed
    assert [(one.kind, one.count) for one in report.ignored] == [
        (f"left out by --exclude {LARGE}", 1)
    ]
    wanted = PackOptions(
        source=SourceOptions(include=("tulip/*",)), data_dir=str(tmp_path / "tulips")
    )
    with broken(source / LARGE, errno.EIO) as failed:
        assert imgrec.pack(source, wanted, engine=ENGINE).report.classes == ("tulip",)
    assert not failed


@pytest.mark.parametrize("asked", [
    {"near_dups": "group"}, {"near_dups": "drop"}, {"split_from": "flowers:0.0.1"}, {"min_side": 4},
])  # fmt: skip
def test_every_image_pass_ends_with_the_disk_and_respects_exclude(
    tmp_path: Path, source: Path, asked: dict[str, object]
) -> None:
    pack(source, tmp_path / "out", version="0.0.1")
    where = SourceOptions(min_side=int(str(asked.pop("min_side", 0))))
    for after, exclude in ((0, ()), (1, ()), (2, ()), (0, (LARGE,))):
        options = PackOptions(
            source=SourceOptions(min_side=where.min_side, exclude=exclude),
            data_dir=str(tmp_path / "out"), val_split=0.2, **asked,  # type: ignore[arg-type]
        )  # fmt: skip
        with broken(source / LARGE, errno.EIO, after=after) as failed:
            if exclude:
                imgrec.pack(source, options, engine=ENGINE)
            else:
                with pytest.raises(ExecutionError, match="Input/output error"):
                    imgrec.pack(source, options, engine=ENGINE)
        assert bool(failed) is not bool(exclude)


def test_hashing_of_possible_duplicates_ends_with_the_disk(tmp_path: Path, source: Path) -> None:
    shutil.copy(source / LARGE, source / "tulip/copy.jpg")
    with broken(source / LARGE, errno.EIO, after=1), pytest.raises(ExecutionError) as caught:
        pack(source, tmp_path / "out")
    assert caught.value.hint.endswith(f"--exclude {LARGE}")


def test_a_report_without_a_picture_is_not_published(tmp_path: Path, source: Path) -> None:
    whole = files(pack(source, tmp_path / "whole"))
    with broken(source / LARGE, errno.EIO, after=2) as failed, pytest.raises(ExecutionError):
        pack(source, tmp_path / "out")
    assert len(failed) == 1
    packed = imgrec.pack(source, PackOptions(data_dir=str(tmp_path / "out")), engine=ENGINE)
    assert packed.kept_shards == 1
    assert files(Path(packed.info.path)) == whole


@pytest.mark.parametrize("after", [0, 1])
def test_looking_at_a_source_ends_with_the_disk(tmp_path: Path, source: Path, after: int) -> None:
    folder = pack(source, tmp_path / "out")
    for look in (
        lambda: imgrec.verify(folder, source=source, engine=ENGINE),
        lambda: imgrec.leaks(f"{source}/", engine=ENGINE),
    ):
        with broken(source / LARGE, errno.EIO, after=after), pytest.raises(ExecutionError):
            look()


# With rights as users have them, and in processes as they are


def unprivileged(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "imgrec", *map(str, arguments)]
    if os.geteuid() == 0:  # root reads everything, unless it gives that up
        if not shutil.which("setpriv"):
            pytest.skip("setpriv is not installed")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(command, text=True, capture_output=True, env=environment)


@pytest.mark.parametrize("mode", [0, 0o400])
def test_a_folder_without_rights_is_an_error_that_exclude_settles(
    tmp_path: Path, source: Path, mode: int
) -> None:
    """Whether its names can be listed or not."""
    arguments = ("pack", source, "--data-dir", tmp_path / "out", "--max-bad", "1")
    (source / "rose").chmod(mode)
    try:
        refused = unprivileged(*arguments)
        packed = unprivileged(*arguments, "--exclude", "rose/*", "--yes")
    finally:
        (source / "rose").chmod(0o700)
    assert refused.returncode in (3, 6)
    assert "rose" in refused.stderr
    assert "--exclude 'rose/*'" in refused.stderr
    assert packed.returncode == 0, packed.stderr
    assert "left out by --exclude rose/*" in packed.stdout
    assert "matches no file" not in packed.stdout
    folder = tmp_path / "out/flowers/1.0.0"
    assert names(folder) == {f"tulip/{n}.png" for n in range(6)}
    assert imgrec.verify(folder, source=source, engine=ENGINE).faults == ()


def test_workers_tell_of_a_disk_that_fails_and_the_next_command_goes_on(
    tmp_path: Path, source: Path
) -> None:
    write_tree(tmp_path / "site", {"sitecustomize.py": (
        b"import os\nopened = os.open\n"
        b"def fail(path, *rest, **options):\n"
        b"    if str(path).endswith('rose/large.jpg'): raise OSError(5, os.strerror(5))\n"
        b"    return opened(path, *rest, **options)\n"
        b"os.open = fail\n"
    )})  # fmt: skip
    command = [sys.executable, "-m", "imgrec", "pack", source, "--data-dir", tmp_path / "out"]
    faulty = {**os.environ, "PYTHONPATH": f"{tmp_path / 'site'}:{ROOT}"}
    done = subprocess.run(command, text=True, capture_output=True, env=faulty)
    assert done.returncode == 6
    assert done.stderr == (
        f"imgrec: cannot read {source / LARGE}: Input/output error\n"
        "  hint: if this is temporary, run it again: finished shards are reused; to pack without "
        f"it, pass --exclude {LARGE}\n"
    )
    assert not (tmp_path / "out/flowers/1.0.0").exists()
    healthy = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, text=True, capture_output=True, env=healthy)
    assert "13 images" in done.stdout


def test_spark_executors_skip_only_rows_whose_file_is_at_fault(tmp_path: Path) -> None:
    from imgrec.spark.job import Form
    from imgrec.spark.scan import Probe

    write_tree(tmp_path, {"1.jpg": jpeg(1)})
    probe = Probe(is_path=True, form=Form(), seed=0, root="", has_splits=False)

    def fault(name: str) -> str:
        return probe._image(str(tmp_path / name), name, None).fault

    assert fault("1.jpg") == ""
    assert fault("2.jpg") == "unreadable: No such file or directory"
    with broken(tmp_path / "1.jpg", errno.EIO), pytest.raises(ExecutionError, match="Input/output"):
        fault("1.jpg")
    with pytest.raises(ExecutionError, match="elsewhere is gone"):  # as on a machine without a disk
        fault("elsewhere/1.jpg")
