"""Near-duplicates by the embeddings of a user's model, from a file or from a function."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from inline import ENGINE
from numpy.typing import ArrayLike, NDArray
from pictures import encode, picture, write_tree
from PIL import Image, ImageOps
from sampling import examples

import imgrec
from imgrec.api import leaks
from imgrec.errors import ImgrecError, SourceError, UsageError
from imgrec.inspect.leaks import Leaks
from imgrec.near.embeddings import embedded_candidates, quantize
from imgrec.near.search import Effort, search_rows
from imgrec.source.embeddings import open_embeddings

Vectors = Mapping[str, Sequence[float]]


def drawn(seed: int) -> Image.Image:
    return picture(seed, size=(12, 10)).resize((48, 40), Image.Resampling.BICUBIC)


TREE = {
    "train/oak/1.png": encode(drawn(1), "PNG"),
    "train/oak/1 again.jpg": encode(drawn(1), "JPEG", quality=90),
    "test/ash/1 mirrored.png": encode(ImageOps.mirror(drawn(1)), "PNG"),
    "test/ash/2.png": encode(drawn(2), "PNG"),
    "train/ash/bad.jpg": b"\xff\xd8\xff nothing",
    "train/ash/blank.png": encode(Image.new("RGB", (48, 40), "white"), "PNG"),
}
ALIKE = {
    "train/oak/1.png": (1, 0, 0),
    "train/oak/1 again.jpg": (-1, 0, 0),
    "test/ash/1 mirrored.png": (2, 0, 0.1),
    "test/ash/2.png": (1, 0, 0.1),
}
"""The first two are alike but far apart; the second is far from its mirror image, too."""
FOUND = [("test/ash/1 mirrored.png", "train/oak/1.png")]


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_tree(tmp_path / "trees", TREE)


@pytest.fixture
def write(tmp_path: Path) -> Callable[[Vectors], str]:
    def write(vectors: Vectors, name: str = "clip") -> str:
        np.save(tmp_path / f"{name}.npy", np.array([*vectors.values()], np.float16))
        (tmp_path / f"{name}.txt").write_text("".join(f"{name}\n" for name in vectors))
        return str(tmp_path / f"{name}.npy")

    return write


def names(found: Leaks) -> list[tuple[str, ...]]:
    return [tuple(sorted(image.name for image in group.images)) for group in found.groups]


def mean_colours(pictures: list[NDArray[np.uint8]]) -> ArrayLike:
    return [(one.mean(axis=(0, 1)) - 100).tolist() for one in pictures]


def test_embeddings_decide_what_is_compared_and_pixels_what_is_alike(
    source: Path, write: Callable[[Vectors], str]
) -> None:
    found = leaks(source, embeddings=write(ALIKE), engine=ENGINE)
    assert names(found) == FOUND
    assert [group.is_mirrored for group in found.groups] == [True]
    # 2.png is as near, and not alike. Images without anything to see need no row.
    assert (found.unreadable, found.flat) == (1, 1)


def test_rows_go_by_name_in_any_order_also_below_one_folder(
    source: Path, write: Callable[[Vectors], str]
) -> None:
    turned = {f"/data/trees/{name}": ALIKE[name] for name in reversed(ALIKE)}
    more = {"/data/trees/no image.png": (0, 0, 0), **turned}
    assert names(leaks(source, embeddings=write(more), engine=ENGINE)) == FOUND
    two_folders = {**turned, "/other/trees/train/oak/1.png": (1, 1, 1)}
    with pytest.raises(SourceError, match="no row for 6 images"):
        leaks(source, embeddings=write(two_folders), engine=ENGINE)


def test_a_function_gets_pictures_and_finds_what_its_vectors_bring_together(source: Path) -> None:
    shapes = []

    def embed(pictures: list[NDArray[np.uint8]]) -> ArrayLike:
        shapes.extend(one.shape for one in pictures)
        return mean_colours(pictures)

    found = leaks(source, embeddings=embed, engine=ENGINE)
    assert [len(group) for group in names(found)] == [3]
    assert shapes == [(40, 48, 3)] * 4


def test_a_dataset_and_its_source_agree(source: Path, data_dir: Path) -> None:
    packed = imgrec.pack(source, data_dir=data_dir, engine=ENGINE, max_bad=1)
    groups = [
        names(leaks(what, embeddings=mean_colours, engine=ENGINE))
        for what in (source, packed.info.path)
    ]
    assert groups[0] == groups[1] != []


def test_another_dataset_has_a_file_of_its_own(
    source: Path, tmp_path: Path, write: Callable[..., str]
) -> None:
    others = write_tree(tmp_path / "others", {"a/1.png": TREE["test/ash/1 mirrored.png"]})
    files = {"embeddings": write(ALIKE), "against_embeddings": write({"a/1.png": (1, 0, 0)}, "o")}
    found = leaks(source, against=others, engine=ENGINE, **files)  # type: ignore[arg-type]
    assert names(found) == [("a/1.png", "test/ash/1 mirrored.png"), ("a/1.png", "train/oak/1.png")]
    files["against_embeddings"] = write({"a/1.png": (1, 0)}, "o")
    with pytest.raises(UsageError, match="have 3 and 2 numbers each"):
        leaks(source, against=others, engine=ENGINE, **files)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="embeddings and against need against_embeddings"):
        leaks(source, against=others, embeddings=files["embeddings"])
    with pytest.raises(UsageError, match="against_embeddings needs a file of embeddings"):
        leaks(source, against=others, against_embeddings=files["embeddings"])


class Trap:
    def __reduce__(self) -> tuple[object, ...]:
        return (pytest.fail, ("unpickled",))


@pytest.mark.parametrize(
    ("vectors", "names", "fault"),
    [
        ([[1, 0]], None, "needs .*clip.txt, with the file name of each row in a line"),
        ([[1, 0]], "", "has 1 row, and .*clip.txt 0 names"),
        ([[1, 0], [1, 0]], "a\na\n", "clip.txt has a more than once"),
        ([[1, 0], [1, 0]], "a\nb\n", "no row for 6 images, such as .*; its first row is for a"),
        ([[1.0, np.nan]] * 4, "", "the embedding of .* is not a finite number everywhere"),
        ([[0, 0]] * 4, "", "the embedding of .* is 0 everywhere"),
        ([1, 0], "a\nb\n", r"its shape is \(2,\), its type int64"),
        ([["a", "b"]], "a\n", "not a table of numbers: .* its type <U1"),
        ([[1j, 2]], "a\n", "not a table of numbers: .* its type complex128"),
        ([[1]], "a\n", "has 1 column"),
        (np.array([[Trap(), 1]], object), "a\n", "is not an array of numbers"),
        (b"", "", "is not an array of numbers"),
        (pickle.dumps(Trap()), "a\n", "is not an array of numbers"),
        (b"\x93NUMPY\x01\x00\x76\x00", "a\n", "is not an array of numbers"),
    ],
)
def test_what_is_wrong_with_a_file_is_said(
    tmp_path: Path, source: Path, vectors: object, names: str | None, fault: str
) -> None:
    path = tmp_path / "clip.npy"
    if isinstance(vectors, bytes):
        path.write_bytes(vectors)
    else:
        np.save(path, np.asarray(vectors), allow_pickle=True)
    if names is not None:
        named = names or "".join(f"{name}\n" for name in ALIKE)
        (tmp_path / "clip.txt").write_text("" if fault.endswith("0 names") else named)
    with pytest.raises(ImgrecError, match=fault):
        leaks(source, embeddings=path, engine=ENGINE)


@pytest.mark.parametrize("made", [[], [[1.0, 2.0]], [1.0] * 4, [["a"]] * 4, None])
def test_a_function_that_returns_something_else_is_refused(source: Path, made: object) -> None:
    with pytest.raises(UsageError, match=r"embed\(\) returned an array of .* for 4 pictures"):
        leaks(source, embeddings=lambda_named_embed(made), engine=ENGINE)


def lambda_named_embed(made: object) -> Callable[[list[object]], object]:
    def embed(_pictures: list[object]) -> object:
        return made

    return embed


def test_embeddings_need_near_dups(source: Path, write: Callable[[Vectors], str]) -> None:
    with pytest.raises(UsageError, match="embeddings needs near_dups"):
        imgrec.pack(source, embeddings=write(ALIKE))


@pytest.mark.processes
def test_a_pack_is_the_same_with_any_workers_and_remembers_its_embeddings(
    tmp_path: Path, source: Path, write: Callable[[Vectors], str]
) -> None:
    path, reports = write(ALIKE), []
    for workers in (1, 3):
        data_dir = tmp_path / str(workers)
        options = {"near_dups": "report", "data_dir": data_dir, "max_bad": 1, "workers": workers}
        packed = imgrec.pack(source, embeddings=path, **options)  # type: ignore[arg-type]
        reports.append((Path(packed.info.path) / "SHA256SUMS").read_text())
        near = packed.report.near_duplicates
        assert near is not None
        assert (near.groups, near.across_splits) == (1, 1)
        assert packed.report.options["embeddings"] == "clip.npy"
        again = imgrec.pack(source, embeddings=path, **options)  # type: ignore[arg-type]
        assert not again.is_new
    assert reports[0] == reports[1]
    write({**ALIKE, "test/ash/2.png": (1, 0, 0.2)})
    with pytest.raises(ImgrecError, match=r"differs|other|exists"):
        imgrec.pack(source, embeddings=path, **options)  # type: ignore[arg-type]


def test_an_update_needs_the_embeddings_of_new_images(
    source: Path, data_dir: Path, write: Callable[[Vectors], str]
) -> None:
    options = {"near_dups": "drop", "data_dir": data_dir, "max_bad": 1.0, "engine": ENGINE}
    imgrec.pack(source, embeddings=write(ALIKE), **options)  # type: ignore[arg-type]
    (source / "train/oak/3.png").write_bytes(encode(drawn(3), "PNG"))
    with pytest.raises(SourceError, match="no row for 1 image, such as train/oak/3"):
        imgrec.update("trees", data_dir=data_dir, engine=ENGINE)
    write({**ALIKE, "train/oak/3.png": (0, 0, 1)})
    updated = imgrec.update("trees", data_dir=data_dir, engine=ENGINE)
    assert [image.filename for image in updated.difference.added] == ["train/oak/3.png"]  # type: ignore[union-attr]


def test_an_update_of_what_a_function_embedded_needs_the_function(
    source: Path, data_dir: Path
) -> None:
    options = {"near_dups": "group", "data_dir": data_dir, "max_bad": 1.0, "engine": ENGINE}
    packed = imgrec.pack(source, embeddings=mean_colours, **options)  # type: ignore[arg-type]
    assert packed.report.options["embeddings"] == "mean_colours()"
    (source / "train/oak/3.png").write_bytes(encode(drawn(3), "PNG"))
    with pytest.raises(UsageError, match=r"made by a function, mean_colours\(\)"):
        imgrec.update("trees", data_dir=data_dir, engine=ENGINE)
    updated = imgrec.update("trees", data_dir=data_dir, engine=ENGINE, embeddings=mean_colours)
    assert updated.is_new


def here(function: Callable[[object], object], tasks: Sequence[object]) -> object:
    return map(function, tasks)


@examples(30)
@given(st.integers(0, 1 << 32), st.integers(2, 40), st.integers(-8, 8))
def test_a_search_finds_the_nearest_vectors_of_any_width_and_scale(
    seed: int, width: int, power: int
) -> None:
    chance = np.random.default_rng(seed)
    vectors = chance.normal(size=(30, width))
    rows = quantize(vectors)
    assert np.array_equal(rows, quantize(vectors * 2.0**power))
    products = rows.astype(np.int64) @ rows.T.astype(np.int64)
    np.fill_diagonal(products, -(1 << 20))
    wanted = {
        (min(row, int(other)), max(row, int(other)))
        for row in range(30)
        for other in np.lexsort((np.arange(30), -products[row]))[:2]
        if products[row, other] >= 0
    }
    found = search_rows(rows, None, here, Effort(2, 0.0, 100), mirrors=False)  # type: ignore[arg-type]
    assert {*zip(found.first.tolist(), found.second.tolist(), strict=True)} == wanted
    assert not found.is_mirrored.any()


def test_many_vectors_are_searched_in_cells() -> None:
    rows = quantize(np.random.default_rng(1).normal(size=(100, 7)))
    pairs = np.repeat(rows, 2, axis=0)
    found = search_rows(pairs, None, here, Effort(1, 0.0, 0, 10), mirrors=False)  # type: ignore[arg-type]
    expected = list(zip(range(0, 200, 2), range(1, 200, 2), strict=True))
    assert list(zip(found.first.tolist(), found.second.tolist(), strict=True)) == expected


def test_each_candidate_is_compared_both_ways() -> None:
    rows = np.array([[126, 9], [126, 8]], np.int8)
    found = embedded_candidates(rows, None, here)  # type: ignore[arg-type]
    columns = (found.first, found.second, found.is_mirrored)
    assert [column.tolist() for column in columns] == [[0, 0], [1, 1], [0, 1]]


def test_no_embeddings_are_none() -> None:
    assert open_embeddings("") is None
