"""The packers: imgrec and its peers, each used as its documentation shows.

`python -m benching.packers pack NAME SOURCE OUTPUT` packs in the Python of the peer.
`python -m benching.packers sizes NAME OUTPUT` prints the number of images and of their bytes.
"""

from __future__ import annotations

import json
import os
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

SHARD_BYTES = 128 << 20
WORKERS = 2


class Source(NamedTuple):
    """An image file; `key` is its name in the folder, without the extension."""

    path: str
    key: str
    label: int

    def read(self) -> bytes:
        """Return its bytes."""
        return Path(self.path).read_bytes()


def images_of(folder: str | Path) -> list[Source]:
    """List the images of a folder of class folders."""
    return [
        Source(f"{folder}/{name}/{file}", f"{name}/{file[:-4]}", label)
        for label, name in enumerate(sorted(os.listdir(folder)))
        for file in sorted(os.listdir(f"{folder}/{name}"))
    ]


def halves(images: Sequence[Source], count: int = WORKERS) -> list[Sequence[Source]]:
    """Divide images into a run for each worker."""
    size = -(-len(images) // count)
    return [images[start : start + size] for start in range(0, len(images), size)]


def _in_processes(
    write: Callable[[Sequence[Source], str], None], ending: str, workers: int = WORKERS
) -> Callable[[Path, Path], None]:
    """Let each worker write its own part, where a peer has no workers itself."""

    def pack(source: Path, output: Path) -> None:
        runs = halves(images_of(source), workers)
        jobs = [(part, f"{output}/{number}{ending}") for number, part in enumerate(runs)]
        if workers == 1:
            write(*jobs[0])
            return
        with Pool(workers) as pool:
            pool.starmap(write, jobs, chunksize=1)

    return pack


# array_record: a record is a label of four bytes and the image, which is less work than a protobuf.


def _write_array_record(images: Sequence[Source], path: str) -> None:
    from array_record.python.array_record_module import ArrayRecordWriter

    writer = ArrayRecordWriter(path, "group_size:1,uncompressed")
    for image in images:
        writer.write(image.label.to_bytes(4, "little") + image.read())
    writer.close()


def _array_record_sizes(output: Path) -> Iterator[int]:
    from array_record.python.array_record_module import ArrayRecordReader

    for path in sorted(output.glob("*.array_record")):
        reader = ArrayRecordReader(str(path))
        yield from (len(reader.read([number])[0]) - 4 for number in range(reader.num_records()))


# Hugging Face datasets: an image folder to Parquet, with the bytes in it.


def _pack_huggingface(source: Path, output: Path) -> None:
    os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_DISABLE_PROGRESS_BARS": "1"}
    os.environ["HF_HOME"] = str(output / ".home")
    from datasets import load_dataset_builder

    cache = str(output / ".cache")
    builder = load_dataset_builder("imagefolder", data_dir=str(source), cache_dir=cache)
    builder.download_and_prepare(str(output), file_format="parquet", num_proc=WORKERS)


def _parquet_sizes(output: Path) -> Iterator[int]:
    from pyarrow.parquet import ParquetFile

    for path in sorted(output.glob("*.parquet")):
        for batch in ParquetFile(path).iter_batches(256, columns=["image"]):
            yield from (len(image["bytes"]) for image in batch.column(0).to_pylist())


# LitData: optimize.


def litdata_sample(image: Source) -> dict[str, Any]:
    """Return the sample that LitData stores."""
    return {"image": image.read(), "label": image.label}


def _pack_litdata(source: Path, output: Path) -> None:
    import litdata

    litdata.optimize(
        fn=litdata_sample,
        inputs=images_of(source),
        output_dir=str(output / "data"),
        num_workers=WORKERS,
        chunk_bytes="64MB",
    )


def _litdata_sizes(output: Path) -> Iterator[int]:
    import litdata

    yield from (len(each["image"]) for each in litdata.StreamingDataset(str(output / "data")))


# MosaicML streaming: an MDSWriter in each process, and one index for all, as its guide shows.


def _write_mds(images: Sequence[Source], folder: str) -> None:
    from streaming import MDSWriter

    columns = {"image": "bytes", "label": "int"}
    with MDSWriter(out=folder, columns=columns, size_limit=SHARD_BYTES) as sink:
        for image in images:
            sink.write({"image": image.read(), "label": image.label})


def _pack_mds(source: Path, output: Path) -> None:
    _in_processes(_write_mds, "")(source, output)
    from streaming.base.util import merge_index

    merge_index(str(output), keep_local=True)


def _mds_sizes(output: Path) -> Iterator[int]:
    from streaming import StreamingDataset

    data = StreamingDataset(local=str(output), batch_size=1)
    yield from (len(data[number]["image"]) for number in range(len(data)))


# webdataset: ShardWriter.


def _write_tar(images: Sequence[Source], prefix: str) -> None:
    import webdataset as wds

    pattern = f"{prefix}%06d.tar"
    with wds.ShardWriter(pattern, maxsize=SHARD_BYTES, maxcount=10_000, verbose=0) as sink:
        for image in images:
            sink.write({"__key__": image.key, "jpg": image.read(), "cls": image.label})


def _tar_sizes(output: Path) -> Iterator[int]:
    for path in sorted(output.glob("*.tar")):
        with tarfile.open(path) as shard:
            yield from (member.size for member in shard if member.name.endswith(".jpg"))


def _file_sizes(output: Path) -> Iterator[int]:
    yield from (path.stat().st_size for path in output.rglob("*.jpg"))


# TFDS: a GeneratorBasedBuilder as its guide has it. And tf.io.TFRecordWriter, as tutorials use it.


def _pack_tfds(source: Path, output: Path) -> None:
    import tensorflow_datasets as tfds

    class Peer(tfds.core.GeneratorBasedBuilder):
        """Images in class folders."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            names = sorted(folder.name for folder in source.iterdir())
            features = tfds.features.FeaturesDict(
                {"image": tfds.features.Image(), "label": tfds.features.ClassLabel(names=names)}
            )
            return tfds.core.DatasetInfo(
                builder=self, features=features, supervised_keys=("image", "label")
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            del dl_manager
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            for path in sorted(source.glob("*/*.jpg")):
                name = path.relative_to(source).as_posix()
                yield name, {"image": path, "label": path.parent.name}

    Peer(data_dir=output).download_and_prepare()


def _write_tfrecord(images: Sequence[Source], path: str) -> None:
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


def _tfrecord_sizes(output: Path) -> Iterator[int]:
    """Read TFRecords with TensorFlow alone."""
    import tensorflow as tf

    paths = [path for path in output.glob("**/*.tfrecord*") if path.suffix != ".idx"]
    spec = {"image": tf.io.FixedLenFeature([], tf.string)}
    data = tf.data.TFRecordDataset(sorted(map(str, paths)), num_parallel_reads=2).batch(256)
    for batch in data:
        yield from tf.strings.length(tf.io.parse_example(batch, spec)["image"]).numpy().tolist()


# libjpeg-turbo alone: no packer that decodes every image can be faster.


def _decode(paths: Sequence[str]) -> int:
    import simplejpeg

    for path in paths:
        with open(path, "rb") as file:
            simplejpeg.decode_jpeg(file.read(), min_height=1, min_width=1, min_factor=8)
    return len(paths)


def _decode_all(source: Path, output: Path) -> None:
    paths = [image.path for image in images_of(source)]
    with Pool(WORKERS) as pool:
        counts = pool.map(_decode, [paths[n::WORKERS] for n in range(WORKERS)], chunksize=1)
    (output / "decoded").write_text(str(sum(counts)))


def _decoded_sizes(output: Path) -> Iterator[int]:
    yield from [0] * int((output / "decoded").read_text())


def imgrec_pack(source: Path, output: Path, *options: str) -> Sequence[str]:
    """Return the command that packs a source with imgrec."""
    return [
        *(sys.executable, "-P", "-m", "imgrec", "pack", str(source), "--quiet"),
        *("--data-dir", str(output), "--workers", "2", "--val-split", "0.1", *options),
    ]


class Packer(NamedTuple):
    """A contender that packs a folder of images."""

    title: str
    pack: Callable[[Path, Path], object]
    """Packs a source into an output; or returns the command that does so."""
    sizes: Callable[[Path], Iterator[int]]
    """Yields the size of each image in an output."""
    environment: str = ""
    """The environment of the peer; "" for this one."""
    is_command: bool = False
    reader: str = ""
    """The environment that reads the output back, if it is another one."""
    photos_only: bool = False

    @property
    def is_ours(self) -> bool:
        """Whether this is imgrec."""
        return self.title.startswith("**")


def _imgrec(title: str, check: str) -> Packer:
    return Packer(
        title, lambda source, output: imgrec_pack(source, output, "--check", check),
        _tfrecord_sizes, is_command=True, reader="tensorflow",
    )  # fmt: skip


PACKERS: Mapping[str, Packer] = {
    "tar": Packer(
        "`tar cf`",
        lambda source, output: ["tar", "cf", f"{output}/all.tar", "-C", f"{source}", "."],
        _tar_sizes, is_command=True,
    ),
    "cp": Packer(
        "`cp -r`", lambda source, output: ["cp", "-r", f"{source}", f"{output}/copy"],
        _file_sizes, is_command=True,
    ),
    "libjpeg": Packer(
        "libjpeg-turbo alone, 1/8 scale, 2 processes", _decode_all, _decoded_sizes,
        photos_only=True,
    ),
    "structure": _imgrec("**imgrec** `--check structure`", "structure"),
    "decode": _imgrec("**imgrec**, every image decoded", "decode"),
    "tfds": Packer(
        "TFDS `GeneratorBasedBuilder`", _pack_tfds, _tfrecord_sizes, "tensorflow"
    ),
    "tutorial": Packer(
        "`tf.io.TFRecordWriter`", _in_processes(_write_tfrecord, ".tfrecord", 1),
        _tfrecord_sizes, "tensorflow",
    ),
    "tutorial2": Packer(
        "`tf.io.TFRecordWriter`, 2 processes", _in_processes(_write_tfrecord, ".tfrecord"),
        _tfrecord_sizes, "tensorflow",
    ),
    "webdataset": Packer(
        "webdataset `ShardWriter`, 2 processes", _in_processes(_write_tar, "-"), _tar_sizes,
        "webdataset",
    ),
    "mds": Packer("MosaicML `MDSWriter`, 2 processes", _pack_mds, _mds_sizes, "mosaicml"),
    "huggingface": Packer(
        "Hugging Face imagefolder to Parquet, `num_proc=2`", _pack_huggingface, _parquet_sizes,
        "huggingface",
    ),
    "array_record": Packer(
        "array_record, uncompressed, 2 processes",
        _in_processes(_write_array_record, ".array_record"), _array_record_sizes, "grain",
    ),
    "litdata": Packer(
        "LitData `optimize`, `num_workers=2`", _pack_litdata, _litdata_sizes, "litdata"
    ),
}  # fmt: skip


def main() -> None:
    """Pack, or print the sizes of a pack."""
    verb, name, *folders = sys.argv[1:]
    if verb == "pack":
        PACKERS[name].pack(Path(folders[0]), Path(folders[1]))
        return
    sizes = list(PACKERS[name].sizes(Path(folders[0])))
    print(json.dumps([len(sizes), sum(sizes)]))


if __name__ == "__main__":
    main()
