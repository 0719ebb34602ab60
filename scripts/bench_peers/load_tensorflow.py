"""TFDS and Keras, reading TFRecords that TFDS wrote, and the raw folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from peer import Epoch, Task, serve


def _batches(data: Any) -> Epoch:
    def epoch() -> Iterator[Any]:
        for images, _labels in data:
            yield images

    return epoch


def documented(task: Task) -> Epoch:
    """Load as the documentation shows; TFDS keeps sets of less than 250 MiB in memory."""
    import tensorflow as tf
    import tensorflow_datasets as tfds

    data = tfds.load("peer", split="train", as_supervised=True, data_dir=task.packed)
    if task.size:
        side = (task.size, task.size)
        data = data.map(
            lambda image, label: (tf.image.resize(image, side), label), tf.data.AUTOTUNE
        )
    return _batches(data.batch(task.batch).prefetch(tf.data.AUTOTUNE))


def _tuned(finish: Callable[[Any], Any]) -> Callable[[Task], Epoch]:
    def make(task: Task) -> Epoch:
        """Load as the performance guide has it: decode in parallel, in any order, batch at once."""
        import tensorflow as tf
        import tensorflow_datasets as tfds

        config = tfds.ReadConfig(try_autocache=False, interleave_cycle_length=2)
        config.options.deterministic = False
        data = tfds.load(
            "peer",
            split="train",
            data_dir=task.packed,
            read_config=config,
            decoders={"image": tfds.decode.SkipDecoding()},
        )

        def decoded(record: Any) -> Any:
            image = tf.io.decode_jpeg(record["image"], channels=3)
            if task.size:
                image = tf.image.resize(image, (task.size, task.size))
            else:
                image.set_shape((32, 32, 3))
            return finish(image), record["label"]

        data = data.map(decoded, tf.data.AUTOTUNE, deterministic=False)
        data = data.batch(task.batch, num_parallel_calls=tf.data.AUTOTUNE)
        return _batches(data.prefetch(tf.data.AUTOTUNE))

    return make


def _as_uint8(image: Any) -> Any:
    import tensorflow as tf

    return image if image.dtype == tf.uint8 else tf.cast(tf.round(image), tf.uint8)


def _as_float(image: Any) -> Any:
    import tensorflow as tf

    return tf.cast(image, tf.float32)


def keras_folder(task: Task) -> Epoch:
    """Read the raw folder with Keras."""
    import keras

    side = task.size or 32
    data = keras.utils.image_dataset_from_directory(
        task.folder, image_size=(side, side), batch_size=task.batch, shuffle=False, verbose=False
    )
    return _batches(data)


CONTENDERS = {
    "documented": documented,
    "tuned": _tuned(_as_uint8),
    "tuned_float": _tuned(_as_float),
    "keras": keras_folder,
}

if __name__ == "__main__":
    serve(CONTENDERS)
