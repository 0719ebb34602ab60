"""Small pieces of HTML for notebooks, which show objects by their `_repr_html_`."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence

from imgrec.text import markup, number, size

MOST_CLASSES, MOST_PICTURES = 20, 12
_CELL = "text-align:{};padding:2px 12px 2px 0"


def card(title: str, about: str, *parts: str) -> str:
    """Return parts below a title."""
    head = f"<strong>{markup(title)}</strong> <span style='opacity:.7'>{markup(about)}</span>"
    return f"<div style='max-width:60em'>{head}{''.join(parts)}</div>"


def table(heads: Sequence[str], rows: Iterable[Sequence[object]], more: str = "") -> str:
    """Return a table; what is no text stands right."""
    top = "".join(f"<th style='{_CELL.format('left')}'>{markup(head)}</th>" for head in heads)
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in rows)
    rest = f"<div style='opacity:.7'>{markup(more)}</div>" if more else ""
    return f"<table><thead><tr>{top}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _cell(value: object) -> str:
    if isinstance(value, str):
        return f"<td style='{_CELL.format('left')}'>{markup(value)}</td>"
    return f"<td style='{_CELL.format('right')}'>{value:,}</td>"


def class_table(classes: Sequence[str], counts: Sequence[tuple[str, Sequence[int] | None]]) -> str:
    """Return the first classes, with the images that each has in every split that tells."""
    known = [(split, by_label) for split, by_label in counts if by_label]
    rows = [
        (label, name, *(by_label[label] for _, by_label in known))
        for label, name in enumerate(classes[:MOST_CLASSES])
    ]
    rest = len(classes) - MOST_CLASSES
    more = f"… {number(rest, 'more class', 'more classes')}" if rest > 0 else ""
    return table(("label", "class", *(split for split, _ in known)), rows, more)


def split_table(splits: Iterable[tuple[str, int, int, int]]) -> str:
    """Return splits: name, images, shards and bytes of each."""
    rows = [(name, images, shards, size(total)) for name, images, shards, total in splits]
    return table(("split", "images", "shards", "bytes"), rows)


def strip(pictures: Iterable[tuple[bytes, str]]) -> str:
    """Return JPEGs side by side, each with what is said of it when one points at it."""
    images = "".join(
        f"<img src='data:image/jpeg;base64,{base64.b64encode(data).decode()}' "
        f"title='{markup(told)}' alt='{markup(told)}' style='height:72px;border-radius:6px'>"
        for data, told in pictures
    )
    inside = "display:flex;flex-wrap:wrap;gap:4px;margin:6px 0"
    return f"<div style='{inside}'>{images}</div>" if images else ""
