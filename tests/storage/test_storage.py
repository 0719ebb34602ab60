"""How output is written, locked and made visible."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

import imgrec
from imgrec.errors import ExecutionError
from imgrec.storage.files import create, lock, make_locked, write_file
from imgrec.storage.leftovers import find_leftovers
from imgrec.storage.staging import Staging

LARGE = 5 << 20


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Return the place of a dataset; nothing is there yet."""
    return tmp_path / "set" / "1.0.0"


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def fill(staging: Staging, text: bytes = b"new") -> None:
    write_file(str(staging.path / "file"), text)


def publish(target: Path, text: bytes = b"new") -> None:
    with Staging(target) as staging:
        fill(staging, text)
        staging.publish(())


def make_old(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "old").touch()


@given(
    st.lists(st.binary(max_size=300), max_size=20),
    st.sampled_from([0, 1, 4096, 3_000_000, 9_000_001]),
    st.sampled_from([100, LARGE]),
)
def test_a_file_holds_what_was_written_and_its_hash_is_right(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], repeat: int, expected: int
) -> None:
    path = tmp_path_factory.mktemp("files") / "file"
    parts = [*parts, b"x" * repeat, *parts]
    with create(str(path), expected_bytes=expected) as file:
        for part in parts:
            file.write(part)
    data = b"".join(parts)
    assert path.read_bytes() == data
    assert (file.position, file.sha256()) == (len(data), hashlib.sha256(data).hexdigest())


def test_a_disk_may_take_a_large_file_in_small_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write, pieces = os.write, [1, 511, 4096, 100_000] * 10

    def write_some(descriptor: int, data: memoryview) -> int:
        return write(descriptor, data[: pieces.pop()] if pieces else data)

    monkeypatch.setattr(os, "write", write_some)
    data = bytes(range(251)) * 40_000
    write_file(str(tmp_path / "file"), data)
    assert (tmp_path / "file").read_bytes() == data


@pytest.mark.parametrize("expected", [100, LARGE, 1 << 60], ids=["small", "large", "full disk"])
def test_a_file_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int
) -> None:
    def fail(_descriptor: int, _data: memoryview) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    path = tmp_path / "file"
    if expected < 1 << 60:
        with pytest.raises(RuntimeError), create(str(path), expected_bytes=expected) as file:
            file.write(b"half")
            raise RuntimeError
        assert names(tmp_path) == []
        monkeypatch.setattr(os, "write", fail)
    with (
        pytest.raises(ExecutionError, match=f"^cannot write {path}: ") as caught,
        create(str(path), expected_bytes=expected) as file,
    ):
        file.write(bytes(3_000_000))
    if expected < 1 << 60:
        assert caught.value.message == f"cannot write {path}: Input/output error"
    assert names(tmp_path) == []


def test_nothing_is_visible_before_publishing_and_all_of_it_after(target: Path) -> None:
    with Staging(target) as staging:
        fill(staging)
        assert not target.exists()
        staging.publish(())
    assert (target / "file").read_bytes() == b"new"
    assert names(target.parent) == ["1.0.0"]


def test_an_unpublished_dataset_leaves_no_trace(tmp_path: Path, target: Path) -> None:
    with Staging(target) as staging:
        fill(staging)
    assert names(tmp_path) == []


def test_leftovers_of_a_dead_run_are_cleared(target: Path) -> None:
    hidden = target.with_name(".1.0.0.incomplete")
    hidden.mkdir(parents=True)
    (hidden / "x-train.tfrecord-00000-of-00001").touch()
    with Staging(target) as staging:
        staging.keep((), ())
        fill(staging)
        staging.publish(())
    assert names(target) == ["file"]


def test_publishing_replaces_the_old_folder_whole(target: Path) -> None:
    make_old(target)
    publish(target)
    assert (names(target), names(target.parent)) == (["file"], ["1.0.0"])


def test_a_run_that_died_while_replacing_loses_nothing(target: Path) -> None:
    make_old(target.with_name(".1.0.0.replaced"))
    with Staging(target):
        assert names(target) == ["old"]
    assert names(target) == ["old"]


def test_a_file_that_vanished_before_publishing_is_an_error(target: Path) -> None:
    """As when a run on another machine has cleared the folder, where locks do not reach."""
    wrong = pytest.raises(ExecutionError, match="other is not what was written there")
    with wrong as caught, Staging(target) as staging:
        fill(staging)
        seal = write_file(str(staging.path / "other"), b"more")
        (staging.path / "other").unlink()
        staging.publish([seal])
    assert "another machine" in caught.value.hint
    assert not target.exists()


def interrupted_between_the_renames(target: Path, interruption: Callable[[], object]) -> None:
    """Replace a dataset, and call something when the old one has just been moved aside."""
    make_old(target)
    rename = Path.rename

    def renamed(self: Path, to: Path) -> Path:
        moved = rename(self, to)
        if str(to).endswith(".replaced"):
            interruption()
        return moved

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "rename", renamed)
        publish(target)


def test_an_interruption_while_replacing_restores_the_old_dataset(target: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_between_the_renames(target, interrupt)
    assert (names(target), names(target.parent)) == (["old"], ["1.0.0"])


def test_cleaning_while_a_dataset_is_replaced_does_not_restore_the_old_one(
    tmp_path: Path, target: Path
) -> None:
    cleaned: list[object] = []
    interrupted_between_the_renames(target, lambda: cleaned.extend(imgrec.clean(data_dir=tmp_path)))
    assert cleaned == []
    assert (names(target), names(target.parent)) == (["file"], ["1.0.0"])


def test_a_link_to_a_dataset_is_replaced_and_the_linked_folder_stays(
    tmp_path: Path, target: Path
) -> None:
    make_old(tmp_path / "elsewhere")
    target.parent.mkdir()
    target.symlink_to(tmp_path / "elsewhere")
    for text in (b"new", b"newer"):
        publish(target, text)
        assert (target / "file").read_bytes() == text
        assert names(target.parent) == ["1.0.0"]
    assert names(tmp_path / "elsewhere") == ["old"]


def test_a_hidden_folder_that_is_a_link_is_not_written_to(tmp_path: Path, target: Path) -> None:
    make_old(tmp_path / "elsewhere")
    target.parent.mkdir()
    target.with_name(".1.0.0.incomplete").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExecutionError, match="cannot write"):
        Staging(target).__enter__()
    assert names(tmp_path / "elsewhere") == ["old"]


def test_hidden_folders_of_others_or_just_removed_are_not_leftovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for version in ("1.0.0", "2.0.0", "3.0.0"):
        (tmp_path / f".{version}.incomplete").mkdir()
    answers = {".1.0.0.incomplete": PermissionError, ".2.0.0.incomplete": FileNotFoundError}

    def locked(path: Path) -> int:
        if path.name in answers:
            raise answers[path.name]
        return lock(path)

    monkeypatch.setattr("imgrec.storage.leftovers.lock", locked)
    assert [path.name for path in find_leftovers(tmp_path)] == [".3.0.0.incomplete"]


def test_where_folders_cannot_be_synced_files_still_are(
    target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def synced(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    publish(target)
    assert (target / "file").read_bytes() == b"new"


def test_an_interruption_while_a_thread_is_started_is_not_another_error(
    tmp_path: Path, target: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_self: threading.Thread) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Staging(target) as staging:
        fill(staging)
        monkeypatch.setattr(threading.Thread, "start", interrupt)
        staging.start_sync("file")
    assert names(tmp_path) == []


def test_two_runs_cannot_write_one_dataset(target: Path) -> None:
    with Staging(target) as staging:
        fill(staging, b"mine")
        with pytest.raises(ExecutionError, match="another run is packing") as caught:
            Staging(target).__enter__()
        assert caught.value.hint.startswith("wait for it")
        staging.publish(())
    assert (target / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("removes", [False, True])
def test_a_run_waits_for_one_that_only_looks_or_cleans(target: Path, removes: bool) -> None:
    """As `imgrec clean` does, and `imgrec info`, which takes the lock to see whether it is free."""
    hidden = target.with_name(".1.0.0.incomplete")
    held = make_locked(hidden)

    def finish() -> None:
        if removes:
            hidden.rmdir()
            hidden.parent.rmdir()
        os.close(held)

    other = threading.Timer(0.2, finish)
    other.start()
    publish(target)
    other.join()
    assert (target / "file").read_bytes() == b"new"


def test_a_crash_leaves_no_lock_behind(target: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from imgrec.storage.staging import Staging\n"
        "Staging(Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), 9)"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, target], env=environment, check=False)
    assert target.with_name(".1.0.0.incomplete").exists()
    publish(target)
    assert (target / "file").read_bytes() == b"new"


def test_a_data_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExecutionError, match=r"cannot write .*Not a directory") as caught:
        Staging(tmp_path / "file" / "set" / "1.0.0").__enter__()
    assert caught.value.exit_code == 6


def test_a_lock_belongs_to_the_folder_that_is_there_now(tmp_path: Path) -> None:
    """Another run may publish or remove a folder between our opening and our locking it."""
    folder = tmp_path / "folder"
    os.close(make_locked(folder))
    folder.rename(tmp_path / "published")
    again = make_locked(folder)
    assert os.fstat(again).st_ino == folder.stat().st_ino
    assert folder.stat().st_ino != (tmp_path / "published").stat().st_ino
    with pytest.raises(BlockingIOError):
        lock(folder)
    os.close(again)


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="there is no /proc")
def test_files_are_synced_before_they_are_visible_and_all_folders_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "data" / "set" / "1.0.0"
    hidden = target.with_name(".1.0.0.incomplete")
    synced: list[tuple[str, bool]] = []
    fsync = os.fsync

    def note(descriptor: int) -> None:
        synced.append((os.readlink(f"/proc/self/fd/{descriptor}"), target.exists()))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", note)
    with Staging(target) as staging:
        fill(staging)
        staging.start_sync("file")
        write_file(str(staging.path / "other"), b"more")
        staging.publish(())
    assert synced[:3] == [
        (path, False) for path in (f"{hidden}/file", f"{hidden}/other", str(hidden))
    ]
    assert set(synced[3:]) == {
        (str(path), True) for path in (target.parent, target.parent.parent, tmp_path)
    }
