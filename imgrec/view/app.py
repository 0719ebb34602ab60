"""The web application behind the page: access control, parameters and answers.

Any web page can make a browser send requests to this machine. None of them knows the token that
all our addresses begin with, none can read an answer, and one that points its own name here (DNS
rebinding) is given away by the Host header. Records go by number; no address names a file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from secrets import compare_digest
from urllib.parse import quote

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import Headers, MutableHeaders, QueryParams
from starlette.requests import Request
from starlette.responses import (
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from imgrec.errors import BadImage, DatasetError, ExecutionError, UsageError
from imgrec.model import UNLABELLED
from imgrec.text import printable
from imgrec.view.catalogue import SIZES, Matches, Query
from imgrec.view.decided import Decided
from imgrec.view.deciding import REDO, UNDO, Order, read_order, refusal_of
from imgrec.view.decisions import Wish
from imgrec.view.facets import ColumnFilter
from imgrec.view.records import MEDIA_TYPES, SIDES, ViewedDataset

_STATIC = Path(__file__).with_name("static")
_STATIC_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOREVER = {"Cache-Control": "private, max-age=86400, immutable"}
"""A record never changes, and each run of the server has addresses of its own."""
_MAX_ROWS = 200
_MAX_TOGETHER = 12
_MAX_TEXT = 1000
_MAX_SIDE = 1 << 31

_HOSTS = frozenset({"127.0.0.1", "localhost"})
"""With any port: an SSH tunnel may use another one."""
_PORT = re.compile(r":\d{1,5}\Z")
_METHODS = frozenset({"GET", "HEAD"})
_DECIDE = "api/decide"
"""The only path that changes anything, and the only one for POST."""
_SECURITY_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; "
    "img-src 'self' blob:; connect-src 'self'; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}


def make_app(viewed: ViewedDataset, token: str) -> ASGIApp:
    """Return the application, which answers only requests that know the token."""
    answers = _Answers(viewed)
    handlers = {
        "/api/dataset": answers.dataset,
        "/api/page": answers.page,
        "/api/record": answers.record,
        "/api/thumbnails": answers.thumbnails,
        "/image": answers.image,
    }
    routes = [Route(path, handler) for path, handler in handlers.items()]
    routes.append(Route(f"/{_DECIDE}", answers.decide, methods=["POST"]))
    files = sorted(path for path in _STATIC.iterdir() if path.suffix in _STATIC_TYPES)
    routes += [Route(f"/{path.name}", _file(path)) for path in files]
    routes.append(Route("/", _file(_STATIC / "index.html")))
    errors = dict.fromkeys((UsageError, BadImage, DatasetError, ExecutionError), _error)
    app = Starlette(routes=routes, exception_handlers=errors)
    app.router.redirect_slashes = False
    return Guard(app, token)


class Guard:
    """Refuses requests without the token, and decisions from elsewhere; adds security headers."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or refuse it."""

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _SECURITY_HEADERS.items():
                    headers[name] = value
                headers.setdefault("Cache-Control", "no-store")
            await send(message)

        # "GET *" and "CONNECT host:1" have no path at all, and so no token either.
        _, token, *rest = ("/" + scope["path"].removeprefix("/")).split("/", 2)
        path = rest[0] if rest else ""
        refusal = self._refusal(Headers(scope=scope), scope["method"], token, path)
        if refusal is None and not rest:
            refusal = RedirectResponse(f"/{quote(self._token)}/")
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        inside = {**scope, "path": f"/{path}", "root_path": ""}
        await self._app(inside, receive, send_with_headers)

    def _refusal(self, headers: Headers, method: str, token: str, path: str) -> Response | None:
        names = [_PORT.sub("", host.lower()) for host in headers.getlist("host")]
        if len(names) != 1 or names[0] not in _HOSTS:
            return PlainTextResponse("imgrec view does not serve this host name.\n", 403)
        if not compare_digest(token.encode(), self._token.encode()):
            return PlainTextResponse("Open the address that `imgrec view` printed.\n", 403)
        if method == "POST" and path == _DECIDE:
            why = refusal_of(headers)
            return PlainTextResponse(why, 403) if why else None
        if method not in _METHODS:
            return PlainTextResponse("Only GET and HEAD are allowed.\n", 405)
        return None


class _Answers:
    def __init__(self, viewed: ViewedDataset) -> None:
        self._viewed = viewed

    def dataset(self, _request: Request) -> Response:
        """Describe the dataset."""
        viewed, info = self._viewed, self._viewed.dataset.info
        return JSONResponse(
            {
                "name": printable(info.name),
                "version": printable(info.version),
                "path": printable(info.path),
                "load": printable(info.load),
                "records": len(viewed.catalogue),
                "classes": list(map(printable, viewed.classes)),
                "splits": list(map(printable, viewed.catalogue.split_names)),
                "formats": list(viewed.catalogue.format_names),
                "sizes": SIZES,
                "sides": SIDES,
                "gathered": viewed.gathered,
                "looked": viewed.looked,
                "findings": viewed.catalogue.findings.titles,
                "columns": {
                    name: column.describe() for name, column in viewed.catalogue.columns.items()
                },
                "has_copies": viewed.catalogue.has_copies,
                "is_multilabel": viewed.catalogue.is_multilabel,
                "why_undecidable": viewed.why_undecidable,
                "corrections": printable(viewed.decisions.path) if viewed.decisions else "",
                "edit": printable(viewed.decisions.command) if viewed.decisions else "",
            }
        )

    def page(self, request: Request) -> Response:
        """List a page of matching records, and count the matches of every filter value."""
        matches = self._matches(request)
        start = _integer(request.query_params.get("start", "0"), 0, 1 << 62, "start")
        count = _integer(request.query_params.get("count", "100"), 1, _MAX_ROWS, "count")
        catalogue = self._viewed.catalogue
        numbers = matches.numbers[start : start + count].tolist()
        is_grouped = request.query_params.get("sort", "").removeprefix("-") == "copies"
        groups = catalogue.groups_of(numbers) if is_grouped else [None] * len(numbers)
        rows = [
            {**row, "group": group} for row, group in zip(self._rows(numbers), groups, strict=True)
        ]
        value = {"total": len(matches.numbers), "rows": rows, "counts": matches.counts}
        if decisions := self._viewed.decisions:
            value["decisions"] = decisions.now.counts()
            value |= {"undo": decisions.undoable, "redo": decisions.redoable}
        return JSONResponse(value)

    def record(self, request: Request) -> Response:
        """Describe one record in full, and name its neighbours among the matches."""
        number = self._number(request)
        matches = self._matches(request)
        numbers, at = matches.numbers, matches.position_of(number)
        around = {} if at is None else {"at": at, "total": len(numbers)}
        if at is not None and at > 0:
            around["previous"] = int(numbers[at - 1])
        if at is not None and at + 1 < len(numbers):
            around["next"] = int(numbers[at + 1])
        catalogue = self._viewed.catalogue
        together = catalogue.group_with(number)
        about = {
            "decision": self._decision(number),
            "findings": catalogue.findings_of(number),
            "alike": len(together),
            "together": self._rows(together[:_MAX_TOGETHER]),
        }
        return JSONResponse(self._viewed.details(number) | about | around)

    def _rows(self, numbers: Sequence[int]) -> list[dict[str, object]]:
        """Return what the grid shows about some records."""
        splits = self._viewed.catalogue.splits
        return [
            {
                "number": number,
                "split": int(splits[number]),
                "labels": row.labels,
                "name": row.filename,
                "width": row.width,
                "height": row.height,
                "format": row.format,
                "decision": self._decision(number),
            }
            for number, row in zip(numbers, self._viewed.rows(numbers), strict=True)
        ]

    async def decide(self, request: Request) -> Response:
        """Decide about some records, or undo or redo that, and say what was done."""
        order = await read_order(request)
        return JSONResponse({"done": printable(await run_in_threadpool(self._decide, order))})

    def _decide(self, order: Order) -> str:
        decisions = self._viewed.decisions
        if decisions is None:
            raise UsageError(f"nothing can be decided here: {self._viewed.why_undecidable}")
        if order.action in (UNDO, REDO):
            return decisions.undo() if order.action == UNDO else decisions.redo()
        catalogue = self._viewed.catalogue
        numbers = order.numbers
        if order.query is not None:
            excepted = frozenset(order.excepted)
            found = self._found(QueryParams(order.query)).numbers.tolist()
            numbers = tuple(number for number in found if number not in excepted)
        if max(numbers, default=0) >= len(catalogue):
            raise UsageError("numbers must be those of records")
        if max(order.labels, default=0) >= len(self._viewed.classes):
            raise UsageError("labels must be those of classes")
        if order.split >= len(catalogue.split_names):
            raise UsageError("split must be that of a split")
        labels = order.labels
        if order.new_class:
            labels = (*labels, decisions.label_of_new(order.new_class))
        return decisions.decide(Wish(order.action), numbers, labels=labels, split=order.split)

    def _decision(self, number: int) -> dict[str, object] | None:
        """Return what is decided about a record, if anything is."""
        decided = self._viewed.decided
        decision = decided.decisions.get(number) if decided else None
        if decision is None:
            return None
        return {
            "is_flagged": decision.is_flagged,
            "is_dropped": decision.is_dropped,
            "labels": decision.labels,
            "split": decision.split,
        }

    def thumbnails(self, request: Request) -> Response:
        """Send the thumbnails of some records as a stream of frames."""
        texts = request.query_params.get("n", "").split(",")[: _MAX_ROWS + 1]
        if len(texts) > _MAX_ROWS:
            raise UsageError(f"n names more than {_MAX_ROWS} records")
        numbers = tuple(dict.fromkeys(map(self._record_number, texts)))
        side = _integer(request.query_params.get("side", ""), 0, max(SIDES), "side")
        if side not in SIDES:
            raise UsageError(f"side must be one of {', '.join(map(str, SIDES))}")
        stream = self._viewed.thumbnails(numbers, side)
        return StreamingResponse(stream, media_type="application/octet-stream")

    def image(self, request: Request) -> Response:
        """Send the image of a record."""
        picture = self._viewed.image(self._number(request))
        return Response(picture.data, media_type=MEDIA_TYPES[picture.format], headers=_FOREVER)

    def _number(self, request: Request) -> int:
        return self._record_number(request.query_params.get("n", ""))

    def _record_number(self, text: str) -> int:
        return _integer(text, 0, len(self._viewed.catalogue) - 1, "n")

    def _matches(self, request: Request) -> Matches:
        return self._found(request.query_params)

    def _found(self, parameters: QueryParams) -> Matches:
        query = _query(parameters, len(self._viewed.classes), self._viewed.decided)
        return self._viewed.catalogue.find(query)


def _query(parameters: QueryParams, classes: int, decided: Decided | None) -> Query:
    text = parameters.get("q", "")
    if len(text) > _MAX_TEXT:
        raise UsageError(f"q is longer than {_MAX_TEXT} characters")
    labels = [
        _integer(label, UNLABELLED, classes - 1, "class") for label in parameters.getlist("class")
    ]
    sort = parameters.get("sort", "")
    return Query(
        splits=frozenset(parameters.getlist("split")),
        classes=frozenset(labels),
        formats=frozenset(parameters.getlist("format")),
        min_side=_integer(parameters.get("min") or "0", 0, _MAX_SIDE, "min"),
        max_side=_integer(parameters.get("max") or "0", 0, _MAX_SIDE, "max"),
        text=text,
        findings=frozenset(parameters.getlist("finding")),
        columns=frozenset(_column_filters(parameters)),
        decisions=frozenset(parameters.getlist("decision")),
        decided=decided,
        sort=sort.removeprefix("-"),
        is_descending=sort.startswith("-"),
    )


def _column_filters(parameters: QueryParams) -> Iterator[ColumnFilter]:
    """Yield filters: `in.site=arm&in.site=leg`, `from.age=18&to.age=65`, `has.note=blood`."""
    found = [key.partition(".") for key in parameters if "." in key]
    for name in {name for kind, _, name in found if kind in ("in", "from", "to", "has")}:
        text = parameters.get(f"has.{name}", "")
        if len(text) > _MAX_TEXT:
            raise UsageError(f"has.{name} is longer than {_MAX_TEXT} characters")
        values = frozenset(parameters.getlist(f"in.{name}"))
        least, most = (_number(parameters.get(f"{bound}.{name}")) for bound in ("from", "to"))
        yield ColumnFilter(name, values, least, most, text)


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        number = math.nan
    if number is not None and math.isnan(number):
        raise UsageError(f"{text!r} is not a number")
    return number


def _integer(text: str, least: int, most: int, name: str) -> int:
    is_number = text.removeprefix("-").isdecimal() and text.isascii() and len(text) < 20
    if not is_number or not least <= int(text) <= most:
        raise UsageError(f"{name} must be a number from {least} to {most}")
    return int(text)


def _error(_request: Request, error: Exception) -> Response:
    status = 400 if isinstance(error, UsageError) else 422
    return JSONResponse({"error": printable(str(error))}, status)


def _file(path: Path) -> Callable[[Request], Response]:
    data, media_type = path.read_bytes(), _STATIC_TYPES[path.suffix]
    return lambda _request: Response(data, media_type=media_type)
