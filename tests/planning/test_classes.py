"""Renaming, merging and leaving out classes: `--map`, `--only-classes`, `--drop-classes` ..."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from catalogs import CLASSES, catalog, sample
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from pictures import class_tree, jpeg, write_tree

import imgrec
from imgrec.errors import PlanError, UsageError
from imgrec.model import Catalog, Plan, Submission
from imgrec.notes import Note, NoteKind
from imgrec.options import PackOptions, SourceOptions
from imgrec.planning.build import make_plan
from imgrec.planning.classes import change_classes, parse_map

DROPPED = "its class is in --drop-classes"
NOT_ONLY = "its class is not in --only-classes"
BY_MAP = "its class is dropped by --map"


def asked(**options: object) -> SourceOptions:
    return SourceOptions(**options)  # type: ignore[arg-type]


def changed(made: Catalog, **options: object) -> Plan:
    source = asked(**options)
    return make_plan(change_classes(made, source), PackOptions(source=source))


def labels(plan: Plan) -> dict[str, str]:
    """Return the classes of each image that is to be packed, joined."""
    found = {}
    for task in plan.tasks:
        sets = task.samples.label_sets or [
            (label,) if label >= 0 else () for label in task.samples.labels
        ]
        for name, numbers in zip(task.samples.filenames, sets, strict=True):
            found[name] = " ".join(plan.classes[number] for number in numbers)
    return found


TREES = [
    sample(f"{n}", name, 10 * number + n) for number, name in enumerate(CLASSES) for n in (1, 2)
]


def several(sets: Iterable[str], *, split: str = "") -> Catalog:
    """Make a catalog of images with the labels that are given as words."""
    words = [tuple(text.split()) for text in sets]
    made = catalog([sample(f"{n}", "x", n, split) for n in range(len(words))])
    names = sorted({name for labels in words for name in labels})
    firsts = tuple(labels[0] if labels else "" for labels in words)
    samples = replace(made.samples, class_names=firsts, class_sets=tuple(words))
    return replace(made, samples=samples, class_folders=dict.fromkeys(names, ("t.csv",)))


def test_a_map_renames_merges_and_drops() -> None:
    plan = changed(catalog(TREES), map={"ash": "tree", "birch": "tree", "2": "", "10": "x"})
    assert plan.classes == ("tree", "x")
    assert labels(plan) == {
        "10/1.jpg": "x",
        "10/2.jpg": "x",
        "ash/1.jpg": "tree",
        "ash/2.jpg": "tree",
        "birch/1.jpg": "tree",
        "birch/2.jpg": "tree",
    }
    assert plan.left_out == (
        Note("2/1.jpg", BY_MAP, NoteKind.LEFT_OUT),
        Note("2/2.jpg", BY_MAP, NoteKind.LEFT_OUT),
    )
    assert "--map renames or merges 3 classes of 6 images" in plan.warnings


def test_a_map_applies_to_all_names_at_once() -> None:
    plan = changed(catalog(TREES), map={"ash": "birch", "birch": "ash"})
    assert labels(plan)["ash/1.jpg"] == "birch"
    assert labels(plan)["birch/1.jpg"] == "ash"


@pytest.mark.parametrize(
    ("options", "classes", "reason"),
    [
        ({"only_classes": ["ash", "2"]}, ("2", "ash"), NOT_ONLY),
        ({"drop_classes": ["birch", "10"]}, ("2", "ash"), DROPPED),
        ({"map": {"ash": "oak", "birch": "oak"}, "only_classes": "oak"}, ("oak",), NOT_ONLY),
    ],
)
def test_classes_are_chosen_by_name(
    options: Mapping[str, object], classes: tuple[str, ...], reason: str
) -> None:
    plan = changed(catalog(TREES), **options)
    assert plan.classes == classes
    assert Counter(file.reason for file in plan.left_out) == {reason: 4}


def test_rare_classes_are_left_out_after_merging_and_globs() -> None:
    more = [*TREES, sample("3", "ash", 99), sample("4", "oak", 98), sample("5", "oak", 97)]
    plan = changed(catalog(more), map={"2": "10"}, min_per_class=3, exclude=["oak/5*"])
    assert plan.classes == ("10", "ash")
    reason = "its class has fewer images than --min-per-class 3"
    assert plan.left_out == (
        Note("birch/1.jpg", reason, NoteKind.LEFT_OUT),
        Note("birch/2.jpg", reason, NoteKind.LEFT_OUT),
        Note("oak/4.jpg", reason, NoteKind.LEFT_OUT),
    )


def test_of_several_labels_only_those_left_out_go() -> None:
    made = several(["a b", "b", "c", "", "a"])
    plan = changed(made, drop_classes=["b"])
    assert plan.classes == ("a", "c")
    assert labels(plan) == {"x/0.jpg": "a", "x/2.jpg": "c", "x/3.jpg": "", "x/4.jpg": "a"}
    assert plan.left_out == (Note("x/1.jpg", DROPPED, NoteKind.LEFT_OUT),)
    assert f"1 image lost a label and kept others: {DROPPED}" in plan.warnings


def test_labels_of_one_image_that_are_merged_become_one() -> None:
    plan = changed(several(["a b", "b c"]), map={"a": "b"})
    assert labels(plan) == {"x/0.jpg": "b", "x/1.jpg": "b c"}


def test_a_rare_label_of_several_goes_and_its_image_stays() -> None:
    plan = changed(several(["a b", "a", "c"]), min_per_class=2)
    assert labels(plan) == {"x/0.jpg": "a", "x/1.jpg": "a"}
    assert [file.filename for file in plan.left_out] == ["x/2.jpg"]


def test_unlabelled_images_stay() -> None:
    bare = sample("9", "", 9, split="test")
    made = catalog([*TREES, bare])
    made = replace(made, class_folders={n: f for n, f in made.class_folders.items() if n})
    for options in ({"only_classes": "ash"}, {"drop_classes": "ash"}, {"min_per_class": 1}):
        assert labels(changed(made, **options))[bare.filename] == ""


def test_the_order_that_a_source_fixes_stays_that_of_the_rest() -> None:
    made = catalog(TREES, class_order=("birch", "10", "ash", "2"))
    assert changed(made, drop_classes="10").classes == ("birch", "ash", "2")
    assert changed(made, map={"2": "birch"}).classes == ("birch", "10", "ash")


def test_predictions_of_a_renamed_class_are_written_as_the_source_does() -> None:
    made = catalog(TREES, submission=Submission(values={"ash": "7"}))
    renamed = {"ash": "oak", "birch": "x", "2": "n", "10": "n"}
    after = change_classes(made, asked(map=renamed)).submission
    assert after is not None
    assert after.values == {"oak": "7", "x": "birch"}


def test_bad_files_of_a_class_that_is_left_out_are_not_bad() -> None:
    bad = (Note("ash/x/1.jpg", "truncated"), Note("birch/9.jpg", "truncated"))
    plan = changed(catalog(TREES, notes=bad), drop_classes="ash")
    assert plan.bad == bad[1:]
    assert Note("ash/x/1.jpg", DROPPED, NoteKind.LEFT_OUT) in plan.left_out


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (
            {"drop_classes": ["asch", "zz"], "only_classes": ["brich"]},
            [
                "'brich' in --only-classes (did you mean birch?)",
                "'asch' in --drop-classes (did you mean ash?)",
                "'zz' in --drop-classes",
            ],
        ),
        (
            {"map": {"asch": "oak", "birch": "oak"}, "drop_classes": ["birch"]},
            [
                "'asch' in --map (did you mean ash?)",
                "'birch' in --drop-classes (which --map calls oak)",
            ],
        ),
    ],
)
def test_names_of_no_class_are_all_listed(
    options: Mapping[str, object], expected: list[str]
) -> None:
    with pytest.raises(PlanError) as caught:
        changed(catalog(TREES), **options)
    named = ", ".join(expected)
    assert caught.value.message == f"these names are not classes of the source: {named}"


def test_leaving_out_every_class_is_refused() -> None:
    for options in ({"drop_classes": CLASSES}, {"min_per_class": 9}):
        with pytest.raises(PlanError, match="no class is left to pack: its class "):
            changed(catalog(TREES), **options)


def test_a_class_that_is_both_wanted_and_not_is_refused() -> None:
    with pytest.raises(UsageError, match="a is in both only_classes and drop_classes"):
        asked(only_classes="a", drop_classes=["b", "a"])


def test_accents_and_with_fold_case_spellings_are_found() -> None:
    made = catalog([sample("1", "cafe\u0301", 1), sample("2", "Ash", 2), sample("3", "oak", 3)])
    assert changed(made, drop_classes="caf\u00e9").classes == ("Ash", "oak")
    assert changed(made, drop_classes="ASH", fold_case=True).classes == ("caf\u00e9", "oak")


@given(
    st.lists(st.sets(st.sampled_from("abcd")), min_size=1, max_size=20),
    st.dictionaries(st.sampled_from("abcd"), st.sampled_from(["", "a", "e"])),
    st.integers(0, 4),
)
def test_every_image_is_packed_or_left_out(
    sets: list[set[str]], renames: dict[str, str], least: int
) -> None:
    words = [" ".join(sorted(names)) for names in sets]
    made = several([*words, "a b c d", "a b c d"])
    try:
        plan = changed(made, map=renames, min_per_class=least)
    except PlanError as error:
        assert "no class is left" in str(error)
        return
    packed = labels(plan)
    left = {file.filename for file in plan.left_out}
    assert packed.keys() | left == set(made.samples.filenames)
    assert not packed.keys() & left
    for at, names in enumerate(sets):
        if not names:
            assert packed[f"x/{at}.jpg"] == ""
        new = {renames.get(name, name) for name in names} - {""}
        assert set(packed.get(f"x/{at}.jpg", "").split()) <= new


# The file.


@pytest.mark.parametrize(
    "text",
    [
        "ash,tree\nbirch,tree\n2,\n",
        "old,new\nash,tree\nbirch,tree\n2,\n",
        "\ufeffclass,label\r\nash,tree\r\n\r\nbirch, tree\r\n2,",
        "ash\ttree\nbirch\ttree\n2\t\n",
        "from;to\nash;tree\nbirch;tree\n2;\n",
        '"ash","tree"\n"birch",tree\n"2",""\n',
    ],
    ids=["plain", "header", "crlf", "tabs", "semicolons", "quotes"],
)
def test_a_map_is_read_with_or_without_header(text: str) -> None:
    plan = changed(catalog(TREES), map=parse_map(text))
    assert plan.classes == ("10", "tree")


def test_a_first_line_that_names_classes_is_not_a_header() -> None:
    made = catalog([sample("1", "old", 1), sample("2", "ash", 2)])
    assert changed(made, map=parse_map("old,new\nash,x\n")).classes == ("new", "x")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ash\nbirch,tree\na,b,c\n", "the map cannot be used: not two cells in line 1, 3"),
        ("\n \n", "the map is empty"),
    ],
)
def test_a_file_that_is_no_map_is_refused(text: str, message: str) -> None:
    with pytest.raises(PlanError) as caught:
        parse_map(text)
    assert caught.value.message == message


def test_two_new_names_of_one_class_are_refused() -> None:
    with pytest.raises(PlanError, match="--map has two new names for ash: 'a' and 'b'"):
        changed(catalog(TREES), map=[("ash", "a"), ("ash", "b")])


# Through the commands.


def write_flowers(folder: Path) -> None:
    write_tree(
        folder,
        {
            f"{name}/{n}.jpg": jpeg(10 * at + n)
            for at, name in enumerate(["cat", "dog", "rose", "tulip"])
            for n in range(at + 2)
        },
    )


def test_the_summary_the_plan_and_the_report_count_what_is_left_out(
    cli: Cli, tmp_path: Path, data_dir: Path
) -> None:
    write_flowers(tmp_path / "things")
    (tmp_path / "map.csv").write_text("old,new\ncat,animal\ndog,animal\n")
    options = ("--map", "map.csv", "--drop-classes", "rose", "--min-per-class", "1")
    planned = cli("plan", "things", *options)
    assert planned.returncode == 0, planned.stderr
    for line in (
        "  0         animal: 5 train",
        "  1         tulip: 5 train",
        "skipped     4 files",
        f"            4 x {DROPPED}: rose/0.jpg, rose/1.jpg, rose/2.jpg, … 1 more",
        "warning     --map renames or merges 2 classes of 5 images",
    ):
        assert line in planned.stdout.splitlines()
    done = cli("pack", "things", *options)
    assert done.returncode == 0, done.stderr
    assert f"            4 x {DROPPED}: rose/0.jpg, rose/1.jpg, rose/2.jpg, … 1 more" in done.stdout
    folder = data_dir / "things" / "1.0.0"
    report = json.loads((folder / "report.json").read_bytes())
    assert report["options"]["map"] == {"old": "new", "cat": "animal", "dog": "animal"}
    assert [file["reason"] for file in report["skipped"]] == [DROPPED] * 4
    assert DROPPED in (folder / "report.html").read_text()
    for source in ((), ("--source", "things")):
        verified = cli("verify", "things", *source)
        assert verified.returncode == 0, verified.stdout
    # Another choice of classes is another dataset.
    other = cli("pack", "things", "--map", "map.csv")
    assert other.returncode == 5
    assert "other options (--drop-classes, --min-per-class)" in other.stderr
    again = cli("pack", "things", *options)
    assert "already" in again.stdout


def test_what_is_unpacked_packs_to_the_same_records(cli: Cli, tmp_path: Path) -> None:
    write_flowers(tmp_path / "things")
    source = asked(map={"cat": "animal", "dog": "animal"}, drop_classes="rose")
    options = PackOptions(source=source, data_dir=str(tmp_path / "a"), workers=1)
    first = imgrec.pack(tmp_path / "things", options)
    unpacked = imgrec.unpack(first.info.path, tmp_path / "again")
    _, *command = unpacked.pack_again
    assert cli(*command, "--data-dir", "b").returncode == 0
    shard = "things-train.tfrecord-00000-of-00001"
    again = tmp_path / "b" / "things" / "1.0.0"
    assert (again / shard).read_bytes() == (Path(first.info.path) / shard).read_bytes()
    assert imgrec.info(again).classes == ("animal", "tulip")


def test_a_class_with_a_comma_is_written_in_quotes(cli: Cli, tmp_path: Path) -> None:
    class_tree(tmp_path / "t", {"a,b": 2, "c": 2, "d": 2})
    done = cli("plan", "t", "--drop-classes", '"a,b",c', "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["classes"] == ["d"]
