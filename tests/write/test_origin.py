"""No shard and no dataset is reused unless it was made of the images that the source has now."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from inline import ENGINE
from pictures import encode, jpeg, write_tree
from PIL import Image

import imgrec
from imgrec.errors import DatasetExists
from imgrec.options import PackOptions, SourceOptions
from imgrec.outcome import Packed

CUT_AFTER = 3


def alike(root: Path, seed: int) -> Path:
    """Write images that differ from those of another seed in their last bytes only."""
    for folder in "ab":
        for number in range(6):
            image = encode(Image.new("RGB", (60, 40), (number, 9, ord(folder))), "BMP")
            write_tree(root, {f"{folder}/{number}.bmp": image[:-9] + bytes([seed]) * 9})
    return root


def options(data_dir: Path, read: object = None, **others: object) -> PackOptions:
    settings: dict[str, object] = {"source": read or SourceOptions()}
    settings |= {"shards": 6, "near_dups": "off", "thumbnails": 0, "name": "x"}
    return PackOptions(data_dir=str(data_dir), **{**settings, **others})  # type: ignore[arg-type]


def pack(source: Path, data_dir: Path, **others: object) -> Packed:
    return imgrec.pack(source, options(data_dir, **others), engine=ENGINE)


def cut_off(source: Path, data_dir: Path, **others: object) -> None:
    """Pack, and break off when some shards are written."""
    shards = 0

    def on_progress(stage: str, _count: int, _total: int | None) -> None:
        nonlocal shards
        shards += stage == "pack"
        if shards == CUT_AFTER:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        imgrec.pack(source, options(data_dir, **others), engine=ENGINE, on_progress=on_progress)


def seeds(packed: Packed) -> set[int]:
    return {record.image[-1] for record in imgrec.open_dataset(packed.info.path)["all"]}


def files(packed: Packed) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path(packed.info.path).iterdir()}


def note_of(packed: Packed) -> Path:
    return Path(packed.info.path).with_name(".1.0.0.origin.json")


def point(link: Path, target: Path) -> None:
    link.unlink(missing_ok=True)
    link.symlink_to(target)


class Place:
    """A source at one path that can be made to hold other images, of older files."""

    def __init__(self, folder: Path, kind: str) -> None:
        self.kind, self.folder = kind, folder
        for seed in (1, 2):
            alike(folder / f"m{seed}/p", seed)
            if kind == "archive":
                shutil.make_archive(str(folder / f"m{seed}/p"), "tar", folder / f"m{seed}/p")
            if kind == "nested":
                write_tree(folder, {f"root{seed}/c/1.jpg": jpeg(5)})
        self.options: dict[str, object] = {}
        self.source = folder / "m/p"
        if kind == "link":
            self.source = folder / "m"
        if kind == "archive":
            self.source = folder / "m/p.tar"
        if kind == "table":
            rows = [f"{name}/{number}.bmp,{name}" for name in "ab" for number in range(6)]
            self.source = folder / "table.csv"
            self.source.write_text("\n".join(["path,label", *rows]) + "\n")
            self.options["read"] = SourceOptions(images=str(folder / "m/p"))
        if kind == "nested":  # a link that stays as it is leads through one that changes
            self.source = folder / "root1"
            (self.source / "d").symlink_to(folder / "m/p/a")
            self.options["read"] = SourceOptions(follow_links=True)
        if kind == "files":
            self.source = folder / "links"
            for path in sorted((folder / "m1/p").rglob("*.bmp")):
                link = self.source / path.relative_to(folder / "m1/p")
                link.parent.mkdir(parents=True, exist_ok=True)
                link.symlink_to(folder / "m/p" / path.relative_to(folder / "m1/p"))

    def hold(self, seed: int) -> None:
        target = self.folder / f"m{seed}"
        if self.kind == "link":
            target /= "p"
        if self.kind == "mount":
            # As where another disk is mounted: the folder is another, and nothing has a new date.
            if (self.folder / "m").exists():
                (self.folder / "m").rename(self.folder / f"m{3 - seed}")
            target.rename(self.folder / "m")
        else:
            point(self.folder / "m", target)


@pytest.mark.parametrize("kind", ["link", "above", "mount", "archive", "table", "nested", "files"])
def test_a_source_that_leads_elsewhere_is_not_mixed_with_what_it_was(
    tmp_path: Path, kind: str
) -> None:
    place, data_dir = Place(tmp_path, kind), tmp_path / "out"
    own = {0xD9} if kind == "nested" else set()  # a JPEG, which ends with FF D9
    place.hold(1)
    cut_off(place.source, data_dir, **place.options)
    place.hold(2)
    packed = pack(place.source, data_dir, **place.options)
    assert seeds(packed) - own == {2}
    assert packed.outdated_shards + packed.kept_shards == CUT_AFTER
    assert not pack(place.source, data_dir, **place.options).is_new
    place.hold(1)
    with pytest.raises(DatasetExists, match=r"is not up to date: .*\.bmp has changed"):
        pack(place.source, data_dir, **place.options)
    assert seeds(pack(place.source, data_dir, overwrite=True, **place.options)) - own == {1}


def by_writing(path: Path, data: bytes) -> None:
    path.write_bytes(data)


def by_replacing(path: Path, data: bytes) -> None:
    """As `cp -p`, `rsync -t` and `tar x` do it: size and date stay."""
    found = path.stat()
    new = path.with_name("new")
    new.write_bytes(data)
    os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
    new.replace(path)


def by_another_name(path: Path, data: bytes) -> None:
    other = path.parent.parent / "hard_link"
    os.link(path, other)
    with other.open("r+b") as file:
        file.write(data)
    other.unlink()


@pytest.mark.parametrize("change", [by_writing, by_replacing, by_another_name])
@pytest.mark.parametrize("ahead_s", [0, 86_400])
def test_a_file_of_equal_size_and_beginning_is_noticed_whatever_the_clock_says(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    change: Callable[[Path, bytes], None],
    ahead_s: int,
) -> None:
    source, data_dir = alike(tmp_path / "p", 1), tmp_path / "out"
    time_ns = time.time_ns
    with monkeypatch.context() as patched:
        patched.setattr(time, "time_ns", lambda: time_ns() + ahead_s * 10**9)
        cut_off(source, data_dir)
    for path in sorted(source.rglob("*.bmp")):
        change(path, path.read_bytes()[:-9] + bytes([2]) * 9)
    packed = pack(source, data_dir)
    assert seeds(packed) == {2}
    assert (packed.kept_shards, packed.outdated_shards) == (0, CUT_AFTER)
    path = source / "a/0.bmp"
    change(path, path.read_bytes()[:-9] + bytes([3]) * 9)
    with pytest.raises(DatasetExists, match=r"is not up to date: a/0\.bmp has changed"):
        pack(source, data_dir)


def test_only_shards_whose_images_changed_are_written_again(tmp_path: Path) -> None:
    source, data_dir = alike(tmp_path / "p", 1), tmp_path / "out"
    whole = pack(source, tmp_path / "whole")
    first = imgrec.open_dataset(whole.info.path)["train"][0].filename
    cut_off(source, data_dir)
    path = source / first
    by_writing(path, path.read_bytes()[:-9] + bytes([2]) * 9)
    packed = pack(source, data_dir)
    assert (packed.kept_shards, packed.outdated_shards) == (CUT_AFTER - 1, 1)
    assert files(packed) == files(pack(source, tmp_path / "again"))


def copied(source: Path) -> None:
    shutil.copytree(source, source.with_name("copy"))
    shutil.rmtree(source)
    source.with_name("copy").rename(source)


def touched(source: Path) -> None:
    for path in source.rglob("*"):
        path.touch()


@pytest.mark.parametrize("change", [copied, touched])
def test_a_source_that_was_copied_or_touched_keeps_all_that_was_done(
    tmp_path: Path, change: Callable[[Path], None]
) -> None:
    source, data_dir = alike(tmp_path / "p", 1), tmp_path / "out"
    write_tree(source, {f"a/bad{n}.bmp": (source / "a/0.bmp").read_bytes()[:5000] for n in (1, 2)})
    cut_off(source, data_dir, max_bad=1)
    change(source)
    packed = pack(source, data_dir, max_bad=1)
    assert (packed.kept_shards, packed.outdated_shards, packed.restarted) == (CUT_AFTER, 0, "")
    assert len(packed.report.skipped) == 2
    change(source)
    assert not pack(source, data_dir, max_bad=1).is_new
    assert files(packed) == files(pack(source, tmp_path / "whole", max_bad=1))


@pytest.mark.parametrize("kind", ["folder", "archive", "table"])
def test_two_packs_differ_in_nothing_but_the_private_note(tmp_path: Path, kind: str) -> None:
    packs = []
    for name in ("here", "there"):
        folder = tmp_path / name / "deep"
        source = alike(folder / "flowers", 1)
        write_tree(source, {"a/half.jpg": jpeg(3)[:300], "a/gone.txt": b"", "c/no.jpg": b"no"})
        (source / "a/link.jpg").symlink_to("nowhere")
        write_tree(folder, {"split.csv": b"file,split\na/1.bmp,val\na/strange.bmp,val\n"})
        old = pack(source, folder / "old", max_bad=1, name="old")
        pins = {"split_file": str(folder / "split.csv"), "split_from": old.info.path}
        if kind == "archive":
            source = Path(shutil.make_archive(str(folder / "f"), "zip", folder, "flowers"))
        others: dict[str, object] = {**pins, "thumbnails": 4, "max_bad": 1}
        if kind == "table":
            rows = [f"{file.relative_to(source)},{file.parent.name}" for file in source.glob("*/*")]
            write_tree(folder, {"t/x.csv": "\n".join(["path,label", *sorted(rows)]).encode()})
            others["read"] = SourceOptions(images=str(source))
            source = folder / "t/x.csv"
        packs.append(pack(source, tmp_path / name / "out", **others))
        time.sleep(0.05)
    assert files(packs[0]) == files(packs[1])
    assert str(tmp_path).encode() not in b"".join(files(packs[0]).values())
    assert note_of(packs[0]).read_bytes() != note_of(packs[1]).read_bytes()


def test_the_note_says_where_the_source_is_and_how_it_was_packed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alike(tmp_path / "p", 1)
    (tmp_path / "link").symlink_to("p")
    monkeypatch.chdir(tmp_path)
    read = SourceOptions(exclude=("b/5*",))
    packed = pack(Path("link"), Path("out"), val_split=0.25, read=read)
    note = json.loads(note_of(packed).read_bytes())
    assert note["source"] == str(tmp_path / "link")
    assert note["resolved"] == str(tmp_path / "p")
    assert note["folder"] == str(tmp_path)
    assert note["options"]["val_split"] == 0.25
    assert note["options"]["source"] == {"exclude": ["b/5*"]}
    assert "seed" not in note["options"]


def unreadable_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_arguments: object) -> object:
        raise AssertionError("images are read again")

    monkeypatch.setattr("imgrec.packing.reuse.xxh3_128_digest", refuse)


def settled(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let it be so late that the dates of all files are long past."""
    time_ns = time.time_ns
    monkeypatch.setattr(time, "time_ns", lambda: time_ns() + 10 * 10**9)


def test_images_are_not_read_again_if_nobody_can_have_changed_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, data_dir = alike(tmp_path / "p", 1), tmp_path / "out"
    settled(source, monkeypatch)
    unreadable_reads(monkeypatch)
    cut_off(source, data_dir)
    assert pack(source, data_dir).kept_shards == CUT_AFTER
    assert not pack(source, data_dir).is_new


@pytest.mark.parametrize("damage", ["missing", "garbled", "of another dataset"])
def test_without_a_note_images_are_compared_and_the_note_is_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    source = alike(tmp_path / "p", 1)
    settled(source, monkeypatch)
    packed = pack(source, tmp_path / "out")
    note = note_of(packed)
    whole = json.loads(note.read_bytes())
    if damage == "missing":
        note.unlink()
    elif damage == "garbled":
        note.write_bytes(note.read_bytes()[:50])
    else:
        note.write_text(json.dumps({**whole, "checksums": "0" * 64}))
    with monkeypatch.context() as patched:
        unreadable_reads(patched)
        with pytest.raises(AssertionError, match="read again"):
            pack(source, tmp_path / "out")
    assert not pack(source, tmp_path / "out").is_new
    assert json.loads(note.read_bytes())["state"] == whole["state"]


def test_a_file_that_just_changed_is_read_again_since_its_date_may_not_tell_the_next_change(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, data_dir = alike(tmp_path / "p", 1), tmp_path / "out"
    pack(source, data_dir)
    path = source / "a/0.bmp"
    data, found = path.read_bytes(), os.stat
    before = path.stat()
    path.write_bytes(data[:-9] + bytes([2]) * 9)

    def coarse(where: object, *rest: object, **others: object) -> object:
        told = found(where, *rest, **others)  # type: ignore[arg-type]
        return before if (told.st_ino, told.st_dev) == (before.st_ino, before.st_dev) else told

    monkeypatch.setattr(os, "fstat", coarse)
    monkeypatch.setattr(os, "stat", coarse)
    with pytest.raises(DatasetExists, match=r"a/0\.bmp has changed"):
        pack(source, data_dir)


def test_what_could_not_be_read_for_a_moment_is_tried_again(tmp_path: Path) -> None:
    source, data_dir = alike(tmp_path / "p", 1), tmp_path / "out"
    path = source / "a/0.bmp"
    data = path.read_bytes()
    path.write_bytes(data[:5000].ljust(len(data), b"\0")[: len(data) - 1] + b"\x01")
    path.write_bytes(data[:30] + bytes([99]) + data[31:])  # of a compression that there is not
    cut_off(source, data_dir, shards=3, max_bad=1)
    packed = pack(source, data_dir, shards=3, max_bad=1)
    assert [file.filename for file in packed.report.skipped] == ["a/0.bmp"]


def test_a_new_file_that_cannot_be_packed_makes_a_dataset_outdated(tmp_path: Path) -> None:
    source, data_dir = alike(tmp_path / "p", 1), tmp_path / "out"
    pack(source, data_dir)
    write_tree(source, {"a/new.jpg": b"no image at all"})
    with pytest.raises(DatasetExists, match=r"is not up to date: .*skipped.csv.* a/new\.jpg"):
        pack(source, data_dir)
    packed = pack(source, data_dir, overwrite=True)
    assert [file.filename for file in packed.report.skipped] == ["a/new.jpg"]
    assert not pack(source, data_dir).is_new
    (source / "a/new.jpg").unlink()
    with pytest.raises(DatasetExists, match=r"is not up to date: .*skipped.csv.* a/new\.jpg"):
        pack(source, data_dir)


def test_clean_removes_the_note_of_a_dataset_that_is_gone(tmp_path: Path) -> None:
    packed = pack(alike(tmp_path / "p", 1), tmp_path / "out")
    assert imgrec.clean(data_dir=tmp_path / "out") == ()
    shutil.rmtree(packed.info.path)
    (left,) = imgrec.clean(data_dir=tmp_path / "out")
    assert left.path == str(note_of(packed))
    assert not (tmp_path / "out/x").exists()
