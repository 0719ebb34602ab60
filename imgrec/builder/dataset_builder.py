"""The builder itself: what TFDS asks of a dataset, answered by a pack."""

from __future__ import annotations

from dataclasses import replace
from os import PathLike
from os.path import expanduser
from pathlib import Path
from typing import Any, ClassVar

import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types
from tensorflow_datasets.core import dataset_builder  # type: ignore[import-untyped]

from imgrec import api, layout
from imgrec.builder.data_source import DECODED, PackDataSource, each
from imgrec.builder.info import PackInfo
from imgrec.builder.subject import already_packed, to_be_packed
from imgrec.builder.telling import LOG, Bars, log_what_was_left_out
from imgrec.errors import DatasetError, DatasetNotFound, UsageError
from imgrec.options import PackOptions
from imgrec.options.parsing import parse_text
from imgrec.storage.paths import refuse_remote

_NAME = "imgrec"
_FORMATS = frozenset({None, "tfrecord", "array_record"})
"""Those that can be asked for: `tfds.data_source` asks for array_record to read at random."""


class Builder(dataset_builder.FileReaderBuilder):  # type: ignore[misc]  # of a class without types
    """Packs a source on first use and reads the pack, or reads one that is there.

    A project can ship a builder of its own, which TFDS finds by the name of its class:

    class Flowers(imgrec.builder.Builder):
        SOURCE = "/data/flowers.zip"
        OPTIONS = imgrec.PackOptions(val_fraction=0.1)
    """

    name = _NAME
    VERSION = tfds.core.Version(PackOptions().version)
    SOURCE: ClassVar[str | PathLike[str]] = ""
    """What a class of its own packs."""
    OPTIONS: ClassVar[PackOptions] = PackOptions()
    """What is asked of a pack where nothing else is."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register the class with TFDS, at the version of its options if it has none itself."""
        if "VERSION" not in cls.__dict__:
            cls.VERSION = tfds.core.Version(cls.OPTIONS.version)
        super().__init_subclass__(**kwargs)

    def __init__(
        self,
        *,
        source: str | PathLike[str] = "",
        dataset: str | PathLike[str] = "",
        data_dir: str | PathLike[str] | None = None,
        config: object = None,
        version: object = None,
        file_format: object = None,
        **options: object,
    ) -> None:
        """Take what is to be packed, or where a pack is.

        `source` and `options` are those of `imgrec pack`, with `_` for `-`; `dataset` is the name
        that the pack is to have, since TFDS has a `name` of its own. Without a source, `dataset` is
        the name of a pack that is there, or a path at any level, and `classes` those it must have.
        """
        given = {"source": source, "dataset": dataset, "data_dir": data_dir, "version": version}
        if config is not None:
            raise UsageError(
                f"{self.name} has no config {config!r}", hint="give options by name instead"
            )
        _refuse_format(file_format)
        where = parse_text("data_dir", data_dir) if data_dir else self.OPTIONS.data_dir
        called = parse_text("dataset", dataset)
        for place in (where, called, parse_text("source", source or self.SOURCE)):
            refuse_remote(place, "imgrec.builder")
        if called and not (source or options.get("manifest")):
            asked = f"{called}:{version}" if version else called
            self._subject = already_packed(asked, where, options)
            refuse_remote(self._subject.folder, "imgrec.builder")
            given = {"dataset": self._subject.folder}
        else:
            defaults = replace(self.OPTIONS, version=str(version or self.VERSION), data_dir=where)
            name = called or ("" if self.name == _NAME else self.name)
            what = parse_text("source", source or self.SOURCE)
            self._subject = to_be_packed(what, options, defaults, name)
        self._is_known = not self._subject.source
        self.name = self._subject.name
        self.VERSION = tfds.core.Version(self._subject.options.version)
        super().__init__(data_dir=where or None)
        self._original_state = {**given, **options}
        if self._subject.folder:
            self._refuse_other_classes()

    def _pick_version(self, requested_version: object) -> Any:
        del requested_version  # it is among the options
        return self.VERSION

    def _build_data_dir(self, given_data_dir: str | None) -> tuple[str, str]:
        """Return where TFDS keeps datasets, and this one."""
        if self._subject.folder:
            folder = Path(self._subject.folder)
            return str(folder.parent.parent), str(folder)
        refuse_remote(given_data_dir or layout.default_data_dir(), "imgrec.builder")
        root, folder = (
            Path(expanduser(path)).absolute() for path in super()._build_data_dir(given_data_dir)
        )
        return str(root), str(folder)

    def _info(self) -> PackInfo:
        return PackInfo(builder=self)

    def is_prepared(self) -> bool:
        """Tell whether the pack is there, and known to be what its source makes.

        So `tfds.load` lets a pack that is there be compared to its source, which takes a moment,
        instead of reading one that was packed with other options.
        """
        return self._is_known

    def download_and_prepare(
        self,
        *,
        download_dir: object = None,
        download_config: Any = None,
        file_format: object = None,
        permissions: object = None,
    ) -> None:
        """Pack, unless the pack is there already; there is nothing to download.

        Raises DatasetExists if it is there but not what the source makes, unless
        `download_config.download_mode` or the option `overwrite` asks to replace it.
        """
        del download_dir, permissions
        _refuse_format(file_format)
        config = download_config or tfds.download.DownloadConfig()
        _refuse_unfit(config)
        self._download_and_prepare(None, config)

    def _download_and_prepare(self, dl_manager: object, download_config: Any) -> None:
        del dl_manager
        is_anew = download_config.download_mode.overwrite_dataset
        subject = self._subject
        if not subject.source:
            if is_anew:
                raise UsageError(
                    f"{self.name} is a pack without a source, and cannot be made anew",
                    hint="give source instead of dataset",
                )
            return
        if subject.has_lost_its_source and self._is_there and not is_anew:
            LOG.warning("%s is gone; reading %s as it is", subject.source, self.data_dir)
        else:
            self._pack(overwrite=is_anew or subject.options.overwrite)
        self._is_known = True

    def _pack(self, *, overwrite: bool) -> None:
        options = replace(
            self._subject.options,
            name=self.name,
            data_dir=str(self.data_dir_root),
            overwrite=overwrite,
        )
        with Bars() as bars:
            packed = api.pack(self._subject.source, options, on_progress=bars)
        if packed.is_new:
            log_what_was_left_out(packed)
        self.info.read_from_directory(self.data_dir)

    @property
    def _is_there(self) -> bool:
        return (Path(self.data_dir) / layout.DATASET_INFO).exists()

    def _as_dataset(self, split: Any, *args: Any, **kwargs: Any) -> Any:
        self._refuse_other_classes()
        return super()._as_dataset(split, *args, **kwargs)

    def as_data_source(
        self,
        split: Any = None,
        *,
        decoders: Any = None,
        deserialize_method: Any = DECODED,
        file_format: object = None,
    ) -> Any:
        """Return the examples of a split, or of each in a list or a dict, to be read at random.

        They are those of `as_dataset` as NumPy arrays; TensorFlow is not imported. None is a dict
        of all splits.
        """
        _refuse_format(file_format)
        if not self._is_there:
            raise DatasetNotFound(
                f"{self.name} is not packed yet: there is no {self.data_dir}",
                hint="call download_and_prepare(), or pass download=True",
                path=self.data_dir,
            )
        self._refuse_other_classes()
        if split is None:
            split = {name: name for name in self.info.splits}
        return each(lambda one: PackDataSource(self.info, one, decoders, deserialize_method), split)

    def _refuse_other_classes(self) -> None:
        """Raise DatasetError if other classes are asked for than the pack has."""
        options = self._subject.options
        wanted = options.classes
        if not wanted or self.info.features is None:
            return
        there = self.info.classes[: len(wanted)] if options.classes_append else self.info.classes
        if wanted != there:
            raise DatasetError(
                f"{self.data_dir} has other classes than {_some(wanted)}",
                hint=f"it has {_some(self.info.classes)}; labels come from the data",
                path=self.data_dir,
            )


def _some(names: tuple[str, ...]) -> str:
    return ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")


def _refuse_format(file_format: Any) -> None:
    """Raise UsageError if records are asked for in a format that packs do not have."""
    name = getattr(file_format, "value", file_format)
    if name not in _FORMATS:
        raise UsageError(
            f"a pack has no files of the format {name}",
            hint="leave out file_format: TFRecords are read at random too",
        )


def _refuse_unfit(download_config: Any) -> None:
    """Raise UsageError for what a pack cannot be asked for."""
    if download_config.download_mode == tfds.download.GenerateMode.UPDATE_DATASET_INFO:
        raise UsageError(
            "the files of a pack are never rewritten", hint="pack it again with overwrite=True"
        )
    if download_config.max_examples_per_split is not None:
        raise UsageError(
            "max_examples_per_split is not for packs", hint="give limit_per_class to the builder"
        )
