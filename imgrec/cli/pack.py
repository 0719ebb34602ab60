"""`imgrec pack`: pack a source into a dataset."""

from __future__ import annotations

import argparse
import os
from typing import TYPE_CHECKING

from imgrec.cli import render
from imgrec.cli.options import add_pack_options, pack_options
from imgrec.cli.parser import VERBS
from imgrec.cli.twice import twice_json, twice_lines
from imgrec.cli.workers import add_engine, engine_of, working

if TYPE_CHECKING:
    from imgrec.cli.parser import Verbs
    from imgrec.outcome import Packed

_EXAMPLES = """\
examples:
  imgrec pack ./flowers --val-split 0.1
  imgrec pack photos.zip --name photos --val-split 0.1 --test-split 0.1
  imgrec pack --manifest train.csv --images ./jpegs --label-col species
"""


def add_to(verbs: Verbs) -> None:
    """Add the verb to the command line."""
    parser = verbs.add_parser(
        "pack",
        help=VERBS["pack"],
        description="Pack images with labels into sharded TFRecords that tfds.load finds by name.",
        epilog=_EXAMPLES,
    )
    add_pack_options(parser)
    add_engine(parser)
    parser.set_defaults(run=run)


def run(parsed: argparse.Namespace) -> int:
    """Pack, and print what came of it."""
    options = pack_options(parsed)
    import imgrec.source.probe  # so that workers that are copies of us have it
    import imgrec.write.shard  # noqa: F401  # the same

    with working(parsed, engine_of(parsed)) as workers:
        from imgrec import api  # while the workers start

        packed = api.pack(
            parsed.source, options, engine=workers.engine, on_progress=workers.progress
        )
    print(render.as_json(as_value(packed)) if parsed.json else as_text(packed))
    return 0


def as_value(packed: Packed) -> dict[str, object]:
    """Return the outcome as a JSON value."""
    info, report = packed.info, packed.report
    return {
        "name": info.name,
        "version": info.version,
        "path": info.path,
        "load": info.load,
        "fingerprint": info.fingerprint,
        **render.storage_json(info),
        "layout": report.layout,
        "classes": list(info.classes),
        "splits": {
            split.name: {
                "examples": split.examples,
                "bytes": split.num_bytes,
                "shards": len(split.shard_lengths),
            }
            for split in info.splits
        },
        "skipped": render.skipped_json(report.skipped),
        "ignored": sum(kind.count for kind in report.ignored),
        "transcoded": len(report.transcoded),
        "damaged": len(report.damaged),
        "resized": report.resized.total if report.resized else 0,
        **twice_json(report),
        "warnings": list(report.warnings),
        "already_packed": not packed.is_new,
        "kept_shards": packed.kept_shards,
        "seconds": round(packed.seconds, 3),
    }


def as_text(packed: Packed) -> str:
    """Return the outcome as a summary for people."""
    info, report = packed.info, packed.report
    images = sum(split.examples for split in info.splits)
    size_out = sum(split.num_bytes for split in info.splits)
    title = f"{info.name} {info.version}: {render.number(images, 'image')}"
    lines = [
        title + ("" if packed.is_new else ", already packed: nothing to do"),
        *render.lines("layout", report.layout),
        render.line(
            "classes",
            f"{render.number(len(info.classes), 'class', 'classes')}: "
            f"{render.class_names(info.classes)}",
        ),
        *render.split_lines(render.split_rows(info.splits)),
        *render.said_lines("skipped", report.skipped),
        *render.ignored_lines(report.ignored),
        *render.said_lines("transcoded", report.transcoded),
        *render.said_lines("damaged", report.damaged),
        *render.resized_lines(report),
        *twice_lines(report),
        *(render.line("warning", warning) for warning in report.warnings),
        render.line(
            "size",
            f"{render.size(size_out)} out / {render.size(report.source_bytes)} in"
            f" = {size_out / max(report.source_bytes, 1):.2f}",
        ),
        *render.storage_lines(info),
    ]
    if packed.kept_shards:
        shards = sum(len(split.shard_lengths) for split in info.splits)
        kept = f"{packed.kept_shards} of {render.number(shards, 'shard')} kept from an earlier run"
        lines.append(render.line("resumed", kept))
    if packed.outdated_shards:
        discarded = render.number(packed.outdated_shards, "shard")
        why = "discarded: their images have changed since an earlier run"
        lines.append(render.line("restarted", f"{discarded} {why}"))
    if packed.restarted:
        lines.append(
            render.line("restarted", f"shards of an earlier run discarded: {packed.restarted}")
        )
    lines += [
        render.line("unfinished", f"{path}: its pack goes on if it is run again; {_clean(path)}")
        for path in packed.unfinished
    ]
    if packed.is_new:
        rate = images / max(packed.seconds, 1e-9)
        lines.append(render.line("speed", f"{rate:,.0f} images/s, {packed.seconds:.1f} s in all"))
    lines += [render.line("path", info.path), render.line("load", info.load)]
    return "\n".join(lines)


def _clean(path: str) -> str:
    """Say how to be rid of the hidden folder of a pack, which is in <data-dir>/<name>/."""
    from shlex import quote

    return f"imgrec clean --data-dir {quote(os.path.dirname(os.path.dirname(path)))} removes it"
