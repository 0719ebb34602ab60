"""The parts of the page that show pictures: contact sheets, findings and outliers."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence

from imgrec.inspection.reporting.facts import Entry, Facts, Finding, Sheet, Shot
from imgrec.inspection.reporting.sections import MOST_CLASSES, class_filter, section
from imgrec.inspection.reporting.thumbnails import Thumbnail
from imgrec.inspection.where import Where
from imgrec.text import markup, number, size

Thumbnails = Mapping[Where, Thumbnail]

_TIMES = "\N{MULTIPLICATION SIGN}"
_FEW = 4
"""Classes with fewer pictures each share a sheet."""
_MOST_TEXT = 300


def contact_sheets(facts: Facts, thumbnails: Thumbnails) -> str:
    """Return some pictures of every class."""
    sheets = facts.sheets[:MOST_CLASSES]
    shown = [sheet for sheet in sheets if any(_has(shot, thumbnails) for shot in sheet.shots)]
    if not shown:
        return ""
    fullest = max(len(sheet.shots) for sheet in shown)
    draw = _row if fullest >= _FEW else _tile
    inside = "".join(draw(sheet, thumbnails) for sheet in shown)
    if draw is _tile:
        inside = f'<ul class="shots" id="classes-shown">{inside}</ul>'
    else:
        inside = f'<div id="classes-shown">{inside}</div>'
    pictures = sum(len(sheet.shots) for sheet in shown)
    left_out = len(facts.classes) - len({sheet.label for sheet in shown if sheet.label >= 0})
    about = f"{number(pictures, 'image')} of {facts.images:,}. Select one to enlarge it."
    if left_out > 0:
        about += f" {number(left_out, 'class has', 'classes have')} none here: see --thumbnails."
    tools = class_filter("sheets", "#classes-shown [data-class]", len(shown))
    return section(
        "sheets", "What is in it", about, f'<div class="card">{inside}</div>',
        f'<div class="tools">{tools}</div>',
    )  # fmt: skip


def _name(sheet: Sheet) -> str:
    return sheet.name if sheet.label >= 0 else "without a label"


def _row(sheet: Sheet, thumbnails: Thumbnails) -> str:
    name = markup(_name(sheet))
    shots = "".join(f"<li>{button(shot, thumbnails)}</li>" for shot in sheet.shots)
    label = f"label {sheet.label} · " if sheet.label >= 0 else ""
    return (
        f'<div class="class" data-class="{name}"><h3><bdi>{name}</bdi>'
        f'<span class="soft">{label}{number(sheet.total, "image")}</span></h3>'
        f'<ul class="shots">{shots}</ul></div>'
    )


def _tile(sheet: Sheet, thumbnails: Thumbnails) -> str:
    name = markup(_name(sheet))
    return "".join(
        f'<li data-class="{name}">{button(shot, thumbnails)}<div class="tile-name">'
        f'<bdi>{name}</bdi> <span class="soft">{sheet.total:,}</span></div></li>'
        for shot in sheet.shots
        if _has(shot, thumbnails)
    )


def _has(shot: Shot, thumbnails: Thumbnails) -> bool:
    return shot.where is not None and shot.where in thumbnails


def button(shot: Shot, thumbnails: Thumbnails, reason: str = "") -> str:
    """Return a picture that can be enlarged, or a place without one."""
    if shot.where is None or shot.where not in thumbnails:
        return '<span class="none" aria-hidden="true">no picture</span>'
    small = thumbnails[shot.where]
    labels = ", ".join(shot.labels)
    shape = _shape(shot)
    data = {
        "name": shot.name, "label": labels, "split": shot.split, "shape": shape,
        "format": shot.format, "bytes": size(shot.size) if shot.size else "", "reason": reason,
    }  # fmt: skip
    kept = " ".join(f'data-{key}="{markup(_cut(value))}"' for key, value in data.items() if value)
    told = " · ".join(filter(None, (shot.name, labels, shape)))
    source = base64.b64encode(small.data).decode()
    return (
        f'<button type="button" class="shot" title="{markup(_cut(told))}" {kept}>'
        f'<img src="data:image/jpeg;base64,{source}" width="{small.width}" '
        f'height="{small.height}" alt="{markup(_cut(_alt(shot, labels)))}" loading="lazy" '
        f'decoding="async"><span aria-hidden="true"><bdi>{markup(_cut(shot.name))}</bdi>'
        f"<br>{markup(_cut(labels))}<br>{shape}</span></button>"
    )


def _alt(shot: Shot, labels: str) -> str:
    return f"{labels}: {shot.name}" if labels else shot.name


def _shape(shot: Shot) -> str:
    if shot.shape is None:
        return ""
    height, width, channels = shot.shape
    return f"{width:,} {_TIMES} {height:,} {_TIMES} {channels}"


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"


def finding_cards(
    key: str, title: str, about: str, findings: Sequence[Finding], thumbnails: Thumbnails
) -> str:
    """Return all findings of a section, each with what it is about."""
    cards = "".join(_card(found, thumbnails) for found in findings)
    return section(key, title, about, cards or '<div class="card"><p>Nothing.</p></div>')


def _card(found: Finding, thumbnails: Thumbnails) -> str:
    entries = "".join(_entry(entry, thumbnails) for entry in found.entries)
    rest = found.total - len(found.entries)
    more = f'<p class="soft">… and {rest:,} more.</p>' if rest > 0 else ""
    badge = f'<span class="badge{" grave" * found.is_grave}">{found.total:,}</span>'
    return (
        f'<article class="card finding" id="{found.key}"><header><h3>{markup(found.title)}</h3>'
        f"{badge}</header><p>{markup(found.meaning)}</p>"
        f'<ul class="entries">{entries}</ul>{more}</article>'
    )


def _entry(entry: Entry, thumbnails: Thumbnails) -> str:
    pictures = "".join(button(shot, thumbnails, entry.reason) for shot in entry.shots)
    names = "".join(
        f"<div><bdi>{markup(_cut(shot.name))}</bdi>{_tags(shot)}</div>" for shot in entry.shots
    )
    return (
        f'<li><div class="pics">{pictures}</div><div class="what">{names}'
        f'<div class="reason">{markup(_cut(entry.reason))}</div></div></li>'
    )


def _tags(shot: Shot) -> str:
    tags = [*filter(None, (shot.split,)), *shot.labels[:3]]
    return "".join(f' <span class="tag"><bdi>{markup(_cut(tag))}</bdi></span>' for tag in tags)
