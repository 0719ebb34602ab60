"""What people should know about a dataset: its description, citation, license and homepage.

A card is written as YAML or JSON, or as the front matter of a README.md:

    ---
    license: cc-by-4.0
    pretty_name: Flowers
    ---
    # Flowers ...

Hugging Face and Kaggle write such files, each with keys of its own.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from imgrec.options.parsing import OptionError, parse_text, refusal, verbatim

NO_HOMEPAGE = "about:blank"
"""Stands for no homepage: TFDS takes an empty one for a page of its own catalogue."""
_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S+")
_FRONT_MATTER = re.compile(r"\ufeff?---[ \t]*\n(.*?)\n---[ \t]*(?:\n|\Z)", re.DOTALL)
_BIBTEX = re.compile(r"^```[ \t]*bibtex[ \t]*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_KEYS: Mapping[str, tuple[str, ...]] = {
    "description": ("description", "pretty_name", "title"),
    "citation": ("citation",),
    "license": ("license", "licenses", "license_name"),
    "homepage": ("homepage", "url"),
}
"""Where each field is found, best first."""


class DatasetCard(NamedTuple):
    """What people should know about a dataset. Each text may be empty."""

    description: str = ""
    citation: str = ""
    license: str = ""
    homepage: str = ""

    def over(self, other: DatasetCard) -> DatasetCard:
        """Return this card, with what it lacks from another one."""
        return DatasetCard(*(own or theirs for own, theirs in zip(self, other, strict=True)))

    def given(self) -> dict[str, str]:
        """Return the texts that are not empty, by name."""
        return {name: text for name, text in self._asdict().items() if text}


def parse_prose(name: str, value: object) -> str:
    """Take text for people, without blanks around it."""
    return parse_text(name, value).strip()


def parse_line(name: str, value: object) -> str:
    """Take text of one line."""
    text = parse_prose(name, value)
    if len(text.splitlines()) > 1:
        raise refusal(name, value, "give it in one line, such as cc-by-4.0")
    return text


def parse_homepage(name: str, value: object) -> str:
    """Take an address, or nothing."""
    text = parse_prose(name, value)
    if text and not _URL.fullmatch(text):
        raise refusal(name, value, "give an address such as https://example.org/flowers")
    return "" if text == NO_HOMEPAGE else text


_PARSERS = {"description": parse_prose, "citation": parse_prose, "license": parse_line}


def parse_card(name: str, value: object) -> DatasetCard:
    """Take a card, or a dict with the keys of a card."""
    if isinstance(value, DatasetCard):
        value = value._asdict()
    if not isinstance(value, Mapping):
        raise refusal(name, value, "give a file, or a dict with description, license and the like")
    fields = {field: _find(value, keys) for field, keys in _KEYS.items()}
    return DatasetCard(
        **{field: _PARSERS.get(field, parse_homepage)(name, text) for field, text in fields.items()}
    )


def read_card(text: str, title: str) -> DatasetCard:
    """Return the card in the text of a file, which `title` names; raise UsageError if none."""
    text = text.replace("\r\n", "\n")
    found = _FRONT_MATTER.match(text)
    if found is None and title.lower().endswith(".md"):
        raise _unusable(title, "it does not begin with a line of ---")
    body = text[found.end() :] if found else ""
    value = _parse_yaml(found[1] if found else text, title)
    if not isinstance(value, Mapping):
        raise _unusable(title, "it is not a map of names and texts")
    card = parse_card("card", value)
    bibtex = _BIBTEX.search(body)
    if bibtex and not card.citation:
        card = card._replace(citation=bibtex[1].strip())
    if not any(card):
        raise _unusable(title, "it has no description, citation, license or homepage")
    return card


def _parse_yaml(text: str, title: str) -> object:
    import yaml  # type: ignore[import-untyped]  # without types-PyYAML

    try:
        return yaml.load(text, yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f", line {mark.line + 1}" if mark else ""
        raise _unusable(title, f"it is not YAML{where}") from error


def _unusable(title: str, fault: str) -> OptionError:
    return OptionError(
        verbatim(f"{title} cannot be used: {fault}"),
        hint="write lines such as license: cc-by-4.0, in YAML or between two lines of --- "
        "at the top of a README.md",
    )


def _find(value: Mapping[object, object], keys: tuple[str, ...]) -> str:
    """Return the text of the first key that has one."""
    return next(filter(None, (_text(value.get(key)) for key in keys)), "")


def _text(value: object) -> str:
    """Return a value as text, and several as a list of texts."""
    values = value if isinstance(value, list) else [value]
    return ", ".join(filter(None, map(_plain, values)))


def _plain(value: object) -> str:
    if isinstance(value, Mapping):  # as in Kaggle's licenses: [{"name": "CC0-1.0"}]
        value = value.get("name")
    is_text = isinstance(value, str | int | float) and not isinstance(value, bool)
    return str(value) if is_text and value != "other" else ""
