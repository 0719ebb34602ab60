"""Requests to decide: who may send them, and what they contain."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from starlette.datastructures import Headers
from starlette.requests import Request

from imgrec.codec.untrusted import counts_of, parse_json, text_of
from imgrec.errors import UsageError
from imgrec.view.decided import KEEP
from imgrec.view.decisions import Wish

MOST_BYTES = 1 << 20
"""Room for more than 100,000 records; any number of them can be chosen by a query."""
_TYPE = "application/json"
"""Forms cannot send it. Pages of another origin would have to ask first, and get no permission."""
_KEYS = frozenset({"action", "numbers", "query", "except", "labels", "new_class", "split"})
UNDO, REDO = "undo", "redo"


@dataclass(frozen=True, slots=True, kw_only=True)
class Order:
    """What a request asks for, before its numbers are checked."""

    action: Wish | str
    """`UNDO` and `REDO` take nothing else."""
    numbers: tuple[int, ...]
    query: str | None
    """The filters whose matches are chosen, instead of `numbers`."""
    excepted: tuple[int, ...]
    """Matches that are not chosen."""
    labels: tuple[int, ...]
    new_class: str
    """A class that the dataset does not have, as one more label; "" for none."""
    split: int


def refusal_of(headers: Headers) -> str:
    """Return why a request may not change anything; "" if it may.

    The caller has checked the token and the Host header.
    """
    if headers.getlist("origin") != [f"http://{headers['host'].lower()}"]:
        return "Only the page of imgrec view may decide.\n"
    if headers.get("sec-fetch-site", "same-origin") != "same-origin":
        return "Only the page of imgrec view may decide.\n"
    if headers.getlist("content-type") != [_TYPE]:
        return f"Decisions are sent as {_TYPE}.\n"
    return ""


async def read_order(request: Request) -> Order:
    """Read a request; raise UsageError if it is too large or not an order."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > MOST_BYTES:
            raise UsageError(f"the request is larger than {MOST_BYTES:,} bytes")
    try:
        return _order_of(parse_json(bytes(data)))
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise UsageError("the request is not an order to decide") from error


def _order_of(value: Any) -> Order:  # JSON has no types
    if not _KEYS.issuperset(value):
        raise ValueError("unknown keys")
    action = text_of(value["action"])
    query = value.get("query")
    if query is not None and "numbers" in value:
        raise ValueError("both numbers and a query")
    split = value.get("split")
    return Order(
        action=action if action in (UNDO, REDO) else Wish(action),
        numbers=counts_of(value.get("numbers", [])),
        query=None if query is None else text_of(query),
        excepted=counts_of(value.get("except", [])),
        labels=counts_of(value.get("labels", [])),
        new_class=text_of(value.get("new_class", "")),
        split=KEEP if split is None else counts_of([split])[0],
    )
