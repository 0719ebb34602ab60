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

UNSAFE = {
    "/etc/evil.jpg": "an absolute path, which leads out of the archive",
    "../evil.jpg": "a path with .., which leads out of the archive",
    "rose/../../evil.jpg": "a path with .., which leads out of the archive",
    "rose\\evil.jpg": "a backslash in its name",
    "C:/evil.jpg": "a drive letter in its name",
    "rose/line\nbreak.jpg": "a line break in its name",
    "/".join("d" * 102) + ".jpg": "a path of more than 4096 characters or 100 folders",
    "rose/" + "x" * 5000: "a path of more than 4096 characters or 100 folders",
}


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
@pytest.mark.parametrize("name", UNSAFE, ids=lambda name: ascii(name[:20]))
def test_an_unsafe_name_is_a_named_skip(tmp_path: Path, suffix: str, name: str) -> None:
    make = zip_bytes if suffix == ".zip" else tar_bytes
    catalog = found(written(tmp_path / f"a{suffix}", make({**FLOWERS, name: jpeg(9)})))
    (bad,) = catalog.bad
    assert bad.reason == UNSAFE[name]
    assert bad.filename.startswith(name[:8].replace("\n", "\\x0a"))
    assert names(catalog) == list(FLOWERS)


def test_a_nul_in_a_name_is_a_named_skip(tmp_path: Path) -> None:
    data = zip_bytes({**FLOWERS, "rose/0.jpg": jpeg(9)}).replace(b"rose/0.jpg", b"rose/\0.jpg")
    assert found(written(tmp_path / "a.zip", data)).bad == (
        Note("rose/\\x00.jpg", "a NUL in its name"),
    )


def test_a_folder_with_an_unsafe_name_is_counted(tmp_path: Path) -> None:
    catalog = found(written(tmp_path / "a.zip", zip_bytes({**FLOWERS, "../": b"", "/x/": b""})))
    assert ignored(catalog) == {"folder with an unsafe name": 2}
    assert catalog.bad == ()


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_of_members_of_one_name_the_first_is_packed_and_the_others_are_named(
    tmp_path: Path, suffix: str
) -> None:
    make = zip_bytes if suffix == ".zip" else tar_bytes
    tree = {**FLOWERS, "rose//1.jpg": jpeg(8), "./rose/1.jpg": jpeg(9)}
    catalog = found(written(tmp_path / f"a{suffix}", make(tree)))
    assert catalog.bad == (Note("rose/1.jpg", "another member of this name comes before it"),) * 2
    assert contents(catalog)["rose/1.jpg"] == FLOWERS["rose/1.jpg"]


@pytest.mark.parametrize("is_first", [True, False])
def test_a_file_that_is_called_as_a_folder_is_a_named_skip(tmp_path: Path, is_first: bool) -> None:
    tree = {"rose": jpeg(9), **FLOWERS} if is_first else {**FLOWERS, "rose": jpeg(9)}
    catalog = found(written(tmp_path / "a.zip", zip_bytes(tree)))
    assert catalog.bad == (Note("rose", "a folder has the same name"),)
    assert names(catalog) == list(FLOWERS)


SPECIAL = {
    tarfile.SYMTYPE: "a symbolic link in an archive",
    tarfile.LNKTYPE: "a hard link to no file before it",
    tarfile.CHRTYPE: "a device in an archive",
    tarfile.BLKTYPE: "a device in an archive",
    tarfile.FIFOTYPE: "a pipe in an archive",
    tarfile.GNUTYPE_SPARSE: "a sparse file in an archive",
    b"M": "the rest of a file that begins in another archive",
    b"Q": "an unknown kind of member",
}


@pytest.mark.parametrize("kind", SPECIAL)
def test_a_special_member_of_a_tar_is_a_named_skip(tmp_path: Path, kind: bytes) -> None:
    special = tarfile.TarInfo("rose/0.jpg")
    special.type, special.linkname = kind, "../../etc/passwd"
    catalog = found(written(tmp_path / "a.tar", tar_bytes({"rose/0.jpg": special, **FLOWERS})))
    assert catalog.bad == (Note("rose/0.jpg", SPECIAL[kind]),)
    assert names(catalog) == list(FLOWERS)


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


ENTRY_FAULTS = {
    "encrypted": {8: b"\1\0"},
    "compressed with bzip2; only stored and deflated members are read": {10: b"\x0c\0"},
    "compressed with method 77; only stored and deflated members are read": {10: b"\x4d\0"},
    "a symbolic link in an archive": {38: struct.pack("<I", (stat.S_IFLNK | 0o777) << 16)},
    "a special file in an archive": {38: struct.pack("<I", (stat.S_IFCHR | 0o777) << 16)},
    "its sizes in the archive contradict each other": {24: b"\1\0\0\0"},
    "its bytes are not where the archive says": {42: b"\xff\xff\xff\x7f"},
}


@pytest.mark.parametrize("fault", ENTRY_FAULTS)
def test_a_member_of_a_zip_that_cannot_be_read_is_a_named_skip(tmp_path: Path, fault: str) -> None:
    data = edited(zip_bytes(FLOWERS, STORED), "tulip/3.jpg", ENTRY_FAULTS[fault])
    catalog = found(written(tmp_path / "a.zip", data))
    assert catalog.bad == (Note("tulip/3.jpg", fault),)
    assert names(catalog) == ["rose/1.jpg", "rose/2.png"]


WHOLE = {
    "garbage": b"PK\x03\x04 and nothing else",
    "a zip without its end": zip_bytes(FLOWERS)[:-40],
    "an empty zip": zip_bytes({}),
    "a tar cut off in a member": tar_bytes(FLOWERS)[:700],
    "a tar cut off in a header": tar_bytes(FLOWERS)[:1800],
    "a damaged tar": tar_bytes(FLOWERS)[:1536].ljust(4096, b"x"),
    "a cut off gzip": COMPRESS[".gz"](tar_bytes(FLOWERS))[:-20],
    "a cut off bzip2": COMPRESS[".bz2"](tar_bytes(FLOWERS))[:-20],
    "a cut off xz": COMPRESS[".xz"](tar_bytes(FLOWERS))[:-20],
    "a cut off zstd": COMPRESS[".zst"](tar_bytes(FLOWERS))[:-20],
    "a gzip of no tar": COMPRESS[".gz"](b"hello"),
    "a gzip of nothing": COMPRESS[".gz"](b""),
    "a 7z": b"7z\xbc\xaf\x27\x1c\0\4",
    "an empty file": b"",
    "text": b"hello",
}


@pytest.mark.parametrize("what", WHOLE)
def test_what_is_no_whole_archive_is_an_error_that_names_it(tmp_path: Path, what: str) -> None:
    path = written(tmp_path / "some.archive", WHOLE[what])
    with pytest.raises(SourceError, match=r"some\.archive") as caught:
        found(path)
    assert caught.value.path == str(path)


def test_an_archive_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"cannot read .*a\.zip: No such file"):
        open_archive(str(tmp_path / "a.zip"), context(tmp_path))


def test_a_part_of_a_split_zip_is_an_error(tmp_path: Path) -> None:
    data = edited(zip_bytes(FLOWERS), "tulip/3.jpg", {34: b"\1\0"})
    with pytest.raises(SourceError, match="is one part of a split zip"):
        found(written(tmp_path / "a.zip", data))


def test_members_that_overlap_are_an_error(tmp_path: Path) -> None:
    data = edited(zip_bytes(FLOWERS), "tulip/3.jpg", {42: bytes(4)})
    with pytest.raises(SourceError, match="has members that overlap"):
        found(written(tmp_path / "a.zip", data))


def test_a_tar_without_end_mark_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tar", tar_bytes(FLOWERS).rstrip(b"\0"))
    data = path.read_bytes()
    path.write_bytes(data.ljust(-(-len(data) // 512) * 512, b"\0"))
    catalog = found(path)
    assert names(catalog) == list(FLOWERS)
    assert catalog.warnings == (f"{path} has no end mark: it may be cut off",)


def test_what_comes_after_the_end_mark_of_a_tar_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tar", tar_bytes(FLOWERS) + tar_bytes({"lily/1.jpg": jpeg()}))
    catalog = found(path)
    assert names(catalog) == list(FLOWERS)
    assert catalog.warnings == (f"{path} has data after its end mark, which is not read",)


def tar_header(**fields: bytes) -> bytes:
    """Return a header block with some fields as given and a right checksum."""
    places = {"size": 124, "type": 156}
    block = bytearray(tarfile.TarInfo("rose/1.jpg").tobuf(tarfile.GNU_FORMAT))
    for field, value in fields.items():
        block[places[field] : places[field] + len(value)] = value
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


HOSTILE_TARS = {
    "a size below zero": tar_header(size=b"\xff" * 11 + b"\0"),
    "a size beyond all disks": tar_header(size=b"\x80" + b"\xff" * 11),
    "a long name beyond all memory": tar_header(type=b"L", size=b"\x80" + b"\xff" * 11),
    "an extended header of 2 MiB": tar_header(type=b"x", size=b"%011o\0" % (2 << 20))
    + bytes(3 << 20),
    "an extended header without sense": tar_header(type=b"x", size=b"%011o\0" % 512) + b"9" * 512,
    "a size that is no number": tar_header(type=b"x", size=b"%011o\0" % 9)
    + b"9 size=x\n".ljust(512, b"\0") + tar_header(),
    "one name for all": tar_header(type=b"g", size=b"%011o\0" % 9)
    + b"9 path=x\n".ljust(512, b"\0") + tar_header(),
    "a sparse map without end": tar_header(type=b"S")[:482] + b"\1" + bytes(29),
}  # fmt: skip


@pytest.mark.parametrize("what", HOSTILE_TARS)
def test_a_tar_that_makes_no_sense_is_an_error(tmp_path: Path, what: str) -> None:
    data = tar_bytes(FLOWERS).rstrip(b"\0")
    data = data.ljust(-(-len(data) // 512) * 512, b"\0") + HOSTILE_TARS[what]
    with pytest.raises(SourceError, match=r"a\.tar is not a readable tar: "):
        found(written(tmp_path / "a.tar", data))


def test_an_extended_header_is_read_in_time_that_grows_with_its_size(tmp_path: Path) -> None:
    records = b"3 \n" * 300_000 + b"9 path=x\n"
    data = tar_header(type=b"x", size=b"%011o\0" % len(records)) + records
    with pytest.raises(SourceError, match="an invalid extended header"):
        found(written(tmp_path / "a.tar", data))


@cache
def bomb(suffix: str) -> bytes:
    """Return an archive of 101 MiB of zeros."""
    zeros = {"rose/1.jpg": bytes(101 << 20)}
    return zip_bytes(zeros) if suffix == ".zip" else COMPRESS[".zst"](tar_bytes(zeros))


@pytest.mark.parametrize("suffix", [".zip", ".tar.zst"])
def test_a_bomb_is_an_error_and_leaves_nothing_in_the_spool(tmp_path: Path, suffix: str) -> None:
    path = written(tmp_path / f"a{suffix}", bomb(suffix))
    with pytest.raises(SourceError, match="unpacks to more than 200 times its size"):
        found(path)
    assert not list(tmp_path.glob("*-spool/*"))


def test_a_bomb_in_an_archive_is_an_error(tmp_path: Path) -> None:
    outer = zip_bytes({"rose.zip": bomb(".zip"), "x.csv": b""})
    with pytest.raises(
        SourceError, match=r"rose\.zip in .* unpacks to more than 200 times its size"
    ):
        found(written(tmp_path / "a.zip", outer))


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


def test_hard_links_count_as_what_they_link_to(tmp_path: Path) -> None:
    tree: dict[str, bytes | tarfile.TarInfo] = {"rose/0.jpg": bytes(1 << 20)}
    for number in range(1, 300):
        link = tarfile.TarInfo(f"rose/{number}.jpg")
        link.type, link.linkname = tarfile.LNKTYPE, "rose/0.jpg"
        tree[link.name] = link
    with pytest.raises(SourceError, match="unpacks to more than 200 times its size"):
        found(written(tmp_path / "a.tar", tar_bytes(tree)))


def test_a_member_that_is_larger_packed_than_unpacked_is_not_read(tmp_path: Path) -> None:
    data = edited(zip_bytes(FLOWERS), "tulip/3.jpg", {20: struct.pack("<I", 100_000)})
    listed, end = data.index(b"PK\x01\x02"), len(data) - 22
    padding = bytes(100_000)
    start = struct.pack("<I", listed + len(padding))
    padded = data[:listed] + padding + data[listed : end + 16] + start + data[end + 20 :]
    catalog = found(written(tmp_path / "a.zip", padded))
    assert catalog.bad == (Note("tulip/3.jpg", "its sizes in the archive contradict each other"),)


ENTRY = b"PK\x01\x02" + bytes(42)


@pytest.mark.parametrize("is_alone", [True, False])
def test_a_packed_list_of_more_members_than_its_size_lets_one_expect_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_alone: bool
) -> None:
    monkeypatch.setattr("imgrec.source.archive_members._FREE_MEMBERS", 1000)
    inner = b"PK\x03\x04" + ENTRY * 3000
    outer = zip_bytes({"rose.zip": inner, **({} if is_alone else {"a.csv": b""})})
    message = r"rose\.zip in .* lists more than 1,000 files and folders, too many for its size"
    with pytest.raises(SourceError, match=message):
        found(written(tmp_path / "a.zip", outer))


def test_a_compressed_tar_of_more_members_than_its_size_lets_one_expect_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgrec.source.archive_members._FREE_MEMBERS", 1000)
    member = tarfile.TarInfo("rose/1.jpg").tobuf()
    data = COMPRESS[".zst"](member * 1001 + bytes(1024))
    with pytest.raises(SourceError, match="lists more than 1,000 files and folders"):
        found(written(tmp_path / "a.tar.zst", data))


def test_names_of_a_hundred_folders_each_count_as_these_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgrec.source.archive_members._FREE_MEMBERS", 1000)
    deep = {f"{number}/" * 90 + "1.jpg": b"" for number in range(15)}
    data = COMPRESS[".zst"](tar_bytes(deep))
    with pytest.raises(SourceError, match="files and folders, too many for its size"):
        found(written(tmp_path / "a.tar.zst", data))


def test_of_a_name_of_a_megabyte_only_the_beginning_is_kept(tmp_path: Path) -> None:
    data = tar_bytes({"rose/1.jpg": jpeg(1), "a" * 1_000_000: b""})
    (bad,) = found(written(tmp_path / "a.tar", data)).bad
    assert len(bad.filename) <= 1 << 15
