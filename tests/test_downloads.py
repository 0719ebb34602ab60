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
