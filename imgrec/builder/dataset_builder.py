"""The builder itself: what TFDS asks of a dataset, answered by a pack."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from os.path import expanduser
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types
from tensorflow_datasets.core import dataset_builder  # type: ignore[import-untyped]

from imgrec import api, layout
from imgrec.builder.data_source import DECODED, PackDataSource, each
from imgrec.builder.info import PackInfo
from imgrec.errors import DatasetError, DatasetNotFound, UsageError
from imgrec.options import PackOptions
from imgrec.options.parsing import parse_text
from imgrec.outcome import Packed
from imgrec.read.documents import read_info
from imgrec.read.locate import find_dataset
from imgrec.request import options_from, refuse_unknown, resolve_manifest
from imgrec.source.kinds import detect
from imgrec.storage.paths import refuse_remote

_LOG = logging.getLogger("imgrec")
_TITLES = {"scan": "Scanning", "pack": "Packing"}
_PATIENCE_S = 1
"""How long something may take without a bar."""
_NAME = "imgrec"
_OWN = ("dataset", "source")
"""Keywords of a builder that are not options of a pack."""
_FORMATS = frozenset({None, "tfrecord", "array_record"})
"""Those that can be asked for: `tfds.data_source` asks for array_record to read at random."""


class _Subject(NamedTuple):
    """The pack of a builder."""

    name: str
    options: PackOptions
    """How it is made, or was: of one that is there, no more than the version and the classes."""
    source: str = ""
    """What it is made of; empty if it is there."""
    folder: str = ""
    """Where it is, if that is known already."""

    @property
    def has_lost_its_source(self) -> bool:
        """Tell whether it cannot be made any more."""
        return not os.path.lexists(self.source) and not glob.glob(self.source, recursive=True)


class Builder(dataset_builder.FileReaderBuilder):  # type: ignore[misc]  # of a class without types
    """Packs a source on first use and reads the pack, or reads one that is there.

    A project can ship a builder of its own, which TFDS finds by the name of its class:

    class Flowers(imgrec.builder.Builder):
        SOURCE = "/data/flowers.zip"
        OPTIONS = imgrec.PackOptions(val_split=0.1)
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
            self._subject = _already_packed(asked, where, options)
            refuse_remote(self._subject.folder, "imgrec.builder")
            given = {"dataset": self._subject.folder}
        else:
            defaults = replace(self.OPTIONS, version=str(version or self.VERSION), data_dir=where)
            name = called or ("" if self.name == _NAME else self.name)
            what = parse_text("source", source or self.SOURCE)
            self._subject = _to_be_packed(what, options, defaults, name)
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
            _LOG.warning("%s is gone; reading %s as it is", subject.source, self.data_dir)
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
        with _Bars() as bars:
            packed = api.pack(self._subject.source, options, on_progress=bars)
        if packed.is_new:
            _log_warnings(packed)
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


def _to_be_packed(
    source: str, given: Mapping[str, object], defaults: PackOptions, name: str
) -> _Subject:
    """Return a pack to be made of a source, and called as the options, `name` or the source say.

    Raises UsageError if it cannot be, and SourceError if there is no such source.
    """
    refuse_unknown(given, _OWN)
    options = options_from(given, defaults)
    if options.shard_compression:
        raise UsageError(
            f"compression {options.compression} makes shards that TFDS cannot read",
            hint="leave it out; `imgrec pack --compression` makes them for other readers",
        )
    if not (source or options.source.manifest):
        raise UsageError(
            "there is nothing to pack or to read",
            hint="give source, what is to be packed, or dataset, the name or path of a pack",
        )
    source, of_source = resolve_manifest(source, options.source)
    options = replace(options, source=of_source)
    name = options.name or name
    name = layout.checked_name(name) if name else _own_name(source, options)
    return _Subject(name, options, source=source)


def _own_name(source: str, options: PackOptions) -> str:
    return layout.dataset_name(detect(source, options.source).name, "")


def _already_packed(dataset: str, data_dir: str, given: Mapping[str, object]) -> _Subject:
    """Return a pack that is there, found by name or by a path at any level.

    Raises DatasetNotFound if it is not, and UsageError for options that only packing has.
    """
    refuse_unknown(given, _OWN)
    fit = ("classes", "classes_append")
    unfit = sorted(name for name, value in given.items() if value and name not in fit)
    if unfit:
        raise UsageError(
            f"{unfit[0]} is for packing, and {dataset} is packed already",
            hint="give source too, to pack, or leave it out",
        )
    folder = find_dataset(dataset, data_dir)
    refuse_remote(os.fspath(folder), "imgrec.builder")
    pack = read_info(folder)
    options = replace(options_from(given), version=pack.version)
    return _Subject(pack.name, options, folder=pack.path)


def _log_warnings(packed: Packed) -> None:
    """Log the warnings of a pack: TFDS shows no summary."""
    info, report = packed.info, packed.report
    said = list(report.warnings)
    if skipped := len(report.skipped):
        files = f"{skipped} file{'s' * (skipped > 1)}"
        said.append(f"{files} skipped: see {Path(info.path) / layout.SKIPPED}")
    for warning in said:
        _LOG.warning("%s %s: %s", info.name, info.version, warning)


class _Bars:
    """The progress bars of a pack, unless `tfds.disable_progress_bar()` was called."""

    def __init__(self) -> None:
        self._stage = ""
        self._bar: Any = None  # of tqdm, or what TFDS has in its place

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        if self._bar is not None:
            self._bar.close()

    def __call__(self, stage: str, done: int, total: int | None) -> None:
        """Move the bar of a stage on."""
        from tensorflow_datasets.core.utils import tqdm_utils  # type: ignore[import-untyped]

        if stage != self._stage:
            self.__exit__()
            self._stage = stage
            self._bar = tqdm_utils.tqdm(
                desc=_TITLES[stage], total=total, unit=" images", leave=False, delay=_PATIENCE_S
            )
        self._bar.update(done)
