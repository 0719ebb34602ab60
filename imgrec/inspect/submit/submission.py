"""Write predictions for a split as a submission file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from imgrec import layout
from imgrec.codec import submission as codec
from imgrec.errors import DatasetError, ImgrecError, UsageError
from imgrec.inspect.submit.form import Form, form_of, plain_form
from imgrec.inspect.submit.predictions import Given, Ids, read_given
from imgrec.inspect.submit.values import Classes, are_probabilities, listed, read_values
from imgrec.model import TEST, Submission
from imgrec.read.dataset import Dataset
from imgrec.read.documents import read_json, read_report
from imgrec.read.files import read_document
from imgrec.read.samples import read_table
from imgrec.storage.paths import to_path
from imgrec.text import number, printable

_ID = "id"
_MAX_SAMPLE_BYTES = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class Submitted:
    """The submission that was written."""

    path: str
    rows: int
    columns: tuple[str, ...]
    form: str
    """The contents of the cells beside the ids, in a few words."""
    filled: int
    """Rows with the value of `--fill`, because the dataset has no image for them."""
    conversion: str = ""
    """How scores became probabilities: "softmax" or "sigmoid"; empty if they were not changed."""


class Wanted(NamedTuple):
    """What to submit."""

    split: str = TEST
    fill: str | None = None
    """The value for images that are not in the dataset; None to refuse them."""


class _Asked(NamedTuple):
    """The required contents of a submission."""

    submission: Submission
    header: tuple[str, ...]
    ids: Sequence[str]
    """In the order of the rows."""
    cells: Sequence[Sequence[str]]
    """The cells of the sample by column, without the ids."""
    where: str
    """The origin of the ids."""


def make_submission(
    dataset: Dataset, predictions: object, wanted: Wanted
) -> tuple[bytes, Submitted]:
    """Return a submission as CSV, and its summary.

    It has every id once, in the order of the sample. Raises UsageError if the predictions do not
    fit the dataset, and DatasetError if there is no such split or the dataset is damaged.
    """
    folder = to_path(dataset.info.path)
    own = _record_ids(dataset, wanted.split)
    asked = _asked(dataset, folder, own, wanted.split)
    classes = _classes(dataset, folder, asked.submission)
    names = frozenset({_ID, asked.header[0], asked.submission.id_column})
    given = read_given(predictions, Ids(names, frozenset({*own, *asked.ids})))
    rows = _rows(given, own, asked, wanted.split)
    absent = [one for one in asked.ids if one not in rows]
    if absent and wanted.fill is None:
        raise _absent(absent, asked, folder)
    row_ids = given.ids if given.ids is not None else own
    found = read_values(given, classes, lambda row: row_ids[row])
    form = (
        form_of(asked.header[1:], asked.cells, classes, has_scores=found.scores is not None)
        if asked.submission.sample
        else plain_form(classes)
    )
    there = [one for one in asked.ids if one in rows]
    columns = form.write(found.take([rows[one] for one in there]))
    table = dict(zip(there, zip(*columns, strict=True), strict=True))
    if absent:
        table |= dict.fromkeys(absent, (_filled(form, str(wanted.fill)),) * len(columns))
    data = codec.encode_table(asked.header, ((one, *table[one]) for one in asked.ids))
    is_converted = (
        form.has_probabilities and found.scores is not None and not are_probabilities(found.scores)
    )
    submitted = Submitted(
        path="",
        rows=len(asked.ids),
        columns=asked.header,
        form=form.summary,
        filled=len(absent),
        conversion=("sigmoid" if classes.is_multilabel else "softmax") if is_converted else "",
    )
    return data, submitted


def _record_ids(dataset: Dataset, split: str) -> list[str]:
    """Return the id of each record of a split, or its file name if there are no ids."""
    numbers = dataset[split].numbers
    folder = to_path(dataset.info.path)
    ids: Sequence[object] = ()
    if (folder / layout.SAMPLES).exists():
        table = read_table(folder, dataset.info, (_ID,))
        ids = table.column(_ID).to_pylist() if _ID in table.column_names else ()
        ids = [ids[at] for at in numbers] if ids else ()
    if not ids:
        ids = [record.columns.get(_ID, "") for record in dataset[split]]
    if not any(ids):
        ids = [dataset.columns.filenames[at] for at in numbers]
    found = [str(one).strip() for one in ids]
    if twice := _repeated(found):
        raise DatasetError(
            f"several images of {split} have the same id: {listed(twice)}",
            hint="pack the source again with ids that differ",
            path=dataset.info.path,
        )
    return found


def _asked(dataset: Dataset, folder: Path, own: Sequence[str], split: str) -> _Asked:
    """Return what to submit for a split: all rows of the sample, or the images of the split."""
    submission = _read_submission(folder)
    if not submission.sample:
        usual = (submission.id_column, submission.label_column)
        return _Asked(submission, usual, own, (), f"{split} of {dataset.info.name}")
    try:
        header, rows = codec.decode_table(submission.sample)
        ids, *cells = zip(*rows, strict=True)
    except ValueError as error:
        path = folder / layout.SUBMISSION
        raise DatasetError(
            f"{path} is damaged: {error}", hint="pack the source again", path=str(path)
        ) from error
    if split != TEST:
        return _Asked(submission, header, own, cells, f"{split} of {dataset.info.name}")
    stripped = [text.strip() for text in ids]
    if twice := _repeated(stripped):
        raise UsageError(
            f"{layout.SUBMISSION} has several rows for the same id: {listed(twice)}",
            hint="write the file yourself: this is not a classification task",
        )
    return _Asked(submission, header, stripped, cells, layout.SUBMISSION)


def _read_submission(folder: Path) -> Submission:
    """Return what a dataset knows about submissions; the defaults if it knows nothing."""
    ours = read_json(folder / layout.METADATA).get("imgrec", {}) if _has_metadata(folder) else {}
    if not isinstance(ours, Mapping) or "submission" not in ours:
        return Submission()
    path = folder / layout.SUBMISSION
    sample = b""
    try:
        if path.exists():
            sample = read_document(path, _MAX_SAMPLE_BYTES)
        return codec.decode(ours["submission"], sample)
    except (OSError, ValueError) as error:
        if isinstance(error, ImgrecError):
            raise
        raise DatasetError(
            f"the submission format of {folder} is damaged: {error}",
            hint="pack the source again",
            path=str(folder),
        ) from error


def _has_metadata(folder: Path) -> bool:
    return (folder / layout.METADATA).is_file()


def _classes(dataset: Dataset, folder: Path, submission: Submission) -> Classes:
    names = dataset.info.classes
    return Classes(
        names=names,
        values=tuple(submission.values.get(name, name) for name in names),
        is_multilabel=(folder / layout.SEQUENCE_LABELS).exists(),
        separator=submission.separator,
    )


def _rows(given: Given, own: Sequence[str], asked: _Asked, split: str) -> dict[str, int]:
    """Return the row of each id in the predictions; raise UsageError if they do not fit."""
    if given.ids is None:
        if given.rows != len(own):
            raise UsageError(
                f"{given.where}: {number(given.rows, 'prediction')}, but {split} has "
                f"{number(len(own), 'image')}",
                hint="give one for each image, by id",
            )
        return {one: row for row, one in enumerate(own)}
    if len(given.ids) != given.rows:
        raise UsageError(
            f"{given.where}: {number(len(given.ids), 'id')} for {number(given.rows, 'prediction')}",
            hint="give one id for each prediction",
        )
    known = {*own, *asked.ids}
    needed = set(own).intersection(asked.ids).difference(given.ids)
    faults = {
        "missing": [one for one in asked.ids if one in needed],
        "unknown": [one for one in dict.fromkeys(given.ids) if one not in known],
        "repeated": _repeated(given.ids),
    }
    if any(faults.values()):
        details = "; ".join(f"{len(ids):,} {w}: {listed(ids)}" for w, ids in faults.items() if ids)
        raise UsageError(
            f"{given.where}: must have each id of {asked.where} once: {details}",
            hint=f"use the `{_ID}` of the records, such as {own[0]}",
        )
    return {one: row for row, one in enumerate(given.ids)}


def _absent(absent: Sequence[str], asked: _Asked, folder: Path) -> UsageError:
    """Return the error about images missing from the dataset, with the reasons."""
    reasons = _skipped(folder)
    shown = [f"{one} ({reasons[one]})" if one in reasons else one for one in absent]
    count = number(len(absent), "id")
    return UsageError(
        f"{count} of {asked.where} {'have' if len(absent) > 1 else 'has'} no image in the "
        f"dataset: {listed(shown)}",
        hint="give a value for them with --fill (fill= in Python)",
    )


def _skipped(folder: Path) -> dict[str, str]:
    """Return why files were not packed, by their possible ids."""
    try:
        report = read_report(folder)
    except DatasetError:
        return {}
    found: dict[str, str] = {}
    for file in report.skipped:
        name = printable(file.filename).rpartition("/")[2]
        for one in (file.filename, name, name.rpartition(".")[0]):
            found.setdefault(one, file.reason)
    return found


def _filled(form: Form, fill: str) -> str:
    text = form.fill(fill.strip())
    if text is None:
        raise UsageError(
            f"--fill {fill}: the submission holds {form.summary}", hint="give such a value"
        )
    return text


def _repeated(ids: Sequence[str]) -> list[str]:
    return [one for one, count in Counter(ids).items() if count > 1]
