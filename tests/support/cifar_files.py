"""Files of CIFAR, with a few images each, as they are published."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable, Mapping

from imgrec.codec.cifar_pickle import ByteArray

IMAGE = 3072
NAMES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
FINE, COARSE = ("apple", "bear", "crab"), ("fruit", "beast")
BATCHES = tuple(f"data_batch_{number}" for number in range(1, 6))


def pixels(seed: int, count: int = 1) -> bytes:
    return random.Random(seed).randbytes(IMAGE * count)


class Python2:
    """Writes pickles of protocol 2 the way Python 2's cPickle did."""

    def __init__(self) -> None:
        self.memo = 0

    def put(self) -> bytes:
        self.memo += 1
        return b"q%c" % self.memo if self.memo < 256 else b"r" + struct.pack("<I", self.memo)

    def string(self, text: bytes) -> bytes:
        if len(text) < 256:
            return b"U%c" % len(text) + text + self.put()
        return b"T" + struct.pack("<I", len(text)) + text + self.put()

    def integer(self, number: int) -> bytes:
        if 0 <= number < 256:
            return b"K%c" % number
        if 0 <= number < 65536:
            return b"M" + struct.pack("<H", number)
        return b"J" + struct.pack("<i", number)

    def list(self, items: Iterable[object]) -> bytes:
        return b"]" + self.put() + b"(" + b"".join(map(self.value, items)) + b"e"

    def array(self, rows: int, data: bytes) -> bytes:
        return b"".join(
            [
                b"cnumpy.core.multiarray\n_reconstruct\n", self.put(),
                b"cnumpy\nndarray\n", self.put(), b"K\x00\x85", self.put(),
                self.string(b"b"), b"\x87R", self.put(),
                b"(K\x01", self.integer(rows), self.integer(len(data) // rows), b"\x86",
                b"cnumpy\ndtype\n", self.put(), self.string(b"u1"), b"K\x00K\x01\x87R", self.put(),
                b"(K\x03", self.string(b"|"), b"NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tb",
                b"\x89", self.string(data), b"tb",
            ]
        )  # fmt: skip

    def value(self, value: object) -> bytes:
        if isinstance(value, bytes):
            return self.string(value)
        if isinstance(value, int):
            return self.integer(value)
        if isinstance(value, ByteArray):
            return self.array(value.shape[0], value.data)
        assert isinstance(value, list)
        return self.list(value)

    def dump(self, items: Mapping[bytes, object]) -> bytes:
        body = b"}" + self.put() + b"("
        for key, value in items.items():
            body += self.string(key) + self.value(value)
        return b"\x80\x02" + body + b"u."


def batch(labels: list[int], data: bytes, **more: object) -> bytes:
    """Return a batch of CIFAR-10 as it is published."""
    return Python2().dump(
        {
            b"batch_label": b"training batch 1 of 5",
            b"labels": labels,
            b"data": ByteArray((len(data) // IMAGE, IMAGE), data),
            b"filenames": [b"thing_s_%06d.png" % number for number in range(len(labels))],
        }
    )


def meta(names: Iterable[str] = NAMES) -> bytes:
    return Python2().dump(
        {
            b"num_cases_per_batch": 10000,
            b"label_names": [name.encode() for name in names],
            b"num_vis": 3072,
        }
    )


def python_files() -> dict[str, bytes]:
    """Two images a batch; image i of the training set has label i, and that of the test 9 - i."""
    files = {
        name: batch([2 * place, 2 * place + 1], pixels(place, 2))
        for place, name in enumerate(BATCHES)
    }
    return {**files, "test_batch": batch([9, 8], pixels(99, 2)), "batches.meta": meta()}


def binary_batch(labels: Iterable[Iterable[int]], data: bytes) -> bytes:
    images = [data[at : at + IMAGE] for at in range(0, len(data), IMAGE)]
    return b"".join(bytes(lead) + image for lead, image in zip(labels, images, strict=True))


def binary_files() -> dict[str, bytes]:
    """The same images as in `python_files`."""
    files = {
        f"{name}.bin": binary_batch([[2 * place], [2 * place + 1]], pixels(place, 2))
        for place, name in enumerate(BATCHES)
    }
    return {
        **files,
        "test_batch.bin": binary_batch([[9], [8]], pixels(99, 2)),
        "batches.meta.txt": "\n".join((*NAMES, "", "")).encode(),
    }


def python_100() -> dict[str, bytes]:
    def file(fine: list[int], coarse: list[int], data: bytes) -> bytes:
        return Python2().dump(
            {
                b"filenames": [b"thing_s_%06d.png" % number for number in range(len(fine))],
                b"batch_label": b"training batch 1 of 1",
                b"fine_labels": fine,
                b"coarse_labels": coarse,
                b"data": ByteArray((len(fine), IMAGE), data),
            }
        )

    names = {
        b"fine_label_names": [name.encode() for name in FINE],
        b"coarse_label_names": [name.encode() for name in COARSE],
    }
    return {
        "train": file([2, 0, 1], [1, 0, 1], pixels(1, 3)),
        "test": file([1], [1], pixels(2)),
        "meta": Python2().dump(names),
        "file.txt~": b"",
    }


def binary_100() -> dict[str, bytes]:
    """The same images as in `python_100`."""
    return {
        "train.bin": binary_batch([[1, 2], [0, 0], [1, 1]], pixels(1, 3)),
        "test.bin": binary_batch([[1, 1]], pixels(2)),
        "fine_label_names.txt": "\r\n".join((*FINE, "")).encode(),
        "coarse_label_names.txt": "\n".join(COARSE).encode(),
    }


TRAINING = [
    image for place in range(5) for image in (pixels(place, 2)[:IMAGE], pixels(place, 2)[IMAGE:])
]
TESTING = [pixels(99, 2)[:IMAGE], pixels(99, 2)[IMAGE:]]


def array(shape: bytes, order: bytes, data: bytes) -> bytes:
    """A pickle of one array, its shape and order as given."""
    made = b"cnumpy.core.multiarray\n_reconstruct\ncnumpy\nndarray\nK\x00\x85U\x01b\x87R"
    kind = b"cnumpy\ndtype\nU\x02u1K\x00K\x01\x87R"
    state = b"(K\x01" + shape + kind + order + b"U%c" % len(data) + data + b"t"
    return b"\x80\x02}U\x04data" + made + state + b"bs."


class Call:
    """Pickles as a call of a function."""

    def __init__(self, function: object, *arguments: object) -> None:
        self.call = function, arguments

    def __call__(self) -> None:
        """Be what may be called in turn, which pickling demands."""

    def __reduce__(self) -> tuple[object, ...]:
        return self.call
