"""`imgrec update` and `imgrec edit`: make the next version of a dataset."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from imgrec.cli.arguments import DATASET_ARGUMENTS, WORKERS, working
from imgrec.cli.diff import difference_lines, difference_value
from imgrec.cli.pack import (
    IN_REPORT,
    copies_lines,
    file_lines,
    findings_value,
    resumed_lines,
)
from imgrec.cli.parser import argument, switch, verb
from imgrec.cli.render import emit, line, pick, split_rows
from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from imgrec.packing.next_version import Updated

_VERSION = argument("--version", "X.Y.Z", "version to make; default: the next minor one")


@verb(
    ("imgrec update flowers", "imgrec update flowers ./flowers --version 2.0.0 --compact"),
    (
        DATASET_ARGUMENTS[0],
        argument(
            "source",
            "SOURCE",
            "where its source is now; default: where it was packed from",
            nargs="?",
        ),
        *DATASET_ARGUMENTS[1:],
        _VERSION,
        switch("--compact", "write all shards afresh, with old and new images mixed"),
        switch("--rehash", "read all files of the source, also those that seem unchanged"),
        argument("--images", "DIR", "where the images of a table are now, if they were moved"),
        switch("--yes", "go on without images that are gone, and with groups that are divided"),
        argument(
            "--embeddings",
            "FILE.npy",
            "embeddings of old and new images; default: the file that it was packed with",
        ),
        *WORKERS,
    ),
)
def update(parsed: Namespace) -> int:
    """Pack the next version of a dataset from its source, as far as that has changed.

    Images that it has keep split, label, shard and place. Shards without a change are linked, not
    written. If nothing has changed, nothing is written.
    """
    from imgrec import api

    with working(parsed) as workers:
        updated = api.update(
            parsed.dataset,
            parsed.source,
            version=parsed.version,
            compact=parsed.compact,
            rehash=parsed.rehash,
            images=parsed.images,
            yes=parsed.yes,
            embeddings=parsed.embeddings,
            data_dir=parsed.data_dir,
            **workers,
        )
    emit(parsed, _updated_value(updated), _updated_lines(updated))
    return 0


@verb(
    ("imgrec edit flowers corrections.csv", "imgrec edit flowers labels.tsv --new-classes"),
    (
        DATASET_ARGUMENTS[0],
        argument("table", "FILE", "a table of filename, action, label and split"),
        *DATASET_ARGUMENTS[1:],
        _VERSION,
        switch("--new-classes", "add classes that the dataset does not have"),
        *WORKERS,
    ),
)
def edit(parsed: Namespace) -> int:
    """Relabel, drop or move images of a dataset, as its next version.

    The source is not needed, and later updates keep the corrections. If the table changes nothing,
    nothing is written.
    """
    from imgrec import api

    with working(parsed) as workers:
        edited = api.edit(
            parsed.dataset,
            parsed.table,
            version=parsed.version,
            new_classes=parsed.new_classes,
            data_dir=parsed.data_dir,
            **workers,
        )
    value = {**_updated_value(edited), **pick(edited, "flagged restored unused_columns")}
    emit(parsed, value, _updated_lines(edited))
    return 0


def _updated_value(updated: Updated) -> dict[str, object]:
    difference = updated.difference
    return {
        **pick(updated.info, "name version path load fingerprint"),
        "earlier": pick(updated.earlier, "name version path fingerprint"),
        **pick(updated, "is_new shards reused_shards written_bytes kept_shards"),
        **findings_value(updated.report),
        "seconds": round(updated.seconds, 3),
        "difference": difference and difference_value(difference),
    }


def _updated_lines(updated: Updated) -> Iterator[str]:
    info, remarks = updated.info, list(_remarks(updated))
    if updated.difference is None:
        yield visible(f"{info.name} {info.version}: nothing has changed, nothing was written")
        yield from remarks
        return
    yield from difference_lines(updated.difference)
    yield from remarks
    yield from file_lines(updated.report, IN_REPORT)
    yield from copies_lines(updated.report, split_rows(info), IN_REPORT, is_pack=False)
    yield from (line("warning", warning) for warning in updated.report.warnings)
    yield from resumed_lines(updated.kept_shards, updated.shards)
    written = updated.shards - updated.reused_shards
    yield line(
        "reused",
        f"{updated.reused_shards:,} of {updated.shards:,} shards, wrote {written:,} "
        f"({size(updated.written_bytes)}) in {updated.seconds:.1f} s",
    )
    yield line("path", info.path)
    yield line("load", info.load)


def _remarks(updated: Updated) -> Iterator[str]:
    """Yield what the table of an edit holds besides corrections."""
    if updated.flagged:
        yield line("flagged", f"{number(updated.flagged, 'image')}, which stay as they are")
    if updated.restored:
        images = number(updated.restored, "image")
        yield line("restored", f"{images}: the next update takes them from the source")
    if updated.unused_columns:
        yield line("not used", f"columns {', '.join(updated.unused_columns)}")
