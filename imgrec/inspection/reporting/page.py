"""The page itself: one file of HTML that needs nothing else, and may ask for nothing else."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterator
from importlib.resources import files

from imgrec.inspection.reporting import making, sections
from imgrec.inspection.reporting.facts import Facts
from imgrec.inspection.reporting.pictures import Thumbnails, contact_sheets, finding_cards
from imgrec.inspection.where import Where
from imgrec.text import markup

_LIGHT = """
<dialog aria-labelledby="light-title"><div class="light"><figure><img alt=""></figure><aside>
<h2 id="light-title"></h2><dl></dl><div class="row">
<button type="button" class="button before" aria-label="Previous image">←</button>
<button type="button" class="button after" aria-label="Next image">→</button>
<button type="button" class="button close">Close</button></div></aside></div></dialog>
"""
_TITLES = {
    "balance": "Class balance",
    "images": "Images",
    "sheets": "Pictures",
    "findings": "Findings",
    "outliers": "Outliers",
    "load": "Load it",
    "made": "How it was made",
}


def shown_places(facts: Facts) -> Iterator[Where]:
    """Yield where the pictures are that the page shows, the most important first."""
    found = (*facts.findings, *facts.outliers)
    shots = [shot for each in found for entry in each.entries for shot in entry.shots]
    yield from (shot.where for shot in shots if shot.where is not None)
    deepest = max((len(sheet.shots) for sheet in facts.sheets), default=0)
    for depth in range(deepest):
        for sheet in facts.sheets:
            if depth < len(sheet.shots) and (where := sheet.shots[depth].where) is not None:
                yield where


def draw_page(facts: Facts, thumbnails: Thumbnails) -> bytes:
    """Return the page; equal facts and pictures give equal bytes."""
    style, script = (
        files(__package__).joinpath(name).read_text("utf-8") for name in ("page.css", "page.js")
    )
    # What is not named here by its hash is neither run nor fetched, whatever a name smuggles in.
    policy = (
        f"default-src 'none'; img-src data:; style-src {_hash(style)}; "
        f"script-src {_hash(script)}; base-uri 'none'; form-action 'none'"
    )
    title = " ".join(filter(None, (facts.name, facts.version)))
    body = "".join(_sections(facts, thumbnails))
    links = "".join(
        f'<a href="#{key}">{name}</a>'
        for key, name in _TITLES.items()
        if f'<section id="{key}"' in body
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="referrer" content="no-referrer">'
        f"<title>{markup(title)} · imgrec report</title><style>{style}</style></head>\n<body>"
        '<a class="skip" href="#balance">Skip to the report</a>'
        f"{sections.headline(facts)}"
        f'<nav aria-label="Sections"><div class="inner">{links}</div></nav>\n'
        f"<main>{body}</main>"
        '<footer><div class="inner">Made by imgrec. This page is one file: it works offline, '
        "asks the network for nothing, and can be sent on as it is.</div></footer>"
        f"{_LIGHT}<script>{script}</script></body></html>\n"
    ).encode()


def _sections(facts: Facts, thumbnails: Thumbnails) -> Iterator[str]:
    yield sections.balance(facts)
    yield sections.images(facts)
    yield contact_sheets(facts, thumbnails)
    if facts.findings:
        yield finding_cards(
            "findings", "Findings", _FINDINGS if facts.version else _EXPECTED, facts.findings,
            thumbnails,
        )  # fmt: skip
    if facts.outliers:
        yield finding_cards(
            "outliers", "Worth a look", _outliers_text(facts), facts.outliers, thumbnails
        )
    yield making.loading(facts.snippets, is_packed=bool(facts.version))
    yield making.making(facts)


_FINDINGS = "What was not packed as it is, or is there twice. report.json names every file."
_EXPECTED = "What would not be packed as it is, or is there twice."


def _outliers_text(facts: Facts) -> str:
    text = "The most extreme images of each kind."
    if facts.toned == facts.images:
        return text
    return (
        f"{text} How bright an image is, is known of {facts.toned:,} of {facts.images:,}: those "
        "that were decoded anyway; imgrec report looks at all."
    )


def _hash(text: str) -> str:
    digest = base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
    return f"'sha256-{digest}'"
