"""Hostile sources and datasets: nothing hangs, leads elsewhere, or takes all memory."""

from __future__ import annotations

import ast
import csv
import gzip
import io
import json
import os
import resource
import struct
import subprocess
import sys
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROOT, Cli
from damage import make_flowers
from inline import ENGINE, faults_of, pack
from parsers import TASK
from pictures import chunk, class_tree, encode, jpeg, picture, png, png_of, write_tree
from PIL.PngImagePlugin import PngInfo

import imgrec
from imgrec.cli.main import main
from imgrec.codec import jpeg as jpeg_codec
from imgrec.codec.image import prepare
from imgrec.codec.json_files import decode_result as decode_note
from imgrec.errors import BadImage, DatasetError, SourceError
from imgrec.inspect.report.facts import snippets_for
from imgrec.layout import data_source_line, load_line
from imgrec.options import Check
from imgrec.read.documents import read_info, read_report

GIB = 1 << 30


def texts(**values: str) -> PngInfo:
    info = PngInfo()
    for key, value in values.items():
        info.add_text(key, value)
    return info


def jpeg_of_size(width: int, height: int) -> bytes:
    data = bytearray(jpeg(1))
    frame = data.index(b"\xff\xc0")
    data[frame + 5 : frame + 9] = struct.pack(">HH", height, width)
    return bytes(data)


BOMBS = {
    "a PNG of 2^31 x 2^31 pixels": png_of((1 << 31) - 1, (1 << 31) - 1, b""),
    "a JPEG of 65535 x 65535 pixels": jpeg_of_size(65535, 65535),
    "a GIF of 65535 x 65535 pixels": encode(picture(1), "GIF")[:6] + b"\xff" * 4 + b"\0" * 40,
    "a BMP whose header lies": encode(picture(1), "BMP")[:18]
    + b"\xff\xff\xff\x7f" * 2
    + b"\0" * 60,
    "a TIFF whose offsets lead outside": b"II*\0" + struct.pack("<I", 0x7FFFFFF0),
    "a WebP that is longer than it is": b"RIFF\xff\xff\xff\x7fWEBPVP8 " + b"\xff" * 40,
}


@pytest.mark.parametrize("check", ["decode", "structure"])
def test_picture_bombs_are_named_and_cost_little_memory(
    cli: Cli, tmp_path: Path, check: str
) -> None:
    source = class_tree(tmp_path / "flowers", {"rose": 8})
    write_tree(source, {f"rose/{name}.png": data for name, data in BOMBS.items()})
    # TensorFlow, too, stops at the last row that the header tells of.
    write_tree(source, {"rose/rows.png": png_of(8, 8, zlib.compress(bytes(64 << 20)))})

    def little_memory() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (2 * GIB, 2 * GIB))

    options = ["--workers", "1", "--json", "--max-bad", "0.9", "--check", check]
    done = cli("pack", source, *options, preexec_fn=little_memory)
    assert done.returncode == 0, done.stderr
    value = json.loads(done.stdout)
    assert value["splits"]["train"]["examples"] == 9
    assert len(value["skipped"]) == len(BOMBS)


def test_of_a_png_of_too_many_chunks_only_the_pixels_are_packed() -> None:
    data = png(1)
    many = data[:33] + chunk(b"teXt", b"") * 200_001 + data[33:]
    packable = prepare(many, "x.png", Check.DECODE)
    assert packable.transcoded == "PNG of more than 200,000 chunks"
    assert len(packable.data) < 2 * len(data)


def test_long_headers_are_not_kept_in_memory() -> None:
    jpeg_codec._known_header.cache_clear()
    for number in range(20):
        segment = b"\xff\xe1" + struct.pack(">H", 65_000) + bytes([number]) * 64_998
        jpeg_codec.read_header(b"\xff\xd8" + segment + jpeg(1)[2:])
    assert jpeg_codec._known_header.cache_info().currsize == 0


def test_folders_that_are_too_deep_to_name_are_an_error(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"rose": 2})
    here = os.getcwd()
    try:
        os.chdir(source / "rose")
        for _ in range(1500):  # far beyond what one path may be
            os.mkdir("deeper")
            os.chdir("deeper")
        Path("3.jpg").write_bytes(jpeg(3))
    finally:
        os.chdir(here)
    try:
        with pytest.raises(SourceError, match="File name too long") as caught:
            pack(source, tmp_path / "out")
        assert len(str(caught.value)) < 10_000
    finally:
        subprocess.run(["rm", "-rf", str(source / "rose/deeper")], check=True)
    assert not (tmp_path / "out").exists()


def test_a_device_and_a_socket_in_a_class_are_passed_over(tmp_path: Path) -> None:
    import socket

    source = class_tree(tmp_path / "x", {"rose": 2})
    os.symlink("/dev/zero", source / "rose/zero.jpg")
    os.symlink("/dev/tty", source / "rose/tty.jpg")
    os.mkfifo(source / "rose/pipe.jpg")
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(source / "rose/socket.jpg"))
        folder = pack(source, tmp_path / "out")
    assert len(imgrec.open_dataset(folder)["train"]) == 2
    report = json.loads((folder / "report.json").read_text())
    assert [(kind["kind"], kind["count"]) for kind in report["ignored"]] == [("special file", 4)]


def test_links_that_lead_to_each_other_are_no_images(tmp_path: Path) -> None:
    source = class_tree(tmp_path / "x", {"rose": 9})
    os.symlink("b.jpg", source / "rose/a.jpg")
    os.symlink("a.jpg", source / "rose/b.jpg")
    os.symlink("..", source / "rose/up")
    folder = pack(source, tmp_path / "out", max_bad=0.5)
    skipped = list(csv.DictReader(io.StringIO((folder / "skipped.csv").read_text())))
    assert [row["file"] for row in skipped] == ["rose/a.jpg", "rose/b.jpg"]
    assert {row["reason"] for row in skipped} == {"broken link"}


NAMES = (
    "=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", '=HYPERLINK("http:x")', "a\n=1", "a,=1", "a;=1",
    "a,b;=1", "a\t=1", ';"=1', "a;\r=1",
)  # fmt: skip


@pytest.mark.parametrize("kind", ["folder", "table"])
def test_no_cell_of_skipped_csv_is_computed_by_a_spreadsheet(tmp_path: Path, kind: str) -> None:
    """Neither a name nor a reason, which may quote a cell, whatever separates cells."""
    source = class_tree(tmp_path / "x", {"rose": 9})
    options = imgrec.SourceOptions()
    if kind == "folder":
        write_tree(source, {f"rose/{name}.jpg": b"=cmd|x" for name in NAMES})
    else:
        rows = [f"rose/00{n}.jpg,rose,{n}" for n in range(8)]
        rows.append('rose/008.jpg,rose,"a;=1+1;\t@x\n-1"')
        source = (
            write_tree(source, {"t.csv": "\n".join(["path,label,n", *rows]).encode()}) / "t.csv"
        )
        options = imgrec.SourceOptions(column=("n:int",))
    folder = pack(source, tmp_path / "out", max_bad=1.0, source=options)
    text = (folder / "skipped.csv").read_bytes().decode()
    assert "1+1" in text
    for delimiter in ",;\t":
        for row in csv.reader(io.StringIO(text, newline=""), delimiter=delimiter):
            assert not any(cell.lstrip("\t\r\n ")[:1] in tuple("=+-@") for cell in row if cell), row


TRICKS = ("\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\u202egpj.exe", "\u2066", "\r", "\u2028")
BREAKS = ("\r", "\u2028")


@pytest.mark.parametrize("verb", ["pack", "plan", "leaks"])
def test_no_name_reaches_the_terminal_but_as_text(cli: Cli, tmp_path: Path, verb: str) -> None:
    source = class_tree(tmp_path / "x", {"rose": 9})
    for number, trick in enumerate(TRICKS):
        write_tree(source, {f"rose/{trick}{number}.jpg": jpeg(1), f"rose/bad{trick}.jpg": b"bad"})
        if trick not in BREAKS:  # no class is called so
            write_tree(source, {f"r{trick}t/a.jpg": jpeg(number)})
    done = cli(verb, source, *(["--max-bad", "0.9"] if verb == "pack" else []))
    shown = done.stdout + done.stderr
    assert "bad" in shown or verb == "leaks"
    assert not set(shown) & set("\x1b\x07\x9b\u202e\u2066\r\u2028")


# Tables that unpack to far more than they are


def repeated(rows: int, value: str) -> pa.DictionaryArray[Any]:
    """Return a column that stores a value once for many rows."""
    return pa.DictionaryArray.from_arrays(pa.array([0] * rows, pa.int32()), [value])


def test_a_gzipped_manifest_that_is_a_bomb_is_refused(tmp_path: Path) -> None:
    packed = tmp_path / "t.csv.gz"
    packed.write_bytes(gzip.compress(b"id,label\n" + (b"a.jpg," + b"x" * 100_000 + b"\n") * 1100))
    with pytest.raises(SourceError, match="a decompression bomb"):
        imgrec.plan(packed, engine=ENGINE)


@pytest.mark.parametrize(
    ("rows", "length", "keeps_type"),
    [(40_000, 10_000, True), (4096, 2_000_000, True), (4096, 2_000_000, False)],
)
def test_a_parquet_manifest_that_repeats_a_long_value_is_refused(
    tmp_path: Path, rows: int, length: int, keeps_type: bool
) -> None:
    table = pa.table({"image": ["a.png"] * rows, "label": repeated(rows, "x" * length)})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path, compression="zstd", store_schema=keeps_type)
    before = pa.total_allocated_bytes()
    with pytest.raises(SourceError, match="it is a decompression bomb"):
        imgrec.plan(path, engine=ENGINE)
    assert pa.default_memory_pool().max_memory() - before < 512 << 20


def test_a_table_of_samples_that_is_a_bomb_is_an_error_and_a_fault(tmp_path: Path) -> None:
    flowers = make_flowers(tmp_path)
    one = repeated(40_000, "x" * 10_000)
    table = pa.table({"filename": one, "label": pa.array([0] * 40_000), "split": one, "xxh3": one})
    pq.write_table(table, flowers / "samples.parquet", compression="zstd")
    with pytest.raises(DatasetError, match="cannot be read"):
        imgrec.open_dataset(flowers)["train"].of_class("rose")
    assert "samples.parquet" in {path for path, _, _ in faults_of(flowers)}


def test_a_result_with_an_endless_number_is_refused() -> None:
    with pytest.raises(DatasetError):
        decode_note(b'{"bad": [], "resized": [1e999, []], "size": 1e999}', TASK)


# Names that lead elsewhere


def test_a_manifest_does_not_lead_out_of_its_folder(tmp_path: Path) -> None:
    write_tree(tmp_path, {"secret.jpg": jpeg(9), "set/a.jpg": jpeg(1)})
    rows = f"id,label\na.jpg,x\n../secret.jpg,x\n{tmp_path}/secret.jpg,x\n"
    (tmp_path / "set/t.csv").write_text(rows)
    folder = pack(tmp_path / "set/t.csv", tmp_path / "out", max_bad=1.0)
    assert [record.filename for record in imgrec.open_dataset(folder)["train"]] == ["a.jpg"]


def test_a_dataset_named_by_its_own_metadata_does_not_lead_out_of_its_folder(
    tmp_path: Path,
) -> None:
    flowers = make_flowers(tmp_path)
    write_tree(tmp_path, {"secret-train.tfrecord-00000-of-00001": b"secret"})
    info = json.loads((flowers / "dataset_info.json").read_text())
    for split in info["splits"]:
        split["filepathTemplate"] = "../../../secret-{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}"
    info["name"] = "../../secret"
    (flowers / "dataset_info.json").write_text(json.dumps(info))
    with pytest.raises(DatasetError):
        list(imgrec.open_dataset(flowers)["train"])
    assert faults_of(flowers)


def test_images_of_every_class_name_stay_in_their_folder(tmp_path: Path) -> None:
    """What a class is called is no path: not in a file's name, nor in TFDS's."""
    source = tmp_path / "x"
    write_tree(source, {"r..e/1.png": png(1), "a;rm -rf x/2.png": png(2), "$(id)/3.png": png(3)})
    folder = pack(source, tmp_path / "out")
    assert sorted(imgrec.info(folder).classes) == ["$(id)", "a;rm -rf x", "r..e"]
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["x"]


TEXTS = {
    "a text called transparency": png(1, pnginfo=texts(transparency="x")),
    "a long comment in a GIF": encode(picture(1, "P"), "GIF", comment=b"a" * 70_000),
    "a long comment in a PNG": png(1, pnginfo=texts(comment="a" * 70_000)),
}


def test_texts_that_pillow_relies_on_stop_no_pack(tmp_path: Path) -> None:
    files = {f"a/{number}.png": data for number, data in enumerate(TEXTS.values())}
    root = write_tree(tmp_path / "x", {**files, "a/9.jpg": jpeg(2)})
    folder = pack(root, tmp_path / "out", near_dups="report", short_side=8)
    assert imgrec.report(folder, path=tmp_path / "r.html", engine=ENGINE).thumbnails == 4
    assert not imgrec.leaks(root, engine=ENGINE).is_leaking


def test_endless_jpegs_are_named(tmp_path: Path) -> None:
    data = jpeg(1, progressive=True)
    scans = data.index(b"\xff\xda")
    many = data[:scans] + data[scans:-2] * 60 + data[-2:]
    root = write_tree(tmp_path / "x", {"a/1.jpg": many, "a/2.jpg": jpeg(2), "a/3.jpg": jpeg(3)})
    os.truncate(root / "a/2.jpg", 1 << 40)
    report = json.loads((pack(root, tmp_path / "out", max_bad=1) / "report.json").read_text())
    assert report["skipped"] == [
        {"file": "a/1.jpg", "reason": "JPEG of more than 200 scans"},
        {"file": "a/2.jpg", "reason": "larger than 1,072,693,248 bytes"},
    ]


def test_a_tile_larger_than_any_picture_is_not_decoded() -> None:
    tags = {256: 16, 257: 16, 258: 8, 259: 1, 262: 1, 277: 1, 322: 20_000, 323: 20_000, 324: 8,
            325: 256}  # fmt: skip
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags.items())
    data = b"II*\0" + struct.pack("<IH", 8, len(tags)) + entries + bytes(260)
    with pytest.raises(BadImage, match="20000x20000 pixels"):
        prepare(data, "x.tif", Check.DECODE)


def test_json_lines_of_endless_keys_are_refused(tmp_path: Path) -> None:
    lines = [json.dumps({"image": "1.jpg", "label": "x", f"k{n}": 1}) for n in range(20_000)]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    with pytest.raises(SourceError, match="20,002 different keys in 20,000 rows"):
        imgrec.plan(tmp_path / "x.jsonl", engine=ENGINE)


def test_gzipped_images_of_no_bytes_each_are_refused(tmp_path: Path) -> None:
    count = 5_000_000
    images = struct.pack(">HBBIII", 0, 8, 3, count, 1, 1) + bytes(count)
    labels = struct.pack(">HBBI", 0, 8, 1, count) + bytes(count)
    write_tree(tmp_path / "x", {
        "train-images-idx3-ubyte.gz": gzip.compress(images, 1),
        "train-labels-idx1-ubyte.gz": gzip.compress(labels, 1),
    })  # fmt: skip
    with pytest.raises(SourceError, match=r"5,000,000 images in .* decompression bomb"):
        imgrec.plan(tmp_path / "x", engine=ENGINE)


@pytest.mark.parametrize("is_repeated", [True, False])
def test_a_table_of_names_that_are_not_text_is_our_error(tmp_path: Path, is_repeated: bool) -> None:
    path = make_flowers(tmp_path) / "samples.parquet"
    table = pq.read_table(path)
    place = table.schema.get_field_index("filename")
    for values, message in (
        (pa.array([b"\xff"] * len(table), pa.binary()).view(pa.string()), "cannot be read"),
        (pa.nulls(len(table), pa.string()), "is not as imgrec writes it"),
    ):
        names = table.set_column(place, "filename", values)
        pq.write_table(names, path, use_dictionary=is_repeated)
        with pytest.raises(DatasetError, match=rf"samples\.parquet {message}"):
            imgrec.open_dataset(path.parent)["train"].find("rose/none.jpg")


@pytest.mark.parametrize("name", ["samples.parquet", "report.json", "SHA256SUMS"])
def test_a_pipe_in_a_dataset_holds_nothing_up(tmp_path: Path, name: str) -> None:
    folder = make_flowers(tmp_path)
    (folder / name).unlink()
    os.mkfifo(folder / name)
    code = (
        "import imgrec, sys\n"
        "def told(do):\n"
        "    try: do()\n"
        "    except imgrec.ImgrecError as error: print(error)\n"
        "told(lambda: imgrec.open_dataset(sys.argv[1])['train'].of_class('rose'))\n"
        "told(lambda: imgrec.report(sys.argv[1], path=sys.argv[2]))\n"
        "told(lambda: imgrec.pack(sys.argv[3],"
        " imgrec.PackOptions(data_dir=sys.argv[4], val_split=0.25)))\n"
    )
    places = (folder, tmp_path / "r.html", tmp_path / "flowers", tmp_path / "datasets")
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code, *map(str, places)],
        env=environment, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert done.stderr == ""
    assert name in done.stdout


@pytest.mark.parametrize(
    ("document", "change"),
    [
        ("dataset_info.json", lambda value: value["splits"][0].update(shardLengths=[1e999])),
        ("dataset_info.json", lambda value: value.update(name="\ud800")),
        ("dataset_info.json", lambda value: value["splits"].append(value["splits"][0])),
        ("dataset_info.json", lambda value: value.update(alternativeFileFormats=["\ud800"])),
        ("metadata.json", lambda value: value["imgrec"]["class_counts"].update(train="abc")),
    ],
)  # fmt: skip
def test_documents_that_make_no_sense_are_our_error(
    tmp_path: Path, document: str, change: Callable[[dict[str, Any]], object]
) -> None:
    folder = make_flowers(tmp_path)
    value = json.loads((folder / document).read_text())
    change(value)
    (folder / document).write_text(json.dumps(value))
    with pytest.raises(DatasetError) as caught:
        imgrec.open_dataset(folder)
    assert str(caught.value).startswith(str(folder / document))


def test_documents_that_are_too_large_are_not_read(tmp_path: Path) -> None:
    folder = make_flowers(tmp_path)
    (folder / "label.labels.txt").write_bytes(b"a\n" * (3 << 20))
    with pytest.raises(DatasetError, match=r"label.labels.txt: it names more than 1,048,576"):
        imgrec.open_dataset(folder)
    os.truncate(folder / "dataset_info.json", 1 << 40)
    with pytest.raises(DatasetError, match=r"dataset_info\.json: the file is larger than"):
        imgrec.open_dataset(folder)


@pytest.mark.parametrize("value", [b"[" * 100_000, b'{"a":[' + b"[]," * (9 << 20) + b"[]]}"])
@pytest.mark.parametrize("document", ["dataset_info.json", "metadata.json", "features.json"])
def test_json_that_would_take_gigabytes_or_is_too_deep_is_not_read(
    tmp_path: Path, document: str, value: bytes
) -> None:
    folder = make_flowers(tmp_path)
    (folder / "label.labels.txt").unlink()
    (folder / document).write_bytes(value)
    with pytest.raises(DatasetError, match=f"{document}: the file is not JSON"):
        imgrec.open_dataset(folder)


def test_an_unexpected_error_is_one_sentence_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr("imgrec.api.info", fail)
    assert main(["info", "flowers"]) == 6
    complaint, hint = capsys.readouterr().err.splitlines()
    assert complaint.startswith("imgrec: it failed with KeyError: 'x' (")
    assert "please report it" in hint


@pytest.mark.parametrize("closed", ["2>&-", "<&- >&- 2>&-", "2>/dev/full"])
def test_streams_that_are_closed_or_full_do_not_keep_a_pack_from_its_end(
    tmp_path: Path, closed: str
) -> None:
    class_tree(tmp_path / "flowers", {"rose": 3})
    command = f'exec "$0" -m imgrec pack flowers --yes --data-dir out --workers 2 {closed}'
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        ["sh", "-c", command, sys.executable],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert imgrec.verify("flowers", data_dir=tmp_path / "out").faults == ()


@pytest.mark.parametrize("option", ["--label-regex", "--group-by"])
@pytest.mark.parametrize("pattern", ["a{99999999999}", "(" * 5000, "[", "(?P<a>b)(?P<a>c)"])
def test_an_invalid_regular_expression_is_one_sentence(
    capsys: pytest.CaptureFixture[str], option: str, pattern: str
) -> None:
    assert main(["plan", "nowhere", option, pattern]) == 2
    error = capsys.readouterr().err
    assert f"imgrec: {option} " in error
    assert "is not a regular expression" in error
    assert len(error) < 600


EVIL = 'x"); __import__("os").system("touch hacked"); ("'


def test_no_name_or_split_gets_code_into_the_lines_that_people_copy(
    cli: Cli, tmp_path: Path
) -> None:
    folder = make_flowers(tmp_path)
    value = json.loads((folder / "dataset_info.json").read_text())
    value["splits"][0]["name"] = EVIL
    (folder / "dataset_info.json").write_text(json.dumps(value | {"name": EVIL}))
    report = json.loads((folder / "report.json").read_text())
    report["splits"] = {EVIL: report["splits"]["train"]}
    (folder / "report.json").write_text(json.dumps(report | {"name": EVIL}))
    lines = [read_info(folder).load, load_line(tmp_path, EVIL, "1.0.0", EVIL, "gzip")]
    lines += [data_source_line(tmp_path, EVIL, "1.0.0", EVIL)]
    lines += snippets_for(read_report(folder)).values()
    assert len(lines) == 7
    for line in lines:
        calls = [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Call)]
        texts = [node.value for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Constant)]
        assert all("system" not in ast.unparse(call.func) for call in calls), line
        assert any(EVIL in str(text) for text in texts), line
    done = cli("doctor", "--quick", str(folder))
    (loads,) = [line for line in done.stdout.splitlines() if line.startswith("load ")] or [""]
    assert "system" not in loads or repr(EVIL) in loads


@pytest.mark.parametrize(
    "change",
    [
        lambda value: value.update(name=["x"]),
        lambda value: value.update(classes="abc"),
        lambda value: value.update(splits={"train": {"shard_lengths": "12"}}),
        lambda value: value.update(options={"seed": {"a": 1}}),
        lambda value: value.update(warnings=[1]),
        lambda value: value.update(skipped=[{"file": 1, "reason": "x"}]),
        lambda value: value.update(duplicates=["abc"]),
        lambda value: value.update(ignored=[{"kind": "x", "count": "9", "examples": []}]),
        lambda value: value.update(source_bytes=-1),
        lambda value: value.update(near_duplicates={"pairs": 1}),
        lambda value: value.update(options={"a": json.loads("[" * 900 + "]" * 900)}),
    ],
)
def test_an_invalid_report_is_our_error(
    tmp_path: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    folder = make_flowers(tmp_path)
    value = json.loads((folder / "report.json").read_text())
    change(value)
    (folder / "report.json").write_text(json.dumps(value))
    with pytest.raises(DatasetError, match=r"report\.json is not a report of imgrec"):
        imgrec.report(folder, path=tmp_path / "a.html", engine=ENGINE)


@pytest.mark.parametrize("verb", ["report", "leaks", "unpack"])
def test_more_records_than_bytes_are_not_believed(cli: Cli, tmp_path: Path, verb: str) -> None:
    folder = make_flowers(tmp_path)
    value = json.loads((folder / "dataset_info.json").read_text())
    value["splits"][0]["shardLengths"] = [str(1 << 40)]
    (folder / "dataset_info.json").write_text(json.dumps(value))
    done = cli(verb, str(folder), *([str(tmp_path / "tree")] if verb == "unpack" else []))
    assert (done.returncode, done.stdout) == (5, "")
    assert "dataset_info.json" in done.stderr
