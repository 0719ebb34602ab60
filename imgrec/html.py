"""HTML from templates, in which every value is escaped: pages, and the cards of notebooks."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

MAX_PICTURES = 12
"""How many pictures a card shows."""
_MAX_CLASSES = 20


def render(template: Path, values: Mapping[str, object]) -> str:
    """Fill in a template. File and class names may hold anything: they stay text."""
    text = _environment(template.parent).get_template(template.name).render(values)
    return text.lstrip()  # of the blank lines between macros


@cache
def _environment(folder: Path) -> Environment:
    from jinja2 import Environment, FileSystemBytecodeCache, FileSystemLoader, StrictUndefined
    from jinja2.bccache import Bucket

    class BytecodeCache(FileSystemBytecodeCache):
        def dump_bytecode(self, bucket: Bucket) -> None:
            with suppress(OSError):  # a full disk, or a package that only root may write to
                super().dump_bytecode(bucket)

    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=True,
        finalize=_without_control_characters,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        # Beside the bytecode of our modules: compiling report.html's templates takes 75 ms.
        bytecode_cache=BytecodeCache(os.fspath(folder / "__pycache__"), "%s.jinja"),
    )
    environment.filters.update(
        base64=_base64, commas="{:,}".format, number=number, size=size, tenths="{:.1f}".format
    )
    return environment


def _without_control_characters(value: object) -> object:
    return visible(value) if type(value) is str else value  # not of Markup, a subclass


def _base64(data: bytes) -> Markup:
    from markupsafe import Markup

    return Markup(base64.b64encode(data).decode())


class SplitRow(NamedTuple):
    """A split."""

    name: str
    images: int
    shards: int
    bytes: int


class Picture(NamedTuple):
    """A small JPEG."""

    data: bytes
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Card:
    """A dataset in short, which notebooks show as its `_repr_html_`. Empty parts are left out."""

    title: str
    subtitle: str
    splits: Sequence[SplitRow] = ()
    pictures: Iterable[Picture] = ()
    classes: Sequence[str] = ()
    counts: Sequence[tuple[str, Sequence[int] | None]] = ()
    """The name of each split, and its images by label if known."""
    findings: Sequence[tuple[str, int]] = ()

    def html(self) -> str:
        """Return the card as HTML."""
        known = [(split, images) for split, images in self.counts if images]
        shown = self.classes[:_MAX_CLASSES]
        values = {
            "card": self,
            "pictures": list(self.pictures),
            "columns": [split for split, _ in known],
            "rows": [
                (name, [images[label] for _, images in known]) for label, name in enumerate(shown)
            ],
            "hidden": len(self.classes) - len(shown),
        }
        return render(Path(__file__).with_name("notebook.html"), values)
