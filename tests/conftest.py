from __future__ import annotations

import gc
import io
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir, nullcontext, redirect_stderr, redirect_stdout
from pathlib import Path
from types import ModuleType

import pytest
import sampling
from browser import browser, watched  # noqa: F401  # fixtures, one browser for all
from json_page import refuse_undocumented
from stores import s3_port, store  # noqa: F401  # fixtures: an S3 server on loopback
from workers import in_this_process

import imgrec

# The datasets of whoever runs the tests are not to be found by them, and none is to be added.
os.environ["TFDS_DATA_DIR"] = f"{os.devnull}/datasets"

# Many tests pack a few images of one class, which looks like a mistake: they say that it is none.
# What is asked about without that is the subject of the tests that use `asking`.
_SOURCE_DEFAULTS = imgrec.SourceOptions.__init__.__wrapped__.__kwdefaults__
_SOURCE_DEFAULTS["yes"] = True

ROOT = Path(__file__).resolve().parent.parent
SHARED = ROOT.parent / "shared" / "data"

Cli = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture
def data_dir(tmp_path: Path) -> Path:
    return tmp_path / "datasets"


@pytest.fixture(scope="session")
def tf() -> ModuleType:
    """Import TensorFlow, which takes seconds, once and quietly."""
    os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
    import tensorflow

    return tensorflow


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask about what looks doubtful, as imgrec does for users."""
    monkeypatch.setitem(_SOURCE_DEFAULTS, "yes", False)


@pytest.fixture
def cli(tmp_path: Path, data_dir: Path) -> Cli:
    """Run `imgrec` as a user types it, with TFDS's data directory in a temporary folder.

    It runs in this process, or, given options of `subprocess.run`, in one of its own. Like other
    tests, `pack` and `plan` say --yes, unless `asking` is given.
    """

    def run(
        *arguments: str | Path, asking: bool = False, cwd: Path = tmp_path, **options: object
    ) -> subprocess.CompletedProcess[str]:
        words = [str(argument) for argument in arguments]
        if words[:1] in (["pack"], ["plan"]) and not asking:
            words.insert(1, "--yes")
        variables = {"TFDS_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)}
        if not options:
            return run_in_process(words, cwd, variables)
        standard = {"env": os.environ | variables, "text": True, "timeout": 120}
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            [sys.executable, "-m", "imgrec", *words],
            **{"cwd": cwd, "capture_output": True, **standard, **options},
        )

    return run


def run_in_process(
    words: list[str], cwd: Path, variables: dict[str, str]
) -> subprocess.CompletedProcess[str]:
    """Run a command as `python -m imgrec` does, and leave no trace of it in this process."""
    from imgrec.cli.main import main

    out, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", newline="") for _ in range(2))
    before = dict(os.environ)
    os.environ.update(variables)
    try:
        with chdir(cwd), redirect_stdout(out), redirect_stderr(errors):
            code = main(words)
    except SystemExit as ending:
        code = ending.code
    finally:
        gc.enable()
        os.environ.clear()
        os.environ.update(before)
    texts = []
    for stream in (out, errors):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    if "--json" in words and texts[0].startswith("{"):
        refuse_undocumented(texts[0])
    return subprocess.CompletedProcess(["imgrec", *words], code, *texts)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--exhaustive", action="store_true", help="run long sweeps as a whole")


def pytest_configure(config: pytest.Config) -> None:
    sampling.configure(exhaustive=config.getoption("--exhaustive"))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only --exhaustive runs, and begin with the files that take long.

    Otherwise one process may be left alone with a long file at the end.
    """
    if not config.getoption("--exhaustive"):
        config.hook.pytest_deselected(items=[*filter(_is_exhaustive, items)])
        items[:] = [item for item in items if not _is_exhaustive(item)]
    marks = ("slow", "spark", "stores", "browser", "torch")
    long = {item.path for item in items if any(map(item.get_closest_marker, marks))}
    items.sort(key=lambda item: item.path not in long)


def _is_exhaustive(item: pytest.Item) -> bool:
    return item.get_closest_marker("exhaustive") is not None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Start worker processes only for tests about them."""
    with nullcontext() if item.get_closest_marker("processes") else in_this_process():
        return (yield)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In continuous integration everything must run: a skipped test has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
