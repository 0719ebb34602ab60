"""What the page asks the server for. Records go by number; no address names a file."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router

from imgrec.errors import BadImage, DatasetError, UsageError
from imgrec.inspection.viewing import asking, pictures
from imgrec.inspection.viewing.catalogue import SIZES, Found
from imgrec.inspection.viewing.details import details
from imgrec.inspection.viewing.opened import Opened
from imgrec.inspection.viewing.thumbnails import SIDES, Thumbnails
from imgrec.text import printable

_STATIC = Path(__file__).with_name("static")
_TYPES = {
    ".html": "text/html; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".svg": "image/svg+xml",
}
_FOR_EVER = {"Cache-Control": "private, max-age=86400, immutable"}
"""A record never changes, and each run of the server has addresses of its own."""
_FRAMES = "application/octet-stream"


def routes_of(opened: Opened, thumbnails: Thumbnails) -> Router:
    """Return what answers the page's requests."""
    pages = _Pages(opened, thumbnails)
    answers = {
        "/api/dataset": pages.dataset,
        "/api/page": pages.page,
        "/api/record": pages.record,
        "/api/thumbnails": pages.thumbnails,
        "/image": pages.image,
    }
    routes = [Route(path, _answering(answer)) for path, answer in answers.items()]
    files = sorted(path for path in _STATIC.iterdir() if path.suffix in _TYPES)
    routes += [Route(f"/{path.name}", _file(path)) for path in files]
    return Router([*routes, Route("/", _file(_STATIC / "index.html"))], redirect_slashes=False)


class _Pages:
    def __init__(self, opened: Opened, thumbnails: Thumbnails) -> None:
        self._opened = opened
        self._thumbnails = thumbnails

    def dataset(self, _request: Request) -> Response:
        """Say what the dataset is."""
        opened, info = self._opened, self._opened.dataset.info
        columns = opened.catalogue.columns
        return _json(
            {
                "name": printable(info.name),
                "version": printable(info.version),
                "path": printable(info.path),
                "load": printable(info.load),
                "records": len(opened),
                "classes": list(map(printable, info.classes)),
                "splits": list(map(printable, columns.split_names)),
                "formats": list(columns.format_names),
                "sizes": SIZES,
                "sides": SIDES,
                "gathered": opened.gathered,
            }
        )

    def page(self, request: Request) -> Response:
        """List some of the records that fit, and count what else there is."""
        started = time.perf_counter()
        found = self._found(request)
        part = asking.page_of(request.query_params)
        numbers = found.numbers[part].tolist()
        columns = self._opened.catalogue.columns
        rows = [
            {
                "number": number,
                "split": int(columns.splits[number]),
                "labels": row.labels,
                "name": row.filename,
                "width": row.width,
                "height": row.height,
                "format": row.format,
            }
            for number, row in zip(numbers, self._opened.rows(numbers), strict=True)
        ]
        answer = _json({"total": len(found.numbers), "rows": rows, "counts": found.counts})
        elapsed_ms = (time.perf_counter() - started) * 1000
        answer.headers["Server-Timing"] = f"total;dur={elapsed_ms:.1f}"
        return answer

    def record(self, request: Request) -> Response:
        """Say all there is to say of one record, and which are next to it among those found."""
        number = asking.number_of(request.query_params, len(self._opened))
        found = self._found(request)
        numbers, at = found.numbers, found.place_of(number)
        around = {} if at is None else {"at": at, "total": len(numbers)}
        if at is not None and at > 0:
            around["previous"] = int(numbers[at - 1])
        if at is not None and at + 1 < len(numbers):
            around["next"] = int(numbers[at + 1])
        return _json(details(self._opened, number) | around)

    def thumbnails(self, request: Request) -> Response:
        """Send the thumbnails of some records, as `thumbnails` frames them."""
        numbers = asking.numbers_of(request.query_params, len(self._opened))
        side = asking.side_of(request.query_params)
        return StreamingResponse(self._thumbnails.stream(numbers, side), media_type=_FRAMES)

    def image(self, request: Request) -> Response:
        """Send the image of a record."""
        number = asking.number_of(request.query_params, len(self._opened))
        picture = pictures.whole(self._opened.dataset.read(number))
        kind = pictures.TYPES[picture.format]
        return Response(picture.data, media_type=kind, headers=_FOR_EVER)

    def _found(self, request: Request) -> Found:
        classes = self._opened.catalogue.columns.classes
        return self._opened.catalogue.find(asking.query_of(request.query_params, classes))


def _answering(answer: Callable[[Request], Response]) -> Callable[[Request], Response]:
    """Return what answers, or says what is wrong with the request or the record."""

    def answered(request: Request) -> Response:
        try:
            return answer(request)
        except UsageError as error:
            return _json({"error": printable(str(error))}, 400)
        except (BadImage, DatasetError) as error:
            return _json({"error": printable(str(error))}, 422)

    return answered


def _file(path: Path) -> Callable[[Request], Response]:
    data, kind = path.read_bytes(), _TYPES[path.suffix]
    return lambda _request: Response(data, media_type=kind)


def _json(value: object, status: int = 200) -> Response:
    return Response(json.dumps(value), status, media_type="application/json")
