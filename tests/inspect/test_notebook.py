"""Datasets, splits and packs as notebooks show them."""

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


def test_cards_show_counts_pictures_and_findings(packed: imgrec.Packed) -> None:
    dataset = imgrec.open_dataset(packed.info.path)
    card, report = dataset._repr_html_(), packed._repr_html_()
    assert "zoo 1.0.0" in card
    assert "10 images, 2 classes" in card
    assert card.count("<img") == len(dataset["train"])
    assert "&lt;script&gt;alert(1)&lt;_script&gt;" in card
    assert "skipped" in report
    assert "report.html" in report
    assert packed.report._repr_html_() in report
    assert "<script" not in card + report
    dogs = dataset["all"].of_class("dog")
    assert dogs._repr_html_().count("<img") == 4
    assert dogs.class_counts() == (0, 4)


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
