"""Planning: from a catalog to shard tasks, pure and deterministic."""
