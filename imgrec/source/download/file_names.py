"""Classes that file names tell."""

from __future__ import annotations

import re
from collections.abc import Sequence

from imgrec.source.download.words import is_tool_word

_LABEL_IN_NAME = r"^(?P<label>[^\W\d_]\D*?)[-_.\s(]+\d+\)?\.[^.]*$"
_NUMBERED = re.compile(_LABEL_IN_NAME)
_MOST_WORDS = 200
_SUGGESTED = (
    r"^(?P<label>[^\W\d_][^\d]*?)[-_. (]*\d",
    r"(?P<label>[^\W\d_]+)\.\w+$",
    r"^(?P<label>\d+)[-_]",
)
"""Patterns that are not sure enough to be taken unasked."""


def leading_word_regex(names: Sequence[str]) -> str:
    r"""Return the pattern that takes the class from file names, or "" if they do not tell one.

    Every name must be a word, a separator and a number, with 2 to 200 words of two images each or
    more, none of which a camera or a scanner writes.

    >>> leading_word_regex(["cat.0.jpg", "cat.1.jpg", "dog.0.jpg", "dog.1.jpg"])
    '^(?P<label>[^\\W\\d_]\\D*?)[-_.\\s(]+\\d+\\)?\\.[^.]*$'
    >>> leading_word_regex(["IMG_1.jpg", "IMG_2.jpg", "DSC_1.jpg", "DSC_2.jpg"])
    ''
    """
    counts: dict[str, int] = {}
    for name in names:
        match = _NUMBERED.match(name)
        if match is None:
            return ""
        word = match["label"]
        counts[word] = counts.get(word, 0) + 1
        if len(counts) > _MOST_WORDS:
            return ""
    is_telling = len(counts) >= 2 and min(counts.values()) >= 2
    if not is_telling or any(map(is_tool_word, counts)):
        return ""
    return _LABEL_IN_NAME


def suggested_regex(names: Sequence[str]) -> str:
    r"""Return a pattern that may find the class in file names; "" if none of the usual ones does.

    >>> suggested_regex(["Great_Dane_1.jpg", "Great_Dane_2.jpg", "pug_1.jpg", "pug_7.jpg"])
    '^(?P<label>[^\\W\\d_][^\\d]*?)[-_. (]*\\d'
    """
    for pattern in _SUGGESTED:
        counts: dict[str, int] = {}
        for match in map(re.compile(pattern).search, names):
            if match is None:
                break
            counts[match["label"]] = counts.get(match["label"], 0) + 1
        else:
            is_few = 2 <= len(counts) <= min(_MOST_WORDS, len(names) / 2)
            if is_few and not any(map(is_tool_word, counts)):
                return pattern
    return ""
