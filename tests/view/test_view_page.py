"""The page of `imgrec view` in a real browser."""

from __future__ import annotations

import re
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import pytest
from browser import Watched
from damage import change
from inline import pack
from pictures import class_tree, encode, jpeg, picture, write_tree
from PIL import Image, ImageOps
from viewing import Viewer, viewing

import imgrec

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Locator, Page

pytestmark = pytest.mark.browser

HOSTILE = "<img src=x onerror=document.title='hacked'>"
HOSTILE_FILE = "'\"><script>document.title='hacked'<!--&amp;.jpg"


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """253 images of three classes, one of which has a hostile name."""
    root = tmp_path_factory.mktemp("view")
    source = class_tree(root / "flowers", {"rose": 120, "tulip": 130, HOSTILE: 2})
    write_tree(source, {f"{HOSTILE}/{HOSTILE_FILE}": jpeg(999, (400, 300))})
    return pack(source, root / "datasets", val_split=0.1)


@pytest.fixture(scope="module")
def skin(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """40 images with columns, two copies, and a very long class name."""
    root = tmp_path_factory.mktemp("skin")
    write_tree(root / "skin", {f"{at:02d}.jpg": jpeg(min(at, 38)) for at in range(40)})
    rows = [
        f"{at:02d}.jpg,{'nevus ' * 30 if at % 2 else 'melanoma'},{at},{'arm' if at < 9 else 'leg'}"
        for at in range(40)
    ]
    (root / "skin/list.csv").write_text("\n".join(["file,label,age,site", *rows]))
    options = imgrec.SourceOptions(column=("age", "site"))
    return pack(root / "skin/list.csv", root / "datasets", source=options)


@pytest.fixture(scope="module")
def viewer(flowers: Path) -> Iterator[Viewer]:
    with viewing(flowers) as found:
        yield found


@pytest.fixture
def page(watched: Watched, viewer: Viewer) -> Iterator[Page]:
    """The page, without errors, and without requests to anyone but its own server."""
    watched.page.goto(viewer.url)
    shown(watched.page)
    yield watched.page
    assert watched.errors == []
    asked = [url for url in watched.requests if not url.startswith("blob:")]
    assert {urlsplit(url).netloc for url in asked} == {urlsplit(viewer.url).netloc}
    assert "hacked" not in watched.page.title()


def until(page: Page, expression: str) -> None:
    """Wait until an expression is true. The page's policy bars Playwright's own way."""
    deadline = time.monotonic() + 30
    while not page.evaluate(expression):
        assert time.monotonic() < deadline, expression
        page.wait_for_timeout(20)


def shown(page: Page) -> None:
    """Wait until all thumbnails are there."""
    until(
        page,
        "(tiles => (tiles.length || document.querySelector('.nothing')) && tiles"
        ".every((tile) => tile.querySelector('img')?.complete || tile.matches('.broken')))"
        "([...document.querySelectorAll('section:not([hidden]) .tile')])",
    )


def tiles(page: Page) -> Locator:
    return page.locator("#grid .tile")


def box(page: Page, name: str) -> Locator:
    """The filter of that name, which a count follows."""
    return page.get_by_role("checkbox", name=re.compile("^" + re.escape(name)))


def status(page: Page, text: str) -> None:
    """Wait until the dialog shows a record's position among the matches."""
    page.get_by_role("dialog").get_by_role("status").get_by_text(text, exact=True).wait_for()


def found(page: Page, text: str) -> None:
    until(page, f"document.getElementById('found').textContent === {text!r}")
    shown(page)


def test_the_first_page_has_pictures_and_captions(page: Page) -> None:
    assert page.title() == "flowers 1.0.0 · imgrec view"
    assert page.locator("#found").text_content() == "253 images"
    assert tiles(page).count() == 100
    decoded = "images => images.every(image => image.naturalWidth > 0)"
    assert page.locator("#grid img").evaluate_all(decoded)
    caption = tiles(page).first.inner_text().replace("\n", "")
    assert re.fullmatch(r"(rose|tulip|<img.*>)\S+\.jpg(train|val)", caption)


def test_filters_have_counts_and_can_be_removed(page: Page) -> None:
    assert page.locator("label", has_text="rose").locator(".count").text_content() == "120"
    box(page, "rose").click()
    found(page, "120 of 253 images")
    box(page, "val").click()
    found(page, "12 of 253 images")
    assert page.locator("label", has_text="tulip").locator(".count").text_content() == "13"
    assert set(page.locator("#grid .chip").all_text_contents()) == {"rose"}
    page.get_by_role("button", name="Remove filter val").click()
    found(page, "120 of 253 images")
    page.get_by_role("button", name="Clear all").click()
    found(page, "253 images")
    box(page, "257").click()  # a group of sizes
    found(page, "1 of 253 images")
    box(page, "257").click()
    page.get_by_label("Longer side, to, in pixels").fill("100")
    page.keyboard.press("Enter")
    found(page, "252 of 253 images")


def test_the_address_holds_the_state_and_back_goes_back(page: Page) -> None:
    box(page, "tulip").click()
    found(page, "130 of 253 images")
    page.get_by_role("button", name="Next page").first.click()
    until(page, "document.querySelectorAll('#grid .tile').length === 30")
    assert urlsplit(page.url).query == "class=2&start=100"
    page.reload()
    found(page, "130 of 253 images")
    assert tiles(page).count() == 30
    page.go_back()
    until(page, "document.querySelectorAll('#grid .tile').length === 100")
    page.go_back()
    found(page, "253 images")


def test_typing_finds_file_names(page: Page) -> None:
    page.keyboard.press("/")
    page.keyboard.type("ROSE/007")
    found(page, "1 of 253 images")
    page.keyboard.press("Escape")
    page.keyboard.press("ArrowRight")
    assert page.evaluate("document.activeElement.title").startswith("rose/007.jpg, 24")
    page.locator("#text").fill("nowhere")
    found(page, "0 of 253 images")
    page.get_by_role("button", name="Clear all filters").click()
    found(page, "253 images")


def test_images_are_sorted_and_filtered_by_findings_and_columns(
    watched: Watched, skin: Path
) -> None:
    page = watched.page
    with viewing(skin) as viewer:
        page.goto(viewer.url)
        shown(page)
        page.get_by_label("Sort").select_option("by age")
        found(page, "40 images")
        page.keyboard.press("r")
        until(page, "document.querySelector('.tile').title.startsWith('39.jpg')")
        assert urlsplit(page.url).query == "sort=-column+age"
        page.locator(".tile").first.click()
        status(page, "1 of 40")
        page.get_by_role("button", name="Next record").click()
        status(page, "2 of 40")
        assert page.locator("#record-name").inner_text() == "38.jpg"
        page.keyboard.press("Escape")
        until(page, "document.activeElement.title?.startsWith('38.jpg')")
        box(page, "Exact duplicates").click()
        found(page, "2 of 40 images")
        page.get_by_role("button", name="Remove filter Exact duplicates").click()
        box(page, "arm").click()
        found(page, "9 of 40 images")
        page.get_by_label("age, from", exact=True).fill("6.5")
        page.keyboard.press("Enter")
        found(page, "2 of 40 images")
        page.reload()
        found(page, "2 of 40 images")
        page.get_by_role("button", name="Remove filter age ≥ 6.5").click()
        found(page, "9 of 40 images")
    assert watched.errors == []


def test_near_duplicates_are_shown_group_by_group_and_dark_images_are_found(
    watched: Watched, tmp_path: Path
) -> None:
    def drawn(seed: int) -> Image.Image:
        return picture(seed, size=(12, 10)).resize((48, 40), Image.Resampling.BICUBIC)

    files = {f"train/oak/{seed}.png": encode(drawn(seed), "PNG") for seed in range(9)}
    for seed in (3, 5):
        files[f"test/oak/{seed}.jpg"] = encode(drawn(seed), "JPEG", quality=90)
    files["train/oak/again 5.jpg"] = encode(ImageOps.mirror(drawn(5)), "JPEG", quality=90)
    files["train/oak/dark.png"] = encode(drawn(20).point(lambda level: level // 10), "PNG")
    files["train/oak/blank.png"] = encode(Image.new("RGB", (48, 40), "grey"), "PNG")
    source = write_tree(tmp_path / "trees", files)
    page = watched.page
    with viewing(pack(source, tmp_path / "data", near_dups="report")) as viewer:
        page.goto(viewer.url)
        box(page, "Nearly blank").wait_for()
        for title in ("Nearly blank", "Very dark"):
            box(page, title).click()
            found(page, "1 of 14 images")
            box(page, title).click()
            found(page, "14 images")
        box(page, "Near leaks").click()
        found(page, "5 of 14 images")
        assert urlsplit(page.url).query == "finding=near_leaks&sort=copies"
        together = page.locator("#grid .together")
        assert sorted(together.all_text_contents()) == ["2 together", "3 together"]
        assert page.locator("#grid .banded").count() in (2, 3)
        box(page, "Near leaks").click()
        found(page, "14 images")
        assert urlsplit(page.url).query == ""
    assert watched.errors == []


def test_an_open_record_shows_its_copies_and_why_it_was_found(
    watched: Watched, tmp_path: Path
) -> None:
    def drawn(seed: int) -> Image.Image:
        return picture(seed, size=(12, 10)).resize((48, 40), Image.Resampling.BICUBIC)

    classes = ("sugar maple", "norway spruce")
    files = {f"train/{classes[0]}/{seed}.png": encode(drawn(seed), "PNG") for seed in range(9)}
    files[f"test/{classes[1]}/5.jpg"] = encode(ImageOps.mirror(drawn(5)), "JPEG", quality=90)
    source = write_tree(tmp_path / "trees", files)
    page = watched.page
    packed = pack(source, tmp_path / "data", near_dups="report")
    with viewing(packed, str(tmp_path / "fixes.csv")) as viewer:
        page.goto(f"{viewer.url}?finding=near_leaks&sort=copies")
        found(page, "2 of 10 images")
        # The number of copies leaves all the room to the class.
        widths = "all => all.map(name => name.scrollWidth <= name.clientWidth)"
        assert page.locator("#grid .chip .cut").evaluate_all(widths) == [True, True]
        page.locator("#grid .tile").first.click()
        dialog = page.locator("#record")
        dialog.get_by_text("Near leaks, Near conflicts").wait_for()
        assert dialog.locator("h3").first.inner_text() == "2 together"
        copies = dialog.locator(".copy")
        copies.locator("img").nth(1).wait_for()
        names = [str(copies.nth(at).get_attribute("title")) for at in range(2)]
        assert sorted(names) == ["test/norway spruce/5.jpg", "train/sugar maple/5.png"]
        assert copies.nth(0).get_attribute("aria-current") == "true"
        copies.nth(1).click()
        dialog.get_by_role("cell", name=names[1], exact=True).wait_for()
        page.keyboard.press("d")
        dialog.locator(".copy[aria-current] .badge.drop").wait_for()
        page.keyboard.press("Escape")
        page.goto(viewer.url)
        page.locator("#grid .tile").first.wait_for()
        page.locator("#grid .tile[title*='0.png']").click()
        dialog.get_by_role("cell", name="train/sugar maple/0.png", exact=True).wait_for()
        assert copies.count() == 0
    assert watched.errors == []


def test_long_class_names_leave_room_for_counts(watched: Watched, skin: Path) -> None:
    page = watched.page
    with viewing(skin) as viewer:
        page.goto(viewer.url)
        shown(page)
        aside = page.locator("#filters")
        assert aside.evaluate("aside => aside.scrollWidth <= aside.clientWidth")
        edge = aside.bounding_box()
        count = page.locator("label", has_text="nevus").locator(".count").bounding_box()
        assert edge is not None
        assert count is not None
        assert count["x"] + count["width"] <= edge["x"] + edge["width"]


def test_pages_are_turned_by_number_and_by_keys(page: Page) -> None:
    number = page.get_by_label("Page", exact=True).first
    number.fill("3")
    number.press("Enter")
    until(page, "document.querySelectorAll('#grid .tile').length === 53")
    assert page.get_by_role("button", name="Last page").first.is_disabled()
    page.get_by_role("button", name="First page").first.click()
    until(page, "document.querySelectorAll('#grid .tile').length === 100")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowRight")
    for key, focused in (("End", 99), ("ArrowRight", 100), ("ArrowLeft", 99), ("PageDown", 100)):
        page.keyboard.press(key)
        until(page, f"document.activeElement.dataset.number === '{focused}'")
    page.keyboard.press("?")
    page.get_by_role("dialog", name="Keyboard shortcuts").wait_for()
    page.keyboard.press("Escape")
    until(page, "!document.getElementById('help').open")


def test_keys_open_a_record_and_go_to_the_next(page: Page) -> None:
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    name = page.evaluate("document.activeElement.title").split(",")[0]
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog")
    dialog.wait_for()
    assert dialog.locator("td").first.text_content() == name
    until(page, "document.querySelector('.stage img').naturalWidth > 0")
    features = dialog.locator(".features th").all_text_contents()
    assert features[0] == f"filenamebytes, {len(name)} B"
    assert [text.partition("int64")[0] for text in features[2:]] == ["label", "shape"]
    status(page, "2 of 253")
    page.keyboard.press("ArrowLeft")
    status(page, "1 of 253")
    for _ in range(3):
        page.keyboard.press("ArrowRight")  # faster than the answers
    status(page, "4 of 253")
    assert "record=3" in page.url
    page.keyboard.press("Escape")
    until(page, "!document.getElementById('record').open")
    assert page.evaluate("document.activeElement.dataset.number") == "3"


def test_after_the_last_record_of_a_page_comes_the_next_page(page: Page, viewer: Viewer) -> None:
    page.goto(f"{viewer.url}?record=99")
    page.get_by_role("dialog").wait_for()
    page.get_by_role("button", name="Next record").click()
    status(page, "101 of 253")
    page.get_by_role("button", name="Close").click()
    until(page, "document.activeElement.dataset.number === '100'")
    assert "start=100" in page.url


def test_two_classes_are_compared_side_by_side(page: Page) -> None:
    page.keyboard.press("c")
    page.locator("#side-b .tile").first.wait_for()
    for side, order, name, count in (("a", "First", "rose", 120), ("b", "Second", "tulip", 130)):
        page.get_by_label(f"{order} class", exact=True).select_option(name)
        summary = f"document.querySelector('#side-{side} .summary').textContent"
        until(page, f"{summary}.startsWith('{count} images')")
        shown(page)
        assert set(page.locator(f"#side-{side} .tile .chip").all_text_contents()) == {name}
    box(page, "val").click()
    until(page, f"{summary} === '13 images'")
    page.locator("#side-b .tile").first.click()
    page.get_by_role("dialog").wait_for()
    status(page, "1 of 13")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Browse").click()
    found(page, "26 of 253 images")


def test_hostile_names_stay_text(page: Page) -> None:
    box(page, HOSTILE).click()
    found(page, "3 of 253 images")
    assert set(page.locator("#grid .chip").all_text_contents()) == {HOSTILE}
    tiles(page).filter(has_text="script").click()
    page.get_by_role("dialog").wait_for()
    assert HOSTILE_FILE in page.locator("#record-name").inner_text()
    page.keyboard.press("Escape")
    page.locator("#text").fill("<script>")
    found(page, "1 of 253 images")
    assert page.locator("script").count() == 1
    assert page.locator("[onerror], [onload]").count() == 0


def test_damaged_records_and_a_stopped_server_are_shown(
    watched: Watched, flowers: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(flowers, tmp_path / "data" / "flowers" / "1.0.0")
    change(folder / "flowers-train.tfrecord-00000-of-00001", 200)
    page = watched.page
    with viewing(folder) as viewer:
        page.goto(viewer.url)
        shown(page)
        assert page.locator(".tile.broken").count() == 1
        page.locator(".tile.broken").click()
        page.get_by_role("dialog").get_by_text("This record is damaged").wait_for()
        page.keyboard.press("ArrowRight")
        until(page, "document.querySelector('.stage img')?.naturalWidth > 0")
        page.keyboard.press("Escape")
        assert watched.errors == []
    box(page, "rose").click()
    page.get_by_text("imgrec view has stopped.").wait_for()


@pytest.mark.parametrize(("width", "scheme"), [(390, "light"), (1280, "dark")])
def test_nothing_sticks_out_on_a_phone_or_a_desktop(
    browser: Browser, viewer: Viewer, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    for query in ("", "?record=3", "?view=compare&a=1&b=2"):
        page.goto(viewer.url + query)
        shown(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
    context.close()
