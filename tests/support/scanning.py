"""What a source works with in tests: everything happens in this process."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from PIL import Image

from imgrec.codec.image import pack_pixels
from imgrec.model import Catalog, Pixels
from imgrec.options import SourceOptions
from imgrec.source.kinds import detect, scan, scan_tree
from imgrec.source.tree import Context
from imgrec.source.walk import Walk
from imgrec.storage.blobs import read_blob


def run(function: Callable[..., object], tasks: Iterable[object]) -> Iterator[object]:
    return map(function, tasks)


def context(spool: Path | str = "", **options: object) -> Context:
    return Context(
        options=SourceOptions(**options),  # type: ignore[arg-type]
        run=run,  # type: ignore[arg-type]
        on_progress=lambda _: None,
        spool=str(spool),
    )


def scan_folder(root: Path | str, context: Context) -> Catalog:
    """The catalog of a folder of images."""
    return scan_tree(Walk(str(root), follow_links=context.options.follow_links), context)


def scanned(path: Path, spool: Path | None = None, **options: object) -> Catalog:
    """The catalog of any source; its spool is beside it."""
    here = context(spool or path.parent / "spool", **options)
    return scan(detect(str(path), here.options), here)


def rows(catalog: Catalog) -> list[tuple[object, ...]]:
    """The samples of a catalog, except where their bytes are."""
    return [tuple(sample)[:-1] for sample in catalog.samples]


def planes(catalog: Catalog) -> list[bytes]:
    """The planes of colour of each image of raw pixels, as they come back from its PNG."""
    found = []
    for sample in catalog.samples:
        assert isinstance(sample.blob, Pixels)
        packed = pack_pixels(read_blob(sample.blob, sample.size), sample.blob)
        assert packed.shape == (sample.blob.height, sample.blob.width, sample.blob.channels)
        bands = Image.open(io.BytesIO(packed.data)).split()
        found.append(b"".join(band.tobytes() for band in bands))
    return found
