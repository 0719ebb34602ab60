"""Tables in files: what is read is what was written, with its lines."""

from __future__ import annotations

import csv
import gzip
import io
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sampling import examples

from imgrec.errors import ImgrecError, SourceError
from imgrec.source.tables import Fault, Table, TableKind, is_table, read_table

BOM = "\ufeff"


def read(tmp_path: Path, name: str, data: bytes | str) -> Table:
    path = tmp_path / name
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    return read_table(str(path), name)


def cells(table: Table) -> list[list[object]]:
    return [list(row) for row in zip(*table.columns, strict=True)]


texts = st.text(
    st.one_of(
        st.characters(exclude_categories=["Cs"], exclude_characters="\0"),
        st.sampled_from(list(",;\t\"'\r\n \\{}é\u2028")),
    ),
    max_size=12,
)
tables = st.integers(2, 4).flatmap(
    lambda width: st.lists(st.lists(texts, min_size=width, max_size=width), min_size=1, max_size=6)
)


def written(rows: list[list[str]], delimiter: str, ending: str) -> tuple[str, list[int]]:
    """Write rows as CSV, quoting what must be; return the lines on which they begin, too."""
    text, lines = "", []
    for row in rows:
        lines.append(sum(1 for _ in io.StringIO(text, newline="")) + 1)
        out = io.StringIO()
        csv.writer(out, delimiter=delimiter, lineterminator="\r\n").writerow(row)
        text += out.getvalue()[:-2] + ending
    return text, lines


@examples(150)
@given(tables, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans(), st.booleans())
@example([["a;b", "c"], ["\r", '"\n"']], "\r", True, False, True)
def test_any_rows_survive_as_csv_and_tsv_with_their_lines(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    ending: str,
    has_bom: bool,
    is_tsv: bool,
    is_gzip: bool,
) -> None:
    text, lines = written(rows, "\t" if is_tsv else ",", ending)
    data = (BOM * has_bom + text).encode()
    name = f"table.{'tsv' if is_tsv else 'csv'}{'.gz' if is_gzip else ''}"
    folder = tmp_path_factory.mktemp("csv")
    table = read(folder, name, gzip.compress(data) if is_gzip else data)
    assert cells(table) == rows
    assert list(table.lines) == lines
    assert table.faults == ()
    assert table.kind == ("TSV" if is_tsv else "CSV")


@examples(75)
@given(tables, st.sampled_from(["\n", "\r\n", "\r"]), st.booleans(), st.booleans())
def test_any_rows_survive_as_json_lines_with_their_lines(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    ending: str,
    has_bom: bool,
    is_ascii: bool,
) -> None:
    lines = [json.dumps(dict(enumerate(row)), ensure_ascii=is_ascii) + ending for row in rows]
    data = BOM * has_bom + ending + "".join(lines)
    table = read(tmp_path_factory.mktemp("jsonl"), "table.jsonl", data)
    assert table.names == tuple(map(str, range(len(rows[0]))))
    assert cells(table) == rows
    assert list(table.lines) == list(range(2, len(rows) + 2))
    assert table.faults == ()


@examples(25)
@given(tables)
def test_any_rows_survive_as_parquet_with_their_numbers(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]]
) -> None:
    path = tmp_path_factory.mktemp("parquet") / "table.parquet"
    columns = {str(at): pa.array(column) for at, column in enumerate(zip(*rows, strict=True))}
    pq.write_table(pa.table(columns), path)
    table = read_table(str(path), "table.parquet")
    assert table.names == tuple(columns)
    assert cells(table) == rows
    assert list(table.lines) == list(range(1, len(rows) + 1))


@examples(50)
@given(tables, st.sampled_from(["utf-16-le", "utf-16-be"]))
def test_utf_16_with_its_mark_is_text(
    tmp_path_factory: pytest.TempPathFactory, rows: list[list[str]], encoding: str
) -> None:
    text, lines = written(rows, ",", "\r\n")
    table = read(tmp_path_factory.mktemp("utf16"), "table.csv", (BOM + text).encode(encoding))
    assert (cells(table), list(table.lines)) == (rows, lines)


@examples(150)
@given(
    st.binary(max_size=60),
    st.sampled_from(["t.csv", "t.tsv", "t.txt", "t.jsonl", "t.parquet", "t.csv.gz", "part-0"]),
    st.sampled_from([b"", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1f\x8b\x08\0", b"PAR1", b'{"a": ']),
)
@pytest.mark.fuzz
def test_any_bytes_are_a_table_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str, magic: bytes
) -> None:
    try:
        table = read(tmp_path_factory.mktemp("bytes"), name, magic + data)
    except ImgrecError:
        return
    assert all(len(column) == len(table.lines) for column in table.columns)


@examples(60)
@given(st.data())
@pytest.mark.fuzz
def test_a_damaged_parquet_file_is_a_table_or_one_of_our_errors(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("damaged")
    values = {"id": ["a", "b"], "label": [1, 2], "tags": [["x"], []], "raw": [b"1", b"2"]}
    pq.write_table(pa.table(values), folder / "whole.parquet")
    whole = bytearray((folder / "whole.parquet").read_bytes())
    for place in data.draw(st.lists(st.integers(0, len(whole) - 1), max_size=4)):
        whole[place] = data.draw(st.integers(0, 255))
    damaged = bytes(whole[: data.draw(st.integers(0, len(whole)))])
    try:
        read(folder, "damaged.parquet", damaged)
    except ImgrecError:
        return


@pytest.mark.parametrize(
    ("name", "content", "expected"),
    [
        ("a.csv", b"", True), ("A.CSV", b"", True), ("a.tsv", b"", True), ("a.csv.gz", b"", True),
        ("a.jsonl", b"", True), ("a.ndjson", b"", True), ("a.parquet", b"", True),
        ("a.txt", b"a b", True), ("part-00000", b"a,b\n", True), ("000000_0", b"a\x01b\n", True),
        ("part-00000", b"PAR1", True), ("part-00000", b"\x00\x01", False),
        ("part-0.json", b'{"a": 1}\n{"a": 2}\n', True), ("coco.json", b'{\n"images": []}', False),
        ("a.jpg", b"a,b", False), ("a.zip", b"a,b", False),
    ],
)  # fmt: skip
def test_tables_are_known_by_suffix_or_content(
    tmp_path: Path, name: str, content: bytes, expected: bool
) -> None:
    (tmp_path / name).write_bytes(content)
    assert is_table(str(tmp_path / name)) is expected


def test_a_folder_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.csv").mkdir()
    assert not is_table(str(tmp_path / "a.csv"))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("t.csv", "a;b\n1;2\n"), ("t.csv", "a\tb\n1\t2\n"), ("t.txt", "a b\n1 2\n"),
        ("t.txt", "a\tb\n1\t2\n"), ("000000_0", "a\x01b\n1\x012\n"), ("t.csv", '"a",b\n1,2\n'),
    ],
)  # fmt: skip
def test_the_delimiter_is_found(tmp_path: Path, name: str, text: str) -> None:
    assert cells(read(tmp_path, name, text)) == [["a", "b"], ["1", "2"]]


def test_hive_does_not_quote(tmp_path: Path) -> None:
    table = read(tmp_path, "000000_0", 'a\x01"b\n1\x012\n')
    assert cells(table) == [["a", '"b'], ["1", "2"]]


def test_blank_lines_are_no_rows(tmp_path: Path) -> None:
    table = read(tmp_path, "t.csv", "\na,b\n\n\n1,2\n\n")
    assert list(table.lines) == [2, 5]


def test_rows_of_another_width_are_faults(tmp_path: Path) -> None:
    table = read(tmp_path, "t.csv", "a,b\n1\n2,3\n4,5,6\n")
    assert cells(table) == [["a", "b"], ["2", "3"]]
    assert table.faults == (
        Fault(2, "1", "1 cells instead of 2"),
        Fault(4, "4,5,6", "3 cells instead of 2"),
    )


def test_text_behind_a_closing_quote_is_a_fault_with_all_its_lines(tmp_path: Path) -> None:
    table = read(tmp_path, "t.csv", 'a,b\n"1"x,2\n3,"4\n5,"6\n7,8\n')
    assert cells(table) == [["a", "b"], ["7", "8"]]
    assert [fault[::2] for fault in table.faults] == [
        (2, "text after a closing quote"),
        (3, "lines 3 to 4: text after a closing quote"),
    ]


def test_a_quote_that_is_never_closed_is_an_error_since_it_swallows_rows(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"(?m)^t\.csv:2: a quote that is not closed$"):
        read(tmp_path, "t.csv", 'a,b\n1,"2\n3,4\n')
    with pytest.raises(
        SourceError, match=r"(?m)^t\.csv:2: a cell of more than 131,072 characters$"
    ):
        read(tmp_path, "t.csv", 'a,b\n1,"2\n' + "3,4\n" * 40_000)


TOLD = "is not UTF-8, and was read as cp1252; if letters are wrong, pass --encoding"


@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t.csv.gz", "part-00000"])
@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_a_table_of_windows_is_read_with_a_warning(
    tmp_path: Path, name: str, encoding: str
) -> None:
    data = ("a,b\n" * 5000 + "café,Zoë").encode(encoding)
    table = read(tmp_path, name, gzip.compress(data) if name.endswith(".gz") else data)
    assert cells(table)[-1] == ["café", "Zoë"]
    assert table.warning == f"{name} {TOLD}"


def test_json_lines_of_windows_are_read_with_a_warning(tmp_path: Path) -> None:
    table = read(tmp_path, "t.jsonl", '{"a": "€ é"}\n'.encode("cp1252"))
    assert (cells(table), table.warning) == ([["€ é"]], f"t.jsonl {TOLD}")


@pytest.mark.parametrize("name", ["t.csv", "t.jsonl"])
def test_text_that_windows_has_not_either_is_an_error_with_its_line(
    tmp_path: Path, name: str
) -> None:
    data = b'{"a": 1}\r\n' * 5000 + b"caf\x81"
    with pytest.raises(SourceError, match=r"(?m)^t\.\w+:5001: not UTF-8 or UTF-16 text$") as caught:
        read(tmp_path, name, data)
    assert "--encoding" in caught.value.hint


@pytest.mark.parametrize(
    "encoding", ["shift_jis", "utf-16-le", "utf-16", "utf-8", "utf-8-sig", "koi8-r", "utf-32"]
)
def test_the_encoding_can_be_said(tmp_path: Path, encoding: str) -> None:
    text = "id,label\n\u0436,\u044f\n"
    (tmp_path / "t.csv").write_bytes(text.encode(encoding))
    table = read_table(str(tmp_path / "t.csv"), "t.csv", encoding)
    assert (cells(table), table.warning) == ([["id", "label"], ["\u0436", "\u044f"]], "")


def test_a_mark_is_no_part_of_the_text_whatever_encoding_is_said(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(f"{BOM}id,b\n".encode("utf-16-le"))
    assert cells(read_table(str(tmp_path / "t.csv"), "t.csv", "utf-16-le")) == [["id", "b"]]


def test_text_that_is_not_of_the_encoding_that_is_said_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_bytes(b"a,b\ncaf\xe9,b\n")
    with pytest.raises(SourceError, match=r"(?m)^t\.csv:2: not utf-8 text$"):
        read_table(str(tmp_path / "t.csv"), "t.csv", "utf-8")


def test_nul_bytes_are_an_error_with_their_line(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"(?m)^t\.csv:2: a NUL character, so this"):
        read(tmp_path, "t.csv", b"a,b\nc\0,d\n")
    with pytest.raises(SourceError, match="a NUL character") as caught:
        read(tmp_path, "t.csv", "a,b\n".encode("utf-16-le"))
    assert caught.value.hint.endswith("if it is UTF-16, pass --encoding utf-16-le")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("t.csv", b"id,note\r\na,x\r\nb,y\r"),
        ("t.csv", b"id,note\ra,x\rb,y"),
        ("t.csv", b"id,note\r\r\na,x\r\r\nb,y\r\r\n"),
        ("t.csv", b"id,note\na,x\r\nb,y\n"),
        ("t.tsv", b"id\tnote\r\na\tx\r\nb\ty\r"),
        ("t.txt", b"id note\r\na x\r\nb y\r"),
        ("t", b"id\x01note\r\na\x01x\r\nb\x01y\r"),
    ],
)
def test_no_end_of_a_line_gets_into_a_cell(tmp_path: Path, name: str, data: bytes) -> None:
    assert cells(read(tmp_path, name, data)) == [["id", "note"], ["a", "x"], ["b", "y"]]


def test_a_line_break_in_quotes_stays(tmp_path: Path) -> None:
    assert cells(read(tmp_path, "t.csv", b'a,"x\r\ny"\r\n')) == [["a", "x\r\ny"]]


def test_lists_may_be_padded_with_blanks(tmp_path: Path) -> None:
    padded = read(tmp_path, "t.txt", b"2008_1  -1\n2008_2   1 \n")
    assert cells(padded) == [["2008_1", "-1"], ["2008_2", "1"]]


def test_nothing_of_hive_is_an_empty_cell(tmp_path: Path) -> None:
    assert cells(read(tmp_path, "t", b"a\x01\\N\n")) == [["a", ""]]


def test_a_gzip_file_that_is_cut_short_is_an_error(tmp_path: Path) -> None:
    data = gzip.compress(b"a,b\n" * 1000)[:-10]
    with pytest.raises(SourceError, match=r"^cannot read t\.csv\.gz: Compressed file ended"):
        read(tmp_path, "t.csv.gz", data)


def test_a_line_without_end_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"^t\.csv\.gz:1: a line of more than 16,777,216"):
        read(tmp_path, "t.csv.gz", gzip.compress(bytes(1 << 25), 1))


def test_values_of_json_become_text_and_lists_stay_lists(tmp_path: Path) -> None:
    line = '{"a": 1, "b": 2.0, "c": true, "d": null, "e": ["x", 3], "f": {"g": 1}}'
    assert cells(read(tmp_path, "t.jsonl", line)) == [
        ["1", "2.0", "true", "", ("x", "3"), '{"g": 1}']
    ]


def test_keys_that_an_object_lacks_are_empty(tmp_path: Path) -> None:
    table = read(tmp_path, "t.jsonl", '{"a": "1"}\n{"b": "2"}\n')
    assert table.names == ("a", "b")
    assert cells(table) == [["1", ""], ["", "2"]]


def test_lines_that_are_no_objects_are_faults(tmp_path: Path) -> None:
    lines = [
        '{"a": 1}', "[1]", "{", '{"a": 1, "a": 2}', '{"a": "\\ud800"}', "[" * 100_000,
        '{"a": ' + "9" * 5000 + "}",
    ]  # fmt: skip
    table = read(tmp_path, "t.jsonl", "\n".join(lines))
    assert cells(table) == [["1"]]
    assert [(fault.line, fault.reason.split(":")[0]) for fault in table.faults[:5]] == [
        (2, "not a JSON object"),
        (3, "not JSON"),
        (4, "a JSON object with one key twice"),
        (5, "not valid Unicode text"),
        (6, "nested too deeply"),
    ]
    assert len(table.faults) == 6


def test_parquet_columns_of_bytes_and_structures_are_named_and_not_read(tmp_path: Path) -> None:
    image = pa.array([{"bytes": b"x", "path": "p"}])
    columns = {"image": image, "label": [3], "raw": [b"x"], "tags": [["a", "b"]], "score": [0.5]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(str(tmp_path / "t.parquet"), "t.parquet")
    assert cells(table) == [["", "3", "", ("a", "b"), "0.5"]]
    assert table.unusable == {"image": "struct<bytes: binary, path: string>", "raw": "binary"}


def test_what_is_no_table_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"(?m)^t\.jpg is not a table$"):
        read(tmp_path, "t.jpg", b"a,b")


def test_a_text_file_is_called_csv_or_tsv_by_what_is_in_it(tmp_path: Path) -> None:
    assert read(tmp_path, "t.txt", "a,b\n").kind is TableKind.CSV
    assert read(tmp_path, "part-00000", "a\tb\n").kind is TableKind.TSV
    assert read(tmp_path, "t.tsv", "a\n").kind is TableKind.TSV


@pytest.mark.parametrize(
    ("name", "line"),
    [("t.csv.gz", b",,,,\n"), ("t.csv.gz", b"a\n"), ("t.jsonl.gz", b"{}\n")],
)
def test_a_small_file_of_rows_beyond_measure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: bytes
) -> None:
    monkeypatch.setattr("imgrec.source.tables._FREE_BYTES", 1 << 22)
    with pytest.raises(SourceError, match="more rows and cells than a table of its size"):
        read(tmp_path, name, gzip.compress(line * 40_000))
    assert len(read(tmp_path, name, gzip.compress(line * 10_000)).lines) == 10_000


def test_a_gzipped_table_of_more_text_than_its_size_lets_one_expect_is_refused(
    tmp_path: Path,
) -> None:
    with pytest.raises(SourceError, match="unpacks to more than 200 times its size"):
        read(tmp_path, "t.csv.gz", gzip.compress((b"ab" * 999 + b"\n") * 17_000))


@pytest.mark.parametrize(
    ("name", "line"), [("t.csv", b'"a"b\n'), ("t.csv", b"a\n"), ("t.jsonl", b"x\n")]
)
def test_a_table_of_a_million_rows_that_are_none_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: bytes
) -> None:
    monkeypatch.setattr("imgrec.source.tables._MOST_FAULTS", 1000)
    with pytest.raises(SourceError, match="more than 1,000 rows that cannot be read"):
        read(tmp_path, name, b"id,label\n" + line * 1_002)


def test_a_parquet_of_rows_beyond_measure_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("imgrec.source.tables._FREE_BYTES", 1 << 22)
    pq.write_table(pa.table({"label": [True] * 100_000}), tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="more rows and cells than a table of its size"):
        read_table(str(tmp_path / "t.parquet"), "t.parquet")
