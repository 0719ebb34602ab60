"""`imgrec view`: who gets an answer, what it is, and how the server starts and ends."""

from __future__ import annotations

import io
import json
import re
import shutil
import signal
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from conftest import Cli
from damage import change
from inline import pack, read_shard, write_shard
from pictures import class_tree, encode, jpeg, png, write_tree
from PIL import Image
from viewing import FAULT, Viewer, start, viewing

import imgrec

CLASSES = {"rose": 30, "tulip": 90, "<b>bold": 3}
API = ("api/dataset", "api/page", "api/record?n=0", "api/thumbnails?n=0&side=192", "image?n=0")
SHARD = "flowers-train.tfrecord-00000-of-00001"


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


@pytest.fixture
def copy(flowers: Path, tmp_path: Path) -> Path:
    """A copy of the dataset, to be damaged."""
    return shutil.copytree(flowers, tmp_path / "data" / "flowers" / "1.0.0")


def number_of(viewer: Viewer, name: str) -> int:
    (row,) = viewer.page(f"q={name}")["rows"]
    return int(row["number"])


# Who gets an answer


def test_it_listens_on_loopback_at_an_address_that_cannot_be_guessed(viewer: Viewer) -> None:
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/[\w-]{22}/", viewer.url)
    with socket.socket() as other, pytest.raises(OSError):
        other.settimeout(5)
        other.connect(("127.0.0.2", urlsplit(viewer.url).port))


@pytest.mark.parametrize("path", ["", "index.html", "main.js", *API])
def test_nothing_is_answered_without_the_token(viewer: Viewer, path: str) -> None:
    token = urlsplit(viewer.url).path
    for prefix in ("/", "/wrong/", f"/{'x' * 22}/", "//", f"/%2e%2e{token}"):
        answer = viewer.ask_at(prefix + path)
        assert answer.status == 403
        assert answer.data == b"Open the address that `imgrec view` printed.\n"
    assert viewer.ask(path).status == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("evil.example", 403), ("evil.example:80", 403), ("127.0.0.1.evil.example", 403),
        ("localhost.evil:80", 403), ("", 403), ("0.0.0.0", 403),
        ("127.0.0.1", 200), ("localhost", 200), ("localhost:8080", 200), ("LOCALHOST:1", 200),
    ],
)  # fmt: skip
def test_only_the_names_of_this_machine_are_served(viewer: Viewer, host: str, status: int) -> None:
    assert {viewer.ask(path, Host=host).status for path in ("", *API)} == {status}


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH"])
def test_other_methods_and_other_pages_are_refused(viewer: Viewer, method: str) -> None:
    answer = viewer.ask("api/page", method, Origin="https://evil.example")
    assert answer.status == 405
    assert not [name for name in answer.headers if name.startswith("access-control")]


@pytest.mark.parametrize("path", ["", "nowhere", "api/page?class=x", *API])
def test_every_answer_has_security_headers(viewer: Viewer, path: str) -> None:
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


@pytest.mark.parametrize(
    "line",
    ["GET *", "OPTIONS *", "GET //", "CONNECT localhost:80", "GET http://127.0.0.1/", "GET x"],
)
def test_a_request_without_a_path_is_refused(viewer: Viewer, line: str) -> None:
    with socket.create_connection(("127.0.0.1", urlsplit(viewer.url).port), timeout=30) as asking:
        asking.sendall(f"{line} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        status = asking.makefile("rb").readline().split()[1]
    assert status in (b"400", b"403")
    assert viewer.ask("").status == 200


def test_the_address_without_its_last_slash_redirects(viewer: Viewer) -> None:
    path = urlsplit(viewer.url).path
    answer = viewer.ask_at(path.rstrip("/"))
    assert (answer.status, answer.headers["location"]) == (307, path)


# What is answered


def test_the_dataset_and_all_its_records_are_listed(viewer: Viewer, flowers: Path) -> None:
    found = viewer.ask("api/dataset").json
    assert (found["name"], found["version"], found["records"]) == ("flowers", "1.0.0", 125)
    assert found["classes"] == ["<b>bold", "rose", "tulip"]
    assert (found["splits"], found["path"]) == (["train", "val"], str(flowers))
    assert found["gathered"] is None
    pages = [viewer.page(f"start={start}&count=50")["rows"] for start in (0, 50, 100, 150)]
    assert list(map(len, pages)) == [50, 50, 25, 0]
    assert [row["number"] for page in pages for row in page] == list(range(125))


def test_filters_are_combined_and_counted(viewer: Viewer) -> None:
    page = viewer.page("split=val&class=2")
    assert page["total"] == len(page["rows"]) == 18
    assert {(row["split"], *row["labels"]) for row in page["rows"]} == {(1, 2)}
    assert page["counts"]["split"] == [72, 18]
    assert page["counts"]["class"][1:] == [1, 6, 18]
    assert viewer.page("q=WIDE")["rows"][0]["name"] == "rose/wide.png"
    answer = viewer.ask("api/page?class=0")
    assert answer.headers["content-type"] == "application/json"  # hostile names stay text
    assert answer.json["rows"][0]["name"].startswith("<b>bold/")
    totals = {"format=PNG": 1, "min=300&max=300": 1, "min=301": 1, "split=nowhere": 0}
    assert {query: viewer.page(query)["total"] for query in totals} == totals


@pytest.mark.parametrize(
    "query",
    ["class=3", "class=-2", "class=x", "class=", "start=-1", "count=0", "count=201", "min=-1",
     "start=9" + "9" * 30, "start=%D9%A3", "q=" + "x" * 1001, "sort=shoe", "in.shoe=1",
     "from.shoe=x"],
)  # fmt: skip
def test_a_wrong_query_is_refused(viewer: Viewer, query: str) -> None:
    answer = viewer.ask(f"api/page?{query}")
    assert (answer.status, list(answer.json)) == (400, ["error"])


def test_unknown_records_and_sizes_are_refused(viewer: Viewer) -> None:
    for number in ("-1", "125", "", "x", "1e3", "0x1"):
        for path in ("api/record", "image", "api/thumbnails"):
            assert viewer.ask(f"{path}?side=192&n={number}").status == 400
    assert viewer.ask("api/thumbnails?side=1000000&n=1").status == 400
    assert viewer.ask(f"api/thumbnails?side=192&n={','.join(['0'] * 201)}").status == 400


@pytest.mark.parametrize("side", [192, 384])
def test_thumbnails_come_all_in_one_answer(viewer: Viewer, side: int) -> None:
    large = number_of(viewer, "large")
    numbers = [*range(5, 45), large, number_of(viewer, "wide")]
    frames = viewer.ask(f"api/thumbnails?side={side}&n={','.join(map(str, numbers))}").frames
    assert frames.keys() == set(numbers)
    kind, data = frames[large]
    width, height = Image.open(io.BytesIO(data)).size
    assert (kind, width * 2) == (0, height * 3)
    assert side <= width <= 2 * side
    assert frames[5][1] == viewer.ask("image?n=5").data  # tiny images are sent unchanged


def test_an_image_is_sent_as_it_was_packed(viewer: Viewer) -> None:
    answer = viewer.ask(f"image?n={number_of(viewer, 'large')}")
    assert (answer.headers["content-type"], answer.data) == ("image/jpeg", jpeg(901, (900, 600)))
    assert answer.headers["cache-control"] == "private, max-age=86400, immutable"


def test_a_record_is_described_with_its_raw_features(viewer: Viewer) -> None:
    record = viewer.ask(f"api/record?n={number_of(viewer, 'wide')}&class=1").json
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


def test_a_record_has_neighbours_among_the_matches(viewer: Viewer) -> None:
    numbers = [row["number"] for row in viewer.page("class=0")["rows"]]
    first, second, third = (viewer.ask(f"api/record?class=0&n={n}").json for n in numbers)
    assert (first.get("previous"), first["next"]) == (None, numbers[1])
    assert (second["previous"], second["next"], second["at"]) == (numbers[0], numbers[2], 1)
    assert third.get("next") is None
    assert "at" not in viewer.ask(f"api/record?class=0&n={number_of(viewer, 'wide')}").json


# Damaged and other datasets


def test_a_damaged_record_is_reported_and_others_are_shown(copy: Path) -> None:
    change(copy / SHARD, 200)
    with viewing(copy) as viewer:
        frames = viewer.ask("api/thumbnails?side=192&n=0,1").frames
        assert (frames[0][0], frames[1][0]) == (FAULT, 0)
        assert b"checksum" in frames[0][1]
        record = viewer.ask("api/record?n=0").json
        assert ("checksum" in record["error"], record["split"]) == (True, "train")
        row = viewer.page("count=1")["rows"][0]  # its name and label are known all the same
        assert (record["filename"], record["labels"]) == (row["name"], row["labels"])
        assert row["name"] != ""
        answer = viewer.ask("image?n=0")
        assert (answer.status, "checksum" in answer.json["error"]) == (422, True)
        assert answer.headers["cache-control"] == "no-store"
        (copy / SHARD).unlink()
        assert viewer.ask("api/page").status == 200


def test_only_pictures_are_sent_as_pictures(copy: Path) -> None:
    records = read_shard(copy / SHARD)
    svg = b"<svg xmlns='http://www.w3.org/2000/svg' onload='alert(1)'/>"
    bomb = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\0\0\xff\xff" * 2 + b"\x08\x02\0\0\0" + bytes(20)
    fakes = [svg, b"<html><script>alert(1)</script>", b"\xff\xd8\xff<script>", bomb, b""]
    for at, image in enumerate([*fakes, encode(Image.new("RGB", (20, 10), "red"), "GIF")]):
        records[at] = {**records[at], "image": (image,)}
    write_shard(copy / SHARD, records)
    with viewing(copy) as viewer:
        *answers, gif = (viewer.ask(f"image?n={at}") for at in range(len(fakes) + 1))
        assert {(answer.status, answer.headers["content-type"]) for answer in answers} == {
            (422, "application/json")
        }
        assert gif.headers["content-type"] == "image/jpeg"
        frames = viewer.ask("api/thumbnails?side=192&n=0,1,2,3,4").frames
        assert [kind for kind, _ in frames.values()] == [FAULT] * 5


def test_features_of_every_kind_are_shown_exactly(copy: Path) -> None:
    records = read_shard(copy / SHARD)
    records[0] |= {"big": (2**62 + 1,), "nan": (float("nan"), 0.5), "none": (), "raw": (b"\xff\0",)}
    records[0] |= {"many": tuple(range(1000)), "text": ("Käse <i>".encode(),)}
    write_shard(copy / SHARD, records)
    with viewing(copy) as viewer:
        record = viewer.ask("api/record?n=0").json
    texts = {feature["name"]: feature["text"] for feature in record["features"]}
    assert texts["big"] == "4611686018427387905"
    assert (texts["nan"], texts["none"], texts["raw"]) == ("nan, 0.5", "", "ff 00")
    assert texts["text"] == '"Käse <i>"'
    assert texts["many"].endswith("62, 63 …")


def test_a_dataset_without_a_samples_table_is_read_in_full(viewer: Viewer, copy: Path) -> None:
    (copy / "samples.parquet").unlink()
    for index in copy.glob("*.idx"):
        index.unlink()
    with viewing(copy) as other:
        first, expected = (found.page("count=5")["rows"] for found in (other, viewer))
        assert [row["name"] for row in first] == [row["name"] for row in expected]
        while other.ask("api/dataset").json["gathered"] is not None:
            time.sleep(0.05)
        for query in ("class=1", "split=val&q=00", "format=PNG", "min=100", "start=30"):
            found, expected = other.page(query), viewer.page(query)
            assert (found["total"], found["rows"]) == (expected["total"], expected["rows"])
            assert found["counts"] == {**expected["counts"], "decision": []}


def test_images_with_several_labels_are_found_by_each(tmp_path: Path) -> None:
    source = write_tree(tmp_path / "films", {f"{number}.png": png(number) for number in range(4)})
    rows = "filename,labels\n0.png,war|love\n1.png,love\n2.png,\n3.png,war\n"
    (source / "list.csv").write_text(rows)
    options = imgrec.SourceOptions(label_sep="|")
    with viewing(pack(source / "list.csv", tmp_path / "data", source=options)) as viewer:
        found = {
            label: sorted(row["name"] for row in viewer.page(f"class={label}")["rows"])
            for label in (-1, 0, 1)
        }
        assert viewer.ask("api/dataset").json["classes"] == ["love", "war"]
        assert found == {-1: ["2.png"], 0: ["0.png", "1.png"], 1: ["0.png", "3.png"]}
        assert viewer.page()["counts"]["class"] == [1, 2, 2]


# How it starts and ends


def test_the_command_prints_the_address_opens_it_and_ends_quietly(
    flowers: Path, tmp_path: Path
) -> None:
    """The browser gets a file that only the user can read: others can see command lines."""
    browser, arguments = tmp_path / "browser.sh", tmp_path / "arguments"
    browser.write_text(
        f'#!/bin/sh\nprintf %s "$*" > {arguments}.part; mv {arguments}.part {arguments}'
    )
    browser.chmod(0o755)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    process = start(flowers, "--open", "--port", str(port), BROWSER=f"{browser} %s")
    assert process.stdout is not None
    title, view, decisions, stop = (process.stdout.readline() for _ in range(4))
    assert decisions == f"decisions   {Path.cwd() / 'flowers-1.0.0-corrections.csv'}\n"
    assert (title, stop) == ("flowers 1.0.0: 125 images\n", "stop        Ctrl-C\n")
    match = re.fullmatch(rf"view        (http://127\.0\.0\.1:{port}/([\w-]+)/)\n", view)
    assert match
    ends = time.monotonic() + 30
    while not arguments.exists():
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert match[2] not in arguments.read_text()
    page = Path(urlsplit(arguments.read_text()).path)
    assert [stat.S_IMODE(path.stat().st_mode) for path in (page, page.parent)] == [0o600, 0o700]
    assert f'content="0; url={match[1]}"' in page.read_text()
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=30)
    assert (out, errors, process.returncode) == ("", "", 0)
    assert not page.parent.exists()


def test_a_port_in_use_is_an_error(flowers: Path, cli: Cli) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = cli("view", flowers, "--port", str(port))
    assert (done.returncode, done.stdout) == (6, "")
    assert done.stderr == (
        f"imgrec: cannot listen on port {port}: another program uses it\n"
        "  hint: use another --port, or none to get a free one\n"
    )
    for wrong in (-1, 65536):
        done = cli("view", flowers, f"--port={wrong}")
        first = done.stderr.splitlines()[0]
        assert (done.returncode, first) == (2, f"imgrec: --port {wrong} is not a port")


def test_unusable_datasets_are_refused(copy: Path, tmp_path: Path, cli: Cli) -> None:
    compressed = pack(class_tree(tmp_path / "a", {"x": 3}), tmp_path / "gzip", compression="gzip")
    assert cli("view", compressed).stderr == (
        "imgrec: a is gzip-compressed, so its records cannot be read by number\n"
        "  hint: pack it without --compression to view it\n"
    )
    (copy / "samples.parquet").write_bytes(b"PAR1")
    assert "samples.parquet cannot be read" in cli("view", copy).stderr
    (copy / "samples.parquet").unlink()
    info = json.loads((copy / "dataset_info.json").read_text())
    info["splits"][0]["shardLengths"] = [str(1 << 39)]  # far more than the bytes allow
    (copy / "dataset_info.json").write_text(json.dumps(info))
    assert "549755813888" in cli("view", copy).stderr
    assert "no dataset 'nothing'" in cli("view", "nothing").stderr
    for folder in (compressed, copy, "nothing"):
        done = cli("view", folder)
        assert (done.returncode, done.stdout) == (5, "")


@pytest.mark.parametrize("missing", ["uvicorn", "starlette"])
def test_without_the_extra_the_error_names_the_pip_command(
    flowers: Path, missing: str, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    done = cli("view", flowers)
    assert done.returncode == 7
    assert done.stderr == (
        f"imgrec: imgrec view needs {missing}, which is not installed\n"
        "  hint: pip install 'imgrec[view]'\n"
    )
