"""Downloads are packed right or refused, never wrong."""

from __future__ import annotations

from pathlib import Path

import downloads
import pytest

import imgrec
from imgrec.errors import ImgrecError

pytestmark = pytest.mark.usefixtures("asking")


def packed(source: Path, data_dir: Path) -> dict[str, tuple[str, object, object]]:
    """Pack, and return split, label and id of each file."""
    imgrec.pack(source, imgrec.PackOptions(data_dir=str(data_dir), name="d", on_bad="fail"))
    dataset = imgrec.open_dataset("d", data_dir=data_dir)
    found = {}
    for split in dataset:
        for record in dataset[split]:
            found[record.filename] = (split, label_of(record), record.columns.get("id"))
    return found


def label_of(record: imgrec.Record) -> object:
    """The class of a record, or all of them where it may have several."""
    return record.class_name if record.label >= 0 else tuple(sorted(record.class_names))


@pytest.mark.parametrize("form", ["folder", "zip"])
@pytest.mark.parametrize("make", downloads.ALL, ids=lambda make: make.__name__)
def test_a_download_is_understood_without_options(make, form, tmp_path, data_dir):
    download = make()
    write = downloads.write if form == "folder" else downloads.write_zip
    source = write(download, tmp_path / "in")
    if download.refused:
        with pytest.raises(ImgrecError) as error:
            packed(source, data_dir)
        assert download.refused in f"{error.value} {error.value.hint}"
        return
    found = packed(source, data_dir)
    labelled = {path: label for path, (split, label, _) in found.items() if split == "train"}
    test = {path: name for path, (split, _, name) in found.items() if split == "test"}
    assert labelled == download.labels
    if download.test:
        assert test == download.test


OF_THE_RUN = {"report.json", "report.html", "SHA256SUMS"}
"""They name the source, which a zip is and a folder is."""


@pytest.mark.parametrize(
    "make", [make for make in downloads.ALL if not make().refused], ids=lambda make: make.__name__
)
def test_a_folder_and_its_zip_give_the_same_dataset(make, tmp_path):
    files = {}
    for form, write in (("folder", downloads.write), ("zip", downloads.write_zip)):
        source = write(make(), tmp_path / form)
        options = imgrec.PackOptions(data_dir=str(tmp_path / f"{form} data"), val_split=0.3)
        path = Path(imgrec.pack(source, options).info.path)
        files[form] = {
            str(file.relative_to(path)): file.read_bytes()
            for file in path.rglob("*")
            if file.is_file() and file.name not in OF_THE_RUN
        }
    assert any(name.endswith(".parquet") for name in files["folder"])
    assert files["folder"] == files["zip"]


def test_a_corrected_command_is_told_how_to_replace_a_wrong_first_pack(tmp_path, data_dir):
    source = downloads.write(downloads.state_farm(), tmp_path)
    by_subject = {"label_col": "subject"}
    imgrec.pack(source, {"data_dir": data_dir, "source": by_subject})
    with pytest.raises(ImgrecError, match=r"the same source was read as .* subject") as error:
        imgrec.pack(source, {"data_dir": data_dir})
    assert "--overwrite" in error.value.hint
    assert imgrec.pack(source, {"data_dir": data_dir, "overwrite": True}).is_new


def test_a_list_of_labels_is_said_to_be_one_with_the_way_out(tmp_path):
    source = downloads.write(downloads.plant_pathology_2021(), tmp_path)
    assert any("--label-sep none" in warning for warning in imgrec.dry_run(source).warnings)
