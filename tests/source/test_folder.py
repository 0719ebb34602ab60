"""What is found in a folder of class folders."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unicodedata
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from sampling import examples
from scanning import context

from imgrec.errors import SourceError
from imgrec.model import Catalog
from imgrec.notes import Note
from imgrec.options import FolderLayout
from imgrec.source.kinds import detect, scan
from imgrec.source.tree import CLUTTER


def found(root: Path, **options: object) -> Catalog:
    here = context(**options)
    return scan(detect(str(root), here.options), here)


def names(catalog: Catalog) -> list[str]:
    return [sample.filename for sample in catalog.samples]


def ignored(catalog: Catalog) -> dict[str, int]:
    return {kind.kind: kind.count for kind in catalog.ignored}


def test_classes_are_the_top_folders_and_images_are_found_at_any_depth(tmp_path: Path) -> None:
    write_tree(
        tmp_path, {"rose/1.jpg": jpeg(1), "rose/more/deep/2.png": png(2), "tulip/3.jpg": jpeg(3)}
    )
    catalog = found(tmp_path)
    assert [(s.filename, s.class_name, s.split) for s in catalog.samples] == [
        ("rose/1.jpg", "rose", ""),
        ("rose/more/deep/2.png", "rose", ""),
        ("tulip/3.jpg", "tulip", ""),
    ]
    assert catalog.layout == "<class>/**/image"


@pytest.mark.parametrize(
    ("folder", "split"),
    [
        ("train", "train"), ("Training", "train"), ("val", "val"), ("VALID", "val"),
        ("validation", "val"), ("test", "test"), ("Testing", "test"),
    ],
)  # fmt: skip
def test_split_folders_are_known_by_their_usual_names(
    tmp_path: Path, folder: str, split: str
) -> None:
    catalog = found(write_tree(tmp_path, {f"{folder}/rose/1.jpg": jpeg()}))
    assert [(s.class_name, s.split) for s in catalog.samples] == [("rose", split)]
    assert catalog.layout == "<split>/<class>/**/image"


def test_a_class_called_train_is_a_class(tmp_path: Path) -> None:
    catalog = found(class_tree(tmp_path, {"bus": 1, "car": 1, "train": 1}))
    assert {s.class_name for s in catalog.samples} == {"bus", "car", "train"}


def test_folders_beside_split_folders_are_asked_about(tmp_path: Path) -> None:
    tree = {"train/rose/1.jpg": jpeg(1), "docs/a.txt": b"x", "extra/b.jpg": jpeg(2)}
    write_tree(tmp_path, tree)
    with pytest.raises(SourceError, match="train may be a split or a class, as extra beside it"):
        found(tmp_path)
    catalog = found(tmp_path, layout="splits")
    assert names(catalog) == ["train/rose/1.jpg"]
    assert ignored(catalog) == {"beside the split folders": 2}
    assert "extra: not packed" in catalog.warnings[0]
    assert "--layout classes" in catalog.warnings[0]


def test_the_layout_can_be_said(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, {"train/rose/1.jpg": jpeg(1), "extra/b.jpg": jpeg(2)})
    catalog = found(tree, layout=FolderLayout.CLASSES)
    assert {s.class_name for s in catalog.samples} == {"train", "extra"}


def test_asking_for_splits_that_are_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no split folders"):
        found(class_tree(tmp_path, {"rose": 1}), layout=FolderLayout.SPLITS)


def test_two_folders_for_one_split_are_an_error(tmp_path: Path) -> None:
    tree = {"train/a/1.jpg": jpeg(1), "val/a/2.jpg": jpeg(2), "valid/a/3.jpg": jpeg(3)}
    with pytest.raises(SourceError, match="val and valid mean the same split, val"):
        found(write_tree(tmp_path, tree))


def test_a_flat_test_folder_beside_a_train_of_classes_has_images_without_labels(
    tmp_path: Path,
) -> None:
    tree = {"train/a/1.jpg": jpeg(1), "train/b/2.jpg": jpeg(2), "test/3.jpg": jpeg(3)}
    catalog = found(write_tree(tmp_path, tree))
    assert [(s.filename, s.class_name, s.split) for s in catalog.samples] == [
        ("test/3.jpg", "", "test"),
        ("train/a/1.jpg", "a", "train"),
        ("train/b/2.jpg", "b", "train"),
    ]
    assert set(catalog.class_folders) == {"a", "b"}


def test_a_stray_image_in_a_split_folder_does_not_make_classes_of_the_splits(
    tmp_path: Path,
) -> None:
    tree = {"train/a/1.jpg": jpeg(1), "val/a/2.jpg": jpeg(2), "train/stray.jpg": jpeg(3)}
    catalog = found(write_tree(tmp_path, tree))
    assert [(s.class_name, s.split) for s in catalog.samples] == [("a", "train"), ("a", "val")]
    assert ignored(catalog) == {"outside a class folder": 1}
    assert catalog.warnings == (
        "images directly in train are not packed: no class folder holds them",
    )


def test_splits_without_classes_do_not_become_classes(tmp_path: Path) -> None:
    tree = class_tree(tmp_path, {"train": 2, "test": 2})
    with pytest.raises(SourceError, match="the images in train have no class folders"):
        found(tree)
    chosen = found(tree, layout="classes")
    assert set(chosen.class_folders) == {"test", "train"}


def test_clutter_is_ignored_by_kind(tmp_path: Path) -> None:
    clutter = {
        "a/.hidden.jpg": jpeg(1),
        "a/.cache/x.jpg": jpeg(2),
        "a/.DS_Store": b"",
        "a/.ipynb_checkpoints/1-checkpoint.jpg": jpeg(3),
        "a/Thumbs.db": b"",
        "a/desktop.ini": b"",
        "__MACOSX/a/._1.jpg": b"",
        "a/notes.txt": b"hello",
        "a/labels.csv": b"1,2\n",
        "README.md": b"# hi",
    }
    catalog = found(write_tree(tmp_path, {"a/1.jpg": jpeg(), **clutter}))
    assert names(catalog) == ["a/1.jpg"]
    assert ignored(catalog) == {
        "hidden file": 1, "hidden folder": 1, ".DS_Store": 1, ".ipynb_checkpoints": 1,
        "Thumbs.db": 1, "desktop.ini": 1, "__MACOSX": 1, "not an image": 2,
        "outside a class folder": 1,
    }  # fmt: skip


def test_content_decides_what_is_an_image_not_the_extension(tmp_path: Path) -> None:
    gif = encode(picture(3), "GIF")
    tree = {"a/photo.txt": jpeg(1), "a/noextension": png(2), "a/really.jpg": gif}
    assert names(found(write_tree(tmp_path, tree))) == [
        "a/noextension",
        "a/photo.txt",
        "a/really.jpg",
    ]


def test_what_is_called_an_image_and_is_none_is_bad_with_the_reason(tmp_path: Path) -> None:
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"
    tree = {
        "a/0.jpg": jpeg(), "a/empty.jpg": b"", "a/error.jpg": b"<!DOCTYPE html><html>",
        "a/lfs.png": pointer, "a/text.jpg": b"hello", "a/zeros.jpg": bytes(100),
    }  # fmt: skip
    assert found(write_tree(tmp_path, tree)).bad == (
        Note("a/empty.jpg", "empty file"),
        Note("a/error.jpg", "an HTML page, not an image"),
        Note("a/lfs.png", "Git LFS pointer, not the image itself: run `git lfs pull`"),
        Note("a/text.jpg", "text, not an image"),
        Note("a/zeros.jpg", "zeros only: an unfinished download?"),
    )


def test_empty_class_folders_are_named(tmp_path: Path) -> None:
    class_tree(tmp_path, {"rose": 1})
    (tmp_path / "lily").mkdir()
    catalog = found(write_tree(tmp_path, {"notes/a.txt": b"x"}))
    assert list(catalog.class_folders) == ["rose"]
    assert catalog.warnings == (
        "lily: no images in this class folder, so it gets no label",
        "notes: no images in this class folder, so it gets no label",
    )


def test_a_single_folder_of_folders_is_looked_into(tmp_path: Path) -> None:
    catalog = found(class_tree(tmp_path, {"Dataset/0": 1, "Dataset/1": 1}))
    assert set(catalog.class_folders) == {"0", "1"}


def test_a_folder_without_images_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no images in class folders"):
        found(write_tree(tmp_path, {"rose/notes.txt": b"x"}))


def test_images_that_no_folder_gives_a_class_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"the images in \. have no class folders") as raised:
        found(write_tree(tmp_path, {"1.jpg": jpeg()}))
    assert "--label-regex" in raised.value.hint


def test_classes_deeper_than_all_images_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="no images 3 folders deep") as raised:
        found(class_tree(tmp_path, {"ash": 1, "birch": 1}), class_depth=3)
    assert raised.value.hint == "pass --class-depth 1"


@pytest.mark.parametrize("missing", [True, False])
def test_what_is_no_folder_is_an_error(tmp_path: Path, missing: bool) -> None:
    path = tmp_path / "x"
    if not missing:
        path.write_bytes(b"\0\1\2")
    what = "does not exist" if missing else "is not a source that imgrec knows"
    with pytest.raises(SourceError, match=what):
        found(path)


def test_links_to_files_are_followed_wherever_they_lead(tmp_path: Path) -> None:
    write_tree(tmp_path / "elsewhere", {"1.jpg": jpeg()})
    (tmp_path / "source" / "a").mkdir(parents=True)
    (tmp_path / "source/a/link.jpg").symlink_to(tmp_path / "elsewhere/1.jpg")
    assert names(found(tmp_path / "source")) == ["a/link.jpg"]


def test_broken_links_are_named(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 1})
    (tmp_path / "a/gone.jpg").symlink_to(tmp_path / "nowhere")
    (tmp_path / "a/self.jpg").symlink_to(tmp_path / "a/self.jpg")
    expected = (Note("a/gone.jpg", "broken link"), Note("a/self.jpg", "broken link"))
    assert found(tmp_path).bad == expected


def test_links_to_folders_inside_are_walked(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 1})
    (tmp_path / "b").symlink_to("a")
    assert names(found(tmp_path)) == ["a/000.jpg", "b/000.jpg"]


def test_links_out_of_the_source_are_walked_only_on_request(tmp_path: Path) -> None:
    class_tree(tmp_path / "elsewhere", {"b": 1}, start=9)
    source = class_tree(tmp_path / "source", {"a": 1})
    (source / "b").symlink_to(tmp_path / "elsewhere/b")
    catalog = found(source)
    assert names(catalog) == ["a/000.jpg"]
    assert catalog.warnings == (
        "b: not walked: a link out of the source; pass --follow-links to include it",
    )
    assert names(found(source, follow_links=True)) == ["a/000.jpg", "b/000.jpg"]


def test_loops_of_links_are_named_and_never_walked(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 1, "b": 1})
    (tmp_path / "a/up").symlink_to("..")
    (tmp_path / "a/other").symlink_to("../b")
    (tmp_path / "b/back").symlink_to("../a")
    catalog = found(tmp_path, follow_links=True)
    assert {"a/up", "a/other/back", "b/back/other"} <= {
        warning.split(":")[0] for warning in catalog.warnings
    }
    assert len(names(catalog)) == 4


def test_pipes_and_sockets_are_ignored(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 1})
    os.mkfifo(tmp_path / "a/pipe.jpg")
    (tmp_path / "a/link.jpg").symlink_to("pipe.jpg")
    assert ignored(found(tmp_path)) == {"special file": 2}


FOLDERS = [str(ROOT / name) for name in ("tests/source", "tests/support", "tests", "")]


def without_privileges(tmp_path: Path) -> str:
    """Scan a folder in a process that may not read everything, and return what came of it."""
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


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 2})
    (tmp_path / "a/001.jpg").chmod(0)
    expected = "a/001.jpg: unreadable: Permission denied\n"
    assert without_privileges(tmp_path) == expected


def test_unreadable_folders_are_an_error_since_labels_would_shift(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 2, "b": 1})
    (tmp_path / "a").chmod(0)
    message = without_privileges(tmp_path)
    (tmp_path / "a").chmod(0o700)
    assert message == f"{tmp_path} has folders that cannot be read: a (Permission denied)\n"


awkward_names = st.text(
    st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=40
).filter(lambda name: name[0] != "." and name not in CLUTTER and len(name.encode()) < 200)


@examples(30)
@given(st.sets(awkward_names, min_size=1, max_size=5))
def test_any_file_name_survives(tmp_path_factory: pytest.TempPathFactory, chosen: set[str]) -> None:
    root = tmp_path_factory.mktemp("names")
    unique = {unicodedata.normalize("NFC", name).casefold(): name for name in chosen}.values()
    write_tree(root, {f"a/{name}": jpeg(number) for number, name in enumerate(unique)})
    assert names(found(root)) == sorted(f"a/{name}" for name in unique)


def test_a_name_that_is_not_utf8_survives(tmp_path: Path) -> None:
    class_tree(tmp_path, {"a": 1})
    (tmp_path / os.fsdecode(b"a/caf\xe9.jpg")).write_bytes(jpeg(5))
    assert os.fsencode(names(found(tmp_path))[1]) == b"a/caf\xe9.jpg"


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


LISTED = {"cat/1.jpg": jpeg(1), "cat/2.jpg": jpeg(2), "dog/1.jpg": jpeg(3), "dog/2.jpg": jpeg(4)}


@pytest.mark.parametrize(
    ("lists", "pattern"),
    [
        ({"train.txt": "cat/1.jpg\ndog/1.jpg\n", "test.txt": "cat/2.jpg"}, "*.txt"),
        ({"train.txt": "cat/1.jpg 0\n", "val.txt": "cat/2.jpg 0\n"}, "*.txt"),
        ({"train.csv": "cat/1.jpg,x\n", "TestImages.csv": "dog/1.jpg,y\n"}, "*.csv"),
        ({"val.txt": "cat/1.jpg\n"}, "*.txt"),
    ],
)  # fmt: skip
def test_lists_of_splits_beside_class_folders_are_never_ignored_in_silence(
    tmp_path: Path, lists: dict[str, str], pattern: str
) -> None:
    root = tmp_path / "pets"
    write_tree(root, LISTED | {name: text.encode() for name, text in lists.items()})
    with pytest.raises(SourceError, match="list images by split, but class folders") as caught:
        found(root)
    assert f"imgrec pack '{root}/{pattern}' --images {root};" in caught.value.hint
    assert len(found(root, kind="folder").samples) == 4


def test_lists_of_splits_may_begin_at_a_folder_of_the_source(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"images/{name}": data for name, data in LISTED.items()})
    lists = {"meta/train.txt": b"cat/1\ndog/1", "meta/test.txt": b"cat/2", "meta/x.txt": b"cat"}
    write_tree(tmp_path, lists)
    with pytest.raises(SourceError, match=r"meta/test\.txt, meta/train\.txt list images") as caught:
        found(tmp_path)
    assert f"'{tmp_path}/meta/t*.txt' --images {tmp_path}/images;" in caught.value.hint


def test_lists_of_splits_in_an_archive_are_not_ignored_either(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "pets.zip", "w") as archive:
        for name, data in {**LISTED, "train.txt": b"cat/1.jpg", "val.txt": b"cat/2.jpg"}.items():
            archive.writestr(name, data)
    with pytest.raises(SourceError, match=r"train\.txt, val\.txt list images by split") as caught:
        found(tmp_path / "pets.zip", spool=tmp_path / "spool")
    assert caught.value.hint.endswith("--kind archive to ignore them")


def test_a_split_in_numbers_beside_class_folders_is_an_error(tmp_path: Path) -> None:
    write_tree(tmp_path / "birds", LISTED | {"train_test_split.txt": b"1 0\n2 1\n"})
    with pytest.raises(SourceError, match=r"train_test_split\.txt names the test images"):
        found(tmp_path / "birds")


@pytest.mark.parametrize(
    "files",
    [
        {"test.txt": b"notes on how\nwe tested cats\n"},
        {"train.txt": b"cat/1.jpg\n"},
        {"testers.txt": b"cat/1.jpg\n"},
        {"val.txt": b""},
    ],
)
def test_other_texts_beside_class_folders_are_ignored(
    tmp_path: Path, files: dict[str, bytes]
) -> None:
    write_tree(tmp_path, LISTED | files)
    assert len(found(tmp_path).samples) == 4


def test_lists_beside_split_folders_are_not_needed(tmp_path: Path) -> None:
    write_tree(tmp_path, {f"train/{name}": data for name, data in LISTED.items()})
    write_tree(tmp_path, {f"val/{name}": data for name, data in LISTED.items()})
    write_tree(tmp_path, {"val.txt": b"val/cat/1.jpg\n"})
    assert {sample.split for sample in found(tmp_path).samples} == {"train", "val"}


def test_hints_name_lists_but_no_sample_submission(tmp_path: Path) -> None:
    write_tree(tmp_path, {"val/1.jpg": jpeg(1), "val.txt": b"1.jpg 0\n"})
    write_tree(tmp_path, {"sample_submission.csv": b"id,label\n1,0\n", "notes.txt": b"-"})
    with pytest.raises(SourceError, match="no class folders") as caught:
        found(tmp_path)
    assert "name a table with --manifest" in caught.value.hint
    assert "sample_submission" not in caught.value.hint
