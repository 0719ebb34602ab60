"""Object stores (`s3://`, `gs://`, `hdfs://` ...): the only code that uses fsspec.

Nothing here is imported unless a URL is given. A fault of one object (missing, or not readable)
is an OSError. A store that cannot be reached is an ExecutionError. Messages never quote a library,
whose text may contain a signature or a key.
"""
