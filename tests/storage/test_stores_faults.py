"""Stores that are busy, cut connections or say no; and what is never said of credentials."""

from __future__ import annotations

import itertools
import json
import os
import re
import shutil
import threading
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Cli
from inline import InlineEngine
from stores import KEY_ID, SECRET, TOKEN, Store
from test_stores import FLOWERS, pack_there, packed_here, there

import imgrec
from imgrec.storage.paths import to_path
from imgrec.storage.remote.read import objects
from imgrec.storage.staging import open_staging
from imgrec.write.sending import ShardSender

IMAGES = sum(path.is_file() for path in FLOWERS.rglob("*"))
pytestmark = pytest.mark.stores


@pytest.fixture(autouse=True)
def no_long_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("imgrec.storage.remote.filesystem._LONGEST_WAIT_S", 0.01)


def every(turns: int, *faults: str) -> object:
    """Return what spoils one in so many requests, each time in another way."""
    count, kinds = itertools.count(1), itertools.cycle(faults)
    return lambda method, path: next(kinds) if next(count) % turns == 0 else ""


def test_a_pack_survives_throttling_and_connections_that_are_cut(
    store: Store, data_dir: Path
) -> None:
    store.put_tree(FLOWERS, "in/flowers")
    store.proxy.fault = every(4, "503", "cut", "503", "cut after")  # type: ignore[assignment]
    options = imgrec.PackOptions(data_dir=store / "data", val_split=0.1)
    imgrec.pack(store / "in/flowers", options)
    faults = imgrec.verify(store / "data/flowers").faults
    records = list(imgrec.open_dataset(store / "data/flowers")["all"])
    store.proxy.fault = lambda method, path: ""
    assert faults == ()
    assert len(records) == IMAGES
    assert there(store) == packed_here(data_dir)


def test_a_request_that_hangs_is_made_again(
    store: Store, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from imgrec.storage.remote import filesystem

    url = pack_there(store).info.path
    monkeypatch.setitem(filesystem._S3_OPTIONS["config_kwargs"], "read_timeout", 0.5)
    filesystem._open.cache_clear()
    hangs, over = iter([True]), threading.Event()

    def hang(_method: str, path: str) -> str:
        if path.endswith("/features.json") and next(hangs, False):
            over.wait(60)
        return ""

    store.proxy.fault = hang
    with caplog.at_level("INFO", "imgrec"):
        assert imgrec.info(url).name == "flowers"
    over.set()
    assert "features.json: ReadTimeoutError; try 2 of 8" in caplog.text


def test_a_store_that_stays_busy_is_given_up_on_and_finished_shards_are_kept(store: Store) -> None:
    store.proxy.fault = lambda method, path: "503" if "samples.parquet" in path else ""
    with pytest.raises(imgrec.ExecutionError, match="too busy: 8 requests failed"):
        pack_there(store)
    tries = [path for method, path in store.proxy.seen if method == "PUT" and "samples" in path]
    assert len(tries) == 8
    store.proxy.fault = lambda method, path: ""
    assert pack_there(store).kept_shards == 2


@pytest.mark.parametrize("cut", ["samples.parquet", "dataset_info.json"])
def test_half_a_dataset_is_reported_as_interrupted(store: Store, cut: str) -> None:
    """Whether all documents but the last are there, or none."""
    store.proxy.fault = lambda method, path: (
        "503" if method in ("PUT", "POST") and cut in path else ""
    )
    with pytest.raises(imgrec.ExecutionError):
        pack_there(store)
    store.proxy.fault = lambda method, path: ""
    for url in ("data/flowers", "data/flowers/1.0.0"):
        with pytest.raises(imgrec.DatasetNotFound, match="a pack was interrupted: s3://") as said:
            imgrec.info(store / url)
        assert said.value.hint.startswith("run the same imgrec pack again: it continues from there")
    assert pack_there(store).kept_shards == 2


@pytest.mark.parametrize(
    ("code", "after"), [("403", 0), ("401 Unauthorized", 1), ("400 ExpiredToken", 1)]
)
def test_access_that_is_denied_to_an_image_ends_the_run(
    store: Store, tmp_path: Path, code: str, after: int
) -> None:
    """As when credentials expire: be it at the first look, or when it is packed."""
    store.put_tree(FLOWERS, "in/flowers")
    large = (FLOWERS / "rose/rose_05.jpg").read_bytes() + bytes(1 << 18)
    store.put("in/flowers/rose/rose_05.jpg", large)  # what is small is read once
    asked = itertools.count()
    store.proxy.fault = lambda method, path: (
        code if "rose_05" in path and method == "GET" and next(asked) >= after else ""
    )
    options = imgrec.PackOptions(data_dir=str(tmp_path))
    with pytest.raises(imgrec.ExecutionError, match=r"rose_05\.jpg: ") as caught:
        imgrec.pack(store / "in/flowers", options)
    assert "--exclude rose/rose_05.jpg" in caught.value.hint
    store.proxy.fault = lambda method, path: ""
    packed = imgrec.pack(store / "in/flowers", options)
    assert len(imgrec.open_dataset(packed.info.path)["all"]) == IMAGES


def test_a_store_that_stays_busy_for_an_image_ends_the_run(store: Store, tmp_path: Path) -> None:
    store.put_tree(FLOWERS, "in/flowers")
    store.proxy.fault = lambda method, path: "503" if "rose_05" in path else ""
    with pytest.raises(imgrec.ExecutionError, match=r"rose_05\.jpg cannot be reached"):
        imgrec.pack(store / "in/flowers", imgrec.PackOptions(data_dir=str(tmp_path)))


def test_an_object_that_is_gone_is_skipped_by_name(store: Store, tmp_path: Path) -> None:
    store.put_tree(FLOWERS, "in/flowers")
    store.proxy.fault = lambda method, path: (
        "404 NoSuchKey" if "rose_05" in path and method == "GET" else ""
    )
    report = imgrec.pack(store / "in/flowers", imgrec.PackOptions(data_dir=str(tmp_path))).report
    skipped = {note.filename: note.reason for note in report.skipped}
    assert skipped["rose/rose_05.jpg"] == "unreadable: there is no such object"
    store.proxy.fault = lambda method, path: (
        "404 NoSuchBucket" if "rose_05" in path and method == "GET" else ""
    )
    with pytest.raises(imgrec.ExecutionError, match="there is no such bucket"):
        imgrec.pack(store / "in/flowers", imgrec.PackOptions(data_dir=str(tmp_path), name="x"))


def test_denied_access_is_reported_in_one_sentence_and_not_tried_again(
    store: Store, cli: Cli
) -> None:
    store.proxy.fault = lambda method, path: "403"
    done = cli("verify", store / "data/flowers")
    assert done.returncode == 6
    message, hint = done.stderr.splitlines()
    assert message.endswith(": access denied")
    assert hint.startswith("  hint: check AWS_PROFILE or AWS_ACCESS_KEY_ID")
    assert len(store.proxy.seen) == 1


def test_a_bucket_that_is_not_there_is_named(store: Store, cli: Cli) -> None:
    done = cli("pack", FLOWERS, "--data-dir", "s3://no-such-bucket-anywhere/data")
    assert done.returncode == 6
    assert "there is no such bucket" in done.stderr
    assert len(done.stderr.splitlines()) == 2


BAD_URLS = {
    "s3://": "s3:// has no bucket\n  hint: give one, such as s3://bucket/datasets\n",
    "S3A://": "S3A:// has no bucket\n  hint: give one, such as s3a://bucket/datasets\n",
    "gcs:///x": "gcs:///x has no bucket\n  hint: give one, such as gcs://bucket/datasets\n",
    "s3:/bucket/x": "s3:/bucket/x is not a URL: it has one slash instead of two\n"
    "  hint: did you mean s3://bucket/x? A folder of that name is ./s3:/bucket/x\n",
    "s3://me:hunter22@bucket/data": "s3://***@bucket/data contains credentials\n",
    "s3://me:hunter22/hunter22+@bucket/data": "s3://***@bucket/data contains credentials\n",
    "s3:/me:hunter22/x@bucket/data": "s3:/***@bucket/data is not a URL: it has one slash instead "
    "of two\n",
    "s3://bucket/data?X-Amz-Signature=hunter22": "s3://bucket/data?*** contains credentials\n",
    "https://user:hunter22@host/flowers": "https://***@host/flowers contains credentials\n",
    "nonsense://bucket/flowers": "fsspec does not know nonsense://\n",
}


@pytest.mark.parametrize("url", BAD_URLS)
def test_a_bad_url_is_a_usage_error_that_repeats_no_password(
    cli: Cli, tmp_path: Path, url: str
) -> None:
    for arguments in (["info", url], ["pack", url], ["pack", FLOWERS, "--data-dir", url]):
        done = cli(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith(f"imgrec: {BAD_URLS[url]}")
        assert "hunter22" not in done.stderr
    assert list(tmp_path.iterdir()) == []


class Cluster(InlineEngine):
    is_local = False


def test_workers_elsewhere_send_shards_that_the_store_puts_into_place(
    store: Store, data_dir: Path
) -> None:
    store.put_tree(FLOWERS, "in/flowers")
    store.proxy.fault = lambda method, path: "403" if "samples.parquet" in path else ""
    options = imgrec.PackOptions(data_dir=store / "data", val_split=0.1, shards=3)
    with pytest.raises(imgrec.ExecutionError):
        imgrec.pack(store / "in/flowers", options, engine=Cluster())
    store.proxy.fault = every(9, "503", "cut after")  # type: ignore[assignment]
    packed = imgrec.pack(store / "in/flowers", options, engine=Cluster())
    store.proxy.fault = lambda method, path: ""
    assert packed.kept_shards == 4
    assert there(store) == packed_here(data_dir, shards=3)
    assert sorted(store.keys("data/flowers/.")) == ["data/flowers/.1.0.0.origin.json"]


def test_a_worker_that_was_given_up_changes_nothing(store: Store, data_dir: Path) -> None:
    """Its attempt arrives twice, the second time with other bytes."""

    class Speculating(Cluster):
        def run(self, function: Any, tasks: Any) -> Any:
            for task in tasks:
                yield function(task)
                if isinstance(function, ShardSender):
                    function(replace(task, samples=task.samples.pick([0])))

    options = imgrec.PackOptions(data_dir=store / "data", val_split=0.1)
    imgrec.pack(FLOWERS, options, engine=Speculating())
    assert there(store) == packed_here(data_dir)


@pytest.mark.parametrize("name", ["flowers.zip", "nested", "digits"])
def test_what_would_have_to_be_unpacked_is_refused_where_workers_are_elsewhere(
    store: Store, tmp_path: Path, name: str
) -> None:
    (tmp_path / "nested").mkdir()
    archive = shutil.make_archive(str(tmp_path / "nested" / "all"), "gztar", FLOWERS)
    source: str | Path = tmp_path / "nested"
    if name == "flowers.zip":
        store.put("flowers.zip", Path(archive).read_bytes())
        source = store / "flowers.zip"
    elif name == "digits":
        store.put_tree(ROOT / "sample_data" / "digits", "digits")
        source = store / "digits"
    with pytest.raises(imgrec.UsageError, match="executors would not see the copy"):
        imgrec.pack(source, data_dir=store / "data", engine=Cluster())
    assert store.keys("data/") == {}


def test_a_host_that_does_not_exist_is_named(cli: Cli) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    url = "ftp://nowhere.invalid/y"
    for arguments in (["pack", FLOWERS, "--data-dir", url], ["info", url]):
        done = cli(*arguments)
        assert done.returncode == 6
        assert done.stderr == (
            "imgrec: ftp://nowhere.invalid: there is no such host\n"
            "  hint: check its name, and the network\n"
        )


def test_nothing_is_packed_to_the_web(cli: Cli) -> None:
    done = cli("pack", FLOWERS, "--data-dir", "https://nowhere.invalid/datasets")
    assert done.returncode == 2
    assert done.stderr.startswith("imgrec: --data-dir https://nowhere.invalid/datasets is a web")


def test_an_invalid_bucket_name_is_a_usage_error(store: Store, cli: Cli) -> None:
    done = cli("pack", "s3://my bucket/x")
    assert done.returncode == 2
    assert done.stderr.startswith("imgrec: s3://my bucket/x: the bucket name is not valid\n")


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"AWS_PROFILE": "typo"}, "the profile in AWS_PROFILE does not exist"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "no credentials found"),
        ({"AWS_SECRET_ACCESS_KEY": ""}, "the credentials are incomplete"),
    ],
)
def test_missing_credentials_are_reported_without_a_request(
    store: Store, cli: Cli, monkeypatch: pytest.MonkeyPatch, changed: dict[str, str], told: str
) -> None:
    for name, value in changed.items():
        if value:
            monkeypatch.setenv(name, value)
        else:
            monkeypatch.delenv(name)
    done = cli("info", store / "data/flowers")
    assert done.returncode == 6
    message, hint = done.stderr.splitlines()
    assert message == f"imgrec: {store / 'data/flowers/dataset_info.json'}: {told}"
    assert hint.startswith("  hint: check AWS_PROFILE or AWS_ACCESS_KEY_ID")
    assert store.proxy.seen == []


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("InvalidAccessKeyId", "the store does not know the access key"),
        ("SignatureDoesNotMatch", "the secret key does not match the access key"),
        ("ExpiredToken", "the credentials have expired"),
        ("AuthorizationHeaderMalformed", "the bucket is in another region"),
    ],
)
def test_the_reason_for_refused_credentials_is_reported(
    store: Store, cli: Cli, code: str, told: str
) -> None:
    store.proxy.fault = lambda method, path: f"400 {code}" if method == "GET" else ""
    done = cli("pack", store / "in/flowers")
    assert done.returncode == 6
    assert done.stderr.splitlines()[0].endswith(f": {told}")


def test_an_endpoint_that_does_not_answer_is_named(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    from imgrec.storage.remote import filesystem

    filesystem._open.cache_clear()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
    with pytest.raises(imgrec.ExecutionError) as caught:
        imgrec.info(store / "data/flowers")
    assert "cannot be reached at http://127.0.0.1:1, or is too busy" in caught.value.message
    assert "check the endpoint" in caught.value.hint


def test_a_token_in_the_path_of_an_endpoint_is_not_shown(
    store: Store, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    endpoint = os.environ["AWS_ENDPOINT_URL"]
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"{endpoint}/to/ken+1?key=hunter2")
    done = cli("info", store / "data/flowers", "--verbose")
    assert done.returncode == 6
    assert f"{endpoint}/***" in done.stderr
    assert not re.search("ken|hunter2", done.stdout + done.stderr)


def test_a_page_of_the_web_that_cannot_be_reached_is_not_called_missing(store: Store) -> None:
    pytest.importorskip("aiohttp", reason="aiohttp is not installed")
    with pytest.raises(imgrec.ExecutionError, match=r"flowers\.zip cannot be reached"):
        imgrec.pack("http://127.0.0.1:1/flowers.zip")
    store.proxy.fault = lambda method, path: "403"
    with pytest.raises(imgrec.ExecutionError, match=r"flowers\.zip: access denied"):
        imgrec.pack(f"http://127.0.0.1:{store.proxy.port}/flowers.zip")


def test_the_contents_of_a_url_without_a_dataset_are_listed(store: Store, cli: Cli) -> None:
    pack_there(store)
    for url, hint in (
        (store.url, f"there is data in {store.url}"),
        (store / "data/flower", f"did you mean flowers? There is flowers in {store / 'data'}"),
        (
            store / "data/flowers/2.0.0",
            f"did you mean 1.0.0? There is 1.0.0 in {store / 'data/flowers'}",
        ),
        (store / "a/b/c", "give the folder of a dataset, or a data directory with one in it"),
    ):
        done = cli("info", url)
        assert (done.returncode, done.stdout) == (5, "")
        assert done.stderr == f"imgrec: there is no dataset at {url}\n  hint: {hint}\n"


def test_copies_are_not_kept_in_a_folder_called_s3(store: Store, tmp_path: Path) -> None:
    pack_there(store)
    with pytest.raises(imgrec.UsageError, match="cache_dir does not work on an object store"):
        imgrec.load(store / "data/flowers", cache_dir=store / "cache")
    assert list(tmp_path.iterdir()) == []


def test_no_credential_is_ever_shown_or_written(store: Store, cli: Cli, tmp_path: Path) -> None:
    url, said = store / "data/flowers", []
    done = cli("pack", FLOWERS, "--data-dir", store / "data", "--json")
    assert done.returncode == 0
    said.append(done.stdout + done.stderr)
    for fault in ("403", "400 ExpiredToken"):
        store.proxy.fault = lambda method, path, fault=fault: fault  # type: ignore[misc]
        done = cli("verify", url, "--json")
        said.append(done.stdout + done.stderr)
    store.proxy.fault = lambda method, path: ""
    said += [data.decode("latin-1") for data in store.keys().values()]
    for secret in (SECRET, TOKEN, KEY_ID):
        assert not any(secret in text for text in said)


def test_retries_are_shown_on_request_without_secrets(
    store: Store, cli: Cli, tmp_path: Path
) -> None:
    store.put_tree(FLOWERS, "in/flowers")
    store.proxy.fault = every(7, "503")  # type: ignore[assignment]
    done = cli("pack", store / "in/flowers", "--data-dir", tmp_path, "-v", "--json")
    assert done.returncode == 0
    json.loads(done.stdout)
    lines = done.stderr.splitlines()
    again = [line for line in lines if line.endswith(": SlowDown; reading it again")]
    assert again
    assert {line.partition("flowers/")[0] for line in again} == {f"imgrec: {store / 'in'}/"}
    assert not any(secret in done.stderr for secret in (SECRET, TOKEN, KEY_ID))
    store.proxy.fault = every(3, "503")  # type: ignore[assignment]
    done = cli("plan", store / "in/flowers", "--verbose")
    assert re.search(r"SlowDown; try 2 of 8 in [\d.]+ s$", done.stderr, re.MULTILINE)
    assert cli("plan", store / "in/flowers").stderr == ""


def test_errors_of_libraries_are_redacted(monkeypatch: pytest.MonkeyPatch) -> None:
    from imgrec.storage.remote.filesystem import explained

    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    error = RuntimeError(f"GET https://h/k?X-Amz-Signature=abc&x=1 {SECRET} {KEY_ID} failed")
    shown = str(explained(error, "s3://bucket/key"))
    assert not re.search(f"abc|{re.escape(SECRET)}|{KEY_ID}", shown)
    assert "failed" in shown


def test_a_missing_package_is_named_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import sys

    from imgrec.storage.remote import filesystem

    filesystem._open.cache_clear()
    monkeypatch.setitem(sys.modules, "gcsfs", None)
    with pytest.raises(imgrec.MissingExtra) as caught:
        imgrec.info("gs://bucket/flowers")
    assert caught.value.hint == "pip install 'imgrec[gs]'"


def test_a_pack_on_the_disk_imports_nothing_of_stores(cli: Cli, data_dir: Path) -> None:
    import subprocess
    import sys

    code = (
        "import sys, imgrec; imgrec.pack(sys.argv[1], imgrec.PackOptions(data_dir=sys.argv[2]));"
        "stores = ('fsspec', 'imgrec.storage.remote');"
        "print([name for name in sys.modules if name.startswith(stores)])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(FLOWERS), str(data_dir)],
        cwd=ROOT, text=True, capture_output=True, check=True,
    )  # fmt: skip
    assert done.stdout == "[]\n"


def test_a_signed_url_in_a_table_is_not_written_to_the_dataset(tmp_path: Path) -> None:
    names = sorted(str(path.relative_to(FLOWERS)) for path in FLOWERS.rglob("*.jpg"))
    cells = [*names, "https://host/a.jpg?X-Amz-Signature=c0ffee", "s3://me:c0ffee@bucket/a.jpg"]
    rows = [f"{cell},{'ab'[at % 2]}\n" for at, cell in enumerate(cells)]
    (tmp_path / "t.csv").write_text("".join(["image,label\n", *rows]))
    packed = imgrec.pack(
        tmp_path / "t.csv", images=FLOWERS, data_dir=tmp_path / "data", name="t", max_bad=0.9
    )
    written = {path.name: path.read_bytes() for path in Path(packed.info.path).iterdir()}
    assert b"https://host/a.jpg?***" in written["skipped.csv"]
    assert [name for name, data in written.items() if b"c0ffee" in data] == []


@pytest.mark.parametrize("root", ["memory://", "local://{tmp_path}/"])
def test_verbs_work_on_other_stores_through_their_libraries(
    tmp_path: Path, data_dir: Path, root: str
) -> None:
    fsspec = pytest.importorskip("fsspec", reason="fsspec is not installed")
    top, engine = root.format(tmp_path=tmp_path) + "store", InlineEngine()
    system, _ = fsspec.core.url_to_fs(top)
    system.put(str(FLOWERS), system._strip_protocol(f"{top}/in/flowers"), recursive=True)
    for version in ("1.0.0", "1.1.0"):
        imgrec.pack(
            f"{top}/in/flowers", data_dir=f"{top}/data", val_split=0.1, version=version,
            engine=engine, thumbnails=0,
        )  # fmt: skip
    url = f"{top}/data/flowers"
    written = {path.name: path.read_bytes() for path in to_path(f"{url}/1.0.0").iterdir()}
    assert written == packed_here(data_dir, thumbnails=0)
    assert imgrec.verify(url, engine=engine, source=f"{top}/in/flowers").faults == ()
    with suppress(RuntimeError), open_staging(to_path(f"{url}/2.0.0")) as staging:
        staging.note("run", b"")
        staging.note("shard", b"")
        raise RuntimeError
    removed = imgrec.clean(versions=1, data_dir=f"{top}/data")
    assert [left.path for left in removed] == [f"{url}/.2.0.0.incomplete", f"{url}/1.0.0"]
    [listed] = imgrec.list_datasets(data_dir=f"{top}/data").datasets
    assert [(one.version, one.state) for one in listed.versions] == [("1.1.0", "complete")]
    unpacked = imgrec.unpack(url, f"{top}/out", engine=engine)
    assert len(objects(f"{top}/out")) == unpacked.images
    for to in ("webdataset", "parquet"):
        imgrec.export(url, f"{top}/out_{to}", to=to, engine=engine)
        imgrec.export(url, f"{top}/out_{to}", to=to, engine=engine, overwrite=True)
        assert to_path(f"{top}/out_{to}/README.md").is_file()


def test_other_stores_are_written_by_their_libraries(tmp_path: Path, data_dir: Path) -> None:
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    url = f"local://{tmp_path}/store"
    options = imgrec.PackOptions(data_dir=url, val_split=0.1)
    packed = imgrec.pack(FLOWERS, options)
    assert not imgrec.verify(packed.info.path).faults
    folder = tmp_path / "store" / "flowers" / "1.0.0"
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == packed_here(data_dir)
