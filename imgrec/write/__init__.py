"""Writing one shard: read, check, encode, write, hash and index its images."""
