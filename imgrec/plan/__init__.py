"""What will be written where: pure and deterministic, from a catalog to shard tasks."""
