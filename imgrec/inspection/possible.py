"""Whether a dataset can have as many records as it says."""

from __future__ import annotations

from imgrec import layout
from imgrec.codec import tfrecord
from imgrec.errors import DatasetError
from imgrec.outcome import DatasetInfo
from imgrec.storage.paths import to_path

_LEAST_BYTES = 8
"""What any record takes, even compressed: no checksum of it is like another."""


def refuse_impossible(info: DatasetInfo) -> None:
    """Raise DatasetError if a dataset has fewer bytes than so many records take.

    Or what it says of itself would decide how much memory is asked for.
    """
    least = _LEAST_BYTES if info.compression else tfrecord.OVERHEAD
    for split in info.splits:
        folder = to_path(info.path)  # it may be on a store
        paths = [folder / name for name in layout.shard_filenames(info, split)]
        size = sum(path.stat().st_size for path in paths if path.exists())
        if split.examples * least > size:
            raise DatasetError(
                f"the shards of {split.name} have {size} bytes, too few for the "
                f"{split.examples} records that {layout.DATASET_INFO} tells of",
                hint="restore the shards that are missing, or pack the dataset again",
                path=info.path,
            )
