"""What is found in a folder of class folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unicodedata
from pathlib import Path

import pytest
from archives import written, zip_bytes
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from sampling import examples
from scanning import rows, scanned

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.notes import Note
from imgrec.source.tree import CLUTTER


def found(root: Path, **options: object) -> Catalog:
    return scanned(root, spool=root.parent / "spool", **options)


def names(catalog: Catalog) -> list[str]:
    return list(catalog.samples.filenames)


def places(catalog: Catalog) -> list[tuple[object, ...]]:
    return [row[:3] for row in rows(catalog)]


def ignored(catalog: Catalog) -> dict[str, int]:
    return {kind.kind: kind.count for kind in catalog.ignored}


# Classes and splits.


@pytest.mark.parametrize(
    ("tree", "options", "layout", "expected"),
    [
        (
            ["rose/1.jpg", "rose/more/deep/2.png", "tulip/3.jpg"],
            {},
            "<class>/**/image",
            [("rose", ""), ("rose", ""), ("tulip", "")],
        ),
        *(
            ([f"{folder}/rose/1.jpg"], {}, "<split>/<class>/**/image", [("rose", split)])
            for folder, split in [
                ("train", "train"), ("Training", "train"), ("val", "val"), ("VALID", "val"),
                ("validation", "val"), ("test", "test"), ("Testing", "test"),
            ]
        ),
        (
            ["bus/1.jpg", "car/1.jpg", "train/1.jpg"],
            {},
            "<class>/**/image",
            [("bus", ""), ("car", ""), ("train", "")],
        ),
        (
            ["extra/b.jpg", "train/rose/1.jpg"],
            {"layout": "classes"},
            "<class>/**/image",
            [("extra", ""), ("train", "")],
        ),
        (
            ["test/3.jpg", "train/a/1.jpg", "train/b/2.jpg"],
            {},
            "<split>/<class>/**/image, test/ without labels",
            [("", "test"), ("a", "train"), ("b", "train")],
        ),
        (
            ["test/1.jpg", "train/2.jpg"],
            {"layout": "classes"},
            "<class>/**/image",
            [("test", ""), ("train", "")],
        ),
        (["Data/0/1.jpg", "Data/1/2.jpg"], {}, "<class>/**/image", [("0", ""), ("1", "")]),
    ],
)  # fmt: skip
def test_folders_are_classes_and_splits(
    tmp_path: Path,
    tree: list[str],
    options: dict[str, str],
    layout: str,
    expected: list[tuple[str, str]],
) -> None:
    write_tree(tmp_path / "x", {name: jpeg(number) for number, name in enumerate(tree)})
    catalog = found(tmp_path / "x", **options)
    assert [(row[1], row[2]) for row in places(catalog)] == expected
    assert catalog.layout.text == layout


@pytest.mark.parametrize(
    ("tree", "options", "message", "hint"),
    [
        (
            ["docs/a.txt", "extra/b.jpg", "train/rose/1.jpg"],
            {},
            "train may be a split or a class, as extra beside it",
            "",
        ),
        (["rose/1.jpg"], {"layout": "splits"}, "has no split folders", ""),
        (
            ["train/a/1.jpg", "val/a/2.jpg", "valid/a/3.jpg"],
            {},
            "val and valid mean the same split, val",
            "",
        ),
        (["train/1.jpg", "test/2.jpg"], {}, "the images in train have no class folders", ""),
        (["rose/notes.txt"], {}, "has no images in class folders", ""),
        (["1.jpg"], {}, r"the images in \. have no class folders", "--label-regex"),
        (
            ["ash/1.jpg", "birch/2.jpg"],
            {"class_depth": 3},
            "no images 3 folders deep",
            "pass --class-depth 1",
        ),
    ],
)
def test_folders_that_cannot_be_understood_are_an_error(
    tmp_path: Path, tree: list[str], options: dict[str, object], message: str, hint: str
) -> None:
    data = {name: b"x" if name.endswith("txt") else jpeg(at) for at, name in enumerate(tree)}
    write_tree(tmp_path / "x", data)
    with pytest.raises(SourceError, match=message) as caught:
        found(tmp_path / "x", **options)
    assert hint in caught.value.hint


def test_images_in_odd_places_are_named(tmp_path: Path) -> None:
    tree = {"train/a/1.jpg": jpeg(1), "val/a/2.jpg": jpeg(2), "train/stray.jpg": jpeg(3)}
    catalog = found(write_tree(tmp_path / "x", tree))
    assert names(catalog) == ["train/a/1.jpg", "val/a/2.jpg"]
    assert ignored(catalog) == {"outside a class folder": 1}
    assert catalog.warnings == (
        "images directly in train are not packed: no class folder holds them",
    )
    tree = {"train/rose/1.jpg": jpeg(1), "docs/a.txt": b"x", "extra/b.jpg": jpeg(2)}
    catalog = found(write_tree(tmp_path / "y", tree), layout="splits")
    assert names(catalog) == ["train/rose/1.jpg"]
    assert ignored(catalog) == {"beside the split folders": 2}
    assert "extra: not packed" in catalog.warnings[0]
    assert "--layout classes" in catalog.warnings[0]


def test_empty_class_folders_are_named(tmp_path: Path) -> None:
    class_tree(tmp_path, {"rose": 1})
    (tmp_path / "lily").mkdir()
    catalog = found(write_tree(tmp_path, {"notes/a.txt": b"x"}))
    assert list(catalog.class_folders) == ["rose"]
    assert catalog.warnings == (
        "lily: no images in this class folder, so it gets no label",
        "notes: no images in this class folder, so it gets no label",
    )


# Files.


def test_clutter_is_ignored_by_kind(tmp_path: Path) -> None:
    clutter = {
        "a/.hidden.jpg": jpeg(1), "a/.cache/x.jpg": jpeg(2), "a/.DS_Store": b"",
        "a/.ipynb_checkpoints/1-checkpoint.jpg": jpeg(3), "a/Thumbs.db": b"", "a/desktop.ini": b"",
        "__MACOSX/a/._1.jpg": b"", "a/notes.txt": b"hello", "a/labels.csv": b"1,2\n",
        "README.md": b"# hi",
    }  # fmt: skip
    write_tree(tmp_path, {"a/1.jpg": jpeg(), **clutter})
    os.mkfifo(tmp_path / "a/pipe.jpg")
    (tmp_path / "a/link.jpg").symlink_to("pipe.jpg")
    catalog = found(tmp_path)
    assert names(catalog) == ["a/1.jpg"]
    assert ignored(catalog) == {
        "hidden file": 1, "hidden folder": 1, ".DS_Store": 1, ".ipynb_checkpoints": 1,
        "Thumbs.db": 1, "desktop.ini": 1, "__MACOSX": 1, "not an image": 2,
        "outside a class folder": 1, "special file": 2,
    }  # fmt: skip


def test_content_decides_what_is_an_image(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    good = {
        "a/noextension": png(2),
        "a/photo.txt": jpeg(1),
        "a/really.jpg": encode(picture(3), "GIF"),
    }
    bad = {
        "a/empty.jpg": b"", "a/error.jpg": b"<!DOCTYPE html><html>", "a/lfs.png": pointer,
        "a/text.jpg": b"hello", "a/zeros.jpg": bytes(100),
    }  # fmt: skip
    catalog = found(write_tree(tmp_path, good | bad))
    assert names(catalog) == list(good)
    assert catalog.bad == (
        Note("a/empty.jpg", "empty file"),
        Note("a/error.jpg", "an HTML page, not an image"),
        Note("a/lfs.png", "Git LFS pointer, not the image itself: run `git lfs pull`"),
        Note("a/text.jpg", "text, not an image"),
        Note("a/zeros.jpg", "zeros only: an unfinished download?"),
    )


def test_identical_files_share_their_content_and_others_do_not(tmp_path: Path) -> None:
    head = bytes(range(256)) * 16
    big = {f"a/{n}.bmp": b"BM" + head + bytes([n // 2]) for n in range(4)}
    tree = {"a/x.jpg": jpeg(1), "b/y.jpg": jpeg(1), "b/z.jpg": jpeg(2), **big}
    for name in big:
        tree[name] = tree[name][:14] + (40).to_bytes(4, "little") + tree[name][18:]
    content = {s.filename: s.content for s in found(write_tree(tmp_path, tree)).samples}
    assert content["a/x.jpg"] == content["b/y.jpg"] != content["b/z.jpg"]
    assert content["a/0.bmp"] == content["a/1.bmp"]
    assert content["a/2.bmp"] == content["a/3.bmp"] != content["a/0.bmp"]
    assert content["a/0.bmp"][:16] == content["a/2.bmp"][:16]


awkward_names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda name: name[0] != "." and name not in CLUTTER and len(name.encode()) < 200)


@examples(30)
@given(st.sets(awkward_names, min_size=1, max_size=5))
def test_any_file_name_survives(tmp_path_factory: pytest.TempPathFactory, chosen: set[str]) -> None:
    root = tmp_path_factory.mktemp("names")
    unique = {unicodedata.normalize("NFC", name).casefold(): name for name in chosen}.values()
    write_tree(root, {f"a/{name}": jpeg(number) for number, name in enumerate(unique)})
    (root / os.fsdecode(b"a/caf\xe9.jpg")).write_bytes(jpeg(50))
    expected = sorted([os.fsdecode(b"a/caf\xe9.jpg"), *(f"a/{name}" for name in unique)])
    assert names(found(root)) == expected


# Links.


def test_links_to_files_are_followed_wherever_they_lead(tmp_path: Path) -> None:
    write_tree(tmp_path / "elsewhere", {"1.jpg": jpeg()})
    class_tree(tmp_path / "source", {"a": 1})
    (tmp_path / "source/a/link.jpg").symlink_to(tmp_path / "elsewhere/1.jpg")
    (tmp_path / "source/a/gone.jpg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "source/a/self.jpg").symlink_to(tmp_path / "source/a/self.jpg")
    catalog = found(tmp_path / "source")
    assert names(catalog) == ["a/000.jpg", "a/link.jpg"]
    assert catalog.bad == (Note("a/gone.jpg", "broken link"), Note("a/self.jpg", "broken link"))


def test_links_to_folders_are_followed_inside_or_on_request(tmp_path: Path) -> None:
    class_tree(tmp_path / "elsewhere", {"b": 1}, start=9)
    source = class_tree(tmp_path / "source", {"a": 1})
    (source / "b").symlink_to(tmp_path / "elsewhere/b")
    (source / "c").symlink_to("a")
    catalog = found(source)
    assert names(catalog) == ["a/000.jpg", "c/000.jpg"]
    assert catalog.warnings == (
        "b: not walked: a link out of the source; pass --follow-links to include it",
    )
    assert names(found(source, follow_links=True)) == ["a/000.jpg", "b/000.jpg", "c/000.jpg"]


def test_loops_of_links_are_named_and_never_walked(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 1, "b": 1})
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/other").symlink_to("../b")
    (tmp_path / "b/back").symlink_to("../a")
    catalog = found(tmp_path, follow_links=True)
    warned = {warning.split(":")[0] for warning in catalog.warnings}
    assert {"a/up", "a/other/back", "b/back/other"} <= warned
    assert len(names(catalog)) == 4


# Rights.

FOLDERS = [str(ROOT / name) for name in ("tests/source", "tests/support", "tests", "")]


def without_privileges(tmp_path: Path) -> str:
    """Scan a folder in a process that may not read everything; return its bad files or error."""
    code = (
        "import sys; sys.path[:0] = sys.argv[2:]; from pathlib import Path\n"
        "from test_folder import found\n"
        "try: [print(n.filename, n.reason, sep=': ') for n in found(Path(sys.argv[1])).bad]\n"
        "except Exception as error: print(error)"
    )
    command = [sys.executable, "-c", code, str(tmp_path), *FOLDERS]
    if os.geteuid() == 0:  # root reads everything, unless it gives that up
        if not shutil.which("setpriv"):
            pytest.skip("setpriv is not installed")
        command = ["setpriv", "--bounding-set", "-dac_override,-dac_read_search", *command]
    return subprocess.run(command, text=True, capture_output=True, check=True).stdout


def test_an_unreadable_file_is_bad_and_an_unreadable_folder_an_error(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 2, "b": 1})
    (tmp_path / "a/001.jpg").chmod(0)
    assert without_privileges(tmp_path) == "a/001.jpg: unreadable: Permission denied\n"
    (tmp_path / "a").chmod(0)
    message = without_privileges(tmp_path)
    (tmp_path / "a").chmod(0o700)
    # Without the class, all labels after it would shift.
    assert message == f"{tmp_path} has folders that cannot be read: a (Permission denied)\n"


# Lists of splits beside class folders.

LISTED = {"cat/1.jpg": jpeg(1), "cat/2.jpg": jpeg(2), "dog/1.jpg": jpeg(3), "dog/2.jpg": jpeg(4)}


@pytest.mark.parametrize(
    ("lists", "pattern"),
    [
        ({"train.txt": b"cat/1.jpg\ndog/1.jpg\n", "test.txt": b"cat/2.jpg"}, "*.txt"),
        ({"train.txt": b"cat/1.jpg 0\n", "val.txt": b"cat/2.jpg 0\n"}, "*.txt"),
        ({"train.csv": b"cat/1.jpg,x\n", "TestImages.csv": b"dog/1.jpg,y\n"}, "*.csv"),
        ({"val.txt": b"cat/1.jpg\n"}, "*.txt"),
        (
            {
                "train.txt": b"id path\n1 cat/1.jpg\n2 cat/2.jpg\n",
                "test.txt": b"id path\n3 dog/1.jpg\n4 dog/2.jpg\n",
            },
            "*.txt",
        ),
    ],
)
def test_lists_of_splits_beside_class_folders_are_never_ignored_in_silence(
    tmp_path: Path, lists: dict[str, bytes], pattern: str
) -> None:
    root = write_tree(tmp_path / "pets", LISTED | lists)
    with pytest.raises(SourceError, match="list images by split, but class folders") as caught:
        found(root)
    assert f"imgrec pack '{root}/{pattern}' --images {root};" in caught.value.hint
    assert len(found(root, kind="folder").samples) == 4
    with pytest.raises(SourceError, match="list images by split") as caught:
        found(written(tmp_path / "pets.zip", zip_bytes(LISTED | lists)))
    assert caught.value.hint.endswith("--kind archive to ignore them")


def test_lists_of_splits_may_begin_at_a_folder_of_the_source(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"images/{name}": data for name, data in LISTED.items()})
    lists = {"meta/train.txt": b"cat/1\ndog/1", "meta/test.txt": b"cat/2", "meta/x.txt": b"cat"}
    write_tree(tmp_path, lists)
    with pytest.raises(SourceError, match=r"meta/test\.txt, meta/train\.txt list images") as caught:
        found(tmp_path)
    assert f"'{tmp_path}/meta/t*.txt' --images {tmp_path}/images;" in caught.value.hint


def test_a_split_in_numbers_beside_class_folders_is_an_error(tmp_path: Path) -> None:
    write_tree(tmp_path / "birds", LISTED | {"train_test_split.txt": b"1 0\n2 1\n"})
    with pytest.raises(SourceError, match=r"train_test_split\.txt names the test images"):
        found(tmp_path / "birds")


@pytest.mark.parametrize(
    ("prefixes", "files"),
    [
        ([""], {"test.txt": b"notes on how\nwe tested cats\n"}),
        ([""], {"train.txt": b"cat/1.jpg\n"}),
        ([""], {"testers.txt": b"cat/1.jpg\n"}),
        ([""], {"val.txt": b""}),
        (["train/", "val/"], {"val.txt": b"val/cat/1.jpg\n"}),
    ],
)
def test_other_texts_beside_class_folders_are_ignored(
    tmp_path: Path, prefixes: list[str], files: dict[str, bytes]
) -> None:
    for prefix in prefixes:
        write_tree(tmp_path, {prefix + name: data for name, data in LISTED.items()})
    assert len(found(write_tree(tmp_path, files)).samples) == 4 * len(prefixes)


def test_hints_name_lists_but_no_sample_submission(tmp_path: Path) -> None:
    write_tree(tmp_path, {"val/1.jpg": jpeg(1), "val.txt": b"1.jpg 0\n"})
    write_tree(tmp_path, {"sample_submission.csv": b"id,label\n1,0\n", "notes.txt": b"-"})
    with pytest.raises(SourceError, match="no class folders") as caught:
        found(tmp_path)
    assert "name a table with --manifest" in caught.value.hint
    assert "sample_submission" not in caught.value.hint
