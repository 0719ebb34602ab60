"""The end of the page: how to load it, and how it was made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imgrec.inspection.reporting.facts import Facts, Snippet
from imgrec.inspection.reporting.sections import section
from imgrec.text import markup, size

_AS_OPTIONS = {"shard_bytes": "shard_size", "columns": "column"}
"""What options are called on the command line, if not as in report.json."""


def loading(snippets: Sequence[Snippet], *, is_packed: bool) -> str:
    """Return how to load it, with buttons to copy."""
    cards = "".join(
        f'<div class="card snippet"><header><h3>{markup(snippet.title)}</h3>'
        f'<button type="button" class="copy" aria-label="Copy the code for '
        f'{markup(snippet.title)}">Copy</button></header>'
        f'<pre tabindex="0"><code>{markup_code(snippet.code)}</code></pre></div>'
        for snippet in snippets
    )
    about = (
        "Names are looked up where TFDS looks. If the dataset is elsewhere, give TFDS data_dir=, "
        "the folder that holds it; imgrec takes a path in place of the name."
        if is_packed
        else "SOURCE is what this report is about."
    )
    title = "Load it" if is_packed else "Pack it"
    return section("load", title, about, f'<div class="grid broad">{cards}</div>')


def markup_code(code: str) -> str:
    """Return code as HTML, line by line."""
    return "\n".join(map(markup, code.rstrip("\n").split("\n")))


def making(facts: Facts) -> str:
    """Return what made it: options, fingerprint, and what was passed over."""
    rows = [
        *([("fingerprint", facts.fingerprint)] if facts.fingerprint else ()),
        *((_option(key), _told(key, value)) for key, value in _set(facts)),
        *(("ignored", f"{column.images:,} x {column.name}") for column in facts.ignored),
        *(("warning", warning) for warning in facts.warnings),
    ]
    body = "".join(
        f'<tr><th scope="row">{markup(key)}</th><td class="mono">{markup(value)}</td></tr>'
        for key, value in rows
    )
    inside = f'<div class="card scroll"><table class="facts"><tbody>{body}</tbody></table></div>'
    about = "The same source and options give the same bytes, this page included."
    return section("made", "How it was made", about, inside) if rows else ""


def _set(facts: Facts) -> Iterator[tuple[str, object]]:
    return ((key, value) for key, value in facts.options.items() if value not in (None, "", [], 0))


def _option(key: str) -> str:
    return f"--{_AS_OPTIONS.get(key, key).replace('_', '-')}"


def _told(key: str, value: object) -> str:
    if key == "shard_bytes" and isinstance(value, int):
        return size(value)
    if isinstance(value, dict):
        return ", ".join(f"{old} -> {new or 'dropped'}" for old, new in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
