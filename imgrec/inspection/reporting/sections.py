"""The parts of the page that count: headline, class balance and sizes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from imgrec.inspection.reporting import charts
from imgrec.inspection.reporting.facts import Column, Facts, Measures, SplitFacts
from imgrec.text import markup, number, size

MOST_CLASSES = 2000
"""How many classes are listed; the rest is only counted."""
_TIMES = "\N{MULTIPLICATION SIGN}"
_MANY_CLASSES = 24
"""From here on the list of classes scrolls, and there is an overview."""
_ASPECT_TICKS = tuple(
    charts.Tick(at, text)
    for at, text in (
        (1, "1:3"), (2, "1:2"), (3, "2:3"), (5.5, "1:1"), (8, "3:2"), (9, "2:1"), (10, "3:1"),
    )
)  # fmt: skip


def headline(facts: Facts) -> str:
    """Return the top of the page: what this is, in a few numbers."""
    version = f" <small>{markup(facts.version)}</small>" if facts.version else ""
    kicker = "Dataset report" if facts.version else "Source report, before packing"
    tiles = "".join(
        f"<li><b>{markup(value)}</b><span>{markup(what)}</span></li>"
        for value, what in _tiles(facts)
    )
    return (
        '<header class="top"><div class="inner">'
        f'<p class="kicker">{kicker}</p><h1><bdi>{markup(facts.name)}</bdi>{version}</h1>'
        f'<p class="lead">{markup(_lead(facts))}</p>'
        '<div class="strip" aria-hidden="true" hidden></div>'
        f'<ul class="tiles">{tiles}</ul><ul class="chips">{"".join(_chips(facts))}</ul>'
        "</div></header>"
    )


def _lead(facts: Facts) -> str:
    splits = ", ".join(f"{split.images:,} {split.name}" for split in facts.splits)
    told = facts.layout.replace("\n", "; ") or "TFDS records"
    return f"{number(facts.images, 'image')} ({splits}), read as {told}."


def _tiles(facts: Facts) -> Iterator[tuple[str, str]]:
    yield f"{facts.images:,}", "images"
    yield f"{len(facts.classes):,}", "class" if len(facts.classes) == 1 else "classes"
    width, height = facts.measures.median
    same = facts.measures.smallest == facts.measures.largest
    yield f"{width:,} {_TIMES} {height:,}", "pixels, every image" if same else "pixels, median"
    packed = f"from {size(facts.source_bytes)} of files" if facts.source_bytes else "of records"
    yield size(facts.bytes), packed
    filled = [total for total in facts.totals if total]
    if len(filled) > 1:
        yield f"{max(filled) / min(filled):,.1f} : 1", "largest to smallest class"


def _chips(facts: Facts) -> Iterator[str]:
    for found in facts.findings:
        kind = ' class="grave"' if found.is_grave else ""
        yield f'<li><a{kind} href="#{found.key}">{markup(found.title)}: {found.total:,}</a></li>'
    keys = {found.key for found in facts.findings}
    # Of a dataset that others made, nobody has looked.
    if facts.version and not facts.fingerprint:
        keys |= {"leaks", "conflicts", "skipped"}
    if len(facts.splits) > 1 and "leaks" not in keys:
        yield '<li><span class="fine">No image in two splits</span></li>'
    if "conflicts" not in keys and not facts.is_multilabel:
        yield '<li><span class="fine">No contradicting labels</span></li>'
    if "skipped" not in keys:
        yield '<li><span class="fine">Nothing skipped</span></li>'
    for found in facts.outliers:
        yield f'<li><a href="#{found.key}">{markup(found.title)}: {found.total:,}</a></li>'


def section(key: str, title: str, about: str, inside: str, tools: str = "") -> str:
    """Return a section of the page."""
    return (
        f'<section id="{key}" aria-labelledby="{key}-title"><header><div>'
        f'<h2 id="{key}-title">{markup(title)}</h2><p>{markup(about)}</p></div>{tools}</header>'
        f"{inside}</section>"
    )


def class_filter(key: str, rows: str, count: int) -> str:
    """Return a field that hides the rows of classes without the text in it."""
    if count < 8:
        return ""
    return (
        f'<label><span class="hidden">Filter classes</span><input type="search" '
        f'placeholder="Filter {count:,} classes" data-filters="{rows}" '
        f'aria-describedby="{key}-left"></label><span id="{key}-left" class="soft" role="status">'
        "</span>"
    )


def balance(facts: Facts) -> str:
    """Return the images of each class by split."""
    totals, many = facts.totals, len(facts.classes) > _MANY_CLASSES
    shown = range(min(len(facts.classes), MOST_CLASSES))
    most = max(totals, default=0)
    rows = "".join(_row(facts, label, totals[label], most) for label in shown)
    heads = "".join(
        f'<th scope="col" class="num by-split">{markup(split.name)}</th>' for split in facts.splits
    )
    table = (
        f'<div class="scroll{" long" * many}" tabindex="0" role="region" aria-label="Classes">'
        '<table class="balance"><thead><tr>'
        '<th scope="col" class="num label">Label</th><th scope="col">Class</th>'
        f'<th scope="col"><span class="hidden">Share</span></th>{heads}'
        '<th scope="col" class="num">Images</th></tr></thead>'
        f'<tbody id="balance-rows">{rows}</tbody></table></div>'
    )
    rest = len(facts.classes) - MOST_CLASSES
    more = (
        f'<p class="soft">… {number(rest, "more class", "more classes")}.</p>' if rest > 0 else ""
    )
    overview = _overview(facts) if many else ""
    tools = class_filter("balance", "#balance-rows tr", len(facts.classes))
    if tools:
        tools += _SORT
    inside = f'<div class="card">{overview}{_legend(facts.splits)}{table}{more}</div>'
    return section(
        "balance", "Class balance", _balance_text(facts), inside,
        f'<div class="tools">{tools}</div>',
    )  # fmt: skip


_SORT = (
    '<label><span class="hidden">Sort classes</span><select id="sort">'
    '<option value="label">by label</option><option value="most">most images first</option>'
    '<option value="fewest">fewest images first</option><option value="name">by name</option>'
    "</select></label>"
)


def _balance_text(facts: Facts) -> str:
    totals = facts.totals
    if not totals:
        return "The images have no classes."
    small = min(range(len(totals)), key=totals.__getitem__)
    large = max(range(len(totals)), key=totals.__getitem__)
    text = (
        f"From {totals[small]:,} images of {facts.classes[small]} to "
        f"{totals[large]:,} of {facts.classes[large]}."
    )
    if totals[small] == totals[large]:
        text = f"{totals[small]:,} images of every class."
    bare = sum(split.unlabelled for split in facts.splits)
    several = " An image may have several labels, and counts for each." * facts.is_multilabel
    return text + several + (f" {number(bare, 'image')} without a label." if bare else "")


def _row(facts: Facts, label: int, total: int, most: int) -> str:
    name = markup(facts.classes[label])
    counts = [(split.name, split.counts[label]) for split in facts.splits]
    cells = "".join(
        f'<td class="num by-split" data-split="{markup(split)}">{count:,}</td>'
        for split, count in counts
    )
    return (
        f'<tr data-class="{name}" data-label="{label}" data-total="{total}">'
        f'<td class="num soft label">{label}</td><th scope="row"><bdi>{name}</bdi></th>'
        f'<td class="track">{charts.stacked(counts, most)}</td>{cells}'
        f'<td class="num total">{total:,}</td></tr>'
    )


def _overview(facts: Facts) -> str:
    return (
        f"<figure><figcaption>Images per class, the largest class first</figcaption>"
        f"{charts.sorted_counts(facts.totals, 'Images per class')}</figure>"
    )


def _legend(splits: Sequence[SplitFacts]) -> str:
    images = max(sum(split.images for split in splits), 1)
    items = "".join(
        f'<li><svg aria-hidden="true"><rect class="{charts.colour(place)}" width="100%" '
        f'height="100%"/></svg><b>{markup(split.name)}</b> {split.images:,} · '
        f"{split.images / images:.1%}</li>"
        for place, split in enumerate(splits)
    )
    return f'<ul class="legend">{items}</ul>'


def images(facts: Facts) -> str:
    """Return how large images are, and of which kinds."""
    found = facts.measures
    cards = (
        _card("Widths and heights", _sizes(found)),
        _card(
            "Proportions",
            '<p class="soft">Width to height</p>'
            + charts.histogram(found.aspects, "Images by proportions", _ASPECT_TICKS)
            + _numbers(found.aspects),
        ),
        _card(
            "Bytes",
            '<p class="soft">Size of each image as it is stored</p>'
            + charts.histogram(found.sizes, "Images by bytes", _byte_ticks(found))
            + _numbers(found.sizes),
        ),
        '<div class="card wide grid">',
        f"<div><h3>Formats</h3>{_shares(found.formats)}</div>",
        f"<div><h3>Channels</h3>{_shares(found.channels)}</div></div>",
    )
    about = f"{size(facts.bytes // max(facts.images, 1))} a record on the average."
    return section("images", "Images", about, f'<div class="grid">{"".join(cards)}</div>')


def _sizes(found: Measures) -> str:
    (width, height), (most_width, most_height) = found.smallest, found.largest
    if len(found.cells) == 1 and found.smallest == found.largest:
        told = f"All images are {width:,} {_TIMES} {height:,} pixels"
        return f'<p class="soft">{told}</p>{charts.one_size(width, height)}'
    told = (
        f"From {width:,} {_TIMES} {height:,} to {most_width:,} {_TIMES} {most_height:,} pixels; "
        "squares are on the dotted line"
    )
    return f'<p class="soft">{told}</p>{charts.size_map(found.cells)}'


def _byte_ticks(found: Measures) -> list[charts.Tick]:
    edges = [column.name.partition(" to ")[0] for column in found.sizes]
    edges.append(found.sizes[-1].name.partition(" to ")[2])
    return [charts.Tick(place, edge) for place, edge in enumerate(edges)]


def _card(title: str, inside: str) -> str:
    return f'<div class="card"><h3>{markup(title)}</h3>{inside}</div>'


def _numbers(columns: Sequence[Column]) -> str:
    rows = "".join(
        f"<tr><td>{markup(column.name)}</td><td>{column.images:,}</td></tr>"
        for column in columns
        if column.images
    )
    return (
        f'<details><summary>In numbers</summary><table class="counts"><tbody>{rows}</tbody>'
        "</table></details>"
    )


def _shares(columns: Sequence[Column]) -> str:
    most = max(column.images for column in columns)
    rows = "".join(
        f'<tr><td>{markup(column.name)}</td><td class="track">'
        f"{charts.stacked([('images', column.images)], most)}</td><td>{column.images:,}</td></tr>"
        for column in columns
    )
    return f'<table class="counts"><tbody>{rows}</tbody></table>'
