"""The layouts of datasets packed before `report.json` had `layout_facts`: sentences only."""

from __future__ import annotations

import re

from imgrec.model import ARCHIVE_OF, SourceLayout
from imgrec.options import SourceKind

_KINDS = {
    r"pixels in CSV: ": SourceKind.PIXELS,
    r"CIFAR-100?, \w+ (batches|files)": SourceKind.CIFAR,
    r"IDX( \(.*\))?: ": SourceKind.IDX,
    r"TFRecords in [\d,]+ files?: ": SourceKind.TFRECORD,
    r"NumPy: ": SourceKind.NUMPY,
    r"(\w+ manifest( of \d+ parts| without header)*|Spark DataFrame): ": SourceKind.MANIFEST,
}
"""How the sentences of each kind begin; all others are about folders."""
_FOLDERS = re.compile(r"(?P<split><split>/)?(?P<classes>(<class>/)+)\*\*/image(, .*)?")
_COLUMN = re.compile(r"(.+?) -> (image|labels?|id|split|group|\w+ feature)(?:, |$)")


def parse_old_layout(text: str) -> SourceLayout:
    """Return the facts that a sentence tells."""
    sentence = text.removeprefix(ARCHIVE_OF)
    starts = ((re.match(pattern, sentence), kind) for pattern, kind in _KINDS.items())
    start, kind = next(((start, kind) for start, kind in starts if start), (None, None))
    folders = _FOLDERS.fullmatch(sentence)
    has_columns = kind in (SourceKind.MANIFEST, SourceKind.TFRECORD)
    return SourceLayout(
        kind=kind or SourceKind.FOLDER,
        sentence=sentence,
        is_archive=sentence != text,
        split_depth=1 if folders and folders["split"] else 0,
        class_depth=folders["classes"].count("/") if folders else 0,
        columns=tuple(_COLUMN.findall(sentence[start.end() :])) if start and has_columns else (),
        has_coarse_labels=sentence.endswith("coarse labels"),
    )
