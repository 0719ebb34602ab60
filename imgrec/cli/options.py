"""The options of pack and plan, from parsed arguments to values."""

from __future__ import annotations

import argparse
import glob
import os

from imgrec.errors import UsageError
from imgrec.options import PackOptions, SourceKind, SourceOptions
from imgrec.options.source import LabelLine
from imgrec.storage.urls import is_url
from imgrec.text import given_path


def source_of(parsed: argparse.Namespace) -> str:
    """Return the source that is asked for; raise UsageError if there is none."""
    source: str | None = parsed.source
    if parsed.manifest and not _is_inside(parsed):
        return str(parsed.manifest)
    if source is None:
        raise UsageError("there is no SOURCE to pack", hint="name a folder, an archive or a file")
    return source


def _is_inside(parsed: argparse.Namespace) -> bool:
    """Tell whether --manifest names a table in SOURCE: nothing outside has that name."""
    manifest = parsed.manifest
    if not parsed.source or not manifest or is_url(manifest) or glob.has_magic(manifest):
        return False
    return not os.path.lexists(given_path(manifest))


def pack_options(parsed: argparse.Namespace) -> PackOptions:
    """Turn parsed arguments into a value; raise UsageError if they cannot be."""
    return PackOptions(
        source=source_options(parsed),
        name=parsed.name,
        version=parsed.version,
        data_dir=parsed.data_dir,
        val_fraction=parsed.val_split,
        test_fraction=parsed.test_split,
        folds=parsed.folds,
        seed=parsed.seed,
        split_from=parsed.split_from,
        split_file=parsed.split_file,
        classes=_read_names("--classes", parsed.classes) if parsed.classes else None,
        classes_append=parsed.classes_append,
        class_order=parsed.class_order,
        shards=parsed.shards,
        shard_bytes=parsed.shard_size,
        compression=parsed.compression,
        also=tuple(parsed.also),
        short_side=parsed.short_side,
        max_side=parsed.max_side,
        quality=parsed.quality,
        check=parsed.check,
        on_bad=parsed.on_bad,
        max_bad=parsed.max_bad,
        on_leak=parsed.on_leak,
        near_dups=parsed.near_dups,
        thumbnails=parsed.thumbnails,
        workers=parsed.workers,
        overwrite=parsed.overwrite,
        resume=parsed.resume,
    )


def source_options(parsed: argparse.Namespace) -> SourceOptions:
    """Turn those of them that say how a source is read into a value."""
    return SourceOptions(
        kind=SourceKind.MANIFEST if parsed.manifest and not _is_inside(parsed) else parsed.kind,
        table=parsed.manifest if _is_inside(parsed) else "",
        test_images=parsed.test_images,
        yes=parsed.yes,
        layout=parsed.layout,
        follow_links=parsed.follow_links,
        class_depth=parsed.class_depth,
        label_regex=parsed.label_regex,
        images=_images(parsed),
        image_template=parsed.image_template,
        path_col=parsed.path_col,
        label_col=parsed.label_col,
        split_col=parsed.split_col,
        group_col=parsed.group_col,
        label_names=_read_label_names(parsed.label_names) if parsed.label_names else None,
        fold_case=parsed.fold_case,
        keep_case=parsed.keep_case,
        columns=tuple(parsed.columns),
        encoding=parsed.encoding,
        label_sep=_separator(parsed.label_sep),
        onehot=parsed.onehot,
        cifar100_labels=parsed.cifar100_labels,
        max_archive_bytes=parsed.max_archive_bytes,
        group_by=parsed.group_by,
        include=tuple(parsed.include),
        exclude=tuple(parsed.exclude),
        min_side=parsed.min_side,
        limit_per_class=parsed.limit_per_class,
        class_map=_read_map(parsed.map) if parsed.map else (),
        only_classes=tuple(parsed.only_classes),
        drop_classes=tuple(parsed.drop_classes),
        min_per_class=parsed.min_per_class,
    )


def _images(parsed: argparse.Namespace) -> str:
    """Return where the images of a manifest are: SOURCE is, if there is a manifest too."""
    if _is_inside(parsed):
        return str(parsed.images)
    if parsed.manifest and parsed.source and parsed.images:
        raise UsageError(
            f"--images {parsed.images} and SOURCE {parsed.source} both say where the images are",
            hint="with --manifest, leave out one of them",
        )
    return str(parsed.images or (parsed.source if parsed.manifest else "") or "")


def _separator(given: str | None) -> str:
    if given == "":
        raise UsageError(
            "--label-sep is empty",
            hint="give what parts the labels of a cell, in quotes, such as '|' or ' '",
        )
    return given or ""


def _read_names(option: str, filename: str) -> tuple[str, ...]:
    from imgrec.plan.labels import parse_classes
    from imgrec.storage.small_text import read_small_text

    called = f"{option} {filename}"
    hint = "give a text file of one class name a line"
    return parse_classes(read_small_text(filename, called, hint), called)


def _read_label_names(filename: str) -> tuple[LabelLine, ...]:
    from imgrec.plan.labels import parse_classes
    from imgrec.source.label_names import parse_label_names
    from imgrec.storage.small_text import read_small_text

    called = f"--label-names {filename}"
    hint = "give a text file of one class name a line, a CSV of label,name or a JSON map"
    text = read_small_text(filename, called, hint)
    return parse_label_names(text, called) or parse_classes(text, called)


def _read_map(filename: str) -> tuple[tuple[str, str], ...]:
    from imgrec.plan.classes import parse_map
    from imgrec.storage.small_text import read_small_text

    called = f"--map {filename}"
    return parse_map(read_small_text(filename, called, "give a CSV file of old,new"), called)
