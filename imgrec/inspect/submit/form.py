"""The form of a submission: recognise it in the sample, and write predictions in it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from imgrec.errors import UsageError
from imgrec.inspect.submit.values import Classes, Scores, Values, listed, probabilities
from imgrec.spelling import as_integer

if TYPE_CHECKING:
    from numpy.typing import NDArray

_THRESHOLD = 0.5
"""Labels of at least this probability are submitted, in a multi-label dataset."""
_LOOKED_AT = 10_000
_SAMPLE = "the sample submission"


class Form(NamedTuple):
    """The contents of the cells beside the ids."""

    summary: str
    """In a few words."""
    write: Callable[[Values], list[Sequence[str]]]
    """Returns the cells of each column; raises UsageError if it needs other predictions."""
    fill: Callable[[str], str | None]
    """Returns the text for a `--fill`; None if it is not a value of this form."""
    has_probabilities: bool = False
    """True if scores that are not probabilities are converted."""


def plain_form(classes: Classes) -> Form:
    """Return the form without a sample: a table of ids and labels."""
    return _several(classes) if classes.is_multilabel else _one_label(classes.values, classes)


def form_of(
    columns: Sequence[str], cells: Sequence[Sequence[str]], classes: Classes, *, has_scores: bool
) -> Form:
    """Recognise the form of a sample by its columns and cells, without the ids.

    Whole numbers in one column are ambiguous for two classes, so the predictions decide: scores are
    written as probabilities, and labels as labels. Raises UsageError if the form is not clear.
    """
    labels = [classes.find(name) for name in columns]
    first = [text.strip() for text in cells[0][:_LOOKED_AT] if text.strip()]
    are_numbers = bool(first) and all(map(_is_number, first))
    named = tuple(label for label in labels if label is not None)
    if len(named) == len(columns) == len(set(named)) and (len(named) > 1 or are_numbers):
        return _class_columns(named, classes)
    if len(columns) > 1:
        strange = [name for name, label in zip(columns, labels, strict=True) if label is None]
        raise UsageError(
            f"{_SAMPLE} has the columns {listed(strange or list(columns))}, which are not classes "
            "of the dataset",
            hint="write the file yourself: samples.parquet of the dataset has ids and classes",
        )
    if classes.is_multilabel:
        return _several(classes)
    if are_numbers:
        return _of_numbers(first, classes, has_scores=has_scores)
    return _of_texts(first, classes)


def _of_numbers(cells: Sequence[str], classes: Classes, *, has_scores: bool) -> Form:
    """Return the form of a column of numbers: labels, or probabilities of the second class."""
    are_whole = all(map(as_integer, cells))
    are_own = all(map(as_integer, classes.values))  # the source itself writes numbers
    is_binary = len(classes) == 2 and (not are_own or set(classes.values) == {"0", "1"})
    if is_binary and (has_scores or not are_whole):
        second = classes.values.index("1") if are_own else 1
        return _probability(second, classes)
    if not are_whole:
        raise UsageError(
            f"{_SAMPLE} has numbers such as {next(c for c in cells if not as_integer(c))} in one "
            f"column, but the dataset has {len(classes)} classes",
            hint="write the file yourself: samples.parquet of the dataset has ids and classes",
        )
    values = classes.values if are_own else tuple(map(str, range(len(classes))))
    return _one_label(values, classes)


def _of_texts(cells: Sequence[str], classes: Classes) -> Form:
    """Return the form of a column of texts: a label, the likeliest labels, or one and its score."""
    words = [cell.split() for cell in cells]
    has_blanks = any(" " in value for value in classes.values)
    if (
        has_blanks
        or any(cell in classes.label_of for cell in cells)
        or all(len(w) == 1 for w in words)
    ):
        return _one_label(classes.values, classes)
    known = [[classes.find(word) is not None for word in found] for found in words]
    if all(len(w) == 2 and k[0] and not as_integer(w[1]) and _is_number(w[1])
           for w, k in zip(words, known, strict=True)):  # fmt: skip
        return _label_and_score(classes)
    counts = set(map(len, words))
    if len(counts) == 1 and sum(map(any, known)) * 2 > len(known):
        return _ranking(min(*counts, len(classes)), classes)
    raise UsageError(
        f"{_SAMPLE} has cells such as {cells[0][:60]!r}, which are not classes of the dataset",
        hint="write the file yourself: samples.parquet of the dataset has ids and classes",
    )


def _class_columns(labels: Sequence[int], classes: Classes) -> Form:
    summary = f"a probability of each of {len(labels)} classes"

    def write(found: Values) -> list[Sequence[str]]:
        likely = _probabilities(found, classes, summary)
        return [_number_texts(likely[:, label]) for label in labels]

    return Form(summary, write, _number_or_none, has_probabilities=True)


def _probability(label: int, classes: Classes) -> Form:
    summary = f"the probability of {classes.names[label]}"

    def write(found: Values) -> list[Sequence[str]]:
        return [_number_texts(_probabilities(found, classes, summary)[:, label])]

    return Form(summary, write, _number_or_none, has_probabilities=True)


def _one_label(values: Sequence[str], classes: Classes) -> Form:
    def write(found: Values) -> list[Sequence[str]]:
        return [[values[label] for label in _likeliest(found, 1)[:, 0]]]

    def fill(text: str) -> str | None:
        label = classes.find(text)
        return values[label] if label is not None else text if text in values else None

    return Form(f"one of {len(classes)} labels", write, fill)


def _several(classes: Classes) -> Form:
    def write(found: Values) -> list[Sequence[str]]:
        sets = found.labels
        if found.scores is not None:
            likely = probabilities(found.scores, is_multilabel=True)
            sets = [tuple(row.nonzero()[0]) for row in likely >= _THRESHOLD]
        return [[_joined(labels, classes) for labels in sets or ()]]

    def fill(text: str) -> str | None:
        labels = [classes.find(part) for part in text.split(classes.separator) if part.strip()]
        known = [label for label in labels if label is not None]
        return _joined(known, classes) if len(known) == len(labels) else None

    summary = f"any of {len(classes)} labels, separated by {classes.separator!r}"
    return Form(summary, write, fill, has_probabilities=True)


def _joined(labels: Sequence[int], classes: Classes) -> str:
    return classes.separator.join(classes.values[label] for label in labels)


def _ranking(count: int, classes: Classes) -> Form:
    summary = f"the {count} likeliest of {len(classes)} labels"

    def write(found: Values) -> list[Sequence[str]]:
        if found.scores is None:
            raise _needs_scores(summary, classes)
        rows = _likeliest(found, count)
        return [[" ".join(classes.values[label] for label in row) for row in rows]]

    def fill(text: str) -> str | None:
        return text if all(classes.find(word) is not None for word in text.split()) else None

    return Form(summary, write, fill)


def _label_and_score(classes: Classes) -> Form:
    summary = f"one of {len(classes)} labels and its probability"

    def write(found: Values) -> list[Sequence[str]]:
        likely = _probabilities(found, classes, summary)
        texts = _number_texts(likely.max(axis=1))
        labels = _likeliest(found, 1)[:, 0]
        return [[f"{classes.values[n]} {text}" for n, text in zip(labels, texts, strict=True)]]

    return Form(summary, write, lambda text: text, has_probabilities=True)


def _likeliest(found: Values, count: int) -> NDArray[Any]:
    """Return the `count` labels of the highest scores, best first; of equal ones the lowest."""
    import numpy as np

    if found.scores is None:
        return np.array([labels[:1] for labels in found.labels or ()], dtype=int).reshape(-1, 1)
    return np.argsort(-found.scores, axis=1, kind="stable")[:, :count]


def _probabilities(found: Values, classes: Classes, summary: str) -> Scores:
    if found.scores is None:
        raise _needs_scores(summary, classes)
    return probabilities(found.scores, is_multilabel=classes.is_multilabel)


def _needs_scores(summary: str, classes: Classes) -> UsageError:
    return UsageError(
        f"{_SAMPLE} asks for {summary}, but the predictions are labels",
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


def _number_or_none(text: str) -> str | None:
    return text if _is_number(text) else None
