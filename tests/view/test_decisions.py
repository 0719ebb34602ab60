"""Decisions in `imgrec view`: who may make them, how they are kept, that `edit` takes them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from inline import pack
from pictures import class_tree, png, write_tree
from viewing import Viewer, viewing

import imgrec
from imgrec.view.decided import KEEP, NOTHING, Decision
from imgrec.view.decision_table import Names, decode_decisions, encode_decisions

HEADER = "filename,action,label,split\n"
NAMES = Names(("a", "b,", '"c"'), ("train", "val"), is_multilabel=True)
HOSTILE = (" blank.png", 'a,"b".png', "flag", "=1+1.png", "#.png", "b\r.png")


@pytest.fixture(scope="module")
def flowers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("decisions")
    return pack(
        class_tree(root / "flowers", {"rose": 20, "tulip": 10}), root / "data", val_split=0.2
    )


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return tmp_path / "fixes.csv"


@pytest.fixture
def viewer(flowers: Path, table: Path) -> Iterator[Viewer]:
    with viewing(flowers, str(table)) as found:
        yield found


def done(viewer: Viewer, action: str, *numbers: int, **more: object) -> str:
    order = {"action": action, **more}
    if numbers:
        order["numbers"] = list(numbers)
    return str(viewer.decide(order).json["done"])


def name_of(viewer: Viewer, number: int) -> str:
    (row,) = viewer.page(f"start={number}&count=1")["rows"]
    return str(row["name"])


# Who may decide


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": ""}, 403), ({"Origin": "null"}, 403), ({"Origin": "https://evil.example"}, 403),
        ({"Origin": "http://127.0.0.1:1"}, 403), ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403), ({"Host": "evil.example"}, 403),
        ({"Content-Type": ""}, 403), ({"Content-Type": "text/plain"}, 403),
        ({"Content-Type": "application/x-www-form-urlencoded"}, 403),
        ({"Content-Type": "application/json; charset=utf-7"}, 403),
        ({}, 200), ({"Sec-Fetch-Site": "same-origin"}, 200),
        ({"Host": "localhost:9", "Origin": "http://localhost:9"}, 200),
    ],
)  # fmt: skip
def test_only_the_page_itself_may_decide(
    viewer: Viewer, table: Path, headers: dict[str, str], status: int
) -> None:
    assert viewer.decide({"action": "drop", "numbers": [0]}, **headers).status == status
    assert table.exists() is (status == 200)


def test_no_other_method_or_path_decides(viewer: Viewer, table: Path) -> None:
    body = b'{"action": "drop", "numbers": [0]}'
    same = {"Origin": viewer.url.rsplit("/", 2)[0], "Content-Type": "application/json"}
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert viewer.ask("api/decide", method, body, **same).status == 405
    for path in ("", "api/page", "api/decide/", "api//decide", "fixes.csv"):
        assert viewer.ask(path, "POST", body, **same).status == 405
    assert viewer.ask_at("/wrong/api/decide", "POST", body, **same).status == 403
    assert not table.exists()


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{", b"[]", b'"drop"', b"\xff", b"[" * 100_000,
        b'{"action": "erase", "numbers": [0]}',
        b'{"action": "drop", "numbers": [30]}', b'{"action": "drop", "numbers": [-1]}',
        b'{"action": "drop", "numbers": [true]}', b'{"action": "drop", "numbers": [0.5]}',
        b'{"action": "drop", "numbers": [0], "query": ""}',
        b'{"action": "drop", "path": "x.csv"}',
        b'{"action": "drop", "query": "class=9"}',
        b'{"action": "drop", "numbers": [0], "split": 0}',
        b'{"action": "relabel", "numbers": [0]}',
        b'{"action": "relabel", "numbers": [0], "labels": [2]}',
        b'{"action": "relabel", "numbers": [0], "labels": [0, 1]}',
        b'{"action": "move", "numbers": [0], "split": 2}', b'{"action": "move", "numbers": [0]}',
        b'{"action": "drop", "numbers": [%s]}' % b",".join([b"1"] * 600_000),
    ],
)  # fmt: skip
def test_an_order_that_makes_no_sense_is_refused(viewer: Viewer, table: Path, data: bytes) -> None:
    answer = viewer.post(data)
    assert (answer.status, list(answer.json)) == (400, ["error"])
    assert not table.exists()


# What is decided


def test_decisions_are_saved_at_once_undone_and_done_again(viewer: Viewer, table: Path) -> None:
    label = viewer.page()["rows"][1]["labels"][0]
    names = [name_of(viewer, number) for number in range(4)]
    other = ["rose", "tulip"][1 - label]
    assert done(viewer, "drop", 0) == "1 image to drop"
    assert done(viewer, "relabel", 1, labels=[1 - label]) == f"1 image relabelled as {other}"
    assert done(viewer, "move", 1, split=1) == "1 image to move to val"
    assert done(viewer, "flag", 0, 2) == "2 images flagged"
    rows = [
        f"{names[0]},flag,,", f"{names[0]},drop,,", f"{names[1]},relabel,{other},",
        f"{names[1]},move,,val", f"{names[2]},flag,,",
    ]  # fmt: skip
    text = HEADER + "".join(f"{row}\n" for row in sorted(rows, key=lambda row: row.split(",")[0]))
    assert table.read_text() == text
    assert [row["decision"] for row in viewer.page("count=4")["rows"]] == [
        {"is_flagged": True, "is_dropped": True, "labels": [], "split": -1},
        {"is_flagged": False, "is_dropped": False, "labels": [1 - label], "split": 1},
        {"is_flagged": True, "is_dropped": False, "labels": [], "split": -1},
        None,
    ]
    assert done(viewer, "undo") == "Undone: 2 images flagged"
    assert "flag," not in table.read_text()
    assert [done(viewer, "undo") for _ in range(4)][-1] == "Nothing to undo"
    assert table.read_text() == HEADER
    assert [done(viewer, "redo") for _ in range(5)][-1] == "Nothing to redo"
    assert table.read_text() == text


def test_decisions_are_filtered_and_counted(viewer: Viewer) -> None:
    done(viewer, "drop", query="class=1", **{"except": []})
    done(viewer, "flag", 0, 1, 2)
    page = viewer.page("decision=dropped")
    assert page["total"] == 10
    assert {row["labels"][0] for row in page["rows"]} == {1}
    assert page["counts"]["decision"] == [10, 3, 10, 0, 0, 20]
    assert viewer.page("decision=undecided")["total"] == 20
    assert viewer.page("decision=dropped&decision=flagged&class=0")["counts"]["class"][2] >= 10
    assert page["decisions"]["dropped"] == 10
    assert done(viewer, "drop", query="decision=dropped") == "10 images to keep"


def test_all_matches_but_some_are_decided_about(viewer: Viewer) -> None:
    kept = viewer.page("class=1")["rows"][0]["number"]
    assert done(viewer, "drop", query="class=1", **{"except": [kept]}) == "9 images to drop"
    assert viewer.ask(f"api/record?n={kept}").json["decision"] is None


def test_the_last_decision_counts_and_the_own_label_and_split_are_none(viewer: Viewer) -> None:
    done(viewer, "relabel", 0, labels=[1])
    done(viewer, "relabel", 0, labels=[0])
    done(viewer, "drop", 0)
    done(viewer, "move", 0, split=1)
    own = viewer.page("count=1")["rows"][0]
    expected = [] if own["labels"] == [0] else [0]
    assert viewer.ask("api/record?n=0").json["decision"] == {
        "is_flagged": False, "is_dropped": False, "labels": [], "split": 1
    }  # fmt: skip
    done(viewer, "relabel", 0, 5, labels=[0])
    done(viewer, "move", 0, split=0)
    decision = viewer.ask("api/record?n=0").json["decision"]
    assert (decision or {"labels": []})["labels"] == expected
    done(viewer, "reset", 0)
    assert done(viewer, "reset", 0) == "Nothing to change"


# The file


def test_decisions_survive_a_restart(flowers: Path, table: Path) -> None:
    with viewing(flowers, str(table)) as viewer:
        done(viewer, "drop", 3, 4)
        rows = viewer.page()["rows"]
    with viewing(flowers, str(table)) as viewer:
        assert viewer.page()["rows"] == rows
        done(viewer, "flag", 5)
    assert table.read_text().count("\n") == 4
    assert [path.name for path in table.parent.iterdir()] == [table.name]


def test_a_file_changed_by_another_program_is_not_overwritten(viewer: Viewer, table: Path) -> None:
    table.write_text("mine")
    answer = viewer.decide({"action": "drop", "numbers": [0]})
    assert answer.status == 422
    assert answer.json["error"] == (
        f"{table} was changed by another program: nothing more is saved until imgrec view is "
        "started again"
    )
    assert table.read_text() == "mine"
    assert viewer.page("decision=decided")["total"] == 0


def test_what_cannot_be_saved_is_not_decided(viewer: Viewer, table: Path) -> None:
    shutil.rmtree(table.parent)
    answer = viewer.decide({"action": "drop", "numbers": [0]})
    assert (answer.status, f"cannot write {table}" in answer.json["error"]) == (422, True)
    assert viewer.page("decision=decided")["total"] == 0
    table.parent.mkdir()
    assert viewer.page()["undo"] == ""
    assert done(viewer, "drop", 0) == "1 image to drop"


def test_other_files_are_refused(flowers: Path, table: Path, cli: Cli) -> None:
    def refused(text: str) -> str:
        table.write_text(text)
        found = cli("view", flowers, "--corrections", table)
        assert (found.returncode, found.stdout, table.read_text()) == (3, "", text)
        return str(found.stderr.splitlines()[0])

    is_none = f"imgrec: {table} is not a table of corrections: "
    columns = "its columns are not filename, action, label, split"
    assert refused("filename,label\nrose/000.jpg,tulip\n") == is_none + columns
    assert refused("") == is_none + "rows of different lengths"
    rows = (
        "x.jpg,drop,,\nrose/000.jpg,erase,,\nrose/001.jpg,relabel,oak,\nrose/001.jpg,move,,test\n"
        "rose/002.jpg,drop,tulip,\nrose/003.jpg,drop,,\nrose/003.jpg,move,,val\n"
    )
    assert refused(HEADER + rows) == (
        f"imgrec: {table} does not fit flowers 1.0.0: row 1: there is no image 'x.jpg', "
        "row 2: 'erase' is not flag, relabel, drop, move, "
        "row 4: there is no split 'test', row 5: drop with the label 'tulip' and the split '', "
        "row 7: its image has another correction already"
    )


def test_the_file_is_never_inside_the_dataset(
    flowers: Path, cli: Cli, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for place in (flowers / "x.csv", flowers.parent / "x.csv", flowers / "a" / ".." / "x.csv"):
        found = cli("view", flowers, "--corrections", place)
        assert (found.returncode, "is inside the dataset" in found.stderr) == (2, True)
    assert "is not a CSV file" in cli("view", flowers, "--corrections", "x.txt").stderr
    monkeypatch.setenv("HOME", str(tmp_path))
    name = "flowers-1.0.0-corrections.csv"
    for working, file in ((tmp_path, tmp_path / name), (flowers, tmp_path / name)):
        monkeypatch.chdir(working)
        with viewing(flowers) as viewer:
            assert viewer.ask("api/dataset").json["corrections"] == str(file)


def test_images_are_relabelled_as_a_class_that_is_new(
    flowers: Path, table: Path, tmp_path: Path
) -> None:
    with viewing(flowers, str(table)) as viewer:
        order = {"action": "relabel", "numbers": [1], "labels": [], "new_class": " wild  oak "}
        assert viewer.decide(order).json["done"] == "1 image relabelled as wild oak"
        assert done(viewer, "relabel", 2, labels=[2]) == "1 image relabelled as wild oak"
        names = [name_of(viewer, number) for number in (1, 2)]
        for bad in ("", " ", "x" * 300, "a\x00b"):
            assert viewer.decide({**order, "new_class": bad}).status >= 400
    with viewing(flowers, str(table)) as viewer:  # the table is continued
        found = viewer.ask("api/dataset").json
        assert found["classes"] == ["rose", "tulip", "wild oak"]
        assert found["edit"].endswith(" --new-classes")
        assert viewer.page("decision=relabelled")["total"] == 2
        assert viewer.page("class=2")["total"] == 0
    shutil.copytree(flowers, tmp_path / "flowers/1.0.0")
    edited = imgrec.edit(tmp_path / "flowers/1.0.0", table, new_classes=True)
    train = imgrec.open_dataset(edited.info.path)["train"]
    assert sorted(record.filename for record in train.of_class("wild oak")) == sorted(names)


def test_the_command_that_applies_them_is_shown(
    flowers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "my fixes.csv"
    with viewing(flowers, str(file)) as viewer:
        assert viewer.ask("api/dataset").json["edit"] == f"imgrec edit {flowers} '{file}'"
    monkeypatch.setenv("TFDS_DATA_DIR", str(flowers.parent.parent))
    with viewing(flowers, str(file)) as viewer:
        assert viewer.ask("api/dataset").json["edit"] == f"imgrec edit flowers '{file}'"


def test_a_dataset_that_edit_does_not_take_is_only_shown(flowers: Path, tmp_path: Path) -> None:
    copy = shutil.copytree(flowers, tmp_path / "data" / "flowers" / "1.0.0")
    (copy / "samples.parquet").unlink()
    with viewing(copy) as viewer:
        assert viewer.ask("api/dataset").json["corrections"] == ""
        answer = viewer.decide({"action": "drop", "numbers": [0]})
        assert (answer.status, answer.json["error"]) == (
            400, "nothing can be decided here: it has no samples.parquet"
        )  # fmt: skip


decisions = st.builds(
    Decision,
    is_flagged=st.booleans(),
    is_dropped=st.just(False),
    labels=st.sets(st.integers(0, 2)).map(lambda found: tuple(sorted(found))),
    split=st.sampled_from([KEEP, 0, 1]),
) | st.sampled_from([Decision(is_dropped=True), Decision(is_flagged=True, is_dropped=True)])


@given(st.dictionaries(st.sampled_from(["", "x", *HOSTILE]), decisions))
def test_a_table_read_back_has_the_same_decisions(found: dict[str, Decision]) -> None:
    made = {name: decision for name, decision in found.items() if decision != NOTHING}
    assert decode_decisions(encode_decisions(found, NAMES), list(found), NAMES) == (made, [])


# From here to the next version


def labels_and_splits(folder: str | Path) -> dict[str, tuple[object, str]]:
    table = pq.read_table(Path(folder) / "samples.parquet")
    columns = [
        name for name in ("filename", "labels", "label", "split") if name in table.column_names
    ]
    rows = zip(*(table.column(name).to_pylist() for name in columns), strict=True)
    return {name: (labels, split) for name, labels, *_, split in rows}


def test_edit_applies_what_was_decided(flowers: Path, tmp_path: Path, table: Path) -> None:
    folder = shutil.copytree(flowers, tmp_path / "data" / "flowers" / "1.0.0")
    before = labels_and_splits(folder)
    with viewing(folder, str(table)) as viewer:
        train = [row["number"] for row in viewer.page("class=0&split=train")["rows"]]
        names = [name_of(viewer, number) for number in train]
        done(viewer, "drop", train[0])
        done(viewer, "relabel", train[1], labels=[1])
        done(viewer, "move", train[1], train[2], split=1)
        done(viewer, "flag", train[0], train[3])
    edited = imgrec.edit("flowers", table, data_dir=tmp_path / "data")
    after = labels_and_splits(edited.info.path)
    assert edited.flagged == 2
    assert before.keys() - after.keys() == {names[0]}
    assert {name: after[name] for name in after if after[name] != before[name]} == {
        names[1]: (1, "val"), names[2]: (0, "val")
    }  # fmt: skip
    assert labels_and_splits(folder) == before


def test_edit_takes_hostile_names_and_several_labels(tmp_path: Path, table: Path, cli: Cli) -> None:
    source = write_tree(tmp_path / "films", {name: png(at) for at, name in enumerate(HOSTILE[:5])})
    lines = [{"filename": name, "labels": ["war", "love, a"]} for name in HOSTILE[:5]]
    (source / "list.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    folder = pack(source / "list.jsonl", tmp_path / "data", name="films")
    before = labels_and_splits(folder)
    with viewing(folder, str(table)) as viewer:
        count = len(before)
        assert (
            done(viewer, "relabel", query="", labels=[0]) == f"{count} images relabelled as love, a"
        )
        done(viewer, "flag", 0)
    found = cli("edit", folder, table)
    assert found.returncode == 0, found.stderr
    assert "flagged     1 image, which stay" in found.stdout
    after = labels_and_splits(folder.parent / "1.1.0")
    assert {name: labels for name, (labels, _) in after.items()} == {name: [0] for name in before}


def test_a_table_without_decisions_changes_nothing(flowers: Path, tmp_path: Path, cli: Cli) -> None:
    folder = shutil.copytree(flowers, tmp_path / "data" / "flowers" / "1.0.0")
    for rows in ("", "rose/000.jpg,flag,,\n"):
        (tmp_path / "fixes.csv").write_text(HEADER + rows)
        found = cli("edit", folder, tmp_path / "fixes.csv")
        assert (found.returncode, "nothing has changed" in found.stdout) == (0, True), found
