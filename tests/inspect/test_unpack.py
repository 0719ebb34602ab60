"""Unpacking datasets: what was packed comes back, and nothing goes elsewhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cli
from damage import change, change_records, make_flowers
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, faults_of, pack, pack_typed, read_shard, reseal, write_shard
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from sampling import examples

import imgrec
from imgrec.api import unpack
from imgrec.errors import DatasetError, UsageError
from imgrec.inspect.image_files import refuse_bad_paths
from imgrec.options import SourceOptions
from imgrec.storage.files import remove_all
from imgrec.storage.paths import FileSystem
from imgrec.storage.trees import NewTree

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
    return {name: data for name, data in files_of(folder).items() if name not in REPORTS}


def again(command: Sequence[str], data_dir: Path) -> Path:
    return Path(pack_typed(command, data_dir).info.path)


def round_trip(place: Path, tmp_path: Path, **options: object) -> dict[str, bytes]:
    """Pack, unpack and pack again; both packs must be the same. Return the unpacked files."""
    first = pack(place, tmp_path / "first", **options)
    unpacked = unpack(first, tmp_path / "tree", engine=ENGINE)
    second = again(unpacked.pack_again, tmp_path / "second")
    assert dataset_files(second) == dataset_files(first)
    return files_of(tmp_path / "tree")


@pytest.fixture
def one(tmp_path: Path) -> Path:
    """A dataset of one image."""
    return pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")


def named(tmp_path: Path, names: Iterable[bytes]) -> Path:
    """A dataset whose records have these names, whatever they are."""
    folder = pack(class_tree(tmp_path / "x", {"a": 1}), tmp_path / "out")
    record = read_shard(folder / SHARD)[0]
    records = [{**record, "filename": (name,)} for name in names]
    write_shard(folder / SHARD, records)
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = [str(len(records))]
    (folder / "dataset_info.json").write_text(json.dumps(info))
    reseal(folder)
    return folder


# Packing again gives the same bytes


def images(*names: str) -> dict[str, bytes]:
    return {name: jpeg(number) for number, name in enumerate(names)}


def classes(**counts: int) -> dict[str, bytes]:
    return images(*(f"{name}/{n}.jpg" for name, count in counts.items() for n in range(count)))


DEEP = images(*(f"{a}/{b}/{n}.jpg" for a in "xy" for b in ("p", "qq") for n in range(3)))
SPLITS = images(
    *(f"{split}/{c}/{n}.jpg" for split in ("train", "Validation") for c in "ab" for n in range(4)),
    "test/1.jpg", "test/2.jpg",
)  # fmt: skip
FOLDERS: dict[str, tuple[dict[str, bytes], dict[str, Any]]] = {
    "class folders": (
        classes(**{"2": 7, "10": 5, "ash": 9}),
        {"val_split": 0.2, "test_split": 0.2, "seed": 3, "shards": 2},
    ),
    "split folders": (SPLITS, {}),
    "val out of a train folder": (
        {f"train/{name}": data for name, data in classes(a=9, b=9).items()}
        | {"test/a/1.jpg": jpeg(70)},
        {"val_split": 0.3},
    ),
    "folds": (classes(a=9, b=9), {"folds": 3}),
    "two levels of classes": (DEEP, {"source": SourceOptions(class_depth=2), "val_split": 0.3}),
    "the last level": (
        DEEP | {f"z/{n}.jpg": jpeg(900 + n) for n in range(3)},
        {"source": SourceOptions(class_depth=0), "val_split": 0.3},
    ),
    "classes named as splits": (
        classes(train=3, bus=3),
        {"source": SourceOptions(layout="classes")},  # type: ignore[arg-type]
    ),
    "gzip": (classes(a=3, b=3), {"compression": "gzip", "val_split": 0.3}),
    "zlib": (classes(a=3, b=3), {"compression": "zlib", "val_split": 0.3}),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_folders_pack_to_the_same_bytes_again(tmp_path: Path, name: str) -> None:
    files, options = FOLDERS[name]
    assert round_trip(write_tree(tmp_path / "x", files), tmp_path, **options) == files


def test_classes_in_names_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    files = images(*(f"{name}_{n}.jpg" for name in ("cat", "mouse") for n in range(5)))
    source, options = write_tree(tmp_path / "x", files), SourceOptions(label_regex=r"^([a-z]+)_")
    restored = round_trip(source, tmp_path, source=options, val_split=0.2)
    assert restored.pop("manifest.csv").startswith(b"filename,label\n")
    assert restored == files


def test_classes_in_an_order_of_their_own_pack_to_the_same_bytes_again(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", classes(a=3, b=3))
    restored = round_trip(source, tmp_path, classes=("b", "nothing", "a"))
    assert restored["classes.txt"] == b"b\nnothing\na\n"


def rows(count: int, *columns: str) -> bytes:
    """A table of images and some columns, each given as an expression of n."""
    names = [column.partition("=")[0] for column in columns]
    values = [compile(column.partition("=")[2], "", "eval") for column in columns]
    lines = [",".join(str(eval(value, {"n": n})) for value in values) for n in range(count)]
    head = ",".join(["file", *names])
    return "\n".join([head, *(f"{n}.jpg,{line}" for n, line in enumerate(lines))]).encode() + b"\n"


ONEHOT = ("sun", "a|b", "sea", "never")
TABLES: dict[str, tuple[bytes, SourceOptions]] = {
    "columns": (
        rows(
            12, "split='test' if n > 9 else 'train'",
            "label='' if n == 11 else ['pug', '\"Great Dane, blue\"'][n % 2]",
            "weight=n + 0.25", "age=n", "note=f'\"say \"\"{n}\"\" = é\"'",
        ),
        SourceOptions(column=tuple(map(imgrec.ColumnOption, ("weight", "age", "note")))),
    ),
    "several labels": (
        rows(8, "tags=['sun', 'sea;sun', '', 'a|b;sea'][n % 4]"), SourceOptions(label_sep=";"),
    ),
    "one column for each label": (
        rows(8, *(f"{name}=int(n % {at + 1} == 0)" for at, name in enumerate(ONEHOT))),
        SourceOptions(onehot=ONEHOT),
    ),
    "groups": (
        rows(12, "label='ab'[n % 2]", "patient=f'p{n // 3}'"), SourceOptions(group_col="patient"),
    ),
    "groups that are a column, too": (
        rows(12, "label='ab'[n % 2]", "patient=f'p{n // 3}'", "age=n"),
        SourceOptions(
            group_col="patient", column=tuple(map(imgrec.ColumnOption, ("age", "patient")))
        ),
    ),
    "a carriage return": (
        rows(4, "label='ab'[n % 2]", "note='\"cr\\rx\"'"),
        SourceOptions(column=(imgrec.ColumnOption("note", imgrec.ColumnKind.TEXT),)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", TABLES)
def test_tables_pack_to_the_same_bytes_again(tmp_path: Path, name: str) -> None:
    table, options = TABLES[name]
    files = images(*(f"{n}.jpg" for n in range(table.count(b"\n") - 1)))
    write_tree(tmp_path / "x", files | {"rows.csv": table})
    path = tmp_path / "x/rows.csv"
    restored = round_trip(path, tmp_path, source=options, val_split=0.3, name="rows")
    header = restored.pop("manifest.csv").split(b"\n")[0]
    restored.pop("classes.txt", None)  # the columns of labels are in an order of their own
    assert restored == files
    if name == "columns":  # in the order in which they were asked for
        assert header == b"filename,label,split,weight,age,note"


names = st.text(
    st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="/\\\0"),
    min_size=1,
    max_size=12,
).filter(lambda name: name[0] != "." and name.strip() == name and name not in ("Thumbs.db",))


@examples(40)
@given(
    class_names=st.lists(
        st.sampled_from(["a", "b2", "b10", "caf\u00e9", "Zoo"]), min_size=1, unique=True
    ),
    stems=st.lists(names, min_size=2, max_size=6, unique=True),
    options=st.fixed_dictionaries(
        {"val_split": st.sampled_from([0.0, 0.2, 0.5]), "seed": st.integers(0, 5)}
    ),
    splits=st.booleans(),
)
def test_law_6_packing_the_unpacked_tree_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory,
    class_names: list[str],
    stems: list[str],
    options: dict[str, object],
    splits: bool,
) -> None:
    tmp_path = tmp_path_factory.mktemp("law")
    top = "train/" if splits else ""
    files = images(*(f"{top}{name}/{stem}.jpg" for name in class_names for stem in stems))
    files |= {f"test/{class_names[0]}/t.png": png(999)} if splits else {}
    assert round_trip(write_tree(tmp_path / "x", files), tmp_path, **options) == files


def test_what_begins_with_a_dash_is_no_option_when_it_is_packed_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = class_tree(tmp_path / "x", {"a": 12})
    options = SourceOptions(group_by=r"-?\d(\d)")
    first = pack(source, tmp_path / "first", source=options, val_split=0.3)
    monkeypatch.chdir(tmp_path)
    unpacked = unpack(first, "-tree", engine=ENGINE)
    assert dataset_files(again(unpacked.pack_again, tmp_path / "second")) == dataset_files(first)


def test_splits_of_the_source_stay_though_another_dataset_pins_some(tmp_path: Path) -> None:
    files = images(*(f"{('train', 'test')[n % 2]}/a/{n}.jpg" for n in range(24)))
    few = dict(list(files.items())[:12])
    old = pack(write_tree(tmp_path / "old", few), tmp_path / "out")
    round_trip(write_tree(tmp_path / "x", files), tmp_path, split_from=str(old), val_split=0.2)


def test_the_same_files_from_a_folder_of_another_name_are_packed_already(
    one: Path, tmp_path: Path
) -> None:
    before = files_of(one)
    unpacked = unpack(one, tmp_path / "tree", engine=ENGINE)
    assert again(unpacked.pack_again, tmp_path / "out") == one
    assert files_of(one) == before


def test_an_image_with_the_name_of_the_manifest_is_not_overwritten(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "x", {"manifest.csv": jpeg(1), "b.jpg": jpeg(2)})
    (tmp_path / "rows.csv").write_text("file,label\nmanifest.csv,a\nb.jpg,b\n")
    options = SourceOptions(images=str(source))
    restored = round_trip(tmp_path / "rows.csv", tmp_path, source=options, name="x")
    assert restored["manifest.csv"] == jpeg(1)
    assert restored["_manifest.csv"].startswith(b"filename,label\n")


# What comes back


def test_the_tree_comes_back_byte_for_byte(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"rose": 4, "tulip": 4})
    write_tree(source, {"rose/deep/er/caf\u00e9.png": png(50), "tulip/ a b .jpg": jpeg(51)})
    (source / os.fsdecode(b"rose/caf\xe9.jpg")).write_bytes(jpeg(52))
    folder = pack(source, tmp_path / "out", val_split=0.25)
    unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert files_of(tmp_path / "tree") == files_of(source)
    assert (unpacked.images, unpacked.path) == (11, str(tmp_path / "tree"))
    assert unpacked.bytes == sum(map(len, files_of(source).values()))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "tree", "x"]


def test_transcoded_images_come_back_as_png_and_verify_against_the_dataset(tmp_path: Path) -> None:
    files = {"a/0.jpg": jpeg(0), "a/1.gif": encode(picture(9), "GIF"), "a/2.jpg": b""}
    folder = pack(write_tree(tmp_path / "x", files), tmp_path / "out", max_bad=0.5)
    unpacked = unpack(folder, tmp_path / "tree", engine=ENGINE)
    assert (tmp_path / "tree/a/1.gif").read_bytes().startswith(b"\x89PNG")
    assert (unpacked.transcoded, unpacked.skipped) == (1, 1)
    assert faults_of(folder, source=tmp_path / "tree") == []
    second = again(unpacked.pack_again, tmp_path / "second")
    before, after = (
        {record["filename"]: record["image"] for record in read_shard(each / SHARD)}
        for each in (folder, second)
    )
    assert before == after


def test_skipped_files_are_noted_as_splits_depend_on_them(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"a": 12})
    (source / "a/003.jpg").write_bytes(jpeg(3)[:-200])
    folder = pack(source, tmp_path / "out", val_split=0.3)
    [note] = unpack(folder, tmp_path / "tree", engine=ENGINE).notes
    assert note.startswith("without the files that were skipped, images may get into other splits")


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
    folder = pack(write_tree(tmp_path / "x", SPLITS), tmp_path / "out")
    unpacked = unpack(folder, tmp_path / "tree", split_folders=True, engine=ENGINE)
    assert (files_of(tmp_path / "tree"), unpacked.notes) == (SPLITS, ())


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


def test_records_without_names_get_paths_of_split_class_and_number(tmp_path: Path) -> None:
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
    assert sorted(found.values()) == sorted(files_of(source).values())
    assert {name.rpartition("/")[0] for name in found} == {"train/a", "train/b", "val/a", "val/b"}
    assert {name.rpartition("/")[2] for name in found} == {f"{n:06d}.jpg" for n in range(5)}
    assert list(unpacked.pack_again[2:]) == [str(tmp_path / "tree"), "--name", "x"]


# Hostile names


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


@pytest.mark.parametrize("wanted", [*([name] for name in HOSTILE), [*HOSTILE]])
def test_names_that_are_no_files_below_the_folder_are_refused_all_at_once(
    tmp_path: Path, wanted: list[bytes]
) -> None:
    folder = named(tmp_path, [b"good.jpg", *wanted])
    with pytest.raises(DatasetError) as caught:
        unpack(folder, tmp_path / "deep" / "tree", engine=ENGINE)
    assert all(HOSTILE[name] in str(caught.value) for name in wanted)
    assert len(str(caught.value)) < 5000
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]


@pytest.mark.parametrize(
    ("wanted", "what"),
    [
        ([b"a.jpg", b"b.jpg", b"a.jpg"], "'a.jpg' is the name of 2 records"),
        ([b"a", b"a/b/c.jpg"], "'a' is a file and a folder"),
    ],
)
def test_names_that_are_no_files_of_their_own_are_refused(
    tmp_path: Path, wanted: list[bytes], what: str
) -> None:
    with pytest.raises(DatasetError, match=what):
        unpack(named(tmp_path, wanted), tmp_path / "tree", engine=ENGINE)


def test_names_that_only_other_systems_merge_are_kept_apart_here(tmp_path: Path) -> None:
    wanted = [b"a.jpg", b"A.jpg", "\u00e9".encode(), "e\u0301".encode(), b"AUX", b"dot.", b"x\\y"]
    folder = named(tmp_path, wanted)
    with NewTree(str(tmp_path / "probe")) as tree:
        system = tree.probe()
    if system != LINUX._replace(most_path_bytes=system.most_path_bytes):
        pytest.skip("this file system merges some")
    unpack(folder, tmp_path / "tree", engine=ENGINE)
    found = set(map(os.fsencode, files_of(tmp_path / "tree")))
    assert found - {b"manifest.csv"} == set(wanted)


@pytest.mark.parametrize(
    ("trait", "pair", "what"),
    [
        ({"folds_case": True}, ("Rose/1.jpg", "rose/2.jpg"), "'Rose' and 'rose' are the same"),
        ({"folds_case": True}, ("a/X.jpg", "a/x.JPG"), "'a/X.jpg' and 'a/x.JPG' are the same"),
        ({"composes": True}, ("\u00e9", "e\u0301"), r"'e\u0301' and '\xe9' are the same name"),
        ({"strips_dots": True}, ("a.", "b"), "'a.' has an end that this file system drops"),
        ({"has_devices": True}, ("c/aux.jpg", "b"), "is a device on this file system"),
        ({"takes_bytes": False}, (os.fsdecode(b"\xe9"), "b"), "is not UTF-8"),
    ],
)
def test_names_that_a_file_system_would_merge_or_change_are_refused_there(
    trait: dict[str, bool], pair: tuple[str, str], what: str
) -> None:
    refuse_bad_paths(pair, LINUX, "x")
    with pytest.raises(DatasetError) as caught:
        refuse_bad_paths(pair, LINUX._replace(**trait), "x")  # type: ignore[arg-type]
    assert what in str(caught.value)


path_text = st.text(st.sampled_from("./ab\\\0\u00e9\udce9~$ \n"), max_size=12)


@examples(60)
@given(wanted=st.lists(path_text, min_size=1, max_size=4))
def test_whatever_the_names_are_nothing_is_written_outside(
    tmp_path_factory: pytest.TempPathFactory, wanted: list[str]
) -> None:
    tmp_path = tmp_path_factory.mktemp("hostile")
    folder = named(tmp_path, [os.fsencode(name) for name in wanted])
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


def test_files_a_thousand_folders_deep_are_unpacked(tmp_path: Path) -> None:
    name = "a/" * 1100 + "x.jpg"
    folder = make_flowers(tmp_path)
    change_records(folder, lambda records: records[0].update(filename=(name.encode(),)))
    (folder / "samples.parquet").unlink()
    target = tmp_path / "tree"
    unpack(folder, target, engine=ENGINE)
    assert os.path.isfile(target / name)
    remove_all(target)  # which pytest itself cannot do
    assert not target.exists()


# The target


def test_what_is_there_already_is_never_overwritten(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tree(tmp_path / "full", {"mine.txt": b"x"})
    (tmp_path / "link").symlink_to("elsewhere")
    for target in ("full", "full/mine.txt", "link"):
        with pytest.raises(UsageError, match="exists already"):
            unpack(one, tmp_path / target, engine=ENGINE)
    assert files_of(tmp_path / "full") == {"mine.txt": b"x"}
    assert not (tmp_path / "elsewhere").exists()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    with pytest.raises(UsageError, match="is the current folder"):
        unpack(one, ".", engine=ENGINE)


def test_an_empty_folder_and_a_link_to_one_are_filled(one: Path, tmp_path: Path) -> None:
    for name in ("empty", "real"):
        (tmp_path / name).mkdir(mode=0o700)
    (tmp_path / "link").symlink_to("real")
    for target, filled in (("empty", "empty"), ("link", "real")):
        unpack(one, tmp_path / target, engine=ENGINE)
        assert files_of(tmp_path / filled) == files_of(tmp_path / "x")
        assert stat.S_IMODE((tmp_path / filled).stat().st_mode) == 0o700


def test_a_damaged_dataset_leaves_nothing_behind(one: Path, tmp_path: Path) -> None:
    change(one / SHARD, -100)
    with pytest.raises(imgrec.CorruptRecord, match="wrong checksum of a record at byte"):
        unpack(one, tmp_path / "deep" / "tree", engine=ENGINE)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]


def test_what_an_interrupted_run_left_is_removed_but_other_hidden_folders_stay(
    one: Path, tmp_path: Path
) -> None:
    write_tree(tmp_path / ".tree.incomplete", {"a/precious.txt": b"x"})
    write_tree(tmp_path / ".tree.imgrec-unpack", {"a/half.jpg": b"x"})
    (tmp_path / ".tree.imgrec-unpack" / "link").symlink_to(tmp_path / "x")
    unpack(one, tmp_path / "tree", engine=ENGINE)
    assert files_of(tmp_path / "tree") == files_of(tmp_path / "x") != {}
    assert files_of(tmp_path / ".tree.incomplete") == {"a/precious.txt": b"x"}


def test_two_runs_do_not_unpack_to_one_folder(one: Path, tmp_path: Path) -> None:
    with (
        NewTree(str(tmp_path / "tree")),
        pytest.raises(imgrec.ExecutionError, match="another run is writing"),
    ):
        unpack(one, tmp_path / "tree", engine=ENGINE)


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = pack(class_tree(tmp_path / "x", {"a": 30}), tmp_path / "out")
    limited = (
        "import resource, signal, sys; from imgrec.api import unpack; from inline import ENGINE\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (700, 700))\n"
        "unpack(sys.argv[1], sys.argv[2], engine=ENGINE)\n"
    )
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'tests/support'}"}
    done = subprocess.run(
        [sys.executable, "-c", limited, folder, tmp_path / "tree"],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert "File too large" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "x"]


# The command


def test_the_command_prints_what_it_did(cli: Cli, tmp_path: Path) -> None:
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
    assert (value["images"], value["path"]) == (2, str(tmp_path / "other"))


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


def test_class_folders_in_a_folder_named_like_a_format_are_not_taken_for_it(tmp_path: Path) -> None:
    files = {f"CIFAR/{name}.jpg": jpeg(at) for at, name in enumerate(("a/1", "a/2", "b/1"))}
    source = write_tree(tmp_path / "x", {**files, "beside.dat": b""})
    unpacked = unpack(pack(source, tmp_path / "out"), tmp_path / "tree", engine=ENGINE)
    assert unpacked.notes == ()
