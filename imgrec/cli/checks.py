"""`imgrec verify`, `imgrec leaks` and `imgrec doctor`: find what is wrong with a dataset."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from imgrec.cli.arguments import (
    DATASET_ARGUMENTS,
    SUBJECT_ARGUMENTS,
    WORKERS,
    data_dir,
    inspecting,
    whole,
    working,
)
from imgrec.cli.parser import argument, switch, verb
from imgrec.cli.render import emit, line, pick, table, this_terminal
from imgrec.near.clusters import ALIKE, LEAST_ALIKE
from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from imgrec.faults import Fault
    from imgrec.inspect.doctor import Case, Diagnosis, Finding
    from imgrec.inspect.leaks import Kind, LeakedImage, LeakGroup, Leaks
    from imgrec.inspect.tfrecord_files import Contents, FeatureFacts
    from imgrec.inspect.verify import Verified

_FAULTS_SHOWN = 20
"""How many faults of one kind are shown for a file."""
_GROUPS_SHOWN = 20
_IMAGES_SHOWN = 4
"""Of a group."""
_GROUP_TITLES = {
    "against": "leaks",
    "across splits": "leaks",
    "across classes": "conflicts",
    "within": "copies",
}
_GROUP_PLACES = {
    "across splits": "across splits",
    "across classes": "under different labels",
    "within": "in one split and class",
}
_PACKAGES = {"tensorflow_datasets": "TFDS", "tensorflow": "TensorFlow", "PIL": "Pillow"}


@verb(
    ("imgrec verify flowers", "imgrec verify flowers:1.0.0 --source ./flowers --decode"),
    (
        *DATASET_ARGUMENTS,
        argument("--source", "SOURCE", "compare every image with the source it came from"),
        switch("--decode", "decode every image completely"),
        *WORKERS,
    ),
)
def verify(parsed: Namespace) -> int:
    """Check every byte of a dataset, and list all faults with their files and offsets.

    The exit code is 1 if there are any.
    """
    from imgrec import api

    with working(parsed) as workers:
        verified = api.verify(
            parsed.dataset,
            data_dir=parsed.data_dir,
            source=parsed.source,
            decode=parsed.decode,
            **workers,
        )
    emit(parsed, _verified_value(verified), _verified_lines(verified))
    return 1 if verified.faults else 0


def _verified_value(verified: Verified) -> dict[str, object]:
    return {
        **pick(verified, "name version path records shards bytes files not_checked"),
        "ok": not verified.faults,
        "faults": [_fault_value(fault, "fault") for fault in verified.faults],
        "notes": [_fault_value(note, "note") for note in verified.notes],
        "seconds": round(verified.seconds, 3),
    }


def _fault_value(fault: Fault, key: str) -> dict[str, object]:
    return {"file": fault.path, "offset": fault.offset, key: fault.what}


def _verified_lines(verified: Verified) -> Iterator[str]:
    found = number(len(verified.faults), "fault") if verified.faults else "ok"
    files = f" and {number(verified.files, 'file')}" if verified.files else ""
    yield visible(
        f"{verified.name} {verified.version}: {found}; checked "
        f"{number(verified.records, 'record')} in {number(verified.shards, 'shard')} "
        f"({size(verified.bytes)}){files}"
    )
    yield from (line("not checked", what) for what in verified.not_checked)
    yield from _fault_lines(verified.faults)
    if verified.faults:
        yield line("hint", "restore these files from a copy, or make it again: imgrec help verify")
    if verified.notes:
        count = number(len(verified.notes), "image")
        yield line("note", f"{count} in more than one split, as in the source")
        yield from _fault_lines(verified.notes)


def _fault_lines(faults: Sequence[Fault]) -> Iterator[str]:
    """Show each fault; of many of one kind in one file, only the first."""
    kinds = [(fault.path, fault.code, fault.facts.get("column")) for fault in faults]
    totals, shown = Counter(kinds), Counter[tuple[object, ...]]()
    for fault, kind in zip(faults, kinds, strict=True):
        shown[kind] += 1
        if shown[kind] <= _FAULTS_SHOWN:
            where = fault.path if fault.offset is None else f"{fault.path}, byte {fault.offset}"
            yield visible(f"{where}: {fault.what}")
        if shown[kind] == _FAULTS_SHOWN < totals[kind]:
            more = f"… and {totals[kind] - _FAULTS_SHOWN:,} more of this kind: --json lists all"
            yield visible(f"{fault.path}: {more}")


@verb(
    ("imgrec leaks flowers -o pairs.png", "imgrec leaks ./new_photos --against flowers"),
    (
        *SUBJECT_ARGUMENTS,
        argument("--against", "DATASET", "find the images that are also in this dataset"),
        argument(
            "--alike",
            "PERCENT",
            f"how much near-duplicates are alike at least, from {LEAST_ALIKE} to 100; "
            f"default: {ALIKE}",
            type=whole,
            default=ALIKE,
        ),
        argument(
            "--embeddings",
            "FILE.npy",
            "find near-duplicates by these vectors of a model, confirmed on pixels",
        ),
        argument("--against-embeddings", "FILE.npy", "those of the images in --against"),
        argument("-o", "FILE", "draw the first 50 groups there", dest="sheet"),
        *WORKERS,
    ),
)
def leaks(parsed: Namespace) -> int:
    """Show exact and near-duplicates in a dataset or a source.

    Groups across splits come first, then groups across classes, then the rest. The exit code is 1
    if an image is in two splits, or in the other dataset.
    """
    from imgrec import api

    with inspecting(parsed) as reading:
        found = api.leaks(
            parsed.source,
            against=parsed.against,
            alike=parsed.alike,
            embeddings=parsed.embeddings,
            against_embeddings=parsed.against_embeddings,
            sheet=parsed.sheet,
            **reading,
        )
    emit(parsed, _leaks_value(found), _leaks_lines(found))
    if parsed.sheet and not found.sheet:
        note = f"{parsed.sheet} was not written: there is nothing to draw"
        print(visible(note), file=sys.stderr)
    return 1 if found.is_leaking else 0


def _leaks_value(found: Leaks) -> dict[str, object]:
    return {
        **pick(found, "name version against images flat unreadable alike sheet"),
        "leaking": found.is_leaking,
        "counts": Counter(str(group.kind) for group in found.groups),
        "groups": [
            {
                **pick(group, "kind alike"),
                "identical": group.is_exact,
                "mirrored": group.is_mirrored,
                "images": list(map(_image_value, group.images)),
            }
            for group in found.groups
        ],
        "large": [{"first": group.first, "images": group.size} for group in found.large],
        "seconds": round(found.seconds, 3),
    }


def _image_value(image: LeakedImage) -> dict[str, object]:
    return {"file": image.name, **pick(image, "split labels")}


def _leaks_lines(found: Leaks) -> Iterator[str]:
    against = f" against {found.against}" if found.against else ""
    ending = "" if found.groups or found.large else ", no duplicates"
    yield visible(f"{found.title}{against}: {number(found.images, 'image')}{ending}")
    for kind in dict.fromkeys(group.kind for group in found.groups):
        groups = found.of(kind)
        yield line(_GROUP_TITLES[kind], _kind_summary(found, groups, kind))
        yield from (line("", _group(group)) for group in groups[:_GROUPS_SHOWN])
        if len(groups) > _GROUPS_SHOWN:
            yield line("", f"… {len(groups) - _GROUPS_SHOWN:,} more: --json lists all")
    for large in found.large[:_GROUPS_SHOWN]:
        what = f"{large.size:,} images look alike, such as {large.first}: more than 5 % of a class"
        yield line("large", f"{what}, so probably not one picture")
    if found.flat:
        what = "with too little detail to compare: only exact duplicates are found"
        yield line("flat", f"{number(found.flat, 'image')} {what}")
    if found.unreadable:
        yield line("unreadable", number(found.unreadable, "image"))
    if found.sheet:
        yield line("sheet", found.sheet)
    yield line("speed", f"{found.images / max(found.seconds, 1e-9):,.0f} images/s")


def _kind_summary(found: Leaks, groups: Sequence[LeakGroup], kind: Kind) -> str:
    if found.against:
        exact = sum(len(group.images) - 1 for group in groups if group.is_exact)
        images = sum(len(group.images) - 1 for group in groups)
        kinds = f"{exact:,} exact, {images - exact:,} near"
        return f"{number(images, 'image')} also in {found.against}: {kinds}"
    exact = sum(group.is_exact for group in groups)
    kinds = f"{exact:,} exact, {len(groups) - exact:,} near"
    return f"{number(len(groups), 'group')} {_GROUP_PLACES[kind]}: {kinds}"


def _group(group: LeakGroup) -> str:
    sign = " = " if group.is_exact else " ~ "
    shown = sign.join(map(_image, group.images[:_IMAGES_SHOWN]))
    more = len(group.images) - _IMAGES_SHOWN
    rest = f"{sign}… {more:,} more" if more > 0 else ""
    how = "" if group.is_exact else f" ({group.alike} %{', mirrored' * group.is_mirrored})"
    return f"{shown}{rest}{how}"


def _image(image: LeakedImage) -> str:
    labels = f" [{' '.join(image.labels)}]" if image.labels else ""
    return f"{image.split} {image.name}{labels}".strip()


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
    emit(parsed, _diagnosis_value(found), _diagnosis_lines(found))
    return 0 if found.is_healthy else 1


def _diagnosis_value(found: Diagnosis) -> dict[str, object]:
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


def _diagnosis_lines(found: Diagnosis) -> Iterator[str]:
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
