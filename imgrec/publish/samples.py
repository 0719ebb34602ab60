"""The table of all records: samples.parquet."""

from __future__ import annotations

import io
from collections.abc import Sequence

from imgrec.layout import printable
from imgrec.model import ShardResult


def samples_table(results: Sequence[ShardResult]) -> bytes:
    """Return a Parquet table with one row a record, in the order of shards and records."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema(
        [
            ("split", pa.string()),
            ("shard", pa.string()),
            ("offset", pa.int64()),
            ("length", pa.int64()),
            ("label", pa.int64()),
            ("filename", pa.string()),
            ("sha256", pa.string()),
            ("height", pa.int32()),
            ("width", pa.int32()),
            ("channels", pa.int32()),
            ("format", pa.string()),
        ]
    )
    out = io.BytesIO()
    dictionary = ["split", "shard", "format"]
    with pq.ParquetWriter(out, schema, compression="zstd", use_dictionary=dictionary) as writer:
        for result in results:
            writer.write_batch(pa.record_batch(_columns(result), schema=schema))
    return out.getvalue()


def _columns(result: ShardResult) -> list[Sequence[object]]:
    records = result.records
    count = len(records.filenames)
    hashes = records.sha256.hex()
    return [
        [result.split] * count,
        [result.filename] * count,
        records.offsets,
        records.lengths,
        records.labels,
        list(map(printable, records.filenames)),
        [hashes[at : at + 64] for at in range(0, 64 * count, 64)],
        records.shapes[0::3],
        records.shapes[1::3],
        records.shapes[2::3],
        records.formats,
    ]
