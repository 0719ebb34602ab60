"""What all steps of a pack of a DataFrame have in common: a session, a folder, and errors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, Self

from imgrec.engine.spark import cancelling, reason_of
from imgrec.errors import ExecutionError, ImgrecError
from imgrec.options import PackOptions
from imgrec.spark.notes import Telling, told_error
from imgrec.spark.tables import Fields, ddl
from imgrec.storage.files import make_folders
from imgrec.storage.staging import Staging

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

_ROWS_PER_BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
_IMAGES_PER_BATCH = 64
"""How many images are in memory at once, twice over, in a task."""


class Job:
    """One pack: who works, where notes go, and what is kept until the end."""

    def __init__(self, session: SparkSession, staging: Staging, options: PackOptions) -> None:
        self.session, self.staging, self.options = session, staging, options
        self.folder = str(staging.spool)
        self._stack = ExitStack()
        self._kept: list[DataFrame] = []

    def __enter__(self) -> Self:
        make_folders(self.folder)
        context = self.session.sparkContext
        group = self._stack.enter_context(cancelling(context))
        context.setJobGroup(group, "imgrec", interruptOnCancel=False)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for rows in self._kept:
            rows.unpersist()
        self._stack.__exit__(kind, error, trace)
        if isinstance(error, Exception) and not isinstance(error, ImgrecError):
            raise told_error(self.folder) or ExecutionError(
                f"Spark could not run a task: {reason_of(error)}",
                hint="look at the logs of the executors",
            ) from error

    @contextmanager
    def small_batches(self) -> Iterator[None]:
        """Let rows that hold images come in batches that fit into memory."""
        conf = self.session.conf
        before = conf.get(_ROWS_PER_BATCH)
        conf.set(_ROWS_PER_BATCH, str(_IMAGES_PER_BATCH))
        try:
            yield
        finally:
            conf.set(_ROWS_PER_BATCH, before or "10000")

    def mapped(
        self,
        rows: DataFrame,
        function: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
        fields: Fields,
    ) -> DataFrame:
        """Return rows as a function makes them of others, wherever they are."""
        return rows.mapInArrow(Telling(function, self.folder), ddl(fields))

    def keep(self, rows: DataFrame) -> DataFrame:
        """Keep rows on the disks of executors until this is over."""
        from pyspark import StorageLevel

        kept = rows.persist(StorageLevel.DISK_ONLY)
        self._kept.append(kept)
        return kept
