"""How output is written, locked and made visible."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from imgrec.errors import ExecutionError
from imgrec.storage.files import create, write_file
from imgrec.storage.staging import Staging


@given(st.lists(st.binary(max_size=300), max_size=20), st.sampled_from([0, 1, 3_000_000]))
def test_a_file_holds_what_was_written_and_its_seal_is_true(
    tmp_path_factory: pytest.TempPathFactory, parts: list[bytes], repeat: int
) -> None:
    path = tmp_path_factory.mktemp("files") / "file"
    large = [b"x" * repeat] if repeat else []
    with create(str(path), expected_bytes=100) as file:
        file.write(*parts, *large)
        file.write(*parts)
    data = b"".join([*parts, *large, *parts])
    assert path.read_bytes() == data
    assert (file.position, file.sha256()) == (len(data), hashlib.sha256(data).hexdigest())


def test_a_file_that_fails_in_the_middle_leaves_nothing_under_its_name(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), create(str(tmp_path / "file")) as file:
        file.write(b"half")
        raise RuntimeError
    assert not (tmp_path / "file").exists()


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
        staging.publish()
    assert (target / "file").read_bytes() == b"new"
    assert [path.name for path in target.parent.iterdir()] == ["1.0.0"]


def test_what_is_not_published_leaves_no_trace(tmp_path: Path) -> None:
    with Staging(tmp_path / "set" / "1.0.0") as staging:
        fill(staging, b"new")
    assert list(tmp_path.iterdir()) == []


def test_leftovers_of_a_dead_run_are_cleared(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    (target.parent / ".1.0.0.incomplete").mkdir(parents=True)
    (target.parent / ".1.0.0.incomplete" / "old").touch()
    with Staging(target) as staging:
        staging.keep((), ())
        fill(staging, b"new")
        staging.publish()
    assert [path.name for path in target.iterdir()] == ["file"]


def test_publishing_replaces_the_old_folder_whole(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    target.mkdir(parents=True)
    (target / "old").touch()
    with Staging(target) as staging:
        fill(staging, b"new")
        staging.publish()
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


def test_two_runs_cannot_write_one_dataset(tmp_path: Path) -> None:
    target = tmp_path / "set" / "1.0.0"
    with Staging(target) as staging:
        fill(staging, b"mine")
        with pytest.raises(ExecutionError, match="another run is packing") as caught:
            Staging(target).__enter__()
        assert caught.value.hint.startswith("wait for it")
        staging.publish()
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
        staging.publish()
    assert (target / "file").read_bytes() == b"next"


def test_a_data_dir_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ExecutionError, match=r"cannot write .*Not a directory") as caught:
        Staging(tmp_path / "file" / "set" / "1.0.0").__enter__()
    assert caught.value.exit_code == 6
