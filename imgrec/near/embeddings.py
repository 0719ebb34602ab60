"""Embeddings from a model of the user's, which replace descriptors in the search.

Each vector is scaled to one length and rounded to whole numbers. So the search is exact, and the
candidates are the same on every machine. A model knows nothing of mirrored pictures, so each
candidate is compared on pixels both as it is and mirrored.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

from imgrec.near.search import THOROUGH, Candidates, Run, search_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from imgrec.near.search import Rows

WIDEST = 16_384
"""Of longer vectors, rounding would leave little."""
_LENGTH = 127
"""The largest with which every number fits. Rounding changes cosines by about 0.002."""
_EFFORT = THOROUGH._replace(least_cosine=0.0)
"""What cosine is high differs between models, so the nearest are compared, however near."""


def quantize(vectors: NDArray[np.generic]) -> Rows:
    """Return vectors as rows of whole numbers, scaled to one length.

    A row of zeros stands for a vector without a direction: of zeros, or not finite. Every machine
    gets the same: sums are of whole numbers, and all else is single operations.
    """
    import numpy as np

    values = vectors.astype(np.float64)
    largest = np.abs(values).max(axis=1)
    is_usable = np.isfinite(largest) & (largest > 0)
    usable, largest = values[is_usable], largest[is_usable]
    whole = np.rint(usable / largest[:, None] * (1 << 20))  # squares add up to less than 2^54
    lengths = np.sqrt(np.square(whole.astype(np.int64)).sum(axis=1).astype(np.float64))
    rows: Rows = np.zeros(values.shape, np.int8)
    rows[is_usable] = np.rint(whole * (_LENGTH / lengths)[:, None])
    return rows


def digest_rows(names: Sequence[str], rows: Rows) -> str:
    """Return a hash of embeddings, which does not depend on the order of the images."""
    found = hashlib.sha256()
    for place in sorted(range(len(names)), key=names.__getitem__):
        found.update(names[place].encode("utf-8", "surrogateescape") + b"\0")
        found.update(rows[place].tobytes())
    return found.hexdigest()


def embedded_candidates(rows: Rows, others: Rows | None, run: Run) -> Candidates:
    """Return pairs whose embeddings are most similar, each as it is and mirrored, sorted."""
    import numpy as np

    found = search_rows(rows, others, run, _EFFORT, mirrors=False)
    first, second, score, way = (np.repeat(column, 2) for column in found)
    way[1::2] = 1
    return Candidates(first, second, score, way)
