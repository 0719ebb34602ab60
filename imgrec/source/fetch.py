"""Fetching sources from an object store, where they cannot be read in place.

Class folders are read in place, and so are the images that a table names. Archives, tables and
arrays of pixels need random access: they are copied to a temporary folder (`TMPDIR`) first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from tempfile import TemporaryDirectory
from typing import NamedTuple

from imgrec.errors import ImgrecError, SourceError
from imgrec.options import SourceOptions
from imgrec.source.kinds import has_set_name
from imgrec.source.tree import unseen
from imgrec.storage.urls import is_url

_TABLE_NAME = re.compile(r"\.(csv|tsv|jsonl?|ndjson|parquet)(\.gz)?$", re.I)


class Fetched(NamedTuple):
    """A source that can be read, and the folder with copies of it."""

    path: str
    options: SourceOptions
    copies: str = ""
    """The temporary folder; "" if nothing had to be copied."""


@contextmanager
def fetched(source: str, options: SourceOptions, *, in_place: bool = False) -> Iterator[Fetched]:
    """Yield a source that `detect` can read; its copies are deleted at the end.

    Raises SourceError if there is nothing at its URL, and UsageError if it must be read `in_place`
    but cannot be. Errors name the URL, not the copies.
    """
    images = options.images
    if not is_url(source) and not is_url(images):
        yield Fetched(source, options)
        return
    with TemporaryDirectory(prefix=".imgrec-") as folder:
        urls = {f"{folder}/source": source.rstrip("/"), f"{folder}/images": images.rstrip("/")}
        try:
            if is_url(source):
                if in_place:
                    _refuse_copies(source.rstrip("/"))
                source, options = _fetch(source.rstrip("/"), f"{folder}/source", options)
            if is_url(images):
                if in_place:
                    _refuse_copies(images.rstrip("/"))
                options = replace(options, images=_fetch_images(images, f"{folder}/images"))
            yield Fetched(source, options, folder)
        except ImgrecError as error:
            _name_urls(error, urls)
            raise


def _refuse_copies(url: str) -> None:
    """Raise UsageError if workers would have to read a copy; tables are read by this process."""
    from imgrec.storage.remote.read import objects, store_path

    if store_path(url).is_file():
        if not _TABLE_NAME.search(url):
            raise unseen(url)
    elif _must_be_copied([found.path for found in objects(url) if not found.path.endswith("/")]):
        raise unseen(url)


def _fetch(url: str, folder: str, options: SourceOptions) -> tuple[str, SourceOptions]:
    from imgrec.storage.remote.read import objects, store_path
    from imgrec.storage.remote.transfer import download_all
    from imgrec.storage.remote.trees import refuse_part

    above, _, name = url.rpartition("/")
    if store_path(url).is_file():
        # The copy keeps the name of its folder, because a table names the dataset after it.
        copies = download_all({f"{above.rpartition('/')[2]}/{name}": url}, folder)
        if _TABLE_NAME.search(name) and not options.images:
            options = replace(options, images=above)
        return next(iter(copies.values())), options
    paths = [found.path for found in objects(url) if not found.path.endswith("/")]
    refuse_part(url)
    if not paths:
        raise SourceError(
            f"there is nothing at {url}",
            hint="give a folder of class folders, an archive or a table",
            path=url,
        )
    if not _must_be_copied(paths):
        return url, options
    download_all({f"{name}/{path}": f"{url}/{path}" for path in paths}, folder)
    return f"{folder}/{name}", options


def _must_be_copied(paths: list[str]) -> bool:
    """Return whether files are CIFAR, IDX or only tables, by their names."""
    visible = [path for path in paths if path[0] not in "._"]
    tops = {path.partition("/")[0] for path in visible}
    inner = f"{tops.pop()}/" if len(tops) == 1 else ""
    names = [path.removeprefix(inner) for path in paths]
    if any(has_set_name(name) for name in names if "/" not in name):
        return True
    return bool(visible) and all(map(_TABLE_NAME.search, visible))


def _fetch_images(url: str, folder: str) -> str:
    """Return where the images of a table are: a folder at its URL, or a copy of an archive."""
    from imgrec.storage.remote.read import store_path
    from imgrec.storage.remote.transfer import download_all

    url = url.rstrip("/")
    if not store_path(url).is_file():
        return url
    return download_all({url.rpartition("/")[2]: url}, folder).popitem()[1]


def _name_urls(error: ImgrecError, urls: dict[str, str]) -> None:
    """Name URLs in an error instead of copies, which are deleted before it is read."""
    for copy, url in urls.items():
        above = url.rpartition("/")[0] or url
        for path in (f"{copy}/{url.rpartition('/')[2]}", copy):
            name = url if path != copy else above.rpartition("/")[0] or above
            error.message = error.message.replace(path, name)
            error.hint = error.hint.replace(path, name)
    error.args = (error.message,)
