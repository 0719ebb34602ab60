"""Train a small network with Keras: pack pictures, load them, and state the accuracy reached.

Run `.venv/bin/python scripts/train_keras.py`. The sample flowers are packed into a temporary
folder. Exits with 1 if fewer of the images held back are recognised than `LEAST_ACCURACY`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

import keras
from keras import layers

import imgrec

SOURCE = Path(__file__).resolve().parent.parent / "sample_data" / "flowers"
LEAST_ACCURACY = 0.9
EPOCHS = 12


def make_model(classes: int, steps: int) -> keras.Model:
    """Return a network for images of any size, to be trained in so many steps."""
    model = keras.Sequential([keras.Input((None, None, 3)), layers.Rescaling(1 / 127.5, -1)])
    for channels in (16, 32, 64):
        model.add(layers.Conv2D(channels, 3, padding="same", use_bias=False))
        model.add(layers.BatchNormalization(momentum=0.9))
        model.add(layers.ReLU())
        model.add(layers.MaxPooling2D())
    model.add(layers.GlobalAveragePooling2D())
    model.add(layers.Dense(classes))
    model.compile(
        optimizer=keras.optimizers.Adam(keras.optimizers.schedules.CosineDecay(3e-3, steps)),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    return model


def run(seed: int) -> float:
    """Pack, train, and return the accuracy on images that were held back."""
    keras.utils.set_random_seed(seed)
    with tempfile.TemporaryDirectory() as data_dir:
        options = imgrec.PackOptions(data_dir=data_dir, val_split=0.25)
        classes = imgrec.pack(SOURCE, options).info.classes
        train = imgrec.load(
            data_dir, "train", image_size=48, batch_size=16, shuffle=True, seed=seed
        )
        val = imgrec.load(data_dir, "val", image_size=48, batch_size=16)
        model = make_model(len(classes), steps=EPOCHS * len(train))
        model.fit(train, validation_data=val, epochs=EPOCHS, verbose=2)
        return float(model.evaluate(val, verbose=0)[1])


def main() -> int:
    """Train, and say how well."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=0)
    reached = run(parser.parse_args().seed)
    print(f"validation accuracy {reached:.3f}, at least {LEAST_ACCURACY} expected")
    return 0 if reached >= LEAST_ACCURACY else 1


if __name__ == "__main__":
    sys.exit(main())
