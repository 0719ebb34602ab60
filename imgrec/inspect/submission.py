"""Write predictions in the form that a competition's sample submission asks for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from imgrec import layout
from imgrec.codec import json_files
from imgrec.errors import DatasetError, ImgrecError, UsageError
from imgrec.inspect.predictions import (
    Classes,
    Ids,
    Predictions,
    RawPredictions,
    Scores,
    are_probabilities,
    interpret,
    probabilities,
    read_predictions,
)
from imgrec.model import TEST, Submission
from imgrec.read.dataset import Dataset
from imgrec.read.documents import read_json, read_report
from imgrec.read.files import read_document
from imgrec.read.samples import read_table
from imgrec.read.splits import existing_name
from imgrec.spelling import as_integer
from imgrec.storage.paths import to_path
from imgrec.text import listed, number, printable

if TYPE_CHECKING:
    from numpy.typing import NDArray

_ID = "id"
_MAX_SAMPLE_BYTES = 1 << 30
_THRESHOLD = 0.5
"""Labels of at least this probability are submitted, in a multi-label dataset."""
_EXAMINED_CELLS = 10_000
_WRITE_IT_YOURSELF = "write the file yourself: samples.parquet of the dataset has ids and classes"


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


class _Template(NamedTuple):
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
    dataset: Dataset, predictions: object, split: str = TEST, fill: str | None = None
) -> tuple[bytes, Submitted]:
    """Return a submission as CSV, and its summary.

    It has every id once, in the order of the sample. `fill` is the value for images that are not
    in the dataset. Raises UsageError if the predictions do not fit the dataset, and DatasetError
    if there is no such split or the dataset is damaged.
    """
    folder = to_path(dataset.info.path)
    split = existing_name(split, list(dataset))
    own_ids = _record_ids(dataset, split)
    template = _read_template(dataset, own_ids, split)
    submission = template.submission
    names = dataset.info.classes
    classes = Classes(
        names=names,
        values=tuple(submission.values.get(name, name) for name in names),
        is_multilabel=(folder / layout.SEQUENCE_LABELS).exists(),
        separator=submission.separator,
    )
    id_names = frozenset({_ID, template.header[0], submission.id_column})
    raw = read_predictions(predictions, Ids(id_names, frozenset({*own_ids, *template.ids})))
    rows = _rows_by_id(raw, own_ids, template, split)
    absent = [one for one in template.ids if one not in rows]
    if absent and fill is None:
        raise _absent_error(absent, template, folder)
    found = interpret(raw, classes, own_ids if raw.ids is None else raw.ids)
    has_scores = found.scores is not None
    form = (
        _recognise(template.header[1:], template.cells, classes, has_scores=has_scores)
        if submission.sample
        else _plain_form(classes)
    )
    present = [one for one in template.ids if one in rows]
    columns = form.write(found.take([rows[one] for one in present]))
    table = dict(zip(present, zip(*columns, strict=True), strict=True))
    if absent:
        table |= dict.fromkeys(absent, (_filled(form, str(fill)),) * len(columns))
    data = json_files.encode_table(template.header, ((one, *table[one]) for one in template.ids))
    is_converted = (
        form.has_probabilities and found.scores is not None and not are_probabilities(found.scores)
    )
    submitted = Submitted(
        path="",
        rows=len(template.ids),
        columns=template.header,
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
        if _ID in table.column_names:
            ids = table.column(_ID).take(list(numbers)).to_pylist()
    if not ids:
        ids = [record.columns.get(_ID, "") for record in dataset[split]]
    if not any(ids):
        ids = [dataset.columns.filenames[at] for at in numbers]
    found = [str(one).strip() for one in ids]
    if repeated := _repeated(found):
        raise DatasetError(
            f"several images of {split} have the same id: {listed(repeated)}",
            hint="pack the source again with ids that differ",
            path=dataset.info.path,
        )
    return found


def _read_template(dataset: Dataset, own_ids: Sequence[str], split: str) -> _Template:
    """Return what to submit for a split: all rows of the sample, or the images of the split."""
    folder = to_path(dataset.info.path)
    submission = _read_submission(folder)
    where = f"{split} of {dataset.info.name}"
    if not submission.sample:
        usual = (submission.id_column, submission.label_column)
        return _Template(submission, usual, own_ids, (), where)
    try:
        header, rows = json_files.decode_table(submission.sample)
        ids, *cells = zip(*rows, strict=True)
    except ValueError as error:
        path = folder / layout.SUBMISSION
        raise DatasetError(
            f"{path} is damaged: {error}", hint="pack the source again", path=str(path)
        ) from error
    if split != TEST:
        return _Template(submission, header, own_ids, cells, where)
    stripped = [text.strip() for text in ids]
    if repeated := _repeated(stripped):
        raise UsageError(
            f"{layout.SUBMISSION} has several rows for the same id: {listed(repeated)}",
            hint="write the file yourself: this is not a classification task",
        )
    return _Template(submission, header, stripped, cells, layout.SUBMISSION)


def _read_submission(folder: Path) -> Submission:
    """Return what a dataset knows about submissions; the defaults if it knows nothing."""
    metadata = folder / layout.METADATA
    ours = read_json(metadata).get("imgrec", {}) if metadata.is_file() else {}
    if not isinstance(ours, Mapping) or "submission" not in ours:
        return Submission()
    path = folder / layout.SUBMISSION
    try:
        sample = read_document(path, _MAX_SAMPLE_BYTES) if path.exists() else b""
        return json_files.decode_submission(ours["submission"], sample)
    except ImgrecError:
        raise
    except (OSError, ValueError) as error:
        raise DatasetError(
            f"the submission format of {folder} is damaged: {error}",
            hint="pack the source again",
            path=str(folder),
        ) from error


def _rows_by_id(
    raw: RawPredictions, own_ids: Sequence[str], template: _Template, split: str
) -> dict[str, int]:
    """Return the row of each id in the predictions; raise UsageError if they do not fit."""
    ids = own_ids if raw.ids is None else raw.ids
    if len(ids) != raw.rows:
        count = number(raw.rows, "prediction")
        raise UsageError(
            f"{raw.name}: {count}, but {split} has {number(len(ids), 'image')}"
            if raw.ids is None
            else f"{raw.name}: {number(len(ids), 'id')} for {count}",
            hint="give one prediction for each image, by id",
        )
    if raw.ids is not None:
        known = {*own_ids, *template.ids}
        needed = set(own_ids).intersection(template.ids).difference(ids)
        faults = {
            "missing": [one for one in template.ids if one in needed],
            "unknown": [one for one in dict.fromkeys(ids) if one not in known],
            "repeated": _repeated(ids),
        }
        details = [f"{len(some):,} {what}: {listed(some)}" for what, some in faults.items() if some]
        if details:
            raise UsageError(
                f"{raw.name}: must have each id of {template.where} once: {'; '.join(details)}",
                hint=f"use the `{_ID}` of the records, such as {own_ids[0]}",
            )
    return {one: row for row, one in enumerate(ids)}


def _absent_error(absent: Sequence[str], template: _Template, folder: Path) -> UsageError:
    """Return the error about images missing from the dataset, with the reasons."""
    reasons = _skip_reasons(folder)
    shown = [f"{one} ({reasons[one]})" if one in reasons else one for one in absent]
    return UsageError(
        f"{number(len(absent), 'id')} of {template.where} without an image in the dataset: "
        f"{listed(shown)}",
        hint="give a value for them with --fill",
    )


def _skip_reasons(folder: Path) -> dict[str, str]:
    """Return why files were not packed, by their possible ids."""
    try:
        skipped = read_report(folder).skipped
    except DatasetError:
        return {}
    found: dict[str, str] = {}
    for file in skipped:
        name = printable(file.filename).rpartition("/")[2]
        for one in (file.filename, name, name.rpartition(".")[0]):
            found.setdefault(one, file.reason)
    return found


def _repeated(ids: Sequence[str]) -> list[str]:
    return [one for one, count in Counter(ids).items() if count > 1]


class _Form(NamedTuple):
    """The contents of the cells beside the ids."""

    summary: str
    """In a few words."""
    write: Callable[[Predictions], list[Sequence[str]]]
    """Returns the cells of each column; raises UsageError if it needs other predictions."""
    fill: Callable[[str], str | None]
    """Returns the text for a `--fill`; None if it is not a value of this form."""
    has_probabilities: bool = False
    """True if scores that are not probabilities are converted."""


def _filled(form: _Form, fill: str) -> str:
    text = form.fill(fill.strip())
    if text is None:
        raise UsageError(
            f"--fill {fill} does not fit: the submission holds {form.summary}",
            hint="give such a value",
        )
    return text


def _plain_form(classes: Classes) -> _Form:
    """Return the form without a sample: a table of ids and labels."""
    return _label_sets(classes) if classes.is_multilabel else _one_label(classes.values, classes)


def _recognise(
    columns: Sequence[str], cells: Sequence[Sequence[str]], classes: Classes, *, has_scores: bool
) -> _Form:
    """Recognise the form of a sample by its columns and cells, without the ids.

    Whole numbers in one column are ambiguous for two classes, so the predictions decide: scores are
    written as probabilities, and labels as labels. Raises UsageError if the form is not clear.
    """
    labels = [classes.find(name) for name in columns]
    first = [text.strip() for text in cells[0][:_EXAMINED_CELLS] if text.strip()]
    are_numbers = bool(first) and all(map(_is_number, first))
    named = tuple(label for label in labels if label is not None)
    if len(named) == len(columns) == len(set(named)) and (len(named) > 1 or are_numbers):
        return _class_probabilities(
            named, f"a probability of each of {len(named)} classes", classes
        )
    if len(columns) > 1:
        unknown = [name for name, label in zip(columns, labels, strict=True) if label is None]
        raise _unclear(f"has columns that are not classes: {listed(unknown or columns)}")
    if classes.is_multilabel:
        return _label_sets(classes)
    if are_numbers:
        return _form_of_numbers(first, classes, has_scores=has_scores)
    return _form_of_texts(first, classes)


def _form_of_numbers(cells: Sequence[str], classes: Classes, *, has_scores: bool) -> _Form:
    """Return the form of a column of numbers: labels, or probabilities of the second class."""
    fractions = [cell for cell in cells if not as_integer(cell)]
    are_own = all(map(as_integer, classes.values))  # the source itself writes numbers
    is_binary = len(classes) == 2 and (not are_own or set(classes.values) == {"0", "1"})
    if is_binary and (has_scores or fractions):
        second = classes.values.index("1") if are_own else 1
        return _class_probabilities(
            (second,), f"the probability of {classes.names[second]}", classes
        )
    if fractions:
        raise _unclear(
            f"has numbers such as {fractions[0]} in one column, but the dataset has "
            f"{len(classes)} classes"
        )
    values = classes.values if are_own else tuple(map(str, range(len(classes))))
    return _one_label(values, classes)


def _form_of_texts(cells: Sequence[str], classes: Classes) -> _Form:
    """Return the form of a column of texts: a label, the likeliest labels, or one and its score."""
    words = [cell.split() for cell in cells]
    if (
        any(" " in value for value in classes.values)
        or any(cell in classes.label_of for cell in cells)
        or all(len(some) == 1 for some in words)
    ):
        return _one_label(classes.values, classes)
    known = [[classes.find(word) is not None for word in some] for some in words]
    if all(
        len(some) == 2 and is_known[0] and not as_integer(some[1]) and _is_number(some[1])
        for some, is_known in zip(words, known, strict=True)
    ):
        return _label_and_score(classes)
    counts = set(map(len, words))
    if len(counts) == 1 and sum(map(any, known)) * 2 > len(known):
        return _ranking(min(*counts, len(classes)), classes)
    raise _unclear(f"has cells that are not classes, such as {cells[0][:60]!r}")


def _unclear(what: str) -> UsageError:
    return UsageError(f"the sample submission {what}", hint=_WRITE_IT_YOURSELF)


def _class_probabilities(labels: Sequence[int], summary: str, classes: Classes) -> _Form:
    def write(found: Predictions) -> list[Sequence[str]]:
        likely = _probabilities(found, classes, summary)
        return [_number_texts(likely[:, label]) for label in labels]

    def fill(text: str) -> str | None:
        return text if _is_number(text) else None

    return _Form(summary, write, fill, has_probabilities=True)


def _one_label(values: Sequence[str], classes: Classes) -> _Form:
    def write(found: Predictions) -> list[Sequence[str]]:
        return [[values[label] for label in _likeliest(found, 1)[:, 0]]]

    def fill(text: str) -> str | None:
        label = classes.find(text)
        return values[label] if label is not None else text if text in values else None

    return _Form(f"one of {len(classes)} labels", write, fill)


def _label_sets(classes: Classes) -> _Form:
    def joined(labels: Sequence[int]) -> str:
        return classes.separator.join(classes.values[label] for label in labels)

    def write(found: Predictions) -> list[Sequence[str]]:
        if found.scores is None:
            return [list(map(joined, found.labels))]
        likely = probabilities(found.scores, is_multilabel=True)
        return [[joined(row.nonzero()[0]) for row in likely >= _THRESHOLD]]

    def fill(text: str) -> str | None:
        labels = [classes.find(part) for part in text.split(classes.separator) if part.strip()]
        known = [label for label in labels if label is not None]
        return joined(known) if len(known) == len(labels) else None

    summary = f"any of {len(classes)} labels, separated by {classes.separator!r}"
    return _Form(summary, write, fill, has_probabilities=True)


def _ranking(count: int, classes: Classes) -> _Form:
    summary = f"the {count} likeliest of {len(classes)} labels"

    def write(found: Predictions) -> list[Sequence[str]]:
        if found.scores is None:
            raise _needs_scores(summary, classes)
        rows = _likeliest(found, count)
        return [[" ".join(classes.values[label] for label in row) for row in rows]]

    def fill(text: str) -> str | None:
        return text if all(classes.find(word) is not None for word in text.split()) else None

    return _Form(summary, write, fill)


def _label_and_score(classes: Classes) -> _Form:
    summary = f"one of {len(classes)} labels and its probability"

    def write(found: Predictions) -> list[Sequence[str]]:
        likely = _probabilities(found, classes, summary)
        texts = _number_texts(likely.max(axis=1))
        labels = _likeliest(found, 1)[:, 0]
        return [[f"{classes.values[n]} {text}" for n, text in zip(labels, texts, strict=True)]]

    return _Form(summary, write, lambda text: text, has_probabilities=True)


def _likeliest(found: Predictions, count: int) -> NDArray[Any]:
    """Return the `count` labels of the highest scores, best first; of equal ones the lowest."""
    import numpy as np

    if found.scores is None:
        return np.array([labels[:1] for labels in found.labels], dtype=int).reshape(-1, 1)
    return np.argsort(-found.scores, axis=1, kind="stable")[:, :count]


def _probabilities(found: Predictions, classes: Classes, summary: str) -> Scores:
    if found.scores is None:
        raise _needs_scores(summary, classes)
    return probabilities(found.scores, is_multilabel=classes.is_multilabel)


def _needs_scores(summary: str, classes: Classes) -> UsageError:
    return UsageError(
        f"the sample submission asks for {summary}, but the predictions are labels",
        hint=f"give {len(classes)} probabilities for each image; numpy.eye({len(classes)})[labels] "
        "converts labels",
    )


def _number_texts(numbers: Scores) -> Sequence[str]:
    """Return numbers as their shortest exact texts."""
    texts: list[str] = numbers.astype(str).tolist()
    return texts


def _is_number(text: str) -> bool:
    try:
        return float(text) == float(text)
    except ValueError:
        return False
