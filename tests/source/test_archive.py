"""Archives are packed as the folders they hold."""

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
    written,
    zip_bytes,
)
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from pictures import jpeg, png, write_tree
from sampling import examples
from scanning import scan_folder

from imgrec.errors import ExecutionError
from imgrec.model import Catalog
from imgrec.source.archive import is_archive, open_archive
from imgrec.source.archive_names import archive_stem

TAR_FORMATS = [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]


def told(catalog: Catalog) -> dict[str, object]:
    """Return all that a catalog says but where the bytes are."""
    samples = catalog.samples
    return {
        "samples": [tuple(sample)[:-1] for sample in samples],
        "layout": catalog.layout,
        "folders": catalog.class_folders,
        "bad": catalog.bad,
        "ignored": catalog.ignored,
        "warnings": catalog.warnings,
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
        parts = path.rstrip("/").split("/")
        above = {"/".join(parts[:depth]) for depth in range(1, len(parts))}
        taken = {name.rstrip("/") for name in tree}
        if not above & tree.keys() and not any(
            name == path.rstrip("/") or name.startswith(path.rstrip("/") + "/") for name in taken
        ):
            tree[path] = data
    return tree


def on_disk(root: Path, tree: dict[str, bytes]) -> Catalog:
    write_tree(root, {name: data for name, data in tree.items() if not name.endswith("/")})
    for name in tree:
        if name.endswith("/"):
            (root / name).mkdir(parents=True, exist_ok=True)
    return scan_folder(str(root), context(root))


law = examples(60, suppress=list(HealthCheck))


@law
@given(tree=trees(), method=st.sampled_from([STORED, DEFLATED]))
def test_a_zip_gives_what_its_folder_gives(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes], method: int
) -> None:
    tmp = tmp_path_factory.mktemp("law")
    expected = on_disk(tmp / "x", tree)
    catalog = found(written(tmp / "x.zip", zip_bytes(tree, method)))
    assert told(catalog) == told(expected)
    assert contents(catalog) == contents(expected)


@law
@given(
    tree=trees(), tar_format=st.sampled_from(TAR_FORMATS), suffix=st.sampled_from(list(COMPRESS))
)
def test_a_tar_gives_what_its_folder_gives(
    tmp_path_factory: pytest.TempPathFactory, tree: dict[str, bytes], tar_format: int, suffix: str
) -> None:
    tmp = tmp_path_factory.mktemp("law")
    expected = on_disk(tmp / "x", tree)
    data = COMPRESS[suffix](tar_bytes(tree, tar_format))
    catalog = found(written(tmp / f"x.tar{suffix}", data))
    assert told(catalog) == told(expected)
    assert contents(catalog) == contents(expected)


@pytest.mark.parametrize("program", ["zip -q -r", "tar cf", "tar czf"])
def test_what_common_programs_make_gives_what_the_folder_gives(
    tmp_path: Path, program: str
) -> None:
    if not shutil.which(program.split()[0]):
        pytest.skip(f"{program.split()[0]} is not installed")
    write_tree(tmp_path / "x", {**FLOWERS, f"rose/{'long' * 40}.jpg": jpeg(4)})
    (tmp_path / "x" / os.fsdecode("rose/é.jpg".encode())).write_bytes(jpeg(5))
    (tmp_path / "x" / os.fsdecode(b"rose/caf\xe9.jpg")).write_bytes(jpeg(6))
    os.link(tmp_path / "x/rose/1.jpg", tmp_path / "x/tulip/same.jpg")
    subprocess.run([*program.split(), "../made.zip", "."], cwd=tmp_path / "x", check=True)
    expected = scan_folder(str(tmp_path / "x"), context(tmp_path))
    assert told(found(tmp_path / "made.zip")) == told(expected)


@pytest.mark.parametrize("tar_format", [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
def test_long_names_survive_in_a_tar(tmp_path: Path, tar_format: int) -> None:
    name = f"rose/{'x' * 90}/{'y' * 200}/é.jpg"
    data = tar_bytes({name: jpeg(), "tulip/1.jpg": jpeg(1)}, tar_format)
    assert names(found(written(tmp_path / "a.tar", data)))[0] == name


def test_names_that_are_not_utf8_survive_in_a_tar(tmp_path: Path) -> None:
    name = os.fsdecode(b"rose/caf\xe9.jpg")
    for tar_format in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        data = tar_bytes({name: jpeg(), "tulip/1.jpg": jpeg(1)}, tar_format)
        assert names(found(written(tmp_path / "a.tar", data)))[0] == name


def test_names_in_a_zip_from_dos_are_read_as_code_page_437(tmp_path: Path) -> None:
    data = zip_bytes({"rose/caf1.jpg": jpeg(), "tulip/1.jpg": jpeg(1)}, STORED)
    path = written(tmp_path / "a.zip", data.replace(b"caf1", b"caf\x82").replace(
        b"PK\x01\x02\x14\x03", b"PK\x01\x02\x14\x00"))  # fmt: skip
    assert names(found(path))[0] == "rose/café.jpg"


# What is found.


def test_one_extra_top_folder_is_left_out(tmp_path: Path) -> None:
    tree = {f"flowers/{name}": data for name, data in FLOWERS.items()}
    clutter = {"__MACOSX/flowers/._1.jpg": b"", ".DS_Store": b"", "flowers/README.md": b"hi"}
    catalog = found(written(tmp_path / "a.zip", zip_bytes({**tree, **clutter})))
    assert names(catalog) == list(FLOWERS)
    assert set(catalog.class_folders) == {"rose", "tulip"}
    assert ignored(catalog) == {".DS_Store": 1, "__MACOSX": 1, "outside a class folder": 1}


@pytest.mark.parametrize(
    "tree",
    [
        {"rose/1.jpg": jpeg(1), "rose/more/2.jpg": jpeg(2)},
        {"x/rose/1.jpg": jpeg(1), "notes.txt": b"x"},
        {"train/rose/1.jpg": jpeg(1), "train/tulip/2.jpg": jpeg(2)},
    ],
    ids=["it has images", "a file is beside it", "it is a split"],
)
def test_a_top_folder_that_is_not_extra_stays(tmp_path: Path, tree: dict[str, bytes]) -> None:
    images = [name for name in tree if name.endswith("jpg")]
    assert names(found(written(tmp_path / "a.zip", zip_bytes(tree)))) == images


def test_a_train_zip_of_one_folder_train_holds_classes(tmp_path: Path) -> None:
    tree = {f"train/{name}": data for name, data in FLOWERS.items()}
    assert names(found(written(tmp_path / "train.zip", zip_bytes(tree)))) == list(FLOWERS)


def test_split_folders_in_an_archive_are_splits(tmp_path: Path) -> None:
    tree = {
        f"{split}/{name}": data for split in ("test", "train") for name, data in FLOWERS.items()
    }
    catalog = found(written(tmp_path / "a.zip", zip_bytes(tree)))
    assert {s.split for s in catalog.samples} == {"train", "test"}


@pytest.mark.parametrize("suffix", [".zip", ".tar"])
def test_an_empty_class_folder_in_an_archive_is_named(tmp_path: Path, suffix: str) -> None:
    make = zip_bytes if suffix == ".zip" else tar_bytes
    catalog = found(written(tmp_path / f"a{suffix}", make({**FLOWERS, "lily/": b""})))
    assert catalog.warnings == ("lily: no images in this class folder, so it gets no label",)


def test_folders_come_before_what_is_in_them_in_the_order_of_names(tmp_path: Path) -> None:
    tree = {"b/x/y/1.jpg": b"", "a/2.jpg": b"", "b.c/1.jpg": b"", "b/x.jpg": b"", "a-b/1.jpg": b""}
    write_tree(tmp_path / "x", tree)
    archive = written(tmp_path / "x.tar", tar_bytes(tree))
    listed = [(f.path, f.files, f.has_folders) for f in lister_of(archive).folders()]
    assert listed == [(f.path, f.files, f.has_folders) for f in lister_of(tmp_path / "x").folders()]


def test_names_that_start_with_a_dot_and_a_slash_are_names(tmp_path: Path) -> None:
    tree = {"./": b"", "./rose/": b"", "./rose/1.jpg": jpeg(), ".//tulip/./2.jpg": jpeg(1)}
    assert names(found(written(tmp_path / "a.tar", tar_bytes(tree)))) == [
        "rose/1.jpg",
        "tulip/2.jpg",
    ]


def test_a_hard_link_in_a_tar_is_the_member_it_links_to(tmp_path: Path) -> None:
    link = tarfile.TarInfo("tulip/2.jpg")
    link.type, link.linkname = tarfile.LNKTYPE, "rose/1.jpg"
    data = tar_bytes({"rose/1.jpg": jpeg(), "tulip/2.jpg": link})
    assert contents(found(written(tmp_path / "a.tar", data))) == {
        "rose/1.jpg": jpeg(), "tulip/2.jpg": jpeg(),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("flowers.zip", "flowers"), ("a/b.c.tar.gz", "b.c"), ("X.TGZ", "X"), ("x.npz", "x"),
        (".zip", ".zip"),
    ],
)  # fmt: skip
def test_an_archive_is_called_what_it_would_unpack_to(name: str, stem: str) -> None:
    assert archive_stem(name) == stem


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.zip", zip_bytes(FLOWERS), True),
        ("no-suffix", zip_bytes(FLOWERS), True),
        ("a.tar", tar_bytes(FLOWERS), True),
        ("no-suffix", tar_bytes(FLOWERS, tarfile.GNU_FORMAT), True),
        ("a.tar.xz", COMPRESS[".xz"](tar_bytes(FLOWERS)), True),
        ("a.tgz", COMPRESS[".gz"](b""), True),
        ("train-images-idx3-ubyte.gz", COMPRESS[".gz"](b"x"), False),
        ("a.rar", b"Rar!\x1a\x07\x01\0", True),
        ("a.zip", jpeg(), False),
        ("a.zip", b"", False),
        ("a.tar", bytes(10240), False),
    ],
)
def test_content_tells_what_is_an_archive(
    tmp_path: Path, name: str, data: bytes, expected: bool
) -> None:
    assert is_archive(str(written(tmp_path / name, data))) is expected


def test_a_folder_a_pipe_and_nothing_are_no_archives(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.zip")
    (tmp_path / "folder.zip").mkdir()
    paths = [tmp_path / name for name in ("pipe.zip", "folder.zip", "nothing.zip")]
    assert [is_archive(str(path)) for path in paths] == [False] * 3


def test_the_archive_says_when_it_last_changed(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tar.gz", COMPRESS[".gz"](tar_bytes(FLOWERS)))
    assert (
        open_archive(str(path), context(tmp_path / "s")).stamp.newest_ns == path.stat().st_ctime_ns
    )


def test_only_a_compressed_tar_is_unpacked_and_only_into_the_spool(tmp_path: Path) -> None:
    for suffix, expected in ((".zip", 0), (".tar", 0), (".tar.gz", 1)):
        make = zip_bytes if suffix == ".zip" else tar_bytes
        path = written(tmp_path / suffix / f"a{suffix}", make(FLOWERS))
        path.write_bytes(COMPRESS[suffix[4:]](path.read_bytes()))
        found(path)
        spool = path.parent / f"a{suffix}-spool"
        assert len(list(spool.iterdir()) if spool.exists() else []) == expected
        assert {entry.name for entry in path.parent.iterdir()} <= {path.name, spool.name}


def test_a_spool_that_cannot_be_written_is_no_fault_of_the_source(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tar.gz", COMPRESS[".gz"](tar_bytes(FLOWERS)))
    with pytest.raises(ExecutionError, match="cannot write"):
        open_archive(str(path), context(written(tmp_path / "a file", b"")))


def test_a_full_disk_is_no_fault_of_the_source(tmp_path: Path) -> None:
    path = written(tmp_path / "a.tar.gz", COMPRESS[".gz"](tar_bytes(FLOWERS)))
    spool = tmp_path / "spool"
    open_archive(str(path), context(spool))
    (unpacked,) = spool.iterdir()
    unpacked.unlink()
    unpacked.symlink_to("/dev/full")
    with pytest.raises(ExecutionError, match="No space left on device") as caught:
        open_archive(str(path), context(spool))
    assert "--data-dir" in caught.value.hint
