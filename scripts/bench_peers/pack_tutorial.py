"""tf.io.TFRecordWriter, as tutorials write it, but without decoding each image for its shape."""

from __future__ import annotations

from collections.abc import Sequence
from multiprocessing import Pool
from pathlib import Path

import check_tfrecords
from peer import Source, images_of, packer, parts


def write(images: Sequence[Source], path: str) -> None:
    """Write a TFRecord file."""
    import tensorflow as tf

    def of_bytes(value: bytes) -> tf.train.Feature:
        return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))

    def of_int(value: int) -> tf.train.Feature:
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))

    with tf.io.TFRecordWriter(path) as writer:
        for image in images:
            feature = {"image": of_bytes(image.read()), "label": of_int(image.label)}
            example = tf.train.Example(features=tf.train.Features(feature=feature))
            writer.write(example.SerializeToString())


def pack(source: Path, output: Path, workers: int) -> None:
    """Write a file in this process, or one in each of several."""
    images = images_of(source)
    if workers < 2:
        write(images, str(output / "all.tfrecord"))
        return
    with Pool(workers) as pool:
        jobs = [(part, f"{output}/{n}.tfrecord") for n, part in enumerate(parts(images, workers))]
        pool.starmap(write, jobs, chunksize=1)


if __name__ == "__main__":
    packer(pack, check_tfrecords.sizes)
