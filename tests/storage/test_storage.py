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

SMALL, LARGE = 100, 5 << 20
"""How many bytes are reserved for a file: fewer than are written, and more."""


@given(
    st.lists(st.binary(max_size=300), max_size=20),
    st.sampled_from([0, 1, 4096, 3_000_000, 4 << 20, 9_000_001]),
    st.sampled_from([SMALL, LARGE]),
)
def test_a_file_holds_what_was_written_and_its_seal_is_true(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], repeat: int, expected: int
) -> None:
    path = tmp_path_factory.mktemp("files") / "file"
    large = [b"x" * repeat] if repeat else []
    with create(str(path), expected_bytes=expected) as file:
        for part in [*parts, *large, *parts]:
            file.write(part)
    data = b"".join([*parts, *large, *parts])
    assert path.read_bytes() == data
    assert (file.position, file.sha256()) == (len(data), hashlib.sha256(data).hexdigest())


@pytest.mark.parametrize("expected", [SMALL, LARGE])
def test_a_file_that_fails_in_the_middle_leaves_nothing_under_its_name(
    tmp_path: Path, expected: int
) -> None:
    threads = threading.active_count()
    path = str(tmp_path / "file")
    with pytest.raises(RuntimeError), create(path, expected_bytes=expected) as file:
        file.write(b"half")
        raise RuntimeError
    assert not (tmp_path / "file").exists()
    assert threading.active_count() == threads


@pytest.mark.parametrize("most", [1, 511, 4096, 100_000])
def test_what_the_disk_takes_in_small_pieces_is_written_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    write, left = os.write, 50

    def write_some(descriptor: int, data: memoryview) -> int:
        nonlocal left
        left -= 1
        return write(descriptor, data[:most] if left > 0 else data)

    monkeypatch.setattr(os, "write", write_some)
    data = bytes(range(251)) * 40_000
    with create(str(tmp_path / "file"), expected_bytes=LARGE) as file:
        file.write(data)
    assert (tmp_path / "file").read_bytes() == data


def test_a_disk_that_fails_under_a_large_file_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_descriptor: int, _data: memoryview) -> int:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "write", fail)
    path = tmp_path / "file"
    with pytest.raises(ExecutionError) as caught, create(str(path), expected_bytes=LARGE) as file:
        for _ in range(10):
            file.write(bytes(3_000_000))
    assert caught.value.message == f"cannot write {path}: Input/output error"
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_is_known_before_the_work_and_named(tmp_path: Path) -> None:
    target = tmp_path / "file"
    with (
        pytest.raises(ExecutionError) as caught,
        create(str(target), expected_bytes=1 << 60) as file,
    ):
        file.write(b"never")
    assert str(caught.value).startswith(f"cannot write {target}: ")
    assert list(tmp_path.iterdir()) == []


def fill(staging: Staging, text: bytes) -> None:
    write_file(str(staging.path / "file"), text)


def test_nothing_is_visible_before_publishing_and_all_of_it_after(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    with Staging(target) as staging:
        fill(staging, b"new")
        assert not target.exists()
        staging.publish(())
    assert (target / "file").read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["1.0.0"]


def test_what_is_not_published_leaves_no_trace(tmp_path: Path) -> None:
    with Staging(tmp_path / "set" / "1.0.0") as staging:
        fill(staging, b"new")
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_dead_run_are_cleared(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    (target.parent / ".1.0.0.incomplete").mkdir(parents=True)
    (target.parent / ".1.0.0.incomplete" / "x-train.tfrecord-00000-of-00001").touch()
    with Staging(target) as staging:
        staging.keep((), ())
        fill(staging, b"new")
        staging.publish(())
    assert [path.name for path in target.iterdir()] == ["file"]


def test_publishing_replaces_the_old_folder_whole(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    target.mkdir(parents=True)
    (target / "old").touch()
    with Staging(target) as staging:
        fill(staging, b"new")
        staging.publish(())
    assert [path.name for path in target.iterdir()] == ["file"]
    assert [path.name for path in target.parent.iterdir()] == ["1.0.0"]


def test_a_run_that_died_while_replacing_loses_nothing(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    aside = target.with_name(".1.0.0.replaced")
    aside.mkdir(parents=True)
    (aside / "old").touch()
    with Staging(target):
        assert (target / "old").exists()
    assert (target / "old").exists()


def test_a_file_that_is_gone_when_all_is_to_be_published_is_an_error(tmp_path: Path) -> None:
    """As when a run on another machine has cleared the folder, where locks do not reach."""
    target = tmp_path / "set" / "1.0.0"
    wrong = pytest.raises(ExecutionError, match="other is not what was written there")
    with wrong as caught, Staging(target) as staging:
        fill(staging, b"new")
        seal = write_file(str(staging.path / "other"), b"more")
        (staging.path / "other").unlink()
        staging.publish([seal])
    assert "another machine" in caught.value.hint
    assert not target.exists()


def interrupted_between_the_renames(target: Path, what_happens: Callable[[], object]) -> None:
    """Replace a dataset, and let something happen when the old one has just been put aside."""
    rename = Path.rename

    def renamed(self: Path, to: Path) -> Path:
        moved = rename(self, to)
        if str(to).endswith(".replaced"):
            what_happens()
        return moved

    with pytest.MonkeyPatch.context() as patch, Staging(target) as staging:
        patch.setattr(Path, "rename", renamed)
        fill(staging, b"new")
        staging.publish(())


def test_an_interruption_while_replacing_brings_the_old_dataset_back(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    target.mkdir(parents=True)
    (target / "old").touch()

    def interrupt() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted_between_the_renames(target, interrupt)
    assert [path.name for path in target.parent.iterdir()] == ["1.0.0"]
    assert (target / "old").exists()


def test_cleaning_while_a_dataset_is_replaced_does_not_bring_the_old_one_back(
    tmp_path: Path,
) -> None:
    target = tmp_path / "set" / "1.0.0"
    target.mkdir(parents=True)
    (target / "old").touch()
    cleaned: list[object] = []
    interrupted_between_the_renames(target, lambda: cleaned.extend(imgrec.clean(data_dir=tmp_path)))
    assert cleaned == []
    assert [path.name for path in target.iterdir()] == ["file"]
    assert [path.name for path in target.parent.iterdir()] == ["1.0.0"]


def test_a_link_to_a_dataset_is_replaced_again_and_again_and_what_it_leads_to_stays(
    tmp_path: Path,
) -> None:
    target = tmp_path / "set" / "1.0.0"
    target.parent.mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "old").touch()
    target.symlink_to(tmp_path / "elsewhere")
    for text in (b"new", b"newer"):
        with Staging(target) as staging:
            fill(staging, text)
            staging.publish(())
        assert (target / "file").read_bytes() == text
        assert [path.name for path in target.parent.iterdir()] == ["1.0.0"]
    assert (tmp_path / "elsewhere" / "old").exists()


def test_what_others_have_or_what_has_just_gone_is_not_left_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in (".1.0.0.incomplete", ".2.0.0.incomplete", ".3.0.0.incomplete"):
        (tmp_path / "set" / name).mkdir(parents=True)
    answers = {".1.0.0.incomplete": PermissionError, ".2.0.0.incomplete": FileNotFoundError}

    def locked(path: Path) -> int:
        if path.name in answers:
            raise answers[path.name]
        return lock(path)

    monkeypatch.setattr("imgrec.storage.leftovers.lock", locked)
    assert [path.name for path in find_leftovers(tmp_path / "set")] == [".3.0.0.incomplete"]


def test_where_folders_cannot_be_synced_files_still_are(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fsync = os.fsync

    def synced(descriptor: int) -> None:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, "Invalid argument")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", synced)
    with Staging(tmp_path / "set" / "1.0.0") as staging:
        fill(staging, b"new")
        staging.publish(())
    assert (tmp_path / "set/1.0.0/file").read_bytes() == b"new"


def test_an_interruption_while_a_thread_is_started_is_not_another_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_self: threading.Thread) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), Staging(tmp_path / "set" / "1.0.0") as staging:
        fill(staging, b"new")
        monkeypatch.setattr(threading.Thread, "start", interrupt)
        staging.start_sync("file")
    assert list(tmp_path.iterdir()) == []


def test_two_runs_cannot_write_one_dataset(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    with Staging(target) as staging:
        fill(staging, b"mine")
        with pytest.raises(ExecutionError, match="another run is packing") as caught:
            Staging(target).__enter__()
        assert caught.value.hint.startswith("wait for it")
        staging.publish(())
    assert (target / "file").read_bytes() == b"mine"


@pytest.mark.parametrize("removes", [False, True])
def test_a_run_waits_for_one_who_only_looks_or_cleans(tmp_path: Path, removes: bool) -> None:
    """As `imgrec clean` does, and `imgrec info`, which takes the lock to see whether it is free."""
    target = tmp_path / "set" / "1.0.0"
    hidden = target.with_name(".1.0.0.incomplete")
    held = make_locked(hidden)

    def finish() -> None:
        if removes:
            hidden.rmdir()
            hidden.parent.rmdir()
        os.close(held)

    other = threading.Timer(0.2, finish)
    other.start()
    with Staging(target) as staging:
        fill(staging, b"mine")
        staging.publish(())
    other.join()
    assert (target / "file").read_bytes() == b"mine"


def test_a_crash_leaves_no_lock_behind(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from imgrec.storage.staging import Staging\n"
        "Staging(Path(sys.argv[1])).__enter__(); os.kill(os.getpid(), 9)"
    )
    target = tmp_path / "set" / "1.0.0"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code, target], env=environment, check=False)
    assert target.with_name(".1.0.0.incomplete").exists()
    with Staging(target) as staging:
        fill(staging, b"next")
        staging.publish(())
    assert (target / "file").read_bytes() == b"next"


def test_a_data_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExecutionError, match=r"cannot write .*Not a directory") as caught:
        Staging(tmp_path / "file" / "set" / "1.0.0").__enter__()
    assert caught.value.exit_code == 6


def test_a_lock_is_of_the_folder_that_is_there_now(tmp_path: Path) -> None:
    """Another run may publish or remove a folder between our opening and our locking it."""
    folder = tmp_path / "folder"
    held = make_locked(folder)
    folder.rename(tmp_path / "published")
    os.close(held)
    descriptor = os.open(tmp_path / "published", os.O_RDONLY)
    again = make_locked(folder)
    assert os.fstat(again).st_ino == folder.stat().st_ino != os.fstat(descriptor).st_ino
    with pytest.raises(BlockingIOError):
        lock(folder)
    os.close(again)
    os.close(descriptor)


def test_a_hidden_folder_that_is_a_link_is_not_written_to(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    (tmp_path / "elsewhere").mkdir()
    target.parent.mkdir()
    target.with_name(".1.0.0.incomplete").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ExecutionError, match="cannot write"):
        Staging(target).__enter__()
    assert list((tmp_path / "elsewhere").iterdir()) == []


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

    if not Path("/proc/self/fd").exists():
        pytest.skip("there is no /proc")
    monkeypatch.setattr(os, "fsync", note)
    with Staging(target) as staging:
        fill(staging, b"new")
        staging.start_sync("file")
        write_file(str(staging.path / "other"), b"more")
        staging.publish(())
    names = [(path, False) for path in (f"{hidden}/file", f"{hidden}/other", str(hidden))]
    assert synced[:3] == names
    assert set(synced[3:]) == {
        (str(path), True) for path in (target.parent, target.parent.parent, tmp_path)
    }
