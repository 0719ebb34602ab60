"""What notebooks show of datasets and packs."""

from __future__ import annotations

from pathlib import Path

import pytest
from inline import ENGINE, pack
from pictures import class_tree, jpeg, write_tree

import imgrec

HOSTILE = "<script>alert(1)<_script>"


@pytest.fixture
def packed(tmp_path: Path) -> imgrec.Packed:
    tree = class_tree(tmp_path / "zoo", {HOSTILE: 6, "dog": 4})
    write_tree(tree, {"dog/bad.jpg": jpeg(99)[:300]})
    options = imgrec.PackOptions(data_dir=str(tmp_path / "data"), val_split=0.5, max_bad=0.5)
    return imgrec.pack(tree, options, engine=ENGINE)


def test_a_dataset_shows_splits_classes_and_pictures(packed: imgrec.Packed) -> None:
    dataset = imgrec.open_dataset(packed.info.path)
    html = dataset._repr_html_()
    assert "zoo 1.0.0" in html
    assert "10 images, 2 classes" in html
    assert html.count("<img") == len(dataset["train"])
    assert "&lt;script&gt;alert(1)&lt;_script&gt;" in html
    assert "<script" not in html


def test_a_split_shows_its_classes_and_pictures(packed: imgrec.Packed) -> None:
    dogs = imgrec.open_dataset(packed.info.path)["all"].of_class("dog")
    html = dogs._repr_html_()
    assert html.count("<img") == 4
    assert dogs.class_counts() == (0, 4)


def test_a_pack_shows_what_it_found_and_where_it_is(packed: imgrec.Packed) -> None:
    html = packed._repr_html_()
    assert "skipped" in html
    assert "report.html" in html
    assert "<script" not in html
    assert packed.report._repr_html_() in html


def test_many_classes_and_images_stay_small(tmp_path: Path) -> None:
    tree = class_tree(tmp_path / "many", {f"class {at}": 1 for at in range(60)})
    html = imgrec.open_dataset(pack(tree, tmp_path / "data"))._repr_html_()
    assert html.count("<img") == 12
    assert "40 more classes" in html
    assert len(html) < 100_000


def test_a_damaged_dataset_is_shown_without_pictures(packed: imgrec.Packed) -> None:
    for shard in Path(packed.info.path).glob("*.tfrecord-?????-of-?????"):
        shard.write_bytes(bytes(shard.stat().st_size))
    html = imgrec.open_dataset(packed.info.path)._repr_html_()
    assert "<img" not in html
    assert "10 images" in html
