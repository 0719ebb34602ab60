"""Images that are there twice: found, shown, kept together or left out."""

from __future__ import annotations

import json
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from catalogs import catalog, fractions, sample_lists
from conftest import ROOT, Cli
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE, pack
from pictures import encode, picture, write_tree
from PIL import Image, ImageDraw, ImageOps

import imgrec
from imgrec.api import leaks
from imgrec.codec import json_files
from imgrec.engine.local import LocalEngine
from imgrec.errors import DatasetNotFound, PlanError, UsageError
from imgrec.inspect.leaks import Leaks
from imgrec.model import Sample, Samples
from imgrec.near.clusters import NearDuplicates, NearGroup
from imgrec.near.duplicates import Large
from imgrec.options import Check, NearDups, PackOptions, SourceOptions
from imgrec.planning.build import make_plan
from imgrec.write.shard import ShardWriter


def drawn(seed: int, width: int = 48, height: int = 40) -> Image.Image:
    """A picture with enough in it to be told from others."""
    return picture(seed, size=(12, 10)).resize((width, height), Image.Resampling.BICUBIC)


def png(seed: int, **size: int) -> bytes:
    return encode(drawn(seed, **size), "PNG")


def jpeg(seed: int, quality: int = 80, **size: int) -> bytes:
    return encode(drawn(seed, **size), "JPEG", quality=quality)


def mirrored(seed: int) -> bytes:
    return encode(ImageOps.mirror(drawn(seed)), "PNG")


BLANK = encode(Image.new("RGB", (48, 40), "white"), "PNG")
TREE = {
    "train/oak/1.png": png(1),
    "train/oak/1 again.jpg": jpeg(1),
    "train/oak/2.png": png(2),
    "train/ash/3.png": png(3),
    "train/ash/4.png": png(4),
    "train/ash/blank.png": BLANK,
    "test/oak/2 small.jpg": jpeg(2, width=36, height=30),
    "test/oak/3 mirrored.png": mirrored(3),
    "test/ash/4.png": png(4),
    "test/ash/5.png": png(5),
    "test/ash/blank too.png": encode(Image.new("RGB", (48, 40), "silver"), "PNG"),
}


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "trees", TREE)


def shown(found: Leaks) -> list[tuple[str, ...]]:
    return [
        (str(group.kind), *sorted(image.name for image in group.images)) for group in found.groups
    ]


EXPECTED = [
    ("across splits", "test/ash/4.png", "train/ash/4.png"),
    ("across splits", "test/oak/3 mirrored.png", "train/ash/3.png"),
    ("across splits", "test/oak/2 small.jpg", "train/oak/2.png"),
    ("within", "train/oak/1 again.jpg", "train/oak/1.png"),
]


def test_a_source_shows_what_it_has_twice_the_worst_first(source: Path) -> None:
    found = leaks(source, engine=ENGINE)
    assert shown(found) == EXPECTED
    assert found.is_leaking
    assert (found.images, found.flat, found.unreadable) == (11, 2, 0)


def test_a_dataset_shows_the_same_as_its_source(source: Path, data_dir: Path) -> None:
    found = leaks(pack(source, data_dir), engine=ENGINE)
    assert shown(found) == EXPECTED
    assert [group.is_exact for group in found.groups] == [True, False, False, False]
    assert [group.is_mirrored for group in found.groups] == [False, True, False, False]
    first, second = sorted(found.groups[1].images, key=lambda image: image.name)
    assert (first.split, second.labels) == ("test", ("ash",))


def test_a_compressed_dataset_is_compared_too(source: Path, data_dir: Path) -> None:
    assert shown(leaks(pack(source, data_dir, compression="gzip"), engine=ENGINE)) == EXPECTED


@pytest.mark.processes
def test_processes_find_the_same(source: Path) -> None:
    with LocalEngine(3) as engine:
        assert shown(leaks(source, engine=engine)) == EXPECTED


def test_an_archive_is_compared_without_unpacking_it(source: Path, tmp_path: Path) -> None:
    path = shutil.make_archive(str(tmp_path / "packed"), "zip", source)
    assert shown(leaks(path, engine=ENGINE)) == EXPECTED


def test_other_labels_are_told_apart_from_copies_of_one_label(tmp_path: Path) -> None:
    files = {
        "oak/1.png": png(1),
        "oak/1.jpg": jpeg(1),
        "ash/1.jpg": jpeg(1, 50),
        "ash/2.png": png(2),
    }
    found = leaks(write_tree(tmp_path / "trees", files), engine=ENGINE)
    assert shown(found) == [("across classes", "ash/1.jpg", "oak/1.jpg", "oak/1.png")]
    first, second = found.groups[0].images[:2]
    assert first.labels != second.labels
    assert not found.is_leaking


def test_an_image_without_a_label_contradicts_none(tmp_path: Path) -> None:
    table = b"file,tags\n1.png,oak\n2.jpg,\n3.png,oak ash\n"
    files = {"1.png": png(2), "2.jpg": jpeg(2), "3.png": png(3), "tags.csv": table}
    tree = write_tree(tmp_path / "trees", files)
    options = SourceOptions(label_sep=" ")
    found = leaks(tree / "tags.csv", source=options, engine=ENGINE)
    assert shown(found) == [("within", "1.png", "2.jpg")]


def test_a_higher_percentage_finds_less(source: Path) -> None:
    found = leaks(source, alike=100, engine=ENGINE)
    assert ("across splits", "test/oak/2 small.jpg", "train/oak/2.png") not in shown(found)
    assert ("across splits", "test/oak/3 mirrored.png", "train/ash/3.png") in shown(found)


def test_unreadable_images_are_counted_and_like_their_copies_only(
    tmp_path: Path, data_dir: Path
) -> None:
    cut, other = png(1)[:-300], png(2)[:-300]
    files = {"train/oak/1.png": cut, "train/oak/2.png": other, "train/oak/3.png": png(3)}
    tree = write_tree(tmp_path / "trees", files | {"test/oak/4.png": cut})
    for found in (
        leaks(tree, engine=ENGINE),
        leaks(pack(tree, data_dir, check="header"), engine=ENGINE),
    ):
        assert (found.unreadable, found.flat) == (3, 0)
        assert shown(found) == [("across splits", "test/oak/4.png", "train/oak/1.png")]


def test_copies_and_near_duplicates_of_one_picture_are_one_group(tmp_path: Path) -> None:
    copies = ("test/x/a.png", "test/x/b.png", "train/x/1.png", "train/x/2.png")
    tree = write_tree(tmp_path / "trees", dict.fromkeys(copies, png(1)) | {"test/x/c.jpg": jpeg(1)})
    (group,) = (found := leaks(tree, engine=ENGINE)).groups
    assert shown(found) == [("across splits", *sorted([*copies, "test/x/c.jpg"]))]
    assert len({image.split for image in group.images[:2]}) == 2
    assert not group.is_exact


def test_pictures_cut_by_a_quarter_at_a_corner_are_found(tmp_path: Path) -> None:
    files = {f"oak/{seed:02d}.png": png(seed, width=240, height=200) for seed in range(12)}
    for seed in (0, 3, 5, 6):  # the descriptors of these are less alike than most
        cut = drawn(seed, 240, 200).crop((60, 50, 240, 200))
        files[f"oak/{seed:02d} cut.jpg"] = encode(cut, "JPEG", quality=85)
    found = leaks(write_tree(tmp_path / "trees", files), engine=ENGINE)
    assert sorted(name[1] for name in shown(found)) == [
        f"oak/{seed:02d} cut.jpg" for seed in (0, 3, 5, 6)
    ]


def test_one_letter_drawn_twice_is_not_one_picture_but_its_copy_is(tmp_path: Path) -> None:
    drawings = []
    for lines in ([(19, 24, 83, 23), (55, 17, 46, 93)], [(19, 23, 89, 25), (56, 21, 53, 86)]):
        drawing = Image.new("L", (105, 105), "white")
        for line in lines:
            ImageDraw.Draw(drawing).line(line, fill="black", width=4)
        drawings.append(drawing)
    files = {f"t/{at}.png": encode(drawing, "PNG") for at, drawing in enumerate(drawings)}
    files["t/0 again.jpg"] = encode(drawings[0], "JPEG", quality=50)
    found = leaks(write_tree(tmp_path / "letters", files), engine=ENGINE)
    assert shown(found) == [("within", "t/0 again.jpg", "t/0.png")]


def test_the_order_of_labels_makes_no_other_label(tmp_path: Path, data_dir: Path) -> None:
    write_tree(tmp_path, {"1.png": png(1), "2.jpg": jpeg(1), "3.png": png(3)})
    table = tmp_path / "t.csv"
    table.write_text("filename,labels\n1.png,a b\n2.jpg,b a\n3.png,a\n")
    options = imgrec.SourceOptions(label_sep=" ")
    found = leaks(table, source=options, engine=ENGINE)
    assert [kind for kind, *_ in shown(found)] == ["within"]
    folder = pack(table, data_dir, source=options, near_dups="drop")
    assert sum(split.examples for split in imgrec.info(folder).splits) == 2


def test_images_of_another_dataset_are_found_each_once(source: Path, tmp_path: Path) -> None:
    files = {
        "elm/exact.png": png(4),
        "elm/near.jpg": jpeg(4, 90),
        "elm/mirrored.png": mirrored(2),
        "elm/new.png": png(77),
        "elm/blank.png": BLANK,
    }
    other = write_tree(tmp_path / "more", files)
    found = leaks(other, against=source, engine=ENGINE)
    assert shown(found) == [
        ("against", "elm/exact.png", "test/ash/4.png"),
        ("against", "elm/blank.png", "train/ash/blank.png"),
        ("against", "elm/mirrored.png", "train/oak/2.png"),
        ("against", "elm/near.jpg", "test/ash/4.png"),
    ]
    assert [group.is_exact for group in found.groups] == [True, True, False, False]
    assert found.is_leaking


def test_without_groups_there_is_no_leak_and_no_sheet(source: Path, tmp_path: Path) -> None:
    other = write_tree(tmp_path / "more", {"elm/1.png": png(50), "elm/2.png": png(51)})
    found = leaks(other, against=source, sheet=tmp_path / "pairs.png", engine=ENGINE)
    assert (found.groups, found.is_leaking, found.sheet) == ((), False, "")
    assert not (tmp_path / "pairs.png").exists()


def test_pixels_of_arrays_are_looked_at(tmp_path: Path) -> None:
    digits = ROOT / "sample_data" / "digits"
    found = leaks(digits, engine=ENGINE)
    assert found.images == 80
    assert found.unreadable == 0
    packed = pack(digits, tmp_path / "data")
    against = leaks(packed, against=digits, engine=ENGINE)
    assert len(against.groups) == 80
    assert {group.alike for group in against.groups} == {100}


def test_a_source_is_read_as_its_options_say(tmp_path: Path) -> None:
    files = {"all/oak.1.png": png(1), "all/ash.1.jpg": jpeg(1)}
    options = SourceOptions(label_regex=r"^[a-z]+")
    found = leaks(write_tree(tmp_path / "trees", files), source=options, engine=ENGINE)
    assert shown(found) == [("across classes", "all/ash.1.jpg", "all/oak.1.png")]


# The contact sheet


def test_the_sheet_shows_two_of_each_group(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "trees", {"oak/1.png": png(1), "oak/2.png": mirrored(1)})
    found = leaks(tree, sheet=tmp_path / "pairs.png", engine=ENGINE)
    sheet = Image.open(found.sheet)
    left, right = (sheet.crop((x, 12 + 192 - 160, x + 192, 12 + 192)) for x in (12, 12 + 192 + 6))
    expected = drawn(1).resize((192, 160), Image.Resampling.BICUBIC)
    assert _mean_difference(left, expected) < 2
    assert _mean_difference(right, ImageOps.mirror(expected)) < 2


def _mean_difference(one: Image.Image, other: Image.Image) -> float:
    pairs = zip(one.convert("RGB").tobytes(), other.tobytes(), strict=True)
    return sum(abs(a - b) for a, b in pairs) / len(other.tobytes())


def test_the_sheet_shows_fifty_groups_at_most_with_names_of_any_letters(tmp_path: Path) -> None:
    files = {f"oak/{seed}.{kind}": png(seed) for seed in range(60) for kind in ("png", "again.png")}
    files |= {"oak/\u6a39 \udce9\x1b[31m.png": png(60), f"oak/{'x' * 80}.png": png(60)}
    tree = write_tree(tmp_path / "trees", files)
    found = leaks(tree, sheet=tmp_path / "pairs.png", engine=ENGINE)
    assert len(found.groups) == 61
    assert Image.open(found.sheet).height < 18 * 300


def test_every_kind_of_pixels_is_drawn(tmp_path: Path) -> None:
    grey = drawn(1).convert("L")
    deep = grey.convert("I").point(lambda level: level * 257).convert("I;16")
    files = {"oak/1.png": encode(deep, "PNG"), "oak/2.png": encode(grey.convert("LA"), "PNG")}
    tree = write_tree(tmp_path / "trees", files)
    sheet = Image.open(leaks(tree, sheet=tmp_path / "pairs.png", engine=ENGINE).sheet)
    left, right = (sheet.crop((x, 60, x + 190, 200)).convert("L") for x in (12, 12 + 192 + 6))
    pairs = zip(left.tobytes(), right.tobytes(), strict=True)
    assert sum(abs(a - b) for a, b in pairs) / len(left.tobytes()) < 3


# Wrong use


@pytest.mark.parametrize("alike", [-1, 49, 101, 80.5, float("nan"), "a lot", True, None])
def test_a_percentage_that_is_none_is_refused(source: Path, alike: int) -> None:
    with pytest.raises(UsageError):
        leaks(source, alike=alike, engine=ENGINE)


def test_the_former_option_names_the_new_one(source: Path, cli: Cli) -> None:
    assert "it is now called --alike" in cli("leaks", source, "--distance", "4").stderr


def test_a_sheet_that_cannot_be_written_is_refused_before_any_work(tmp_path: Path) -> None:
    for path, why in (
        (tmp_path, "is a folder"),
        (tmp_path / "missing" / "pairs.png", "missing does not exist"),
        (tmp_path / "pairs.gif", "contact sheet as .gif"),
    ):
        with pytest.raises(UsageError, match=why):
            leaks("nothing", sheet=path, engine=ENGINE)


def test_what_is_neither_a_dataset_nor_a_source_is_said_to_be_none(tmp_path: Path) -> None:
    with pytest.raises(DatasetNotFound, match="no dataset 'nothing'") as caught:
        leaks("nothing", data_dir=tmp_path, engine=ENGINE)
    assert caught.value.hint.endswith("or give the path of a source")


def test_the_other_dataset_is_looked_for_before_any_image_is_looked_at(source: Path) -> None:
    with pytest.raises(DatasetNotFound):
        leaks(source, against="nothing", engine=ENGINE, on_progress=lambda *_: pytest.fail())


# The command


def test_the_command_shows_leaks_and_fails(source: Path, cli: Cli) -> None:
    done = cli("leaks", source)
    assert done.returncode == 1
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert lines[0] == f"{source}: 11 images"
    assert lines[1] == "leaks       3 groups across splits: 1 exact, 2 near"
    assert lines[2] == "            test test/ash/4.png [ash] = train train/ash/4.png [ash]"
    assert lines[3].endswith("train train/ash/3.png [ash] (100 %, mirrored)")
    assert lines[5] == "copies      1 group in one split and class: 0 exact, 1 near"
    assert lines[7].startswith("flat        2 images with too little detail")


def test_the_command_tells_programs_everything(source: Path, cli: Cli, data_dir: Path) -> None:
    cli("pack", source)
    done = cli("leaks", "trees", "--json")
    value = json.loads(done.stdout)
    assert done.returncode == 1
    assert (value["name"], value["version"]) == ("trees", "1.0.0")
    assert value["leaking"] is True
    assert value["counts"] == {"across splits": 3, "within": 1}
    assert value["groups"][1] == {
        "kind": "across splits",
        "identical": False,
        "alike": 100,
        "mirrored": True,
        "images": [
            {"file": "train/ash/3.png", "split": "train", "labels": ["ash"]},
            {"file": "test/oak/3 mirrored.png", "split": "test", "labels": ["oak"]},
        ],
    }


def test_the_command_draws_and_compares(source: Path, cli: Cli, tmp_path: Path) -> None:
    cli("pack", source)
    done = cli("leaks", source, "--against", "trees", "-o", "pairs.png", "--quiet")
    assert done.returncode == 1
    assert "leaks       11 images also in trees 1.0.0: 11 exact" in done.stdout
    assert "sheet       pairs.png" in done.stdout
    assert Image.open(tmp_path / "pairs.png").width > 400


def test_the_command_reads_manifests(cli: Cli) -> None:
    sample_data = ROOT / "sample_data"
    done = cli("leaks", "--manifest", sample_data / "flowers.csv", sample_data / "flowers")
    assert (done.returncode, done.stderr) == (0, "")
    assert "100 images, no duplicates" in done.stdout


def test_the_command_prints_no_control_characters(tmp_path: Path, cli: Cli) -> None:
    files = {"oak/\x1b[31m1.png": png(1), "oak/2.jpg": jpeg(1)}
    assert "\x1b" not in cli("leaks", write_tree(tmp_path / "trees", files)).stdout


# Packing


def packed(place: Path, data_dir: Path, **options: object) -> imgrec.Packed:
    wanted = PackOptions(data_dir=str(data_dir), **options)  # type: ignore[arg-type]
    return imgrec.pack(place, wanted, engine=ENGINE)


@pytest.fixture
def versions(tmp_path: Path) -> Path:
    """Pictures of two classes, most in several versions."""
    files = {}
    for seed in range(24):
        kind = "oak" if seed % 2 else "ash"
        files[f"{kind}/{seed:02d}.png"] = png(seed)
        if seed % 3 == 0:
            files[f"{kind}/{seed:02d}~large.jpg"] = jpeg(seed, 90, width=96, height=80)
        if seed % 4 == 0:
            files[f"{kind}/{seed:02d} mirrored.png"] = mirrored(seed)
    return write_tree(tmp_path / "trees", files)


def test_a_pack_tells_of_near_duplicates_if_asked(versions: Path, data_dir: Path) -> None:
    near = packed(versions, data_dir, near_dups="report", val_split=0.3).report.near_duplicates
    assert near is not None
    assert (near.looked_at, near.groups, near.across_classes) == (38, 12, 0)
    assert 0 < near.across_splits < 12
    assert {group.size for group in near.examples} == {2, 3}


@pytest.mark.parametrize("options", [{"val_split": 0.3, "seed": 1}, {"folds": 3}])
def test_grouped_near_duplicates_are_never_parted(
    versions: Path, data_dir: Path, options: dict[str, object]
) -> None:
    done = packed(versions, data_dir, near_dups="group", **options)
    assert done.report.near_duplicates is not None
    assert done.report.near_duplicates.across_splits == 0
    assert not leaks(done.info.path, engine=ENGINE).is_leaking
    assert len(done.info.splits) > 1


def test_groups_of_what_looks_alike_do_not_gather_in_one_split(
    tmp_path: Path, data_dir: Path
) -> None:
    files = {}
    for number in range(80):
        picture = drawn(number)
        for copy in range(6 if number % 2 else 1):
            name = f"{'ab'[number % 4 // 2]}/{number}_{copy}.jpg"
            files[name] = encode(picture, "JPEG", quality=95 - 5 * copy)
    options = {"near_dups": "group", "val_split": 0.2, "test_split": 0.2}
    found = packed(write_tree(tmp_path / "bursts", files), data_dir, **options)
    shares = {split.name: split.examples / len(files) for split in found.info.splits}
    assert shares == pytest.approx({"train": 0.6, "val": 0.2, "test": 0.2}, abs=0.03)


def test_dropping_keeps_the_largest_of_each(versions: Path, data_dir: Path) -> None:
    done = packed(versions, data_dir, near_dups="drop")
    assert sum(split.examples for split in done.info.splits) == 24
    assert len(done.report.skipped) == 14
    reasons = {note.filename: note.reason for note in done.report.skipped}
    assert reasons["ash/00.png"] == "near-duplicate of ash/00~large.jpg"
    # Of one size, the first by name is kept.
    assert reasons["ash/04.png"] == "near-duplicate of ash/04 mirrored.png"
    assert leaks(done.info.path, engine=ENGINE).groups == ()


def test_copies_that_are_kept_for_their_label_are_in_one_split(
    tmp_path: Path, data_dir: Path
) -> None:
    files = {f"oak/{n}.png": png(n) for n in range(8)} | {f"ash/{n}.jpg": jpeg(n) for n in range(8)}
    tree = write_tree(tmp_path / "trees", files)
    near = packed(tree, data_dir, near_dups="drop", val_split=0.3).report.near_duplicates
    assert near is not None
    assert (near.across_classes, near.across_splits) == (8, 0)


def test_dropping_keeps_what_another_dataset_has(tmp_path: Path, data_dir: Path) -> None:
    old = write_tree(tmp_path / "old", {"oak/1.png": png(1), "oak/2.png": png(2)})
    packed(old, data_dir)
    files = {"oak/1.png": png(1), "oak/2.png": png(2), "oak/0.png": png(1, width=96, height=80)}
    new = write_tree(tmp_path / "new", files)
    done = packed(new, data_dir, near_dups="drop", split_from="old")
    assert [file.filename for file in done.report.skipped] == ["oak/0.png"]


@pytest.mark.parametrize("near_dups", ["report", "group"])
def test_on_leak_covers_near_duplicates(source: Path, data_dir: Path, near_dups: str) -> None:
    done = packed(source, data_dir, near_dups=near_dups, on_leak="drop")
    reasons = {note.filename: note.reason for note in done.report.skipped}
    assert reasons == {
        "train/oak/2.png": "leak: a near-duplicate of test/oak/2 small.jpg in test",
        "train/ash/3.png": "leak: a near-duplicate of test/oak/3 mirrored.png in test",
        "train/ash/4.png": "leak: the same image as test/ash/4.png in test",
    }
    assert not leaks(done.info.path, engine=ENGINE).is_leaking
    shutil.rmtree(source / "test" / "ash")
    with pytest.raises(PlanError, match=r"2 groups of near-duplicates are in more than one split"):
        packed(source, data_dir, near_dups=near_dups, on_leak="fail", version="2.0.0")


def test_reporting_keeps_no_near_duplicates_together_whatever_on_leak_says(
    versions: Path, data_dir: Path
) -> None:
    plain = packed(versions, data_dir, near_dups="report", val_split=0.3)
    strict = packed(versions, data_dir, near_dups="report", val_split=0.3, on_leak="fail", name="s")
    assert strict.report.near_duplicates == plain.report.near_duplicates
    assert strict.report.near_duplicates is not None
    assert strict.report.near_duplicates.across_splits > 0


def way_out(cli: Cli, *arguments: object) -> str:
    """What the summary of a pack says about ending leaks of near-duplicates."""
    printed = cli("pack", *map(str, arguments), "--overwrite").stdout.splitlines()
    (found,) = (line.strip() for line in printed if line.strip().startswith("--"))
    return found


def test_a_summary_names_the_options_that_end_leaks_of_the_source(source: Path, cli: Cli) -> None:
    shutil.rmtree(source / "test" / "ash")  # all that is left are near-duplicates
    drops = "--on-leak drop leaves out the copies"
    assert way_out(cli, source, "--near-dups", "report") == f"--near-dups group {drops}"
    is_grouped = way_out(cli, source, "--near-dups", "group")
    assert is_grouped == f"{drops}, as these splits are the source's"
    both = "with --on-leak drop, it leaves out copies in splits of the source"
    found = way_out(cli, source, "--near-dups", "report", "--val-split", 0.3)
    assert found == f"--near-dups group keeps each group in one split; {both}"


def test_a_summary_names_the_option_that_ends_leaks_of_its_own(versions: Path, cli: Cli) -> None:
    for splits in (("--val-split", 0.3), ("--folds", 3)):
        found = way_out(cli, versions, "--near-dups", "report", *splits)
        assert found == "--near-dups group keeps each group in one split"


def test_a_summary_counts_copies_that_are_left_out_together(source: Path, cli: Cli) -> None:
    done = cli("pack", source, "--near-dups", "group", "--on-leak", "drop").stdout
    assert "2 x leak: a near-duplicate of another file in test: train/ash/3.png, train/oak" in done
    assert "1 x leak: the same image as test/ash/4.png in test: train/ash/4.png" in done


def test_a_report_that_lists_pairs_is_read_as_groups_of_two() -> None:
    old = {
        "looked_at": 9, "pairs": 3, "across_splits": 1, "across_classes": 0,
        "examples": [["a.jpg", "b.jpg", 1.5, True]],
    }  # fmt: skip
    assert json_files._decode_near(old) == NearDuplicates(
        9, 3, 1, 0, 0, (NearGroup(("a.jpg", "b.jpg"), 2, 99, is_mirrored=True),)
    )


WHOLE, CUT = jpeg(1, 90, width=480, height=400), png(1)[:-300]
LARGE = png(1, width=96, height=80)
DROPPED: dict[str, tuple[dict[str, bytes], dict[str, str]]] = {
    "not under another label": (
        {"oak/1.png": png(1), "ash/1.jpg": jpeg(1), "ash/1 again.jpg": jpeg(1, 50)},
        {"ash/1.jpg": "near-duplicate of ash/1 again.jpg"},
    ),
    "the copy nearest to training": (
        {"train/oak/1.png": LARGE, "val/oak/1.jpg": jpeg(1), "test/oak/1.jpg": jpeg(1, 60),
         "train/oak/2.png": png(2)},
        {"train/oak/1.png": "near-duplicate of test/oak/1.jpg",
         "val/oak/1.jpg": "near-duplicate of test/oak/1.jpg"},
    ),
    "a bad image, not a good one": (
        {"oak/1.jpg": WHOLE[: len(WHOLE) * 9 // 10], "oak/2.png": png(1), "oak/3.png": png(3)},
        {"oak/1.jpg": "truncated JPEG"},
    ),
    "copies to the byte": (
        {"oak/1.png": png(1), "oak/2.png": png(1), "oak/3.png": BLANK, "oak/4.png": BLANK},
        {"oak/2.png": "duplicate of oak/1.png", "oak/4.png": "duplicate of oak/3.png"},
    ),
    "nothing for a file that is left out": (
        {"oak/1.png": png(1), "oak/1 excluded.png": LARGE, "oak/3.png": png(3)}, {},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DROPPED)
def test_dropping_drops(tmp_path: Path, data_dir: Path, name: str) -> None:
    files, dropped = DROPPED[name]
    options = {"max_bad": 0.9, "source": SourceOptions(exclude=("*excluded*",))}
    tree = write_tree(tmp_path / "trees", files)
    done = packed(tree, data_dir, near_dups="drop", **options)
    assert {note.filename: note.reason for note in done.report.skipped} == dropped


def test_dropping_gives_the_reason_of_every_bad_image(tmp_path: Path, data_dir: Path) -> None:
    files = {"oak/1.png": CUT, "oak/2.png": CUT, "oak/3.png": png(3)}
    tree = write_tree(tmp_path / "trees", files)
    done = packed(tree, data_dir, near_dups="drop", max_bad=0.9)
    assert len({file.reason for file in done.report.skipped}) == 1
    assert "near" not in done.report.skipped[0].reason


def test_a_group_of_more_than_a_twentieth_of_a_class_is_reported_instead(
    tmp_path: Path, data_dir: Path
) -> None:
    files = {f"oak/{quality}.jpg": jpeg(1, quality) for quality in range(60, 85)}
    files |= {f"oak/{seed}.png": png(seed) for seed in range(2, 8)}
    tree = write_tree(tmp_path / "trees", files)
    done = packed(tree, data_dir, near_dups="group", val_split=0.3)
    assert any(
        warning.startswith("25 images look alike, each like another of them, such as oak/60.jpg")
        for warning in done.report.warnings
    )
    assert done.report.near_duplicates is not None
    assert done.report.near_duplicates.large == 1
    assert len(done.info.splits) == 2
    found = leaks(tree, engine=ENGINE)
    assert (found.groups, found.large) == ((), (Large("oak/60.jpg", 25),))


def test_large_jpegs_are_compared_without_being_asked(tmp_path: Path, data_dir: Path) -> None:
    files = {
        "oak/1.jpg": jpeg(1, width=400, height=300),
        "oak/1 again.jpg": jpeg(1, 60, width=320, height=260),
        "oak/2.jpg": jpeg(2, width=400, height=300),
        "oak/2 small.jpg": jpeg(2, width=96, height=80),
        "oak/2.png": png(2, width=400, height=300),
    }
    tree = write_tree(tmp_path / "trees", files)
    near = packed(tree, data_dir).report.near_duplicates
    assert near is not None
    assert (near.looked_at, near.groups) == (3, 1)
    assert near.examples[0].files == ("oak/1 again.jpg", "oak/1.jpg")


@pytest.mark.parametrize("options", [{"near_dups": "off"}, {"check": "structure"}])
def test_large_jpegs_are_not_compared_if_they_are_not_decoded_or_not_to_be(
    tmp_path: Path, data_dir: Path, options: dict[str, object]
) -> None:
    files = {f"oak/{quality}.jpg": jpeg(1, quality, width=400, height=300) for quality in (60, 90)}
    tree = write_tree(tmp_path / "trees", files)
    assert packed(tree, data_dir, **options).report.near_duplicates is None


def test_small_images_are_not_compared_unless_asked(versions: Path, data_dir: Path) -> None:
    assert packed(versions, data_dir).report.near_duplicates is None


@pytest.mark.processes
def test_workers_make_no_difference(versions: Path, tmp_path: Path) -> None:
    write_tree(versions, {"oak/l.jpg": jpeg(1, 80, width=400, height=300)})
    write_tree(versions, {"oak/m.jpg": jpeg(1, 60, width=400, height=300)})

    def sums(mode: NearDups, engine: LocalEngine | None) -> str:
        place = {"data_dir": str(tmp_path / f"{mode} {engine}"), "near_dups": mode}
        done = imgrec.pack(versions, PackOptions(val_split=0.3, **place), engine=engine or ENGINE)  # type: ignore[arg-type]
        return (Path(done.info.path) / "SHA256SUMS").read_text()

    with LocalEngine(3) as workers:
        for mode in NearDups:
            assert sums(mode, workers) == sums(mode, None)


def test_a_plan_tells_of_near_duplicates(versions: Path) -> None:
    plan = imgrec.plan(versions, PackOptions(near_dups=NearDups.REPORT), engine=ENGINE)
    assert plan.near_duplicates is not None
    assert plan.near_duplicates.groups == 12


def test_the_commands_show_near_duplicates(versions: Path, cli: Cli) -> None:
    done = cli("pack", versions, "--near-dups", "report")
    lines = [line for line in done.stdout.splitlines() if "near-dups" in line]
    assert lines == ["near-dups   12 groups look alike among 38 images"]
    assert "… 9 more groups: imgrec leaks shows them" in done.stdout
    planned = json.loads(cli("plan", versions, "--near-dups", "group", "--json").stdout)
    assert planned["near_duplicates"] == {
        "looked_at": 38, "groups": 12, "across_splits": 0, "across_classes": 0, "large": 0,
        "not_compared": 0,
    }  # fmt: skip


def test_packing_again_with_the_same_choice_has_nothing_to_do(
    versions: Path, data_dir: Path
) -> None:
    for is_new in (True, False):
        done = packed(versions, data_dir, near_dups="group", val_split=0.3)
        assert (done.is_new, done.report.options["near_dups"]) == (is_new, "group")
    assert "near_dups" not in packed(versions, data_dir, version="2.0.0").report.options


def test_the_result_of_a_shard_keeps_its_descriptors(tmp_path: Path) -> None:
    tree = write_tree(tmp_path / "trees", {"oak/1.jpg": jpeg(1, width=400, height=300)})
    (task,) = imgrec.plan(tree, engine=ENGINE).tasks
    (tmp_path / "out").mkdir()
    writer = ShardWriter(folder=str(tmp_path / "out"), check=Check.DECODE, describes=True)
    result = writer(task)
    assert len(result.records.descriptors) == 200
    assert json_files.decode_result(json_files.encode_result(result), task) == result


@given(samples=sample_lists(), fraction=fractions, data=st.data())
def test_what_looks_alike_is_planned_into_one_split(
    samples: Sequence[Sample], fraction: float, data: st.DataObject
) -> None:
    near = tuple(data.draw(st.sampled_from(["", "a", "b", "c"])) for _ in samples)
    whole = replace(catalog(samples), samples=replace(Samples.of(samples), near=near))
    plan = make_plan(whole, PackOptions(val_split=fraction, test_split=0.1))
    home = {name: task.split for task in plan.tasks for name in task.samples.filenames}
    for group in "abc":
        assert (
            len({home[s.filename] for s, key in zip(samples, near, strict=True) if key == group})
            < 2
        )
