"""The fields of `--json`, as `imgrec/manual/json.md` documents them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

PAGE = Path(__file__).resolve().parents[2] / "imgrec/manual/json.md"
_SECTION = re.compile(r"^## (\w+)\n(.*?)(?=^## |\Z)", re.MULTILINE | re.DOTALL)
_ROW = re.compile(r"^\| (`[^|]*`) \| (\S[^|]*) \|$", re.MULTILINE)


@cache
def documented_fields() -> Mapping[str, frozenset[str]]:
    """Return the documented fields of each verb.

    `pairs[].first.file` is a field in each item of a list, `splits.*.bytes` one in each value of an
    object whose keys are names.
    """
    return {
        verb: frozenset(re.findall("`([^`]+)`", "".join(names for names, _ in _ROW.findall(text))))
        for verb, text in _SECTION.findall(PAGE.read_text())
    }


def answered_fields(text: str) -> tuple[str, frozenset[str]]:
    """Return the verb of an answer, and its fields as the page names them."""
    answer = json.loads(text)
    verb = answer.pop("schema").split("/")[1]
    known = documented_fields().get(verb, frozenset())
    return verb, frozenset(_fields(answer, known, ""))


def refuse_undocumented(text: str) -> None:
    """Fail if an answer has a field that the page does not document."""
    verb, found = answered_fields(text)
    known = documented_fields().get(verb, frozenset())
    holders = {name[: end.start()] for name in known for end in re.finditer(r"\[\]|\.", name)}
    unknown = sorted(found - known - holders)
    assert not unknown, f"{PAGE.name} does not document these fields of {verb}: {unknown}"


def _fields(value: object, known: frozenset[str], path: str) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _fields(item, known, f"{path}[]")
    elif isinstance(value, Mapping) and f"{path}.**" in known:  # documented elsewhere
        yield f"{path}.**"
    elif isinstance(value, Mapping):
        is_open = any(name.startswith(f"{path}.*") for name in known)
        for key, item in value.items():
            yield from _fields(item, known, f"{path}.{'*' if is_open else key}".removeprefix("."))
    if path and not path.endswith("[]"):
        yield path
