"""`report.html` in a real browser: offline, by mouse and keyboard, on a phone and a desktop."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from browser import Watched
from inline import pack
from pictures import class_tree, jpeg, write_tree
from test_report import HOSTILE, HOSTILE_FILE, odd_tree, synthetic

import imgrec

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A dataset of a few classes, whose names are hostile, and all that is odd."""
    root = tmp_path_factory.mktemp("many")
    tree = odd_tree(root / "zoo")
    for name in (HOSTILE, "fox", "owl", "zebra", "gnu", "yak", "emu"):
        class_tree(tree / "train", {name: 3}, start=hash_of(name))
        class_tree(tree / "test", {name: 1}, start=hash_of(name) + 50)
    write_tree(tree, {f"train/{HOSTILE}/{HOSTILE_FILE}": jpeg(5000)})
    return pack(tree, root / "data")


def hash_of(name: str) -> int:
    return 1000 + 100 * len(name) + ord(name[0])


def opened(watched: Watched, folder: Path) -> Watched:
    watched.page.goto((folder / "report.html").as_uri())
    return watched


def test_it_loads_without_errors_or_requests(watched: Watched, many: Path) -> None:
    page = opened(watched, many).page
    images = "[...document.images].filter((image) => image.getAttribute('src'))"
    # Waiting in the browser for a condition would need an `eval`, which the page forbids.
    page.evaluate(f"{images}.forEach((image) => (image.loading = 'eager'))")
    page.evaluate(f"Promise.all({images}.map((image) => image.decode()))")
    assert watched.errors == []
    assert [url for url in watched.requests if not url.startswith("data:")] == [
        (many / "report.html").as_uri()
    ]
    assert page.evaluate(f"{images}.every((image) => image.naturalWidth > 0)")


def test_names_stay_text(watched: Watched, many: Path) -> None:
    page = opened(watched, many).page
    assert page.evaluate("window.hacked") is None
    assert page.locator("#balance-rows th", has_text=HOSTILE).count() == 1
    page.locator(f'button.shot[data-name$="{HOSTILE_FILE}"]').first.click()
    assert HOSTILE_FILE in page.locator("dialog h2").inner_text()
    assert page.evaluate("window.hacked") is None
    assert watched.errors == []


def test_the_charts_have_the_right_numbers(watched: Watched, many: Path) -> None:
    page = opened(watched, many).page
    dataset = imgrec.open_dataset(many)
    for name in ("fox", "cat", HOSTILE):
        row = page.locator("#balance-rows tr").filter(
            has=page.get_by_role("rowheader", name=name, exact=True)
        )
        for split in dataset:
            count = len(dataset[split].of_class(name))
            assert row.locator(f'[data-split="{split}"]').inner_text() == str(count)
    # A bar is as long as its class is large: the largest fills the row.
    widths = page.evaluate(
        "[...document.querySelectorAll('#balance-rows tr')].map((row) => [+row.dataset.total, "
        "[...row.querySelectorAll('rect')].reduce((sum, r) => sum + r.getBBox().width, 0) / "
        "row.querySelector('svg').getBoundingClientRect().width])"
    )
    most = max(total for total, _ in widths)
    assert all(abs(share - total / most) < 0.01 for total, share in widths)
    columns = page.locator("svg[aria-label^='Images by aspect ratio'] .column title")
    counts = [int(text.rpartition(": ")[2].split()[0]) for text in columns.all_text_contents()]
    assert sum(counts) == sum(map(len, dataset.values()))


def test_classes_are_filtered_and_sorted(watched: Watched, many: Path) -> None:
    page = opened(watched, many).page
    classes = len(imgrec.info(many).classes)
    page.locator("#balance input").fill("SCRIPT")
    assert page.locator("#balance-rows tr:visible").count() == 1
    assert page.locator("#balance-left").inner_text() == f"1 of {classes}"
    page.locator("#balance input").fill("")
    assert page.locator("#balance-rows tr:visible").count() == classes
    page.locator("#sort").select_option("most")
    totals = page.locator("#balance-rows .total").all_inner_texts()
    assert [int(total) for total in totals] == sorted(map(int, totals), reverse=True)
    page.locator("#sheets input").fill("owl")
    assert page.locator("#sheets [data-class]:visible").count() == 1


def test_nothing_moves_while_it_loads(watched: Watched, many: Path) -> None:
    page = watched.page
    page.add_init_script(
        "window.moved = 0; new PerformanceObserver((list) => list.getEntries().forEach("
        "(entry) => (window.moved += entry.value))).observe({ type: 'layout-shift' })"
    )
    opened(watched, many)
    page.wait_for_timeout(300)
    assert page.evaluate("window.moved") == 0


def test_a_picture_is_enlarged_by_mouse_and_keyboard(watched: Watched, many: Path) -> None:
    page = opened(watched, many).page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    buttons, dialog = page.locator("#sheets button.shot"), page.locator("dialog")
    title = dialog.locator("h2")
    names = buttons.evaluate_all("all => all.map(button => button.dataset.name)")
    buttons.first.click()
    assert title.inner_text() == names[0]
    assert "Split" in dialog.locator("dl").inner_text()
    width = "image => image.getBoundingClientRect().width"
    small, large = (part.locator("img").evaluate(width) for part in (buttons.first, dialog))
    assert large > 2 * small
    dialog.get_by_text("Close").click()
    assert not dialog.is_visible()
    buttons.first.focus()
    for key, name in (("Enter", names[0]), ("ArrowRight", names[1]), ("ArrowLeft", names[0])):
        page.keyboard.press(key)
        assert title.inner_text() == name
    page.keyboard.press("Escape")
    assert not dialog.is_visible()
    assert page.evaluate("document.activeElement.dataset.name") == names[0]


def test_code_is_copied(browser: Browser, many: Path) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto((many / "report.html").as_uri())
    page.get_by_role("button", name="Copy the code for TFDS").click()
    page.get_by_text("Copied").wait_for()
    assert 'tfds.load("zoo:1.0.0"' in page.evaluate("navigator.clipboard.readText()")
    context.close()


CONTRAST = """
() => {
  const channel = (c) => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const paper = (node) => {
    for (; node; node = node.parentElement) {
      const colour = parse(getComputedStyle(node).backgroundColor);
      if (colour.length < 4 || colour[3] > 0.5) return colour;
    }
    return [255, 255, 255];
  };
  const poor = [];
  for (const node of document.querySelectorAll("body *")) {
    const owns = [...node.childNodes].some((n) => n.nodeType === 3 && n.data.trim());
    if (!owns || node.closest("svg, .shot, script, dialog, .skip, nav")) continue;
    if (!node.offsetParent) continue;
    const [a, b] = [light(parse(getComputedStyle(node).color)), light(paper(node))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push([node.className || node.tagName, ratio.toFixed(2)]);
  }
  return poor;
}
"""


@pytest.mark.parametrize(("width", "scheme"), [(390, "dark"), (1280, "light")])
def test_it_fits_and_has_contrast_on_a_phone_and_a_desktop(
    browser: Browser, many: Path, width: int, scheme: Literal["light", "dark"]
) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    page.goto((many / "report.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") == width
    assert page.evaluate(CONTRAST) == []
    context.close()


def test_a_thousand_classes_can_be_searched(watched: Watched, tmp_path: Path) -> None:
    (tmp_path / "a.jpg").write_bytes(jpeg(1))
    data = synthetic(4_000, 1_000, tmp_path / "a.jpg").data
    (tmp_path / "report.html").write_bytes(data)
    page = opened(watched, tmp_path).page
    assert page.locator(".ranks svg").is_visible()
    assert page.locator(".ranks .up").inner_text().split() == ["4", "3", "2", "1", "0"]
    rows = page.locator("#balance-rows tr:visible")
    assert rows.count() == 20
    page.get_by_role("button", name="Show all 1,000 classes").click()
    assert rows.count() == 1_000
    page.get_by_role("button", name="Show fewer").click()
    page.locator("#sort").select_option("name")
    assert rows.count() == 20
    page.locator("#balance input").fill("number 77,")
    assert page.locator("#balance-rows tr:visible").count() == 1
    page.locator("#sheets input").fill("number 999,")
    assert page.locator("#sheets [data-class]:visible").count() == 1
    assert watched.errors == []
