"""Whatever bytes an archive has, it gives a catalog or one of our errors, and soon."""

from __future__ import annotations

import shutil
import struct
import tarfile
from pathlib import Path

import pytest
from archives import COMPRESS, DEFLATED, FLOWERS, STORED, contents, found, tar_bytes, zip_bytes
from conftest import SHARED
from hypothesis import HealthCheck, example, given
from hypothesis import strategies as st
from pictures import jpeg
from sampling import examples

from imgrec.errors import BadImage, ImgrecError
from imgrec.source.archive import is_archive
from imgrec.storage.blobs import read_blob

pytestmark = pytest.mark.fuzz
CORPORA = [SHARED / "awkward" / "go-fuzz" / kind / "corpus" for kind in ("zip", "tar")]
OMNIGLOT = SHARED / "omniglot-zip" / "images_background_small1.zip"

SMALL = {"rose/1.jpg": jpeg(1, (4, 4)), "rose/more/": b"", "tulip/2.jpg": jpeg(2, (4, 4))}
LONG = {f"rose/{'long' * 60}.jpg": jpeg(1, (4, 4))}
ZIPS = (
    zip_bytes(SMALL, STORED),
    zip_bytes(SMALL, DEFLATED),
    zip_bytes({"a.zip": zip_bytes(SMALL), "b.zip": zip_bytes(SMALL, STORED)}, STORED),
)
TARS = (
    *(tar_bytes(SMALL, kind) for kind in (tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT)),
    *(tar_bytes(LONG, kind) for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT)),
)
VALID = (*ZIPS, *TARS, *(pack(tar_bytes(SMALL)) for suffix, pack in COMPRESS.items() if suffix))
MAGICS = (
    b"PK\x03\x04", b"PK\x05\x06", b"\x1f\x8b\x08", b"BZh9", b"\xfd7zXZ\0", b"\x28\xb5\x2f\xfd",
    tarfile.TarInfo("rose/1.jpg").tobuf(), ZIPS[0][:60], TARS[0][:512],
)  # fmt: skip
FIELDS = (
    b"\xff" * 12, b"\x80" + b"\xff" * 11, b"-1", b"x", b"g", b"L", b"K", b"S", b"1", b"2", b"5",
    b"00000000017\0", b"99 path=a\n", b"../../etc/passwd",
)  # fmt: skip


def fed(folder: Path, data: bytes) -> str:
    """List an archive of these bytes and read all of it; return the error."""
    path = folder / "a.zip"
    path.write_bytes(data)
    is_archive(str(path))
    try:
        catalog = found(path, max_archive_bytes=64 << 20)
    except ImgrecError as error:
        return str(error)
    finally:
        assert {entry.name for entry in folder.iterdir()} <= {"a.zip", "a.zip-spool"}
    for sample in catalog.samples:
        try:
            assert len(read_blob(sample.blob, sample.size)) == sample.size
        except BadImage:
            continue
    shutil.rmtree(folder / "a.zip-spool", ignore_errors=True)
    return ""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """Draw a valid archive with some bytes changed, taken out, doubled, or cut off."""
    data = bytearray(draw(st.sampled_from(VALID)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)))
        count = draw(st.integers(1, 8) | st.integers(1, 600))
        changes = {
            "change": draw(st.binary(min_size=count, max_size=count)),
            "extreme": draw(st.sampled_from([b"\0", b"\xff", b"7"])) * count,
            "delete": b"",
            "double": bytes(data[at : at + count]) * 2,
        }
        kind = draw(st.sampled_from([*changes, "cut"]))
        data[at : len(data) if kind == "cut" else at + count] = changes.get(kind, b"")
    return bytes(data)


@st.composite
def patched_tars(draw: st.DrawFn) -> bytes:
    """Draw a tar with fields of its headers changed, and checksums that are right again."""
    data = bytearray(draw(st.sampled_from(TARS)))
    for _ in range(draw(st.integers(1, 3))):
        at = 512 * draw(st.integers(0, 8))
        start, end = draw(
            st.sampled_from([(0, 100), (124, 136), (156, 157), (157, 257), (345, 500), (0, 512)])
        )
        field = draw(st.binary(max_size=end - start) | st.sampled_from(FIELDS))
        data[at + start : at + start + len(field)] = field
        block = data[at : at + 512]
        block[148:156] = b" " * 8
        data[at + 148 : at + 156] = b"%06o\0 " % sum(block)
    return bytes(data)


@st.composite
def patched_zips(draw: st.DrawFn) -> bytes:
    """Draw a zip with numbers of its directory changed."""
    data = bytearray(draw(st.sampled_from(ZIPS)))
    start = data.rindex(b"PK\x01\x02") if draw(st.booleans()) else data.index(b"PK\x01\x02")
    for _ in range(draw(st.integers(1, 4))):
        at = start + draw(st.integers(4, 70))
        number = draw(st.sampled_from([0, 1, 8, 12, 0xFFFF, 0xFFFFFFFF, 0x7FFFFFFF, len(data)]))
        data[at : at + 4] = struct.pack("<I", number)
    return bytes(data)


garbage = st.builds(bytes.__add__, st.sampled_from(MAGICS), st.binary(max_size=2000))


@examples(900, suppress=list(HealthCheck))
@given(data=mutants() | patched_tars() | patched_zips() | garbage)
@example(data=b"")
def test_a_damaged_archive_gives_a_catalog_or_our_error(folder: Path, data: bytes) -> None:
    fed(folder, data)


@pytest.mark.exhaustive
@pytest.mark.parametrize("corpus", CORPORA, ids=lambda corpus: str(corpus.parent.name))
def test_a_corpus_of_crashes_gives_catalogs_or_our_errors(folder: Path, corpus: Path) -> None:
    if not corpus.is_dir():
        pytest.skip(f"{corpus} is not there")
    for path in sorted(corpus.iterdir()):
        fed(folder, path.read_bytes())


@pytest.mark.exhaustive
def test_a_real_download_of_nested_classes_is_read_whole() -> None:
    if not OMNIGLOT.is_file():
        pytest.skip(f"{OMNIGLOT} is not there")
    catalog = found(OMNIGLOT)
    assert len(contents(catalog)) > 1000
    assert catalog.bad == ()


def test_the_seeds_of_all_this_are_read(folder: Path) -> None:
    assert {fed(folder, data) for data in (*VALID, zip_bytes(FLOWERS))} == {""}
