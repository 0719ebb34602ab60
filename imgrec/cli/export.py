"""`imgrec unpack`, `imgrec export` and `imgrec submit`: write files from a packed dataset."""

from __future__ import annotations

import shlex
from argparse import Namespace
from collections.abc import Iterator
from typing import TYPE_CHECKING

from imgrec.cli.arguments import DATASET_ARGUMENTS, WORKERS, working
from imgrec.cli.parser import argument, switch, verb
from imgrec.cli.render import emit, line, names, pick
from imgrec.inspect.export.exporting import FORMATS
from imgrec.text import number, size, visible

if TYPE_CHECKING:
    from imgrec.inspect.export.exporting import Exported
    from imgrec.inspect.submission import Submitted
    from imgrec.inspect.unpack import Unpacked


@verb(
    (
        "imgrec unpack flowers ./flowers_again",
        "imgrec unpack flowers ./some --split 'train[:10%]' --splits",
    ),
    (
        *DATASET_ARGUMENTS,
        argument("target", "DIR", "a folder that is empty or does not exist yet"),
        argument("--split", "S", "only these records, such as val or train[:10%%]"),
        switch("--splits", "put the images of each split into its own folder"),
        *WORKERS,
    ),
)
def unpack(parsed: Namespace) -> int:
    """Write every image of a dataset under its original name into a new folder."""
    from imgrec import api

    with working(parsed) as workers:
        unpacked = api.unpack(
            parsed.dataset,
            parsed.target,
            data_dir=parsed.data_dir,
            split=parsed.split,
            split_folders=parsed.splits,
            **workers,
        )
    fields = "name version path images unnamed bytes transcoded resized skipped manifest pack_again"
    emit(parsed, pick(unpacked, f"{fields} notes"), _unpacked_lines(unpacked))
    return 0


def _unpacked_lines(unpacked: Unpacked) -> Iterator[str]:
    yield visible(
        f"{unpacked.name} {unpacked.version}: {number(unpacked.images, 'image')}, "
        f"{size(unpacked.bytes)}"
    )
    yield line("path", unpacked.path)
    for title, count, what in (
        ("unnamed", unpacked.unnamed, "named by split, class and number"),
        ("transcoded", unpacked.transcoded, "not the same bytes as in the source"),
        ("resized", unpacked.resized, "smaller than in the source"),
    ):
        if count:
            yield line(title, f"{number(count, 'image')}, {what}")
    if unpacked.skipped:
        yield line("skipped", f"{number(unpacked.skipped, 'file')} of the source, never packed")
    yield from (line("note", note) for note in unpacked.notes)
    if unpacked.manifest:
        yield line("manifest", unpacked.manifest)
    if unpacked.pack_again:
        yield line("pack again", shlex.join(unpacked.pack_again))


@verb(
    (
        "imgrec export flowers --to parquet -o flowers_hub",
        "imgrec export flowers --to webdataset -o flowers_tars",
    ),
    (
        *DATASET_ARGUMENTS,
        argument(
            "--to",
            "|".join(FORMATS),
            "; ".join(f"{name}: {what}" for name, what in FORMATS.items()),
            choices=list(FORMATS),
            required=True,
        ),
        argument(
            "-o",
            "DIR",
            "a folder that is empty or does not exist yet",
            dest="target",
            required=True,
        ),
        switch("--overwrite", "replace an earlier export in that folder"),
        *WORKERS,
    ),
)
def export(parsed: Namespace) -> int:
    """Write a dataset in the format of another library, ready to publish."""
    from imgrec import api

    with working(parsed) as workers:
        exported = api.export(
            parsed.dataset,
            parsed.target,
            to=parsed.to,
            data_dir=parsed.data_dir,
            overwrite=parsed.overwrite,
            **workers,
        )
    fields = "name version path format files images bytes splits load"
    emit(parsed, pick(exported, fields), _exported_lines(exported))
    return 0


def _exported_lines(exported: Exported) -> Iterator[str]:
    yield visible(
        f"{exported.name} {exported.version}: {number(exported.images, 'image')} in "
        f"{number(exported.files, 'file')}, {size(exported.bytes)}"
    )
    for split, images in exported.splits.items():
        yield line(split, number(images, "image"))
    yield line("path", exported.path)
    yield line("load", exported.load)


@verb(
    ("imgrec submit aptos predictions.csv -o submission.csv",),
    (
        *DATASET_ARGUMENTS,
        argument(
            "predictions",
            "PREDICTIONS",
            ".csv or .parquet with a column of ids; or .npy, in the order of the split",
        ),
        argument(
            "-o",
            "CSV",
            "file to write; default: submission.csv",
            dest="path",
            default="submission.csv",
        ),
        argument("--split", "S", "split that was predicted; default: test", default="test"),
        argument(
            "--fill", "VALUE", "prediction for images that the dataset does not have", default=None
        ),
        switch("--overwrite", "replace the file if it exists"),
    ),
)
def submit(parsed: Namespace) -> int:
    """Write predictions in the form and order of the sample submission of the download.

    The form is probabilities, labels, or lists of labels. Every id is written once.
    """
    from imgrec import api

    submitted = api.write_submission(
        parsed.dataset,
        parsed.predictions,
        parsed.path,
        split=parsed.split,
        fill=parsed.fill,
        overwrite=parsed.overwrite,
        data_dir=parsed.data_dir,
    )
    emit(parsed, pick(submitted, "path rows columns form filled"), _submitted_lines(submitted))
    return 0


def _submitted_lines(submitted: Submitted) -> Iterator[str]:
    yield visible(f"{submitted.path}: {number(submitted.rows, 'row')}")
    yield line("columns", names(submitted.columns))
    yield line("form", submitted.form)
    if submitted.conversion:
        yield line("scores", f"turned into probabilities by {submitted.conversion}")
    if submitted.filled:
        yield line("filled", number(submitted.filled, "row"))
