"""Deciding about images on the page of `imgrec view`, in a real browser."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from browser import Watched
from inline import pack
from pictures import class_tree, png, write_tree
from viewing import viewing

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("decide")
    classes = {f"flower{at}": 2 for at in range(10)}
    source = class_tree(root / "flowers", {"rose": 120, "tulip": 20, **classes})
    return pack(source, root / "datasets", val_split=0.1)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "fixes.csv"


@pytest.fixture
def page(watched: Watched, flowers: Path, table: Path) -> Iterator[Page]:
    """The page, without errors."""
    with viewing(flowers, str(table)) as viewer:
        watched.page.goto(viewer.url)
        tiles(watched.page).first.wait_for()
        yield watched.page
    assert watched.errors == []


def tiles(page: Page) -> Locator:
    return page.locator("#grid .tile")


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true. The page's policy bars Playwright's own way."""
    deadline = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def done(page: Page, text: str) -> None:
    until(page, f"document.querySelector('#deck .done').textContent === {text!r}")


def saved(table: Path) -> list[str]:
    return table.read_text().splitlines()[1:]


def name(page: Page, at: int) -> str:
    return str(tiles(page).nth(at).get_attribute("title")).split(",")[0]


def badges(page: Page, at: int) -> list[str]:
    return tiles(page).nth(at).locator(".badge").all_text_contents()


def test_keys_decide_about_the_focused_image(page: Page, table: Path) -> None:
    names = [name(page, at) for at in range(3)]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("f")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("d")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("l")
    page.get_by_role("dialog", name="Relabel 1 image as").wait_for()
    page.keyboard.type("WER7")
    page.keyboard.press("Enter")
    done(page, "1 image relabelled as flower7")
    page.keyboard.press("m")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    done(page, "1 image to move to val")
    rows = [f"{names[0]},flag,,", f"{names[1]},drop,,", f"{names[2]},relabel,flower7,"]
    assert sorted(saved(table)) == sorted([*rows, f"{names[2]},move,,val"])
    assert [badges(page, at) for at in range(4)] == [
        ["Flag"], ["Drop"], ["→ flower7", "→ val"], []
    ]  # fmt: skip
    assert page.evaluate("document.activeElement.title").startswith(names[2])
    page.keyboard.press("u")
    page.keyboard.press("Control+z")
    done(page, "Undone: 1 image relabelled as flower7")
    page.keyboard.press("Control+y")
    page.keyboard.press("Shift+U")
    done(page, "Redone: 1 image to move to val")
    assert len(saved(table)) == 4
    page.reload()
    until(page, "document.querySelectorAll('.badge').length === 4")
    page.get_by_role("button", name="2 decisions, 1 flag").click()
    dialog = page.get_by_role("dialog", name="Decisions")
    assert "imgrec edit" in dialog.locator("#command").inner_text()
    dialog.get_by_role("button", name="1 to drop").click()
    until(page, "document.querySelectorAll('#grid .tile').length === 1")
    assert page.url.endswith("?decision=dropped")


def test_a_selection_is_made_by_mouse_and_by_keys(page: Page, table: Path) -> None:
    boxes = page.locator("#grid .box")
    tiles(page).nth(1).hover()
    boxes.nth(1).click()
    tiles(page).nth(4).click(modifiers=["Shift"])
    tiles(page).nth(6).click()  # with images selected, a click selects
    tiles(page).nth(2).click()
    until(page, "document.getElementById('picked-count').textContent === '4 selected'")
    assert [boxes.nth(at).is_checked() for at in range(8)] == [
        at in (1, 3, 4, 6) for at in range(8)
    ]
    page.get_by_role("group", name="Decide about the selected images").get_by_text("Drop").click()
    done(page, "4 images to drop")
    assert len(saved(table)) == 4
    tiles(page).nth(10).focus()
    page.keyboard.press("x")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("Shift+ArrowRight")
    until(page, "document.getElementById('picked-count').textContent === '3 selected'")
    page.keyboard.press("Escape")
    assert page.locator("#picked").is_hidden()
    tiles(page).nth(0).click()
    page.get_by_role("dialog").wait_for()


def test_a_whole_class_is_relabelled_at_once(page: Page, table: Path) -> None:
    page.get_by_role("checkbox", name="rose 120").click()
    until(page, "document.getElementById('found').textContent === '120 of 160 images'")
    page.get_by_role("button", name="Select all").click()
    until(page, "document.getElementById('picked-count').textContent === '120 selected'")
    tiles(page).first.click()  # all but the first
    page.keyboard.press("l")
    page.keyboard.type("tul")
    page.keyboard.press("Enter")
    done(page, "119 images relabelled as tulip")
    assert len(saved(table)) == 119
    assert badges(page, 0) == []
    page.get_by_role("button", name="Undo").click()
    done(page, "Undone: 119 images relabelled as tulip")
    assert saved(table) == []


def test_a_class_that_is_new_is_typed(page: Page, table: Path) -> None:
    tiles(page).first.focus()
    page.keyboard.press("l")
    page.keyboard.type("daisy")
    page.get_by_role("option", name="New class: daisy").wait_for()
    page.keyboard.press("Enter")
    done(page, "1 image relabelled as daisy")
    assert saved(table) == [f"{name(page, 0)},relabel,daisy,"]
    assert badges(page, 0) == ["→ daisy"]
    assert page.locator("#command").text_content().endswith("--new-classes")  # type: ignore[union-attr]
    page.keyboard.press("ArrowRight")
    page.keyboard.press("l")
    page.keyboard.type("dais")
    page.keyboard.press("Enter")
    until(page, "document.querySelectorAll('.badge').length === 2")
    assert [badges(page, at) for at in range(2)] == [["→ daisy"]] * 2


def test_with_a_filter_of_decisions_the_next_image_takes_the_place(page: Page) -> None:
    page.goto(page.url + "?decision=undecided")
    until(page, "document.querySelectorAll('#grid .tile').length === 100")
    second, third = name(page, 1), name(page, 2)
    tiles(page).nth(1).focus()
    page.keyboard.press("d")
    until(page, f"document.activeElement.title?.startsWith({third!r})")
    assert page.locator("#found").inner_text() == "159 of 160 images"
    page.keyboard.press("u")
    until(page, f"document.activeElement.title?.startsWith({second!r})")


def test_an_open_record_is_decided_about_and_keeps_its_neighbours(page: Page, table: Path) -> None:
    page.goto(page.url + "?decision=undecided")
    until(page, "document.querySelectorAll('#grid .tile').length === 100")
    names = [name(page, at) for at in range(2)]
    tiles(page).first.click()
    dialog = page.locator("#record")
    dialog.get_by_text("1 of 160").wait_for()
    page.keyboard.press("d")
    dialog.locator(".badge.drop").wait_for()
    dialog.get_by_role("button", name="Flag").click()
    dialog.locator(".badge.flag").wait_for()
    assert page.evaluate("document.activeElement.dataset.action") == "flag"
    page.keyboard.press("ArrowRight")
    dialog.get_by_text(names[1], exact=True).first.wait_for()
    page.keyboard.press("Escape")
    assert saved(table) == [f"{names[0]},flag,,", f"{names[0]},drop,,"]


def test_what_cannot_be_saved_is_said(watched: Watched, flowers: Path, table: Path) -> None:
    with viewing(flowers, str(table)) as viewer:
        page = watched.page
        page.goto(viewer.url)
        tiles(page).first.focus()
        table.write_text("mine")
        page.keyboard.press("d")
        page.locator("#deck .done.bad").get_by_text("was changed by another program").wait_for()
        assert page.locator(".badge").count() == 0


def test_several_labels_are_chosen_together(watched: Watched, tmp_path: Path, table: Path) -> None:
    source = write_tree(tmp_path / "films", {f"{number}.png": png(number) for number in range(4)})
    rows = [["0.png", ["war"]], ["1.png", ["love", "sea"]]]
    lines = [json.dumps({"filename": name, "labels": labels}) for name, labels in rows]
    (source / "list.jsonl").write_text("\n".join(lines))
    with viewing(pack(source / "list.jsonl", tmp_path / "data"), str(table)) as viewer:
        page = watched.page
        page.goto(viewer.url)
        page.locator(".tile", has_text="0.png").focus()
        page.keyboard.press("l")
        dialog = page.get_by_role("dialog", name="Relabel 1 image as")
        assert dialog.get_by_role("option", selected=True).inner_text().startswith("war")
        dialog.get_by_role("option", name="sea").click()
        dialog.get_by_role("button", name="Apply").click()
        done(page, "1 image relabelled as sea|war")
    assert saved(table) == ["0.png,relabel,sea|war,"]
    assert watched.errors == []


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_the_bar_fits_and_its_buttons_have_names(
    browser: Browser, flowers: Path, table: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page = context.new_page()
    with viewing(flowers, str(table)) as viewer:
        page.goto(viewer.url)
        tiles(page).first.focus()
        page.keyboard.press("d")
        done(page, "1 image to drop")
        page.keyboard.press("x")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        bar = page.locator("#deck").bounding_box()
        assert bar is not None
        assert bar["x"] >= 0
        assert bar["x"] + bar["width"] <= width
        nameless = "buttons => buttons.filter(b => !(b.ariaLabel || b.textContent.trim())).length"
        assert page.locator("button").evaluate_all(nameless) == 0
        page.keyboard.press("l")
        for _ in range(4):  # the dialog keeps the focus, and Escape leaves it
            page.keyboard.press("Tab")
        page.keyboard.press("Escape")
        until(page, "!document.getElementById('picker').open")
    context.close()


def test_both_classes_of_a_comparison_are_decided_about(page: Page, table: Path) -> None:
    page.keyboard.press("c")
    for side in ("a", "b"):
        tile = page.locator(f"#side-{side} .tile").first
        tile.focus()
        page.keyboard.press("x")
    opacity = "select => getComputedStyle(select.parentElement).opacity"
    assert page.locator("#side-a select").evaluate(opacity) == "1"
    until(page, "document.getElementById('picked-count').textContent === '2 selected'")
    page.keyboard.press("f")
    done(page, "2 images flagged")
    assert page.locator("#compare .badge").count() == 2
    assert len(saved(table)) == 2
