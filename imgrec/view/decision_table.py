"""The table of decisions: written by `imgrec view`, applied by `imgrec edit`.

    filename,action,label,split
    rose/1.jpg,flag,,
    rose/2.jpg,drop,,
    rose/3.jpg,relabel,tulip,
    rose/3.jpg,move,,val

A flag only means "look at this again": `edit` leaves such an image as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from imgrec.codec.json_files import decode_table, encode_table
from imgrec.errors import UsageError
from imgrec.planning.corrections import FLAG, SEPARATOR, Action
from imgrec.view.decided import KEEP, NOTHING, Decision

COLUMNS = ("filename", "action", "label", "split")


class Names(NamedTuple):
    """The names that stand for numbers in a table."""

    classes: Sequence[str]
    splits: Sequence[str]
    is_multilabel: bool


def encode_decisions(decisions: Mapping[str, Decision], names: Names) -> bytes:
    """Encode decisions by file name: the same bytes for the same decisions."""
    rows = (row for item in sorted(decisions.items()) for row in _rows(*item, names))
    return encode_table(COLUMNS, rows)


def _rows(filename: str, decision: Decision, names: Names) -> Iterator[Sequence[str]]:
    if decision.is_flagged:
        yield filename, FLAG, "", ""
    if decision.is_dropped:
        yield filename, Action.DROP, "", ""
    if decision.labels:
        yield filename, Action.RELABEL, label_cell(decision.labels, names), ""
    if decision.split != KEEP:
        yield filename, Action.MOVE, "", names.splits[decision.split]


def label_cell(labels: Sequence[int], names: Names) -> str:
    """Return the cell that stands for some labels; raise UsageError if no cell can."""
    texts = [names.classes[label] for label in labels]
    if len(texts) > 1 and not names.is_multilabel:
        raise UsageError("images of this dataset have one label each")
    if names.is_multilabel and any(SEPARATOR in text for text in texts):
        raise UsageError(
            f"a class with {SEPARATOR!r} in its name cannot be a new label: "
            f"{SEPARATOR!r} separates the labels of an image"
        )
    return SEPARATOR.join(texts)


def with_new_classes(data: bytes, names: Names) -> Names:
    """Add the classes of a table that are new, by name; raise ValueError if it is none."""
    header, rows = decode_table(data)
    labels = [row[2] for row in rows if row[1] == Action.RELABEL] if header == COLUMNS else []
    texts = {text for label in labels for text in _texts_of(label, names)}
    return names._replace(classes=(*names.classes, *sorted(texts.difference(names.classes, [""]))))


def _texts_of(label: str, names: Names) -> list[str]:
    return label.split(SEPARATOR) if names.is_multilabel else [label]


def decode_decisions(
    data: bytes, filenames: Sequence[str], names: Names
) -> tuple[dict[str, Decision], list[str]]:
    """Return the decisions in a table, and what is wrong with it. Raise ValueError if it is none.

    `filenames` are those of the dataset.
    """
    header, rows = decode_table(data)
    if header != COLUMNS:
        raise ValueError(f"its columns are not {', '.join(COLUMNS)}")
    known = frozenset(filenames)
    found: dict[str, Decision] = {}
    faults = []
    for place, (filename, action, label, split) in enumerate(rows):
        decision = _with_row(found.get(filename, NOTHING), action, label, split, names)
        if filename not in known:
            decision = f"there is no image {filename!r}"
        if isinstance(decision, str):
            faults.append(f"row {place + 1}: {decision}")
        else:
            found[filename] = decision
    return found, faults


def _with_row(
    decision: Decision, action: str, label: str, split: str, names: Names
) -> Decision | str:
    """Return a decision with one more row of its image, or what is wrong with that row."""
    is_relabelled, is_moved = action == Action.RELABEL, action == Action.MOVE
    if action not in (FLAG, *Action):
        return f"{action!r} is not {FLAG}, {', '.join(Action)}"
    if bool(label) is not is_relabelled or bool(split) is not is_moved:
        return f"{action} with the label {label!r} and the split {split!r}"
    if action == FLAG:
        return decision._replace(is_flagged=True)
    is_repeated = (is_relabelled and decision.labels) or (is_moved and decision.split != KEEP)
    is_kept = decision.labels or decision.split != KEEP
    if decision.is_dropped or is_repeated or (action == Action.DROP and is_kept):
        return "its image has another correction already"
    if action == Action.DROP:
        return decision._replace(is_dropped=True)
    if is_moved:
        if split not in names.splits:
            return f"there is no split {split!r}"
        return decision._replace(split=list(names.splits).index(split))
    texts = _texts_of(label, names)
    if missing := [text for text in texts if text not in names.classes]:
        return f"there is no class {missing[0]!r}"
    return decision._replace(labels=tuple(sorted({names.classes.index(text) for text in texts})))
