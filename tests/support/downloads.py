"""Miniatures of what well-known sites hand out, as folders and as zips."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import MappingProxyType
from typing import TypeVar

from PIL import Image

Files = dict[str, bytes]
T = TypeVar("T")


def photo(seed: str, kind: str = "JPEG") -> bytes:
    """A small picture that no other seed gives: photographs differ in size, so do these."""
    random = Random(seed)
    size = random.randrange(24, 64), random.randrange(24, 64)
    image = Image.frombytes("RGB", (4, 4), random.randbytes(48)).resize(
        size, Image.Resampling.BILINEAR
    )
    buffer = io.BytesIO()
    image.save(buffer, kind)
    return buffer.getvalue()


def photos(folder: str, ids: list[str], suffix: str = ".jpg", kind: str = "JPEG") -> Files:
    return {f"{folder}/{name}{suffix}": photo(f"{folder}/{name}", kind) for name in ids}


def csv(header: str, *rows: str) -> bytes:
    return "\n".join([header, *rows, ""]).encode()


def zipped(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


@dataclass(frozen=True)
class Download:
    """A download and what it means."""

    name: str
    files: Files
    labels: dict[str, object] = field(default_factory=dict)
    """Class, or classes, of each labelled image, by path."""
    test: dict[str, str] = field(default_factory=dict)
    """Ids of the images without labels, by path."""
    refused: str = ""
    """What the refusal must name; "" if it is packed."""


def write(download: Download, folder: Path) -> Path:
    root = folder / download.name
    for name, data in download.files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def write_zip(download: Download, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{download.name}.zip"
    path.write_bytes(zipped(download.files))
    return path


def _hex(prefix: str, count: int) -> list[str]:
    return [f"{Random(f'{prefix}{n}').getrandbits(48):012x}" for n in range(count)]


def competition(
    name: str,
    train: Mapping[str, object],
    test: list[str],
    *,
    table: tuple[str, str, Iterable[str]],
    sample: tuple[str, str],
    folders: tuple[str, str] = ("train", "test"),
    suffix: str = ".jpg",
    kind: str = "JPEG",
    files: Mapping[str, bytes] = MappingProxyType({}),
    refused: str = "",
) -> Download:
    """A train set with a table of labels, and a test set with a sample submission.

    `train` has the label of each image, `table` a name, a header and the cells after the id of each
    row, and `sample` a header and the same cells for every row.
    """
    own = {
        **photos(folders[0], list(train), suffix, kind),
        **photos(folders[1], test, suffix, kind),
        table[0]: csv(table[1], *(f"{t},{c}" for t, c in zip(train, table[2], strict=True))),
        "sample_submission.csv": csv(sample[0], *(f"{name},{sample[1]}" for name in test)),
    }
    return Download(
        name,
        {**own, **files},
        {} if refused else {f"{folders[0]}/{t}{suffix}": label for t, label in train.items()},
        {} if refused else {f"{folders[1]}/{t}{suffix}": t for t in test},
        refused,
    )


def _cycle(names: list[str], values: Sequence[T]) -> dict[str, T]:
    return {name: values[n % len(values)] for n, name in enumerate(names)}


def dog_breed() -> Download:
    breeds = ["boston_bull", "dingo", "pekinese"]
    train = _cycle(_hex("dog", 12), breeds)
    return competition(
        "dog-breed-identification", train, _hex("dogtest", 5),
        table=("labels.csv", "id,breed", train.values()),
        sample=("id," + ",".join(breeds), "0.3,0.3,0.4"),
    )  # fmt: skip


def dogs_vs_cats(test: str = "test1") -> Download:
    train = [f"{word}.{n}" for word in ("cat", "dog") for n in range(6)]
    ids = [str(n) for n in range(1, 6)]
    files = {
        "train.zip": zipped(photos("train", train)),
        f"{test}.zip": zipped(photos(test, ids)),
        "sampleSubmission.csv": csv("id,label", *[f"{n},0" for n in ids]),
    }
    return Download(
        "dogs-vs-cats",
        files,
        {f"train/{name}.jpg": name.partition(".")[0] for name in train},
        {f"{test}/{name}.jpg": name for name in ids},
    )


def dogs_vs_cats_redux() -> Download:
    return dogs_vs_cats("test")


def dogs_vs_cats_extracted() -> Download:
    packed = dogs_vs_cats("test")
    files = {"sampleSubmission.csv": packed.files["sampleSubmission.csv"]}
    for path in (*packed.labels, *packed.test):
        files[path] = photo(path.rpartition(".")[0])
    return Download("dogs-vs-cats-redux", files, packed.labels, packed.test)


def aptos() -> Download:
    train, test = _cycle(_hex("aptos", 12), "0123"), _hex("aptostest", 4)
    return competition(
        "aptos2019-blindness-detection", train, test, suffix=".png", kind="PNG",
        folders=("train_images", "test_images"),
        table=("train.csv", "id_code,diagnosis", train.values()),
        sample=("id_code,diagnosis", "0"), files={"test.csv": csv("id_code", *test)},
    )  # fmt: skip


def plant_pathology_2020() -> Download:
    names = ["healthy", "multiple_diseases", "rust", "scab"]
    train = _cycle([f"Train_{n}" for n in range(12)], names)
    test = [f"Test_{n}" for n in range(4)]
    header = "image_id," + ",".join(names)
    flags = [",".join(str(int(name == label)) for name in names) for label in train.values()]
    return competition(
        "plant-pathology-2020-fgvc7", train, test, folders=("images", "images"),
        table=("train.csv", header, flags), sample=(header, "0.25,0.25,0.25,0.25"),
        files={"test.csv": csv("image_id", *test)},
    )  # fmt: skip


def plant_pathology_2021() -> Download:
    spot = "frog_eye_leaf_spot"
    cells = ["healthy", "scab", f"scab {spot}", "rust", f"rust {spot}", "complex"]
    train = _cycle([f"{name}.jpg" for name in _hex("pp21", 18)], cells)
    return competition(
        "plant-pathology-2021-fgvc8",
        {name: tuple(sorted(cell.split())) for name, cell in train.items()},
        [f"{name}.jpg" for name in _hex("pp21t", 3)],
        folders=("train_images", "test_images"), suffix="",
        table=("train.csv", "image,labels", train.values()), sample=("image,labels", "healthy"),
    )  # fmt: skip


def cassava() -> Download:
    names = ["Bacterial Blight", "Brown Streak", "Green Mottle", "Mosaic", "Healthy"]
    train = _cycle([f"{1000 + n}.jpg" for n in range(15)], names)
    numbers = {str(number): name for number, name in enumerate(names)}
    return competition(
        "cassava-leaf-disease-classification", train, ["2216849948.jpg"],
        folders=("train_images", "test_images"), suffix="",
        table=("train.csv", "image_id,label", "01234" * 3), sample=("image_id,label", "4"),
        files={"label_num_to_disease_map.json": json.dumps(numbers).encode(),
               "train_tfrecords/ld_train00-1338.tfrec": b"\0" * 64},
    )  # fmt: skip


def imet() -> Download:
    names = {str(n): f"country::c{n}" if n < 3 else f"tags::t{n}" for n in range(6)}
    train = _cycle(_hex("imet", 12), ["0 3", "1", "2 4 5", "1 3"])
    return competition(
        "imet-2020-fgvc7",
        {name: tuple(sorted(names[w] for w in cell.split())) for name, cell in train.items()},
        _hex("imett", 3), suffix=".png", kind="PNG",
        table=("train.csv", "id,attribute_ids", train.values()),
        sample=("id,attribute_ids", "0 1 2"),
        files={"labels.csv": csv("attribute_id,attribute_name", *map(",".join, names.items()))},
    )  # fmt: skip


def protein_atlas() -> Download:
    train, test = _hex("hpa", 6), _hex("hpat", 2)
    files: Files = {}
    for colour in ("red", "green", "blue", "yellow"):
        files |= photos("train", [f"{t}_{colour}" for t in train], ".png", "PNG")
        files |= photos("test", [f"{t}_{colour}" for t in test], ".png", "PNG")
    files["train.csv"] = csv("Id,Target", *[f"{t},{n % 3} 7" for n, t in enumerate(train)])
    files["sample_submission.csv"] = csv("Id,Predicted", *[f"{t},0" for t in test])
    return Download("human-protein-atlas-image-classification", files, refused="--image-template")


def state_farm() -> Download:
    files: Files = {}
    labels: dict[str, object] = {}
    rows = []
    for n in range(18):
        name, label = f"img_{100 + n}.jpg", f"c{n % 3}"
        files |= photos(f"imgs/train/{label}", [name], "")
        labels[f"imgs/train/{label}/{name}"] = label
        rows.append(f"p{n % 4:03},{label},{name}")
    test = [f"img_{n}.jpg" for n in range(1, 5)]
    files |= photos("imgs/test", test, "")
    files["driver_imgs_list.csv"] = csv("subject,classname,img", *rows)
    files["sample_submission.csv"] = csv("img,c0,c1,c2", *[f"{t},0.3,0.3,0.4" for t in test])
    return Download(
        "state-farm-distracted-driver-detection",
        files,
        labels,
        {f"imgs/test/{t}": t for t in test},
    )


def histopathologic() -> Download:
    train = _cycle(_hex("hist", 12), "01")
    return competition(
        "histopathologic-cancer-detection", train, _hex("histt", 4), suffix=".tif", kind="TIFF",
        table=("train_labels.csv", "id,label", train.values()), sample=("id,label", "0"),
    )  # fmt: skip


def siim_isic() -> Download:
    train = _cycle([f"ISIC_{15000 + n:07}" for n in range(16)], "1000")
    test = [f"ISIC_{52000 + n:07}" for n in range(4)]
    about = "patient_id,sex,age_approx,anatom_site_general_challenge"
    sites = ["torso", "head/neck", ""]
    rows = [
        f"IP_{n % 5},{'male' if n % 2 else 'female'},{40 + n % 3 * 5}.0,{sites[n % 3]},unknown,"
        f"{'malignant' if n % 4 == 0 else 'benign'},{int(n % 4 == 0)}"
        for n in range(16)
    ]
    tests = [f"{t},IP_{n + 90},male,50.0,torso" for n, t in enumerate(test)]
    dicom = b"\0" * 128 + b"DICM"
    return competition(
        "siim-isic-melanoma-classification", train, test, folders=("jpeg/train", "jpeg/test"),
        table=("train.csv", f"image_name,{about},diagnosis,benign_malignant,target", rows),
        sample=("image_name,target", "0"),
        files={**{f"train/{t}.dcm": dicom for t in train}, **{f"test/{t}.dcm": dicom for t in test},
               "tfrecords/train00-2071.tfrec": b"\0" * 64,
               "test.csv": csv(f"image_name,{about}", *tests)},
    )  # fmt: skip


def leaf() -> Download:
    species = ["Acer_Opalus", "Quercus_Rubra", "Tilia_Tomentosa"]
    train = _cycle([str(n) for n in range(1, 24, 2)], species)
    test = [str(n) for n in range(2, 12, 2)]
    columns = ",".join(f"margin{n}" for n in range(1, 9))
    rows = [
        f"{name}," + ",".join(f"0.0{n + k}" for k in range(8))
        for n, name in enumerate(train.values())
    ]
    margins = ",".join(["0.01"] * 8)
    return competition(
        "leaf-classification", train, test, folders=("images", "images"),
        table=("train.csv", f"id,species,{columns}", rows),
        sample=("id," + ",".join(species), "0.3,0.3,0.4"),
        files={"test.csv": csv(f"id,{columns}", *[f"{t},{margins}" for t in test])},
    )  # fmt: skip


def cifar10() -> Download:
    train = _cycle([str(n) for n in range(1, 13)], ["frog", "truck", "deer"])
    return competition(
        "cifar-10", train, [str(n) for n in range(1, 21)], suffix=".png", kind="PNG",
        table=("trainLabels.csv", "id,label", train.values()), sample=("id,label", "cat"),
    )  # fmt: skip


def happywhale() -> Download:
    train = [f"{name}.jpg" for name in _hex("whale", 12)]
    rows = [f"{'beluga' if n % 2 else 'orca'},w{n % 4}" for n in range(12)]
    return competition(
        "happy-whale-and-dolphin", dict.fromkeys(train),
        [f"{name}.jpg" for name in _hex("whalet", 3)],
        folders=("train_images", "test_images"), suffix="",
        table=("train.csv", "image,species,individual_id", rows),
        sample=("image,predictions", "w1 w2 w3"), refused="--label-col",
    )  # fmt: skip


def landmarks() -> Download:
    train, test = _cycle(_hex("land", 12), ["7", "30", "512"]), _hex("landt", 4)
    place = lambda t: f"{t[0]}/{t[1]}/{t[2]}/{t}"  # noqa: E731
    files = {
        **photos("train", [place(t) for t in train]),
        **photos("test", [place(t) for t in test]),
        "train.csv": csv("id,landmark_id", *map(",".join, train.items())),
        "sample_submission.csv": csv("id,landmarks", *[f"{t},7 0.1" for t in test]),
    }
    return Download(
        "landmark-recognition-2020",
        files,
        {f"train/{place(t)}.jpg": label for t, label in train.items()},
        {f"test/{place(t)}.jpg": t for t in test},
    )


def plant_seedlings() -> Download:
    names = ["Black-grass", "Common wheat", "Sugar beet"]
    labels: dict[str, object] = {
        f"train/{names[n % 3]}/{Random(n).getrandbits(32):08x}.png": names[n % 3] for n in range(9)
    }
    files = {path: photo(path, "PNG") for path in labels}
    test = [f"{name}.png" for name in _hex("seed", 4)]
    files |= photos("test", test, "", "PNG")
    files["sample_submission.csv"] = csv("file,species", *[f"{t},Sugar beet" for t in test])
    return Download("plant-seedlings-classification", files, labels, {f"test/{t}": t for t in test})


ALL: tuple[Callable[[], Download], ...] = (
    dog_breed, dogs_vs_cats, dogs_vs_cats_redux, dogs_vs_cats_extracted, aptos,
    plant_pathology_2020, plant_pathology_2021, cassava, imet, protein_atlas, state_farm,
    histopathologic, siim_isic, leaf, cifar10, happywhale, landmarks, plant_seedlings,
)  # fmt: skip
