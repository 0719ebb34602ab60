"""TFRecords for sources, as TensorFlow's own tools write them."""

from __future__ import annotations

from pathlib import Path

from downloads import photo
from tensorflow_datasets.proto import tf_example_pb2

from imgrec.codec.tfrecord import frame


def example(**features: object) -> bytes:
    """A serialized tf.train.Example, as TensorFlow writes it."""
    made = tf_example_pb2.Example()
    for name, value in features.items():
        feature = made.features.feature[name.replace("__", "/")]
        if isinstance(value, int):
            feature.int64_list.value.append(value)
        else:
            data = value if isinstance(value, bytes) else str(value).encode()
            feature.bytes_list.value.append(data)
    return made.SerializeToString(deterministic=True)


def tfrecord(path: Path, *records: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    framed = []
    for record in records:
        head, tail = frame(record)
        framed.append(head + record + tail)
    path.write_bytes(b"".join(framed))


def flowers_on_tpu(
    root: Path, folder: str = "tfrecords-jpeg-224x224"
) -> dict[str, tuple[str, str]]:
    """Write the TFRecords of a competition; return split and label by id."""
    expected = {}
    for split in ("train", "val", "test"):
        records = []
        for number in range(4):
            name = f"{split}{number}"
            label = {} if split == "test" else {"class": number % 2}
            records.append(example(id=name, image=photo(name), **label))
            expected[name] = (split, str(number % 2) if label else "")
        tfrecord(root / folder / split / "00-224x224-4.tfrec", *records)
    return expected
