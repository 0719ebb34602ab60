"""Submissions: predictions become the file that a competition asks for, or a clear error."""

from __future__ import annotations

import csv
import io
import json
import shutil
from collections.abc import Callable
from itertools import count
from pathlib import Path
from random import Random

import downloads
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Cli
from hypothesis import given
from hypothesis import strategies as st
from inline import faults_of, pack, reseal
from pictures import write_tree
from tfrecords import flowers_on_tpu

import imgrec
from imgrec.codec import json_files
from imgrec.errors import ImgrecError, UsageError
from imgrec.inspect.predictions import Classes, Ids, interpret, probabilities, read_predictions
from imgrec.options import SourceOptions

Make = Callable[[], downloads.Download]
NUMBERS = count()
PACKED = [make for make in downloads.ALL if not make().refused]


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], Path]:
    """Pack each download once, and remove what was downloaded."""
    place = tmp_path_factory.mktemp("datasets")
    found: dict[Make, Path] = {}

    def dataset(make: Make) -> Path:
        if make not in found:
            source = downloads.write(make(), place / "downloads")
            found[make] = pack(source, place / make.__name__)
            shutil.rmtree(source)
        return found[make]

    return dataset


@pytest.fixture
def aptos(datasets) -> Path:
    """Four test images, and the labels 0 to 3."""
    return datasets(downloads.aptos)


def sample_of(make: Make) -> list[list[str]]:
    """Return the rows of the sample submission of a download."""
    files = make().files
    (name,) = (name for name in files if "ubmission" in name)
    return list(csv.reader(io.StringIO(files[name].decode())))


def scores_of(folder: Path, split: str = "test") -> np.ndarray:
    """Return probabilities for the images of a split."""
    dataset = imgrec.open_dataset(folder)
    found = np.random.default_rng(7).random((len(dataset[split]), len(dataset.classes)))
    return (found / found.sum(axis=1, keepdims=True)).astype(np.float32)


def ids_of(folder: Path, split: str = "test") -> list[str]:
    return [str(record.columns["id"]) for record in imgrec.open_dataset(folder)[split]]


def submit(folder: Path, predictions: object, **options: object) -> list[list[str]]:
    """Return the rows of a submission."""
    path = folder.parent / f"{next(NUMBERS)}.csv"
    imgrec.write_submission(folder, predictions, path, **options)  # type: ignore[arg-type]
    with path.open(newline="") as file:
        return list(csv.reader(file))


def refusal(folder: Path, predictions: object, **options: object) -> str:
    with pytest.raises(UsageError) as error:
        submit(folder, predictions, **options)
    assert "\n" not in str(error.value)
    return f"{error.value} / {error.value.hint}"


# The form of the sample


@pytest.mark.parametrize("make", PACKED, ids=lambda make: make.__name__)
def test_a_submission_has_the_header_and_the_ids_of_the_sample(make, datasets):
    folder, sample = datasets(make), sample_of(make)
    rows = submit(folder, dict(zip(ids_of(folder), scores_of(folder), strict=True)))
    assert rows[0] == sample[0]
    assert [row[0] for row in rows] == [row[0] for row in sample]
    assert faults_of(folder) == []
    header, stored = json_files.decode_table((folder / "sample_submission.csv").read_bytes())
    assert [list(header), *stored] == sample


@pytest.mark.parametrize("make", [downloads.dog_breed, downloads.plant_pathology_2020])
def test_a_column_for_each_class_holds_its_probability(make, datasets):
    folder = datasets(make)
    scores, classes = scores_of(folder), imgrec.open_dataset(folder).classes
    header, *rows = submit(folder, scores)
    wanted = {
        one: [str(row[classes.index(name)]) for name in header[1:]]
        for one, row in zip(ids_of(folder), scores, strict=True)
    }
    assert {one: cells for one, *cells in rows} == wanted
    logits = [list(map(float, cells)) for _, *cells in submit(folder, np.log(scores))[1:]]
    assert np.allclose(logits, [list(map(float, cells)) for _, *cells in rows])


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (downloads.aptos, lambda label, _: str(label)),
        (downloads.cassava, lambda label, _: str(label)),  # its number, not the name from the map
        (downloads.cifar10, lambda _, name: name),
        (downloads.plant_seedlings, lambda _, name: name),
    ],
)
def test_one_label_is_written_as_in_the_table_of_labels(make, wanted, datasets):
    folder = datasets(make)
    scores, classes = scores_of(folder), imgrec.open_dataset(folder).classes
    labels = scores.argmax(axis=1)
    texts = [wanted(label, classes[label]) for label in labels]
    rows = submit(folder, scores)
    assert dict(rows[1:]) == dict(zip(ids_of(folder), texts, strict=True))
    assert submit(folder, labels) == submit(folder, [classes[label] for label in labels]) == rows


def test_several_labels_share_a_cell(datasets):
    folder = datasets(downloads.plant_pathology_2021)
    classes = imgrec.open_dataset(folder).classes
    scores = np.full((3, len(classes)), 0.1)
    scores[0, 1] = scores[0, 4] = 0.5
    first, second, third = ids_of(folder)
    rows = {first: "frog_eye_leaf_spot scab", second: "", third: ""}
    logits = np.where(scores >= 0.5, 3.0, -3.0)
    names = {first: ["scab", "frog_eye_leaf_spot"], second: [], third: []}
    texts = {**rows, first: "scab frog_eye_leaf_spot"}
    for same in (scores, logits, names, texts, (scores >= 0.5), (scores >= 0.5).astype(int)):
        assert dict(submit(folder, same)[1:]) == rows
    imet = datasets(downloads.imet)  # where the table of labels has numbers, not names
    labels = {one: ["tags::t3", "country::c0"] for one in ids_of(imet)}
    assert {cells[1] for cells in submit(imet, labels)[1:]} == {"0 3"}


@pytest.mark.parametrize(
    "make", [downloads.histopathologic, downloads.siim_isic, downloads.dogs_vs_cats_extracted]
)
def test_of_two_classes_the_probability_of_the_second_is_written(make, datasets):
    folder = datasets(make)
    scores, ids = scores_of(folder), ids_of(folder)
    rows = dict(submit(folder, scores)[1:])
    assert rows == {one: str(row[1]) for one, row in zip(ids, scores, strict=True)}
    for same in (scores[:, 1], scores[:, 1:], np.log(scores)):
        found = {one: float(text) for one, text in submit(folder, same)[1:]}
        assert found == pytest.approx({one: float(text) for one, text in rows.items()}, abs=1e-6)
    labels = (scores[:, 1] > 0.5).astype(int)
    assert dict(submit(folder, labels)[1:]) == dict(zip(ids, map(str, labels), strict=True))


def test_a_sample_of_fractions_takes_probabilities_only(datasets, tmp_path):
    rows = submit(datasets(downloads.histopathologic), np.array([1.0000001, 0.5, 0.25, 0.0]))
    assert {cells[1] for cells in rows[1:]} == {"1.0", "0.5", "0.25", "0.0"}  # rounded to 1
    files = downloads.histopathologic().files
    sample = files["sample_submission.csv"].replace(b",0\n", b",0.5\n")
    source = write_tree(tmp_path / "in", {**files, "sample_submission.csv": sample})
    error = refusal(pack(source, tmp_path), np.array([0, 1, 1, 0]))
    assert "asks for the probability of 1" in error


def test_a_label_and_its_probability_share_a_cell(datasets):
    folder = datasets(downloads.landmarks)
    scores = scores_of(folder)
    texts = [f"{('7', '30', '512')[row.argmax()]} {row.max()!s}" for row in scores]
    assert dict(submit(folder, scores)[1:]) == dict(zip(ids_of(folder), texts, strict=True))


def test_the_likeliest_labels_share_a_cell(tmp_path):
    source = downloads.write(downloads.happywhale(), tmp_path)
    folder = pack(source, tmp_path / "d", source=SourceOptions(label_col="individual_id"))
    rows = submit(folder, np.tile([0.1, 0.5, 0.3, 0.1], (3, 1)))
    assert {cells[1] for cells in rows[1:]} == {"w1 w2 w0"}


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1))
def test_probabilities_are_from_0_to_1_and_keep_the_order(rows):
    for is_multilabel in (False, True):
        found = probabilities(np.array(rows), is_multilabel=is_multilabel)
        assert found.min() >= 0 and found.max() <= 1
        for before, after in zip(rows, found, strict=True):
            assert after[int(np.argmax(before))] == after.max()


# The predictions


@pytest.mark.parametrize("kind", ["dict", "pair", "csv", "parquet", "frame"])
def test_predictions_by_id_and_class_may_come_in_any_order(kind, datasets, tmp_path):
    folder = datasets(downloads.dog_breed)
    scores, ids = scores_of(folder), ids_of(folder)
    names = imgrec.open_dataset(folder).classes
    order = Random(kind).sample(range(len(ids)), len(ids))
    mixed = {names[at]: scores[order, at] for at in (2, 0, 1)}
    columns = {**mixed, "id": [ids[at] for at in order]}
    predictions: object = tmp_path / f"p.{kind}"
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        (tmp_path / "p.csv").write_bytes(
            downloads.csv(*(",".join(map(str, row)) for row in [columns, *rows]))
        )
    elif kind == "parquet":
        pq.write_table(pa.table(columns), tmp_path / "p.parquet")
    elif kind == "frame":
        predictions = pytest.importorskip("pandas").DataFrame(columns)
    elif kind == "dict":
        predictions = {ids[at]: scores[at] for at in order}
    else:
        predictions = (columns["id"], scores[order])
    found, wanted = submit(folder, predictions), submit(folder, scores)
    assert [row[0] for row in found] == [row[0] for row in wanted]
    found_scores, wanted_scores = (
        np.array([row[1:] for row in some[1:]], np.float32) for some in (found, wanted)
    )
    assert np.array_equal(found_scores, wanted_scores)


def test_predictions_of_frameworks_come_in_the_order_of_load(aptos, tmp_path):
    tf, torch = pytest.importorskip("tensorflow"), pytest.importorskip("torch")
    scores, ids = scores_of(aptos), ids_of(aptos)
    loaded = imgrec.load(aptos, "test", image_size=8, as_dict=True)
    assert [row["id"].decode() for row in loaded.as_numpy_iterator()] == ids
    np.save(tmp_path / "p.npy", scores)
    tensor, tensor_ids = torch.tensor(scores, requires_grad=True), tf.constant(ids)
    by_id = dict(zip(tensor_ids.numpy(), tensor, strict=True))
    same = [tf.constant(scores), tensor, tensor.bfloat16(), (tensor_ids, scores), by_id]
    for predictions in [*same, list(tensor), scores.tolist(), tmp_path / "p.npy"]:
        assert submit(aptos, predictions) == submit(aptos, scores)


def test_the_index_of_a_frame_may_hold_ids_or_row_numbers(aptos, tmp_path):
    pandas = pytest.importorskip("pandas")
    scores, ids = scores_of(aptos), ids_of(aptos)
    for name in ("id_code", "id", None):
        frame = pandas.DataFrame(scores, index=pandas.Index(ids, name=name)).iloc[::-1]
        assert submit(aptos, frame) == submit(aptos, scores)
    frame = pandas.DataFrame(scores).assign(id_code=ids)
    frame.sample(frac=1, random_state=1).to_csv(tmp_path / "p.csv")
    assert submit(aptos, tmp_path / "p.csv") == submit(aptos, scores)


def test_an_image_that_was_skipped_is_named_or_filled(tmp_path):
    download = downloads.aptos()
    (path, one), *_ = sorted(download.test.items())
    files = {**download.files, path: download.files[path][:300]}
    folder = pack(write_tree(tmp_path / "in", files), tmp_path, max_bad=1)
    labels = dict.fromkeys(ids_of(folder), 2)
    error = refusal(folder, labels)
    assert f"1 id of sample_submission.csv without an image in the dataset: {one} (" in error
    assert "truncated" in error and "--fill" in error
    assert dict(submit(folder, labels, fill=0)[1:]) == {**dict.fromkeys(labels, "2"), one: "0"}
    assert dict(submit(folder, {**labels, one: 3})[1:])[one] == "3"  # predicted elsewhere
    assert "--fill x" in refusal(folder, labels, fill="x")
    assert "3 images" in refusal(folder, [0, 1, 2, 3], fill=0)


A, B = "bc45cf740bd7", "dcdda528bdf2"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({B: None}, f"1 for {A}, and nothing for {B}"),
        ({"zzz": 1}, "1 unknown: zzz"),
        ({B: 9}, f"9, for {B}, is not one of the labels"),
        ({B: -1}, f"-1, for {B}, is not one of the labels"),
        ({B: float("nan")}, "NaN or infinite for 1 images"),
        ({B: "cat"}, f"'cat', for {B}, is not a class"),
        ({B: [0.1, 0.2]}, f"and [0.1, 0.2] for {B}"),
    ],
)
def test_a_wrong_prediction_is_named(change, message, aptos):
    assert message in refusal(aptos, {**dict.fromkeys(ids_of(aptos), 1), **change})


@pytest.mark.parametrize(
    ("predictions", "message"),
    [
        (np.zeros((3, 4)), "3 predictions, but test has 4 images"),
        (np.zeros((4, 3)), "3 numbers for each image, but the dataset has 4 classes"),
        (np.zeros((4, 2, 2)), "4x2x2 float64"),
        (np.zeros(4, dtype=complex), "complex128"),
        (np.full((4, 4), np.inf), "NaN or infinite for 4 images"),
        (np.full(4, 0.5), "0.5, for"),
        (7, "predictions are int"),
        ({A: 1}, f"3 missing: {B}"),
        ((["a"], [1, 2]), "1 id for 2 predictions"),
        (([A, A], [1, 2]), f"1 repeated: {A}"),
        ("p.txt", "p.txt: predictions cannot have this extension"),
        ("nowhere.csv", "nowhere.csv does not exist"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(predictions, message, aptos):
    assert message in refusal(aptos, predictions)


PICKLED = b"{'descr': '|O', 'fortran_order': False, 'shape': (1,), }".ljust(117)
HUGE = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }".ljust(117)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("p.npy", b"", "cannot read"),
        ("p.npy", b"\x93NUMPY\x01\x00", "cannot read"),
        ("p.npy", b"\x93NUMPY\x01\x00v\x00" + HUGE + b"\n", "cannot read"),  # claims 8 TB
        ("p.npy", b"\x93NUMPY\x01\x00v\x00" + PICKLED + b"\n\x80\x04.", "cannot read"),
        ("p.csv", b"", "0 predictions, but test has 4 images"),
        ("p.csv", b"id,label\n", "4 missing"),
        ("p.csv", b"id,label\n1,2,3\n", "p.csv: line 2"),
        ("p.csv", b"\x00\xff\xfe\x00", "p.csv"),
        ("p.csv", b"id,label,label\na,1,1\n", "several columns 'label'"),
        ("p.csv", b"a,b\n1,2\n1,2\n1,2\n1,2\n", "columns that are not classes: a, b"),
        ("p.csv", b"0,1,2\n1,1,1\n1,1,1\n1,1,1\n1,1,1\n", "no column for 3"),
        ("p.csv", b"0,1,2,3\n1,1,x,1\n1,1,1,1\n1,1,1,1\n1,1,1,1\n", "in column 2, is not a number"),
        ("p.parquet", b"PAR1", "cannot read"),
        ("p.parquet", b"", "cannot read"),
    ],
)
def test_a_damaged_file_of_predictions_is_refused(name, data, message, aptos, tmp_path):
    (tmp_path / name).write_bytes(data)
    assert message in refusal(aptos, tmp_path / name)


def test_numbers_that_may_be_labels_or_names_are_refused():
    classes = Classes(("1", "2", "3"), ("1", "2", "3"), is_multilabel=False, separator=" ")

    def labels(predictions: object, *, are_texts: bool = False) -> object:
        raw = read_predictions(predictions, Ids(frozenset({"id"}), frozenset("ab")))
        return interpret(raw._replace(are_texts=are_texts), classes, "ab").labels

    assert labels([1, 2]) == [(1,), (2,)]  # as imgrec.load gives them
    assert labels(["1", "2"]) == [(0,), (1,)]
    assert labels(["1", "3"], are_texts=True) == [(0,), (2,)]
    assert labels(["0", "2"], are_texts=True) == [(0,), (2,)]
    with pytest.raises(UsageError, match="1 may be class names or labels"):
        labels(["1", "2"], are_texts=True)


# Ids, splits and datasets


def test_without_a_sample_there_is_an_id_and_a_label(tmp_path):
    files = {name: data for name, data in downloads.aptos().files.items() if "sample" not in name}
    folder = pack(write_tree(tmp_path / "in", files), tmp_path)
    assert not (folder / "sample_submission.csv").exists()
    header, *rows = submit(folder, scores_of(folder))
    assert header == ["id_code", "diagnosis"]
    assert [row[0] for row in rows] == ids_of(folder)


def test_another_split_has_its_own_ids(datasets):
    folder = datasets(downloads.cassava)
    header, *rows = submit(folder, scores_of(folder, "train"), split="train")
    assert header == ["image_id", "label"]
    assert [row[0] for row in rows] == ids_of(folder, "train")
    with pytest.raises(ImgrecError, match="no split 'tset'"):
        submit(folder, [0], split="tset")


def test_another_word_for_test_gives_the_same_submission(datasets):
    folder = datasets(downloads.cassava)
    scores = scores_of(folder, "test")
    assert submit(folder, scores, split="testing") == submit(folder, scores)


def test_file_names_serve_as_ids_if_there_are_none(tmp_path):
    files = {f"{split}/{c}/{n}.jpg": downloads.photo(f"{split}{c}{n}")
             for split in ("train", "test") for c in "ab" for n in range(3)}  # fmt: skip
    folder = pack(write_tree(tmp_path / "in", files), tmp_path)
    header, *rows = submit(folder, np.zeros(6, dtype=int))
    assert header == ["id", "label"]
    assert {row[0] for row in rows} == {name for name in files if name.startswith("test")}


def digits(*, has_ids: bool) -> downloads.Download:
    """Images in tables, as Kaggle's digits; ids are in a column, or the numbers of the rows."""
    pixels = ",".join(f"pixel{n}" for n in range(16))
    row = lambda seed: ",".join(map(str, Random(seed).randbytes(16)))  # noqa: E731
    own = (lambda n: f"{n},") if has_ids else (lambda _: "")
    name, sample = ("id,", "id,label") if has_ids else ("", "ImageId,Label")
    first = 70 if has_ids else 1
    train = [f"{own(n)}{n % 3},{row(n)}" for n in range(9)]
    test = [own(n + 70) + row(f"test{n}") for n in range(4)]
    files = {
        "train.csv": downloads.csv(f"{name}label,{pixels}", *train),
        "test.csv": downloads.csv(name + pixels, *test),
        "sample_submission.csv": downloads.csv(sample, *[f"{n + first},0" for n in (2, 0, 1, 3)]),
    }
    return downloads.Download("digits", files)


@pytest.mark.parametrize("write", [downloads.write, downloads.write_zip])
@pytest.mark.parametrize("has_ids", [False, True])
def test_images_in_tables_have_ids_if_a_sample_asks_for_them(has_ids, write, tmp_path):
    folder = pack(write(digits(has_ids=has_ids), tmp_path / "in"), tmp_path)
    records = imgrec.open_dataset(folder)["test"]
    # Names of files count rows from 1.
    labels = {record.columns["id"]: (int(record.filename[-5]) - 1) % 3 for record in records}
    first = 70 if has_ids else 1
    assert submit(folder, labels)[1:] == [[str(first + n), str(n % 3)] for n in (2, 0, 1, 3)]
    assert faults_of(folder) == []


def test_tfrecords_keep_their_ids_for_a_submission(tmp_path):
    flowers_on_tpu(tmp_path / "tpu")
    rows = [f"test{n},0" for n in (2, 0, 1, 3)]
    (tmp_path / "tpu" / "sample_submission.csv").write_bytes(downloads.csv("id,label", *rows))
    folder = pack(tmp_path / "tpu", tmp_path)
    labels = {f"test{n}": n % 2 for n in range(4)}
    assert submit(folder, labels)[1:] == [[f"test{n}", str(n % 2)] for n in (2, 0, 1, 3)]


def test_ids_are_read_from_the_records_without_a_samples_table(tmp_path):
    folder = pack(downloads.write(downloads.aptos(), tmp_path / "in"), tmp_path)
    wanted = submit(folder, scores_of(folder))
    table = pq.read_table(folder / "samples.parquet")
    pq.write_table(table.drop_columns(["id"]), folder / "samples.parquet")
    assert submit(folder, scores_of(folder)) == wanted
    (folder / "samples.parquet").unlink()
    assert submit(folder, scores_of(folder)) == wanted


def test_another_sample_makes_another_dataset(tmp_path):
    source = downloads.write(downloads.aptos(), tmp_path / "in")
    pack(source, tmp_path)
    sample = source / "sample_submission.csv"
    sample.write_text(sample.read_text().replace(",0\n", ",1\n"))
    with pytest.raises(imgrec.DatasetExists):
        pack(source, tmp_path)


def test_a_damaged_form_is_a_fault_and_an_error(tmp_path):
    folder = pack(downloads.write(downloads.aptos(), tmp_path / "in"), tmp_path)
    metadata = json.loads((folder / "metadata.json").read_text())
    metadata["imgrec"]["submission"] = {"id": 3}
    (folder / "metadata.json").write_text(json.dumps(metadata))
    reseal(folder)
    ((name, _, fault),) = faults_of(folder)
    assert (name, fault.split(":")[0]) == ("metadata.json", "submission")
    with pytest.raises(imgrec.DatasetError, match=r"the submission format of .* is damaged"):
        submit(folder, scores_of(folder))
    (folder / "sample_submission.csv").unlink()
    assert "sample_submission.csv" in {name for name, _, _ in faults_of(folder)}


def test_unpacking_restores_the_sample(aptos, tmp_path):
    unpacked = imgrec.unpack(aptos, tmp_path / "out")
    sample = (tmp_path / "out" / "sample_submission.csv").read_bytes()
    assert sample == (aptos / "sample_submission.csv").read_bytes()
    assert any("sample_submission.csv" in note for note in unpacked.notes)


@given(st.lists(st.lists(st.text(max_size=5), min_size=2, max_size=2), min_size=1))
def test_a_table_is_read_as_it_was_written(rows):
    header, found = json_files.decode_table(json_files.encode_table(rows[0], rows[1:]))
    assert [list(header), *found] == rows


def test_the_command_writes_the_file_and_describes_it(datasets, cli: Cli, tmp_path):
    folder = datasets(downloads.histopathologic)
    np.save(tmp_path / "p.npy", scores_of(folder))
    done = cli("submit", folder, "p.npy", "-o", "s.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "s.csv: 4 rows\ncolumns     id, label\nform        the probability of 1\n"
    )
    written = (tmp_path / "s.csv").read_text()
    assert len(written.splitlines()) == 5
    again = cli("submit", folder, "p.npy", "-o", "s.csv")
    hint = "  hint: choose another name, or pass --overwrite to replace it"
    assert again.stderr.splitlines() == ["imgrec: s.csv exists already", hint]
    assert again.returncode == 2
    assert (tmp_path / "s.csv").read_text() == written
    (tmp_path / "s.csv").write_text("old")
    assert cli("submit", folder, "p.npy", "-o", "s.csv", "--overwrite").returncode == 0
    assert (tmp_path / "s.csv").read_text() == written
    value = json.loads(cli("submit", folder, "p.npy", "--json").stdout)
    assert value.pop("schema") == "imgrec/submit/1"
    assert value == {
        "path": "submission.csv",
        "rows": 4,
        "columns": ["id", "label"],
        "form": "the probability of 1",
        "filled": 0,
    }
    np.save(tmp_path / "logits.npy", np.log(scores_of(folder)))
    done = cli("submit", folder, "logits.npy", "-o", "logits.csv")
    assert "softmax" in done.stdout.splitlines()[-1]
    wrong = cli("submit", folder, "p.npy", "-o", "t.csv", "--split", "nope")
    assert wrong.returncode == 5 and "Traceback" not in wrong.stderr
