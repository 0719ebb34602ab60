"""`imgrec doctor`, against the real TFDS: each cause makes it fail, each printed line works."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest
from conftest import ROOT, Cli
from damage import edit_json, make_flowers
from hypothesis import example, given
from hypothesis import strategies as st
from inline import pack, read_shard, write_shard
from pictures import class_tree, encode, jpeg, picture, write_tree

import imgrec
from imgrec.inspect.dataset_folders import snake_case
from imgrec.inspect.doctor import Diagnosis, Environment, diagnose, look_around, parse_call
from imgrec.layout import default_data_dir

TRAIN = "flowers-train.tfrecord-00000-of-00001"
TRIED = """
import json, os, sys, traceback
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import tensorflow_datasets as tfds
import imgrec

def count(code):
    names = {"tfds": tfds, "imgrec": imgrec}
    try:
        if "\\n" in code:
            exec(code, names)
            return sum(1 for _ in names["data"])
        return sum(1 for _ in eval(code, names))
    except BaseException as error:
        return f"{type(error).__name__}: {error}"[:500]

tried = json.load(sys.stdin)
json.dump({name: [count(code) for code in codes] for name, codes in tried.items()}, sys.stdout)
"""


class Asked(NamedTuple):
    """What fails, what doctor is asked, and what it should say."""

    cause: str
    """Of the first finding."""
    said: str
    """A part of what is said of it."""
    asked: str = "flowers"
    below: str = ""
    """The data directory that is given, below the one that holds the dataset."""
    records: int = 9
    """How many the printed line reads; 0 if there is no such line."""
    fails: bool = True
    """Whether TFDS says that something is wrong."""


def grey_with_a_bmp(folder: Path) -> None:
    def edit(value: dict[str, object]) -> None:
        image = value["featuresDict"]["features"]["image"]["image"]  # type: ignore[index]
        image["shape"]["dimensions"] = ["-1", "-1", "1"]

    edit_json(folder / "features.json", edit)
    records = read_shard(folder / TRAIN)
    records[-1]["image"] = (encode(picture(1, "L"), "BMP"),)
    write_shard(folder / TRAIN, records)


def nothing(_folder: Path) -> None:
    pass


def move(to: str) -> Callable[[Path], None]:
    def moved(folder: Path) -> None:
        aside = folder.rename(folder.parents[1] / "aside")
        shutil.rmtree(folder.parent)
        target = folder.parents[1] / to
        target.parent.mkdir(parents=True, exist_ok=True)
        aside.rename(target)

    return moved


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def write(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda folder: (folder / name).write_bytes(data) and None


def squeeze(how: Callable[[bytes], bytes]) -> Callable[[Path], None]:
    def squeezed(folder: Path) -> None:
        for path in folder.glob("*-of-00001"):
            path.write_bytes(how(path.read_bytes()))

    return squeezed


def with_info(**changes: object) -> Callable[[Path], None]:
    return lambda folder: edit_json(folder / "dataset_info.json", lambda v: v.update(changes))


def train_of(*lengths: str) -> Callable[[Path], None]:
    def changed(folder: Path) -> None:
        def edit(value: dict[str, object]) -> None:
            value["splits"][0]["shardLengths"] = list(lengths)  # type: ignore[index]

        edit_json(folder / "dataset_info.json", edit)

    return changed


def one_feature_more(folder: Path) -> None:
    def edit(value: dict[str, object]) -> None:
        features = value["featuresDict"]["features"]  # type: ignore[index]
        features["more"] = features["filename"]

    edit_json(folder / "features.json", edit)


def cut(folder: Path) -> None:
    path = folder / TRAIN
    path.write_bytes(path.read_bytes()[:-30])


def packed_compressed(folder: Path) -> None:
    source = class_tree(folder.parents[1] / "source", {"rose": 5, "tulip": 5})
    shutil.rmtree(folder)
    pack(source, folder.parents[1], name="flowers", compression="gzip")
    shutil.rmtree(source)


CASES: dict[str, tuple[Callable[[Path], None], Asked]] = {
    "version folder as data_dir": (
        nothing, Asked("data_dir", "is the version's own folder", below="flowers/1.0.0"),
    ),
    "dataset folder as data_dir": (
        nothing, Asked("data_dir", "is the dataset's own folder", below="flowers"),
    ),
    "parent as data_dir": (
        move("inner/flowers/1.0.0"), Asked("data_dir", "is above the folder that holds flowers"),
    ),
    "hyphen": (
        move("my-flowers/1.0.0"),
        Asked("name", "'my-flowers' is not a name for TFDS: names", "my-flowers"),
    ),
    "capitals": (
        move("MyFlow/1.0.0"),
        Asked("name", "TFDS never looks into a folder called MyFlow: it looks for m", "MyFlow"),
    ),
    "digit in front": (move("1lily/1.0.0"), Asked("name", "'1lily' is not a name for ", "1lily")),
    "catalogue": (
        move("cifar10/1.0.0"), Asked("catalogue", "TFDS has its own cifar10", "cifar10"),
    ),
    "other version": (
        nothing, Asked("version", "there is no version 2.0.0 of flowers", "flowers:2.0.0"),
    ),
    "no version folder": (
        move("flowers"), Asked("version folder", "TFDS looks for flowers/1.0.0"),
    ),
    "v1": (move("flowers/v1"), Asked("version folder", "v1 is not a version: TFDS looks for ")),
    "zeros in front": (move("flowers/01.0.0"), Asked("version folder", "01.0.0 is not a version")),
    "config not given": (
        lambda folder: (
            with_info(configName="small")(folder),
            move("flowers/small/1.0.0")(folder),
        )[0],
        Asked("config", "flowers has configs, such as small"),
    ),
    "no features": (
        without("features.json"), Asked("missing metadata", "it has no features.json", records=13),
    ),
    "no info": (
        without("dataset_info.json"),
        Asked("missing metadata", "it has no dataset_info.json", records=13),
    ),
    "neither": (
        lambda folder: (without("features.json")(folder), without("dataset_info.json")(folder))[0],
        Asked("missing metadata", "it has no dataset_info.json and no features.json", records=13),
    ),
    "unknown key": (
        with_info(extra=1), Asked("wrong metadata", "does not know the key 'extra'", records=13),
    ),
    "info is no JSON": (
        write("dataset_info.json", b"{"), Asked("wrong metadata", "is not JSON", records=13),
    ),
    "info without version": (
        with_info(version=""), Asked("wrong metadata", "is not three numbers", records=13),
    ),
    "features are none": (
        write("features.json", b"{}"),
        Asked("wrong metadata", "the file is not a FeaturesDict of TFDS", records=13),
    ),
    "other features": (
        one_feature_more, Asked("wrong metadata", "records have no 'more'", records=13),
    ),
    "too few labels": (
        write("label.labels.txt", b"rose\n"),
        Asked("labels", "expected 2 classes (features.json), found 1", fails=False),
    ),
    "too many labels": (
        write("label.labels.txt", b"rose\ntulip\nlily\n"),
        Asked("labels", "expected 2 classes (features.json), found 3", fails=False),
    ),
    "gzip'd": (
        squeeze(gzip.compress), Asked("compressed", "gzip-compressed, which TFDS", records=13),
    ),
    "zlib'd": (
        squeeze(zlib.compress), Asked("compressed", "zlib-compressed, which TFDS", records=13),
    ),
    "packed with --compression": (
        packed_compressed, Asked("compressed", "it was packed with --compression gzip", records=10),
    ),
    "missing shard": (
        without(TRAIN), Asked("missing shards", f"{TRAIN} is missing", records=4),
    ),
    "other name in info": (
        with_info(name="petals"),
        Asked("missing shards", "TFDS looks for petals-train.tfrecord-00000-of-00001", records=0),
    ),
    "empty split": (
        train_of("0"), Asked("empty split", "the split train is empty", records=4),
    ),
    "too short a count": (train_of("3"), Asked("damaged", "found 9", records=4)),
    "too long a count": (train_of("300"), Asked("damaged", "found 9", records=4)),
    "truncated shard": (cut, Asked("damaged", "truncated record", records=4)),
    "empty shard": (write(TRAIN, b""), Asked("damaged", "the file is empty", records=4)),
    "no TFRecord": (write(TRAIN, b"x" * 99), Asked("damaged", "not a TFRecord file", records=4)),
    "cut off": (
        move("flowers/.1.0.0.incomplete"), Asked("cut off", "a pack was cut off", records=0),
    ),
    "cut off by TFDS": (
        move("flowers/1.0.0.incompleteA1B2C3"), Asked("cut off", "a pack was cut off", records=0),
    ),
    "elsewhere": (
        move("../elsewhere/flowers/1.0.0"), Asked("data_dir", "TFDS looks in ", records=9),
    ),
    "BMP of one channel": (
        grey_with_a_bmp,
        Asked("wrong metadata", "is a BMP, which TensorFlow does not decode to 1 c", records=13),
    ),
    "nothing": (shutil.rmtree, Asked("nothing", "no dataset flowers in ", records=0)),
}  # fmt: skip


def look(asked: str, data_dir: Path | str = "") -> Diagnosis:
    here = replace(look_around_once(), default_data_dir=str(default_data_dir()))
    return diagnose(asked, str(data_dir), here)


@cache
def look_around_once() -> Environment:
    return look_around(tries=False)


def lines_of(found: Diagnosis) -> list[str]:
    return [line for case in found.cases for line in (case.load, case.code) if line]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_flowers(tmp_path_factory.mktemp("base")).parents[1]


def test_each_cause_is_named_makes_tfds_fail_and_the_printed_line_works(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One test, as TFDS is imported once for all cases, in a process of its own."""
    found, tried = {}, {}
    for number, (name, (spoil, asked)) in enumerate(CASES.items()):
        place = tmp_path / str(number)
        root = place / "data"
        shutil.copytree(base, root)
        monkeypatch.setenv("TFDS_DATA_DIR", str(place / "default"))
        monkeypatch.chdir(place)
        spoil(root / "flowers/1.0.0")
        found[name] = look(asked.asked, root / asked.below)
        where = str(root / asked.below)
        call = f"tfds.load({asked.asked!r}, split='train', data_dir={where!r}, download=False)"
        tried[name] = [call, *lines_of(found[name])]
    done = subprocess.run(
        [sys.executable, "-c", TRIED], input=json.dumps(tried), text=True, capture_output=True,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TFDS_DATA_DIR": "/nowhere"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for name, (failed, *works) in json.loads(done.stdout).items():
        asked, diagnosis = CASES[name][1], found[name]
        findings = [
            *diagnosis.findings, *(one for case in diagnosis.cases for one in case.findings),
        ]  # fmt: skip
        assert findings, name
        assert (findings[0].cause, asked.said in findings[0].what) == (asked.cause, True), findings
        assert not diagnosis.is_healthy, name
        assert isinstance(failed, str) is asked.fails, (name, failed)
        assert works == ([asked.records] if asked.records else []), (name, works)


def test_a_good_dataset_is_healthy_by_name_and_by_path_at_any_level(base: Path) -> None:
    for asked, root in (
        ("flowers", base), ("flowers:1.0.0", base), (str(base), ""), (str(base / "flowers"), ""),
        (str(base / "flowers/1.0.0"), ""), ("Flowers", base),
    ):  # fmt: skip
        found = look(asked, root)
        assert found.is_healthy, (asked, found)
        assert [case.load for case in found.cases] == [
            f'tfds.load("flowers", split="train", as_supervised=True, data_dir={str(base)!r})'
        ]


def test_half_a_dataset_copied_from_a_store_is_one_that_was_cut_off(
    base: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(base, root)
    for name in ("dataset_info.json", "features.json"):
        (root / "flowers/1.0.0" / name).unlink()
    write_tree(root / "flowers/.1.0.0.incomplete", {"notes/run": b"{}"})
    (case,) = look(str(root / "flowers")).cases
    assert [finding.cause for finding in case.findings] == ["cut off"]
    with pytest.raises(
        imgrec.DatasetNotFound, match=r"interrupted: .*incomplete|right now"
    ) as caught:
        imgrec.info(root / "flowers")
    assert "write_metadata" not in caught.value.hint


def test_without_a_name_all_datasets_of_the_data_directory_are_looked_at(
    base: Path, tmp_path: Path
) -> None:
    root = tmp_path / "data"
    shutil.copytree(base, root)
    shutil.copytree(base / "flowers", root / "petals")
    (root / "petals/1.0.0" / TRAIN).unlink()
    found = look("", root)
    assert [(Path(case.path).parent.name, len(case.findings)) for case in found.cases] == [
        ("flowers", 0), ("petals", 1),
    ]  # fmt: skip
    assert not look("", tmp_path / "no such folder").is_healthy


def test_a_pack_that_is_running_is_told_from_one_that_was_cut_off(tmp_path: Path) -> None:
    from imgrec.storage.staging import Staging

    with Staging(tmp_path / "flowers/1.0.0"):
        assert [one.cause for one in look("flowers", tmp_path).findings] == ["running"]


@given(st.from_regex(r"[A-Za-z][A-Za-z0-9_]{0,12}", fullmatch=True))
@example("MyMNIST2Set")
def test_names_are_changed_as_tfds_changes_them(name: str) -> None:
    from tensorflow_datasets.core import naming

    assert snake_case(name) == naming.camelcase_to_snakecase(name)


@given(st.text("aZ1_-:/.*+ é", max_size=12))
@example("flowers/small:1.0.0")
@example("flowers:1.*.*")
def test_names_are_parsed_as_tfds_parses_them(text: str) -> None:
    from tensorflow_datasets.core import naming

    try:
        parsed, _ = naming.parse_builder_name_kwargs(text)
    except ValueError:
        assert parse_call(text).name == ""
    else:
        assert parse_call(text).name == snake_case(parsed.name)


def foreign(folder: Path, files: int = 2) -> Path:
    """Write TFRecords as other programs do, with features that differ between records."""
    folder.mkdir()
    for number in range(files):
        records: list[dict[str, object]] = []
        for place in range(5):
            record: dict[str, object] = {
                "image": (jpeg(place),), "height": (16,), "bbox": (0.1, 0.2, 0.3, 0.4),
                "tags": tuple(range(place)), "name": (f"file {place}".encode(),),
            }  # fmt: skip
            if place % 2:
                record["seldom"] = (7,)
            records.append(record)
        write_shard(folder / f"train-{number:05d}-of-{files:05d}", records)  # type: ignore[arg-type]
    return folder


def run_code(code: str, more: str) -> object:
    """Run code that was printed, and return what comes of some more."""
    names: dict[str, object] = {}
    exec(code, names)
    return eval(more, names)


@pytest.mark.parametrize("compression", ["", "gzip", "zlib"])
def test_foreign_tfrecords_are_described_and_the_code_reads_them(
    tmp_path: Path, compression: str
) -> None:
    folder = foreign(tmp_path / "their [records]", 5 if not compression else 2)
    if compression:
        squeeze_all = {"gzip": gzip.compress, "zlib": zlib.compress}[compression]
        for path in folder.glob("train-*[0-9]"):
            path.write_bytes(squeeze_all(path.read_bytes()))
    (case,) = look(str(folder)).cases
    assert [one.cause for one in case.findings] == ["missing metadata"]
    contents = case.contents
    assert contents is not None
    count = 5 * len(contents.files)
    assert (contents.records, contents.compression, contents.fault) == (count, compression, "")
    assert contents.is_all
    facts = {
        one.name: (one.kind, one.counts.least, one.counts.most, one.records)
        for one in contents.features
    }
    assert facts == {
        "bbox": ("float", 4, 4, count), "height": ("int64", 1, 1, count),
        "image": ("bytes", 1, 1, count), "name": ("bytes", 1, 1, count),
        "seldom": ("int64", 1, 1, count * 2 // 5), "tags": ("int64", 0, 4, count),
    }  # fmt: skip
    assert (contents.images, contents.bad_images) == (min(count, 20), 0)
    shown = {one.name: one.shown for one in contents.features}
    assert shown["image"].startswith(f"{count} JPEG; ")
    assert shown["name"] == "such as 'file 0'; 6 bytes"
    assert shown["height"] == "16"
    rows = run_code(
        case.code, "[(r['name'], len(r['tags']), len(r['seldom']), r['bbox'].shape)"
        " for r in data.as_numpy_iterator()]"
    )  # fmt: skip
    assert isinstance(rows, list)
    assert len(rows) == count
    assert rows[:2] == [(b"file 0", 0, 0, (4,)), (b"file 1", 1, 1, (4,))]


def test_many_foreign_files_are_read_by_a_pattern_and_one_by_its_path(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "theirs", 5)
    (case,) = look(str(folder)).cases
    # The index beside each file has a name that ends otherwise.
    assert f"sorted(tf.io.gfile.glob({str(folder / '*-of-?????')!r}))" in case.code
    assert run_code(case.code, "sum(1 for _ in data)") == 25
    found = look(str(folder / "train-00000-of-00005"))
    assert [one.cause for one in found.findings] == ["file"]
    assert run_code(found.cases[0].code, "sum(1 for _ in data)") == 5


def test_bad_images_and_damage_in_foreign_records_are_told(tmp_path: Path) -> None:
    folder = foreign(tmp_path / "theirs", 1)
    path = folder / "train-00000-of-00001"
    records = read_shard(path)
    records[0]["image"] = (jpeg(1)[:200],)
    records[1]["image"] = (encode(picture(1), "GIF"),)
    write_shard(path, records)
    path.write_bytes(path.read_bytes()[:-9])
    (case,) = look(str(folder)).cases
    assert case.contents is not None
    assert (case.contents.images, case.contents.bad_images) == (4, 1)
    assert "byte" in case.contents.fault


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0" * 5000,
        b"\xff" * 5000,
        gzip.compress(b"x" * 99, mtime=0),
        zlib.compress(b""),
        None,
    ],
)
def test_files_that_are_no_tfrecords_are_reported(tmp_path: Path, data: bytes | None) -> None:
    if data is None:
        os.mkfifo(tmp_path / "a.tfrecord")  # which must not be waited for
    else:
        (tmp_path / "a.tfrecord").write_bytes(data)
    (case,) = look(str(tmp_path)).cases
    assert case.contents is not None
    what = "cannot be read: not a regular file" if data is None else "is not a TFRecord file"
    assert case.contents.fault == f"a.tfrecord: the file {what}"
    assert (case.load, case.code) == ("", "")


def test_importing_is_tried_elsewhere_and_never_from_the_current_folder(
    tmp_path: Path, cli: Cli
) -> None:
    (tmp_path / "tensorflow.py").write_text("open('ran', 'w')")
    done = cli("doctor", "--quick")
    assert done.returncode == 1
    assert "fault       a script in this folder imports tensorflow.py instead of" in done.stdout
    assert not (tmp_path / "ran").exists()


def test_doctor_itself_never_imports_tensorflow(base: Path) -> None:
    code = (
        "import sys; from imgrec.cli.main import main; "
        f"main(['doctor', 'flowers', '--data-dir', {str(base)!r}, '--quick']); "
        "assert not {'tensorflow', 'tensorflow_datasets'} & sys.modules.keys()"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], env=environment, check=True)


def test_a_package_that_cannot_be_imported_is_a_fault(tmp_path: Path, cli: Cli) -> None:
    """A package that is broken, and one that ends Python, as TensorFlow does on an old CPU."""
    broken = tmp_path / "site"
    (broken / "tensorflow").mkdir(parents=True)
    (broken / "tensorflow/__init__.py").write_text("import os; os.kill(os.getpid(), 4)")
    (broken / "tensorflow_datasets.py").write_text("import missing")
    environment = {**os.environ, "PYTHONPATH": f"{broken}:{ROOT}", "TFDS_DATA_DIR": str(tmp_path)}
    done = cli("doctor", "--json", env=environment)
    value = json.loads(done.stdout)
    assert done.returncode == 1
    assert [fault["what"] for fault in value["faults"]] == [
        "tensorflow_datasets cannot be imported: ModuleNotFoundError: No module named 'missing'",
        "tensorflow cannot be imported: importing it ends Python with code -4",
    ]


def test_the_real_packages_are_importable_and_their_versions_are_shown(
    cli: Cli, base: Path
) -> None:
    done = cli("doctor", "flowers", "--data-dir", base, "--json")
    assert done.returncode == 0, done.stdout
    packages = json.loads(done.stdout)["packages"]
    assert all(one["version"] and not one["fault"] for one in packages.values())
    assert set(packages) == {"tensorflow_datasets", "tensorflow", "PIL"}


def test_people_get_the_fault_the_fix_and_the_line(cli: Cli, base: Path) -> None:
    done = cli("doctor", "flowers", "--data-dir", base / "flowers", "--quick")
    assert done.returncode == 1
    assert done.stdout.splitlines()[-6:] == [
        f"fault       data_dir {base}/flowers is the dataset's own folder",
        f"  fix       give the folder that holds flowers: {base}",
        "",
        "flowers 1.0.0: ok (9 train, 4 val)",
        f"path        {base}/flowers/1.0.0",
        f'load        tfds.load("flowers", split="train", as_supervised=True, data_dir=\'{base}\')',
    ]
    assert done.stderr == ""


def test_people_get_what_is_inside_and_code_to_copy(cli: Cli, tmp_path: Path) -> None:
    folder = foreign(tmp_path / "theirs")
    lines = cli("doctor", folder, "--quick").stdout.splitlines()
    start = next(n for n, line in enumerate(lines) if line.startswith("inside"))
    assert lines[start].startswith("inside      10 records in 2 files, ")
    assert lines[start + 1].split()[:2] == ["bbox", "float[4]"]
    assert "images      10 of the first 10 decode" in lines
    assert lines[lines.index("import tensorflow as tf") + 1].startswith("files = [")


def test_hostile_names_in_records_stay_text(cli: Cli, tmp_path: Path) -> None:
    folder = tmp_path / "x"
    folder.mkdir()
    write_shard(folder / "a.tfrecord", [{"image": (b"\x1b[31m",), "\x1b]0;t": (b"\x1b[2J",)}])
    done = cli("doctor", folder, "--quick")
    assert "\x1b" not in done.stdout
    assert run_code(look(str(folder)).cases[0].code, "sum(1 for _ in data)") == 1


@pytest.fixture
def odd(cli: Cli, tmp_path: Path) -> Path:
    """A folder of images, `odd`, beside a dataset of that name."""
    source = write_tree(tmp_path / "odd", {"a/0.jpg": jpeg(0), "b/1.jpg": jpeg(1)})
    assert cli("pack", source).returncode == 0
    return source


def test_a_name_is_found_in_the_data_directory_though_a_folder_here_is_called_so(
    cli: Cli, odd: Path, data_dir: Path
) -> None:
    for place in (data_dir, data_dir / "odd"):
        done = cli("doctor", "odd", "--data-dir", place, "--quick", "--json")
        (case,) = json.loads(done.stdout)["datasets"]
        assert case["path"] == str(data_dir / "odd" / "1.0.0")
    assert odd.exists()


def test_a_folder_of_images_is_said_to_be_one_to_pack(cli: Cli, odd: Path) -> None:
    assert odd.exists()
    done = cli("doctor", "./odd", "--quick", "--json")
    (finding,) = json.loads(done.stdout)["faults"]
    assert (done.returncode, finding["what"], finding["fix"]) == (
        1,
        "./odd holds images that are not packed yet",
        "imgrec pack ./odd",
    )


def test_plain_tfrecords_have_a_headline(cli: Cli, odd: Path, data_dir: Path) -> None:
    tfr = odd.parent / "tfr"
    tfr.mkdir()
    shard = next((data_dir / "odd" / "1.0.0").glob("*-of-00001"))
    shutil.copy(shard, tfr / "mine.tfrecord")
    assert "tfr: plain TFRecords" in cli("doctor", "tfr", "--quick").stdout.splitlines()


def test_a_folder_that_is_not_there_is_a_fault(cli: Cli) -> None:
    for arguments in (("--data-dir", "nope"), ("./nope",)):
        done = cli("doctor", *arguments, "--quick", "--json")
        (finding,) = json.loads(done.stdout)["faults"]
        assert (done.returncode, finding["what"].endswith("nope does not exist")) == (1, True)
