"""`imgrec doctor`: explain why `tfds.load` fails, and show what works."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from imgrec.cli.arguments import data_dir
from imgrec.cli.parser import argument, switch, verb
from imgrec.cli.render import emit, line, pick, table, this_terminal
from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from imgrec.inspect.doctor import Case, Diagnosis, Finding
    from imgrec.inspect.tfrecord_files import Contents, FeatureFacts

_PACKAGES = {"tensorflow_datasets": "TFDS", "tensorflow": "TensorFlow", "PIL": "Pillow"}


@verb(
    (
        "imgrec doctor                    this machine, and all datasets where TFDS looks",
        'imgrec doctor flowers            why does tfds.load("flowers") fail?',
        "imgrec doctor ./some_tfrecords   what is in there?",
    ),
    (
        argument(
            "asked",
            "PATH|NAME",
            "the name given to tfds.load, or a folder; default: all datasets where TFDS looks",
            nargs="?",
        ),
        data_dir("the data_dir given to tfds.load"),
        switch("--quick", "do not try to import TensorFlow, which takes seconds"),
    ),
)
def doctor(parsed: Namespace) -> int:
    """Explain why tfds.load fails, and print the line that works.

    For TFRecords without TFDS metadata, show what is in them and how to read them. The exit code
    is 1 if anything is wrong.
    """
    from imgrec.inspect.doctor import diagnose, look_around

    found = diagnose(parsed.asked, parsed.data_dir, look_around(tries=not parsed.quick))
    emit(parsed, _value(found), _lines(found))
    return 0 if found.is_healthy else 1


def _value(found: Diagnosis) -> dict[str, object]:
    return {
        "healthy": found.is_healthy,
        **pick(found.environment, "python imgrec"),
        "packages": {
            package.name: pick(package, "version fault") for package in found.environment.packages
        },
        "data_dir": found.data_dir,
        "faults": found.findings,
        "datasets": [
            {
                **pick(case, "path title splits load code"),
                "faults": case.findings,
                "contents": case.contents and _contents_value(case.contents),
            }
            for case in found.cases
        ],
    }


def _contents_value(contents: Contents) -> dict[str, object]:
    return {
        **pick(contents, "files compression records fault"),
        "bytes": contents.size,
        "counted_all": contents.is_all,
        "features": [
            {**pick(feature, "name kind records shown"), **pick(feature.counts, "least most")}
            for feature in contents.features
        ],
        "images_tried": contents.images,
        "images_bad": contents.bad_images,
    }


def _lines(found: Diagnosis) -> Iterator[str]:
    environment = found.environment
    packages = [
        f"{_PACKAGES[package.name]} {package.version or 'not installed'}"
        for package in environment.packages
    ]
    yield line("Python", f"{environment.python}, imgrec {environment.imgrec}")
    yield line("packages", ", ".join(packages))
    yield line("looked in", found.data_dir)
    for finding in found.findings:
        yield from _finding_lines(finding)
    for case in found.cases:
        yield ""
        yield from _case_lines(case)
    if found.is_healthy and not found.cases:
        yield "nothing is wrong, and there is no dataset yet"


def _finding_lines(finding: Finding) -> Iterator[str]:
    yield line("fault", finding.what)
    if finding.fix:
        yield line("  fix", finding.fix)


def _case_lines(case: Case) -> Iterator[str]:
    splits = ", ".join(f"{count:,} {name}" for name, count in case.splits.items())
    result = number(len(case.findings), "fault") if case.findings else "ok"
    headline = "plain TFRecords" if case.contents and not splits else result
    yield visible(f"{case.title}: {headline}" + (f" ({splits})" if splits else ""))
    yield line("path", case.path)
    for finding in case.findings:
        yield from _finding_lines(finding)
    if case.contents:
        yield from _contents_lines(case.contents)
    if case.load:
        yield line("load", case.load)
    if case.code:
        yield ""
        yield from map(visible, case.code.splitlines())


def _contents_lines(contents: Contents) -> Iterator[str]:
    records = ("" if contents.is_all else "at least ") + number(contents.records, "record")
    how = f"{contents.compression}-compressed, " if contents.compression else ""
    files = number(len(contents.files), "file")
    yield line("inside", f"{records} in {files}, {how}{size(contents.size)}")
    if contents.features:
        rows = [_feature_row(feature, contents.looked_at) for feature in contents.features]
        yield from (f"{line('', '')}{row}" for row in table(rows, this_terminal()))
    if contents.images:
        decoded = contents.images - contents.bad_images
        yield line("images", f"{decoded:,} of the first {contents.images:,} decode")
    if contents.fault:
        yield line("damage", contents.fault)


def _feature_row(feature: FeatureFacts, looked_at: int) -> tuple[str, ...]:
    least, most = feature.counts.least, feature.counts.most
    count = f"[{most}]" if least == most else f"[{least} to {most}]"
    partial = f"in {feature.records:,} of {looked_at:,}" if feature.records < looked_at else ""
    return (feature.name, f"{feature.kind or 'empty'}{count}", feature.shown, partial)
