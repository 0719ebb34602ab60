"""Each call of `storage` to the operating system fails once: nothing is lost or half done."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from faulty import (
    CLEANING,
    DENYING,
    READING,
    SHORT,
    UNPACKING,
    WRITING,
    Kind,
    failing,
    short_writes,
)
from inline import ENGINE, pack
from pictures import jpeg, png, write_tree
from sampling import some_of

import imgrec
from imgrec.codec.sniff import HEAD_BYTES
from imgrec.errors import ExecutionError, SourceError

SHARDS = 2
NEVER = sys.maxsize
Files = dict[str, bytes]


def files(folder: Path) -> Files:
    """Return all that is below a folder, by its path there."""
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture
def tmp_path(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory, where there is one: on a disk, waiting for it takes minutes."""
    memory = Path("/dev/shm")
    if not os.access(memory, os.W_OK):
        yield tmp_path
        return
    with TemporaryDirectory(prefix="imgrec-test-", dir=memory) as folder:
        yield Path(folder)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = ("rose/1.png", "rose/2.png", "tulip/3.png", "tulip/4.png")
    tree = {name: png(seed, (4, 3)) for seed, name in enumerate(names)}
    # What is small is read whole when it is scanned; of this, only the beginning is.
    tree["tulip/5.jpg"] = jpeg(5, (300, 200), quality=95)
    assert len(tree["tulip/5.jpg"]) > HEAD_BYTES
    return write_tree(tmp_path_factory.mktemp("source") / "x", tree)


@pytest.fixture(scope="module")
def archive(source: Path) -> Path:
    """The same, as what must be unpacked into a spool."""
    return Path(shutil.make_archive(str(source), "gztar", source))


def every_failure(kind: Kind, run: Callable[[], object], check: Callable[[], object]) -> None:
    """Let one call of a run fail after the other; check what came of each."""
    with failing(kind, NEVER) as disk:
        run()
    check()
    assert disk.calls, "it is never called here"
    for call in some_of(range(1, disk.calls + 1), 4):
        with failing(kind, call) as disk, suppress(ExecutionError):
            run()
        assert disk.has_failed
        check()


def each(kinds: tuple[Kind, ...]) -> pytest.MarkDecorator:
    names = [f"{kind.module.__name__}.{kind.name}" for kind in kinds]
    return pytest.mark.parametrize("kind", kinds, ids=names)


def versions(data_dir: Path) -> list[str]:
    names = sorted(path.name for path in (data_dir / "x").iterdir())
    return [name for name in names if not name.endswith(".origin.json")]


@pytest.mark.slow
@each(WRITING)
@pytest.mark.parametrize("which", ["source", "archive", "replacement"])
def test_a_pack_on_a_failing_disk_shows_nothing_or_all_and_goes_on(
    tmp_path: Path, kind: Kind, which: str, source: Path, archive: Path
) -> None:
    """A dataset that is replaced stays until the new one is there."""
    given = archive if which == "archive" else source
    whole = files(pack(given, tmp_path / "whole", shards=SHARDS))
    old, out = tmp_path / "old", tmp_path / "out"
    old.mkdir()
    before = files(pack(source, old, seed=5, val_split=0.5)) if which == "replacement" else {}
    shutil.copytree(old, out)

    def run() -> None:
        pack(given, out, shards=SHARDS, overwrite=which == "replacement")

    def check() -> None:
        assert files(out / "x/1.0.0") in (before, whole)
        assert (out / "x/1.0.0").exists() == bool(files(out / "x/1.0.0"))
        run()
        assert files(out / "x/1.0.0") == whole
        assert versions(out) == ["1.0.0"]
        shutil.rmtree(out)
        shutil.copytree(old, out)

    every_failure(kind, run, check)


@pytest.mark.slow
@each(UNPACKING)
def test_unpacking_onto_a_failing_disk_gives_nothing_or_all(
    tmp_path: Path, kind: Kind, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = pack(source, tmp_path / "whole", shards=SHARDS)
    target = tmp_path / "new" / "tree"
    monkeypatch.setattr(os, "sync", lambda: None)  # of all that this machine writes just now

    def run() -> None:
        imgrec.unpack(folder, target, engine=ENGINE)

    def check() -> None:
        if not target.exists():
            run()
        assert files(target) == files(source)
        assert [path.name for path in target.parent.iterdir()] == ["tree"]
        shutil.rmtree(target.parent)

    every_failure(kind, run, check)


@pytest.mark.slow
@each(CLEANING)
def test_cleaning_a_failing_disk_removes_no_dataset(
    tmp_path: Path, kind: Kind, source: Path
) -> None:
    folder = pack(source, tmp_path / "out")
    before = files(folder)
    left = folder.with_name(".1.0.0.incomplete")

    def litter() -> None:
        write_tree(left, {"shard": b"half", ".notes/run": b"{}"})

    def check() -> None:
        assert files(folder) == before
        imgrec.clean(data_dir=tmp_path / "out")
        assert versions(tmp_path / "out") == ["1.0.0"]
        litter()

    litter()
    every_failure(kind, lambda: imgrec.clean(data_dir=tmp_path / "out"), check)


@each(SHORT)
def test_a_disk_that_takes_a_byte_at_a_time_gets_all_of_them(
    tmp_path: Path, kind: Kind, source: Path, archive: Path
) -> None:
    whole = {path: files(pack(path, tmp_path / path.name)) for path in (source, archive)}
    with short_writes(kind) as disk:
        for path, expected in whole.items():
            assert files(pack(path, tmp_path / "short" / path.name)) == expected
        imgrec.unpack(tmp_path / source.name / "x", tmp_path / "tree", engine=ENGINE)
    assert files(tmp_path / "tree") == files(source)
    assert disk.calls > 10


@pytest.mark.slow
def test_an_image_that_may_not_be_read_is_named_and_all_others_are_packed(
    tmp_path: Path, source: Path
) -> None:
    whole = files(pack(source, tmp_path / "whole"))
    images = {record.filename for record in imgrec.open_dataset(tmp_path / "whole/x")["all"]}

    def check() -> None:
        folder = tmp_path / "out/x/1.0.0"
        if folder.exists() and files(folder) != whole:
            report = (folder / "skipped.csv").read_text()
            skipped = {name for name in images if name in report}
            packed = {record.filename for record in imgrec.open_dataset(folder)["all"]}
            assert skipped | packed == images
            assert not skipped & packed
            assert imgrec.verify(folder, engine=ENGINE).faults == ()
        shutil.rmtree(tmp_path / "out", ignore_errors=True)

    def run() -> None:
        with suppress(SourceError):
            pack(source, tmp_path / "out", max_bad=0.5)

    every_failure(DENYING, run, check)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("which", "kind"),
    [(which, kind) for which, kinds in READING.items() for kind in kinds],
    ids=lambda value: value if isinstance(value, str) else value.name,
)
def test_a_source_on_a_failing_disk_is_packed_as_a_whole_or_not_at_all(
    tmp_path: Path, which: str, kind: Kind, request: pytest.FixtureRequest
) -> None:
    source: Path = request.getfixturevalue(which)
    whole = files(pack(source, tmp_path / "whole", shards=SHARDS, max_bad=1))
    out = tmp_path / "out"

    def run() -> None:
        pack(source, out, shards=SHARDS, max_bad=1)

    def check() -> None:
        assert not (out / "x/1.0.0").exists() or files(out / "x/1.0.0") == whole
        run()
        assert files(out / "x/1.0.0") == whole
        shutil.rmtree(out)

    every_failure(kind, run, check)
