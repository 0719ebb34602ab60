"""Predictions become the file that a competition takes, or one sentence says why not."""

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
from inline import faults_of, pack
from pictures import write_tree

import imgrec
from imgrec.codec import submission as codec
from imgrec.errors import ImgrecError, UsageError
from imgrec.inspect.submit.predictions import Ids, read_given
from imgrec.inspect.submit.values import Classes, probabilities, read_values
from imgrec.options import SourceOptions

Make = Callable[[], downloads.Download]
NUMBERS = count()


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Make], Path]:
    """Pack each download once; what was downloaded is gone then."""
    place = tmp_path_factory.mktemp("datasets")
    found: dict[Make, Path] = {}

    def dataset(make: Make) -> Path:
        if make not in found:
            source = downloads.write(make(), place / "downloads")
            found[make] = pack(source, place / make.__name__)
            shutil.rmtree(source)
        return found[make]

    return dataset


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


PACKED = [make for make in downloads.ALL if not make().refused]


@pytest.mark.parametrize("make", PACKED, ids=lambda make: make.__name__)
def test_a_submission_has_the_header_and_the_ids_of_the_sample(make, datasets):
    folder, sample = datasets(make), sample_of(make)
    rows = submit(folder, dict(zip(ids_of(folder), scores_of(folder), strict=True)))
    assert rows[0] == sample[0]
    assert [row[0] for row in rows] == [row[0] for row in sample]
    assert faults_of(folder) == []


@pytest.mark.parametrize("make", PACKED, ids=lambda make: make.__name__)
def test_the_form_is_stored_with_the_dataset(make, datasets):
    folder = datasets(make)
    header, rows = codec.decode_table((folder / "sample_submission.csv").read_bytes())
    assert [list(header), *rows] == sample_of(make)
    assert "sample_submission.csv" in (folder / "SHA256SUMS").read_text()


@pytest.mark.parametrize("make", [downloads.dog_breed, downloads.plant_pathology_2020])
def test_a_column_for_each_class_holds_its_probability(make, datasets):
    folder = datasets(make)
    scores, ids = scores_of(folder), ids_of(folder)
    rows = submit(folder, scores)
    classes = imgrec.open_dataset(folder).classes
    for one, row in zip(ids, scores, strict=True):
        (found,) = (cells for cells in rows if cells[0] == one)
        wanted = [str(row[classes.index(name)]) for name in rows[0][1:]]
        assert found[1:] == wanted


def test_columns_of_classes_come_in_any_order(datasets, tmp_path):
    folder = datasets(downloads.dog_breed)
    scores, ids = scores_of(folder), ids_of(folder)
    names = imgrec.open_dataset(folder).classes
    for order in ([2, 0, 1], [1, 2, 0]):
        columns = {names[at]: scores[:, at] for at in order}
        path = tmp_path / f"{order[0]}.parquet"
        pq.write_table(pa.table({**columns, "id": ids}), path)
        assert submit(folder, path) == submit(folder, scores)


@pytest.mark.parametrize(
    ("make", "wanted"),
    [
        (downloads.aptos, lambda label, _: str(label)),
        (downloads.cassava, lambda label, _: str(label)),  # its number, not the name from the map
        (downloads.cifar10, lambda _, name: name),
        (downloads.plant_seedlings, lambda _, name: name),
    ],
)
def test_one_label_is_written_as_the_labels_table_has_it(make, wanted, datasets):
    folder = datasets(make)
    scores, classes = scores_of(folder), imgrec.open_dataset(folder).classes
    labels = scores.argmax(axis=1)
    by_id = {
        one: wanted(label, classes[label])
        for one, label in zip(ids_of(folder), labels, strict=True)
    }
    rows = submit(folder, scores)
    assert dict(rows[1:]) == by_id
    assert submit(folder, labels) == submit(folder, [classes[label] for label in labels]) == rows


def test_several_labels_share_a_cell(datasets):
    folder = datasets(downloads.plant_pathology_2021)
    classes = imgrec.open_dataset(folder).classes
    scores = np.full((3, len(classes)), 0.1)
    scores[0, 1] = scores[0, 4] = 0.5
    rows = dict(submit(folder, scores)[1:])
    first, second, third = ids_of(folder)
    assert (rows[first], rows[second]) == ("frog_eye_leaf_spot scab", "")
    logits = np.where(scores >= 0.5, 3.0, -3.0)
    names = {first: ["scab", "frog_eye_leaf_spot"], second: [], third: []}
    texts = {first: "scab frog_eye_leaf_spot", second: "", third: ""}
    for given_as in (logits, names, texts, (scores >= 0.5), (scores >= 0.5).astype(int)):
        assert dict(submit(folder, given_as)[1:]) == rows


def test_several_labels_are_numbers_where_a_table_only_names_them(datasets):
    folder = datasets(downloads.imet)
    names = {one: ["tags::t3", "country::c0"] for one in ids_of(folder)}
    assert {cells[1] for cells in submit(folder, names)[1:]} == {"0 3"}


@pytest.mark.parametrize(
    "make", [downloads.histopathologic, downloads.siim_isic, downloads.dogs_vs_cats_extracted]
)
def test_of_two_classes_the_probability_of_the_second_is_written(make, datasets):
    folder = datasets(make)
    scores, ids = scores_of(folder), ids_of(folder)
    rows = dict(submit(folder, scores)[1:])
    assert rows == {one: str(row[1]) for one, row in zip(ids, scores, strict=True)}
    for same in (scores[:, 1], scores[:, 1:], np.log(scores)):
        found = dict(submit(folder, same)[1:])
        assert {k: pytest.approx(float(v), abs=1e-6) for k, v in found.items()} == {
            k: float(v) for k, v in rows.items()
        }
    labels = (scores[:, 1] > 0.5).astype(int)
    assert dict(submit(folder, labels)[1:]) == dict(zip(ids, map(str, labels), strict=True))


def test_a_sum_that_is_rounded_above_1_is_a_probability(datasets):
    folder = datasets(downloads.histopathologic)
    rows = submit(folder, np.array([1.0000001, 0.5, 0.25, 0.0]))
    assert {cells[1] for cells in rows[1:]} == {"1.0", "0.5", "0.25", "0.0"}


def test_a_sample_of_fractions_takes_no_labels(tmp_path):
    download = downloads.histopathologic()
    sample = download.files["sample_submission.csv"].replace(b",0\n", b",0.5\n")
    files = {**download.files, "sample_submission.csv": sample}
    folder = pack(write_tree(tmp_path / "in", files), tmp_path)
    assert "asks for the probability of 1" in refusal(folder, np.array([0, 1, 1, 0]))


def test_a_label_and_its_probability_share_a_cell(datasets):
    folder = datasets(downloads.landmarks)
    scores = scores_of(folder)
    rows = dict(submit(folder, scores)[1:])
    best = {
        one: f"{('7', '30', '512')[row.argmax()]} {row.max()!s}"
        for one, row in zip(ids_of(folder), scores, strict=True)
    }
    assert rows == best


def test_the_likeliest_labels_share_a_cell(tmp_path):
    source = downloads.write(downloads.happywhale(), tmp_path)
    folder = pack(source, tmp_path / "d", source=SourceOptions(label_col="individual_id"))
    rows = submit(folder, np.tile([0.1, 0.5, 0.3, 0.1], (3, 1)))
    assert {cells[1] for cells in rows[1:]} == {"w1 w2 w0"}


def test_scores_become_probabilities(datasets):
    folder = datasets(downloads.dog_breed)
    scores = scores_of(folder).astype(np.float64)
    found = np.array([cells[1:] for cells in submit(folder, np.log(scores))[1:]], dtype=float)
    wanted = np.array([cells[1:] for cells in submit(folder, scores)[1:]], dtype=float)
    assert np.allclose(found, wanted)


@given(st.lists(st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3), min_size=1))
def test_probabilities_are_from_0_to_1_and_keep_the_order(rows):
    for is_multilabel in (False, True):
        found = probabilities(np.array(rows), is_multilabel=is_multilabel)
        assert found.min() >= 0 and found.max() <= 1
        for before, after in zip(rows, found, strict=True):
            assert after[int(np.argmax(before))] == after.max()


@given(st.permutations(range(5)), st.sampled_from(["dict", "pair", "csv", "parquet", "frame"]))
def test_the_order_of_predictions_by_id_changes_nothing(datasets, tmp_path_factory, order, kind):
    folder = datasets(downloads.dog_breed)
    scores, ids = scores_of(folder), ids_of(folder)
    names = imgrec.open_dataset(folder).classes
    mixed = [ids[at] for at in order]
    columns = {"id": mixed, **{name: scores[list(order), at] for at, name in enumerate(names)}}
    path = tmp_path_factory.mktemp("p") / f"p.{kind}"
    if kind == "csv":
        rows = zip(*columns.values(), strict=True)
        path.write_text("\n".join(",".join(map(str, row)) for row in [columns, *rows]) + "\n")
    elif kind == "parquet":
        pq.write_table(pa.table(columns), path)
    predictions = {
        "dict": lambda: {ids[at]: scores[at] for at in order},
        "pair": lambda: (mixed, scores[list(order)]),
        "frame": lambda: pytest.importorskip("pandas").DataFrame(columns),
    }.get(kind, lambda: path)()
    wanted = submit(folder, scores)
    found = submit(folder, predictions)
    assert [row[0] for row in found] == [row[0] for row in wanted]
    assert np.array_equal(
        np.array([row[1:] for row in found[1:]], np.float32),
        np.array([row[1:] for row in wanted[1:]], np.float32),
    )


def test_predictions_come_in_the_order_of_load_and_torch_dataset(datasets, tmp_path):
    folder = datasets(downloads.aptos)
    tf_ids = [one.decode() for one in _loaded(folder)]
    assert tf_ids == ids_of(folder)
    np.save(tmp_path / "p.npy", scores_of(folder))
    assert submit(folder, tmp_path / "p.npy") == submit(folder, scores_of(folder))


def _loaded(folder: Path) -> list[bytes]:
    pytest.importorskip("tensorflow")
    data = imgrec.load(folder, "test", image_size=8, as_dict=True)
    return [row["id"] for row in data.as_numpy_iterator()]


def test_tensors_and_ids_of_frameworks_are_taken(datasets):
    tf, torch = pytest.importorskip("tensorflow"), pytest.importorskip("torch")
    folder = datasets(downloads.aptos)
    scores, ids = scores_of(folder), ids_of(folder)
    wanted = submit(folder, scores)
    of_torch = torch.tensor(scores, requires_grad=True)
    byte_ids = tf.constant(ids)
    by_id = dict(zip(byte_ids.numpy(), of_torch, strict=True))
    some = [tf.constant(scores), of_torch, of_torch.bfloat16(), (byte_ids, scores)]
    for predictions in [*some, by_id, list(of_torch), scores.tolist()]:
        assert submit(folder, predictions) == wanted


def test_a_frame_with_ids_as_its_index_is_by_id(datasets):
    pandas = pytest.importorskip("pandas")
    folder = datasets(downloads.aptos)
    scores, ids = scores_of(folder), ids_of(folder)
    for name in ("id_code", "id", None):
        frame = pandas.DataFrame(scores, index=pandas.Index(ids, name=name)).iloc[::-1]
        assert submit(folder, frame) == submit(folder, scores)


def test_an_index_that_pandas_wrote_is_no_column(datasets, tmp_path):
    pandas = pytest.importorskip("pandas")
    folder = datasets(downloads.aptos)
    scores, ids = scores_of(folder), ids_of(folder)
    frame = pandas.DataFrame(scores).assign(id_code=ids)
    frame.sample(frac=1, random_state=1).to_csv(tmp_path / "p.csv")
    assert submit(folder, tmp_path / "p.csv") == submit(folder, scores)


def test_an_image_that_was_skipped_is_named_or_filled(tmp_path):
    download = downloads.aptos()
    (path, one), *_ = sorted(download.test.items())
    files = {**download.files, path: download.files[path][:300]}
    folder = pack(write_tree(tmp_path / "in", files), tmp_path, max_bad=1)
    labels = dict.fromkeys(ids_of(folder), 2)
    said = refusal(folder, labels)
    assert said.startswith(f"1 id of sample_submission.csv has no image in the dataset: {one} (")
    assert "truncated" in said and "--fill" in said
    rows = dict(submit(folder, labels, fill=0)[1:])
    assert rows == {**dict.fromkeys(labels, "2"), one: "0"}
    assert dict(submit(folder, {**labels, one: 3})[1:])[one] == "3"  # others may predict it
    assert "--fill x" in refusal(folder, labels, fill="x")
    assert "3 images" in refusal(folder, [0, 1, 2, 3], fill=0)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda rows: rows.pop("dcdda528bdf2"), "1 missing: dcdda528bdf2"),
        (lambda rows: rows.update(zzz=1), "1 unknown: zzz"),
        (lambda rows: rows.update(dcdda528bdf2=9), "9, for dcdda528bdf2, is not one of the labels"),
        (
            lambda rows: rows.update(dcdda528bdf2=-1),
            "-1, for dcdda528bdf2, is not one of the labels",
        ),
        (lambda rows: rows.update(dcdda528bdf2=float("nan")), "NaN or infinite for 1 images"),
        (lambda rows: rows.update(dcdda528bdf2="cat"), "'cat', for dcdda528bdf2, is not a class"),
        (
            lambda rows: rows.update(dcdda528bdf2=None),
            "1 for bc45cf740bd7, and nothing for dcdda528bdf2",
        ),
        (lambda rows: rows.update(dcdda528bdf2=[0.1, 0.2]), "and [0.1, 0.2] for dcdda528bdf2"),
    ],
)
def test_a_wrong_prediction_is_named(change, said, datasets):
    folder = datasets(downloads.aptos)
    rows: dict[str, object] = dict.fromkeys(ids_of(folder), 1)
    change(rows)
    assert said in refusal(folder, rows)


@pytest.mark.parametrize(
    ("predictions", "said"),
    [
        (np.zeros((3, 4)), "3 predictions, but test has 4 images"),
        (np.zeros((4, 3)), "3 numbers for each image, but the dataset has 4 classes"),
        (np.zeros((4, 2, 2)), "4x2x2 float64"),
        (np.zeros(4, dtype=complex), "complex128"),
        (np.full((4, 4), np.inf), "NaN or infinite for 4 images"),
        (np.full(4, 0.5), "0.5, for"),
        (7, "predictions are int"),
        ({}, "4 missing"),
        ((["a"], [1, 2]), "1 id for 2 predictions"),
        ((["a", "a"], [1, 2]), "1 unknown: a"),
        ("p.txt", "is not a file of predictions"),
        ("nowhere.csv", "nowhere.csv does not exist"),
    ],
)
def test_predictions_that_do_not_fit_are_refused_in_one_sentence(predictions, said, datasets):
    assert said in refusal(datasets(downloads.aptos), predictions)


def test_an_id_that_comes_twice_is_refused(datasets):
    folder = datasets(downloads.aptos)
    ids = ids_of(folder)
    assert f"1 repeated: {ids[0]}" in refusal(folder, ([*ids, ids[0]], [0] * 5))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("p.npy", b"", "cannot be read"),
        ("p.npy", b"\x93NUMPY\x01\x00", "cannot be read"),
        ("p.csv", b"", "0 predictions, but test has 4 images"),
        ("p.csv", b"id,label\n", "4 missing"),
        ("p.csv", b"id,label\n1,2,3\n", "cannot be read: line 2"),
        ("p.csv", b"\x00\xff\xfe\x00", "p.csv"),
        ("p.csv", b"id,label,label\na,1,1\n", "several columns 'label'"),
        ("p.csv", b"a,b\n1,2\n1,2\n1,2\n1,2\n", "has the columns a, b, which are not classes"),
        ("p.csv", b"0,1,2\n1,1,1\n1,1,1\n1,1,1\n1,1,1\n", "has no column for 3"),
        ("p.csv", b"0,1,2,3\n1,1,x,1\n1,1,1,1\n1,1,1,1\n1,1,1,1\n", "'x' is not a number"),
        ("p.parquet", b"PAR1", "cannot be read"),
        ("p.parquet", b"", "cannot be read"),
    ],
)
def test_a_damaged_file_of_predictions_is_one_sentence(name, data, said, datasets, tmp_path):
    (tmp_path / name).write_bytes(data)
    assert said in refusal(datasets(downloads.aptos), tmp_path / name)


def test_a_file_that_claims_far_more_than_it_has_is_refused(datasets, tmp_path):
    header = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000, 1000), }"
    data = b"\x93NUMPY\x01\x00" + (118).to_bytes(2, "little") + header.ljust(117) + b"\n"
    (tmp_path / "p.npy").write_bytes(data)
    assert "cannot be read" in refusal(datasets(downloads.aptos), tmp_path / "p.npy")
    np.save(tmp_path / "o.npy", np.array([{}], dtype=object), allow_pickle=True)
    assert "cannot be read" in refusal(datasets(downloads.aptos), tmp_path / "o.npy")


def test_numbers_that_may_be_labels_or_names_are_refused():
    classes = Classes(("1", "2", "3"), ("1", "2", "3"), is_multilabel=False, separator=" ")
    ids = Ids(frozenset({"id"}), frozenset("ab"))

    def labels(predictions: object, *, are_texts: bool = False) -> object:
        found = read_given(predictions, ids)._replace(are_texts=are_texts)
        return read_values(found, classes, str).labels

    assert labels([1, 2]) == [(1,), (2,)]  # as imgrec.load gives them
    assert labels(["1", "2"]) == [(0,), (1,)]
    assert labels(["1", "3"], are_texts=True) == [(0,), (2,)]
    assert labels(["0", "2"], are_texts=True) == [(0,), (2,)]
    with pytest.raises(UsageError, match="1 may be the names of classes or their labels"):
        labels(["1", "2"], are_texts=True)


def test_a_file_that_is_there_stays(datasets, tmp_path):
    folder = datasets(downloads.aptos)
    (tmp_path / "submission.csv").write_text("mine")
    with pytest.raises(UsageError, match="exists already"):
        imgrec.write_submission(folder, scores_of(folder), tmp_path / "submission.csv")
    assert (tmp_path / "submission.csv").read_text() == "mine"


def test_without_a_sample_there_is_an_id_and_a_label(tmp_path):
    download = downloads.aptos()
    files = {name: data for name, data in download.files.items() if "sample" not in name}
    folder = pack(write_tree(tmp_path / "in", files), tmp_path)
    assert not (folder / "sample_submission.csv").exists()
    rows = submit(folder, scores_of(folder))
    assert rows[0] == ["id_code", "diagnosis"]
    assert [row[0] for row in rows[1:]] == ids_of(folder)


def test_another_split_has_its_own_ids(datasets):
    folder = datasets(downloads.cassava)
    rows = submit(folder, scores_of(folder, "train"), split="train")
    assert rows[0] == ["image_id", "label"]
    assert [row[0] for row in rows[1:]] == ids_of(folder, "train")
    with pytest.raises(ImgrecError, match="no split 'tset'"):
        submit(folder, [0], split="tset")


def test_a_dataset_without_ids_is_told_by_file_names(tmp_path):
    files = {f"{split}/{c}/{n}.jpg": downloads.photo(f"{split}{c}{n}")
             for split in ("train", "test") for c in "ab" for n in range(3)}  # fmt: skip
    folder = pack(write_tree(tmp_path / "in", files), tmp_path)
    rows = submit(folder, np.zeros(6, dtype=int))
    assert rows[0] == ["id", "label"]
    assert {row[0] for row in rows[1:]} == {name for name in files if name.startswith("test")}


def digits(*, has_ids: bool) -> downloads.Download:
    """Images in tables, as Kaggle's digits; ids are in a column, or the numbers of the rows."""
    pixels = ",".join(f"pixel{n}" for n in range(16))
    row = lambda seed: ",".join(map(str, Random(seed).randbytes(16)))  # noqa: E731
    own = (lambda n: f"{n},") if has_ids else (lambda _: "")
    name = "id," if has_ids else ""
    files = {
        "train.csv": downloads.csv(
            f"{name}label,{pixels}", *[f"{own(n)}{n % 3},{row(n)}" for n in range(9)]
        ),
        "test.csv": downloads.csv(
            name + pixels, *[own(n + 70) + row(f"test{n}") for n in range(4)]
        ),
        "sample_submission.csv": downloads.csv(
            "id,label" if has_ids else "ImageId,Label",
            *[f"{n + 70 if has_ids else n + 1},0" for n in (2, 0, 1, 3)],
        ),
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
    from tfrecords import flowers_on_tpu

    flowers_on_tpu(tmp_path / "tpu")
    rows = [f"test{n},0" for n in (2, 0, 1, 3)]
    (tmp_path / "tpu" / "sample_submission.csv").write_bytes(downloads.csv("id,label", *rows))
    folder = pack(tmp_path / "tpu", tmp_path)
    labels = {f"test{n}": n % 2 for n in range(4)}
    assert submit(folder, labels)[1:] == [[f"test{n}", str(n % 2)] for n in (2, 0, 1, 3)]


def test_a_table_of_records_without_ids_does_no_harm(tmp_path):
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


def test_a_damaged_form_is_a_fault_and_one_sentence(tmp_path):
    from inline import reseal

    folder = pack(downloads.write(downloads.aptos(), tmp_path / "in"), tmp_path)
    metadata = json.loads((folder / "metadata.json").read_text())
    metadata["imgrec"]["submission"] = {"id": 3}
    (folder / "metadata.json").write_text(json.dumps(metadata))
    reseal(folder)
    ((name, _, what),) = faults_of(folder)
    assert (name, what) == (
        "metadata.json",
        "submission: it does not tell what a submission must look like",
    )
    with pytest.raises(imgrec.DatasetError, match="does not tell what a submission must look like"):
        submit(folder, scores_of(folder))
    del metadata["imgrec"]["submission"]
    (folder / "sample_submission.csv").unlink()
    assert "sample_submission.csv" in {name for name, _, _ in faults_of(folder)}


def test_unpacking_brings_the_sample_back(datasets, tmp_path):
    folder = datasets(downloads.aptos)
    unpacked = imgrec.unpack(folder, tmp_path / "out")
    sample = (tmp_path / "out" / "sample_submission.csv").read_bytes()
    assert sample == (folder / "sample_submission.csv").read_bytes()
    assert any("sample_submission.csv is not taken along" in note for note in unpacked.notes)


def test_a_sample_of_a_million_rows_is_no_problem(tmp_path):
    ids = [f"id_{n}" for n in range(1_000_000)]
    data = codec.encode_table(("id", "label"), ((one, "0") for one in ids))
    header, rows = codec.decode_table(data)
    assert (header, rows[-1]) == (("id", "label"), ["id_999999", "0"])


@given(st.lists(st.lists(st.text(max_size=5), min_size=2, max_size=2), min_size=1))
def test_a_table_is_read_as_it_was_written(rows):
    header, found = codec.decode_table(codec.encode_table(rows[0], rows[1:]))
    assert [list(header), *found] == rows


def test_the_command_writes_the_file_and_says_what_it_is(datasets, cli: Cli, tmp_path):
    folder = datasets(downloads.histopathologic)
    np.save(tmp_path / "p.npy", scores_of(folder))
    done = cli("submit", folder, "p.npy", "-o", "s.csv")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "s.csv: 4 rows\ncolumns     id, label\nform        the probability of 1\n"
    )
    assert len((tmp_path / "s.csv").read_text().splitlines()) == 5
    again = cli("submit", folder, "p.npy", "-o", "s.csv")
    assert (again.returncode, again.stderr.splitlines()[0]) == (2, "imgrec: s.csv exists already")
    value = json.loads(cli("submit", folder, "p.npy", "--json").stdout)
    assert value == {
        "path": "submission.csv",
        "rows": 4,
        "columns": ["id", "label"],
        "form": "the probability of 1",
        "filled": 0,
    }
    np.save(tmp_path / "logits.npy", np.log(scores_of(folder)))
    done = cli("submit", folder, "logits.npy", "-o", "logits.csv")
    assert done.stdout.endswith("scores      turned into probabilities by softmax\n")
    wrong = cli("submit", folder, "p.npy", "-o", "t.csv", "--split", "nope")
    assert wrong.returncode == 5 and "Traceback" not in wrong.stderr
