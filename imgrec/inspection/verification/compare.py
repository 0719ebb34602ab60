"""Comparing a dataset with the source that it was packed from."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import closing, suppress
from dataclasses import replace
from typing import NamedTuple

from imgrec import layout
from imgrec.errors import SourceError, UsageError
from imgrec.inspection.verification.inquiry import Inquiry
from imgrec.inspection.verification.looked import Looked
from imgrec.inspection.verification.originals import Originals, find_originals, passes_over
from imgrec.inspection.verification.source_look import Original, Pairs, SourceLook
from imgrec.options import Check, ShrinkOptions, SourceOptions
from imgrec.source.context import Context
from imgrec.text import printable


class Place(NamedTuple):
    """Where a source is, and where of it can be unpacked what must be."""

    source: str
    spool: str


def compare_with_source(place: Place, inquiry: Inquiry) -> None:
    """Add a fault for each record and each file that have no counterpart, or another one."""
    claims, job = inquiry.claims, inquiry.job
    if "filename" not in claims.rules.features:
        inquiry.faults.add(
            layout.FEATURES, f"records have no filename, so none is found in {place.source}"
        )
        return
    originals = _find(place, inquiry)
    _refuse_strangers(place, inquiry.looked, originals)
    tasks = [pairs for pairs in _pairs(place, inquiry, originals) if pairs.originals]
    options = claims.report.options if claims.report else {}
    look = SourceLook(
        folder=inquiry.folder,
        compression=claims.compression,
        check=_check(options),
        shrink_to=_shrinking(options),
    )
    total = sum(len(pairs.originals) for pairs in tasks)
    sizes = {pairs.filename: len(pairs.originals) for pairs in tasks}
    with closing(job.run(look, tasks)) as running:
        for filename, faults in running:
            inquiry.faults.extend(faults)
            job.tell("compare", sizes[filename], total)
    _miss_records(place, inquiry, originals)


def _find(place: Place, inquiry: Inquiry) -> Originals:
    """Find the files of a source, also where links lead out of it if some are not found within."""
    job, report = inquiry.job, inquiry.claims.report
    options = _reading(report.options if report else {})
    context = Context(
        options=options,
        run=job.run,
        on_progress=lambda files: job.tell("scan", files, None),
        spool=place.spool,
    )
    within = find_originals(place.source, report, context)
    packed = {filename for _, seen in inquiry.looked for filename in seen.filenames if filename}
    if packed <= within.files.keys() or not os.path.isdir(place.source):
        return within
    context = replace(context, options=replace(options, follow_links=True))
    beyond = find_originals(place.source, report, context)
    return max(within, beyond, key=lambda found: len(packed & found.files.keys()))


def _refuse_strangers(place: Place, looked: Looked, originals: Originals) -> None:
    """Raise SourceError if not one record has a file in the source."""
    packed = [filename for _, seen in looked for filename in seen.filenames if filename]
    if packed and not any(filename in originals.files for filename in packed):
        raise SourceError(
            f"{place.source} has none of the dataset's files, such as {printable(packed[0])}",
            hint="give what it was packed from; for a manifest, the folder of its images",
            path=place.source,
        )


def _pairs(place: Place, inquiry: Inquiry, originals: Originals) -> list[Pairs]:
    """Pair each record with its file; records without one are faults."""
    pairs = []
    for _, seen in inquiry.looked:
        found: dict[int, Original] = {}
        for at, filename in enumerate(seen.filenames):
            if at in seen.unsound:
                continue
            if filename in originals.files:
                found[at] = Original(seen.offsets[at], filename, *originals.files[filename])
            else:
                inquiry.faults.add(
                    seen.filename,
                    f"there is no {printable(filename)} in {place.source}",
                    seen.offsets[at],
                )
        pairs.append(Pairs(seen.filename, found))
    return pairs


def _miss_records(place: Place, inquiry: Inquiry, originals: Originals) -> None:
    """Find the images of the source that are in no record."""
    packed = {filename for _, seen in inquiry.looked for filename in seen.filenames}
    report = inquiry.claims.report
    unpacked = originals.unpacked(packed, report)
    if unpacked and passes_over(report):
        inquiry.desk.not_checked.append(
            f"{len(unpacked):,} images of {place.source} that are not packed, such as "
            f"{printable(unpacked[0])}: {layout.REPORT} does not name what was left out"
        )
        return
    for filename in unpacked:
        inquiry.faults.add(filename, f"it is in {place.source}, and in no record")


def _reading(options: Mapping[str, object]) -> SourceOptions:
    """Return how the names in an archive were read, by the options of the pack."""
    with suppress(UsageError):
        return SourceOptions(encoding=str(options.get("encoding") or ""))
    return SourceOptions()


def _check(options: Mapping[str, object]) -> Check:
    with suppress(ValueError):
        return Check(str(options.get("check")))
    return Check.DECODE


def _shrinking(options: Mapping[str, object]) -> ShrinkOptions | None:
    """Return how large images might be, by the options of the pack."""
    asked = {
        name: value
        for name in ("short_side", "max_side", "quality")
        if type(value := options.get(name)) is int
    }
    if not asked:
        return None
    try:
        return ShrinkOptions(**asked)
    except (UsageError, TypeError):
        return None
