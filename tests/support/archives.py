"""Real archives for tests, and what is found in them."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import tarfile
import zipfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

import pyarrow
from pictures import jpeg, png, write_tree
from scanning import context

from imgrec.model import Catalog
from imgrec.source.archive import expand, open_archive
from imgrec.source.kinds import scan_tree
from imgrec.source.tree import Lister
from imgrec.source.walk import open_tree
from imgrec.storage.blobs import read_blob

COMPRESS: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": partial(gzip.compress, mtime=0),
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": lambda data: pyarrow.compress(data, codec="zstd", asbytes=True),
}
STORED, DEFLATED = zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED
FLOWERS = {"rose/1.jpg": jpeg(1), "rose/2.png": png(2), "tulip/3.jpg": jpeg(3)}


def lister_of(path: Path, **options: object) -> Lister:
    """Open a folder or an archive, and the archives in it, with the spool beside it."""
    here = context(path.parent / f"{path.name}-spool", **options)
    if path.is_dir():
        return open_tree(str(path), here)
    lister = open_archive(str(path), here)  # whatever it is called
    expand(lister, here)
    return lister


def found(path: Path, **options: object) -> Catalog:
    here = context(path.parent / f"{path.name}-spool", **options)
    return scan_tree(lister_of(path, **options), here)


def names(catalog: Catalog) -> list[str]:
    return list(catalog.samples.filenames)


def ignored(catalog: Catalog) -> dict[str, int]:
    return {kind.kind: kind.count for kind in catalog.ignored}


def zip_bytes(files: Mapping[str, bytes], method: int = DEFLATED) -> bytes:
    """Return a zip; names that end in a slash are folders."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(zipfile.ZipInfo(name), data, method)
    return out.getvalue()


def tar_bytes(
    files: Mapping[str, bytes | tarfile.TarInfo], tar_format: int = tarfile.PAX_FORMAT
) -> bytes:
    """Return a tar; names that end in a slash are folders, and headers stand for themselves."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tar_format, errors="surrogateescape") as tar:
        for name, data in files.items():
            info = data if isinstance(data, tarfile.TarInfo) else tarfile.TarInfo(name)
            body = data if isinstance(data, bytes) else b""
            if name.endswith("/"):
                info.type = tarfile.DIRTYPE
            info.size = info.size or len(body)
            tar.addfile(info, io.BytesIO(body))
    return out.getvalue()


def written(path: Path, data: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def contents(catalog: Catalog) -> dict[str, bytes]:
    """Read every sample."""
    return {s.filename: read_blob(s.blob, s.size) for s in catalog.samples}


def edited(data: bytes, name: str, edit: dict[int, bytes], *, local: bool = False) -> bytes:
    """Change bytes of the entry of a member, at places counted from its beginning."""
    magic, length = (b"PK\x03\x04", 30) if local else (b"PK\x01\x02", 46)
    out = bytearray(data)
    place = -1
    while (place := data.index(magic, place + 1)) >= 0:
        if data[place + length :].startswith(name.encode()):
            for at, change in edit.items():
                out[place + at : place + at + len(change)] = change
            return bytes(out)
    raise AssertionError


def wrapped(tmp_path: Path, outer: str, tree: dict[str, bytes], method: int = DEFLATED) -> Path:
    """Write a tree as a folder or as an archive of one kind."""
    if outer == "folder":
        return write_tree(tmp_path / "data", tree)
    data = zip_bytes(tree, method) if outer == "zip" else tar_bytes(tree)
    return written(tmp_path / f"data.{outer}", COMPRESS[outer[3:]](data))
