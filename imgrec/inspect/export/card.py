"""The README.md of an export: YAML that the Hugging Face Hub reads, and text for people."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from imgrec.inspect.export.contents import Contents, WrittenFile
from imgrec.notes import NoteKind
from imgrec.outcome import Report
from imgrec.text import number, printable, size

CARD = "README.md"
_MOST_CLASSES = 200
_SIZES = ("n<1K", "1K<n<10K", "10K<n<100K", "100K<n<1M", "1M<n<10M", "10M<n<100M", "100M<n<1B")
_LICENSES = frozenset(
    {
        "afl-3.0", "agpl-3.0", "apache-2.0", "artistic-2.0", "bsd", "bsd-2-clause", "bsd-3-clause",
        "bsl-1.0", "c-uda", "cc", "cc-by-2.0", "cc-by-2.5", "cc-by-3.0", "cc-by-4.0",
        "cc-by-nc-2.0", "cc-by-nc-3.0", "cc-by-nc-4.0", "cc-by-nc-nd-3.0", "cc-by-nc-nd-4.0",
        "cc-by-nc-sa-2.0", "cc-by-nc-sa-3.0", "cc-by-nc-sa-4.0", "cc-by-nd-4.0", "cc-by-sa-3.0",
        "cc-by-sa-4.0", "cc0-1.0", "cdla-permissive-1.0", "cdla-permissive-2.0",
        "cdla-sharing-1.0", "ecl-2.0", "epl-1.0", "epl-2.0", "etalab-2.0", "eupl-1.1", "eupl-1.2",
        "gfdl", "gpl", "gpl-2.0", "gpl-3.0", "isc", "lgpl", "lgpl-2.1", "lgpl-3.0", "lgpl-lr",
        "mit", "mpl-2.0", "ms-pl", "ncsa", "odbl", "odc-by", "ofl-1.1", "osl-3.0", "pddl",
        "postgresql", "unknown", "unlicense", "wtfpl", "zlib",
    }
)  # fmt: skip
"""Licenses that the Hub knows by these names. It refuses a card with another one."""
_COMMONS = re.compile(
    r"https?://creativecommons\.org/(?:licenses/(?P<kind>[a-z-]+)|publicdomain/(?P<zero>zero))"
    r"/(?P<version>[\d.]+)/?.*"
)
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&$])")


def dataset_card(
    contents: Contents, files: Sequence[WrittenFile], matter: Mapping[str, object], usage: str
) -> str:
    """Return a dataset card with more YAML (`matter`) and text about loading (`usage`)."""
    import yaml  # type: ignore[import-untyped]  # without types-PyYAML

    info, about = contents.info, contents.info.about
    front = {
        **_license(about.license),
        "task_categories": ["image-classification"],
        "pretty_name": info.name,
        "size_categories": [_size_category(contents.images)],
        **matter,
    }
    sections = [f"# {_escaped(info.name)}\n", f"{contents.description}\n"]
    if about.homepage:
        sections.append(f"Homepage: <{about.homepage}>\n")
    sections += [
        _splits(contents, files),
        f"## Loading\n\n{usage}",
        "".join(_classes(contents)),
        "".join(_packing(contents)),
    ]
    if about.license:
        sections.append(f"## License\n\n{about.license}\n")
    if about.citation:
        fence = "`" * (max(map(len, re.findall("`+", about.citation)), default=2) + 1)
        sections.append(f"## Citation\n\n{fence}bibtex\n{about.citation}\n{fence}\n")
    matter_text = yaml.safe_dump(front, sort_keys=False, allow_unicode=True)
    return f"---\n{matter_text}---\n\n" + "\n".join(sections)


def _license(text: str) -> dict[str, object]:
    """Return a license as the Hub knows it.

    >>> _license("CC BY 4.0"), _license("https://creativecommons.org/publicdomain/zero/1.0/")
    ({'license': 'cc-by-4.0'}, {'license': 'cc0-1.0'})
    >>> _license("Ask us first")
    {'license': 'other', 'license_name': 'Ask us first'}
    """
    if not text:
        return {}
    name = re.sub(r"[\s_]+", "-", text.casefold())
    if commons := _COMMONS.fullmatch(text):
        name = f"cc{'0' if commons['zero'] else '-' + commons['kind']}-{commons['version']}"
    if name in _LICENSES:
        return {"license": name}
    is_link = text.startswith(("https://", "http://"))
    return {"license": "other", "license_link" if is_link else "license_name": text}


def _size_category(images: int) -> str:
    """Return the Hub's category for a number of images.

    >>> _size_category(104), _size_category(1000), _size_category(1_300_000)
    ('n<1K', '1K<n<10K', '1M<n<10M')
    """
    digits = len(str(images))
    return _SIZES[digits - 3] if digits < 10 else "n>1B"


def _splits(contents: Contents, files: Sequence[WrittenFile]) -> str:
    rows = ["## Splits\n\n", "| split | images | files | size |\n", "|---|---:|---:|---:|\n"]
    for split in contents.info.splits:
        written = [file for file in files if file.split == split.name]
        total = size(sum(file.size for file in written))
        counts = f"{split.examples:,} | {len(written):,}"
        rows.append(f"| {_escaped(split.name)} | {counts} | {total} |\n")
    return "".join(rows)


def _classes(contents: Contents) -> Iterator[str]:
    classes, splits = contents.form.classes, contents.info.splits
    counts = [split.class_counts or () for split in splits]
    yield f"## Classes\n\n{number(len(classes), 'class', 'classes')}"
    if contents.form.is_multilabel:
        yield "; an image may have several"
    yield ". The label of a class is its number.\n\n"
    titles = "".join(f" {_escaped(split.name)} |" for split in splits)
    yield f"| label | class |{titles}\n|---:|---|{'---:|' * len(splits)}\n"
    for label, name in enumerate(classes[:_MOST_CLASSES]):
        cells = "".join(f" {one[label]:,} |" if one[label:] else " |" for one in counts)
        yield f"| {label} | {_escaped(name)} |{cells}\n"
    if len(classes) > _MOST_CLASSES:
        yield f"\n{len(classes) - _MOST_CLASSES:,} more classes are not in this table.\n"


def _packing(contents: Contents) -> Iterator[str]:
    info, report = contents.info, contents.report
    yield "## Origin\n\n"
    yield f"Exported by [imgrec](https://pypi.org/project/imgrec/) from {info.name} {info.version}"
    if info.fingerprint:
        yield f", fingerprint `{info.fingerprint}`"
    yield ".\n"
    if report:
        yield from _provenance(report)


def _provenance(report: Report) -> Iterator[str]:
    yield f"It was packed from {_code(report.source)}, layout {_code(report.layout.text)}.\n"
    if not report.layout.has_image_files:
        return
    yield "Images have the bytes of their files"
    transcoded = len(report.transcoded) + report.unlisted(NoteKind.TRANSCODED)
    resized = report.resized.total if report.resized else 0
    others = [(transcoded, "re-encoded as PNG without loss"), (resized, "shrunk")]
    found = [f"{count:,} {what}" for count, what in others if count]
    yield f", except {' and '.join(found)}.\n" if found else ".\n"
    if report.skipped:
        yield f"{number(len(report.skipped), 'file')} of the source could not be packed.\n"


def _escaped(text: str) -> str:
    r"""Return text without any meaning in Markdown.

    >>> print(_escaped("a|b <i>"))
    a\|b \<i\>
    """
    return _MARKDOWN.sub(r"\\\1", " ".join(printable(text).split()))


def _code(text: str) -> str:
    """Return text as code in Markdown."""
    return f"`{' '.join(printable(text).split()).replace('`', chr(39))}`"
