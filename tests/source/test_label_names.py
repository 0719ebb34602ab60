"""`--label-names`: lines, CSV and JSON, read as the labels of the source tell."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from pictures import jpeg, write_tree

from imgrec.errors import SourceError, UsageError
from imgrec.options import SourceOptions
from imgrec.options.source import LabelLine
from imgrec.source.label_names import parse_label_names, read_label_names

NAMES = {"0": "cat", "1": "dog", "2": "cow"}
LABELS = ["2", "0", "1"]


def parsed(text: str, called: str = "names.csv") -> tuple[LabelLine, ...]:
    return parse_label_names(text, called) or tuple(text.splitlines())


@pytest.mark.parametrize(
    "text",
    [
        "cat\ndog\ncow\n",
        "name\ncat\ndog\ncow\n",
        "class_name\r\ncat\r\ndog\r\ncow\r\n",
        "0,cat\n1,dog\n2,cow\n",
        "cat,0\ndog,1\ncow,2\n",
        "label,name\n2,cow\n0,cat\n1,dog\n",
        "\ufeffname;id\ncat;0\ndog;1\ncow;2\n",
        "0\tcat\n1\tdog\n2\tcow\n",
        'idx,breed\n0,"cat"\n1,"dog"\n2,"cow"\n',
        "id,name,count\n0,cat,10\n1,dog,11\n2,cow,12\n",
        "00,cat\n01,dog\n02,cow\n",
        "0.0,cat\n1.0,dog\n2.0,cow\n",
        '["cat", "dog", "cow"]',
        '{"0": "cat", "1": "dog", "2": "cow"}',
        '{"cat": 0, "dog": 1, "cow": 2}',
        '{"cow": "2", "cat": "0", "dog": "1"}',
        '[{"id": 0, "name": "cat"}, {"id": 1, "name": "dog"}, {"id": 2, "name": "cow"}]',
    ],
)
def test_numbers_get_the_same_names_from_every_form(text: str) -> None:
    named = read_label_names(parsed(text), LABELS)
    assert dict(named.names) == NAMES
    assert named.order == ("cat", "dog", "cow")


def test_a_header_above_lines_is_told() -> None:
    named = read_label_names(parsed("label\ncat\ndog\n"), ["0", "1"])
    assert named.order == ("cat", "dog")
    assert named.notes == ("--label-names: its first line, label, is taken for a header",)


def test_a_first_line_that_a_label_needs_is_a_name() -> None:
    named = read_label_names(parsed("label\ncat\ndog\n"), ["0", "1", "2"])
    assert named.order == ("label", "cat", "dog")


def test_lines_below_a_header_may_count_from_1() -> None:
    assert read_label_names(parsed("name\ncat\ndog\n"), ["1", "2"]).names == {
        "1": "cat",
        "2": "dog",
    }


def test_names_with_commas_are_lines_where_no_column_holds_the_labels() -> None:
    text = "tench, Tinca tinca\ngoldfish, Carassius auratus\n"
    assert read_label_names(parsed(text), ["0", "1"]).order == tuple(text.splitlines())


def test_labels_that_are_texts_get_names_by_a_table() -> None:
    named = read_label_names(parsed("synset,name\nn02,dog\nn01,tench\n"), ["n01", "n02"])
    assert dict(named.names) == {"n02": "dog", "n01": "tench"}


def test_names_of_labels_that_do_not_occur_stay() -> None:
    assert read_label_names(parsed("0,cat\n1,dog\n2,cow\n"), ["0"]).order == ("cat", "dog", "cow")


@pytest.mark.parametrize(
    ("text", "labels", "message"),
    [
        ("0,1\n1,0\n", ["0", "1"], "column 1 and column 2 both hold the labels of the source"),
        ("0,cat,x\n1,dog,y\n", ["0", "1"], "any of column 2, column 3 may hold the names"),
        ("0,cat\n0,dog\n1,x\n", ["0", "1"], "the label 0 has two names, cat and dog"),
        ("0,cat\n1,\n", ["0", "1"], "the label 1 has no name"),
        ("0,cat\n1,cat\n", ["0", "1"], "the labels 0 and 1 are both called cat"),
    ],
)
def test_what_can_be_read_in_two_ways_is_refused(
    text: str, labels: list[str], message: str
) -> None:
    with pytest.raises(SourceError) as caught:
        read_label_names(parsed(text), labels)
    assert caught.value.message == f"--label-names: {message}"


def test_a_header_tells_which_of_two_columns_holds_the_labels() -> None:
    named = read_label_names(parsed("name,id\n0,1\n1,0\n"), ["0", "1"])
    assert dict(named.names) == {"0": "1", "1": "0"}


def test_a_map_of_other_labels_lists_both() -> None:
    with pytest.raises(SourceError) as caught:
        read_label_names(parsed('{"a": "cat", "b": "dog"}'), ["0", "1"])
    assert caught.value.message == "--label-names names none of the labels 0, 1"
    assert caught.value.hint == "it names a, b"


@pytest.mark.parametrize("text", ["[]", "{}", '[["a"]]', '{"a": {"b": 1}}', "[1.5]", "{", "[null]"])
def test_json_that_names_nothing_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="is not a JSON list or map of names"):
        parse_label_names(text, "names.json")


@given(
    st.dictionaries(st.integers(0, 60), st.text("abc ,", min_size=1).map(str.strip), min_size=1),
    st.booleans(),
    st.booleans(),
)
def test_a_table_names_each_label_whatever_its_order(
    names: dict[int, str], is_reversed: bool, has_header: bool
) -> None:
    names = {label: f"x{name}{label}" for label, name in names.items()}
    rows = [("id", "name")] * has_header + [(str(label), name) for label, name in names.items()]
    if is_reversed:
        rows = [(name, label) for label, name in rows]
    named = read_label_names(rows, [str(label) for label in names])
    assert dict(named.names) == {str(label): name for label, name in names.items()}
    assert list(named.names) == [str(label) for label in sorted(names)]


def test_a_dict_is_taken_in_python() -> None:
    assert SourceOptions(label_names={0: "cat", 1: "dog"}).label_names == (
        ("0", "cat"),
        ("1", "dog"),
    )


# Through the command.


def classes(cli: Cli, *arguments: str) -> list[str]:
    done = cli("plan", *arguments, "--json")
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout)["classes"]
    return found


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_tree(tmp_path, {f"{n}.jpg": jpeg(n) for n in range(4)})
    path = tmp_path / "t.csv"
    path.write_text("id,label\n0,0\n1,1\n2,2\n3,1\n")
    return path


def test_a_csv_header_shifts_no_name(cli: Cli, tmp_path: Path, table: Path) -> None:
    (tmp_path / "names.csv").write_text("label,name\n0,cat\n1,dog\n2,cow\n")
    done = cli("plan", str(table), "--label-names", "names.csv")
    assert "  1         dog: 2 train" in done.stdout
    (tmp_path / "plain.txt").write_text("name\ncat\ndog\ncow\n")
    done = cli("plan", str(table), "--label-names", "plain.txt")
    assert "  1         dog: 2 train" in done.stdout
    assert "--label-names: its first line, name, is taken for a header" in done.stdout


def test_labels_without_a_name_end_it(cli: Cli, tmp_path: Path, table: Path) -> None:
    (tmp_path / "names.csv").write_text("label,name\n0,cat\n5,dog\n")
    done = cli("plan", str(table), "--label-names", "names.csv")
    assert done.returncode == 3
    assert "--label-names has no name for the labels 1, 2" in done.stderr
    assert "it names the labels 0, 5" in done.stderr


def test_arrays_and_several_labels_have_names(cli: Cli, tmp_path: Path, table: Path) -> None:
    (tmp_path / "names.json").write_text('{"cat": 0, "dog": 1, "cow": 2}')
    table.write_text("id,tags\n0,0 1\n1,1\n2,2\n3,1\n")
    options = ("--label-names", "names.json")
    assert classes(cli, str(table), "--label-sep", " ", *options) == ["cat", "dog", "cow"]
    images = np.random.default_rng(0).integers(0, 255, (4, 8, 8, 3)).astype("uint8")
    (tmp_path / "a").mkdir()
    np.savez(tmp_path / "a" / "set.npz", x_train=images, y_train=np.array([0, 1, 2, 1]))
    assert classes(cli, "a", *options) == ["cat", "dog", "cow"]
