"""`imgrec doctor`: say why `tfds.load` fails, and what works."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.parser import VERBS
from imgrec.cli.terminal import table, this_terminal
from imgrec.text import printable

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.inspect.doctor import Case, Diagnosis, Environment, Finding
    from imgrec.inspect.tfrecord_files import Contents, FeatureFacts

_EXAMPLES = """\
examples:
  imgrec doctor                            this machine, and all datasets where TFDS looks
  imgrec doctor flowers                    why does tfds.load("flowers") fail?
  imgrec doctor flowers --data-dir /data   why does tfds.load("flowers", data_dir="/data") fail?
  imgrec doctor ./some_tfrecords           what is in there?
"""
_FAULTS = 1
"""Exit code if something is wrong."""
_NAMES = {"tensorflow_datasets": "TFDS", "tensorflow": "TensorFlow", "PIL": "Pillow"}


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "doctor",
        help=VERBS["doctor"],
        description="Say why tfds.load fails, and print the line that works. Of TFRecords that "
        "TFDS knows nothing of, say what is in them and how to read them. Exit code 1 if anything "
        "is wrong.",
        epilog=_EXAMPLES,
    )
    add = parser.add_argument
    add(
        "asked",
        metavar="PATH|NAME",
        nargs="?",
        default="",
        help="what is given to tfds.load, or a folder; default: all datasets where TFDS looks",
    )
    add("--data-dir", default="", metavar="DIR", help="what is given to tfds.load as data_dir")
    add("--quick", action="store_true", help="do not try to import TensorFlow, which takes seconds")
    add("--json", action="store_true", help="print one JSON object")
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Look for causes and print them."""
    from imgrec.inspect.doctor import diagnose, look_around

    found = diagnose(parsed.asked, parsed.data_dir, look_around(tries=not parsed.quick))
    print(render.as_json(as_value(found)) if parsed.json else "\n".join(_lines(found)))
    return 0 if found.is_healthy else _FAULTS


def as_value(found: Diagnosis) -> dict[str, object]:
    """Return what was found as a JSON value."""
    environment = found.environment
    return {
        "healthy": found.is_healthy,
        "python": environment.python,
        "imgrec": environment.imgrec,
        "packages": {
            package.name: {"version": package.version, "fault": printable(package.fault)}
            for package in environment.packages
        },
        "data_dir": printable(found.data_dir),
        "faults": [_finding_value(finding) for finding in found.findings],
        "datasets": [_case_value(case) for case in found.cases],
    }


def _finding_value(finding: Finding) -> dict[str, str]:
    return {key: printable(value) for key, value in finding._asdict().items()}


def _case_value(case: Case) -> dict[str, object]:
    return {
        "path": printable(case.path),
        "title": printable(case.title),
        "splits": case.splits,
        "faults": [_finding_value(finding) for finding in case.findings],
        "load": printable(case.load),
        "contents": _contents_value(case.contents),
        "code": printable(case.code),
    }


def _contents_value(contents: Contents | None) -> dict[str, object] | None:
    if contents is None:
        return None
    return {
        "files": [printable(path) for path in contents.files],
        "bytes": contents.size,
        "compression": contents.compression,
        "records": contents.records,
        "counted_all": contents.is_all,
        "features": [_feature_value(feature) for feature in contents.features],
        "images_tried": contents.images,
        "images_bad": contents.bad_images,
        "fault": printable(contents.fault),
    }


def _feature_value(feature: FeatureFacts) -> dict[str, object]:
    return {
        "name": printable(feature.name),
        "kind": feature.kind,
        "records": feature.records,
        "least": feature.counts.least,
        "most": feature.counts.most,
        "shown": printable(feature.shown),
    }


def _lines(found: Diagnosis) -> Iterator[str]:
    yield from _machine_lines(found.environment)
    yield render.line("looked in", found.data_dir)
    for finding in found.findings:
        yield from _finding_lines(finding)
    for case in found.cases:
        yield ""
        yield from _case_lines(case)
    if found.is_healthy and not found.cases:
        yield "nothing is wrong, and there is no dataset yet"


def _machine_lines(environment: Environment) -> Iterator[str]:
    yield render.line("Python", f"{environment.python}, imgrec {environment.imgrec}")
    packages = [
        f"{_NAMES[package.name]} {package.version or 'not there'}"
        for package in environment.packages
    ]
    yield render.line("packages", ", ".join(packages))


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield render.line("fault", finding.what)
    if finding.fix:
        yield render.line("  fix", finding.fix)


def _case_lines(case: Case) -> Iterator[str]:
    splits = ", ".join(f"{count:,} {name}" for name, count in case.splits.items())
    verdict = render.number(len(case.findings), "fault") if case.findings else "ok"
    counted = f" ({splits})" if splits else ""
    headline = "plain TFRecords" if case.contents and not splits else verdict
    yield render.safe(f"{case.title}: {headline}{counted}")
    yield render.line("path", case.path)
    for finding in case.findings:
        yield from _finding_lines(finding)
    if case.contents:
        yield from _contents_lines(case.contents)
    if case.load:
        yield render.line("load", case.load)
    if case.code:
        yield ""
        yield from map(render.safe, case.code.splitlines())


def _contents_lines(contents: Contents) -> Iterator[str]:
    how = f"{contents.compression}-compressed, " if contents.compression else ""
    many = "" if contents.is_all else "at least "
    yield render.line(
        "inside",
        f"{many}{render.number(contents.records, 'record')} in "
        f"{render.number(len(contents.files), 'file')}, {how}{render.size(contents.size)}",
    )
    if contents.features:
        rows = [_feature_row(feature, contents.looked_at) for feature in contents.features]
        indent = " " * 12
        for row in table(rows, this_terminal()).splitlines():
            yield indent + row
    if contents.images:
        decoded = contents.images - contents.bad_images
        yield render.line("images", f"{decoded:,} of the first {contents.images:,} decode")
    if contents.fault:
        yield render.line("damage", contents.fault)


def _feature_row(feature: FeatureFacts, looked_at: int) -> tuple[str, ...]:
    least, most = feature.counts.least, feature.counts.most
    count = f"[{most}]" if least == most else f"[{least} to {most}]"
    seldom = f"in {feature.records:,} of {looked_at:,}" if feature.records < looked_at else ""
    cells = (feature.name, f"{feature.kind or 'empty'}{count}", feature.shown, seldom)
    return tuple(map(render.safe, cells))
