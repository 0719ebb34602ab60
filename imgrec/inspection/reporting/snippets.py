"""The code that loads a dataset, to be copied."""

from __future__ import annotations

from keyword import iskeyword

from imgrec.inspection.reporting.facts import Snippet
from imgrec.outcome import Report
from imgrec.text import literal

_TFDS = """\
{imports}import tensorflow_datasets as tfds

{variable} = tfds.load({target}, split={split}, as_supervised=True){step}
"""
_IMGREC = """\
import imgrec

{variable} = imgrec.load(
    {target}, {split}, image_size=(224, 224), batch_size=32{shuffle}
)
"""
_TORCH = """\
import imgrec
from torch.utils.data import DataLoader

data = imgrec.torch_dataset({target}, {split}, image_size=224)
{variable} = DataLoader(data, batch_size=32{shuffle}, num_workers=2)
"""
_RECORDS = """\
import imgrec

records = imgrec.open_dataset({target})[{split}]
records[0].pil().show()
"""


def snippets_for(report: Report, step: str = "") -> tuple[Snippet, ...]:
    """Return what loads a dataset, or packs a source; the same wherever it is.

    `step` is what TFDS's dataset needs before it can be batched.
    """
    if not report.version:
        return (
            Snippet("Pack it", "imgrec pack SOURCE --val-split 0.1\n", "shell"),
            Snippet("See what pack would do", "imgrec plan SOURCE --val-split 0.1\n", "shell"),
        )
    split = report.splits[0].name if report.splits else "train"
    is_variable = split.isidentifier() and not iskeyword(split)
    words = {
        "target": literal(f"{report.name}:{report.version}"),
        "split": literal(split),
        "variable": split if is_variable else "images",
        "shuffle": ", shuffle=True" if split == "train" else "",
        "step": step,
        "imports": "import tensorflow as tf\n" if step else "",
    }
    kinds = {"TFDS": _TFDS, "Keras, with imgrec": _IMGREC, "PyTorch": _TORCH, "Records": _RECORDS}
    if report.options.get("compression"):
        del kinds["TFDS"], kinds["PyTorch"]  # which read no compressed shards
    return tuple(Snippet(title, code.format(**words)) for title, code in kinds.items())
