"""Archives are packed as the folders they hold, and so are the archives in them, one level deep."""

from __future__ import annotations

import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from archives import (
    COMPRESS,
    DEFLATED,
    FLOWERS,
    STORED,
    contents,
    context,
    found,
    ignored,
    lister_of,
    names,
    tar_bytes,
    wrapped,
    written,
    zip_bytes,
)
from conftest import Cli
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pictures import jpeg, png, write_tree
from sampling import examples
from scanning import scan_folder

from imgrec.errors import ExecutionError, SourceError
from imgrec.model import Catalog
from imgrec.source.archive import is_archive, open_archive

TAR_FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]
IN_TRAIN = {f"train/{name}": data for name, data in FLOWERS.items()}


def facts(catalog: Catalog) -> dict[str, object]:
    """Return all of a catalog except where the bytes are."""
    return {
        "samples": [tuple(sample)[:-1] for sample in catalog.samples],
        "layout": catalog.layout.text,
        "folders": catalog.class_folders,
        "notes": (catalog.bad, catalog.ignored, catalog.warnings),
    }


# The law: an archive is its folder.

file_names = (
    st.sampled_from(["1.jpg", "2.png", "notes.txt", ".hidden.jpg", ".DS_Store", "Thumbs.db"])
    | st.text(st.characters(exclude_characters="/\\:\0\r\n", exclude_categories=["Cs"]), max_size=8)
).filter(lambda name: name not in ("", ".", "..") and len(name.encode()) < 30)
file_data = st.sampled_from([jpeg(1), jpeg(2), png(3), b"", b"text", bytes(9000)])
paths = st.lists(file_names, min_size=1, max_size=4).map("/".join)


@st.composite
def trees(draw: st.DrawFn) -> dict[str, bytes]:
    """Draw files, and folders, whose names end in a slash, with at least two classes."""
    drawn = draw(st.dictionaries(paths, file_data, max_size=8))
    folders = draw(st.lists(paths, max_size=2))
    tree: dict[str, bytes] = {"rose/1.jpg": jpeg(5), "tulip/1.jpg": jpeg(6)}
    for path, data in [*drawn.items(), *((f"{folder}/", b"") for folder in folders)]:
        name = path.rstrip("/")
        parts = name.split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        if not above & tree.keys() and not any(f"{one}/".startswith(f"{name}/") for one in tree):
            tree[path] = data
    return tree


archives = st.sampled_from(
    [(".zip", lambda tree: zip_bytes(tree, STORED)), (".zip", zip_bytes)]
    + [(".tar", lambda tree, kind=kind: tar_bytes(tree, kind)) for kind in TAR_FORMATS]
    + [
        (f".tar{suffix}", lambda tree, pack=pack: pack(tar_bytes(tree)))
        for suffix, pack in COMPRESS.items()
    ]
)


@examples(80, suppress=list(HealthCheck))
@given(tree=trees(), archive=archives)
def test_an_archive_gives_what_its_folder_gives(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes], archive: tuple
) -> None:
    tmp = tmp_path_factory.mktemp("law")
    for name in tree:
        (tmp / "x" / name).parent.mkdir(parents=True, exist_ok=True)
        if name.endswith("/"):
            (tmp / "x" / name).mkdir(exist_ok=True)
        else:
            (tmp / "x" / name).write_bytes(tree[name])
    expected = scan_folder(tmp / "x", context(tmp / "x"))
    suffix, make = archive
    catalog = found(written(tmp / f"x{suffix}", make(tree)))
    assert facts(catalog) == facts(expected)
    assert contents(catalog) == contents(expected)


@pytest.mark.parametrize("program", ["zip -q -r", "tar cf", "tar czf"])
def test_archives_of_common_programs_give_what_the_folder_gives(
    tmp_path: Path, program: str
) -> None:
    if not shutil.which(program.split()[0]):
        pytest.skip(f"{program.split()[0]} is not installed")
    write_tree(tmp_path / "x", {**FLOWERS, f"rose/{'long' * 40}.jpg": jpeg(4)})
    (tmp_path / "x" / os.fsdecode("rose/é.jpg".encode())).write_bytes(jpeg(5))
    (tmp_path / "x" / os.fsdecode(b"rose/caf\xe9.jpg")).write_bytes(jpeg(6))
    os.link(tmp_path / "x/rose/1.jpg", tmp_path / "x/tulip/same.jpg")
    subprocess.run([*program.split(), "../made.zip", "."], cwd=tmp_path / "x", check=True)
    expected = scan_folder(tmp_path / "x", context(tmp_path))
    assert facts(found(tmp_path / "made.zip")) == facts(expected)


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
@pytest.mark.parametrize(
    "name", [f"rose/{'x' * 90}/{'y' * 200}/é.jpg", os.fsdecode(b"rose/caf\xe9.jpg")]
)
def test_any_name_survives_in_a_tar(tmp_path: Path, name: str, tar_format: int) -> None:
    data = tar_bytes({name: jpeg(), "tulip/1.jpg": jpeg(1)}, tar_format)
    assert names(found(written(tmp_path / "a.tar", data)))[0] == name


# Where the classes start.


@pytest.mark.parametrize(
    ("name", "tree", "expected"),
    [
        ("a.zip", {f"flowers/{name}": FLOWERS[name] for name in FLOWERS}, list(FLOWERS)),
        ("train.zip", IN_TRAIN, list(FLOWERS)),
        ("a.zip", {"rose/1.jpg": jpeg(1), "rose/more/2.jpg": jpeg(2)}, None),
        ("a.zip", {"x/rose/1.jpg": jpeg(1), "notes.txt": b"x"}, ["x/rose/1.jpg"]),
        ("a.zip", {"train/rose/1.jpg": jpeg(1), "train/tulip/2.jpg": jpeg(2)}, None),
    ],
    ids=["a wrapper", "named like the archive", "has images", "a file beside it", "a split"],
)
def test_one_folder_at_the_top_is_left_out_if_it_is_a_wrapper(
    tmp_path: Path, name: str, tree: dict[str, bytes], expected: list[str] | None
) -> None:
    assert names(found(written(tmp_path / name, zip_bytes(tree)))) == (expected or list(tree))


def test_clutter_beside_a_wrapper_is_counted(tmp_path: Path) -> None:
    tree = {f"flowers/{name}": data for name, data in FLOWERS.items()}
    clutter = {"__MACOSX/flowers/._1.jpg": b"", ".DS_Store": b"", "flowers/README.md": b"hi"}
    catalog = found(written(tmp_path / "a.zip", zip_bytes({**tree, **clutter})))
    assert set(catalog.class_folders) == {"rose", "tulip"}
    assert ignored(catalog) == {".DS_Store": 1, "__MACOSX": 1, "outside a class folder": 1}


def test_folders_are_listed_as_on_disk(tmp_path: Path) -> None:
    tree = {"b/x/y/1.jpg": b"", "a/2.jpg": b"", "b.c/1.jpg": b"", "b/x.jpg": b"", "a-b/1.jpg": b""}
    write_tree(tmp_path / "x", tree)
    archive = written(tmp_path / "x.tar", tar_bytes(tree))
    in_tar, on_disk = (
        [(folder.path, folder.files, folder.has_folders) for folder in lister_of(path).folders()]
        for path in (archive, tmp_path / "x")
    )
    assert in_tar == on_disk


def test_names_are_tidied_and_hard_links_followed(tmp_path: Path) -> None:
    link = tarfile.TarInfo("tulip/3.jpg")
    link.type, link.linkname = tarfile.LNKTYPE, "./rose/1.jpg"
    tree = {"./": b"", "./rose/": b"", "./rose/1.jpg": jpeg(), ".//tulip/./2.jpg": jpeg(1)}
    path = written(tmp_path / "a.tar", tar_bytes({**tree, "tulip/3.jpg": link}))
    assert contents(found(path)) == {
        "rose/1.jpg": jpeg(), "tulip/2.jpg": jpeg(1), "tulip/3.jpg": jpeg(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.zip", zip_bytes(FLOWERS), True),
        ("no-suffix", zip_bytes(FLOWERS), True),
        ("no-suffix", tar_bytes(FLOWERS, tarfile.GNU_FORMAT), True),
        ("a.tar.xz", COMPRESS[".xz"](tar_bytes(FLOWERS)), True),
        ("train-images-idx3-ubyte.gz", COMPRESS[".gz"](b"x"), False),
        ("a.rar", b"Rar!\x1a\x07\x01\0", True),
        ("a.zip", jpeg(), False),
        ("a.zip", b"", False),
        ("a.tar", bytes(10240), False),
    ],
)
def test_content_decides_what_is_an_archive(
    tmp_path: Path, name: str, data: bytes, expected: bool
) -> None:
    assert is_archive(str(written(tmp_path / name, data))) is expected


def test_a_folder_a_pipe_and_nothing_are_not_archives(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "folder.zip").mkdir()
    assert not any(
        is_archive(str(tmp_path / name)) for name in ("pipe.zip", "folder.zip", "none.zip")
    )


# The spool.


def test_only_a_compressed_tar_is_unpacked_and_only_into_the_spool(tmp_path: Path) -> None:
    for suffix, expected in ((".zip", 0), (".tar", 0), (".tar.gz", 1)):
        make = zip_bytes if suffix == ".zip" else tar_bytes
        path = written(tmp_path / suffix / f"a{suffix}", COMPRESS[suffix[4:]](make(FLOWERS)))
        spool = path.parent / f"a{suffix}-spool"
        assert lister_of(path).stamp.newest_ns == path.stat().st_ctime_ns
        assert len(list(spool.iterdir()) if spool.exists() else []) == expected
        assert {entry.name for entry in path.parent.iterdir()} <= {path.name, spool.name}


def test_a_spool_that_cannot_be_written_ends_the_run(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tar.gz", COMPRESS[".gz"](tar_bytes(FLOWERS)))
    with pytest.raises(ExecutionError, match="cannot write"):
        open_archive(str(path), context(written(tmp_path / "a file", b"")))
    spool = tmp_path / "spool"
    open_archive(str(path), context(spool))
    (unpacked,) = spool.iterdir()
    unpacked.unlink()
    unpacked.symlink_to("/dev/full")
    with pytest.raises(ExecutionError, match="No space left on device") as caught:
        open_archive(str(path), context(spool))
    assert "--data-dir" in caught.value.hint


# Archives in the place of folders.


@pytest.mark.parametrize("outer", ["folder", "zip", "tar", "tar.gz"])
@pytest.mark.parametrize("method", [STORED, DEFLATED])
def test_archives_in_the_place_of_folders_are_opened(
    tmp_path: Path, outer: str, method: int
) -> None:
    tree = {
        "train.zip": zip_bytes(IN_TRAIN, method),
        "test.tar.gz": COMPRESS[".gz"](tar_bytes({"test/1.jpg": jpeg(7)})),
        "train.csv": b"id,label\n",
    }
    catalog = found(wrapped(tmp_path, outer, tree, method))
    assert contents(catalog) == {"test/1.jpg": jpeg(7), **IN_TRAIN}
    assert {(s.split, s.class_name) for s in catalog.samples} == {
        ("test", ""), ("train", "rose"), ("train", "tulip"),
    }  # fmt: skip
    assert catalog.warnings == ("train.csv is not used: none of its columns names images",)


@pytest.mark.parametrize("outer", ["folder", "zip"])
@pytest.mark.parametrize(
    ("tree", "expected"),
    [
        ({"images.zip": zip_bytes(FLOWERS)}, list(FLOWERS)),
        ({"images.zip": zip_bytes(FLOWERS), "LICENSE": b"do as you like"}, list(FLOWERS)),
        ({"train.zip": zip_bytes(FLOWERS)}, list(IN_TRAIN)),
        ({"kaggle/train.zip": zip_bytes(FLOWERS), "kaggle/labels.csv": b"x"}, list(IN_TRAIN)),
    ],
    ids=["alone", "beside a licence", "a split", "in a wrapper"],
)
def test_an_archive_alone_is_the_source(
    tmp_path: Path, outer: str, tree: dict[str, bytes], expected: list[str]
) -> None:
    assert names(found(wrapped(tmp_path, outer, tree))) == expected


@pytest.mark.parametrize("outer", ["folder", "zip"])
def test_archives_beside_images_are_not_opened(tmp_path: Path, outer: str) -> None:
    tree = {"a-first.zip": zip_bytes(FLOWERS), **FLOWERS, "tulip/more.zip": zip_bytes(FLOWERS)}
    catalog = found(wrapped(tmp_path, outer, tree))
    assert names(catalog) == list(FLOWERS)
    assert ignored(catalog) == {"archive beside images": 2}
    assert catalog.warnings == (
        "a-first.zip, tulip/more.zip: not opened because there are images beside archives",
    )


def test_archives_in_inner_archives_are_not_opened(tmp_path: Path) -> None:
    bad = {"../evil.jpg": jpeg(), "rose/bad.jpg": b""}
    inner = zip_bytes({**FLOWERS, **bad, "rose/deep.zip": zip_bytes(FLOWERS)})
    catalog = found(wrapped(tmp_path, "zip", {"train.zip": inner, "x.csv": b""}))
    assert names(catalog) == list(IN_TRAIN)
    assert ignored(catalog) == {
        "archive inside an inner archive": 1, "outside a class folder": 1,
    }  # fmt: skip
    assert catalog.warnings == (
        "train/rose/deep.zip: not opened, because archives are opened one level deep",
    )
    assert [bad.filename for bad in catalog.bad] == ["train/../evil.jpg", "train/rose/bad.jpg"]


def test_a_source_whose_images_are_all_too_deep_says_in_which_archive(tmp_path: Path) -> None:
    outer = tmp_path / "outer.zip"
    outer.write_bytes(zip_bytes({"inner.zip": zip_bytes({"deep.zip": zip_bytes(FLOWERS)})}))
    with pytest.raises(SourceError, match=r"no images, except perhaps in .*deep\.zip") as caught:
        found(outer)
    assert "unpack " in caught.value.hint


INNER = zip_bytes(FLOWERS, STORED)


@pytest.mark.parametrize(
    ("outer", "tree", "message"),
    [
        (
            "folder",
            {"a.zip": zip_bytes(FLOWERS), "a.tar": tar_bytes(FLOWERS)},
            r"a\.zip would become a, which exists already",
        ),
        ("folder", {"train.zip": INNER[:-30], "x.csv": b""}, r"train\.zip is not a readable zip"),
        ("zip", {"train.zip": INNER[:-30], "x.csv": b""}, r"train\.zip in .* is not a readable"),
        ("damaged", {"train.zip": INNER, "x.csv": b""}, r"train\.zip in .*: its checksum is not"),
    ],
    ids=["two for one folder", "cut off", "cut off in a zip", "damaged"],
)
def test_an_inner_archive_that_cannot_be_read_is_an_error(
    tmp_path: Path, outer: str, tree: dict[str, bytes], message: str
) -> None:
    if outer == "damaged":
        data = zip_bytes(tree, STORED).replace(INNER, INNER[:-1] + b"x")
        source = written(tmp_path / "a.zip", data)
    else:
        source = wrapped(tmp_path, outer, tree)
    with pytest.raises(SourceError, match=message):
        found(source)


# Archives that imgrec does not read are refused with the command that unpacks them.

SEVEN, RAR = b"7z\xbc\xaf\x27\x1c" + bytes(50), b"Rar!\x1a\x07\x01\0" + bytes(50)


@pytest.mark.parametrize(
    ("tree", "refused", "command"),
    [
        ({"a.7z": SEVEN}, "7z archives: a.7z", "7z x a.7z -oa, and pack a"),
        ({"a.rar": RAR}, "RAR archives: a.rar", "unrar x a.rar a/, and pack a"),
        ({"my a.7z": SEVEN}, "7z archives: my a.7z", "7z x 'my a.7z' -o'my a', and pack 'my a'"),
        ({"a.7z.001": SEVEN}, "7z archives: a.7z.001", "7z x a.7z.001 -oa, and pack a"),
        ({"a": SEVEN}, "7z archives: a", "7z x a -oa_unpacked, and pack a_unpacked"),
        (
            {"a.zip.001": b"PK\x03\x04 ..."},
            "parts of a split archive: a.zip.001",
            "cat a.zip.??? > a.zip, and pack a.zip",
        ),
        (
            {"set/train.7z": SEVEN, "set/test.7z": SEVEN, "set/labels.csv": b"id,label\n1,cat\n"},
            "7z archives: set/test.7z, set/train.7z",
            (
                "7z x set/test.7z -oset/test && 7z x set/train.7z -oset/train"
                ", and pack the folder again"
            ),
        ),
    ],
)
def test_a_foreign_archive_is_refused_with_its_command(
    cli: Cli, tmp_path: Path, tree: dict[str, bytes], refused: str, command: str
) -> None:
    write_tree(tmp_path, tree)
    done = cli("pack", next(iter(tree)).partition("/")[0])
    assert (done.returncode, done.stderr) == (
        3, f"imgrec: imgrec does not read {refused}\n  hint: run: {command}\n",
    )  # fmt: skip


def test_a_foreign_archive_in_a_zip_is_named_and_one_already_unpacked_is_not(
    cli: Cli, tmp_path: Path
) -> None:
    (tmp_path / "a.zip").write_bytes(zip_bytes({"photos.7z": SEVEN, "read.txt": b"hello"}))
    assert cli("pack", "a.zip").stderr == (
        "imgrec: imgrec does not read 7z archives: photos.7z in a.zip\n"
        "  hint: unpack the outer archive; then run: 7z x photos.7z -ophotos, and pack photos\n"
    )
    write_tree(tmp_path / "set", {"train.7z": SEVEN, **IN_TRAIN})
    assert "2 classes" in cli("plan", "set").stdout


@pytest.mark.skipif(shutil.which("zip") is None, reason="zip is not installed")
def test_the_parts_of_a_zip_are_joined_by_the_command(cli: Cli, tmp_path: Path) -> None:
    noise = {f"rose/{n}.bin": bytes(range(256)) * 100 for n in range(4)}
    write_tree(tmp_path / "x", {**FLOWERS, **noise})
    split = ["zip", "-q", "-0", "-r", "-s", "64k", "../a.zip", "."]
    subprocess.run(split, cwd=tmp_path / "x", check=True)
    for part in ("a.zip", "a.z01"):
        assert cli("pack", part).stderr == (
            f"imgrec: imgrec does not read parts of a split archive: {part}\n"
            "  hint: run: zip -s 0 a.zip --out a_whole.zip, and pack a_whole.zip\n"
        )
    subprocess.run("zip -q -s 0 a.zip --out a_whole.zip", shell=True, cwd=tmp_path, check=True)
    assert cli("plan", "a_whole.zip").returncode == 0
