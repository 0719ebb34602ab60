"""A TFDS builder that packs a source on first use, or reads an existing pack."""

from __future__ import annotations

import glob
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import cache
from os import PathLike
from os.path import expanduser
from pathlib import Path
from types import new_class
from typing import Any, ClassVar, NamedTuple

import tensorflow_datasets as tfds  # type: ignore[import-untyped]  # it has no types
from tensorflow_datasets.core import dataset_builder  # type: ignore[import-untyped]
from tensorflow_datasets.core.utils import file_utils  # type: ignore[import-untyped]

from imgrec import api, layout
from imgrec.errors import DatasetError, DatasetNotFound, UsageError
from imgrec.loaders.tfds_source import DECODED, PackDataSource, PackInfo, map_splits
from imgrec.options import PackOptions
from imgrec.options.parsing import parse_text
from imgrec.outcome import Packed
from imgrec.read.documents import read_fingerprint, read_info
from imgrec.read.files import find_dataset
from imgrec.request import options_from, refuse_unknown, resolve_manifest
from imgrec.source.kinds import detect
from imgrec.storage.paths import is_remote, refuse_remote
from imgrec.text import listed

_LOG = logging.getLogger("imgrec")
_NAME = "imgrec"
_OWN = ("dataset", "source")
"""Keywords of a builder that are not options of a pack."""
_FORMATS = frozenset({None, "tfrecord", "array_record"})
"""The values of `file_format`: `tfds.data_source` asks for array_record to read at random."""
_BAR_TITLES = {"scan": "Scanning", "pack": "Packing"}
_BAR_DELAY_S = 1


class _Pack(NamedTuple):
    """The pack that a builder makes or reads."""

    name: str
    options: PackOptions
    """For an existing pack, only the version and the classes."""
    source: str = ""
    """Empty for an existing pack."""
    folder: str = ""
    """Empty for a pack to be made."""


class Builder(dataset_builder.FileReaderBuilder):  # type: ignore[misc]  # a class without types
    """Packs a source on first use and reads the pack, or reads an existing pack.

    A project can define its own builder. TFDS finds it by the name of its class:

    class Flowers(imgrec.builder.Builder):
        SOURCE = "/data/flowers.zip"
        OPTIONS = imgrec.PackOptions(val_split=0.1)
    """

    name = _NAME
    VERSION = tfds.core.Version(PackOptions().version)
    SOURCE: ClassVar[str | PathLike[str]] = ""
    """The source that a subclass packs."""
    OPTIONS: ClassVar[PackOptions] = PackOptions()
    """The default options of a subclass."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Register a subclass with TFDS. Its version defaults to that of its options."""
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
        """Take a source to pack, or a pack to read.

        `source` and `options` are those of `imgrec pack`, with `_` for `-`. `dataset` names the
        pack, because TFDS has a `name` of its own. Without a source, `dataset` is the name or the
        path of an existing pack, and `classes` must be its classes.
        """
        given = {"source": source, "dataset": dataset, "data_dir": data_dir, "version": version}
        if config is not None:
            raise UsageError(
                f"{self.name} has no config {config!r}", hint="give options by name instead"
            )
        _refuse_format(file_format)
        root = parse_text("data_dir", data_dir) if data_dir else self.OPTIONS.data_dir
        called = parse_text("dataset", dataset)
        to_pack = parse_text("source", source or self.SOURCE)
        for path in (root, called, to_pack):
            refuse_remote(path, "imgrec.builder")
        if called and not (source or options.get("manifest")):
            wanted = f"{called}:{version}" if version else called
            self._target = _find_pack(wanted, root, options)
            given = {"dataset": self._target.folder}
        else:
            defaults = replace(self.OPTIONS, version=str(version or self.VERSION), data_dir=root)
            name = called or ("" if self.name == _NAME else self.name)
            self._target = _plan_pack(to_pack, options, defaults, name)
        self._is_verified = not self._target.source
        self.name = self._target.name
        self.VERSION = tfds.core.Version(self._target.options.version)
        super().__init__(data_dir=root or None)
        self._original_state = {**given, **options}
        if self._target.folder:
            self._refuse_other_classes()

    def _pick_version(self, requested_version: object) -> Any:
        del requested_version  # the options have it
        return self.VERSION

    def _build_data_dir(self, given_data_dir: str | None) -> tuple[str, str]:
        """Return TFDS's data directory, and the folder of this dataset."""
        if self._target.folder:
            folder = Path(self._target.folder)
            return str(folder.parent.parent), str(folder)
        refuse_remote(given_data_dir or layout.default_data_dir(), "imgrec.builder")
        root, folder = (
            Path(expanduser(path)).absolute() for path in super()._build_data_dir(given_data_dir)
        )
        return str(root), str(folder)

    def _info(self) -> PackInfo:
        return PackInfo(builder=self)

    def is_prepared(self) -> bool:
        """Return whether the pack exists and was compared with its source.

        So `tfds.load` compares an existing pack with its source, which takes a moment, instead of
        reading one that was packed with other options.
        """
        return self._is_verified

    def download_and_prepare(
        self,
        *,
        download_dir: object = None,
        download_config: Any = None,
        file_format: object = None,
        permissions: object = None,
    ) -> None:
        """Pack, unless the pack exists; nothing is downloaded.

        Raises DatasetExists if the existing pack differs from what the source would give, unless
        `download_config.download_mode` or the option `overwrite` says to replace it.
        """
        del download_dir, permissions
        _refuse_format(file_format)
        self._download_and_prepare(None, download_config or tfds.download.DownloadConfig())

    def _download_and_prepare(self, dl_manager: object, download_config: Any) -> None:
        del dl_manager
        _refuse_unsupported(download_config)
        overwrite = download_config.download_mode.overwrite_dataset
        source = self._target.source
        if not source and overwrite:
            raise UsageError(
                f"{self.name} is a pack without a source, so it cannot be packed again",
                hint="give source instead of dataset",
            )
        if not source:
            return
        is_missing = not os.path.lexists(source) and not glob.glob(source, recursive=True)
        if is_missing and self._exists and not overwrite:
            _LOG.warning("%s no longer exists; reading %s as it is", source, self.data_dir)
        else:
            self._pack(overwrite=overwrite or self._target.options.overwrite)
        self._is_verified = True

    def _pack(self, *, overwrite: bool) -> None:
        options = replace(
            self._target.options,
            name=self.name,
            data_dir=str(self.data_dir_root),
            overwrite=overwrite,
        )
        with _progress_bars() as advance:
            packed = api.pack(self._target.source, options, on_progress=advance)
        if packed.is_new:
            _log_warnings(packed)
        self.info.read_from_directory(self.data_dir)

    @property
    def _exists(self) -> bool:
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

        They are those of `as_dataset` as NumPy arrays, without TensorFlow. None gives a dict of all
        splits.
        """
        _refuse_format(file_format)
        if not self._exists:
            raise DatasetNotFound(
                f"{self.name} is not packed yet: there is no {self.data_dir}",
                hint="call download_and_prepare(), or pass download=True",
                path=self.data_dir,
            )
        self._refuse_other_classes()
        if split is None:
            split = {name: name for name in self.info.splits}
        return map_splits(
            lambda one: PackDataSource(self.info, one, decoders, deserialize_method), split
        )

    def _refuse_other_classes(self) -> None:
        """Raise DatasetError if the pack's classes are not the requested ones."""
        options = self._target.options
        wanted = options.classes
        if not wanted or self.info.features is None:
            return
        actual = self.info.classes[: len(wanted)] if options.classes_append else self.info.classes
        if wanted != actual:
            raise DatasetError(
                f"{self.data_dir} has other classes than {listed(wanted, 10)}",
                hint=f"it has {listed(self.info.classes, 10)}; labels come from the data",
                path=self.data_dir,
            )


def _refuse_format(file_format: Any) -> None:
    name = getattr(file_format, "value", file_format)
    if name not in _FORMATS:
        raise UsageError(
            f"a pack has no {name} files",
            hint="leave out file_format: TFRecords can be read at random too",
        )


def _refuse_unsupported(download_config: Any) -> None:
    if download_config.download_mode == tfds.download.GenerateMode.UPDATE_DATASET_INFO:
        raise UsageError(
            "the files of a pack are never rewritten", hint="pack it again with overwrite=True"
        )
    if download_config.max_examples_per_split is not None:
        raise UsageError(
            "max_examples_per_split does not apply to packs",
            hint="give limit_per_class to the builder",
        )


def _plan_pack(source: str, given: Mapping[str, object], defaults: PackOptions, name: str) -> _Pack:
    """Return the pack to make of a source, named by the options, by `name` or by the source.

    Raises UsageError for unusable options, and SourceError if the source does not exist.
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
            hint="give a source to pack, or dataset, the name or path of a pack",
        )
    source, source_options = resolve_manifest(source, options.source)
    options = replace(options, source=source_options)
    name = options.name or name
    detected = "" if name else detect(source, options.source).name
    return _Pack(layout.dataset_name(detected, name), options, source=source)


def _find_pack(dataset: str, data_dir: str, given: Mapping[str, object]) -> _Pack:
    """Return an existing pack, by name or by a path at any level.

    Raises DatasetNotFound if it does not exist, and UsageError for options of packing.
    """
    refuse_unknown(given, _OWN)
    of_packing = given.keys() - {"classes", "classes_append"}
    if name := min((name for name in of_packing if given[name]), default=""):
        raise UsageError(
            f"{name} is an option of packing, and {dataset} is already packed",
            hint="give source too, to pack, or leave it out",
        )
    folder = find_dataset(dataset, data_dir)
    refuse_remote(os.fspath(folder), "imgrec.builder")
    pack = read_info(folder)
    options = replace(options_from(given), version=pack.version)
    return _Pack(pack.name, options, folder=pack.path)


def _log_warnings(packed: Packed) -> None:
    """Log the warnings of a pack: TFDS shows no summary."""
    info, report = packed.info, packed.report
    warnings = list(report.warnings)
    if skipped := len(report.skipped):
        files = f"{skipped} file{'s' * (skipped > 1)}"
        warnings.append(f"{files} skipped: see {Path(info.path) / layout.SKIPPED}")
    for warning in warnings:
        _LOG.warning("%s %s: %s", info.name, info.version, warning)


@contextmanager
def _progress_bars() -> Iterator[Callable[[str, int, int | None], None]]:
    """Show the progress of a pack, unless `tfds.disable_progress_bar()` was called."""
    from tensorflow_datasets.core.utils import tqdm_utils

    bars: dict[str, Any] = {}  # of tqdm, or TFDS's replacement

    def advance(stage: str, done: int, total: int | None) -> None:
        if stage not in bars:
            for bar in bars.values():
                bar.close()
            title = _BAR_TITLES[stage]
            bars[stage] = tqdm_utils.tqdm(
                desc=title, total=total, unit=" images", leave=False, delay=_BAR_DELAY_S
            )
        bars[stage].update(done)

    try:
        yield advance
    finally:
        for bar in bars.values():
            bar.close()


_is_disabled: ContextVar[bool] = ContextVar("_is_disabled", default=False)


class PackProvider:
    """Lets TFDS open packs by their own names. TFDS's own datasets come first.

    TFDS asks by name alone, and gives the data directory only when it calls the class. So this
    accepts every name, and hands names that are not packs back to TFDS.
    """

    def has_dataset(self, name: str) -> bool:
        """Accept all names, except while TFDS itself looks for one."""
        del name
        return not _is_disabled.get()

    def get_builder_cls(self, name: str) -> type[Builder]:
        """Return a class that opens the pack of a name."""
        return _named_class(name)


@cache
def _named_class(name: str) -> type[Builder]:
    body = {"name": name, "__module__": __name__}
    options = {"skip_registration": True}
    return new_class(name, (_NamedPack,), options, lambda own: own.update(body))


class _NamedPack(Builder, skip_registration=True):
    """Opens the pack with the name of the class; everything else is left to TFDS."""

    def __new__(cls, **kwargs: Any) -> Any:
        """Return a `Builder`, or what TFDS returns without imgrec; raise what it raises."""
        if folder := _find_by_name(cls.name, kwargs.get("data_dir")):
            return Builder(**{**kwargs, "dataset": folder})
        token = _is_disabled.set(True)
        try:
            return tfds.builder(cls.name, **kwargs)
        finally:
            _is_disabled.reset(token)


def _find_by_name(name: str, data_dir: Any) -> str:
    """Return the folder that TFDS would read, if it is a pack; else ""."""
    versions = []
    for root in file_utils.list_data_dirs(given_data_dir=data_dir):
        if is_remote(root):  # TFDS reads these
            continue
        folder = Path(expanduser(root)) / name
        try:
            version = find_dataset(str(folder))
        except DatasetNotFound:
            continue
        if version.parent == folder:  # not a dataset in a data directory of that name
            versions.append(version)
    return str(versions[0]) if len(versions) == 1 and read_fingerprint(versions[0]) else ""
