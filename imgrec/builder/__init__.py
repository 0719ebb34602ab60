"""A builder for TFDS that packs with imgrec, and reads packs.

Importing this registers it:

import imgrec.builder
import tensorflow_datasets as tfds

kwargs = {"source": "./flowers", "val_split": 0.1}
train = tfds.load("imgrec", builder_kwargs=kwargs, split="train", as_supervised=True)
"""

from imgrec.extras import needed

needed("tensorflow_datasets", extra="tfds", what="imgrec.builder")

from imgrec.builder.dataset_builder import Builder  # noqa: E402  # TFDS is needed for it
from imgrec.builder.provider import register  # noqa: E402

__all__ = ["Builder"]

register()
