"""Packing as a user types it."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path
from types import FrameType

import inline
import pytest
from conftest import ROOT, Cli
from pictures import class_tree, encode, jpeg, picture, write_tree

from imgrec.codec.example import decode
from imgrec.codec.tfrecord import read_records

FILES = [
    "SHA256SUMS", "dataset_info.json", "features.json",
    "flowers-train.tfrecord-00000-of-00001", "flowers-train.tfrecord-00000-of-00001.idx",
    "flowers-val.tfrecord-00000-of-00001", "flowers-val.tfrecord-00000-of-00001.idx",
    "label.labels.txt", "metadata.json", "report.html", "report.json", "samples.parquet",
    "skipped.csv",
]  # fmt: skip


@pytest.fixture
def flowers(tmp_path: Path) -> Path:
    return class_tree(tmp_path / "flowers", {"rose": 8, "tulip": 8})


def pack(cli: Cli, *arguments: str | Path) -> dict[str, object]:
    done = cli("pack", *arguments, "--json")
    assert (done.stderr, done.returncode) == ("", 0)
    value: dict[str, object] = json.loads(done.stdout)
    return value


def files_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def records_of(folder: Path) -> list[dict[str, object]]:
    found = []
    for shard in sorted(folder.glob("*.tfrecord-*[0-9]")):
        with shard.open("rb") as file:
            found += [dict(decode(record)) for _, record in read_records(file, path=str(shard))]
    return found


def test_json_says_what_came_of_everything(cli: Cli, flowers: Path) -> None:
    write_tree(
        flowers,
        {
            "rose/half.jpg": jpeg(1)[:400],
            "rose/.DS_Store": b"x",
            "tulip/copy.jpg": (flowers / "rose/000.jpg").read_bytes(),
            "tulip/x.gif": encode(picture(99), "GIF"),
        },
    )
    value = pack(cli, flowers, "--val-split", "0.25")
    assert sorted(files_of(Path(str(value["path"])))) == FILES
    assert value["load"] == 'tfds.load("flowers", split="train", as_supervised=True)'
    assert value.pop("seconds")
    assert value.pop("fingerprint")
    splits: dict[str, dict[str, int]] = value.pop("splits")  # type: ignore[assignment]
    assert sum(split["examples"] for split in splits.values()) == 18
    del value["path"], value["load"]
    assert value == {
        "schema": "imgrec/pack/1",
        "name": "flowers",
        "version": "1.0.0",
        "layout": "<class>/**/image",
        "classes": ["rose", "tulip"],
        "skipped": [{"file": "rose/half.jpg", "reason": "truncated JPEG"}],
        "ignored": 1,
        "transcoded": 1,
        "damaged": 0,
        "resized": 0,
        "duplicates": 1,
        "near_duplicates": None,
        "leaks": 0,
        "conflicts": 1,
        "warnings": [],
        "already_packed": False,
        "kept_shards": 0,
    }


def test_a_damaged_jpeg_that_decoders_accept_is_packed_and_listed(cli: Cli, flowers: Path) -> None:
    torn = jpeg(99)[:-12] + jpeg(99)[-2:]
    write_tree(flowers, {"rose/torn.jpg": torn})
    value = pack(cli, flowers)
    assert (value["damaged"], value["skipped"]) == (1, [])
    report = json.loads(Path(str(value["path"]), "report.json").read_text())
    assert [file["file"] for file in report["damaged"]] == ["rose/torn.jpg"]
    images = {
        record["filename"]: record["image"] for record in records_of(Path(str(value["path"])))
    }
    assert images[b"rose/torn.jpg",] == (torn,)


def test_records_hold_the_bytes_of_the_files(cli: Cli, flowers: Path) -> None:
    folder = Path(str(pack(cli, flowers, "--val-split", "0.25")["path"]))
    records = records_of(folder)
    assert len(records) == 16
    for record in records:
        (filename,) = record["filename"]  # type: ignore[misc]
        assert record == {
            "filename": (filename,),
            "image": ((flowers / filename.decode()).read_bytes(),),
            "label": (0 if filename.startswith(b"rose") else 1,),
            "shape": (16, 24, 3),
        }


def test_two_runs_give_the_same_bytes_whatever_the_workers_and_the_locale(
    cli: Cli, flowers: Path, tmp_path: Path
) -> None:
    write_tree(flowers, {"rose/caf\u00e9.png": encode(picture(50), "PNG")})
    found = []
    for workers, locale in (("1", "C"), ("3", "de_DE.UTF-8")):
        target = tmp_path / f"out{workers}"
        environment = {**os.environ, "LC_ALL": locale, "TZ": "Asia/Tokyo", "PYTHONHASHSEED": "7"}
        options = ["--val-split", "0.25", "--shards", "3", "--workers", workers]
        done = cli("pack", flowers, *options, "--data-dir", target, env=environment)
        assert done.returncode == 0
        found.append(files_of(target / "flowers" / "1.0.0"))
    assert found[0] == found[1]


def test_sha256sum_confirms_the_checksums(cli: Cli, flowers: Path) -> None:
    folder = Path(str(pack(cli, flowers)["path"]))
    subprocess.run(
        ["sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS"], cwd=folder, check=True
    )
    listed = [line.split("  ")[1] for line in (folder / "SHA256SUMS").read_text().splitlines()]
    assert listed == sorted(set(files_of(folder)) - {"SHA256SUMS"})


def test_index_and_samples_table_say_where_each_record_is(cli: Cli, flowers: Path) -> None:
    import pyarrow.parquet as pq
    from xxhash import xxh3_128_hexdigest

    folder = Path(str(pack(cli, flowers, "--val-split", "0.25")["path"]))
    rows = pq.read_table(folder / "samples.parquet").to_pylist()
    assert len(rows) == 16
    for row in rows:
        shard = (folder / row["shard"]).read_bytes()
        record = decode(shard[row["offset"] + 12 : row["offset"] + row["length"] - 4])
        assert record["filename"] == (row["filename"].encode(),)
        assert record["label"] == (row["label"],)
        assert record["shape"] == (row["height"], row["width"], row["channels"])
        assert row["xxh3"] == xxh3_128_hexdigest(record["image"][0])
        assert row["format"] == "JPEG"
        index = (folder / f"{row['shard']}.idx").read_text().splitlines()
        assert f"{row['offset']} {row['length']}" in index


def test_the_summary_tells_people_all_of_it(cli: Cli, flowers: Path, data_dir: Path) -> None:
    done = cli("pack", flowers, "--val-split", "0.25")
    lines = done.stdout.splitlines()
    assert lines[0] == "flowers 1.0.0: 16 images"
    assert lines[1:3] == ["layout      <class>/**/image", "classes     2 classes: rose, tulip"]
    assert lines[3].split()[:6] == ["train", "12", "images", "75.0%", "1", "shard"]
    assert lines[-2] == f"path        {data_dir}/flowers/1.0.0"
    assert lines[-1] == 'load        tfds.load("flowers", split="train", as_supervised=True)'
    assert done.stderr == ""


def test_packing_the_same_again_does_nothing(cli: Cli, flowers: Path) -> None:
    path = Path(str(pack(cli, flowers)["path"]))
    before = {file: file.stat().st_ino for file in path.iterdir()}
    value = pack(cli, flowers)
    assert value["already_packed"] is True
    assert {file: file.stat().st_ino for file in path.iterdir()} == before
    assert "already packed" in cli("pack", flowers).stdout


def test_a_changed_source_does_not_replace_a_dataset(cli: Cli, flowers: Path) -> None:
    path = Path(str(pack(cli, flowers)["path"]))
    before = files_of(path)
    write_tree(flowers, {"rose/new.jpg": jpeg(77)})
    done = cli("pack", flowers)
    assert done.returncode == 5
    assert done.stderr == (
        f"imgrec: {path} already holds another dataset: its images, names or labels are not those "
        "of the source\n"
        "  hint: pack under another --version or --name, or pass --overwrite to replace it\n"
    )
    assert files_of(path) == before
    left = sorted(child.name for child in path.parent.iterdir())
    assert left == [".1.0.0.origin.json", "1.0.0"]


@pytest.mark.parametrize("harm", ["remove", "cut"])
def test_a_damaged_dataset_is_not_taken_for_packed(cli: Cli, flowers: Path, harm: str) -> None:
    folder = Path(str(pack(cli, flowers)["path"]))
    shard = folder / "flowers-train.tfrecord-00000-of-00001"
    if harm == "remove":
        shard.unlink()
    else:
        shard.write_bytes(shard.read_bytes()[:-1])
    done = cli("pack", flowers)
    assert done.returncode == 5
    assert f"{folder} is damaged: " in done.stderr
    assert cli("pack", flowers, "--overwrite").returncode == 0
    assert cli("pack", flowers).returncode == 0


def test_a_data_dir_inside_the_source_is_refused(cli: Cli, flowers: Path) -> None:
    done = cli("pack", flowers, "--data-dir", flowers / "out")
    assert done.returncode == 2
    assert "is inside the source" in done.stderr
    assert not (flowers / "out").exists()


def test_the_load_line_of_an_older_version_names_it(cli: Cli, flowers: Path) -> None:
    pack(cli, flowers, "--version", "1.10.0")
    value = pack(cli, flowers, "--version", "1.9.0")
    assert str(value["load"]).startswith('tfds.load("flowers:1.9.0", ')


def test_a_class_whose_images_are_all_bad_is_a_warning(cli: Cli, flowers: Path) -> None:
    write_tree(flowers, {"lily/half.jpg": jpeg(1)[:400]})
    value = pack(cli, flowers)
    assert value["classes"] == ["lily", "rose", "tulip"]
    assert value["warnings"] == ["train has no images of lily: those meant for it are bad"]


def test_overwrite_replaces_a_dataset(cli: Cli, flowers: Path) -> None:
    pack(cli, flowers)
    write_tree(flowers, {"rose/new.jpg": jpeg(77)})
    value = pack(cli, flowers, "--overwrite")
    assert value["splits"]["train"]["examples"] == 17  # type: ignore[index]
    folder = Path(str(value["path"]))
    left = sorted(child.name for child in folder.parent.iterdir())
    assert left == [".1.0.0.origin.json", "1.0.0"]


def test_overwrite_that_fails_leaves_the_old_dataset(cli: Cli, flowers: Path) -> None:
    path = Path(str(pack(cli, flowers)["path"]))
    before = files_of(path)
    write_tree(flowers, {"rose/bad.jpg": b""})
    assert cli("pack", flowers, "--overwrite", "--on-bad", "fail").returncode == 3
    assert files_of(path) == before


def test_on_bad_fail_publishes_nothing_and_names_the_files(
    cli: Cli, flowers: Path, data_dir: Path
) -> None:
    write_tree(flowers, {"rose/half.jpg": jpeg(1)[:300], "tulip/none.jpg": b""})
    done = cli("pack", flowers, "--on-bad", "fail")
    assert done.returncode == 3
    assert done.stderr == (
        "imgrec: 2 of 18 images are bad: rose/half.jpg (truncated JPEG);"
        " tulip/none.jpg (empty file)\n"
        "  hint: repair or delete them, or pass --on-bad skip; finished shards are kept: a run "
        "that allows bad images reuses them\n"
    )
    assert not (data_dir / "flowers/1.0.0").exists()


def test_too_many_bad_images_publish_nothing_and_the_error_says_what_they_are(
    cli: Cli, flowers: Path, data_dir: Path
) -> None:
    write_tree(flowers, {f"rose/bad{number}.jpg": b"" for number in range(3)})
    done = cli("pack", flowers)
    assert done.returncode == 3
    assert "3 of 19 images are bad, more than --max-bad 0.1 allows" in done.stderr
    assert "3 x empty file (such as rose/bad0.jpg)" in done.stderr
    assert not (data_dir / "flowers/1.0.0").exists()
    assert pack(cli, flowers, "--max-bad", "0.2")["skipped"]


def test_a_split_whose_images_are_all_bad_is_left_out(cli: Cli, tmp_path: Path) -> None:
    tree = {"train/a/1.jpg": jpeg(1), "train/a/2.jpg": jpeg(2), "val/a/3.jpg": jpeg(3)[:300]}
    write_tree(tmp_path / "x", tree)
    value = pack(cli, "x", "--max-bad", "0.5")
    assert list(value["splits"]) == ["train"]  # type: ignore[call-overload]
    assert not list(Path(str(value["path"])).glob("*val*"))


def test_names_that_are_not_utf8_reach_the_record_as_they_are(cli: Cli, flowers: Path) -> None:
    (flowers / os.fsdecode(b"rose/caf\xe9.jpg")).write_bytes(jpeg(55))
    (flowers / os.fsdecode(b"rose/bad\xe9.jpg")).write_bytes(b"")
    value = pack(cli, flowers)
    assert value["skipped"] == [{"file": "rose/bad\\udce9.jpg", "reason": "empty file"}]
    names = [record["filename"] for record in records_of(Path(str(value["path"])))]
    assert (b"rose/caf\xe9.jpg",) in names


def test_every_file_of_the_source_is_accounted_for(cli: Cli, flowers: Path) -> None:
    write_tree(flowers, {"rose/a.txt": b"x", "rose/b.jpg": b"", "x.md": b"", "tulip/.c": b""})
    folder = Path(str(pack(cli, flowers)["path"]))
    report = json.loads((folder / "report.json").read_text())
    packed = sum(split["examples"] for split in report["splits"].values())
    ignored = sum(kind["count"] for kind in report["ignored"])
    on_disk = sum(path.is_file() for path in flowers.rglob("*"))
    assert packed + len(report["skipped"]) + ignored == on_disk == 20


def test_no_name_in_skipped_csv_is_a_formula(cli: Cli, flowers: Path) -> None:
    names = ["+1", "-1", "=cmd|calc!A0", "@SUM(1)"]
    write_tree(flowers, {f"{name}/half.jpg": jpeg(99)[:300] for name in names})
    value = pack(cli, flowers, "--max-bad", "0.5")
    with open(Path(str(value["path"])) / "skipped.csv", newline="") as file:
        paths = [path for path, _reason in list(csv.reader(file))[1:]]
    assert paths == [f"./{name}/half.jpg" for name in names]
    assert all((flowers / path).exists() for path in paths)


def test_one_jpeg_goes_the_way_that_is_written_down(tmp_path: Path) -> None:
    text = (ROOT / "imgrec/manual/architecture.md").read_text().partition("## Follow one JPEG")[2]
    lines = [line.split() for line in text.partition("## ")[0].splitlines() if line[:4] == " " * 4]
    expected = [(words[0], words[1]) for words in lines]
    flowers = class_tree(tmp_path / "flowers", {"rose": 4, "tulip": 4})
    inline.pack(flowers, tmp_path / "before", val_split=0.25)  # so that all modules are imported
    called: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT / "imgrec"):
            name = str(path.relative_to(ROOT / "imgrec")), frame.f_code.co_qualname
            if name in expected and name not in called:
                called.append(name)

    sys.setprofile(note)
    try:
        inline.pack(flowers, tmp_path / "after", val_split=0.25)
    finally:
        sys.setprofile(None)
    assert called == expected
    assert len(expected) < 30
