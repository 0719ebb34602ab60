"""File names are UTF-8 in every locale, so that every machine makes the same dataset."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import ROOT
from pictures import jpeg, write_tree

# Every machine has this locale, whose encoding is not UTF-8. Python must not replace it.
PLAIN = {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}
NOT_UTF8 = os.fsdecode(b"caf\xe9")


def run(folder: Path, *command: str, locale: bool, **variables: str) -> str:
    """Run Python in a folder, in the C locale or in one with UTF-8."""
    chosen = PLAIN if locale else {"LC_ALL": "C.UTF-8"}
    kept = {name: value for name, value in os.environ.items() if not name.startswith("LC_")}
    environment = {**kept, "PYTHONPATH": str(ROOT), **chosen, **variables}
    done = subprocess.run(
        [sys.executable, *command], cwd=folder, env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.isascii() or not locale
    return done.stdout.decode()


def flowers(folder: Path) -> Path:
    root = write_tree(
        folder / "bl\u00fcmen",
        {
            f"{name}/\u00fc{number}.jpg": jpeg(number * 10 + len(name))
            for name in ("\u00e9", "\u5929\u7afa", "rose", "\u00e4")
            for number in range(2)
        },
    )
    write_tree(root, {"\u00e9/\u00f6.txt": b"", "\u00e9/broken\u00fc.jpg": b"no"})
    write_tree(root, {"rose/large.jpg": jpeg(7, (300, 200))})
    (root / "rose/link \u00fc.jpg").symlink_to(root / "\u00e9/\u00fc0.jpg")
    (root / "\u00df").symlink_to("\u00e4")
    return root


def sources(folder: Path) -> list[str]:
    names = ["bl\u00fcmen", "zip\u00fc.zip", "nested\u00fc", "tabl\u00e9/x.csv"]
    if (folder / names[0]).exists():
        return names
    root = flowers(folder)
    shutil.make_archive(str(folder / "zip\u00fc"), "zip", root)
    os.makedirs(folder / "nested\u00fc")
    shutil.make_archive(str(folder / "nested\u00fc" / "\u00e9"), "tar", root / "\u00e9")
    shutil.make_archive(str(folder / "nested\u00fc" / "\u00e4"), "tar", root / "\u00e4")
    rows = [
        f"{path.relative_to(root)},{path.parent.name}" for path in sorted(root.glob("*/\u00fc*"))
    ]
    write_tree(folder, {"tabl\u00e9/x.csv": "\n".join(["path,l\u00e4bel", *rows]).encode()})
    write_tree(root, {f"rose/{NOT_UTF8}.jpg": jpeg(99)})  # a name that no zip can hold
    return names


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def options_of(source: str) -> list[str]:
    reading = ["--images", "bl\u00fcmen", "--label-col", "l\u00e4bel", "--exclude", "*/\u00fc1*"]
    return [*(reading if source.endswith(".csv") else ()), "--name", "x", "--max-bad", "1"]


@pytest.mark.slow
def test_the_command_makes_the_same_files_in_every_locale(tmp_path: Path) -> None:
    for source in sources(tmp_path):
        packed = {}
        for locale in (False, True):
            out = f"out\u00fc{locale}/{source}"
            command = ["-m", "imgrec", "pack", source, "--data-dir", out, *options_of(source)]
            run(tmp_path, *command, locale=locale)
            packed[locale] = files(tmp_path / out / "x/1.0.0")
        assert packed[True] == packed[False], source


PACK = """
import os, sys
import imgrec

assert sys.getfilesystemencoding() != "utf-8" or os.environ["LC_ALL"] != "C"
for number, source in enumerate(sys.argv[1:]):
    reading = {}
    if source.endswith(".csv"):
        reading = {"images": "bl\\u00fcmen", "label_col": "l\\u00e4bel"}
    if number % 2:  # as text, not as the system gives it
        source = os.fsencode(source).decode()
    options = imgrec.PackOptions(
        source=imgrec.SourceOptions(exclude=("*/\\u00fc1*",), **reading),
        name="x", data_dir=f"out\\u00fc{number}", max_bad=1, workers=1 + number // 2 % 2,
    )
    packed = imgrec.pack(source, options)
    assert not imgrec.pack(source, options).is_new
    imgrec.unpack(packed.info.path, f"out\\u00fc{number}/again")
assert not imgrec.verify(packed.info.path).faults
"""


@pytest.mark.slow
def test_the_library_makes_the_same_files_in_every_locale(tmp_path: Path) -> None:
    (tmp_path / "pack.py").write_text(PACK)
    made = []
    for locale in (False, True):
        run(tmp_path, "pack.py", *sources(tmp_path), locale=locale)
        outs = sorted(tmp_path.glob("out\u00fc*"))
        assert len(outs) == 4
        paths = [path for out in outs for path in out.rglob("*") if path.is_file()]
        shown = [path for path in paths if not path.name.startswith(".")]
        made.append({path.relative_to(tmp_path): path.read_bytes() for path in shown})
        for out in outs:
            shutil.rmtree(out)
    assert made[0] == made[1]


def test_the_command_prints_escapes_for_letters_that_the_locale_lacks(tmp_path: Path) -> None:
    flowers(tmp_path)
    said = run(tmp_path, "-m", "imgrec", "plan", "bl\u00fcmen", locale=True)
    assert "\\xe9: 2 train" in said
    assert "\\u5929\\u7afa: 2 train" in said


def test_the_command_respects_the_utf8_option_of_python(tmp_path: Path) -> None:
    flowers(tmp_path)
    command = ["-X", "utf8=0", "-m", "imgrec", "plan", "bl\u00fcmen"]
    assert "\\xe9: 2 train" in run(tmp_path, *command, locale=True)
