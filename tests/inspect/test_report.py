"""`report.html`: what it tells, that it is safe, small and the same every time."""

from __future__ import annotations

import hashlib
import json
import os
import random
import re
from array import array
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import ROOT, Cli
from inline import ENGINE, faults_of, pack
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image

import imgrec
from imgrec.errors import DatasetNotFound, ExecutionError, SourceError, UsageError
from imgrec.inspect.report.images import ImageTable, Span
from imgrec.inspect.report.page import ReportPage, make_page
from imgrec.inspect.subject import InSource, Job
from imgrec.outcome import Report

HOSTILE = "<script>window.hacked = 1<_script>"
HOSTILE_FILE = "<img src=x onerror=window.hacked=2>.jpg"


class Page(HTMLParser):
    """A page as text, and what tags it has."""

    def __init__(self, data: bytes) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.feed(data.decode())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.text += data

    def of(self, tag: str, **wanted: str) -> list[dict[str, str | None]]:
        return [
            attributes
            for name, attributes in self.tags
            if name == tag and all(attributes.get(key) == wanted[key] for key in wanted)
        ]


def page_of(folder: Path) -> Page:
    return Page((folder / "report.html").read_bytes())


def turned(seed: int, orientation: int) -> bytes:
    tags = Image.Exif()
    tags[0x0112] = orientation
    return jpeg(seed, (64, 48), exif=tags)


def detailed(seed: int, size: tuple[int, int], quality: int) -> bytes:
    noise = Image.frombytes("RGB", (24, 18), random.Random(seed).randbytes(24 * 18 * 3))
    return encode(noise.resize(size, Image.Resampling.BICUBIC), "JPEG", quality=quality)


def odd_tree(root: Path) -> Path:
    """A source that has everything that a report may find."""
    files = {f"train/cat/{at}.jpg": jpeg(at, (64, 48)) for at in range(6)}
    files |= {f"train/dog/{at}.jpg": jpeg(100 + at, (64, 48)) for at in range(4)}
    files |= {f"test/cat/{at}.jpg": jpeg(200 + at, (48, 64)) for at in range(3)}
    files["train/cat/cut.jpg"] = jpeg(300, (256, 192))[:2000]
    files["train/cat/moving.gif"] = encode(picture(301), "GIF")
    files["train/dog/turned.jpg"] = turned(302, 6)
    files["train/dog/copy 1.jpg"] = files["train/dog/copy 2.jpg"] = jpeg(303, (64, 48))
    files["train/dog/leak.jpg"] = files["test/dog/leak.jpg"] = jpeg(304, (64, 48))
    files["train/dog/both.jpg"] = files["train/cat/both.jpg"] = jpeg(305, (64, 48))
    files["train/dog/near.jpg"] = detailed(1, (256, 256), 92)
    files["test/dog/near.jpg"] = detailed(1, (256, 256), 60)
    files["train/dog/tiny.jpg"] = jpeg(306, (10, 8))
    files["train/dog/huge.jpg"] = jpeg(307, (640, 480))
    files["train/dog/wide.jpg"] = jpeg(308, (240, 20))
    files["train/dog/blank.jpg"] = encode(Image.new("RGB", (64, 48), (9, 99, 200)), "JPEG")
    files["train/dog/dark.jpg"] = encode(_scaled(0, 24), "JPEG")
    files["train/dog/bright.jpg"] = encode(_scaled(232, 255), "JPEG")
    return write_tree(root, files)


def _scaled(low: int, high: int) -> Image.Image:
    stripes = Image.new("L", (64, 48), low)
    stripes.paste(high, (0, 0, 64, 24))
    return stripes.convert("RGB")


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("odd")
    return pack(odd_tree(root / "zoo"), root / "data", thumbnails=200)


# What it tells


def test_every_pack_writes_it_and_seals_it(odd: Path) -> None:
    data = (odd / "report.html").read_bytes()
    lines = (odd / "SHA256SUMS").read_text().splitlines()
    assert f"{hashlib.sha256(data).hexdigest()}  report.html" in lines
    assert [fault for fault in faults_of(odd) if "report" in fault[0]] == []


def test_verify_misses_a_page_that_was_changed(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "a", {"x": 2, "y": 2}), tmp_path / "data")
    with (folder / "report.html").open("ab") as file:
        file.write(b" ")
    assert [path for path, _, _ in faults_of(folder)] == ["report.html"]


def test_it_counts_the_images_of_each_class_and_split(odd: Path) -> None:
    table = imgrec.open_dataset(odd)
    page = page_of(odd)
    rows = page.of("tr")
    shown = {row["data-class"]: row["data-total"] for row in rows if row.get("data-class")}
    wanted = {
        name: str(sum(len(table[split].of_class(name)) for split in table))
        for name in table.classes
    }
    assert shown == wanted


@pytest.mark.parametrize(
    ("key", "count", "name"),
    [
        ("leaks", 1, "train/dog/leak.jpg"), ("conflicts", 1, "train/dog/both.jpg"),
        ("near", 1, "train/dog/near.jpg"), ("skipped", 1, "train/cat/cut.jpg"),
        ("transcoded", 1, "train/cat/moving.gif"), ("turned", 1, "train/dog/turned.jpg"),
        ("duplicates", 3, "train/dog/copy 2.jpg"), ("tiny", 1, "train/dog/tiny.jpg"),
        ("huge", 1, "train/dog/huge.jpg"), ("stretched", 1, "train/dog/wide.jpg"),
        ("blank", 1, "train/dog/blank.jpg"), ("dark", 1, "train/dog/dark.jpg"),
        ("bright", 1, "train/dog/bright.jpg"),
    ],
)  # fmt: skip
def test_it_shows_what_is_odd_with_a_picture_and_the_reason(
    odd: Path, key: str, count: int, name: str
) -> None:
    html = (odd / "report.html").read_text()
    start = html.index(f'<article class="card finding" id="{key}">')
    article = Page(html[start : html.index("</article>", start)].encode())
    assert re.findall(r'<span class="badge[^>]*>(\d+)<', html[start:])[0] == str(count)
    assert name in [button["data-name"] for button in article.of("button")]
    assert article.of("img")[0]["src"].startswith("data:image/jpeg;base64,")  # type: ignore[union-attr]


def test_a_report_of_the_source_finds_the_same(odd: Path) -> None:
    source = odd.parents[2] / "zoo"
    page = imgrec.report(source, path=odd.parents[2] / "source.html", engine=ENGINE)
    again = imgrec.report(odd, path=odd.parents[2] / "dataset.html", engine=ENGINE)
    found = {found.key: found.total for found in (*page.facts.findings, *page.facts.outliers)}
    packed = {found.key: found.total for found in (*again.facts.findings, *again.facts.outliers)}
    assert found == packed
    assert len(found) == 13
    assert page.facts.totals == again.facts.totals


def test_a_picture_is_shown_upright(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 1, "y": 1})
    write_tree(tree, {"x/turned.jpg": turned(5, 6)})
    buttons = page_of(pack(tree, tmp_path / "data"))
    (sizes,) = {
        (image["width"], image["height"]) for image in buttons.of("img", alt="x: x/turned.jpg")
    }
    assert sizes == ("48", "64")


def test_loading_code_runs_anywhere(odd: Path) -> None:
    text = page_of(odd).text
    assert 'tfds.load("zoo:1.0.0", split="train", as_supervised=True)' in text
    assert str(odd.parents[2]) not in (odd / "report.html").read_text()


def test_it_has_the_fingerprint_and_the_options(odd: Path) -> None:
    text = page_of(odd).text
    assert imgrec.info(odd).fingerprint in text
    assert "--thumbnails200" in text


def test_several_labels_count_for_each(tmp_path: Path) -> None:
    write_tree(tmp_path / "t", {f"{at}.jpg": jpeg(at) for at in range(4)})
    rows = ["0.jpg,cat dog", "1.jpg,dog", "2.jpg,cat", "3.jpg,dog"]
    (tmp_path / "t/tags.csv").write_text("\n".join(["file,tags", *rows]))
    options = imgrec.SourceOptions(label_sep=" ", label_col="tags")
    folder = pack(tmp_path / "t/tags.csv", tmp_path / "data", source=options)
    rows_shown = {row.get("data-class"): row.get("data-total") for row in page_of(folder).of("tr")}
    assert (rows_shown["cat"], rows_shown["dog"]) == ("2", "3")


def test_a_compressed_dataset_has_pictures_too(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 3, "y": 3})
    folder = pack(tree, tmp_path / "data", compression="gzip")
    assert len(page_of(folder).of("button", type="button")) > 6
    again = imgrec.report(folder, path=tmp_path / "a.html", engine=ENGINE)
    assert again.thumbnails == 6


def test_bare_pixels_are_shown(tmp_path: Path) -> None:
    page = imgrec.report(ROOT / "sample_data/digits", path=tmp_path / "digits.html", engine=ENGINE)
    assert (page.facts.images, page.thumbnails) == (80, 80)
    assert page.facts.toned == 80


# That it is the same, and safe


def test_two_packs_give_the_same_page(odd: Path, tmp_path: Path) -> None:
    again = pack(odd_tree(tmp_path / "zoo"), tmp_path / "elsewhere", thumbnails=200)
    assert (again / "report.html").read_bytes() == (odd / "report.html").read_bytes()


@pytest.mark.processes
def test_workers_do_not_change_it(cli: Cli, odd: Path, data_dir: Path) -> None:
    source = odd.parents[2] / "zoo"
    assert cli("pack", source, "--thumbnails", "200", "--workers", "3").returncode == 0
    one, other = (folder / "report.html" for folder in (odd, data_dir / "zoo/1.0.0"))
    assert one.read_bytes() == other.read_bytes()


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {HOSTILE: 3, "\"'&amp;": 2})
    write_tree(tree, {f"{HOSTILE}/{HOSTILE_FILE}": jpeg(50), "x/\x1b[2Jred\x07.jpg": jpeg(51)})
    page = page_of(pack(tree, tmp_path / "data"))
    assert len(page.of("script")) == 1
    assert all((image["src"] or "data:").startswith("data:") for image in page.of("img", src=""))
    assert not [tag for tag, attributes in page.tags if "onerror" in attributes]
    assert HOSTILE in page.text
    assert HOSTILE_FILE in page.text
    assert "\\x1b[2Jred\\x07.jpg" in page.text


def test_a_policy_forbids_everything_but_its_own_parts(odd: Path) -> None:
    html = (odd / "report.html").read_text()
    (policy,) = page_of(odd).of("meta", **{"http-equiv": "Content-Security-Policy"})
    assert str(policy["content"]).startswith("default-src 'none'; img-src data:; style-src 'sha256")
    assert "unsafe" not in str(policy["content"])
    assert re.findall(r"https?://", html) == []
    assert " style=" not in html


def test_every_picture_has_a_text(odd: Path) -> None:
    images = page_of(odd).of("img")
    assert len(images) > 30
    assert [image for image in images[:-1] if not image["alt"]] == []


# That it is bounded


@pytest.mark.parametrize("count", [0, 1, 7])
def test_no_more_pictures_than_asked_for(tmp_path: Path, count: int) -> None:
    tree = class_tree(tmp_path / "a", {"x": 9, "y": 9, "z": 9})
    page = page_of(pack(tree, tmp_path / "data", thumbnails=count))
    assert len([image for image in page.of("img") if image.get("src")]) == count


def test_each_class_has_a_picture_before_any_has_two(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 9, "y": 1, "z": 9})
    page = page_of(pack(tree, tmp_path / "data", thumbnails=4))
    labels = sorted(
        str(button["data-label"]) for button in page.of("button") if "data-label" in button
    )
    assert labels == ["x", "x", "y", "z"]


def synthetic(count: int, classes: int, path: Path) -> tuple[ImageTable, Report]:
    """A table of many images, all of them in one file."""
    labels = array("q", (at % classes for at in range(count)))
    shapes = array("I")
    for at in range(classes):
        shapes.extend((300 + at % 200, 400 + at % 100, 3))
    train = count * 9 // 10
    names = tuple(f"class number {label}, which has a long name" for label in range(classes))
    table = ImageTable(
        names=[f"some/folder/with/a/long/name/{at:09d}.jpg" for at in range(count)],
        spans=(Span("train", 0, train), Span("val", train, count)),
        labels=labels,
        label_sets=(),
        shapes=shapes * (count // classes),
        formats=["JPEG"] * count,
        sizes=array("Q", [50_000]) * count,
        orientations=bytes([6]) * count,
        tones=bytes([2, 1]) * count,
        locate=lambda _name, row: InSource(str(path), path.stat().st_size, f"{row}.jpg"),
    )
    report = Report(
        name="many", version="1.0.0", source="", layout="", fingerprint="f" * 64, options={},
        classes=names, splits=(), source_bytes=0, notes=(),
    )  # fmt: skip
    return table, report


def shown(table: ImageTable, report: Report) -> ReportPage:
    return make_page(table, report, Job(run=ENGINE.run), None)


@pytest.mark.slow
def test_a_million_images_of_a_thousand_classes_stay_below_10_mb(tmp_path: Path) -> None:
    noise = Image.frombytes("RGB", (256, 256), random.Random(0).randbytes(256 * 256 * 3))
    path = tmp_path / "noise.jpg"
    path.write_bytes(encode(noise, "JPEG", quality=95))
    page = shown(*synthetic(1_000_000, 1_000, path))
    assert 400 < page.thumbnails < 1_000  # noise takes more bytes than any photo
    assert len(page.data) < 10_000_000


def test_a_photo_of_each_of_a_thousand_classes_fits(tmp_path: Path) -> None:
    path = tmp_path / "photo.jpg"
    path.write_bytes(detailed(0, (400, 300), 90))
    page = shown(*synthetic(10_000, 1_000, path))
    assert [sheet.label for sheet in page.facts.sheets if not sheet.shots] == []
    assert 1_000 <= page.thumbnails <= 1_250
    assert len(page.data) < 10_000_000


# The command


def test_the_command_says_where_the_page_is(cli: Cli, tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 3, "y": 3})
    write_tree(tree, {"x/bad.jpg": jpeg(7)[:300]})
    done = cli("report", tree)
    assert done.stderr == ""
    assert done.stdout.startswith("a: 6 images, 2 classes\nfindings    1 x skipped\n")
    assert (tmp_path / "a_report.html").exists()
    value = json.loads(cli("report", tree, "-o", "b.html", "--json").stdout)
    assert (value["images"], value["findings"], value["path"]) == (6, {"skipped": 1}, "b.html")


def test_a_dataset_that_tfds_made_has_a_report(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "a", {"x": 3, "y": 2}), tmp_path / "data", name="a")
    for name in ("report.json", "samples.parquet", "metadata.json", "SHA256SUMS", "report.html"):
        os.unlink(folder / name)
    page = imgrec.report(folder, path=tmp_path / "a.html", engine=ENGINE)
    assert page.facts.totals == (3, 2)
    assert page.thumbnails == 5


def test_what_is_not_there_or_not_readable_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="no dataset 'nothing'"):
        imgrec.report("nothing", engine=ENGINE)
    bad = write_tree(tmp_path / "bad", {"x/a.jpg": jpeg(1)[:300], "y/b.jpg": jpeg(2)[:300]})
    with pytest.raises(SourceError, match="none of the 2 images"):
        imgrec.report(bad, path=tmp_path / "a.html", engine=ENGINE)
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize(
    ("path", "why"),
    [
        ("missing/a.html", "cannot write missing/a.html: missing does not exist"),
        (".", ". is a folder"),
    ],
)
def test_a_page_that_cannot_be_written_is_refused_before_any_work(path: str, why: str) -> None:
    with pytest.raises(UsageError, match=why) as caught:
        imgrec.report("nothing", path=path, engine=ENGINE)
    assert "-o" in caught.value.hint


def test_a_page_that_the_disk_refuses_is_hinted_at_by_its_own_option(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "flowers", {"rose/1.jpg": jpeg(1), "daisy/2.jpg": jpeg(2)})
    with pytest.raises(ExecutionError, match="File name too long") as caught:
        imgrec.report(source, path=tmp_path / f"{'a' * 300}.html", engine=ENGINE)
    assert caught.value.hint == "check -o"


def test_a_wrong_number_of_thumbnails_is_refused() -> None:
    with pytest.raises(UsageError, match="thumbnails must be at least 0"):
        imgrec.PackOptions(thumbnails=-1)
    with pytest.raises(UsageError, match="thumbnails must be at least 0"):
        imgrec.report("nothing", thumbnails=-1)


def test_other_thumbnails_are_another_dataset(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 3, "y": 3})
    pack(tree, tmp_path / "data")
    with pytest.raises(imgrec.DatasetExists):
        pack(tree, tmp_path / "data", thumbnails=1)
    folder = pack(tree, tmp_path / "data", thumbnails=1, overwrite=True)
    assert len([image for image in page_of(folder).of("img") if image.get("src")]) == 1


def test_pngs_that_no_check_decodes_are_said_to_be_unknown(tmp_path: Path) -> None:
    blank = encode(Image.new("RGB", (24, 16), (250, 250, 250)), "PNG")
    tree = write_tree(
        tmp_path / "a",
        {"x/blank.png": blank, "x/1.png": png(1), "y/2.jpg": jpeg(2), "y/tiny.png": png(3, (5, 3))},
    )
    folder = pack(tree, tmp_path / "data")
    assert "brightness of 1 of 4" in page_of(folder).text
    page = imgrec.report(folder, path=tmp_path / "a.html", engine=ENGINE)
    assert [found.key for found in page.facts.outliers] == ["tiny", "blank"]
