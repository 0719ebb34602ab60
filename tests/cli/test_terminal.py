"""Datasets seen in a terminal: info, head and show."""

from __future__ import annotations

import base64
import fcntl
import io
import json
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest
from conftest import ROOT, Cli
from damage import edit_json
from hypothesis import given
from hypothesis import strategies as st
from inline import pack
from pictures import class_tree, jpeg, png, write_tree

from imgrec.cli.info import class_lines
from imgrec.cli.render import Terminal, cells_of, this_terminal

BIG = png(99, size=(200, 50))
SHORT_NAMES = ["a", "天竺葵", "🌹 rose", "évé", "e\u0301ve\u0301", "x" * 90]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`flowers`, with two splits; `zipped`, the same compressed; `many`, of 64 classes."""
    root = tmp_path_factory.mktemp("terminal")
    flowers = class_tree(root / "flowers", {"rose": 6, "天竺葵": 12})
    write_tree(flowers / "rose", {"big.png": BIG, "grey.jpg": jpeg(98, mode="L")})
    pack(flowers, root / "datasets", val_split=0.25)
    pack(flowers, root / "datasets", val_split=0.25, name="zipped", compression="gzip")
    many = {f"n{number:03d}": 2 + number % 5 for number in range(63)}
    pack(class_tree(root / "many", {**many, "most": 20}), root / "datasets")
    return root / "datasets"


@pytest.fixture
def data_dir(datasets: Path) -> Path:
    return datasets


def environment(datasets: Path, **more: str) -> dict[str, str]:
    kept = {key: value for key, value in os.environ.items() if key not in ("COLUMNS", "NO_COLOR")}
    return {**kept, "TFDS_DATA_DIR": str(datasets), "PYTHONPATH": str(ROOT), **more}


def on_a_terminal(datasets: Path, *arguments: str, width: int = 60, **more: str) -> str:
    """Return what a command shows on a terminal of that width."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "imgrec", *arguments],
        stdout=theirs, env=environment(datasets, TERM="xterm", **more),
    )  # fmt: skip
    os.close(theirs)
    seen = b""
    try:
        while block := os.read(ours, 4096):
            seen += block
    except OSError:  # Linux says so when the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0
    return seen.decode().replace("\r\n", "\n")


def test_info_draws_the_classes_of_each_split(cli: Cli) -> None:
    lines = cli("info", "flowers").stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("classes"))
    assert lines[start] == "classes     2 classes of 8 to 12 images, median 12"
    header, rose, geranium = lines[start + 1 : start + 4]
    assert header.split() == ["train", "val"]
    assert rose.split()[:3] == ["0", "rose", "6"]
    assert geranium.split()[:3] == ["1", "天竺葵", "9"]
    assert cells_of(rose[: rose.index("6")]) == cells_of(geranium[: geranium.index("9")])
    assert geranium.count("█") > rose.count("█") > 0


def test_info_shows_sizes_formats_and_bytes(cli: Cli) -> None:
    text = cli("info", "flowers").stdout
    assert "formats     19 JPEG, 1 PNG\n" in text
    assert "channels    19 with 3, 1 with 1\n" in text
    assert "width       24 to 200, median 24\n" in text
    assert "long side   16 to 31                19 ████████████████\n" in text
    assert "            128 to 255               1 ▉\n" in text


def test_info_gives_programs_the_same_numbers(cli: Cli) -> None:
    images = json.loads(cli("info", "flowers", "--json").stdout)["images"]
    assert images["formats"] == {"JPEG": 19, "PNG": 1}
    assert images["width"] == {"min": 24, "median": 24, "max": 200}
    assert images["long_side"] == {"16-31": 19, "32-63": 0, "64-127": 0, "128-255": 1}


def test_of_many_classes_info_shows_the_ends_unless_all_are_asked_for(cli: Cli) -> None:
    text = cli("info", "many").stdout
    assert "classes     64 classes of 2 to 20 images, median 4\n" in text
    assert "… 44 more classes: --all" in text
    assert [name for name, _ in named_rows(text)][:1] == ["most"]
    assert len(named_rows(text)) == 20
    everything = cli("info", "many", "--all").stdout
    assert "more classes" not in everything
    assert [name for name, _ in named_rows(everything)] == [
        "most", *(f"n{number:03d}" for number in range(63)),
    ]  # fmt: skip
    assert dict(named_rows(everything))["n003"] == "5"


def named_rows(text: str) -> list[tuple[str, str]]:
    """Return name and count of the classes that are drawn."""
    return re.findall(r"^ +\d+ (\w+) +(\d+) ", text, re.MULTILINE)


def test_no_line_of_a_chart_is_wider_than_the_terminal(cli: Cli, datasets: Path) -> None:
    for columns in ("40", "48", "200"):
        text = cli("info", "flowers", env=environment(datasets, COLUMNS=columns)).stdout
        drawn = [line for line in text.splitlines() if "█" in line or "train " in line[:30]]
        chart = [line for line in drawn if line.startswith("  ")]
        assert chart
        assert max(map(cells_of, chart)) <= int(columns)


def test_a_pipe_gets_no_colours_and_80_cells(cli: Cli, datasets: Path) -> None:
    text = cli("info", "flowers", env=environment(datasets)).stdout
    assert "\x1b" not in text
    assert max(cells_of(line) for line in text.splitlines() if "█" in line) <= 80


def test_a_terminal_gets_colours_unless_no_color_says_otherwise(datasets: Path) -> None:
    assert "\x1b[34m█" in on_a_terminal(datasets, "info", "flowers")
    assert "\x1b" not in on_a_terminal(datasets, "info", "flowers", NO_COLOR="1")


def test_the_width_of_a_terminal_is_honoured(datasets: Path) -> None:
    for width in (50, 100):
        shown = on_a_terminal(datasets, "info", "flowers", width=width, NO_COLOR="1")
        widest = max(cells_of(line) for line in shown.splitlines() if line.startswith("  "))
        assert width - 30 < widest <= width


def test_bars_are_ascii_where_the_encoding_has_no_others(cli: Cli, datasets: Path) -> None:
    done = cli("info", "many", env=environment(datasets, PYTHONIOENCODING="ascii"))
    assert done.stdout.isascii()
    assert "######" in done.stdout
    assert "... 44 more classes" in done.stdout


def test_info_of_counts_that_do_not_fit_lists_names(tmp_path: Path, cli: Cli) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 2, "b": 2}), tmp_path / "data")
    counts = {"class_counts": {"train": [4]}}
    edit_json(folder / "metadata.json", lambda value: value["imgrec"].update(counts))
    done = cli("info", folder)
    assert (done.returncode, done.stderr) == (0, "")
    assert "classes     2 classes: a, b\n" in done.stdout


def test_output_that_nobody_reads_on_is_no_traceback(datasets: Path) -> None:
    for verb in ("info many --all", "head many -n 100", "show many 0"):
        done = subprocess.run(
            f"{sys.executable} -m imgrec {verb} | head -n 1",
            shell=True, env=environment(datasets), text=True, capture_output=True,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert len(done.stdout.splitlines()) == 1


@given(st.lists(st.sampled_from(SHORT_NAMES), min_size=1, max_size=50), st.data())
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
def test_columns_says_how_wide_a_pipe_is(columns: str, width: int) -> None:
    terminal = this_terminal(io.StringIO(), {"COLUMNS": columns})
    assert (terminal.width, terminal.has_colour) == (width, False)


def test_head_shows_ten_records_of_the_first_split_in_aligned_columns(cli: Cli) -> None:
    lines = cli("head", "flowers").stdout.splitlines()
    assert lines[0].split() == ["#", "class", "shape", "format", "bytes", "file"]
    assert len(lines) == 11
    ends = {cells_of(line[: line.index("JPEG")]) for line in lines if "JPEG" in line}
    assert len(ends) == 1


def test_head_takes_a_number_and_a_part_of_a_split(cli: Cli) -> None:
    value = json.loads(cli("head", "flowers", "-n", "3", "--split", "train[2:]", "--json").stdout)
    assert [(record["split"], record["number"]) for record in value["records"]] == [
        ("train", 2), ("train", 3), ("train", 4),
    ]  # fmt: skip
    assert (value["name"], value["version"]) == ("flowers", "1.0.0")


def test_head_reads_compressed_records_too(cli: Cli) -> None:
    plain, compressed = (
        json.loads(cli("head", name, "--json").stdout)["records"] for name in ("flowers", "zipped")
    )
    assert [one["filename"] for one in plain] == [one["filename"] for one in compressed]


def test_long_names_are_shortened_on_a_screen_only(tmp_path: Path, cli: Cli) -> None:
    name = "long " * 20 + ".jpg"
    source = write_tree(tmp_path / "x", {f"a/{name}": jpeg(1)})
    pack(source, tmp_path / "data")
    assert name in cli("head", tmp_path / "data").stdout
    shown = on_a_terminal(tmp_path / "data", "head", "x", width=70)
    assert name not in shown
    assert "…" in shown
    assert max(map(cells_of, shown.splitlines())) <= 70


@pytest.mark.parametrize("dataset", ["flowers", "zipped"])
def test_show_finds_a_record_by_number_and_by_file(cli: Cli, dataset: str) -> None:
    by_file = cli("show", dataset, "rose/big.png").stdout
    value = json.loads(cli("show", dataset, "rose/big.png", "--json").stdout)
    by_number = cli("show", dataset, str(value["number"]), "--split", value["split"]).stdout
    assert by_number == by_file
    assert (
        "file        rose/big.png\nlabel       0 rose\nsize        200 x 50, 3 channels\n"
        in by_file
    )
    assert "\n            89 50 4e 47 0d 0a 1a 0a " in by_file


def test_show_counts_from_the_end_too(cli: Cli) -> None:
    assert json.loads(cli("show", "flowers", "-1", "--json").stdout)["number"] == 14


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


@pytest.mark.parametrize("dataset", ["flowers", "zipped"])
def test_show_writes_an_image_and_never_over_another_file(
    cli: Cli, dataset: str, tmp_path: Path
) -> None:
    out = tmp_path / "rose.png"
    assert "written     " in cli("show", dataset, "rose/big.png", "-o", out).stdout
    assert out.read_bytes() == BIG
    out.write_text("mine")
    done = cli("show", dataset, "rose/big.png", "-o", out)
    assert done.returncode == 2
    assert done.stderr == f"imgrec: {out} exists already\n  hint: choose another name\n"
    assert out.read_text() == "mine"
    assert os.listdir(tmp_path) == ["rose.png"]


def test_show_writes_an_image_into_a_pipe(cli: Cli) -> None:
    done = cli("show", "flowers", "rose/big.png", "-o", "-", text=False)
    assert done.stdout == BIG


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["show", "flowers", "99"], 5, "train has 15 records; 99 is out of range"),
        (["show", "flowers", "none.jpg"], 5, "flowers has no file none.jpg"),
        (["show", "flowers", "0", "--split", "vla"], 5, "there is no split 'vla'"),
        (["head", "flowers", "-n", "-3"], 2, "-n -3 is no number of records"),
        (["head", "flowers", "--split", "train[x]"], 2, "'train[x]' is not a split"),
    ],
)
def test_what_is_not_there_is_one_sentence(
    cli: Cli, arguments: list[str], code: int, message: str
) -> None:
    done = cli(*arguments)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith(f"imgrec: {message}\n")


def test_hostile_names_stay_text(tmp_path: Path, cli: Cli) -> None:
    source = write_tree(tmp_path / "x", {"a\x1b[31mb/c\x1b]0;d.jpg": jpeg(1)})
    pack(source, tmp_path / "data")
    for verb in (["info"], ["head"], ["show"], ["show"]):
        more = ["0"] if verb == ["show"] else []
        assert "\x1b" not in cli(*verb, tmp_path / "data", *more).stdout
    assert "\x1b" not in cli("show", tmp_path / "data", "0", "--raw").stdout
