"""Miniatures of what well-known sites hand out, as folders and as zips."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from PIL import Image

Files = dict[str, bytes]


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
    ids: bool = True
    """Whether records have ids."""


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


def dog_breed() -> Download:
    train, test = _hex("dog", 12), _hex("dogtest", 5)
    breeds = ["boston_bull", "dingo", "pekinese"]
    rows = [f"{name},{breeds[n % 3]}" for n, name in enumerate(train)]
    files = {
        **photos("train", train),
        **photos("test", test),
        "labels.csv": csv("id,breed", *rows),
        "sample_submission.csv": csv("id," + ",".join(breeds), *[f"{t},0.3,0.3,0.4" for t in test]),
    }
    return Download(
        "dog-breed-identification",
        files,
        {f"train/{name}.jpg": breeds[n % 3] for n, name in enumerate(train)},
        {f"test/{name}.jpg": name for name in test},
    )


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
    train, test = _hex("aptos", 12), _hex("aptostest", 4)
    files = {
        **photos("train_images", train, ".png", "PNG"),
        **photos("test_images", test, ".png", "PNG"),
        "train.csv": csv("id_code,diagnosis", *[f"{t},{n % 4}" for n, t in enumerate(train)]),
        "test.csv": csv("id_code", *test),
        "sample_submission.csv": csv("id_code,diagnosis", *[f"{t},0" for t in test]),
    }
    return Download(
        "aptos2019-blindness-detection",
        files,
        {f"train_images/{t}.png": str(n % 4) for n, t in enumerate(train)},
        {f"test_images/{t}.png": t for t in test},
    )


def plant_pathology_2020() -> Download:
    names = ["healthy", "multiple_diseases", "rust", "scab"]
    train = [f"Train_{n}" for n in range(12)]
    test = [f"Test_{n}" for n in range(4)]
    flags = lambda n: ",".join(str(int(n % 4 == k)) for k in range(4))  # noqa: E731
    files = {
        **photos("images", [*train, *test]),
        "train.csv": csv(
            "image_id," + ",".join(names), *[f"{t},{flags(n)}" for n, t in enumerate(train)]
        ),
        "test.csv": csv("image_id", *test),
        "sample_submission.csv": csv(
            "image_id," + ",".join(names), *[f"{t},0.25,0.25,0.25,0.25" for t in test]
        ),
    }
    return Download(
        "plant-pathology-2020-fgvc7",
        files,
        {f"images/{t}.jpg": names[n % 4] for n, t in enumerate(train)},
        {f"images/{t}.jpg": t for t in test},
    )


def plant_pathology_2021() -> Download:
    cells = [
        "healthy",
        "scab",
        "scab frog_eye_leaf_spot",
        "rust",
        "rust frog_eye_leaf_spot",
        "complex",
    ]
    train = [f"{name}.jpg" for name in _hex("pp21", 18)]
    test = [f"{name}.jpg" for name in _hex("pp21t", 3)]
    files = {
        **photos("train_images", train, ""),
        **photos("test_images", test, ""),
        "train.csv": csv("image,labels", *[f"{t},{cells[n % 6]}" for n, t in enumerate(train)]),
        "sample_submission.csv": csv("image,labels", *[f"{t},healthy" for t in test]),
    }
    return Download(
        "plant-pathology-2021-fgvc8",
        files,
        {f"train_images/{t}": tuple(sorted(cells[n % 6].split())) for n, t in enumerate(train)},
        {f"test_images/{t}": t for t in test},
    )


def cassava() -> Download:
    train = [f"{1000 + n}.jpg" for n in range(15)]
    names = {
        "0": "Bacterial Blight",
        "1": "Brown Streak",
        "2": "Green Mottle",
        "3": "Mosaic",
        "4": "Healthy",
    }
    files = {
        **photos("train_images", train, ""),
        **photos("test_images", ["2216849948.jpg"], ""),
        "train.csv": csv("image_id,label", *[f"{t},{n % 5}" for n, t in enumerate(train)]),
        "label_num_to_disease_map.json": json.dumps(names).encode(),
        "sample_submission.csv": csv("image_id,label", "2216849948.jpg,4"),
        "train_tfrecords/ld_train00-1338.tfrec": b"\0" * 64,
    }
    return Download(
        "cassava-leaf-disease-classification",
        files,
        {f"train_images/{t}": names[str(n % 5)] for n, t in enumerate(train)},
        {"test_images/2216849948.jpg": "2216849948.jpg"},
    )


def imet() -> Download:
    train, test = _hex("imet", 12), _hex("imett", 3)
    names = {str(n): f"country::c{n}" if n < 3 else f"tags::t{n}" for n in range(6)}
    cells = ["0 3", "1", "2 4 5", "1 3"]
    files = {
        **photos("train", train, ".png", "PNG"),
        **photos("test", test, ".png", "PNG"),
        "train.csv": csv("id,attribute_ids", *[f"{t},{cells[n % 4]}" for n, t in enumerate(train)]),
        "labels.csv": csv("attribute_id,attribute_name", *[f"{k},{v}" for k, v in names.items()]),
        "sample_submission.csv": csv("id,attribute_ids", *[f"{t},0 1 2" for t in test]),
    }
    return Download(
        "imet-2020-fgvc7",
        files,
        {
            f"train/{t}.png": tuple(sorted(names[w] for w in cells[n % 4].split()))
            for n, t in enumerate(train)
        },
        {f"test/{t}.png": t for t in test},
    )


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
    train, test = _hex("hist", 12), _hex("histt", 4)
    files = {
        **photos("train", train, ".tif", "TIFF"),
        **photos("test", test, ".tif", "TIFF"),
        "train_labels.csv": csv("id,label", *[f"{t},{n % 2}" for n, t in enumerate(train)]),
        "sample_submission.csv": csv("id,label", *[f"{t},0" for t in test]),
    }
    return Download(
        "histopathologic-cancer-detection",
        files,
        {f"train/{t}.tif": str(n % 2) for n, t in enumerate(train)},
        {f"test/{t}.tif": t for t in test},
    )


def siim_isic() -> Download:
    train = [f"ISIC_{15000 + n:07}" for n in range(16)]
    test = [f"ISIC_{52000 + n:07}" for n in range(4)]
    sites = ["torso", "head/neck", ""]
    rows = [
        f"{t},IP_{n % 5},{'male' if n % 2 else 'female'},{40 + n % 3 * 5}.0,{sites[n % 3]},unknown,"
        f"{'malignant' if n % 4 == 0 else 'benign'},{int(n % 4 == 0)}"
        for n, t in enumerate(train)
    ]
    tests = [f"{t},IP_{n + 90},male,50.0,torso" for n, t in enumerate(test)]
    files = {
        **photos("jpeg/train", train),
        **photos("jpeg/test", test),
        **{f"train/{t}.dcm": b"\0" * 128 + b"DICM" for t in train},
        **{f"test/{t}.dcm": b"\0" * 128 + b"DICM" for t in test},
        "tfrecords/train00-2071.tfrec": b"\0" * 64,
        "train.csv": csv(
            "image_name,patient_id,sex,age_approx,anatom_site_general_challenge,diagnosis,benign_malignant,target",
            *rows,
        ),
        "test.csv": csv(
            "image_name,patient_id,sex,age_approx,anatom_site_general_challenge", *tests
        ),
        "sample_submission.csv": csv("image_name,target", *[f"{t},0" for t in test]),
    }
    return Download(
        "siim-isic-melanoma-classification",
        files,
        {f"jpeg/train/{t}.jpg": str(int(n % 4 == 0)) for n, t in enumerate(train)},
        {f"jpeg/test/{t}.jpg": t for t in test},
    )


def leaf() -> Download:
    species = ["Acer_Opalus", "Quercus_Rubra", "Tilia_Tomentosa"]
    train = [str(n) for n in range(1, 24, 2)]
    test = [str(n) for n in range(2, 12, 2)]
    columns = ",".join(f"margin{n}" for n in range(1, 9))
    files = {
        **photos("images", [*train, *test]),
        "train.csv": csv(
            f"id,species,{columns}",
            *[
                f"{t},{species[n % 3]}," + ",".join(f"0.0{n + k}" for k in range(8))
                for n, t in enumerate(train)
            ],
        ),
        "test.csv": csv(
            f"id,{columns}", *[f"{t}," + ",".join("0.01" for _ in range(8)) for t in test]
        ),
        "sample_submission.csv": csv(
            "id," + ",".join(species), *[f"{t},0.3,0.3,0.4" for t in test]
        ),
    }
    return Download(
        "leaf-classification",
        files,
        {f"images/{t}.jpg": species[n % 3] for n, t in enumerate(train)},
        {f"images/{t}.jpg": t for t in test},
    )


def cifar10() -> Download:
    names = ["frog", "truck", "deer"]
    train = [str(n) for n in range(1, 13)]
    test = [str(n) for n in range(1, 21)]
    files = {
        **photos("train", train, ".png", "PNG"),
        **photos("test", test, ".png", "PNG"),
        "trainLabels.csv": csv("id,label", *[f"{t},{names[n % 3]}" for n, t in enumerate(train)]),
        "sampleSubmission.csv": csv("id,label", *[f"{t},cat" for t in test]),
    }
    return Download(
        "cifar-10",
        files,
        {f"train/{t}.png": names[n % 3] for n, t in enumerate(train)},
        {f"test/{t}.png": t for t in test},
    )


def happywhale() -> Download:
    train = [f"{name}.jpg" for name in _hex("whale", 12)]
    test = [f"{name}.jpg" for name in _hex("whalet", 3)]
    files = {
        **photos("train_images", train, ""),
        **photos("test_images", test, ""),
        "train.csv": csv(
            "image,species,individual_id",
            *[f"{t},{'beluga' if n % 2 else 'orca'},w{n % 4}" for n, t in enumerate(train)],
        ),
        "sample_submission.csv": csv("image,predictions", *[f"{t},w1 w2 w3" for t in test]),
    }
    return Download("happy-whale-and-dolphin", files, refused="--label-col")


def landmarks() -> Download:
    train, test = _hex("land", 12), _hex("landt", 4)
    place = lambda t: f"{t[0]}/{t[1]}/{t[2]}/{t}"  # noqa: E731
    files = {
        **photos("train", [place(t) for t in train]),
        **photos("test", [place(t) for t in test]),
        "train.csv": csv(
            "id,landmark_id", *[f"{t},{(7, 30, 512)[n % 3]}" for n, t in enumerate(train)]
        ),
        "sample_submission.csv": csv("id,landmarks", *[f"{t},7 0.1" for t in test]),
    }
    return Download(
        "landmark-recognition-2020",
        files,
        {f"train/{place(t)}.jpg": str((7, 30, 512)[n % 3]) for n, t in enumerate(train)},
        {f"test/{place(t)}.jpg": t for t in test},
    )


def plant_seedlings() -> Download:
    names = ["Black-grass", "Common wheat", "Sugar beet"]
    files: Files = {}
    labels: dict[str, object] = {}
    for n in range(9):
        path = f"train/{names[n % 3]}/{Random(n).getrandbits(32):08x}.png"
        files[path] = photo(path, "PNG")
        labels[path] = names[n % 3]
    test = [f"{name}.png" for name in _hex("seed", 4)]
    files |= photos("test", test, "", "PNG")
    files["sample_submission.csv"] = csv("file,species", *[f"{t},Sugar beet" for t in test])
    return Download("plant-seedlings-classification", files, labels, {f"test/{t}": t for t in test})


ALL: tuple[Callable[[], Download], ...] = (
    dog_breed, dogs_vs_cats, dogs_vs_cats_redux, dogs_vs_cats_extracted, aptos,
    plant_pathology_2020,
    plant_pathology_2021, cassava, imet, protein_atlas, state_farm, histopathologic, siim_isic,
    leaf,
    cifar10, happywhale, landmarks, plant_seedlings,
)  # fmt: skip


def each() -> Iterator[Download]:
    for make in ALL:
        yield make()
