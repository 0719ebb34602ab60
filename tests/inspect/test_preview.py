"""`imgrec preview`: a contact sheet, as a file and in terminals that can show it."""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cli
from inline import ENGINE, pack
from pictures import class_tree, encode, jpeg, write_tree
from PIL import Image

import imgrec
from imgrec.cli.browse import for_iterm, for_kitty, picture_protocol
from imgrec.errors import ImgrecError
from imgrec.inspect.contact_sheet import drawable

SIDE, GAP = 192, 12


def plain(colour: tuple[int, int, int]) -> bytes:
    return encode(Image.new("RGB", (40, 40), colour), "PNG")


@pytest.fixture
def colours(tmp_path: Path) -> Path:
    """Red and green images, in two splits."""
    files = {f"train/red/{at}.png": plain((200 + at, 0, 0)) for at in range(5)}
    files |= {f"train/green/{at}.png": plain((0, 200 + at, 0)) for at in range(5)}
    files |= {f"val/green/v{at}.png": plain((0, 100 + at, 0)) for at in range(2)}
    return write_tree(tmp_path / "colours", files)


def first_pixels(sheet: Path, count: int, across: int) -> list[tuple[int, int, int]]:
    """The middle of each of the first pictures of a sheet."""
    picture = Image.open(sheet)
    row = SIDE + 2 * 14 + 2 * GAP
    return [
        picture.getpixel(  # type: ignore[misc]
            (GAP + at % across * (SIDE + GAP) + SIDE // 2, GAP + at // across * row + SIDE // 2)
        )
        for at in range(count)
    ]


@pytest.mark.parametrize("is_packed", [False, True])
def test_classes_are_shown_in_turn(colours: Path, tmp_path: Path, is_packed: bool) -> None:
    what = pack(colours, tmp_path / "data") if is_packed else colours
    sheet = imgrec.preview(what, count=4, path=tmp_path / "a.png", engine=ENGINE)
    assert (sheet.shown, sheet.total) == (4, 12)
    shown = first_pixels(tmp_path / "a.png", 4, 3)
    assert ["red" if red > green else "green" for red, green, _ in shown] == ["green", "red"] * 2


@pytest.mark.parametrize("split", ["val", "validation"])
def test_a_split_and_a_class_can_be_chosen(colours: Path, tmp_path: Path, split: str) -> None:
    sheet = imgrec.preview(
        colours, split=split, class_name="green", path=tmp_path / "a.png", engine=ENGINE
    )
    assert (sheet.shown, sheet.total) == (2, 2)
    assert {green for _, green, _ in first_pixels(tmp_path / "a.png", 2, 2)} == {100, 101}


@pytest.mark.parametrize(
    ("selection", "message", "hint"),
    [
        ({"split": "vla"}, "has no split 'vla'", "did you mean val? There is train, val"),
        ({"class_name": "blue"}, "has no class 'blue'", "there is green, red"),
        ({"split": "val", "class_name": "red"}, "no images of red in val", "leave out --split"),
        ({"count": 0}, "count must be from 1 to 1000", ""),
        ({"path": "a.gif"}, r"cannot write a contact sheet as \.gif", "use .png, .jpg or .webp"),
    ],
)
def test_a_wrong_selection_is_an_error_with_a_hint(
    colours: Path, selection: dict[str, Any], message: str, hint: str
) -> None:
    with pytest.raises(ImgrecError, match=message) as error:
        imgrec.preview(colours, engine=ENGINE, **selection)
    assert error.value.hint.startswith(hint)


def test_a_bad_image_leaves_its_place_empty(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 1})
    write_tree(tree, {"y/bad.jpg": jpeg(3)[:300]})
    assert imgrec.preview(tree, path=tmp_path / "a.png", engine=ENGINE).shown == 2


def test_the_extension_decides_the_format(colours: Path, tmp_path: Path) -> None:
    for name, wanted in {"a.jpg": "JPEG", "a.WEBP": "WEBP", "a.png": "PNG", "a": "PNG"}.items():
        sheet = imgrec.preview(colours, count=4, path=tmp_path / name, engine=ENGINE)
        # Terminals get PNG, whatever the file is.
        formats = [Image.open(file).format for file in (tmp_path / name, io.BytesIO(sheet.data))]
        assert formats == [wanted, "PNG"]


def test_letters_that_the_font_lacks_are_escaped() -> None:
    assert drawable("rose é 猫") in ("rose é \\u732b", "rose \\xe9 \\u732b")


def test_the_command_prints_the_path_of_the_sheet(cli: Cli, tmp_path: Path) -> None:
    done = cli("preview", ROOT / "sample_data/digits", "-n", "10")
    assert done.stderr == ""
    assert done.stdout == "digits: 10 of 80 images\nsheet       digits_source_preview.png\n"
    assert Image.open(tmp_path / "digits_source_preview.png").format == "PNG"
    value = json.loads(cli("preview", ROOT / "sample_data/digits", "--json", "-o", "b.png").stdout)
    value.pop("schema")
    assert value == {"name": "digits", "path": "b.png", "shown": 24, "images": 80}


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"KITTY_WINDOW_ID": "1"}, for_kitty), ({"TERM": "xterm-kitty"}, for_kitty),
        ({"TERM_PROGRAM": "ghostty"}, for_kitty), ({"TERM_PROGRAM": "iTerm.app"}, for_iterm),
        ({"TERM": "xterm-256color"}, None), ({}, None),
        ({"KITTY_WINDOW_ID": "1", "TMUX": "/tmp/tmux"}, None),
    ],
)  # fmt: skip
def test_terminals_that_show_pictures_are_recognised(
    environment: Mapping[str, str], expected: object
) -> None:
    assert picture_protocol(environment, is_terminal=True) is expected
    assert picture_protocol(environment, is_terminal=False) is None


def test_kitty_gets_the_whole_picture_in_pieces() -> None:
    picture = encode(Image.effect_noise((200, 200), 90), "PNG")
    sent = for_kitty(picture)
    pieces = re.findall(r"\x1b_G([^;]*);([^\x1b]*)\x1b\\", sent)
    assert [keys for keys, _ in pieces] == [
        "a=T,f=100,m=1", *["m=1"] * (len(pieces) - 2), "m=0"
    ]  # fmt: skip
    assert all(len(text) <= 4096 for _, text in pieces)
    assert base64.b64decode("".join(text for _, text in pieces)) == picture
    assert base64.b64decode(for_iterm(picture).rpartition(":")[2].rstrip("\a")) == picture
