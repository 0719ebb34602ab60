"""Spark: packing on its executors, from its DataFrames, and reading into them."""

from imgrec.engine.spark import SparkEngine
from imgrec.spark.dataframe import pack_dataframe
from imgrec.spark.read import read

__all__ = ["SparkEngine", "pack_dataframe", "read"]
