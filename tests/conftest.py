from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from browser import browser, watched  # noqa: F401  # fixtures, one browser for all
from hypothesis import HealthCheck, settings
from stores import s3_port, store  # noqa: F401  # fixtures: an S3 server on loopback

import imgrec

# The datasets of whoever runs the tests are not to be found by them, and none is to be added.
os.environ["TFDS_DATA_DIR"] = f"{os.devnull}/datasets"

# Speed is not what tests are about: a busy machine must not fail them.
settings.register_profile(
    "any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")

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


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask about what looks doubtful, as imgrec does for users."""
    monkeypatch.setitem(_SOURCE_DEFAULTS, "yes", False)


@pytest.fixture
def cli(tmp_path: Path, data_dir: Path) -> Cli:
    """Run `imgrec` as a user types it, with TFDS's data directory in a temporary folder.

    Like other tests, `pack` and `plan` say --yes, unless `asking` is given.
    """

    def run(
        *arguments: str | Path, asking: bool = False, **options: object
    ) -> subprocess.CompletedProcess[str]:
        if arguments[:1] in (("pack",), ("plan",)) and not asking:
            arguments = (arguments[0], "--yes", *arguments[1:])
        environment = {**os.environ, "TFDS_DATA_DIR": str(data_dir), "PYTHONPATH": str(ROOT)}
        return subprocess.run(  # type: ignore[call-overload, no-any-return]
            [sys.executable, "-m", "imgrec", *map(str, arguments)],
            **{
                "cwd": tmp_path,
                "env": environment,
                "text": True,
                "capture_output": True,
                "timeout": 120,
                **options,
            },
        )

    return run


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take long, so that no process is left alone with one at the end."""
    marks = ("slow", "spark", "stores", "browser", "torch")
    long = {item.path for item in items if any(map(item.get_closest_marker, marks))}
    items.sort(key=lambda item: item.path not in long)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    """In continuous integration everything must run: a skipped test has failed."""
    report = yield
    if report.skipped and os.environ.get("CI") == "true" and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped in CI: {report.longrepr}"
    return report
