"""Object stores (`s3://`, `gs://`, `hdfs://` ...): the only code that knows fsspec.

Nothing here is imported unless a URL is given. What cannot be had is an OSError if it is a matter
of one object (it is not there, or not ours to read), and an ExecutionError if the store cannot be
reached; neither ever quotes what a library said, which may hold a signature or a key.
"""
