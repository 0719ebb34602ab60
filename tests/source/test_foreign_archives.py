"""Archives that imgrec does not read are refused with the command that unpacks them."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from archives import FLOWERS, zip_bytes
from conftest import Cli
from pictures import write_tree

SEVEN, RAR = b"7z\xbc\xaf\x27\x1c" + bytes(50), b"Rar!\x1a\x07\x01\0" + bytes(50)


def refusal(cli: Cli, source: str) -> list[str]:
    done = cli("pack", source)
    assert done.returncode == 3, done.stdout
    return done.stderr.splitlines()


@pytest.mark.parametrize(
    ("name", "data", "kind", "command"),
    [
        ("a.7z", SEVEN, "7z archives", "7z x a.7z -oa, and pack a"),
        ("a.rar", RAR, "RAR archives", "unrar x a.rar a/, and pack a"),
        ("my a.7z", SEVEN, "7z archives", "7z x 'my a.7z' -o'my a', and pack 'my a'"),
        ("a.7z.001", SEVEN, "7z archives", "7z x a.7z.001 -oa, and pack a"),
        ("a", SEVEN, "7z archives", "7z x a -oa_unpacked, and pack a_unpacked"),
        (
            "a.zip.001",
            b"PK\x03\x04 ...",
            "parts of a split archive",
            "cat a.zip.??? > a.zip, and pack a.zip",
        ),
    ],
)
def test_a_source_is_refused_with_its_command(
    cli: Cli, tmp_path: Path, name: str, data: bytes, kind: str, command: str
) -> None:
    (tmp_path / name).write_bytes(data)
    assert refusal(cli, name) == [
        f"imgrec: imgrec does not read {kind}: {name}",
        f"  hint: run: {command}",
    ]


def test_a_download_of_such_archives_lists_them_all(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "cifar", {"train.7z": SEVEN, "test.7z": SEVEN})
    (tmp_path / "cifar" / "trainLabels.csv").write_text("id,label\n1,cat\n")
    commands = [f"7z x cifar/{name}.7z -ocifar/{name}" for name in ("test", "train")]
    assert refusal(cli, "cifar") == [
        "imgrec: imgrec does not read 7z archives: cifar/test.7z, cifar/train.7z",
        f"  hint: run: {' && '.join(commands)}, and pack the folder again",
    ]


def test_what_was_unpacked_beside_it_is_packed(cli: Cli, tmp_path: Path) -> None:
    write_tree(tmp_path / "set", {"train.7z": SEVEN, **{f"train/{n}": FLOWERS[n] for n in FLOWERS}})
    done = cli("plan", "set")
    assert done.returncode == 0, done.stderr
    assert "2 classes" in done.stdout


def test_one_in_a_zip_is_named(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "set.zip").write_bytes(zip_bytes({"photos.7z": SEVEN, "read.txt": b"hello"}))
    first, hint = refusal(cli, "set.zip")
    assert first == "imgrec: imgrec does not read 7z archives: photos.7z in set.zip"
    assert hint == (
        "  hint: unpack the outer archive; then run: 7z x photos.7z -ophotos, and pack photos"
    )


@pytest.mark.skipif(shutil.which("zip") is None, reason="zip is not installed")
def test_the_parts_of_a_zip_are_joined_by_the_command(cli: Cli, tmp_path: Path) -> None:
    noise = {f"rose/{n}.bin": bytes(range(256)) * 100 for n in range(4)}
    write_tree(tmp_path / "x", {**FLOWERS, **noise})
    subprocess.run(
        ["zip", "-q", "-0", "-r", "-s", "64k", "../a.zip", "."], cwd=tmp_path / "x", check=True
    )
    for part in ("a.zip", "a.z01"):
        first, hint = refusal(cli, part)
        assert "parts of a split archive" in first
        assert hint == "  hint: run: zip -s 0 a.zip --out a_whole.zip, and pack a_whole.zip"
    subprocess.run("zip -q -s 0 a.zip --out a_whole.zip", shell=True, cwd=tmp_path, check=True)
    assert cli("plan", "a_whole.zip").returncode == 0
