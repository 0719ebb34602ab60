"""Whatever the layout of a download, it is read right or refused, never wrong."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import downloads
import pytest
from hypothesis import event, given
from hypothesis import strategies as st
from sampling import examples

import imgrec
from imgrec.errors import ImgrecError

pytestmark = pytest.mark.usefixtures("asking")

Meaning = dict[str, tuple[str, str]]
"""Split and class of each image, by the end of its path."""

CLASSES = [
    ("cat", "dog", "wild dog"), ("0", "1"), ("red apple", "green pear"), ("train", "car"),
    ("images", "docs"), ("scab", "rust"), ("Valley", "trainers"), ("a", "b", "c"),
]  # fmt: skip
TRAINS = ["train", "train_images", "Training Set", "imgs/train", "train/train", "jpeg/train"]
POOLS = ["images", "", "photos"]
TESTS = ["test", "test1", "test_images", "test-jpg", "test_stg1", "imgs/test", "test/test"]
ID_COLUMNS = ["id", "image", "image_id", "id_code", "filename", "Image"]
LABEL_COLUMNS = ["label", "breed", "diagnosis", "class", "target", "species", "labels"]
BESIDE = [
    {}, {"README.md": b"read me"}, {"sample/1.jpg": downloads.photo("sample")},
    {"docs/figure.png": downloads.photo("figure", "PNG")}, {"LICENSE": b"free"},
    {"notes.csv": b"who,when\nme,now\nyou,then\n"}, {"__MACOSX/._x": b"0"},
    {"masks/m1.png": downloads.photo("mask", "PNG")},
]  # fmt: skip


@dataclass
class Layout:
    """A download that was made up, and what it means."""

    files: dict[str, bytes] = field(default_factory=dict)
    meaning: Meaning = field(default_factory=dict)
    id_column: str = "id"
    label_column: str = "label"

    def _repr_pretty_(self, printer: Any, _: bool) -> None:
        """Show no bytes of images when an example is printed."""
        texts = {path: data for path, data in self.files.items() if path.endswith((".csv", ".tsv"))}
        printer.text(f"{sorted(self.files)} {texts}")

    def add(self, path: str, split: str, class_name: str) -> None:
        self.files[path] = downloads.photo(path)
        self.meaning[path] = (split, class_name)


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    """Class folders, or images whose labels are in a table, with or without a test set."""
    layout = Layout()
    names = draw(st.sampled_from(CLASSES))
    images = [(f"{number:04x}", names[number % len(names)]) for number in range(4 * len(names))]
    has_test = draw(st.booleans())
    by_table = draw(st.booleans())
    is_pool = has_test and by_table and draw(st.booleans())
    trains = POOLS if is_pool else TRAINS if has_test else [*TRAINS, *POOLS]
    train = draw(st.sampled_from(trains))
    if by_table:
        _add_table(draw, layout, train, images)
    else:
        for name, class_name in images:
            folder = f"{train}/{class_name}" if train else class_name
            layout.add(f"{folder}/{name}.jpg", "train", class_name)
    if has_test:
        _add_test(draw, layout, names, is_pool=is_pool, train=train)
    layout.files |= draw(st.sampled_from(BESIDE))
    if draw(st.booleans()):
        layout.files = {f"wrapper/{path}": data for path, data in layout.files.items()}
    return layout


def _add_table(draw: st.DrawFn, layout: Layout, train: str, images: list[tuple[str, str]]) -> None:
    """Add images and a table of their labels: a word, some words, or columns of 0 and 1."""
    spread = draw(st.sampled_from(["flat", "hashed"]))
    form = draw(st.sampled_from(["stem", "name", "path"]))
    has_blanks = any(" " in class_name for _, class_name in images)
    labels = draw(st.sampled_from(["word", "flags", *(["words"] * (not has_blanks))]))
    separator = draw(st.sampled_from(",,,;\t"))
    id_column = draw(st.sampled_from(ID_COLUMNS))
    names = sorted({class_name for _, class_name in images})
    columns = [draw(st.sampled_from(LABEL_COLUMNS))] if labels != "flags" else names
    extra = draw(st.sampled_from([(), ("age",), ("patient_id", "sex")]))
    rows = []
    for number, (name, class_name) in enumerate(images):
        within = f"{name[-1]}/{name[-2]}/{name}.jpg" if spread == "hashed" else f"{name}.jpg"
        path = f"{train}/{within}" if train else within
        meant = sorted({class_name, names[number % 2]}) if labels == "words" else [class_name]
        layout.add(path, "train", "|".join(meant))
        written = {"stem": name, "name": f"{name}.jpg", "path": path}[form]
        cells = [str(int(one == class_name)) for one in names]
        cells = cells if labels == "flags" else [" ".join(meant)]
        others = {"age": 20 + number % 7, "patient_id": f"p{number // 3}", "sex": "mf"[number % 2]}
        rows.append([written, *cells, *(str(others[one]) for one in extra)])
    table = draw(st.sampled_from(["train.csv", "labels.csv", "train_labels.csv", "meta/train.csv"]))
    header = [id_column, *columns, *extra]
    lines = [separator.join(row) for row in (header, *rows)]
    name = table if separator != "\t" else f"{table.removesuffix('.csv')}.tsv"
    layout.files[name] = "\n".join([*lines, ""]).encode()
    layout.id_column = id_column
    layout.label_column = columns[0] if labels != "flags" else "label"


def _add_test(
    draw: st.DrawFn, layout: Layout, names: tuple[str, ...], *, is_pool: bool, train: str
) -> None:
    """Add images without labels, among the others or in a folder, with a sample or without."""
    folder = train if is_pool else draw(st.sampled_from(TESTS))
    start = 0 if not is_pool and draw(st.booleans()) else 1000  # ids may be those of train images
    ids = [f"{number:04x}" for number in range(start, start + 5)]
    paths = [f"{folder}/{name}.jpg".lstrip("/") for name in ids]
    for path in paths:
        layout.add(path, "test", "")
    forms = ["label", "classes"] if is_pool else ["none", "label", "classes"]
    form = draw(st.sampled_from(forms))
    id_column, label_column = layout.id_column, layout.label_column
    if form == "label":
        rows = [f"{name},{names[0]}" for name in ids]
        layout.files["sample_submission.csv"] = downloads.csv(f"{id_column},{label_column}", *rows)
    if form == "classes":
        chances = ",".join(["0.5"] * len(names))
        header = ",".join([id_column, *names])
        rows = [f"{name},{chances}" for name in ids]
        layout.files["sample_submission.csv"] = downloads.csv(header, *rows)


def understood(source: Path) -> Meaning:
    plan = imgrec.plan(source, imgrec.PackOptions(name="d"))
    found: Meaning = {}
    for task in plan.tasks:
        sets = task.samples.label_sets or [(label,) for label in task.samples.labels]
        for filename, labels in zip(task.samples.filenames, sets, strict=True):
            class_names = "|".join(sorted(plan.classes[label] for label in labels if label >= 0))
            found[filename] = (task.split, class_names)
    return found


def is_right(found: Meaning, meant: Meaning) -> bool:
    """Return whether the images have the same meaning; a source may begin at an inner folder."""
    ends = {path: found.get(path) for path in meant}
    for path in meant:
        parts = path.split("/")
        inner = ["/".join(parts[at:]) for at in range(len(parts))]
        ends[path] = next((found[end] for end in inner if end in found), None)
        if ends[path] is None:
            ends[path] = found.get(f"wrapper/{path}")
    return ends == meant and len(found) == len(meant)


@examples(200)
@given(layout=layouts(), is_zip=st.booleans())
def test_a_download_is_read_right_or_refused(layout: Layout, is_zip: bool) -> None:
    download = downloads.Download(name="d", files=layout.files)
    folder = Path(tempfile.mkdtemp())
    try:
        write = downloads.write_zip if is_zip else downloads.write
        source = write(download, folder)
        try:
            found = understood(source)
        except ImgrecError as refusal:
            event("refused")
            assert refusal.hint, refusal
            return
        event("packed")
        assert is_right(found, layout.meaning), (found, sorted(layout.files))
    finally:
        shutil.rmtree(folder)
