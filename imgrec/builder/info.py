"""What TFDS knows of a pack: what the pack's own files say."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types

from imgrec import layout
from imgrec.errors import DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.read.documents import Documents, read_documents, read_info
from imgrec.read.files import fault_error

if TYPE_CHECKING:
    from os import PathLike


class PackInfo(tfds.core.DatasetInfo):  # type: ignore[misc]  # of a class without types
    """The facts about a pack; almost none before it is packed."""

    def initialize_from_bucket(self) -> None:
        """Do nothing: the bucket of TFDS's catalogue does not have what is packed here."""

    def read_from_directory(self, dataset_info_dir: str | PathLike[str]) -> None:
        """Read a pack; raise DatasetError if it cannot be read, or its labels are wrong.

        Facts about an earlier pack, which has since been replaced, are forgotten.
        """
        documents = read_documents(Path(dataset_info_dir))
        refuse_unreadable(documents.info())
        tfds.core.DatasetInfo.__init__(self, builder=self._identity)
        super().read_from_directory(dataset_info_dir)
        self._refuse_wrong_labels(documents)

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

    def _refuse_wrong_labels(self, documents: Documents) -> None:
        """Raise DatasetError unless there is one name for each class.

        TFDS loads them in a thread whose errors no one looks at, and so takes any.
        """
        file, _ = self._label
        for fault in documents.faults:
            if fault.path == file:
                hint = "it was changed since it was packed: restore it, or pack again and overwrite"
                raise fault_error(documents.folder, fault, hint)


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
            f"the shards of {pack.path} are compressed ({pack.compression}); TFDS reads plain ones",
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
