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
@given(
    tables,
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.sampled_from(["utf-8", "utf-8-sig", "utf-16"]),
    st.booleans(),
    st.booleans(),
)
@example([["a;b", "c"], ["\r", '"\n"']], "\r", "utf-8-sig", False, True)
def test_any_rows_survive_as_csv_and_tsv_with_their_lines(
    tmp_path_factory: pytest.TempPathFactory,
    rows: list[list[str]],
    ending: str,
    encoding: str,
    is_tsv: bool,
    is_gzip: bool,
) -> None:
    text, lines = written(rows, "\t" if is_tsv else ",", ending)
    data = text.encode(encoding)
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
    if not expected:
        with pytest.raises(SourceError, match=f"(?m)^{name} is not a table$"):
            read(tmp_path, name, content)


ROWS: dict[str, tuple[str, bytes, list[list[object]]]] = {
    "semicolons": ("t.csv", b"a;b\n1;2\n", [["a", "b"], ["1", "2"]]),
    "tabs": ("t.csv", b"a\tb\n1\t2\n", [["a", "b"], ["1", "2"]]),
    "spaces": ("t.txt", b"a b\n1 2\n", [["a", "b"], ["1", "2"]]),
    "quotes": ("t.csv", b'"a",b\n1,2\n', [["a", "b"], ["1", "2"]]),
    "Hive": ("000000_0", b'a\x01"b\n1\x01\\N\n', [["a", '"b'], ["1", ""]]),
    "a lone CR at the end": ("t.csv", b"id,x\r\na,y\r", [["id", "x"], ["a", "y"]]),
    "CR alone": ("t.csv", b"id,x\ra,y", [["id", "x"], ["a", "y"]]),
    "CR CR LF": ("t.csv", b"id,x\r\r\na,y\r\r\n", [["id", "x"], ["a", "y"]]),
    "mixed ends": ("t.tsv", b"id\tx\na\ty\r\n", [["id", "x"], ["a", "y"]]),
    "a line break in quotes": ("t.csv", b'a,"x\r\ny"\r\n', [["a", "x\r\ny"]]),
    "padding": ("t.txt", b"2008_1  -1\n2008_2   1 \n", [["2008_1", "-1"], ["2008_2", "1"]]),
    "values of JSON": (
        "t.jsonl",
        b'{"a": 1, "b": 2.0, "c": true, "d": null, "e": ["x", 3], "f": {"g": 1}}',
        [["1", "2.0", "true", "", ("x", "3"), '{"g": 1}']],
    ),
    "keys that an object lacks": (
        "t.jsonl", b'{"a": "1"}\n{"b": "2"}\n', [["1", ""], ["", "2"]]
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS.values(), ids=ROWS)
def test_rows_are_read(tmp_path: Path, case: tuple[str, bytes, list[list[object]]]) -> None:
    name, data, expected = case
    assert cells(read(tmp_path, name, data)) == expected


def test_blank_lines_are_not_rows(tmp_path: Path) -> None:
    table = read(tmp_path, "t.csv", "\na,b\n\n\n1,2\n\n")
    assert list(table.lines) == [2, 5]


def test_rows_of_another_width_are_faults(tmp_path: Path) -> None:
    table = read(tmp_path, "t.csv", "a,b\n1\n2,3\n4,5,6\n")
    assert cells(table) == [["a", "b"], ["2", "3"]]
    assert table.faults == (
        Fault(2, "1", "1 cells instead of 2"),
        Fault(4, "4,5,6", "3 cells instead of 2"),
    )


def test_text_after_a_closing_quote_is_a_fault_with_all_its_lines(tmp_path: Path) -> None:
    table = read(tmp_path, "t.csv", 'a,b\n"1"x,2\n3,"4\n5,"6\n7,8\n')
    assert cells(table) == [["a", "b"], ["7", "8"]]
    assert [fault[::2] for fault in table.faults] == [
        (2, "text after a closing quote"),
        (3, "lines 3 to 4: text after a closing quote"),
    ]


def test_lines_that_are_not_objects_are_faults(tmp_path: Path) -> None:
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


ERRORS = {
    "an open quote": ("t.csv", b'a,b\n1,"2\n3,4\n', r"^t\.csv:2: a quote that is not closed$"),
    "a long cell": (
        "t.csv", b'a,b\n1,"2\n' + b"3,4\n" * 40_000,
        r"^t\.csv:2: a cell of more than 131,072 characters$",
    ),
    "a NUL": ("t.csv", b"a,b\nc\0,d\n", r"^t\.csv:2: a NUL character, so this is not text$"),
    "UTF-16 without a mark": (
        "t.csv", "a,b\n".encode("utf-16-le"), 'if it is UTF-16, pass encoding="utf-16-le"$'
    ),
    "neither UTF-8 nor Windows-1252": (
        "t.csv", b"a,b\r\n" * 5000 + b"caf\x81", r"^t\.csv:5001: not UTF-8 or UTF-16 text$"
    ),
    "JSON in no encoding": (
        "t.jsonl", b'{"a": 1}\r\n' * 5000 + b"caf\x81",
        r"^t\.jsonl:5001: not UTF-8 or UTF-16 text$",
    ),
    "a truncated gzip": (
        "t.csv.gz", gzip.compress(b"a,b\n" * 1000)[:-10],
        r"^cannot read t\.csv\.gz: Compressed file ended",
    ),
    "a line without end": (
        "t.csv.gz", gzip.compress(bytes(1 << 25), 1),
        r"^t\.csv\.gz:1: a line of more than 16,777,216",
    ),
    "a bomb": (
        "t.csv.gz", gzip.compress((b"ab" * 999 + b"\n") * 17_000),
        "unpacks to more than 200 times its size",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", ERRORS.values(), ids=ERRORS)
def test_unreadable_tables_are_errors_with_their_line(
    tmp_path: Path, case: tuple[str, bytes, str]
) -> None:
    name, data, message = case
    with pytest.raises(SourceError, match=f"(?m){message}"):
        read(tmp_path, name, data)


@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t.csv.gz", "part-00000", "t.jsonl"])
@pytest.mark.parametrize("encoding", ["cp1252", "latin-1"])
def test_a_table_in_the_encoding_of_windows_is_read_with_a_warning(
    tmp_path: Path, name: str, encoding: str
) -> None:
    text = '{"a": "café", "b": "Zoë"}' if name == "t.jsonl" else "a,b\n" * 5000 + "café,Zoë"
    data = text.encode(encoding)
    table = read(tmp_path, name, gzip.compress(data) if name.endswith(".gz") else data)
    assert cells(table)[-1] == ["café", "Zoë"]
    assert table.warning == (
        f"{name} is not UTF-8, and was read as cp1252; if letters are wrong, pass --encoding"
    )


@pytest.mark.parametrize(
    "encoding", ["shift_jis", "utf-16-le", "utf-16", "utf-8", "utf-8-sig", "koi8-r", "utf-32"]
)
def test_the_encoding_can_be_given(tmp_path: Path, encoding: str) -> None:
    path, text = tmp_path / "t.csv", "id,label\n\u0436,\u044f\n"
    mark = BOM if encoding == "utf-16-le" else ""  # the mark is not part of the text
    path.write_bytes((mark + text).encode(encoding))
    table = read_table(str(path), "t.csv", encoding)
    assert (cells(table), table.warning) == ([["id", "label"], ["\u0436", "\u044f"]], "")
    path.write_bytes(b"a,b\ncaf\xe9,b\n")
    with pytest.raises(SourceError, match=r"(?m)^t\.csv:2: not utf-8 text$"):
        read_table(str(path), "t.csv", "utf-8")


def test_parquet_columns_of_bytes_and_structures_are_named_and_not_read(tmp_path: Path) -> None:
    image = pa.array([{"bytes": b"x", "path": "p"}])
    columns = {"image": image, "label": [3], "raw": [b"x"], "tags": [["a", "b"]], "score": [0.5]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    table = read_table(str(tmp_path / "t.parquet"), "t.parquet")
    assert cells(table) == [["", "3", "", ("a", "b"), "0.5"]]
    assert table.unusable == {"image": "struct<bytes: binary, path: string>", "raw": "binary"}


def test_a_text_file_is_called_csv_or_tsv_by_its_content(tmp_path: Path) -> None:
    assert read(tmp_path, "t.txt", "a,b\n").kind is TableKind.CSV
    assert read(tmp_path, "part-00000", "a\tb\n").kind is TableKind.TSV
    assert read(tmp_path, "t.tsv", "a\n").kind is TableKind.TSV


@pytest.mark.parametrize(
    ("name", "line"),
    [("t.csv.gz", b",,,,\n"), ("t.csv.gz", b"a\n"), ("t.jsonl.gz", b"{}\n")],
)
def test_a_small_file_of_too_many_rows_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: bytes
) -> None:
    monkeypatch.setattr("imgrec.source.tables._FREE_BYTES", 1 << 22)
    with pytest.raises(SourceError, match="more rows and cells than a table of its size"):
        read(tmp_path, name, gzip.compress(line * 40_000))
    assert len(read(tmp_path, name, gzip.compress(line * 10_000)).lines) == 10_000
    pq.write_table(pa.table({"label": [True] * 100_000}), tmp_path / "t.parquet")
    with pytest.raises(SourceError, match="more rows and cells than a table of its size"):
        read_table(str(tmp_path / "t.parquet"), "t.parquet")


@pytest.mark.parametrize(
    ("name", "line"), [("t.csv", b'"a"b\n'), ("t.csv", b"a\n"), ("t.jsonl", b"x\n")]
)
def test_a_table_of_too_many_faults_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, line: bytes
) -> None:
    monkeypatch.setattr("imgrec.source.tables._MOST_FAULTS", 1000)
    with pytest.raises(SourceError, match="more than 1,000 rows that cannot be read"):
        read(tmp_path, name, b"id,label\n" + line * 1_002)
