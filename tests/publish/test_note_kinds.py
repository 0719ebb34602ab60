"""A new kind of note takes the two edits that CONTRIBUTING names, and everything shows it."""

from __future__ import annotations

import csv
import json
import os
import shutil
from pathlib import Path

from conftest import ROOT, Cli
from pictures import class_tree, encode, picture

MEMBERS = """\
    ANIMATED = "animated", "More than one frame"
    ODD = "odd", "Odd names"
    UNWANTED = "unwanted", "Skipped", "skipped"
"""
WHEN_PLANNING = """\
            Note("a/000.jpg", "odd name", NoteKind.ODD),
            Note("b/none.jpg", "not wanted", NoteKind.UNWANTED),
"""
WHEN_WRITING = """\
            if filename.endswith(".gif"):
                self.notes.append(Note(filename, "2 frames", NoteKind.ANIMATED))
"""
NOTES = {
    "animated": ("a/x.gif", "2 frames"),
    "odd": ("a/000.jpg", "odd name"),
    "skipped": ("b/none.jpg", "not wanted"),
}


def insert(path: Path, before: str, text: str) -> None:
    code = path.read_text()
    assert code.count(before) == 1
    path.write_text(code.replace(before, text + before))


def test_a_new_kind_of_note_is_shown_everywhere(cli: Cli, tmp_path: Path) -> None:
    # In a copy of imgrec, because Python cannot add a member to an enum.
    code = shutil.copytree(ROOT / "imgrec", tmp_path / "imgrec")
    insert(code / "notes.py", "    WARNING = ", MEMBERS)
    insert(code / "planning" / "build.py", "            *catalog.notes,", WHEN_PLANNING)
    insert(code / "write" / "shard.py", "            self._add(image,", WHEN_WRITING)
    source = class_tree(tmp_path / "roses", {"a": 3, "b": 3})
    frames = {"save_all": True, "append_images": [picture(2)]}
    (source / "a" / "x.gif").write_bytes(encode(picture(1), "GIF", **frames))
    own = {"env": os.environ | {"TFDS_DATA_DIR": str(tmp_path / "data")}}

    planned, packed = (cli(verb, source, **own).stdout for verb in ("plan", "pack"))
    value = json.loads(cli("pack", source, "--json", **own).stdout)
    dataset = tmp_path / "data" / "roses" / "1.0.0"
    report = json.loads((dataset / "report.json").read_bytes())
    for key, (file, reason) in NOTES.items():
        lines = f"{key:<12}1 file\n            1 x {reason}: {file}\n"
        assert (lines in planned, lines in packed) == (key != "animated", True)
        assert report[key] == [{"file": file, "reason": reason}]
        assert value[key] == (report[key] if key == "skipped" else 1)
    page = (dataset / "report.html").read_text()
    assert all(f"<h3>{title}</h3>" in page for title in ("More than one frame", "Odd names"))
    with (dataset / "skipped.csv").open(newline="") as listed:
        assert list(csv.reader(listed)) == [["file", "reason"], ["b/none.jpg", "not wanted"]]
