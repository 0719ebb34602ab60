"""Names in archives that are in other encodings than UTF-8."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

import pytest
from archives import found, names, tar_bytes
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from pictures import jpeg, write_tree

from imgrec.errors import SourceError
from imgrec.source.archive_members import choose_encoding

CHINESE = ["玫瑰", "郁金香", "蒲公英", "向日葵", "雏菊"]
JAPANESE = ["バラ", "チューリップ", "表示", "ひまわり"]
KOREAN = ["장미", "튤립", "해바라기"]
WINDOWS, UNIX = 0, 3


def raw_zip(files: Mapping[bytes, bytes], system: int = WINDOWS, extra: bytes = b"") -> bytes:
    """Return a zip whose names are these bytes, with no mark that tells their encoding."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in files.items():
            info = RawInfo(name.decode("cp437"))
            info.create_system, info.extra = system, extra
            archive.writestr(info, data)
    return out.getvalue()


class RawInfo(zipfile.ZipInfo):
    """A member whose name is written as it is."""

    def _encodeFilenameFlags(self) -> tuple[bytes, int]:  # noqa: N802  # as zipfile calls it
        return self.filename.encode("cp437"), self.flag_bits


def flowers(classes: list[str]) -> dict[str, bytes]:
    return {
        f"{name}/{name}{n}.jpg": jpeg(10 * at + n)
        for at, name in enumerate(classes)
        for n in range(2)
    }


def encoded(files: Mapping[str, bytes], encoding: str) -> dict[bytes, bytes]:
    return {name.encode(encoding): data for name, data in files.items()}


def write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


CASES = [(CHINESE, "gbk"), (JAPANESE, "cp932"), (["Кошка", "собака"], "cp866")]


@pytest.mark.parametrize("system", [WINDOWS, UNIX])
@pytest.mark.parametrize(("classes", "encoding"), CASES, ids=[case[1] for case in CASES])
def test_names_are_read_in_the_one_encoding_that_makes_sense_of_them(
    tmp_path: Path, classes: list[str], encoding: str, system: int
) -> None:
    files = flowers(classes)
    path = write(tmp_path / "a.zip", raw_zip(encoded(files, encoding), system))
    catalog = found(path)
    assert sorted(names(catalog)) == sorted(files)
    assert set(catalog.class_folders) == set(classes)
    (warning,) = catalog.warnings
    assert warning.startswith(f"{path}: names of its files are not UTF-8, and were read as")
    assert warning.endswith(f" {encoding}; if letters are wrong, pass --encoding")


@pytest.mark.parametrize(("classes", "encoding"), [*CASES, (KOREAN, "euc_kr")])
def test_what_is_asked_for_is_taken(tmp_path: Path, classes: list[str], encoding: str) -> None:
    files = flowers(classes)
    for path in (
        write(tmp_path / "a.zip", raw_zip(encoded(files, encoding))),
        write(tmp_path / "a.tar", raw_tar(encoded(files, encoding))),
    ):
        catalog = found(path, encoding=encoding)
        assert sorted(names(catalog)) == sorted(files)
        assert catalog.warnings == ()


def raw_tar(files: Mapping[bytes, bytes]) -> bytes:
    return tar_bytes({name.decode("utf-8", "surrogateescape"): files[name] for name in files})


def test_names_that_several_encodings_fit_stay_as_they_were(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", raw_zip({"rose/장미.jpg".encode("cp949"): jpeg(1)}))
    catalog = found(path)
    assert names(catalog) == ["rose/" + "장미.jpg".encode("cp949").decode("cp437")]
    assert "may be gbk or cp949 or cp950: choose with --encoding" in catalog.warnings[0]


def test_one_archive_is_read_in_one_encoding(tmp_path: Path) -> None:
    # 猫 in GBK is also è in UTF-8, and 狗 is not UTF-8.
    raw = {"猫/1.jpg".encode("gbk"): jpeg(1), "玫瑰/2.jpg".encode("gbk"): jpeg(2)}
    raw |= {"郁金香/3.jpg".encode("gbk"): jpeg(3), "蒲公英/4.jpg".encode("gbk"): jpeg(4)}
    catalog = found(write(tmp_path / "a.zip", raw_zip(raw)))
    assert sorted(catalog.class_folders) == sorted(["猫", "玫瑰", "郁金香", "蒲公英"])


def test_names_that_are_utf8_without_a_mark_stay_so(tmp_path: Path) -> None:
    files = {"rosé/1.jpg": jpeg(1), "tulipe/é.jpg": jpeg(2)}
    for encoding in ("", "cp1252", "utf-16"):  # of a table beside them
        for system in (WINDOWS, UNIX):
            path = write(tmp_path / "a.zip", raw_zip(encoded(files, "utf-8"), system))
            catalog = found(path, encoding=encoding)
            assert sorted(names(catalog)) == sorted(files)
            assert catalog.warnings == ()


def test_an_encoding_that_does_not_fit_is_an_error(tmp_path: Path) -> None:
    path = write(tmp_path / "a.zip", raw_zip(encoded(flowers(JAPANESE), "cp932")))
    with pytest.raises(SourceError, match="names of its files are not euc_jp text, such as "):
        found(path, encoding="euc_jp")


def test_a_name_that_is_told_in_unicode_as_well_is_taken_from_there(tmp_path: Path) -> None:
    name = "장미/1.jpg".encode("cp949")
    told = b"\1" + zlib.crc32(name).to_bytes(4, "little") + "장미/1.jpg".encode()
    extra = b"\x75\x70" + len(told).to_bytes(2, "little") + told
    other = b"\x75\x70\x02\x00\x01\x00" + b"\xff"  # cut short
    for tail in (b"", other):
        catalog = found(write(tmp_path / "a.zip", raw_zip({name: jpeg(1)}, extra=extra + tail)))
        assert names(catalog) == ["장미/1.jpg"]
    changed = extra[:-1] + b"x"
    catalog = found(write(tmp_path / "a.zip", raw_zip({name[:-1] + b"G": jpeg(1)}, extra=changed)))
    assert names(catalog) != ["장미/1.jpx"]


@given(
    st.lists(st.binary(min_size=1, max_size=12), min_size=1, max_size=8),
    st.sampled_from(
        ["", "gbk", "cp932", "cp1252", "utf-16", "utf-8", "big5", "utf-7", "hz", "idna", "punycode"]
    ),
)
def test_any_bytes_are_read_or_refused(raw: list[bytes], asked: str) -> None:
    try:
        encoding, _ = choose_encoding([name + b"\xff" for name in raw], asked, "a.zip")
    except SourceError:
        return
    assert all((name + b"\xff").decode(encoding, "surrogateescape") for name in raw)


@pytest.mark.parametrize("asked", [(), ("--encoding", "gbk")])
def test_a_zip_and_the_folder_that_it_unpacks_to_give_the_same_records(
    cli: Cli, tmp_path: Path, data_dir: Path, asked: tuple[str, ...]
) -> None:
    files = flowers(CHINESE)
    write_tree(tmp_path / "folder" / "flowers", files)
    write(tmp_path / "flowers.zip", raw_zip(encoded(files, "gbk")))
    for source, where in ((tmp_path / "folder" / "flowers", "a"), (tmp_path / "flowers.zip", "b")):
        done = cli("pack", source, "--data-dir", where, "--val-split", "0.5", *asked)
        assert done.returncode == 0, done.stderr
    shards = [
        {path.name: path.read_bytes() for path in (tmp_path / where).rglob("*.tfrecord-*")}
        for where in ("a", "b")
    ]
    assert shards[0] == shards[1]
    assert len(shards[0]) == 4
    verified = cli("verify", "flowers", "--data-dir", "b", "--source", "flowers.zip")
    assert verified.returncode == 0, verified.stdout
    if asked:
        return
    assert "were read as gbk; if letters are wrong, pass --encoding" in done.stdout


def test_a_folder_above_the_splits_may_have_a_name_that_is_not_utf8(
    cli: Cli, tmp_path: Path
) -> None:
    names = ("train/a/1", "train/b/1", "test/a/2", "test/b/2")
    files = {f"images\udce9/{name}.jpg": jpeg(at) for at, name in enumerate(names)}
    write_tree(tmp_path / "x", {**files, "beside.dat": b""})
    done = cli("pack", "x", "--json")
    assert json.loads(done.stdout)["layout"] == "images\\udce9/<split>/<class>/**/image"
