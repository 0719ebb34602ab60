"""Lines of Python that load what is there."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from fnmatch import fnmatch
from pathlib import Path

from imgrec import layout
from imgrec.inspection.diagnosis.facts import Contents, FeatureFacts, Site, snake_case
from imgrec.inspection.diagnosis.search import listed
from imgrec.read.metadata import batching_step
from imgrec.text import literal

_TYPES = {"bytes": "tf.string", "int64": "tf.int64", "float": "tf.float32"}
_GLOBS = (
    "*.tfrecord",
    "*.tfrecords",
    "*.tfrec",
    "*.tfrecord-*-of-?????",
    "*-of-?????",
    "*.tfrecord*",
)
_LISTED = 3
_CONFIG = re.compile(r"[\w+.-]*", re.ASCII)
"""What TFDS takes for the name of a config, or of none."""


def load_line(site: Site) -> str:
    """Return the line that loads a dataset, with TFDS if that can; "" if none does."""
    if site.compression:
        return layout.load_line(
            Path(site.data_dir), site.name, site.version, _split(site), site.compression
        )
    documents = (layout.DATASET_INFO, layout.FEATURES)
    is_wrong = site.record_fault or any(file in documents for file, _ in site.faults)
    if site.missing or is_wrong or not site.whole_splits:
        return ""
    supervised = ", as_supervised=True" if site.info.supervised else ""
    step = batching_step(Path(site.folder)) if supervised else ""
    if not is_loadable(site):
        arguments = f"split={literal(_split(site))}{supervised}"
        return f"tfds.builder_from_directory({site.folder!r}).as_dataset({arguments}){step}"
    target = f"{site.name}/{site.config}" if site.config else site.name
    line = layout.load_line(Path(site.data_dir), site.name, site.version, _split(site), step=step)
    line = line.replace(f'("{site.name}', f'("{target}', 1)
    return line if supervised else line.replace(", as_supervised=True", "")


def is_loadable(site: Site) -> bool:
    """Tell whether `tfds.load` can find a dataset by its name at all."""
    is_named = site.name.isidentifier() and site.name[0].isascii() and site.name[0] != "_"
    is_configured = _CONFIG.fullmatch(site.config)
    return bool(
        site.is_versioned and is_named and site.name == snake_case(site.name) and is_configured
    )


def _split(site: Site) -> str:
    splits = site.whole_splits or tuple(split.name for split in site.info.splits)
    return "train" if "train" in splits else next(iter(splits), "train")


def read_code(contents: Contents) -> str:
    """Return the code that reads TFRecords without TFDS; "" if nothing is known of them."""
    known = [feature for feature in contents.features if feature.kind in _TYPES]
    if not known:
        return ""
    compression = (
        f', compression_type="{contents.compression.upper()}"' if contents.compression else ""
    )
    return "\n".join(
        [
            "import tensorflow as tf",
            f"files = {_files(contents.files)}",
            "spec = {",
            *(f"    {feature.name!r}: {_spec(feature, contents)}," for feature in known),
            "}",
            f"data = tf.data.TFRecordDataset(files{compression})",
            "data = data.map(lambda record: tf.io.parse_single_example(record, spec))",
        ]
    )


def _spec(feature: FeatureFacts, contents: Contents) -> str:
    kind = _TYPES[feature.kind]
    is_fixed = feature.records == contents.looked_at and feature.least == feature.most > 0
    if not is_fixed:
        return f"tf.io.FixedLenSequenceFeature([], {kind}, allow_missing=True)"
    return f"tf.io.FixedLenFeature([{'' if feature.most == 1 else feature.most}], {kind})"


def _files(paths: Sequence[str]) -> str:
    folder = os.path.dirname(paths[0])
    names = [os.path.basename(path) for path in paths]
    for pattern in _patterns(folder, names):
        return f"sorted(tf.io.gfile.glob({os.path.join(folder, pattern)!r}))"
    return repr(list(paths))


def _patterns(folder: str, names: Sequence[str]) -> Iterator[str]:
    """Yield the patterns that name just these files of a folder."""
    if len(names) <= _LISTED or set(folder) & set("*?[]\\"):
        return
    there = listed(folder)
    yield from (glob for glob in _GLOBS if [n for n in there if fnmatch(n, glob)] == sorted(names))
