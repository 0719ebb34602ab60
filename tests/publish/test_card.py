"""What people should know about a dataset: given with options or a file, and shown everywhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from conftest import Cli
from pictures import class_tree

import imgrec
from imgrec.errors import DatasetExists, UsageError
from imgrec.options.card import DatasetCard, read_card

README = """\
---
license: cc-by-4.0
language:
- en
pretty_name: "Flowers: five kinds"
homepage: https://example.org/flowers
size_categories: [n<1K]
---

# Flowers

```bibtex
@misc{flowers,
  title={Flowers}
}
```
"""
CARD = DatasetCard(
    "Flowers: five kinds",
    "@misc{flowers,\n  title={Flowers}\n}",
    "cc-by-4.0",
    "https://example.org/flowers",
)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "flowers", {"rose": 2, "tulip": 2})


def test_tfds_and_info_show_what_a_card_and_options_say(
    tmp_path: Path, source: Path, cli: Cli, data_dir: Path
) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    (tmp_path / "README.md").write_text(README)
    cli("pack", source, "--card", tmp_path / "README.md", "--license", "CC0-1.0")
    info = tfds.builder("flowers", data_dir=data_dir).info
    assert info.description == CARD.description
    assert info.citation == CARD.citation
    assert info.homepage == CARD.homepage
    assert info.redistribution_info.license == "CC0-1.0"
    about = imgrec.info("flowers", data_dir=data_dir).about
    assert about == CARD._replace(license="CC0-1.0")
    shown = json.loads(cli("info", "flowers", "--json").stdout)
    assert {name: shown[name] for name in DatasetCard._fields} == about._asdict()
    assert f"homepage    {CARD.homepage}\n" in cli("info", "flowers").stdout


def test_without_a_homepage_tfds_shows_none_of_its_catalogue(source: Path, tmp_path: Path) -> None:
    tfds = pytest.importorskip("tensorflow_datasets")
    packed = imgrec.pack(source, data_dir=tmp_path / "data")
    info = tfds.builder_from_directory(packed.info.path).info
    assert info.homepage == "about:blank"
    assert info.description == "4 images in 2 classes, packed by imgrec."
    assert packed.info.about == DatasetCard()


def test_the_report_shows_it(source: Path, tmp_path: Path) -> None:
    packed = imgrec.pack(source, data_dir=tmp_path / "data", description="<b>2", license="mit")
    page = (Path(packed.info.path) / "report.html").read_text()
    assert '<p class="about"><b>Description</b> <bdi>&lt;b&gt;2</bdi></p>' in page
    assert '<p class="about"><b>License</b> <bdi>mit</bdi></p>' in page


def test_another_license_is_another_dataset(source: Path, tmp_path: Path) -> None:
    imgrec.pack(source, data_dir=tmp_path / "data", license="mit")
    assert not imgrec.pack(source, data_dir=tmp_path / "data", license="mit").is_new
    with pytest.raises(DatasetExists, match=r"packed with other options \(--license\)"):
        imgrec.pack(source, data_dir=tmp_path / "data", license="gpl")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (README, CARD),
        (README.replace("\n", "\r\n"), CARD),
        ('{"title": "T", "licenses": [{"name": "CC0-1.0"}]}', DatasetCard("T", "", "CC0-1.0")),
        ("license: [mit, gpl-3.0]\nurl: https://a.b", DatasetCard("", "", "mit, gpl-3.0", "https://a.b")),
        ("license: other\nlicense_name: my terms", DatasetCard("", "", "my terms")),
        ("citation: |\n  one\n  two\n", DatasetCard("", "one\ntwo")),
    ],
    ids=["hugging face", "windows", "kaggle", "several licenses", "other license", "yaml"],
)  # fmt: skip
def test_a_card_is_read_in_every_form(text: str, expected: DatasetCard) -> None:
    assert read_card(text, "card") == expected


@pytest.mark.parametrize(
    ("text", "title", "fault"),
    [
        ("# Flowers\n", "README.md", "it does not begin with a line of ---"),
        ("just text", "card.yaml", "it is not a map of names and texts"),
        ("a: [", "card.yaml", "it is not YAML, line "),
        ("language: en", "card.yaml", "it has no description, citation, license or homepage"),
        ("homepage: flowers", "card.yaml", "card cannot be 'flowers'"),
        ("!!python/object/apply:os.system [true]", "card.yaml", "it is not YAML, line 1"),
    ],
)
def test_an_unusable_card_is_refused(text: str, title: str, fault: str) -> None:
    with pytest.raises(UsageError) as caught:
        read_card(text, title)
    assert fault in caught.value.message


@pytest.mark.parametrize("given", [{"license": "a\nb"}, {"homepage": "flowers.org"}, {"card": 3}])
def test_unusable_words_are_refused(given: dict[str, str]) -> None:
    with pytest.raises(UsageError, match=f"{next(iter(given))} cannot be"):
        imgrec.PackOptions(**given)  # type: ignore[arg-type]


def test_a_card_may_be_a_dict(source: Path, tmp_path: Path) -> None:
    card = {"license": "mit", "title": "Flowers"}
    packed = imgrec.pack(source, data_dir=tmp_path / "data", card=card)
    assert packed.info.about == DatasetCard("Flowers", "", "mit")
