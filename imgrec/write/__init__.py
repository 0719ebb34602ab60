"""One shard: read, check, encode, write, hash and index."""
