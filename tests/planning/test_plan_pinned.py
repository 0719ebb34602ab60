"""Images that stay in the splits they had: pins, `--split-from` and `--split-file`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from catalogs import catalog, fractions, pinned, sample, sample_lists, split_of, with_columns
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, encode, jpeg, picture, write_tree

import imgrec
from imgrec.engine.local import LocalEngine
from imgrec.errors import DatasetError, DatasetNotFound, PlanError, SourceError
from imgrec.model import Sample
from imgrec.options import PackOptions
from imgrec.outcome import Packed
from imgrec.planning.build import make_plan
from imgrec.read.samples import read_splits
from imgrec.source.image_pass import pin_by_name, read_split_file

# The laws, on catalogs without files.


@given(sample_lists(2, distinct=True), st.integers(2, 4), fractions)
def test_new_images_are_divided_so_that_each_class_has_the_fraction_in_val(
    samples: list[Sample], part: int, fraction: float
) -> None:
    options = PackOptions(val_split=fraction)
    old = samples[: len(samples) // part]
    before = split_of(make_plan(catalog(old), options)) if old else {}
    after = split_of(make_plan(pinned(samples, before), options))
    counts = Counter(made.class_name for made in samples)
    in_val = Counter(made.class_name for made in samples if after[made.filename] == "val")
    for name, count in counts.items():
        assert in_val[name] == min(max(round(count * fraction), 1), count - 1)


TREES = [sample(f"{n:02d}", "ash", n) for n in range(20)]


@pytest.mark.parametrize("fraction", [0.0, 0.5])
def test_an_image_whose_group_is_pinned_goes_where_its_group_is(fraction: float) -> None:
    made = pinned(TREES, {"ash/00.jpg": "val"})
    groups = tuple(f"p{n // 2}" for n in range(20))
    made = with_columns(made, groups=groups)
    splits = split_of(make_plan(made, PackOptions(val_split=fraction)))
    assert (splits["ash/00.jpg"], splits["ash/01.jpg"]) == ("val", "val")


def test_groups_that_are_new_are_dealt_out_so_that_val_has_its_fraction() -> None:
    made = pinned(TREES, {f"ash/{n:02d}.jpg": "val" if n < 2 else "train" for n in range(10)})
    groups = tuple(f"p{n // 2}" for n in range(20))
    made = with_columns(made, groups=groups)
    splits = split_of(make_plan(made, PackOptions(val_split=0.3)))
    assert Counter(splits.values()) == {"train": 14, "val": 6}


def test_without_a_fraction_new_images_are_train_and_it_is_said() -> None:
    plan = make_plan(pinned(TREES, {"ash/00.jpg": "val"}), PackOptions())
    assert Counter(split_of(plan).values()) == {"train": 19, "val": 1}
    assert plan.warnings == (
        "19 new images are not divided: pass --val-split as well, or they go to train",
    )


def test_train_keeps_an_image_of_each_class_that_is_not_pinned() -> None:
    samples = [sample("old", "ash", 1), sample("new", "ash", 2)]
    made = pinned(samples, {"ash/old.jpg": "test"})
    splits = split_of(make_plan(made, PackOptions(val_split=0.3, test_split=0.3)))
    assert splits == {"ash/old.jpg": "test", "ash/new.jpg": "train"}


def test_a_pin_wins_over_the_split_of_the_source_and_it_is_said() -> None:
    samples = [sample(f"{n}", "ash", n, "test" if n < 2 else "train") for n in range(8)]
    pins = {"test/ash/0.jpg": "train", "train/ash/5.jpg": "test", "train/ash/6.jpg": "val"}
    plan = make_plan(pinned(samples, pins), PackOptions())
    assert split_of(plan).items() >= pins.items()
    (warning,) = plan.warnings
    assert warning == (
        "2 images stay in another split than the source has them in, such as "
        "test/ash/0.jpg in train, not in test"
    )


# --split-from, on real images.


@pytest.fixture(scope="module")
def engine() -> Iterator[LocalEngine]:
    with LocalEngine(1) as running:
        yield running


@pytest.fixture
def source(tmp_path: Path) -> Path:
    root = class_tree(tmp_path / "trees", {"ash": 20, "birch": 10})
    gifs = {f"ash/old{n}.gif": encode(picture(500 + n, "P"), "GIF") for n in range(10)}
    return write_tree(root, gifs)


def packed(source: Path, engine: LocalEngine, version: str = "1.0.0", **options: object) -> Packed:
    data_dir = str(source.parent / "datasets")
    chosen = PackOptions(data_dir=data_dir, version=version, **options)  # type: ignore[arg-type]
    return imgrec.pack(source, chosen, engine=engine)


def stored(outcome: Packed) -> dict[str, str]:
    """Return the split of each file of a dataset, as its table has it."""
    table = pq.read_table(
        Path(outcome.info.path) / "samples.parquet", columns=["filename", "split"]
    )
    return {row["filename"]: row["split"] for row in table.to_pylist()}


def test_growing_a_dataset_moves_no_old_image_and_divides_the_new_ones(
    source: Path, engine: LocalEngine
) -> None:
    before = stored(packed(source, engine, val_split=0.2))
    for name, start in (("ash", 100), ("birch", 200)):
        files = {f"{name}/new{n}.jpg": jpeg(start + n) for n in range(20)}
        write_tree(source, files)
    options = {"val_split": 0.2, "seed": 7}
    grown = packed(source, engine, "1.1.0", split_from="trees:1.0.0", **options)
    after = stored(grown)
    assert len(after) == 80
    assert after.items() >= before.items()
    assert [split.class_counts for split in grown.info.splits] == [(40, 24), (10, 6)]


def test_renamed_files_stay_in_their_split_transcoded_ones_too(
    source: Path, engine: LocalEngine
) -> None:
    first = packed(source, engine, val_split=0.5)
    before = stored(first)
    assert {note.filename for note in first.report.transcoded} == {
        f"ash/old{n}.gif" for n in range(10)
    }
    for path in source.glob("ash/*"):
        path.rename(path.with_name(f"renamed {path.name}"))
    second = packed(source, engine, "1.1.0", split_from=first.info.path, val_split=0.5, seed=9)
    assert stored(second) == {
        name.replace("ash/", "ash/renamed "): split for name, split in before.items()
    }


def test_an_image_that_changed_its_class_stays_in_its_split(
    source: Path, engine: LocalEngine
) -> None:
    before = stored(packed(source, engine, val_split=0.5))
    for path in source.glob("ash/*.jpg"):
        path.rename(source / "birch" / f"moved {path.name}")
    after = stored(packed(source, engine, "1.1.0", split_from="trees", val_split=0.5, seed=9))
    for name, split in before.items():
        moved = name.startswith("ash/") and name.endswith(".jpg")
        assert after[name.replace("ash/", "birch/moved ") if moved else name] == split


def test_where_all_splits_are_known_no_other_is_made(source: Path, engine: LocalEngine) -> None:
    packed(source, engine)
    again = packed(source, engine, "1.1.0", split_from="trees", val_split=0.2)
    expected = "there is no val: the splits of all images are known already"
    assert again.report.warnings == (expected,)


def test_a_dataset_with_none_of_the_images_is_a_warning(source: Path, engine: LocalEngine) -> None:
    packed(source, engine)
    other = class_tree(source.parent / "others", {"oak": 4}, start=900)
    report = packed(other, engine, split_from="trees").report
    assert report.warnings == (
        "--split-from: that dataset has none of these images",
        "no images of ash, birch, which trees has: these classes are empty and keep their labels",
    )
    assert report.classes == ("ash", "birch", "oak")


def test_a_dataset_that_is_not_there_is_an_error(source: Path, engine: LocalEngine) -> None:
    with pytest.raises(DatasetNotFound, match="no dataset 'shrubs'"):
        packed(source, engine, split_from="shrubs")


def test_a_dataset_of_folds_pins_folds(source: Path, engine: LocalEngine) -> None:
    before = stored(packed(source, engine, folds=3))
    write_tree(source, {f"birch/new{n}.jpg": jpeg(200 + n) for n in range(2)})
    with pytest.raises(PlanError, match="images that stay in fold_0, fold_1, fold_2 do not go"):
        packed(source, engine, "1.1.0", split_from="trees", val_split=0.2)
    grown = packed(source, engine, "1.1.0", split_from="trees", folds=3, seed=4)
    assert stored(grown).items() >= before.items()
    counts = [split.class_counts for split in grown.info.splits]
    assert [birch for _, birch in counts if birch] == [4, 4, 4]


def test_an_image_in_several_splits_is_pinned_to_the_one_furthest_from_training(
    tmp_path: Path,
) -> None:
    rows = [("00" * 16, "val"), ("00" * 16, "train"), ("11" * 16, "fold_2"), ("11" * 16, "test")]
    columns = dict(zip(("xxh3", "split"), zip(*rows, strict=True), strict=True))
    pq.write_table(pa.table(columns), tmp_path / "samples.parquet")
    assert read_splits(tmp_path) == {bytes(16): "val", b"\x11" * 16: "test"}


@pytest.mark.parametrize(
    "data",
    [b"PAR1 and no more", None],
)
def test_a_dataset_with_a_damaged_table_pins_nothing_silently(
    source: Path, engine: LocalEngine, data: bytes | None
) -> None:
    path = Path(packed(source, engine, val_split=0.2).info.path) / "samples.parquet"
    if data is None:
        pq.write_table(pa.table({"a": [1]}), path)
    else:
        path.write_bytes(data)
    with pytest.raises(DatasetError, match=r"samples\.parquet cannot be read"):
        packed(source, engine, "1.1.0", split_from="trees", val_split=0.2)


# --split-file.


def table(folder: Path, text: str) -> str:
    path = folder / "splits.csv"
    path.write_text(text)
    return str(path)


def test_a_split_file_keeps_images_where_it_says_and_divides_the_others(
    source: Path, engine: LocalEngine
) -> None:
    kept = {f"ash/{n:03d}.jpg": "train" for n in range(8)} | {"birch/000.jpg": "test"}
    lines = "".join(f"{name},{split}\n" for name, split in kept.items())
    path = table(source.parent, f"filename,split\n{lines}")
    outcome = packed(source, engine, split_file=path, val_split=0.5)
    assert stored(outcome).items() >= kept.items()
    assert [(split.name, split.class_counts) for split in outcome.info.splits] == [
        ("train", (15, 4)),
        ("val", (15, 5)),
        ("test", (0, 1)),
    ]


def test_a_split_file_wins_over_the_dataset_of_split_from(
    source: Path, engine: LocalEngine
) -> None:
    before = stored(packed(source, engine, val_split=0.5))
    name = min(name for name, split in before.items() if split == "val")
    path = table(source.parent, f"{name},train\n")
    options = {"split_from": "trees", "split_file": path, "val_split": 0.5}
    assert stored(packed(source, engine, "1.1.0", **options)) == {**before, name: "train"}


@pytest.mark.parametrize(
    "text",
    [
        "ash/1.jpg,train\nash/2.jpg,val\n",
        "filename,split\nash/1.jpg,train\nash/2.jpg,val\n",
        "split,weight,image\r\nTraining,1,ash/1.jpg\r\nVALIDATION,2,./ash/2.jpg\r\n",
        "\ufeffpath;split\nash/1.jpg;train\nash/2.jpg;valid\nash/2.jpg;val\n",
    ],
    ids=["no header", "header", "other columns", "twice the same"],
)
def test_a_split_file_is_read_however_it_is_written(tmp_path: Path, text: str) -> None:
    assert read_split_file(table(tmp_path, text)) == {"ash/1.jpg": "train", "ash/2.jpg": "val"}


def test_a_split_file_may_name_folds_and_splits_of_any_name(tmp_path: Path) -> None:
    path = table(tmp_path, "a.jpg,fold_1\nb.jpg,holdout\nc.jpg,fold_b\n")
    assert read_split_file(path) == {"a.jpg": "fold_1", "b.jpg": "holdout", "c.jpg": "fold_b"}


def test_all_faults_of_a_split_file_are_named_with_their_lines(tmp_path: Path) -> None:
    text = "file,split\na.jpg,train\nb.jpg,Some Where\na.jpg\n,val\nc.jpg,\na.jpg,val\nd.jpg,all\n"
    path = table(tmp_path, text)
    with pytest.raises(SourceError) as caught:
        read_split_file(path)
    assert str(caught.value) == (
        f"--split-file {path} cannot be used: line 3: 'Some Where' is not a split; "
        "line 4: 1 cells instead of 2; line 5: no file; line 6: '' is not a split; "
        "line 7: a.jpg is in train already; and 1 more"
    )
    assert caught.value.path == path


def test_files_that_are_not_in_the_source_are_a_warning(tmp_path: Path) -> None:
    path = table(tmp_path, "ash/00.jpg,val\nash/gone.jpg,train\n")
    made = pin_by_name(catalog(TREES), path)
    assert made.samples.pinned == ("val", *[""] * 19)
    assert made.warnings == ("1 file of splits.csv is not in the source, such as ash/gone.jpg",)


def test_a_split_file_of_other_files_altogether_is_an_error(tmp_path: Path) -> None:
    path = table(tmp_path, "00.jpg,val\n01.jpg,train\n")
    with pytest.raises(SourceError) as caught:
        pin_by_name(catalog(TREES), path)
    assert str(caught.value) == (
        f"--split-file {path} names no file of the source, but such as 00.jpg, 01.jpg"
    )
    assert caught.value.hint == "give paths such as ash/00.jpg, ash/01.jpg"


@pytest.mark.parametrize("text", ["", "a.jpg\n", "a,b,c\n1,2,3\n"])
def test_a_table_without_files_and_splits_is_an_error(tmp_path: Path, text: str) -> None:
    with pytest.raises(SourceError, match="no clear columns of files and splits"):
        read_split_file(table(tmp_path, text))


def test_a_split_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is not a file"):
        read_split_file(str(tmp_path / "splits.csv"))
