"""Trees of files for sources to be found in: on disk and in archives."""

from __future__ import annotations

import io
import tarfile
import zipfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from imgrec.blob import Slice, ZipMember
from imgrec.options import SourceOptions
from imgrec.source.context import Context
from imgrec.source.tree import Folder


def run(function: Callable[..., object], tasks: Iterable[object]) -> Iterator[object]:
    return map(function, tasks)


def context(spool: Path, **options: object) -> Context:
    return Context(
        options=SourceOptions(**options),  # type: ignore[arg-type]
        run=run,  # type: ignore[arg-type]
        on_progress=lambda _: None,
        spool=str(spool / "spool"),
    )


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
