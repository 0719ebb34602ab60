"""Downloads are packed right or refused, never wrong."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import downloads
import pytest

import imgrec
from imgrec.errors import ImgrecError

pytestmark = pytest.mark.usefixtures("asking")

OF_THE_RUN = {"report.json", "report.html", "SHA256SUMS"}
"""They name the source, which differs between a folder and its zip."""


def label_of(record: imgrec.Record) -> object:
    """The class of a record, or all of them where it may have several."""
    return record.class_name if record.label >= 0 else tuple(sorted(record.class_names))


@pytest.mark.parametrize("make", downloads.ALL, ids=lambda make: make.__name__)
def test_a_download_is_understood_without_options_as_a_folder_and_as_a_zip(
    make: Any, tmp_path: Path
) -> None:
    download, datasets = make(), []
    for form, write in (("folder", downloads.write), ("zip", downloads.write_zip)):
        source = write(download, tmp_path / form)
        options = imgrec.PackOptions(
            data_dir=str(tmp_path / f"{form} data"), on_bad="fail", val_split=0.3
        )
        if download.refused:
            with pytest.raises(ImgrecError) as error:
                imgrec.pack(source, options)
            assert download.refused in f"{error.value} {error.value.hint}"
            continue
        path = Path(imgrec.pack(source, options).info.path)
        dataset = imgrec.open_dataset(path)
        records = {split: list(dataset[split]) for split in dataset}
        test = {record.filename: record.columns.get("id") for record in records.pop("test", ())}
        labelled = {x.filename: label_of(x) for found in records.values() for x in found}
        assert labelled == download.labels
        assert test == download.test
        datasets.append(
            {
                str(file.relative_to(path)): file.read_bytes()
                for file in path.rglob("*")
                if file.is_file() and file.name not in OF_THE_RUN
            }
        )
    if datasets:
        assert any(name.endswith(".parquet") for name in datasets[0])
        assert datasets[0] == datasets[1]


@pytest.mark.parametrize("write", [downloads.write, downloads.write_zip])
def test_tables_of_a_download_are_not_ignored_files(write: Any, tmp_path: Path) -> None:
    source = write(downloads.aptos(), tmp_path)
    assert imgrec.plan(source).ignored == ()


def test_a_corrected_command_names_the_way_to_replace_a_wrong_first_pack(
    tmp_path: Path, data_dir: Path
) -> None:
    source = downloads.write(downloads.state_farm(), tmp_path)
    by_subject = {"label_col": "subject"}
    imgrec.pack(source, {"data_dir": data_dir, "source": by_subject})
    with pytest.raises(ImgrecError, match=r"the same source was read as .* subject") as error:
        imgrec.pack(source, {"data_dir": data_dir})
    assert "--overwrite" in error.value.hint
    assert imgrec.pack(source, {"data_dir": data_dir, "overwrite": True}).is_new


def test_a_list_of_labels_is_a_warning_that_names_the_way_out(tmp_path: Path) -> None:
    source = downloads.write(downloads.plant_pathology_2021(), tmp_path)
    assert any("--label-sep none" in warning for warning in imgrec.plan(source).warnings)
