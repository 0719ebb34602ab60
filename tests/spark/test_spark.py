"""Spark: an engine, a source and a reader, on a real session and a real cluster."""

from __future__ import annotations

import csv
import itertools
import json
import math
import os
import re
import runpy
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import inline
import numpy as np
import pytest
import tasks
from conftest import ROOT, Cli
from pictures import class_tree, encode, jpeg, picture, png, write_tree
from PIL import Image
from stores import Store
from waiting import wait_for

import imgrec
from imgrec.engine.local import LocalEngine
from imgrec.engine.spark import zipped
from imgrec.errors import (
    BadImage,
    DatasetError,
    DatasetExists,
    ExecutionError,
    MissingExtra,
    PlanError,
    SourceError,
    UsageError,
)
from imgrec.options import ColumnOption, OnLeak, PackOptions, SourceOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore::FutureWarning"),  # pandas is newer than PySpark
    pytest.mark.skipif(not shutil.which("java"), reason="Java is not installed"),
]
pytest.importorskip("pyspark", reason="PySpark is not installed")

SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.driver.memory": "512m",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.shuffle.partitions": "2",
    # Nothing here runs long enough for the best machine code to be worth its making.
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
ITS_OWN = {"report.json", "SHA256SUMS"}
"""Files that tell what the source was, and so differ between a folder and a DataFrame."""


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for key, value in SETTINGS.items():
        builder = builder.config(key, value)
    builder = builder.config("spark.local.dir", str(tmp_path_factory.mktemp("spark")))
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    session.sparkContext.addPyFile(str(ROOT / "tests/support/tasks.py"))
    yield session
    session.stop()


@pytest.fixture(scope="session")
def engine(spark: SparkSession) -> Any:
    from imgrec.spark import SparkEngine

    return SparkEngine(spark)


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three classes, with copies in them and between them, other formats, and damage."""
    root = class_tree(tmp_path_factory.mktemp("source") / "flowers", {"rose": 30, "tulip": 20})
    big = encode(picture(200, size=(200, 150)), "PNG")
    assert len(big) > 4096
    return write_tree(
        root,
        {
            "daisy/a.png": png(100),
            "daisy/b.webp": encode(picture(101), "WEBP"),
            "daisy/c.png": big,
            "daisy/d.png": big + b"not the same",
            "rose/copy.jpg": (root / "rose/000.jpg").read_bytes(),
            "tulip/copy.jpg": (root / "rose/000.jpg").read_bytes(),
            "tulip/copy of c.png": big,
            "tulip/half.jpg": jpeg(7)[:400],
            "tulip/text.jpg": b"no image",
        },
    )


def files_of(folder: str | Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(folder).iterdir()}


def assert_same(ours: str | Path, local: str | Path) -> None:
    """All files are equal, and the reports but for what they say of the source."""
    one, other = files_of(ours), files_of(local)
    assert one.keys() == other.keys()
    del one["report.html"], other["report.html"]
    assert [name for name in one if one[name] != other[name] and name not in ITS_OWN] == []
    reports = [json.loads(files["report.json"]) for files in (one, other)]
    for report in reports:
        for key in ("layout", "layout_facts", "source"):
            report.pop(key)
        for key in (
            "images",
            "split_col",
            "group_col",
            "columns",
            "label_col",
        ):  # a table has them, not options
            report["options"].pop(key, None)
    assert reports[0] == reports[1]


# The engine.


def test_every_task_is_done_once(engine: Any) -> None:
    assert sorted(engine.run(tasks.double, range(30))) == [2 * n for n in range(30)]
    assert list(engine.run(tasks.double, [])) == []


def test_an_error_of_a_task_arrives_as_it_was_raised(engine: Any) -> None:
    with pytest.raises(BadImage) as caught:
        list(engine.run(tasks.raise_ours, range(3)))
    assert (str(caught.value), caught.value.hint, caught.value.path) == ("what", "do", "where")


def test_any_other_exception_says_where(engine: Any) -> None:
    with pytest.raises(ExecutionError, match=r"KeyError: 'x' .*tasks\.py:\d+"):
        list(engine.run(tasks.raise_other, [1]))


def test_a_worker_that_dies_is_one_sentence(engine: Any) -> None:
    with pytest.raises(ExecutionError) as caught:
        list(engine.run(tasks.kill_itself, [5]))
    assert "Python worker exited unexpectedly" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.processes
def test_spark_packs_the_same_bytes_as_processes_do(
    engine: Any, flowers: Path, tmp_path: Path
) -> None:
    packed = []
    with LocalEngine(2) as processes:
        for name, one in (("spark", engine), ("local", processes)):
            options = PackOptions(data_dir=str(tmp_path / name), val_split=0.2, shards=5)
            packed.append(imgrec.pack(flowers, options, engine=one).info.path)
    assert files_of(packed[0]) == files_of(packed[1])
    assert not list(tmp_path.rglob("*.part"))


def test_classes_keep_the_labels_of_an_earlier_dataset(engine: Any, tmp_path: Path) -> None:
    old = class_tree(tmp_path / "old", {"b": 2, "c": 2})
    imgrec.pack(old, PackOptions(data_dir=str(tmp_path / "data"), name="x"), engine=engine)
    new = class_tree(tmp_path / "new", {"a": 2, "c": 2})
    options = PackOptions(
        data_dir=str(tmp_path / "data"), name="x", version="1.1.0", split_from="x:1.0.0"
    )
    assert imgrec.pack(new, options, engine=engine).info.classes == ("b", "c", "a")


def test_a_shard_that_cannot_be_written_is_our_error_and_leaves_nothing(
    engine: Any, flowers: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "out/flowers/.1.0.0.incomplete/flowers-train.tfrecord-00001-of-00003"
    telling: list[str] = []

    def in_the_way(stage: str, *_: object) -> None:
        telling.append(stage)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "x").touch()

    options = PackOptions(data_dir=str(tmp_path / "out"), shards=3)
    with pytest.raises(ExecutionError, match=r"cannot write .*00001-of-00003: Is a directory"):
        imgrec.pack(flowers, options, engine=engine, on_progress=in_the_way)
    assert "scan" in telling
    assert not (tmp_path / "out/flowers/1.0.0").exists()


def test_two_attempts_at_one_file_do_not_meet(tmp_path: Path) -> None:
    from imgrec.storage.files import create

    path = str(tmp_path / "shard")
    with create(path) as slow:
        slow.write(b"the same ")
        with create(path) as fast:
            fast.write(b"the same bytes")
        assert Path(path).read_bytes() == b"the same bytes"
        slow.write(b"bytes")
    assert files_of(tmp_path) == {"shard": b"the same bytes"}


def test_a_session_that_is_there_is_reused_and_not_stopped(spark: SparkSession) -> None:
    from imgrec.spark import SparkEngine

    with SparkEngine() as one:
        assert list(one.run(tasks.double, [4])) == [8]
    assert spark.range(3).count() == 3
    with pytest.raises(UsageError, match="a Spark session is already running"):
        SparkEngine(spark, master="local[1]")


def test_a_session_of_our_own_starts_with_the_first_task_and_is_stopped(tmp_path: Path) -> None:
    code = (
        "import imgrec; from imgrec.spark import SparkEngine\n"
        "from pyspark.sql import SparkSession\n"
        f"with SparkEngine(master='local[1]', conf={SETTINGS!r}) as engine:\n"
        "    try: imgrec.pack('missing', engine=engine)\n"
        "    except imgrec.SourceError: assert SparkSession.getActiveSession() is None\n"
        "    assert list(engine.run(abs, [-4])) == [4]\n"
        "    assert SparkSession.getActiveSession() is not None\n"
        "assert SparkSession.getActiveSession() is None\n"
        "try: list(engine.run(abs, [1]))\n"
        "except RuntimeError as error: print(error)\n"
    )
    assert run_python(code, tmp_path).stdout == "no Spark session is running\n"


def run_python(code: str, cwd: Path, **more: str) -> subprocess.CompletedProcess[str]:
    """Run code where imgrec can be imported, but not by those whom it starts elsewhere."""
    with start_python(code, cwd, **more) as running:
        out, err = running.communicate(timeout=300)
    assert running.returncode == 0, err
    return subprocess.CompletedProcess(running.args, 0, out, err)


def start_python(code: str, cwd: Path, **more: str) -> subprocess.Popen[str]:
    path = f"import sys; sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\n"
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, **more}
    environment.pop("PYTHONPATH", None)
    return subprocess.Popen(
        [sys.executable, "-c", path + code], cwd=cwd, env=environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
    )  # fmt: skip


def test_importing_imgrec_imports_no_pyspark(tmp_path: Path) -> None:
    code = (
        "import imgrec, imgrec.api, imgrec.cli.main, imgrec.packing.pack, imgrec.spark\n"
        "assert not any(name.startswith('pyspark') for name in sys.modules)\n"
    )
    run_python(code, tmp_path)


def test_what_is_shipped_can_be_imported(tmp_path: Path) -> None:
    (tmp_path / "imgrec.zip").write_bytes(zipped())
    code = (
        "sys.path[:2] = ['imgrec.zip']\n"
        "import imgrec.write.shard as found, imgrec.layout\n"
        "assert 'imgrec.zip' in found.__file__ and 'mnist' in imgrec.layout.tfds_catalogue()\n"
    )
    run_python(code, tmp_path)


def test_without_pyspark_the_pip_command_is_told(tmp_path: Path, flowers: Path) -> None:
    code = (
        "sys.modules['pyspark'] = None\n"
        "from imgrec.cli.main import main\n"
        f"print(main(['pack', {str(flowers)!r}, '--engine', 'spark']))\n"
    )
    done = run_python(code, tmp_path)
    assert done.stdout == "7\n"
    assert "pip install 'imgrec[spark]'" in done.stderr
    assert issubclass(MissingExtra, ImportError)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--spark-master", "local[1]"), "--spark-master and --spark-conf need --engine spark"),
        (
            ("--engine", "spark", "--workers", "2"),
            "--workers cannot be combined with --engine spark",
        ),
        (("--engine", "spark", "--spark-conf", "x"), "'x' is not a setting; write spark.KEY=VALUE"),
    ],
)
def test_options_that_mean_nothing_are_refused(
    cli: Cli, flowers: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = cli("pack", flowers, *arguments)
    assert (done.returncode, said in done.stderr) == (2, True)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("{tmp}/missing",), 3, "missing does not exist"),
        (("{flowers}", "--data-dir", "{flowers}/out"), 2, "is inside the source"),
        (("{flowers}", "--split-from", "older"), 5, "older"),
        (("{flowers}", "--split-file", "none.csv"), 3, "none.csv is not a file"),
        (("{flowers}", "--near-dups", "drop", "--embeddings", "none.npy"), 3, "none.npy"),
        (("local://{tmp}/flowers.zip",), 2, "executors would not see the copy"),
    ],
)
def test_mistakes_are_named_before_a_jvm_starts(
    cli: Cli, flowers: Path, tmp_path: Path, arguments: Any, code: int, said: str
) -> None:
    java = tmp_path / "jdk/bin/java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\ntouch {tmp_path}/started\nexit 1\n")
    java.chmod(0o755)
    shutil.make_archive(str(tmp_path / "flowers"), "zip", flowers)
    own = [argument.format(tmp=tmp_path, flowers=flowers) for argument in arguments]
    places = {"TFDS_DATA_DIR": str(tmp_path / "out"), "JAVA_HOME": str(tmp_path / "jdk")}
    environment = {**os.environ, "PYTHONPATH": str(ROOT), **places}
    done = cli("pack", *own, "--engine", "spark", env=environment)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr
    assert not (tmp_path / "started").exists()
    # Only a source that can be packed starts one.
    cli("pack", flowers, "--engine", "spark", env=environment)
    assert (tmp_path / "started").exists()


# Reading.


def test_a_dataset_is_read_as_a_dataframe_of_a_partition_a_shard(
    spark: SparkSession, flowers: Path, tmp_path: Path
) -> None:
    from imgrec.spark import read

    folder = inline.pack(flowers, tmp_path, val_split=0.2, shards=3)
    rows = read(folder, spark)
    assert rows.columns == [
        "split", "label", "class_name", "filename", "height", "width", "channels", "image",
    ]  # fmt: skip
    expected = [
        (name, r.label, r.class_name, r.filename, *r.shape, r.image)
        for name, split in imgrec.open_dataset(folder).items()
        for r in split
    ]
    found = [(*row[:-1], bytes(row[-1])) for row in rows.collect()]
    assert sorted(found) == sorted(expected)
    assert rows.rdd.getNumPartitions() == 4
    assert read(folder, split="validation").count() == len(imgrec.open_dataset(folder)["val"])


def test_labels_and_columns_of_a_table_are_read_beside_those_of_every_record(
    spark: SparkSession, flowers: Path, tmp_path: Path
) -> None:
    from imgrec.spark import read

    names = sorted(str(path.relative_to(flowers)) for path in flowers.rglob("*.jpg"))[:2]
    manifest = tmp_path / "table.csv"
    manifest.write_text(
        f"file,kinds,height,note\n{names[0]},rose|red,7,first\n{names[1]},red,8,second\n"
    )
    source = SourceOptions(
        images=str(flowers), label_col="kinds", label_sep="|", column=("height:int", "note:text")
    )
    folder = inline.pack(manifest, tmp_path, source=source)
    rows = read(folder, spark).select("filename", "labels", "class_names", "height_", "note")
    assert sorted(map(tuple, rows.collect())) == [
        (names[0], [0, 1], ["red", "rose"], 7, "first"),
        (names[1], [0], ["red"], 8, "second"),
    ]


def test_a_damaged_record_is_not_read(spark: SparkSession, flowers: Path, tmp_path: Path) -> None:
    from imgrec.spark import read

    folder = inline.pack(flowers, tmp_path)
    (shard,) = folder.glob("*.tfrecord-*-of-00001")
    data = bytearray(shard.read_bytes())
    data[5000] ^= 1
    shard.write_bytes(data)
    with pytest.raises(Exception, match="CorruptRecord"):
        read(folder, spark).select("label").collect()


# From DataFrames.


def binary_files(spark: SparkSession, source: Path) -> DataFrame:
    from pyspark.sql import functions as f

    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true")
    return files.load(str(source)).withColumn("label", f.element_at(f.split("path", "/"), -2))


def test_columns_of_other_types_become_numbers_and_text(
    spark: SparkSession, flowers: Path, tmp_path: Path
) -> None:
    from imgrec.spark import pack_dataframe

    where = str(flowers / "rose/000.jpg")
    values = (
        f"SELECT '{where}' AS path, true AS label, CAST(1.50 AS DECIMAL(6,2)) AS price, "
        "false AS flag, DATE'2024-02-29' AS day, CAST(NULL AS TIMESTAMP) AS never, "
        "TIMESTAMP'1969-12-31 23:59:58.25Z' AS at, TIMESTAMP_NTZ'2024-01-02 03:04:05.5' AS seen"
    )
    columns = ["price", "flag", "day", "never", "at", "seen"]
    options = PackOptions(data_dir=str(tmp_path))
    pack_dataframe(spark.sql(values), "x", image="path", columns=columns, options=options)
    (record,) = imgrec.open_dataset("x", data_dir=tmp_path)["train"]
    assert record.class_name == "true"
    assert record.columns == {
        "price": 1.5,
        "flag": "false",
        "day": "2024-02-29",
        "never": "",
        "at": "1969-12-31 23:59:58.250000",
        "seen": "2024-01-02 03:04:05.500000",
    }


@pytest.mark.parametrize("image", ["content", "path"])
def test_binary_files_give_what_a_folder_gives(
    spark: SparkSession, flowers: Path, tmp_path: Path, image: str, monkeypatch: Any
) -> None:
    from imgrec.spark import pack_dataframe

    monkeypatch.setattr("imgrec.spark.plan._BUCKET_ROWS", 8)  # several buckets, as of a large set
    options = {"val_split": 0.2, "test_split": 0.1, "shards": 4, "seed": 3}
    options["thumbnails"] = 300  # all: a folder spends one on a file that is no picture
    wanted = PackOptions(data_dir=str(tmp_path / "spark"), **options)  # type: ignore[arg-type]
    rows = binary_files(spark, flowers)
    packed = pack_dataframe(rows, "flowers", image=image, root=str(flowers), options=wanted)
    local = inline.pack(flowers, tmp_path / "a", near_dups="off", **options)
    assert_same(packed.info.path, local)
    page = page_of(packed.info.path)
    assert page.count("data:image/") > len(imgrec.open_dataset(local)["all"])  # and findings again
    assert page == page_of(local)
    assert [p.name for p in (tmp_path / "spark/flowers").iterdir()] == ["1.0.0"]


def page_of(folder: str | Path) -> str:
    """Return report.html without what it says of the source, which is not the same."""
    text = (Path(folder) / "report.html").read_text()
    page, count = re.subn(r" Layout: [^<]+</p>", "</p>", text)
    assert count == 1
    return page


def test_the_page_of_an_overwritten_dataset_shows_its_own_images(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Workers of Spark outlive a pack, and opened the dataset that was in this place before."""
    from imgrec.spark import pack_dataframe

    for name, images in (("few", {"rose": 2, "tulip": 1}), ("many", {"rose": 12, "tulip": 9})):
        source = class_tree(tmp_path / name, images)
        packed = pack_dataframe(
            binary_files(spark, source), "flowers", root=str(source), overwrite=True,
            data_dir=tmp_path / "out",
        )  # fmt: skip
        local = inline.pack(source, tmp_path / "local", name=name, near_dups="off")
        pictures = [
            re.findall(r"data:image/[^\"]+", page_of(each)) for each in (packed.info.path, local)
        ]
        assert pictures[0] == pictures[1] != []


def test_of_more_images_than_the_driver_can_list_there_is_no_page(
    spark: SparkSession, flowers: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    from imgrec.spark import pack_dataframe

    monkeypatch.setattr("imgrec.spark.shards._MOST_ON_PAGE", 3)
    rows, options = binary_files(spark, flowers), PackOptions(data_dir=str(tmp_path))
    packed = pack_dataframe(rows, "flowers", options=options, root=str(flowers))
    assert not (Path(packed.info.path) / "report.html").exists()
    assert packed.report.warnings == ("no report.html for more than 3 images; run imgrec report",)


def table(flowers: Path, path: Path) -> list[dict[str, Any]]:
    """Write a manifest about the flowers, and return its rows with bytes and paths."""
    rows = []
    for number, image in enumerate(sorted(flowers.rglob("*.*"))):
        if image.name in ("half.jpg", "text.jpg"):
            continue
        told = {
            "file": str(image.relative_to(flowers)),
            "species": image.parent.name,
            "patient": f"p{number % 9}" if number % 5 else "",
            "age": number,
            "score": number / 8,
            "note": f"note {number}, é",
            "split": ("train", "test", "Validation")[number % 7 % 3],
        }
        rows.append(told)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, [*rows[0]])
        writer.writeheader()
        writer.writerows(rows)
    return [
        {**r, "bytes": (flowers / r["file"]).read_bytes(), "where": str(flowers / r["file"])}
        for r in rows
    ]


COLUMNS = tuple(ColumnOption(name) for name in ("age", "score", "note"))


@pytest.mark.parametrize(
    ("given", "options"),
    [
        ({"group": "patient"}, {"val_split": 0.3, "test_split": 0.2}),
        ({"group": "patient"}, {"val_split": 0.001}),
        ({}, {"folds": 3, "test_split": 0.2}),
        ({"group": "patient"}, {"folds": 9}),
        ({"split": "split"}, {"on_leak": OnLeak.DROP, "shards": 3}),
        ({"split": "split", "group": "patient"}, {}),
        ({"columns": COLUMNS}, {"val_split": 0.1, "shard_size": 5000}),
        ({}, {"compression": "gzip", "max_side": 20, "seed": 5}),
    ],
    ids=[
        "groups",
        "empty split",
        "folds",
        "few groups",
        "splits",
        "parted groups",
        "columns",
        "stored otherwise",
    ],
)
def test_a_table_gives_what_a_manifest_gives(
    spark: SparkSession,
    flowers: Path,
    tmp_path: Path,
    given: dict[str, Any],
    options: dict[str, Any],
    monkeypatch: Any,
) -> None:
    from imgrec.spark import pack_dataframe

    monkeypatch.setattr("imgrec.spark.plan._BUCKET_ROWS", 8)
    rows = table(flowers, tmp_path / "table.csv")
    image = "where" if "split" in given else "bytes"
    packed = pack_dataframe(
        spark.createDataFrame(rows).repartition(3),
        "flowers",
        image=image,
        filename="file",
        label="species",
        options=PackOptions(data_dir=str(tmp_path / "spark"), **options),
        **given,
    )
    source = SourceOptions(
        images=str(flowers),
        split_col=given.get("split", ""),
        group_col=given.get("group", ""),
        column=tuple(given.get("columns", ())),
    )
    manifest = tmp_path / "table.csv"
    if "split" not in given:
        manifest.write_text(manifest.read_text().replace(",split", ",part", 1))
    local = inline.pack(
        manifest, tmp_path / "local", name="flowers", source=source, near_dups="off", **options
    )
    forget_others(local)
    assert_same(packed.info.path, local)
    if "split" not in given:  # and so may leak
        assert imgrec.verify(packed.info.path, engine=inline.ENGINE).faults == ()


def test_lists_several_labels_and_earlier_splits_mean_what_they_do_in_a_local_table(
    spark: SparkSession, flowers: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    """Lists are columns of arrays in Parquet, with nulls in them and instead of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from imgrec.spark import pack_dataframe

    monkeypatch.setattr("imgrec.spark.plan._BUCKET_ROWS", 8)
    rows = table(flowers, tmp_path / "table.csv")
    sets = (["x"], ["y", "x"], [], None, ["w", "y"])
    for number, row in enumerate(rows):
        row["tags"] = sets[number * 7 % 5]
        row["words"] = "|".join(row["tags"] or ())
        row["sizes"] = [number / 8, None] if number % 4 else None
        row["number"] = float(number) if number % 3 else None
        row["wet"] = bool(number % 2) if number % 5 else None
        row["patient"] = row["patient"] or None
        del row["bytes"], row["split"]
    path = tmp_path / "table.parquet"
    pq.write_table(pa.Table.from_pylist(rows), path)
    columns = ("sizes", "number:int", "wet")
    older = {path.name: path.read_bytes() for path in (flowers / "rose").glob("*.jpg")}
    write_tree(tmp_path / "older/rose", older)
    for name, given, wanted in (
        ("arrays", {"label": "tags", "columns": columns}, {"val_split": 0.2, "test_split": 0.1}),
        ("texts", {"label": "words", "label_sep": "|", "group": "patient"}, {"folds": 3}),
        ("again", {"label": "species"}, {"val_split": 0.3, "split_from": "older"}),
    ):
        here = {"data_dir": str(tmp_path / "local"), **wanted}
        there = {"data_dir": str(tmp_path / "spark"), **wanted}
        for data_dir in ("local", "spark") if name == "again" else ():
            inline.pack(
                tmp_path / "older", tmp_path / data_dir, name="older", folds=0, val_split=0.5
            )
        frame = spark.read.parquet(str(path))
        ours = pack_dataframe(
            frame, name, image="where", filename="file", options=PackOptions(**there), **given
        )
        source = SourceOptions(
            images=str(flowers),
            label_col=given["label"],
            label_sep=given.get("label_sep", ""),
            group_col=given.get("group", ""),
            column=given.get("columns", ()),
        )
        local = inline.pack(
            path, Path(here.pop("data_dir")), name=name, source=source, near_dups="off", **wanted
        )
        forget_others(local)
        assert_same(ours.info.path, local)


def test_missing_values_of_columns_travel_as_from_a_manifest(
    spark: SparkSession, flowers: Path, tmp_path: Path
) -> None:
    from imgrec.spark import pack_dataframe

    rows = table(flowers, tmp_path / "table.csv")
    columns = tuple(map(ColumnOption.parse, ("age:int", "score:float", "note:text", "size:int=7")))
    for number, row in enumerate(rows):
        row["size"] = 7 if number == 1 else number
        for name in ("age", "score", "note", "size"):
            if number % 5 == 0:
                row[name] = None
    rows[6]["score"], rows[6]["note"] = float("nan"), ""
    manifest = tmp_path / "table.csv"
    with manifest.open("w", newline="") as file:
        names = ["file", "species", "age", "score", "note", "size"]
        writer = csv.DictWriter(file, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    packed = pack_dataframe(
        spark.createDataFrame(rows),
        "flowers",
        image="bytes",
        filename="file",
        label="species",
        columns=columns,
        options=PackOptions(data_dir=str(tmp_path / "spark")),
    )
    source = SourceOptions(images=str(flowers), column=columns)
    local = inline.pack(
        manifest, tmp_path / "local", name="flowers", source=source, near_dups="off"
    )
    forget_others(local)
    assert_same(packed.info.path, local)
    by_name = {record.filename: record.columns for record in imgrec.open_dataset(local)["all"]}
    missing = by_name[rows[0]["file"]]
    assert (missing["age"], missing["note"], missing["size"]) == (-1, "", 7)
    assert math.isnan(missing["score"])
    assert "size: 12 of 57 cells are missing, and become 7, which other cells" in str(
        packed.report.warnings
    )


def forget_others(folder: Path) -> None:
    """Take out of a report what a manifest says of files that a DataFrame does not have."""
    report = json.loads((folder / "report.json").read_bytes())
    report["ignored"] = []
    report["skipped"] = [s for s in report["skipped"] if "no row" not in s["reason"]]
    report["warnings"] = [w for w in report["warnings"] if "no row in" not in w]
    (folder / "report.json").write_text(json.dumps(report))
    lines = (folder / "skipped.csv").read_text().splitlines(keepends=True)
    (folder / "skipped.csv").write_text("".join(line for line in lines if "no row" not in line))


def test_images_of_sparks_own_source_are_packed_as_their_files_are(
    spark: SparkSession, tmp_path: Path
) -> None:
    from pyspark.sql import functions as f

    from imgrec.spark import pack_dataframe

    source = class_tree(tmp_path / "flowers", {"rose": 4, "tulip": 4})
    rows = spark.read.format("image").option("recursiveFileLookup", "true").load(str(source))
    rows = rows.withColumn("label", f.element_at(f.split("image.origin", "/"), -2))
    packed = pack_dataframe(
        rows.withColumn("path", f.col("image.origin")),
        "flowers",
        image="image",
        root=str(source),
        options=PackOptions(data_dir=str(tmp_path / "spark")),
    )
    assert_same(packed.info.path, inline.pack(source, tmp_path / "local", near_dups="off"))


@pytest.fixture(scope="module")
def versions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures of two classes, most in several versions; one is a copy, one cannot be decoded."""
    files = {"oak/half.jpg": jpeg(90)[:300]}
    for seed in range(20):
        kind = "oak" if seed % 2 else "ash"
        files[f"{kind}/{seed:02d}.png"] = png(seed)
        if seed % 3 == 0:
            files[f"{kind}/{seed:02d}~large.jpg"] = jpeg(seed, (96, 64), quality=90)
        if seed % 4 == 0:
            mirrored = picture(seed).transpose(Image.Transpose.FLIP_LEFT_RIGHT)
            files[f"{kind}/{seed:02d} mirrored.png"] = encode(mirrored, "PNG")
    files["ash/copy.png"] = files["ash/00.png"]
    return write_tree(tmp_path_factory.mktemp("near") / "trees", files)


@pytest.mark.parametrize(
    ("image", "options"),
    [
        ("content", {"near_dups": "group", "val_split": 0.3, "shards": 3}),
        ("content", {"near_dups": "drop", "alike": 97, "folds": 3}),
        ("path", {"near_dups": "drop", "val_split": 0.3}),
        ("path", {"near_dups": "report", "val_split": 0.3}),
        ("content", {"near_dups": "report", "embeddings": "{tmp}/vectors.npy"}),
        ("path", {"near_dups": "drop", "split_from": "older", "test_split": 0.2}),
    ],
    ids=["group bytes", "drop bytes", "drop files", "report files", "embeddings", "earlier"],
)
def test_near_duplicates_of_a_dataframe_are_those_of_a_folder(
    spark: SparkSession, versions: Path, tmp_path: Path, image: str, options: Any, monkeypatch: Any
) -> None:
    from imgrec.spark import pack_dataframe

    monkeypatch.setattr("imgrec.spark.plan._BUCKET_ROWS", 8)
    if "split_from" in options:
        older = {path.name: path.read_bytes() for path in (versions / "oak").glob("*.png")}
        for engine in ("spark", "local"):
            tree = write_tree(tmp_path / engine / "trees/oak", older).parent
            inline.pack(tree, tmp_path / engine, name="older", val_split=0.5)
    if "embeddings" in options:
        options = {**options, "embeddings": options["embeddings"].format(tmp=tmp_path)}
        names = sorted(str(path.relative_to(versions)) for path in versions.rglob("*.*"))
        (tmp_path / "vectors.txt").write_text("\n".join(names) + "\n")
        np.save(tmp_path / "vectors.npy", np.random.default_rng(1).normal(size=(len(names), 8)))
    ours = pack_dataframe(
        binary_files(spark, versions).repartition(3), "trees", image=image, root=str(versions),
        data_dir=tmp_path / "spark", **options,
    )  # fmt: skip
    local = inline.pack(versions, tmp_path / "local", **options)
    near = ours.report.near_duplicates
    assert near is not None
    assert near.groups > 0 or options["near_dups"] == "drop"
    assert bool(near.embeddings) == ("embeddings" in options)
    assert_same(ours.info.path, local)
    assert page_of(ours.info.path) == page_of(local)


@pytest.mark.parametrize("on_leak", list(OnLeak))
def test_near_leaks_of_a_dataframe_are_those_of_a_table(
    spark: SparkSession, versions: Path, tmp_path: Path, on_leak: OnLeak
) -> None:
    from imgrec.spark import pack_dataframe

    rows = [
        {
            "file": str(path.relative_to(versions)),
            "tags": tags,
            "split": "test" * ("~" in path.name),
        }
        for tags, path in zip(itertools.cycle("abc"), sorted(versions.rglob("*.*")), strict=False)
        if path.name != "half.jpg"
    ]
    for row in rows:
        row["split"] = row["split"] or "train"
    manifest = tmp_path / "table.csv"
    manifest.write_text(
        "".join(
            ",".join(row.values()) + "\n"
            for row in [dict.fromkeys(rows[0]) | {k: k for k in rows[0]}, *rows]
        )
    )
    wanted = {"on_leak": on_leak, "near_dups": "group"}
    source = SourceOptions(images=str(versions), split_col="split", label_sep="|", yes=True)

    def local() -> Path:
        return inline.pack(manifest, tmp_path / "local", name="x", source=source, **wanted)

    def ours() -> Path:
        read = spark.createDataFrame(rows).selectExpr(
            "file", "tags AS label", "split", f"concat('{versions}/', file) AS path"
        )
        packed = pack_dataframe(
            read, "x", image="path", filename="file", split="split", label_sep="|",
            data_dir=tmp_path / "spark", **wanted,
        )  # fmt: skip
        return Path(packed.info.path)

    if on_leak is not OnLeak.FAIL:
        folder = local()
        forget_others(folder)
        assert_same(ours(), folder)
        return
    said = []
    for pack in (local, ours):
        with pytest.raises(PlanError) as caught:
            pack()
        said.append(str(caught.value))
    assert said[0] == said[1]


def test_a_function_as_embeddings_is_refused_for_images_in_the_rows(
    spark: SparkSession, versions: Path, tmp_path: Path
) -> None:
    from imgrec.spark import pack_dataframe

    rows, options = binary_files(spark, versions), {"near_dups": "drop", "embeddings": list}
    with pytest.raises(UsageError, match="needs images that are files"):
        pack_dataframe(rows, "x", data_dir=tmp_path / "out", **options)  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


def test_more_rows_than_can_be_compared_are_refused_before_a_job_looks_at_images(
    spark: SparkSession, versions: Path, tmp_path: Path, monkeypatch: Any
) -> None:
    from imgrec.spark import pack_dataframe

    monkeypatch.setattr("imgrec.spark.near_rows.MOST_COMPARED", 9)
    rows = binary_files(spark, versions)
    with pytest.raises(UsageError, match=r"near_dups compares at most 9 rows .*, not 3"):
        pack_dataframe(rows, "x", data_dir=tmp_path / "out", near_dups="drop")
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("given", "error", "said"),
    [
        ({"label": "breed"}, UsageError, "the DataFrame has no column breed"),
        ({"image": "age"}, SourceError, "column age is long, but images must be bytes, paths"),
        ({"label": "score"}, SourceError, "column score is double, but labels must be text"),
        ({"filename": "species"}, SourceError, "several rows of the DataFrame have the same name"),
        ({"image": "species"}, SourceError, "more than --max-bad 0.1 allows: .* unreadable"),
        ({"split": "species"}, SourceError, "holds words that are not splits"),
        ({"split": "split", "val_split": 0.1}, PlanError, "has a val split of its own"),
        ({"columns": ["image"]}, UsageError, "every record already has the feature image"),
        ({"split_file": "x.csv"}, UsageError, "pack_dataframe does not support split_file"),
        ({"split_from": "older"}, DatasetError, "older"),
        ({"folds": 30}, PlanError, r"30 folds cannot be made of \d+ different images"),
        ({"label": "both"}, SourceError, "column both is array of double, but labels must be"),
        ({"source": SourceOptions(min_side=3)}, UsageError, "options for reading sources"),
    ],
)
def test_what_cannot_be_packed_is_refused_and_leaves_nothing(
    spark: SparkSession,
    flowers: Path,
    tmp_path: Path,
    given: dict[str, Any],
    error: type[Exception],
    said: str,
) -> None:
    from imgrec.spark import pack_dataframe

    rows = spark.createDataFrame(table(flowers, tmp_path / "table.csv")[:20])
    rows = rows.selectExpr("*", "array(score, 0.5D) AS both")
    words = {"val_split", "folds", "source", "split_file", "split_from"}
    options = {key: value for key, value in given.items() if key in words}
    given = {key: value for key, value in given.items() if key not in words}
    wanted = PackOptions(data_dir=str(tmp_path / "out"), **options)
    columns = {"image": "bytes", "label": "species", "filename": "file", **given}
    with pytest.raises(error, match=said):
        pack_dataframe(rows, "flowers", options=wanted, **columns)
    assert not (tmp_path / "out").exists()


def test_labels_in_two_spellings_are_refused_merged_or_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    from imgrec.spark import pack_dataframe

    names = ["cat", "Cat", "cat", "dog"]
    rows = [(f"{at}.jpg", jpeg(at), name) for at, name in enumerate(names)]
    frame = spark.createDataFrame(rows, ["filename", "content", "label"])

    def classes(**source: bool) -> dict[str, int]:
        options = PackOptions(
            data_dir=str(tmp_path), overwrite=True, source=SourceOptions(**source)
        )
        info = pack_dataframe(frame, "x", options=options).info
        assert info.splits[0].class_counts is not None
        return dict(zip(info.classes, info.splits[0].class_counts, strict=True))

    with pytest.raises(SourceError, match=r"'Cat' \(1 image\) and 'cat' \(2 images\)"):
        classes()
    assert classes(fold_case=True) == {"cat": 3, "dog": 1}
    assert classes(keep_case=True) == {"Cat": 1, "cat": 2, "dog": 1}


def unstable(spark: SparkSession, source: Path, marker: Path, how: str) -> DataFrame:
    """Return rows that are others from the second time on that images are asked for."""
    from pyspark.sql import functions as f

    def seen_before(name: str) -> bool:
        path = marker / name.replace("/", "_")
        if path.exists():
            return True
        path.touch()
        return False

    def is_kept(name: str) -> bool:
        return not (seen_before(name) and name.endswith(("1.jpg", "2.jpg")))

    def changed(name: str, data: bytes) -> bytes | None:
        if not seen_before(name) or not name.endswith("1.jpg"):
            return bytes(data)
        return None if how == "null" else bytes(data[:-9] + b"other" + data[-4:])

    marker.mkdir()
    rows = binary_files(spark, source)
    if how == "fewer":
        return rows.where(f.udf(is_kept, "boolean").asNondeterministic()("path"))
    if how == "more":
        twice = f.udf(lambda name: [1, 2] if seen_before(name) else [1], "array<int>")
        return rows.withColumn("n", f.explode(twice.asNondeterministic()("path")))
    other = f.udf(changed, "binary").asNondeterministic()
    return rows.withColumn("content", other("path", "content"))


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("fewer", "planned 24 rows .* found 18 .* planned, . found"),
        ("more", "planned 24 rows .* found 48 .* 6 planned, 12 found"),
        ("other", r"1\.jpg changed between two reads .* (\d+) bytes when planned, \1 other"),
        ("null", r"1\.jpg changed between two reads .*, 0 other bytes when written"),
    ],
)
def test_a_dataframe_that_gives_other_rows_when_read_again_is_not_published(
    spark: SparkSession, tmp_path: Path, how: str, said: str
) -> None:
    from imgrec.spark import pack_dataframe

    source = class_tree(tmp_path / "flowers", {"rose": 12, "tulip": 12})
    rows = unstable(spark, source, tmp_path / "seen", how)
    wanted = PackOptions(data_dir=str(tmp_path / "out"), shards=4)
    with pytest.raises(ExecutionError, match=said) as caught:
        pack_dataframe(rows, "flowers", root=str(source), options=wanted)
    assert "persist or checkpoint it" in caught.value.hint
    assert caught.value.exit_code == 6
    assert not (tmp_path / "out/flowers/1.0.0").exists()


@pytest.mark.parametrize("image", ["content", "path"])
@pytest.mark.parametrize("scheme", ["", "local://"], ids=["disk", "store"])
def test_a_run_continues_another_but_for_shards_of_other_images(
    spark: SparkSession, tmp_path: Path, image: str, scheme: str
) -> None:
    """Executors see `local://`, a file system of fsspec, as they would HDFS."""
    from pyspark.sql import functions as f

    from imgrec.spark import pack_dataframe

    source = class_tree(tmp_path / "flowers", {"rose": 12, "tulip": 12})
    changing, big = source / "rose/big.png", encode(picture(200, size=(200, 150)), "PNG")
    changing.write_bytes(big + b"before")
    wanted = {"shards": 8, "val_split": 0.1}
    rows = binary_files(spark, source).withColumn("path", f.regexp_replace("path", "file:", ""))
    if scheme and image == "path":
        rows = rows.withColumn("path", f.concat(f.lit(scheme), "path"))
    out = f"{scheme}{tmp_path}/out"
    hidden = tmp_path / "out/flowers/.1.0.0.incomplete"

    def pack() -> imgrec.outcome.Packed:
        options = PackOptions(data_dir=out, **wanted)  # type: ignore[arg-type]  # of two types
        root = f"{scheme if image == 'path' else ''}{source}"
        return pack_dataframe(rows, "flowers", image=image, root=root, options=options)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("imgrec.spark.shards.create_samples", stop)  # all shards are written
        pack()
    notes = sorted((hidden / ("notes" if scheme else ".notes")).glob("flowers-*"))
    assert len(notes) == 9
    gone, damaged = [note for note in notes if b"big.png" not in note.read_bytes()][:2]
    gone.unlink()
    damaged.write_bytes(damaged.read_bytes()[:-9])
    changing.write_bytes(big + b"behind")  # the same size and beginning
    packed = pack()
    assert packed.kept_shards == 9 - 3
    local = files_of(inline.pack(source, tmp_path / "local", near_dups="off", **wanted))
    ours = files_of(tmp_path / "out/flowers/1.0.0")
    assert {name for name in local if local[name] != ours.get(name)} <= ITS_OWN | {"report.html"}
    assert not hidden.exists() or not list(hidden.rglob("*.*"))


def test_a_shard_without_any_rows_is_counted_too(spark: SparkSession, tmp_path: Path) -> None:
    from imgrec.spark.shards import Shards, refuse_other_counts

    shards = Shards({"train": [3, 2], "val": [4]}, "flowers", "")
    refuse_other_counts(shards, {0: 3, 1: 2, 2: 4})
    said = "planned 9 rows .* found 5 .*val.tfrecord-00000-of-00001: 4 planned, 0 found"
    with pytest.raises(ExecutionError, match=said):
        refuse_other_counts(shards, {0: 3, 1: 2})


@pytest.mark.parametrize("image", ["content", "path"])
@pytest.mark.parametrize("scheme", ["", "local://"], ids=["disk", "store"])
def test_a_dataset_that_exists_is_compared_and_not_touched(
    spark: SparkSession, tmp_path: Path, image: str, scheme: str
) -> None:
    from imgrec.spark import pack_dataframe

    source = class_tree(tmp_path / "flowers", {"rose": 9, "tulip": 7})
    half, big = source / "rose/half.jpg", encode(picture(200, size=(200, 150)), "PNG")
    half.write_bytes(jpeg(7)[:400])
    (source / "rose/big.png").write_bytes(big + b"before")

    def pack(seed: int = 0) -> imgrec.outcome.Packed:
        return pack_dataframe(
            binary_files(spark, source), "flowers", image=image, root=str(source), val_split=0.2,
            data_dir=f"{scheme}{tmp_path}/out", seed=seed, max_bad=0.2,
        )  # fmt: skip

    assert pack().is_new
    before = files_of(tmp_path / "out/flowers/1.0.0")
    again = pack()
    assert (again.is_new, again.info.splits[0].examples) == (False, 14)
    with pytest.raises(DatasetExists, match=r"with other options \(--seed\)") as caught:
        pack(seed=1)
    assert "--overwrite to replace it" in caught.value.hint
    (source / "rose/big.png").write_bytes(big + b"behind")  # the same size and beginning
    with pytest.raises(DatasetExists, match=r"big\.png has changed since it was packed"):
        pack()
    (source / "rose/big.png").write_bytes(big + b"before")
    half.write_bytes(half.read_bytes()[:-100] + bytes(100))  # bad in another way
    with pytest.raises(DatasetExists):
        pack()
    assert files_of(tmp_path / "out/flowers/1.0.0") == before
    left = [path.name for path in (tmp_path / "out/flowers").rglob("*") if path.is_file()]
    assert sorted(left) == sorted(before)


# A cluster.

DRIVER = """
import os, signal, imgrec
from imgrec.spark import SparkEngine, pack_dataframe, read
from pyspark.sql import SparkSession, functions as f
left = {pids}
def kill(stage, *_):
    if stage == "pack" and len(left) > 1 - is_far:
        os.killpg(left.pop(), signal.SIGKILL)
wanted = {wanted!r}
with SparkEngine(master="spark://127.0.0.1:{port}", conf={conf!r}) as engine:
    jobs = ((0, {source!r}, "out"), (1, "{url}/in/flowers", "{url}/data"))
    for is_far, source, data_dir in jobs if left else ():
        options = imgrec.PackOptions(data_dir=data_dir, **wanted)
        assert imgrec.pack(source, options, engine=engine, on_progress=kill).is_new
    list(engine.run(abs, [1]))
    session = SparkSession.getActiveSession()
    files = session.createDataFrame([(path,) for path in {images!r}], "path string")
    files = files.withColumn("label", f.element_at(f.split("path", "/"), -2))
    options = imgrec.PackOptions(data_dir="{url}/data", **wanted)
    packed = pack_dataframe(files, "paths", image="path", root="{url}/in/flowers", options=options)
    rows = read("{url}/data/paths").groupBy("split").count().collect()
print(packed.kept_shards > 0, sorted((row["split"], row["count"]) for row in rows))
"""


@pytest.fixture
def port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        found: int = server.getsockname()[1]
    return found


@pytest.fixture
def cluster(tmp_path: Path, port: int) -> Iterator[list[subprocess.Popen[bytes]]]:
    """A master and three workers of one core each, on loopback."""
    import pyspark

    program = str(Path(pyspark.__file__).parent / "bin/spark-class")
    environment = {
        **os.environ,
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_WORKER_DIR": str(tmp_path / "work"),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    environment.pop("PYTHONPATH", None)
    url = f"spark://127.0.0.1:{port}"
    commands = [
        ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"],
        *[["worker.Worker", "-c", "1", "-m", "600m", "--host", "127.0.0.1", url]] * 3,
    ]
    log = (tmp_path / "cluster.log").open("wb")
    running = []
    for name, *arguments in commands:
        command = [program, f"org.apache.spark.deploy.{name}", *arguments]
        running.append(
            subprocess.Popen(
                command, cwd=tmp_path, env=environment, process_group=0, stdout=log, stderr=log
            )
        )
    text = tmp_path / "cluster.log"
    wait_for(lambda: text.read_text().count("Registering worker") == 3, timeout_s=90)
    yield running
    for process in running:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    log.close()


def test_killed_workers_and_drivers_and_a_busy_store_change_nothing(
    store: Store,
    cluster: list[subprocess.Popen[bytes]],
    port: int,
    flowers: Path,
    tmp_path: Path,
) -> None:
    """On a shared disk, then from S3 to S3, then a DataFrame of paths on S3 to S3."""
    store.put_tree(flowers, "in/flowers")
    count = itertools.count(1)
    store.proxy.fault = lambda method, path: "503" if next(count) % 50 == 0 else ""
    files = sorted(path for path in flowers.rglob("*") if path.is_file())
    names = [str(path.relative_to(flowers)) for path in files]
    wanted = {"val_split": 0.2, "shards": 8, "max_bad": 0.2}
    drivers = [
        DRIVER.format(
            pids=pids,
            wanted=wanted,
            conf={**SETTINGS, "spark.executor.memory": "560m"},
            port=port,
            source=str(flowers),
            url=store.url,
            images=[f"{store.url}/in/flowers/{name}" for name in names],
        )
        for pids in ([cluster[2].pid, cluster[3].pid], [])
    ]
    with start_python(drivers[0], tmp_path, SPARK_LOCAL_IP="127.0.0.1") as first:
        notes = "data/paths/.1.0.0.incomplete/notes/paths-"
        wait_for(lambda: first.poll() is not None or store.keys(notes), timeout_s=200)
        assert first.poll() is None, first.communicate()[1]
        os.killpg(first.pid, signal.SIGKILL)
    assert not store.keys("data/paths/1.0.0/dataset_info.json")
    done = run_python(drivers[1], tmp_path, SPARK_LOCAL_IP="127.0.0.1")
    store.proxy.fault = lambda method, path: ""
    assert {process.poll() for process in cluster[2:4]} == {-signal.SIGKILL}
    local = inline.pack(flowers, tmp_path / "local", **wanted)
    assert files_of(tmp_path / "out/flowers/1.0.0") == files_of(local)
    assert in_store(store, "flowers") == files_of(local)
    local = inline.pack(flowers, tmp_path / "local", name="paths", near_dups="off", **wanted)
    splits = sorted((split.name, split.examples) for split in imgrec.info(local).splits)
    assert done.stdout == f"True {splits}\n"
    ours, theirs = in_store(store, "paths"), files_of(local)
    assert theirs.keys() - ours.keys() == {"report.html"}
    assert {name for name in ours if ours[name] != theirs[name]} == ITS_OWN


def in_store(store: Store, name: str) -> dict[str, bytes]:
    prefix = f"data/{name}/1.0.0/"
    assert not [key for key in store.keys(f"data/{name}/.") if ".incomplete" in key]
    return {key.removeprefix(prefix): data for key, data in store.keys(prefix).items()}


def test_the_simulation_of_scale_plans_every_sample(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    # Not imported: executors could not find it, while Spark sends code without a module along.
    script = runpy.run_path(str(ROOT / "scripts" / "simulate_scale.py"))
    assert script["plan"](spark, 2000) == 16  # shards of train and val
