"""Exports as the libraries that they are for read them: the same images, labels, names, counts."""

from __future__ import annotations

import json
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from inline import ENGINE, pack
from pictures import class_tree, jpeg, png, write_tree

import imgrec
from imgrec.codec.sniff import sniff
from imgrec.options import SourceOptions
from imgrec.read.record import Record

pytestmark = [
    pytest.mark.torch,  # WebDataset imports it
    pytest.mark.skipif(
        not all(map(find_spec, ("datasets", "mlcroissant", "webdataset"))),
        reason="datasets, mlcroissant and webdataset are missing: pip install 'imgrec[dev]'",
    ),
]
NAMES = (
    "train/rose/1.jpg", "train/rose/2.jpg", "train/tulip/1.jpg", "train/tulip/1.png",
    "train/tulip/my photo.v2.jpg", "train/tulip/my photo.v3.jpg", "train/tulip/été ☀.png",
    "train/tulip/__x__.jpg", "val/rose/1.jpg", "val/tulip/5.jpg",
    "test/a.jpg", "test/b.png",
)  # fmt: skip
TABLE = """id,tags,age,weight,split note: é
a/x.jpg,red big,3,0.5,first
b/x.jpg,,4,,"|<b> ""x"" é"
b/y.png,big,-5,1e-3,
b/z.png,red,6,2,tab
c/z.png,red big,7,3,last
"""


def split_folders(root: Path) -> Path:
    """Two formats, splits with and without labels, and names that are hard for tar files."""
    files = {name: (png if name.endswith("png") else jpeg)(seed) for seed, name in enumerate(NAMES)}
    return pack(write_tree(root / "odd", files), root / "data")


def several_labels(root: Path) -> Path:
    """Several labels and columns, compressed."""
    rows = [line.partition(",")[0] for line in TABLE.splitlines()[1:]]
    files = {name: (png if name.endswith("png") else jpeg)(n) for n, name in enumerate(rows)}
    source = write_tree(root / "tags", {**files, "t.csv": TABLE.encode()})
    columns = ("age:int", "weight:float", "split note: é:text")
    options = SourceOptions(label_sep=" ", column=columns, path_col="id")  # type: ignore[arg-type]
    return pack(source / "t.csv", root / "data", source=options, compression="gzip", val_split=0.4)


def folds(root: Path) -> Path:
    """Many shards, folds, and class names that need quotes."""
    classes = {"no": 6, "a: b #1": 6, "'x' | \"y\" \\": 6, "2": 6, "ü\ufeff\x7f.": 6}
    return pack(class_tree(root / "folds", classes), root / "data", folds=3, shards=2)


def flowers(root: Path) -> Path:
    return pack(ROOT / "sample_data/flowers", root / "data", val_split=0.2)


DATASETS = (split_folders, several_labels, folds, flowers)


@pytest.fixture(scope="module", params=DATASETS, ids=lambda make: make.__name__)
def folder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a packed dataset."""
    made: Path = request.param(tmp_path_factory.mktemp("packed"))
    return made


@pytest.fixture(scope="module")
def parquet(folder: Path) -> Path:
    return export(folder, "parquet")


@pytest.fixture(scope="module")
def tars(folder: Path) -> Path:
    return export(folder, "webdataset")


def export(folder: Path, to: str) -> Path:
    return Path(imgrec.export(folder, folder.parents[2] / to, to=to, engine=ENGINE).path)


def expected(folder: Path) -> dict[str, list[Record]]:
    dataset = imgrec.open_dataset(folder)
    return {name: list(split) for name, split in dataset.items()}


def load(place: Path, cache: Path, **options: Any) -> Any:
    import datasets

    datasets.disable_progress_bars()
    return datasets.load_dataset(str(place), cache_dir=str(cache), **options)


def row_of(record: Record, *, is_multilabel: bool) -> dict[str, object]:
    """Return what a row of the table should be."""
    label = {"labels": list(record.labels)} if is_multilabel else {"label": record.label}
    image = {"bytes": record.image, "path": record.filename}
    return {"image": image, **label, "filename": record.filename, **record.columns}


def test_hugging_face_datasets_load_every_row_of_each_split(
    folder: Path, parquet: Path, tmp_path: Path
) -> None:
    import datasets

    loaded, records = load(parquet, tmp_path), expected(folder)
    is_multilabel = (folder / "labels.labels.txt").exists()
    assert list(loaded) == list(records)
    for split, found in loaded.items():
        rows = found.cast_column("image", datasets.Image(decode=False)).to_list()
        expected_rows = [row_of(one, is_multilabel=is_multilabel) for one in records[split]]
        # NaN is not equal to itself
        assert [json.dumps(row, default=repr) for row in rows] == [
            json.dumps(row, default=repr) for row in expected_rows
        ]
        label = found.features["labels"].feature if is_multilabel else found.features["label"]
        assert label.names == list(imgrec.info(folder).classes)
        assert isinstance(found.features["image"], datasets.Image)
        assert found[0]["image"].size == records[split][0].pil().size


def test_the_files_alone_and_the_card_alone_describe_the_same_features(
    parquet: Path, tmp_path: Path
) -> None:
    import datasets
    import pyarrow.parquet as pq
    from datasets.info import DatasetInfosDict

    files = sorted((parquet / "data").iterdir())
    features = datasets.Features.from_arrow_schema(pq.read_schema(files[0]))
    (info,) = DatasetInfosDict.from_directory(parquet).values()
    assert info.features == features
    assert info.download_size == sum(path.stat().st_size for path in files)
    assert info.dataset_size == sum(split.num_bytes for split in info.splits.values())
    alone = load(Path("parquet"), tmp_path, data_files=str(files[0]), split="train")
    assert alone.features == features


def test_datasets_stream_the_rows_in_order(folder: Path, parquet: Path, tmp_path: Path) -> None:
    for split, records in expected(folder).items():
        rows = load(parquet, tmp_path, split=split, streaming=True)
        assert [row["filename"] for row in rows] == [record.filename for record in records]


def test_mlcroissant_finds_no_error_and_yields_every_image(folder: Path, parquet: Path) -> None:
    import mlcroissant

    def described() -> mlcroissant.Dataset:
        return mlcroissant.Dataset(jsonld=parquet / "croissant.json")

    assert described().metadata.ctx.issues.errors == set()
    records, everything = expected(folder), list(described().records("images"))
    for split, ours in records.items():
        found = list(described().records("images", filters={"images/split": split}))
        assert [row["images/filename"].decode() for row in found] == [one.filename for one in ours]
        for row, one in zip(found, ours, strict=True):
            assert row["images/image"].tobytes() == one.pil().tobytes()
            assert row.get("images/label", one.label) == one.label
            assert list(row.get("images/labels", one.labels)) == list(one.labels)
        assert [row["images/split"].decode() for row in everything].count(split) == len(ours)
    classes = [row["classes/name"] for row in described().records("classes")]
    assert classes == list(imgrec.info(folder).classes)


def test_mlcroissant_checks_the_hash_of_each_file(parquet: Path) -> None:
    from mlcroissant import Dataset
    from mlcroissant._src.operation_graph.operations import Download

    described = Dataset(jsonld=parquet / "croissant.json")
    downloads = [one for one in described.operations.operations if isinstance(one, Download)]
    assert len(downloads) == len(list((parquet / "data").iterdir()))
    for download in downloads:
        download.call()  # raises if the hash of the file is another


def samples_of(tars: Path, split: str) -> Iterator[dict[str, Any]]:
    import webdataset

    names = sorted(path.name for path in tars.glob(f"{split}-*.tar"))
    first, last = (names[at].removesuffix(".tar")[-6:] for at in (0, -1))
    pattern = f"{tars}/{split}-{{{first}..{last}}}.tar"
    yield from webdataset.WebDataset(pattern, shardshuffle=False, empty_check=False)


def test_webdataset_yields_one_sample_for_each_image(folder: Path, tars: Path) -> None:
    keys = []
    is_multilabel = (folder / "labels.labels.txt").exists()
    for split, records in expected(folder).items():
        samples = list(samples_of(tars, split))
        assert len(samples) == len(records)
        for sample, record in zip(samples, records, strict=True):
            keys.append(sample["__key__"])
            extension = {"JPEG": "jpg", "PNG": "png"}[sniff(record.image)]
            assert sample[extension] == record.image
            facts = json.loads(sample["json"])
            assert facts["filename"] == record.filename
            if is_multilabel:
                assert "cls" not in sample
                assert facts["labels"] == list(record.labels)
                assert facts["class_names"] == list(record.class_names)
            else:
                assert int(sample.get("cls", b"-1")) == facts.get("label", -1) == record.label
                assert facts.get("class_name", "") == record.class_name
            columns = {
                name: None if value != value else value for name, value in record.columns.items()
            }
            assert facts.get("columns", {}) == columns
    assert len(set(keys)) == len(keys)


def test_keys_are_paths_without_extension_and_differ(tmp_path: Path) -> None:
    import webdataset

    tars = export(split_folders(tmp_path), "webdataset")
    keys = {one["__key__"] for split in ("train", "val", "test") for one in samples_of(tars, split)}
    assert keys == {
        "train/rose/1", "train/rose/2", "train/tulip/1", "train/tulip/1_2",
        "train/tulip/my photo_v2", "train/tulip/my photo_v3", "train/tulip/été ☀",
        "train/tulip/__x__", "val/rose/1", "val/tulip/5", "test/a", "test/b",
    }  # fmt: skip
    # The lines of its README.md
    pairs = webdataset.WebDataset(f"{tars}/val-000000.tar", shardshuffle=False)
    for image, label in pairs.decode("pil").to_tuple("jpg;png;bmp;gif", "cls"):
        assert image.size == (24, 16)
        assert label in (0, 1)


def test_hugging_face_datasets_load_the_tars_too(tmp_path: Path) -> None:
    folder = flowers(tmp_path)
    tars, records = export(folder, "webdataset"), expected(folder)
    pattern = {split: str(tars / f"{split}-*.tar") for split in records}
    loaded = load(Path("webdataset"), tmp_path / "cache", data_files=pattern)
    for split, ours in records.items():
        assert [row["cls"] for row in loaded[split]] == [one.label for one in ours]


def test_a_dataset_on_a_store_is_exported(tmp_path: Path, store: Any) -> None:
    source = class_tree(tmp_path / "x", {"a": 3, "b": 3})
    packed = imgrec.pack(source, data_dir=f"{store.url}/data", val_split=0.3, engine=ENGINE)
    exported = imgrec.export(packed.info.path, tmp_path / "out", to="parquet", engine=ENGINE)
    loaded = load(tmp_path / "out", tmp_path / "cache")
    assert exported.splits == {name: len(split) for name, split in loaded.items()}
    record = next(iter(imgrec.open_dataset(packed.info.path)["train"]))
    assert loaded["train"][0]["image"].tobytes() == record.pil().tobytes()
