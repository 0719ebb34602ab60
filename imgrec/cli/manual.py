"""`imgrec help TOPIC`: the pages of the manual that ships with the package."""

from __future__ import annotations

import re
from importlib.resources import files

from imgrec.cli.parser import VERBS, choose
from imgrec.errors import UsageError

_LINK = re.compile(r"!?\[([^\]]+)\]\([^)]+\)")


def topics() -> list[str]:
    """Return the names of all pages but those of verbs."""
    pages = files("imgrec").joinpath("manual").iterdir()
    names = {page.name.removesuffix(".md") for page in pages if page.name.endswith(".md")}
    return sorted(names - VERBS.keys())


def show_page(topic: str) -> None:
    """Show a page, in a pager on a terminal; raise UsageError if there is none."""
    from pydoc import pager

    if topic not in topics():
        known = [*VERBS, *topics()]
        raise UsageError(f"there is no verb or topic {topic!r}", hint=choose(known, topic))
    text = files("imgrec").joinpath("manual", f"{topic}.md").read_text(encoding="utf-8")
    pager(_LINK.sub(r"\1", text))
