"""A TFDS builder that packs with imgrec and reads packs.

Importing this module registers it:

import imgrec.builder
import tensorflow_datasets as tfds

kwargs = {"source": "./flowers", "val_split": 0.1}
train = tfds.load("imgrec", builder_kwargs=kwargs, split="train", as_supervised=True)
"""

from imgrec.errors import import_extra

tfds = import_extra("tensorflow_datasets", extra="tfds", what="imgrec.builder")

from imgrec.loaders.tfds_builder import Builder, PackProvider  # noqa: E402  # it needs TFDS

__all__ = ["Builder"]

tfds.core.add_dataset_builder_provider(PackProvider())
