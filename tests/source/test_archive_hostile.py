"""Hostile and damaged archives do no harm: each is a clear error or a named skip."""

from __future__ import annotations

import stat
import struct
import subprocess
import tarfile
from functools import cache
from pathlib import Path

import pytest
from archives import (
    COMPRESS,
    FLOWERS,
    STORED,
    contents,
    context,
    edited,
    found,
    ignored,
    names,
    tar_bytes,
    wrapped,
    written,
    zip_bytes,
)
from pictures import jpeg, write_tree

from imgrec.errors import SourceError
from imgrec.notes import Note
from imgrec.source.archive import open_archive

MAKE = {".zip": zip_bytes, ".tar": tar_bytes}
OUT = "which leads out of the archive"
UNSAFE = {
    "/etc/evil.jpg": f"an absolute path, {OUT}",
    "../evil.jpg": f"a path with .., {OUT}",
    "rose/../../evil.jpg": f"a path with .., {OUT}",
    "rose\\evil.jpg": "a backslash in its name",
    "C:/evil.jpg": "a drive letter in its name",
    "rose/line\nbreak.jpg": "a line break in its name",
    "/".join("d" * 102) + ".jpg": "a path of more than 4096 characters or 100 folders",
    "rose/" + "x" * 5000: "a path of more than 4096 characters or 100 folders",
}


@pytest.mark.parametrize("suffix", MAKE)
@pytest.mark.parametrize("name", UNSAFE, ids=lambda name: ascii(name[:20]))
def test_an_unsafe_name_is_a_named_skip(tmp_path: Path, suffix: str, name: str) -> None:
    tree = {**FLOWERS, name: jpeg(9)}
    catalog = found(written(tmp_path / f"a{suffix}", MAKE[suffix](tree)))
    (bad,) = catalog.bad
    assert bad.reason == UNSAFE[name]
    assert bad.filename.startswith(name[:8].replace("\n", "\\x0a"))
    assert names(catalog) == list(FLOWERS)


def test_a_folder_with_an_unsafe_name_is_counted(tmp_path: Path) -> None:
    catalog = found(written(tmp_path / "a.zip", zip_bytes({**FLOWERS, "../": b"", "/x/": b""})))
    assert ignored(catalog) == {"folder with an unsafe name": 2}
    assert catalog.bad == ()


def test_of_a_name_of_a_megabyte_only_the_beginning_is_kept(tmp_path: Path) -> None:
    data = tar_bytes({"rose/1.jpg": jpeg(1), "a" * 1_000_000: b""})
    (bad,) = found(written(tmp_path / "a.tar", data)).bad
    assert len(bad.filename) <= 1 << 15


@pytest.mark.parametrize("suffix", MAKE)
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_members_of_one_name_the_first_is_packed_and_the_others_are_named(
    tmp_path: Path, suffix: str
) -> None:
    tree = {**FLOWERS, "rose//1.jpg": jpeg(8), "./rose/1.jpg": jpeg(9)}
    catalog = found(written(tmp_path / f"a{suffix}", MAKE[suffix](tree)))
    assert catalog.bad == (Note("rose/1.jpg", "another member of this name comes before it"),) * 2
    assert contents(catalog)["rose/1.jpg"] == FLOWERS["rose/1.jpg"]


# Members that cannot be read.


def padded() -> bytes:
    """Return a zip with a member that is larger packed than unpacked."""
    data = edited(zip_bytes(FLOWERS), "tulip/3.jpg", {20: struct.pack("<I", 100_000)})
    listed, end = data.index(b"PK\x01\x02"), len(data) - 22
    start = struct.pack("<I", listed + 100_000)
    return data[:listed] + bytes(100_000) + data[listed : end + 16] + start + data[end + 20 :]


def special(kind: bytes) -> bytes:
    info = tarfile.TarInfo("tulip/4.jpg")
    info.type, info.linkname = kind, "../../etc/passwd"
    return tar_bytes({**FLOWERS, "tulip/4.jpg": info})


def patched(edit: dict[int, bytes]) -> bytes:
    data = zip_bytes({**FLOWERS, "tulip/4.jpg": jpeg(4)}, STORED)
    return edited(data, "tulip/4.jpg", edit)


NUL = zip_bytes({**FLOWERS, "rose/0.jpg": jpeg(9)}).replace(b"rose/0.jpg", b"rose/\0.jpg")
ONLY = "only stored and deflated members are read"
SIZES = "its sizes in the archive contradict each other"
SKIPPED = [
    (NUL, "rose/\\x00.jpg", "a NUL in its name"),
    (zip_bytes({"rose": jpeg(9), **FLOWERS}), "rose", "a folder has the same name"),
    (zip_bytes({**FLOWERS, "rose": jpeg(9)}), "rose", "a folder has the same name"),
    *(
        (special(kind), "tulip/4.jpg", fault)
        for kind, fault in {
            tarfile.SYMTYPE: "a symbolic link in an archive",
            tarfile.LNKTYPE: "a hard link to no file before it",
            tarfile.CHRTYPE: "a device in an archive",
            tarfile.BLKTYPE: "a device in an archive",
            tarfile.FIFOTYPE: "a pipe in an archive",
            tarfile.GNUTYPE_SPARSE: "a sparse file in an archive",
            b"M": "the rest of a file that begins in another archive",
            b"Q": "an unknown kind of member",
        }.items()
    ),
    *(
        (patched(edit), "tulip/4.jpg", fault)
        for fault, edit in {
            "encrypted": {8: b"\1\0"},
            f"compressed with bzip2; {ONLY}": {10: b"\x0c\0"},
            f"compressed with method 77; {ONLY}": {10: b"\x4d\0"},
            "a symbolic link in an archive": {38: struct.pack("<I", (stat.S_IFLNK | 0o777) << 16)},
            "a special file in an archive": {38: struct.pack("<I", (stat.S_IFCHR | 0o777) << 16)},
            SIZES: {24: b"\1\0\0\0"},
            "its bytes are not where the archive says": {42: b"\xff\xff\xff\x7f"},
        }.items()
    ),
]


@pytest.mark.parametrize(
    ("data", "name", "fault"), SKIPPED, ids=[f"{name} {fault}" for _, name, fault in SKIPPED]
)
def test_a_member_that_cannot_be_read_is_a_named_skip(
    tmp_path: Path, data: bytes, name: str, fault: str
) -> None:
    catalog = found(written(tmp_path / "a.archive", data))
    assert catalog.bad == (Note(name, fault),)
    assert names(catalog) == list(FLOWERS)


def test_a_member_that_is_larger_packed_than_unpacked_is_not_read(tmp_path: Path) -> None:
    catalog = found(written(tmp_path / "a.zip", padded()))
    assert catalog.bad == (Note("tulip/3.jpg", SIZES),)


@pytest.mark.parametrize("form", ["gnu", "posix"])
def test_a_sparse_file_in_a_tar_is_a_named_skip(tmp_path: Path, form: str) -> None:
    write_tree(tmp_path / "x", FLOWERS)
    with open(tmp_path / "x/rose/holes.jpg", "wb") as file:
        for place in range(0, 64 << 20, 1 << 20):
            file.seek(place)
            file.write(b"data")
    tar = ["tar", "--sparse", f"--format={form}", "-cf", "../a.tar", "."]
    subprocess.run(tar, cwd=tmp_path / "x", check=True)
    catalog = found(tmp_path / "a.tar")
    assert catalog.bad == (Note("rose/holes.jpg", "a sparse file in an archive"),)
    assert names(catalog) == list(FLOWERS)


# Archives that cannot be read.


def tar_header(**fields: bytes) -> bytes:
    """Return a header block with some fields as given and a right checksum."""
    places = {"size": 124, "type": 156}
    block = bytearray(tarfile.TarInfo("rose/1.jpg").tobuf(tarfile.GNU_FORMAT))
    for field, value in fields.items():
        block[places[field] : places[field] + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def extended(kind: bytes, records: bytes) -> bytes:
    return tar_header(type=kind, size=b"%011o\0" % len(records)) + records.ljust(512, b"\0")


def blocks(data: bytes) -> bytes:
    """Cut off the end mark of a tar."""
    data = data.rstrip(b"\0")
    return data.ljust(-(-len(data) // 512) * 512, b"\0")


HUGE = b"\x80" + b"\xff" * 11
BARE = blocks(tar_bytes(FLOWERS))
DAMAGED = {
    "garbage": (b"PK\x03\x04 and nothing else", "is not a readable zip"),
    "a zip without its end": (zip_bytes(FLOWERS)[:-40], "is not a readable zip"),
    "an empty zip": (zip_bytes({}), "is an empty archive"),
    "a part of a split zip": (
        edited(zip_bytes(FLOWERS), "tulip/3.jpg", {34: b"\1\0"}),
        "is one part of a split zip",
    ),
    "members that overlap": (
        edited(zip_bytes(FLOWERS), "tulip/3.jpg", {42: bytes(4)}),
        "has members that overlap",
    ),
    **{
        f"a cut off {suffix}": (COMPRESS[suffix](tar_bytes(FLOWERS))[:-20], "cannot be unpacked")
        for suffix in (".gz", ".bz2", ".xz", ".zst")
    },
    "a gzip of no tar": (COMPRESS[".gz"](b"hello"), "is not a readable tar"),
    "a gzip of nothing": (COMPRESS[".gz"](b""), "is an empty archive"),
    "a 7z": (b"7z\xbc\xaf\x27\x1c\0\4", "imgrec does not read 7z archives"),
    "an empty file": (b"", "is not an archive that imgrec can read"),
    "text": (b"hello", "is not an archive that imgrec can read"),
    **{
        f"tar: {what}": (data, "is not a readable tar: ")
        for what, data in {
            "cut off in a member": tar_bytes(FLOWERS)[:700],
            "cut off in a header": tar_bytes(FLOWERS)[:1800],
            "damaged": tar_bytes(FLOWERS)[:1536].ljust(4096, b"x"),
            "a size below zero": BARE + tar_header(size=b"\xff" * 11 + b"\0"),
            "a size beyond all disks": BARE + tar_header(size=HUGE),
            "a long name beyond all memory": BARE + tar_header(type=b"L", size=HUGE),
            "an extended header of 2 MiB": BARE + extended(b"x", bytes(2 << 20)),
            "an invalid extended header": BARE + extended(b"x", b"9" * 512),
            "many invalid records": extended(b"x", b"3 \n" * 300_000 + b"9 path=x\n"),
            "a size that is no number": BARE + extended(b"x", b"9 size=x\n") + tar_header(),
            "one name for all": BARE + extended(b"g", b"9 path=x\n") + tar_header(),
            "a sparse map without end": BARE + tar_header(type=b"S")[:482] + b"\1" + bytes(29),
        }.items()
    },
}


@pytest.mark.parametrize("what", DAMAGED)
def test_a_damaged_archive_is_an_error_that_names_it(tmp_path: Path, what: str) -> None:
    data, message = DAMAGED[what]
    path = written(tmp_path / "some.archive", data)
    with pytest.raises(SourceError, match=message) as caught:
        found(path)
    assert "some.archive" in str(caught.value)
    assert caught.value.path == str(path)


def test_a_missing_archive_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*a\.zip: No such file"):
        open_archive(str(tmp_path / "a.zip"), context(tmp_path))


@pytest.mark.parametrize(
    ("data", "warning"),
    [
        (BARE, "has no end mark: it may be cut off"),
        (
            tar_bytes(FLOWERS) + tar_bytes({"lily/1.jpg": jpeg()}),
            "has data after its end mark, which is not read",
        ),
    ],
)
def test_an_odd_end_of_a_tar_is_a_warning(tmp_path: Path, data: bytes, warning: str) -> None:
    path = written(tmp_path / "a.tar", data)
    catalog = found(path)
    assert names(catalog) == list(FLOWERS)
    assert catalog.warnings == (f"{path} {warning}",)


# Bombs.


@cache
def bomb(suffix: str) -> bytes:
    """Return an archive of 101 MiB of zeros."""
    zeros = {"rose/1.jpg": bytes(101 << 20)}
    return zip_bytes(zeros) if suffix == ".zip" else COMPRESS[".zst"](tar_bytes(zeros))


def links() -> bytes:
    """Return a tar of 300 hard links to one large member."""
    tree: dict[str, bytes | tarfile.TarInfo] = {"rose/0.jpg": bytes(1 << 20)}
    for number in range(1, 300):
        link = tarfile.TarInfo(f"rose/{number}.jpg")
        link.type, link.linkname = tarfile.LNKTYPE, "rose/0.jpg"
        tree[link.name] = link
    return tar_bytes(tree)


@pytest.mark.parametrize("what", ["zip", "tar.zst", "in a zip", "hard links"])
def test_a_bomb_is_an_error_and_leaves_nothing_in_the_spool(tmp_path: Path, what: str) -> None:
    data = {
        "zip": lambda: bomb(".zip"),
        "tar.zst": lambda: bomb(".tar.zst"),
        "in a zip": lambda: zip_bytes({"rose.zip": bomb(".zip"), "x.csv": b""}),
        "hard links": links,
    }[what]()
    named = r"rose\.zip in .*" if what == "in a zip" else ""
    with pytest.raises(SourceError, match=f"{named} unpacks to more than 200 times its size"):
        found(written(tmp_path / "a.archive", data))
    if what != "in a zip":
        assert not list(tmp_path.glob("*-spool/*"))


@pytest.mark.parametrize("suffix", [".zip", ".tar", ".tar.gz"])
def test_more_than_the_limit_is_an_error_that_names_the_option(tmp_path: Path, suffix: str) -> None:
    data = zip_bytes(FLOWERS) if suffix == ".zip" else COMPRESS[suffix[4:]](tar_bytes(FLOWERS))
    path = written(tmp_path / f"a{suffix}", data)
    with pytest.raises(SourceError, match="more than 1000 bytes, the limit for archives") as caught:
        found(path, max_archive_bytes=1000)
    assert "--max-archive-bytes" in caught.value.hint


def test_the_limit_is_for_all_inner_archives_together(tmp_path: Path) -> None:
    tree = {"a.zip": zip_bytes(FLOWERS), "b.zip": zip_bytes(FLOWERS)}
    size = sum(map(len, FLOWERS.values()))
    folder = wrapped(tmp_path, "folder", tree)
    with pytest.raises(SourceError, match=r"b\.zip unpacks to more than"):
        found(folder, max_archive_bytes=2 * size - 1)
    assert len(names(found(folder, max_archive_bytes=2 * size))) == 6


MANY = b"PK\x03\x04" + (b"PK\x01\x02" + bytes(42)) * 3000
DEEP = {f"{number}/" * 90 + "1.jpg": b"" for number in range(15)}


@pytest.mark.parametrize(
    "data",
    [
        zip_bytes({"rose.zip": MANY}),
        zip_bytes({"rose.zip": MANY, "a.csv": b""}),
        COMPRESS[".zst"](tarfile.TarInfo("rose/1.jpg").tobuf() * 1001 + bytes(1024)),
        COMPRESS[".zst"](tar_bytes(DEEP)),
    ],
    ids=["alone", "beside a table", "a compressed tar", "a hundred folders each"],
)
def test_more_members_than_the_size_allows_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("imgrec.source.archive_members._FREE_MEMBERS", 1000)
    with pytest.raises(SourceError, match="files and folders, too many for its size"):
        found(written(tmp_path / "a.archive", data))
