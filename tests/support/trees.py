"""Trees of files for sources to be found in: on disk and in archives."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from imgrec.model import Slice, ZipMember
from imgrec.source.tree import Folder


def members(path: Path) -> Folder:
    """The files of an archive, as a lister gives them."""
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
        blobs: list[Slice | ZipMember] = [
            ZipMember(
                str(path), info.header_offset, info.compress_size, info.compress_type, info.CRC
            )
            for info in infos
        ]
        names, sizes = [i.filename for i in infos], [i.file_size for i in infos]
    else:
        with tarfile.open(path) as tar:
            parts = tar.getmembers()
        blobs = [(str(path), part.offset_data) for part in parts]
        names, sizes = [part.name for part in parts], [part.size for part in parts]
    return Folder("", tuple(names), False, tuple(blobs), tuple(sizes))


def tarred(path: Path, files: Mapping[str, bytes]) -> Path:
    with tarfile.open(path, "w") as tar:
        for name in sorted(files):
            info = tarfile.TarInfo(name)
            info.size = len(files[name])
            tar.addfile(info, io.BytesIO(files[name]))
    return path


def zipped(path: Path, files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> Path:
    with zipfile.ZipFile(path, "w", method) as archive:
        for name in sorted(files):
            archive.writestr(name, files[name])
    return path
