"""Images that are looked at before they are packed: decoded once, but not trusted blindly."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from inline import ENGINE, faults_of, pack
from pictures import encode, picture, png, write_tree
from xxhash import xxh3_128_digest

from imgrec.codec import jpeg, tone
from imgrec.codec.look import look
from imgrec.model import Samples, ShardTask
from imgrec.options import Check
from imgrec.source.looking import Album, close_sight, see_images
from imgrec.write.shard import ShardWriter


def photograph(seed: int, size: tuple[int, int] = (400, 300)) -> bytes:
    """A JPEG of soft shapes, larger than a close look."""
    return encode(picture(seed, size=size), "JPEG", quality=85)


def damaged(data: bytes) -> bytes:
    """A JPEG whose coded data is wrong in the middle; its end is there."""
    middle = len(data) // 2
    return data[:middle] + random.Random(1).randbytes(40) + data[middle:]


def samples_of(root: Path) -> Samples:
    paths = sorted(str(path) for path in root.rglob("*") if path.is_file())
    data = [Path(path).read_bytes() for path in paths]
    return Samples(
        filenames=tuple(paths),
        blobs=tuple(paths),
        sizes=tuple(map(len, data)),
        contents=tuple(data),
    )


FILES = {
    **{f"a/{seed}.jpg": photograph(seed) for seed in range(4)},
    **{f"b/{seed}.png": png(seed, size=(90, 70)) for seed in range(3)},
    "b/copy.jpg": encode(picture(2, size=(400, 300)), "JPEG", quality=60),
    "b/damaged.jpg": damaged(photograph(9)),
    "b/cut.jpg": photograph(8)[:3000],
    "b/inks.jpg": encode(picture(5, size=(200, 150)).convert("CMYK"), "JPEG"),
}


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "x", FILES)


def test_close_looks_are_the_same_whether_they_are_kept_or_made_again(tree: Path) -> None:
    samples = samples_of(tree)
    places = [7, 0, 3, 3, 8, 10]
    found = []
    for most in (0, 4, len(samples)):
        with Album() as album:
            album.most = most
            seen = see_images(samples, ENGINE.run, lambda _done, _of: None, album)
            again = close_sight(samples, ENGINE.run)
            found.append((seen, album.see(places, again)))
    assert found[0] == found[1] == found[2]
    assert found[0][1] == close_sight(samples, ENGINE.run)(places)


def test_only_jpegs_that_a_strict_decoder_accepts_count_as_checked(tree: Path) -> None:
    samples = samples_of(tree)
    with Album() as album:
        seen = see_images(samples, ENGINE.run, lambda _done, _of: None, album, checks=True)
    checked = {
        Path(name).name
        for name, value in zip(samples.filenames, seen.checked, strict=True)
        if value
    }
    assert checked == {"0.jpg", "1.jpg", "2.jpg", "3.jpg", "copy.jpg"}


def test_a_pack_that_groups_packs_skips_and_re_encodes_the_same_images(
    tree: Path, tmp_path: Path
) -> None:
    whole, grouped = (
        pack(tree, tmp_path / mode, max_bad=1, shards=1, val_split=0, near_dups=mode)
        for mode in ("off", "report")
    )
    shard = "x-train.tfrecord-00000-of-00001"
    assert (whole / shard).read_bytes() == (grouped / shard).read_bytes()
    assert (whole / "skipped.csv").read_bytes() == (grouped / "skipped.csv").read_bytes()
    notes = [(folder / "report.json").read_text().count("damaged") for folder in (whole, grouped)]
    assert notes[0] == notes[1] > 0
    assert faults_of(grouped) == []


def test_a_pack_that_groups_decodes_a_photograph_once(
    tree: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decoded: list[int] = []
    turbo_decode = jpeg.turbo_decode

    def counted(data: bytes, *rest: object, **options: object) -> object:
        decoded.append(len(data))
        return turbo_decode(data, *rest, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(jpeg, "turbo_decode", counted)
    pack(tree, tmp_path / "out", max_bad=1, near_dups="group", thumbnails=0)
    once = [len(FILES[f"a/{seed}.jpg"]) for seed in range(4)]
    assert [decoded.count(size) for size in once] == [1, 1, 1, 1]


def test_a_look_knows_the_tone_that_a_check_finds() -> None:
    for size in ((400, 300), (128, 160), (72, 64)):
        data = encode(picture(3, size=size), "JPEG", quality=90)
        own, checked = look(data, "").tone, tone.tone(jpeg.strict_decode(data)[0])
        assert all(abs(a - b) <= 2 for a, b in zip(own, checked, strict=True))


@pytest.mark.parametrize("is_same", [True, False])
def test_only_the_bytes_that_were_decoded_are_not_checked_again(
    tmp_path: Path, is_same: bool
) -> None:
    bad = damaged(photograph(9))
    (tmp_path / "a.jpg").write_bytes(bad)
    samples = Samples(
        filenames=("a.jpg",),
        blobs=(str(tmp_path / "a.jpg"),),
        sizes=(len(bad),),
        labels=(0,),
        checked=(xxh3_128_digest(bad if is_same else photograph(9)) + b"\x07\x09",),
    )
    name = "x-train.tfrecord-00000-of-00001"
    task = ShardTask(split="train", index=0, filename=name, expected_bytes=0, samples=samples)
    result = ShardWriter(folder=str(tmp_path), check=Check.DECODE)(task)
    assert bool(result.notes) != is_same
    assert (result.records.tones == b"\x07\x09") == is_same
