"""COCO-style JSON as a table: images, their categories, and ids that stand for file names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from imgrec.source.download.targets import Columns

FILE, LABEL = "file_name", "category"


class Coco(NamedTuple):
    """What such a file says."""

    columns: Columns
    """File name and category of each annotated image; of each image if there are no annotations."""
    file_of: Mapping[str, str]
    """The file that each id of an image stands for."""
    order: tuple[str, ...]
    """The categories in the order of their ids."""


def parse(document: object, where: str) -> Coco | None:
    """Read a JSON document; return None if it is not COCO-style.

    A list of images alone is, too. Some competitions call `id` otherwise.
    """
    if isinstance(document, list):
        document = {"images": document}
    if not isinstance(document, dict):
        return None
    images = _objects(document.get("images"))
    files = {_first(image, "id", "image_id"): _first(image, "file_name") for image in images}
    files = {id_: name for id_, name in files.items() if id_ and name}
    if not files:
        return None
    names = {
        _first(category, "id", "category_id"): _first(category, "name", "scientificName")
        for category in _objects(document.get("categories"))
    }
    annotations = _objects(document.get("annotations"))
    pairs = [
        (files.get(_text(one.get("image_id")), ""), _text(one.get("category_id")))
        for one in annotations
    ]
    pairs = [(name, category) for name, category in pairs if name and category]
    if not pairs:
        return Coco(Columns(where, (FILE,), (tuple(files.values()),)), files, ())
    is_named = all(names.get(category) for _, category in pairs) and len(
        set(names.values())
    ) == len(names)
    labels = tuple(names[category] if is_named else category for _, category in pairs)
    order = sorted(names, key=lambda key: (len(key), key)) if is_named else []
    return Coco(
        Columns(where, (FILE, LABEL), (tuple(name for name, _ in pairs), labels)),
        files,
        tuple(names[key] for key in order),
    )


def _objects(value: object) -> list[dict[str, object]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _first(one: Mapping[str, object], *keys: str) -> str:
    """Return the value of the first key that an object has, as text."""
    return next((text for key in keys if (text := _text(one.get(key)))), "")


def _text(value: object) -> str:
    return str(value).strip() if isinstance(value, str | int) and value != "" else ""
