"""Unpacking datasets: what was packed comes back, and nothing goes elsewhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import pytest
from conftest import ROOT, Cli
from damage import change_records, make_flowers
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack, pack_typed, read_shard, reseal, write_shard
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from sampling import examples

import imgrec
from imgrec.api import unpack
from imgrec.errors import DatasetError, UsageError
from imgrec.inspect.image_files import refuse_bad_paths
from imgrec.storage.files import remove_all
from imgrec.storage.tree import FileSystem, NewTree

SHARD = "x-train.tfrecord-00000-of-00001"
LINUX = FileSystem(
    folds_case=False,
    composes=False,
    strips_dots=False,
    has_devices=False,
    takes_bytes=True,
    most_name_bytes=255,
    most_path_bytes=4000,
)


REPORTS = {"report.json", "report.html", "SHA256SUMS"}


def files_of(root: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()
    }


def dataset_files(folder: Path) -> dict[str, bytes]:
    """All files of a dataset that do not name its source."""
    files = files_of(folder)
    return {name: files[name] for name in sorted(files.keys() - REPORTS)}


def again(command: Iterable[str], data_dir: Path) -> Path:
    """Run the command that packs a tree again, as if it were typed."""
    return Path(pack_typed(list(command), data_dir).info.path)


def round_trip(place: Path, tmp_path: Path, **options: object) -> Path:
    """Pack, unpack and pack again; both packs must be the same. Return the unpacked tree."""
    first = pack(place, tmp_path / "first", **options)
    unpacked = unpack(first, tmp_path / "tree", engine=ENGINE)
    second = again(unpacked.pack_again, tmp_path / "second")
    assert dataset_files(second) == dataset_files(first)
    return tmp_path / "tree"


def x_dataset(tmp_path: Path, names: Iterable[bytes]) -> Path:
    """A dataset whose records have these names, whatever they are."""
    source = class_tree(tmp_path / "x", {"a": 1})
    folder = pack(source, tmp_path / "out")
    record = read_shard(folder / SHARD)[0]
    records = [{**record, "filename": (name,)} for name in names]
    write_shard(folder / SHARD, records)
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = [str(len(records))]
    (folder / "dataset_info.json").write_text(json.dumps(info))
    reseal(folder)
    return folder


def test_the_tree_comes_back_byte_for_byte(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"rose": 4, "tulip": 4})
    write_tree(source, {"rose/deep/er/caf\u00e9.png": png(50), "tulip/ a b .jpg": jpeg(51)})
    (source / os.fsdecode(b"rose/caf\xe9.jpg")).write_bytes(jpeg(52))
    folder = pack(source, tmp_path / "out", val_split=0.25)
    unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert files_of(tmp_path / "tree") == files_of(source)
    assert unpacked.images == 11
    assert unpacked.bytes == sum(map(len, files_of(source).values()))
    assert unpacked.path == str(tmp_path / "tree")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "tree", "x"]


def test_class_folders_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"2": 7, "10": 5, "ash": 9})
    tree = round_trip(source, tmp_path, val_split=0.2, test_split=0.2, seed=3, shards=2)
    assert files_of(tree) == files_of(source)


def test_split_folders_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    files = {
        f"{split}/{name}/{number}.jpg": jpeg(100 * len(split) + 10 * len(name) + number)
        for split in ("train", "Validation")
        for name in ("rose", "lily2")
        for number in range(4)
    }
    source = write_tree(tmp_path / "x", {**files, "test/1.jpg": jpeg(7), "test/2.jpg": jpeg(8)})
    tree = round_trip(source, tmp_path)
    assert files_of(tree) == files_of(source)


def test_a_val_taken_out_of_a_train_folder_packs_to_the_same_bytes_again(tmp_path: Path) -> None:
    files = {
        f"train/{name}/{n}.jpg": jpeg(n + len(name)) for name in ("a", "b" * 20) for n in range(9)
    }
    source = write_tree(tmp_path / "x", {**files, "test/a/1.jpg": jpeg(70)})
    round_trip(source, tmp_path, val_split=0.3)


def test_folds_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    round_trip(class_tree(tmp_path / "x", {"a": 9, "b": 9}), tmp_path, folds=3)


@pytest.mark.parametrize("depth", [2, 0])
def test_deep_classes_pack_to_the_same_bytes_again(tmp_path: Path, depth: int) -> None:
    files = {
        f"{a}/{b}/{n}.jpg": jpeg(n + 10 * len(b) + 100 * len(a))
        for a in "xy"
        for b in ("p", "qq")
        for n in range(3)
    }
    if not depth:
        files |= {f"z/{n}.jpg": jpeg(900 + n) for n in range(3)}
    source = write_tree(tmp_path / "x", files)
    options = imgrec.SourceOptions(class_depth=depth)
    tree = round_trip(source, tmp_path, source=options, val_split=0.3)
    assert files_of(tree) == files_of(source)


def test_classes_called_as_splits_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"train": 3, "bus": 3})
    round_trip(source, tmp_path, source=imgrec.SourceOptions(layout="classes"))  # type: ignore[arg-type]


def test_classes_in_names_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    files = {
        f"{name}_{n}.jpg": jpeg(n + 10 * len(name)) for name in ("cat", "mouse") for n in range(5)
    }
    source = write_tree(tmp_path / "x", files)
    options = imgrec.SourceOptions(label_regex=r"^([a-z]+)_")
    tree = round_trip(source, tmp_path, source=options, val_split=0.2)
    restored = files_of(tree)
    assert restored.pop("manifest.csv").startswith(b"filename,label\n")
    assert restored == files_of(source)


def test_classes_in_an_order_of_their_own_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    tree = round_trip(source, tmp_path, classes=("b", "nothing", "a"))
    assert (tree / "classes.txt").read_text() == "b\nnothing\na\n"


def test_a_manifest_packs_to_the_same_bytes_again(tmp_path: Path) -> None:
    files = {f"img/{n}.jpg": jpeg(n) for n in range(12)}
    source = write_tree(tmp_path / "x", files)
    rows = ["id,split,breed,age,weight,note"]
    for number in range(12):
        split = "test" if number > 9 else "train"
        breed = "" if number == 11 else ["pug", "Great Dane, blue"][number % 2]
        rows.append(f'{number},{split},"{breed}",{number},{number}.25,"say ""{number}"" = é"')
    (source / "rows.csv").write_text("\n".join(rows) + "\n")
    columns = tuple(imgrec.ColumnOption(name) for name in ("weight", "age", "note"))
    tree = round_trip(
        source / "rows.csv",
        tmp_path,
        source=imgrec.SourceOptions(column=columns),
        val_split=0.3,
        name="dogs",
    )
    restored = files_of(tree)
    header = restored.pop("manifest.csv").decode().splitlines()[0]
    assert header == "filename,label,split,weight,age,note"
    assert restored == files


@pytest.mark.parametrize("kind", ["label_sep", "onehot"])
def test_several_labels_an_image_pack_to_the_same_bytes_again(tmp_path: Path, kind: str) -> None:
    source = write_tree(tmp_path / "x", {f"{n}.jpg": jpeg(n) for n in range(8)})
    sets = [["sun"], ["sea", "sun"], [], ["a|b", "sea"]] * 2
    if kind == "label_sep":
        lines = [f"{n}.jpg,{';'.join(labels)}" for n, labels in enumerate(sets)]
        lines = ["file,tags", *lines]
        options = imgrec.SourceOptions(label_sep=";")
    else:
        names = ["sun", "a|b", "sea", "never"]
        lines = [f"{n}.jpg,{','.join(str(int(x in s)) for x in names)}" for n, s in enumerate(sets)]
        lines = [f"file,{','.join(names)}", *lines]
        options = imgrec.SourceOptions(onehot=tuple(names))
    (source / "rows.csv").write_text("\n".join(lines) + "\n")
    round_trip(source / "rows.csv", tmp_path, source=options, val_split=0.25, name="tags")


def test_groups_of_a_manifest_keep_their_splits(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", {f"{n}.jpg": jpeg(n) for n in range(12)})
    rows = [f"{n}.jpg,{'ab'[n % 2]},p{n // 3}" for n in range(12)]
    (source / "rows.csv").write_text("\n".join(["file,label,patient", *rows]) + "\n")
    options = imgrec.SourceOptions(group_col="patient")
    round_trip(source / "rows.csv", tmp_path, source=options, val_split=0.3, name="g")


@pytest.mark.parametrize("compression", ["gzip", "zlib"])
def test_compressed_datasets_pack_to_the_same_bytes_again(tmp_path: Path, compression: str) -> None:
    source = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    tree = round_trip(source, tmp_path, compression=compression, val_split=0.3)
    assert files_of(tree) == files_of(source)


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\\0"),
    min_size=1,
    max_size=12,
).filter(lambda name: name[0] != "." and name.strip() == name and name not in ("Thumbs.db",))


@examples(40)
@given(
    classes=st.lists(
        st.sampled_from(["a", "b2", "b10", "caf\u00e9", "Zoo"]), min_size=1, unique=True
    ),
    stems=st.lists(names, min_size=2, max_size=6, unique=True),
    val=st.sampled_from([0.0, 0.2, 0.5]),
    seed=st.integers(0, 5),
    splits=st.booleans(),
)
def test_law_6_packing_the_unpacked_tree_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    classes: list[str],
    stems: list[str],
    val: float,
    seed: int,
    splits: bool,
) -> None:
    tmp_path = tmp_path_factory.mktemp("law")
    files = {
        f"{'train/' if splits else ''}{name}/{stem}.jpg": jpeg(100 * place + number)
        for place, name in enumerate(classes)
        for number, stem in enumerate(stems)
    }
    if splits:
        files |= {f"test/{classes[0]}/t.png": png(999)}
    source = write_tree(tmp_path / "x", files)
    tree = round_trip(source, tmp_path, val_split=val, seed=seed)
    assert files_of(tree) == files_of(source)


def test_transcoded_images_come_back_as_png_under_their_names(tmp_path: Path) -> None:
    gif = encode(picture(9), "GIF")
    source = write_tree(tmp_path / "x", {"a/0.jpg": jpeg(0), "a/1.gif": gif, "a/2.jpg": b""})
    folder = pack(source, tmp_path / "out", max_bad=0.5)
    unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert (tmp_path / "tree/a/1.gif").read_bytes().startswith(b"\x89PNG")
    assert (unpacked.transcoded, unpacked.skipped) == (1, 1)
    second = again(unpacked.pack_again, tmp_path / "second")
    images = {record["filename"]: record["image"] for record in read_shard(second / SHARD)}
    assert images == {record["filename"]: record["image"] for record in read_shard(folder / SHARD)}


def test_splits_become_folders_if_asked(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 4, "b": 4})
    folder = pack(source, tmp_path / "out", val_split=0.25)
    unpacked = unpack(folder, tmp_path / "tree", split_folders=True, engine=ENGINE)
    assert unpacked.notes == (
        "names now begin with their split, so packing them again gives other bytes",
    )
    found = files_of(tmp_path / "tree")
    assert {name.partition("/")[2] for name in found} == set(files_of(source))
    assert {name.partition("/")[0] for name in found} == {"train", "val"}
    second = again(unpacked.pack_again, tmp_path / "second")
    counts = {s.name: s.examples for s in imgrec.info(second).splits}
    assert counts == {s.name: s.examples for s in imgrec.info(folder).splits}


def test_splits_that_are_folders_already_stay_as_they_are(tmp_path: Path) -> None:
    names = [f"{s}/{c}/{n}.jpg" for s in ("train", "valid", "test") for c in "ab" for n in range(2)]
    files = {name: jpeg(number) for number, name in enumerate(names)}
    folder = pack(write_tree(tmp_path / "x", files), tmp_path / "out")
    unpacked = unpack(folder, tmp_path / "tree", split_folders=True, engine=ENGINE)
    assert (files_of(tmp_path / "tree"), unpacked.notes) == (files, ())
    second = again(unpacked.pack_again, tmp_path / "second")
    for shard in folder.glob("*-of-*"):
        assert (second / shard.name).read_bytes() == shard.read_bytes()


def test_one_split_or_a_part_of_it_can_be_unpacked(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 8, "b": 8})
    folder = pack(source, tmp_path / "out", val_split=0.25, shards=3)
    assert unpack(folder, tmp_path / "val", split="val", engine=ENGINE).images == 4
    half = unpack(folder, tmp_path / "half", split="train[:50%]+train[:2]", engine=ENGINE)
    assert (half.images, half.pack_again) == (6, ())
    assert files_of(tmp_path / "half").items() <= files_of(source).items()
    with pytest.raises(imgrec.UnknownName):
        unpack(folder, tmp_path / "no", split="vall", engine=ENGINE)
    with pytest.raises(UsageError, match="has no records"):
        unpack(folder, tmp_path / "no", split="train[:0]", engine=ENGINE)
    assert not (tmp_path / "no").exists()


def test_records_without_names_are_called_by_split_class_and_number(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 3, "b": 2})
    folder = pack(source, tmp_path / "out", val_split=0.25)
    for shard in folder.glob("*.tfrecord-*-of-*[0-9]"):
        records = read_shard(shard)
        for record in records:
            del record["filename"]
        write_shard(shard, records)
    unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert unpacked.unnamed == 5
    found = files_of(tmp_path / "tree")
    assert sorted(data for data in found.values()) == sorted(files_of(source).values())
    assert {name.rpartition("/")[0] for name in found} == {"train/a", "train/b", "val/a", "val/b"}
    assert {name.rpartition("/")[2] for name in found} == {f"{n:06d}.jpg" for n in range(5)}
    assert list(unpacked.pack_again[2:]) == [str(tmp_path / "tree"), "--name", "x"]


HOSTILE: Mapping[bytes, str] = {
    b"": "is empty",
    b"../evil.jpg": "leads elsewhere",
    b"a/../../evil.jpg": "leads elsewhere",
    b"/tmp/evil.jpg": "is absolute",
    b"a/./b.jpg": "leads elsewhere",
    b"a//b.jpg": "has an empty part",
    b"a/": "has an empty part",
    b".": "leads elsewhere",
    b"a\0b.jpg": "has a NUL in it",
    b"x" * 300: "is too long",
    b"d/" * 3000 + b"x": "is too long",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_name_that_is_no_file_below_the_folder_is_refused(tmp_path: Path, name: bytes) -> None:
    folder = x_dataset(tmp_path, [b"good.jpg", name])
    with pytest.raises(DatasetError, match=HOSTILE[name]):
        unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]


def test_all_such_names_are_told_at_once(tmp_path: Path) -> None:
    folder = x_dataset(tmp_path, HOSTILE)
    with pytest.raises(DatasetError) as caught:
        unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert all(fault in str(caught.value) for fault in HOSTILE.values())
    assert len(str(caught.value)) < 5000


def test_names_that_two_records_have_are_refused(tmp_path: Path) -> None:
    folder = x_dataset(tmp_path, [b"a.jpg", b"b.jpg", b"a.jpg"])
    with pytest.raises(DatasetError, match=r"'a.jpg' is the name of 2 records"):
        unpack(folder, tmp_path / "tree", engine=ENGINE)


def test_a_file_that_is_also_a_folder_is_refused(tmp_path: Path) -> None:
    folder = x_dataset(tmp_path, [b"a", b"a/b/c.jpg"])
    with pytest.raises(DatasetError, match="'a' is a file and a folder"):
        unpack(folder, tmp_path / "tree", engine=ENGINE)


def test_names_that_only_other_systems_merge_are_kept_apart_here(tmp_path: Path) -> None:
    wanted = [b"a.jpg", b"A.jpg", "\u00e9".encode(), "e\u0301".encode(), b"AUX", b"dot.", b"x\\y"]
    folder = x_dataset(tmp_path, wanted)
    with NewTree(str(tmp_path / "probe")) as tree:
        system = tree.probe()
    if system != LINUX._replace(most_path_bytes=system.most_path_bytes):
        pytest.skip("this file system merges some")
    unpack(folder, tmp_path / "tree", engine=ENGINE)
    found = set(map(os.fsencode, files_of(tmp_path / "tree")))
    assert found - {b"manifest.csv"} == set(wanted)


@pytest.mark.parametrize(
    ("system", "pair", "what"),
    [
        (
            LINUX._replace(folds_case=True),
            ("Rose/1.jpg", "rose/2.jpg"),
            "'Rose' and 'rose' are the same",
        ),
        (
            LINUX._replace(folds_case=True),
            ("a/X.jpg", "a/x.JPG"),
            "'a/X.jpg' and 'a/x.JPG' are the same",
        ),
        (
            LINUX._replace(composes=True),
            ("\u00e9", "e\u0301"),
            r"'e\u0301' and '\xe9' are the same name",
        ),
        (
            LINUX._replace(strips_dots=True),
            ("a.", "b"),
            "'a.' has an end that this file system drops",
        ),
        (LINUX._replace(has_devices=True), ("c/aux.jpg", "b"), "is a device on this file system"),
        (LINUX._replace(takes_bytes=False), (os.fsdecode(b"\xe9"), "b"), "is not UTF-8"),
    ],
)
def test_names_that_a_file_system_would_merge_or_change_are_refused_there(
    system: FileSystem, pair: tuple[str, str], what: str
) -> None:
    refuse_bad_paths(pair, LINUX, "x")
    with pytest.raises(DatasetError) as caught:
        refuse_bad_paths(pair, system, "x")
    assert what in str(caught.value)


path_text = st.text(st.sampled_from("./ab\\\0\u00e9\udce9~$ \n"), max_size=12)


@examples(60)
@given(wanted=st.lists(path_text, min_size=1, max_size=4))
def test_whatever_the_names_are_nothing_is_written_outside(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[str]
) -> None:
    tmp_path = tmp_path_factory.mktemp("hostile")
    folder = x_dataset(tmp_path, [os.fsencode(name) for name in wanted])
    before = files_of(tmp_path)
    try:
        unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    except DatasetError:
        assert files_of(tmp_path) == before
        return
    after = files_of(tmp_path)
    new = {name.removeprefix("tree/") for name in after.keys() - before.keys()}
    assert {name: after[name] for name in before} == before
    assert new - {"manifest.csv"} == set(wanted) or not any(wanted)
    assert unpacked.images == len(wanted)


def test_a_folder_that_holds_something_is_refused(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")
    write_tree(tmp_path / "full", {"mine.txt": b"x"})
    with pytest.raises(UsageError, match="exists already"):
        unpack(folder, tmp_path / "full", engine=ENGINE)
    with pytest.raises(UsageError, match="exists already"):
        unpack(folder, tmp_path / "full/mine.txt", engine=ENGINE)
    assert files_of(tmp_path / "full") == {"mine.txt": b"x"}


def test_an_empty_folder_and_a_link_to_one_are_filled(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 1})
    folder = pack(source, tmp_path / "out")
    (tmp_path / "empty").mkdir()
    unpack(folder, tmp_path / "empty", engine=ENGINE)
    assert files_of(tmp_path / "empty") == files_of(source)
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    unpack(folder, tmp_path / "link", engine=ENGINE)
    assert files_of(tmp_path / "real") == files_of(source)


def test_a_dangling_link_is_refused(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")
    (tmp_path / "link").symlink_to("elsewhere")
    with pytest.raises(UsageError, match="exists already"):
        unpack(folder, tmp_path / "link", engine=ENGINE)
    assert not (tmp_path / "elsewhere").exists()


def test_the_current_folder_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="is the current folder"):
        unpack(folder, ".", engine=ENGINE)


def test_a_damaged_dataset_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 3}), tmp_path / "out")
    data = bytearray((folder / SHARD).read_bytes())
    data[-100] ^= 1
    (folder / SHARD).write_bytes(data)
    with pytest.raises(imgrec.CorruptRecord, match="wrong checksum of a record at byte"):
        unpack(folder, tmp_path / "deep" / "tree", engine=ENGINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]


def test_what_an_interrupted_run_left_is_removed(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 1})
    folder = pack(source, tmp_path / "out")
    write_tree(tmp_path / ".tree.imgrec-unpack", {"a/half.jpg": b"x"})
    (tmp_path / ".tree.imgrec-unpack" / "link").symlink_to(source)
    unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert files_of(tmp_path / "tree") == files_of(source)
    assert files_of(source)


def test_what_others_keep_in_hidden_folders_stays(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")
    write_tree(tmp_path / ".tree.incomplete", {"a/precious.txt": b"x"})
    unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert files_of(tmp_path / ".tree.incomplete") == {"a/precious.txt": b"x"}


def test_an_empty_folder_that_is_private_stays_so(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")
    (tmp_path / "tree").mkdir(mode=0o700)
    unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert stat.S_IMODE((tmp_path / "tree").stat().st_mode) == 0o700


def test_two_runs_do_not_unpack_to_one_folder(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")
    with (
        NewTree(str(tmp_path / "tree")),
        pytest.raises(imgrec.ExecutionError, match="another run is unpacking"),
    ):
        unpack(folder, tmp_path / "tree", engine=ENGINE)


def test_an_image_called_as_the_manifest_is_not_overwritten(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", {"manifest.csv": jpeg(1), "b.jpg": jpeg(2)})
    (tmp_path / "rows.csv").write_text("file,label\nmanifest.csv,a\nb.jpg,b\n")
    options = imgrec.SourceOptions(images=str(source))
    folder = pack(tmp_path / "rows.csv", tmp_path / "out", source=options, name="x")
    unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert unpacked.manifest == str(tmp_path / "tree" / "_manifest.csv")
    assert (tmp_path / "tree" / "manifest.csv").read_bytes() == jpeg(1)
    assert dataset_files(again(unpacked.pack_again, tmp_path / "second")) == dataset_files(folder)


def test_a_dataset_is_as_what_it_was_unpacked_to(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    write_tree(source, {"a/x.gif": encode(picture(9), "GIF")})
    folder = pack(source, tmp_path / "out")
    unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert faults_of(folder, source=tmp_path / "tree") == []


def test_the_command_says_what_it_did(cli: Cli, tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    folder = pack(source, tmp_path / "datasets", val_split=0.25)
    done = cli("unpack", "x", "tree dir")
    assert (done.returncode, done.stderr) == (0, "")
    size = sum(map(len, files_of(source).values())) / 1024
    assert done.stdout.splitlines() == [
        f"x 1.0.0: 6 images, {size:.1f} KiB",
        f"path        {tmp_path}/tree dir",
        "pack again  imgrec pack 'tree dir' --name x --val-split 0.25",
    ]
    assert files_of(tmp_path / "tree dir") == files_of(source)
    done = cli("unpack", folder, "other", "--json", "--splits", "--split", "val", "--workers", "1")
    value = json.loads(done.stdout)
    assert value["images"] == 2
    assert value["path"] == str(tmp_path / "other")


def test_wrong_use_of_the_command_is_one_sentence(cli: Cli, tmp_path: Path) -> None:
    pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "datasets")
    done = cli("unpack", "x", "x")
    assert done.returncode == 2
    assert done.stderr == (
        "imgrec: x exists already\n"
        "  hint: give a folder that is empty or does not exist yet: nothing is overwritten\n"
    )
    assert cli("unpack", "nothing", "y").returncode == 5
    assert cli("unpack", "x", "y", "--split", "nope").returncode == 5
    assert cli("unpack", "x", "y", "--workers", "0").returncode == 2
    assert not (tmp_path / "y").exists()


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 30})
    folder = pack(source, tmp_path / "out")
    limited = (
        "import resource, signal, sys; from imgrec.api import unpack; from inline import ENGINE\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n"
        "unpack(sys.argv[1], sys.argv[2], engine=ENGINE)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}"}
    done = subprocess.run(
        [sys.executable, "-c", limited, folder, tmp_path / "tree"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert "File too large" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]


def test_a_carriage_return_stays_in_its_cell(tmp_path: Path) -> None:
    write_tree(tmp_path / "x", {"1.jpg": jpeg(1), "2\r.jpg": jpeg(2)})
    table = tmp_path / "x/t.csv"
    table.write_bytes(b'filename,label,note\n1.jpg,a,"cr\rx"\n"2\r.jpg",b,plain\n')
    column = imgrec.ColumnOption("note", imgrec.ColumnKind.TEXT)
    round_trip(table, tmp_path, name="x", source=imgrec.SourceOptions(column=(column,)))


def test_what_begins_with_a_dash_is_no_option_when_it_is_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = class_tree(tmp_path / "x", {"a": 12})
    options = imgrec.SourceOptions(group_by=r"-?\d(\d)")
    first = pack(source, tmp_path / "first", source=options, val_split=0.3)
    monkeypatch.chdir(tmp_path)
    unpacked = unpack(first, "-tree", engine=ENGINE)
    assert dataset_files(again(unpacked.pack_again, tmp_path / "second")) == dataset_files(first)


def test_files_that_were_skipped_are_told_of_as_splits_depend_on_them(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 12})
    (source / "a/003.jpg").write_bytes(jpeg(3)[:-200])
    folder = pack(source, tmp_path / "out", val_split=0.3)
    [note] = unpack(folder, tmp_path / "tree", engine=ENGINE).notes
    assert note.startswith("without the files that were skipped, images may get into other splits")


def test_splits_of_the_source_stay_though_another_dataset_pins_some(tmp_path: Path) -> None:
    splits = ["train", "test"] * 12
    files = {f"{split}/a/{seed}.jpg": jpeg(seed) for seed, split in enumerate(splits)}
    few = dict(list(files.items())[:12])
    old = pack(write_tree(tmp_path / "old", few), tmp_path / "out")
    source = write_tree(tmp_path / "x", files)
    round_trip(source, tmp_path, split_from=str(old), val_split=0.2)


def test_the_same_files_from_a_folder_of_another_name_are_packed_already(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 3})
    folder = pack(source, tmp_path / "out")
    unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    before = files_of(folder)
    assert again(unpacked.pack_again, tmp_path / "out") == folder
    assert files_of(folder) == before


def test_files_a_thousand_folders_deep_are_unpacked_or_removed_again(tmp_path: Path) -> None:
    name = "a/" * 1100 + "x.jpg"
    folder = make_flowers(tmp_path)
    change_records(folder, lambda records: records[0].update(filename=(name.encode(),)))
    (folder / "samples.parquet").unlink()
    target = tmp_path / "tree"
    imgrec.unpack(folder, target)
    assert os.path.isfile(target / name)
    remove_all(target)  # which pytest itself cannot do
    assert not target.exists()
