"""samples.parquet tells of each record what its source told: id, class names, group, columns."""

from __future__ import annotations

import math
from pathlib import Path

import downloads
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from inline import faults_of, pack, reseal
from pictures import write_tree

import imgrec
from imgrec.codec import json_files
from imgrec.options import SourceOptions
from imgrec.write.shard import ShardWriter


def rows_of(folder: Path) -> dict[str, dict[str, object]]:
    """Return the rows of the table by file name."""
    rows = pq.read_table(folder / "samples.parquet").to_pylist()
    return {str(row["filename"]): row for row in rows}


def manifest(folder: Path, header: str, *cells: str) -> Path:
    """Write a table of pictures a, b, c and so on, whose other cells are given."""
    names = [f"{letter}.jpg" for letter in "abcdefgh"[: len(cells)]]
    write_tree(folder, {name: downloads.photo(name) for name in names})
    rows = [f"{name},{row}" for name, row in zip(names, cells, strict=True)]
    (folder / "m.csv").write_bytes(downloads.csv(f"path,{header}", *rows))
    return folder / "m.csv"


def test_a_row_has_the_id_and_the_name_of_its_class(tmp_path, data_dir):
    download = downloads.cassava()
    rows = rows_of(pack(downloads.write(download, tmp_path), data_dir))
    assert {name: row["class_name"] for name, row in rows.items() if row["split"] == "train"} == (
        download.labels
    )
    test = rows["test_images/2216849948.jpg"]
    assert (test["id"], test["label"], test["class_name"]) == ("2216849948.jpg", -1, "")


def test_a_row_of_several_labels_has_a_list_of_names(tmp_path, data_dir):
    download = downloads.imet()
    rows = rows_of(pack(downloads.write(download, tmp_path), data_dir))
    found = {name: tuple(row["class_names"]) for name, row in rows.items()}
    assert found == {**download.labels, **dict.fromkeys(download.test, ())}


def test_groups_and_columns_are_in_the_table(tmp_path, data_dir):
    path = manifest(tmp_path, "label,who,age,score,note", "x,p1,3,0.5,ü", "y,,,,", "x,p1,5,2,n")
    source = SourceOptions(group_col="who", column=("age:int", "score:float", "note:text"))
    folder = pack(path, data_dir, source=source)
    rows = rows_of(folder)
    assert [rows[f"{name}.jpg"]["group"] for name in "abc"] == ["p1", "", "p1"]
    assert [rows[f"{name}.jpg"]["age"] for name in "abc"] == [3, -1, 5]
    assert [rows[f"{name}.jpg"]["note"] for name in "abc"] == ["ü", "", "n"]
    assert (rows["a.jpg"]["score"], rows["c.jpg"]["score"]) == (0.5, 2.0)
    assert math.isnan(rows["b.jpg"]["score"])
    kinds = pq.read_schema(folder / "samples.parquet")
    assert (kinds.field("age").type, kinds.field("score").type) == (pa.int64(), pa.float32())
    assert faults_of(folder) == []


def test_a_column_named_as_one_of_the_table_gets_another_name(tmp_path, data_dir):
    path = manifest(tmp_path, "label,format,format_", "x,raw,1", "y,jpeg,2")
    folder = pack(path, data_dir, source=SourceOptions(column=("format", "format_")))
    row = rows_of(folder)["a.jpg"]
    assert (row["format"], row["format_"], row["format__"]) == ("JPEG", "raw", 1)
    assert faults_of(folder) == []


def test_a_shard_of_bad_images_alone_does_not_change_the_table(tmp_path, data_dir):
    path = manifest(tmp_path, "label,who", "x,p1", "y,p2", "x,p3", "y,p4", "x,p5", "y,p6")
    (tmp_path / "c.jpg").write_bytes(downloads.photo("c.jpg")[:500])
    source = SourceOptions(group_col="who", column=("who",))
    folder = pack(path, data_dir, source=source, shards=6, max_bad=1)
    assert len(rows_of(folder)) == 5
    assert faults_of(folder) == []


def test_a_run_that_goes_on_knows_groups_and_columns_of_finished_shards(tmp_path):
    path = manifest(tmp_path, "label,who", "x,p1", "y,p2", "x,p3")
    (tmp_path / "b.jpg").write_bytes(downloads.photo("b.jpg")[:500])
    source = SourceOptions(group_col="who", column=("who",))
    (task,) = imgrec.plan(path, imgrec.PackOptions(source=source, max_bad=1)).tasks
    result = ShardWriter(folder=str(tmp_path), check=imgrec.Check.DECODE)(task)
    assert sorted(result.records.samples.groups) == ["p1", "p3"]
    assert json_files.decode_result(json_files.encode_result(result), task) == result


def test_a_group_that_changes_makes_another_dataset(tmp_path, data_dir):
    from imgrec.errors import DatasetExists

    path = manifest(tmp_path, "label,who", "x,p1", "y,p2")
    pack(path, data_dir, source=SourceOptions(group_col="who"))
    path.write_text(path.read_text().replace("p2", "p3"))
    with pytest.raises(DatasetExists):
        pack(path, data_dir, source=SourceOptions(group_col="who"))


def test_a_table_of_an_earlier_version_is_as_good(tmp_path, data_dir):
    folder = pack(downloads.write(downloads.aptos(), tmp_path), data_dir)
    table = pq.read_table(folder / "samples.parquet")
    pq.write_table(table.drop_columns(["class_name", "id"]), folder / "samples.parquet")
    reseal(folder)
    assert faults_of(folder) == []


@pytest.mark.parametrize("column", ["class_name", "id"])
def test_verify_compares_names_and_columns_with_the_records(column, tmp_path, data_dir):
    folder = pack(downloads.write(downloads.aptos(), tmp_path), data_dir)
    table = pq.read_table(folder / "samples.parquet")
    cells = table.column(column).to_pylist()
    wrong = table.set_column(
        table.column_names.index(column), column, pa.array(["other", *cells[1:]])
    )
    pq.write_table(wrong, folder / "samples.parquet")
    reseal(folder)
    ((name, _, what),) = faults_of(folder)
    assert name == "samples.parquet"
    assert what.startswith(f"row 0: {column} is 'other', but {cells[0]!r} in record 0 of ")
