"""`report.html`: its contents, that it is safe and small, and that it is the same every time."""

from __future__ import annotations

import hashlib
import json
import random
import re
from array import array
from html.parser import HTMLParser
from pathlib import Path

import pytest
from catalogs import FOLDERS
from conftest import ROOT, Cli
from hypothesis import example, given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image

import imgrec
from imgrec.errors import DatasetNotFound, ExecutionError, SourceError, UsageError
from imgrec.inspect.image_stats import measure, number_bins
from imgrec.inspect.report.images import ImageTable
from imgrec.inspect.report.page import ReportPage, make_page
from imgrec.inspect.subject import InSource, Job
from imgrec.outcome import Report

HOSTILE = "<script>window.hacked = 1<_script>"
HOSTILE_FILE = "<img src=x onerror=window.hacked=2>.jpg"


class Page(HTMLParser):
    """The text and the tags of a page."""

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
    """A source with one case of everything that a report may find."""
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


def synthetic(count: int, classes: int, path: Path) -> ReportPage:
    """The page of many images, all of them in one file."""
    shapes = array("I")
    for at in range(classes):
        shapes.extend((300 + at % 200, 400 + at % 100, 3))
    train = count * 9 // 10
    table = ImageTable(
        names=[f"some/folder/with/a/long/name/{at:09d}.jpg" for at in range(count)],
        splits={"train": range(train), "val": range(train, count)},
        labels=array("q", (at % classes for at in range(count))),
        label_sets=(),
        shapes=shapes * (count // classes),
        formats=["JPEG"] * count,
        sizes=array("Q", [50_000]) * count,
        orientations=bytes([6]) * count,
        tones=bytes([2, 1]) * count,
        locate=lambda _name, row: InSource(str(path), path.stat().st_size, f"{row}.jpg"),
    )
    names = tuple(f"class number {label}, which has a long name" for label in range(classes))
    report = Report(
        name="many", version="1.0.0", source="", layout=FOLDERS, fingerprint="f" * 64, options={},
        classes=names, splits=(), source_bytes=0, notes=(),
    )  # fmt: skip
    return make_page(table, report, Job(run=ENGINE.run), None)


# Contents


def test_every_pack_writes_it_and_verify_notices_changes(odd: Path, tmp_path: Path) -> None:
    data = (odd / "report.html").read_bytes()
    lines = (odd / "SHA256SUMS").read_text().splitlines()
    assert f"{hashlib.sha256(data).hexdigest()}  report.html" in lines
    folder = pack(class_tree(tmp_path / "a", {"x": 2, "y": 2}), tmp_path / "data")
    with (folder / "report.html").open("ab") as file:
        file.write(b" ")
    assert [path for path, _, _ in faults_of(folder)] == ["report.html"]


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
def test_each_finding_has_a_count_and_a_picture(odd: Path, key: str, count: int, name: str) -> None:
    html = (odd / "report.html").read_text()
    start = html.index(f'<article class="card finding" id="{key}">')
    article = Page(html[start : html.index("</article>", start)].encode())
    assert re.findall(r'<span class="badge[^>]*>(\d+)<', html[start:])[0] == str(count)
    assert name in [button["data-name"] for button in article.of("button")]
    assert str(article.of("img")[0]["src"]).startswith("data:image/jpeg;base64,")


def test_a_report_of_the_source_finds_the_same(odd: Path, tmp_path: Path) -> None:
    subjects = (odd.parents[2] / "zoo", odd)
    source, dataset = (
        imgrec.report(what, path=tmp_path / "a.html", engine=ENGINE).facts for what in subjects
    )
    findings, packed = (
        {found.key: found.total for found in (*facts.findings, *facts.outliers)}
        for facts in (source, dataset)
    )
    assert findings == packed
    assert len(findings) == 13
    assert source.totals == dataset.totals


def test_it_has_the_counts_the_options_and_code_that_runs_anywhere(odd: Path) -> None:
    page, dataset = page_of(odd), imgrec.open_dataset(odd)
    shown = {row["data-class"]: row["data-total"] for row in page.of("tr") if "data-class" in row}
    assert shown == {name: str(len(dataset["all"].of_class(name))) for name in dataset.classes}
    assert imgrec.info(odd).fingerprint in page.text
    assert "--thumbnails200" in page.text
    assert 'tfds.load("zoo:1.0.0", split="train", as_supervised=True)' in page.text
    assert str(odd.parents[2]) not in (odd / "report.html").read_text()


def test_columns_and_groups_have_distributions(tmp_path: Path) -> None:
    write_tree(tmp_path / "t", {f"{at:02d}.jpg": jpeg(at) for at in range(40)})
    rows = [
        f"{at:02d}.jpg,{'ab'[at % 2]},p{at % 8},{'arm' if at % 4 else ''},{at}" for at in range(40)
    ]
    (tmp_path / "t/list.csv").write_text("\n".join(["file,label,patient,site,age", *rows]))
    options = imgrec.SourceOptions(group_col="patient", column=("site", "age"), label_col="label")
    folder = pack(tmp_path / "t/list.csv", tmp_path / "data", source=options)
    facts = imgrec.report(folder, path=tmp_path / "a.html", engine=ENGINE).facts
    group, place, age = facts.columns
    assert (group.name, group.about) == ("group", "8 groups of 5 images, each in one split.")
    assert (place.about, place.shares) == ("1 value. Missing in 10.", (("arm", 30),))
    assert age.about == "0 to 39 (median 20)."
    assert age.histogram is not None
    assert age.histogram.bins == dict.fromkeys([f"{at} to {at + 5}" for at in range(0, 40, 5)], 5)
    text = page_of(folder).text
    for shown in (group.about, place.about, age.about, "--label-collabel", "--columnsite, age"):
        assert shown in text


def test_empty_classes_and_warnings_come_first_and_the_unlabelled_have_a_row(
    tmp_path: Path,
) -> None:
    names = [*(f"train/{at}.jpg" for at in range(12)), *(f"test/{at}.jpg" for at in range(20, 23))]
    write_tree(tmp_path / "t", {name: jpeg(at) for at, name in enumerate(names)})
    write_tree(tmp_path / "t", {"train/12.jpg": jpeg(99)[:300]})
    rows = [f"{at},{'gone' if at == 12 else 'ab'[at % 2]}" for at in range(13)]
    (tmp_path / "t/train.csv").write_text("\n".join(["id,label", *rows]))
    wanted = "\n".join(["id,label", *(f"{at},a" for at in range(20, 23))])
    (tmp_path / "t/sample_submission.csv").write_text(wanted)
    folder = pack(tmp_path / "t", tmp_path / "data")
    html, text = (folder / "report.html").read_text(), page_of(folder).text
    assert "6 images in every class that has some. 1 class has no images: gone." in text
    assert "3 images have no label." in text
    assert "without a label" in html[html.index("<tfoot>") : html.index("</tfoot>")]
    assert html.index("train has no images of gone") < html.index('id="balance"')


@given(numbers=st.lists(st.one_of(st.integers(-99, 10**6), st.floats(-1e9, 1e9)), min_size=1))
@example(numbers=[9, 1.0, 5e-324])
def test_a_histogram_counts_every_number_once(numbers: list[float]) -> None:
    chart = number_bins(numbers)
    assert sum(chart.bins.values()) == len(numbers)
    assert len(chart.bins) <= 25
    assert all(0 <= place <= len(chart.bins) for place in chart.ticks)


@given(sizes=st.lists(st.integers(0, 10**9), min_size=2, unique=True))
def test_sizes_in_bytes_that_differ_are_in_several_bins(sizes: list[int]) -> None:
    measures = measure([1, 1, 3] * len(sizes), sizes, ["JPEG"] * len(sizes))
    assert sum(measures.bytes.bins.values()) == len(sizes)
    assert len([count for count in measures.bytes.bins.values() if count]) > 1


def test_a_picture_is_shown_upright(odd: Path) -> None:
    images = page_of(odd).of("img", alt="dog: train/dog/turned.jpg")
    assert {(image["width"], image["height"]) for image in images} == {("48", "64")}


def test_an_image_with_several_labels_counts_for_each(tmp_path: Path) -> None:
    write_tree(tmp_path / "t", {f"{at}.jpg": jpeg(at) for at in range(4)})
    rows = ["0.jpg,cat dog", "1.jpg,dog", "2.jpg,cat", "3.jpg,dog"]
    (tmp_path / "t/tags.csv").write_text("\n".join(["file,tags", *rows]))
    options = imgrec.SourceOptions(label_sep=" ", label_col="tags")
    folder = pack(tmp_path / "t/tags.csv", tmp_path / "data", source=options)
    shown = {row.get("data-class"): row.get("data-total") for row in page_of(folder).of("tr")}
    assert (shown["cat"], shown["dog"]) == ("2", "3")


def test_compressed_and_foreign_datasets_and_bare_pixels_have_pictures(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 3, "y": 2})
    packed = pack(tree, tmp_path / "gzip", compression="gzip")
    assert len(page_of(packed).of("button", **{"class": "shot"})) == 5
    foreign = pack(tree, tmp_path / "data")
    for name in ("report.json", "samples.parquet", "metadata.json", "SHA256SUMS", "report.html"):
        (foreign / name).unlink()
    for what in (packed, foreign):
        page = imgrec.report(what, path=tmp_path / "a.html", engine=ENGINE)
        assert (page.facts.totals, page.thumbnails) == ((3, 2), 5)
    digits = imgrec.report(ROOT / "sample_data/digits", path=tmp_path / "a.html", engine=ENGINE)
    assert (digits.facts.images, digits.thumbnails, digits.facts.toned) == (80, 80, 80)


def test_brightness_is_measured_by_report_if_packing_did_not(tmp_path: Path) -> None:
    blank = encode(Image.new("RGB", (24, 16), (250, 250, 250)), "PNG")
    tree = write_tree(
        tmp_path / "a",
        {"x/blank.png": blank, "x/1.png": png(1), "y/2.jpg": jpeg(2), "y/tiny.png": png(3, (5, 3))},
    )
    folder = pack(tree, tmp_path / "data")
    assert "brightness of 1 of 4" in page_of(folder).text
    page = imgrec.report(folder, path=tmp_path / "a.html", engine=ENGINE)
    assert [found.key for found in page.facts.outliers] == ["tiny", "blank"]


# The same every time, and safe


@pytest.mark.processes
def test_neither_workers_nor_places_change_it(cli: Cli, tmp_path: Path, odd: Path) -> None:
    source = odd_tree(tmp_path / "zoo")
    done = cli("pack", source, "--thumbnails", "200", "--workers", "3", "--json")
    again = Path(json.loads(done.stdout)["path"]) / "report.html"
    assert again.read_bytes() == (odd / "report.html").read_bytes()


def test_hostile_names_stay_text(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {HOSTILE: 3, "\"'&amp;": 2})
    write_tree(tree, {f"{HOSTILE}/{HOSTILE_FILE}": jpeg(50), "x/\x1b[2Jred\x07.jpg": jpeg(51)})
    page = page_of(pack(tree, tmp_path / "data"))
    assert len(page.of("script")) == 1
    assert all(str(image.get("src", "data:")).startswith("data:") for image in page.of("img"))
    assert not [tag for tag, attributes in page.tags if "onerror" in attributes]
    for name in (HOSTILE, HOSTILE_FILE, "\\x1b[2Jred\\x07.jpg"):
        assert name in page.text


def test_it_is_self_contained_and_every_picture_has_a_text(odd: Path) -> None:
    html, page = (odd / "report.html").read_text(), page_of(odd)
    (policy,) = page.of("meta", **{"http-equiv": "Content-Security-Policy"})
    assert str(policy["content"]).startswith("default-src 'none'; img-src data:; style-src 'sha256")
    assert "unsafe" not in str(policy["content"])
    assert re.findall(r"https?://", html) == []
    assert " style=" not in html
    images = page.of("img")
    assert len(images) > 30
    assert [image for image in images[:-1] if not image["alt"]] == []  # the last is the lightbox


# Small


@pytest.mark.parametrize("count", [0, 1, 4, 7])
def test_no_more_pictures_than_asked_for_and_classes_take_turns(tmp_path: Path, count: int) -> None:
    tree = class_tree(tmp_path / "a", {"x": 9, "y": 1, "z": 9})
    page = page_of(pack(tree, tmp_path / "data", thumbnails=count))
    assert len([image for image in page.of("img") if image.get("src")]) == count
    labels = [str(button["data-label"]) for button in page.of("button") if "data-label" in button]
    assert sorted(labels) == sorted("xyzxzxz"[:count])


@pytest.mark.slow
def test_a_million_images_of_a_thousand_classes_stay_below_10_mb(tmp_path: Path) -> None:
    noise = Image.frombytes("RGB", (256, 256), random.Random(0).randbytes(256 * 256 * 3))
    (tmp_path / "noise.jpg").write_bytes(encode(noise, "JPEG", quality=95))
    page = synthetic(1_000_000, 1_000, tmp_path / "noise.jpg")
    assert 400 < page.thumbnails < 1_000  # noise takes more bytes than any photo
    assert len(page.data) < 10_000_000


def test_a_photo_of_each_of_a_thousand_classes_fits(tmp_path: Path) -> None:
    (tmp_path / "photo.jpg").write_bytes(detailed(0, (400, 300), 90))
    page = synthetic(10_000, 1_000, tmp_path / "photo.jpg")
    assert [sheet.label for sheet in page.facts.sheets if not sheet.shots] == []
    assert 1_000 <= page.thumbnails <= 1_250
    assert len(page.data) < 10_000_000


def test_it_claims_no_leaks_only_if_all_images_were_compared(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 6, "y": 6})  # too small for near-duplicates
    folder = pack(tree, tmp_path / "data", val_split=0.3)
    text = (folder / "report.html").read_text()
    assert "No exact copies across splits" in text
    assert "No leaks between splits" not in text


# The command and its errors


def test_the_command_prints_findings_and_the_path(cli: Cli, tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "a", {"x": 3, "y": 3})
    write_tree(tree, {"x/bad.jpg": jpeg(7)[:300]})
    done = cli("report", tree)
    assert done.stderr == ""
    assert done.stdout.startswith("a: 6 images, 2 classes\nfindings    1 x skipped\n")
    assert (tmp_path / "a_source_report.html").exists()
    value = json.loads(cli("report", tree, "-o", "b.html", "--json").stdout)
    assert (value["images"], value["findings"], value["path"]) == (6, {"skipped": 1}, "b.html")


def test_an_unknown_or_unreadable_source_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="no dataset 'nothing'"):
        imgrec.report("nothing", engine=ENGINE)
    bad = write_tree(tmp_path / "bad", {"x/a.jpg": jpeg(1)[:300], "y/b.jpg": jpeg(2)[:300]})
    with pytest.raises(SourceError, match="none of the 2 images"):
        imgrec.report(bad, path=tmp_path / "a.html", engine=ENGINE)
    assert not (tmp_path / "a.html").exists()


@pytest.mark.parametrize("path", ["missing/a.html", "."])
def test_a_path_that_cannot_be_written_is_refused_before_any_work(path: str) -> None:
    with pytest.raises(UsageError) as caught:
        imgrec.report("nothing", path=path, engine=ENGINE)
    assert "-o" in caught.value.hint


def test_a_failed_write_hints_at_the_option(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "flowers", {"rose": 1, "daisy": 1})
    with pytest.raises(ExecutionError, match="File name too long") as caught:
        imgrec.report(source, path=tmp_path / f"{'a' * 300}.html", engine=ENGINE)
    assert caught.value.hint == "choose another place with -o"


def test_thumbnails_must_not_be_negative_and_are_part_of_the_dataset(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="thumbnails must be at least 0"):
        imgrec.report("nothing", thumbnails=-1)
    tree = class_tree(tmp_path / "a", {"x": 3, "y": 3})
    pack(tree, tmp_path / "data")
    with pytest.raises(imgrec.DatasetExists):
        pack(tree, tmp_path / "data", thumbnails=1)
