"""TFDS: GeneratorBasedBuilder, as its guide writes one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import check_tfrecords
from peer import packer


def pack(source: Path, output: Path, _workers: int) -> None:
    """Prepare a dataset."""
    import tensorflow_datasets as tfds

    class Peer(tfds.core.GeneratorBasedBuilder):
        """Images in class folders."""

        VERSION = tfds.core.Version("1.0.0")

        def _info(self) -> Any:
            names = sorted(folder.name for folder in source.iterdir())
            features = {
                "image": tfds.features.Image(),
                "label": tfds.features.ClassLabel(names=names),
            }
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                supervised_keys=("image", "label"),
            )

        def _split_generators(self, dl_manager: Any) -> Any:
            del dl_manager
            return {"train": self._generate_examples()}

        def _generate_examples(self) -> Any:
            for path in sorted(source.glob("*/*.jpg")):
                name = path.relative_to(source).as_posix()
                yield name, {"image": path, "label": path.parent.name}

    Peer(data_dir=output).download_and_prepare()


if __name__ == "__main__":
    packer(pack, check_tfrecords.sizes)
