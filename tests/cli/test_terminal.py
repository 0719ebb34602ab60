"""Datasets shown in a terminal: info, head and show."""

from __future__ import annotations

import base64
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Cli
from damage import edit_json
from hypothesis import given
from hypothesis import strategies as st
from inline import pack
from pictures import class_tree, jpeg, png, write_tree
from screen import environment, on_a_terminal

from imgrec.cli.info import class_lines
from imgrec.cli.render import Terminal, cells_of, this_terminal

BIG = png(99, size=(200, 50))
NAMES = ["a", "天竺葵", "🌹 rose", "évé", "e\u0301ve\u0301", "x" * 90]
LONG = "long " * 20 + ".jpg"
HOSTILE = "a\x1b[31mb/c\x1b]0;d.jpg"


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`flowers`, with two splits; `zipped`, the same compressed; `many`, with 64 classes."""
    root = tmp_path_factory.mktemp("terminal")
    flowers = class_tree(root / "flowers", {"rose": 6, "天竺葵": 12})
    write_tree(flowers / "rose", {"big.png": BIG, "grey.jpg": jpeg(98, mode="L")})
    pack(flowers, root / "datasets", val_split=0.25)
    pack(flowers, root / "datasets", val_split=0.25, name="zipped", compression="gzip")
    many = {f"n{number:03d}": 2 + number % 5 for number in range(63)}
    pack(class_tree(root / "many", {**many, "most": 20}), root / "datasets")
    pack(write_tree(root / "odd", {HOSTILE: jpeg(1), f"z/{LONG}": jpeg(2)}), root / "datasets")
    return root / "datasets"


@pytest.fixture
def data_dir(datasets: Path) -> Path:
    return datasets


def test_info_draws_the_classes_of_each_split_and_the_sizes_of_images(cli: Cli) -> None:
    text = cli("info", "flowers").stdout
    lines = text.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("classes"))
    assert lines[start] == "classes     2 classes of 8 to 12 images, median 12"
    header, rose, geranium = lines[start + 1 : start + 4]
    assert header.split() == ["train", "val"]
    assert rose.split()[:3] == ["0", "rose", "6"]
    assert geranium.split()[:3] == ["1", "天竺葵", "9"]
    assert cells_of(rose[: rose.index("6")]) == cells_of(geranium[: geranium.index("9")])
    assert geranium.count("█") > rose.count("█") > 0
    assert "formats     19 JPEG, 1 PNG\nchannels    19 with 3, 1 with 1\n" in text
    assert "width       24 to 200, median 24\n" in text
    assert "long side   16 to 31                19 ████████████████\n" in text
    assert "            128 to 255               1 ▉\n" in text
    images = json.loads(cli("info", "flowers", "--json").stdout)["images"]
    assert images["formats"] == {"JPEG": 19, "PNG": 1}
    assert images["width"] == {"min": 24, "median": 24, "max": 200}
    assert images["long_side"] == {"16-31": 19, "32-63": 0, "64-127": 0, "128-255": 1}


def test_info_shows_the_ends_of_many_classes_and_all_with_all(cli: Cli) -> None:
    text, everything = cli("info", "many").stdout, cli("info", "many", "--all").stdout
    assert "classes     64 classes of 2 to 20 images, median 4\n" in text
    assert "… 44 more classes: --all" in text
    shown, rows = (
        dict(re.findall(r"^ +\d+ (\w+) +(\d+) ", one, re.MULTILINE)) for one in (text, everything)
    )
    assert (len(shown), next(iter(shown)), rows["n003"]) == (20, "most", "5")
    assert [*rows] == ["most", *(f"n{number:03d}" for number in range(63))]
    assert "more classes" not in everything


@pytest.mark.parametrize("columns", ["40", "48", "200", ""])
def test_a_chart_in_a_pipe_fits_and_has_no_colours(
    cli: Cli, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    text = cli("info", "flowers").stdout
    chart = [line for line in text.splitlines() if line.startswith("  ") and "█" in line]
    assert max(map(cells_of, chart)) <= int(columns or 80)
    assert "\x1b" not in text


def test_a_terminal_gets_its_width_and_colours_unless_no_color_is_set(datasets: Path) -> None:
    assert "\x1b[34m█" in on_a_terminal(datasets, "info", "flowers")
    for width in (50, 100):
        shown = on_a_terminal(datasets, "info", "flowers", width=width, NO_COLOR="1")
        widest = max(cells_of(line) for line in shown.splitlines() if line.startswith("  "))
        assert width - 30 < widest <= width
        assert "\x1b" not in shown


def test_bars_are_ascii_if_the_encoding_has_no_others(cli: Cli, datasets: Path) -> None:
    done = cli("info", "many", env=environment(datasets, PYTHONIOENCODING="ascii"))
    assert done.stdout.isascii()
    assert "######" in done.stdout
    assert "... 44 more classes" in done.stdout


def test_info_lists_names_if_the_counts_do_not_fit(tmp_path: Path, cli: Cli) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 2, "b": 2}), tmp_path / "data")
    counts = {"class_counts": {"train": [4]}}
    edit_json(folder / "metadata.json", lambda value: value["imgrec"].update(counts))
    done = cli("info", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "classes     2 classes: a, b\n" in done.stdout


@pytest.mark.parametrize("verb", ["info many --all", "head many -n 100"])
def test_output_that_is_not_read_to_the_end_is_not_a_traceback(datasets: Path, verb: str) -> None:
    done = subprocess.run(
        f"{sys.executable} -m imgrec {verb} | head -n 1",
        shell=True, env=environment(datasets), text=True, capture_output=True,
    )  # fmt: skip
    assert (done.returncode, done.stderr, done.stdout.count("\n")) == (0, "", 1)


@given(st.lists(st.sampled_from(NAMES), min_size=1, max_size=50), st.data())
def test_rows_of_any_names_fit_and_are_aligned(names: list[str], data: st.DataObject) -> None:
    width = data.draw(st.integers(40, 150))
    counts = st.lists(st.integers(0, 10**6), min_size=len(names), max_size=len(names))
    splits = {f"split_{n}": data.draw(counts) for n in range(data.draw(st.integers(1, 6)))}
    terminal = Terminal(width=width)
    _title, *lines = class_lines(names, splits, terminal, all_=data.draw(st.booleans()))
    assert max(map(cells_of, lines)) <= width
    assert all(line == line.rstrip() for line in lines)


@given(st.text(), st.integers(0, 30), st.booleans())
def test_text_is_made_to_fit_exactly(text: str, cells: int, has_unicode: bool) -> None:
    assert cells_of(Terminal(has_unicode=has_unicode).fit(text, cells)) == cells


@pytest.mark.parametrize(
    ("columns", "width"), [("", 80), ("120", 120), ("wide", 80), ("0", 80), ("3", 40)]
)
def test_columns_sets_the_width_of_a_pipe(columns: str, width: int) -> None:
    terminal = this_terminal(io.StringIO(), {"COLUMNS": columns})
    assert (terminal.width, terminal.has_colour) == (width, False)


def test_head_shows_ten_records_of_the_first_split_in_aligned_columns(cli: Cli) -> None:
    lines = cli("head", "flowers").stdout.splitlines()
    assert lines[0].split() == ["#", "class", "shape", "format", "bytes", "file"]
    assert len(lines) == 11
    assert len({cells_of(line[: line.index("JPEG")]) for line in lines if "JPEG" in line}) == 1
    assert cli("head", "flowers", "-n", "0").stdout == ""


@pytest.mark.parametrize("dataset", ["flowers", "zipped"])
def test_head_takes_a_number_and_a_part_of_a_split(cli: Cli, dataset: str) -> None:
    value = json.loads(cli("head", dataset, "-n", "3", "--split", "train[2:]", "--json").stdout)
    assert [(one["split"], one["number"]) for one in value["records"]] == [
        ("train", 2), ("train", 3), ("train", 4),
    ]  # fmt: skip
    assert (value["name"], value["version"]) == (dataset, "1.0.0")


def test_long_names_are_shortened_only_on_a_screen(cli: Cli, datasets: Path) -> None:
    assert LONG in cli("head", "odd").stdout
    shown = on_a_terminal(datasets, "head", "odd", width=70)
    assert LONG not in shown
    assert "…" in shown
    assert max(map(cells_of, shown.splitlines())) <= 70


@pytest.mark.parametrize("dataset", ["flowers", "zipped"])
def test_show_finds_a_record_by_number_and_by_file(cli: Cli, dataset: str) -> None:
    by_file = cli("show", dataset, "rose/big.png").stdout
    value = json.loads(cli("show", dataset, "rose/big.png", "--json").stdout)
    by_number = cli("show", dataset, str(value["number"]), "--split", value["split"]).stdout
    assert by_number == by_file
    record = "file        rose/big.png\nlabel       0 rose\nsize        200 x 50, 3 channels\n"
    assert record in by_file
    assert "\n            89 50 4e 47 0d 0a 1a 0a " in by_file
    assert json.loads(cli("show", dataset, "-1", "--json").stdout)["number"] == 14


@pytest.mark.parametrize("dataset", ["flowers", "zipped"])
def test_show_raw_shows_the_features_as_they_are_stored(cli: Cli, dataset: str) -> None:
    value = json.loads(cli("show", dataset, "rose/big.png", "--raw", "--json").stdout)
    features = value["features"]
    assert features["label"] == {"kind": "int64", "values": [0]}
    assert features["shape"] == {"kind": "int64", "values": [50, 200, 3]}
    assert base64.b64decode(features["image"]["values"][0]) == BIG
    text = cli("show", dataset, "rose/big.png", "--raw").stdout
    assert "shape     int64[3]  50, 200, 3" in text
    assert "filename  bytes[1]  'rose/big.png'" in text


def test_show_writes_an_image_and_never_over_another_file(cli: Cli, tmp_path: Path) -> None:
    out = tmp_path / "rose.png"
    assert "written     " in cli("show", "zipped", "rose/big.png", "-o", out).stdout
    assert out.read_bytes() == BIG
    out.write_text("mine")
    done = cli("show", "zipped", "rose/big.png", "-o", out)
    assert done.returncode == 2
    assert done.stderr.startswith(f"imgrec: {out} exists already\n")
    assert (out.read_text(), os.listdir(tmp_path)) == ("mine", ["rose.png"])
    assert cli("show", "flowers", "rose/big.png", "-o", "-", text=False).stdout == BIG


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("show flowers 99", 5, "train has 15 records"),
        ("show flowers none.jpg", 5, "flowers has no file none.jpg"),
        ("show flowers 0 --split vla", 5, "there is no split 'vla'"),
        ("head flowers -n -3", 2, "-n -3 "),
        ("head flowers --split train[x]", 2, "'train[x]' "),
    ],
)
def test_a_record_that_does_not_exist_is_one_sentence(
    cli: Cli, line: str, code: int, message: str
) -> None:
    done = cli(*line.split())
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"imgrec: {message}")
    assert len(done.stderr.splitlines()) <= 2


@pytest.mark.parametrize("line", ["info {}", "head {}", "show {} 0", "show {} 0 --raw"])
def test_hostile_names_stay_text(cli: Cli, line: str) -> None:
    assert "\x1b" not in cli(*line.format("odd").split()).stdout
