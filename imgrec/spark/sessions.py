"""Which Spark session works."""

from __future__ import annotations

from typing import TYPE_CHECKING

from imgrec.engine.spark import active_session
from imgrec.errors import UsageError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def session_or_active(session: SparkSession | None, what: str) -> SparkSession:
    """Return the session given, else the active one; raise UsageError if there is none."""
    found = session or active_session()
    if found is None:
        raise UsageError(
            f"{what} needs a Spark session, and none is active",
            hint="start one with SparkSession.builder.getOrCreate()",
        )
    return found
