"""What TFDS knows of a pack, which is what the pack's own files say."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.metadata import read_info

if TYPE_CHECKING:
    from os import PathLike


class PackInfo(tfds.core.DatasetInfo):  # type: ignore[misc]  # of a class without types
    """What there is to say of a pack; next to nothing before it is packed."""

    def initialize_from_bucket(self) -> None:
        """Look nowhere: what is packed here is not in the bucket of TFDS's catalogue."""

    def read_from_directory(self, dataset_info_dir: str | PathLike[str]) -> None:
        """Take all from a pack; raise DatasetError if it cannot be read, or its labels are wrong.

        Nothing is left of what was read before, from a pack that has since been replaced.
        """
        pack = read_info(Path(dataset_info_dir))
        refuse_unreadable(pack)
        tfds.core.DatasetInfo.__init__(self, builder=self._identity)
        super().read_from_directory(dataset_info_dir)
        self._refuse_wrong_labels(Path(pack.path))

    @property
    def classes(self) -> tuple[str, ...]:
        """Name all classes, in the order of their labels; none before it is packed."""
        return tuple(self._label[1].names) if self.features else ()

    @property
    def _label(self) -> tuple[str, Any]:
        """Return the file that the names of the classes are in, and their feature."""
        if "labels" in self.features:
            return layout.SEQUENCE_LABELS, self.features["labels"].feature
        return layout.LABELS, self.features["label"]

    def _refuse_wrong_labels(self, folder: Path) -> None:
        """Raise DatasetError unless there is one name for each class.

        TFDS loads them in a thread whose errors no one looks at, and so takes any.
        """
        file, feature = self._label
        path = folder / file
        lines = path.read_text("utf-8").split("\n") if path.is_file() else []
        names = [line.strip() for line in lines if line.strip()]  # as TFDS does
        more = [name for name, times in Counter(names).items() if times > 1]
        if not names:
            wrong = "is missing, or empty"
        elif len(names) != feature.num_classes:
            wrong = f"names {len(names)} classes, and {layout.FEATURES} tells of"
            wrong = f"{wrong} {feature.num_classes}"
        elif more:
            wrong = f"names {more[0]!r} more than once"
        else:
            return
        raise DatasetError(
            f"{path} {wrong}",
            hint="it was changed since it was packed: restore it, or pack again and overwrite",
            path=str(path),
        )


def refuse_unreadable(pack: DatasetInfo) -> None:
    """Raise DatasetError if TFDS cannot read a dataset, or imgrec did not make it."""
    if not pack.fingerprint:
        raise DatasetError(
            f"{pack.path} was not packed by imgrec",
            hint="open it with tfds.builder_from_directory",
            path=pack.path,
        )
    if pack.compression:
        raise DatasetError(
            f"the shards of {pack.path} are compressed ({pack.compression}), and TFDS reads none",
            hint=f"load it with {pack.load}, or pack it without --compression",
            path=pack.path,
        )


def open_info(folder: str) -> PackInfo:
    """Return what TFDS knows of the pack in a folder."""
    pack = read_info(Path(folder))
    info = PackInfo(
        builder=tfds.core.DatasetIdentity(
            name=pack.name,
            version=tfds.core.Version(pack.version),
            data_dir=pack.path,
            module_name="imgrec",
        )
    )
    info.read_from_directory(pack.path)
    return info
