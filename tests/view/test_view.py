"""`imgrec view`: what it answers, to whom, and how it starts and ends."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import ROOT, Cli
from damage import change
from inline import pack, read_shard, write_shard
from pictures import class_tree, jpeg, png, write_tree
from PIL import Image
from viewing import FAULT, Viewer, recording_browser, start, viewing, wait_for

CLASSES = {"rose": 30, "tulip": 90, "<b>bold": 3}
API = ("api/dataset", "api/page", "api/record?n=0", "api/thumbnails?n=0&side=192", "image?n=0")


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """123 JPEGs of three classes, one PNG that is wide, and one that is large."""
    root = tmp_path_factory.mktemp("view")
    source = class_tree(root / "flowers", CLASSES)
    write_tree(
        source, {"rose/wide.png": png(900, (300, 10)), "rose/large.jpg": jpeg(901, (900, 600))}
    )
    return pack(source, root / "datasets", val_split=0.2)


@pytest.fixture(scope="module")
def viewer(flowers: Path) -> Iterator[Viewer]:
    with viewing(flowers) as found:
        yield found


def number_of(viewer: Viewer, name: str) -> int:
    (row,) = viewer.page(f"q={name}")["rows"]
    return int(row["number"])


# Who may ask


def test_the_address_is_of_this_machine_and_cannot_be_guessed(viewer: Viewer) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", viewer.url)


def test_nothing_listens_on_other_addresses(viewer: Viewer) -> None:
    with socket.socket() as other, pytest.raises(OSError):
        other.settimeout(5)
        other.connect(("127.0.0.2", urlsplit(viewer.url).port))


@pytest.mark.parametrize("path", ["", "index.html", "main.js", *API])
def test_nothing_is_answered_without_the_token(viewer: Viewer, path: str) -> None:
    for start_of_path in (
        "/",
        "/wrong/",
        f"/{'x' * 22}/",
        "//",
        f"/%2e%2e{urlsplit(viewer.url).path}",
    ):
        answer = viewer.ask_at(start_of_path + path)
        assert answer.status == 403
        assert answer.data == b"Open the address that `imgrec view` printed.\n"
    assert viewer.ask(path).status == 200


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "evil.example:80",
        "127.0.0.1.evil.example",
        "localhost.evil:80",
        "",
        "0.0.0.0",
    ],
)
def test_pages_that_have_their_name_point_here_are_refused(viewer: Viewer, host: str) -> None:
    assert [viewer.ask(path, Host=host).status for path in ("", *API)] == [403] * 6


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "localhost:8080", "LOCALHOST:1"])
def test_this_machine_is_served_by_whatever_port_a_tunnel_has(viewer: Viewer, host: str) -> None:
    assert viewer.ask("api/page", Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_nothing_can_be_changed_and_no_other_page_is_let_in(viewer: Viewer, method: str) -> None:
    answer = viewer.ask("api/page", method, Origin="https://evil.example")
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["", "nowhere", "api/page?class=x", *API])
def test_every_answer_closes_all_doors(viewer: Viewer, path: str) -> None:
    headers = viewer.ask(path).headers
    policy = headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self';")
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert "server" not in headers


@pytest.mark.parametrize(
    "path",
    ["dataset_info.json", "../dataset_info.json", "..%2fserver.py", "static/../server.py",
     "/etc/passwd", "..\\server.py", "index.html/", "image/0"],
)  # fmt: skip
def test_no_other_file_can_be_read(viewer: Viewer, path: str) -> None:
    assert viewer.ask(path).status in (403, 404)


def test_without_its_last_slash_the_address_leads_there(viewer: Viewer) -> None:
    path = urlsplit(viewer.url).path
    answer = viewer.ask_at(path.rstrip("/"))
    assert (answer.status, answer.headers["location"]) == (307, path)


# What is answered


def test_the_dataset_says_what_it_is(viewer: Viewer, flowers: Path) -> None:
    found = viewer.ask("api/dataset").json
    assert (found["name"], found["version"], found["records"]) == ("flowers", "1.0.0", 125)
    assert found["classes"] == ["<b>bold", "rose", "tulip"]
    assert found["splits"] == ["train", "val"]
    assert found["path"] == str(flowers)
    assert found["gathered"] is None


def test_a_page_has_the_rows_that_are_asked_for(viewer: Viewer) -> None:
    pages = [viewer.page(f"start={start}&count=50")["rows"] for start in (0, 50, 100, 150)]
    assert list(map(len, pages)) == [50, 50, 25, 0]
    numbers = [row["number"] for page in pages for row in page]
    assert numbers == list(range(125))


def test_filters_are_combined_and_counted(viewer: Viewer) -> None:
    page = viewer.page("split=val&class=2")
    assert page["total"] == len(page["rows"]) == 18
    assert {(row["split"], *row["labels"]) for row in page["rows"]} == {(1, 2)}
    assert page["counts"]["split"] == [72, 18]
    assert page["counts"]["class"][1:] == [1, 6, 18]
    assert viewer.page("q=WIDE")["rows"][0]["name"] == "rose/wide.png"
    assert viewer.page("format=PNG")["total"] == 1
    assert viewer.page("min=300&max=300")["total"] == 1
    assert viewer.page("min=301")["rows"][0]["width"] == 900
    assert viewer.page("split=nowhere")["total"] == 0


@pytest.mark.parametrize(
    "query",
    ["class=3", "class=-2", "class=x", "class=", "start=-1", "count=0", "count=201", "min=-1",
     "start=9" + "9" * 30, "start=%D9%A3", "q=" + "x" * 1001],
)  # fmt: skip
def test_what_cannot_be_asked_is_said(viewer: Viewer, query: str) -> None:
    answer = viewer.ask(f"api/page?{query}")
    assert (answer.status, list(answer.json)) == (400, ["error"])


@pytest.mark.parametrize("path", ["api/record", "image", "api/thumbnails"])
@pytest.mark.parametrize("number", ["-1", "125", "", "x", "1e3", "0x1"])
def test_a_record_that_there_is_not_is_refused(viewer: Viewer, path: str, number: str) -> None:
    assert viewer.ask(f"{path}?side=192&n={number}").status == 400


def test_thumbnails_are_of_two_sizes_and_a_page_at_most(viewer: Viewer) -> None:
    assert viewer.ask("api/thumbnails?side=1000000&n=1").status == 400
    many = ",".join(["0"] * 201)
    assert viewer.ask(f"api/thumbnails?side=192&n={many}").status == 400


@pytest.mark.parametrize("side", [192, 384])
def test_thumbnails_come_all_in_one_answer(viewer: Viewer, side: int) -> None:
    numbers = [*range(5, 45), number_of(viewer, "large"), number_of(viewer, "wide")]
    wanted = ",".join(map(str, numbers))
    for _ in range(2):  # made, and kept
        frames = viewer.ask(f"api/thumbnails?side={side}&n={wanted}").frames
        assert frames.keys() == set(numbers)
        kind, data = frames[number_of(viewer, "large")]
        width, height = Image.open(io.BytesIO(data)).size
        assert (kind, width * 2) == (0, height * 3)
        assert side <= width <= 2 * side
    assert frames[5][1] == viewer.ask("image?n=5").data  # tiny images are sent as they are


def test_an_image_is_sent_as_it_was_packed(viewer: Viewer) -> None:
    answer = viewer.ask(f"image?n={number_of(viewer, 'large')}")
    assert (answer.headers["content-type"], answer.data) == ("image/jpeg", jpeg(901, (900, 600)))
    assert answer.headers["cache-control"] == "private, max-age=86400, immutable"


def test_a_record_is_told_down_to_its_raw_features(viewer: Viewer) -> None:
    number = number_of(viewer, "wide")
    record = viewer.ask(f"api/record?n={number}&class=1").json
    features = {feature["name"]: feature for feature in record["features"]}
    assert list(features) == ["filename", "image", "label", "shape"]
    assert features["filename"]["text"] == '"rose/wide.png"'
    assert features["image"]["text"].startswith("89 50 4e 47 0d 0a 1a 0a")
    assert features["shape"] == {
        "name": "shape", "kind": "int64", "count": 3, "bytes": 0, "text": "10, 300, 3"
    }  # fmt: skip
    assert (record["width"], record["height"], record["format"]) == (300, 10, "PNG")
    assert record["shard"].startswith("flowers-")
    assert record["split_place"] == record["place"]


def test_a_record_knows_those_next_to_it_among_the_found(viewer: Viewer) -> None:
    numbers = [row["number"] for row in viewer.page("class=0")["rows"]]
    first, second, third = (viewer.ask(f"api/record?class=0&n={n}").json for n in numbers)
    assert (first.get("previous"), first["next"]) == (None, numbers[1])
    assert (second["previous"], second["next"], second["at"]) == (numbers[0], numbers[2], 1)
    assert third.get("next") is None
    other = viewer.ask(f"api/record?class=0&n={number_of(viewer, 'wide')}").json
    assert "at" not in other


def test_hostile_names_travel_as_json_alone(viewer: Viewer) -> None:
    answer = viewer.ask("api/page?class=0")
    assert answer.headers["content-type"] == "application/json"
    assert answer.json["rows"][0]["name"].startswith("<b>bold/")


# What is wrong with a dataset


def test_a_damaged_record_is_said_to_be_and_others_are_shown(flowers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "flowers" / "1.0.0"
    shutil.copytree(flowers, folder)
    shard = folder / "flowers-train.tfrecord-00000-of-00001"
    change(shard, 200)
    with viewing(folder) as viewer:
        frames = viewer.ask("api/thumbnails?side=192&n=0,1").frames
        assert (frames[0][0], frames[1][0]) == (FAULT, 0)
        assert b"checksum" in frames[0][1]
        record = viewer.ask("api/record?n=0").json
        assert "checksum" in record["error"]
        assert record["split"] == "train"
        answer = viewer.ask("image?n=0")
        assert (answer.status, "checksum" in answer.json["error"]) == (422, True)
        assert answer.headers["cache-control"] == "no-store"
        shard.unlink()
        assert viewer.ask("api/page").status == 200


def test_what_is_no_picture_is_never_sent_as_one(flowers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "flowers" / "1.0.0"
    shutil.copytree(flowers, folder)
    shard = folder / "flowers-train.tfrecord-00000-of-00001"
    records = read_shard(shard)
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\xff\xff" * 2 + b"\x08\x02\0\0\0" + bytes(20)
    fakes = [svg, b"<html><script>alert(1)</script>", b"\xff\xd8\xff<script>", bomb, b""]
    for at, fake in enumerate(fakes):
        records[at] = {**records[at], "image": (fake,)}
    gif = io.BytesIO()
    Image.new("RGB", (20, 10), "red").save(gif, "GIF")
    records[len(fakes)] = {**records[len(fakes)], "image": (gif.getvalue(),)}
    write_shard(shard, records)
    with viewing(folder) as viewer:
        for at, _ in enumerate(fakes):
            answer = viewer.ask(f"image?n={at}")
            assert (answer.status, answer.headers["content-type"]) == (422, "application/json")
        numbers = ",".join(map(str, range(len(fakes))))
        frames = viewer.ask(f"api/thumbnails?side=192&n={numbers}").frames
        assert {kind for kind, _ in frames.values()} == {FAULT}
        assert viewer.ask(f"image?n={len(fakes)}").headers["content-type"] == "image/jpeg"


def test_features_of_every_kind_are_shown_whole(flowers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "flowers" / "1.0.0"
    shutil.copytree(flowers, folder)
    shard = folder / "flowers-train.tfrecord-00000-of-00001"
    records = read_shard(shard)
    records[0] |= {"big": (2**62 + 1,), "nan": (float("nan"), 0.5), "none": (), "raw": (b"\xff\0",)}
    records[0] |= {"many": tuple(range(1000)), "text": ("Käse <i>".encode(),)}
    write_shard(shard, records)
    with viewing(folder) as viewer:
        record = viewer.ask("api/record?n=0").json
    texts = {feature["name"]: feature["text"] for feature in record["features"]}
    assert texts["big"] == "4611686018427387905"
    assert (texts["nan"], texts["none"], texts["raw"]) == ("nan, 0.5", "", "ff 00")
    assert texts["text"] == '"Käse <i>"'
    assert texts["many"].endswith("62, 63 …")


def test_a_dataset_without_a_table_is_read_for_one(flowers: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data" / "flowers" / "1.0.0"
    shutil.copytree(flowers, folder)
    (folder / "samples.parquet").unlink()
    for index in folder.glob("*.idx"):
        index.unlink()
    with viewing(flowers) as ours, viewing(folder) as viewer:
        first = viewer.page("count=5")["rows"]
        assert [row["name"] for row in first] == [r["name"] for r in ours.page("count=5")["rows"]]
        while viewer.ask("api/dataset").json["gathered"] is not None:
            time.sleep(0.05)
        for query in ("class=1", "split=val&q=00", "format=PNG", "min=100", "start=30"):
            assert viewer.page(query) == ours.page(query)


def test_images_of_several_labels_are_found_by_each(tmp_path: Path) -> None:
    files = {f"{number}.png": png(number) for number in range(4)}
    source = write_tree(tmp_path / "films", files)
    rows = "filename,labels\n0.png,war|love\n1.png,love\n2.png,\n3.png,war\n"
    (source / "list.csv").write_text(rows)
    options = ("--label-sep", "|", "--json", "--data-dir", tmp_path / "data")
    done = subprocess.run(
        [sys.executable, "-m", "imgrec", "pack", source / "list.csv", *options],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    with viewing(json.loads(done.stdout)["path"]) as viewer:
        classes = viewer.ask("api/dataset").json["classes"]
        named = {
            name: sorted(row["name"] for row in viewer.page(f"class={label}")["rows"])
            for label, name in enumerate(classes)
        }
        assert named == {"love": ["0.png", "1.png"], "war": ["0.png", "3.png"]}
        assert viewer.page("class=-1")["rows"][0]["name"] == "2.png"
        assert viewer.page()["counts"]["class"] == [1, 2, 2]


# How it starts and ends


def test_it_says_where_it_is_and_ends_quietly(flowers: Path) -> None:
    process = start(flowers)
    assert process.stdout is not None
    lines = [process.stdout.readline() for _ in range(3)]
    assert lines[0] == "flowers 1.0.0: 125 images\n"
    assert re.fullmatch(r"view        http://127\.0\.0\.1:\d+/[\w-]+/\n", lines[1])
    assert lines[2] == "stop        Ctrl-C\n"
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (out, errors, process.returncode) == ("", "", 0)


def test_the_browser_is_given_a_file_that_only_the_user_can_read_and_never_the_address(
    flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    command, told = recording_browser(tmp_path)
    monkeypatch.setenv("BROWSER", command)
    with viewing(flowers, "--open") as viewer:
        given = wait_for(told)
        assert urlsplit(viewer.url).path.strip("/") not in given
        page = Path(urlsplit(given).path)
        assert [stat.S_IMODE(path.stat().st_mode) for path in (page, page.parent)] == [0o600, 0o700]
        assert f'content="0; url={viewer.url}"' in page.read_text()
    assert not page.parent.exists()


@pytest.mark.parametrize(
    "line",
    ["GET *", "OPTIONS *", "GET //", "CONNECT localhost:80", "GET http://127.0.0.1/", "GET x"],
)
def test_a_request_for_no_path_is_refused_and_the_next_is_answered(
    viewer: Viewer, line: str
) -> None:
    parts = urlsplit(viewer.url)
    with socket.create_connection(("127.0.0.1", parts.port), timeout=30) as asking:
        asking.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        status = asking.makefile("rb").readline().split()[1]
    assert status in (b"400", b"403")
    assert viewer.ask("").status == 200


def test_a_port_that_is_taken_is_one_sentence(flowers: Path, cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("view", flowers, "--port", str(port))
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr == (
        f"imgrec: cannot listen on port {port}: another program uses it\n"
        "  hint: give another --port, or none to get a free one\n"
    )


def test_the_port_can_be_chosen(flowers: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with viewing(flowers, "--port", str(port)) as viewer:
        assert urlsplit(viewer.url).port == port


@pytest.mark.parametrize("port", ["-1", "65536"])
def test_what_is_no_port_is_refused(flowers: Path, cli: Cli, port: str) -> None:
    done = cli("view", flowers, f"--port={port}")
    assert (done.returncode, done.stderr.splitlines()[0]) == (
        2,
        f"imgrec: --port {port} is not a port",
    )


def test_a_compressed_dataset_gets_a_clear_answer(tmp_path: Path, cli: Cli) -> None:
    source = class_tree(tmp_path / "roses", {"rose": 3})
    done = cli("pack", source, "--compression", "gzip", "--json")
    done = cli("view", json.loads(done.stdout)["path"])
    assert done.returncode == 5
    assert done.stderr == (
        "imgrec: roses is gzip-compressed, so its records cannot be read by number\n"
        "  hint: pack it without --compression to view it\n"
    )


def test_a_dataset_that_is_not_there_gets_a_clear_answer(cli: Cli) -> None:
    done = cli("view", "nothing")
    assert (done.returncode, done.stderr[:32]) == (5, "imgrec: no dataset 'nothing': it")


def test_a_table_that_does_not_fit_gets_a_clear_answer(
    flowers: Path, tmp_path: Path, cli: Cli
) -> None:
    folder = tmp_path / "data" / "flowers" / "1.0.0"
    shutil.copytree(flowers, folder)
    (folder / "samples.parquet").write_bytes(b"PAR1")
    done = cli("view", folder)
    assert (done.returncode, done.stdout) == (5, "")
    assert "samples.parquet cannot be read" in done.stderr


def test_more_records_than_bytes_are_not_believed(flowers: Path, tmp_path: Path, cli: Cli) -> None:
    folder = tmp_path / "data" / "flowers" / "1.0.0"
    shutil.copytree(flowers, folder)
    (folder / "samples.parquet").unlink()
    info = json.loads((folder / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = [str(1 << 39)]
    (folder / "dataset_info.json").write_text(json.dumps(info))
    done = cli("view", folder)
    assert (done.returncode, done.stdout) == (5, "")
    assert "too few for the 549755813888 records" in done.stderr


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_without_the_extra_the_answer_is_the_pip_command(flowers: Path, missing: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from imgrec.cli.main import main; "
    code += f"sys.exit(main(['view', {str(flowers)!r}]))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 7
    assert done.stderr == (
        f"imgrec: imgrec view needs {missing}, which is not installed\n"
        "  hint: pip install 'imgrec[view]'\n"
    )
